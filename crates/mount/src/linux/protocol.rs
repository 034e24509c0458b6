//! What the processes of a launch tell each other, and over which descriptors.
//!
//! `main` starts `helper` with every descriptor at a number known to both; `helper` starts
//! bubblewrap, which hands them on to `inner`. Plans travel as JSON in memory files, reports of the
//! other two as JSON lines in a pipe that ends when the sandbox does, signals as single bytes in a
//! pipe the other way.

mod numbers;
mod plans;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::RawFd;

use rustix::fs::{MemfdFlags, memfd_create};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use skillfreeze_manifest::Fault;

pub(crate) use self::numbers::Numbers;
pub(crate) use self::plans::{Covered, Ground, HelperPlan, Identity, InnerPlan, SealPlan, SealerPlan};

/// The first argument of the program when it is started as `main` of a launch alone.
pub(crate) const SUPERVISOR: &str = "__skillfreeze-supervisor";
/// The first argument of the program when it is started as `helper`.
pub(crate) const HELPER: &str = "__skillfreeze-helper";
/// The first argument of the program when it is started as `inner`.
pub(crate) const INNER: &str = "__skillfreeze-inner";

/// The first argument of the program when it is started as `sealer`.
pub(crate) const SEALER: &str = "__skillfreeze-sealer";
/// The byte of the pipe with signals that makes the command's group the terminal's foreground group.
pub(crate) const FOREGROUND: u8 = 0;

/// What the helper and the inner process report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "kebab-case")]
pub(crate) enum Report {
    /// The helper could not do its part.
    HelperFailed { doing: String, message: String },
    /// No stage can be mounted here; nothing else was tried.
    StageUnavailable { doing: String, message: String },
    /// The stage cannot be mounted over a source root.
    InPlaceFailed { message: String },
    /// The stage holds the snapshot, every byte of it hashed while it was written.
    Sealed { files: u64, bytes: u64 },
    /// What was to be sealed does not match its manifest.
    SealFailed { faults: Vec<Fault> },
    /// The directory to seal over is not the one that was hashed.
    Swapped { message: String },
    /// The sealer waits for its user namespace to be told who is in it.
    Unmapped,
    /// The self-check failed; the command was not started.
    CheckFailed { check: String, detail: String },
    /// The self-check passed.
    Checked { skills: u64, probes: u64, noexec: bool },
    /// What is opened in the directories that were to be watched is told from now on: the numbers by
    /// which it is, fewer than there are directories if the kernel has no room.
    Watching { numbers: Vec<i32> },
    /// The command could not be started.
    NotStarted { errno: i32 },
    /// The command runs; the sealer says so just before it becomes the command.
    Started,
    /// A signal has stopped it; told only where it has the caller's terminal.
    Stopped { signal: i32 },
    /// It ended by itself.
    Exited { status: i32 },
    /// A signal ended it.
    Killed { signal: i32 },
}

impl Report {
    /// Writes the report whole, as one line.
    pub(crate) fn send(&self, mut pipe: &File) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        pipe.write_all(&line)
    }
}

/// Makes a memory file that holds `bytes`, to be read from its beginning.
pub(crate) fn memory_file(name: &str, bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Reads a plan that the parent left at a descriptor.
pub(crate) fn receive<T: DeserializeOwned>(number: RawFd) -> io::Result<T> {
    let mut bytes = Vec::new();
    File::from(skillfreeze_sys::inherited(number)?).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Changes a plan that the parent left at a descriptor for a process further on.
pub(crate) fn amend<T: DeserializeOwned + Serialize>(
    number: RawFd,
    name: &str,
    change: impl FnOnce(&mut T),
) -> io::Result<()> {
    let mut bytes = Vec::new();
    File::from(skillfreeze_sys::duplicate(number)?).read_to_end(&mut bytes)?;
    let mut plan = serde_json::from_slice(&bytes)?;
    change(&mut plan);
    skillfreeze_sys::put_at(memory_file(name, &serde_json::to_vec(&plan)?)?, number)
}
