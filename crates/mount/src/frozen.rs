//! A snapshot of which single files are read, each checked when it is.

use camino::{Utf8Path, Utf8PathBuf};
use cap_std::fs::Dir;
use skillfreeze_manifest::{CheckOptions, Digest, Fault, Manifest, Silent, read_file, read_manifest};

use crate::alias::FrozenFile;
use crate::verify::{VerifyError, trusted_owners};

/// A snapshot whose manifest is the one that its digest names; its files are checked as they are read.
///
/// Less than [`Verified`](crate::Verified), so it cannot be launched.
#[derive(Debug)]
pub struct Frozen {
    dir: Dir,
    path: Utf8PathBuf,
    digest: Digest,
    manifest: Manifest,
}

impl Frozen {
    /// Reads the manifest of the snapshot in `dir`, which must have this digest. `path` is where `dir`
    /// was opened, for messages.
    ///
    /// # Errors
    /// [`VerifyError::Faults`].
    pub fn open(dir: Dir, path: &Utf8Path, digest: Digest) -> Result<Self, VerifyError> {
        match read_manifest(&dir, digest, &CheckOptions::new(&Silent).portable(true)) {
            Ok(manifest) => Ok(Self { dir, path: path.to_owned(), digest, manifest }),
            Err(faults) => Err(VerifyError::Faults { path: path.to_owned(), digest, faults }),
        }
    }

    /// The manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Where the snapshot was opened.
    #[must_use]
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// The bytes of a file: the very ones that were hashed, whoever may change the file meanwhile.
    ///
    /// # Errors
    /// [`VerifyError::Faults`].
    pub fn read(&self, of: FrozenFile<'_>) -> Result<Vec<u8>, VerifyError> {
        self.checked(of, &CheckOptions::new(&Silent).portable(true))
    }

    /// Checks a file that is to be read by its path: only root and the caller may be able to change it.
    ///
    /// # Errors
    /// [`VerifyError::Faults`].
    pub fn check(&self, of: FrozenFile<'_>) -> Result<(), VerifyError> {
        self.checked(of, &CheckOptions::new(&Silent).owners(&trusted_owners())).map(drop)
    }

    fn checked(&self, of: FrozenFile<'_>, options: &CheckOptions<'_>) -> Result<Vec<u8>, VerifyError> {
        let fail =
            |faults: Vec<Fault>| VerifyError::Faults { path: self.path.clone(), digest: self.digest, faults };
        read_file(&self.dir, of.package, of.file, options).map_err(fail)
    }
}
