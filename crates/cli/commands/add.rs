//! `add`: new revisions from directories.

use std::sync::Arc;

use camino::Utf8PathBuf;
use cap_std::fs::Dir;
use clap::Args;
use serde::Serialize;
use serde_json::json;
use skillfreeze::manifest::{Diagnostic, Digest, Form, SkillId, Version};
use skillfreeze::store::{AddOptions, Added, Candidate, Origin};

use crate::config_files;
use crate::context::{Context, canonical, open_dir};
use crate::describer::{Parser, Unreserved};
use crate::exit::{Failure, add_code, faults};
use crate::output::table;
use crate::sources::scan_reserved;

/// Add a new revision of a skill from its directory, and make it the active one
///
/// The same content again is the same revision. Nothing is added of a package that cannot be used.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Package directories: each holds a SKILL.md
    #[arg(required = true, value_name = "DIR")]
    sources: Vec<Utf8PathBuf>,
    /// Add without making it the active revision
    #[arg(long)]
    candidate: bool,
    /// Leave Python bytecode out instead of refusing the package
    #[arg(long)]
    drop_bytecode: bool,
}

/// What `add --json` prints.
#[derive(Debug, Serialize)]
struct AddOutput {
    schema: &'static str,
    added: Vec<AddedOutput>,
    failed: Vec<FailedOutput>,
}

#[derive(Debug, Serialize)]
struct AddedOutput {
    id: SkillId,
    number: u32,
    revision: String,
    digest: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<Version>,
    reused: bool,
    activated: bool,
    files: u64,
    bytes: u64,
    path: Utf8PathBuf,
    diagnostics: Vec<Diagnostic>,
}

#[derive(Debug, Serialize)]
struct FailedOutput {
    path: Utf8PathBuf,
    code: &'static str,
    faults: Vec<Diagnostic>,
}

impl Add {
    pub(crate) fn run(&self, context: &Context) -> Result<u8, Failure> {
        let places = self.sources.iter().map(Place::open).collect::<Result<Vec<_>, _>>()?;
        let candidates: Vec<Candidate<'_>> = places.iter().map(Place::candidate).collect();
        let project = Arc::new(context.project()?);
        let configuration = config_files::read(context.config(), &project)?;
        config_files::refuse_approval(&configuration)?;
        let progress = context.progress();
        let reserved = &scan_reserved(&configuration, &project, &progress)?;
        let store = context.store()?;
        let parser = &Parser::new(configuration.limits);
        let options = AddOptions {
            describe: &Unreserved { parser, reserved },
            ..parser.add_options(self.drop_bytecode, !self.candidate, &progress)
        };
        let results = store.add(&candidates, &options)?;
        let mut output = AddOutput { schema: "skillfreeze.add.v1", added: Vec::new(), failed: Vec::new() };
        let mut failure = None;
        for (place, result) in places.iter().zip(results) {
            match result {
                Ok(added) => {
                    context.output().diagnostics(added.revision.id.as_str(), &added.diagnostics);
                    output.added.push(added_output(place, added));
                }
                Err(error) => {
                    let path = place.path.clone();
                    let (code, faults) = (add_code(&error), faults(error.diagnostics()));
                    let failed = Failure::from(error);
                    let message = format!("cannot add `{path}`: {}", failed.message);
                    output.failed.push(FailedOutput { path, code, faults });
                    failure.get_or_insert(Failure { message, ..failed });
                }
            }
        }
        drop(progress);
        context.output().data(&output, || text(&output))?;
        let Some(mut failure) = failure else { return Ok(0) };
        if output.failed.len() > 1 {
            failure.message = format!(
                "{} of {} packages were not added; the first: {}",
                output.failed.len(),
                places.len(),
                failure.message
            );
            // Of each package its own: those of the first alone would be taken for all.
            failure.faults.clear();
            failure.details = json!({ "failed": output.failed });
        }
        Err(failure)
    }
}

fn added_output(place: &Place, added: Added) -> AddedOutput {
    let Added { revision, reused, activated, diagnostics, files, bytes, .. } = added;
    AddedOutput {
        id: revision.id,
        number: revision.number.get(),
        revision: revision.digest.revision(),
        digest: revision.digest,
        version: revision.version,
        reused,
        activated,
        files,
        bytes,
        path: place.path.clone(),
        diagnostics,
    }
}

fn text(output: &AddOutput) -> String {
    let row = |added: &AddedOutput| {
        let state = match (added.reused, added.activated) {
            (false, true) => "added, active",
            (false, false) => "added",
            (true, true) => "already there, now active",
            (true, false) => "already there",
        };
        vec![format!("{}@{}", added.id, added.number), added.digest.to_string(), state.to_owned()]
    };
    table(&output.added.iter().map(row).collect::<Vec<_>>())
}

/// A package directory, reached through the one above it so that its own name is known.
struct Place {
    above: Dir,
    name: String,
    path: Utf8PathBuf,
}

impl Place {
    fn open(given: &Utf8PathBuf) -> Result<Self, Failure> {
        let path = canonical(given)?;
        // A file, or no directory at all, is a mistake of the command line.
        open_dir(&path)?;
        let (above, name) = match (path.parent(), path.file_name()) {
            (Some(above), Some(name)) => (open_dir(above)?, name.to_owned()),
            _ => (open_dir(&path)?, ".".to_owned()),
        };
        Ok(Self { above, name, path })
    }

    fn candidate(&self) -> Candidate<'_> {
        let origin = Origin { source: None, path: self.path.to_string() };
        Candidate::new(&self.above, self.name.as_str(), Form::Directory, origin)
    }
}
