//! A project without configuration: it is listed and run as it is, and the command plants nothing there
//! that a later run would take.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::json;
use skillfreeze_testing::{Output, Runner, TestEnv, directory, file, package, tree};

use super::{each, ids, list_in};

const ATTEMPTS: &str = r#"
for attempt; do
    if said=$(LC_ALL=C sh -c "$attempt" 2>&1); then echo OK; else echo "${said##*: }"; fi
done
"#;
const BUSY: &str = "Device or resource busy";
const READ_ONLY: &str = "Read-only file system";

/// A project that holds `.agents/skills/demo`; with `.git` or without.
fn project(env: &TestEnv, has_git: bool) -> PathBuf {
    let root = env.work().join("p");
    if has_git {
        directory(root.join(".git"));
    }
    package(root.join(".agents/skills"), "demo");
    root
}

/// Runs each attempt in one launch in the project; gives what became of each.
///
/// The command of root is somebody else, so all is everybody's to write first.
#[track_caller]
fn attempts(env: &TestEnv, root: &std::path::Path, options: &[&str], attempts: &[&str]) -> Output {
    assert!(
        env.command_of("chmod", ["-R", "a+rwX"]).arg(env.work()).arg(env.home()).status().unwrap().success()
    );
    let arguments = [&["run", "--json"], options, &["--", "sh", "-c", ATTEMPTS, "sh"], attempts].concat();
    super::run_in(env, root, &arguments)
}

#[track_caller]
fn assert_refused(env: &TestEnv, root: &std::path::Path, options: &[&str], table: &[(&str, &str)]) {
    let tried: Vec<&str> = table.iter().map(|(attempt, _)| *attempt).collect();
    let output = attempts(env, root, options, &tried);
    let answers: Vec<_> =
        table.iter().zip(output.ok().lines()).map(|((attempt, _), answer)| (*attempt, answer)).collect();
    assert_eq!(answers, table);
}

#[test]
fn a_project_is_listed_and_run_without_naming_anything() {
    for env in each() {
        for has_git in [true, false] {
            let root = project(&env, has_git);
            assert_eq!(ids(&list_in(&env, &root, &[])), ["demo"]);
            for within in if has_git { &["", "sub"][..] } else { &[""] } {
                directory(root.join(within));
                let run = ["run", "--workspace", ".", "--", "ls", "-A", "$SKILLS_DIR/"];
                assert_eq!(super::run_in(&env, root.join(within), &run).ok(), ".snapshot.json\ndemo\n");
            }
            let cat = [
                "run",
                "--skill",
                "demo",
                "--workspace",
                ".",
                "--",
                "head",
                "-2",
                "$SKILLS_DIR/demo/SKILL.md",
            ];
            assert_eq!(super::run_in(&env, &root, &cat).ok(), "---\nname: demo\n");
            fs::remove_dir_all(&root).unwrap();
        }
    }
}

#[test]
fn the_command_cannot_change_the_project_s_skills_nor_its_configuration() {
    for env in each() {
        for has_git in [true, false] {
            let root = project(&env, has_git);
            package(root.join(".claude/skills"), "other");
            file(root.join("skillfreeze.toml"), "");
            let table = [
                ("mkdir .agents/skills/evil", READ_ONLY),
                ("cp -r .agents/skills/demo .agents/skills/evil", READ_ONLY),
                ("echo evil >>.agents/skills/demo/SKILL.md", READ_ONLY),
                ("touch .agents/skills/demo/new", READ_ONLY),
                ("rm .claude/skills/other/SKILL.md", READ_ONLY),
                ("ln -s /tmp .claude/skills/evil", READ_ONLY),
                ("mv .agents .old", BUSY),
                ("mv .claude/skills .claude/old", BUSY),
                ("echo x >>skillfreeze.toml", READ_ONLY),
                ("mv skillfreeze.toml old", BUSY),
                ("rm skillfreeze.toml", BUSY),
                ("touch work && rm work", "OK"),
            ];
            let before = tree(&root);
            let opened = attempts(&env, &root, &["--workspace", "."], &["true"]);
            assert_eq!(opened.ok(), "OK\n");
            let opened = tree(&root);
            assert_refused(&env, &root, &["--workspace", "."], &table);
            assert_eq!(tree(&root), opened);
            assert_eq!(before.lines().count(), opened.lines().count());
            assert_eq!(ids(&list_in(&env, &root, &[])), ["demo", "other"]);
            fs::remove_dir_all(&root).unwrap();
        }
    }
}

#[test]
fn what_appears_where_nothing_was_is_told_and_fails_the_run() {
    for env in each() {
        for has_git in [true, false] {
            for (plant, path) in [
                ("mkdir -p .claude/skills/evil", ".claude/skills"),
                ("mkdir .claude; ln -s ../.agents/skills .claude/skills", ".claude/skills"),
                ("ln -s .agents .claude", ".claude/skills"),
                ("echo 'conflicts = \"error\"' >skillfreeze.toml", "skillfreeze.toml"),
            ] {
                let root = project(&env, has_git);
                let output = attempts(&env, &root, &["--workspace", "."], &[plant]);
                let error = output.fails(125, "source-appeared");
                assert_eq!(
                    (output.stdout.as_str(), &error["details"]["paths"]),
                    ("OK\n", &json!([root.join(path)])),
                    "{plant}"
                );
                fs::remove_dir_all(&root).unwrap();
            }
        }
    }
}

/// From below the project's root, with all of the project, and what is around it, to write.
#[test]
fn the_project_is_guarded_from_a_subdirectory_too() {
    for env in each() {
        let root = project(&env, true);
        file(root.join("skillfreeze.toml"), "[[source]]\nid = \"own\"\nroot = \"tools/skills\"\n");
        package(root.join("tools/skills"), "tool");
        directory(root.join("sub"));
        // A broken `.git` on the way is no project, and hides none.
        symlink("nowhere", root.join("sub/.git")).unwrap();
        let bind = env.work().to_str().unwrap();
        let table = [
            ("mkdir ../.agents/skills/evil", READ_ONLY),
            ("mkdir ../tools/skills/evil", READ_ONLY),
            ("mv ../tools ../old", BUSY),
            ("echo x >>../skillfreeze.toml", READ_ONLY),
            ("mv ../skillfreeze.toml ../old", BUSY),
        ];
        assert_eq!(ids(&list_in(&env, root.join("sub"), &[])), ["demo", "tool"]);
        assert_refused(&env, &root.join("sub"), &["--bind", bind, "--workspace", "."], &table);
        fs::remove_file(root.join("skillfreeze.toml")).unwrap();
        let output = attempts(
            &env,
            &root.join("sub"),
            &["--bind", bind, "--workspace", "."],
            &["touch ../skillfreeze.toml"],
        );
        output.fails(125, "source-appeared");
    }
}

/// Sources of the user's configuration and that configuration itself, where they lie in the workspace.
#[test]
fn configured_sources_and_files_in_the_workspace_are_guarded() {
    for env in each() {
        let root = project(&env, true);
        package(root.join("team/skills"), "team");
        let source =
            format!("[[source]]\nid = \"team\"\nroot = \"{}\"\n", root.join("team/skills").display());
        let absent = format!("[[source]]\nid = \"later\"\nroot = \"{}\"\n", root.join("later").display());
        file(root.join("conf/my.toml"), format!("{source}{absent}"));
        symlink("conf/my.toml", root.join("link.toml")).unwrap();
        for config in ["conf/my.toml", "link.toml"] {
            let options = ["--config", config, "--workspace", "."];
            let is_link = config == "link.toml";
            let mut table = vec![
                ("mkdir team/skills/evil", READ_ONLY),
                ("mv team old", BUSY),
                ("mv team/skills team/old", BUSY),
                ("echo >conf/my.toml", READ_ONLY),
                ("mv conf old", BUSY),
                ("rm conf/my.toml", BUSY),
            ];
            if is_link {
                table.push(("touch x && rm x", "OK"));
            }
            assert_refused(&env, &root, &options, &table);
            let appeared =
                attempts(&env, &root, &options, &["mkdir -p later/evil"]).fails(125, "source-appeared");
            assert_eq!(appeared["details"]["paths"], json!([root.join("later")]));
            fs::remove_dir_all(root.join("later")).unwrap();
        }
        // A link can be led elsewhere, which nothing stops, and which is told.
        let plant = "cp conf/my.toml evil.toml && ln -sf evil.toml link.toml";
        let exchanged = attempts(&env, &root, &["--config", "link.toml", "--workspace", "."], &[plant]);
        exchanged.fails(125, "source-appeared");
        // The user's own configuration and places, in a home that is worked in.
        fs::remove_dir_all(&root).unwrap();
        package(env.home().join(".agents/skills"), "mine");
        file(env.home().join(".config/skillfreeze/skillfreeze.toml"), "");
        let table = [
            ("mkdir .agents/skills/evil", READ_ONLY),
            ("echo >>.config/skillfreeze/skillfreeze.toml", READ_ONLY),
            ("mv .config old", BUSY),
        ];
        assert_refused(&env, env.home(), &["--workspace", "."], &table);
        let appeared = attempts(&env, env.home(), &["--workspace", "."], &["mkdir -p .claude/skills"]);
        appeared.fails(125, "source-appeared");
    }
}

/// Where a source takes what links in it lead to, that is as much a source as what lies in it.
#[test]
fn what_a_followed_link_leads_to_is_guarded() {
    for env in each() {
        let root = env.work().join("p");
        directory(root.join(".git"));
        package(root.join("dev"), "linked");
        directory(env.home().join(".agents/skills"));
        symlink(root.join("dev/linked"), env.home().join(".agents/skills/linked")).unwrap();
        directory(root.join("lent"));
        file(root.join("lent/S.md"), "---\nname: lent\ndescription: d\n---\n");
        directory(env.work().join("src/lent"));
        symlink(root.join("lent/S.md"), env.work().join("src/lent/SKILL.md")).unwrap();
        let [src, lent] = [env.work().join("src"), root.join("lent")].map(|path| path.display().to_string());
        file(
            env.work().join("c.toml"),
            format!("[[source]]\nid = \"x\"\nroot = \"{src}\"\nlink_roots = [\"{lent}\"]\n"),
        );
        let config = env.work().join("c.toml");
        let options = ["--config", config.to_str().unwrap(), "--workspace", "."];
        assert_eq!(ids(&list_in(&env, &root, &options[..2])), ["lent", "linked"]);
        let table = [
            ("echo evil >>dev/linked/SKILL.md", READ_ONLY),
            ("touch dev/linked/new", READ_ONLY),
            ("mv dev/linked dev/old", BUSY),
            ("mv dev old", BUSY),
            ("echo evil >>lent/S.md", READ_ONLY),
            ("mv lent old", BUSY),
            ("touch dev/new && rm dev/new", "OK"),
        ];
        assert_refused(&env, &root, &options, &table);
        if env.runner() == Runner::Root {
            continue;
        }
        // A link that leads nowhere yet would lead to what is put there.
        symlink(root.join("dev/later"), env.home().join(".agents/skills/later")).unwrap();
        attempts(&env, &root, &options, &["cp -r dev/linked dev/later"]).fails(125, "source-appeared");
    }
}
