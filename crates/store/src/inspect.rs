//! Looking at a package as if it were added, and storing nothing.

use std::io;

use skillfreeze_manifest::{Diagnostic, Listing};

use crate::add::AddOptions;
use crate::add_error::AddError;
use crate::candidate::Candidate;
use crate::describe::Description;
use crate::import;

/// A package that could be added as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspected {
    /// What it says of itself.
    pub description: Description,
    /// Its files; their digest is that of the revision it would become.
    pub listing: Listing,
    /// What is worth saying about it, the description's included, sorted by path.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a package just as [`Store::add`](crate::Store::add) does, without a store and without
/// writing anywhere.
///
/// Whether it would be activated, and who would be told of progress, does not matter here.
///
/// # Errors
/// [`AddError`] as `add` has it, with all that is wrong with the package: what is refused about its
/// files, and what is wrong with its `SKILL.md`.
pub fn inspect(candidate: &Candidate<'_>, options: &AddOptions<'_>) -> Result<Inspected, AddError> {
    let imported = import::read(candidate, options, io::sink)?;
    let import::Imported { description, listing, diagnostics, .. } = imported;
    Ok(Inspected { description, listing, diagnostics })
}
