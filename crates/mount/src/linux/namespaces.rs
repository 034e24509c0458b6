//! Namespaces of a process of a launch, and which users they know.
//!
//! Only a process with a single thread can enter a user namespace.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::Pid;

use crate::linux::failed::{Failed, during};

/// How often entering is tried again while a thread that has ended is not yet gone, and how long apart.
const TRIES: u32 = 1000;
const BETWEEN_TRIES: Duration = Duration::from_millis(1);

/// Makes a mount namespace of the process's own; for an ordinary user in a user namespace that has this
/// one user, in which the process may mount.
pub(crate) fn enter_namespaces(is_root: bool) -> Result<(), Failed> {
    let flags = if is_root { CloneFlags::empty() } else { CloneFlags::CLONE_NEWUSER };
    let ids = own_ids();
    unshare(CloneFlags::CLONE_NEWNS | flags).map_err(during("making namespaces"))?;
    if !is_root {
        map_alone(ids)?;
    }
    make_private()
}

/// Makes a user namespace below, and a mount namespace of it, from where nobody can change what is mounted
/// now. Who is in it must be said yet.
///
/// The threads of a check have ended, but the kernel may still count one of them for a moment.
pub(crate) fn enter_below() -> Result<(), Failed> {
    let mut entered = nix::Result::Err(nix::Error::EINVAL);
    for _ in 0..TRIES {
        entered = unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUSER);
        if entered != Err(nix::Error::EINVAL) {
            break;
        }
        thread::sleep(BETWEEN_TRIES);
    }
    entered.map_err(during("making the command's namespaces"))
}

/// The effective user and group, which nobody can tell any more once a namespace without them is entered.
pub(crate) fn own_ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Has the process's own user namespace know this user and group, by their own numbers, and nobody else.
pub(crate) fn map_alone((user, group): (u32, u32)) -> Result<(), Failed> {
    let mapped = write("/proc/self/setgroups", "deny")
        .and_then(|()| write("/proc/self/uid_map", &format!("{user} {user} 1\n")))
        .and_then(|()| write("/proc/self/gid_map", &format!("{group} {group} 1\n")));
    mapped.map_err(during("mapping the user"))
}

/// Has the user namespace of a child know all that this process's own knows, by their own numbers.
///
/// A process cannot do this for itself: the numbers must be known where it is written.
pub(crate) fn map_all_of(child: Pid) -> io::Result<()> {
    for map in ["uid_map", "gid_map"] {
        let own = read(&format!("/proc/self/{map}"))?;
        write(&format!("/proc/{}/{map}", child.as_raw_nonzero()), &onto_itself(&own))?;
    }
    Ok(())
}

/// The map of a namespace below that changes no number, from the map of the one above.
fn onto_itself(map: &str) -> String {
    let extents = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace();
        let (first, count) = (numbers.next()?, numbers.nth(1)?);
        Some(format!("{first} {first} {count}\n"))
    });
    extents.collect()
}

/// Keeps what is mounted here from showing elsewhere, and the other way round.
pub(crate) fn make_private() -> Result<(), Failed> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(during("making mounts private"))
}

fn read(path: &str) -> io::Result<String> {
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = String::new();
    File::from(file).read_to_string(&mut text)?;
    Ok(text)
}

/// The kernel takes a map in one piece.
fn write(path: &str, text: &str) -> io::Result<()> {
    let file = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    File::from(file).write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_below_changes_no_number() {
        for (above, below) in [
            ("         0          0 4294967295\n", "0 0 4294967295\n"),
            ("0 100000 65536\n65536 1000 1\n", "0 0 65536\n65536 65536 1\n"),
            ("", ""),
        ] {
            assert_eq!(onto_itself(above), below);
        }
    }
}
