//! Resolving: which revision each reference means, and taking into the store what it lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use skillfreeze_catalog::{Catalog, Found, Located};
use skillfreeze_manifest::{Diagnostic, Digest, Severity, SkillId, for_each};
use skillfreeze_store::{AddError, AddOptions, Added, Candidate, Origin, Revision, RevisionNumber, Store};

use crate::absent::{absent, faults};
use crate::compare::{compare, invalid};
use crate::resolve_error::ResolveError;
use crate::resolved::{Chosen, LeftOut, Resolved};
use crate::selection::{Pick, Reference, Selection};

/// What a selection is resolved against beside the store.
#[derive(Clone, Copy)]
pub struct InForce<'a> {
    /// What the sources hold.
    pub catalog: &'a Catalog,
    /// What a bare id means.
    pub precedence: Precedence,
    /// Whether an id may be selected.
    pub enabled: &'a dyn Fn(&SkillId) -> bool,
    /// The ids that are enabled by name: everything cannot be selected without them.
    pub wanted: &'a BTreeSet<SkillId>,
}

impl fmt::Debug for InForce<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InForce").field("precedence", &self.precedence).finish_non_exhaustive()
    }
}

/// What a bare id means when the store and a source have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precedence {
    /// The source's package: the sources were named for this one call, and nothing else is asked for.
    Sources,
    /// The store's active revision; everything is what the sources hold and what is active.
    Store,
}

/// Where one reference leads before anything is read or written.
enum Route<'a> {
    Store(Box<Revision>),
    Source(&'a Found),
}

/// Finds the revision that each reference of a selection means, and takes into the store what only
/// a source has. Activates nothing.
///
/// A faulty package is an error when it was named, and left out and reported when everything was asked
/// for. One that is not known to be faulty, because it changed while it was read or the store could
/// not hold it, is an error always.
///
/// # Errors
/// [`ResolveError`]; for what was named, before anything is frozen.
pub fn resolve(
    store: &Store,
    in_force: &InForce<'_>,
    selection: &Selection,
    options: &AddOptions<'_>,
) -> Result<Resolved, ResolveError> {
    let resolving = Resolving { store, in_force, options };
    let mut resolved = Resolved { packages: Vec::new(), left_out: left_out(in_force.catalog) };
    match selection {
        Selection::None => {}
        Selection::All => resolving.all(&mut resolved)?,
        Selection::These(references) => resolving.these(references, &mut resolved)?,
    }
    resolved.packages.sort_by(|a, b| a.revision.id.cmp(&b.revision.id));
    for package in &mut resolved.packages {
        let same_id = |passed: &&LeftOut| passed.id.as_ref() == Some(&package.revision.id);
        let shadowed = resolved.left_out.iter().filter(same_id);
        package.shadowed = shadowed.map(|passed| format!("{}/{}", passed.source, passed.directory)).collect();
    }
    Ok(resolved)
}

fn chosen(revision: Revision, source: Option<String>, diagnostics: Vec<Diagnostic>) -> Chosen {
    Chosen { revision, source, diagnostics, shadowed: Vec::new() }
}

fn left_out(catalog: &Catalog) -> Vec<LeftOut> {
    let passed = catalog.left_out().iter().map(|left| LeftOut {
        source: catalog.source_id(left.source).to_owned(),
        directory: left.directory.clone(),
        id: left.id.clone(),
        diagnostics: left.diagnostics.clone(),
    });
    passed.collect()
}

/// A revision that is taken from the store, and what its id means in the sources.
struct Stored<'a> {
    revision: Revision,
    found: Option<&'a Found>,
    diagnostics: Vec<Diagnostic>,
}

struct Resolving<'a> {
    store: &'a Store,
    in_force: &'a InForce<'a>,
    options: &'a AddOptions<'a>,
}

impl<'a> Resolving<'a> {
    fn all(&self, resolved: &mut Resolved) -> Result<(), ResolveError> {
        let InForce { catalog, precedence, enabled, wanted } = *self.in_force;
        let active: BTreeMap<SkillId, Revision> = match precedence {
            Precedence::Sources => BTreeMap::new(),
            Precedence::Store => {
                let active = self.store.revisions()?.into_iter().filter(|revision| revision.active);
                let active = active.filter(|revision| !catalog.reserves(revision.id.as_str()));
                active.map(|revision| (revision.id.clone(), revision)).collect()
            }
        };
        self.require_wanted(wanted, &active)?;
        let (mut from_sources, mut from_store) = (Vec::new(), Vec::new());
        for found in catalog.packages() {
            if !enabled(found.id()) {
                resolved.left_out.push(self.disabled(found));
            } else if let Some(revision) = active.get(found.id()) {
                let (revision, found) = (revision.clone(), Some(found));
                from_store.push(Stored { revision, found, diagnostics: Vec::new() });
            } else {
                self.require_uncontested(found, &bare(found.id()))?;
                from_sources.push((self.qualified(found), found));
            }
        }
        let only_stored = active.into_values().filter(|revision| catalog.find(&revision.id).is_none());
        let only_stored = only_stored.filter(|revision| enabled(&revision.id));
        from_store.extend(only_stored.map(|revision| self.bare_stored(revision)));
        self.take_stored(from_store, resolved);

        for ((reference, found), added) in from_sources.iter().zip(self.add(&from_sources)?) {
            match added {
                Ok(added) => resolved.packages.push(self.chosen_from_source(found, added)),
                Err(error) if error.is_refusal() && !wanted.contains(found.id()) => {
                    let source = self.source_of(found);
                    let (directory, id) = (found.directory.clone(), Some(found.id().clone()));
                    resolved.left_out.push(LeftOut {
                        source,
                        directory,
                        id,
                        diagnostics: error.diagnostics(),
                    });
                }
                // Everything was asked for, and this package is sound as far as anybody knows, or was
                // named elsewhere.
                Err(source) => return Err(ResolveError::Add { reference: reference.clone(), source }),
            }
        }
        Ok(())
    }

    fn these(&self, references: &[Reference], resolved: &mut Resolved) -> Result<(), ResolveError> {
        let mut routes: BTreeMap<SkillId, (&Reference, Route<'_>)> = BTreeMap::new();
        for reference in references {
            if !(self.in_force.enabled)(&reference.id) {
                return Err(ResolveError::Disabled { reference: reference.clone() });
            }
            let route = self.route(reference)?;
            if let Some((first, before)) = routes.get(&reference.id) {
                if !same_route(before, &route) {
                    return Err(ResolveError::Conflict {
                        first: (*first).clone(),
                        second: reference.clone(),
                    });
                }
                continue;
            }
            routes.insert(reference.id.clone(), (reference, route));
        }
        let (mut from_sources, mut from_store) = (Vec::new(), Vec::new());
        for (reference, route) in routes.into_values() {
            match route {
                Route::Source(found) => from_sources.push((reference.clone(), found)),
                Route::Store(revision) if reference.pick == Pick::Default => {
                    from_store.push(self.bare_stored(*revision));
                }
                // Who names a revision means no other.
                Route::Store(revision) => {
                    from_store.push(Stored { revision: *revision, found: None, diagnostics: Vec::new() });
                }
            }
        }
        self.take_stored(from_store, resolved);
        for ((reference, found), added) in from_sources.iter().zip(self.add(&from_sources)?) {
            let added = added.map_err(|source| ResolveError::Add { reference: reference.clone(), source })?;
            resolved.packages.push(self.chosen_from_source(found, added));
        }
        Ok(())
    }

    /// An active revision that a bare id means, and what the sources have of that id.
    fn bare_stored(&self, revision: Revision) -> Stored<'a> {
        let catalog = self.in_force.catalog;
        let found = catalog.find(&revision.id);
        let diagnostics = match found {
            Some(_) => Vec::new(),
            None => {
                let faults = faults(catalog, &bare(&revision.id)).into_iter().take(1);
                faults.map(|(source, fault)| invalid(source, &fault.to_string())).collect()
            }
        };
        Stored { revision, found, diagnostics }
    }

    /// Takes revisions that the store has, and says where a source has something else.
    fn take_stored(&self, stored: Vec<Stored<'_>>, resolved: &mut Resolved) {
        let (catalog, options) = (self.in_force.catalog, self.options);
        let compared = for_each(stored.len(), |index| {
            let Stored { revision, found, .. } = &stored[index];
            found.and_then(|found| compare(catalog, found, revision, options))
        });
        for (stored, said) in stored.into_iter().zip(compared) {
            let diagnostics = stored.diagnostics.into_iter().chain(said).collect();
            resolved.packages.push(chosen(stored.revision, None, diagnostics));
        }
    }

    /// Takes packages of sources into the store, if they still are what was found.
    fn add(&self, packages: &[(Reference, &Found)]) -> Result<Vec<Result<Added, AddError>>, ResolveError> {
        let catalog = self.in_force.catalog;
        let mut located = Vec::with_capacity(packages.len());
        for (reference, found) in packages {
            catalog
                .require_current([*found])
                .map_err(|source| ResolveError::Stale { reference: reference.clone(), source })?;
            let place = catalog.locate(found);
            located
                .push(place.map_err(|source| ResolveError::Gone { reference: reference.clone(), source })?);
        }
        let candidates: Vec<Candidate<'_>> = packages
            .iter()
            .zip(&located)
            .map(|((_, found), located)| candidate(catalog, found, located))
            .collect();
        Ok(self.store.add(&candidates, self.options)?)
    }

    fn source_of(&self, found: &Found) -> String {
        self.in_force.catalog.source_id(found.source).to_owned()
    }

    fn qualified(&self, found: &Found) -> Reference {
        Reference { source: Some(self.source_of(found)), ..bare(found.id()) }
    }

    fn chosen_from_source(&self, found: &Found, added: Added) -> Chosen {
        let diagnostics = found.diagnostics.iter().cloned().chain(added.diagnostics).collect();
        chosen(added.revision, Some(self.source_of(found)), unique(diagnostics))
    }

    fn disabled(&self, found: &Found) -> LeftOut {
        let note = Diagnostic::new(Severity::Info, "disabled", "the skill is disabled");
        LeftOut {
            source: self.source_of(found),
            directory: found.directory.clone(),
            id: Some(found.id().clone()),
            diagnostics: vec![note],
        }
    }

    fn require_wanted(
        &self,
        wanted: &BTreeSet<SkillId>,
        active: &BTreeMap<SkillId, Revision>,
    ) -> Result<(), ResolveError> {
        let is_there = |id: &SkillId| self.in_force.catalog.find(id).is_some() || active.contains_key(id);
        let missing: Vec<SkillId> = wanted.iter().filter(|id| !is_there(id)).cloned().collect();
        let Some(first) = missing.first() else { return Ok(()) };
        match self.absent(&bare(first)) {
            error @ ResolveError::Invalid { .. } => Err(error),
            _ => Err(ResolveError::Missing { ids: missing }),
        }
    }

    fn require_uncontested(&self, found: &Found, reference: &Reference) -> Result<(), ResolveError> {
        if found.contested_by.is_empty() {
            return Ok(());
        }
        let places = std::iter::once(found.place()).chain(found.contested_by.iter().cloned());
        let mut choices: Vec<String> = places
            .map(|place| format!("`{}:{}`", self.in_force.catalog.source_id(place.source), found.id()))
            .collect();
        choices.dedup();
        Err(ResolveError::Contested { reference: reference.clone(), choices })
    }

    fn route(&self, reference: &Reference) -> Result<Route<'a>, ResolveError> {
        let catalog = self.in_force.catalog;
        let found = match &reference.source {
            Some(source) => catalog.find_in(source, &reference.id),
            None => catalog.find(&reference.id),
        };
        let from_source = || match found {
            Some(found) if reference.source.is_some() => Ok(Route::Source(found)),
            Some(found) => self.require_uncontested(found, reference).map(|()| Route::Source(found)),
            None => Err(self.absent(reference)),
        };
        // What is bundled cannot be shadowed, by what was added before it was bundled either.
        let beats_store = reference.source.is_some()
            || catalog.reserves(reference.id.as_str())
            || (found.is_some() && self.in_force.precedence == Precedence::Sources);
        match &reference.pick {
            Pick::Source => from_source(),
            Pick::Default if beats_store => from_source(),
            Pick::Default => match self.store.active(&reference.id)? {
                Some(revision) => Ok(Route::Store(Box::new(revision))),
                None if found.is_some() => from_source(),
                None => {
                    let revisions = self.store.revisions_of(&reference.id)?;
                    let numbers: Vec<RevisionNumber> =
                        revisions.into_iter().map(|revision| revision.number).collect();
                    if numbers.is_empty() {
                        return from_source();
                    }
                    Err(ResolveError::Inactive { reference: reference.clone(), numbers })
                }
            },
            Pick::Number(_) | Pick::Version(_) | Pick::Digest(_) => self.pick_revision(reference),
        }
    }

    fn pick_revision(&self, reference: &Reference) -> Result<Route<'a>, ResolveError> {
        let mut fitting: Vec<Revision> = self.store.revisions_of(&reference.id)?;
        // A revision is of the source that it was taken from.
        fitting.retain(|revision| reference.source.is_none() || revision.origin.source == reference.source);
        fitting.retain(|revision| match &reference.pick {
            Pick::Number(number) => revision.number == *number,
            Pick::Version(version) => revision.version.as_ref() == Some(version),
            Pick::Digest(hex) => revision.digest.hex().starts_with(hex.as_str()),
            Pick::Default | Pick::Source => false,
        });
        match fitting.as_slice() {
            [] => Err(self.absent(reference)),
            [revision] => Ok(Route::Store(Box::new(revision.clone()))),
            several => {
                let mut digests: Vec<Digest> = several.iter().map(|revision| revision.digest).collect();
                digests.sort();
                Err(ResolveError::Ambiguous { reference: reference.clone(), digests })
            }
        }
    }

    fn absent(&self, reference: &Reference) -> ResolveError {
        absent(self.in_force.catalog, Some(self.store), reference)
    }
}

/// A package of a source, as the store is to read it.
pub(crate) fn candidate<'a>(catalog: &Catalog, found: &Found, located: &'a Located<'_>) -> Candidate<'a> {
    let source = Some(catalog.source_id(found.source).to_owned());
    let origin = Origin { source, path: catalog.path_of(found).into_string() };
    let candidate = Candidate::new(&located.root, located.path.as_str(), located.form, origin);
    Candidate {
        id: Some(found.id().clone()),
        name: located.name.clone(),
        link_roots: &located.link_roots,
        ..candidate
    }
}

fn bare(id: &SkillId) -> Reference {
    Reference { source: None, id: id.clone(), pick: Pick::Default }
}

/// The scan and the store apply one parser, so what it says comes twice.
fn unique(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut seen: Vec<Diagnostic> = Vec::new();
    diagnostics.retain(|diagnostic| {
        let is_new = !seen.contains(diagnostic);
        if is_new {
            seen.push(diagnostic.clone());
        }
        is_new
    });
    diagnostics
}

fn same_route(a: &Route<'_>, b: &Route<'_>) -> bool {
    match (a, b) {
        (Route::Store(a), Route::Store(b)) => a.digest == b.digest,
        (Route::Source(a), Route::Source(b)) => a.place() == b.place(),
        _ => false,
    }
}
