//! Snapshots that were changed: every fault is found and named, nothing is launched, and what is
//! damaged is built again.

mod files;
mod manifest;
mod property;
mod snapshot;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use skillfreeze_testing::{Output, Runner, TestEnv, directory, file, package, record_skip, set_mode};

use crate::support::{environment, names, prepare, text};

/// Faults as their paths and codes, sorted as they are reported.
type Faults = &'static [(&'static str, &'static str)];

/// One way to change a snapshot, and what must be found.
struct Tampering {
    what: &'static str,
    change: fn(&Path),
    /// What a check against the snapshot's digest finds.
    faults: Faults,
    /// What a portable check finds; the same where it is none.
    portable: Option<Faults>,
    /// What a check without a digest finds; the same where it is none.
    unanchored: Option<Faults>,
}

impl Tampering {
    const fn new(what: &'static str, change: fn(&Path), faults: Faults) -> Self {
        Self { what, change, faults, portable: None, unanchored: None }
    }

    const fn portable(mut self, faults: Faults) -> Self {
        self.portable = Some(faults);
        self
    }

    const fn unanchored(mut self, faults: Faults) -> Self {
        self.unanchored = Some(faults);
        self
    }
}

/// A store with one snapshot, of two packages with all kinds of files.
struct Frozen {
    env: TestEnv,
    digest: String,
    path: PathBuf,
    /// Whether commands can be launched here at all.
    launches: bool,
}

impl Frozen {
    fn new(runner: Runner) -> Self {
        let env = environment(runner);
        let source = env.work().join("src");
        let demo = package(&source, "demo");
        file(demo.join("a/b.md"), "b\n");
        file(demo.join("a/c/d.bin"), [0, 255, 1]);
        file(demo.join("empty"), "");
        file(demo.join(".hidden"), "h\n");
        file(demo.join("run.sh"), "#!/bin/sh\necho hi\n");
        set_mode(demo.join("run.sh"), 0o755);
        package(&source, "other");
        directory(env.work().join("out"));
        set_mode(env.work().join("out"), 0o777);
        let (digest, path) = prepare(&env, "src");
        let mut frozen = Self { env, digest, path, launches: false };
        let control = frozen.run_marker();
        frozen.launches = control.status == 0;
        if frozen.launches {
            assert!(frozen.has_started(), "the marker shows a start");
        } else {
            record_skip(&format!("nothing can be launched here: {}", control.stderr));
        }
        frozen
    }

    /// Launches a command that leaves a mark.
    fn run_marker(&self) -> Output {
        let out = self.env.work().join("out");
        let script = format!("touch {}/started", out.display());
        let bind = out.to_str().unwrap();
        self.env.run(["run", &self.digest, "--json", "--bind", bind, "--", "sh", "-c", &script])
    }

    /// Whether the command of the last launch was started; takes the mark away.
    fn has_started(&self) -> bool {
        fs::remove_file(self.env.work().join("out/started")).is_ok()
    }

    /// Runs `verify`, expecting these faults; gives the object that it printed.
    #[track_caller]
    fn verify(&self, what: &str, arguments: &[&str], faults: Faults) -> Value {
        let run = self.env.run([&["verify", "--json"], arguments].concat());
        let found: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
        assert_eq!(pairs(&found["faults"]), owned(faults), "{what} {arguments:?}: {run:#?}");
        assert_eq!(found["clean"], faults.is_empty(), "{what} {arguments:?}");
        if faults.is_empty() {
            assert_eq!(run.status, 0, "{what} {arguments:?}");
        } else {
            let error = run.fails(3, "integrity");
            assert_eq!(error["details"]["faults"], found["faults"], "{what} {arguments:?}");
        }
        found
    }

    /// Runs the auditor's script, which finds faults wherever a portable check does, and only there.
    #[track_caller]
    fn audit(&self, what: &str, arguments: &[&str], faults: Faults) {
        let script = include_str!("../../scripts/audit.sh");
        let run =
            Output::of(&mut self.env.command_of("sh", [&["-c", script, "audit.sh"], arguments].concat()));
        assert_eq!(run.status, i32::from(!faults.is_empty()), "{what}: {run:#?}");
        assert_eq!(run.stdout.starts_with("matches sha256:"), faults.is_empty(), "{what}: {run:#?}");
    }

    /// Changes the snapshot, checks what everybody says, and has it built again.
    #[track_caller]
    fn tamper(&self, tampering: &Tampering) {
        let Tampering { what, change, faults, portable, unanchored } = *tampering;
        change(&self.path);
        let path = self.path.to_str().unwrap();
        let found = self.verify(what, &[&self.digest], faults);
        assert_eq!(found["anchored"], true);
        self.verify(what, &[path, "--digest", &self.digest], faults);
        let found = self.verify(what, &[path], unanchored.unwrap_or(faults));
        assert_eq!(found["anchored"], false, "{what}");
        self.verify(what, &[&self.digest, "--portable"], portable.unwrap_or(faults));

        // The script asks nothing that depends on who asks, so one of the users is enough.
        if self.env.runner() == Runner::User {
            self.audit(what, &[path, &self.digest], portable.unwrap_or(faults));
            if let Some(faults) = unanchored {
                self.audit(what, &[path], faults);
            }
        }

        if self.launches {
            let run = self.run_marker();
            assert_eq!(self.has_started(), faults.is_empty(), "{what}: {run:?}");
            if !faults.is_empty() {
                let error = run.fails(125, "integrity");
                assert_eq!(pairs(&error["details"]["faults"]), owned(faults), "{what}");
            }
        }

        let prepared = self.env.run(["prepare", "--source", "src", "--json"]).json();
        assert_eq!(text(&prepared["snapshot"]), self.digest, "{what}");
        assert_eq!(prepared["reused"], faults.is_empty(), "{what}");
        let set_aside = prepared["set_aside"].as_array().unwrap();
        assert_eq!(set_aside.len(), usize::from(!faults.is_empty()), "{what}");
        let mut left = vec![self.digest["sha256:".len()..].to_owned()];
        left.extend(set_aside.iter().map(text));
        left.sort_unstable();
        assert_eq!(names(self.path.parent().unwrap()), left, "{what}");
        assert!(set_aside.iter().all(|name| text(name).starts_with(".damaged-")), "{what}");
        self.verify(what, &[&self.digest], &[]);
        for name in set_aside {
            remove(&self.path.with_file_name(text(name)));
        }
    }
}

/// Runs a table against one store for each user.
#[track_caller]
fn run_table(runners: &[Runner], table: &[Tampering]) {
    for runner in runners {
        let frozen = Frozen::new(*runner);
        table.iter().for_each(|tampering| frozen.tamper(tampering));
    }
}

fn owned(faults: Faults) -> Vec<(String, String)> {
    faults.iter().map(|(path, code)| ((*path).to_owned(), (*code).to_owned())).collect()
}

fn pairs(faults: &Value) -> Vec<(String, String)> {
    faults
        .as_array()
        .into_iter()
        .flatten()
        .map(|fault| (text(&fault["path"]), text(&fault["code"])))
        .collect()
}

/// Removes a frozen tree.
fn remove(path: &Path) {
    if fs::symlink_metadata(path).unwrap().is_dir() {
        set_mode(path, 0o755);
        fs::read_dir(path).unwrap().for_each(|entry| remove(&entry.unwrap().path()));
        fs::remove_dir(path).unwrap();
    } else {
        fs::remove_file(path).unwrap();
    }
}

/// Changes what is in a frozen directory, which itself stays as it was.
fn within(directory: &Path, change: impl FnOnce()) {
    set_mode(directory, 0o755);
    change();
    if directory.is_dir() {
        set_mode(directory, 0o555);
    }
}

/// Rewrites a frozen file, whose mode stays as it was.
fn rewrite(path: &Path, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    let mode = fs::metadata(path).unwrap().permissions();
    let content = change(fs::read(path).unwrap());
    set_mode(path, 0o644);
    fs::write(path, content).unwrap();
    fs::set_permissions(path, mode).unwrap();
}

/// Puts something else in the place of an entry.
fn replace(path: &Path, make: impl FnOnce(&Path)) {
    within(path.parent().unwrap(), || {
        remove(path);
        make(path);
    });
}
