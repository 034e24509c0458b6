//! What is to become a revision: where it is, before anything of it was read.

use cap_std::fs::Dir;
use skillfreeze_manifest::{Form, LinkRoot, SkillId};

use crate::revision::Origin;

/// A package that is to be read.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// The directory below which it is.
    pub root: &'a Dir,
    /// Its path there, in which no component is a link: `.` for `root` itself.
    pub path: String,
    /// Whether a directory is at that path, or a file that is the whole package.
    pub form: Form,
    /// Its own name, which its front matter is compared with, if it has one that counts.
    pub name: Option<String>,
    /// The directories outside of it that its links may lead into.
    pub link_roots: &'a [LinkRoot],
    /// Where it comes from, for the record.
    pub origin: Origin,
    /// The id that the caller has seen, if any; another one in the hashed bytes is a fault.
    pub id: Option<SkillId>,
}

impl<'a> Candidate<'a> {
    /// Names the package at `path` below `root` that nothing is known of yet and that may have no
    /// links to the outside.
    ///
    /// Its own name is the last component of its path, else of its origin's; of a file, without
    /// `.md`.
    #[must_use]
    pub fn new(root: &'a Dir, path: impl Into<String>, form: Form, origin: Origin) -> Self {
        let path = path.into();
        let last = |path: &str| {
            let name = path.rsplit('/').next().filter(|name| !matches!(*name, "" | "." | ".."))?;
            Some(name.strip_suffix(".md").filter(|_| form == Form::File).unwrap_or(name).to_owned())
        };
        let name = last(&path).or_else(|| last(&origin.path));
        Self { root, path, form, name, link_roots: &[], origin, id: None }
    }
}
