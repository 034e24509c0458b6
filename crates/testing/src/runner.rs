//! The users as whom the program is run.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The user that tests running as root make for themselves.
const USER: &str = "skillfreeze-test";

/// As whom the program is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// As root, which takes tests that run as root.
    Root,
    /// As an ordinary user: the tests' own, or one made for them where they run as root.
    User,
}

/// Numeric user and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Runner {
    /// The runners to be had here: both where the tests run as root, else the user alone.
    #[must_use]
    pub fn available() -> &'static [Self] {
        if runs_as_root() { &[Self::Root, Self::User] } else { &[Self::User] }
    }

    /// The ids to change to before the program starts; `None` where the tests' own are right.
    pub(crate) fn ids(self) -> Option<Ids> {
        assert!(self == Self::User || runs_as_root(), "only root runs the program as root");
        (self == Self::User && runs_as_root()).then(test_user)
    }
}

fn runs_as_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn test_user() -> Ids {
    static IDS: OnceLock<Ids> = OnceLock::new();
    *IDS.get_or_init(|| {
        look_up().unwrap_or_else(|| {
            let made = Command::new("useradd").args(["--system", "--create-home", USER]).output();
            // Another test may have been first, so what counts is that the user is there.
            look_up().unwrap_or_else(|| panic!("`useradd {USER}` made no user: {made:?}"))
        })
    })
}

fn look_up() -> Option<Ids> {
    let id = |flag: &str| {
        let output = Command::new("id").args([flag, USER]).stderr(Stdio::null()).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    Some(Ids { uid: id("-u")?, gid: id("-g")? })
}

/// The program at a path that the user can reach: its own, or that of a copy, since what root
/// builds may lie below a directory that is closed to others.
pub(crate) fn reachable(program: &Path, ids: Ids) -> PathBuf {
    use std::os::unix::process::CommandExt as _;

    let reached =
        Command::new("test").arg("-x").arg(program).uid(ids.uid).gid(ids.gid).status().expect("`test` runs");
    if reached.success() {
        return program.to_owned();
    }
    let built = fs::metadata(program).expect("the program is built");
    let name = format!("skillfreeze-{}-{}-{}", built.ino(), built.mtime(), built.mtime_nsec());
    let copy = std::env::temp_dir().join(name);
    let is_ours = |copy: &Path| {
        fs::symlink_metadata(copy)
            .is_ok_and(|found| found.is_file() && found.uid() == 0 && found.len() == built.len())
    };
    if !is_ours(&copy) {
        let mut file = tempfile::NamedTempFile::new().expect("the temporary directory is writable");
        std::io::copy(&mut File::open(program).expect("root reads it"), &mut file).expect("there is room");
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        // A file still open for writing cannot be executed, so the descriptor is closed first.
        let closed = file.into_temp_path();
        if closed.persist_noclobber(&copy).is_err() {
            assert!(is_ours(&copy), "`{}` is not a copy of the program", copy.display());
        }
    }
    copy
}
