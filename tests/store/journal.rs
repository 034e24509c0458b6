//! Journals that were torn, damaged, or written by a newer version; and what does not depend on them.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::Value;
use skillfreeze_testing::{Runner, TestEnv, file, package, sha256, tree};

use super::{journal, listed};
use crate::support::{environment, prepare, text};

fn filled(runner: Runner) -> TestEnv {
    let env = environment(runner);
    for id in ["a", "b", "c"] {
        package(env.work().join("src"), id);
        env.run(["add", &format!("src/{id}")]).ok();
    }
    env
}

fn append(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::File::options().append(true).open(path).unwrap().write_all(bytes.as_ref()).unwrap();
}

#[test]
fn a_torn_last_line_was_never_acknowledged() {
    for runner in Runner::available() {
        let env = filled(*runner);
        let path = env.root().join("journal");
        let whole = fs::read(&path).unwrap();
        let last = whole.split_inclusive(|byte| *byte == b'\n').next_back().unwrap().to_vec();
        for torn in [&b"{"[..], &last[..last.len() - 1], b"\0\0\0\0", b"\xff", &[b'x'; 5000]] {
            append(&path, torn);
            assert_eq!(listed(&env), ["a", "b", "c"]);
            // Readers pass over it; the next writer cuts it off.
            package(env.work().join("src"), "d");
            env.run(["add", "src/d"]).ok();
            assert_eq!(journal(&env).len(), 8);
            assert_eq!(listed(&env), ["a", "b", "c", "d"]);
            // The index would tell that a line is taken back here.
            fs::remove_file(env.root().join("index.db")).unwrap();
            fs::write(&path, &whole).unwrap();
        }
    }
}

#[test]
fn a_damaged_line_is_named_and_nothing_is_written() {
    for runner in Runner::available() {
        let env = filled(*runner);
        let path = env.root().join("journal");
        let whole = fs::read(&path).unwrap();
        let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        let flip = |line: usize, at: usize| {
            let mut lines: Vec<Vec<u8>> = lines.iter().map(|line| line.to_vec()).collect();
            lines[line][at] ^= 1;
            lines.concat()
        };
        let mut damages: Vec<(String, Vec<u8>, &[usize])> = vec![
            ("a line gone".into(), [lines[0], lines[1], &lines[3..].concat()].concat(), &[3]),
            ("lines changed about".into(), [lines[1], lines[0], &lines[2..].concat()].concat(), &[1]),
            ("a line twice".into(), [&whole[..], lines[5]].concat(), &[7]),
            ("an empty line".into(), [&whole[..], b"\n"].concat(), &[7]),
            ("the first line gone".into(), lines[1..].concat(), &[1]),
        ];
        // Where the flipped byte is a name or a time, only the next line's chain tells.
        let second = String::from_utf8(lines[1].to_vec()).unwrap();
        for field in [
            "{",
            "\"actor\":\"",
            "\"at\":\"",
            "\"change\":\"",
            "\"digest\":\"sha256:",
            "\"id\":",
            "\"previous\":\"sha256:",
            "\"schema\":\"",
        ] {
            let at = second.find(field).unwrap() + field.len();
            damages.push((format!("a byte after {field}"), flip(1, at), &[2, 3]));
        }
        for (what, damaged, expected) in damages {
            for with_index in [true, false] {
                fs::write(&path, &whole).unwrap();
                env.run(["add", "src/a"]).ok();
                fs::write(&path, &damaged).unwrap();
                if !with_index {
                    fs::remove_file(env.root().join("index.db")).unwrap();
                }
                let before = tree(env.root().join("packages"));
                for arguments in [
                    &["add", "src/a", "--json"][..],
                    &["prepare", "--source", "src", "--json"],
                    &["list", "--json"],
                ] {
                    let error = env.run(arguments).fails(3, "journal-corrupt");
                    let message = text(&error["message"]);
                    let named = |line: &usize| message.contains(&format!("line {line} of the journal "));
                    assert!(expected.iter().any(named), "{what}: {message}");
                }
                assert_eq!(fs::read(&path).unwrap(), damaged, "{what}");
                assert_eq!(tree(env.root().join("packages")), before, "{what}");
            }
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(listed(&env), ["a", "b", "c"]);
    }
}

#[test]
fn what_a_newer_version_wrote_is_refused_by_its_name() {
    for runner in Runner::available() {
        for (change, schema, found) in [
            ("withdrawn", "skillfreeze.journal.v1", "withdrawn"),
            ("added", "skillfreeze.journal.v2", "skillfreeze.journal.v2"),
        ] {
            let env = filled(*runner);
            let path = env.root().join("journal");
            let last = fs::read_to_string(&path).unwrap().lines().last().unwrap().to_owned();
            file(env.work().join("last"), &last);
            let previous = sha256(env.work().join("last"));
            append(
                &path,
                format!(
                    "{{\"actor\":\"x\",\"at\":\"2026-01-01T00:00:00Z\",\"change\":\"{change}\",\"data\":{{}},\
                     \"previous\":\"sha256:{previous}\",\"schema\":\"{schema}\",\"seq\":7}}\n"
                ),
            );
            assert_eq!(journal(&env).len(), 7, "the line follows");
            let before = fs::read(&path).unwrap();
            for arguments in [&["add", "src/a", "--json"][..], &["list", "--json"]] {
                let error = env.run(arguments).fails(6, "journal-newer");
                let message = text(&error["message"]);
                assert!(message.contains("line 7 ") && message.contains(found), "{message}");
                assert!(text(&error["hint"]).contains("version"), "{error}");
            }
            assert_eq!(fs::read(&path).unwrap(), before);
        }
    }
}

/// Nothing local goes into a snapshot: neither numbers nor history nor order nor who or when.
#[test]
fn stores_of_different_history_freeze_the_same_snapshot() {
    let mut manifests = Vec::new();
    for runner in Runner::available() {
        for eventful in [false, true] {
            let env = environment(*runner);
            let source = env.work().join("src");
            let ids = if eventful { ["c", "a", "b"] } else { ["a", "b", "c"] };
            ids.iter().for_each(|id| drop(package(&source, id)));
            if eventful {
                for revision in 0..4 {
                    file(source.join("b/f"), revision.to_string());
                    env.run(["add", "src/b"]).ok();
                    env.run(["prepare", "b", "--source", "src"]).ok();
                }
                fs::remove_file(source.join("b/f")).unwrap();
                env.run(["add", "src/c", "src/b", "src/a", "--candidate"]).ok();
            }
            let (digest, path) = prepare(&env, "src");
            let prepared = env.run(["prepare", "--source", "src", "--json"]).json();
            assert_eq!(prepared["packages"][1]["number"], if eventful { Value::from(5) } else { 1.into() });
            manifests.push((digest, fs::read(path.join(".snapshot.json")).unwrap(), tree(&path)));
        }
    }
    assert!(manifests.iter().all(|one| *one == manifests[0]), "{manifests:?}");
}

/// What is missing at the end leaves a chain that is whole; the index remembers that there was more.
#[test]
fn a_journal_that_was_lost_or_cut_is_not_taken_for_all_there_is() {
    for runner in Runner::available() {
        let env = filled(*runner);
        let path = env.root().join("journal");
        let whole = fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for damaged in [None, Some(&b""[..]), Some(&whole[..first])] {
            match damaged {
                None => fs::remove_file(&path).unwrap(),
                Some(bytes) => fs::write(&path, bytes).unwrap(),
            }
            for arguments in [&["list", "--json"][..], &["add", "src/a", "--json"]] {
                env.run(arguments).fails(3, "journal-corrupt");
            }
            fs::write(&path, &whole).unwrap();
            assert_eq!(listed(&env), ["a", "b", "c"]);
        }
    }
}
