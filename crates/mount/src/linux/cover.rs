//! Mounts the stage over source roots, so that whatever binds what they lie in brings it along.
//!
//! The helper does this in its own mount namespace: nothing of it is seen outside, and nothing is
//! made on the host. bubblewrap binds recursively.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use skillfreeze_manifest::Stamp;

use crate::linux::protocol::Covered;

/// Mounts the stage over a root, which is still the one that was found before.
///
/// # Errors
/// What the system says; `InvalidInput` where something else is there by now.
pub(crate) fn cover(root: &Covered, stage: &OwnedFd) -> io::Result<()> {
    // Opened in the namespace in which it is mounted over, and through no link.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = openat2(CWD, root.root.as_std_path(), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let Stamp { device, inode, .. } = Stamp::of(&place)?;
    if (device, inode) != root.identity {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no longer what it was"));
    }
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let mount = open_tree(stage, "", flags)?;
    let attributes = skillfreeze_sys::MountAttributes {
        read_only: true,
        no_suid: true,
        no_dev: true,
        ..Default::default()
    };
    skillfreeze_sys::mount_setattr(&mount, attributes)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(&mount, "", &place, "", flags)?)
}
