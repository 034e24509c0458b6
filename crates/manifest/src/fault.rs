//! What a check can find wrong.

use std::fmt;
use std::io;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// What is wrong at a path of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FaultCode {
    /// The manifest lists it and it is not there.
    Missing,
    /// It is there and the manifest does not list it.
    Unexpected,
    /// It is a link, directory or something else where a file or directory should be.
    WrongType,
    /// It has another number of bytes.
    WrongSize,
    /// Its bytes have another digest.
    WrongHash,
    /// Its permission bits are others.
    WrongMode,
    /// It belongs to somebody who must not be able to change it.
    WrongOwner,
    /// The system would not let it be read.
    Unreadable,
    /// The manifest is not the one that the caller named.
    ManifestDigest,
    /// The manifest is none.
    ManifestInvalid,
}

impl fmt::Display for FaultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "missing",
            Self::Unexpected => "unexpected",
            Self::WrongType => "wrong-type",
            Self::WrongSize => "wrong-size",
            Self::WrongHash => "wrong-hash",
            Self::WrongMode => "wrong-mode",
            Self::WrongOwner => "wrong-owner",
            Self::Unreadable => "unreadable",
            Self::ManifestDigest => "manifest-digest",
            Self::ManifestInvalid => "manifest-invalid",
        })
    }
}

/// One thing that does not match.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Where, relative to the snapshot directory, with what is not UTF-8 escaped; `.` for itself.
    pub path: String,
    /// What is wrong.
    pub code: FaultCode,
    /// What it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// Whether the machine had no room to look or to copy, which says nothing of what is there.
    #[serde(skip)]
    pub(crate) is_machines: bool,
}

impl Fault {
    /// Whether the machine had no descriptors or no memory left to look, or did not take a copy of what was
    /// read: what is there may be whole.
    #[must_use]
    pub fn is_of_machine(&self) -> bool {
        self.is_machines
    }

    pub(crate) fn new(code: FaultCode, path: impl Into<String>) -> Self {
        Self { path: path.into(), code, expected: None, actual: None, is_machines: false }
    }

    pub(crate) fn expected(mut self, expected: impl fmt::Display) -> Self {
        self.expected = Some(expected.to_string());
        self
    }

    pub(crate) fn actual(mut self, actual: impl fmt::Display) -> Self {
        self.actual = Some(actual.to_string());
        self
    }

    pub(crate) fn io(path: impl Into<String>, error: &io::Error) -> Self {
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        let is_machines = matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM));
        Self { is_machines, ..Self::new(FaultCode::Unreadable, path).actual(error) }
    }

    /// What is there could be read, but not copied to where the check's sink said.
    pub(crate) fn copying(path: impl Into<String>, error: &io::Error) -> Self {
        Self { is_machines: true, ..Self::io(path, error) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.path)?;
        match (&self.expected, &self.actual) {
            (Some(expected), Some(actual)) => write!(f, " (expected {expected}, found {actual})"),
            (Some(expected), None) => write!(f, " (expected {expected})"),
            (None, Some(actual)) => write!(f, " ({actual})"),
            (None, None) => Ok(()),
        }
    }
}
