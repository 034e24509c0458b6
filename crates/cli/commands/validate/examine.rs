//! Examining packages: each as the store would read it, and what the scan says of it beside.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze::catalog::{Catalog, CatalogSource, Found, LeftOut, Located, Scope};
use skillfreeze::manifest::{Diagnostic, Form, Progress, Severity, SkillId, for_each};
use skillfreeze::store::{Candidate, Origin, inspect};

use super::is_reported;
use super::subjects::FlatFile;
use crate::context::canonical;
use crate::describer::{Examiner, Parser, candidate, with_scan};
use crate::exit::Failure;
use crate::report::Report;

/// The packages of a catalog, to be examined.
pub(super) struct Examination<'a> {
    catalog: &'a Catalog,
    parser: &'a Parser,
    /// The current directory, which what is shown is relative to.
    here: Utf8PathBuf,
}

/// What a scan has of one package.
#[derive(Clone, Copy)]
enum Entry<'a> {
    Found(&'a Found),
    LeftOut(&'a LeftOut),
}

impl<'a> Entry<'a> {
    fn place(self) -> (usize, &'a str) {
        match self {
            Self::Found(found) => (found.source, &found.directory),
            Self::LeftOut(left) => (left.source, &left.directory),
        }
    }

    fn id(self) -> Option<&'a SkillId> {
        match self {
            Self::Found(found) => Some(found.id()),
            Self::LeftOut(left) => left.id.as_ref(),
        }
    }

    fn diagnostics(self) -> &'a [Diagnostic] {
        match self {
            Self::Found(found) => &found.diagnostics,
            Self::LeftOut(left) => &left.diagnostics,
        }
    }

    /// Whether there is a path that leads to it.
    fn is_reachable(self) -> bool {
        match self {
            Self::Found(_) => true,
            Self::LeftOut(left) => left.is_reachable(),
        }
    }

    fn locate(self, catalog: &Catalog) -> io::Result<Option<Located<'_>>> {
        match self {
            Self::Found(found) => catalog.locate(found).map(Some),
            Self::LeftOut(left) => catalog.locate_left_out(left),
        }
    }
}

impl<'a> Examination<'a> {
    pub(super) fn new(catalog: &'a Catalog, parser: &'a Parser) -> Result<Self, Failure> {
        Ok(Self { catalog, parser, here: canonical(Utf8Path::new("."))? })
    }

    /// Examines all packages of the catalog, and these files; sorted by their paths.
    pub(super) fn reports(&self, files: &[FlatFile], progress: &dyn Progress) -> Vec<Report> {
        let entries = self.entries_once();
        progress.begin("validating", entries.len() + files.len());
        let mut reports = for_each(entries.len(), |index| self.examine(entries[index], progress));
        let of_files = for_each(files.len(), |index| self.examine_file(&files[index], progress));
        add_files(&mut reports, of_files);
        let faults = self.catalog.sources().iter().enumerate().filter_map(|(index, source)| {
            let fault = source.fault.clone().filter(|fault| is_reported(Some(fault)))?;
            let path = self.shown(index, ".");
            Some(Report { path, is_file: false, id: None, diagnostics: vec![fault] })
        });
        reports.extend(faults);
        reports.sort_by(|first, second| first.path.cmp(&second.path));
        reports
    }

    /// What is worth knowing of entries that nobody meant as packages.
    pub(super) fn notes(&self) -> impl Iterator<Item = (Utf8PathBuf, &'a [Diagnostic])> {
        let left_out = self.catalog.left_out().iter().filter(|left| is_note(left));
        left_out.map(|left| (self.shown(left.source, &left.directory), left.diagnostics.as_slice()))
    }

    /// Fails where a directory that was named holds nothing that could be meant as a package.
    pub(super) fn require_packages(&self) -> Result<(), Failure> {
        let used: BTreeSet<usize> = self.entries().map(|entry| entry.place().0).collect();
        for (index, source) in self.catalog.sources().iter().enumerate() {
            match &source.fault {
                Some(fault) if !is_reported(Some(fault)) => {
                    return Err(Failure::new(fault.code, fault.message.clone()));
                }
                None if !used.contains(&index) => return Err(nothing_in(source)),
                _ => {}
            }
        }
        Ok(())
    }

    /// All that was meant as a package: what wins, what lost, and what cannot be used.
    fn entries(&self) -> impl Iterator<Item = Entry<'a>> {
        let valid = self.catalog.packages().iter().chain(self.catalog.copies());
        let left_out = self.catalog.left_out().iter().filter(|left| !is_note(left));
        valid.map(Entry::Found).chain(left_out.map(Entry::LeftOut))
    }

    /// The same, but a directory that two paths or two sources lead to once for each of its names.
    fn entries_once(&self) -> Vec<Entry<'a>> {
        let mut entries: Vec<Entry<'_>> = self.entries().collect();
        entries.sort_by_key(|entry| entry.place());
        let mut known = BTreeSet::new();
        entries.retain(|entry| {
            // What cannot be reached is known by a name that something else may really have.
            if !entry.is_reachable() {
                return true;
            }
            let (source, directory) = entry.place();
            let root = &self.catalog.sources()[source].definition.path;
            let path: Utf8PathBuf = root.join(directory).components().collect();
            let name = path.file_name().unwrap_or_default().to_owned();
            known.insert((fs::canonicalize(&path).unwrap_or_else(|_| path.into()), name))
        });
        entries
    }

    fn examine(&self, entry: Entry<'_>, progress: &dyn Progress) -> Report {
        let (source, directory) = entry.place();
        let path = self.shown(source, directory);
        let report = |is_file, id: Option<SkillId>, diagnostics| Report {
            path: path.clone(),
            is_file,
            id: id.or_else(|| entry.id().cloned()),
            diagnostics,
        };
        let report = match entry.locate(self.catalog) {
            Ok(Some(located)) => {
                let (id, said) = self.inspect(&candidate(&located, path.as_str()), progress);
                let diagnostics = with_scan(said, entry.diagnostics());
                report(located.form == Form::File, id, diagnostics)
            }
            Ok(None) => report(false, None, entry.diagnostics().to_vec()),
            Err(error) => {
                let message = format!("it cannot be opened any more: {error}");
                report(false, None, vec![Diagnostic::new(Severity::Error, "vanished", message)])
            }
        };
        progress.advance();
        report
    }

    fn examine_file(&self, file: &FlatFile, progress: &dyn Progress) -> Report {
        let origin = Origin { source: None, path: file.path.to_string() };
        let candidate = Candidate::new(&file.above, file.name.as_str(), Form::File, origin);
        let (id, diagnostics) = self.inspect(&candidate, progress);
        progress.advance();
        Report { path: file.path.clone(), is_file: true, id, diagnostics }
    }

    fn inspect(
        &self,
        candidate: &Candidate<'_>,
        progress: &dyn Progress,
    ) -> (Option<SkillId>, Vec<Diagnostic>) {
        let examiner = Examiner::new(self.parser);
        match inspect(candidate, &examiner.options(progress)) {
            Ok(inspected) => (Some(inspected.description.id), inspected.diagnostics),
            Err(error) => (None, error.diagnostics()),
        }
    }

    /// Where something is, as the command line has it, else relative to the current directory.
    fn shown(&self, source: usize, directory: &str) -> Utf8PathBuf {
        let definition = &self.catalog.sources()[source].definition;
        let root = if definition.scope == Scope::Session {
            Utf8Path::new(&definition.id)
        } else {
            definition.path.strip_prefix(&self.here).unwrap_or(&definition.path)
        };
        match (root.as_str(), directory) {
            ("" | ".", directory) => directory.into(),
            (_, ".") => root.to_owned(),
            _ => root.join(directory),
        }
    }
}

/// Whether an entry is left out because nobody meant it as a package.
fn is_note(left: &LeftOut) -> bool {
    left.diagnostics.iter().all(|diagnostic| diagnostic.severity == Severity::Info)
}

fn nothing_in(source: &CatalogSource) -> Failure {
    let failure = Failure::new("not-found", format!("`{}` holds no package", source.definition.id));
    failure.hint(
        "a package is a directory with a `SKILL.md`; `--layout` says where packages lie; without a path, \
         what `list` finds is examined",
    )
}

/// Adds the reports of files that were named one by one. The scan knows nothing of them, so that who
/// shares an id with another package is told here.
fn add_files(reports: &mut Vec<Report>, files: Vec<Report>) {
    let ids = reports.iter().filter_map(|report| Some((report.id.clone()?, report.path.clone())));
    let mut first: BTreeMap<SkillId, Utf8PathBuf> = ids.collect();
    for mut report in files {
        if let Some(id) = &report.id {
            if let Some(winner) = first.get(id) {
                let message = format!("`{winner}` comes first");
                let note = Diagnostic::new(Severity::Warning, "shadowed-by", message);
                report.diagnostics.push(note.hint("give one of the two another `id`"));
            } else {
                first.insert(id.clone(), report.path.clone());
            }
        }
        reports.push(report);
    }
}
