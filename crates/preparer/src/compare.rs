//! Comparing: whether a source has what the active revision of the store has, which is taken.
//!
//! What a source has is read as it would be if it were added, and stored nowhere. Nothing of it can
//! keep the revision from being taken; it is only said.

use skillfreeze_catalog::{Catalog, Found};
use skillfreeze_manifest::{Diagnostic, Severity};
use skillfreeze_store::{AddOptions, Revision, inspect};

use crate::resolve::candidate;

/// Says that a source has another content than the revision, or one that cannot be used.
pub(crate) fn compare(
    catalog: &Catalog,
    found: &Found,
    revision: &Revision,
    options: &AddOptions<'_>,
) -> Option<Diagnostic> {
    let source = catalog.source_id(found.source);
    let located = match catalog.locate(found) {
        Ok(located) => located,
        Err(error) => return Some(invalid(source, &error.to_string())),
    };
    match inspect(&candidate(catalog, found, &located), options) {
        Ok(inspected) if inspected.listing.digest() == revision.digest => None,
        Ok(_) => Some(differs(source, revision)),
        Err(error) => {
            let faults = error.diagnostics();
            let first = faults.iter().find(|fault| fault.severity == Severity::Error);
            Some(invalid(source, &first.map_or_else(|| error.to_string(), ToString::to_string)))
        }
    }
}

/// What is said where a source has another content than the active revision.
fn differs(source: &str, revision: &Revision) -> Diagnostic {
    let message = format!(
        "the source `{}` has another content than the active revision {}",
        source.escape_debug(),
        revision.number
    );
    let note = Diagnostic::new(Severity::Warning, "source-differs", message);
    note.hint(format!("`{}@source` selects it", revision.id))
}

/// What is said where a source has something that cannot be used in the place of the active revision.
pub(crate) fn invalid(source: &str, fault: &str) -> Diagnostic {
    let message = format!("what the source `{}` has cannot be used: {fault}", source.escape_debug());
    Diagnostic::new(Severity::Warning, "source-invalid", message)
}
