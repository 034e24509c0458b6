//! Freezing: writes the selected revisions out as a snapshot, or finds that it is there and whole.

use std::io;
use std::io::Write as _;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _, Permissions, PermissionsExt as _};
use skillfreeze_manifest::{
    Check, CheckOptions, Digest, Fault, FileEntry, MANIFEST_FILE, Manifest, ManifestError, PackageEntry,
    Progress, SkillId, Version, check_snapshot, for_each,
};
use skillfreeze_store::{PackageError, Published, Store, StoreError};

/// How often a snapshot that others set aside, publish and damage at the same time is tried.
const ATTEMPTS: usize = 8;
/// Files are copied in pieces of this size.
const BUFFER_BYTES: usize = 64 << 10;

/// A revision to freeze.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Under which name it is mounted.
    pub id: SkillId,
    /// Its package digest.
    pub digest: Digest,
    /// Its author's version.
    pub version: Option<Version>,
}

/// What is done with a snapshot that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It is used only if every byte matches.
    Check,
    /// It is used; the caller checks it itself before anything else is done with it.
    LeaveToCaller,
}

/// A snapshot in the store.
#[derive(Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its digest.
    pub digest: Digest,
    /// What it holds.
    pub manifest: Manifest,
    /// Its directory.
    pub dir: Dir,
    /// Whether it was there already.
    pub reused: bool,
    /// The names under which damaged ones were set aside.
    pub set_aside: Vec<String>,
}

/// Why nothing was frozen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FreezeError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store does not have a package.
    #[error("the store does not have the package {digest} of `{id}`")]
    PackageMissing {
        /// The skill.
        id: SkillId,
        /// Its package digest.
        digest: Digest,
    },
    /// A package in the store is damaged, lost or unreadable.
    #[error("the store's package of `{id}` cannot be used")]
    Package {
        /// The skill.
        id: SkillId,
        /// What is wrong with it.
        source: PackageError,
    },
    /// The packages do not make a manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The snapshot cannot be written.
    #[error("cannot write `{path}`")]
    Write {
        /// Where, in the snapshot.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The machine had no room to check a snapshot that is there, which may be whole.
    #[error("the snapshot that is there cannot be checked: {fault}")]
    Unchecked {
        /// Where that was, and what the system said.
        fault: Fault,
    },
    /// The snapshot was damaged as often as it was written.
    #[error("the snapshot {digest} was damaged again right after it had been written")]
    Unstable {
        /// Its digest.
        digest: Digest,
    },
}

impl FreezeError {
    /// What the store says about the package of one skill.
    fn of(id: &SkillId, error: StoreError) -> Self {
        match error {
            StoreError::Package(source) => Self::Package { id: id.clone(), source },
            error => Self::Store(error),
        }
    }
}

/// Works out what a snapshot of these revisions holds, from the store's listings.
///
/// # Errors
/// [`FreezeError`] when the store lacks a package or an id stands twice.
pub fn manifest_of(store: &Store, packages: &[Pin]) -> Result<Manifest, FreezeError> {
    let entry = |package: &Pin| {
        let Pin { id, digest, version } = package.clone();
        let listing = store.listing(&digest).map_err(|error| FreezeError::of(&id, error))?;
        let listing = listing.ok_or(FreezeError::PackageMissing { id: id.clone(), digest })?;
        Ok(PackageEntry::new(id, version, listing))
    };
    let entries = packages.iter().map(entry).collect::<Result<Vec<_>, FreezeError>>()?;
    Ok(Manifest::new(entries)?)
}

/// Freezes revisions that the store has.
///
/// The snapshot is built aside, made durable and renamed into place whole. One that is there is
/// reused only after a full check (or left to the caller's); a damaged one is set aside and built
/// again. Crash contract: a crash at any moment leaves the snapshot absent or whole; what was being
/// built is swept later.
///
/// # Errors
/// [`FreezeError`].
pub fn freeze(
    store: &Store,
    packages: &[Pin],
    existing: Existing,
    progress: &dyn Progress,
) -> Result<Snapshot, FreezeError> {
    let manifest = manifest_of(store, packages)?;
    let bytes = manifest.to_bytes();
    let digest = Digest::of(&bytes);
    let mut set_aside = Vec::new();
    for _ in 0..ATTEMPTS {
        if let Some(dir) = store.open_snapshot(&digest)? {
            // As a launch will have it: nobody else may own any of it.
            let owners = [0, rustix::process::geteuid().as_raw()];
            let options = CheckOptions::new(progress).owners(&owners);
            let is_left = existing == Existing::LeaveToCaller;
            let check = (!is_left).then(|| check_snapshot(&dir, Some(digest), &options));
            if check.as_ref().is_none_or(Check::is_clean) {
                return Ok(Snapshot { digest, manifest, dir, reused: true, set_aside });
            }
            let faults = check.map(|check| check.faults).unwrap_or_default();
            if let Some(fault) = faults.into_iter().find(Fault::is_of_machine) {
                return Err(FreezeError::Unchecked { fault });
            }
            match store.set_aside_snapshot(&digest, &dir)? {
                Some(name) => set_aside.push(name),
                // Others have found it damaged too, and may have built it again.
                None => continue,
            }
        }
        let staging = store.stage_snapshot()?;
        write_snapshot(store, staging.dir(), &manifest, &bytes, progress)?;
        // Whoever was faster has the same digest, and is checked like any other that is there.
        if matches!(staging.publish(&digest)?, Published::Existed) {
            continue;
        }
        if let Some(dir) = store.open_snapshot(&digest)? {
            return Ok(Snapshot { digest, manifest, dir, reused: false, set_aside });
        }
    }
    Err(FreezeError::Unstable { digest })
}

fn write_snapshot(
    store: &Store,
    dir: &Dir,
    manifest: &Manifest,
    bytes: &[u8],
    progress: &dyn Progress,
) -> Result<(), FreezeError> {
    progress.begin("freezing", manifest.packages().len());
    let written = for_each(manifest.packages().len(), |index| {
        let result = write_package(store, dir, &manifest.packages()[index]);
        progress.advance();
        result
    });
    written.into_iter().collect::<Result<(), _>>()?;
    create(dir, MANIFEST_FILE, 0o444)
        .and_then(|mut file| file.write_all(bytes))
        .map_err(|source| FreezeError::Write { path: MANIFEST_FILE.to_owned(), source })
}

fn write_package(store: &Store, root: &Dir, package: &PackageEntry) -> Result<(), FreezeError> {
    let id = package.id();
    let failed = |path: String| move |source| FreezeError::Write { path, source };
    let dir = create_directories(root, package).map_err(failed(id.to_string()))?;
    let mut refused = None;
    let mut buffer = vec![0; BUFFER_BYTES];
    let write = |entry: &FileEntry, content: &mut dyn io::Read| {
        let mode = if entry.executable { 0o555 } else { 0o444 };
        let mut file = create(&dir, entry.path.as_str(), mode);
        // The store hashes what is copied here while it is copied. What it cannot read is its own
        // fault to tell; what cannot be written is not.
        loop {
            let read = match content.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            let written = file.and_then(|mut file| file.write_all(&buffer[..read]).map(|()| file));
            file = match written {
                Ok(_) if read == 0 => return Ok(()),
                Ok(file) => Ok(file),
                Err(source) => {
                    refused = Some(FreezeError::Write { path: format!("{id}/{}", entry.path), source });
                    return Err(io::ErrorKind::Other.into());
                }
            };
        }
    };
    let opened = store.open_package(&package.digest()).map_err(|error| FreezeError::of(id, error))?;
    let read = opened.read_files(write);
    if let Some(refused) = refused {
        return Err(refused);
    }
    read.map_err(|source| FreezeError::Package { id: id.clone(), source })?;
    close_directories(&dir, package).map_err(failed(id.to_string()))
}

/// Makes the package's directories, still writable for their owner.
fn create_directories(root: &Dir, package: &PackageEntry) -> io::Result<Dir> {
    // Whatever the caller's mask takes away, files must be made in them now.
    let make = |dir: &Dir, path: &str| {
        dir.create_dir(path)?;
        dir.set_permissions(path, Permissions::from_mode(0o700))
    };
    make(root, package.id().as_str())?;
    let dir = root.open_dir(package.id().as_str())?;
    for directory in directories(package) {
        make(&dir, directory)?;
    }
    Ok(dir)
}

/// Gives the package's directories their final mode, from the bottom up.
fn close_directories(dir: &Dir, package: &PackageEntry) -> io::Result<()> {
    let mode = || Permissions::from_mode(0o555);
    for directory in directories(package).into_iter().rev() {
        dir.set_permissions(directory, mode())?;
    }
    dir.set_permissions(".", mode())
}

/// The directories of a package, each after those above it.
fn directories(package: &PackageEntry) -> std::collections::BTreeSet<&str> {
    package.listing().files().iter().flat_map(|file| file.path.directories()).collect()
}

/// Creates a file with exactly this mode, whatever the caller's mask takes away.
fn create(dir: &Dir, path: &str, mode: u32) -> io::Result<cap_std::fs::File> {
    let file = dir.open_with(path, OpenOptions::new().write(true).create_new(true).mode(mode))?;
    rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(mode))?;
    Ok(file)
}
