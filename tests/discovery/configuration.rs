//! The files of the configuration: which is read, which comes first, and what each may say.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::Value;
use skillfreeze_testing::{Output, TestEnv, directory, file, package};

use super::{described, each, faults, ids, left_out, list_in, run_in, skill};
use crate::support::{text, texts};

/// A project at `work/p`; gives its root.
pub(super) fn project(env: &TestEnv) -> PathBuf {
    let root = env.work().join("p");
    directory(root.join(".git"));
    root
}

/// The user's file.
pub(super) fn user_file(env: &TestEnv) -> PathBuf {
    env.home().join(".config/skillfreeze/skillfreeze.toml")
}

/// A source in a file.
pub(super) fn source(id: &str, root: impl AsRef<std::path::Path>, more: &str) -> String {
    format!("[[source]]\nid = \"{id}\"\nroot = \"{}\"\n{more}\n", root.as_ref().display())
}

#[test]
fn sources_of_all_files_count_and_what_is_said_first_holds() {
    for env in each() {
        let root = project(&env);
        for (index, name) in ["given", "own", "user"].iter().enumerate() {
            let at = if *name == "own" { root.clone() } else { env.work().to_owned() };
            described(at.join(name), "demo", name);
            described(at.join(name), &format!("s{index}"), name);
        }
        let given = env.work().join("given.toml");
        let work = env.work();
        file(&given, format!("conflicts = \"last\"\n{}", source("given", work.join("given"), "")));
        file(root.join("skillfreeze.toml"), source("own", "own", ""));
        file(user_file(&env), format!("conflicts = \"first\"\n{}", source("user", work.join("user"), "")));

        let both = ["--config", given.to_str().unwrap()];
        let listed = list_in(&env, &root, &both);
        assert_eq!(ids(&listed), ["demo", "s0", "s1", "s2"]);
        assert_eq!(skill(&listed, "demo")["source"], "given");
        let configured = |listed: &Value| -> Vec<String> {
            let all = texts(&listed["sources"], "id");
            all.into_iter().filter(|id| !id.contains('-')).collect()
        };
        // One rank: as their files come.
        assert_eq!(configured(&listed), ["given", "own", "user"]);
        let listed = list_in(&env, &root, &[]);
        assert_eq!(
            (configured(&listed), text(&skill(&listed, "demo")["source"])),
            (vec!["own".into(), "user".into()], "own".into())
        );
        // The project narrows, which comes before the user's file and after the one that was named.
        file(root.join("skillfreeze.toml"), format!("conflicts = \"error\"\n{}", source("own", "own", "")));
        run_in(&env, &root, &["prepare", "demo", "--json"]).fails(5, "id-conflict");
        run_in(&env, &root, &["prepare", "demo", "--json", both[0], both[1]]).ok();
        run_in(&env, &root, &["prepare", "demo", "--json", "--conflicts", "first"]).ok();
        // On the command line, sources stand alone.
        let listed = list_in(&env, &root, &["--source", "own"]);
        assert_eq!(texts(&listed["sources"], "id"), ["own"]);
    }
}

#[test]
fn the_user_s_file_is_found_by_the_environment() {
    for env in each() {
        package(env.work().join("xdg"), "xdg");
        package(env.work().join("home"), "home");
        let config = env.work().join("config");
        file(config.join("skillfreeze/skillfreeze.toml"), source("xdg", env.work().join("xdg"), ""));
        file(user_file(&env), source("home", env.work().join("home"), ""));
        for (given, expected) in [
            (None, "home"),
            (Some(config.to_str().unwrap()), "xdg"),
            (Some("config"), "home"),
            (Some(""), "home"),
        ] {
            let mut command = env.command(["list", "--json"]);
            given.map(|given| command.env("XDG_CONFIG_HOME", given));
            assert_eq!(ids(&Output::of(&mut command).json()), [expected], "{given:?}");
        }
        // As an option in the environment, and on the command line, which comes first.
        let config = config.join("skillfreeze/skillfreeze.toml");
        let mut command = env.command(["list", "--json"]);
        assert_eq!(ids(&Output::of(command.env("SKILLFREEZE_CONFIG", &config)).json()), ["home", "xdg"]);
        file(env.work().join("none.toml"), "");
        let mut command = env.command(["list", "--json", "--config", "none.toml"]);
        assert_eq!(ids(&Output::of(command.env("SKILLFREEZE_CONFIG", &config)).json()), ["home"]);
    }
}

/// Whoever names a file that counts anyway, a script say, must not make two of each of its sources.
#[test]
fn a_file_that_is_named_and_counts_anyway_counts_once() {
    for env in each() {
        let root = project(&env);
        package(env.work().join("mine"), "mine");
        package(root.join("own"), "own");
        file(user_file(&env), source("mine", env.work().join("mine"), ""));
        file(root.join("skillfreeze.toml"), source("own", "own", ""));
        symlink(user_file(&env), root.join("link.toml")).unwrap();
        fs::hard_link(user_file(&env), root.join("other-name.toml")).unwrap();
        let user = user_file(&env).to_str().unwrap().to_owned();
        let own = root.join("skillfreeze.toml").to_str().unwrap().to_owned();
        for given in [&*user, "link.toml", "other-name.toml", &own, "skillfreeze.toml", "./skillfreeze.toml"]
        {
            let listed = list_in(&env, &root, &["--config", given]);
            assert_eq!(ids(&listed), ["mine", "own"], "{given}");
            let configured: Vec<String> = texts(&listed["sources"], "id");
            let count = |id: &str| configured.iter().filter(|known| *known == id).count();
            assert_eq!((count("mine"), count("own")), (1, 1), "{given}: {configured:?}");
            run_in(&env, &root, &["prepare", "mine", "own", "--config", given]).ok();
        }
        // One with the same text is another file.
        fs::copy(user_file(&env), root.join("copy.toml")).unwrap();
        run_in(&env, &root, &["list", "--json", "--config", "copy.toml"]).fails(2, "source-twice");
        // The project's own is no more trusted for being named.
        file(root.join("skillfreeze.toml"), source("own", root.join("own"), ""));
        let named = run_in(&env, &root, &["list", "--json", "--config", "skillfreeze.toml"]);
        named.fails(6, "config-not-permitted");
    }
}

#[test]
fn layouts_ranks_and_roots_mean_what_they_say() {
    for env in each() {
        let root = project(&env);
        package(root.join("nested/a/b"), "deep");
        package(root.join("one"), "one");
        file(root.join("flat/flat.md"), "---\nname: flat\ndescription: d\n---\n");
        file(root.join("col/COLLECTION.json"), r#"{"id": "col", "prompt": "{count} of them"}"#);
        package(root.join("col"), "member");
        described(root.join("low"), "deep", "low");
        let own = [
            source("nested", "nested", "layout = \"nested\"\ndepth = 3"),
            source("one", "one/one", "layout = \"package\""),
            source("flat", "flat", "layout = \"flat\""),
            source("col", "col", "layout = \"collection\""),
            source("low", "low", "rank = 200"),
        ];
        file(root.join("skillfreeze.toml"), own.concat());
        let listed = list_in(&env, &root, &[]);
        assert_eq!(ids(&listed), ["deep", "flat", "member", "one"]);
        assert_eq!(skill(&listed, "deep")["source"], "low");
        assert_eq!(left_out(&listed), ["nested/a/b/deep: shadowed-by"]);
        assert_eq!(
            (text(&listed["collections"][0]["id"]), &listed["collections"][0]["count"]),
            ("col".into(), &1.into())
        );
        let prepared = run_in(&env, &root, &["prepare", "--json"]).json();
        assert_eq!(texts(&prepared["packages"], "id"), ids(&listed));
        assert_eq!(super::frozen(&prepared, "id"), ids(&listed));
        // From anywhere in the project the roots are below its own.
        assert_eq!(ids(&list_in(&env, root.join("one"), &[])), ids(&listed));
    }
}

/// Limits are the user's to set: a repository neither loosens nor tightens what is taken.
#[test]
fn limits_apply_to_all_that_is_taken() {
    for env in each() {
        let root = project(&env);
        file(package(root.join(".agents/skills"), "big").join("x"), "x".repeat(2000));
        package(root.join(".agents/skills"), "small");
        for (limit, fault) in [
            ("files = 1", "limit-files"),
            ("package_bytes = 1500", "limit-package-bytes"),
            ("file_bytes = 1500", "limit-file-bytes"),
        ] {
            for is_user in [true, false] {
                let config = env.work().join("limits.toml");
                let (of_user, options) = if is_user {
                    (user_file(&env), vec![])
                } else {
                    (config.clone(), vec!["--config", config.to_str().unwrap()])
                };
                file(&of_user, format!("[limits]\n{limit}\n"));
                let prepared = run_in(&env, &root, &[&["prepare", "--json"], &options[..]].concat()).json();
                assert_eq!(texts(&prepared["packages"], "id"), ["small"], "{limit}");
                assert_eq!(left_out(&prepared), [format!("project-agents/big: {fault}")]);
                let added =
                    run_in(&env, &root, &[&["add", ".agents/skills/big", "--json"], &options[..]].concat());
                added.fails(6, fault);
                fs::remove_file(of_user).unwrap();
            }
        }
        for (limit, fault) in
            [("skill_bytes = 20", "limit-skill-bytes"), ("front_matter_bytes = 20", "fm-too-large")]
        {
            file(user_file(&env), format!("[limits]\n{limit}\n"));
            let listed = list_in(&env, &root, &[]);
            assert_eq!(
                left_out(&listed),
                ["big", "small"].map(|id| format!("project-agents/{id}: {fault}")),
                "{limit}"
            );
            let added = run_in(&env, &root, &["add", ".agents/skills/small", "--json"]);
            assert!(added.status == 6 && added.stderr.contains(fault), "{added:?}");
        }
        file(user_file(&env), "[limits]\npackages = 1\n");
        let error = run_in(&env, &root, &["list", "--json"]).fails(6, "scan-limit");
        assert!(text(&error["message"]).contains("2 entries, more than 1"), "{error}");
        run_in(&env, &root, &["list", "--json", "--max-packages", "2"]).ok();
        // The file that was named comes before the user's.
        file(env.work().join("wide.toml"), "[limits]\npackages = 2\n");
        run_in(&env, &root, &["list", "--config", "../wide.toml"]).ok();
        fs::remove_file(user_file(&env)).unwrap();
        file(root.join("skillfreeze.toml"), "[limits]\nfiles = 9999\n");
        for arguments in [&["list"][..], &["prepare"], &["add", ".agents/skills/small"]] {
            run_in(&env, &root, &[arguments, &["--json"]].concat()).fails(6, "config-not-permitted");
        }
    }
}

#[test]
fn a_required_source_that_is_absent_is_an_error_and_any_other_is_left_out_with_a_warning() {
    for env in each() {
        package(env.work().join("there"), "demo");
        let there = source("there", env.work().join("there"), "");
        for (more, root, code, status) in [
            ("", "absent", "root-absent", 4),
            ("", "there/demo/SKILL.md", "root-not-a-directory", 2),
            ("", "there/demo/SKILL.md/x", "root-absent", 4),
            ("layout = \"collection\"\n", "there", "collection-missing", 6),
        ] {
            let faulty =
                |required: &str| source("faulty", env.work().join(root), &format!("{more}{required}"));
            file(user_file(&env), format!("{there}{}", faulty("")));
            let said = env.run(["list", "--json"]);
            let listed = said.json();
            let fault: Vec<String> =
                faults(&listed).into_iter().filter(|fault| fault.starts_with("faulty")).collect();
            assert_eq!((ids(&listed), fault), (vec!["demo".to_owned()], vec![format!("faulty: {code}")]));
            for verb in ["list", "prepare"] {
                let said = env.run([verb]).stderr;
                assert!(
                    said.contains("warning: the source `faulty` is left out: ") && said.contains(code),
                    "{said}"
                );
            }
            assert_eq!(texts(&env.run(["prepare", "--json"]).json()["packages"], "id"), ["demo"]);

            file(user_file(&env), format!("{there}{}", faulty("required = true")));
            for arguments in [&["list"][..], &["prepare"], &["prepare", "demo"], &["prepare", "--none"]] {
                let error = env.run([arguments, &["--json"]].concat()).fails(status, code);
                assert!(text(&error["message"]).contains("faulty"), "{error}");
            }
            env.run(["run", "--json", "--", "true"]).fails(125, code);
        }
    }
}
