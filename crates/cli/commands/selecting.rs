//! What `prepare` and `run` share: naming packages and freezing them.

use std::io::Read as _;

use camino::Utf8PathBuf;
use clap::Args;
use serde_json::json;
use skillfreeze::Store;
use skillfreeze::catalog::{Catalog, CatalogSource};
use skillfreeze::manifest::Progress;
use skillfreeze::preparer::{
    Existing, InForce, Pin, Reference, ResolveError, Resolved, Selection, Snapshot, freeze, resolve,
};

use super::index::LeftOut;
use crate::context::Context;
use crate::describer::Parser;
use crate::exit::Failure;
use crate::sources::{Sources, fault_of};

/// More than any list of references or variables that somebody means.
const MAX_TEXT_BYTES: u64 = 1 << 20;

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
    sources: &Sources,
    take: &Take<'_>,
) -> Result<(Resolved, Snapshot), Failure> {
    let catalog = sources.scan(take.progress)?;
    catalog.sources().iter().filter_map(fault_of).for_each(|fault| context.output().warning(&fault));
    let enablement = sources.enablement(Some(store))?;
    let parser = Parser::new(sources.limits);
    let options = parser.add_options(take.drop_bytecode, false, take.progress);
    let in_force = InForce {
        catalog: &catalog,
        precedence: sources.precedence,
        enabled: &|id| enablement.allows(id),
        wanted: &enablement.wanted,
    };
    let mut resolved = resolve(store, &in_force, selection, &options).map_err(|error| match &error {
        ResolveError::Disabled { reference } => {
            let remedy = enablement.remedy(&reference.id);
            Failure::from(error).hint(remedy)
        }
        _ => Failure::from(error),
    })?;
    for left in &mut resolved.left_out {
        let notes = left.diagnostics.iter_mut().filter(|note| note.code == "disabled");
        for (note, id) in notes.zip(&left.id) {
            note.hint = Some(enablement.remedy(id));
        }
    }
    report(context, &resolved);
    if *selection == Selection::All && resolved.packages.is_empty() {
        return Err(nothing(&catalog, resolved));
    }
    let frozen: Vec<Pin> = resolved.packages.iter().map(|package| package.pin()).collect();
    let snapshot = freeze(store, &frozen, take.existing, take.progress)?;
    for name in &snapshot.set_aside {
        context.output().warning(&format!("a damaged snapshot was set aside as `{name}` and built again"));
    }
    Ok((resolved, snapshot))
}

/// How packages are taken in.
pub(crate) struct Take<'a> {
    pub(crate) drop_bytecode: bool,
    pub(crate) existing: Existing,
    pub(crate) progress: &'a dyn Progress,
}

/// Everything was asked for, and there is nothing: rather a mistake than an empty snapshot.
fn nothing(catalog: &Catalog, resolved: Resolved) -> Failure {
    let there: Vec<&CatalogSource> =
        catalog.sources().iter().filter(|source| source.fault.is_none()).collect();
    let (message, hint) = match there.as_slice() {
        [] => (
            "the store has no active revision, and no source is there".to_owned(),
            "name a directory of packages with `--source`, or select nothing with `--none`",
        ),
        [source] => (
            format!("the source `{}` has no package that can be used", source.definition.id),
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
    let chosen = resolved.packages.iter();
    let chosen = chosen.map(|package| (package.revision.id.to_string(), &package.diagnostics[..]));
    // What stands in a diagnostic's path is the place within the package.
    let passed = resolved.left_out.iter();
    let passed =
        passed.map(|passed| (format!("{}/{}", passed.source, passed.directory), &passed.diagnostics[..]));
    context.output().findings(chosen.chain(passed));
}
