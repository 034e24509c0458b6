//! Temporaries, and publishing by a rename that replaces nothing.
//!
//! Whoever writes takes a [`Guard`]: a lock file `tmp/<name>.lock` under an exclusive lock, where
//! `<name>` is random. All its temporaries have names that begin with `<name>`. The lock file is
//! there before the first temporary and until after the last, so a temporary whose lock file is
//! absent or free belongs to nobody and is swept, whatever its age.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::Dir;
use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, chmodat, fchmod, linkat, mkdirat, openat, renameat, renameat_with,
    unlinkat,
};
use rustix::io::Errno;
use skillfreeze_manifest::{Entry, EntryKind, Stamp, escape_bytes, list_dir, open_dir};

use crate::error::{IoFault, failed};
use crate::lock::{Sharing, try_lock};

/// Where temporaries live.
pub(crate) const TEMPORARY: &str = "tmp";
/// What the name of a staged snapshot begins with.
pub(crate) const STAGED_PREFIX: &str = ".new-";
/// The ending of a guard's lock file.
const LOCK_SUFFIX: &str = ".lock";

/// Makes 16 random hex digits.
pub(crate) fn random_name() -> Result<String, IoFault> {
    let random = getrandom::u64().map_err(failed("get", "random bytes"))?;
    Ok(format!("{random:016x}"))
}

/// Opens the directory at `path` below `dir` through no link.
pub(crate) fn open_directory(dir: impl AsFd, path: &str) -> Result<Dir, IoFault> {
    let opened = open_dir(dir, path).map_err(failed("open", path))?;
    Ok(Dir::from_std_file(File::from(opened)))
}

/// Opens a file of the store for reading and writing, making it (0600) where it is absent.
pub(crate) fn open_writable(dir: impl AsFd, name: &str) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    loop {
        match openat(&dir, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => {}
            opened => return Ok(File::from(opened?)),
        }
        match create_new(&dir, name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created,
        }
    }
}

/// Makes a new file (0600) for writing and reading.
pub(crate) fn create_new(dir: impl AsFd, name: &str) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let file = openat(dir, name, flags, mode)?;
    // Whatever the caller's mask takes away, the owner must be able to open it again.
    fchmod(&file, mode)?;
    Ok(File::from(file))
}

/// Makes a directory (0700) unless something of that name is there.
pub(crate) fn make_dir(dir: impl AsFd, path: &str) -> Result<(), IoFault> {
    match mkdirat(&dir, path, Mode::RWXU) {
        // Whatever the caller's mask takes away, the owner must be able to use it.
        Ok(()) => {
            Ok(chmodat(&dir, path, Mode::RWXU, AtFlags::empty())
                .map_err(failed("make the directory", path))?)
        }
        Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(failed("make the directory", path)(error)),
    }
}

/// Renames, and replaces nothing: `false` when something of the new name is there.
///
/// Atomic. Where the file system lacks `RENAME_NOREPLACE`, a file gets its new name by a hard link
/// and a directory by a rename, which can replace nothing but an empty directory.
pub(crate) fn rename_new(from: impl AsFd, old: &str, to: impl AsFd, new: &str) -> rustix::io::Result<bool> {
    let renamed = match renameat_with(&from, old, &to, new, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => match linkat(&from, old, &to, new, AtFlags::empty()) {
            Ok(()) => unlinkat(&from, old, AtFlags::empty()),
            Err(Errno::PERM) => renameat(&from, old, &to, new),
            Err(error) => Err(error),
        },
        renamed => renamed,
    };
    match renamed {
        Ok(()) => Ok(true),
        Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes what is at `name`, a whole tree if it is a directory, whatever its modes; nothing there
/// is fine.
pub(crate) fn remove_tree(dir: impl AsFd, name: &[u8]) -> io::Result<()> {
    let kind = match Stamp::at(&dir, name) {
        Ok(stamp) => stamp.kind,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if kind != EntryKind::Directory {
        return unlink(dir, name, AtFlags::empty());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let below = openat(&dir, name, flags, Mode::empty())?;
    // A frozen directory lets nothing be removed from it.
    fchmod(&below, Mode::RWXU)?;
    for Entry { name, .. } in list_dir(&below)? {
        remove_tree(&below, &name)?;
    }
    unlink(dir, name, AtFlags::REMOVEDIR)
}

fn unlink(dir: impl AsFd, name: &[u8], flags: AtFlags) -> io::Result<()> {
    match unlinkat(dir, name, flags) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A name under which temporaries are made, held by a lock.
#[derive(Debug)]
pub(crate) struct Guard {
    tmp: Dir,
    name: String,
    next: AtomicU64,
    /// Holds the lock.
    _lock: File,
}

impl Guard {
    /// Takes a fresh name below the `tmp/` of the store at `root`.
    pub(crate) fn new(root: &Dir) -> Result<Self, IoFault> {
        let tmp = open_directory(root, TEMPORARY)?;
        loop {
            let name = random_name()?;
            let lock_name = format!("{name}{LOCK_SUFFIX}");
            let path = || format!("{TEMPORARY}/{lock_name}");
            let file = create_new(&tmp, &lock_name).map_err(failed("create", path()))?;
            let locked = try_lock(&file, Sharing::Exclusive).map_err(failed("lock", path()))?;
            // A sweep may have come between: then the file is no longer there to be seen locked.
            if locked && is_linked(&tmp, &lock_name, &file).map_err(failed("look at", path()))? {
                return Ok(Self { tmp, name, next: AtomicU64::new(0), _lock: file });
            }
        }
    }

    /// The random part that all its temporaries' names begin with.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The directory of temporaries.
    pub(crate) fn dir(&self) -> &Dir {
        &self.tmp
    }

    /// Makes a new temporary file and gives its name.
    pub(crate) fn create(&self) -> Result<(String, File), IoFault> {
        let name = format!("{}-{}", self.name, self.next.fetch_add(1, Ordering::Relaxed));
        let path = || format!("{TEMPORARY}/{name}");
        let file = create_new(&self.tmp, &name).map_err(failed("create", path()))?;
        Ok((name, file))
    }

    /// Makes a new temporary file and writes it; gives its name and what the writer gave.
    ///
    /// What cannot be written to its end is removed at once: on a full disk the room is wanted.
    pub(crate) fn write<T>(
        &self,
        write: impl FnOnce(&mut File) -> Result<T, IoFault>,
    ) -> Result<(String, T), IoFault> {
        let (name, mut file) = self.create()?;
        match write(&mut file) {
            Ok(written) => Ok((name, written)),
            Err(fault) => {
                // If that fails too, it goes with the guard.
                let _ = self.remove(&name);
                Err(fault)
            }
        }
    }

    /// Makes a new temporary file without a name, gone when it is closed.
    pub(crate) fn create_unnamed(&self) -> Result<File, IoFault> {
        let (name, file) = self.create()?;
        self.remove(&name)?;
        Ok(file)
    }

    /// Removes a temporary file.
    pub(crate) fn remove(&self, name: &str) -> Result<(), IoFault> {
        let path = || format!("{TEMPORARY}/{name}");
        unlink(&self.tmp, name.as_bytes(), AtFlags::empty()).map_err(failed("remove", path()))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // What stays behind is swept later: nobody holds its lock.
        let _ = sweep_one(&self.tmp, None, &self.name);
    }
}

/// Whether `name` in `dir` is still the open `file`.
pub(crate) fn is_linked(dir: impl AsFd, name: &str, file: impl AsFd) -> io::Result<bool> {
    match Stamp::at(dir, name.as_bytes()) {
        Ok(named) => {
            let open = Stamp::of(file)?;
            Ok((named.device, named.inode) == (open.device, open.inode))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes what dead writers left in `tmp/` and among the snapshots.
///
/// Only what no lock guards: a file is listed before its lock is looked at, and its owner made the
/// lock before the file.
pub(crate) fn sweep(root: &Dir, snapshots: &Dir) -> Result<(), IoFault> {
    let tmp = open_directory(root, TEMPORARY)?;
    let mut names: Vec<String> = Vec::new();
    for entry in list_dir(snapshots).map_err(failed("list", "snapshots/sha256"))? {
        if let Some(name) = entry.name.strip_prefix(STAGED_PREFIX.as_bytes()) {
            names.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    for entry in list_dir(&tmp).map_err(failed("list", TEMPORARY))? {
        let name = String::from_utf8_lossy(&entry.name);
        let name = name.strip_suffix(LOCK_SUFFIX).unwrap_or(&name);
        names.push(name.split('-').next().unwrap_or(name).to_owned());
    }
    names.sort_unstable();
    names.dedup();
    for name in names {
        // What cannot be swept stands in nobody's way: each writer has names of its own.
        let _ = sweep_if_dead(&tmp, snapshots, &name);
    }
    Ok(())
}

fn sweep_if_dead(tmp: &Dir, snapshots: &Dir, name: &str) -> Result<(), IoFault> {
    let lock_name = format!("{name}{LOCK_SUFFIX}");
    let path = || format!("{TEMPORARY}/{}", escape_bytes(lock_name.as_bytes()));
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let lock = match openat(tmp, &lock_name, flags, Mode::empty()) {
        Ok(file) => Some(File::from(file)),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(failed("open", path())(error)),
    };
    if let Some(file) = &lock
        && !try_lock(file, Sharing::Exclusive).map_err(failed("lock", path()))?
    {
        return Ok(());
    }
    sweep_one(tmp, Some(snapshots), name).map_err(failed("sweep", path()))
}

/// Removes everything of one guard, its lock file last.
fn sweep_one(tmp: &Dir, snapshots: Option<&Dir>, name: &str) -> io::Result<()> {
    if let Some(snapshots) = snapshots {
        remove_tree(snapshots, format!("{STAGED_PREFIX}{name}").as_bytes())?;
    }
    let temporary = format!("{name}-");
    for entry in list_dir(tmp)? {
        if entry.name.starts_with(temporary.as_bytes()) || entry.name == name.as_bytes() {
            remove_tree(tmp, &entry.name)?;
        }
    }
    unlink(tmp, format!("{name}{LOCK_SUFFIX}").as_bytes(), AtFlags::empty())
}

/// The path of an open directory for those who can only open by path.
pub(crate) fn path_of(dir: &Dir) -> String {
    format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd())
}
