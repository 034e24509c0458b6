//! How a command ended.

use serde::{Deserialize, Serialize};

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
