//! Indexes and archives that are lost, damaged or another store's.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;
use skillfreeze_testing::{Runner, TestEnv, directory, file, package, package_digest};

use super::{changes, is_swept, remove};
use crate::support::{environment, names, prepare, text};

/// Something that becomes of a file.
type Damage<'a> = (&'a str, &'a dyn Fn(&Path));

/// A store with two revisions of one package and one of another.
fn filled(runner: Runner, second: &str) -> TestEnv {
    let env = environment(runner);
    let source = env.work().join("src");
    package(&source, "demo");
    package(&source, "other");
    env.run(["add", "src/demo", "src/other"]).ok();
    file(source.join("demo/f"), second);
    env.run(["add", "src/demo"]).ok();
    env
}

/// Gives what was made in a store to the store's owner, who alone would have made it by mistake.
fn hand_over(path: &Path) {
    let owner = fs::metadata(path.parent().unwrap()).unwrap();
    chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
}

/// What a store answers.
fn answers(env: &TestEnv) -> Vec<Value> {
    let show = |id: &str| env.run(["show", id, "--json"]).json();
    let mut prepared = env.run(["prepare", "demo@1", "other", "--json"]).json();
    prepared.as_object_mut().unwrap().remove("reused");
    vec![env.run(["list", "--json"]).json(), show("demo"), show("other"), prepared]
}

#[test]
fn whatever_becomes_of_the_index_the_answers_are_the_same() {
    for runner in Runner::available() {
        let env = filled(*runner, "2");
        let right = answers(&env);
        let index = env.root().join("index.db");
        let good = fs::read(&index).unwrap();
        let other = filled(*runner, "another second revision");
        let foreign = fs::read(other.root().join("index.db")).unwrap();
        let damages: &[Damage<'_>] = &[
            ("deleted", &|path| remove(path)),
            ("empty", &|path| fs::write(path, "").unwrap()),
            ("cut short", &|path| fs::write(path, &good[..good.len() / 2]).unwrap()),
            ("garbage", &|path| fs::write(path, "this is no database\n".repeat(999)).unwrap()),
            ("zeros", &|path| fs::write(path, vec![0; good.len()]).unwrap()),
            ("a header alone", &|path| fs::write(path, &good[..100]).unwrap()),
            ("another store's", &|path| fs::write(path, &foreign).unwrap()),
            ("with garbage beside it", &|path| {
                for suffix in ["journal", "wal", "shm"] {
                    fs::write(path.with_extension(format!("db-{suffix}")), "garbage").unwrap();
                }
            }),
            ("a directory", &|path| {
                remove(path);
                file(path.join("x"), "x");
                hand_over(path);
            }),
            ("a link out of the store", &|path| {
                remove(path);
                symlink(env.work().join("outside"), path).unwrap();
            }),
        ];
        for (what, damage) in damages {
            damage(&index);
            assert_eq!(answers(&env), right, "{what}");
            // A writer mends it, and goes on.
            assert_eq!(env.run(["add", "src/demo", "--json"]).json()["added"][0]["number"], 2, "{what}");
            assert_eq!(answers(&env), right, "{what}");
            assert!(index.is_file() && fs::metadata(&index).unwrap().len() > 4096, "{what}");
            assert!(!env.work().join("outside").exists(), "{what}");
        }
        assert_eq!(changes(&env, "added").len(), 3);
    }
}

fn archive(env: &TestEnv, digest: &str) -> PathBuf {
    env.root().join("packages/sha256").join(format!("{}.tar.zst", &digest["sha256:".len()..]))
}

#[test]
fn a_damaged_archive_is_named_and_mended_by_adding_again() {
    let damages: &[Damage<'_>] = &[
        ("a byte", &|path| {
            let mut bytes = fs::read(path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        }),
        ("cut short", &|path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() - 3]).unwrap();
        }),
        ("a byte more", &|path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, [&bytes[..], b"x"].concat()).unwrap();
        }),
        ("empty", &|path| fs::write(path, "").unwrap()),
        ("gone", &|path| remove(path)),
        ("a directory", &|path| {
            remove(path);
            directory(path);
            hand_over(path);
        }),
    ];
    for runner in Runner::available() {
        for with_index in [true, false] {
            for (what, damage) in damages {
                let env = filled(*runner, "2");
                let digest = package_digest(env.work().join("src/demo"));
                damage(&archive(&env, &digest));
                if !with_index {
                    remove(env.root().join("index.db"));
                }
                let run = env.run(["prepare", "demo", "other", "--json"]);
                // Only where the listing is not known is the archive read as a file before it is unpacked.
                let is_unreadable = *what == "a directory" && !with_index;
                let (status, code) = if is_unreadable { (1, "io") } else { (3, "package-damaged") };
                let error = run.fails(status, code);
                assert!(text(&error["message"]).contains("package of `demo`"), "{what}: {error}");
                assert!(text(&error["hint"]).contains("skillfreeze add"), "{what}: {error}");
                assert_eq!(names(env.root().join("snapshots/sha256")), [""; 0], "{what}");
                is_swept(&env);

                let added = env.run(["add", "src/demo", "--json"]).json()["added"][0].clone();
                assert_eq!((&added["reused"], &added["number"]), (&Value::Bool(true), &2.into()), "{what}");
                let prepared = env.run(["prepare", "demo", "other", "--json"]).json();
                env.run(["verify", &text(&prepared["snapshot"])]).ok();
                let kept = names(env.root().join("quarantine"));
                assert_eq!(kept.len(), usize::from(*what != "gone"), "{what}: {kept:?}");
                assert_eq!(changes(&env, "added").len(), 3, "{what}");
            }
        }
    }
}

/// A source at hand is as good as the archive: what is frozen from it is stored again.
#[test]
fn preparing_from_the_source_mends_its_archive() {
    for runner in Runner::available() {
        let env = filled(*runner, "2");
        let path = archive(&env, &package_digest(env.work().join("src/demo")));
        fs::write(&path, "garbage").unwrap();
        let (digest, _) = prepare(&env, "src");
        env.run(["verify", &digest]).ok();
        assert_ne!(fs::read(&path).unwrap(), b"garbage");
    }
}
