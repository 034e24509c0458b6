//! What is said of a name that nothing has.

use skillfreeze_catalog::Catalog;
use skillfreeze_manifest::{Diagnostic, Severity, SkillId};
use skillfreeze_store::Store;

use crate::resolve_error::ResolveError;
use crate::selection::Reference;

/// Says why nothing is what a reference means: what has the name is invalid, or nothing has it, and
/// then which ids look like it.
#[must_use]
pub fn absent(catalog: &Catalog, store: Option<&Store>, reference: &Reference) -> ResolveError {
    let diagnostics: Vec<Diagnostic> =
        faults(catalog, reference).into_iter().map(|(_, fault)| fault.clone()).collect();
    if !diagnostics.is_empty() {
        return ResolveError::Invalid { reference: reference.clone(), diagnostics };
    }
    let mut sources: Vec<&str> =
        catalog.sources().iter().map(|source| source.definition.id.as_str()).collect();
    sources.dedup();
    if let Some(wanted) = &reference.source
        && !sources.contains(&wanted.as_str())
    {
        let sources = sources.into_iter().map(str::to_owned).collect();
        return ResolveError::UnknownSource { reference: reference.clone(), sources };
    }
    let revisions = store.map(|store| store.revisions().unwrap_or_default()).unwrap_or_default();
    let in_store = revisions.into_iter().map(|revision| revision.id);
    let in_sources = catalog.packages().iter().map(|found| found.id().clone());
    let mut near: Vec<SkillId> =
        in_store.chain(in_sources).filter(|id| looks_like(id, &reference.id)).collect();
    near.sort();
    near.dedup();
    ResolveError::Unknown { reference: reference.clone(), near }
}

/// What is wrong with what a reference would mean if it could be used, with its source.
pub(crate) fn faults<'a>(catalog: &'a Catalog, reference: &Reference) -> Vec<(&'a str, &'a Diagnostic)> {
    let mut faults = Vec::new();
    for left in catalog.left_out() {
        let source = catalog.source_id(left.source);
        let is_own_name = left.own_name() == Some(reference.id.as_str());
        let is_named = left.id.as_ref().map_or(is_own_name, |id| *id == reference.id);
        if is_named && reference.source.as_ref().is_none_or(|wanted| wanted == source) {
            let errors = left.diagnostics.iter().filter(|fault| fault.severity == Severity::Error);
            faults.extend(errors.map(|error| (source, error)));
        }
    }
    faults
}

/// Whether somebody who typed `wanted` may have meant `id`.
fn looks_like(id: &SkillId, wanted: &SkillId) -> bool {
    let (id, wanted) = (id.as_str(), wanted.as_str());
    // Of two short names hardly a letter is the same by chance.
    let distance = (wanted.len() / 3).min(2);
    (wanted.len() > 2 && id.contains(wanted))
        || (id.len() > 2 && wanted.contains(id))
        || strsim::damerau_levenshtein(id, wanted) <= distance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_matches() {
        let near = |id: &str, wanted: &str| looks_like(&id.parse().unwrap(), &wanted.parse().unwrap());
        assert!(near("pdf-tools", "pdf-tool") && near("pdf-tools", "pdf") && near("pdf-tools", "pfd-tools"));
        assert!(near("pdf", "pfd"));
        assert!(
            !near("pdf-tools", "spreadsheet") && !near("a", "f") && !near("a", "pdf") && !near("pdf", "zz")
        );
    }
}
