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
//!
//! A scan goes from sources by a [`Discovery`] to a [`Catalog`]:
//!
//! ```
//! use std::sync::Arc;
//!
//! use cap_std::fs::Dir;
//! use skillfreeze_catalog::{ConflictPolicy, Definition, Discovery, FileSource, ScanOptions};
//!
//! # let temp = tempfile::tempdir()?;
//! # let flags = rustix::fs::OFlags::DIRECTORY;
//! # let skills = Dir::from_std_file(rustix::fs::open(temp.path(), flags, rustix::fs::Mode::empty())?.into());
//! skills.create_dir("demo")?;
//! skills.write("demo/SKILL.md", "---\nname: demo\ndescription: Shows something\n---\n")?;
//! skills.create_dir("broken")?;
//! skills.write("broken/SKILL.md", "---\nname: broken\n---\n")?;
//!
//! let source = FileSource::new(Definition::new("team", "/srv/skills".parse()?), skills);
//! let discovery = Discovery::new(vec![Arc::new(source)], ConflictPolicy::First)?;
//! let catalog = discovery.scan(&ScanOptions::default())?;
//! assert_eq!(catalog.packages()[0].id().as_str(), "demo");
//! assert_eq!(catalog.left_out()[0].diagnostics[0].code, "desc-missing");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod catalog;
mod collection;
mod configuration;
mod conflict;
mod discovery;
mod equal;
mod found;
mod front_matter;
mod located;
mod materializer;
mod registration;
mod root_path;
mod route;
mod scan;
mod search;
mod skill_file;
mod source;
mod walk;
mod watched;

pub use catalog::{Catalog, CatalogSource, Stale};
pub use collection::{COLLECTION_FILE, COUNT_PLACEHOLDER, Collection};
pub use configuration::error::{ConfigError, ConfigPlace, Whose};
pub use configuration::file::MAX_CONFIG_BYTES;
pub use configuration::{
    Approval, CONVENTIONAL_IDS, ConfigLayers, ConfigText, Configuration, SourceConfig, Trust,
};
pub use conflict::ConflictPolicy;
pub use discovery::{Discovery, DiscoveryError, Layers};
pub use found::{Found, LeftOut, Place};
pub use front_matter::edit::{Edit, EditError, edit_front_matter};
pub use front_matter::needs::{Need, Permission, needs_of_script, needs_of_tools, undeclared};
pub use front_matter::permissions::{Filesystem, Permissions, Web};
pub use front_matter::references::{Reference, flat_resources, relative_references};
pub use front_matter::specification::{COMPATIBILITY_CHARS, DESCRIPTION_CHARS};
pub use front_matter::value::Value;
pub use front_matter::{
    FrontMatter, LARGE_SKILL_BYTES, ParseOptions, front_matter_value, parse_front_matter,
};
pub use located::{Handle, Located};
pub use materializer::Materializer;
pub use registration::{PackageDir, Registration};
pub use root_path::{RootPath, RootPathError};
pub use scan::{MAX_PACKAGES, ScanError, ScanOptions};
pub use search::{Document, Hit, Hits, Query, SearchIndex};
pub use source::{
    DEFAULT_RANK, Definition, FileSource, Layout, Links, REGISTERED_ID, REGISTERED_RANK, RESERVED_RANK,
    Scope, Source,
};
pub use watched::Watched;
