//! What packages say of themselves, as the store asks for it.
//!
//! The store applies these to the very bytes that it hashed. [`Parser`] is the catalog's, the same for
//! every command that takes packages; [`Examiner`] says what is worth saying to authors beside.

use std::sync::{Mutex, PoisonError};

use skillfreeze::catalog::{
    Catalog, FrontMatter, Located, Need, ParseOptions, flat_resources, needs_of_script, needs_of_tools,
    parse_front_matter, undeclared,
};
use skillfreeze::manifest::{Diagnostic, Form, Limits, PackagePath, Progress, SKILL_FILE};
use skillfreeze::store::{AddOptions, Candidate, Describe, Described, Description, Origin};

/// The catalog's parser.
#[derive(Debug)]
pub(crate) struct Parser {
    limits: Limits,
    strict: bool,
}

impl Parser {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, strict: false }
    }

    /// The same, to the letter of the specification if `strict`.
    pub(crate) fn strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    /// How packages are taken into the store.
    pub(crate) fn add_options<'a>(
        &'a self,
        drop_bytecode: bool,
        activate: bool,
        progress: &'a dyn Progress,
    ) -> AddOptions<'a> {
        AddOptions { describe: self, limits: self.limits, drop_bytecode, activate, progress }
    }

    fn parse(&self, package: Described<'_>) -> Result<FrontMatter, Vec<Diagnostic>> {
        let Self { limits, strict } = *self;
        let options = ParseOptions { limits, strict, ..ParseOptions::of(package.directory) };
        let mut front_matter = parse_front_matter(package.skill_md, &options)?;
        if package.form == Form::File {
            let text = String::from_utf8_lossy(package.skill_md);
            front_matter.diagnostics.extend(flat_resources(SKILL_FILE, &text));
        }
        Ok(front_matter)
    }
}

fn description(front_matter: FrontMatter) -> Description {
    let FrontMatter { id, version, diagnostics, .. } = front_matter;
    Description { id, version, diagnostics }
}

impl Describe for Parser {
    fn describe(&self, package: Described<'_>) -> Result<Description, Vec<Diagnostic>> {
        self.parse(package).map(description)
    }
}

/// The parser for one package's author: warns of the permissions that its tools and scripts need and
/// that it does not declare.
#[derive(Debug)]
pub(crate) struct Examiner<'a> {
    parser: &'a Parser,
    /// What each file needs that was looked at, in the order of their paths.
    needs: Mutex<Vec<(PackagePath, Vec<Need>)>>,
}

impl<'a> Examiner<'a> {
    pub(crate) fn new(parser: &'a Parser) -> Self {
        Self { parser, needs: Mutex::default() }
    }

    /// How the package is looked at.
    pub(crate) fn options<'b>(&'b self, progress: &'b dyn Progress) -> AddOptions<'b> {
        AddOptions { describe: self, ..self.parser.add_options(false, false, progress) }
    }
}

impl Describe for Examiner<'_> {
    fn describe(&self, package: Described<'_>) -> Result<Description, Vec<Diagnostic>> {
        let mut front_matter = self.parser.parse(package)?;
        let mut needs = needs_of_tools(&front_matter);
        let of_files = self.needs.lock().unwrap_or_else(PoisonError::into_inner);
        needs.extend(of_files.iter().flat_map(|(_, needs)| needs.iter().cloned()));
        front_matter.diagnostics.extend(undeclared(front_matter.permissions.as_ref(), &needs));
        Ok(description(front_matter))
    }

    fn look_at(&self, path: &PackagePath, executable: bool, head: &[u8]) -> Vec<Diagnostic> {
        let mut needs = self.needs.lock().unwrap_or_else(PoisonError::into_inner);
        // A package that changed while it was read is read again from its first file.
        needs.retain(|(known, _)| known < path);
        needs.push((path.clone(), needs_of_script(path.as_str(), executable, head)));
        Vec::new()
    }
}

/// The parser for what becomes active: it refuses a name that is a bundled skill's, since what is active
/// comes before what the sources hold.
#[derive(Debug)]
pub(crate) struct Unreserved<'a> {
    pub(crate) parser: &'a Parser,
    /// What the reserved sources hold.
    pub(crate) reserved: &'a Catalog,
}

impl Describe for Unreserved<'_> {
    fn describe(&self, package: Described<'_>) -> Result<Description, Vec<Diagnostic>> {
        let directory = package.directory;
        let description = self.parser.describe(package)?;
        match self.reserved.reserved_name(&description.id, directory) {
            Some(fault) => Err(std::iter::once(fault).chain(description.diagnostics).collect()),
            None => Ok(description),
        }
    }
}

/// A package that a catalog located, as the store reads it; its id is for the reader to find out.
pub(crate) fn candidate<'a>(located: &'a Located<'_>, path: impl Into<String>) -> Candidate<'a> {
    let origin = Origin { source: None, path: path.into() };
    let candidate = Candidate::new(&located.root, located.path.as_str(), located.form, origin);
    Candidate { name: located.name.clone(), link_roots: &located.link_roots, ..candidate }
}

/// What the store says of a package, and what a scan says of it as a whole, such as what shadows it:
/// of its files the store says the same, or more.
pub(crate) fn with_scan(mut said: Vec<Diagnostic>, scanned: &[Diagnostic]) -> Vec<Diagnostic> {
    for of_the_whole in scanned.iter().filter(|scanned| scanned.path.is_none()) {
        if said.iter().all(|known| known.code != of_the_whole.code) {
            said.push(of_the_whole.clone());
        }
    }
    said
}
