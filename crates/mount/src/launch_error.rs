//! Why a launch failed.

use std::io;

use camino::Utf8PathBuf;
use skillfreeze_manifest::Fault;

use crate::exit::Exit;
use crate::plan_error::PlanError;
use crate::refusal::Refusal;

/// Why a launch failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The record cannot be written.
    #[error("cannot write the run record")]
    Record(#[source] io::Error),
    /// The processes cannot be started.
    #[error("cannot start the sandbox: {doing}")]
    Start {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A standard stream is a directory, which would open the host to the command.
    #[error("the {name} is a directory")]
    Directory {
        /// Which stream.
        name: &'static str,
    },
    /// Standard input is no terminal that could be lent to the command.
    #[error("standard input is not the terminal of this session")]
    NoTerminal(#[source] io::Error),
    /// The helper, or the first process inside, could not do its part.
    #[error("cannot start the sandbox: {doing}: {message}")]
    Helper {
        /// What it was doing.
        doing: String,
        /// What the system said.
        message: String,
    },
    /// bubblewrap refused, for a known reason.
    #[error("{}: `{message}`", .refusal.sentence)]
    Refused {
        /// The reason.
        refusal: Refusal,
        /// What bubblewrap said.
        message: String,
    },
    /// bubblewrap ended without starting the sandbox.
    #[error("bubblewrap failed: `{message}`")]
    Bubblewrap {
        /// What it said.
        message: String,
    },
    /// The helper may not mount a stage here.
    #[error("no private file system can be mounted here ({doing}): {message}")]
    StageUnavailable {
        /// What the helper was doing.
        doing: String,
        /// What the system said.
        message: String,
    },
    /// The stage cannot be mounted in the place of the source roots.
    #[error("the snapshot cannot be mounted in the place of its sources: {message}")]
    InPlace {
        /// Why.
        message: String,
    },
    /// A source root could not be covered, though a stage is there.
    #[error("the snapshot could not be mounted over a source: {message}")]
    Cover {
        /// Which, and why.
        message: String,
    },
    /// bubblewrap does not take as many files one by one.
    #[error(
        "the snapshot has too many files for sealed memory files: bubblewrap would get {actual} arguments, more than {limit}"
    )]
    TooManyFiles {
        /// How many arguments there would be.
        actual: usize,
        /// How many bubblewrap takes.
        limit: usize,
    },
    /// bubblewrap does not take as many mounts.
    #[error("the sandbox has too many mounts: bubblewrap would get {actual} arguments, more than {limit}")]
    TooManyMounts {
        /// How many arguments there would be.
        actual: usize,
        /// How many bubblewrap takes.
        limit: usize,
    },
    /// The hard limit of open descriptors is too low for what a launch hands down.
    #[error("the launch needs {needed} open descriptors, more than the hard limit of {limit}")]
    TooManyDescriptors {
        /// How many it needs.
        needed: u64,
        /// How many there may be.
        limit: u64,
    },
    /// Another way to seal had to be taken than was planned, and it cannot be had.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The snapshot did not match while it was sealed; the command was not started.
    #[error("the snapshot changed while it was sealed: {} fault{}{}", .faults.len(), if .faults.len() == 1 { "" } else { "s" }, .faults.first().map(|fault| format!(", the first is {fault}")).unwrap_or_default())]
    Unsealed {
        /// All that does not match.
        faults: Vec<Fault>,
    },
    /// The path of the snapshot leads to something else than what was hashed.
    #[error("`{path}` is no longer the directory that was hashed: {message}")]
    Swapped {
        /// The path.
        path: Utf8PathBuf,
        /// What is there instead.
        message: String,
    },
    /// What stands inside the sandbox is not what was planned; the command was not started.
    #[error("the sandbox is not as planned ({check}): {detail}")]
    SelfCheck {
        /// The stable code of the check.
        check: String,
        /// What was found.
        detail: String,
    },
    /// `sandbox-exec` does not start anything under the profile.
    #[error("`sandbox-exec` failed: `{message}`")]
    Seatbelt {
        /// What it said.
        message: String,
    },
    /// The command could not be started.
    #[error("cannot run `{program}`")]
    NotStarted {
        /// The program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// The process that made the launch a command has ended, and so the sandbox was ended.
    #[error("the program that started the launch ended before the command did")]
    CallerEnded,
    /// A signal ended the launch before its command was started.
    #[error("signal {signal} ended the launch before the command was started")]
    Interrupted {
        /// Its number.
        signal: i32,
    },
    /// The sandbox ended without a word, so it was killed.
    #[error("the sandbox was killed before the command ended")]
    Lost,
    /// The snapshot did not match after the end: what the command read may have been changed.
    #[error("the snapshot changed while the command ran: {} fault{}{}", .faults.len(), if .faults.len() == 1 { "" } else { "s" }, .faults.first().map(|fault| format!(", the first is {fault}")).unwrap_or_default())]
    Changed {
        /// All that does not match.
        faults: Vec<Fault>,
        /// What also appeared or was exchanged where a later run would take skills from.
        appeared: Vec<Utf8PathBuf>,
        /// How the command ended, if that is known.
        exit: Option<Exit>,
    },
    /// Something from which a later run would take skills appeared or was exchanged.
    #[error("{} appeared or was exchanged while the command ran", .paths.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", "))]
    SourceAppeared {
        /// Where; at least one.
        paths: Vec<Utf8PathBuf>,
        /// How the command ended, if that is known.
        exit: Option<Exit>,
    },
}

impl LaunchError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Record(_) => "record-not-written",
            Self::Start { source, .. } if source.kind() == io::ErrorKind::WouldBlock => "process-limit",
            // The other process tells in words.
            Self::Helper { message, .. } if message.starts_with("Resource temporarily unavailable") => {
                "process-limit"
            }
            Self::Start { .. } | Self::Helper { .. } => "sandbox-start",
            Self::Directory { .. } => "stream-directory",
            Self::NoTerminal(_) => "terminal-missing",
            Self::Refused { refusal, .. } => refusal.code,
            Self::Bubblewrap { .. } => "bwrap-failed",
            Self::StageUnavailable { .. } => "seal-unavailable",
            Self::InPlace { .. } => "in-place-unavailable",
            Self::Cover { .. } => "in-place-changed",
            Self::TooManyFiles { .. } => "seal-too-many-files",
            Self::TooManyMounts { .. } => "too-many-mounts",
            Self::TooManyDescriptors { .. } => "descriptor-limit",
            Self::Plan(error) => error.code(),
            Self::Unsealed { .. } => "integrity",
            Self::Swapped { .. } => "mount-swapped",
            Self::SelfCheck { check, .. } => check,
            Self::NotStarted { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "command-not-found"
            }
            Self::NotStarted { .. } => "command-not-executable",
            Self::Seatbelt { .. } => "seatbelt-failed",
            Self::CallerEnded => "caller-ended",
            Self::Lost => "sandbox-lost",
            Self::Interrupted { .. } => "interrupted",
            Self::Changed { .. } => "integrity-after-run",
            Self::SourceAppeared { .. } => "source-appeared",
        }
    }

    /// The exit status of the program, as `env` and `timeout` have it: 127 when there is no such
    /// command, 126 when it could not be run, 125 for every failure of the launch itself.
    #[must_use]
    pub fn status(&self) -> i32 {
        match self {
            Self::NotStarted { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::NotStarted { .. } => 126,
            Self::Interrupted { signal } => 128 + signal,
            _ => 125,
        }
    }
}
