//! How much memory a sealed copy of a snapshot takes.

use rustix::param::page_size;
use skillfreeze_manifest::{Manifest, PackageEntry};

/// Memory that an inode and its directory entry take: the kernel's own structures, measured on 6.18 (752 and
/// 192 bytes, and what a long name takes).
const INODE_BYTES: u64 = 1 << 10;
/// Memory of a node of the tree that finds a file's pages, and how many of them it finds.
const NODE_BYTES: u64 = 584;
const NODE_PAGES: u64 = 64;

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

/// The directories of a snapshot below its root, each after those above it.
pub(crate) fn snapshot_directories(manifest: &Manifest) -> Vec<String> {
    let mut found = Vec::new();
    for package in manifest.packages() {
        found.push(package.id().to_string());
        let below = directories(package).into_iter();
        found.extend(below.map(|directory| format!("{}/{directory}", package.id())));
    }
    found
}

/// The directories of a package, each after those above it.
pub(crate) fn directories(package: &PackageEntry) -> std::collections::BTreeSet<&str> {
    package.listing().files().iter().flat_map(|file| file.path.directories()).collect()
}

#[cfg(test)]
mod tests {
    use skillfreeze_manifest::{Digest, FileEntry, Listing};

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
