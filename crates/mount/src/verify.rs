//! The check before a launch, and the proof of it that launching asks for.

use std::os::fd::{AsFd, BorrowedFd};

use camino::{Utf8Path, Utf8PathBuf};
use cap_std::fs::Dir;
use skillfreeze_manifest::{Check, CheckOptions, Digest, Fault, Manifest, Progress, Stamp, check_snapshot};

/// A snapshot whose every byte matched its manifest when it was checked, by the handle it holds.
///
/// Only [`Verified::check`] makes one, so a launch cannot be had without a check; a process that carries out
/// the launch for the one that checked takes it over as it is.
#[derive(Debug)]
pub struct Verified {
    dir: Dir,
    path: Utf8PathBuf,
    digest: Digest,
    manifest: Manifest,
    counts: Counts,
}

/// How much a check hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Why a snapshot is not launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Something does not match the manifest, or the manifest the digest.
    #[error("`{path}` does not match {digest}: {} fault{}, the first is {}", .faults.len(), if .faults.len() == 1 { "" } else { "s" }, .faults.first().map(ToString::to_string).unwrap_or_default())]
    Faults {
        /// The snapshot directory.
        path: Utf8PathBuf,
        /// What it should be.
        digest: Digest,
        /// All that does not match; at least one.
        faults: Vec<Fault>,
    },
    /// The directory belongs to somebody who could change it at any time.
    #[error("`{path}` belongs to user {owner}, who is neither you nor root")]
    Owner {
        /// The snapshot directory.
        path: Utf8PathBuf,
        /// Its owner's numeric id.
        owner: u32,
    },
    /// The directory could not be examined.
    #[error("cannot examine `{path}`")]
    Io {
        /// The snapshot directory.
        path: Utf8PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl VerifyError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Faults { .. } => "integrity",
            Self::Owner { .. } => "snapshot-owner",
            Self::Io { .. } => "io",
        }
    }
}

impl Verified {
    /// Hashes every file of the snapshot in `dir` and compares it with the manifest that `digest`
    /// names. `path` is where `dir` was opened, for messages and the record.
    ///
    /// # Errors
    /// [`VerifyError`]; with all faults, not the first.
    pub fn check(
        dir: Dir,
        path: &Utf8Path,
        digest: Digest,
        progress: &dyn Progress,
    ) -> Result<Self, VerifyError> {
        let io = |source| VerifyError::Io { path: path.to_owned(), source };
        let stamp = Stamp::of(&dir).map_err(io)?;
        if !is_trusted_owner(stamp.owner) {
            return Err(VerifyError::Owner { path: path.to_owned(), owner: stamp.owner });
        }
        let check =
            check_snapshot(&dir, Some(digest), &CheckOptions::new(progress).owners(&trusted_owners()));
        let Check { manifest, faults, files, bytes, .. } = check;
        match manifest {
            Some(manifest) if faults.is_empty() => {
                Ok(Self { dir, path: path.to_owned(), digest, manifest, counts: Counts { files, bytes } })
            }
            _ if !faults.is_empty() && faults.iter().all(Fault::is_of_machine) => {
                let said = faults[0].actual.clone().unwrap_or_default();
                Err(io(std::io::Error::other(said)))
            }
            _ => Err(VerifyError::Faults { path: path.to_owned(), digest, faults }),
        }
    }

    /// Everything, to be handed to another process of this program.
    pub(crate) fn into_parts(self) -> (Dir, Utf8PathBuf, Digest, Manifest, Counts) {
        (self.dir, self.path, self.digest, self.manifest, self.counts)
    }

    /// The same again, there: the check was made by the process that hands it down.
    pub(crate) fn from_parts(
        dir: Dir,
        path: Utf8PathBuf,
        digest: Digest,
        manifest: Manifest,
        counts: Counts,
    ) -> Self {
        Self { dir, path, digest, manifest, counts }
    }

    /// Hashes everything once more, by the same handle.
    #[must_use]
    pub fn check_again(&self, progress: &dyn Progress) -> Check {
        check_snapshot(&self.dir, Some(self.digest), &CheckOptions::new(progress).owners(&trusted_owners()))
    }

    /// Where the snapshot was opened.
    #[must_use]
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// The snapshot digest.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// How much was hashed.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

impl AsFd for Verified {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// Those who could change a snapshot anyway: root and the caller.
pub(crate) fn trusted_owners() -> [u32; 2] {
    [0, rustix::process::geteuid().as_raw()]
}

/// Whether what `owner` may change can be changed only by the caller or by root.
#[must_use]
pub fn is_trusted_owner(owner: u32) -> bool {
    trusted_owners().contains(&owner)
}
