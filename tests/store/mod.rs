//! The store under everything that a machine does to it.

mod access;
mod concurrency;
mod crash;
mod damage;
mod journal;
mod space;
mod switch;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use skillfreeze_testing::{Output, TestEnv, file, package};

use crate::support::{names, texts};

/// Reads a journal by its definition and prints its whole lines: another implementation.
const READ_JOURNAL: &str = r#"
import hashlib, json, sys
previous, lines = b"", []
*whole, torn = open(sys.argv[1], "rb").read().split(b"\n")
for seq, line in enumerate(whole, 1):
    entry = json.loads(line)
    assert entry["seq"] == seq, (entry["seq"], seq)
    assert entry["previous"] == "sha256:" + hashlib.sha256(previous).hexdigest(), seq
    assert json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == line, seq
    lines.append(entry)
    previous = line
assert not torn, torn
print(json.dumps(lines))
"#;

/// The lines of a store's journal, whose chain is checked.
#[track_caller]
fn journal(env: &TestEnv) -> Vec<Value> {
    let mut python = Command::new("python3");
    let read = Output::of(python.args(["-c", READ_JOURNAL]).arg(env.root().join("journal")));
    serde_json::from_str(read.ok()).unwrap()
}

/// The data of the journal's lines of one kind.
#[track_caller]
fn changes(env: &TestEnv, change: &str) -> Vec<Value> {
    let lines = journal(env).into_iter().filter(|line| line["change"] == change);
    lines.map(|line| line["data"].clone()).collect()
}

/// The digests of the snapshots that bear their names.
fn snapshots(env: &TestEnv) -> Vec<String> {
    let directory = env.root().join("snapshots/sha256");
    names(directory)
        .into_iter()
        .filter(|name| name.len() == 64)
        .map(|name| format!("sha256:{name}"))
        .collect()
}

/// Checks that nothing of a writer that died is left.
#[track_caller]
fn is_swept(env: &TestEnv) {
    let staged = names(env.root().join("snapshots/sha256"));
    assert!(staged.iter().all(|name| !name.starts_with(".new-")), "{staged:?}");
    assert_eq!(names(env.root().join("tmp")), [""; 0]);
}

/// The ids that `list` has, sorted.
#[track_caller]
fn listed(env: &TestEnv) -> Vec<String> {
    texts(&env.run(["list", "--inactive", "--json"]).json()["skills"], "id")
}

/// Makes a package whose bytes hardly compress, so that its size on disk is its size.
fn incompressible(directory: impl AsRef<Path>, id: &str, bytes: usize) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let random = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    });
    file(package(directory, id).join("data"), random.take(bytes).collect::<Vec<u8>>());
}

/// Removes a file that is there.
fn remove(path: impl AsRef<Path>) {
    fs::remove_file(path).unwrap();
}
