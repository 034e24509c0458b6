//! A place of its own for each test, and the program in it.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::output::Output;
use crate::runner::{Ids, Runner, reachable};

/// Where programs are looked for, whatever the caller's own search path is.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A temporary directory with a home, a store root and a work directory, removed at the end.
#[derive(Debug)]
pub struct TestEnv {
    temp: TempDir,
    program: PathBuf,
    runner: Runner,
    ids: Option<Ids>,
    home: PathBuf,
    root: PathBuf,
    work: PathBuf,
}

impl TestEnv {
    /// Makes the directories; `program` is the path of the program, `CARGO_BIN_EXE_skillfreeze`.
    ///
    /// The store root is not made: the program does that.
    #[must_use]
    pub fn new(program: impl AsRef<Path>, runner: Runner) -> Self {
        let temp = tempfile::Builder::new().prefix("skillfreeze-").tempdir().expect("a temporary directory");
        // What a canonical path is compared with must be canonical itself.
        let top = fs::canonicalize(temp.path()).expect("it was just made");
        fs::set_permissions(&top, Permissions::from_mode(0o755)).expect("it is ours");
        let [home, root, work] = ["home", "store", "work"].map(|name| top.join(name));
        for directory in [&home, &work] {
            crate::directory(directory);
        }
        let ids = runner.ids();
        let program = program.as_ref();
        let program = ids.map_or_else(|| program.to_owned(), |ids| reachable(program, ids, &top));
        if let Some(ids) = ids {
            lchown(&top, Some(ids.uid), Some(ids.gid)).expect("root may");
        }
        Self { temp, program, runner, ids, home, root, work }
    }

    /// As whom the program is run.
    #[must_use]
    pub fn runner(&self) -> Runner {
        self.runner
    }

    /// The user's home directory, empty at first.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The store's root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory in which the program starts, empty at first.
    #[must_use]
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// Where the user reaches the program.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Where the user reaches another program.
    #[must_use]
    pub fn reachable(&self, program: &Path) -> PathBuf {
        self.ids.map_or_else(|| program.to_owned(), |ids| reachable(program, ids, self.temp.path()))
    }

    /// The program with these arguments, to be changed further and run by [`Output::of`].
    ///
    /// Its environment is `PATH`, `HOME`, `LANG` and `SKILLFREEZE_ROOT` alone. What the test has made
    /// in the home and the work directory until now is given to the user.
    pub fn command(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        self.command_of(&self.program, arguments)
    }

    /// Another program in the place of ours: as the same user, in the same environment.
    pub fn command_of(
        &self,
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&self.work)
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("HOME", &self.home)
            .env("LANG", "C.UTF-8")
            .env("SKILLFREEZE_ROOT", &self.root);
        if let Some(ids) = self.ids {
            give(&self.home, ids);
            give(&self.work, ids);
            // The standard library drops the supplementary groups with the user.
            command.uid(ids.uid).gid(ids.gid);
        }
        command
    }

    /// Runs the program with these arguments to its end.
    pub fn run(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
        Output::of(&mut self.command(arguments))
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        // Snapshots are read-only directories, which an ordinary user cannot empty.
        open_up(self.temp.path());
    }
}

/// Gives a tree to the user, but touches nothing that already is the user's.
fn give(path: &Path, ids: Ids) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    if found.uid() != ids.uid {
        lchown(path, Some(ids.uid), Some(ids.gid)).expect("root may");
    }
    if found.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            give(&entry.path(), ids);
        }
    }
}

/// Makes every directory of a tree writable; what cannot be is left for the removal to report.
fn open_up(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            open_up(&entry.path());
        }
    }
}
