//! The stage: a private file system in memory that holds the very bytes that were hashed.
//!
//! It is mounted by the helper in namespaces of its own, while it has a single thread, and filled by
//! the check itself: each buffer is hashed and written. Then the file system, not only a mount of
//! it, is made read-only. Its owner is the user namespace of the helper; the command runs in one
//! below, from where nobody can make it writable again. It is gone with the last process of the
//! launch.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use camino::Utf8Path;
use nix::mount::{MsFlags, mount};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen, move_mount,
};
use skillfreeze_manifest::{
    Check, CheckOptions, Digest, Fault, FileEntry, MANIFEST_FILE, PackageEntry, Silent, Sink, Stamp,
    check_snapshot,
};

pub(crate) use crate::size::Size;
use crate::size::directories;

/// What a stage may hold beyond what it needs: too wide a limit costs nothing, for only what the manifest
/// lists is written; too tight a one refuses a launch. Kernels charge just the pages of files; security
/// modules' labels count as parts of inodes.
const SPARE_BYTES: u64 = 64 << 10;
const SPARE_INODES: u64 = 64;

/// What a list of mounts calls a stage, and the mode of its root.
const SOURCE: &str = "skillfreeze";
const MODE: &str = "0555";

/// Mounts an empty stage over the directory `at`.
///
/// # Errors
/// What mount(2) says.
pub(crate) fn make(at: &Utf8Path, size: Size) -> io::Result<OwnedFd> {
    let (bytes, inodes) = limits(size);
    let options = format!("mode={MODE},size={bytes},nr_inodes={inodes}");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some(SOURCE), at.as_std_path(), Some("tmpfs"), flags, Some(options.as_str()))?;
    Ok(openat(CWD, at.as_std_path(), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Mounts an empty stage over an open directory, wherever the path that led there leads by now.
///
/// # Errors
/// What fsopen(2), fsconfig(2), fsmount(2) and move_mount(2) say.
pub(crate) fn make_over(at: &OwnedFd, size: Size) -> io::Result<OwnedFd> {
    let (bytes, inodes) = limits(size);
    let made = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&made, "source", SOURCE)?;
    fsconfig_set_string(&made, "mode", MODE)?;
    fsconfig_set_string(&made, "size", bytes.to_string())?;
    fsconfig_set_string(&made, "nr_inodes", inodes.to_string())?;
    fsconfig_create(&made)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let stage = fsmount(&made, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&stage, "", at, "", both)?;
    Ok(stage)
}

/// Bytes and inodes that a stage may hold.
fn limits(size: Size) -> (u64, u64) {
    (size.bytes + SPARE_BYTES, size.inodes * 2 + SPARE_INODES)
}

/// Makes the whole file system read-only, for every mount of it there is or will be.
///
/// # Errors
/// What mount(2) says.
pub(crate) fn close(at: &Utf8Path) -> io::Result<()> {
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    Ok(mount(None::<&str>, at.as_std_path(), None::<&str>, flags, None::<&str>)?)
}

/// Fills a stage with the snapshot behind a handle, which must have this digest. What it holds afterwards
/// is the snapshot only if the check is clean.
///
/// Whose the snapshot is does not matter any more, and cannot be told in a user namespace.
pub(crate) fn fill(stage: &OwnedFd, snapshot: impl AsFd, digest: Digest) -> io::Result<Check> {
    let sink = Filling { stage };
    let options = CheckOptions::new(&Silent).sink(&sink);
    let check = check_snapshot(snapshot, Some(digest), &options);
    if let Some(manifest) = &check.manifest {
        create(stage, MANIFEST_FILE, 0o444)?.write_all(&manifest.to_bytes())?;
    }
    Ok(check)
}

/// What kept the machine from copying what it read, if nothing else was found amiss: then there is nothing
/// wrong with the snapshot.
pub(crate) fn machines_failure(check: &Check) -> Option<io::Error> {
    let fault = check.faults.first()?;
    let message = || format!("`{}`: {}", fault.path, fault.actual.as_deref().unwrap_or("no room"));
    check.faults.iter().all(Fault::is_of_machine).then(|| io::Error::other(message()))
}

/// Device and inode of a stage's root.
pub(crate) fn identity(stage: &OwnedFd) -> io::Result<(u64, u64)> {
    let Stamp { device, inode, .. } = Stamp::of(stage)?;
    Ok((device, inode))
}

/// Writes what is hashed into a stage. The helper has no mask, and its powers in the stage's user
/// namespace let it write into directories that nobody may write.
struct Filling<'a> {
    stage: &'a OwnedFd,
}

impl Sink for Filling<'_> {
    fn begin(&self, package: &PackageEntry) -> io::Result<()> {
        let mode = Mode::from_raw_mode(0o555);
        let id = package.id().as_str();
        mkdirat(self.stage, id, mode)?;
        for directory in directories(package) {
            mkdirat(self.stage, format!("{id}/{directory}"), mode)?;
        }
        Ok(())
    }

    fn create(&self, package: &PackageEntry, file: &FileEntry) -> io::Result<File> {
        let mode = if file.executable { 0o555 } else { 0o444 };
        create(self.stage, &format!("{}/{}", package.id(), file.path), mode)
    }
}

fn create(stage: &OwnedFd, path: &str, mode: u32) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(stage, path, flags, Mode::from_raw_mode(mode))?))
}
