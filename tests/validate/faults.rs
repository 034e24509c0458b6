//! What is said of one package.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use skillfreeze_testing::{Runner, file, package, set_mode};

use super::{packages, report, validate};
use crate::support::{environment, text};

/// A front matter and a change of the package, and what is said of it.
type Case<'a> = (&'a str, fn(&Path), &'a [&'a str]);

fn nothing(_: &Path) {}

fn download(package: &Path) {
    file(package.join("scripts/get.sh"), "#!/bin/sh\ncurl https://example.org\n");
    set_mode(package.join("scripts/get.sh"), 0o755);
}

const CASES: [Case<'_>; 15] = [
    ("name: demo\ndescription: d\n", nothing, &[]),
    ("name: demo\nname: x\ndescription: d\n", nothing, &["error fm-dup-key SKILL.md:3:1"]),
    ("name: demo\ndescription: a: b\n", nothing, &["warning fm-recovered SKILL.md:3:15"]),
    (
        "name: 1\nmode: x\n",
        nothing,
        &["error fm-type SKILL.md:2:7", "error key-renamed SKILL.md:3:1", "error desc-missing SKILL.md"],
    ),
    ("name: other\ndescription: d\n", nothing, &["warning name-dir-mismatch SKILL.md:2:7"]),
    // All faults, not the first, whoever finds them.
    (
        "name: demo\nname: x\ndescription: d\n",
        |package| {
            symlink("/etc/hostname", package.join("x")).unwrap();
            file(package.join("__pycache__/a.pyc"), "x");
            file(package.join("scripts/run.sh"), "#!/bin/sh\n");
        },
        &["error bytecode __pycache__", "error symlink-escape x", "error fm-dup-key SKILL.md:3:1"],
    ),
    (
        "name: demo\ndescription: d\n",
        |path| drop(package(path.join("examples"), "inner")),
        &["warning nested-skill-file examples/inner/SKILL.md"],
    ),
    (
        "name: demo\ndescription: d\n",
        |package| fs::rename(package.join("SKILL.md"), package.join("skill.md")).unwrap(),
        &["error skill-file-misnamed skill.md"],
    ),
    (
        "name: demo\ndescription: d\n",
        |package| file(package.join("scripts/run.sh"), "#!/bin/sh\n"),
        &["warning script-not-executable scripts/run.sh"],
    ),
    (
        "name: demo\ndescription: d\n",
        |package| {
            fs::remove_file(package.join("SKILL.md")).unwrap();
            symlink("/etc/hostname", package.join("SKILL.md")).unwrap();
        },
        &["error skill-md-symlink-escape SKILL.md"],
    ),
    // What tools and scripts need, one warning a permission.
    (
        "name: demo\ndescription: d\nallowed-tools: Read Bash(git:*)\n",
        download,
        &["warning permission-undeclared SKILL.md", "warning permission-undeclared SKILL.md"],
    ),
    (
        "name: demo\ndescription: d\npermissions: {filesystem: write, web: none}\nallowed-tools: Bash\n",
        download,
        &["warning permission-undeclared SKILL.md"],
    ),
    (
        "name: demo\ndescription: d\npermissions: {filesystem: write, web: optional}\nallowed-tools: Bash\n",
        download,
        &[],
    ),
    (
        "name: demo\ndescription: d\npermissions: {web: much}\n",
        nothing,
        &["error permission-invalid SKILL.md:4:20"],
    ),
    // What is left out of a package is worth knowing.
    (
        "name: demo\ndescription: d\n",
        |package| file(package.join(".git/config"), ""),
        &["info vcs-skipped .git"],
    ),
];

#[test]
fn all_that_is_wrong_is_told_with_its_place() {
    for runner in Runner::available() {
        for (front_matter, change, expected) in CASES {
            let env = environment(*runner);
            package(env.work().join("src"), "ok");
            let demo = package(env.work().join("src"), "demo");
            file(demo.join("SKILL.md"), format!("---\n{front_matter}---\n"));
            change(&demo);
            let is_invalid = expected.iter().any(|line| line.starts_with("error "));
            let status = if is_invalid { 6 } else { 0 };
            let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
            let of_demo = ("src/demo".to_owned(), expected);
            let of_ok = ("src/ok".to_owned(), Vec::new());
            let (found, report) = validate(&env, &["src"]);
            assert_eq!((found, packages(&report)), (status, vec![of_demo.clone(), of_ok]), "{front_matter}");
            // The package by itself is told the same.
            let (found, report) = validate(&env, &["src/demo"]);
            assert_eq!((found, packages(&report)), (status, vec![of_demo.clone()]), "{front_matter}");

            let shown = env.run(["validate", "src/demo", "--verbose"]);
            assert_eq!(shown.status, status, "{shown:?}");
            for line in &of_demo.1 {
                let parts: Vec<&str> = line.split(' ').collect();
                assert!(shown.stdout.contains(&format!("{}[{}]: ", parts[0], parts[1])), "{}", shown.stdout);
                let place = format!("--> src/demo/{}\n", parts[2]);
                assert!(shown.stdout.contains(&place), "{line}: {}", shown.stdout);
            }
        }
    }
}

#[test]
fn a_line_is_shown_with_a_caret() {
    let env = environment(Runner::available()[0]);
    file(env.work().join("demo/SKILL.md"), "---\nname: demo\ndescription: Use when: asked\n---\n");
    let shown = env.run(["validate", "demo"]);
    let expected = "\
warning[fm-recovered]: the value holds `: ` without quotes; it was taken as text
 --> demo/SKILL.md:3:22
  |
3 | description: Use when: asked
  |                      ^
  |
  = hint: quote the value or use `>-`: a plain value cannot hold `: `

1 valid, 0 invalid, 1 warning
";
    assert_eq!((shown.ok(), shown.stderr.as_str()), (expected, ""));
}

/// What the specification forbids is an error, and nothing is recovered.
#[test]
fn strict_is_the_letter_of_the_specification() {
    for (front_matter, lenient, strict) in [
        ("name: demo\ndescription: d\n", "", ""),
        (
            "name: demo\ndescription: a: b\n",
            "warning fm-recovered SKILL.md:3:15",
            "error fm-yaml SKILL.md:3:15",
        ),
        (
            "name: other\ndescription: d\n",
            "warning name-dir-mismatch SKILL.md:2:7",
            "error name-dir-mismatch SKILL.md:2:7",
        ),
        (
            "name: demo\ndescription: d\nx: 1\n",
            "warning unknown-key SKILL.md:4:1",
            "error unknown-key SKILL.md:4:1",
        ),
        (
            "name: demo\ndescription: d\nmetadata: {a: [b]}\n",
            "warning metadata-not-string SKILL.md:4:15",
            "error metadata-not-string SKILL.md:4:15",
        ),
    ] {
        let env = environment(Runner::available()[0]);
        file(env.work().join("demo/SKILL.md"), format!("---\n{front_matter}---\n"));
        for (option, expected) in [(None, lenient), (Some("--strict"), strict)] {
            let arguments: Vec<&str> = ["demo"].into_iter().chain(option).collect();
            let (status, report) = validate(&env, &arguments);
            let expected: Vec<String> =
                [expected.to_owned()].into_iter().filter(|line| !line.is_empty()).collect();
            let is_invalid = expected.iter().any(|line| line.starts_with("error "));
            assert_eq!(status, if is_invalid { 6 } else { 0 }, "{front_matter}");
            assert_eq!(packages(&report), [("demo".to_owned(), expected)], "{front_matter} {option:?}");
        }
    }
}

#[test]
fn the_configured_limits_count() {
    let env = environment(Runner::available()[0]);
    package(env.work(), "demo");
    file(env.work().join("demo/big"), "x".repeat(2000));
    file(env.work().join("limits.toml"), "[limits]\nfile_bytes = 1000\n");
    let (status, report) = validate(&env, &["demo", "--config", "limits.toml"]);
    assert_eq!(
        (status, packages(&report)),
        (6, vec![("demo".into(), vec!["error limit-file-bytes big".into()])])
    );
    file(env.work().join("limits.toml"), "[limits]\nfront_matter_bytes = 20\n");
    let (status, report) = validate(&env, &["demo", "--config", "limits.toml"]);
    assert_eq!(status, 6);
    assert!(packages(&report)[0].1[0].starts_with("error fm-too-large"), "{report}");
    // They hold for what is added, too.
    env.run(["add", "demo", "--config", "limits.toml", "--json"]).fails(6, "invalid");
}

/// Root reads everything.
#[test]
fn what_cannot_be_read_is_told_of_its_package_alone() {
    let env = environment(Runner::User);
    package(env.work().join("src"), "ok");
    let locked = package(env.work().join("src"), "locked");
    file(locked.join("secret"), "x");
    set_mode(locked.join("secret"), 0o000);
    set_mode(package(env.work().join("src"), "shut"), 0o000);
    let output = env.run(["validate", "src", "--json"]);
    let expected = [
        ("src/locked".to_owned(), vec!["error unreadable secret".to_owned()]),
        ("src/ok".to_owned(), vec![]),
        ("src/shut".to_owned(), vec!["error unreadable .".to_owned()]),
    ];
    assert_eq!((output.status, packages(&report(&output))), (6, expected.to_vec()));
    set_mode(env.work().join("src"), 0o000);
    env.run(["validate", "src", "--json"]).fails(1, "root-unreadable");
    env.run(["validate", "src/ok", "--json"]).fails(1, "root-unreadable");
}

/// What a scan passes over is read whole like the rest.
#[test]
fn the_scans_reasons_stand_beside_the_packages_faults() {
    let env = environment(Runner::available()[0]);
    for (source, body) in [("a", "one"), ("b", "two")] {
        let content = format!("---\nname: demo\ndescription: d\n---\n{body}\n");
        file(env.work().join(source).join("demo/SKILL.md"), content);
    }
    file(env.work().join("b/demo/scripts/x"), "#!/bin/sh\n");
    package(env.work().join("src"), "linked");
    symlink("../src/linked", env.work().join("b/linked")).unwrap();
    let (status, found) = validate(&env, &["a", "b"]);
    let expected = [
        ("a/demo".to_owned(), vec![]),
        (
            "b/demo".to_owned(),
            vec!["warning script-not-executable scripts/x".to_owned(), "warning shadowed-by".to_owned()],
        ),
        ("b/linked".to_owned(), vec!["error symlink-not-allowed".to_owned()]),
    ];
    assert_eq!((status, packages(&found)), (6, expected.to_vec()));
    let ids: Vec<String> = found["packages"].as_array().unwrap().iter().map(|one| text(&one["id"])).collect();
    assert_eq!(ids, ["demo", "demo", ""]);
    let (status, found) = validate(&env, &["b", "--links", "allow"]);
    assert_eq!((status, packages(&found)[1].clone()), (0, ("b/linked".to_owned(), vec![])));
}
