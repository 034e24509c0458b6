//! The places where skills are found without configuration, and that there are no others.

use std::fs;
use std::os::unix::fs::{lchown, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skillfreeze_testing::{Output, Runner, TestEnv, directory, file, package, skip};

use super::{described, each, faults, ids, left_out, list_in, run_in, skill};
use crate::support::{environment, text, texts};

/// All places by rank, with their ids; below the project's root, below the home, or configured.
const PLACES: [(&str, u64, &str); 5] = [
    ("project-agents", 200, "work/p/.agents/skills"),
    ("project-claude", 210, "work/p/.claude/skills"),
    ("team", 300, "work/team"),
    ("user-agents", 500, "home/.agents/skills"),
    ("user-claude", 510, "home/.claude/skills"),
];

fn top(env: &TestEnv) -> &Path {
    env.home().parent().unwrap()
}

/// A project at `work/p` whose user has configured the source `team`.
fn project(env: &TestEnv) -> PathBuf {
    let root = env.work().join("p");
    directory(root.join(".git"));
    let source = format!("[[source]]\nid = \"team\"\nroot = \"{}\"\n", env.work().join("team").display());
    file(env.home().join(".config/skillfreeze/skillfreeze.toml"), source);
    root
}

#[test]
fn ranks_decide_which_of_all_places_wins() {
    for env in each() {
        let root = project(&env);
        for (id, _, path) in PLACES {
            described(top(&env).join(path), "demo", id);
            described(top(&env).join(path), &format!("only-{id}"), id);
        }
        let listed = list_in(&env, &root, &[]);
        let sources = listed["sources"].as_array().unwrap().iter();
        let sources: Vec<_> = sources
            .map(|source| (text(&source["id"]), source["rank"].as_u64().unwrap(), text(&source["path"])))
            .collect();
        let expected = PLACES
            .map(|(id, rank, path)| (id.to_owned(), rank, top(&env).join(path).to_str().unwrap().to_owned()));
        assert_eq!(sources, expected);
        let mut every: Vec<String> = PLACES.iter().map(|(id, ..)| format!("only-{id}")).collect();
        every.push("demo".to_owned());
        every.sort_unstable();
        assert_eq!(ids(&listed), every);
        // Each is reached by its source, whoever wins; and who wins has to go for the next to do.
        for (index, (id, _, path)) in PLACES.iter().enumerate() {
            let listed = list_in(&env, &root, &[]);
            assert_eq!(skill(&listed, "demo")["source"], *id);
            let losers: Vec<String> =
                PLACES[index + 1..].iter().map(|(id, ..)| format!("{id}/demo: shadowed-by")).collect();
            assert_eq!(left_out(&listed), losers);
            for (other, ..) in &PLACES[index..] {
                let prepared = run_in(&env, &root, &["prepare", &format!("{other}:demo"), "--json"]).json();
                assert_eq!(texts(&prepared["packages"], "source"), [*other]);
            }
            let prepared = run_in(&env, &root, &["prepare", "demo", "--json"]).json();
            assert_eq!(texts(&prepared["packages"], "source"), [*id]);
            fs::remove_dir_all(top(&env).join(path).join("demo")).unwrap();
        }
    }
}

#[test]
fn nothing_else_is_looked_at() {
    for env in each() {
        let root = project(&env);
        package(root.join(".agents/skills"), "mine");
        package(env.home().join(".agents/skills"), "yours");
        for place in [
            // Above and below the project.
            "work/.agents/skills",
            "work/.claude/skills",
            ".agents/skills",
            "work/skills",
            "work/p/nested/.agents/skills",
            "work/p/nested/.claude/skills",
            "work/p/packages/x/.agents/skills",
            // Of other tools, and elsewhere in the project and the home.
            "work/p/skills",
            "work/p",
            "work/p/.agents",
            "work/p/.claude",
            "work/p/.github/skills",
            "work/p/.cursor/skills",
            "work/p/.codex/skills",
            "work/p/node_modules/x/.agents/skills",
            "home",
            "home/skills",
            "home/.agents",
            "home/.codex/skills",
            "home/.config/agents/skills",
            "home/.claude/plugins/x/skills",
            "home/other/.agents/skills",
            "home/.cache/x/skills",
        ] {
            package(top(&env).join(place), "evil");
        }
        file(top(&env).join("work/skillfreeze.toml"), "broken");
        file(root.join("nested/skillfreeze.toml"), "broken");
        directory(root.join("deep/er"));
        for within in ["", "deep", "deep/er", "nested", ".agents/skills/mine", ".git"] {
            let listed = list_in(&env, root.join(within), &[]);
            assert_eq!(
                (ids(&listed), left_out(&listed)),
                (vec!["mine".to_owned(), "yours".to_owned()], vec![]),
                "{within}"
            );
            assert_eq!(listed["sources"].as_array().unwrap().len(), 5);
        }
        // Another `.git` in it begins another project, and nothing of the one above is taken.
        file(root.join("nested/.git"), "gitdir: elsewhere\n");
        fs::remove_file(root.join("nested/skillfreeze.toml")).unwrap();
        assert_eq!(ids(&list_in(&env, root.join("nested"), &[])), ["evil", "yours"]);
        // Without any, the project is the current directory alone.
        fs::remove_dir(root.join(".git")).unwrap();
        assert_eq!(ids(&list_in(&env, root.join("deep"), &[])), ["yours"]);
        assert_eq!(ids(&list_in(&env, &root, &[])), ["mine", "yours"]);
    }
}

#[test]
fn a_project_is_the_same_from_each_of_its_directories_and_from_a_work_tree() {
    for env in each() {
        for (name, as_file) in [("tree", true), ("clone", false)] {
            let root = env.work().join(name);
            if as_file {
                file(root.join(".git"), "gitdir: elsewhere\n")
            } else {
                directory(root.join(".git"))
            }
            package(root.join(".agents/skills"), name);
            directory(root.join("a/b"));
            symlink(root.join("a"), env.work().join(format!("way-{name}"))).unwrap();
            let from: Vec<Value> = [root.clone(), root.join("a/b"), env.work().join(format!("way-{name}/b"))]
                .iter()
                .map(|directory| list_in(&env, directory, &[]))
                .collect();
            assert_eq!(ids(&from[0]), [name]);
            assert!(from.iter().all(|listed| *listed == from[0]), "{from:?}");
        }
    }
}

/// Both programs' users are served by one directory, and its packages are not there twice.
#[test]
fn a_conventional_place_that_links_to_another_is_one_entry_with_two_origins() {
    for env in each() {
        let root = env.work();
        directory(root.join(".git"));
        package(root.join(".agents/skills"), "demo");
        for (target, link) in [("../.agents/skills", ".claude/skills"), (".agents", ".claude")] {
            directory(root.join(link).parent().unwrap());
            symlink(target, root.join(link)).unwrap();
            let listed = env.run(["list", "--json"]).json();
            assert_eq!(ids(&listed), ["demo"]);
            let demo = skill(&listed, "demo");
            assert_eq!(
                (&demo["source"], &demo["origins"]),
                (&json!("project-agents"), &json!([{"source": "project-claude", "directory": "demo"}]))
            );
            assert_eq!(left_out(&listed), [""; 0]);
            for verb in ["list", "prepare"] {
                let said = env.run([verb]);
                assert_eq!((said.status, said.stderr.as_str()), (0, ""), "{said:?}");
            }
            let prepared = env.run(["prepare", "project-claude:demo", "--json"]).json();
            assert_eq!(texts(&prepared["packages"], "id"), ["demo"]);
            fs::remove_file(root.join(link)).unwrap();
            let _ = fs::remove_dir(root.join(".claude"));
        }
        // And in a home that somebody works in.
        package(env.home().join(".agents/skills"), "mine");
        let listed = list_in(&env, env.home(), &[]);
        assert_eq!(
            skill(&listed, "mine")["origins"],
            json!([{"source": "user-agents", "directory": "mine"}])
        );
    }
}

/// A repository could otherwise name any directory of the host as its skills.
#[test]
fn a_project_s_place_that_leads_out_is_left_out_with_a_warning() {
    for env in each() {
        let root = env.work().join("p");
        directory(root.join(".git"));
        package(env.work().join("outside"), "secret");
        package(env.work().join("outside/skills"), "secret");
        package(root.join("inside"), "fine");
        for (target, link, is_taken) in [
            ("../../outside", ".agents/skills", false),
            (env.work().join("outside").to_str().unwrap(), ".agents/skills", false),
            ("../outside", ".agents", false),
            ("../../p/inside", ".agents/skills", false),
            ("../inside", ".agents/skills", true),
            ("../.git/../inside", ".agents/skills", true),
        ] {
            directory(root.join(link).parent().unwrap());
            symlink(target, root.join(link)).unwrap();
            let listed = list_in(&env, &root, &[]);
            let expected = if is_taken { vec!["fine".to_owned()] } else { vec![] };
            assert_eq!(ids(&listed), expected, "{target}");
            let fault: Vec<String> =
                faults(&listed).into_iter().filter(|fault| fault.starts_with("project-agents")).collect();
            assert_eq!(fault.is_empty(), is_taken, "{fault:?}");
            for verb in ["list", "prepare"] {
                let said = run_in(&env, &root, &[verb]).stderr;
                let warns = said.contains("warning: the source `project-agents` is left out")
                    && said.contains("leads out of the project");
                assert_eq!(warns, !is_taken, "{target}: {said}");
            }
            fs::remove_file(root.join(link)).unwrap();
            let _ = fs::remove_dir(root.join(".agents"));
        }
        // Nor do links to packages lead anywhere, in or out.
        directory(root.join(".agents/skills"));
        symlink("../../inside/fine", root.join(".agents/skills/fine")).unwrap();
        symlink(env.work().join("outside/secret"), root.join(".agents/skills/secret")).unwrap();
        let listed = list_in(&env, &root, &[]);
        assert_eq!(
            left_out(&listed),
            ["project-agents/fine: symlink-not-allowed", "project-agents/secret: symlink-not-allowed"]
        );
        // What is no directory, or does not end in one, is told too.
        for make in [|path: &Path| file(path, "x"), |path: &Path| symlink("skills", path).unwrap()] {
            fs::remove_dir_all(root.join(".agents")).unwrap();
            directory(root.join(".agents"));
            make(&root.join(".agents/skills"));
            let said = run_in(&env, &root, &["list"]);
            assert!(said.status == 0 && said.stderr.contains("`project-agents` is left out"), "{said:?}");
        }
    }
}

/// In a directory that all may write, as `/tmp`, anybody could put skills for who works there.
#[test]
fn a_project_s_place_of_somebody_else_is_left_out_with_a_warning() {
    const OTHER: u32 = 54_321;
    if Runner::available().len() < 2 {
        skip!("only root gives directories away");
    }
    for env in each() {
        drop(env.command([""]));
        let area = top(&env).join("area");
        let me = if env.runner() == Runner::Root {
            0
        } else {
            std::os::unix::fs::MetadataExt::uid(&fs::metadata(env.home()).unwrap())
        };
        package(area.join(".agents/skills"), "demo");
        for (owner_of_area, owner, is_taken) in [
            (me, me, true),
            (me, 0, true),
            (0, OTHER, false),
            (me, OTHER, false),
            (OTHER, OTHER, true),
            (OTHER, me, true),
        ] {
            let give = |path: &Path, owner| lchown(path, Some(owner), None).unwrap();
            give(&area, owner_of_area);
            give(&area.join(".agents/skills"), owner);
            let said = run_in(&env, &area, &["list", "--json"]);
            let expected = if is_taken { vec!["demo".to_owned()] } else { vec![] };
            assert_eq!(ids(&said.json()), expected, "{owner_of_area} {owner}");
            let said = run_in(&env, &area, &["list"]).stderr;
            assert_eq!(said.contains("`.agents/skills` belongs to user 54321"), !is_taken, "{said}");
            if !is_taken {
                let run = run_in(&env, &area, &["prepare", "demo", "--json"]);
                run.fails(4, "selection-unknown");
            }
        }
    }
}

#[test]
fn a_user_s_places_may_be_links_and_hold_links() {
    for env in each() {
        package(env.home().join("dotfiles/skills"), "demo");
        package(env.home().join("src"), "linked");
        directory(env.home().join(".agents"));
        symlink("../dotfiles/skills", env.home().join(".agents/skills")).unwrap();
        symlink("../../src/linked", env.home().join("dotfiles/skills/linked")).unwrap();
        let listed = env.run(["list", "--json"]).json();
        assert_eq!(ids(&listed), ["demo", "linked"]);
        assert_eq!(skill(&listed, "linked")["real_path"], env.home().join("src/linked").to_str().unwrap());
        let prepared = env.run(["prepare", "--json"]).json();
        assert_eq!(texts(&prepared["packages"], "source"), ["user-agents", "user-agents"]);
        // Dangling as a whole, it is as good as absent, but not silently.
        fs::remove_file(env.home().join(".agents/skills")).unwrap();
        symlink("nowhere", env.home().join(".agents/skills")).unwrap();
        let said = env.run(["list"]);
        assert_eq!(said.status, 0, "{said:?}");
    }
}

#[test]
fn a_home_that_is_no_place_is_none() {
    for env in each() {
        package(env.work().join("home/.agents/skills"), "evil");
        package(env.work().join(".agents/skills"), "mine");
        package(env.home().join(".agents/skills"), "yours");
        for (home, expected) in [
            (None, &["mine"][..]),
            (Some(""), &["mine"]),
            (Some("home"), &["mine"]),
            (Some("./home"), &["mine"]),
            (Some("/nonexistent"), &["mine"]),
            (Some("/dev/null"), &["mine"]),
            (env.home().to_str(), &["mine", "yours"]),
        ] {
            for verb in ["list", "prepare"] {
                let mut command = env.command([verb, "--json"]);
                match home {
                    Some(home) => command.env("HOME", home),
                    None => command.env_remove("HOME"),
                };
                let said = Output::of(&mut command).json();
                let found = if verb == "list" { ids(&said) } else { texts(&said["packages"], "id") };
                assert_eq!(found, expected, "{home:?}");
            }
        }
        // Spelt otherwise, it is the same.
        let spelt = format!("{}/./", env.home().display());
        let listed = Output::of(env.command(["list", "--json"]).env("HOME", spelt)).json();
        let path = env.home().join(".agents/skills");
        assert_eq!(listed["sources"][2]["path"], path.to_str().unwrap());
    }
}

/// What is absent is no fault of a convention; what is there and cannot be used is.
#[test]
fn absent_places_are_no_news() {
    let env = environment(Runner::available()[0]);
    let said = env.run(["list"]);
    assert_eq!((said.ok(), said.stderr.as_str()), ("", ""));
    file(env.work().join(".agents"), "");
    let said = env.run(["list"]);
    assert_eq!((said.ok(), said.stderr.as_str()), ("", ""));
    let listed = env.run(["list", "--json"]).json();
    assert_eq!(faults(&listed).len(), 4);
    assert!(faults(&listed).iter().all(|fault| fault.ends_with(": root-absent")), "{listed}");
    env.run(["prepare", "--json"]).fails(4, "nothing-selected");
}
