//! The stage: a private file system in memory that holds the very bytes that were hashed.
//!
//! It is mounted by the helper in namespaces of its own, while it has a single thread, and filled by
//! the check itself: each buffer is hashed and written. Then the file system, not only a mount of
//! it, is made read-only. Its owner is the user namespace of the helper; the command runs in one
//! below, from where nobody can make it writable again. It is gone with the last process of the
//! launch.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use camino::Utf8Path;
use nix::mount::{MsFlags, mount};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::param::page_size;
use skillfreeze_manifest::{
    Check, CheckOptions, Digest, Fault, FileEntry, MANIFEST_FILE, Manifest, PackageEntry, Silent, Sink,
    Stamp, check_snapshot,
};

/// Memory that an inode and its directory entry take: the kernel's own structures, measured on 6.18 (752 and
/// 192 bytes, and what a long name takes).
const INODE_BYTES: u64 = 1 << 10;
/// Memory of a node of the tree that finds a file's pages, and how many of them it finds.
const NODE_BYTES: u64 = 584;
const NODE_PAGES: u64 = 64;
/// What a stage may hold beyond what it needs: too wide a limit costs nothing, for only what the manifest
/// lists is written; too tight a one refuses a launch. Kernels charge just the pages of files; security
/// modules' labels count as parts of inodes.
const SPARE_BYTES: u64 = 64 << 10;
const SPARE_INODES: u64 = 64;

/// How much a stage needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// The pages of its files, in bytes.
    pub(crate) bytes: u64,
    /// Files and directories.
    pub(crate) inodes: u64,
}

impl Size {
    /// What the packages of a manifest need.
    pub(crate) fn of(manifest: &Manifest) -> Self {
        Self::in_pages(manifest, page_size() as u64)
    }

    fn in_pages(manifest: &Manifest, page: u64) -> Self {
        let pages = |bytes: u64| bytes.div_ceil(page).saturating_mul(page);
        // The root and the manifest.
        let mut size = Self { bytes: pages(manifest.to_bytes().len() as u64), inodes: 2 };
        for package in manifest.packages() {
            let files = package.listing().files();
            size.bytes += files.iter().map(|file| pages(file.size)).sum::<u64>();
            size.inodes += (files.len() + directories(package).len() + 1) as u64;
        }
        size
    }

    /// The memory that it takes in all.
    pub(crate) fn memory(self) -> u64 {
        let nodes = self.bytes / (page_size() as u64 * NODE_PAGES) * NODE_BYTES;
        self.bytes + nodes + self.inodes * INODE_BYTES
    }
}

/// The directories of a package, each after those above it.
pub(crate) fn directories(package: &PackageEntry) -> std::collections::BTreeSet<&str> {
    package.listing().files().iter().flat_map(|file| file.path.directories()).collect()
}

/// Mounts an empty stage over the directory `at`.
///
/// # Errors
/// What mount(2) says.
pub(crate) fn make(at: &Utf8Path, size: Size) -> io::Result<OwnedFd> {
    let (bytes, inodes) = (size.bytes + SPARE_BYTES, size.inodes * 2 + SPARE_INODES);
    let options = format!("mode=0555,size={bytes},nr_inodes={inodes}");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("skillfreeze"), at.as_std_path(), Some("tmpfs"), flags, Some(options.as_str()))?;
    Ok(openat(CWD, at.as_std_path(), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Makes the whole file system read-only, for every mount of it there is or will be.
///
/// # Errors
/// What mount(2) says.
pub(crate) fn close(at: &Utf8Path) -> io::Result<()> {
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    Ok(mount(None::<&str>, at.as_std_path(), None::<&str>, flags, None::<&str>)?)
}

/// Fills a stage with the snapshot behind a handle, which must have this digest. What it holds afterwards
/// is the snapshot only if the check is clean.
///
/// Whose the snapshot is does not matter any more, and cannot be told in a user namespace.
pub(crate) fn fill(stage: &OwnedFd, snapshot: impl AsFd, digest: Digest) -> io::Result<Check> {
    let sink = Filling { stage };
    let options = CheckOptions::new(&Silent).sink(&sink);
    let check = check_snapshot(snapshot, Some(digest), &options);
    if let Some(manifest) = &check.manifest {
        create(stage, MANIFEST_FILE, 0o444)?.write_all(&manifest.to_bytes())?;
    }
    Ok(check)
}

/// What kept the machine from copying what it read, if nothing else was found amiss: then there is nothing
/// wrong with the snapshot.
pub(crate) fn machines_failure(check: &Check) -> Option<io::Error> {
    let fault = check.faults.first()?;
    let message = || format!("`{}`: {}", fault.path, fault.actual.as_deref().unwrap_or("no room"));
    check.faults.iter().all(Fault::is_of_machine).then(|| io::Error::other(message()))
}

/// Device and inode of a stage's root.
pub(crate) fn identity(stage: &OwnedFd) -> io::Result<(u64, u64)> {
    let Stamp { device, inode, .. } = Stamp::of(stage)?;
    Ok((device, inode))
}

/// Writes what is hashed into a stage. The helper has no mask, and its powers in the stage's user
/// namespace let it write into directories that nobody may write.
struct Filling<'a> {
    stage: &'a OwnedFd,
}

impl Sink for Filling<'_> {
    fn begin(&self, package: &PackageEntry) -> io::Result<()> {
        let mode = Mode::from_raw_mode(0o555);
        let id = package.id().as_str();
        mkdirat(self.stage, id, mode)?;
        for directory in directories(package) {
            mkdirat(self.stage, format!("{id}/{directory}"), mode)?;
        }
        Ok(())
    }

    fn create(&self, package: &PackageEntry, file: &FileEntry) -> io::Result<File> {
        let mode = if file.executable { 0o555 } else { 0o444 };
        create(self.stage, &format!("{}/{}", package.id(), file.path), mode)
    }
}

fn create(stage: &OwnedFd, path: &str, mode: u32) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(stage, path, flags, Mode::from_raw_mode(mode))?))
}

#[cfg(test)]
mod tests {
    use skillfreeze_manifest::Listing;

    use super::*;

    #[test]
    fn a_size_counts_pages_and_directories() {
        let entry = |(path, size): (&str, u64)| {
            let (path, digest) = (path.parse().unwrap(), Digest::of(b""));
            FileEntry { path, executable: false, size, digest }
        };
        for (files, pages, inodes) in [
            (&[][..], 0, 0),
            (&[("SKILL.md", 0)], 0, 2),
            (&[("SKILL.md", 1)], 1, 2),
            (&[("SKILL.md", 4096), ("a", 4097)], 3, 3),
            (&[("SKILL.md", 1), ("a/b/c", 1), ("a/b/d", 1), ("a/e", 1)], 4, 7),
        ] {
            let listing = files.iter().map(|file| entry(*file)).collect();
            let packages = match Listing::new(listing) {
                Ok(listing) => vec![PackageEntry::new("demo".parse().unwrap(), None, listing)],
                Err(_) => Vec::new(),
            };
            // The manifest itself takes a page, the root and the manifest an inode each.
            let manifest = Manifest::new(packages).unwrap();
            let expected = Size { bytes: (pages + 1) * 4096, inodes: inodes + 2 };
            assert_eq!(Size::in_pages(&manifest, 4096), expected, "{files:?}");
        }
    }
}
