//! Reading a package: the only way in.
//!
//! First a survey by handles and through no link says what is there, with every fault; then each
//! file is read once, hashed and written to a sink as a tar stream; then everything is looked at
//! again. Device, inode, size, mode, modification and change time of every file, link and
//! directory, and the names in every directory, must be the same before and after, or the whole
//! package is tried once more. What is stored is in any case what was hashed.
//!
//! A package that is refused is still asked what it says of itself, and each of its files is
//! opened, so that its author hears of all faults at once.

use std::io::{self, Read as _, Write};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use skillfreeze_manifest::{
    Diagnostic, FileEntry, Form, Hasher, Limits, LinkRoot, Listing, PackagePath, SKILL_FILE, Severity, Stamp,
    open_dir,
};

use crate::add::AddOptions;
use crate::add_error::AddError;
use crate::archive::{BUFFER_BYTES, read_some};
use crate::candidate::Candidate;
use crate::describe::{Describe, Described, Description};
use crate::error::{IoFault, failed};
use crate::refusal::Refusal;
use crate::survey::{Planned, Survey};
use crate::tarball::TarWriter;

/// How much of a file is shown to whoever looks at it; less than [`BUFFER_BYTES`].
const HEAD_BYTES: usize = 64 << 10;

/// A package that was read.
pub(crate) struct Imported<S> {
    pub(crate) description: Description,
    pub(crate) listing: Listing,
    /// What is worth saying, the description's included.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Where its tar stream was written.
    pub(crate) sink: S,
}

/// Why a package was not read.
enum ImportError {
    Refused {
        faults: Vec<Refusal>,
        diagnostics: Vec<Diagnostic>,
    },
    Invalid(Vec<Diagnostic>),
    /// Something was not the same before and after.
    Changed(String),
    /// The sink could not be written.
    Sink(IoFault),
}

/// Reads a package, a second time if it changes meanwhile, and writes its tar stream to a new sink
/// each time.
///
/// # Errors
/// [`AddError`], with all that is wrong with the package.
pub(crate) fn read<S: Write>(
    candidate: &Candidate<'_>,
    options: &AddOptions<'_>,
    sink: impl Fn() -> S,
) -> Result<Imported<S>, AddError> {
    let read = match attempt(candidate, options, sink()) {
        Err(ImportError::Changed(_)) => attempt(candidate, options, sink()),
        done => done,
    };
    let path = || candidate.origin.path.clone();
    let imported = read.map_err(|error| match error {
        ImportError::Refused { faults, diagnostics } => {
            AddError::Refused { path: path(), faults, diagnostics }
        }
        ImportError::Invalid(diagnostics) => AddError::Invalid { path: path(), diagnostics },
        ImportError::Changed(changed) => AddError::SourceChanged { path: path(), changed },
        ImportError::Sink(source) => AddError::Io { path: path(), source },
    })?;
    let actual = &imported.description.id;
    match &candidate.id {
        Some(expected) if expected != actual => {
            let (expected, actual) = (expected.clone(), actual.clone());
            Err(AddError::IdChanged { path: path(), expected, actual })
        }
        _ => Ok(imported),
    }
}

fn attempt<S: Write>(
    candidate: &Candidate<'_>,
    options: &AddOptions<'_>,
    sink: S,
) -> Result<Imported<S>, ImportError> {
    let link_roots = candidate.link_roots;
    let (package, survey) = survey(candidate, options)?;
    let package = package.as_fd();
    let Survey { tree, files, mut refusals, diagnostics } = survey;
    let is_refused = !refusals.is_empty();
    let mut reading = Reading {
        package,
        link_roots,
        describe: options.describe,
        tar: TarWriter::new(sink),
        buffer: vec![0; BUFFER_BYTES],
        files: Vec::with_capacity(files.len()),
        skill_md: None,
        diagnostics,
    };
    for (path, planned) in &files {
        let describes = path.as_str() == SKILL_FILE && planned.stamp.size <= options.limits.skill_bytes;
        match reading.read(path, planned, refusals.is_empty() || describes) {
            Ok(()) => {}
            Err(ReadError::Refused(refusal)) => refusals.push(refusal),
            // A package that is refused is refused for what is wrong with it, not for its changes.
            Err(ReadError::Other(_)) if is_refused => {}
            Err(ReadError::Other(error)) => return Err(error),
        }
    }
    let Reading { tar, files, skill_md, mut diagnostics, .. } = reading;
    let description = skill_md.map(|skill_md| {
        let (directory, form) = (candidate.name.as_deref(), candidate.form);
        options.describe.describe(Described { skill_md: &skill_md, directory, form, limits: &options.limits })
    });
    if !refusals.is_empty() {
        sort_refusals(&mut refusals);
        let said = description.map(|described| described.map_or_else(|said| said, |ok| ok.diagnostics));
        let diagnostics = after(said.unwrap_or_default(), diagnostics);
        return Err(ImportError::Refused { faults: refusals, diagnostics });
    }
    let sink = tar.finish().map_err(|error| ImportError::Sink(sink_fault(error)))?;
    tree.check_unchanged(package, link_roots).map_err(ImportError::Changed)?;

    // The survey has checked what a listing requires; should it not, nothing is stored.
    let inconsistent = || ImportError::Changed(".".to_owned());
    let description = match description.ok_or_else(inconsistent)? {
        Ok(description) => description,
        Err(said) => return Err(ImportError::Invalid(after(said, diagnostics))),
    };
    let listing = Listing::new(files).map_err(|_| inconsistent())?;
    diagnostics.extend(large_package(&listing, &options.limits));
    diagnostics.extend(description.diagnostics.iter().cloned());
    sort_diagnostics(&mut diagnostics);
    Ok(Imported { description, listing, diagnostics, sink })
}

/// Opens the directory that the package is, or is in, and looks at all that is there.
fn survey(candidate: &Candidate<'_>, options: &AddOptions<'_>) -> Result<(OwnedFd, Survey), ImportError> {
    let open = |path: &str| {
        open_dir(candidate.root, path).map_err(|source| {
            let faults = vec![Refusal::Unreadable { path: ".".to_owned(), source }];
            ImportError::Refused { faults, diagnostics: Vec::new() }
        })
    };
    let (package, survey) = match candidate.form {
        Form::File => {
            let (above, name) = candidate.path.rsplit_once('/').unwrap_or((".", &candidate.path));
            let above = open(above)?;
            let survey = Survey::take_flat(above.as_fd(), name, &options.limits);
            (above, survey)
        }
        _ => {
            let package = open(&candidate.path)?;
            let (limits, drop_bytecode) = (&options.limits, options.drop_bytecode);
            let survey = Survey::take(package.as_fd(), limits, drop_bytecode, candidate.link_roots);
            (package, survey)
        }
    };
    Ok((package, survey.map_err(ImportError::Changed)?))
}

/// What a package says of itself, in the parser's order, and then what else there is to say.
fn after(mut said: Vec<Diagnostic>, mut rest: Vec<Diagnostic>) -> Vec<Diagnostic> {
    sort_diagnostics(&mut rest);
    said.append(&mut rest);
    said
}

fn sort_diagnostics(diagnostics: &mut [Diagnostic]) {
    diagnostics.sort_by(|a, b| (&a.path, a.line, a.code).cmp(&(&b.path, b.line, b.code)));
}

fn sort_refusals(refusals: &mut [Refusal]) {
    refusals.sort_by(|a, b| (a.path(), a.code()).cmp(&(b.path(), b.code())));
}

fn sink_fault(error: io::Error) -> IoFault {
    failed("write", "tmp")(error)
}

fn large_package(listing: &Listing, limits: &Limits) -> Option<Diagnostic> {
    let (files, bytes) = (listing.files().len() as u64, listing.bytes());
    (files > limits.warn_files || bytes > limits.warn_bytes).then(|| {
        let message = format!(
            "the package has {files} files and {bytes} bytes; hosts need not accept more than {} files and {} bytes",
            limits.warn_files, limits.warn_bytes
        );
        Diagnostic::new(Severity::Warning, "large-package", message)
    })
}

enum ReadError {
    Refused(Refusal),
    Other(ImportError),
}

/// The files that have been read so far.
struct Reading<'a, S> {
    package: BorrowedFd<'a>,
    link_roots: &'a [LinkRoot],
    describe: &'a dyn Describe,
    tar: TarWriter<S>,
    buffer: Vec<u8>,
    files: Vec<FileEntry>,
    /// `SKILL.md`, once it was read to its end.
    skill_md: Option<Vec<u8>>,
    diagnostics: Vec<Diagnostic>,
}

impl<S: Write> Reading<'_, S> {
    /// Reads one file; only opens it where `wanted` is not set, to find what cannot be read.
    fn read(&mut self, path: &PackagePath, planned: &Planned, wanted: bool) -> Result<(), ReadError> {
        let changed = || ReadError::Other(ImportError::Changed(path.to_string()));
        let sink = |error| ReadError::Other(ImportError::Sink(sink_fault(error)));
        let unreadable = |source| ReadError::Refused(Refusal::Unreadable { path: path.to_string(), source });
        let opened = planned.open(self.package, self.link_roots);
        let mut file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => unreadable(error),
            // It was there, and a file, a moment ago.
            _ if is_gone(&error) => changed(),
            _ => unreadable(error),
        })?;
        let stamp = Stamp::of(&file).map_err(unreadable)?;
        if stamp != planned.stamp {
            return Err(changed());
        }
        if !wanted {
            return Ok(());
        }
        let executable = planned.executable;
        self.tar.begin_file(path, executable, stamp.size).map_err(sink)?;
        let mut hasher = Hasher::default();
        let mut skill_md = (path.as_str() == SKILL_FILE).then(Vec::new);
        let mut head_diagnostics = None;
        // One byte more than there should be, so that a file that grew is seen.
        let mut limited = (&mut file).take(stamp.size + 1);
        loop {
            let read = read_some(&mut limited, &mut self.buffer).map_err(unreadable)?;
            let bytes = &self.buffer[..read];
            head_diagnostics.get_or_insert_with(|| look_at(self.describe, path, executable, bytes));
            if read == 0 {
                break;
            }
            if hasher.bytes() + read as u64 > stamp.size {
                return Err(changed());
            }
            hasher.update(bytes);
            self.tar.content(bytes).map_err(sink)?;
            if let Some(skill_md) = &mut skill_md {
                skill_md.extend_from_slice(bytes);
            }
        }
        if hasher.bytes() != stamp.size || Stamp::of(&file).map_err(unreadable)? != stamp {
            return Err(changed());
        }
        self.tar.end_file(stamp.size).map_err(sink)?;
        self.diagnostics.extend(head_diagnostics.into_iter().flatten());
        if skill_md.is_some() {
            self.skill_md = skill_md;
        }
        let (size, digest) = (hasher.bytes(), hasher.finish());
        self.files.push(FileEntry { path: path.clone(), executable, size, digest });
        Ok(())
    }
}

/// What is worth saying about a file that begins with these bytes.
fn look_at(describe: &dyn Describe, path: &PackagePath, executable: bool, bytes: &[u8]) -> Vec<Diagnostic> {
    let head = &bytes[..bytes.len().min(HEAD_BYTES)];
    let mut diagnostics = describe.look_at(path, executable, head);
    if head.starts_with(b"#!") && !executable {
        let message = "it begins with `#!` and has no execute bit";
        let warning = Diagnostic::new(Severity::Warning, "script-not-executable", message);
        diagnostics.push(warning.at_path(path.as_str()).hint("make it executable: `chmod +x`"));
    }
    diagnostics
}

/// Whether something is no longer what it was, rather than refused.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        error.raw_os_error().map(Errno::from_raw_os_error),
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::STALE)
    )
}
