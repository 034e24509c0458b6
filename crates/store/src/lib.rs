//! The store of packages and snapshots: content-addressed archives, one append-only journal, one
//! index that can be made anew.
//!
//! ```text
//! format.json         {"features":{},"version":1}
//! journal             what happened, one canonical JSON line a change: the truth
//! index.db            the journal's sum, made from it; deleting it loses nothing
//! packages/sha256/    <hex>.tar.zst: one deterministic archive a package
//! snapshots/sha256/   frozen trees; staged as .new-<random>, damaged ones as .damaged-<random>
//! leases/             a lock file a snapshot in use
//! runs/               run records
//! quarantine/ tmp/    damaged archives, and what is being written
//! ```
//!
//! **Concurrency.** Writers exclude each other by an open-file-description lock on the journal,
//! held only while finished archives are renamed and lines appended. Readers wait for it only when there
//! is something new. The kernel releases a lock when its holder dies.
//!
//! **Failure.** Whatever is visible is whole: written aside, made durable, renamed. What a dead
//! process left in `tmp/` or beside the snapshots is swept once its lock is free.
//!
//! The library opens nothing by path: it takes the directory's handle, and asks the caller for the
//! time and for what a package says of itself.
//!
//! ```
//! use cap_std::fs::Dir;
//! use skillfreeze_manifest::{Diagnostic, Form, Limits, Silent};
//! use skillfreeze_store::{
//!     AddOptions, Author, Candidate, Describe, Described, Description, Origin, Store, inspect,
//! };
//!
//! struct Demo;
//! impl Describe for Demo {
//!     fn describe(&self, package: Described<'_>) -> Result<Description, Vec<Diagnostic>> {
//!         let id = package.directory.unwrap_or_default().parse().map_err(|_| Vec::new())?;
//!         Ok(Description { id, version: None, diagnostics: Vec::new() })
//!     }
//! }
//!
//! # let temp = tempfile::tempdir()?;
//! # let here = Dir::from_std_file(rustix::fs::open(temp.path(), rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty())?.into());
//! here.create_dir_all("skills/demo")?;
//! here.write("skills/demo/SKILL.md", "---\nname: demo\n---\n")?;
//! here.create_dir("store")?;
//!
//! let author = Author { actor: "me".into(), clock: || "2026-01-01T00:00:00Z".into() };
//! let store = Store::open(here.open_dir("store")?, author)?;
//! let skills = here.open_dir("skills")?;
//! let origin = Origin { source: None, path: "/skills/demo".into() };
//! let candidate = Candidate::new(&skills, "demo", Form::Directory, origin);
//! let options = AddOptions {
//!     describe: &Demo,
//!     limits: Limits::DEFAULT,
//!     drop_bytecode: false,
//!     activate: true,
//!     progress: &Silent,
//! };
//! let digest = inspect(&candidate, &options)?.listing.digest();
//! let added = store.add(&[candidate], &options)?.remove(0)?;
//! assert_eq!(added.revision.number.to_string(), "1");
//! assert_eq!(added.revision.digest, digest);
//! let package = store.open_package(&added.revision.digest)?;
//! package.read_files(|file, bytes| {
//!     println!("{} {} {}", file.digest, file.path, std::io::copy(bytes, &mut std::io::sink())?);
//!     Ok(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod activation;
mod add;
mod add_error;
mod archive;
mod atomic;
mod candidate;
mod commit;
mod describe;
mod error;
mod exclusions;
mod import;
mod index;
mod inspect;
mod journal;
mod layout;
mod lease;
mod link;
mod lock;
mod package;
mod refusal;
mod revision;
mod spool;
mod staging;
mod state;
mod store;
mod survey;
mod tarball;
mod tree;

pub use add::{AddOptions, Added};
pub use add_error::AddError;
pub use candidate::Candidate;
pub use describe::{Describe, Described, Description};
pub use error::{IoFault, StoreError};
pub use inspect::{Inspected, inspect};
pub use journal::{CorruptLine, JournalError};
pub use lease::Lease;
pub use package::{PackageError, PackageReader};
pub use refusal::Refusal;
pub use revision::{Origin, Revision, RevisionNumber, RevisionNumberError};
pub use staging::{Published, Staging};
pub use store::{Author, Store};
