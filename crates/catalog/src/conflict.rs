//! One package an id: which of several wins, and where the others went.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use skillfreeze_manifest::{Diagnostic, Form, Limits, Severity, SkillId, fold, for_each, open_dir};

use crate::catalog::{Catalog, CatalogSource};
use crate::collection::{self, Collection};
use crate::equal::{same_directory, same_file};
use crate::found::{Found, LeftOut, Place};
use crate::scan::{ScanError, ScanOptions};

/// Which of several packages with one id wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ConflictPolicy {
    /// That of the lowest rank.
    #[default]
    First,
    /// That of the highest rank.
    Last,
    /// None: a bare id that several have is an error once it is selected.
    Error,
}

/// Everything that was found, in the order of ranks and directories, before conflicts are resolved.
#[derive(Debug, Default)]
pub(crate) struct Everything {
    pub(crate) packages: Vec<Found>,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) collections: Vec<Collection>,
}

impl Catalog {
    /// Gives each id to one package.
    ///
    /// # Errors
    /// [`ScanError::Cancelled`].
    pub(crate) fn resolve(
        sources: Vec<CatalogSource>,
        everything: Everything,
        policy: ConflictPolicy,
        options: &ScanOptions<'_>,
    ) -> Result<Self, ScanError> {
        let Everything { mut packages, mut left_out, mut collections } = everything;
        collection::refuse_later(&mut packages, &mut collections, |source| {
            sources.get(source).is_some_and(|source| source.definition.reserved)
        });
        let mut catalog = Self {
            sources,
            packages: Vec::new(),
            shadowed: Vec::new(),
            copies: Vec::new(),
            left_out: Vec::new(),
            collections,
            reserved: BTreeSet::new(),
        };
        catalog.reserved = catalog.reserved_names(&packages, &left_out);

        let bundled = packages.iter().filter(|found| catalog.is_reserved(found));
        let bundled: BTreeSet<SkillId> = bundled.map(|found| found.id().clone()).collect();
        let mut by_id: BTreeMap<SkillId, Vec<Found>> = BTreeMap::new();
        for found in packages {
            // Beside the bundled skill itself it may yet turn out to be the same.
            if !bundled.contains(found.id())
                && let Some(reason) = catalog.reserved_fault(&found)
            {
                left_out.push(LeftOut::of(&found, reason));
                continue;
            }
            by_id.entry(found.id().clone()).or_default().push(found);
        }
        let mut groups: Vec<(Found, Vec<Found>)> = Vec::with_capacity(by_id.len());
        for mut group in by_id.into_values() {
            let winner = group.remove(catalog.winner(&group, policy));
            groups.push((winner, group));
        }
        let pairs: Vec<(&Found, &Found)> = groups
            .iter()
            .flat_map(|(winner, others)| others.iter().map(move |other| (winner, other)))
            .collect();
        let same = for_each(pairs.len(), |index| {
            !options.is_cancelled() && catalog.same_content(pairs[index].0, pairs[index].1, &options.limits)
        });
        if options.is_cancelled() {
            return Err(ScanError::Cancelled);
        }
        let mut same = same.into_iter();

        for (mut winner, others) in groups {
            for mut other in others {
                if same.next().unwrap_or(false) {
                    winner.diagnostics.push(catalog.same_content_note(&other));
                    winner.origins.push(other.place());
                    catalog.copies.push(other);
                    continue;
                }
                if let Some(reason) = catalog.reserved_fault(&other) {
                    left_out.push(LeftOut::of(&other, reason));
                    continue;
                }
                if policy == ConflictPolicy::Error {
                    winner.contested_by.push(other.place());
                }
                other.shadowed_by = Some(winner.place());
                left_out.push(LeftOut::of(&other, catalog.shadowed_note(&winner, &other)));
                catalog.shadowed.push(other);
            }
            if let Some(first) = winner.contested_by.first() {
                winner.diagnostics.insert(0, catalog.contested_note(&winner, first));
            }
            catalog.packages.push(winner);
        }
        left_out.sort_by(|first, second| {
            (first.source, first.directory.as_bytes()).cmp(&(second.source, second.directory.as_bytes()))
        });
        catalog.left_out = left_out;
        Ok(catalog)
    }

    fn is_reserved(&self, found: &Found) -> bool {
        self.sources[found.source].definition.reserved
    }

    /// Ids and directory names that are those of reserved sources alone, be their packages valid or not,
    /// folded.
    fn reserved_names(&self, packages: &[Found], left_out: &[LeftOut]) -> BTreeSet<String> {
        let is_reserved = |source: usize| self.sources[source].definition.reserved;
        let packages = packages.iter().filter(|found| is_reserved(found.source));
        let names = packages
            .flat_map(|found| [Some(found.id().to_string()), found.own_name().map(str::to_owned)])
            .flatten();
        let invalid = left_out.iter().filter(|left| {
            is_reserved(left.source)
                && left.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
        });
        let invalid = invalid.filter_map(|left| left.own_name().map(str::to_owned));
        names.chain(invalid).map(|name| fold(&name)).collect()
    }

    /// What is wrong with a package that has a name of another's, which is reserved.
    fn reserved_fault(&self, found: &Found) -> Option<Diagnostic> {
        if self.is_reserved(found) { None } else { self.reserved_name(found.id(), found.own_name()) }
    }

    /// The index of the one that wins; they come by rank.
    fn winner(&self, group: &[Found], policy: ConflictPolicy) -> usize {
        if let Some(index) = group.iter().position(|found| self.is_reserved(found)) {
            return index;
        }
        let rank = |found: &Found| self.sources[found.source].definition.rank;
        match policy {
            ConflictPolicy::First | ConflictPolicy::Error => 0,
            ConflictPolicy::Last => {
                let last = group.last().map(rank);
                group.iter().position(|found| Some(rank(found)) == last).unwrap_or(0)
            }
        }
    }

    fn same_content(&self, first: &Found, second: &Found, limits: &Limits) -> bool {
        if first.form != second.form || first.front_matter != second.front_matter {
            return false;
        }
        if first.seen.identity().is_some() && first.seen.identity() == second.seen.identity() {
            return true;
        }
        let (Ok(first), Ok(second)) = (self.locate(first), self.locate(second)) else { return false };
        match first.form {
            Form::File => same_file((&*first.root, &first.path), (&*second.root, &second.path), limits),
            Form::Directory => {
                match (open_dir(&*first.root, &first.path), open_dir(&*second.root, &second.path)) {
                    (Ok(first), Ok(second)) => same_directory(first, second, limits),
                    _ => false,
                }
            }
        }
    }

    fn shown(&self, place: &Place) -> String {
        let (source, directory) = (self.source_id(place.source), &place.directory);
        format!("`{}` in the source `{}`", directory.escape_debug(), source.escape_debug())
    }

    fn same_content_note(&self, other: &Found) -> Diagnostic {
        let message = format!("{} has the same content", self.shown(&other.place()));
        Diagnostic::new(Severity::Info, "same-content-as", message)
    }

    fn shadowed_note(&self, winner: &Found, other: &Found) -> Diagnostic {
        let note = Diagnostic::new(
            Severity::Warning,
            "shadowed-by",
            format!("{} comes first", self.shown(&winner.place())),
        );
        if self.source_id(winner.source) == self.source_id(other.source) {
            return note.hint("give one of the two another `id`");
        }
        note.hint(format!("name it `{}:{}`", self.source_id(other.source).escape_debug(), other.id()))
    }

    fn contested_note(&self, winner: &Found, other: &Place) -> Diagnostic {
        let message = format!("{} has the same id", self.shown(other));
        Diagnostic::new(Severity::Error, "id-conflict", message).hint(format!(
            "name the one that is meant: `{}:{}`",
            self.source_id(winner.source).escape_debug(),
            winner.id()
        ))
    }
}
