//! The places where packages are discovered.

use camino::Utf8PathBuf;
use cap_std::fs::Dir;

/// A directory whose direct children are packages.
#[derive(Debug)]
pub struct Source {
    /// The name by which `source:id` reaches it; no two sources of a scan share one.
    pub id: String,
    /// Its absolute, canonical path, for messages alone.
    pub path: Utf8PathBuf,
    /// The open directory, through which everything is read.
    pub root: Dir,
}
