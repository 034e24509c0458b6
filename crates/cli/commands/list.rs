//! `list`: what was found, what was left out and why; with words, a search.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use clap::Args;
use serde_json::json;
use skillfreeze::catalog::{Catalog, Document, Found, Hits, Query, SearchIndex};
use skillfreeze::manifest::SkillId;
use skillfreeze::preparer::Precedence;
use skillfreeze::store::{Revision, Store};

use super::index::{CollectionEntry, INDEX_SCHEMA, Index, LeftOut, Skill, SourceEntry};
use super::watch::watch;
use crate::context::Context;
use crate::excerpt;
use crate::exit::Failure;
use crate::output::table;
use crate::sources::{Enablement, SourceArgs, Sources, fault_of};

/// List skills: what the sources hold and what the store has; with words, those that hold them
///
/// Without `--source`, what is active in the store comes before what the sources hold. A search finds
/// words in ids, names, tags and descriptions, the most telling first.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Words to search for
    #[arg(value_name = "WORDS")]
    words: Vec<String>,
    #[command(flatten)]
    pub(super) sources: SourceArgs,
    /// Show what was left out, and why
    #[arg(long)]
    skipped: bool,
    /// List the revisions too that are not active
    #[arg(long)]
    inactive: bool,
    /// List the members of this collection only
    #[arg(long, value_name = "ID")]
    collection: Option<SkillId>,
    /// List what users may invoke only
    #[arg(long)]
    user: bool,
    /// Begin after so many skills
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    offset: usize,
    /// List at most so many skills
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
    /// Print a line of JSON now, and one whenever the list is another
    ///
    /// Each names the digest of what `list --json` prints, and the ids that were added, removed and
    /// changed. It ends when nobody reads it any more.
    #[arg(long, conflicts_with_all = ["words", "skipped", "offset", "limit"])]
    watch: bool,
}

impl List {
    pub(crate) fn run(&self, context: &Context) -> Result<u8, Failure> {
        if self.watch {
            return watch(self, context);
        }
        let sources = Sources::find(context, &self.sources, false)?;
        let catalog = sources.scan(&context.progress())?;
        let store = context.store_to_read()?;
        let enablement = sources.enablement(store.as_ref())?;
        let index = self.index(&catalog, &sources, store.as_ref(), &enablement)?;

        let output = context.output();
        let error = self.sources.refuse_faults(&catalog);
        if error.is_ok() {
            catalog.sources().iter().filter_map(fault_of).for_each(|fault| output.warning(&fault));
        }
        for absent in &index.absent {
            output.warning(&format!("`{absent}` is enabled, but neither a source nor the store has it"));
        }
        output.findings(index.skills.iter().map(|skill| (skill.id.to_string(), &skill.diagnostics[..])));
        output.data(&index, || self.text(&index, output.colors_data()))?;
        error.map(|()| 0)
    }

    /// What there is to list.
    pub(super) fn index(
        &self,
        catalog: &Catalog,
        sources: &Sources,
        store: Option<&Store>,
        enablement: &Enablement,
    ) -> Result<Index, Failure> {
        let revisions = match store {
            Some(store) if sources.precedence == Precedence::Store => store.revisions()?,
            _ => Vec::new(),
        };
        if let Some(wanted) = &self.collection
            && !catalog.collections().iter().any(|collection| collection.id == *wanted)
        {
            let message = format!("there is no collection `{wanted}`");
            let known: Vec<_> = catalog.collections().iter().map(|collection| &collection.id).collect();
            return Err(Failure::new("collection-unknown", message).details(json!({ "collections": known })));
        }
        let mut skills = rows(catalog, revisions, enablement);
        let is_there =
            |id: &&SkillId| skills.iter().any(|skill| skill.id == **id && skill.active != Some(false));
        let absent = enablement.wanted.iter().filter(|id| !is_there(id)).cloned().collect();
        let all = skills.len();
        // What is not active is no answer to what there is, unless it is asked for.
        skills.retain(|skill| self.inactive || skill.active != Some(false));
        let hidden = all - skills.len();
        let is_asked_for = |skill: &Skill| {
            (self.collection.is_none() || skill.collection == self.collection)
                && (!self.user || skill.user_invocable == Some(true))
        };
        let (skills, total, next_offset) = if self.words.is_empty() {
            skills.retain(is_asked_for);
            let total = skills.len();
            let page =
                skills.into_iter().skip(self.offset).take(self.limit.map_or(usize::MAX, NonZeroUsize::get));
            let page: Vec<Skill> = page.collect();
            let next = self.offset.saturating_add(page.len());
            (page, total, (next < total).then_some(next))
        } else {
            self.search(skills, is_asked_for)
        };
        Ok(Index {
            schema: INDEX_SCHEMA,
            total,
            next_offset,
            hidden,
            absent,
            skills,
            collections: catalog
                .collections()
                .iter()
                .map(|found| CollectionEntry::of(catalog, found))
                .collect(),
            sources: catalog.sources().iter().map(SourceEntry::of).collect(),
            left_out: catalog.left_out().iter().map(|left| LeftOut::of(catalog, left)).collect(),
        })
    }

    fn search(
        &self,
        skills: Vec<Skill>,
        is_asked_for: impl Fn(&Skill) -> bool,
    ) -> (Vec<Skill>, usize, Option<usize>) {
        let index = SearchIndex::new(skills.iter().map(|skill| Document {
            id: skill.id.as_str(),
            name: skill.name.as_deref().unwrap_or_default(),
            tags: &skill.tags,
            description: skill.description.as_deref().unwrap_or_default(),
            in_collection: skill.collection.is_some(),
        }));
        let by_id: BTreeMap<&str, &Skill> = skills.iter().map(|skill| (skill.id.as_str(), skill)).collect();
        let words = self.words.join(" ");
        let allowed = |id: &str| by_id.get(id).is_some_and(|skill| is_asked_for(skill));
        let query = Query::new(&words).allowed(&allowed).page(self.offset, self.limit);
        let Hits { hits, total, next_offset, .. } = index.search(&query);
        let mut skills: Vec<Option<Skill>> = skills.into_iter().map(Some).collect();
        let found = hits.into_iter().filter_map(|hit| {
            let mut skill = skills.get_mut(hit.document)?.take()?;
            skill.score = Some(hit.score);
            Some(skill)
        });
        (found.collect(), total, next_offset)
    }

    fn text(&self, index: &Index, is_colored: bool) -> String {
        let row = |skill: &Skill| {
            let name = match skill.number {
                Some(number) => format!("{}@{number}", skill.id),
                None => skill.id.to_string(),
            };
            let version = skill.version.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
            let state = match (skill.active, skill.enabled) {
                (_, false) => "disabled",
                (Some(true), _) => "active",
                (Some(false), _) => "inactive",
                (None, _) => "",
            };
            let digest = skill.digest.map_or_else(String::new, |digest| digest.revision());
            let description = skill.description.as_deref().map(shorten).unwrap_or_default();
            [name, version, state.to_owned(), digest, description]
        };
        let mut rows: Vec<[String; 5]> = index.skills.iter().map(row).collect();
        // A column that says nothing of any skill is no column.
        let is_said: Vec<bool> =
            (0..5).map(|column| rows.iter().any(|row| !row[column].is_empty())).collect();
        let rows: Vec<Vec<String>> = rows
            .iter_mut()
            .map(|row| {
                row.iter_mut()
                    .zip(&is_said)
                    .filter(|(_, said)| **said)
                    .map(|(cell, _)| std::mem::take(cell))
                    .collect()
            })
            .collect();
        let mut parts = vec![table(&rows)];
        if let Some(next) = index.next_offset {
            parts.push(format!("{} in all; `--offset {next}` shows more\n", index.total));
        }
        if self.words.is_empty() && !index.collections.is_empty() {
            let rows: Vec<_> = index.collections.iter().map(CollectionEntry::row).collect();
            parts.push(format!("collections:\n{}", table(&rows)));
        }
        let mut hints = Vec::new();
        if self.skipped {
            if !index.left_out.is_empty() {
                parts.push(format!("left out:\n{}", left_out(&index.left_out, is_colored)));
            }
        } else if !index.left_out.is_empty() {
            hints.push(format!("{} left out; `--skipped` shows them\n", index.left_out.len()));
        }
        if index.hidden > 0 && self.words.is_empty() {
            hints.push(format!("{} not active; `--inactive` shows them\n", index.hidden));
        }
        parts.push(hints.concat());
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }
}

/// A line for each reason why something is left out, and below it the line of the file that is meant.
fn left_out(left_out: &[LeftOut], is_colored: bool) -> String {
    let reasons = left_out.iter().flat_map(|left| {
        let place = format!("{}/{}", left.source, left.directory);
        left.reasons().map(move |reason| (place.clone(), reason))
    });
    let (rows, reasons): (Vec<_>, Vec<_>) =
        reasons.map(|(place, reason)| (vec![place, reason.to_string()], reason)).unzip();
    let mut text = String::new();
    for (line, reason) in table(&rows).lines().zip(reasons) {
        text.push_str(&format!("{line}\n"));
        if let Some(block) = excerpt::block(&reason, is_colored) {
            text.push_str(&format!("{block}\n"));
        }
    }
    text
}

/// Everything that could be selected, by id: what sources hold, and the store's revisions by number.
fn rows(catalog: &Catalog, revisions: Vec<Revision>, enablement: &Enablement) -> Vec<Skill> {
    let mut found: BTreeMap<&SkillId, &Found> =
        catalog.packages().iter().map(|found| (found.id(), found)).collect();
    let mut skills: Vec<Skill> = Vec::new();
    for revision in revisions {
        // What is active is what the id means, unless it is bundled; the source's package is then
        // `id@source`.
        let is_meant = revision.active && !catalog.reserves(revision.id.as_str());
        let source = if is_meant { found.remove(&revision.id) } else { None };
        skills.push(Skill::of_revision(catalog, source, revision));
    }
    skills.extend(found.into_values().map(|found| Skill::of_source(catalog, found)));
    for skill in &mut skills {
        skill.enabled = enablement.allows(&skill.id);
    }
    skills.sort_by(|first, second| (&first.id, first.number).cmp(&(&second.id, second.number)));
    skills
}

/// The first line of a description, as much of it as a terminal's line holds.
fn shorten(description: &str) -> String {
    const CHARS: usize = 80;
    let line = description.trim().lines().next().unwrap_or_default();
    if line.chars().count() <= CHARS {
        return line.to_owned();
    }
    let cut: String = line.chars().take(CHARS - 1).collect();
    format!("{cut}…")
}
