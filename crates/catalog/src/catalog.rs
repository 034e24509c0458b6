//! The catalog: what a scan of the sources found.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use camino::Utf8PathBuf;
use cap_std::fs::Dir;
use serde::Serialize;
use skillfreeze_manifest::{Diagnostic, Digest, Severity, SkillId, Stamp, fold, to_canonical_bytes};

use crate::collection::Collection;
use crate::found::{Found, LeftOut, Reach};
use crate::front_matter::FrontMatter;
use crate::located::{Handle, Located};
use crate::source::{Definition, Source};

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
    /// Ids and directory names that are those of reserved sources alone, folded.
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
        // The same content elsewhere may be somebody else's to change.
        own.or_else(|| self.copies.iter().find(is_it))
    }

    /// Whether a name, an id or a directory's, is that of a package of a reserved source, valid or not,
    /// whatever its case: nothing else may have it.
    #[must_use]
    pub fn reserves(&self, name: &str) -> bool {
        self.reserved.contains(&fold(name))
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
        self.reach(found.source, &found.directory, found.own_name(), found.reach())
    }

    /// As [`locate`](Self::locate), for a package that is left out; `None` for what is none, such as a
    /// link that may not be followed.
    ///
    /// # Errors
    /// What the system says where a link is no longer what it was.
    pub fn locate_left_out(&self, left: &LeftOut) -> io::Result<Option<Located<'_>>> {
        left.reach.map(|reach| self.reach(left.source, &left.route, left.own_name(), reach)).transpose()
    }

    fn reach(
        &self,
        source: usize,
        directory: &str,
        name: Option<&str>,
        reach: Reach,
    ) -> io::Result<Located<'_>> {
        let CatalogSource { root, source, .. } = &self.sources[source];
        let root = root.as_deref().ok_or(io::ErrorKind::NotFound)?;
        let Reach { form, is_link } = reach;
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
            id: Option<&'a SkillId>,
            front_matter: Option<&'a FrontMatter>,
            collection: Option<&'a SkillId>,
            real_path: Option<&'a Utf8PathBuf>,
            origins: Vec<(&'a str, &'a str)>,
            diagnostics: &'a [Diagnostic],
        }
        let packages = self.packages.iter().map(|found| Entry {
            source: self.source_id(found.source),
            directory: &found.directory,
            id: Some(found.id()),
            front_matter: Some(&found.front_matter),
            collection: found.collection.as_ref(),
            real_path: found.real_path.as_ref(),
            origins: (found.origins.iter())
                .map(|place| (self.source_id(place.source), place.directory.as_str()))
                .collect(),
            diagnostics: &found.diagnostics,
        });
        let left_out = self.left_out.iter().map(|left| Entry {
            source: self.source_id(left.source),
            directory: &left.directory,
            id: left.id.as_ref(),
            front_matter: None,
            collection: None,
            real_path: None,
            origins: Vec::new(),
            diagnostics: &left.diagnostics,
        });
        let entries: Vec<Entry<'_>> = packages.chain(left_out).collect();
        let collections = self.collections.iter();
        let collections: Vec<_> = collections
            .map(|found| (&found.id, &found.prompt, self.source_id(found.source), &found.directory))
            .collect();
        let sources = self.sources.iter().map(|source| {
            let Definition { id, path, rank, reserved, .. } = &source.definition;
            (id, path.as_str(), rank, reserved, &source.fault)
        });
        Digest::of(&to_canonical_bytes(&(entries, collections, sources.collect::<Vec<_>>())))
    }
}
