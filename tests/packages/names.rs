//! Names: of files in a package, and of the package itself.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use skillfreeze_testing::{Runner, TestEnv, file, package, tree};

use super::{Refusal, all_refuse, takes};
use crate::support::{codes, environment, names, text, texts};

#[test]
fn a_name_that_is_not_portable_is_refused_and_never_rewritten() {
    let table: &[(&[u8], &str, &str)] = &[
        (b"b\xff.txt", "path-not-utf8", "b\\xff.txt"),
        (b"sub/b\xff.txt", "path-not-utf8", "sub/b\\xff.txt"),
        (b"a\nb", "path-invalid", "a\\nb"),
        (b"a\x1bb", "path-invalid", "a\\u{1b}b"),
        (b"aux.md", "path-invalid", "aux.md"),
        (b"sub/NUL", "path-invalid", "sub/NUL"),
        (b"COM1.tar.gz", "path-invalid", "COM1.tar.gz"),
        (b"c:d", "path-invalid", "c:d"),
        (b"a\\b", "path-invalid", "a\\\\b"),
        (b"what?", "path-invalid", "what?"),
        (b"dot.", "path-invalid", "dot."),
        (b"blank ", "path-invalid", "blank "),
        // A combining accent: the composed form is another name of the same text.
        ("e\u{301}".as_bytes(), "path-invalid", "e\u{301}"),
        ("txt\u{202e}gpj".as_bytes(), "path-invalid", "txt\u{202e}gpj"),
    ];
    for (name, code, shown) in table {
        let make = |demo: &Path| file(demo.join(OsStr::from_bytes(name)), "x");
        all_refuse(shown, make, Refusal::found_by_add(&[(*code, *shown)]));
    }
    let directory = |demo: &Path| file(demo.join("con/f"), "x");
    all_refuse("a directory", directory, Refusal::found_by_add(&[("path-invalid", "con")]));
    let long = ["a".repeat(255), "b".repeat(255), "cc".to_owned()].join("/");
    let make = |demo: &Path| file(demo.join(&long), "x");
    all_refuse("a long path", make, Refusal::found_by_add(&[("path-invalid", &long)]));
}

#[test]
fn names_that_some_systems_take_for_one_are_refused() {
    for (one, two) in [("Read.md", "read.md"), ("A/x", "a/y"), ("straße", "STRASSE"), ("ﬁ", "fi"), ("Å", "å")]
    {
        let make = |demo: &Path| {
            file(demo.join(one), "x");
            file(demo.join(two), "x");
        };
        let second = one.max(two);
        all_refuse(second, make, Refusal::found_by_add(&[("path-collision", second)]));
    }
    // These two are different to all of them.
    let taken = takes(Runner::available()[0], |demo| {
        file(demo.join("ı.md"), "x");
        file(demo.join("i.md"), "x");
    });
    assert_eq!(taken.paths(), ["SKILL.md", "i.md", "ı.md"]);
}

/// The directory's listing decides, so that the answer is the same where names have no case.
#[test]
fn a_skill_file_in_another_case_is_named() {
    for name in ["skill.md", "Skill.md", "SKILL.MD"] {
        let make = |demo: &Path| fs::rename(demo.join("SKILL.md"), demo.join(name)).unwrap();
        let faults = [("skill-file-misnamed", name)];
        all_refuse(name, make, Refusal::found_by_scan(&faults, &faults));
    }
    let both = |demo: &Path| file(demo.join("skill.md"), "x");
    all_refuse("both", both, Refusal::found_by_add(&[("path-collision", "skill.md")]));
}

#[test]
fn a_directory_without_a_skill_file_is_no_package() {
    for runner in Runner::available() {
        let env = environment(*runner);
        package(env.work().join("src"), "ok");
        file(env.work().join("src/empty/notes.md"), "x");
        let listed = env.run(["list", "--source", "src", "--json"]).json();
        let left_out = &listed["left_out"][0];
        assert_eq!(codes(&left_out["diagnostics"]), [("no-skill-file".to_owned(), String::new())]);
        // It is nothing that an author would have to mend.
        assert_eq!(left_out["diagnostics"][0]["severity"], "info");
        env.run(["add", "src/empty", "--json"]).fails(6, "no-skill-file");
        env.run(["prepare", "empty", "--source", "src", "--json"]).fails(4, "selection-unknown");
    }
}

/// The name is checked before any path is made of it.
#[test]
fn a_package_name_that_would_lead_elsewhere_is_refused() {
    for name in
        ["../../evil", "..", ".", "", "/abs", "a/b", "con", "demo.", "sp ", "Demo", "ｄｅｍｏ", "a--b", "-a"]
    {
        let make = |demo: &Path| {
            file(demo.join("SKILL.md"), format!("---\nname: \"{name}\"\ndescription: d\n---\n"));
            file(demo.parent().unwrap().with_file_name("victim").join("f"), "keep");
        };
        all_refuse(name, make, Refusal::front_matter(&[("name-invalid", "SKILL.md")]));
    }
}

fn traps(env: &TestEnv) -> String {
    format!("{}{}", tree(env.work()), tree(env.home()))
}

/// Nothing is written, here or there, for a name that is given on the command line either.
#[test]
fn a_selected_name_that_would_lead_elsewhere_is_refused() {
    for runner in Runner::available() {
        let env = environment(*runner);
        package(env.work().join("src"), "ok");
        drop(env.command([""]));
        let before = traps(&env);
        for name in ["../ok", "..", ".", "/etc", "ok/../ok", "con", "ok/", "", "ok@", "ok@0", "ok@sha256:"] {
            let run = env.run(["prepare", "--source", "src", "--json", "--", name]);
            assert!(matches!(run.status, 2 | 4), "{name}: {run:?}");
            assert_eq!(names(env.root().join("snapshots/sha256")), [""; 0], "{name}");
        }
        assert_eq!(traps(&env), before);
    }
}

#[test]
fn a_package_directory_whose_name_is_not_utf8_is_escaped_and_left_out() {
    for runner in Runner::available() {
        let env = environment(*runner);
        package(env.work().join("src"), "ok");
        let odd = env.work().join("src").join(OsStr::from_bytes(b"b\xffd"));
        file(odd.join("SKILL.md"), "---\nname: odd\ndescription: d\n---\n");
        let prepared = env.run(["prepare", "--source", "src", "--json"]).json();
        assert_eq!(texts(&prepared["packages"], "id"), ["ok"]);
        assert_eq!(prepared["left_out"][0]["directory"], "b\\xffd");
        assert_eq!(codes(&prepared["left_out"][0]["diagnostics"])[0].0, "path-not-utf8");
        let mut add = env.command(["add", "--json"]);
        let error = skillfreeze_testing::Output::of(add.arg(&odd)).fails(2, "usage");
        assert!(!text(&error["message"]).is_empty());
    }
}
