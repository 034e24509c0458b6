//! `list`: what was found, what was left out and why.

use camino::Utf8PathBuf;
use clap::Args;
use serde::Serialize;
use skillfreeze::manifest::{Diagnostic, Digest, SkillId, Version};
use skillfreeze::preparer;

use crate::context::Context;
use crate::exit::Failure;
use crate::output::table;

/// List the skills of the sources, or of the store
///
/// Without `--source`, the store's revisions; the active ones are marked.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// A directory of packages; may be given several times, the first wins
    #[arg(long, value_name = "DIR")]
    source: Vec<Utf8PathBuf>,
    /// Show what was left out, and why
    #[arg(long)]
    skipped: bool,
}

/// What `list --json` prints: the skill index.
#[derive(Debug, Serialize)]
struct Index {
    schema: &'static str,
    skills: Vec<Skill>,
    left_out: Vec<LeftOut>,
}

#[derive(Debug, Serialize)]
struct Skill {
    id: SkillId,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    active: Option<bool>,
    diagnostics: Vec<Diagnostic>,
}

#[derive(Debug, Serialize)]
pub(crate) struct LeftOut {
    pub(crate) source: String,
    pub(crate) directory: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<SkillId>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl From<preparer::LeftOut> for LeftOut {
    fn from(left: preparer::LeftOut) -> Self {
        let preparer::LeftOut { source, directory, id, diagnostics, .. } = left;
        Self { source, directory, id, diagnostics }
    }
}

impl List {
    pub(crate) fn run(&self, context: &Context) -> Result<u8, Failure> {
        let index = if self.source.is_empty() { stored(context)? } else { self.found(context)? };
        let output = context.output();
        for skill in &index.skills {
            output.diagnostics(skill.id.as_str(), &skill.diagnostics);
        }
        output.data(&index, || self.text(&index))?;
        Ok(0)
    }

    fn found(&self, context: &Context) -> Result<Index, Failure> {
        let catalog = context.scan(&self.source, &context.progress())?;
        let source = |index: usize| catalog.source_id(index).to_owned();
        let skills = catalog.packages().iter().map(|found| Skill {
            id: found.id().clone(),
            name: Some(found.front_matter.name.clone()),
            description: Some(found.front_matter.description.clone()),
            version: found.front_matter.version.clone(),
            source: Some(source(found.source)),
            directory: Some(found.directory.clone()),
            number: None,
            digest: None,
            active: None,
            diagnostics: found.diagnostics.clone(),
        });
        let left_out = catalog.left_out().iter().map(|left| LeftOut {
            source: source(left.source),
            directory: left.directory.clone(),
            id: left.id.clone(),
            diagnostics: left.diagnostics.clone(),
        });
        Ok(Index { schema: INDEX_SCHEMA, skills: skills.collect(), left_out: left_out.collect() })
    }

    fn text(&self, index: &Index) -> String {
        let row = |skill: &Skill| {
            let version = skill.version.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
            match (skill.number, &skill.digest) {
                (Some(number), Some(digest)) => {
                    let active = if skill.active == Some(true) { "active" } else { "" };
                    vec![format!("{}@{number}", skill.id), digest.revision(), version, active.to_owned()]
                }
                _ => {
                    let description = skill.description.as_deref().unwrap_or_default();
                    vec![skill.id.to_string(), version, shorten(description)]
                }
            }
        };
        let mut text = table(&index.skills.iter().map(row).collect::<Vec<_>>());
        if self.skipped {
            let rows = index.left_out.iter().flat_map(|left| {
                let place = format!("{}/{}", left.source, left.directory);
                left.diagnostics.iter().map(move |diagnostic| vec![place.clone(), diagnostic.to_string()])
            });
            let left_out = table(&rows.collect::<Vec<_>>());
            if !left_out.is_empty() {
                text.push_str(&format!("\nleft out:\n{left_out}"));
            }
        } else if !index.left_out.is_empty() {
            text.push_str(&format!("\n{} left out; `--skipped` shows them\n", index.left_out.len()));
        }
        text
    }
}

/// The schema of a skill index.
const INDEX_SCHEMA: &str = "skillfreeze.skill-index.v1";

fn stored(context: &Context) -> Result<Index, Failure> {
    let revisions = match context.store_to_read()? {
        Some(store) => store.revisions()?,
        None => Vec::new(),
    };
    let skills = revisions.into_iter().map(|revision| Skill {
        id: revision.id,
        name: None,
        description: None,
        version: revision.version,
        source: revision.origin.source,
        directory: Some(revision.origin.path),
        number: Some(revision.number.get()),
        digest: Some(revision.digest),
        active: Some(revision.active),
        diagnostics: Vec::new(),
    });
    Ok(Index { schema: INDEX_SCHEMA, skills: skills.collect(), left_out: Vec::new() })
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
