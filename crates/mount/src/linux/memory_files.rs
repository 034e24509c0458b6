//! Sealed memory files: the snapshot's bytes where the launch cannot mount a stage of its own.
//!
//! Some systems let only named programs create user namespaces, bubblewrap among them. Each file of
//! the snapshot is then hashed into a memory file, which is sealed so that nobody can change it, and
//! handed to bubblewrap, which writes them into a file system of its sandbox before anything runs.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use skillfreeze_manifest::{
    Check, CheckOptions, Digest, FileEntry, MANIFEST_FILE, Manifest, PackageEntry, Silent, Sink,
    check_snapshot,
};

use crate::backend::Bubblewrap;
use crate::launch_error::LaunchError;
use crate::size::snapshot_directories;

/// Arguments of bubblewrap for a directory.
const DIRECTORY_WORDS: usize = 4;
/// Arguments of bubblewrap for a file.
const FILE_WORDS: usize = 5;

/// A snapshot in memory files.
#[derive(Debug)]
pub(crate) struct MemoryFiles {
    /// The directories, each after those above it.
    directories: Vec<String>,
    /// The files by path, with their mode.
    files: Vec<(String, u32, OwnedFd)>,
}

impl MemoryFiles {
    /// Hashes the snapshot behind a handle into memory files; what they hold is the snapshot only if
    /// the check is clean.
    ///
    /// # Errors
    /// What memfd_create(2), write(2) or fcntl(2) says beside the check.
    pub(crate) fn fill(snapshot: impl AsFd, digest: Digest, owners: &[u32]) -> io::Result<(Check, Self)> {
        let sink = Collecting::default();
        let options = CheckOptions::new(&Silent).owners(owners).sink(&sink);
        let check = check_snapshot(snapshot, Some(digest), &options);
        let mut files = sink.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut directories = Vec::new();
        if let Some(manifest) = &check.manifest {
            let mut file = create()?;
            file.write_all(&manifest.to_bytes())?;
            files.push((MANIFEST_FILE.to_owned(), 0o444, file));
            directories = snapshot_directories(manifest);
        }
        files.sort_by(|(first, ..), (second, ..)| first.cmp(second));
        let seal = |(path, mode, mut file): (String, u32, File)| {
            let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
            fcntl_add_seals(&file, seals)?;
            file.rewind()?;
            Ok((path, mode, OwnedFd::from(file)))
        };
        let files = files.into_iter().map(seal).collect::<io::Result<Vec<_>>>()?;
        Ok((check, Self { directories, files }))
    }

    /// How many descriptors they take.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Where bubblewrap is to put them below a directory, from descriptors that follow each other.
    pub(crate) fn arguments(&self, at: &Utf8Path, first: RawFd) -> Vec<String> {
        let mut arguments =
            Vec::with_capacity(self.directories.len() * DIRECTORY_WORDS + self.files.len() * FILE_WORDS);
        let mut push = |words: &[&str]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
        for directory in &self.directories {
            push(&["--perms", "0555", "--dir", at.join(directory).as_str()]);
        }
        for ((path, mode, _), number) in self.files.iter().zip(first..) {
            let target: Utf8PathBuf = at.join(path);
            push(&["--perms", &format!("{mode:04o}"), "--file", &number.to_string(), target.as_str()]);
        }
        push(&["--remount-ro", at.as_str()]);
        arguments
    }

    /// Their descriptors, in the order in which they follow each other.
    pub(crate) fn into_descriptors(self) -> impl Iterator<Item = OwnedFd> {
        self.files.into_iter().map(|(_, _, file)| file)
    }
}

/// How many memory files a snapshot takes, its manifest included.
///
/// # Errors
/// [`LaunchError::TooManyFiles`] where bubblewrap could not be told of as many, before any is made.
pub(crate) fn count(manifest: &Manifest) -> Result<usize, LaunchError> {
    let files: usize = manifest.packages().iter().map(|package| package.listing().files().len()).sum();
    let files = files + 1;
    let actual = snapshot_directories(manifest).len() * DIRECTORY_WORDS + files * FILE_WORDS;
    if actual > Bubblewrap::MAX_ARGUMENTS {
        return Err(LaunchError::TooManyFiles { actual, limit: Bubblewrap::MAX_ARGUMENTS });
    }
    Ok(files)
}

fn create() -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    Ok(File::from(memfd_create("skillfreeze", flags)?))
}

/// Collects what is hashed.
#[derive(Default)]
struct Collecting(Mutex<Vec<(String, u32, File)>>);

impl Sink for Collecting {
    fn begin(&self, _: &PackageEntry) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, package: &PackageEntry, entry: &FileEntry) -> io::Result<File> {
        let file = create()?;
        let mode = if entry.executable { 0o555 } else { 0o444 };
        let kept = (format!("{}/{}", package.id(), entry.path), mode, file.try_clone()?);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        Ok(file)
    }
}
