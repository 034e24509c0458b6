//! `show SKILL`: what the sources hold, what the store has, and how the two differ.

use std::fs;

use serde_json::Value;
use skillfreeze_testing::{Output, Runner, TestEnv, directory, file, package, package_digest};

use crate::support::{environment, text, texts};

const RICH: &str = "---
name: rich
description: Does much
version: 1.10
license: MIT
compatibility: any host
tags: [pdf, text]
allowed-tools: Read Bash(git diff:*)
permissions: {filesystem: write, web: none, tools: [Read, Bash]}
user-invocable: false
---
";

fn found(env: &TestEnv, arguments: &[&str]) -> Value {
    env.run([&["show", "--json"], arguments].concat()).json()
}

/// The places under a key, as `source/directory`.
fn places(list: &Value) -> Vec<String> {
    let list = list.as_array().map_or(&[][..], Vec::as_slice);
    list.iter().map(|place| format!("{}/{}", text(&place["source"]), text(&place["directory"]))).collect()
}

#[test]
fn what_is_only_in_a_source_is_shown() {
    for runner in Runner::available() {
        let env = environment(*runner);
        let skills = env.work().join(".agents/skills");
        file(skills.join("rich/SKILL.md"), RICH);
        let shown = found(&env, &["rich"]);
        assert_eq!((&shown["id"], &shown["enabled"]), (&"rich".into(), &true.into()));
        assert_eq!(shown["revisions"], Value::Array(Vec::new()));
        let place = &shown["found"][0];
        for (key, value) in [
            ("reference", "rich@source"),
            ("source", "project-agents"),
            ("directory", "rich"),
            ("path", skills.join("rich").to_str().unwrap()),
            ("name", "rich"),
            ("description", "Does much"),
            ("version", "1.10"),
            ("license", "MIT"),
            ("compatibility", "any host"),
            ("digest", &package_digest(skills.join("rich"))),
        ] {
            assert_eq!(text(&place[key]), value, "{key}");
        }
        assert_eq!(place["tags"], serde_json::json!(["pdf", "text"]));
        assert_eq!(place["allowed_tools"], serde_json::json!(["Read", "Bash(git diff:*)"]));
        assert_eq!(place["permissions"]["filesystem"], "write");
        assert_eq!((&place["user_invocable"], &place["model_invocable"]), (&false.into(), &true.into()));
        assert_eq!((&place["differs"], &place["diagnostics"]), (&Value::Null, &Value::Array(Vec::new())));
        assert!(!env.root().exists(), "nothing is written");

        let shown = env.run(["show", "rich"]);
        for line in [
            "rich@source",
            "  version        1.10",
            "  tags           pdf, text",
            "  allowed tools  Read Bash(git diff:*)",
            "  permissions    filesystem: write, tools: Read Bash, web: none",
            "  invoked by     model",
            "  source         project-agents",
        ] {
            assert!(shown.ok().lines().any(|shown| shown == line), "{line}: {}", shown.stdout);
        }
        for reference in ["rich@source", "project-agents:rich"] {
            assert_eq!(found(&env, &[reference])["found"][0], *place, "{reference}");
        }
        env.run(["disable", "rich"]).ok();
        assert_eq!(found(&env, &["rich"])["enabled"], false);
        assert!(env.run(["show", "rich"]).ok().starts_with("rich is disabled\n"));
    }
}

#[test]
fn the_active_revision_is_compared_with_the_source() {
    let env = environment(Runner::available()[0]);
    let demo = package(env.work().join(".agents/skills"), "demo");
    env.run(["add", ".agents/skills/demo"]).ok();
    let differs = || found(&env, &["demo"])["found"][0]["differs"].clone();
    let first_line = || {
        let shown = env.run(["show", "demo"]);
        shown.ok().lines().find(|line| line.starts_with("demo@1")).unwrap().to_owned()
    };
    assert_eq!((differs(), first_line().as_str()), (false.into(), "demo@1 (active)"));
    file(demo.join("more"), "x");
    assert_eq!(differs(), true);
    assert_eq!(first_line(), "demo@1 (active; the source differs: demo@source)");
    // What only a whole reading finds.
    std::os::unix::fs::symlink("/etc/hostname", demo.join("x")).unwrap();
    assert_eq!(differs(), Value::Null);
    assert_eq!(first_line(), "demo@1 (active; the source cannot be used: demo@source)");
    let place = found(&env, &["demo"])["found"][0].clone();
    assert_eq!(
        (texts(&place["diagnostics"], "code"), &place["digest"]),
        (vec!["symlink-escape".into(), "version-missing".into()], &Value::Null)
    );
    // Each pick names what it picks.
    let counts = |reference: &str| {
        let shown = found(&env, &[reference]);
        let count = |key: &str| shown[key].as_array().map_or(0, Vec::len);
        (count("found"), count("revisions"))
    };
    for (reference, expected) in
        [("demo", (1, 1)), ("demo@1", (0, 1)), ("demo@source", (1, 0)), ("project-agents:demo", (1, 0))]
    {
        assert_eq!(counts(reference), expected, "{reference}");
    }
    fs::remove_dir_all(&demo).unwrap();
    assert_eq!(counts("demo"), (0, 1));
}

#[test]
fn what_shadows_what_is_named() {
    let env = environment(Runner::available()[0]);
    for (source, body) in [("a", "1"), ("b", "2"), ("c", "1")] {
        let content = format!("---\nname: demo\ndescription: d\n---\n{body}\n");
        file(env.work().join(source).join("demo/SKILL.md"), content);
    }
    let sources = ["--source", "a", "--source", "b", "--source", "c"];
    let shown = found(&env, &[&["demo"], &sources[..]].concat());
    assert_eq!(places(&shown["found"]), ["a/demo", "b/demo"]);
    let first = &shown["found"][0];
    assert_eq!(
        (places(&first["shadows"]), places(&first["origins"])),
        (vec!["b/demo".into()], vec!["c/demo".into()])
    );
    assert_eq!(shown["found"][1]["shadowed_by"]["source"], "a");
    assert_eq!(shown["found"][1]["reference"], "b:demo");
    let second = found(&env, &[&["b:demo"], &sources[..]].concat());
    assert_eq!(second["found"], serde_json::json!([shown["found"][1]]));
    let shown = env.run([&["show", "demo"], &sources[..]].concat());
    for line in ["  also in      c/demo", "  shadows      b:demo", "b:demo", "  shadowed by  a:demo"] {
        assert!(shown.ok().lines().any(|shown| shown == line), "{line}: {}", shown.stdout);
    }
    assert_eq!(shown.stderr, "");
}

#[test]
fn what_names_nothing_is_told_apart() {
    let env = environment(Runner::available()[0]);
    package(env.work().join("src"), "pdf-tools");
    file(env.work().join("src/broken/SKILL.md"), "---\nname: broken\n---\n");
    let unknown = env.run(["show", "pdf-tool", "--source", "src", "--json"]).fails(4, "selection-unknown");
    assert_eq!(unknown["hint"], "did you mean `pdf-tools`?");
    let broken = env.run(["show", "broken", "--source", "src", "--json"]).fails(6, "selection-invalid");
    assert_eq!(texts(&broken["details"]["faults"], "code"), ["desc-missing"]);
    for (arguments, status, code) in [
        (&["pdf-tools"][..], 4, "selection-unknown"),
        (&["other:pdf-tools", "--source", "src"], 4, "selection-unknown"),
        (&["pdf-tools@1", "--source", "src"], 4, "selection-unknown"),
        (&["pdf-tools", "--source", "absent"], 4, "root-absent"),
    ] {
        env.run([&["show", "--json"], arguments].concat()).fails(status, code);
    }
}

/// A directory is a snapshot only where no skill has its name.
#[test]
fn a_skill_comes_before_a_directory_of_its_name() {
    let env = environment(Runner::available()[0]);
    package(env.work().join(".agents/skills"), "demo");
    directory(env.work().join("demo"));
    directory(env.work().join("other"));
    assert_eq!(found(&env, &["demo"])["schema"], "skillfreeze.show-skill.v1");
    env.run(["show", "other", "--json"]).fails(3, "integrity");
    let in_skills = Output::of(env.command(["show", "demo"]).current_dir(env.work().join(".agents/skills")));
    // Without a `.git` above, that directory is a project of its own, whose roots are empty.
    assert_eq!(in_skills.status, 3);
}
