//! What several areas share: the program's environment, and reading what it printed.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use skillfreeze_testing::{Output, Runner, TestEnv, directory, set_mode};

/// The program in a place of its own.
pub(crate) fn environment(runner: Runner) -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_skillfreeze"), runner)
}

/// A value's text; empty where there is none.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The code and the path of each object of a list: faults, diagnostics.
pub(crate) fn codes(list: &Value) -> Vec<(String, String)> {
    let list = list.as_array().map_or(&[][..], Vec::as_slice);
    list.iter().map(|one| (text(&one["code"]), text(&one["path"]))).collect()
}

/// The texts under a key of each object of a list.
pub(crate) fn texts(list: &Value, key: &str) -> Vec<String> {
    list.as_array().map_or(&[][..], Vec::as_slice).iter().map(|one| text(&one[key])).collect()
}

/// The names in a directory, sorted; none where there is no directory.
pub(crate) fn names(directory: impl AsRef<Path>) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// Freezes everything that a source holds; gives the snapshot's digest and its directory.
pub(crate) fn prepare(env: &TestEnv, source: &str) -> (String, PathBuf) {
    let prepared = env.run(["prepare", "--source", source, "--json"]).json();
    (text(&prepared["snapshot"]), PathBuf::from(text(&prepared["path"])))
}

/// Copies the libraries that the program itself needs below a root directory, unless it is a static build.
pub(crate) fn copy_loader(env: &TestEnv, root: &Path) {
    let needed = Output::of(Command::new("ldd").arg(env.program()));
    for path in needed.stdout.split_whitespace().filter(|word| word.starts_with('/')) {
        let copy = root.join(path.trim_start_matches('/'));
        directory(copy.parent().expect("it is in a root"));
        std::fs::copy(path, &copy).unwrap();
        set_mode(copy, 0o755);
    }
}
