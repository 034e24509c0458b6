//! What `prepare` and `run` share: naming packages and freezing them.

use std::collections::BTreeSet;
use std::io::Read as _;

use camino::Utf8PathBuf;
use clap::Args;
use serde_json::json;
use skillfreeze::Store;
use skillfreeze::manifest::{Diagnostic, Progress};
use skillfreeze::preparer::{
    Existing, InForce, Pin, Precedence, Reference, Resolved, Selection, Snapshot, freeze, resolve,
};

use super::list::LeftOut;
use crate::context::Context;
use crate::exit::Failure;

/// More than any list of references or variables that somebody means.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Where packages come from and how they are taken in.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    /// A directory of packages; may be given several times, the first wins
    ///
    /// Replaces all other sources, and what it holds now is frozen whatever revision is active.
    #[arg(long, value_name = "DIR", value_delimiter = None)]
    pub(crate) source: Vec<Utf8PathBuf>,
    /// Leave Python bytecode out instead of refusing the package
    #[arg(long)]
    pub(crate) drop_bytecode: bool,
}

/// How packages are named.
#[derive(Debug, Args)]
pub(crate) struct SelectionArgs {
    /// Select everything that the sources hold
    #[arg(long, conflicts_with_all = ["none", "selection"])]
    pub(crate) all: bool,
    /// Select nothing
    #[arg(long, conflicts_with = "selection")]
    pub(crate) none: bool,
    /// Read references from a file, one a line, `#` for comments (`-` is standard input)
    #[arg(long, value_name = "FILE")]
    pub(crate) selection: Option<Utf8PathBuf>,
}

impl SelectionArgs {
    /// What is selected, with the references named elsewhere on the command line.
    pub(crate) fn selection(&self, named: &[String]) -> Result<Selection, Failure> {
        let mut references: Vec<Reference> = Vec::new();
        for text in named {
            references.push(text.parse()?);
        }
        if (self.all || self.none) && !references.is_empty() {
            let option = if self.all { "--all" } else { "--none" };
            return Err(Failure::usage(format!("`{option}` cannot be used with named skills")));
        }
        if self.none {
            return Ok(Selection::None);
        }
        if let Some(file) = &self.selection {
            for line in read_text(file)?.lines() {
                let line = line.split('#').next().unwrap_or_default().trim();
                if !line.is_empty() {
                    references.push(line.parse()?);
                }
            }
            if references.is_empty() {
                let failure = Failure::new("nothing-selected", format!("`{file}` names no skill"));
                return Err(failure.hint("select nothing with `--none`, if that is what is meant"));
            }
            return Ok(Selection::These(references));
        }
        Ok(if references.is_empty() { Selection::All } else { Selection::These(references) })
    }
}

/// Reads a text file that the command line names.
pub(crate) fn read_text(path: &Utf8PathBuf) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path == "-" {
        std::io::stdin().take(MAX_TEXT_BYTES).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_TEXT_BYTES).read_to_string(&mut text))
    };
    if text.len() as u64 == MAX_TEXT_BYTES {
        return Err(Failure::usage(format!("`{path}` is longer than {MAX_TEXT_BYTES} bytes")));
    }
    read.map_err(|error| Failure::io(format_args!("cannot read `{path}`"), &error))?;
    Ok(text)
}

/// The references of a selection, as the record keeps them.
pub(crate) fn requested(selection: &Selection) -> Vec<String> {
    match selection {
        Selection::All => vec!["--all".to_owned()],
        Selection::None => vec!["--none".to_owned()],
        Selection::These(references) => references.iter().map(ToString::to_string).collect(),
    }
}

/// Resolves a selection and freezes it.
pub(crate) fn prepare(
    context: &Context,
    store: &Store,
    selection: &Selection,
    sources: &SourceArgs,
    existing: Existing,
    progress: &dyn Progress,
) -> Result<(Resolved, Snapshot), Failure> {
    let catalog = context.scan(&sources.source, progress)?;
    let options = context.add_options(sources.drop_bytecode, false, progress);
    let precedence = if sources.source.is_empty() { Precedence::Store } else { Precedence::Sources };
    let wanted = BTreeSet::new();
    let in_force = InForce { catalog: &catalog, precedence, enabled: &|_| true, wanted: &wanted };
    let resolved = resolve(store, &in_force, selection, &options)?;
    report(context, &resolved);
    if *selection == Selection::All && resolved.packages.is_empty() {
        return Err(nothing(sources, resolved));
    }
    let frozen: Vec<Pin> = resolved.packages.iter().map(|package| package.pin()).collect();
    let snapshot = freeze(store, &frozen, existing, progress)?;
    for name in &snapshot.set_aside {
        context.output().warning(&format!("a damaged snapshot was set aside as `{name}` and built again"));
    }
    Ok((resolved, snapshot))
}

/// Everything was asked for, and there is nothing: rather a mistake than an empty snapshot.
fn nothing(sources: &SourceArgs, resolved: Resolved) -> Failure {
    let (message, hint) = match sources.source.as_slice() {
        [] => (
            "the store has no active revision, and no source was named".to_owned(),
            "name a directory of packages with `--source`, or select nothing with `--none`",
        ),
        [source] => (
            format!("the source `{source}` has no package that can be used"),
            "name a directory of packages, or select nothing with `--none`",
        ),
        several => (
            format!("none of the {} sources has a package that can be used", several.len()),
            "name a directory of packages, or select nothing with `--none`",
        ),
    };
    let left_out: Vec<LeftOut> = resolved.left_out.into_iter().map(LeftOut::from).collect();
    Failure::new("nothing-selected", message).hint(hint).details(json!({ "left_out": left_out }))
}

fn report(context: &Context, resolved: &Resolved) {
    let output = context.output();
    for package in &resolved.packages {
        output.diagnostics(package.revision.id.as_str(), &package.diagnostics);
    }
    for passed in &resolved.left_out {
        // What stands in a diagnostic's path is the place within the package.
        let diagnostics: Vec<Diagnostic> = passed.diagnostics.clone();
        output.diagnostics(&format!("{}/{}", passed.source, passed.directory), &diagnostics);
    }
}
