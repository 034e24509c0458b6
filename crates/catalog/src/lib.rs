//! Finds packages in sources: metadata only, ordered, conflicts resolved, with diagnostics.
//!
//! A scan lists the sources, reads each package's `SKILL.md` and nothing else of it, and never
//! stops at a faulty package: what cannot be used is listed beside what can, with the reason.
//! Nothing here is trusted later on: whoever freezes a package reads and hashes its bytes again,
//! and applies [`parse_front_matter`] to the very bytes that were hashed.
//!
//! ```
//! use skillfreeze_catalog::parse_front_matter;
//! use skillfreeze_manifest::Limits;
//!
//! let bytes = b"---\nname: pdf-tools\ndescription: Reads PDF files\nversion: 1.10\n---\n# PDF\n";
//! let front_matter = parse_front_matter(bytes, Some("pdf-tools"), &Limits::DEFAULT).unwrap();
//! assert_eq!(front_matter.id.as_str(), "pdf-tools");
//! assert_eq!(front_matter.version.unwrap().as_str(), "1.10");
//! ```
#![forbid(unsafe_code)]

mod config_error;
mod config_file;
mod configuration;
mod conflict;
mod discovery;
mod fence;
mod frontmatter;
mod root_path;
mod skill_file;
mod source;
mod yaml;

pub use config_error::{ConfigError, Place, Whose};
pub use config_file::MAX_CONFIG_BYTES;
pub use configuration::{
    Approval, CONVENTIONAL_IDS, ConfigLayers, ConfigText, Configuration, ConflictPolicy, Links, SourceConfig,
    SourceLayout, Trust,
};
pub use conflict::{Catalog, Found, LeftOut};
pub use discovery::{MAX_PACKAGES, ScanError, ScanOptions};
pub use frontmatter::{DESCRIPTION_CHARS, FrontMatter, LARGE_SKILL_BYTES, parse_front_matter};
pub use root_path::{RootPath, RootPathError};
pub use source::{Layout, Source};
