//! The check of one package of a snapshot.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::check::{CheckOptions, DIRECTORY_MODE, absent_or_unreadable, kind_at, unexpected, wrong_type};
use crate::digest::{Digest, Hasher};
use crate::fault::{Fault, FaultCode};
use crate::listing::FileEntry;
use crate::nofollow::{EntryKind, Stamp, describe_kind, list_dir, open_dir, open_file};
use crate::path::directories;
use crate::snapshot::PackageEntry;

/// Files are read in pieces of this size, each hashed while it is in the cache.
const BUFFER_BYTES: usize = 128 << 10;

/// The check of one package.
pub(crate) struct Part<'a> {
    root: BorrowedFd<'a>,
    package: &'a PackageEntry,
    options: &'a CheckOptions<'a>,
    buffer: Vec<u8>,
    /// The directories that could not be opened; what is below them is not looked at.
    closed: HashSet<&'a str>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// What the manifest says of the entries of one directory, by name.
type Expected<'a> = BTreeMap<&'a [u8], EntryKind>;

impl<'a> Part<'a> {
    pub(crate) fn new(
        root: BorrowedFd<'a>,
        package: &'a PackageEntry,
        options: &'a CheckOptions<'a>,
    ) -> Self {
        // Most packages are small, and a buffer of the full size costs more than reading them does.
        let largest = package.listing().files().iter().map(|file| file.size).max().unwrap_or(0);
        let bytes = usize::try_from(largest + 1).map_or(BUFFER_BYTES, |bytes| bytes.min(BUFFER_BYTES));
        let buffer = vec![0; bytes];
        let (closed, faults) = (HashSet::new(), Vec::new());
        Self { root, package, options, buffer, closed, faults, files: 0, bytes: 0 }
    }

    pub(crate) fn run(&mut self) {
        let id = self.package.id().as_str();
        let handle = match self.open_directory(self.root, id, id) {
            Ok(handle) => handle,
            Err(fault) => return self.faults.push(fault),
        };
        if let Some(sink) = self.options.sink
            && let Err(error) = sink.begin(self.package)
        {
            return self.faults.push(Fault::copying(id, &error));
        }
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
            Ok(stamp) => self.options.compare(shown, &stamp, DIRECTORY_MODE, &mut self.faults),
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

    /// Checks one file of the package alone, and gives its bytes: the very ones that were hashed.
    pub(crate) fn read(&mut self, entry: &FileEntry) -> Result<Vec<u8>, Fault> {
        let id = self.package.id().as_str();
        let handle = self.open_directory(self.root, id, id)?;
        let mut bytes = Vec::new();
        self.check_copying(&handle, entry, || Ok(Some(&mut bytes)))?;
        Ok(bytes)
    }

    fn check_file(&mut self, package: &OwnedFd, entry: &FileEntry) -> Result<(), Fault> {
        let (sink, of) = (self.options.sink, self.package);
        self.check_copying(package, entry, || sink.map(|sink| sink.create(of, entry)).transpose())
    }

    /// Checks a file, and writes what is hashed to what `copy` opens.
    fn check_copying<W: Write>(
        &mut self,
        package: &OwnedFd,
        entry: &FileEntry,
        copy: impl FnOnce() -> io::Result<Option<W>>,
    ) -> Result<(), Fault> {
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
        self.options.compare(&shown, &stamp, mode, &mut self.faults);
        if stamp.size != entry.size {
            let fault = Fault::new(FaultCode::WrongSize, shown);
            return Err(fault.expected(entry.size).actual(stamp.size));
        }
        let copy = copy().map_err(|error| Fault::copying(shown.as_str(), &error))?;
        let (digest, bytes) = self.hash(&shown, &mut file, entry.size, copy)?;
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
    fn hash<W: Write>(
        &mut self,
        shown: &str,
        file: &mut File,
        size: u64,
        mut copy: Option<W>,
    ) -> Result<(Digest, u64), Fault> {
        let mut hasher = Hasher::default();
        let mut limited = file.take(size + 1);
        loop {
            match limited.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(read) => {
                    hasher.update(&self.buffer[..read]);
                    // The same buffer, so that what is copied is what is hashed.
                    if let Some(copy) = copy.as_mut().filter(|_| hasher.bytes() <= size) {
                        let copied = copy.write_all(&self.buffer[..read]);
                        copied.map_err(|error| Fault::copying(shown, &error))?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::io(shown, &error)),
            }
        }
        let bytes = hasher.bytes();
        Ok((hasher.finish(), bytes))
    }
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
    use crate::check::check_snapshot;
    use crate::listing::Listing;
    use crate::progress::Silent;
    use crate::snapshot::{MANIFEST_FILE, Manifest};

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
        let options = CheckOptions::new(&Silent).portable(true);
        let check = check_snapshot(File::open(temp.path()).unwrap(), Some(manifest.digest()), &options);
        // Each directory, and the file beside them; the files below are told with their directories.
        assert_eq!(check.faults.len(), 30_001);
        assert!(check.faults.iter().all(|fault| fault.code == FaultCode::Missing));
        assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "makes the directory that is checked")]
    fn whoever_owns_anything_of_a_snapshot_is_one_of_those_who_may() {
        use std::os::unix::fs::MetadataExt as _;

        let path = |path: &str| path.parse().unwrap();
        let digest = Digest::of(b"");
        let file = |name| FileEntry { path: path(name), executable: false, size: 0, digest };
        let listing = Listing::new(vec![file("SKILL.md"), file("a/b")]).unwrap();
        let manifest =
            Manifest::new(vec![PackageEntry::new("demo".parse().unwrap(), None, listing)]).unwrap();
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(temp.path().join("demo/a")).unwrap();
        for (name, content) in
            [(MANIFEST_FILE, manifest.to_bytes()), ("demo/SKILL.md", vec![]), ("demo/a/b", vec![])]
        {
            std::fs::write(temp.path().join(name), content).unwrap();
        }
        let owner = std::fs::metadata(temp.path()).unwrap().uid();
        let check = |owners: &[u32]| {
            let options = CheckOptions::new(&Silent).portable(true).owners(owners);
            check_snapshot(File::open(temp.path()).unwrap(), Some(manifest.digest()), &options).faults
        };
        assert_eq!(check(&[owner + 1, owner]), []);
        let faults = check(&[owner + 1, owner + 2]);
        let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, [".", MANIFEST_FILE, "demo", "demo/SKILL.md", "demo/a", "demo/a/b"]);
        for fault in faults {
            assert_eq!(fault.code, FaultCode::WrongOwner);
            assert_eq!(fault.expected, Some(format!("{} or {}", owner + 1, owner + 2)));
            assert_eq!(fault.actual, Some(owner.to_string()));
        }
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
        let options = CheckOptions::new(&Silent);
        let mut part = Part::new(handle.as_fd(), &package, &options);
        let entry = &package.listing().files()[1];
        let fault = part.check_file(&handle, entry).unwrap_err();
        assert_eq!((fault.code, fault.path.as_str()), (FaultCode::Missing, "demo/a/b"));
    }
}
