//! Digests: equal where the content is, different where anything of it is not.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use skillfreeze_testing::{Output, Runner, TestEnv, file, package, package_digest, set_mode, sha256, tree};

use super::takes;
use crate::support::{environment, names, prepare, text, texts};

/// The digest of `work/<above>/demo`, as `add` gives it and as it is by definition.
fn digest(env: &TestEnv, above: &str) -> String {
    let demo = format!("{above}/demo");
    let added = env.run(["add", &demo, "--json"]).json();
    let digest = text(&added["added"][0]["digest"]);
    assert_eq!(digest, package_digest(env.work().join(demo)));
    digest
}

#[test]
fn trees_that_differ_in_anything_have_different_digests() {
    let env = environment(Runner::available()[0]);
    let trees: &[&[(&str, &str, u32)]] = &[
        &[],
        // Line ends are bytes like any other.
        &[("f", "x\ny\n", 0o644)],
        &[("f", "x\r\ny\r\n", 0o644)],
        &[("f", "x\ny", 0o644)],
        &[("f", "x\ny\n", 0o755)],
        // Where a path ends and its content begins counts.
        &[("a", "bc", 0o644)],
        &[("ab", "c", 0o644)],
        &[("1", "ab", 0o644), ("2", "c", 0o644)],
        &[("1", "a", 0o644), ("2", "bc", 0o644)],
        &[("1", "c", 0o644), ("2", "ab", 0o644)],
        &[("a/b", "", 0o644)],
        &[("a-b", "", 0o644)],
        &[("ab", "", 0o644)],
        // Nothing is passed over, be it built or fetched.
        &[("dist/x.js", "1", 0o644)],
        &[("dist/x.js", "2", 0o644)],
        &[("node_modules/p/i.js", "1", 0o644)],
        &[("node_modules/p/i.js", "2", 0o644)],
    ];
    let mut digests = BTreeSet::new();
    for (number, files) in trees.iter().enumerate() {
        let demo = package(env.work().join(number.to_string()), "demo");
        for (path, content, mode) in *files {
            file(demo.join(path), content);
            set_mode(demo.join(path), *mode);
        }
        assert!(digests.insert(digest(&env, &number.to_string())), "{files:?} has another's digest");
    }
}

#[test]
fn which_execute_bit_it_is_does_not_count() {
    let env = environment(Runner::available()[0]);
    for mode in [0o755, 0o700, 0o645] {
        file(package(env.work().join(format!("{mode:o}")), "demo").join("x"), "x");
        set_mode(env.work().join(format!("{mode:o}/demo/x")), mode);
    }
    assert_eq!(digest(&env, "755"), digest(&env, "700"));
    assert_eq!(digest(&env, "755"), digest(&env, "645"));
}

#[test]
fn the_bytes_on_disk_count_whatever_git_made_of_them() {
    let env = environment(Runner::available()[0]);
    let source = env.work().join("s");
    file(package(&source, "demo").join("f"), "x\ny\n");
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        let identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "safe.directory=*"];
        git.args(identity).args(arguments).current_dir(env.work()).env("HOME", env.home());
        Output::of(&mut git).ok();
    };
    git(&["init", "-q", "s"]);
    git(&["-C", "s", "add", "-A"]);
    git(&["-C", "s", "commit", "-qm", "x"]);
    git(&["-c", "core.autocrlf=true", "clone", "-q", "s", "crlf"]);
    git(&["-c", "core.autocrlf=false", "clone", "-q", "s", "lf"]);
    assert_eq!(fs::read(env.work().join("crlf/demo/f")).unwrap(), b"x\r\ny\r\n");
    assert_eq!(digest(&env, "s"), digest(&env, "lf"));
    assert_ne!(digest(&env, "crlf"), digest(&env, "lf"));
}

#[test]
fn files_are_in_the_order_of_their_paths_bytes_in_every_locale() {
    let mut created =
        vec!["B.md", "a.md", "_x", "I.md", "i2.md", "Z-1", "Z.1", "ab", "a/b", "a-b", "é.md", "z"];
    let mut sorted = created.clone();
    sorted.push("SKILL.md");
    sorted.sort_unstable_by_key(|path| path.as_bytes());
    let mut digests = BTreeSet::new();
    for runner in Runner::available() {
        for locale in ["C", "C.UTF-8", "en_US.UTF-8", "tr_TR.UTF-8", "POSIX"] {
            created.rotate_left(5);
            let env = environment(*runner);
            let demo = package(env.work().join("src"), "demo");
            created.iter().for_each(|path| file(demo.join(path), "x"));
            let mut command = env.command(["prepare", "--source", "src", "--json"]);
            let prepared = Output::of(command.env("LC_ALL", locale).env("LANG", locale)).json();
            let path = Path::new(prepared["path"].as_str().unwrap());
            let manifest: Value =
                serde_json::from_slice(&fs::read(path.join(".snapshot.json")).unwrap()).unwrap();
            assert_eq!(texts(&manifest["packages"][0]["files"], "path"), sorted);
            digests.insert(text(&prepared["snapshot"]));
        }
    }
    assert_eq!(digests.len(), 1);
}

#[test]
fn a_changed_package_is_frozen_anew_and_the_old_snapshot_stays() {
    for runner in Runner::available() {
        let env = environment(*runner);
        let changed = package(env.work().join("src"), "demo").join("dist/x.js");
        file(&changed, "1");
        let (first, first_path) = prepare(&env, "src");
        // The same length, and the same time of change.
        let time = fs::metadata(&changed).unwrap().modified().unwrap();
        file(&changed, "2");
        fs::File::options().write(true).open(&changed).unwrap().set_modified(time).unwrap();
        let (second, second_path) = prepare(&env, "src");
        assert_ne!(first, second);
        assert_eq!(fs::read(first_path.join("demo/dist/x.js")).unwrap(), b"1");
        assert_eq!(fs::read(second_path.join("demo/dist/x.js")).unwrap(), b"2");
        for digest in [&first, &second] {
            env.run(["verify", digest]).ok();
        }
        // Back again it is the first, found and not made.
        file(&changed, "1");
        let prepared = env.run(["prepare", "--source", "src", "--json"]).json();
        assert_eq!((text(&prepared["snapshot"]), &prepared["reused"]), (first, &Value::Bool(true)));
    }
}

#[test]
fn every_command_gives_the_same_digest() {
    for runner in Runner::available() {
        let env = environment(*runner);
        for above in ["a", "b"] {
            file(package(env.work().join(above), "demo").join("f"), above);
        }
        env.run(["add", "a/demo"]).ok();
        let (snapshot, path) = prepare(&env, "a");
        let expected = package_digest(env.work().join("a/demo"));
        assert_eq!(env.run(["list", "--json"]).json()["skills"][0]["digest"], expected);
        assert_eq!(env.run(["show", "demo", "--json"]).json()["revisions"][0]["digest"], expected);
        assert_eq!(env.run(["show", &snapshot, "--json"]).json()["packages"][0]["digest"], expected);
        assert_eq!(package_digest(path.join("demo")), expected);
        assert_eq!(format!("sha256:{}", sha256(path.join(".snapshot.json"))), snapshot);
        assert_eq!(env.run(["prepare", "demo"]).ok().trim(), snapshot);
    }
}

#[test]
fn a_check_right_after_freezing_is_clean_and_writes_nothing() {
    for runner in Runner::available() {
        let env = environment(*runner);
        file(package(env.work().join("src"), "demo").join("metadata.json"), "{}");
        let (snapshot, path) = prepare(&env, "src");
        let before = tree(env.root());
        let verified = env.run(["verify", &snapshot, "--json"]).json();
        assert_eq!((&verified["faults"], &verified["files"]), (&Value::Array(Vec::new()), &Value::from(2)));
        assert_eq!(tree(env.root()), before);
        // Where a package comes from is not in it.
        assert_eq!(names(path.join("demo")), ["SKILL.md", "metadata.json"]);
    }
}

/// No time, host, user or path: another machine, at another time, gives the same bytes.
#[test]
fn two_places_freeze_the_same_bytes() {
    let mut manifests = BTreeSet::new();
    for runner in Runner::available() {
        for names in [["demo", "b"], ["b", "demo"]] {
            let env = environment(*runner);
            names.iter().for_each(|name| drop(package(env.work().join("src"), name)));
            let (_, path) = prepare(&env, "src");
            let manifest = fs::read_to_string(path.join(".snapshot.json")).unwrap();
            assert!(!manifest.contains(env.work().parent().unwrap().to_str().unwrap()));
            manifests.insert(manifest);
        }
    }
    assert_eq!(manifests.len(), 1);
    let manifest: Value = serde_json::from_str(manifests.first().unwrap()).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&manifest), ["packages", "schema"]);
    assert_eq!(keys(&manifest["packages"][0]), ["digest", "files", "id", "revision"]);
    assert_eq!(keys(&manifest["packages"][0]["files"][0]), ["digest", "executable", "path", "size"]);
}

#[test]
fn the_version_is_what_the_author_wrote_and_no_part_of_the_package_digest() {
    let taken = takes(Runner::available()[0], |demo| {
        file(demo.join("SKILL.md"), "---\nname: demo\ndescription: d\nmetadata:\n  version: 1.10\n---\n");
    });
    assert_eq!(taken.package["version"], "1.10");
    assert_eq!(taken.digest(), package_digest(&taken.frozen));
    assert_eq!(taken.package["revision"], taken.digest()["sha256:".len()..][..12]);
}
