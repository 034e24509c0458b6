//! `prepare`: freezes a selection and prints its digest.

use camino::Utf8PathBuf;
use clap::Args;
use serde::Serialize;
use skillfreeze::Store;
use skillfreeze::manifest::{Diagnostic, Digest, SkillId, Version};
use skillfreeze::preparer::{Existing, Resolved, Snapshot};

use super::index::LeftOut;
use super::selecting::{SelectionArgs, Take, prepare};
use crate::config_files::refuse_approval;
use crate::context::Context;
use crate::exit::Failure;
use crate::sources::{SourceArgs, Sources};

/// Freeze a selection of skills into a snapshot, and print its digest
///
/// Without a skill, everything is frozen that is enabled: what the sources hold and, unless `--source`
/// names them, what is active in the store. A faulty package is then left out and reported; one that
/// is named is an error.
#[derive(Debug, Args)]
pub(crate) struct Prepare {
    /// Skills: `id`, `id@3`, `id@version=1.2.0`, `id@sha256:…`, `source:id`
    #[arg(value_name = "SKILL", conflicts_with_all = ["all", "none"])]
    skills: Vec<String>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    sources: SourceArgs,
    /// Leave Python bytecode out instead of refusing the package
    #[arg(long)]
    drop_bytecode: bool,
}

/// What `prepare --json` prints.
#[derive(Debug, Serialize)]
struct PrepareOutput {
    schema: &'static str,
    snapshot: Digest,
    path: Utf8PathBuf,
    reused: bool,
    packages: Vec<Package>,
    left_out: Vec<LeftOut>,
    set_aside: Vec<String>,
    files: usize,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Package {
    id: SkillId,
    digest: Digest,
    revision: String,
    number: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    shadowed: Vec<String>,
    diagnostics: Vec<Diagnostic>,
}

impl Prepare {
    pub(crate) fn run(&self, context: &Context) -> Result<u8, Failure> {
        let selection = self.selection.selection(&self.skills)?;
        let store = context.store()?;
        let progress = context.progress();
        let sources = Sources::find(context, &self.sources, true)?;
        refuse_approval(&sources.configuration)?;
        let take = Take { drop_bytecode: self.drop_bytecode, existing: Existing::Check, progress: &progress };
        let prepared = prepare(context, &store, &selection, &sources, &take);
        drop(progress);
        let (resolved, snapshot) = prepared?;
        let path = context.root()?.join(Store::snapshot_path(&snapshot.digest));
        let output = describe(resolved, snapshot, path);
        context.output().data(&output, || output.snapshot.to_string())?;
        Ok(0)
    }
}

fn describe(resolved: Resolved, snapshot: Snapshot, path: Utf8PathBuf) -> PrepareOutput {
    let packages = resolved.packages.into_iter().map(|package| Package {
        id: package.revision.id,
        digest: package.revision.digest,
        revision: package.revision.digest.revision(),
        number: package.revision.number.get(),
        version: package.revision.version,
        source: package.source,
        shadowed: package.shadowed,
        diagnostics: package.diagnostics,
    });
    let left_out = resolved.left_out.into_iter().map(LeftOut::from);
    PrepareOutput {
        schema: "skillfreeze.prepare.v1",
        snapshot: snapshot.digest,
        path,
        reused: snapshot.reused,
        packages: packages.collect(),
        left_out: left_out.collect(),
        set_aside: snapshot.set_aside,
        files: snapshot.manifest.file_count(),
        bytes: snapshot.manifest.bytes(),
    }
}
