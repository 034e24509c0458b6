//! What is left out of a package, told in a few lines.

use std::collections::BTreeMap;

use skillfreeze_manifest::{Diagnostic, Exclusion, Severity};

/// How many places are told where the same kind of thing is left out; then how many more there are.
const MAX_PLACES: usize = 16;

/// How often each kind of thing was left out.
#[derive(Debug, Default)]
pub(crate) struct Exclusions(BTreeMap<Exclusion, usize>);

impl Exclusions {
    /// Takes in one place, and tells of it unless there were many.
    pub(crate) fn take(&mut self, exclusion: Exclusion, path: String, diagnostics: &mut Vec<Diagnostic>) {
        let number = self.0.entry(exclusion).or_default();
        *number += 1;
        if *number <= MAX_PLACES {
            let message = format!("{} is left out", describe(exclusion));
            diagnostics.push(Diagnostic::new(Severity::Info, exclusion.code(), message).at_path(path));
        }
    }

    /// Tells in how many more places something was left out.
    pub(crate) fn finish(&self, diagnostics: &mut Vec<Diagnostic>) {
        for (exclusion, number) in &self.0 {
            let more = number.saturating_sub(MAX_PLACES);
            if more > 0 {
                let message = format!("{} is left out in {more} more places", describe(*exclusion));
                diagnostics.push(Diagnostic::new(Severity::Info, exclusion.code(), message));
            }
        }
    }
}

fn describe(exclusion: Exclusion) -> &'static str {
    match exclusion {
        Exclusion::VersionControl => "version control data",
        Exclusion::OsMetadata => "metadata of an operating system",
        Exclusion::Bytecode => "Python bytecode",
        _ => "what belongs to no package",
    }
}
