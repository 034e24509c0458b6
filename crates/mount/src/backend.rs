//! What encloses a command.

use std::fmt;

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};
use skillfreeze_manifest::Digest;

/// What encloses a command, by the name that chooses it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Backend {
    /// bubblewrap, on Linux.
    #[serde(rename = "bwrap")]
    Bubblewrap(Bubblewrap),
    /// Landlock, on Linux without user namespaces.
    Landlock {
        /// The version of the kernel's interface.
        abi: u32,
    },
    /// `sandbox-exec`, on macOS.
    Seatbelt {
        /// Where it is.
        path: Utf8PathBuf,
        /// The digest of the program.
        digest: Digest,
    },
}

/// The bubblewrap program that is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bubblewrap {
    /// Where it is.
    pub path: Utf8PathBuf,
    /// What it says of itself, such as `bubblewrap 0.8.0`.
    pub version: String,
    /// The digest of the program.
    pub digest: Digest,
    /// Whether it binds an open descriptor (`--ro-bind-fd`).
    pub binds_descriptors: bool,
}

impl Bubblewrap {
    /// The most arguments that it takes.
    pub(crate) const MAX_ARGUMENTS: usize = 9000;
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bubblewrap(Bubblewrap { path, version, .. }) => write!(f, "{path} ({version})"),
            Self::Landlock { abi } => write!(f, "Landlock (ABI {abi})"),
            Self::Seatbelt { path, .. } => write!(f, "{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn each_kind_is_tagged_and_takes_nothing_unknown() {
        let digest = Digest::of(b"");
        let bubblewrap = json!({
            "kind": "bwrap", "path": "/usr/bin/bwrap", "version": "bubblewrap 0.8.0", "digest": digest,
            "binds_descriptors": true,
        });
        let landlock = json!({ "kind": "landlock", "abi": 6 });
        let seatbelt = json!({ "kind": "seatbelt", "path": "/usr/bin/sandbox-exec", "digest": digest });
        for (written, shown) in [
            (bubblewrap, "/usr/bin/bwrap (bubblewrap 0.8.0)"),
            (landlock, "Landlock (ABI 6)"),
            (seatbelt, "/usr/bin/sandbox-exec"),
        ] {
            let backend: Backend = serde_json::from_value(written.clone()).unwrap();
            assert_eq!((json!(backend), backend.to_string().as_str()), (written.clone(), shown));
            let mut more = written;
            more["more"] = Value::Null;
            assert!(serde_json::from_value::<Backend>(more.clone()).is_err(), "{more}");
        }
    }
}
