//! Several packages with one id: which is meant, by whatever command, and how the others are reached.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use skillfreeze_testing::{Output, TestEnv, package, package_digest};

use super::{described, each, frozen_digest, ids, left_out, skill};
use crate::support::{text, texts};

/// Two sources, `a` and `b`, that differ about `demo`.
fn two(env: &TestEnv) -> [String; 2] {
    ["a", "b"].map(|source| {
        described(env.work().join(source), "demo", &format!("of {source}"));
        package_digest(env.work().join(source).join("demo"))
    })
}

/// One resolver: what is listed is what is frozen, and what is frozen is what the command sees.
#[test]
fn what_is_listed_is_what_is_frozen_and_what_is_mounted() {
    for env in each() {
        let [a, b] = two(&env);
        for (policy, expected, of) in [("first", &a, "a"), ("last", &b, "b")] {
            let options = ["--source", "a", "--source", "b", "--conflicts", policy, "--json"];
            let listed = env.run([&["list"][..], &options].concat()).json();
            assert_eq!(
                (ids(&listed), text(&skill(&listed, "demo")["source"])),
                (vec!["demo".to_owned()], of.to_owned())
            );
            assert_eq!(skill(&listed, "demo")["description"], format!("of {of}"));
            let prepared = env.run([&["prepare"][..], &options].concat()).json();
            assert_eq!(
                (text(&prepared["packages"][0]["digest"]), text(&prepared["packages"][0]["source"])),
                (expected.clone(), of.to_owned())
            );
            assert_eq!(frozen_digest(&prepared), *expected);
            let mounted = env.work().join("mounted");
            fs::create_dir_all(&mounted).unwrap();
            skillfreeze_testing::set_mode(&mounted, 0o777);
            let mut run = env.command(["run", "--workspace", "mounted"]);
            run.args(&options[..6]).args(["--", "cp", "-r", "$SKILLS_DIR/demo", "."]);
            Output::of(&mut run).ok();
            assert_eq!(&package_digest(mounted.join("demo")), expected);
            let removed = env.command_of("chmod", ["-R", "u+w", "mounted"]).status().unwrap();
            assert!(removed.success() || env.runner() == skillfreeze_testing::Runner::Root);
            fs::remove_dir_all(mounted).unwrap();
            // The store says the same of it as was said before it went there.
            let record = latest_record(&env);
            assert_eq!(
                (&record["packages"][0]["source"], &record["packages"][0]["digest"]),
                (&json!(of), &json!(expected))
            );
        }
    }
}

fn latest_record(env: &TestEnv) -> Value {
    let mut find = std::process::Command::new("find");
    let found =
        Output::of(find.arg(env.root().join("runs")).args(["-name", "*.json", "-printf", "%T@ %p\\n"]));
    let mut records: Vec<&str> = found.ok().lines().collect();
    records.sort_unstable();
    let path = records.last().unwrap().split_once(' ').unwrap().1;
    serde_json::from_slice(&fs::read(Path::new(path)).unwrap()).unwrap()
}

#[test]
fn shadowing_can_be_an_error_for_who_selects_it_and_for_nobody_else() {
    for env in each() {
        let [a, b] = two(&env);
        package(env.work().join("a"), "fine");
        let options = ["--source", "a", "--source", "b", "--conflicts", "error", "--json"];
        let listed = env.run([&["list"][..], &options].concat()).json();
        assert_eq!(ids(&listed), ["demo", "fine"]);
        assert_eq!(skill(&listed, "demo")["diagnostics"][0]["code"], "id-conflict");
        assert_eq!(left_out(&listed), ["b/demo: shadowed-by"]);
        assert_eq!(listed["left_out"][0]["shadowed_by"], json!({"source": "a", "directory": "demo"}));
        for named in [&[][..], &["--all"], &["demo"], &["demo", "fine"]] {
            let error = env.run([&["prepare"], named, &options].concat()).fails(5, "id-conflict");
            assert_eq!(error["details"]["choices"], json!(["`a:demo`", "`b:demo`"]));
        }
        env.run([&["run"][..], &options, &["--", "true"]].concat()).fails(125, "id-conflict");
        assert_eq!(crate::support::names(env.root().join("snapshots/sha256")), [""; 0]);
        for (named, digest) in [("a:demo", &a), ("b:demo", &b)] {
            let prepared = env.run([&["prepare", named][..], &options].concat()).json();
            assert_eq!(frozen_digest(&prepared), *digest);
        }
        env.run([&["prepare", "fine"][..], &options].concat()).ok();
        env.run([&["prepare", "--none"][..], &options].concat()).ok();
        // Within one source there is no `source:id` to tell them apart.
        described(env.work().join("c/x"), "demo", "one");
        described(env.work().join("c/y"), "demo", "two");
        let options = ["--source", "c", "--layout", "nested", "--conflicts", "error", "--json"];
        let error = env.run([&["prepare", "demo"][..], &options].concat()).fails(5, "id-conflict");
        assert_eq!(error["details"]["choices"], json!(["`c:demo`"]));
    }
}

#[test]
fn equal_content_is_no_conflict_and_one_file_more_is() {
    for env in each() {
        for source in ["a", "b"] {
            described(env.work().join(source), "demo", "d");
        }
        let options = ["--source", "a", "--source", "b", "--conflicts", "error", "--json"];
        let listed = env.run([&["list"][..], &options].concat()).json();
        assert_eq!(skill(&listed, "demo")["origins"], json!([{"source": "b", "directory": "demo"}]));
        assert_eq!(left_out(&listed), [""; 0]);
        for named in ["demo", "a:demo", "b:demo"] {
            env.run([&["prepare", named][..], &options].concat()).ok();
        }
        skillfreeze_testing::file(env.work().join("b/demo/more"), "");
        env.run([&["prepare"][..], &options].concat()).fails(5, "id-conflict");
    }
}

/// Neither the order in which a file system has them, nor that in which they came there.
#[test]
fn order_of_creation_decides_nothing() {
    for env in each() {
        for (root, order) in [("one", ["eee", "aaa", "ccc", "bbb"]), ("two", ["bbb", "ccc", "aaa", "eee"])] {
            for name in order {
                described(env.work().join(root).join("src"), name, name);
            }
        }
        let both = ["one", "two"].map(|root| {
            let run = |verb: &str| {
                super::run_in(&env, env.work().join(root), &[verb, "--source", "src", "--json"]).json()
            };
            let (mut listed, prepared) = (run("list"), run("prepare"));
            listed["sources"] = Value::Null;
            (listed, text(&prepared["snapshot"]), texts(&prepared["packages"], "id"))
        });
        assert_eq!(both[0], both[1]);
        assert_eq!(both[0].2, ["aaa", "bbb", "ccc", "eee"]);
    }
}

/// The word by itself is the name of what a library's caller registers.
#[test]
fn a_directory_on_the_command_line_may_be_called_registered() {
    for env in each() {
        let digest = package_digest(package(env.work().join("registered"), "demo"));
        described(env.work().join("other"), "demo", "other");
        for spelled in ["registered", "registered/", "./registered"] {
            let sources = ["--source", "other", "--source", spelled];
            let listed = env.run([&["list", "--json"], &sources[..]].concat()).json();
            assert_eq!(texts(&listed["sources"], "id"), ["other", "./registered"], "{spelled}");
            let arguments = [&["prepare", "--json", "./registered:demo"], &sources[..]].concat();
            let prepared = env.run(arguments).json();
            assert_eq!(prepared["packages"][0]["source"], "./registered");
            assert_eq!(frozen_digest(&prepared), digest, "{spelled}");
            let failed = env.run([&["prepare", "--json", "registered:demo"], &sources[..]].concat());
            let error = failed.fails(4, "selection-unknown");
            assert_eq!(error["details"]["sources"], json!(["other", "./registered"]));
            env.run(["validate", spelled]).ok();
        }
        let twice = ["list", "--json", "--source", "registered", "--source", "./registered"];
        env.run(twice).fails(2, "source-twice");
    }
}
