//! Directories of packages that the command line names: how packages lie in them.

use std::fs;
use std::num::NonZeroUsize;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use clap::{Args, ValueEnum};
use skillfreeze::catalog::{COLLECTION_FILE, Definition, Layout, Links, REGISTERED_ID};
use skillfreeze::manifest::SKILL_FILE;

use crate::context::absolute;
use crate::exit::Failure;
use crate::sources::root_path;

/// How packages lie in the directories that the command line names.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DirectoryArgs {
    /// Where in each directory named here packages lie [default: what its files say, else children]
    #[arg(long, value_name = "LAYOUT", requires = DirectoryArgs::NAMED)]
    layout: Option<LayoutArg>,
    /// How many levels deep `nested` and `collection` look [default: 3 and 1]
    #[arg(long, value_name = "N", requires = "layout", value_parser = clap::value_parser!(u8).range(1..=i64::from(Layout::MAX_DEPTH)))]
    depth: Option<u8>,
    /// What becomes of links directly in a directory named here
    #[arg(
        long,
        value_name = "LINKS",
        requires = DirectoryArgs::NAMED,
        default_value = "refuse",
        hide_default_value = true
    )]
    links: LinksArg,
    /// The most entries of a source [default: 4096]
    #[arg(long, value_name = "N")]
    pub(crate) max_packages: Option<NonZeroUsize>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LayoutArg {
    /// The directory is a package itself.
    Package,
    /// Each directory in it is one.
    Children,
    /// They lie in folders of categories.
    Nested,
    /// Each file `name.md` is one.
    Flat,
    /// They are members of a collection.
    Collection,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum LinksArg {
    /// List them as not allowed.
    #[default]
    Refuse,
    /// Take what they lead to.
    Allow,
}

impl DirectoryArgs {
    /// The group of the arguments that name directories.
    pub(crate) const NAMED: &str = "directories";

    /// The source that a directory is, named as it was typed.
    pub(crate) fn definition(&self, directory: &Utf8Path) -> Result<Definition, Failure> {
        let spelled = absolute(directory)?;
        let path = spelled.canonicalize_utf8().unwrap_or_else(|_| without_dots(&spelled));
        let id = directory.as_str();
        let id = if id.len() > 1 { id.trim_end_matches('/') } else { id };
        // The bare word is the name of something else.
        let id = if id == REGISTERED_ID { format!("./{id}") } else { id.to_owned() };
        let layout = self.layout().unwrap_or_else(|| layout_of(&path));
        let mut definition = Definition::new(id, root_path(path)?);
        definition.layout = layout;
        definition.links = match self.links {
            LinksArg::Refuse => Links::Refuse,
            LinksArg::Allow => Links::Allow,
        };
        Ok(definition)
    }

    /// What the command line says of the layout, if anything.
    fn layout(&self) -> Option<Layout> {
        Some(match self.layout? {
            LayoutArg::Package => Layout::Package,
            LayoutArg::Children => Layout::Children,
            LayoutArg::Flat => Layout::Flat,
            LayoutArg::Nested => Layout::Nested(self.depth.unwrap_or(Layout::NESTED_DEPTH)),
            LayoutArg::Collection => Layout::Collection(self.depth.unwrap_or(Layout::COLLECTION_DEPTH)),
        })
    }
}

/// What a directory's files say of its layout.
fn layout_of(path: &Utf8Path) -> Layout {
    let has = |name: &str| fs::symlink_metadata(path.join(name)).is_ok();
    // A `skill.md` is a mistake, which is told of a package and of nothing else.
    let is_misnamed = |entry: fs::DirEntry| {
        entry.file_name().eq_ignore_ascii_case(SKILL_FILE)
            && entry.file_type().is_ok_and(|kind| !kind.is_dir())
    };
    if has(SKILL_FILE) {
        Layout::Package
    } else if has(COLLECTION_FILE) {
        Layout::Collection(Layout::COLLECTION_DEPTH)
    } else if fs::read_dir(path).into_iter().flatten().flatten().any(is_misnamed) {
        Layout::Package
    } else {
        Layout::Children
    }
}

/// The path without `.` and `..`, of something that is not there, so that no link can be on the way.
fn without_dots(path: &Utf8Path) -> Utf8PathBuf {
    let mut clean = Utf8PathBuf::new();
    for component in path.components() {
        match component {
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir => drop(clean.pop()),
            component => clean.push(component),
        }
    }
    clean
}
