//! The places where packages are discovered.

use camino::Utf8PathBuf;
use cap_std::fs::Dir;

/// A directory in which packages lie.
#[derive(Debug)]
pub struct Source {
    /// The name by which `source:id` reaches it; no two sources of a scan share one.
    pub id: String,
    /// Its absolute, canonical path, for messages alone.
    pub path: Utf8PathBuf,
    /// The open directory, through which everything is read.
    pub root: Dir,
    /// Where in it packages lie.
    pub layout: Layout,
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
}
