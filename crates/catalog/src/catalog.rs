//! The catalog: what a scan of the sources found.

use std::collections::BTreeSet;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use camino::Utf8PathBuf;
use cap_std::fs::Dir;
use serde::Serialize;
use skillfreeze_manifest::{
    Diagnostic, Digest, Form, LinkRoot, Severity, SkillId, Stamp, escape_bytes, to_canonical_bytes,
};

use crate::collection::Collection;
use crate::front_matter::FrontMatter;
use crate::route::Seen;
use crate::source::{Definition, Source};
use crate::walk::Lead;

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
    pub(crate) seen: Seen,
}

impl Found {
    pub(crate) fn new(lead: &Lead, seen: Seen, mut front_matter: FrontMatter) -> Self {
        let diagnostics = std::mem::take(&mut front_matter.diagnostics);
        Self {
            front_matter,
            source: 0,
            directory: lead.path.clone(),
            form: lead.form,
            collection: lead.collection.clone(),
            real_path: None,
            origins: Vec::new(),
            contested_by: Vec::new(),
            diagnostics,
            shadowed_by: None,
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

    /// The last component of its path; none of a source that is a package itself.
    pub(crate) fn own_name(&self) -> Option<&str> {
        own_name(&self.directory)
    }

    fn reach(&self) -> Reach {
        Reach { form: self.form, is_link: self.real_path.is_some() }
    }
}

fn own_name(directory: &str) -> Option<&str> {
    directory.rsplit('/').next().filter(|name| *name != ".")
}

/// An entry of a source that [`Catalog::packages`] does not have.
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
    pub(crate) fn new(lead: &Lead, seen: Seen, diagnostics: Vec<Diagnostic>) -> Self {
        let directory = if lead.is_utf8 { escape_bytes(lead.path.as_bytes()) } else { lead.path.clone() };
        let route = if lead.is_utf8 { lead.path.clone() } else { ".".to_owned() };
        Self { source: 0, directory, id: None, diagnostics, shadowed_by: None, route, reach: None, seen }
    }

    /// The same, of what is meant as a package.
    pub(crate) fn package(lead: &Lead, seen: Seen, diagnostics: Vec<Diagnostic>) -> Self {
        let reach = Some(Reach { form: lead.form, is_link: false });
        Self { reach, ..Self::new(lead, seen, diagnostics) }
    }

    /// Leaves a valid package out for a reason, which is said first.
    pub(crate) fn of(found: &Found, reason: Diagnostic) -> Self {
        let diagnostics = std::iter::once(reason).chain(found.diagnostics.iter().cloned()).collect();
        Self {
            source: found.source,
            directory: escape_bytes(found.directory.as_bytes()),
            id: Some(found.id().clone()),
            diagnostics,
            shadowed_by: found.shadowed_by.clone(),
            route: found.directory.clone(),
            reach: Some(found.reach()),
            seen: found.seen.clone(),
        }
    }
}

/// A source as it was scanned.
#[derive(Debug)]
#[non_exhaustive]
pub struct CatalogSource {
    /// What was known of it before.
    pub definition: Definition,
    /// Why nothing of it is here.
    pub fault: Option<Diagnostic>,
    pub(crate) root: Option<Arc<Dir>>,
    pub(crate) source: Arc<dyn Source>,
    /// The directories below the root that were listed.
    pub(crate) listed: Vec<String>,
}

impl CatalogSource {
    /// Whether its path still leads to the root that was scanned.
    fn is_there(&self) -> bool {
        let identity = |stamp: Stamp| (stamp.device, stamp.inode);
        let then = self.root.as_deref().and_then(|root| Stamp::of(root).ok()).map(identity);
        let now = self.source.open().and_then(|root| Stamp::of(&root)).ok().map(identity);
        then.is_some() && then == now
    }
}

/// What a scan found: metadata only, ordered, conflicts resolved. It never changes.
///
/// Two scans of the same bytes are equal in all but the sources' handles.
#[derive(Debug)]
pub struct Catalog {
    pub(crate) sources: Vec<CatalogSource>,
    pub(crate) packages: Vec<Found>,
    pub(crate) shadowed: Vec<Found>,
    pub(crate) copies: Vec<Found>,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) collections: Vec<Collection>,
    /// Ids and directory names that are those of reserved sources alone.
    pub(crate) reserved: BTreeSet<String>,
}

/// Something of a catalog is no longer as it was.
#[derive(Debug, thiserror::Error)]
#[error("`{id}` at `{path}` changed after it was found")]
pub struct Stale {
    /// The skill.
    pub id: SkillId,
    /// Its path.
    pub path: Utf8PathBuf,
}

impl Stale {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "catalog-stale"
    }
}

impl Catalog {
    /// The sources that were scanned, by rank.
    #[must_use]
    pub fn sources(&self) -> &[CatalogSource] {
        &self.sources
    }

    /// The packages that a bare id reaches, sorted by the id's bytes.
    #[must_use]
    pub fn packages(&self) -> &[Found] {
        &self.packages
    }

    /// The packages that others win over, as far as `source:id` can reach them; [`left_out`](Self::left_out)
    /// has them too. Sorted by the id's bytes, then by source and directory.
    #[must_use]
    pub fn shadowed(&self) -> &[Found] {
        &self.shadowed
    }

    /// The packages that are no entries of their own, because another has their id and content: they are
    /// its [`origins`](Found::origins).
    #[must_use]
    pub fn copies(&self) -> &[Found] {
        &self.copies
    }

    /// The rest: invalid, shadowed, or no package at all; sorted by source and directory.
    #[must_use]
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// The collections, by source and directory.
    #[must_use]
    pub fn collections(&self) -> &[Collection] {
        &self.collections
    }

    /// The package that a bare id reaches.
    #[must_use]
    pub fn find(&self, id: &SkillId) -> Option<&Found> {
        let index = self.packages.binary_search_by(|package| package.id().cmp(id)).ok()?;
        self.packages.get(index)
    }

    /// The package that `source:id` reaches, be it shadowed by another source's or not.
    #[must_use]
    pub fn find_in(&self, source_id: &str, id: &SkillId) -> Option<&Found> {
        let is_named = |source: usize| self.sources[source].definition.id == source_id;
        let is_it = |package: &&Found| *package.id() == *id && is_named(package.source);
        // Within a source the first directory wins, and `shadowed` keeps their order.
        let own = self.find(id).filter(is_it).or_else(|| self.shadowed.iter().find(is_it));
        own.or_else(|| self.find(id).filter(|found| found.origins.iter().any(|place| is_named(place.source))))
    }

    /// Whether a name, an id or a directory's, is that of a package of a reserved source, valid or not:
    /// nothing else may have it.
    #[must_use]
    pub fn reserves(&self, name: &str) -> bool {
        self.reserved.contains(name)
    }

    /// What is wrong with a package of no reserved source that has this id and this directory name, if
    /// one of them is [reserved](Self::reserves).
    #[must_use]
    pub fn reserved_name(&self, id: &SkillId, directory: Option<&str>) -> Option<Diagnostic> {
        let name = [Some(id.as_str()), directory].into_iter().flatten().find(|name| self.reserves(name))?;
        let message = format!(
            "the name `{}` is that of a bundled skill, which cannot be shadowed",
            name.escape_debug()
        );
        let fault = Diagnostic::new(Severity::Error, "reserved-name", message);
        Some(fault.hint("give it another id and directory"))
    }

    /// The id of the source that something lies in.
    ///
    /// # Panics
    /// If the index is of another catalog.
    #[must_use]
    pub fn source_id(&self, source: usize) -> &str {
        &self.sources[source].definition.id
    }

    /// The absolute path of something, for messages and the record.
    #[must_use]
    pub fn path_of(&self, found: &Found) -> Utf8PathBuf {
        // A source that is a package itself holds it as `.`, which a path leaves out.
        self.sources[found.source].definition.path.join(&found.directory).components().collect()
    }

    /// Opens the directory that a package is to be read from.
    ///
    /// # Errors
    /// What the system says where a link is no longer what it was.
    pub fn locate(&self, found: &Found) -> io::Result<Located<'_>> {
        self.reach(found.source, &found.directory, found.reach())
    }

    /// As [`locate`](Self::locate), for a package that is left out; `None` for what is none, such as a
    /// link that may not be followed.
    ///
    /// # Errors
    /// What the system says where a link is no longer what it was.
    pub fn locate_left_out(&self, left: &LeftOut) -> io::Result<Option<Located<'_>>> {
        left.reach.map(|reach| self.reach(left.source, &left.route, reach)).transpose()
    }

    fn reach(&self, source: usize, directory: &str, reach: Reach) -> io::Result<Located<'_>> {
        let CatalogSource { root, source, definition, .. } = &self.sources[source];
        let root = root.as_deref().ok_or(io::ErrorKind::NotFound)?;
        let Reach { form, is_link } = reach;
        let name = match own_name(directory) {
            Some(name) if form == Form::File => name.strip_suffix(".md"),
            Some(name) => Some(name),
            None => definition.path.file_name(),
        };
        let (name, link_roots) = (name.map(str::to_owned), source.link_roots());
        if is_link {
            let (dir, _) = source.follow(root, directory)?;
            return Ok(Located { root: Handle::Opened(dir), path: ".".to_owned(), name, form, link_roots });
        }
        Ok(Located { root: Handle::Kept(root), path: directory.to_owned(), name, form, link_roots })
    }

    /// Makes sure that some packages still are what the scan saw; what else changed does not matter.
    ///
    /// # Errors
    /// [`Stale`] for the first that is not.
    pub fn require_current<'a>(&self, selected: impl IntoIterator<Item = &'a Found>) -> Result<(), Stale> {
        for found in selected {
            let source = &self.sources[found.source];
            let is_current = |root: &Arc<Dir>| found.seen.is_current(root, &found.directory);
            if !source.is_there() || !source.root.as_ref().is_some_and(is_current) {
                return Err(Stale { id: found.id().clone(), path: self.path_of(found) });
            }
        }
        Ok(())
    }

    /// A digest of everything that the catalog says: another one says something else.
    #[must_use]
    pub fn digest(&self) -> Digest {
        #[derive(Serialize)]
        struct Entry<'a> {
            source: &'a str,
            directory: &'a str,
            front_matter: Option<&'a FrontMatter>,
            collection: Option<&'a SkillId>,
            places: Vec<(&'a str, &'a str)>,
            diagnostics: &'a [Diagnostic],
        }
        let packages = self.packages.iter().map(|found| Entry {
            source: self.source_id(found.source),
            directory: &found.directory,
            front_matter: Some(&found.front_matter),
            collection: found.collection.as_ref(),
            places: (found.origins.iter())
                .map(|place| (self.source_id(place.source), place.directory.as_str()))
                .collect(),
            diagnostics: &found.diagnostics,
        });
        let left_out = self.left_out.iter().map(|left| Entry {
            source: self.source_id(left.source),
            directory: &left.directory,
            front_matter: None,
            collection: left.id.as_ref(),
            places: Vec::new(),
            diagnostics: &left.diagnostics,
        });
        let collections: Vec<_> =
            self.collections.iter().map(|collection| (&collection.id, &collection.prompt)).collect();
        let faults: Vec<_> = self
            .sources
            .iter()
            .map(|source| (&source.definition.id, source.fault.as_ref().map(|fault| fault.code)))
            .collect();
        let entries: Vec<Entry<'_>> = packages.chain(left_out).collect();
        Digest::of(&to_canonical_bytes(&(entries, collections, faults)))
    }
}

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
