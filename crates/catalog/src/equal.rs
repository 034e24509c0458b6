//! Whether two packages are the same content, so that one of them can stand for both.
//!
//! Only what is certainly the same counts: a link, a special file or bytecode anywhere makes two
//! packages different here, whatever freezing would make of it.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};

use skillfreeze_manifest::{
    Entry, EntryKind, Limits, Membership, Stamp, list_dir_up_to, membership, open_dir, open_file,
};

/// Files are compared in pieces of this size.
const BUFFER_BYTES: usize = 64 << 10;

/// Whether two directories hold the same packages, byte for byte; `false` where that cannot be told.
pub(crate) fn same_directory(first: impl AsFd, second: impl AsFd, limits: &Limits) -> bool {
    let mut left = Budget::of(limits);
    compare(first.as_fd(), second.as_fd(), limits.depth, &mut left).unwrap_or(false)
}

/// What may still be read: as much as a package may have, since nothing else can be frozen.
struct Budget {
    files: u64,
    file_bytes: u64,
    bytes: u64,
}

impl Budget {
    fn of(limits: &Limits) -> Self {
        Self { files: limits.files, file_bytes: limits.file_bytes, bytes: limits.package_bytes }
    }

    /// Takes a file of this size out, if there is room for it.
    fn take(&mut self, size: u64) -> bool {
        let fits = self.files > 0 && size <= self.file_bytes.min(self.bytes);
        if fits {
            self.files -= 1;
            self.bytes -= size;
        }
        fits
    }
}

/// Whether two files hold the same bytes; `false` where that cannot be told.
pub(crate) fn same_file(first: (impl AsFd, &str), second: (impl AsFd, &str), limits: &Limits) -> bool {
    match (open_file(first.0, first.1), open_file(second.0, second.1)) {
        (Ok(first), Ok(second)) => same_bytes(first, second, &mut Budget::of(limits)).unwrap_or(false),
        _ => false,
    }
}

fn compare(
    first: BorrowedFd<'_>,
    second: BorrowedFd<'_>,
    depth: usize,
    left: &mut Budget,
) -> io::Result<bool> {
    let entries = content(first, left.files)?;
    if depth == 0 || entries != content(second, left.files)? {
        return Ok(false);
    }
    for Entry { name, kind } in entries {
        let Ok(name) = String::from_utf8(name) else { return Ok(false) };
        let is_same = match kind {
            EntryKind::Directory => {
                compare(open_dir(first, &name)?.as_fd(), open_dir(second, &name)?.as_fd(), depth - 1, left)?
            }
            EntryKind::File => same_bytes(open_file(first, &name)?, open_file(second, &name)?, left)?,
            _ => false,
        };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The entries that are content, by name.
fn content(dir: BorrowedFd<'_>, most: u64) -> io::Result<Vec<Entry>> {
    let mut entries = list_dir_up_to(dir, usize::try_from(most).unwrap_or(usize::MAX))?;
    entries.retain(|entry| {
        let is_directory = entry.kind == EntryKind::Directory;
        !matches!(membership(&entry.name, is_directory), Membership::Excluded(_))
    });
    if entries
        .iter()
        .any(|entry| membership(&entry.name, entry.kind == EntryKind::Directory) == Membership::Bytecode)
    {
        return Err(io::ErrorKind::InvalidData.into());
    }
    entries.sort_unstable_by(|first, second| first.name.cmp(&second.name));
    Ok(entries)
}

fn same_bytes(mut first: File, mut second: File, budget: &mut Budget) -> io::Result<bool> {
    let (one, other) = (Stamp::of(&first)?, Stamp::of(&second)?);
    let is_file = |stamp: &Stamp| stamp.kind == EntryKind::File;
    if !is_file(&one)
        || !is_file(&other)
        || one.size != other.size
        || one.is_executable() != other.is_executable()
        || !budget.take(one.size)
    {
        return Ok(false);
    }
    let (mut a, mut b) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    let mut left = one.size;
    while left > 0 {
        let piece = usize::try_from(left).unwrap_or(usize::MAX).min(BUFFER_BYTES);
        first.read_exact(&mut a[..piece])?;
        second.read_exact(&mut b[..piece])?;
        if a[..piece] != b[..piece] {
            return Ok(false);
        }
        left -= piece as u64;
    }
    Ok(true)
}
