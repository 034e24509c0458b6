//! The steps of building a sandbox's file system.

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use super::environment::HOME;
use super::root::Root;
use crate::bind::Bind;
use crate::request::{LaunchRequest, Names};

/// Bytes that the sandbox's `/tmp` and its home can each hold.
const TMP_BYTES: u64 = 1 << 30;
/// Bytes that the private `$SKILL_EXTENSIONS_DIR` can hold.
const EXTENSIONS_BYTES: u64 = 256 << 20;
/// Bytes of shared memory.
const SHM_BYTES: u64 = 64 << 20;

/// One step of building the sandbox's file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
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

pub(super) fn plan_mounts(
    request: &LaunchRequest,
    names: &Names,
    root: Root,
    binds: Vec<Mount>,
) -> Vec<Mount> {
    let tmpfs = |target: &str, bytes, mode| Mount::Tmpfs { target: target.into(), bytes, mode };
    let mut mounts = root.mounts;
    mounts.extend(root.resolver);
    mounts.extend([Mount::Proc, Mount::System { path: "/proc/sys".into() }]);
    // The devices' own file system has no limit of size, so nothing may be written there.
    mounts.extend([
        Mount::Dev,
        tmpfs("/dev/shm", SHM_BYTES, 0o1777),
        Mount::ReadOnly { path: "/dev".into() },
    ]);
    mounts.extend([tmpfs("/tmp", TMP_BYTES, 0o1777), tmpfs(HOME, TMP_BYTES, 0o700)]);
    mounts.extend(binds);
    mounts.push(match &request.extensions {
        Some(bind) => Mount::Bind(Bind { target: names.extensions_dir.clone(), ..bind.clone() }),
        None => tmpfs(names.extensions_dir.as_str(), EXTENSIONS_BYTES, 0o755),
    });
    mounts.push(Mount::Snapshot { target: names.skills_dir.clone() });
    mounts.push(Mount::ReadOnly { path: "/".into() });
    mounts
}
