//! Freezes agent skills into content-addressed snapshots, checks them, and mounts them read-only
//! for sandboxed agents.
//!
//! This is the front door of the library; the parts are crates of their own:
//!
//! * [`manifest`]: digests, package paths, listings, snapshot manifests, the check of a tree;
//! * [`catalog`]: sources, discovery, front matter, conflicts, the configuration, search;
//! * [`store`]: immutable revisions, their archives, the journal;
//! * [`preparer`]: selection to snapshot;
//! * [`mount`]: verify and launch.
//!
//! ```no_run
//! use cap_std::ambient_authority;
//! use cap_std::fs::Dir;
//! use skillfreeze::manifest::Silent;
//! use skillfreeze::mount::Verified;
//!
//! // A program that launches anything begins with this.
//! skillfreeze::init();
//! # #[expect(clippy::disallowed_methods, reason = "an example opens what it is about")]
//! let dir = Dir::open_ambient_dir("/srv/snapshot", ambient_authority())?;
//! let digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".parse()?;
//! let verified = Verified::check(dir, "/srv/snapshot".into(), digest, &Silent)?;
//! println!("{} packages", verified.manifest().packages().len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub use skillfreeze_catalog as catalog;
pub use skillfreeze_manifest as manifest;
pub use skillfreeze_mount as mount;
pub use skillfreeze_preparer as preparer;
pub use skillfreeze_store as store;

pub use skillfreeze_catalog::{Catalog, Discovery};
pub use skillfreeze_manifest::{Digest, Manifest, SkillId};
pub use skillfreeze_mount::{Launch, LaunchPlan, Verified, init};
pub use skillfreeze_preparer::{Reference, Selection, Snapshot};
pub use skillfreeze_store::Store;
