//! Snapshots: staged aside, published whole, opened by handle.

use std::os::fd::AsFd as _;

use cap_std::fs::Dir;
use rustix::fs::{Mode, OFlags, fchmod, fsync, openat, syncfs};
use rustix::io::Errno;
use skillfreeze_manifest::{Digest, list_dir, open_dir};

use crate::atomic::{
    Guard, STAGED_PREFIX, is_linked, make_dir, open_directory, random_name, remove_tree, rename_new,
};
use crate::error::{StoreError, failed};
use crate::import::is_gone;

/// Where snapshots live.
pub(crate) const SNAPSHOTS: &str = "snapshots/sha256";
/// What the name of a damaged snapshot that was set aside begins with.
const DAMAGED_PREFIX: &str = ".damaged-";

/// What became of a staged snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// It is in its place now.
    New,
    /// Something was in its place already; the staged tree is gone.
    Existed,
}

/// A snapshot that is being made, beside its place and for its owner only.
///
/// Dropped without being published, it is removed. After a crash the next process that opens the
/// store for writing removes it.
#[derive(Debug)]
pub struct Staging {
    dir: Dir,
    name: String,
    parent: Dir,
    is_done: bool,
    /// Says that the staged tree is somebody's; dropped last.
    _guard: Guard,
}

impl Staging {
    /// Makes an empty staging directory.
    pub(crate) fn new(root: &Dir) -> Result<Self, StoreError> {
        let guard = Guard::new(root)?;
        let parent = open_directory(root, SNAPSHOTS)?;
        let name = format!("{STAGED_PREFIX}{}", guard.name());
        make_dir(&parent, &name)?;
        let dir = open_directory(&parent, &name)?;
        Ok(Self { dir, name, parent, is_done: false, _guard: guard })
    }

    /// The directory to fill. Everything below it must have its final mode before it is published.
    #[must_use]
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Publishes the tree as the snapshot `digest`.
    ///
    /// The tree is made durable, its directory set to 0555, then it is renamed without replacing
    /// anything, then the rename is made durable. A crash leaves no snapshot or the whole one.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be made durable or renamed; the staged tree is removed then.
    pub fn publish(mut self, digest: &Digest) -> Result<Published, StoreError> {
        let path = snapshot_path(digest);
        fchmod(&self.dir, Mode::from_raw_mode(0o555)).map_err(failed("set the mode of", path.as_str()))?;
        syncfs(&self.dir).map_err(failed("sync", path.as_str()))?;
        let is_new = rename_new(&self.parent, &self.name, &self.parent, &digest.hex())
            .map_err(failed("publish", path))?;
        if !is_new {
            self.remove().map_err(failed("remove", format!("{SNAPSHOTS}/{}", self.name)))?;
            self.is_done = true;
            return Ok(Published::Existed);
        }
        self.is_done = true;
        fsync(&self.parent).map_err(failed("sync", SNAPSHOTS))?;
        Ok(Published::New)
    }

    fn remove(&self) -> std::io::Result<()> {
        remove_tree(&self.parent, self.name.as_bytes())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.is_done {
            // What cannot be removed now is swept later.
            let _ = self.remove();
        }
    }
}

/// A snapshot's path relative to the store.
pub(crate) fn snapshot_path(digest: &Digest) -> String {
    format!("{SNAPSHOTS}/{}", digest.hex())
}

/// Opens whatever bears a snapshot's name, itself where it is a link.
pub(crate) fn open_snapshot(root: &Dir, digest: &Digest) -> Result<Option<Dir>, StoreError> {
    let path = snapshot_path(digest);
    match open_dir(root, &path) {
        Ok(dir) => return Ok(Some(Dir::from_std_file(dir.into()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if !is_gone(&error) => return Err(failed("open", path)(error).into()),
        Err(_) => {}
    }
    // No directory: opened for nothing but to be looked at and told from others.
    let parent = open_directory(root, SNAPSHOTS)?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&parent, digest.hex(), flags, Mode::empty()) {
        Ok(found) => Ok(Some(Dir::from_std_file(found.into()))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(failed("open", path)(error).into()),
    }
}

/// The digests by which snapshots are named, sorted.
pub(crate) fn snapshots(root: &Dir) -> Result<Vec<Digest>, StoreError> {
    let dir = match open_dir(root, SNAPSHOTS) {
        Ok(dir) => dir,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("open", SNAPSHOTS)(error).into()),
    };
    let entries = list_dir(dir.as_fd()).map_err(failed("list", SNAPSHOTS))?;
    let mut digests: Vec<Digest> = entries
        .iter()
        .filter_map(|entry| str::from_utf8(&entry.name).ok())
        .filter_map(|name| Digest::from_hex(name).ok())
        .collect();
    digests.sort_unstable();
    Ok(digests)
}

/// Renames `checked` so that the place of the snapshot is free, and gives its new name in the same
/// directory; none when it no longer stands there.
///
/// To be called by one at a time: between the look and the rename nobody else may rename it, and what
/// is published replaces nothing.
pub(crate) fn set_aside(root: &Dir, digest: &Digest, checked: &Dir) -> Result<Option<String>, StoreError> {
    let parent = open_directory(root, SNAPSHOTS)?;
    let path = || snapshot_path(digest);
    loop {
        if !is_linked(&parent, &digest.hex(), checked).map_err(failed("look at", path()))? {
            return Ok(None);
        }
        let name = format!("{DAMAGED_PREFIX}{}", random_name()?);
        let renamed = rename_new(&parent, &digest.hex(), &parent, &name);
        if renamed.map_err(failed("set aside", path()))? {
            fsync(&parent).map_err(failed("sync", SNAPSHOTS))?;
            return Ok(Some(name));
        }
    }
}
