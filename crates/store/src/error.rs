//! What goes wrong in a store as a whole.

use std::io;

use rustix::io::Errno;
use skillfreeze_manifest::Digest;

use crate::journal::JournalError;
use crate::package::PackageError;

/// A system call that failed: what was being done, and to what.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{path}`")]
pub struct IoFault {
    /// What was being done, such as `write`.
    pub action: &'static str,
    /// To what: a path relative to the store, or to the package that is read.
    pub path: String,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

impl IoFault {
    /// The stable code: `no-space`, `read-only`, `permission` or `io`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self.source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => "no-space",
            Some(Errno::ROFS) => "read-only",
            Some(Errno::ACCESS | Errno::PERM) => "permission",
            _ => "io",
        }
    }
}

/// Wraps the error of a system call; to be used with `map_err`.
pub(crate) fn failed<E: Into<io::Error>>(
    action: &'static str,
    path: impl Into<String>,
) -> impl FnOnce(E) -> IoFault {
    move |error| IoFault { action, path: path.into(), source: error.into() }
}

/// Why a store cannot be opened, read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The system refused something.
    #[error(transparent)]
    Io(#[from] IoFault),
    /// The store was opened for reading, or has a feature that this version can only read.
    #[error("cannot {action}: the store is open for reading only")]
    ReadOnly {
        /// What was asked for.
        action: &'static str,
    },
    /// The store belongs to somebody else.
    #[error("the store is owned by user {owner}, neither by user {caller} nor by root")]
    Owner {
        /// The owner's numeric id.
        owner: u32,
        /// The caller's numeric id.
        caller: u32,
    },
    /// Others than the owner may change the store.
    #[error("the store has mode {mode:04o}: others may write to it")]
    WritableByOthers {
        /// Its permission bits.
        mode: u32,
    },
    /// The directory holds something else.
    #[error("the directory is no store: it holds `{found}` and no `format.json`")]
    NotAStore {
        /// An entry that no store has, escaped.
        found: String,
    },
    /// The store has changes but does not say in which format.
    #[error("`format.json` is missing though the journal is not empty")]
    FormatMissing,
    /// `format.json` is not what a store has there.
    #[error("`format.json` is malformed")]
    FormatInvalid {
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// The store was made by another version.
    #[error("the store has format {found}; this version knows format {known}")]
    FormatVersion {
        /// What the store says.
        found: u64,
        /// What this version reads and writes.
        known: u64,
    },
    /// The store uses a feature that this version does not know and that changes how it is read.
    #[error("the store uses the feature `{feature}` ({kind}), which this version does not know")]
    FormatFeature {
        /// The feature's name.
        feature: String,
        /// What it says of itself.
        kind: String,
    },
    /// The journal cannot be trusted.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// No revision has this package digest.
    #[error("the store has no package {package}")]
    PackageUnknown {
        /// The package digest.
        package: Digest,
    },
    /// A package's archive is damaged.
    #[error(transparent)]
    Package(#[from] PackageError),
}

impl StoreError {
    /// The stable code of the error, such as `no-space`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io(fault) => fault.code(),
            Self::ReadOnly { .. } => "read-only",
            Self::Owner { .. } => "store-owner",
            Self::WritableByOthers { .. } => "store-writable-by-others",
            Self::NotAStore { .. } => "not-a-store",
            Self::FormatMissing => "format-missing",
            Self::FormatInvalid { .. } => "format-invalid",
            Self::FormatVersion { .. } => "format-version",
            Self::FormatFeature { .. } => "format-feature",
            Self::Journal(error) => error.code(),
            Self::PackageUnknown { .. } => "package-unknown",
            Self::Package(error) => error.code(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_system_errors() {
        for (errno, code) in [
            (Errno::NOSPC, "no-space"),
            (Errno::DQUOT, "no-space"),
            (Errno::ROFS, "read-only"),
            (Errno::ACCESS, "permission"),
            (Errno::PERM, "permission"),
            (Errno::IO, "io"),
        ] {
            let error = StoreError::from(failed::<Errno>("write", "journal")(errno));
            assert_eq!(error.code(), code);
            assert_eq!(error.to_string(), "cannot write `journal`");
        }
    }
}
