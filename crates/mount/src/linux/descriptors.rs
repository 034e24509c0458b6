//! What a launch hands down: each thing opened once, and room for all of them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use camino::Utf8Path;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use skillfreeze_manifest::{EntryKind, Stamp};

use crate::bind::Bind;
use crate::launch_error::LaunchError;
use crate::linux::protocol::Numbers;

/// Descriptors that a launch needs beside those that it hands down.
const SPARE: u64 = 32;

/// How many descriptors may be open here, if there is a limit: what the command gets back.
pub(crate) fn soft_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Sees to it that this process may open as many descriptors as are handed down, `lent` of them beside the
/// agreed ones.
///
/// # Errors
/// [`LaunchError::TooManyDescriptors`] where the hard limit forbids it.
pub(crate) fn make_room(numbers: Numbers, lent: usize) -> Result<(), LaunchError> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let lent = lent as u64;
    // Each is open here and at its number at once, beside what the caller has open anyway.
    let needed = u64::try_from(numbers.first_bind()).unwrap_or(0) + lent * 2 + SPARE;
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(limit) = maximum.filter(|maximum| *maximum < needed) {
        return Err(LaunchError::TooManyDescriptors { needed, limit });
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum })
        .map_err(|errno| LaunchError::Start { doing: "making room for descriptors", source: errno.into() })
}

/// A directory as a standard stream would be a way into the host for whoever gets it.
pub(crate) fn refuse_directories() -> Result<(), LaunchError> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    for (name, stream) in [
        ("standard input", stdin.as_fd()),
        ("standard output", stdout.as_fd()),
        ("standard error", stderr.as_fd()),
    ] {
        if Stamp::of(stream).is_ok_and(|stamp| stamp.kind == EntryKind::Directory) {
            return Err(LaunchError::Directory { name });
        }
    }
    Ok(())
}

/// Opens this program, which becomes the first process inside.
pub(crate) fn open_own_program() -> io::Result<OwnedFd> {
    Ok(openat(CWD, "/proc/self/exe", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens what a bind names, which was canonical when it was planned: through no link now.
pub(crate) fn open_bind(bind: &Bind) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = bind.source.as_std_path();
    let opened = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let expected = if bind.is_directory { EntryKind::Directory } else { EntryKind::File };
    if Stamp::of(&opened)?.kind == expected {
        Ok(opened)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{}` is no longer what it was", bind.source),
        ))
    }
}

/// Opens the directory at a canonical path, through no link, if it is still the one behind this handle.
pub(crate) fn open_hashed(path: &Utf8Path, hashed: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat2(CWD, path.as_std_path(), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let (found, expected) = (Stamp::of(&opened)?, Stamp::of(hashed)?);
    if (found.device, found.inode) == (expected.device, expected.inode) {
        Ok(opened)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "another directory is there"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_directory_that_was_hashed_is_opened() {
        let temp = tempfile::tempdir().unwrap();
        let top = Utf8Path::from_path(temp.path()).unwrap().canonicalize_utf8().unwrap();
        let (path, aside) = (top.join("s"), top.join("aside"));
        let run = |script: &str| {
            let mut shell = std::process::Command::new("sh");
            assert!(shell.args(["-ec", script]).current_dir(&top).status().unwrap().success(), "{script}");
        };
        run("mkdir s");
        let hashed =
            openat(CWD, path.as_std_path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        open_hashed(&path, &hashed).unwrap();
        run("mv s aside");
        assert_eq!(open_hashed(&path, &hashed).unwrap_err().kind(), io::ErrorKind::NotFound);
        open_hashed(&aside, &hashed).unwrap();
        run("mkdir s");
        assert_eq!(open_hashed(&path, &hashed).unwrap_err().to_string(), "another directory is there");
        // A link to the right one can be led elsewhere.
        run("rmdir s; ln -s aside s");
        open_hashed(&path, &hashed).unwrap_err();
        run("rm s; mv aside s");
        open_hashed(&path, &hashed).unwrap();
    }
}
