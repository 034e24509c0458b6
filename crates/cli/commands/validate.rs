//! `validate`: what authors and continuous integration want to know of packages.

mod examine;
mod subjects;

use camino::Utf8PathBuf;
use clap::Args;
use skillfreeze::manifest::{Diagnostic, Severity};

use self::examine::Examination;
use self::subjects::Subjects;
use crate::context::Context;
use crate::describer::Parser;
use crate::directories::DirectoryArgs;
use crate::exit::Failure;
use crate::output::counted;
use crate::report::{self, Format, Report};
use crate::sources::{Sources, fault_of};

/// Check packages as `add` and `prepare` would, and store nothing
///
/// Names every fault of each package with its line, not the first alone. The status is 6 when a
/// package is invalid; warnings do not change it.
///
/// Without a path, this project is checked: its `.agents/skills` and `.claude/skills`, the sources that
/// its `skillfreeze.toml` and `--config` name, and the current directory if it is a package.
#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Packages, flat skills or directories of them [default: those of this project]
    #[arg(value_name = "PATH", group = DirectoryArgs::NAMED)]
    path: Vec<Utf8PathBuf>,
    #[command(flatten)]
    directories: DirectoryArgs,
    /// Hold packages to the letter of the Agent Skills specification
    ///
    /// What is only a warning otherwise is an error where the specification forbids it, and front
    /// matter that is not valid YAML is not recovered.
    #[arg(long)]
    strict: bool,
    /// How to print; `sarif` and `github` are for code review
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

impl Validate {
    pub(crate) fn run(&self, context: &Context) -> Result<u8, Failure> {
        let output = context.output();
        let Subjects { directories, files } = Subjects::find(&self.path, &self.directories)?;
        let sources = if self.path.is_empty() {
            Sources::of_project(context, &self.directories)?
        } else {
            Sources::of_directories(context, directories, &self.directories)?
        };
        let progress = context.progress();
        let catalog = sources.scan(&progress)?;
        let parser = Parser::new(sources.limits).strict(self.strict);
        let examination = Examination::new(&catalog, &parser)?;
        let reports = examination.reports(&files, &progress);
        drop(progress);

        for (place, notes) in examination.notes() {
            output.diagnostics(place.as_str(), notes);
        }
        if self.path.is_empty() {
            let of_use = catalog.sources().iter().filter(|source| !is_reported(source.fault.as_ref()));
            of_use.filter_map(fault_of).for_each(|fault| output.warning(&fault));
        }
        report::print(&reports, self.format, output)?;
        if !self.path.is_empty() {
            examination.require_packages()?;
        }
        result(&reports)
    }
}

/// Whether a source's fault is one of its files', which is reported like a package's.
fn is_reported(fault: Option<&Diagnostic>) -> bool {
    fault.is_some_and(|fault| fault.severity == Severity::Error)
}

fn result(reports: &[Report]) -> Result<u8, Failure> {
    let invalid = reports.iter().filter(|report| !report.is_valid()).count();
    if invalid == 0 {
        return Ok(0);
    }
    let (is, all) = (if invalid == 1 { "is" } else { "are" }, counted(reports.len(), "package"));
    Err(Failure::new("invalid", format!("{invalid} of {all} {is} invalid")))
}
