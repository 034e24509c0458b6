//! How a command and its launch ended.

use serde::{Deserialize, Serialize};

use crate::integrity::Method;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// By itself, with this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// The status as shells give it: 128 and the signal's number for a signal.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::Status(status) => status,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// A launch that went well.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ended {
    /// How the command ended.
    pub exit: Exit,
    /// By what means the launch kept its promise; not what was planned where that could not be had.
    pub how: Method,
    /// Whether the packages' own programs could not be started from their directory.
    pub noexec: bool,
}
