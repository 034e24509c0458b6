//! Links inside a package: where they lead, found without opening anything outside.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::readlinkat;
use skillfreeze_manifest::{EntryKind, Stamp, open_dir};

/// How many links are followed from one: as many as Linux follows.
pub(crate) const MAX_LINKS: usize = 40;

/// Where a link leads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// To something that is not a link, at this path in the package; empty for its directory.
    Inside { path: String, kind: EntryKind },
    /// To something in the package under a name that is not UTF-8, so that it is no content.
    Nameless,
    /// Out of the package, be it only to come back.
    Outside,
    /// Nowhere.
    Nowhere,
    /// Through more than [`MAX_LINKS`] links.
    Loop,
}

/// The text of the link at `name` in `dir`.
pub(crate) fn read_link(dir: impl AsFd, name: &[u8]) -> io::Result<Vec<u8>> {
    Ok(readlinkat(dir, name, Vec::new())?.into_bytes())
}

/// Follows the link in the directory `above` of the package that says `target`, component by
/// component.
///
/// # Errors
/// What the system says, but for what is absent.
pub(crate) fn resolve(package: BorrowedFd<'_>, above: &str, target: &[u8]) -> io::Result<Destination> {
    let mut at: Vec<String> = above.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let mut left: VecDeque<Vec<u8>> = VecDeque::new();
    let mut links = 0;
    if !push_target(&mut left, target) {
        return Ok(Destination::Outside);
    }
    while let Some(name) = left.pop_front() {
        match name.as_slice() {
            b"" | b"." => continue,
            b".." => {
                if at.pop().is_none() {
                    return Ok(Destination::Outside);
                }
                continue;
            }
            _ => {}
        }
        let stamp = stamp_in(package, &at, &name);
        let kind = match stamp {
            Ok(stamp) => stamp.kind,
            Err(error) if is_absent(&error) => return Ok(Destination::Nowhere),
            Err(error) => return Err(error),
        };
        match kind {
            EntryKind::Link => {
                links += 1;
                if links >= MAX_LINKS {
                    return Ok(Destination::Loop);
                }
                let target = with_dir(package, &at, |dir| read_link(dir, &name))?;
                if !push_target(&mut left, &target) {
                    return Ok(Destination::Outside);
                }
            }
            EntryKind::Directory => match String::from_utf8(name) {
                Ok(name) => at.push(name),
                Err(_) => return Ok(Destination::Nameless),
            },
            // A file has nothing below it, not even `.`.
            _ if !left.is_empty() => return Ok(Destination::Nowhere),
            kind => {
                let Ok(name) = String::from_utf8(name) else { return Ok(Destination::Nameless) };
                at.push(name);
                return Ok(Destination::Inside { path: at.join("/"), kind });
            }
        }
    }
    Ok(Destination::Inside { path: at.join("/"), kind: EntryKind::Directory })
}

/// Whether nothing of a name is there, or can be.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename)
}

/// Puts a target's components before those that are left; `false` when it is absolute.
fn push_target(left: &mut VecDeque<Vec<u8>>, target: &[u8]) -> bool {
    for name in target.split(|byte| *byte == b'/').rev() {
        left.push_front(name.to_vec());
    }
    !target.starts_with(b"/")
}

fn stamp_in(package: BorrowedFd<'_>, at: &[String], name: &[u8]) -> io::Result<Stamp> {
    with_dir(package, at, |dir| Stamp::at(dir, name))
}

fn with_dir<T>(
    package: BorrowedFd<'_>,
    at: &[String],
    act: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
) -> io::Result<T> {
    if at.is_empty() {
        return act(package);
    }
    act(open_dir(package, &at.join("/"))?.as_fd())
}
