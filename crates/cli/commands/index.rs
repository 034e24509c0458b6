//! The skill index: what `list --json` prints, and what other commands take out of it.

use std::fmt;

use camino::Utf8PathBuf;
use serde::Serialize;
use skillfreeze::catalog::{self, COUNT_PLACEHOLDER, Catalog, CatalogSource, Collection, Found, Place};
use skillfreeze::manifest::{Diagnostic, Digest, Form, Severity, SkillId, Version};
use skillfreeze::preparer;
use skillfreeze::store::Revision;

/// The schema of a skill index.
pub(crate) const INDEX_SCHEMA: &str = "skillfreeze.skill-index.v1";

/// The skill index.
#[derive(Debug, Serialize)]
pub(crate) struct Index {
    pub(crate) schema: &'static str,
    /// How many skills were asked for, on whatever page.
    pub(crate) total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_offset: Option<usize>,
    /// How many revisions are not listed because they are not active.
    #[serde(skip)]
    pub(crate) hidden: usize,
    /// What should be there and is not.
    #[serde(skip)]
    pub(crate) absent: Vec<SkillId>,
    pub(crate) skills: Vec<Skill>,
    pub(crate) collections: Vec<CollectionEntry>,
    pub(crate) sources: Vec<SourceEntry>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// One thing that could be selected: a package of a source, or a revision of the store.
#[derive(Debug, Serialize)]
pub(crate) struct Skill {
    pub(crate) id: SkillId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<Version>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) collection: Option<SkillId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_invocable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model_invocable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) directory: Option<String>,
    /// Where it is, if that is not where its source has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) real_path: Option<Utf8PathBuf>,
    /// Where else the same content lies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) origins: Vec<PlaceEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) active: Option<bool>,
    pub(crate) enabled: bool,
    /// How well it answers a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) score: Option<f64>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Skill {
    /// A package of a source.
    pub(crate) fn of_source(catalog: &Catalog, found: &Found) -> Self {
        let front_matter = &found.front_matter;
        Self {
            id: found.id().clone(),
            name: Some(front_matter.name.clone()),
            description: Some(front_matter.description.clone()),
            version: front_matter.version.clone(),
            tags: front_matter.tags.clone(),
            collection: found.collection.clone(),
            user_invocable: Some(front_matter.user_invocable),
            model_invocable: Some(!front_matter.disable_model_invocation),
            source: Some(catalog.source_id(found.source).to_owned()),
            directory: Some(found.directory.clone()),
            real_path: found.real_path.clone(),
            origins: found.origins.iter().map(|place| PlaceEntry::of(catalog, place)).collect(),
            number: None,
            digest: None,
            active: None,
            enabled: true,
            score: None,
            diagnostics: found.diagnostics.clone(),
        }
    }

    /// A revision of the store; `found` is the package of a source with its id, if it is what the id
    /// means there.
    pub(crate) fn of_revision(catalog: &Catalog, found: Option<&Found>, revision: Revision) -> Self {
        let of_source = found.map(|found| Self::of_source(catalog, found));
        Self {
            version: revision.version,
            source: revision.origin.source,
            directory: Some(revision.origin.path),
            number: Some(revision.number.get()),
            digest: Some(revision.digest),
            active: Some(revision.active),
            ..of_source.unwrap_or_else(|| Self::bare(revision.id))
        }
    }

    fn bare(id: SkillId) -> Self {
        Self {
            id,
            name: None,
            description: None,
            version: None,
            tags: Vec::new(),
            collection: None,
            user_invocable: None,
            model_invocable: None,
            source: None,
            directory: None,
            real_path: None,
            origins: Vec::new(),
            number: None,
            digest: None,
            active: None,
            enabled: true,
            score: None,
            diagnostics: Vec::new(),
        }
    }
}

/// A place in a source.
#[derive(Debug, Serialize)]
pub(crate) struct PlaceEntry {
    source: String,
    directory: String,
}

impl PlaceEntry {
    pub(crate) fn of(catalog: &Catalog, place: &Place) -> Self {
        Self { source: catalog.source_id(place.source).to_owned(), directory: place.directory.clone() }
    }
}

impl fmt::Display for PlaceEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.source, self.directory)
    }
}

/// A collection.
#[derive(Debug, Serialize)]
pub(crate) struct CollectionEntry {
    id: SkillId,
    prompt: String,
    source: String,
    directory: String,
    /// How many packages that a bare id reaches are its members.
    count: usize,
}

impl CollectionEntry {
    pub(crate) fn of(catalog: &Catalog, found: &Collection) -> Self {
        let is_member = |package: &&Found| {
            package.collection.as_ref() == Some(&found.id) && package.source == found.source
        };
        Self {
            id: found.id.clone(),
            prompt: found.prompt.clone(),
            source: catalog.source_id(found.source).to_owned(),
            directory: found.directory.clone(),
            count: catalog.packages().iter().filter(is_member).count(),
        }
    }

    /// A row of a table: its id, and its prompt as it is told.
    pub(crate) fn row(&self) -> Vec<String> {
        vec![self.id.to_string(), self.prompt.replace(COUNT_PLACEHOLDER, &self.count.to_string())]
    }
}

/// A source that was scanned.
#[derive(Debug, Serialize)]
pub(crate) struct SourceEntry {
    id: String,
    path: Utf8PathBuf,
    rank: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    reserved: bool,
    /// Why nothing of it is here.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<Diagnostic>,
}

impl SourceEntry {
    pub(crate) fn of(source: &CatalogSource) -> Self {
        let definition = &source.definition;
        Self {
            id: definition.id.clone(),
            path: definition.path.to_path_buf(),
            rank: definition.rank,
            reserved: definition.reserved,
            fault: source.fault.clone(),
        }
    }
}

/// An entry of a source that is not among the skills.
#[derive(Debug, Serialize)]
pub(crate) struct LeftOut {
    pub(crate) source: String,
    pub(crate) directory: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<SkillId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shadowed_by: Option<PlaceEntry>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Whether it is a file, and not a directory that has one.
    #[serde(skip)]
    is_file: bool,
}

impl LeftOut {
    /// Why it is left out: what is merely worth knowing is no reason where there is another.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = Diagnostic> {
        let most = self.diagnostics.iter().map(|reason| reason.severity).max();
        let reasons = self
            .diagnostics
            .iter()
            .filter(move |reason| Some(reason.severity) == most || reason.severity != Severity::Info);
        reasons.cloned().map(|mut reason| {
            if self.is_file && reason.path.is_some() {
                reason.path = self.directory.rsplit('/').next().map(str::to_owned);
            }
            reason
        })
    }

    pub(crate) fn of(catalog: &Catalog, left: &catalog::LeftOut) -> Self {
        Self {
            source: catalog.source_id(left.source).to_owned(),
            directory: left.directory.clone(),
            id: left.id.clone(),
            shadowed_by: left.shadowed_by.as_ref().map(|place| PlaceEntry::of(catalog, place)),
            diagnostics: left.diagnostics.clone(),
            is_file: left.form() == Some(Form::File),
        }
    }
}

impl From<preparer::LeftOut> for LeftOut {
    fn from(left: preparer::LeftOut) -> Self {
        let preparer::LeftOut { source, directory, id, diagnostics, .. } = left;
        Self { source, directory, id, shadowed_by: None, diagnostics, is_file: false }
    }
}
