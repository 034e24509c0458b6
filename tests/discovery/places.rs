//! Places for skills that are not taken: what others have a part in, and links to nothing.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, lchown, symlink};
use std::path::Path;
use std::process::Command;

use skillfreeze_testing::{Runner, TestEnv, directory, file, package, set_mode, skip};

use super::configuration::{project, source, user_file};
use super::{each, faults, ids, list_in, run_in};
use crate::support::environment;

/// How a project's skills lie, and what of it is a link.
#[derive(Debug, Clone, Copy)]
enum Laid {
    /// `.agents/skills`.
    Plain,
    /// The same, where `.agents` is a link to `real`.
    LinkAbove,
    /// The same, where it is a link to `real`.
    Link,
}

impl Laid {
    fn lay(self, root: &Path) {
        match self {
            Self::Plain => drop(package(root.join(".agents/skills"), "demo")),
            Self::LinkAbove => {
                package(root.join("real/skills"), "demo");
                symlink("real", root.join(".agents")).unwrap();
            }
            Self::Link => {
                package(root.join("real"), "demo");
                directory(root.join(".agents"));
                symlink("../real", root.join(".agents/skills")).unwrap();
            }
        }
    }
}

/// Lists and prepares in a project whose skills are left out; gives what is said of that.
#[track_caller]
fn assert_left_out(env: &TestEnv, root: &Path, expected: &str) {
    let listed = list_in(env, root, &[]);
    assert_eq!(
        (ids(&listed), faults(&listed)),
        (vec![], faulty(&["project-agents: root-failed"])),
        "{listed}"
    );
    run_in(env, root, &["prepare", "--json"]).fails(4, "nothing-selected");
    run_in(env, root, &["prepare", "demo", "--json"]).fails(4, "selection-unknown");
    for verb in ["list", "prepare"] {
        let said = run_in(env, root, &[verb]).stderr;
        let warning = said.lines().find(|line| line.starts_with("warning: ")).unwrap_or_default();
        assert!(warning.contains("`project-agents` is left out") && warning.contains(expected), "{said}");
    }
}

/// The faults that there are in a project with no other places for skills than `.agents/skills`.
fn faulty(faults: &[&str]) -> Vec<String> {
    let absent = ["project-claude", "user-agents", "user-claude"].map(|id| format!("{id}: root-absent"));
    faults.iter().map(ToString::to_string).chain(absent).collect()
}

#[test]
fn a_place_for_skills_that_somebody_else_has_a_part_in_is_left_out() {
    const OTHER: u32 = 54_321;
    if Runner::available().len() < 2 {
        skip!("only root gives files away");
    }
    for runner in Runner::available() {
        let env = environment(*runner);
        drop(env.command([""]));
        let me = fs::metadata(env.home()).unwrap().uid();
        for (laid, path, named) in [
            (Laid::Plain, ".agents", ".agents"),
            (Laid::Plain, ".agents/skills", ".agents/skills"),
            (Laid::LinkAbove, ".agents", ".agents"),
            (Laid::LinkAbove, "real", "real"),
            (Laid::LinkAbove, "real/skills", ".agents/skills"),
            (Laid::Link, ".agents", ".agents"),
            (Laid::Link, ".agents/skills", ".agents/skills"),
            (Laid::Link, "real", "real"),
        ] {
            // Not where everything is given to the user.
            let root = env.home().parent().unwrap().join("area");
            directory(root.join(".git"));
            laid.lay(&root);
            let owner = me.to_string();
            let given = Command::new("chown").args(["-hR", &owner]).arg(&root).status().unwrap();
            assert!(given.success());
            assert_eq!(ids(&list_in(&env, &root, &[])), ["demo"], "{laid:?}");
            lchown(root.join(path), Some(OTHER), None).unwrap();
            assert_left_out(&env, &root, &format!("`{named}` belongs to user {OTHER}"));
            // Root's is as good as one's own.
            lchown(root.join(path), Some(0), None).unwrap();
            assert_eq!(ids(&list_in(&env, &root, &[])), ["demo"], "{laid:?} {path}");
            fs::remove_dir_all(&root).unwrap();
        }
    }
}

#[test]
fn a_place_for_skills_that_is_meant_for_everybody_is_left_out() {
    for env in each() {
        let root = project(&env);
        for (laid, path, named) in [
            (Laid::Plain, ".agents", ".agents"),
            (Laid::Plain, ".agents/skills", ".agents/skills"),
            (Laid::LinkAbove, "real", "real"),
            (Laid::LinkAbove, "real/skills", ".agents/skills"),
            (Laid::Link, ".agents", ".agents"),
            (Laid::Link, "real", "real"),
        ] {
            laid.lay(&root);
            for mode in [0o1777, 0o1757, 0o1773] {
                set_mode(root.join(path), mode);
                assert_left_out(&env, &root, &format!("everybody may leave files in `{named}`"));
            }
            // Where the file system knows no modes all is like that.
            for mode in [0o777, 0o1775, 0o1755] {
                set_mode(root.join(path), mode);
                assert_eq!(ids(&list_in(&env, &root, &[])), ["demo"], "{laid:?} {path} {mode:o}");
            }
            fs::remove_dir_all(&root).unwrap();
            directory(root.join(".git"));
        }
    }
}

/// Whoever made the link meant something to be there.
#[test]
fn a_root_that_is_a_link_to_nothing_is_told() {
    for env in each() {
        let root = project(&env);
        file(user_file(&env), source("mine", env.work().join("mine"), ""));
        file(root.join("skillfreeze.toml"), source("own", "own", ""));
        for (id, path) in [
            ("project-agents", root.join(".agents/skills")),
            ("project-claude", root.join(".claude/skills")),
            ("user-agents", env.home().join(".agents/skills")),
            ("user-claude", env.home().join(".claude/skills")),
            ("mine", env.work().join("mine")),
            ("own", root.join("own")),
        ] {
            directory(path.parent().unwrap());
            symlink("nowhere", &path).unwrap();
            let listed = list_in(&env, &root, &[]);
            assert!(faults(&listed).contains(&format!("{id}: root-failed")), "{listed}");
            for verb in ["list", "prepare"] {
                let said = run_in(&env, &root, &[verb]).stderr;
                let part = format!("warning: the source `{id}` is left out: ");
                let line = said.lines().find(|line| line.starts_with(&part)).unwrap_or_default();
                assert!(line.contains("it is a link to nothing"), "{said}");
            }
            fs::remove_file(&path).unwrap();
        }
        // The same where it is the way that leads nowhere.
        fs::remove_dir(root.join(".claude")).unwrap();
        symlink("nowhere", root.join(".claude")).unwrap();
        let listed = list_in(&env, &root, &[]);
        assert!(faults(&listed).contains(&"project-claude: root-failed".to_owned()), "{listed}");
        symlink("nowhere", root.join("link")).unwrap();
        run_in(&env, &root, &["list", "--source", "link", "--json"]).fails(1, "root-failed");
        run_in(&env, &root, &["prepare", "--source", "link", "--json"]).fails(1, "root-failed");
        file(user_file(&env), source("mine", root.join("link"), "required = true"));
        run_in(&env, &root, &["list", "--json"]).fails(1, "root-failed");
    }
}
