//! What a selection was resolved to.

use skillfreeze_manifest::{Diagnostic, SkillId};
use skillfreeze_store::Revision;

use crate::freeze::Pin;

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
