//! Front matter, as every command that reads it tells of it.

use std::collections::BTreeMap;

use serde_json::Value;
use skillfreeze_testing::{file, package_digest};

use super::{each, errors, ids, said, skill};
use crate::support::{text, texts};

/// What must be said of a package.
enum Right {
    /// Its description, and warnings.
    Valid(String, &'static [&'static str]),
    Invalid(&'static [&'static str]),
}
use Right::{Invalid, Valid};

fn d(warnings: &'static [&'static str]) -> Right {
    Valid("d".to_owned(), warnings)
}

/// A description of so many characters.
fn long(characters: usize) -> Vec<u8> {
    format!("---\nname: NAME\ndescription: {}\n---\n", "\u{1f600}".repeat(characters)).into_bytes()
}

/// A block with a good name and description before these lines.
fn with(lines: &str) -> Vec<u8> {
    format!("---\nname: NAME\ndescription: d\n{lines}---\nbody\n").into_bytes()
}

/// A block with this description and nothing else beside the name.
fn describes(description: &str) -> Vec<u8> {
    format!("---\nname: NAME\ndescription:{description}\n---\nbody\n").into_bytes()
}

fn named(name: &str) -> Vec<u8> {
    format!("---\nname:{name}\ndescription: d\n---\n").into_bytes()
}

/// Directories with their `SKILL.md`, in which `NAME` stands for the directory, and what is right.
fn table() -> Vec<(&'static str, Vec<u8>, Right)> {
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        // The bytes: marks, line ends, encodings.
        ("mark", text("\u{feff}---\nname: NAME\ndescription: d\n---\n"), d(&[])),
        (
            "two-marks",
            text("\u{feff}\u{feff}---\nname: NAME\ndescription: d\n---\n"),
            Invalid(&["fm-missing SKILL.md:1:1"]),
        ),
        ("crlf", text("---\r\nname: NAME\ndescription: d\r\n---\r\nbody\r\n"), d(&[])),
        ("bare-cr", text("---\rname: NAME\rdescription: d\r---\r"), Invalid(&["fm-missing SKILL.md:1:1"])),
        (
            "latin",
            b"---\nname: latin\ndescription: caf\xe9\n---\n".to_vec(),
            Invalid(&["not-utf8 SKILL.md:3:17"]),
        ),
        ("wide", b"\xff\xfe-\0-\0-\0\n\0".to_vec(), Invalid(&["not-utf8 SKILL.md:1:1"])),
        ("nul", describes(" a\0b"), Invalid(&["fm-control-char SKILL.md:3:15"])),
        ("empty", Vec::new(), Invalid(&["fm-missing SKILL.md:1:1"])),
        // Fences.
        ("fence-at-the-end", text("---\nname: NAME\ndescription: d\n---"), d(&[])),
        (
            "fence-in-a-line",
            text("---\nname: NAME\ndescription: d---"),
            Invalid(&["fm-unterminated SKILL.md:1:1"]),
        ),
        (
            "fence-missing",
            text("---\nname: NAME\ndescription: d\n\n# T\n"),
            Invalid(&["fm-unterminated SKILL.md:1:1"]),
        ),
        (
            "fence-with-a-word",
            text("---\nname: NAME\ndescription: d\n---END\n"),
            Invalid(&["fm-unterminated SKILL.md:1:1"]),
        ),
        (
            "fence-in-a-block",
            text("---\nname: NAME\ndescription: |\n  x\n---no\nallowed-tools: Bash\n---\n"),
            Invalid(&["fm-yaml SKILL.md:5:1"]),
        ),
        (
            "fence-far-below",
            text("---\nname: NAME\ndescription: d\n\n# T\nsome: text: here\n\n---\nmore\n"),
            Invalid(&["fm-yaml SKILL.md:6:11"]),
        ),
        ("fence-and-blanks", text("--- \nname: NAME\ndescription: d\n---\t \n"), d(&[])),
        (
            "fence-of-four",
            text("----\nname: NAME\ndescription: d\n----\n"),
            Invalid(&["fm-missing SKILL.md:1:1"]),
        ),
        (
            "fence-indented",
            text(" ---\nname: NAME\ndescription: d\n ---\n"),
            Invalid(&["fm-missing SKILL.md:1:1"]),
        ),
        // Values and their types.
        ("colon", describes(" Use when: foo\nallowed-tools: Read"), {
            Valid("Use when: foo".to_owned(), &["fm-recovered SKILL.md:3:22"])
        }),
        ("yes", with("metadata:\n  version: 1.10\n  flag: no\n  n: 010\n"), d(&[])),
        ("folded", describes(" >-\n  a\n  b\n\n  c\nlicense: MIT"), Valid("a b\nc".to_owned(), &[])),
        ("literal", describes(" |\n  Triggers on: x\n  y"), Valid("Triggers on: x\ny\n".to_owned(), &[])),
        ("twice", with("description: y\n"), Invalid(&["fm-dup-key SKILL.md:4:1"])),
        ("twice-quoted", with("\"name\": c\n"), Invalid(&["fm-dup-key SKILL.md:4:1"])),
        ("twice-below", with("metadata:\n  k: 1\n  k: 2\n"), Invalid(&["fm-dup-key SKILL.md:6:3"])),
        (
            "anchor",
            with("metadata:\n  a: &a [x]\n  b: [*a,*a]\n"),
            Invalid(&["fm-yaml-feature SKILL.md:5:9"]),
        ),
        ("circle", with("metadata: &a {self: *a}\n"), Invalid(&["fm-yaml-feature SKILL.md:4:14"])),
        ("tag", with("metadata: !!python/object:x {}\n"), Invalid(&["fm-yaml-feature SKILL.md:4:29"])),
        ("merge", with("<<: {license: MIT}\n"), Invalid(&["fm-yaml-feature SKILL.md:4:1"])),
        (
            "lists",
            with(&format!("metadata: {}{}\n", "[".repeat(20_000), "]".repeat(20_000))),
            Invalid(&["fm-too-deep SKILL.md:4:27"]),
        ),
        (
            "maps",
            with(&format!("metadata: {}{}\n", "{a: ".repeat(10_000), "}".repeat(10_000))),
            Invalid(&["fm-too-deep SKILL.md:4:71"]),
        ),
        ("huge", with(&format!("x: {}\n", "a".repeat(200_000))), Invalid(&["fm-too-large SKILL.md:1:1"])),
        ("large-body", [with(""), b"line\n".repeat(30_000)].concat(), d(&["skill-md-large SKILL.md"])),
        ("as-long-as-may-be", long(1024), Valid("\u{1f600}".repeat(1024), &[])),
        ("too-long", long(1025), Valid("\u{1f600}".repeat(1025), &["desc-too-long SKILL.md:3:14"])),
        ("no-metadata", with("metadata:\n"), d(&["metadata-null SKILL.md:4:9"])),
        (
            "deep-metadata",
            with("metadata: {\"x\":{\"bins\":[\"a\"]}}\n"),
            d(&["metadata-not-string SKILL.md:4:16"]),
        ),
        ("list-metadata", with("metadata: [a]\n"), Invalid(&["fm-type SKILL.md:4:11"])),
        // Names.
        ("number", named(" 123"), Invalid(&["fm-type SKILL.md:2:7"])),
        ("truth", named(" true"), Invalid(&["fm-type SKILL.md:2:7"])),
        ("date", named(" 2026-01-01"), Invalid(&["fm-type SKILL.md:2:7"])),
        ("list", named(" [a]"), Invalid(&["fm-type SKILL.md:2:7"])),
        ("map", named(" {}"), Invalid(&["fm-type SKILL.md:2:7"])),
        ("nothing", named(""), Invalid(&["fm-type SKILL.md:2:5"])),
        ("nameless", text("---\ndescription: d\n---\n"), Invalid(&["name-missing SKILL.md"])),
        ("look-alike", named(" \u{ff44}\u{ff45}\u{ff4d}\u{ff4f}"), Invalid(&["name-invalid SKILL.md:2:7"])),
        ("blank-behind", named(" \"sp \""), Invalid(&["name-invalid SKILL.md:2:7"])),
        ("traversal", named(" ../../evil"), Invalid(&["name-invalid SKILL.md:2:7"])),
        ("dots", named(" \"..\""), Invalid(&["name-invalid SKILL.md:2:7"])),
        ("absolute", named(" /etc"), Invalid(&["name-invalid SKILL.md:2:7"])),
        ("device", named(" con"), Invalid(&["name-invalid SKILL.md:2:7"])),
        ("dot-behind", named(" demo."), Invalid(&["name-invalid SKILL.md:2:7"])),
        ("quoted", named(" \"quoted\""), d(&[])),
        ("elsewhere", named(" other"), d(&["name-dir-mismatch SKILL.md:2:7"])),
        // Keys.
        ("known", with("version: 2.2.0\nlicense: MIT\n"), d(&[])),
        ("unknown", with("colour: red\n"), d(&["unknown-key SKILL.md:4:1"])),
        ("old-key", with("invocable: true\n"), Invalid(&["key-renamed SKILL.md:4:1"])),
        ("not-described", text("---\nname: NAME\n---\n"), Invalid(&["desc-missing SKILL.md"])),
        ("described-by-null", describes(""), Invalid(&["desc-empty SKILL.md:3:12"])),
        ("described-by-blanks", describes(" \"  \""), Invalid(&["desc-empty SKILL.md:3:14"])),
        ("described-by-a-block", describes(" >"), Invalid(&["desc-empty SKILL.md:3:14"])),
    ]
}

/// All lie side by side: a fault is its package's alone, whatever it is, and all commands have one parser.
#[test]
fn each_fault_is_told_with_its_place_by_every_command_and_costs_no_other_package() {
    for env in each() {
        let (mut valid, mut invalid) = (BTreeMap::new(), BTreeMap::new());
        for (directory, bytes, right) in table() {
            let path = env.work().join("src").join(directory);
            // What is not UTF-8 has no `NAME` in it.
            let bytes = match String::from_utf8(bytes) {
                Ok(text) => text.replace("NAME", directory).into_bytes(),
                Err(error) => error.into_bytes(),
            };
            file(path.join("SKILL.md"), bytes);
            match right {
                Valid(description, warnings) => {
                    let id = if directory == "elsewhere" { "other" } else { directory };
                    let digest = package_digest(path);
                    valid.insert(id.to_owned(), (directory, description, warnings, digest));
                }
                Invalid(errors) => drop(invalid.insert(directory.to_owned(), errors)),
            }
        }
        let names: Vec<&String> = valid.keys().collect();

        let listed = env.run(["list", "--source", "src", "--json"]).json();
        assert_eq!(ids(&listed).iter().collect::<Vec<_>>(), names);
        for (id, (_, description, warnings, _)) in &valid {
            let skill = skill(&listed, id);
            assert_eq!(
                (text(&skill["description"]), said(&skill["diagnostics"])),
                (description.clone(), owned(warnings)),
                "{id}"
            );
        }
        assert_left_out(&listed, &invalid);

        let prepared = env.run(["prepare", "--source", "src", "--json"]).json();
        assert_left_out(&prepared, &invalid);
        assert_eq!(texts(&prepared["packages"], "id").iter().collect::<Vec<_>>(), names);
        for package in prepared["packages"].as_array().unwrap() {
            let (_, _, warnings, digest) = &valid[&text(&package["id"])];
            assert_eq!(
                (said(&package["diagnostics"]), text(&package["digest"])),
                (owned(warnings), digest.clone()),
                "{package}"
            );
        }
        env.run(["verify", &text(&prepared["snapshot"])]).ok();

        let directories: Vec<String> =
            table().iter().map(|(directory, ..)| format!("src/{directory}")).collect();
        let mut arguments = vec!["add", "--json"];
        arguments.extend(directories.iter().map(String::as_str));
        let added = env.run(&arguments);
        let error = added.fails(6, "invalid");
        assert_eq!(error["details"]["failed"].as_array().unwrap().len(), invalid.len());
        let added: Value = serde_json::from_str(&added.stdout).unwrap();
        for one in added["added"].as_array().unwrap() {
            let (_, _, warnings, digest) = &valid[&text(&one["id"])];
            assert_eq!(
                (said(&one["diagnostics"]), text(&one["digest"])),
                (owned(warnings), digest.clone()),
                "{one}"
            );
        }
        assert_eq!(added["added"].as_array().unwrap().len(), valid.len());
        for failed in added["failed"].as_array().unwrap() {
            let directory = text(&failed["path"]).rsplit('/').next().unwrap().to_owned();
            assert_eq!(errors(&failed["faults"]), invalid[&directory], "{failed}");
        }
        assert_eq!(added["failed"].as_array().unwrap().len(), invalid.len());
        assert_eq!(crate::support::names(env.work()), ["src"]);
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[track_caller]
fn assert_left_out(value: &Value, invalid: &BTreeMap<String, &[&str]>) {
    let left = value["left_out"].as_array().unwrap().iter();
    let found: BTreeMap<String, Vec<String>> =
        left.map(|left| (text(&left["directory"]), errors(&left["diagnostics"]))).collect();
    let expected: BTreeMap<String, Vec<String>> =
        invalid.iter().map(|(directory, errors)| (directory.clone(), owned(errors))).collect();
    assert_eq!(found, expected);
}

/// What is faulty is selected by nobody, and says why with its place when somebody names it.
#[test]
fn a_named_package_that_is_invalid_says_where() {
    for env in each() {
        file(env.work().join("src/demo/SKILL.md"), "---\nname: demo\ndescription: x\ndescription: y\n---\n");
        file(env.work().join("src/odd/SKILL.md"), named(" ../../evil"));
        for (named, place) in [("demo", "fm-dup-key SKILL.md:4:1"), ("odd", "name-invalid SKILL.md:2:7")] {
            let run = env.run(["prepare", named, "--source", "src", "--json"]);
            let error = run.fails(6, "selection-invalid");
            assert_eq!(errors(&error["details"]["faults"]), [place], "{error}");
            let place = place.rsplit(' ').next().unwrap();
            assert!(text(&error["message"]).contains(place), "{error}");
            let run = env.run(["run", "--skill", named, "--source", "src", "--json", "--", "true"]);
            run.fails(125, "selection-invalid");
        }
        let shown = env.run(["list", "--source", "src", "--skipped"]);
        assert!(shown.ok().contains("src/demo") && shown.stdout.contains("SKILL.md:4:1"), "{shown:?}");
    }
}
