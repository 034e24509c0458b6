//! What the processes of a launch tell each other, and over which descriptors.
//!
//! `main` starts `helper` with every descriptor at a number known to both; `helper` starts
//! bubblewrap, which hands them on to `inner`. Plans travel as JSON in memory files, reports of the
//! other two as JSON lines in a pipe that ends when the sandbox does, signals as single bytes in a
//! pipe the other way.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::ops::RangeFrom;
use std::os::fd::RawFd;

use camino::Utf8PathBuf;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use skillfreeze_manifest::{Digest, Fault, SkillId};

use crate::guard::Guarded;

use crate::landlock::Enclosure;

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

/// The numbers of the descriptors that a launch hands down.
///
/// They lie above all that the caller wants kept, so that those stay at their own numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    base: RawFd,
}

impl Numbers {
    /// Above what shells use by hand, and low enough for a tight limit of descriptors.
    const LOWEST: RawFd = 10;

    /// Chooses numbers that clash with none of `keep`.
    pub(crate) fn above(keep: &[RawFd]) -> Self {
        let highest = keep.iter().copied().max().unwrap_or(0);
        Self { base: Self::LOWEST.max(highest.saturating_add(1)) }
    }

    /// Reads them from the argument that [`to_argument`](Self::to_argument) made.
    pub(crate) fn from_argument(argument: &std::ffi::OsStr) -> Option<Self> {
        argument.to_str()?.parse().ok().map(|base| Self { base })
    }

    /// The argument that tells the next process the numbers.
    pub(crate) fn to_argument(self) -> String {
        self.base.to_string()
    }

    /// All that a supervisor gets, one after another.
    pub(crate) fn supervisors(self) -> RangeFrom<RawFd> {
        self.base..
    }

    /// The helper's plan.
    pub(crate) fn helper_plan(self) -> RawFd {
        self.base
    }

    /// bubblewrap's options.
    pub(crate) fn arguments(self) -> RawFd {
        self.base + 1
    }

    /// This program, to be started inside whatever the sandbox's root holds.
    pub(crate) fn program(self) -> RawFd {
        self.base + 2
    }

    /// The inner process's plan.
    pub(crate) fn inner_plan(self) -> RawFd {
        self.base + 3
    }

    /// The reading end of the pipe with signals for the command.
    pub(crate) fn control(self) -> RawFd {
        self.base + 4
    }

    /// The writing end of the pipe with reports.
    pub(crate) fn report(self) -> RawFd {
        self.base + 5
    }

    /// The command's standard error; bubblewrap's own is a memory file.
    pub(crate) fn stderr(self) -> RawFd {
        self.base + 6
    }

    /// The handle of the snapshot.
    pub(crate) fn snapshot(self) -> RawFd {
        self.base + 7
    }

    /// The inotify instance that tells what of the snapshot is opened.
    pub(crate) fn notices(self) -> RawFd {
        self.base + 8
    }

    /// The first of the binds, which follow each other.
    pub(crate) fn first_bind(self) -> RawFd {
        self.base + 9
    }

    /// All that bubblewrap needs, with `binds` of them binds.
    pub(crate) fn all(self, binds: usize) -> impl Iterator<Item = RawFd> {
        let end = self.first_bind().saturating_add(RawFd::try_from(binds).unwrap_or(0));
        self.base + 1..end
    }
}

/// What the helper does before it starts bubblewrap.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HelperPlan {
    /// The program to start; without one, the first process encloses itself.
    pub(crate) bubblewrap: Option<Utf8PathBuf>,
    /// A directory for this launch alone, to be removed after its end.
    pub(crate) private: Option<Utf8PathBuf>,
    /// The number of binds.
    pub(crate) binds: usize,
    /// Whether there is an inotify instance.
    pub(crate) watches: bool,
    /// Descriptors of the caller that the command keeps.
    pub(crate) keep: Vec<RawFd>,
    /// A directory over which to mount the snapshot, in namespaces of the helper's own, if that is
    /// needed.
    pub(crate) stage: Option<Utf8PathBuf>,
    /// What to seal there instead of mounting the snapshot's own directory.
    pub(crate) seal: Option<SealPlan>,
    /// Whom to become first, when root has started it.
    pub(crate) identity: Option<Identity>,
    /// Source roots over which to mount the stage as well.
    pub(crate) covered: Vec<Covered>,
    /// Whether the command has the caller's terminal.
    pub(crate) terminal: bool,
}

/// A source root over which the stage is mounted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Covered {
    /// Its canonical path.
    pub(crate) root: Utf8PathBuf,
    /// Its device and inode.
    pub(crate) identity: (u64, u64),
}

impl From<Guarded> for Covered {
    fn from(Guarded { canonical, identity, .. }: Guarded) -> Self {
        Self { root: canonical, identity }
    }
}

/// What is staged.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SealPlan {
    /// The snapshot.
    pub(crate) digest: Digest,
    /// Bytes of the stage.
    pub(crate) bytes: u64,
    /// Files and directories in it.
    pub(crate) inodes: u64,
}

/// What the sealer does before it becomes the command. Descriptors are at the numbers that they have in
/// `main`, where those of the caller are in nobody's way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SealerPlan {
    /// The handle of the snapshot.
    pub(crate) snapshot: RawFd,
    /// The reading end of a pipe that ends with `main`, over which it answers.
    pub(crate) control: RawFd,
    /// The writing end of the pipe with reports.
    pub(crate) report: RawFd,
    /// The canonical path of the snapshot's directory, over which the stage is mounted.
    pub(crate) at: Utf8PathBuf,
    /// What to seal there.
    pub(crate) seal: SealPlan,
    /// Whether all users are known in the command's namespaces, as `main` tells them.
    pub(crate) is_root: bool,
    /// The directory to enter again, because the stage lies over it.
    pub(crate) directory: Option<OsString>,
    /// Whether sockets are handed down to `main`, by its number, and so to the command.
    pub(crate) takes_sockets: bool,
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
}

/// Whom the helper of root becomes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The numeric user.
    pub(crate) user: u32,
    /// The numeric group.
    pub(crate) group: u32,
}

/// Where a command that has the caller's terminal begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ground {
    /// It gets what is typed.
    Foreground,
    /// It is stopped when it reads.
    Background,
}

/// What the first process inside the sandbox does.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InnerPlan {
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
    /// Its whole environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Descriptors that it keeps.
    pub(crate) keep: Vec<RawFd>,
    /// The soft limit of open descriptors that the caller had; none is no limit.
    pub(crate) descriptors: Option<u64>,
    /// Who it must be: the numeric user and group.
    pub(crate) user: (u32, u32),
    /// Where the snapshot is mounted.
    pub(crate) skills_dir: Utf8PathBuf,
    /// Where else.
    pub(crate) in_place: Vec<Utf8PathBuf>,
    /// Device and inode of the directory that was hashed, where that is what is mounted.
    pub(crate) identity: Option<(u64, u64)>,
    /// The digest of the manifest in it.
    pub(crate) manifest: Digest,
    /// The packages in it.
    pub(crate) skills: Vec<SkillId>,
    /// Where the command begins, if it has the caller's terminal.
    pub(crate) terminal: Option<Ground>,
    /// The directories in it whose files' opening is to be told; none where nobody is to be told.
    pub(crate) watched: Vec<String>,
    /// What the process is to enclose itself in, where nothing encloses it.
    pub(crate) enclosure: Option<Enclosure>,
}

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

/// Puts another plan in the place of the one that the parent left at a descriptor.
pub(crate) fn replace<T: Serialize>(number: RawFd, name: &str, plan: &T) -> io::Result<()> {
    let file = memory_file(name, &serde_json::to_vec(plan)?)?;
    skillfreeze_sys::put_at(&file, number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_clear_of_what_is_kept() {
        assert_eq!(Numbers::above(&[]).helper_plan(), 10);
        let numbers = Numbers::above(&[3, 200]);
        assert_eq!(numbers.helper_plan(), 201);
        let again = Numbers::from_argument(numbers.to_argument().as_ref()).unwrap();
        assert_eq!(again.all(2).collect::<Vec<_>>(), (202..212).collect::<Vec<_>>());
        assert!(Numbers::from_argument("x".as_ref()).is_none());
    }

    #[test]
    fn plans_keep_names_that_are_not_utf8() {
        use std::os::unix::ffi::OsStringExt as _;
        let name = OsString::from_vec(b"b\xff".to_vec());
        let plan = InnerPlan {
            command: vec![name.clone()],
            environment: vec![(name.clone(), name.clone())],
            keep: Vec::new(),
            descriptors: Some(1024),
            user: (1, 1),
            skills_dir: "/skills".into(),
            in_place: Vec::new(),
            identity: Some((1, 2)),
            manifest: Digest::of(b""),
            skills: Vec::new(),
            terminal: None,
            watched: Vec::new(),
            enclosure: None,
        };
        let read: InnerPlan = serde_json::from_slice(&serde_json::to_vec(&plan).unwrap()).unwrap();
        assert_eq!((read.command, read.environment), (plan.command, plan.environment));
    }
}
