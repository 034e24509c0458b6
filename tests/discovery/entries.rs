//! Entries of sources: links, what cannot be read, what is no package, and what lies about.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use skillfreeze_testing::{Output, Runner, directory, file, package, set_mode};

use super::{each, errors, ids, left_out, said, skill_link};
use crate::support::{environment, text, texts};

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Entries of one source: how each is made, what a scan says against it, and what only reading all of it
/// does; nothing where it is sound.
type Entry = (&'static str, fn(&Path), &'static [&'static str], &'static [&'static str]);

const ENTRIES: [Entry; 16] = [
    ("a-link", |path| symlink("../outside/real", path).unwrap(), &["symlink-not-allowed"], &[]),
    ("a-link-inside", |path| symlink("ok", path).unwrap(), &["symlink-not-allowed"], &[]),
    ("a-link-nowhere", |path| symlink("../nowhere", path).unwrap(), &["symlink-not-allowed"], &[]),
    (
        "skill-elsewhere",
        |path| skill_link(path, "../../outside/S.md"),
        &["skill-md-symlink-escape SKILL.md"],
        &[],
    ),
    ("skill-nowhere", |path| skill_link(path, "/nonexistent"), &["skill-md-dangling SKILL.md"], &[]),
    (
        "skill-of-another",
        |path| skill_link(path, "../ok/SKILL.md"),
        &["skill-md-symlink-escape SKILL.md"],
        &[],
    ),
    ("misnamed", |path| file(path.join("skill.md"), "x"), &["skill-file-misnamed skill.md"], &[]),
    ("skill-directory", |path| directory(path.join("SKILL.md")), &["wrong-type SKILL.md"], &[]),
    (
        "skill-pipe",
        |path| {
            directory(path);
            fifo(&path.join("SKILL.md"));
        },
        &["special-file SKILL.md"],
        &[],
    ),
    ("pipe", |path| with(path, |path| fifo(&path.join("pipe"))), &[], &["special-file pipe"]),
    (
        "socket",
        |path| with(path, |path| drop(UnixListener::bind(path.join("sock")).unwrap())),
        &[],
        &["special-file sock"],
    ),
    (
        "odd-name",
        |path| with(path, |path| fs::write(path.join(OsStr::from_bytes(b"b\xff.txt")), "").unwrap()),
        &[],
        &["path-not-utf8 b\\xff.txt"],
    ),
    (
        "by-prefix",
        // Only spelt as if it were inside.
        |path| with(path, |path| symlink("../../src-evil/secret", path.join("ref.md")).unwrap()),
        &[],
        &["symlink-escape ref.md"],
    ),
    (
        "linked-directory",
        |path| with(path, |path| symlink(".", path.join("d")).unwrap()),
        &[],
        &["symlink-to-directory d"],
    ),
    ("bytecode", |path| with(path, |path| file(path.join("x.pyc"), "x")), &[], &["bytecode x.pyc"]),
    ("empty", |path| directory(path), &[], &[]),
];

fn with(path: &Path, make: impl FnOnce(&Path)) {
    make(&package(path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap()));
}

/// They lie side by side, so that each is seen to cost no other.
#[test]
fn every_entry_that_is_no_package_is_told_with_its_reason_and_the_others_are_there() {
    for env in each() {
        let source = env.work().join("src");
        package(&source, "ok");
        package(env.work().join("outside"), "real");
        file(env.work().join("outside/S.md"), "---\nname: skill-elsewhere\ndescription: d\n---\n");
        file(env.work().join("src-evil/secret"), "s");
        ENTRIES.iter().for_each(|(name, make, ..)| make(&source.join(name)));
        // A package, whatever its directory is called, but never under a name that cannot be said.
        file(source.join(OsStr::from_bytes(b"b\xff")).join("SKILL.md"), "x");

        let mut scanned: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut read = BTreeMap::new();
        for (name, _, scan, add) in ENTRIES {
            let to_texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            if !scan.is_empty() || name == "empty" {
                scanned.insert(name.to_owned(), to_texts(scan));
            } else {
                read.insert(name.to_owned(), to_texts(add));
            }
        }
        scanned.insert("b\\xff".to_owned(), vec!["path-not-utf8".to_owned()]);

        let listed = env.run(["list", "--source", "src", "--json"]).json();
        let sound: Vec<String> = read.keys().cloned().chain(["ok".to_owned()]).collect();
        let mut found = ids(&listed);
        found.sort_by_key(|id| *id == "ok");
        assert_eq!(found, sound);
        assert_eq!(reasons(&listed), scanned);

        let prepared = env.run(["prepare", "--source", "src", "--json"]).json();
        assert_eq!(texts(&prepared["packages"], "id"), ["ok"]);
        let mut all = scanned;
        all.extend(read.clone());
        assert_eq!(reasons(&prepared), all);
        for (name, faults) in read {
            let code = faults[0].split(' ').next().unwrap().to_owned();
            let error = env.run(["add", &format!("src/{name}"), "--json"]).fails(6, &code);
            assert_eq!(errors(&error["details"]["faults"]), faults, "{error}");
        }
    }
}

fn reasons(value: &Value) -> BTreeMap<String, Vec<String>> {
    let left = value["left_out"].as_array().unwrap().iter();
    left.map(|left| (text(&left["directory"]), errors(&left["diagnostics"]))).collect()
}

#[test]
fn what_may_not_be_read_costs_itself_but_a_root_is_an_error() {
    let env = environment(Runner::User);
    for name in ["ok", "locked", "skill", "inside", "unlisted"] {
        file(package(env.work().join("root"), name).join("d/x"), "x");
    }
    package(env.work().join("root2"), "other");
    file(
        env.work().join("x.toml"),
        format!("[[source]]\nid = \"x\"\nroot = \"{}\"\n", env.work().join("root2").display()),
    );
    let locked = [
        ("root/locked", 0),
        ("root/skill/SKILL.md", 0),
        ("root/inside/d/x", 0),
        ("root/unlisted", 0o111),
        ("root2", 0),
    ];
    drop(env.command([""]));
    locked.iter().for_each(|(path, mode)| set_mode(env.work().join(path), *mode));

    let listed = env.run(["list", "--source", "root", "--json"]).json();
    assert_eq!(ids(&listed), ["inside", "ok"]);
    assert_eq!(
        left_out(&listed),
        ["root/locked: unreadable", "root/skill: unreadable", "root/unlisted: unreadable"]
    );
    for left in listed["left_out"].as_array().unwrap() {
        assert!(text(&left["diagnostics"][0]["message"]).contains("Permission denied"), "{left}");
    }
    let prepared = env.run(["prepare", "--source", "root", "--json"]).json();
    assert_eq!(texts(&prepared["packages"], "id"), ["ok"]);
    let faults = reasons(&prepared);
    assert_eq!(faults["inside"], ["unreadable d/x"]);
    // What was once read is no guide to what is there: nobody may take an empty root for what it is not.
    for arguments in [
        &["list", "--source", "root", "--source", "root2"][..],
        &["prepare", "--source", "root2"],
        &["list", "--config", "x.toml"],
        &["prepare", "ok", "--config", "x.toml"],
    ] {
        let error = env.run([arguments, &["--json"]].concat()).fails(1, "root-unreadable");
        assert!(text(&error["message"]).contains(env.work().join("root2").to_str().unwrap()), "{error}");
    }
    let run = env.run(["run", "--source", "root2", "--json", "--", "true"]);
    run.fails(125, "root-unreadable");
    for path in ["root/locked", "root/skill", "root/inside"] {
        let error = env.run(["add", path, "--json"]).fails(1, "unreadable");
        assert!(text(&error["message"]).contains("Permission denied"), "{error}");
    }
    locked.iter().for_each(|(path, _)| set_mode(env.work().join(path), 0o755));
}

#[test]
fn a_root_that_is_a_file_is_named_and_the_others_are_listed() {
    for env in each() {
        package(env.work().join("root2"), "ok");
        file(env.work().join("root"), "");
        let said = env.run(["list", "--source", "root", "--source", "root2", "--json"]);
        let error = said.fails(2, "root-not-a-directory");
        assert!(text(&error["message"]).contains(env.work().join("root").to_str().unwrap()), "{error}");
        let listed: Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(
            (ids(&listed), super::faults(&listed)),
            (vec!["ok".to_owned()], vec!["root: root-not-a-directory".to_owned()])
        );
        // A configured one is left out with a warning, unless it is required.
        for (required, status) in [("", 0), ("required = true\n", 2)] {
            let root = env.work().join("root");
            let [x, y] = [("x", root.as_path()), ("y", &env.work().join("root2"))]
                .map(|(id, root)| format!("[[source]]\nid = \"{id}\"\nroot = \"{}\"\n", root.display()));
            file(env.work().join("c.toml"), format!("{x}{required}{y}"));
            let said = env.run(["list", "--config", "c.toml", "--json"]);
            if status == 0 {
                assert_eq!(ids(&said.json()), ["ok"]);
                let warned = env.run(["list", "--config", "c.toml"]);
                assert!(warned.stderr.contains("root-not-a-directory"), "{warned:?}");
            } else {
                said.fails(status, "root-not-a-directory");
            }
        }
    }
}

/// Whatever comes and goes meanwhile: a catalog that was true, or an error that says so.
#[test]
fn entries_that_come_and_go_while_they_are_read_do_no_harm() {
    let env = environment(Runner::available()[0]);
    let source = env.work().join("src");
    (0..20).for_each(|number| drop(package(&source, &format!("s{number}"))));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for name in ["going", "s3x"] {
                    package(&source, name);
                    fs::remove_dir_all(source.join(name)).unwrap();
                }
            }
        });
        let stays: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
        for _ in 0..20 {
            let said = env.run(["list", "--source", "src", "--json"]);
            if said.status != 0 {
                said.fails(5, "catalog-stale");
                continue;
            }
            let found = ids(&said.json());
            assert!(stays.iter().all(|id| found.contains(id)), "{found:?}");
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_package_is_a_leaf_and_says_so_where_others_would_look_into_it() {
    for env in each() {
        let learn = package(env.work().join("src"), "learn");
        package(learn.join("examples"), "tasklist");
        package(env.work().join("src"), "tasklist");
        for layout in [&[][..], &["--layout", "nested"], &["--layout", "nested", "--depth", "8"]] {
            let arguments = [&["--source", "src", "--json"], layout].concat();
            let listed = env.run([&["list"], &arguments[..]].concat()).json();
            assert_eq!(ids(&listed), ["learn", "tasklist"]);
            let prepared = env.run([&["prepare"], &arguments[..]].concat()).json();
            assert_eq!(texts(&prepared["packages"], "id"), ["learn", "tasklist"]);
            let nested = "nested-skill-file examples/tasklist/SKILL.md".to_owned();
            assert_eq!(said(&prepared["packages"][0]["diagnostics"]), [nested]);
            let frozen =
                Path::new(prepared["path"].as_str().unwrap()).join("learn/examples/tasklist/SKILL.md");
            assert!(frozen.is_file());
        }
    }
}

/// What package managers unpack is content of a package, and no place to look for any.
#[test]
fn dependencies_are_content_and_are_not_searched() {
    for env in each() {
        let source = env.work().join("src");
        let demo = package(&source, "demo");
        (0..500).for_each(|number| file(demo.join(format!("node_modules/p{number}/i.js")), "1"));
        for place in
            ["node_modules/dep/skills", "node_modules", ".git/modules", ".venv/lib", ".archive", ".hidden"]
        {
            package(source.join(place), "evil");
        }
        for path in [".DS_Store", "README.md", "foo.md", "COLLECTION.md"] {
            file(source.join(path), "x");
        }
        directory(source.join("notes"));
        for layout in [&[][..], &["--layout", "nested", "--depth", "8"]] {
            let listed = env
                .run([&["list", "--source", "src", "--json", "--max-packages", "20"], layout].concat())
                .json();
            assert_eq!(
                (ids(&listed), left_out(&listed)),
                (vec!["demo".to_owned()], vec!["src/notes: no-skill-file".to_owned()])
            );
            assert_eq!(listed["left_out"][0]["diagnostics"][0]["severity"], "info");
            let few =
                env.run([&["list", "--source", "src", "--json", "--max-packages", "5"], layout].concat());
            let error = few.fails(6, "scan-limit");
            assert!(text(&error["message"]).contains("11 entries"), "{error}");
        }
        let prepared = env.run(["prepare", "--source", "src", "--json"]).json();
        assert_eq!(prepared["files"], 501);
    }
}

/// A list that lacks what could not be opened would look like any other.
#[test]
fn a_scan_without_descriptors_fails_and_lists_no_fewer() {
    for env in each() {
        for number in 0..40 {
            package(env.work().join(format!("src/c{}", number % 4)), &format!("s{number}"));
        }
        let script = "ulimit -n $1; shift; exec \"$@\"";
        let program = env.program().to_str().unwrap();
        let arguments = ["list", "--json", "--source", "src", "--layout", "nested"];
        let (mut whole, mut failed) = (0, 0);
        for limit in 4..40 {
            let limit = limit.to_string();
            let limited = [&["-c", script, "sh", &limit, program], &arguments[..]].concat();
            let listed = Output::of(&mut env.command_of("sh", limited));
            if listed.status == 0 {
                assert_eq!(ids(&listed.json()).len(), 40, "{limit}");
                whole += 1;
            } else {
                let error = listed.fails(1, "io");
                assert!(text(&error["message"]).contains("Too many open files"), "{error}");
                assert_eq!(listed.stdout, "", "{limit}");
                failed += i32::from(text(&error["message"]).starts_with("cannot scan the source `src`: "));
            }
        }
        assert!(whole > 0 && failed > 0, "{whole} whole lists, {failed} failed scans");
    }
}

/// Nothing that a package says of itself is ever a path.
#[test]
fn a_name_that_is_a_path_makes_nothing_and_removes_nothing() {
    for env in each() {
        let victim = env.work().join("victim");
        file(victim.join("f"), "keep");
        for (number, name) in
            ["../../victim", "..", ".", "", "/etc", "con", "a.", "a/b", "a\\b", ".git"].iter().enumerate()
        {
            file(
                env.work().join(format!("src/s{number}/SKILL.md")),
                format!("---\nname: '{name}'\ndescription: d\n---\n"),
            );
            file(
                env.work().join(format!("src/t{number}/SKILL.md")),
                format!("---\nname: x\nid: '{name}'\ndescription: d\n---\n"),
            );
        }
        drop(env.command([""]));
        let before = skillfreeze_testing::tree(env.work());
        for entry in crate::support::names(env.work().join("src")) {
            let added: Output = env.run(["add", &format!("src/{entry}"), "--json"]);
            added.fails(6, "invalid");
            env.run(["prepare", &entry, "--source", "src", "--json"]).fails(6, "selection-invalid");
        }
        let error = env.run(["prepare", "--source", "src", "--json"]).fails(4, "nothing-selected");
        assert_eq!(error["details"]["left_out"].as_array().unwrap().len(), 20);
        for verb in ["prepare", "enable", "disable"] {
            env.run([verb, "../../victim", "--json"]).fails(2, "reference");
        }
        assert_eq!(skillfreeze_testing::tree(env.work()), before);
        assert_eq!(crate::support::names(env.root().join("packages/sha256")), [""; 0]);
    }
}
