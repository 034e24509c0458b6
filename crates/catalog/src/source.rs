//! The places where packages are discovered: what is known of each without looking, and how it is opened.
//!
//! A scan touches a source only through the handle that [`Source::open`] gives it. [`FileSource`] is
//! made of a handle and opens nothing else; a caller that may open paths, as the program may, brings a
//! source of its own, which finds a root anew that was absent before.

use std::fmt;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use cap_std::fs::Dir;
use serde::Deserialize;
use skillfreeze_manifest::LinkRoot;

use crate::root_path::RootPath;

/// The rank of a source unless it says otherwise.
pub const DEFAULT_RANK: u32 = 300;
/// The rank of a reserved source that says none.
pub const RESERVED_RANK: u32 = 600;
/// The rank of packages that a library's caller registers.
pub const REGISTERED_RANK: u32 = 250;
/// The id of the source that holds them.
pub const REGISTERED_ID: &str = "registered";

/// What is known of a source without looking at it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Definition {
    /// The name by which `source:id` reaches it; no two sources of a scan share one.
    pub id: String,
    /// Its path, for messages alone.
    pub path: RootPath,
    /// Its place among the sources: the lowest comes first.
    pub rank: u32,
    /// Where in it packages lie.
    pub layout: Layout,
    /// What becomes of links directly in its root.
    pub links: Links,
    /// The directories outside of it that links of its packages may lead into.
    pub link_roots: Vec<RootPath>,
    /// Whether its ids and directory names are its own alone: bundled packages cannot be shadowed, so that
    /// a scan without it is no scan either.
    pub reserved: bool,
    /// Whether a scan without it is no scan.
    pub required: bool,
    /// For whom it is. Sources of one scope make a layer, which is kept or scanned anew as a whole.
    pub scope: Scope,
}

impl Definition {
    /// A source at this path with everything as it is without configuration.
    #[must_use]
    pub fn new(id: impl Into<String>, path: RootPath) -> Self {
        Self {
            id: id.into(),
            path,
            rank: DEFAULT_RANK,
            layout: Layout::default(),
            links: Links::default(),
            link_roots: Vec::new(),
            reserved: false,
            required: false,
            scope: Scope::Session,
        }
    }
}

impl Definition {
    /// Whether a scan without it is no scan.
    pub(crate) fn is_needed(&self) -> bool {
        self.required || self.reserved
    }
}

/// For whom a source is, from the widest to the narrowest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Scope {
    /// For everybody on the machine.
    System,
    /// For one user.
    User,
    /// For whoever works in this project.
    Project(RootPath),
    /// For one call or one process.
    Session,
}

/// Where in a source packages lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Layout {
    /// Each direct child is one.
    #[default]
    Children,
    /// The directory itself is one; its name in the source is `.`.
    Package,
    /// Each directory at most so many levels below the root that has a `SKILL.md` is one; those above
    /// are categories.
    Nested(u8),
    /// Each file `name.md` directly in the root is one.
    Flat,
    /// The root has a `COLLECTION.json`; each directory at most so many levels below it that has a
    /// `SKILL.md` is a member.
    Collection(u8),
}

impl Layout {
    /// The greatest depth: the largest public collections have two levels of categories.
    pub const MAX_DEPTH: u8 = 8;
    /// How deep `nested` looks unless it is said.
    pub const NESTED_DEPTH: u8 = 3;
    /// How deep `collection` looks unless it is said.
    pub const COLLECTION_DEPTH: u8 = 1;
}

/// What becomes of links directly in a source's root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Links {
    /// Each is listed as not allowed.
    #[default]
    Refuse,
    /// One that leads to a directory with a `SKILL.md` is a package, wherever that is.
    Allow,
}

/// A place where packages are discovered.
pub trait Source: fmt::Debug + Send + Sync {
    /// What is known of it without looking at it; always the same.
    fn definition(&self) -> &Definition;

    /// Opens its root as it is now.
    ///
    /// # Errors
    /// [`NotFound`](io::ErrorKind::NotFound) and [`NotADirectory`](io::ErrorKind::NotADirectory) say
    /// that there is no such source, which is a fault only of one that is required.
    fn open(&self) -> io::Result<Dir>;

    /// Opens the directory that the link `name` in the root leads to, and tells where that is.
    ///
    /// Called only where the [`Definition`] allows links.
    ///
    /// # Errors
    /// What the system says, or that the source does not follow links.
    fn follow(&self, root: &Dir, name: &str) -> io::Result<(Dir, Utf8PathBuf)>;

    /// Opens the [link roots](Definition::link_roots) that are there.
    fn link_roots(&self) -> Vec<LinkRoot> {
        Vec::new()
    }
}

/// A source made of a directory's handle. Nothing outside that directory is touched, so a link is
/// followed only to what lies in it.
#[derive(Debug)]
pub struct FileSource {
    definition: Definition,
    root: Dir,
}

impl FileSource {
    /// Makes a source of a directory.
    #[must_use]
    pub fn new(definition: Definition, root: Dir) -> Self {
        Self { definition, root }
    }
}

impl Source for FileSource {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn open(&self) -> io::Result<Dir> {
        self.root.try_clone()
    }

    fn follow(&self, root: &Dir, name: &str) -> io::Result<(Dir, Utf8PathBuf)> {
        let real = root.canonicalize(name)?;
        let real = Utf8Path::from_path(&real).ok_or(io::ErrorKind::InvalidFilename)?;
        Ok((root.open_dir(real)?, self.definition.path.as_path().join(real)))
    }
}
