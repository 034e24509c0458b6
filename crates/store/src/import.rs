//! Reading a package's directory: the only way in.
//!
//! First a survey by handles and through no link says what is there, with every fault; then each
//! file is read once, hashed and written to a spool as a tar stream; then everything is looked at
//! again. Device, inode, size, mode, modification and change time of every file, link and
//! directory, and the names in every directory, must be the same before and after, or the whole
//! package is tried once more. What is stored is in any case what was hashed.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;

use skillfreeze_manifest::{
    Diagnostic, FileEntry, Hasher, Limits, Listing, PackagePath, SKILL_FILE, Severity, SkillId, Stamp,
    Version, open_dir, open_file,
};

use crate::archive::{BUFFER_BYTES, read_some};
use crate::atomic::Guard;
use crate::error::{IoFault, failed};
use crate::refusal::Refusal;
use crate::spool::Spool;
use crate::survey::{Planned, Survey};
use crate::tarball::TarWriter;

/// Reads what a package says of itself from its `SKILL.md`.
///
/// It is applied to the very bytes that are hashed and stored.
pub trait Describe: Sync {
    /// Describes the package whose `SKILL.md` has these bytes and whose directory has this name.
    ///
    /// # Errors
    /// Everything for which the package must not be added.
    fn describe(&self, skill_md: &[u8], directory: &str) -> Result<Description, Vec<Diagnostic>>;
}

/// What a package says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its id.
    pub id: SkillId,
    /// The version that its author wrote.
    pub version: Option<Version>,
    /// What is worth saying about it.
    pub diagnostics: Vec<Diagnostic>,
}

/// A package that was read.
pub(crate) struct Imported<'a> {
    pub(crate) description: Description,
    pub(crate) listing: Listing,
    /// What is worth saying, the description's included.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Its tar stream.
    pub(crate) spool: Spool<'a>,
}

/// Why a package was not read.
pub(crate) enum ImportError {
    Refused(Vec<Refusal>),
    Invalid(Vec<Diagnostic>),
    /// Something was not the same before and after.
    Changed(String),
    /// The spool could not be written.
    Spool(IoFault),
}

/// What is read, and how.
pub(crate) struct Import<'a> {
    pub(crate) root: &'a cap_std::fs::Dir,
    pub(crate) directory: &'a str,
    pub(crate) name: &'a str,
    pub(crate) describe: &'a dyn Describe,
    pub(crate) limits: Limits,
    pub(crate) drop_bytecode: bool,
    pub(crate) guard: &'a Guard,
}

impl<'a> Import<'a> {
    /// Reads the package, a second time if it changes meanwhile.
    pub(crate) fn run(&self) -> Result<Imported<'a>, ImportError> {
        match self.attempt() {
            Err(ImportError::Changed(_)) => self.attempt(),
            done => done,
        }
    }

    fn attempt(&self) -> Result<Imported<'a>, ImportError> {
        let package = open_dir(self.root, self.directory)
            .map_err(|source| ImportError::Refused(vec![Refusal::Unreadable { path: ".".into(), source }]))?;
        let survey =
            Survey::take(package.as_fd(), &self.limits, self.drop_bytecode).map_err(ImportError::Changed)?;
        let mut refusals = survey.refusals;
        if !refusals.is_empty() {
            sort_refusals(&mut refusals);
            return Err(ImportError::Refused(refusals));
        }

        let mut reading = Reading {
            tar: TarWriter::new(Spool::new(self.guard)),
            buffer: vec![0; BUFFER_BYTES],
            files: Vec::with_capacity(survey.files.len()),
            skill_md: Vec::new(),
            diagnostics: survey.diagnostics,
        };
        for (path, planned) in &survey.files {
            match reading.read(package.as_fd(), path, planned, refusals.is_empty()) {
                Ok(()) => {}
                Err(ReadError::Refused(refusal)) => refusals.push(refusal),
                Err(ReadError::Other(error)) => return Err(error),
            }
        }
        if !refusals.is_empty() {
            return Err(ImportError::Refused(refusals));
        }
        let Reading { tar, files, skill_md, mut diagnostics, .. } = reading;
        let spool = tar.finish().map_err(|error| ImportError::Spool(spool_fault(error)))?;
        let description = self.describe.describe(&skill_md, self.name);
        survey.tree.check_unchanged(package.as_fd()).map_err(ImportError::Changed)?;

        let description = description.map_err(ImportError::Invalid)?;
        // The survey has checked what a listing requires; should it not, nothing is stored.
        let listing = Listing::new(files).map_err(|_| ImportError::Changed(".".to_owned()))?;
        diagnostics.extend(large_package(&listing, &self.limits));
        diagnostics.extend(description.diagnostics.iter().cloned());
        diagnostics.sort_by(|a, b| (&a.path, a.line, a.code).cmp(&(&b.path, b.line, b.code)));
        Ok(Imported { description, listing, diagnostics, spool })
    }
}

fn sort_refusals(refusals: &mut [Refusal]) {
    refusals.sort_by(|a, b| (a.path(), a.code()).cmp(&(b.path(), b.code())));
}

fn spool_fault(error: io::Error) -> IoFault {
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
struct Reading<'a> {
    tar: TarWriter<Spool<'a>>,
    buffer: Vec<u8>,
    files: Vec<FileEntry>,
    skill_md: Vec<u8>,
    diagnostics: Vec<Diagnostic>,
}

impl Reading<'_> {
    /// Reads one file; only opens it where `wanted` is not set, to find what cannot be read.
    fn read(
        &mut self,
        package: std::os::fd::BorrowedFd<'_>,
        path: &PackagePath,
        planned: &Planned,
        wanted: bool,
    ) -> Result<(), ReadError> {
        let changed = || ReadError::Other(ImportError::Changed(path.to_string()));
        let spool = |error| ReadError::Other(ImportError::Spool(spool_fault(error)));
        let unreadable = |source| ReadError::Refused(Refusal::Unreadable { path: path.to_string(), source });
        let mut file = open_file(package, &planned.from).map_err(|error| match error.kind() {
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
        let executable = stamp.is_executable();
        self.tar.begin_file(path, executable, stamp.size).map_err(spool)?;
        let mut hasher = Hasher::default();
        let mut is_script = false;
        // One byte more than there should be, so that a file that grew is seen.
        let mut limited = (&mut file).take(stamp.size + 1);
        loop {
            let read = read_some(&mut limited, &mut self.buffer).map_err(unreadable)?;
            let bytes = &self.buffer[..read];
            if read == 0 {
                break;
            }
            if hasher.bytes() + read as u64 > stamp.size {
                return Err(changed());
            }
            is_script |= hasher.bytes() == 0 && bytes.starts_with(b"#!");
            hasher.update(bytes);
            self.tar.content(bytes).map_err(spool)?;
            if path.as_str() == SKILL_FILE {
                self.skill_md.extend_from_slice(bytes);
            }
        }
        if hasher.bytes() != stamp.size || Stamp::of(&file).map_err(unreadable)? != stamp {
            return Err(changed());
        }
        self.tar.end_file(stamp.size).map_err(spool)?;
        if is_script && !executable {
            let message = "it begins with `#!` and has no execute bit";
            let warning = Diagnostic::new(Severity::Warning, "script-not-executable", message);
            self.diagnostics.push(warning.at_path(path.as_str()).hint("make it executable: `chmod +x`"));
        }
        let (size, digest) = (hasher.bytes(), hasher.finish());
        self.files.push(FileEntry { path: path.clone(), executable, size, digest });
        Ok(())
    }
}

/// Whether something is no longer what it was, rather than refused.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        error.raw_os_error().map(Errno::from_raw_os_error),
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::STALE)
    )
}
