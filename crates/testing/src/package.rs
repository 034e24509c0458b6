//! Building packages; modes do not depend on the caller's umask.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Makes the package `directory/id` with the smallest `SKILL.md` there is; returns its path.
pub fn package(directory: impl AsRef<Path>, id: &str) -> PathBuf {
    let path = directory.as_ref().join(id);
    file(path.join("SKILL.md"), format!("---\nname: {id}\ndescription: d\n---\nbody\n"));
    path
}

/// Writes a file of mode 0644, making directories on the way.
pub fn file(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    let path = path.as_ref();
    directory(path.parent().expect("a file is in a directory"));
    fs::write(path, content).expect("the directory is writable");
    set_mode(path, 0o644);
}

/// Makes a directory of mode 0755, and those above it that are missing.
pub fn directory(path: impl AsRef<Path>) {
    let path = path.as_ref();
    if !path.is_dir() {
        directory(path.parent().expect("the root is a directory"));
        fs::create_dir(path).expect("the parent is writable");
        set_mode(path, 0o755);
    }
}

/// Sets the permission bits, such as `0o755`.
pub fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("the path is ours");
}
