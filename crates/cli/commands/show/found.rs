//! A skill as a source holds it: what it says of itself, and where it stands among others.

use camino::Utf8PathBuf;
use serde::Serialize;
use serde_json::{Value, json};
use skillfreeze::catalog::{self, Catalog, Found, Permissions};
use skillfreeze::manifest::{Diagnostic, Digest, Limits, Severity, Silent, SkillId, Version};
use skillfreeze::preparer::{Pick, Reference};
use skillfreeze::store::inspect;

use crate::commands::index::PlaceEntry;
use crate::describer::{Parser, candidate, with_scan};
use crate::output::table;

/// A skill as a source holds it.
#[derive(Debug, Serialize)]
pub(super) struct Place {
    /// What reaches it; nothing does of the later of two in one source.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    source: String,
    directory: String,
    path: Utf8PathBuf,
    /// Where it is, if that is not where its source has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    real_path: Option<Utf8PathBuf>,
    /// Where else the same content lies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    origins: Vec<PlaceEntry>,
    name: String,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    license: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compatibility: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allowed_tools: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<Permissions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collection: Option<SkillId>,
    user_invocable: bool,
    model_invocable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shadowed_by: Option<PlaceEntry>,
    /// What it wins over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shadows: Vec<PlaceEntry>,
    /// Its package digest, if it can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
    /// Whether its content is another than that of the active revision, if both can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) differs: Option<bool>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// The places of `shadowed_by` and `shadows`, as they are named.
    #[serde(skip)]
    others: Others,
}

#[derive(Debug, Default)]
struct Others {
    shadowed_by: Option<String>,
    shadows: Vec<String>,
}

/// What the sources hold under a reference's id, the one that a bare id means first.
pub(super) fn places(
    catalog: &Catalog,
    limits: Limits,
    reference: &Reference,
    active: Option<Digest>,
) -> Vec<Place> {
    let found: Vec<&Found> = match (&reference.pick, &reference.source) {
        (Pick::Number(_) | Pick::Version(_) | Pick::Digest(_), _) => Vec::new(),
        (_, Some(source)) => catalog.find_in(source, &reference.id).into_iter().collect(),
        (Pick::Source, None) => catalog.find(&reference.id).into_iter().collect(),
        (Pick::Default, None) => {
            let shadowed = catalog.shadowed().iter().filter(|found| *found.id() == reference.id);
            catalog.find(&reference.id).into_iter().chain(shadowed).collect()
        }
    };
    let parser = Parser::new(limits);
    found.into_iter().map(|found| Place::of(catalog, &parser, found, active)).collect()
}

impl Place {
    fn of(catalog: &Catalog, parser: &Parser, found: &Found, active: Option<Digest>) -> Self {
        let path = catalog.path_of(found);
        let (digest, said) = read(catalog, parser, found, &path);
        let loses = |left: &&catalog::LeftOut| left.shadowed_by.as_ref() == Some(&found.place());
        let losers: Vec<catalog::Place> = catalog
            .left_out()
            .iter()
            .filter(loses)
            .map(|left| catalog::Place { source: left.source, directory: left.directory.clone() })
            .collect();
        let entry = |place: &catalog::Place| PlaceEntry::of(catalog, place);
        let name = |place: &catalog::Place| {
            let source = catalog.source_id(place.source);
            // Of two in one source the later has no name.
            if place.source == found.source {
                format!("{source}/{}", place.directory)
            } else {
                format!("{source}:{}", found.id())
            }
        };
        let others = Others {
            shadowed_by: found.shadowed_by.as_ref().map(name),
            shadows: losers.iter().map(name).collect(),
        };
        let source = catalog.source_id(found.source).to_owned();
        let reference = match &found.shadowed_by {
            None => Some(format!("{}@source", found.id())),
            Some(winner) if winner.source == found.source => None,
            Some(_) => Some(format!("{source}:{}", found.id())),
        };
        let front_matter = found.front_matter.clone();
        Self {
            reference,
            source,
            directory: found.directory.clone(),
            path,
            real_path: found.real_path.clone(),
            origins: found.origins.iter().map(entry).collect(),
            name: front_matter.name,
            description: front_matter.description,
            version: front_matter.version,
            license: front_matter.license,
            compatibility: front_matter.compatibility,
            tags: front_matter.tags,
            allowed_tools: front_matter.allowed_tools,
            permissions: front_matter.permissions,
            collection: found.collection.clone(),
            user_invocable: front_matter.user_invocable,
            model_invocable: !front_matter.disable_model_invocation,
            shadowed_by: found.shadowed_by.as_ref().map(entry),
            shadows: losers.iter().map(entry).collect(),
            digest,
            differs: digest.zip(active).map(|(digest, active)| digest != active),
            diagnostics: with_scan(said, &found.diagnostics),
            others,
        }
    }

    /// What a person reads of it.
    pub(super) fn text(&self) -> String {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let origins: Vec<String> = self.origins.iter().map(ToString::to_string).collect();
        let invoked_by = match (self.user_invocable, self.model_invocable) {
            (true, true) => "user and model",
            (true, false) => "user",
            (false, true) => "model",
            (false, false) => "nobody",
        };
        let rows = [
            ("name", self.name.clone()),
            ("description", self.description.trim().to_owned()),
            ("version", self.version.as_ref().map(ToString::to_string).unwrap_or_default()),
            ("license", text(&self.license)),
            ("compatibility", text(&self.compatibility)),
            ("tags", self.tags.join(", ")),
            ("allowed tools", self.allowed_tools.join(" ")),
            ("permissions", self.permissions.as_ref().map(permissions).unwrap_or_default()),
            ("collection", self.collection.as_ref().map(ToString::to_string).unwrap_or_default()),
            ("invoked by", invoked_by.to_owned()),
            ("source", self.source.clone()),
            ("path", self.path.to_string()),
            ("real path", self.real_path.as_ref().map(ToString::to_string).unwrap_or_default()),
            ("also in", origins.join(", ")),
            ("shadowed by", text(&self.others.shadowed_by)),
            ("shadows", self.others.shadows.join(", ")),
            (
                "digest",
                self.digest.map_or_else(|| "- (it cannot be used)".to_owned(), |digest| digest.to_string()),
            ),
        ];
        let said = rows.into_iter().filter(|(_, value)| !value.is_empty());
        let rows: Vec<_> = said.map(|(name, value)| vec![format!("  {name}"), value]).collect();
        format!("{}\n{}", self.heading(), table(&rows))
    }

    /// What it is called: by what reaches it, if anything does.
    pub(super) fn heading(&self) -> String {
        self.reference.clone().unwrap_or_else(|| format!("{}/{}", self.source, self.directory))
    }
}

/// Reads a package as it would be added: its digest, if it could be, and what is said of it.
fn read(
    catalog: &Catalog,
    parser: &Parser,
    found: &Found,
    path: &Utf8PathBuf,
) -> (Option<Digest>, Vec<Diagnostic>) {
    let located = match catalog.locate(found) {
        Ok(located) => located,
        Err(error) => {
            let message = format!("it cannot be opened any more: {error}");
            return (None, vec![Diagnostic::new(Severity::Error, "vanished", message)]);
        }
    };
    match inspect(&candidate(&located, path.as_str()), &parser.add_options(false, false, &Silent)) {
        Ok(inspected) => (Some(inspected.listing.digest()), inspected.diagnostics),
        Err(error) => (None, error.diagnostics()),
    }
}

/// Permissions in a line.
fn permissions(permissions: &Permissions) -> String {
    let value = json!(permissions);
    let shown = value.as_object().into_iter().flatten().map(|(name, value)| match value {
        Value::Array(tools) => {
            let tools: Vec<&str> = tools.iter().filter_map(Value::as_str).collect();
            format!("{name}: {}", tools.join(" "))
        }
        value => format!("{name}: {}", value.as_str().unwrap_or_default()),
    });
    shown.collect::<Vec<_>>().join(", ")
}
