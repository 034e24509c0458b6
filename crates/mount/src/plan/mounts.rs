//! The steps of building a sandbox's file system.

use super::environment::HOME;
use super::root::Root;
use crate::bind::Bind;
use crate::mount::Mount;
use crate::names::Names;
use crate::request::LaunchRequest;

/// Bytes that the sandbox's `/tmp` and its home can each hold.
const TMP_BYTES: u64 = 1 << 30;
/// Bytes that the private `$SKILL_EXTENSIONS_DIR` can hold.
pub(crate) const EXTENSIONS_BYTES: u64 = 256 << 20;
/// Bytes of shared memory.
const SHM_BYTES: u64 = 64 << 20;

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
