//! Whether a file system is read-only as a whole, and stays so, or only a mount of it.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, OpenTreeFlags, mount_remount, open_tree};
use skillfreeze_sys::{MountAttributes, mount_setattr};

use super::{ProbeError, expect};

/// Why files that are read-only here can change all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsealed {
    /// The kernel's list of mounts says nothing of it.
    #[error("`/proc` does not show what this mount is of")]
    Unknown,
    /// Only the mount is read-only.
    #[error("only this mount of their file system is read-only")]
    Mount,
    /// The file system's files are kept elsewhere: on a disk, a server, in other directories.
    #[error("their file system is not in memory alone")]
    Kept,
    /// Something is mounted below.
    #[error("something else is mounted below")]
    Below,
}

/// Looks in the kernel's list of mounts whether the files of a directory are sealed.
pub(super) fn look(directory: BorrowedFd<'_>) -> Result<(), Unsealed> {
    let found =
        statx(directory, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).map_err(|_| Unsealed::Unknown)?;
    let list = openat(CWD, "/proc/self/mountinfo", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut text = Vec::new();
    let list = list.map_err(|_| Unsealed::Unknown)?;
    File::from(list).read_to_end(&mut text).map_err(|_| Unsealed::Unknown)?;
    look_in(&String::from_utf8_lossy(&text), found.stx_mnt_id)
}

/// The same, of a mount by its number: a line begins with its own and the one above's, and ends, after
/// ` - `, with the type of the file system, a name and the file system's options.
fn look_in(list: &str, mount: u64) -> Result<(), Unsealed> {
    let number = mount.to_string();
    let field = |line: &str, index| line.split(' ').nth(index) == Some(&number);
    let line = list.lines().find(|line| field(line, 0)).ok_or(Unsealed::Unknown)?;
    let (_, filesystem) = line.split_once(" - ").ok_or(Unsealed::Unknown)?;
    let options = filesystem.rsplit(' ').next().unwrap_or_default();
    if !options.split(',').any(|option| option == "ro") {
        Err(Unsealed::Mount)
    } else if filesystem.split(' ').next() != Some("tmpfs") {
        Err(Unsealed::Kept)
    } else if list.lines().any(|line| field(line, 1)) {
        Err(Unsealed::Below)
    } else {
        Ok(())
    }
}

/// Tries to mount a file system again, read-only as it is.
pub(super) fn probe(directory: BorrowedFd<'_>) -> Result<(), ProbeError> {
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let kept = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    expect("remount", mount_remount(path, kept, c""), |errno| errno == Errno::PERM)
}

/// Tries to have a copy of the mount that can be written. Nobody else ever sees it: it goes with its
/// descriptor. Who cannot have one can neither make the mount itself writable nor take it away.
pub(super) fn probe_copy(directory: BorrowedFd<'_>) -> Result<(), ProbeError> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let writable = MountAttributes { writable: true, ..MountAttributes::default() };
    let copied = open_tree(directory, "", flags).and_then(|copy| {
        let changed = mount_setattr(&copy, writable);
        changed.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    });
    expect("a writable copy of the mount", copied, |errno| errno == Errno::PERM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_told_from_what_is_not() {
        let list = "85 65 0:39 / /s rw,nosuid - tmpfs skillfreeze ro,size=100k\n\
                    8 65 0:40 / /t ro,nosuid - ext4 /dev/root rw,error=ro\n\
                    9 65 0:41 / /u ro,nosuid shared:1 - tmpfs a rw\n\
                    10 65 0:42 / /v ro - overlay o ro,lowerdir=/x\n\
                    11 65 0:43 / /w ro - tmpfs a ro\n\
                    12 11 0:40 / /w/x ro - ext4 /dev/root rw\n";
        for (mount, found) in [
            (85, Ok(())),
            (8, Err(Unsealed::Mount)),
            (9, Err(Unsealed::Mount)),
            (10, Err(Unsealed::Kept)),
            (11, Err(Unsealed::Below)),
            (5, Err(Unsealed::Unknown)),
        ] {
            assert_eq!(look_in(list, mount), found, "{mount}");
        }
    }
}
