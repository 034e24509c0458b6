//! Links of a package: where they lead, component by component.
//!
//! A link may lead to a regular file of its own package. Where a source's configuration names link
//! roots, it may also say an absolute path below one of them, and lead on from there through
//! whatever links stay below link roots. A relative target never leaves the package, nor the link
//! root that it is read in.
//!
//! Every component is looked at through the handle of the package or of the link root, without
//! following it, so nothing outside is opened.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::readlinkat;

use crate::link_root::{LinkRoot, find_root};
use crate::nofollow::{EntryKind, Stamp, open_dir, open_file};

/// How many links are followed from one, itself counted: as many as Linux follows.
pub const MAX_LINKS: usize = 40;

/// Where a link leads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Destination {
    /// To something that is not a link.
    Found(LinkTarget),
    /// To something under a name that is not UTF-8, so that it is no content.
    Nameless,
    /// Out of the package and of all link roots, be it only to come back.
    Outside,
    /// Nowhere.
    Nowhere,
    /// Through more than [`MAX_LINKS`] links.
    Loop,
}

/// What a link leads to in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTarget {
    /// The index of the link root that it is below; none where it is in the package.
    pub root: Option<usize>,
    /// Its path there; empty for the directory itself.
    pub path: String,
    /// Its state.
    pub stamp: Stamp,
    /// Whether the way to it passes a link of the package that leads to a directory, which is no
    /// content.
    pub passes_link: bool,
}

/// The text of the link `name` in `dir`.
///
/// # Errors
/// What `readlinkat` says; `EINVAL` where it is no link.
pub fn read_link(dir: impl AsFd, name: &[u8]) -> io::Result<Vec<u8>> {
    Ok(readlinkat(dir, name, Vec::new())?.into_bytes())
}

/// Follows a link that says `target` and is in the directory `above` of the package, empty for its own.
///
/// # Errors
/// What the system says, but for what is absent.
pub fn resolve_link(
    package: impl AsFd,
    above: &str,
    target: &[u8],
    roots: &[LinkRoot],
) -> io::Result<Destination> {
    let at = above.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let package = package.as_fd();
    let mut walk = Walk { package, roots, root: None, at, left: VecDeque::new(), passes_link: false };
    walk.run(target)
}

impl LinkTarget {
    /// Opens it for reading, through no link; the caller compares the [`Stamp`].
    ///
    /// # Errors
    /// What the system says.
    pub fn open(&self, package: impl AsFd, roots: &[LinkRoot]) -> io::Result<File> {
        match self.root {
            None => open_file(package, &self.path),
            Some(index) => open_file(root_dir(roots, index)?, &self.path),
        }
    }

    /// Its path for messages: relative to the package, absolute below a link root.
    #[must_use]
    pub fn display_path(&self, roots: &[LinkRoot]) -> String {
        match self.root.and_then(|index| roots.get(index)) {
            None => self.path.clone(),
            Some(root) => format!("{}/{}", root.path().trim_end_matches('/'), self.path),
        }
    }
}

fn root_dir(roots: &[LinkRoot], index: usize) -> io::Result<BorrowedFd<'_>> {
    let root = roots.get(index).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    Ok(root.dir().as_fd())
}

/// A way that is followed.
struct Walk<'a> {
    package: BorrowedFd<'a>,
    roots: &'a [LinkRoot],
    /// The link root in which `at` is.
    root: Option<usize>,
    /// The directory that was reached, no component of it a link.
    at: Vec<String>,
    /// The components that are left.
    left: VecDeque<Vec<u8>>,
    passes_link: bool,
}

impl Walk<'_> {
    fn run(&mut self, target: &[u8]) -> io::Result<Destination> {
        if !self.push(target) {
            return Ok(Destination::Outside);
        }
        let mut links = 1;
        while let Some(name) = self.left.pop_front() {
            match name.as_slice() {
                b"" | b"." => continue,
                b".." => {
                    if self.at.pop().is_none() {
                        return Ok(Destination::Outside);
                    }
                    continue;
                }
                _ => {}
            }
            let stamp = match self.in_dir(|dir| Stamp::at(dir, &name)) {
                Ok(stamp) => stamp,
                Err(error) if is_absent(&error) => return Ok(Destination::Nowhere),
                Err(error) => return Err(error),
            };
            match stamp.kind {
                EntryKind::Link => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Ok(Destination::Loop);
                    }
                    self.passes_link |= self.root.is_none() && !self.left.is_empty();
                    let target = self.in_dir(|dir| read_link(dir, &name))?;
                    if !self.push(&target) {
                        return Ok(Destination::Outside);
                    }
                }
                EntryKind::Directory => match String::from_utf8(name) {
                    Ok(name) => self.at.push(name),
                    Err(_) => return Ok(Destination::Nameless),
                },
                // A file has nothing below it, not even `.`.
                _ if !self.left.is_empty() => return Ok(Destination::Nowhere),
                _ => {
                    let Ok(name) = String::from_utf8(name) else { return Ok(Destination::Nameless) };
                    self.at.push(name);
                    return Ok(self.found(stamp));
                }
            }
        }
        let stamp = self.in_dir(|dir| Stamp::of(dir))?;
        Ok(self.found(stamp))
    }

    fn found(&self, stamp: Stamp) -> Destination {
        let (root, path, passes_link) = (self.root, self.at.join("/"), self.passes_link);
        Destination::Found(LinkTarget { root, path, stamp, passes_link })
    }

    /// Puts a target's components before those that are left; `false` where it is an absolute path
    /// that is not below a link root.
    fn push(&mut self, target: &[u8]) -> bool {
        let names = if target.starts_with(b"/") {
            let Some((root, names)) = find_root(self.roots, target) else { return false };
            self.root = Some(root);
            self.at.clear();
            names
        } else {
            target.split(|byte| *byte == b'/').collect()
        };
        for name in names.into_iter().rev() {
            self.left.push_front(name.to_vec());
        }
        true
    }

    /// Acts in the directory that was reached.
    fn in_dir<T>(&self, act: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
        let top = self.root.map_or(Ok(self.package), |index| root_dir(self.roots, index))?;
        if self.at.is_empty() {
            return act(top);
        }
        act(open_dir(top, &self.at.join("/"))?.as_fd())
    }
}

/// Whether nothing of a name is there, or can be.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "makes the links that are followed")]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;

    use super::*;

    /// `package/` with a file `d/f`, and `root/` and `root-evil/` beside it.
    fn place() -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        for directory in ["package/d", "package/.git", "root/d", "root-evil", "other"] {
            std::fs::create_dir_all(temp.path().join(directory)).unwrap();
        }
        let files = [
            "package/d/f",
            "package/.git/f",
            "package/f.pyc",
            "root/f",
            "root/d/f",
            "root-evil/f",
            "other/f",
        ];
        for file in files {
            std::fs::write(temp.path().join(file), file).unwrap();
        }
        temp
    }

    fn open(path: &Path) -> Dir {
        Dir::open_ambient_dir(path, ambient_authority()).unwrap()
    }

    /// Where a target leads from the top of the package, in words.
    fn resolve(place: &Path, target: &[u8]) -> String {
        let at = |name: &str| place.join(name).into_os_string().into_string().unwrap();
        let roots = ["root", "other"].map(|name| LinkRoot::new(at(name), open(&place.join(name))).unwrap());
        let package = open(&place.join("package"));
        match resolve_link(&package, "", target, &roots).unwrap() {
            Destination::Found(found) => {
                let path = found.display_path(&roots);
                if found.stamp.kind == EntryKind::File {
                    let opened = found.open(&package, &roots).unwrap();
                    assert_eq!(Stamp::of(opened).unwrap(), found.stamp);
                }
                let kind = crate::describe_kind(found.stamp.kind);
                format!("{kind} {}", path.strip_prefix(place.to_str().unwrap()).unwrap_or(&path))
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_target_stays_in_the_package_or_is_below_a_link_root() {
        let temp = place();
        let top = temp.path().to_str().unwrap();
        let link = |target: &str, path: &str| symlink(target, temp.path().join(path)).unwrap();
        link("d", "package/to-d");
        link(&format!("{top}/root/f"), "package/to-root");
        link("../d/f", "root/d/up");
        link("../../other/f", "root/d/out");
        link(&format!("{top}/other/f"), "root/across");
        link("across", "root/twice");
        link(&format!("{top}/package/d/f"), "root/back");
        link(&format!("{top}/root"), "alias");
        link(&format!("{top}/alias/f"), "root/by-alias");
        link("absent", "root/dangling");
        link("d", "root/to-d");
        symlink("circle", temp.path().join("root/circle")).unwrap();
        for (target, expected) in [
            ("d/f", "file d/f"),
            ("./d/..//d/f", "file d/f"),
            ("to-d/f", "file d/f"),
            ("d", "directory d"),
            (".", "directory "),
            ("d/f/", "Nowhere"),
            ("d/f/x", "Nowhere"),
            ("none", "Nowhere"),
            ("../package/d/f", "Outside"),
            // No relative target leaves the package, even for a link root.
            ("../root/f", "Outside"),
            ("/etc/passwd", "Outside"),
            ("to-root", "file /root/f"),
            ("TOP/root/f", "file /root/f"),
            ("TOP/root/./d//f", "file /root/d/f"),
            ("TOP/root/d/up", "file /root/d/f"),
            ("TOP/root/to-d/f", "file /root/d/f"),
            ("TOP/root/across", "file /other/f"),
            ("TOP/root/twice", "file /other/f"),
            ("TOP/root", "directory /root/"),
            ("TOP/root/d/..", "directory /root/"),
            ("TOP/root/d/out", "Outside"),
            ("TOP/root/../other/f", "Outside"),
            ("TOP/root/../root/f", "Outside"),
            ("TOP/root/back", "Outside"),
            ("TOP/package/d/f", "Outside"),
            ("TOP/root-evil/f", "Outside"),
            ("TOP/roo", "Outside"),
            // A link root is its canonical path; another way to it is none.
            ("TOP/alias/f", "Outside"),
            ("TOP/root/by-alias", "Outside"),
            ("TOP/root/dangling", "Nowhere"),
            ("TOP/root/none", "Nowhere"),
            ("TOP/root/circle", "Loop"),
        ] {
            let found = resolve(temp.path(), target.replace("TOP", top).as_bytes());
            assert_eq!(found, expected, "{target}");
        }
        for directory in ["package", "root"] {
            let name = std::ffi::OsStr::from_bytes(b"b\xff");
            std::fs::write(temp.path().join(directory).join(name), "x").unwrap();
        }
        assert_eq!(resolve(temp.path(), b"b\xff"), "Nameless");
        assert_eq!(resolve(temp.path(), &[top.as_bytes(), b"/root/b\xff"].concat()), "Nameless");
    }

    #[test]
    fn as_many_links_are_followed_as_linux_follows() {
        let temp = place();
        symlink("d/f", temp.path().join("package/1")).unwrap();
        for number in 2..=MAX_LINKS {
            symlink((number - 1).to_string(), temp.path().join(format!("package/{number}"))).unwrap();
        }
        let last = temp.path().join("package").join(MAX_LINKS.to_string());
        assert_eq!(std::fs::read_to_string(last).unwrap(), "package/d/f");
        // The link that is asked for counts as one.
        assert_eq!(resolve(temp.path(), (MAX_LINKS - 1).to_string().as_bytes()), "file d/f");
        assert_eq!(resolve(temp.path(), MAX_LINKS.to_string().as_bytes()), "Loop");
    }
}
