//! Whether a file system is read-only as a whole, and stays so.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};

use super::{ProbeError, expect};

/// Whether the kernel's list of mounts has the file system of a directory as read-only.
pub(super) fn is_read_only(directory: BorrowedFd<'_>) -> bool {
    let Ok(found) = statx(directory, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID) else { return false };
    let list = openat(CWD, "/proc/self/mountinfo", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut text = Vec::new();
    let is_read = list.is_ok_and(|list| File::from(list).read_to_end(&mut text).is_ok());
    is_read && is_read_only_in(&String::from_utf8_lossy(&text), found.stx_mnt_id)
}

/// The same, of a mount by its number: the options of the file system are the last field.
fn is_read_only_in(list: &str, mount: u64) -> bool {
    let number = mount.to_string();
    let line = list.lines().find(|line| line.split(' ').next() == Some(&number));
    let options = line.and_then(|line| line.rsplit(' ').next());
    options.is_some_and(|options| options.split(',').any(|option| option == "ro"))
}

/// Tries to mount a file system again, read-only as it is.
pub(super) fn probe(directory: BorrowedFd<'_>) -> Result<(), ProbeError> {
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let kept = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    expect("remount", mount_remount(path, kept, c""), |errno| errno == Errno::PERM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_told_from_a_mount_of_it() {
        let list = "85 65 0:39 / /s rw,nosuid - tmpfs skillfreeze ro,size=100k\n\
                    8 65 0:40 / /t ro,nosuid - ext4 /dev/root rw,error=ro\n";
        for (mount, is_read_only) in [(85, true), (8, false), (5, false)] {
            assert_eq!(is_read_only_in(list, mount), is_read_only, "{mount}");
        }
    }
}
