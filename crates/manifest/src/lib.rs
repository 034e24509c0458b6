//! Digests, package paths, listings and snapshot manifests, and the check of a tree against them.
//!
//! These are pure types and one check: no clock, no environment, no ambient file system. The bytes
//! they produce are a contract that auditors recompute with other tools; [`format`](mod@format) is its
//! specification.
//!
//! ```
//! use skillfreeze_manifest::{Digest, FileEntry, Listing, Manifest, PackageEntry};
//!
//! let body = b"---\nname: demo\ndescription: d\n---\n";
//! let listing = Listing::new(vec![FileEntry {
//!     path: "SKILL.md".parse()?,
//!     executable: false,
//!     size: body.len() as u64,
//!     digest: Digest::of(body),
//! }])?;
//! let manifest = Manifest::new(vec![PackageEntry::new("demo".parse()?, None, listing)])?;
//! let bytes = manifest.to_bytes();
//! assert_eq!(Manifest::parse(&bytes)?, manifest);
//! assert_eq!(manifest.digest(), Digest::of(&bytes));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod canonical;
mod check;
mod check_package;
mod contents;
mod diagnostic;
mod digest;
mod fault;
mod form;
pub mod format;
mod id;
mod limits;
mod link;
mod link_root;
mod listing;
mod nofollow;
mod parallel;
mod path;
mod progress;
mod read;
mod skill_link;
mod snapshot;
mod version;

pub use canonical::to_canonical_bytes;
pub use check::{Check, CheckOptions, Sink, check_snapshot};
pub use contents::{Exclusion, Membership, membership};
pub use diagnostic::{Diagnostic, Severity};
pub use digest::{Digest, DigestError, Hasher, REVISION_HEX};
pub use fault::{Fault, FaultCode};
pub use form::Form;
pub use id::{IdError, SkillId};
pub use limits::Limits;
pub use link::{Destination, LinkTarget, MAX_LINKS, read_link, resolve_link};
pub use link_root::{LinkRoot, LinkRootError};
pub use listing::{FileEntry, Listing, ListingError, SKILL_FILE};
pub use nofollow::{
    Entry, EntryKind, Stamp, count_entries, describe_kind, escape_bytes, list_dir, list_dir_up_to, open_dir,
    open_file,
};
pub use parallel::for_each;
pub use path::{PackagePath, PathError, PathSet, UNICODE_VERSION, fold, is_bidi_control};
pub use progress::{Progress, Silent};
pub use read::{read_file, read_manifest};
pub use skill_link::SkillLinkError;
pub use snapshot::{
    MANIFEST_FILE, MAX_MANIFEST_BYTES, Manifest, ManifestError, PackageEntry, SNAPSHOT_SCHEMA,
};
pub use version::{Version, VersionError};
