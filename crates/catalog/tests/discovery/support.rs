//! Sources in a temporary directory.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use camino::Utf8PathBuf;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use skillfreeze_catalog::{
    Catalog, ConflictPolicy, Definition, Discovery, FileSource, LeftOut, Place, RootPath, ScanError,
    ScanOptions, Source,
};
use skillfreeze_manifest::{LinkRoot, SkillId};
use skillfreeze_testing::{file, package};
use tempfile::TempDir;

/// A temporary directory with sources in it.
pub(crate) struct Sources(TempDir);

impl Sources {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub(crate) fn utf8(&self, path: &str) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(self.path(path)).expect("the temporary directory is UTF-8")
    }

    pub(crate) fn root(&self, path: &str) -> RootPath {
        RootPath::try_from(self.utf8(path)).expect("the temporary directory's path is canonical")
    }

    pub(crate) fn bytes(&self, path: &str, name: &[u8]) -> PathBuf {
        self.path(path).join(OsStr::from_bytes(name))
    }

    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        file(self.path(path), content);
    }

    pub(crate) fn package(&self, path: &str) {
        let (directory, name) = path.rsplit_once('/').expect("a source and a name");
        package(self.path(directory), name);
    }

    pub(crate) fn link(&self, target: &str, path: &str) {
        symlink(target, self.path(path)).expect("the name is free");
    }

    pub(crate) fn fifo(&self, path: &str) {
        mknodat(CWD, self.path(path), FileType::Fifo, Mode::RUSR, 0).expect("the name is free");
    }

    pub(crate) fn dir(&self, path: &str) -> Dir {
        Dir::open_ambient_dir(self.path(path), ambient_authority()).expect("the directory is there")
    }

    /// A source as it is without configuration, with what `change` makes of that.
    pub(crate) fn source(&self, id: &str, change: impl FnOnce(&mut Definition)) -> Arc<dyn Source> {
        let mut definition = Definition::new(id, self.root(id));
        change(&mut definition);
        Arc::new(FileSource::new(definition, self.dir(id)))
    }

    /// A source that is opened by its path at each scan, as the program's are.
    pub(crate) fn by_path(&self, id: &str, change: impl FnOnce(&mut Definition)) -> Arc<dyn Source> {
        let mut definition = Definition::new(id, self.root(id));
        change(&mut definition);
        Arc::new(ByPath(definition))
    }

    pub(crate) fn scan(&self, ids: &[&str]) -> Catalog {
        scan(ids.iter().map(|id| self.source(id, |_| {})).collect())
    }
}

#[derive(Debug)]
struct ByPath(Definition);

impl Source for ByPath {
    fn definition(&self) -> &Definition {
        &self.0
    }

    fn open(&self) -> io::Result<Dir> {
        Dir::open_ambient_dir(&self.0.path, ambient_authority())
    }

    fn follow(&self, _: &Dir, name: &str) -> io::Result<(Dir, Utf8PathBuf)> {
        let real = self.0.path.join(name).canonicalize_utf8()?;
        Ok((Dir::open_ambient_dir(&real, ambient_authority())?, real))
    }

    fn link_roots(&self) -> Vec<LinkRoot> {
        let open = |path: &RootPath| {
            let dir = Dir::open_ambient_dir(path.as_path(), ambient_authority()).ok()?;
            LinkRoot::new(path.as_path().as_str(), dir).ok()
        };
        self.0.link_roots.iter().filter_map(open).collect()
    }
}

pub(crate) fn discovery(sources: Vec<Arc<dyn Source>>) -> Discovery {
    Discovery::new(sources, ConflictPolicy::First).expect("no source twice")
}

pub(crate) fn try_scan(sources: Vec<Arc<dyn Source>>) -> Result<Catalog, ScanError> {
    discovery(sources).scan(&ScanOptions::default())
}

pub(crate) fn scan(sources: Vec<Arc<dyn Source>>) -> Catalog {
    try_scan(sources).expect("the sources can be scanned")
}

pub(crate) fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: d\n---\nbody\n")
}

pub(crate) fn id(text: &str) -> SkillId {
    text.parse().expect("an id")
}

pub(crate) fn ids(catalog: &Catalog) -> Vec<&str> {
    catalog.packages().iter().map(|package| package.id().as_str()).collect()
}

/// `source/directory` of a place.
pub(crate) fn shown(catalog: &Catalog, place: &Place) -> String {
    format!("{}/{}", catalog.source_id(place.source), place.directory)
}

/// `id: source/directory` of what a bare id reaches.
pub(crate) fn places(catalog: &Catalog) -> Vec<String> {
    let brief =
        |found: &skillfreeze_catalog::Found| format!("{}: {}", found.id(), shown(catalog, &found.place()));
    catalog.packages().iter().map(brief).collect()
}

/// `directory: code` for all that is left out, the first reason of each.
pub(crate) fn left_out(catalog: &Catalog) -> Vec<String> {
    let brief = |left: &LeftOut| format!("{}: {}", left.directory, left.diagnostics[0].code);
    catalog.left_out().iter().map(brief).collect()
}
