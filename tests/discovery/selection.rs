//! What is selected: all, none, by name, and what is said when that cannot be.

use serde_json::json;
use skillfreeze_testing::{TestEnv, file, package};

use super::{described, each};
use crate::support::{names, text, texts};

fn sound(env: &TestEnv) {
    for id in ["alpha", "beta", "gamma"] {
        package(env.work().join(".agents/skills"), id);
    }
}

#[test]
fn all_none_and_some() {
    for env in each() {
        sound(&env);
        file(env.work().join(".agents/skills/broken/SKILL.md"), "x");
        file(env.work().join("wanted"), "gamma # last\nproject-agents:alpha\n");
        for (arguments, expected) in [
            (&[][..], &["alpha", "beta", "gamma"][..]),
            (&["--all"], &["alpha", "beta", "gamma"]),
            (&["--none"], &[]),
            (&["beta"], &["beta"]),
            (&["gamma", "alpha", "gamma"], &["alpha", "gamma"]),
            (&["alpha", "project-agents:alpha", "alpha@source"], &["alpha"]),
            (&["--selection", "wanted"], &["alpha", "gamma"]),
        ] {
            let prepared = env.run([&["prepare", "--json"], arguments].concat()).json();
            assert_eq!(texts(&prepared["packages"], "id"), expected, "{arguments:?}");
            assert_eq!(super::frozen(&prepared, "id"), expected);
            let mut run: Vec<String> = vec!["run".to_owned()];
            for argument in arguments {
                if !argument.starts_with("--") && *argument != "wanted" {
                    run.push("--skill".to_owned());
                }
                run.push((*argument).to_owned());
            }
            run.extend(["--", "sh", "-c", "ls $SKILLS_DIR"].map(str::to_owned));
            assert_eq!(env.run(run).ok().lines().collect::<Vec<_>>(), expected, "{arguments:?}");
        }
        for arguments in [
            &["--all", "--none"][..],
            &["--all", "alpha"],
            &["--none", "alpha"],
            &["--none", "--selection", "wanted"],
        ] {
            env.run([&["prepare", "--json"], arguments].concat()).fails(2, "usage");
        }
    }
}

#[test]
fn what_cannot_be_meant_is_told_before_anything_is_frozen() {
    for env in each() {
        sound(&env);
        file(env.work().join(".agents/skills/broken/SKILL.md"), "---\nname: broken\ndescription: [d]\n---\n");
        let store = |place: &str| names(env.root().join(place));
        for (named, near) in
            [("alpa", json!(["alpha"])), ("gamma-ray", json!(["gamma"])), ("bet", json!(["beta"]))]
        {
            let error = env.run(["prepare", "beta", named, "--json"]).fails(4, "selection-unknown");
            assert_eq!(error["details"]["near"], near, "{error}");
            assert!(text(&error["hint"]).contains("did you mean"), "{error}");
        }
        let error = env.run(["prepare", "unlike-any", "--json"]).fails(4, "selection-unknown");
        assert!(text(&error["hint"]).contains("skillfreeze list"), "{error}");
        for named in ["nobody:alpha", "user-agents:alpha", "alpha@7", "alpha@deadbeefdead", "alpha@version=1"]
        {
            env.run(["prepare", "beta", named, "--json"]).fails(4, "selection-unknown");
        }
        let error = env.run(["prepare", "beta", "broken", "--json"]).fails(6, "selection-invalid");
        assert_eq!(super::errors(&error["details"]["faults"]), ["fm-type SKILL.md:3:14"]);
        let error = env.run(["prepare", "project-agents:broken", "--json"]);
        error.fails(6, "selection-invalid");
        env.run(["run", "--skill", "alpa", "--json", "--", "true"]).fails(125, "selection-unknown");
        for place in ["packages/sha256", "snapshots/sha256", "runs"] {
            assert_eq!(store(place), [""; 0], "{place}");
        }
    }
}

/// A candidate is content that nobody vouched for: no name alone leads to it.
#[test]
fn candidates_are_reached_by_number_or_digest_alone() {
    for env in each() {
        described(env.work().join("one"), "demo", "one");
        described(env.work().join("two"), "demo", "two");
        let digest = |place: &str| {
            text(&env.run(["add", place, "--candidate", "--json"]).json()["added"][0]["digest"])
        };
        let first = digest("one/demo");
        for named in [&["demo"][..], &[], &["--all"]] {
            let run = env.run([&["prepare", "--json"], named].concat());
            run.fails(4, if named == ["demo"] { "selection-inactive" } else { "nothing-selected" });
        }
        let error = env.run(["prepare", "demo", "--json"]).fails(4, "selection-inactive");
        assert!(text(&error["hint"]).contains("`demo@1`"), "{error}");
        env.run(["prepare", "demo@source", "--json"]).fails(4, "selection-unknown");
        let hex = first.trim_start_matches("sha256:").to_owned();
        for named in [
            "demo@1".to_owned(),
            format!("demo@{first}"),
            format!("demo@{}", &hex[..12]),
            format!("demo@sha256:{}", &hex[..20]),
        ] {
            let prepared = env.run(["prepare", &named, "--json"]).json();
            assert_eq!(super::frozen_digest(&prepared), first, "{named}");
        }
        // Another is active: the candidate beside it changes nothing of what the id means.
        let active = text(&env.run(["add", "two/demo", "--json"]).json()["added"][0]["digest"]);
        described(env.work().join("three"), "demo", "three");
        digest("three/demo");
        for named in [&["demo"][..], &[], &["demo@2"]] {
            let prepared = env.run([&["prepare", "--json"], named].concat()).json();
            assert_eq!(super::frozen_digest(&prepared), active);
        }
        env.run(["prepare", "demo@1", "demo@3", "--json"]).fails(5, "selection-conflict");
        let listed = env.run(["list", "--inactive", "--json"]).json();
        let state = |number: u64| {
            let skills = listed["skills"].as_array().unwrap();
            skills.iter().find(|skill| skill["number"] == number).unwrap()["active"].as_bool().unwrap()
        };
        assert_eq!([1, 2, 3].map(state), [false, true, false]);
        // What a search finds is what can be selected by name.
        let found = env.run(["list", "demo", "--json"]).json();
        assert_eq!(found["total"], 1);
    }
}

/// Taking one means knowing which: with what nobody selects there is no quarrel.
#[test]
fn contested_ids_stop_who_selects_them_and_name_the_choices() {
    for env in each() {
        described(env.work().join(".agents/skills"), "demo", "agents");
        described(env.work().join(".claude/skills"), "demo", "claude");
        package(env.work().join(".claude/skills"), "fine");
        file(env.work().join("skillfreeze.toml"), "conflicts = \"error\"\n");
        let choices = json!(["`project-agents:demo`", "`project-claude:demo`"]);
        for named in [&["demo"][..], &["fine", "demo"], &[], &["--all"]] {
            let error = env.run([&["prepare", "--json"], named].concat()).fails(5, "id-conflict");
            assert_eq!(error["details"]["choices"], choices, "{named:?}");
        }
        env.run(["prepare", "fine"]).ok();
        let prepared = env.run(["prepare", "fine", "project-claude:demo", "--json"]).json();
        assert_eq!(texts(&prepared["packages"], "source"), ["project-claude", "project-claude"]);
        env.run(["prepare", "project-agents:demo", "project-claude:demo", "--json"])
            .fails(5, "selection-conflict");
        // The user has decided: what is active is no longer contested.
        env.run(["add", ".agents/skills/demo"]).ok();
        let prepared = env.run(["prepare", "--json"]).json();
        assert_eq!(texts(&prepared["packages"], "id"), ["demo", "fine"]);
        env.run(["disable", "demo"]).ok();
        assert_eq!(texts(&env.run(["prepare", "--json"]).json()["packages"], "id"), ["fine"]);
    }
}
