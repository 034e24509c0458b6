//! Which skills are enabled: what the files say, and the user's switches.

use serde_json::Value;
use skillfreeze_testing::{TestEnv, directory, file, package};

use super::configuration::{project, user_file};
use super::{each, ids, list_in, run_in, skill};
use crate::support::{names, text, texts};

/// Freezes everything in a project; gives the ids.
#[track_caller]
fn everything(env: &TestEnv, directory: &std::path::Path) -> Vec<String> {
    texts(&run_in(env, directory, &["prepare", "--json"]).json()["packages"], "id")
}

/// The ids that `list` calls enabled.
#[track_caller]
fn enabled(env: &TestEnv, directory: &std::path::Path) -> Vec<String> {
    let listed = list_in(env, directory, &[]);
    let on = super::skills(&listed).filter(|skill| skill["enabled"] == true);
    on.map(|skill| text(&skill["id"])).collect()
}

#[test]
fn files_narrow_and_a_project_narrows_further() {
    for env in each() {
        let root = project(&env);
        for id in ["a", "b", "c"] {
            package(root.join(".agents/skills"), id);
        }
        let said = |ids: &[&str]| format!("[skills]\nenabled = {ids:?}\n");
        let given = env.work().join("given.toml");
        for (user, own, named, expected) in [
            (None, None, None, &["a", "b", "c"][..]),
            (Some(&["a", "b"][..]), None, None, &["a", "b"]),
            (None, Some(&["b", "c"][..]), None, &["b", "c"]),
            (Some(&["a", "b"]), Some(&["b", "c"]), None, &["b"]),
            (Some(&["a", "b"]), Some(&["b", "a"]), Some(&["a", "c"][..]), &["a"]),
        ] {
            for (path, ids) in
                [(user_file(&env), user), (root.join("skillfreeze.toml"), own), (given.clone(), named)]
            {
                file(path, ids.map_or_else(String::new, said));
            }
            let options = ["--config", given.to_str().unwrap()];
            let listed = list_in(&env, &root, &options);
            let on: Vec<&Value> = super::skills(&listed).filter(|skill| skill["enabled"] == true).collect();
            // What is not enabled is listed as what it is, and not hidden.
            assert_eq!((ids(&listed).len(), on.len()), (3, expected.len()), "{listed}");
            let prepared = run_in(&env, &root, &[&["prepare", "--json"][..], &options].concat()).json();
            assert_eq!(texts(&prepared["packages"], "id"), expected);
            for id in ["a", "b", "c"] {
                let run = run_in(&env, &root, &[&["prepare", id, "--json"][..], &options].concat());
                if expected.contains(&id) {
                    drop(run.json())
                } else {
                    drop(run.fails(4, "selection-disabled"))
                }
            }
            let out = run_in(&env, &root, &[&["run"][..], &options, &["--", "ls", "$SKILLS_DIR/"]].concat());
            assert_eq!(out.ok().lines().collect::<Vec<_>>(), expected);
        }
        // Nothing in common is nothing, which is no reason for everything.
        for (path, id) in [(user_file(&env), "a"), (root.join("skillfreeze.toml"), "b")] {
            file(path, said(&[id]));
        }
        run_in(&env, &root, &["prepare", "--json"]).fails(4, "nothing-selected");
        file(root.join("skillfreeze.toml"), said(&[]));
        run_in(&env, &root, &["prepare", "--json"]).fails(4, "nothing-selected");
    }
}

#[test]
fn what_is_enabled_by_name_and_not_there_fails_before_anything_is_frozen() {
    for env in each() {
        let root = project(&env);
        package(root.join(".agents/skills"), "a");
        file(user_file(&env), "[skills]\nenabled = [\"a\", \"gone\", \"lost\"]\n");
        let check = |arguments: &[&str], status| {
            let error = run_in(&env, &root, &[arguments, &["--json"][..]].concat());
            let error = error.fails(status, "selection-missing");
            assert_eq!(error["details"]["missing"], serde_json::json!(["gone", "lost"]), "{error}");
        };
        check(&["prepare"], 4);
        check(&["prepare", "--all"], 4);
        run_in(&env, &root, &["run", "--json", "--", "true"]).fails(125, "selection-missing");
        for empty in ["packages/sha256", "snapshots/sha256", "runs"] {
            assert_eq!(names(env.root().join(empty)), [""; 0], "{empty}");
        }
        // Who names others does not ask for those.
        run_in(&env, &root, &["prepare", "a", "--json"]).ok();
        run_in(&env, &root, &["prepare", "--none", "--json"]).ok();
        let error = run_in(&env, &root, &["prepare", "gone", "--json"]).fails(4, "selection-unknown");
        assert!(text(&error["message"]).contains("`gone`"), "{error}");
        // One that is there and invalid is not merely missing.
        package(root.join(".agents/skills"), "lost");
        file(root.join(".agents/skills/gone/SKILL.md"), "no front matter\n");
        let error = run_in(&env, &root, &["prepare", "--json"]).fails(6, "selection-invalid");
        assert_eq!(texts(&error["details"]["faults"], "code"), ["fm-missing"]);
        // One that only reading all of it shows to be faulty is not left out either.
        std::fs::remove_dir_all(root.join(".agents/skills/gone")).unwrap();
        file(package(root.join(".agents/skills"), "gone").join("x.pyc"), "");
        run_in(&env, &root, &["prepare", "--json"]).fails(6, "bytecode");
        std::fs::remove_file(root.join(".agents/skills/gone/x.pyc")).unwrap();
        assert_eq!(everything(&env, &root), ["a", "gone", "lost"]);
    }
}

#[test]
fn switches_hold_for_the_user_or_for_one_project_which_comes_first() {
    for env in each() {
        let root = project(&env);
        let other = env.work().join("other");
        directory(other.join(".git"));
        directory(root.join("sub"));
        for id in ["a", "b"] {
            package(env.home().join(".agents/skills"), id);
        }
        let switch = |directory: &std::path::Path, arguments: &[&str]| {
            drop(run_in(&env, directory, arguments).ok().to_owned())
        };
        let check = |here: &[&str], there: &[&str]| {
            for (directory, expected) in [(&root, here), (&root.join("sub"), here), (&other, there)] {
                assert_eq!(enabled(&env, directory), expected, "{}", directory.display());
                assert_eq!(everything(&env, directory), expected);
                let run = run_in(&env, directory, &["run", "--", "ls", "$SKILLS_DIR/"]);
                assert_eq!(run.ok().lines().collect::<Vec<_>>(), expected);
            }
        };
        check(&["a", "b"], &["a", "b"]);
        switch(&root, &["disable", "a"]);
        check(&["b"], &["b"]);
        switch(&root.join("sub"), &["enable", "a", "--scope", "project"]);
        check(&["a", "b"], &["b"]);
        switch(&root, &["disable", "b", "--scope", "project"]);
        check(&["a"], &["b"]);
        switch(&other, &["enable", "a"]);
        check(&["a"], &["a", "b"]);
        // A switch widens nothing that a file narrows.
        file(user_file(&env), "[skills]\nenabled = [\"b\"]\n");
        let in_files = "add it to `enabled` in each file of the configuration that has `[skills]`";
        check_disabled(&env, &root, "a", in_files);
        assert_eq!(everything(&env, &other), ["b"]);
        std::fs::remove_file(user_file(&env)).unwrap();
        // What is hinted at is what helps.
        run_in(&env, &root, &["disable", "a"]).ok();
        check_disabled(&env, &other, "a", "enable it with `skillfreeze enable a`");
        run_in(&env, &other, &["enable", "a"]).ok();
        run_in(&env, &other, &["prepare", "a"]).ok();
        // A revision of the store is switched with its id, whatever it is named by.
        run_in(&env, &root, &["disable", "a", "--scope", "project"]).ok();
        run_in(&env, &root, &["add", env.home().join(".agents/skills/a").to_str().unwrap()]).ok();
        for reference in ["a", "a@1", "user-agents:a", "a@source"] {
            check_disabled(&env, &root, reference, "enable it with `skillfreeze enable a --scope project`");
        }
        assert_eq!(everything(&env, &other), ["a", "b"]);
        // On the command line's own sources too: switched off is switched off.
        let home = env.home().join(".agents/skills");
        let run = run_in(&env, &root, &["prepare", "a", "--json", "--source", home.to_str().unwrap()]);
        run.fails(4, "selection-disabled");
    }
}

/// Whoever switched it on for a project meant it to be there.
#[test]
fn what_is_switched_on_for_a_project_and_not_there_fails() {
    for env in each() {
        let root = project(&env);
        let other = env.work().join("other");
        directory(other.join(".git"));
        for directory in [&root, &other] {
            package(directory.join(".agents/skills"), "a");
        }
        // A user's skills are not in every project.
        run_in(&env, &root, &["enable", "ghost"]).ok();
        assert_eq!(everything(&env, &root), ["a"]);
        run_in(&env, &root, &["enable", "ghost", "a", "--scope", "project"]).ok();
        let check = |arguments: &[&str], status| {
            let failed = run_in(&env, &root, &[arguments, &["--json"][..]].concat());
            let error = failed.fails(status, "selection-missing");
            assert_eq!(error["details"]["missing"], serde_json::json!(["ghost"]), "{error}");
            assert!(text(&error["message"]).contains("`ghost` is enabled and not there"), "{error}");
        };
        check(&["prepare"], 4);
        check(&["prepare", "--all"], 4);
        let run = run_in(&env, &root, &["run", "--json", "--", "true"]).fails(125, "selection-missing");
        assert!(text(&run["message"]).contains("`ghost`"), "{run}");
        for empty in ["snapshots/sha256", "runs"] {
            // One snapshot is that of before.
            let there = names(env.root().join(empty)).len();
            assert_eq!(there, usize::from(empty != "runs"), "{empty}");
        }
        // Elsewhere, by name, or from sources that stand alone, it is not asked for.
        assert_eq!(everything(&env, &other), ["a"]);
        run_in(&env, &root, &["prepare", "a", "--json"]).ok();
        run_in(&env, &root, &["prepare", "--source", ".agents/skills"]).ok();
        run_in(&env, &root, &["run", "--skill", "a", "--", "true"]).ok();
        // It is there once the store has it, or a source.
        package(env.work(), "ghost");
        run_in(&env, &root, &["add", "../ghost"]).ok();
        assert_eq!(everything(&env, &root), ["a", "ghost"]);
        run_in(&env, &root, &["enable", "spook", "--scope", "project"]).ok();
        run_in(&env, &root, &["prepare", "--json"]).fails(4, "selection-missing");
        package(root.join(".claude/skills"), "spook");
        assert_eq!(everything(&env, &root), ["a", "ghost", "spook"]);
        std::fs::remove_dir_all(root.join(".claude/skills/spook")).unwrap();
        run_in(&env, &root, &["disable", "spook", "--scope", "project"]).ok();
        assert_eq!(everything(&env, &root), ["a", "ghost"]);
    }
}

#[track_caller]
fn check_disabled(env: &TestEnv, directory: &std::path::Path, reference: &str, hint: &str) {
    let error = run_in(env, directory, &["prepare", reference, "--json"]).fails(4, "selection-disabled");
    assert_eq!(error["hint"], hint, "{error}");
    let run = run_in(env, directory, &["run", "--skill", reference, "--json", "--", "true"]);
    run.fails(125, "selection-disabled");
}

#[test]
fn what_is_disabled_is_told_where_everything_was_asked_for() {
    for env in each() {
        package(env.work().join("src"), "a");
        package(env.work().join("src"), "b");
        env.run(["disable", "a"]).ok();
        let prepared = env.run(["prepare", "--source", "src", "--json"]).json();
        assert_eq!(super::left_out(&prepared), ["src/a: disabled"]);
        let note = &prepared["left_out"][0]["diagnostics"][0];
        assert_eq!(note["severity"], "info");
        assert_eq!(note["hint"], "enable it with `skillfreeze enable a`");
        let listed = env.run(["list", "--source", "src", "--json"]).json();
        assert_eq!(
            (&skill(&listed, "a")["enabled"], &skill(&listed, "b")["enabled"]),
            (&false.into(), &true.into())
        );
        assert!(env.run(["list", "--source", "src"]).ok().contains("disabled"));
        env.run(["disable", "b"]).ok();
        env.run(["prepare", "--source", "src", "--json"]).fails(4, "nothing-selected");
    }
}
