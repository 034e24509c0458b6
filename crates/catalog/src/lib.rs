//! Finds packages in sources: metadata only, ordered, conflicts resolved, with diagnostics.
//!
//! A scan lists the sources, reads each package's `SKILL.md` and nothing else of it, and never
//! stops at a faulty package: what cannot be used is listed beside what can, with the reason.
//! Nothing here is trusted later on: whoever freezes a package reads and hashes its bytes again,
//! and applies [`parse_front_matter`] to the very bytes that were hashed.
//!
//! ```
//! use skillfreeze_catalog::{ParseOptions, parse_front_matter};
//!
//! let bytes = b"---\nname: pdf-tools\ndescription: Reads PDF files\nversion: 1.10\n---\n# PDF\n";
//! let front_matter = parse_front_matter(bytes, &ParseOptions::of("pdf-tools")).unwrap();
//! assert_eq!(front_matter.id.as_str(), "pdf-tools");
//! assert_eq!(front_matter.version.unwrap().as_str(), "1.10");
//! ```
#![forbid(unsafe_code)]

mod conflict;
mod discovery;
mod edit;
mod fence;
mod fields;
mod findings;
mod frontmatter;
mod needs;
mod node;
mod permissions;
mod recovery;
mod references;
mod skill_file;
mod source;
mod specification;
mod tools;
mod value;
mod yaml;

pub use conflict::{Catalog, Found, LeftOut};
pub use discovery::{MAX_PACKAGES, ScanError, ScanOptions};
pub use edit::{Edit, EditError, edit_front_matter};
pub use frontmatter::{FrontMatter, LARGE_SKILL_BYTES, ParseOptions, front_matter_value, parse_front_matter};
pub use needs::{Need, Permission, needs_of_script, needs_of_tools, undeclared};
pub use permissions::{Filesystem, Permissions, Web};
pub use references::{Reference, flat_resources, relative_references};
pub use source::{Layout, Source};
pub use specification::{COMPATIBILITY_CHARS, DESCRIPTION_CHARS};
pub use value::Value;
