//! Which network a command sees.

use serde::{Deserialize, Serialize};

/// Which network the command sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// A loopback of its own.
    #[default]
    None,
    /// The host's.
    Host,
}
