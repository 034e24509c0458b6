//! Where a package is read from.

use std::ops::Deref;

use cap_std::fs::Dir;
use skillfreeze_manifest::{Form, LinkRoot};

/// Where a package is read from.
#[derive(Debug)]
#[non_exhaustive]
pub struct Located<'a> {
    /// The directory that it is in.
    pub root: Handle<'a>,
    /// Its path there, `.` for that directory itself.
    pub path: String,
    /// Its own name, which its front matter is compared with, if it has one.
    pub name: Option<String>,
    /// What it is.
    pub form: Form,
    /// The directories outside of it that its links may lead into.
    pub link_roots: Vec<LinkRoot>,
}

/// A directory's handle: the catalog's own, or one that was opened for this.
#[derive(Debug)]
pub enum Handle<'a> {
    /// The root of the source.
    Kept(&'a Dir),
    /// Where a link led.
    Opened(Dir),
}

impl Deref for Handle<'_> {
    type Target = Dir;

    fn deref(&self) -> &Dir {
        match self {
            Self::Kept(dir) => dir,
            Self::Opened(dir) => dir,
        }
    }
}
