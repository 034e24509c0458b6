//! A place where the record of one run is kept, whole at every moment.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};

use cap_std::fs::Dir;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
use rustix::io::Errno;
use skillfreeze_manifest::{EntryKind, Stamp, describe_kind, open_dir, to_canonical_bytes};

use crate::record::RunRecord;

/// Opens a file that has no name yet, where the system has such files.
#[cfg(target_os = "linux")]
const NAMELESS: Option<OFlags> = Some(OFlags::TMPFILE);
#[cfg(not(target_os = "linux"))]
const NAMELESS: Option<OFlags> = None;

/// A place where the record of one run is kept.
#[derive(Debug)]
pub struct RecordFile {
    dir: Dir,
    name: String,
}

impl RecordFile {
    /// Keeps the record as `name` in `dir`, where there is nothing yet or a regular file, which the
    /// record replaces.
    ///
    /// # Errors
    /// `AlreadyExists` where something else is there: a device or a pipe that was replaced would be
    /// lost.
    pub fn new(dir: Dir, name: String) -> io::Result<Self> {
        match Stamp::at(&dir, name.as_bytes()) {
            Ok(stamp) if stamp.kind != EntryKind::File => {
                let kind = describe_kind(stamp.kind);
                Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("it is a {kind}")))
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(Self { dir, name }),
        }
    }

    /// The name and the directory, to be handed to another process.
    pub(crate) fn into_parts(self) -> (String, OwnedFd) {
        (self.name, self.dir.into())
    }

    /// The same again, there.
    pub(crate) fn from_parts(name: String, dir: OwnedFd) -> Self {
        Self { dir: Dir::from_std_file(File::from(dir)), name }
    }

    /// Writes the record, in place of an earlier one if there is one.
    ///
    /// Crash contract: afterwards the record is on disk; a crash before that leaves the earlier one,
    /// or none, and never half of one. Where the file system has files without a name, a process that is
    /// killed leaves nothing beside it either, unless that comes between two renamings.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn write(&self, record: &RunRecord) -> io::Result<()> {
        let temporary = format!(".{}.new", self.name);
        match self.dir.remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut bytes = to_canonical_bytes(record);
        bytes.push(b'\n');
        let mode = Mode::from_raw_mode(0o666);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let nameless = NAMELESS.map(|nameless| openat(&self.dir, ".", flags | nameless, mode));
        let written = match nameless.unwrap_or(Err(Errno::NOTSUP)) {
            Ok(file) => write_whole(File::from(file), &bytes).and_then(|file| {
                let nameless = format!("/proc/self/fd/{}", file.as_raw_fd());
                Ok(linkat(CWD, nameless, &self.dir, &temporary, AtFlags::SYMLINK_FOLLOW)?)
            }),
            Err(_) => openat(&self.dir, &temporary, flags | OFlags::CREATE | OFlags::EXCL, mode)
                .map_err(io::Error::from)
                .and_then(|file| write_whole(File::from(file), &bytes))
                .map(drop),
        };
        let written = written.and_then(|()| self.dir.rename(&temporary, &self.dir, &self.name));
        if written.is_err() {
            // The first error is the one to report.
            let _ = self.dir.remove_file(&temporary);
        }
        written?;
        // A capability handle cannot be synced itself.
        Ok(rustix::fs::fsync(open_dir(&self.dir, ".")?)?)
    }
}

fn write_whole(mut file: File, bytes: &[u8]) -> io::Result<File> {
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(file)
}
