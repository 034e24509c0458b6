//! The users as whom the program is run.

use std::os::unix::process::CommandExt as _;
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

/// Where the user can reach the program: at its own path, or at that of a copy in `directory`, since
/// what root builds may lie below a directory that is closed to others.
pub(crate) fn reachable(program: &Path, ids: Ids, directory: &Path) -> PathBuf {
    let reached = Command::new("test").arg("-x").arg(program).uid(ids.uid).gid(ids.gid).status();
    if reached.expect("`test` runs").success() {
        return program.to_owned();
    }
    let copy = directory.join(program.file_name().expect("a program has a name"));
    // Written by another process: a descriptor of ours, inherited by a child that another thread
    // starts at this moment, would keep the copy from being executed.
    let copied = Command::new("cp").arg("--preserve=mode").arg("--").arg(program).arg(&copy).status();
    assert!(copied.expect("`cp` runs").success(), "there is room for a copy");
    copy
}
