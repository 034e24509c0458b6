//! Resolves selected skills and freezes them into content-addressed snapshots.
//!
//! The road: a [`Selection`] of [`Reference`]s is resolved to revisions, taking into the store
//! what only a source has ([`resolve()`]); the revisions are written out as a snapshot directory
//! whose name is the digest of its manifest ([`freeze()`]). The same packages give the same digest
//! on every machine: nothing local goes into it.
//!
//! ```
//! use skillfreeze_preparer::{Pick, Reference};
//!
//! let reference: Reference = "team:pdf-tools@version=1.2.0".parse()?;
//! assert_eq!(reference.source.as_deref(), Some("team"));
//! assert_eq!(reference.id.as_str(), "pdf-tools");
//! assert_eq!(reference.pick, Pick::Version("1.2.0".parse()?));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod absent;
mod compare;
mod freeze;
mod resolve;
mod resolve_error;
mod resolved;
mod selection;

pub use absent::absent;
pub use freeze::{Existing, FreezeError, Pin, Snapshot, freeze, manifest_of};
pub use resolve::{InForce, Precedence, resolve};
pub use resolve_error::ResolveError;
pub use resolved::{Chosen, LeftOut, Resolved};
pub use selection::{Pick, Reference, ReferenceError, Selection};
