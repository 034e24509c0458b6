//! The user's switch: what it says, what it writes, and which project it means.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, lchown, symlink};
use std::path::Path;

use serde_json::{Value, json};
use skillfreeze_testing::{Output, Runner, TestEnv, directory, file, package, skip};

use super::{changes, journal, listed};
use crate::support::environment;

#[test]
fn a_switch_is_written_once_and_said_in_a_line() {
    for runner in Runner::available() {
        let env = environment(*runner);
        package(env.work().join("src"), "demo");
        env.run(["add", "src/demo"]).ok();
        let user = json!("user");
        for (arguments, text, changed) in [
            (&["disable", "demo"][..], "demo  disabled for the user\n", true),
            (&["disable", "demo"], "demo  already disabled for the user\n", false),
            (&["enable", "demo", "--scope", "user"], "demo  enabled for the user\n", true),
            // What only a source has, or nobody yet, can be switched too.
            (&["disable", "absent"], "absent  disabled for the user\n", true),
        ] {
            let before = journal(&env).len();
            let said = env.run(arguments);
            assert_eq!((said.ok(), said.stderr.as_str()), (text, ""));
            assert_eq!(journal(&env).len() - before, usize::from(changed), "{arguments:?}");
        }
        assert_eq!(
            changes(&env, "disabled"),
            ["demo", "absent"].map(|id| json!({"id": id, "scope": user})).to_vec()
        );
        assert_eq!(changes(&env, "enabled"), [json!({"id": "demo", "scope": user})]);

        let switched = env.run(["disable", "demo", "new", "new", "absent", "--json"]).json();
        let one =
            |id: &str, changed: bool| json!({"id": id, "scope": user, "enabled": false, "changed": changed});
        let expected = [one("demo", true), one("new", true), one("new", false), one("absent", false)];
        assert_eq!(switched, json!({"schema": "skillfreeze.switch.v1", "switched": expected}));
        // A switch takes nothing away.
        assert_eq!(listed(&env), ["demo"]);
    }
}

#[test]
fn what_is_no_id_is_refused_and_nothing_is_written() {
    let env = environment(Runner::available()[0]);
    for given in ["../evil", "demo@1", "src:demo", "Demo", "", "demo/", "con", "a b"] {
        for verb in ["enable", "disable"] {
            env.run([verb, "fine", given, "--json"]).fails(2, "reference");
        }
    }
    env.run(["disable", "--json"]).fails(2, "usage");
    env.run(["disable", "--json", "demo", "--scope", "world"]).fails(2, "usage");
    assert!(!env.root().exists());
}

/// Disables a skill in the project of `directory` and gives the project's root.
#[track_caller]
fn project_of(env: &TestEnv, directory: &Path) -> String {
    let mut command = env.command(["disable", "demo", "--scope", "project", "--json"]);
    let switched = Output::of(command.current_dir(directory)).json();
    let root = switched["switched"][0]["scope"]["project"].as_str().unwrap().to_owned();
    let written: Vec<Value> = changes(env, "disabled").iter().map(|data| data["scope"].clone()).collect();
    assert!(written.contains(&json!({"project": root})), "{written:?}");
    root
}

#[test]
fn a_project_begins_at_the_nearest_git() {
    for runner in Runner::available() {
        let env = environment(*runner);
        let work = env.work().to_owned();
        for path in
            ["plain/sub", "tree/a/b", "tree/.git", "tree/inner/c", "linked/d", "odd/e", "real", "tree/loop/f"]
        {
            directory(work.join(path));
        }
        // A work tree of git has a file there.
        file(work.join("tree/inner/.git"), "gitdir: /elsewhere\n");
        symlink("../real", work.join("linked/.git")).unwrap();
        symlink("nowhere", work.join("odd/.git")).unwrap();
        symlink(".git", work.join("tree/loop/.git")).unwrap();
        symlink("tree/a", work.join("way")).unwrap();
        for (from, root) in [
            ("plain/sub", "plain/sub"),
            ("tree", "tree"),
            ("tree/a/b", "tree"),
            ("tree/inner", "tree/inner"),
            ("tree/inner/c", "tree/inner"),
            ("linked/d", "linked"),
            ("odd/e", "odd/e"),
            ("tree/loop/f", "tree/loop/f"),
            ("way/b", "tree"),
        ] {
            let expected = work.join(root);
            assert_eq!(project_of(&env, &work.join(from)), expected.to_str().unwrap(), "{from}");
        }
        // One project, one switch, wherever in it one stands; the user's is another.
        let before = journal(&env).len();
        project_of(&env, &work.join("tree/a"));
        assert_eq!(journal(&env).len(), before);
        let said =
            Output::of(env.command(["enable", "demo", "--scope", "project"]).current_dir(work.join("way")));
        assert_eq!(said.ok(), format!("demo  enabled for the project `{}`\n", work.join("tree").display()));
        assert_eq!(env.run(["disable", "demo"]).ok(), "demo  disabled for the user\n");
    }
}

/// Who may write above, to `/tmp` say, would else say what is somebody's project.
#[test]
fn a_git_of_somebody_else_makes_no_project() {
    const OTHER: u32 = 54_321;
    const THIRD: u32 = 54_322;
    if Runner::available().len() < 2 {
        skip!("only root gives directories away");
    }
    for runner in Runner::available() {
        let env = environment(*runner);
        env.run(["list"]).ok();
        let me = fs::metadata(env.home()).unwrap().uid();
        assert_eq!(me == 0, *runner == Runner::Root);
        let top = env.home().parent().unwrap().join("area");
        // The owners of the directory above, of its `.git`, and of the current directory.
        for (number, (above, git, current, counts)) in [
            (me, me, me, true),
            (0, 0, me, true),
            (me, 0, me, true),
            (0, me, me, true),
            (OTHER, OTHER, OTHER, true),
            (me, OTHER, OTHER, true),
            (0, OTHER, me, false),
            (me, OTHER, me, false),
            (OTHER, me, me, false),
            (OTHER, OTHER, me, false),
            (THIRD, OTHER, OTHER, false),
        ]
        .into_iter()
        .enumerate()
        {
            for as_file in [true, false] {
                let outer = top.join(format!("{number}{as_file}"));
                let inner = outer.join("inner");
                let cwd = inner.join("a/b");
                directory(&cwd);
                // Mine, and not to be reached past one that is not.
                directory(outer.join(".git"));
                if as_file {
                    file(inner.join(".git"), "")
                } else {
                    directory(inner.join(".git"))
                }
                let give = |path: &Path, owner| lchown(path, Some(owner), None).unwrap();
                give(&outer, me);
                give(&outer.join(".git"), me);
                give(&inner, above);
                give(&inner.join(".git"), git);
                give(&cwd, current);
                let expected = if counts { &inner } else { &cwd };
                let what = format!("{above} {git} {current}");
                assert_eq!(project_of(&env, &cwd), expected.to_str().unwrap(), "{what}");
                let mut command = env.command(["enable", "demo", "--scope", "project"]);
                let said = Output::of(command.current_dir(&cwd));
                assert!(said.ok().contains(expected.to_str().unwrap()), "{what}");
                assert_eq!(said.stderr.starts_with("warning: "), !counts, "{what}: {}", said.stderr);
                assert!(counts || said.stderr.contains(inner.to_str().unwrap()), "{}", said.stderr);
            }
        }
        // What is in the current directory says what the project is, whosever it is.
        let own = top.join("own");
        directory(own.join(".git"));
        lchown(own.join(".git"), Some(OTHER), None).unwrap();
        assert_eq!(project_of(&env, &own), own.to_str().unwrap());
    }
}

/// It says nothing of where one is, so nothing is switched.
#[test]
fn a_current_directory_that_cannot_be_reached_is_an_error() {
    let env = environment(Runner::User);
    let work = env.work().to_owned();
    directory(work.join("tree/.git"));
    directory(work.join("tree/closed/sub"));
    let mut command = env.command_of(
        "sh",
        [
            "-c",
            "chmod 0 .. && exec \"$0\" disable demo --scope project --json",
            env.program().to_str().unwrap(),
        ],
    );
    let failed = Output::of(command.current_dir(work.join("tree/closed/sub")));
    assert_eq!((failed.status, failed.stdout.as_str()), (1, ""), "{failed:?}");
    assert!(failed.stderr.contains("\"code\":\"permission\""), "{failed:?}");
    assert!(!env.root().exists());
    skillfreeze_testing::set_mode(work.join("tree/closed"), 0o755);
}
