//! The check of a tree against its manifest: exact set, every byte, all faults.
//!
//! Everything is opened relative to the handle of the snapshot directory and through no link, so
//! the tree that is checked is the one that the caller holds, whatever its path names by then.
//! Packages are checked side by side; the faults are sorted, so the report does not depend on it.
//! Nothing fails early: what cannot be read is a fault like any other.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::digest::{Digest, Hasher};
use crate::fault::{Fault, FaultCode};
use crate::listing::FileEntry;
use crate::nofollow::{Entry, EntryKind, Stamp, describe_kind, escape_bytes, list_dir, open_dir, open_file};
use crate::parallel::for_each;
use crate::path::directories;
use crate::progress::Progress;
use crate::snapshot::{MANIFEST_FILE, MAX_MANIFEST_BYTES, Manifest, ManifestError, PackageEntry};

/// The mode of every directory of a snapshot.
const DIRECTORY_MODE: u32 = 0o555;
/// Files are read in pieces of this size, each hashed while it is in the cache.
const BUFFER_BYTES: usize = 128 << 10;

/// How to check.
#[derive(Clone, Copy)]
pub struct CheckOptions<'a> {
    /// Ignore modes beyond the execute bit, for a tree that went through something that keeps no
    /// more, such as git.
    pub portable: bool,
    /// Is told of every package that is done.
    pub progress: &'a dyn Progress,
}

impl fmt::Debug for CheckOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckOptions").field("portable", &self.portable).finish_non_exhaustive()
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
    let bytes = match read_manifest(dir, options, &mut check.faults) {
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

fn read_manifest(
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
    check_mode(MANIFEST_FILE, stamp.mode, 0o444, options, faults);
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
        Ok(stamp) => check_mode(".", stamp.mode, DIRECTORY_MODE, options, faults),
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

fn unexpected(above: &str, entry: &Entry) -> Fault {
    Fault::new(FaultCode::Unexpected, join(above, &escape_bytes(&entry.name)))
        .actual(describe_kind(entry.kind))
}

fn join(above: &str, name: &str) -> String {
    if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") }
}

fn check_mode(path: &str, actual: u32, expected: u32, options: &CheckOptions<'_>, faults: &mut Vec<Fault>) {
    let differs = if options.portable {
        // A directory is searchable or it could not be read; of a file only this bit is content.
        (actual & 0o111 != 0) != (expected & 0o111 != 0)
    } else {
        actual != expected
    };
    if differs {
        let fault = Fault::new(FaultCode::WrongMode, path);
        faults.push(fault.expected(format_args!("{expected:04o}")).actual(format_args!("{actual:04o}")));
    }
}

fn absent_or_unreadable(path: &str, error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::NotFound => Fault::new(FaultCode::Missing, path),
        // A link where something else should be: opening refuses to follow it.
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            Fault::new(FaultCode::WrongType, path).actual(describe_kind(EntryKind::Link))
        }
        _ => Fault::io(path, error),
    }
}

/// The check of one package.
struct Part<'a> {
    root: BorrowedFd<'a>,
    package: &'a PackageEntry,
    options: &'a CheckOptions<'a>,
    buffer: Vec<u8>,
    /// The directories that could not be opened; what is below them is not looked at.
    closed: HashSet<&'a str>,
    faults: Vec<Fault>,
    files: u64,
    bytes: u64,
}

/// What the manifest says of the entries of one directory, by name.
type Expected<'a> = BTreeMap<&'a [u8], EntryKind>;

impl<'a> Part<'a> {
    fn new(root: BorrowedFd<'a>, package: &'a PackageEntry, options: &'a CheckOptions<'a>) -> Self {
        // Most packages are small, and a buffer of the full size costs more than reading them does.
        let largest = package.listing().files().iter().map(|file| file.size).max().unwrap_or(0);
        let bytes = usize::try_from(largest + 1).map_or(BUFFER_BYTES, |bytes| bytes.min(BUFFER_BYTES));
        let buffer = vec![0; bytes];
        let (closed, faults) = (HashSet::new(), Vec::new());
        Self { root, package, options, buffer, closed, faults, files: 0, bytes: 0 }
    }

    fn run(&mut self) {
        let id = self.package.id().as_str();
        let handle = match self.open_directory(self.root, id, id) {
            Ok(handle) => handle,
            Err(fault) => return self.faults.push(fault),
        };
        for (path, expected) in expected_directories(self.package) {
            if !self.is_closed(path) {
                self.check_directory(&handle, path, &expected);
            }
        }
        for file in self.package.listing().files() {
            if !self.is_closed(file.path.as_str())
                && let Err(fault) = self.check_file(&handle, file)
            {
                self.faults.push(fault);
            }
        }
    }

    /// Whether a directory above has been reported: then its fault stands for all below.
    ///
    /// What cannot be opened for any other reason, such as a directory above that is gone since it
    /// was looked at, is a fault of its own: nothing that was not hashed passes.
    fn is_closed(&self, path: &str) -> bool {
        directories(path).any(|directory| self.closed.contains(directory))
    }

    /// The path as the report shows it.
    fn shown(&self, path: &str) -> String {
        if path.is_empty() { self.package.id().to_string() } else { format!("{}/{path}", self.package.id()) }
    }

    fn open_directory(&mut self, above: impl AsFd, path: &str, shown: &str) -> Result<OwnedFd, Fault> {
        let handle = open_dir(&above, path).map_err(|error| match kind_at(&above, path) {
            Some(kind) if kind != EntryKind::Directory => {
                Fault::new(FaultCode::WrongType, shown).expected("directory").actual(describe_kind(kind))
            }
            _ => absent_or_unreadable(shown, &error),
        })?;
        match Stamp::of(&handle) {
            Ok(stamp) => check_mode(shown, stamp.mode, DIRECTORY_MODE, self.options, &mut self.faults),
            Err(error) => return Err(Fault::io(shown, &error)),
        }
        Ok(handle)
    }

    /// Compares the names in one directory with those that the manifest has there.
    fn check_directory(&mut self, package: &OwnedFd, path: &'a str, expected: &Expected<'_>) {
        let shown = self.shown(path);
        let opened;
        let handle = if path.is_empty() {
            package
        } else {
            match self.open_directory(package, path, &shown) {
                Ok(handle) => {
                    opened = handle;
                    &opened
                }
                Err(fault) => {
                    self.closed.insert(path);
                    return self.faults.push(fault);
                }
            }
        };
        match list_dir(handle) {
            // What is there but of another kind is found when it is opened.
            Ok(entries) => {
                let stray = entries.iter().filter(|entry| !expected.contains_key(entry.name.as_slice()));
                self.faults.extend(stray.map(|entry| unexpected(&shown, entry)));
            }
            Err(error) => self.faults.push(Fault::io(shown, &error)),
        }
    }

    fn check_file(&mut self, package: &OwnedFd, entry: &FileEntry) -> Result<(), Fault> {
        let shown = self.shown(entry.path.as_str());
        let mut file = open_file(package, entry.path.as_str()).map_err(|error| {
            let wrong_type = wrong_type(package, entry.path.as_str(), &shown);
            wrong_type.unwrap_or_else(|| absent_or_unreadable(&shown, &error))
        })?;
        let stamp = Stamp::of(&file).map_err(|error| Fault::io(shown.as_str(), &error))?;
        if stamp.kind != EntryKind::File {
            let fault = Fault::new(FaultCode::WrongType, shown);
            return Err(fault.expected("file").actual(describe_kind(stamp.kind)));
        }
        let mode = if entry.executable { 0o555 } else { 0o444 };
        check_mode(&shown, stamp.mode, mode, self.options, &mut self.faults);
        if stamp.size != entry.size {
            let fault = Fault::new(FaultCode::WrongSize, shown);
            return Err(fault.expected(entry.size).actual(stamp.size));
        }
        let (digest, bytes) =
            self.hash(&mut file, entry.size).map_err(|error| Fault::io(shown.as_str(), &error))?;
        self.files += 1;
        self.bytes += bytes;
        if bytes != entry.size {
            let fault = Fault::new(FaultCode::WrongSize, shown);
            return Err(fault.expected(entry.size).actual(bytes));
        }
        if digest != entry.digest {
            let fault = Fault::new(FaultCode::WrongHash, shown);
            return Err(fault.expected(entry.digest).actual(digest));
        }
        Ok(())
    }

    /// Reads one byte more than there should be, so that a file that grew is seen.
    fn hash(&mut self, file: &mut File, size: u64) -> io::Result<(Digest, u64)> {
        let mut hasher = Hasher::default();
        let mut limited = file.take(size + 1);
        loop {
            match limited.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(read) => hasher.update(&self.buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let bytes = hasher.bytes();
        Ok((hasher.finish(), bytes))
    }
}

/// What a second look finds where opening failed; nothing where it finds none.
fn kind_at(above: impl AsFd, path: &str) -> Option<EntryKind> {
    let stamp = match path.rsplit_once('/') {
        None => Stamp::at(above, path.as_bytes()),
        Some((parent, name)) => Stamp::at(open_dir(above, parent).ok()?, name.as_bytes()),
    };
    Some(stamp.ok()?.kind)
}

/// The fault of something that is not a file where one should be.
fn wrong_type(above: impl AsFd, path: &str, shown: &str) -> Option<Fault> {
    let kind = kind_at(above, path).filter(|kind| *kind != EntryKind::File)?;
    Some(Fault::new(FaultCode::WrongType, shown).expected("file").actual(describe_kind(kind)))
}

/// The directories of a package, its own as the empty path, each with its entries' names.
fn expected_directories(package: &PackageEntry) -> BTreeMap<&str, Expected<'_>> {
    let mut directories: BTreeMap<&str, Expected<'_>> = BTreeMap::from([("", BTreeMap::new())]);
    for file in package.listing().files() {
        let path = file.path.as_str();
        let above = file.path.directories().map(|directory| (directory, EntryKind::Directory));
        for (path, kind) in above.chain([(path, EntryKind::File)]) {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            directories.entry(parent).or_default().insert(name.as_bytes(), kind);
        }
    }
    directories
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Listing;
    use crate::progress::Silent;

    /// Takes minutes where every directory is compared with every other.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "makes the directory that is checked")]
    fn a_package_without_any_of_its_many_directories_is_checked_in_no_time() {
        let file = |path: String| FileEntry {
            path: path.parse().unwrap(),
            executable: false,
            size: 0,
            digest: Digest::of(b""),
        };
        let below = (0..30_000).map(|number| file(format!("{number}/f")));
        let listing = Listing::new(below.chain([file("SKILL.md".to_owned())]).collect()).unwrap();
        let manifest =
            Manifest::new(vec![PackageEntry::new("demo".parse().unwrap(), None, listing)]).unwrap();
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("demo")).unwrap();
        std::fs::write(temp.path().join(MANIFEST_FILE), manifest.to_bytes()).unwrap();
        let started = std::time::Instant::now();
        let options = CheckOptions { portable: true, progress: &Silent };
        let check = check_snapshot(File::open(temp.path()).unwrap(), Some(manifest.digest()), &options);
        // Each directory, and the file beside them; the files below are told with their directories.
        assert_eq!(check.faults.len(), 30_001);
        assert!(check.faults.iter().all(|fault| fault.code == FaultCode::Missing));
        assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    }

    /// What was there when its directory was looked at may be gone when it is to be hashed; if that
    /// were no fault, nobody would have hashed it.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "makes the directory that is checked")]
    fn a_file_whose_directory_went_away_meanwhile_is_missing() {
        let temp = tempfile::tempdir().unwrap();
        let handle = OwnedFd::from(File::open(temp.path()).unwrap());
        let file = |path: &str| FileEntry {
            path: path.parse().unwrap(),
            executable: false,
            size: 0,
            digest: Digest::of(b""),
        };
        let listing = Listing::new(vec![file("SKILL.md"), file("a/b")]).unwrap();
        let package = PackageEntry::new("demo".parse().unwrap(), None, listing);
        let options = CheckOptions { portable: false, progress: &Silent };
        let mut part = Part::new(handle.as_fd(), &package, &options);
        let entry = &package.listing().files()[1];
        let fault = part.check_file(&handle, entry).unwrap_err();
        assert_eq!((fault.code, fault.path.as_str()), (FaultCode::Missing, "demo/a/b"));
    }
}
