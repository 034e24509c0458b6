//! Attempts to change a directory that only a read-only mount refuses.
//!
//! Every probe is harmless if it succeeds where it should fail. They ask the mount before the
//! modes: on a writable mount most of them would fail too, but with `EACCES`.

mod filesystem;

use std::os::fd::{AsFd, BorrowedFd};

use camino::Utf8Path;
use rustix::fs::{
    AtFlags, Mode, OFlags, StatVfsMountFlags, chmodat, fstatvfs, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

pub use self::filesystem::Unsealed;

/// A name that no snapshot holds.
pub(crate) const ABSENT: &str = ".skillfreeze-probe";

/// What probing a directory found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probed {
    /// Attempts that failed as they should.
    pub probes: u64,
    /// Whether programs cannot be started from there.
    pub noexec: bool,
    /// Why the files can change through something else than this mount; none where they are sealed: on a
    /// file system in memory that is read-only as a whole, and stays so for whoever asks.
    pub unsealed: Option<Unsealed>,
}

/// Why a directory is not read-only, or not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct ProbeError {
    pub(crate) check: &'static str,
    pub(crate) detail: String,
}

impl ProbeError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.check
    }
}

/// Tries to change a directory, which must be on a read-only mount. `file` is a file in it, by a relative
/// path.
///
/// # Errors
/// [`ProbeError`] for what was not refused, or for another reason than that the mount is read-only.
pub fn probe_read_only(directory: impl AsFd, file: &Utf8Path) -> Result<Probed, ProbeError> {
    let directory = directory.as_fd();
    let flags = fstatvfs(directory).map_err(|errno| fail("mount-not-visible", errno.to_string()))?.f_flag;
    if !flags.contains(StatVfsMountFlags::RDONLY) {
        return Err(fail("mount-writable", "it is not mounted read-only".to_owned()));
    }
    let probes = probe_mount(directory, file)? + 1;
    let unsealed = filesystem::look(directory).err();
    match unsealed {
        None => filesystem::probe(directory)?,
        // To mount it again, read-only, would make the file system of others so.
        Some(_) => filesystem::probe_copy(directory)?,
    }
    Ok(Probed { probes, noexec: flags.contains(StatVfsMountFlags::NOEXEC), unsealed })
}

pub(crate) fn fail(check: &'static str, detail: String) -> ProbeError {
    ProbeError { check, detail }
}

/// Tries to change a directory in ways that only a read-only mount refuses with `EROFS`.
pub(crate) fn probe_mount(directory: BorrowedFd<'_>, file: &Utf8Path) -> Result<u64, ProbeError> {
    let file = file.as_std_path();
    let mode = statat(directory, file, AtFlags::empty())
        .map_or(Mode::RUSR, |found| Mode::from_raw_mode(found.st_mode));
    let made = mkdirat(directory, ABSENT, Mode::RWXU);
    if made.is_ok() {
        let _ = unlinkat(directory, ABSENT, AtFlags::REMOVEDIR);
    }
    let probes = [
        ("chmod", chmodat(directory, file, mode, AtFlags::empty())),
        ("rename", renameat(directory, file, directory, file)),
        ("unlink", unlinkat(directory, ABSENT, AtFlags::empty())),
        ("mkdir", made),
    ];
    for (call, answer) in probes {
        expect(call, answer, |errno| errno == Errno::ROFS)?;
    }
    let written = openat(directory, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).map(drop);
    expect("open for writing", written, |_| true)?;
    Ok(probes.len() as u64 + 1)
}

pub(crate) fn expect(
    call: &str,
    answer: Result<(), Errno>,
    is_right: impl Fn(Errno) -> bool,
) -> Result<(), ProbeError> {
    match answer {
        Err(errno) if is_right(errno) => Ok(()),
        Err(errno) => Err(fail("mount-writable", format!("{call} was refused for another reason: {errno}"))),
        Ok(()) => Err(fail("mount-writable", format!("{call} was not refused"))),
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::CWD;

    use super::*;

    #[test]
    fn a_writable_directory_is_told() {
        let temp = tempfile::tempdir().unwrap();
        let directory = openat(CWD, temp.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        let directory = directory.unwrap();
        openat(&directory, "file", OFlags::WRONLY | OFlags::CREATE, Mode::RUSR | Mode::WUSR).unwrap();
        let error = probe_read_only(&directory, "file".into()).unwrap_err();
        assert_eq!(error.code(), "mount-writable");
        // Nor does it hold without the kernel's word for it, and nothing is left of trying.
        let error = probe_mount(directory.as_fd(), "file".into()).unwrap_err();
        assert_eq!(error.to_string(), "chmod was not refused");
        let left: Vec<_> = temp.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["file"]);
    }
}
