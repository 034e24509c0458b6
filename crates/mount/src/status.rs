//! Status lines: what a launch tells its caller while it goes on.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{OwnedFd, RawFd};

use camino::Utf8PathBuf;
use rustix::fs::{OFlags, fcntl_getfl};
use serde::Serialize;
use skillfreeze_manifest::{Digest, to_canonical_bytes};

use crate::exit::Exit;
use crate::integrity::{Integrity, Method, Scope};
use crate::record::CheckRecord;

/// The schema of every status line.
pub const STATUS_SCHEMA: &str = "skillfreeze.status.v1";

/// Something that happened in a launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// The launch has been worked out.
    Planned {
        /// The run's name in the store.
        run: String,
        /// The snapshot.
        snapshot: Digest,
        /// What the launch promises.
        integrity: Integrity,
        /// By what means.
        how: Method,
        /// For whom.
        scope: Scope,
        /// Where else the command reads it, in the place of source roots.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        in_place: Vec<Utf8PathBuf>,
    },
    /// Every byte was hashed and matches.
    Verified(CheckRecord),
    /// A private copy holds the snapshot, hashed while it was written.
    Sealed {
        /// Files.
        files: u64,
        /// Bytes.
        bytes: u64,
    },
    /// The command runs.
    Started,
    /// The command opened files of the snapshot. The last one is told before [`Exited`](Self::Exited), with
    /// no files if there are no more; none is told where others could have opened them.
    Opened {
        /// Those that were not told before, relative to the snapshot's root; sorted.
        files: Vec<String>,
        /// Whether all that were opened until now have been told.
        complete: bool,
    },
    /// The command has ended.
    Exited(Exit),
    /// Every byte was hashed again after the end.
    ReVerified(CheckRecord),
    /// The launch failed; always the last line.
    Error {
        /// The stable code.
        code: String,
        /// What happened.
        message: String,
    },
}

/// Writes status lines, each whole; a reader that has gone does not stop the launch.
/// One made by default writes nowhere.
#[derive(Debug, Default)]
pub struct StatusWriter(Option<File>);

/// Writes to a pipe, a socket or a file that the caller has open.
impl From<OwnedFd> for StatusWriter {
    fn from(descriptor: OwnedFd) -> Self {
        Self(Some(File::from(descriptor)))
    }
}

impl StatusWriter {
    /// Writes to a copy of the descriptor that the caller has at this number.
    ///
    /// # Errors
    /// `EBADF` when nothing is open there, `InvalidInput` when it cannot be written.
    pub fn to_descriptor(number: RawFd) -> io::Result<Self> {
        let copy = skillfreeze_sys::duplicate(number)?;
        let access = fcntl_getfl(&copy)? & OFlags::RWMODE;
        if access == OFlags::RDONLY {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not open for writing"));
        }
        Ok(Self(Some(File::from(copy))))
    }

    /// The same, and no program that this process starts gets the caller's own descriptor, unless it is a
    /// standard stream.
    ///
    /// # Errors
    /// `EBADF` when nothing is open there.
    pub fn in_place_of_descriptor(number: RawFd) -> io::Result<Self> {
        let writer = Self::to_descriptor(number)?;
        if number > 2 {
            skillfreeze_sys::set_cloexec(number, true)?;
        }
        Ok(writer)
    }

    /// Where it writes, to be handed to another process.
    pub(crate) fn into_descriptor(self) -> Option<OwnedFd> {
        self.0.map(OwnedFd::from)
    }

    /// Writes one line of canonical JSON.
    pub fn send(&mut self, event: &Event) {
        #[derive(Serialize)]
        struct Line<'a> {
            schema: &'static str,
            #[serde(flatten)]
            event: &'a Event,
        }
        if let Some(file) = &mut self.0 {
            let mut line = to_canonical_bytes(&Line { schema: STATUS_SCHEMA, event });
            line.push(b'\n');
            if file.write_all(&line).is_err() {
                self.0 = None;
            }
        }
    }
}
