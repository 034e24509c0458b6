//! The sources in force: opened by their paths, each time anew.

use std::fs;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use skillfreeze::catalog::{COLLECTION_FILE, Definition, Layout, Source};

use crate::context::{canonical, open_dir};
use crate::exit::Failure;

/// A source that is found by its path at each scan, so that one that vanished may return.
#[derive(Debug)]
pub(crate) struct PathSource {
    definition: Definition,
}

impl PathSource {
    pub(crate) fn new(definition: Definition) -> Self {
        Self { definition }
    }
}

impl Source for PathSource {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn open(&self) -> io::Result<Dir> {
        Dir::open_ambient_dir(&self.definition.path, ambient_authority())
    }

    fn follow(&self, _: &Dir, name: &str) -> io::Result<(Dir, Utf8PathBuf)> {
        let real = fs::canonicalize(self.definition.path.join(name))?;
        let real = Utf8PathBuf::from_path_buf(real).map_err(|_| io::ErrorKind::InvalidFilename)?;
        Ok((Dir::open_ambient_dir(&real, ambient_authority())?, real))
    }
}

/// The source that the command line names with this directory.
pub(crate) fn typed(directory: &Utf8Path) -> Result<Definition, Failure> {
    let path = canonical(directory)?;
    let id = directory.as_str();
    let id = if id.len() > 1 { id.trim_end_matches('/') } else { id };
    let root = open_dir(&path)?;
    let has = |name: &str| root.symlink_metadata(name).is_ok();
    let mut definition = Definition::new(id, path);
    definition.required = true;
    definition.layout = if has("SKILL.md") {
        Layout::Package
    } else if has(COLLECTION_FILE) {
        Layout::Collection(1)
    } else {
        Layout::Children
    };
    Ok(definition)
}
