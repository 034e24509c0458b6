//! Directories as packages: what is taken, what is refused, and how each fault is told.

mod contents;
mod digests;
mod limits;
mod links;
mod names;
mod sources;
mod special;

use std::path::Path;

use serde_json::Value;
use skillfreeze_testing::{Output, Runner, TestEnv, package};

use crate::support::{codes, environment, names, text, texts};

/// Faults as their codes and paths.
type Faults<'a> = &'a [(&'a str, &'a str)];

/// What must be said of a faulty package.
#[derive(Clone, Copy)]
struct Refusal<'a> {
    /// The exit status of what was asked for this package.
    status: i32,
    /// The code of `add`'s error.
    code: &'a str,
    /// The faults that `add` finds.
    faults: Faults<'a>,
    /// The faults that a scan finds already; none where only `add` reads that far.
    scan: Option<Faults<'a>>,
}

impl<'a> Refusal<'a> {
    /// Faults that only a full reading finds: the first is the error's code.
    fn found_by_add(faults: Faults<'a>) -> Self {
        Self { status: 6, code: faults[0].0, faults, scan: None }
    }

    /// Faults of `SKILL.md` that a scan finds, as `add` has them and as the scan has them.
    fn found_by_scan(faults: Faults<'a>, scan: Faults<'a>) -> Self {
        Self { status: 6, code: faults[0].0, faults, scan: Some(scan) }
    }

    /// Faults of the front matter, which has one parser for all commands.
    fn front_matter(faults: Faults<'a>) -> Self {
        Self { status: 6, code: "invalid", faults, scan: Some(faults) }
    }
}

/// Makes the package `demo` faulty, beside a sound one, and checks what each command says of it: the
/// fault is `demo`'s alone, it is told with its path, and nothing of `demo` stays in the store.
#[track_caller]
fn refuses(runner: Runner, what: &str, make: impl FnOnce(&Path), expected: Refusal<'_>) {
    let env = environment(runner);
    let source = env.work().join("src");
    package(&source, "ok");
    make(&package(&source, "demo"));
    // Gives the files to the user, so that the two dumps compare.
    drop(env.command([""]));
    let before = stamps(env.work());

    let error = env.run(["add", "src/demo", "--json"]).fails(expected.status, expected.code);
    assert_eq!(pairs(&codes(&error["details"]["faults"])), expected.faults, "{what}: {error}");
    assert_eq!(env.run(["list", "--json"]).json()["skills"], Value::Array(Vec::new()), "{what}");

    let prepared = env.run(["prepare", "--source", "src", "--json"]).json();
    assert_eq!(texts(&prepared["packages"], "id"), ["ok"], "{what}");
    let left_out = prepared["left_out"].as_array().unwrap();
    assert_eq!(left_out.len(), 1, "{what}: {left_out:?}");
    assert_eq!(left_out[0]["directory"], "demo", "{what}");
    let scan = expected.scan.unwrap_or(expected.faults);
    assert_eq!(pairs(&codes(&errors(&left_out[0]["diagnostics"]))), scan, "{what}");
    env.run(["verify", &text(&prepared["snapshot"])]).ok();

    let (status, code) =
        if expected.scan.is_some() { (6, "selection-invalid") } else { (expected.status, expected.code) };
    let error = env.run(["prepare", "demo", "ok", "--source", "src", "--json"]).fails(status, code);
    assert_eq!(pairs(&codes(&error["details"]["faults"])), scan, "{what}: {error}");

    let store = env.root();
    assert_eq!(names(store.join("packages/sha256")).len(), 1, "{what}");
    assert_eq!(names(store.join("snapshots/sha256")).len(), 1, "{what}");
    for empty in ["tmp", "quarantine"] {
        assert_eq!(names(store.join(empty)), [""; 0], "{what}");
    }
    assert_eq!(stamps(env.work()), before, "{what}: the source was changed");
}

/// Every entry of a tree with its size, mode and the time of its last change of any kind.
fn stamps(directory: &Path) -> String {
    let mut find = std::process::Command::new("find");
    let found = Output::of(find.arg(directory).args(["-printf", "%p %y %s %m %C@ %l\\n"]));
    let mut lines: Vec<&str> = found.ok().lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// As [`refuses`], for every user that there is.
#[track_caller]
fn all_refuse(what: &str, make: impl Fn(&Path), expected: Refusal<'_>) {
    for runner in Runner::available() {
        refuses(*runner, what, &make, expected);
    }
}

/// Adds `src/demo` as `make` leaves it, freezes and verifies it; gives what `add` and the manifest
/// say of it.
#[track_caller]
fn takes(runner: Runner, make: impl FnOnce(&Path)) -> Taken {
    takes_with(runner, &[], make)
}

/// As [`takes`], with options for `add`.
#[track_caller]
fn takes_with(runner: Runner, options: &[&str], make: impl FnOnce(&Path)) -> Taken {
    let env = environment(runner);
    make(&package(env.work().join("src"), "demo"));
    let added = env.run([&["add", "src/demo", "--json"], options].concat()).json();
    let prepared = env.run(["prepare", "demo", "--json"]).json();
    let verified = env.run(["verify", &text(&prepared["snapshot"]), "--json"]).json();
    assert_eq!((&verified["clean"], &verified["anchored"]), (&Value::Bool(true), &Value::Bool(true)));
    let path = Path::new(prepared["path"].as_str().unwrap());
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(path.join(".snapshot.json")).unwrap()).unwrap();
    let package = manifest["packages"][0].clone();
    assert_eq!(package["digest"], added["added"][0]["digest"]);
    Taken { frozen: path.join("demo"), diagnostics: added["added"][0]["diagnostics"].clone(), package, env }
}

/// A package that was taken and frozen.
struct Taken {
    env: TestEnv,
    /// Its directory in the snapshot.
    frozen: std::path::PathBuf,
    /// What the manifest has of it.
    package: Value,
    /// What `add` said of it.
    diagnostics: Value,
}

impl Taken {
    fn digest(&self) -> String {
        text(&self.package["digest"])
    }

    fn paths(&self) -> Vec<String> {
        texts(&self.package["files"], "path")
    }

    /// The paths of which `add` said this.
    fn said(&self, code: &str) -> Vec<String> {
        codes(&self.diagnostics)
            .into_iter()
            .filter(|(found, _)| found == code)
            .map(|(_, path)| path)
            .collect()
    }
}

fn pairs(codes: &[(String, String)]) -> Vec<(&str, &str)> {
    codes.iter().map(|(code, path)| (code.as_str(), path.as_str())).collect()
}

/// The diagnostics that are errors.
fn errors(diagnostics: &Value) -> Value {
    let mut list = diagnostics.as_array().cloned().unwrap_or_default();
    list.retain(|one| one["severity"] == "error");
    Value::Array(list)
}
