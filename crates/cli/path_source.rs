//! A source that is opened by its path: what the program, unlike the libraries, may do.

use std::fs;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use camino::Utf8PathBuf;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::fs::{Mode, OFlags, openat};
use skillfreeze::catalog::{Definition, Links, RootPath, Source};
use skillfreeze::manifest::LinkRoot;

use crate::context::leads_nowhere;
use crate::project::Project;

/// A source that is found by its path at each scan, so that one that vanished may return.
#[derive(Debug)]
pub(crate) struct PathSource {
    pub(crate) definition: Definition,
    /// The project that it must lie in, and its path there.
    pub(crate) within: Option<(Arc<Project>, Utf8PathBuf)>,
}

impl PathSource {
    pub(crate) fn new(definition: Definition) -> Self {
        Self { definition, within: None }
    }

    /// Where its skills lie: in its root, where the links in there lead that it follows, and in what it
    /// borrows files from.
    pub(crate) fn places(&self) -> Vec<Utf8PathBuf> {
        let mut places = vec![self.definition.path.to_path_buf()];
        places.extend(self.definition.link_roots.iter().map(|root| root.to_path_buf()));
        if self.definition.links == Links::Allow {
            // A name that is not UTF-8 is no skill's.
            let entries = self.definition.path.read_dir_utf8().into_iter().flatten().flatten();
            let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
            places.extend(links.map(|link| link.into_path()));
        }
        places
    }
}

impl Source for PathSource {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn open(&self) -> io::Result<Dir> {
        let opened = match &self.within {
            Some((project, path)) => project.open_dir(path),
            None => Dir::open_ambient_dir(&self.definition.path, ambient_authority()),
        };
        opened.map_err(|error| {
            // What should lie below a file is as absent as any.
            let is_below = error.kind() == io::ErrorKind::NotADirectory
                && fs::symlink_metadata(&self.definition.path).is_err();
            match error.kind() {
                _ if is_below => io::ErrorKind::NotFound.into(),
                io::ErrorKind::NotFound if leads_nowhere(&self.definition.path) => {
                    io::Error::other("it is a link to nothing, or below one")
                }
                _ => error,
            }
        })
    }

    fn follow(&self, root: &Dir, name: &str) -> io::Result<(Dir, Utf8PathBuf)> {
        if self.within.is_some() {
            return Err(io::Error::other("a project's sources follow no links"));
        }
        // By the handle, so that it is the link that was found, whatever has become of the path.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = Dir::from_std_file(openat(root, name, flags, Mode::empty())?.into());
        let real = fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd()))?;
        Ok((dir, Utf8PathBuf::from_path_buf(real).map_err(|_| io::ErrorKind::InvalidFilename)?))
    }

    fn link_roots(&self) -> Vec<LinkRoot> {
        let open = |path: &RootPath| {
            let dir = Dir::open_ambient_dir(path.as_path(), ambient_authority()).ok()?;
            LinkRoot::new(path.as_path().as_str(), dir).ok()
        };
        self.definition.link_roots.iter().filter_map(open).collect()
    }
}
