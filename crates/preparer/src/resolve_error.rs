//! Why a selection means nothing that could be frozen.

use std::io;

use skillfreeze_catalog::Stale;
use skillfreeze_manifest::{Diagnostic, Digest, SkillId};
use skillfreeze_store::{AddError, RevisionNumber, StoreError};

use crate::selection::Reference;

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
    /// No source in force has the name that it names.
    #[error("`{reference}` names a source that is not in force")]
    UnknownSource {
        /// As given.
        reference: Reference,
        /// The sources that are.
        sources: Vec<String>,
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
    /// Its user has switched it off.
    #[error("`{reference}` is disabled")]
    Disabled {
        /// As given.
        reference: Reference,
    },
    /// What is enabled by name is neither in a source nor in the store.
    #[error("{} enabled and not there", list(.ids))]
    Missing {
        /// All of them, sorted.
        ids: Vec<SkillId>,
    },
    /// Several sources have it, and the policy is that none of them wins.
    #[error("`{reference}` is in several sources: {}", .choices.join(", "))]
    Contested {
        /// As given.
        reference: Reference,
        /// What each of them is named by, `source:id`.
        choices: Vec<String>,
    },
    /// It is no longer what the catalog says.
    #[error("`{reference}` changed after it was found")]
    Stale {
        /// As given.
        reference: Reference,
        /// What changed.
        source: Stale,
    },
    /// What a link in a source led to cannot be opened any more.
    #[error("`{reference}` cannot be opened any more")]
    Gone {
        /// As given.
        reference: Reference,
        /// What the system says.
        source: io::Error,
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
            Self::UnknownSource { .. } => "selection-unknown",
            Self::Inactive { .. } => "selection-inactive",
            Self::Invalid { .. } => "selection-invalid",
            Self::Ambiguous { .. } => "selection-ambiguous",
            Self::Conflict { .. } => "selection-conflict",
            Self::Disabled { .. } => "selection-disabled",
            Self::Missing { .. } => "selection-missing",
            Self::Contested { .. } => "id-conflict",
            Self::Stale { source, .. } => source.code(),
            Self::Gone { .. } => "catalog-stale",
            Self::Add { source, .. } => source.code(),
        }
    }
}

fn list(ids: &[SkillId]) -> String {
    let names: Vec<String> = ids.iter().map(|id| format!("`{id}`")).collect();
    format!("{} {}", names.join(", "), if ids.len() == 1 { "is" } else { "are" })
}
