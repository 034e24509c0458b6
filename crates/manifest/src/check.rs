//! The check of a tree against its manifest: exact set, every byte, all faults.
//!
//! Everything is opened relative to the handle of the snapshot directory and through no link, so
//! the tree that is checked is the one that the caller holds, whatever its path names by then.
//! Packages are checked side by side; the faults are sorted, so the report does not depend on it.
//! Nothing fails early: what cannot be read is a fault like any other.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};

use crate::check_package::Part;
use crate::digest::Digest;
use crate::fault::{Fault, FaultCode};
use crate::listing::FileEntry;
use crate::nofollow::{Entry, EntryKind, Stamp, describe_kind, escape_bytes, list_dir, open_dir, open_file};
use crate::parallel::for_each;
use crate::progress::Progress;
use crate::snapshot::{MANIFEST_FILE, MAX_MANIFEST_BYTES, Manifest, ManifestError, PackageEntry};

/// The mode of every directory of a snapshot.
pub(crate) const DIRECTORY_MODE: u32 = 0o555;

/// How to check.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct CheckOptions<'a> {
    /// Ignore modes beyond the execute bit, for a tree that went through something that keeps no
    /// more, such as git.
    pub portable: bool,
    /// The numeric ids of those who may own what is checked; none where anybody may.
    pub owners: Option<&'a [u32]>,
    /// Is told of every package that is done.
    pub progress: &'a dyn Progress,
    /// Gets the bytes of every file as they are hashed.
    pub sink: Option<&'a dyn Sink>,
}

/// Takes what a check reads, so that a copy is of the very bytes that were hashed.
///
/// What it got is right only if the check is clean. It is called for several packages at once.
pub trait Sink: Sync {
    /// Makes room for a package, before any file of it.
    ///
    /// # Errors
    /// Whatever keeps it from that; it is a fault of the package.
    fn begin(&self, package: &PackageEntry) -> io::Result<()>;

    /// Opens what gets the bytes of a file, and no more of them than the manifest says.
    ///
    /// # Errors
    /// Whatever keeps it from that; it is a fault of the file.
    fn create(&self, package: &PackageEntry, file: &FileEntry) -> io::Result<File>;
}

impl<'a> CheckOptions<'a> {
    /// A check of all modes and of no owner.
    #[must_use]
    pub fn new(progress: &'a dyn Progress) -> Self {
        Self { portable: false, owners: None, progress, sink: None }
    }

    /// Sets whether modes beyond the execute bit are ignored.
    #[must_use]
    pub fn portable(mut self, portable: bool) -> Self {
        self.portable = portable;
        self
    }

    /// Sets the numeric ids of those who may own the manifest, the files and the directories.
    ///
    /// An owner can change what was checked at any time, whatever its mode.
    #[must_use]
    pub fn owners(mut self, owners: &'a [u32]) -> Self {
        self.owners = Some(owners);
        self
    }

    /// Sets who gets the bytes of every file as they are hashed.
    #[must_use]
    pub fn sink(mut self, sink: &'a dyn Sink) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Compares what is there with what it should be, its content apart.
    pub(crate) fn compare(&self, path: &str, actual: &Stamp, mode: u32, faults: &mut Vec<Fault>) {
        let differs = if self.portable {
            // A directory is searchable or it could not be read; of a file only this bit is content.
            (actual.mode & 0o111 != 0) != (mode & 0o111 != 0)
        } else {
            actual.mode != mode
        };
        if differs {
            let fault = Fault::new(FaultCode::WrongMode, path).expected(format_args!("{mode:04o}"));
            faults.push(fault.actual(format_args!("{:04o}", actual.mode)));
        }
        if let Some(owners) = self.owners
            && !owners.contains(&actual.owner)
        {
            let expected = owners.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ");
            let fault = Fault::new(FaultCode::WrongOwner, path);
            faults.push(fault.expected(expected).actual(actual.owner));
        }
    }
}

impl fmt::Debug for CheckOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckOptions")
            .field("portable", &self.portable)
            .field("owners", &self.owners)
            .finish_non_exhaustive()
    }
}

/// What a check found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Check {
    /// The digest of the manifest that is there, if it could be read.
    pub digest: Option<Digest>,
    /// The manifest, if it is one and the one that was named.
    pub manifest: Option<Manifest>,
    /// Everything that does not match, sorted by path.
    pub faults: Vec<Fault>,
    /// Files whose bytes were hashed, the manifest not counted.
    pub files: u64,
    /// Bytes that were hashed, the manifest's not counted.
    pub bytes: u64,
}

impl Check {
    /// Whether everything matches.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty() && self.manifest.is_some()
    }
}

/// Checks the snapshot in `dir`; if `named` is given, its manifest must have that digest.
///
/// A manifest that is not the one named, or none, is not looked into: what it says of the files
/// means nothing, so nothing beside it is looked at.
#[must_use]
pub fn check_snapshot(dir: impl AsFd, named: Option<Digest>, options: &CheckOptions<'_>) -> Check {
    let mut check = Check { digest: None, manifest: None, faults: Vec::new(), files: 0, bytes: 0 };
    let dir = dir.as_fd();
    // A handle may be one of anything, good for nothing but looking at it (`O_PATH`).
    if let Ok(stamp) = Stamp::of(dir)
        && stamp.kind != EntryKind::Directory
    {
        let fault = Fault::new(FaultCode::WrongType, ".").expected("directory");
        check.faults.push(fault.actual(describe_kind(stamp.kind)));
        return check;
    }
    let bytes = match read_manifest_bytes(dir, options, &mut check.faults) {
        Ok(bytes) => bytes,
        Err(fault) => {
            check.faults.push(fault);
            check.faults.sort();
            return check;
        }
    };
    let actual = Digest::of(&bytes);
    check.digest = Some(actual);
    if let Some(named) = named.filter(|named| *named != actual) {
        // It is not even parsed: who can change it can make that dear.
        let fault = Fault::new(FaultCode::ManifestDigest, MANIFEST_FILE);
        check.faults.push(fault.expected(named).actual(actual));
        check.faults.sort();
        return check;
    }
    match Manifest::parse(&bytes) {
        Err(error) => {
            check.faults.push(Fault::new(FaultCode::ManifestInvalid, MANIFEST_FILE).actual(error));
        }
        Ok(manifest) => {
            check_root(dir, &manifest, options, &mut check.faults);
            options.progress.begin("checking", manifest.packages().len());
            let parts = for_each(manifest.packages().len(), |index| {
                let mut part = Part::new(dir, &manifest.packages()[index], options);
                part.run();
                options.progress.advance();
                (part.faults, part.files, part.bytes)
            });
            for (faults, files, bytes) in parts {
                check.faults.extend(faults);
                check.files += files;
                check.bytes += bytes;
            }
            check.manifest = Some(manifest);
        }
    }
    check.faults.sort();
    check
}

pub(crate) fn read_manifest_bytes(
    dir: BorrowedFd<'_>,
    options: &CheckOptions<'_>,
    faults: &mut Vec<Fault>,
) -> Result<Vec<u8>, Fault> {
    let fail = |error: io::Error| absent_or_unreadable(MANIFEST_FILE, &error);
    let file = open_file(dir, MANIFEST_FILE)
        .map_err(|error| wrong_type(dir, MANIFEST_FILE, MANIFEST_FILE).unwrap_or_else(|| fail(error)))?;
    let stamp = Stamp::of(&file).map_err(fail)?;
    if stamp.kind != EntryKind::File {
        let fault = Fault::new(FaultCode::WrongType, MANIFEST_FILE);
        return Err(fault.expected("file").actual(describe_kind(stamp.kind)));
    }
    options.compare(MANIFEST_FILE, &stamp, 0o444, faults);
    if stamp.size > MAX_MANIFEST_BYTES {
        let fault = Fault::new(FaultCode::ManifestInvalid, MANIFEST_FILE);
        return Err(fault.actual(ManifestError::TooLong));
    }
    let mut bytes = Vec::new();
    file.take(MAX_MANIFEST_BYTES + 1).read_to_end(&mut bytes).map_err(fail)?;
    Ok(bytes)
}

/// Checks that the directory holds the manifest and the packages' names and nothing else.
fn check_root(dir: BorrowedFd<'_>, manifest: &Manifest, options: &CheckOptions<'_>, faults: &mut Vec<Fault>) {
    match Stamp::of(dir) {
        Ok(stamp) => options.compare(".", &stamp, DIRECTORY_MODE, faults),
        Err(error) => faults.push(Fault::io(".", &error)),
    }
    match list_dir(dir) {
        Ok(entries) => {
            let known = |entry: &Entry| {
                entry.name == MANIFEST_FILE.as_bytes()
                    || manifest
                        .packages()
                        .binary_search_by(|package| package.id().as_str().as_bytes().cmp(&entry.name))
                        .is_ok()
            };
            faults.extend(entries.iter().filter(|entry| !known(entry)).map(|entry| unexpected("", entry)));
        }
        Err(error) => faults.push(Fault::io(".", &error)),
    }
}

pub(crate) fn unexpected(above: &str, entry: &Entry) -> Fault {
    Fault::new(FaultCode::Unexpected, join(above, &escape_bytes(&entry.name)))
        .actual(describe_kind(entry.kind))
}

fn join(above: &str, name: &str) -> String {
    if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") }
}

pub(crate) fn absent_or_unreadable(path: &str, error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::NotFound => Fault::new(FaultCode::Missing, path),
        // A link where something else should be: opening refuses to follow it.
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            Fault::new(FaultCode::WrongType, path).actual(describe_kind(EntryKind::Link))
        }
        _ => Fault::io(path, error),
    }
}

/// What a second look finds where opening failed; nothing where it finds none.
pub(crate) fn kind_at(above: impl AsFd, path: &str) -> Option<EntryKind> {
    let stamp = match path.rsplit_once('/') {
        None => Stamp::at(above, path.as_bytes()),
        Some((parent, name)) => Stamp::at(open_dir(above, parent).ok()?, name.as_bytes()),
    };
    Some(stamp.ok()?.kind)
}

/// The fault of something that is not a file where one should be.
pub(crate) fn wrong_type(above: impl AsFd, path: &str, shown: &str) -> Option<Fault> {
    let kind = kind_at(above, path).filter(|kind| *kind != EntryKind::File)?;
    Some(Fault::new(FaultCode::WrongType, shown).expected("file").actual(describe_kind(kind)))
}
