//! One step of building what a sandbox sees.

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::bind::Bind;

/// One step of building the sandbox's file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mount {
    /// Part of the host's own system, read-only, by its path.
    System {
        /// Where, inside and outside.
        path: Utf8PathBuf,
    },
    /// A link of the root directory.
    Link {
        /// Where.
        path: Utf8PathBuf,
        /// What it holds.
        to: Utf8PathBuf,
    },
    /// What the caller wants bound, or what protects something in it.
    Bind(Bind),
    /// The snapshot, read-only.
    Snapshot {
        /// Where.
        target: Utf8PathBuf,
    },
    /// The snapshot again, read-only, in the place of a source root.
    InPlace {
        /// Where the sandbox sees it.
        target: Utf8PathBuf,
        /// The source root on the host.
        root: Utf8PathBuf,
        /// Whether it comes with the bind that the root lies in; else the root itself was to be bound.
        within: bool,
    },
    /// An empty file system of its own.
    Tmpfs {
        /// Where.
        target: Utf8PathBuf,
        /// Bytes it can hold.
        bytes: u64,
        /// The mode of its root.
        mode: u32,
    },
    /// A directory of the host that is made for this launch, empty, and removed after it.
    Private {
        /// Where, inside and outside.
        path: Utf8PathBuf,
    },
    /// The process file system.
    Proc,
    /// A minimal set of devices.
    Dev,
    /// What has been built at this path is made read-only.
    ReadOnly {
        /// Where.
        path: Utf8PathBuf,
    },
}
