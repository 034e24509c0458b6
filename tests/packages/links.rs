//! Links: inside a package to a regular file of it, or refused.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use skillfreeze_testing::{Output, Runner, file, package, package_digest, sha256};

use super::{Refusal, all_refuse, takes};
use crate::support::environment;

fn link(demo: &Path, target: impl AsRef<OsStr>, path: &str) {
    symlink(target.as_ref(), demo.join(path)).unwrap();
}

/// What links may lead to, inside and outside.
fn surroundings(demo: &Path) {
    let above = demo.parent().unwrap().parent().unwrap();
    file(above.join("outside/secret"), "s");
    // Containment is by whole components: these only look as if they were inside.
    file(above.join("src-evil/secret"), "s");
    file(above.join("demo-evil/secret"), "s");
    file(demo.join("a/f.md"), "x");
    file(demo.join(".git/config"), "x");
    file(demo.join(".DS_Store"), "x");
}

#[test]
fn a_link_that_is_not_to_a_file_of_the_package_is_refused() {
    let table: &[(&[u8], &str)] = &[
        (b"/etc/hostname", "symlink-escape"),
        (b"/", "symlink-escape"),
        (b"/nope", "symlink-escape"),
        (b"../../outside/secret", "symlink-escape"),
        (b"../../src-evil/secret", "symlink-escape"),
        (b"../../demo-evil/secret", "symlink-escape"),
        (b"../ok/SKILL.md", "symlink-escape"),
        (b"a/../../ok/SKILL.md", "symlink-escape"),
        (b"../absent", "symlink-escape"),
        // Out of the package, if only to come back.
        (b"../demo/SKILL.md", "symlink-escape"),
        (b"absent", "symlink-dangling"),
        (b"a/absent/f.md", "symlink-dangling"),
        (b"SKILL.md/f", "symlink-dangling"),
        (b"b\xffd", "symlink-dangling"),
        (b"a", "symlink-to-directory"),
        (b"./a/", "symlink-to-directory"),
        (b".", "symlink-to-directory"),
        (b"a/..", "symlink-to-directory"),
        (b".git/config", "symlink-to-excluded"),
        (b".DS_Store", "symlink-to-excluded"),
        (b"x", "symlink-loop"),
    ];
    for (target, code) in table {
        let make = |demo: &Path| {
            surroundings(demo);
            link(demo, OsStr::from_bytes(target), "x");
        };
        all_refuse(&target.escape_ascii().to_string(), make, Refusal::found_by_add(&[(*code, "x")]));
    }
}

#[test]
fn every_bad_link_is_named() {
    let make = |demo: &Path| {
        surroundings(demo);
        link(demo, "../b", "a/deep");
        link(demo, "deep", "a/deeper");
        link(demo, "a", "b");
        link(demo, "z", "y");
        link(demo, "y", "z");
        // What is reached through a link to a directory is inside, and still only the one is at fault.
        link(demo, "b/f.md", "through");
        link(demo, "m.pyc", "m.py");
        file(demo.join("m.pyc"), "x");
    };
    let faults = [
        ("symlink-to-directory", "a/deep"),
        ("symlink-to-directory", "a/deeper"),
        ("symlink-to-directory", "b"),
        ("symlink-to-excluded", "m.py"),
        ("bytecode", "m.pyc"),
        ("symlink-loop", "y"),
        ("symlink-loop", "z"),
    ];
    all_refuse("many links", make, Refusal::found_by_add(&faults));
}

#[test]
fn a_skill_file_that_is_a_link_to_no_file_of_the_package_is_refused() {
    for (target, code) in [
        ("../../outside/secret", "skill-md-symlink-escape"),
        ("/etc/hostname", "skill-md-symlink-escape"),
        ("../ok/SKILL.md", "skill-md-symlink-escape"),
        ("/nonexistent", "skill-md-dangling"),
        ("absent", "skill-md-dangling"),
        ("a/f.md/x", "skill-md-dangling"),
        ("SKILL.md", "skill-md-dangling"),
        ("a", "skill-md-symlink-forbidden"),
        (".git/config", "skill-md-symlink-forbidden"),
    ] {
        let make = |demo: &Path| {
            surroundings(demo);
            fs::remove_file(demo.join("SKILL.md")).unwrap();
            link(demo, target, "SKILL.md");
        };
        let faults = [(code, "SKILL.md")];
        all_refuse(target, make, Refusal::found_by_scan(&faults, &faults));
    }
}

#[test]
fn a_link_to_a_file_of_the_package_becomes_that_file() {
    for runner in Runner::available() {
        let taken = takes(*runner, |demo| {
            fs::rename(demo.join("SKILL.md"), demo.join("real.md")).unwrap();
            link(demo, "real.md", "SKILL.md");
            file(demo.join("a/f.md"), "shared");
            skillfreeze_testing::set_mode(demo.join("a/f.md"), 0o755);
            fs::create_dir(demo.join("b")).unwrap();
            link(demo, "../a/f.md", "b/f.md");
            link(demo, "./b/../b//f.md", "to-a-link");
        });
        assert_eq!(taken.paths(), ["SKILL.md", "a/f.md", "b/f.md", "real.md", "to-a-link"]);
        assert_eq!(taken.said("materialized-link"), ["SKILL.md", "b/f.md", "to-a-link"]);
        for path in ["b/f.md", "to-a-link"] {
            let frozen = taken.frozen.join(path);
            assert!(fs::symlink_metadata(&frozen).unwrap().is_file());
            assert_eq!(fs::read(&frozen).unwrap(), b"shared");
        }
        // Python reads through the links; what is frozen has none, and the same digest.
        assert_eq!(taken.digest(), package_digest(taken.env.work().join("src/demo")));
        assert_eq!(taken.digest(), package_digest(&taken.frozen));
        let executable = |index: usize| taken.package["files"][index]["executable"].as_bool().unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(executable), [false, true, true, false, true]);
    }
}

/// Neither its size nor its hash: whoever writes a package could otherwise ask what the host has.
#[test]
fn nothing_is_told_of_what_an_escaping_link_leads_to() {
    for runner in Runner::available() {
        let env = environment(*runner);
        let outside = env.work().join("outside");
        file(&outside, "secret".repeat(999));
        link(&package(env.work().join("src"), "demo"), "../../outside", "x");
        let mut said = String::new();
        for arguments in [
            &["add", "src/demo", "--json"][..],
            &["add", "src/demo", "--verbose"],
            &["prepare", "--source", "src", "--json"],
            &["prepare", "demo", "--source", "src", "--verbose"],
            &["list", "--source", "src", "--json"],
        ] {
            let Output { stdout, stderr, .. } = env.run(arguments);
            said.push_str(&stdout);
            said.push_str(&stderr);
        }
        assert!(said.contains("symlink-escape") && said.contains("../../outside"), "{said}");
        assert!(!said.contains("5994") && !said.contains(&sha256(&outside)), "{said}");
        // Nor is it copied anywhere; its content would show even in a compressed archive's size, so
        // there must be none.
        assert!(crate::support::names(env.root().join("packages/sha256")).is_empty());
        let mut grep = Command::new("grep");
        let found = Output::of(grep.args(["-rlaE", "secretsecret|5994"]).arg(env.root()));
        assert_eq!((found.status, found.stdout.as_str()), (1, ""));
    }
}
