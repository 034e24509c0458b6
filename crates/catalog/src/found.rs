//! What a scan makes of one entry: a package, or something that is left out.

use camino::Utf8PathBuf;
use skillfreeze_manifest::{Diagnostic, Form, SkillId, escape_bytes};

use crate::front_matter::FrontMatter;
use crate::route::Seen;

/// Where in the sources something lies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The index of its source.
    pub source: usize,
    /// Its path in the source, as the file system has it: escape it before showing.
    pub directory: String,
}

/// A valid package.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// What it says of itself; its diagnostics are in [`diagnostics`](Self::diagnostics).
    pub front_matter: FrontMatter,
    /// The index of its source.
    pub source: usize,
    /// Its path in the source, `.` for the source itself, as the file system has it: escape it before
    /// showing.
    pub directory: String,
    /// Whether that is a directory or a file.
    pub form: Form,
    /// The collection that it is a member of.
    pub collection: Option<SkillId>,
    /// Where it really is, if a link in the source's root leads to it.
    pub real_path: Option<Utf8PathBuf>,
    /// Where else the same content lies under the same id.
    pub origins: Vec<Place>,
    /// Where else its id is taken, when the policy is that nothing wins.
    pub contested_by: Vec<Place>,
    /// Warnings and infos.
    pub diagnostics: Vec<Diagnostic>,
    /// The package that wins over it.
    pub shadowed_by: Option<Place>,
    name: Option<String>,
    pub(crate) seen: Seen,
}

/// Where a package was found in its source.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) path: String,
    /// What it is called there, which is its own name.
    pub(crate) name: Option<String>,
    pub(crate) form: Form,
    pub(crate) collection: Option<SkillId>,
}

impl Found {
    /// A package of one source, before its place among others is known.
    pub(crate) fn new(at: Entry, seen: Seen, mut front_matter: FrontMatter) -> Self {
        let diagnostics = std::mem::take(&mut front_matter.diagnostics);
        let Entry { path: directory, name, form, collection } = at;
        Self {
            front_matter,
            source: 0,
            directory,
            form,
            collection,
            real_path: None,
            origins: Vec::new(),
            contested_by: Vec::new(),
            diagnostics,
            shadowed_by: None,
            name,
            seen,
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &SkillId {
        &self.front_matter.id
    }

    /// Where it lies.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { source: self.source, directory: self.directory.clone() }
    }

    /// What it is called where it lies: its directory's name, of a file without `.md`.
    #[must_use]
    pub fn own_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn reach(&self) -> Reach {
        Reach { form: self.form, is_link: self.real_path.is_some() }
    }
}

/// An entry of a source that [`Catalog::packages`](crate::Catalog::packages) does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The index of its source.
    pub source: usize,
    /// Its path in the source, with what is not UTF-8 or cannot be shown escaped.
    pub directory: String,
    /// Its id, where it is a valid package.
    pub id: Option<SkillId>,
    /// Why it is left out, and what else there is to say.
    pub diagnostics: Vec<Diagnostic>,
    /// The package that wins over it.
    pub shadowed_by: Option<Place>,
    /// Its path as the file system has it, where it has one that can be said.
    pub(crate) route: String,
    name: Option<String>,
    /// How it is read; only of what is meant as a package.
    pub(crate) reach: Option<Reach>,
    pub(crate) seen: Seen,
}

/// How a package is read from its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) form: Form,
    /// Whether a link in the source's root leads to it.
    pub(crate) is_link: bool,
}

impl LeftOut {
    /// Leaves out what is at a path; what is not UTF-8 of it is escaped and leads nowhere.
    pub(crate) fn new(path: Result<&str, &str>, seen: Seen, diagnostics: Vec<Diagnostic>) -> Self {
        let (directory, route) = match path {
            Ok(path) => (escape_bytes(path.as_bytes()), path.to_owned()),
            Err(escaped) => (escaped.to_owned(), ".".to_owned()),
        };
        let name = route.rsplit('/').next().filter(|name| *name != ".").map(str::to_owned);
        let id = None;
        Self { source: 0, directory, id, diagnostics, shadowed_by: None, route, name, reach: None, seen }
    }

    /// The same, of what is meant as a package.
    pub(crate) fn package(at: &Entry, seen: Seen, diagnostics: Vec<Diagnostic>) -> Self {
        let reach = Some(Reach { form: at.form, is_link: false });
        Self { reach, name: at.name.clone(), ..Self::new(Ok(&at.path), seen, diagnostics) }
    }

    /// Leaves a valid package out for a reason, which is said first.
    pub(crate) fn of(found: &Found, reason: Diagnostic) -> Self {
        let diagnostics = std::iter::once(reason).chain(found.diagnostics.iter().cloned()).collect();
        Self {
            source: found.source,
            id: Some(found.id().clone()),
            shadowed_by: found.shadowed_by.clone(),
            name: found.name.clone(),
            reach: Some(found.reach()),
            ..Self::new(Ok(&found.directory), found.seen.clone(), diagnostics)
        }
    }

    /// Whether [`directory`](Self::directory) is the escaped form of a path, rather than of a name that is
    /// not UTF-8.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        self.route != "." || self.directory == "."
    }

    /// Whether it is a directory or a file, if it is meant as a package.
    #[must_use]
    pub fn form(&self) -> Option<Form> {
        self.reach.map(|reach| reach.form)
    }

    /// What it is called where it lies, if it is meant as a package: its directory's name, of a file without
    /// `.md`.
    #[must_use]
    pub fn own_name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}
