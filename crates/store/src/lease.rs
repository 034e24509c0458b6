//! Leases: what keeps a snapshot from being removed while it is in use.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use cap_std::fs::Dir;
use skillfreeze_manifest::{Digest, open_file};

use crate::atomic::{is_linked, open_writable};
use crate::error::{IoFault, failed};
use crate::lock::{Sharing, lock};

/// Where the lock files of leases live.
pub(crate) const LEASES: &str = "leases";

/// A shared lock on `leases/<hex>`: while any copy of its descriptor is open, the snapshot stays.
///
/// The kernel releases it, also when the process is killed.
#[derive(Debug)]
pub struct Lease(File);

impl Lease {
    /// Gives up the type for the descriptor, so that it can be passed on to another process.
    #[must_use]
    pub fn into_file(self) -> File {
        self.0
    }

    /// Takes the lease, and makes the lock file where it is absent.
    pub(crate) fn take(root: &Dir, snapshot: &Digest) -> Result<Self, IoFault> {
        let path = path(snapshot);
        loop {
            let file = open_writable(root, &path).map_err(failed("open", path.as_str()))?;
            lock(&file, Sharing::Shared).map_err(failed("lock", path.as_str()))?;
            // Whoever removes a snapshot removes its lock file under an exclusive lock.
            if is_linked(root, &path, &file).map_err(failed("look at", path.as_str()))? {
                return Ok(Self(file));
            }
        }
    }

    /// Takes the lease if that needs no writing.
    pub(crate) fn take_existing(root: &Dir, snapshot: &Digest) -> Result<Option<Self>, IoFault> {
        let path = path(snapshot);
        match open_file(root, &path) {
            Ok(file) => {
                lock(&file, Sharing::Shared).map_err(failed("lock", path.as_str()))?;
                let linked = is_linked(root, &path, &file).map_err(failed("look at", path.as_str()))?;
                Ok(linked.then_some(Self(file)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("open", path)(error)),
        }
    }
}

impl AsFd for Lease {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub(crate) fn path(snapshot: &Digest) -> String {
    format!("{LEASES}/{}", snapshot.hex())
}
