//! A directory of the host for one launch alone: home, temporaries and extensions of its command.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, chmod, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

/// The directories in it, each for one use.
pub(crate) const HOME: &str = "home";
pub(crate) const TEMPORARIES: &str = "tmp";
pub(crate) const EXTENSIONS: &str = "extensions";

/// A name for one below a directory of temporaries, which nobody guesses.
pub(crate) fn name(temporaries: &Utf8Path) -> io::Result<Utf8PathBuf> {
    let mut random = [0; 8];
    File::from(openat(CWD, "/dev/urandom", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
        .read_exact(&mut random)?;
    Ok(temporaries.join(format!("skillfreeze-{:016x}", u64::from_ne_bytes(random))))
}

/// Looks whether the name is free, so that what is there later is the launch's own.
///
/// # Errors
/// `AlreadyExists`, whatever is there.
pub(crate) fn claim(path: &Utf8Path) -> io::Result<()> {
    match statat(CWD, path.as_std_path(), AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
    }
}

/// Makes it, as the command's user.
///
/// # Errors
/// `AlreadyExists`, whatever is there; it is not touched.
pub(crate) fn make(path: &Utf8Path) -> io::Result<()> {
    let below = [HOME, TEMPORARIES, EXTENSIONS].map(|name| path.join(name));
    for directory in [path].into_iter().chain(below.iter().map(Utf8PathBuf::as_path)) {
        mkdirat(CWD, directory.as_std_path(), Mode::RWXU)?;
        // Whatever the caller's mask takes away, the command must be able to use it.
        chmod(directory.as_std_path(), Mode::RWXU)?;
    }
    Ok(())
}

/// Gives it to the command's user, where another has made it.
#[cfg(not(target_os = "linux"))]
pub(crate) fn give(path: &Utf8Path, (user, group): (u32, u32)) -> io::Result<()> {
    let below = [HOME, TEMPORARIES, EXTENSIONS].map(|name| path.join(name));
    let (user, group) = (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(group));
    for directory in [path].into_iter().chain(below.iter().map(Utf8PathBuf::as_path)) {
        rustix::fs::chownat(
            CWD,
            directory.as_std_path(),
            Some(user),
            Some(group),
            AtFlags::SYMLINK_NOFOLLOW,
        )?;
    }
    Ok(())
}

/// Removes it with all that it holds, through no link, whatever the modes and however deep; once nobody
/// uses it any more. What is not there is no error.
pub(crate) fn remove(path: &Utf8Path) -> io::Result<()> {
    let top = match open_directory(CWD, path.as_str()) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    // Each directory that is found is moved to the top first, so that none is ever deep.
    let mut moved = 0_u64;
    loop {
        let mut is_empty = true;
        for name in names(&top)? {
            is_empty = false;
            if unlinkat(&top, &name, AtFlags::empty()).is_ok() {
                continue;
            }
            let directory = open_directory(&top, &name)?;
            for below in names(&directory)? {
                match unlinkat(&directory, &below, AtFlags::empty()) {
                    Ok(()) => {}
                    Err(_) => {
                        // To be moved, it must be writable itself.
                        drop(open_directory(&directory, &below)?);
                        renameat(&directory, &below, &top, format!("{}-{moved}", std::process::id()))?;
                        moved += 1;
                    }
                }
            }
            unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
        if is_empty {
            return Ok(unlinkat(CWD, path.as_std_path(), AtFlags::REMOVEDIR)?);
        }
    }
}

/// Opens a directory that its owner may have closed to everybody; never what a link leads to.
#[cfg(not(target_os = "linux"))]
fn open_directory(at: impl AsFd, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    rustix::fs::chmodat(&at, name, Mode::RWXU, AtFlags::SYMLINK_NOFOLLOW)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

/// Opens a directory that its owner may have closed to everybody; never what a link leads to.
#[cfg(target_os = "linux")]
fn open_directory(at: impl AsFd, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    use std::os::fd::AsRawFd as _;

    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat(at, name, flags, Mode::empty())?;
    chmod(format!("/proc/self/fd/{}", found.as_raw_fd()), Mode::RWXU)?;
    openat(&found, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn names(directory: &OwnedFd) -> Result<Vec<std::ffi::CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test looks at its own temporary directory")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn what_it_holds_goes_with_it_and_nothing_else() {
        let temp = tempfile::tempdir().unwrap();
        let top = Utf8Path::from_path(temp.path()).unwrap();
        let path = name(top).unwrap();
        assert_ne!(path, name(top).unwrap());
        claim(&path).unwrap();
        make(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
        for again in [claim(&path), make(&path)] {
            assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        }

        let outside = top.join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "").unwrap();
        symlink(&outside, path.join("home/link")).unwrap();
        symlink("none", path.join("home/dangling")).unwrap();
        // As deep as no path can name, and closed at each step.
        let mut deep = path.join("tmp");
        for _ in 0..100 {
            deep.push("d");
            fs::create_dir(&deep).unwrap();
            fs::write(deep.join("file"), "").unwrap();
        }
        for _ in 0..100 {
            fs::set_permissions(&deep, fs::Permissions::from_mode(0o000)).unwrap();
            deep.pop();
        }
        remove(&path).unwrap();
        assert!(!path.exists() && outside.join("file").exists());
        remove(&path).unwrap();

        // Nor is a link in its place followed.
        symlink(&outside, &path).unwrap();
        assert!(remove(&path).is_err() && outside.join("file").exists());
    }
}
