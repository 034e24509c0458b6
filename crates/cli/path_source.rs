//! A source that is opened by its path: what the program, unlike the libraries, may do.

use std::fs;
use std::io;
use std::sync::Arc;

use camino::Utf8PathBuf;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use skillfreeze::catalog::{Definition, Links, RootPath, Source};
use skillfreeze::manifest::LinkRoot;

use crate::project::Project;

/// A source that is found by its path at each scan, so that one that vanished may return.
#[derive(Debug)]
pub(crate) struct PathSource {
    pub(crate) definition: Definition,
    /// The directories outside of it that its links may lead into.
    pub(crate) link_roots: Vec<RootPath>,
    /// The project that it must lie in, and its path there.
    pub(crate) within: Option<(Arc<Project>, Utf8PathBuf)>,
}

impl PathSource {
    pub(crate) fn new(definition: Definition) -> Self {
        Self { definition, link_roots: Vec::new(), within: None }
    }

    /// Where its skills lie: in its root, where the links in there lead that it follows, and in what it
    /// borrows files from.
    pub(crate) fn places(&self) -> Vec<Utf8PathBuf> {
        let mut places = vec![self.definition.path.to_path_buf()];
        places.extend(self.link_roots.iter().map(|root| root.to_path_buf()));
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
            if is_below { io::ErrorKind::NotFound.into() } else { error }
        })
    }

    fn follow(&self, root: &Dir, name: &str) -> io::Result<(Dir, Utf8PathBuf)> {
        let real = match &self.within {
            Some(_) => self.definition.path.join(from_path(root.canonicalize(name)?)?),
            None => from_path(fs::canonicalize(self.definition.path.join(name))?)?,
        };
        Ok((Dir::open_ambient_dir(&real, ambient_authority())?, real))
    }

    fn link_roots(&self) -> Vec<LinkRoot> {
        let open = |path: &RootPath| {
            let dir = Dir::open_ambient_dir(path.as_path(), ambient_authority()).ok()?;
            LinkRoot::new(path.as_path().as_str(), dir).ok()
        };
        self.link_roots.iter().filter_map(open).collect()
    }
}

fn from_path(path: std::path::PathBuf) -> io::Result<Utf8PathBuf> {
    Utf8PathBuf::from_path_buf(path).map_err(|_| io::ErrorKind::InvalidFilename.into())
}
