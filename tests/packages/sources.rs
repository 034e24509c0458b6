//! Sources: which packages are found in them, and which of several wins.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;
use skillfreeze_testing::{Runner, directory, file, package, package_digest};

use crate::support::{codes, environment, names, text, texts};

#[test]
fn links_in_a_source_are_listed_as_not_allowed_each_of_them() {
    for runner in Runner::available() {
        let env = environment(*runner);
        let real = package(env.work().join("elsewhere"), "real");
        package(env.work().join("src"), "ok");
        for name in ["one", "two"] {
            symlink("../elsewhere/real", env.work().join("src").join(name)).unwrap();
        }
        symlink("../nowhere", env.work().join("src/void")).unwrap();
        let prepared = env.run(["prepare", "--source", "src", "--json"]).json();
        assert_eq!(texts(&prepared["packages"], "id"), ["ok"]);
        assert_eq!(texts(&prepared["left_out"], "directory"), ["one", "two", "void"]);
        for left in prepared["left_out"].as_array().unwrap() {
            assert_eq!(codes(&left["diagnostics"])[0].0, "symlink-not-allowed");
        }
        assert!(text(&prepared["left_out"][0]["diagnostics"][0]["message"]).contains("../elsewhere/real"));
        env.run(["prepare", "one", "--source", "src", "--json"]).fails(6, "selection-invalid");

        // Named itself, on the command line, the link is only a way to say where the package is.
        let added = env.run(["add", "src/one", "--json"]).json();
        assert_eq!(added["added"][0]["digest"], package_digest(&real));
        symlink("elsewhere", env.work().join("alias")).unwrap();
        let prepared = env.run(["prepare", "--source", "alias", "--json"]).json();
        assert_eq!(texts(&prepared["packages"], "id"), ["real"]);
    }
}

#[test]
fn a_source_that_is_no_directory_is_a_mistake_of_the_command_line() {
    for runner in Runner::available() {
        let env = environment(*runner);
        package(env.work().join("src"), "ok");
        file(env.work().join("file"), "");
        for (given, status, code, of_add) in [
            ("file", 2, "root-not-a-directory", "not-a-directory"),
            ("absent", 4, "root-absent", "not-found"),
            ("file/below", 4, "root-absent", "not-found"),
        ] {
            for command in ["prepare", "list"] {
                let said = env.run([command, "--source", "src", "--source", given, "--json"]);
                let error = said.fails(status, code);
                assert!(text(&error["message"]).contains(given), "{error}");
                // What there is in the others is listed all the same, as by `ls`.
                let listed: Value = serde_json::from_str(&said.stdout).unwrap_or_default();
                let expected = if command == "list" { vec!["ok"] } else { vec![] };
                assert_eq!(texts(&listed["skills"], "id"), expected, "{said:?}");
            }
            env.run(["add", given, "--json"]).fails(status, of_add);
        }
        env.run(["list", "--source", "src", "--source", "src", "--json"]).fails(2, "source-twice");
        assert_eq!(names(env.root().join("snapshots/sha256")), [""; 0]);
    }
}

/// A path that was mistyped would give a snapshot of nothing.
#[test]
fn a_source_in_which_nothing_can_be_used_is_an_error_and_says_what_is_there() {
    for runner in Runner::available() {
        let env = environment(*runner);
        directory(env.work().join("empty"));
        file(env.work().join("wrong/notes/readme.txt"), "x");
        file(env.work().join("wrong/bad/SKILL.md"), "no front matter");
        file(package(env.work().join("refused"), "demo").join("x.pyc"), "x");
        for (sources, left_out) in [
            (&["empty"][..], vec![]),
            (&["wrong"], vec![("bad", "fm-missing"), ("notes", "no-skill-file")]),
            (&["refused"], vec![("demo", "bytecode")]),
            (&["empty", "refused"], vec![("demo", "bytecode")]),
        ] {
            let options: Vec<&str> = sources.iter().flat_map(|source| ["--source", source]).collect();
            for all in [&[][..], &["--all"]] {
                let run = env.run([&["prepare", "--json"], &options[..], all].concat());
                let error = run.fails(4, "nothing-selected");
                assert!(text(&error["hint"]).contains("--none"), "{error}");
                let left = error["details"]["left_out"].as_array().unwrap();
                let code = |left: &Value| codes(&left["diagnostics"])[0].0.clone();
                let found: Vec<(String, String)> =
                    left.iter().map(|left| (text(&left["directory"]), code(left))).collect();
                let expected: Vec<(String, String)> =
                    left_out.iter().map(|(path, code)| ((*path).to_owned(), (*code).to_owned())).collect();
                assert_eq!(found, expected, "{error}");
            }
            let run = env.run([&["run"], &options[..], &["--json", "--", "true"]].concat());
            run.fails(125, "nothing-selected");
            let said = env.run([&["prepare"], &options[..]].concat()).stderr;
            // As text, what is no package at all is told only to those who ask for everything.
            let faults = left_out.iter().filter(|(_, code)| *code != "no-skill-file");
            assert!(faults.into_iter().all(|(_, code)| said.contains(code)), "{said}");
        }
        assert_eq!(names(env.root().join("snapshots/sha256")), [""; 0]);
        env.run(["prepare", "--none", "--source", "empty"]).ok();
    }
}

#[test]
fn what_lies_about_in_a_source_is_passed_over_silently() {
    let env = environment(Runner::available()[0]);
    let source = env.work().join("src");
    package(&source, "demo");
    for path in
        [".DS_Store", "README.md", "foo.md", ".archive/old/SKILL.md", ".git/SKILL.md", ".venv/x/SKILL.md"]
    {
        file(source.join(path), "x");
    }
    package(source.join("node_modules/dep/skills"), "evil");
    package(source.join("category"), "nested");
    symlink("README.md", source.join("link.md")).unwrap();
    let listed = env.run(["list", "--source", "src", "--json"]).json();
    assert_eq!(texts(&listed["skills"], "id"), ["demo"]);
    // A directory may have been meant as a package; nothing else can.
    assert_eq!(texts(&listed["left_out"], "directory"), ["category"]);
    assert_eq!(listed["left_out"][0]["diagnostics"][0]["severity"], "info");
}

#[test]
fn the_first_source_wins_and_the_other_is_named_and_reachable() {
    for runner in Runner::available() {
        let env = environment(*runner);
        for above in ["a", "b"] {
            file(package(env.work().join(above), "demo").join("f"), above);
        }
        let [a, b] = ["a", "b"].map(|above| package_digest(env.work().join(above).join("demo")));
        let digest = |above: &str| if above == "a" { a.clone() } else { b.clone() };
        for (sources, wins, other) in [(["a", "b"], "a", "b"), (["b", "a"], "b", "a")] {
            let options = ["--source", sources[0], "--source", sources[1], "--json"];
            for selected in [&[][..], &["demo"], &[&format!("{wins}:demo")]] {
                let prepared = env.run([&["prepare"], selected, &options].concat()).json();
                let package = &prepared["packages"][0];
                assert_eq!((text(&package["source"]), text(&package["digest"])), (wins.into(), digest(wins)));
                assert_eq!(package["shadowed"], serde_json::json!([format!("{other}/demo")]));
                let left = &prepared["left_out"][0];
                assert_eq!((text(&left["source"]), text(&left["id"])), (other.into(), "demo".into()));
                assert_eq!(codes(&left["diagnostics"])[0].0, "shadowed-by");
                assert!(text(&left["diagnostics"][0]["message"]).contains(&format!("`{wins}`")));
            }
            let qualified = format!("{other}:demo");
            let prepared = env.run([&["prepare", &qualified][..], &options].concat()).json();
            assert_eq!(prepared["packages"][0]["digest"], digest(other));
            let both = env.run([&["prepare", "demo", &qualified][..], &options].concat());
            both.fails(5, "selection-conflict");
        }
    }
}

#[test]
fn everything_that_is_listed_can_be_frozen_and_nothing_is_cut_off() {
    let env = environment(Runner::available()[0]);
    let source = env.work().join("src");
    (1..=300).for_each(|number| drop(package(&source, &format!("s{number}"))));
    let mut expected: Vec<String> = (1..=300).map(|number| format!("s{number}")).collect();
    expected.sort_unstable();
    let listed = env.run(["list", "--source", "src", "--json"]).json();
    assert_eq!(texts(&listed["skills"], "id"), expected);
    let prepared = env.run(["prepare", "--source", "src", "--json"]).json();
    assert_eq!(texts(&prepared["packages"], "id"), expected);
    env.run(["verify", &text(&prepared["snapshot"])]).ok();
    let stored: Vec<String> = texts(&env.run(["list", "--inactive", "--json"]).json()["skills"], "id");
    assert_eq!(stored, expected);
}

#[test]
fn a_source_with_too_many_directories_is_refused_with_the_number() {
    let env = environment(Runner::available()[0]);
    (0..4097).for_each(|number| directory(env.work().join(format!("src/{number}"))));
    let error = env.run(["list", "--source", "src", "--json"]).fails(6, "scan-limit");
    assert!(text(&error["message"]).contains("4097") && text(&error["message"]).contains("4096"), "{error}");
    fs::remove_dir(env.work().join("src/0")).unwrap();
    assert_eq!(env.run(["list", "--source", "src", "--json"]).json()["skills"], Value::Array(Vec::new()));
}

#[test]
fn packages_and_files_have_one_order_whatever_the_file_system_has() {
    let mut manifests = Vec::new();
    for order in [["eee", "aaa", "ccc", "bbb"], ["bbb", "ccc", "aaa", "eee"]] {
        let env = environment(Runner::available()[0]);
        order.iter().for_each(|name| drop(package(env.work().join("src"), name)));
        let prepared = env.run(["prepare", "--source", "src", "--json"]).json();
        assert_eq!(texts(&prepared["packages"], "id"), ["aaa", "bbb", "ccc", "eee"]);
        manifests.push(text(&prepared["snapshot"]));
        // Nor does the order in which they are named count.
        let named = env.run([&["prepare", "--source", "src"][..], &order].concat());
        assert_eq!(named.ok().trim(), manifests[0]);
    }
    assert_eq!(manifests[0], manifests[1]);
}
