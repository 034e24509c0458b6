//! Resolves selected skills and freezes them into content-addressed snapshots.
//!
//! The road: a [`Selection`] of [`Reference`]s is resolved to revisions, taking into the store
//! what only a source has ([`resolve()`]); the revisions are written out as a snapshot directory
//! whose name is the digest of its manifest ([`freeze()`]). The same packages give the same digest
//! on every machine: nothing local goes into it.
#![forbid(unsafe_code)]

mod freeze;
mod resolve;
mod selection;

pub use freeze::{Existing, FreezeError, Pin, Snapshot, freeze, manifest_of};
pub use resolve::{Chosen, LeftOut, ResolveError, Resolved, resolve};
pub use selection::{Pick, Reference, ReferenceError, Selection};
