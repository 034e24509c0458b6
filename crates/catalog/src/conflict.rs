//! One package an id: which of several wins, and where the others went.

use std::collections::BTreeMap;

use skillfreeze_manifest::{Diagnostic, Severity, SkillId, Version};

use crate::source::Source;

/// A valid package.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// Its id.
    pub id: SkillId,
    /// Its display name, as written.
    pub name: String,
    /// Its description, as written.
    pub description: String,
    /// Its version, as written.
    pub version: Option<Version>,
    /// The index of its source.
    pub source: usize,
    /// Its directory's name in the source, as the file system has it: escape it before showing.
    pub directory: String,
    /// Warnings and infos.
    pub diagnostics: Vec<Diagnostic>,
    /// The source's index and the directory of the package that wins over it.
    pub shadowed_by: Option<(usize, String)>,
}

/// An entry of a source that [`Catalog::packages`] does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The index of its source.
    pub source: usize,
    /// Its name in the source, with what is not UTF-8 or cannot be shown escaped.
    pub directory: String,
    /// Its id, where it is a valid package.
    pub id: Option<SkillId>,
    /// Why it is left out, and what else there is to say.
    pub diagnostics: Vec<Diagnostic>,
    /// The source's index and the directory of the package that wins over it.
    pub shadowed_by: Option<(usize, String)>,
}

/// What a scan found: metadata only, ordered, conflicts resolved.
///
/// Two scans of the same bytes are equal in all but the sources' handles.
#[derive(Debug)]
pub struct Catalog {
    sources: Vec<Source>,
    packages: Vec<Found>,
    shadowed: Vec<Found>,
    left_out: Vec<LeftOut>,
}

impl Catalog {
    /// Gives each id to its first package; `found` comes in the order of sources and directories.
    pub(crate) fn resolve(sources: Vec<Source>, found: Vec<Found>, mut left_out: Vec<LeftOut>) -> Self {
        let mut winners: BTreeMap<SkillId, Found> = BTreeMap::new();
        let mut shadowed = Vec::new();
        for mut package in found {
            let Some(winner) = winners.get(&package.id) else {
                winners.insert(package.id.clone(), package);
                continue;
            };
            package.shadowed_by = Some((winner.source, winner.directory.clone()));
            let message = format!(
                "`{}` in the source `{}` comes first",
                winner.directory.escape_debug(),
                sources[winner.source].id.escape_debug()
            );
            let mut diagnostics =
                vec![Diagnostic::new(Severity::Warning, "shadowed-by", message).hint(format!(
                    "name it `{}:{}`",
                    sources[package.source].id.escape_debug(),
                    package.id
                ))];
            diagnostics.extend(package.diagnostics.iter().cloned());
            left_out.push(LeftOut {
                source: package.source,
                directory: skillfreeze_manifest::escape_bytes(package.directory.as_bytes()),
                id: Some(package.id.clone()),
                diagnostics,
                shadowed_by: package.shadowed_by.clone(),
            });
            shadowed.push(package);
        }
        left_out.sort_by(|first, second| {
            (first.source, first.directory.as_bytes()).cmp(&(second.source, second.directory.as_bytes()))
        });
        Self { sources, packages: winners.into_values().collect(), shadowed, left_out }
    }

    /// The sources that were scanned, the first of which wins.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The packages that a bare id reaches, sorted by the id's bytes.
    #[must_use]
    pub fn packages(&self) -> &[Found] {
        &self.packages
    }

    /// The rest: invalid, shadowed, or no package at all; sorted by source and directory.
    #[must_use]
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// The package that a bare id reaches.
    #[must_use]
    pub fn find(&self, id: &SkillId) -> Option<&Found> {
        let index = self.packages.binary_search_by(|package| package.id.cmp(id)).ok()?;
        self.packages.get(index)
    }

    /// The package that `source:id` reaches, be it shadowed by another source's or not.
    #[must_use]
    pub fn find_in(&self, source_id: &str, id: &SkillId) -> Option<&Found> {
        let source = self.sources.iter().position(|source| source.id == source_id)?;
        let is_it = |package: &&Found| package.source == source && package.id == *id;
        // Within a source the first directory wins, and `shadowed` keeps their order.
        self.find(id).filter(is_it).or_else(|| self.shadowed.iter().find(is_it))
    }
}
