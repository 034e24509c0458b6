//! Verifies frozen agent skills and launches a sandboxed command that reads them.
//!
//! This is the trusted part of the project: it depends on the manifest and on system calls, and on
//! no store, catalog, YAML, database or async runtime.
//!
//! A launch goes through types that carry its stages: [`Verified`] holds the handle of a snapshot
//! whose every byte was hashed, and only [`Verified::check`] makes one; [`Launch`] holds a verified
//! snapshot and a [`LaunchPlan`], worked out as data; [`Launch::run`] starts three processes:
//!
//! * `main` holds the lease and the record, starts the helper, waits, checks again, ends the record;
//! * `helper` seals, gives up root's powers where it has them, and starts bubblewrap;
//! * `inner` is the first process inside: it checks that the sandbox is what was planned, starts the
//!   command, relays signals and reaps. Where there are no namespaces it encloses itself by Landlock.
//!
//! A command that brings its own sandbox is started by `SealedCommand::run`, on Linux: `sealer` seals the
//! snapshot at its own path and becomes the command.
//!
//! All but `main` are the calling program itself, started again, so its `main` begins with [`init`].
//! [`Launch::command`] gives `main` a process of its own too, which the caller starts with the streams it
//! wants, from an async runtime for one.
//!
//! ```
//! use cap_std::ambient_authority;
//! use cap_std::fs::Dir;
//! use skillfreeze_manifest::Silent;
//! use skillfreeze_mount::{Verified, init};
//!
//! // First of all in a program that launches anything.
//! init();
//! # // An empty snapshot.
//! # use std::os::unix::fs::PermissionsExt as _;
//! # let temp = tempfile::tempdir()?;
//! # let path = camino::Utf8Path::from_path(temp.path()).expect("it is UTF-8");
//! # let manifest = skillfreeze_manifest::Manifest::new(Vec::new())?;
//! # let digest = manifest.digest();
//! # let file = path.join(skillfreeze_manifest::MANIFEST_FILE);
//! # std::fs::write(&file, manifest.to_bytes())?;
//! # std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o444))?;
//! # std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o555))?;
//! let dir = Dir::open_ambient_dir(path, ambient_authority())?;
//! let verified = Verified::check(dir, path, digest, &Silent)?;
//! assert_eq!(verified.manifest().packages().len(), 0);
//! # std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "elsewhere no process of a launch is this program, and nothing is sealed")
)]

mod alias;
mod backend;
mod bind;
mod exit;
mod frozen;
mod guard;
mod handoff;
mod host;
mod integrity;
mod launch;
mod launch_error;
#[cfg(target_os = "linux")]
mod linux;
mod memory;
mod mount;
mod names;
mod network;
mod plan;
mod plan_error;
mod private;
mod record;
mod record_file;
mod refusal;
mod request;
pub mod seatbelt;
mod session;
mod shell;
mod signals;
mod size;
mod status;
mod verify;

pub use alias::{AliasError, Aliases, FrozenFile, expand_argument};
pub use backend::{Backend, Bubblewrap};
pub use bind::{Bind, BindError, normal_target};
pub use exit::{Ended, Exit};
pub use frozen::Frozen;
pub use guard::{Guard, Guarded};
pub use handoff::{
    HANDOFF_SCHEMA, Handoff, HandoffLease, HandoffMount, HandoffNote, HandoffRequest, words_text,
};
pub use host::{BubblewrapChoice, BubblewrapError, Host, Rootfs, RootfsError, SystemEntry, Unreachable};
pub use integrity::{Integrity, Method, STRONGEST, Sandbox, Scope, Seal, UnknownName};
pub use launch::Launch;
pub use launch_error::LaunchError;
#[cfg(target_os = "linux")]
pub use linux::{ProbeError, Probed, SealRequest, SealedCommand, Unsealed, probe_read_only};
pub use mount::Mount;
pub use names::Names;
pub use network::Network;
pub use plan::{DEFAULT_USER, LaunchPlan, PLAN_SCHEMA, PlanWarning};
pub use plan_error::PlanError;
pub use record::{
    CheckRecord, Checks, ErrorRecord, InsideRecord, LaunchRecord, OpenedRecord, Outcome, Provenance,
    RECORD_SCHEMA, RunContext, RunRecord,
};
pub use record_file::RecordFile;
pub use refusal::{PROCESS_LIMIT, Refusal, explain};
pub use request::LaunchRequest;
pub use session::Session;
pub use shell::quote;
pub use signals::fail_at_limit_of_files;
pub use status::{Event, STATUS_SCHEMA, StatusWriter};
pub use verify::{Counts, Verified, VerifyError, is_trusted_owner};

/// Becomes the supervisor, the helper, the first process of a sandbox or the sealer when the program was
/// started as one.
///
/// Must be the first thing that a program does which launches anything, before it starts a thread:
/// the helper and the sealer change their namespaces, which takes a process with one thread. Returns
/// at once in every other case. If the ends of child processes are ignored, as what started this one may
/// have left it, they are not any more: else none could be waited for.
///
/// Where no process of a launch is the calling program, as on macOS, it does nothing.
pub fn init() {
    #[cfg(target_os = "linux")]
    linux::become_part_of_a_launch();
}
