//! All about one skill: what the sources hold under its id, and its revisions in the store.

use serde::Serialize;
use skillfreeze::manifest::{Digest, FileEntry, SkillId, Version};
use skillfreeze::preparer::{Pick, Reference, ResolveError, absent};
use skillfreeze::store::{Origin, Revision, Store};

use super::found::{Place, places};
use crate::context::Context;
use crate::exit::Failure;
use crate::output::table;
use crate::sources::{SourceArgs, Sources, fault_of};

/// What `show SKILL --json` prints.
#[derive(Debug, Serialize)]
struct SkillOutput {
    schema: &'static str,
    id: SkillId,
    enabled: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    found: Vec<Place>,
    revisions: Vec<RevisionOutput>,
}

#[derive(Debug, Serialize)]
struct RevisionOutput {
    number: u32,
    revision: String,
    digest: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<Version>,
    active: bool,
    added_at: String,
    added_by: String,
    origin: Origin,
    files: Vec<FileEntry>,
}

/// Shows what a reference names. Within the result stands why it names nothing.
pub(super) fn show(
    context: &Context,
    args: &SourceArgs,
    reference: &Reference,
) -> Result<Result<(), ResolveError>, Failure> {
    let sources = Sources::find(context, args, false)?;
    let progress = context.progress();
    let catalog = sources.scan(&progress)?;
    args.refuse_faults(&catalog)?;
    let store = context.store_to_read()?;
    let enabled = sources.enablement(store.as_ref())?.allows(&reference.id);
    let all = store.as_ref().map(|store| store.revisions_of(&reference.id)).transpose()?.unwrap_or_default();
    let active = all.iter().find(|revision| revision.active).map(|revision| revision.digest);
    let found = places(&catalog, sources.limits, reference, active);
    drop(progress);
    let revisions = revisions(store.as_ref(), all, reference)?;
    if found.is_empty() && revisions.is_empty() {
        return Ok(Err(absent(&catalog, store.as_ref(), reference)));
    }
    let output = context.output();
    catalog.sources().iter().filter_map(fault_of).for_each(|fault| output.warning(&fault));
    for place in &found {
        output.diagnostics(&place.heading(), &place.diagnostics);
    }
    let id = reference.id.clone();
    let shown = SkillOutput { schema: "skillfreeze.show-skill.v1", id, enabled, found, revisions };
    output.data(&shown, || shown.text())?;
    Ok(Ok(()))
}

/// The revisions that a reference names, or leaves open.
fn revisions(
    store: Option<&Store>,
    mut all: Vec<Revision>,
    reference: &Reference,
) -> Result<Vec<RevisionOutput>, Failure> {
    let Some(store) = store else { return Ok(Vec::new()) };
    let is_named = |revision: &Revision| match &reference.pick {
        Pick::Source => false,
        Pick::Default => true,
        Pick::Number(number) => revision.number == *number,
        Pick::Version(version) => revision.version.as_ref() == Some(version),
        Pick::Digest(hex) => revision.digest.hex().starts_with(hex),
    };
    let is_of_source = |revision: &Revision| {
        reference.source.as_ref().is_none_or(|source| revision.origin.source.as_ref() == Some(source))
    };
    all.retain(|revision| is_named(revision) && is_of_source(revision));
    let one = |revision: Revision| {
        let listing = store.listing(&revision.digest)?;
        let files = listing.map_or_else(Vec::new, |listing| listing.files().to_vec());
        let Revision { number, digest, version, active, added_at, added_by, origin, .. } = revision;
        let (number, revision) = (number.get(), digest.revision());
        Ok(RevisionOutput { number, revision, digest, version, active, added_at, added_by, origin, files })
    };
    all.into_iter().map(one).collect()
}

impl SkillOutput {
    fn text(&self) -> String {
        let mut text = String::new();
        if !self.enabled {
            text.push_str(&format!("{} is disabled\n", self.id));
        }
        self.found.iter().for_each(|place| text.push_str(&place.text()));
        for revision in &self.revisions {
            text.push_str(&format!("{}@{}{}\n", self.id, revision.number, self.state(revision)));
            text.push_str(&revision.text());
        }
        text
    }

    /// Whether a revision is the active one, and whether the source holds another content.
    fn state(&self, revision: &RevisionOutput) -> String {
        if !revision.active {
            return String::new();
        }
        let first = self.found.first().filter(|place| place.shadowed_by.is_none());
        match first.map(|place| (place.heading(), place.differs)) {
            Some((reference, Some(true))) => format!(" (active; the source differs: {reference})"),
            Some((reference, None)) => format!(" (active; the source cannot be used: {reference})"),
            _ => " (active)".to_owned(),
        }
    }
}

impl RevisionOutput {
    fn text(&self) -> String {
        let version = self.version.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        let added = format!("{} by {}", self.added_at, self.added_by);
        let rows = [
            ("digest", self.digest.to_string()),
            ("version", version),
            ("added", added),
            ("from", self.origin.path.clone()),
        ];
        let rows = table(&rows.map(|(name, value)| vec![format!("  {name}"), value]));
        let file = |file: &FileEntry| {
            let mode = if file.executable { "x" } else { "-" };
            vec![format!("  {mode}"), file.size.to_string(), file.path.to_string()]
        };
        rows + &table(&self.files.iter().map(file).collect::<Vec<_>>())
    }
}
