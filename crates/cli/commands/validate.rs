//! `validate`: what authors and continuous integration want to know of packages.

use camino::Utf8PathBuf;
use clap::Args;

use crate::report::Format;

/// Check packages as `add` and `prepare` would, and store nothing
///
/// Names every fault of each package with its line, not the first alone. The status is 6 when a
/// package is invalid; warnings do not change it.
#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Packages, flat skills or directories of them [default: those of this project]
    #[arg(value_name = "PATH")]
    path: Vec<Utf8PathBuf>,
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
