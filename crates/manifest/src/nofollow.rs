//! Opening and listing below a directory handle without following a link in any component.
//!
//! `cap-std` keeps a path inside its directory but follows links there; a tree that is hashed must
//! not be read through any link at all.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use serde::{Deserialize, Serialize};

/// What kind of thing a directory entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A device, or something a later kernel has.
    Special,
}

/// The kind in words, for messages.
#[must_use]
pub fn describe_kind(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Link => "link",
        EntryKind::Fifo => "fifo",
        EntryKind::Socket => "socket",
        EntryKind::Special => "device",
    }
}

impl From<FileType> for EntryKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            _ => Self::Special,
        }
    }
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name as the file system has it, which need not be UTF-8.
    pub name: Vec<u8>,
    /// What it was when it was listed.
    pub kind: EntryKind,
}

/// What tells one state of a file or directory from another.
///
/// The change time is part of it: the owner can set the modification time back, but not that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The device that holds it.
    pub device: u64,
    /// Its inode there.
    pub inode: u64,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits, `0o7777` at most.
    pub mode: u32,
    /// The owner's numeric id.
    pub owner: u32,
    /// Bytes of content.
    pub size: u64,
    /// Modification time: seconds and nanoseconds of the epoch.
    pub modified: (i64, i64),
    /// Inode change time: seconds and nanoseconds of the epoch.
    pub changed: (i64, i64),
}

impl Stamp {
    /// Reads the state of an open file or directory.
    ///
    /// # Errors
    /// What `fstat` says.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::from_stat(&fstat(file)?))
    }

    /// Reads the state of the entry `name` of `dir`, of a link itself where it is one.
    ///
    /// # Errors
    /// What `fstatat` says.
    pub fn at(dir: impl AsFd, name: &[u8]) -> io::Result<Self> {
        Ok(Self::from_stat(&statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Reads the state of what `path` below `dir` leads to, through every link on the way.
    ///
    /// Good for comparing with an earlier state alone: what is read is opened through no link.
    ///
    /// # Errors
    /// What `fstatat` says.
    pub fn through_links(dir: impl AsFd, path: &[u8]) -> io::Result<Self> {
        Ok(Self::from_stat(&statat(dir, path, AtFlags::empty())?))
    }

    /// Reads the state of what `path` below `dir` leads to, through links that stay below it alone.
    ///
    /// # Errors
    /// What `openat2` says: `EXDEV` where a link leads out, `ENOSYS` before Linux 5.6 and elsewhere.
    pub fn beneath(dir: impl AsFd, path: &str) -> io::Result<Self> {
        Self::of(open_beneath(dir, path)?)
    }

    #[expect(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "the fields' types differ among platforms"
    )]
    fn from_stat(stat: &rustix::fs::Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            mode: u32::from(stat.st_mode) & 0o7777,
            owner: stat.st_uid,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    /// Whether any execute bit is set.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        self.mode & 0o111 != 0
    }
}

/// Lists a directory, without `.` and `..`, in the file system's order.
///
/// # Errors
/// What `openat` or `getdents` says.
pub fn list_dir(dir: impl AsFd) -> io::Result<Vec<Entry>> {
    list_dir_up_to(dir, usize::MAX)
}

/// Lists a directory like [`list_dir`], but reads no further once it has more than `most` entries.
///
/// So the list is whole if it is not longer than `most`.
///
/// # Errors
/// What `openat` or `getdents` says.
pub fn list_dir_up_to(dir: impl AsFd, most: usize) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    // A handle may be one that is good for nothing but naming (`O_PATH`), so it is opened anew.
    for entry in Dir::new(open_dir(&dir, ".")?)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => kind_at(&dir, name)?,
            kind => kind.into(),
        };
        entries.push(Entry { name: name.to_bytes().to_vec(), kind });
        if entries.len() > most {
            break;
        }
    }
    Ok(entries)
}

/// Counts the entries of a directory, without `.` and `..`, keeping none of them.
///
/// # Errors
/// What `openat` or `getdents` says.
pub fn count_entries(dir: impl AsFd) -> io::Result<usize> {
    let mut count = 0;
    for entry in Dir::new(open_dir(&dir, ".")?)? {
        let entry = entry?;
        count += usize::from(entry.file_name() != c"." && entry.file_name() != c"..");
    }
    Ok(count)
}

fn kind_at(dir: impl AsFd, name: &CStr) -> io::Result<EntryKind> {
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode).into())
}

/// Opens the regular file or other non-directory at `path` below `dir` for reading.
///
/// Never blocks on a FIFO and never follows a link; the caller looks at the [`Stamp`] of what it
/// got before it reads.
///
/// # Errors
/// What the system says; `ELOOP` where a component is a link.
pub fn open_file(dir: impl AsFd, path: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(open(dir, path, flags)?))
}

/// Opens the directory at `path` below `dir`.
///
/// # Errors
/// What the system says; `ELOOP` or `ENOTDIR` where a component is a link.
pub fn open_dir(dir: impl AsFd, path: &str) -> io::Result<OwnedFd> {
    open(dir, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)
}

#[cfg(target_os = "linux")]
fn open(dir: impl AsFd, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    use rustix::io::Errno;

    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(&dir, path, flags | OFlags::NOFOLLOW, Mode::empty(), resolve) {
        // Kernels before 5.6 lack the call, and container filters answer `EPERM` to what they do
        // not know.
        Err(Errno::NOSYS | Errno::PERM) => open_each(dir, path, flags),
        opened => Ok(opened?),
    }
}

#[cfg(target_os = "linux")]
fn open_beneath(dir: impl AsFd, path: &str) -> io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};

    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(&dir, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?)
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(_: impl AsFd, _: &str) -> io::Result<OwnedFd> {
    Err(rustix::io::Errno::NOSYS.into())
}

#[cfg(not(target_os = "linux"))]
fn open(dir: impl AsFd, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    open_each(dir, path, flags)
}

/// Opens component by component, none of them through a link.
fn open_each(dir: impl AsFd, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let mut components = path.split('/').peekable();
    let mut above: Option<OwnedFd> = None;
    while let Some(component) = components.next() {
        if matches!(component, "" | "..") {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let is_last = components.peek().is_none();
        let flags = if is_last { flags } else { OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC };
        let parent = above.as_ref().map_or(dir.as_fd(), AsFd::as_fd);
        above = Some(openat(parent, Path::new(component), flags | OFlags::NOFOLLOW, Mode::empty())?);
    }
    above.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Bytes of a name as text: what is not UTF-8, a control character or a backslash is escaped, so
/// that two names never look the same.
#[must_use]
pub fn escape_bytes(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || character == '\\' {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "makes the tree that is opened")]
    fn follows_no_link_in_any_component() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(temp.path().join("real/sub")).unwrap();
        std::fs::write(temp.path().join("real/sub/f"), "x").unwrap();
        symlink("real", temp.path().join("dir-link")).unwrap();
        symlink("real/sub/f", temp.path().join("file-link")).unwrap();
        let dir = File::open(temp.path()).unwrap();
        assert!(open_file(&dir, "real/sub/f").is_ok());
        assert!(open_each(&dir, "real/sub/f", OFlags::RDONLY).is_ok());
        for path in ["dir-link/sub/f", "file-link"] {
            let opened = open_file(&dir, path).map_err(|error| error.raw_os_error());
            assert_eq!(opened.err(), Some(Some(rustix::io::Errno::LOOP.raw_os_error())), "{path}");
            assert!(open_each(&dir, path, OFlags::RDONLY).is_err(), "{path}");
        }
        assert!(open_dir(&dir, "dir-link").is_err());
        assert!(open_file(open_dir(&dir, "real").unwrap(), "../file-link").is_err());
        assert!(open_each(open_dir(&dir, "real").unwrap(), "../real/sub/f", OFlags::RDONLY).is_err());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "makes the directory that is listed")]
    fn lists_one_more_than_is_wanted_and_no_further() {
        let temp = tempfile::tempdir().unwrap();
        (0..5).for_each(|number| std::fs::write(temp.path().join(number.to_string()), "").unwrap());
        let dir = File::open(temp.path()).unwrap();
        let listed = |most| list_dir_up_to(&dir, most).unwrap().len();
        assert_eq!([0, 3, 4, 5, 6].map(listed), [1, 4, 5, 5, 5]);
        assert_eq!((list_dir(&dir).unwrap().len(), count_entries(&dir).unwrap()), (5, 5));
    }

    #[test]
    fn escapes_tell_names_apart() {
        for (name, text) in [
            (&b"b\xff.txt"[..], "b\\xff.txt"),
            (b"b\\xff.txt", "b\\\\xff.txt"),
            (b"a\nb", "a\\nb"),
            ("é".as_bytes(), "é"),
            (b"\x1b[31m", "\\u{1b}[31m"),
        ] {
            assert_eq!(escape_bytes(name), text);
        }
    }
}
