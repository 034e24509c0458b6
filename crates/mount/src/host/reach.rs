//! What of the host a user reaches, by the bits of modes alone.
//!
//! Access control lists grant more than the bits say, so what has one counts as open: what would work is
//! never called closed.

use std::ffi::CStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::getxattr;

use super::guarded::route;

const ACCESS_LIST: &CStr = c"system.posix_acl_access";

/// What a class of users may do, as in the last three bits of a mode.
const WRITE: u32 = 2;
const SEARCH: u32 = 1;

/// A path that leads a user through directories that are closed to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("user {user} cannot reach `{path}`: no search permission on {}", .closed.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", "))]
pub struct Unreachable {
    /// The path.
    pub path: Utf8PathBuf,
    /// Who is to reach it, by number.
    pub user: u32,
    /// The directories without search permission for that user, from the root on; at least one.
    pub closed: Vec<Utf8PathBuf>,
}

impl Unreachable {
    /// Looks at every directory that an absolute path leads through, and at the one that it ends at, for a
    /// numeric user who is in one group only.
    ///
    /// # Errors
    /// Those that are closed. What is not there, or has an access control list, is not closed.
    pub fn check(path: &Utf8Path, user: (u32, u32)) -> Result<(), Self> {
        let way = std::iter::once(Utf8PathBuf::from("/")).chain(route(path));
        let mut closed: Vec<Utf8PathBuf> = Vec::new();
        for place in way {
            let is_directory = fs::symlink_metadata(&place).is_ok_and(|found| found.is_dir());
            if is_directory && !may(&place, user, SEARCH) && !closed.contains(&place) {
                closed.push(place);
            }
        }
        if closed.is_empty() {
            return Ok(());
        }
        Err(Self { path: path.to_owned(), user: user.0, closed })
    }
}

/// Whether a user may write a file, or make entries of a directory.
pub(crate) fn is_writable(path: &Utf8Path, user: (u32, u32)) -> bool {
    let is_directory = fs::metadata(path).is_ok_and(|found| found.is_dir());
    may(path, user, if is_directory { WRITE | SEARCH } else { WRITE })
}

fn may(path: &Utf8Path, (user, group): (u32, u32), wanted: u32) -> bool {
    let Ok(found) = fs::metadata(path) else { return true };
    let class = if found.uid() == user {
        6
    } else if found.gid() == group {
        3
    } else {
        0
    };
    (found.mode() >> class) & wanted == wanted || has_access_list(path)
}

fn has_access_list(path: &Utf8Path) -> bool {
    let size = getxattr(path.as_std_path(), ACCESS_LIST, &mut [0_u8; 0]);
    size.is_ok_and(|size| size > 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn every_closed_directory_is_named_and_no_other() {
        let temp = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::from_path_buf(temp.path().canonicalize().unwrap()).unwrap();
        let deep = top.join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        std::os::unix::fs::symlink("a/b", top.join("link")).unwrap();
        let set =
            |path: &Utf8Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let owner = (fs::metadata(&deep).unwrap().uid(), fs::metadata(&deep).unwrap().gid());
        let others = (owner.0 + 1, owner.1 + 1);
        let closed = |path: &Utf8Path, user| match Unreachable::check(path, user) {
            Ok(()) => Vec::new(),
            Err(unreachable) => unreachable.closed,
        };
        set(&top, 0o755);
        assert!(closed(&deep, others).is_empty());
        set(&top.join("a"), 0o766);
        set(&deep, 0o700);
        for path in [&deep, &top.join("link/c")] {
            assert_eq!(closed(path, others), [top.join("a"), deep.clone()], "{path}");
            assert!(closed(path, owner).is_empty());
        }
        set(&top.join("a"), 0o701);
        set(&deep, 0o711);
        assert!(closed(&deep, others).is_empty());
        assert_eq!(closed(&deep, (others.0, owner.1)), [top.join("a")]);
        assert!(is_writable(&deep, owner) && !is_writable(&deep, others));
        set(&deep, 0o702);
        assert!(!is_writable(&deep, others));
        set(&deep, 0o703);
        assert!(is_writable(&deep, others));
        set(&deep, 0o755);
        fs::write(deep.join("file"), "").unwrap();
        set(&deep.join("file"), 0o602);
        assert!(is_writable(&deep.join("file"), others));
    }
}
