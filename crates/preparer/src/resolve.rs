//! Resolving: which revision each reference means, and taking into the store what it lacks.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use skillfreeze_catalog::{Catalog, Found};
use skillfreeze_manifest::{Diagnostic, Digest, Form, Severity, SkillId};
use skillfreeze_store::{
    AddError, AddOptions, Candidate, Origin, Revision, RevisionNumber, Store, StoreError,
};

use crate::freeze::Pin;
use crate::selection::{Pick, Reference, Selection};

/// The revisions that a selection means, all of them in the store.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Resolved {
    /// In the order of their ids' bytes.
    pub packages: Vec<Chosen>,
    /// What the sources hold and is not among them, and why.
    pub left_out: Vec<LeftOut>,
}

/// One revision that was chosen.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Chosen {
    /// The revision.
    pub revision: Revision,
    /// The source that it was taken from just now; none when the store had it.
    pub source: Option<String>,
    /// What is to be said of it.
    pub diagnostics: Vec<Diagnostic>,
    /// What else has its id and was passed over, as `source/directory`.
    pub shadowed: Vec<String>,
}

impl Chosen {
    /// What freezing needs of it.
    #[must_use]
    pub fn pin(&self) -> Pin {
        let Revision { id, digest, version, .. } = self.revision.clone();
        Pin { id, digest, version }
    }
}

/// One package that was not chosen.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LeftOut {
    /// The source.
    pub source: String,
    /// Its directory there, with what is not UTF-8 escaped.
    pub directory: String,
    /// Its id, if it has one.
    pub id: Option<SkillId>,
    /// Why.
    pub diagnostics: Vec<Diagnostic>,
}

/// Why a selection means nothing that could be frozen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing has that name.
    #[error("`{reference}` is neither in a source nor in the store")]
    Unknown {
        /// As given.
        reference: Reference,
        /// Ids that look like it, sorted.
        near: Vec<SkillId>,
    },
    /// The store has it, but none of its revisions is active.
    #[error("no revision of `{reference}` is active")]
    Inactive {
        /// As given.
        reference: Reference,
        /// The numbers of its revisions, ascending.
        numbers: Vec<RevisionNumber>,
    },
    /// What has that name cannot be used.
    #[error("`{reference}` cannot be used: {}", .diagnostics.first().map_or_else(String::new, ToString::to_string))]
    Invalid {
        /// As given.
        reference: Reference,
        /// All that is wrong with it.
        diagnostics: Vec<Diagnostic>,
    },
    /// Several revisions fit.
    #[error("`{reference}` fits {} revisions", .digests.len())]
    Ambiguous {
        /// As given.
        reference: Reference,
        /// Their digests, sorted.
        digests: Vec<Digest>,
    },
    /// Two references mean different revisions of one skill.
    #[error("`{first}` and `{second}` are different revisions of one skill")]
    Conflict {
        /// One.
        first: Reference,
        /// The other.
        second: Reference,
    },
    /// A package could not be taken into the store.
    #[error("`{reference}` cannot be added to the store")]
    Add {
        /// As given.
        reference: Reference,
        /// Why.
        source: AddError,
    },
}

impl ResolveError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.code(),
            Self::Unknown { .. } => "selection-unknown",
            Self::Inactive { .. } => "selection-inactive",
            Self::Invalid { .. } => "selection-invalid",
            Self::Ambiguous { .. } => "selection-ambiguous",
            Self::Conflict { .. } => "selection-conflict",
            Self::Add { source, .. } => source.code(),
        }
    }
}

/// Where one reference leads before anything is read or written.
enum Route<'a> {
    Store(Box<Revision>),
    Source(&'a Found),
}

/// Finds the revision that each reference of a selection means, and takes into the store what only
/// a source has. Activates nothing.
///
/// A bare id means the package of the sources in force where they hold it, since they were named on
/// the command line, else the store's active revision. A faulty package is an error when it was
/// named, and left out and reported when everything was asked for. One that is not known to be
/// faulty, because it changed while it was read or the store could not hold it, is an error always.
///
/// # Errors
/// [`ResolveError`]; for what was named, before anything is frozen.
pub fn resolve(
    store: &Store,
    catalog: &Catalog,
    selection: &Selection,
    options: &AddOptions<'_>,
) -> Result<Resolved, ResolveError> {
    let mut resolved = Resolved { packages: Vec::new(), left_out: left_out(catalog) };
    match selection {
        Selection::None => {}
        Selection::All if catalog.sources().is_empty() => {
            let active = store.revisions()?.into_iter().filter(|revision| revision.active);
            resolved.packages = active.map(|revision| chosen(revision, None, Vec::new())).collect();
        }
        Selection::All => add_all(store, catalog, options, &mut resolved)?,
        Selection::These(references) => add_these(store, catalog, references, options, &mut resolved)?,
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
        source: catalog.sources()[left.source].id.clone(),
        directory: left.directory.clone(),
        id: left.id.clone(),
        diagnostics: left.diagnostics.clone(),
    });
    passed.collect()
}

fn candidate<'a>(catalog: &'a Catalog, found: &Found) -> Candidate<'a> {
    let source = &catalog.sources()[found.source];
    // A source that is a package itself holds it as `.`, which a path leaves out.
    let path: Utf8PathBuf = source.path.join(&found.directory).components().collect();
    let origin = Origin { source: Some(source.id.clone()), path: path.into_string() };
    let candidate = Candidate::new(&source.root, found.directory.as_str(), Form::Directory, origin);
    Candidate { id: Some(found.id.clone()), ..candidate }
}

fn add_all(
    store: &Store,
    catalog: &Catalog,
    options: &AddOptions<'_>,
    resolved: &mut Resolved,
) -> Result<(), ResolveError> {
    let candidates: Vec<Candidate<'_>> =
        catalog.packages().iter().map(|found| candidate(catalog, found)).collect();
    for (found, added) in catalog.packages().iter().zip(store.add(&candidates, options)?) {
        let source = catalog.sources()[found.source].id.clone();
        match added {
            Ok(added) => {
                let diagnostics = found.diagnostics.iter().cloned().chain(added.diagnostics).collect();
                resolved.packages.push(chosen(added.revision, Some(source), unique(diagnostics)));
            }
            Err(error) if error.is_refusal() => {
                let (directory, id) = (found.directory.clone(), Some(found.id.clone()));
                resolved.left_out.push(LeftOut { source, directory, id, diagnostics: error.diagnostics() });
            }
            // Everything was asked for, and this package is sound as far as anybody knows.
            Err(error) => {
                let reference = Reference { source: Some(source), id: found.id.clone(), pick: Pick::Default };
                return Err(ResolveError::Add { reference, source: error });
            }
        }
    }
    Ok(())
}

fn add_these(
    store: &Store,
    catalog: &Catalog,
    references: &[Reference],
    options: &AddOptions<'_>,
    resolved: &mut Resolved,
) -> Result<(), ResolveError> {
    let mut routes: BTreeMap<SkillId, (&Reference, Route<'_>)> = BTreeMap::new();
    for reference in references {
        let route = route(store, catalog, reference)?;
        if let Some((first, before)) = routes.get(&reference.id) {
            if !same_route(before, &route) {
                return Err(ResolveError::Conflict { first: (*first).clone(), second: reference.clone() });
            }
            continue;
        }
        routes.insert(reference.id.clone(), (reference, route));
    }
    let mut from_sources = Vec::new();
    for (reference, route) in routes.into_values() {
        match route {
            Route::Store(revision) => resolved.packages.push(chosen(*revision, None, Vec::new())),
            Route::Source(found) => from_sources.push((reference, found)),
        }
    }
    let candidates: Vec<Candidate<'_>> =
        from_sources.iter().map(|(_, found)| candidate(catalog, found)).collect();
    for ((reference, found), added) in from_sources.iter().zip(store.add(&candidates, options)?) {
        let added = added.map_err(|source| ResolveError::Add { reference: (*reference).clone(), source })?;
        let source = catalog.sources()[found.source].id.clone();
        let diagnostics = found.diagnostics.iter().cloned().chain(added.diagnostics).collect();
        resolved.packages.push(chosen(added.revision, Some(source), unique(diagnostics)));
    }
    Ok(())
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
        (Route::Source(a), Route::Source(b)) => (a.source, &a.directory) == (b.source, &b.directory),
        _ => false,
    }
}

fn route<'a>(store: &Store, catalog: &'a Catalog, reference: &Reference) -> Result<Route<'a>, ResolveError> {
    let found = match &reference.source {
        Some(source) => catalog.find_in(source, &reference.id),
        None => catalog.find(&reference.id),
    };
    let from_source = || match found {
        Some(found) => Ok(Route::Source(found)),
        None => Err(absent(store, catalog, reference)),
    };
    match &reference.pick {
        Pick::Source => from_source(),
        Pick::Default if reference.source.is_some() || found.is_some() => from_source(),
        Pick::Default => match store.active(&reference.id)? {
            Some(revision) => Ok(Route::Store(Box::new(revision))),
            None => {
                let numbers: Vec<RevisionNumber> =
                    store.revisions_of(&reference.id)?.into_iter().map(|revision| revision.number).collect();
                if numbers.is_empty() {
                    return from_source();
                }
                Err(ResolveError::Inactive { reference: reference.clone(), numbers })
            }
        },
        Pick::Number(_) | Pick::Version(_) | Pick::Digest(_) => pick_revision(store, catalog, reference),
    }
}

fn pick_revision<'a>(
    store: &Store,
    catalog: &'a Catalog,
    reference: &Reference,
) -> Result<Route<'a>, ResolveError> {
    let mut fitting: Vec<Revision> = store.revisions_of(&reference.id)?;
    fitting.retain(|revision| match &reference.pick {
        Pick::Number(number) => revision.number == *number,
        Pick::Version(version) => revision.version.as_ref() == Some(version),
        Pick::Digest(hex) => revision.digest.hex().starts_with(hex.as_str()),
        Pick::Default | Pick::Source => false,
    });
    match fitting.as_slice() {
        [] => Err(absent(store, catalog, reference)),
        [revision] => Ok(Route::Store(Box::new(revision.clone()))),
        several => {
            let mut digests: Vec<Digest> = several.iter().map(|revision| revision.digest).collect();
            digests.sort();
            Err(ResolveError::Ambiguous { reference: reference.clone(), digests })
        }
    }
}

/// Says why nothing fits: something invalid has the name, or nothing has.
fn absent(store: &Store, catalog: &Catalog, reference: &Reference) -> ResolveError {
    let fits = |left: &&skillfreeze_catalog::LeftOut| {
        let source = &catalog.sources()[left.source].id;
        let named =
            left.id.as_ref().map_or(left.directory == reference.id.as_str(), |id| *id == reference.id);
        named && reference.source.as_ref().is_none_or(|wanted| wanted == source)
    };
    let is_error = |diagnostic: &&Diagnostic| diagnostic.severity == Severity::Error;
    let diagnostics: Vec<Diagnostic> = catalog
        .left_out()
        .iter()
        .filter(fits)
        .flat_map(|left| left.diagnostics.iter().filter(is_error))
        .cloned()
        .collect();
    if !diagnostics.is_empty() {
        return ResolveError::Invalid { reference: reference.clone(), diagnostics };
    }
    let in_store = store.revisions().unwrap_or_default().into_iter().map(|revision| revision.id);
    let in_sources = catalog.packages().iter().map(|found| found.id.clone());
    let mut near: Vec<SkillId> =
        in_store.chain(in_sources).filter(|id| looks_like(id, &reference.id)).collect();
    near.sort();
    near.dedup();
    ResolveError::Unknown { reference: reference.clone(), near }
}

/// Whether somebody who typed `wanted` may have meant `id`.
fn looks_like(id: &SkillId, wanted: &SkillId) -> bool {
    let (id, wanted) = (id.as_str(), wanted.as_str());
    id.contains(wanted) || wanted.contains(id) || strsim::levenshtein(id, wanted) <= 2
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use skillfreeze_catalog::{Layout, ScanOptions, Source};
    use skillfreeze_manifest::{Limits, Silent};
    use skillfreeze_store::{Author, Describe, Described, Description};

    use super::*;

    /// Takes the directory's name for the id, but for what it is told to do to `moving`.
    struct ByDirectory<F>(F);

    impl<F: Fn() -> &'static str + Sync> Describe for ByDirectory<F> {
        fn describe(&self, package: Described<'_>) -> Result<Description, Vec<Diagnostic>> {
            let directory = package.directory.unwrap();
            let id = if directory == "moving" { self.0() } else { directory };
            Ok(Description { id: id.parse().unwrap(), version: None, diagnostics: Vec::new() })
        }
    }

    /// What changes under the reader's hands is not left out of everything like what is faulty.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "makes the source that is read")]
    fn what_is_not_known_to_be_faulty_is_not_left_out() {
        let temp = tempfile::tempdir().unwrap();
        for id in ["ok", "moving"] {
            let skill = format!("---\nname: {id}\ndescription: d\n---\n");
            std::fs::create_dir_all(temp.path().join("src").join(id)).unwrap();
            std::fs::write(temp.path().join("src").join(id).join("SKILL.md"), skill).unwrap();
        }
        std::fs::create_dir(temp.path().join("store")).unwrap();
        let open = |name: &str| Dir::open_ambient_dir(temp.path().join(name), ambient_authority()).unwrap();
        let author = Author { actor: "test".into(), clock: || "2026-01-01T00:00:00Z".into() };
        let store = Store::open(open("store"), author).unwrap();
        let path = Utf8PathBuf::from_path_buf(temp.path().join("src")).unwrap();
        let source = Source { id: "src".into(), path, root: open("src"), layout: Layout::Children };
        let catalog = Catalog::scan(vec![source], &ScanOptions::default()).unwrap();
        let all = |describe: &dyn Describe| {
            let limits = Limits::DEFAULT;
            let options =
                AddOptions { describe, limits, drop_bytecode: false, activate: false, progress: &Silent };
            match resolve(&store, &catalog, &Selection::All, &options) {
                Ok(resolved) => panic!("{resolved:?}"),
                Err(ResolveError::Add { reference, source }) => (reference.to_string(), source.code()),
                Err(error) => panic!("{error}"),
            }
        };
        let changing = || {
            let path = temp.path().join("src/moving/more");
            let before = std::fs::read_to_string(&path).unwrap_or_default();
            std::fs::write(path, before + "more").unwrap();
            "moving"
        };
        assert_eq!(all(&ByDirectory(changing)), ("src:moving".to_owned(), "source-changed"));
        assert_eq!(all(&ByDirectory(|| "other")), ("src:moving".to_owned(), "id-changed"));
    }

    #[test]
    fn near_matches() {
        let near = |id: &str, wanted: &str| looks_like(&id.parse().unwrap(), &wanted.parse().unwrap());
        assert!(near("pdf-tools", "pdf-tool") && near("pdf-tools", "pdf") && near("pdf-tools", "pfd-tools"));
        assert!(!near("pdf-tools", "spreadsheet"));
    }
}
