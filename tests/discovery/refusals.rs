//! Configuration that is refused: by its place, whoever reads it, and before anything is done.

use std::fs;
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;
use std::process::Command;

use skillfreeze_testing::{Output, Runner, TestEnv, directory, file, package, set_mode, skip};

use super::configuration::{project, source, user_file};
use super::{each, ids, list_in, run_in};
use crate::support::{environment, text};

/// What a repository's file may not say: text, code, `line:column` and the key.
const OF_A_PROJECT: [(&str, &str, &str, &str); 22] = [
    ("approval = \"none\"", "config-not-permitted", "1:12", "`approval`"),
    ("conflicts = \"last\"", "config-not-permitted", "1:13", "`conflicts`"),
    ("\n[limits]\nfiles = 1", "config-not-permitted", "2:1", "`limits`"),
    ("[[source]]\nid = \"a\"\nroot = \"/etc\"", "config-not-permitted", "3:8", "`source.root`"),
    ("[[source]]\nid = \"a\"\nroot = \"r\"\nrank = 199", "config-not-permitted", "4:8", "`source.rank`"),
    (
        "[[source]]\nid = \"a\"\nroot = \"r\"\nlinks = \"allow\"",
        "config-not-permitted",
        "4:9",
        "`source.links",
    ),
    (
        "[[source]]\nid = \"a\"\nroot = \"r\"\nlink_roots = [\"/etc\"]",
        "config-not-permitted",
        "4:14",
        "`source.link_roots`",
    ),
    (
        "[[source]]\nid = \"a\"\nroot = \"r\"\nreserved = true",
        "config-not-permitted",
        "4:12",
        "`source.reserved`",
    ),
    ("[[source]]\nid = \"a\"\nroot = \"../r\"", "root-malformed", "3:8", "`source.root`"),
    ("[[source]]\nid = \"a\"\nroot = \"r/../../etc\"", "root-malformed", "3:8", "`source.root`"),
    ("[[source]]\nid = \"a\"\nroot = \".\"", "root-malformed", "3:8", "`source.root`"),
    ("[[source]]\nid = \"A\"\nroot = \"r\"", "source-id-invalid", "2:6", "`A`"),
    ("[[source]]\nid = \"user-agents\"\nroot = \"r\"", "source-id-taken", "2:6", "`user-agents`"),
    (
        "[[source]]\nid = \"a\"\nroot = \"r\"\n[[source]]\nid = \"a\"\nroot = \"s\"",
        "source-twice",
        "5:6",
        "`a`",
    ),
    ("[[source]]\nid = \"a\"\nroot = \"r\"\ndepth = 2", "source-depth-unused", "4:9", "`source.depth`"),
    (
        "[[source]]\nid = \"a\"\nroot = \"r\"\nlayout = \"nested\"\ndepth = 9",
        "source-depth-range",
        "5:9",
        "`source.depth`",
    ),
    ("[skills]\nenabled = [\"a\", \"../evil\"]", "skill-id-invalid", "2:17", "`skills.enabled`"),
    ("aproval = 1", "config-invalid", "1:1", "`aproval`"),
    ("<<<<<<< HEAD\n", "config-invalid", "1:9", ""),
    ("conflicts = \"error\"\nconflicts = \"error\"", "config-invalid", "2:1", "duplicate key"),
    ("[skills]\nenabled = [\"a\"", "config-invalid", "2:15", "unclosed array"),
    ("{\"skills\": {}}", "config-invalid", "1:1", ""),
];

#[test]
fn each_refusal_names_the_file_the_line_and_the_key() {
    for env in each() {
        let root = project(&env);
        package(root.join(".agents/skills"), "demo");
        let path = root.join("skillfreeze.toml");
        for (content, code, place, key) in OF_A_PROJECT {
            file(&path, content);
            let status = if code == "source-twice" { 2 } else { 6 };
            let error = run_in(&env, &root, &["list", "--json"]).fails(status, code);
            let message = text(&error["message"]);
            assert!(
                message.starts_with(&format!("{}:{place}: ", path.display())) && message.contains(key),
                "{message}"
            );
        }
        // Whatever command reads it, it does nothing then.
        file(&path, OF_A_PROJECT[0].0);
        for arguments in [
            &["list"][..],
            &["list", "--source", ".agents/skills"],
            &["prepare"],
            &["prepare", "demo"],
            &["prepare", "--none"],
            &["add", ".agents/skills/demo"],
        ] {
            run_in(&env, &root, &[arguments, &["--json"]].concat()).fails(6, "config-not-permitted");
        }
        run_in(&env, &root, &["run", "--json", "--", "true"]).fails(125, "config-not-permitted");
        for empty in ["packages/sha256", "snapshots/sha256", "runs"] {
            assert_eq!(crate::support::names(env.root().join(empty)), [""; 0], "{empty}");
        }
        // From below it, and not from beside it.
        directory(root.join("sub"));
        run_in(&env, root.join("sub"), &["list", "--json"]).fails(6, "config-not-permitted");
        env.run(["list"]).ok();
        for nothing in ["", "# nothing\n", "\u{feff}"] {
            file(&path, nothing);
            assert_eq!(ids(&list_in(&env, &root, &[])), ["demo"]);
        }
    }
}

#[test]
fn a_faulty_file_of_anybody_is_refused_and_not_passed_over() {
    for env in each() {
        let given = env.work().join("given.toml");
        let options = ["list", "--json", "--config", given.to_str().unwrap()];
        for (path, is_given) in [(given.clone(), true), (user_file(&env), false)] {
            let arguments = if is_given { &options[..] } else { &options[..2] };
            for (content, code, place) in [
                ("x", "config-invalid", ":1:2: "),
                ("[[source]]\nid = \"a\"\nroot = \"r\"", "root-malformed", ":3:8: "),
                ("[[source]]\nid = \"a\"\nroot = \"/r/../s\"", "root-malformed", ":3:8: "),
                ("[[source]]\nid = \"a\"\nroot = \"/r\"\nreserved = true", "config-not-permitted", ":4:12: "),
            ] {
                file(&path, content);
                let error = env.run(arguments).fails(6, code);
                assert!(
                    text(&error["message"]).starts_with(&format!("{}{place}", path.display())),
                    "{error}"
                );
            }
            fs::write(&path, b"# a\xff\n").unwrap();
            env.run(arguments).fails(6, "config-not-utf8");
            fs::write(&path, "\n".repeat((1 << 20) + 1)).unwrap();
            env.run(arguments).fails(6, "config-too-large");
            fs::remove_file(&path).unwrap();
        }
        // Two files that give one id to two sources.
        file(&given, source("a", "/r", ""));
        file(user_file(&env), source("a", "/s", ""));
        let error = env.run(options).fails(2, "source-twice");
        assert!(text(&error["message"]).contains("given.toml:2:6 already"), "{error}");
        env.run(["list", "--json", "--config", "absent.toml"]).fails(4, "not-found");
        env.run(["list", "--json", "--config", "."]).fails(1, "io");
    }
}

/// A repository could name any file of the host as its configuration, to have its text in a message, or
/// leave a program waiting.
#[test]
fn a_project_s_file_is_the_project_s_own_and_a_file() {
    for env in each() {
        let root = project(&env);
        let path = root.join("skillfreeze.toml");
        file(env.work().join("outside.toml"), "secret");
        for target in ["../outside.toml", env.work().join("outside.toml").to_str().unwrap(), "/dev/zero"] {
            symlink(target, &path).unwrap();
            let said = run_in(&env, &root, &["list", "--json"]);
            let error = said.fails(1, "io");
            assert!(text(&error["message"]).contains("leads out of the project"), "{error}");
            assert!(!said.stderr.contains("secret"), "{said:?}");
            fs::remove_file(&path).unwrap();
        }
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        run_in(&env, &root, &["list", "--json"]).fails(1, "io");
        fs::remove_file(&path).unwrap();
        directory(&path);
        run_in(&env, &root, &["list", "--json"]).fails(1, "io");
        fs::remove_dir(&path).unwrap();
        // A link that stays inside is a file like any.
        file(root.join("conf/own.toml"), "x");
        symlink("conf/own.toml", &path).unwrap();
        run_in(&env, &root, &["list", "--json"]).fails(6, "config-invalid");
        if env.runner() == Runner::User {
            set_mode(root.join("conf/own.toml"), 0);
            run_in(&env, &root, &["list", "--json"]).fails(1, "permission");
        }
        // A source that leads out, by what the file says or by a link.
        fs::remove_file(&path).unwrap();
        package(env.work().join("outside"), "secret");
        symlink("../outside", root.join("way")).unwrap();
        file(&path, source("own", "way", ""));
        assert_eq!(ids(&list_in(&env, &root, &[])), [""; 0]);
        let said = run_in(&env, &root, &["list"]).stderr;
        assert!(said.contains("`own` is left out") && said.contains("leads out of the project"), "{said}");
        file(&path, source("own", "way", "required = true"));
        run_in(&env, &root, &["list", "--json"]).fails(1, "root-failed");
    }
}

#[test]
fn a_project_s_file_of_somebody_else_is_refused() {
    const OTHER: u32 = 54_321;
    if Runner::available().len() < 2 {
        skip!("only root gives files away");
    }
    for runner in Runner::available() {
        let env = environment(*runner);
        drop(env.command([""]));
        let area = env.home().parent().unwrap().join("area");
        file(area.join("skillfreeze.toml"), "");
        package(area.join("own"), "demo");
        let me = fs::metadata(env.home()).unwrap();
        let me = if *runner == Runner::Root { 0 } else { std::os::unix::fs::MetadataExt::uid(&me) };
        let give = |path: &Path, owner| lchown(path, Some(owner), None).unwrap();
        give(&area, me);
        give(&area.join("skillfreeze.toml"), OTHER);
        let error = run_in(&env, &area, &["list", "--json"]).fails(1, "io");
        assert!(text(&error["message"]).contains("belongs to user 54321"), "{error}");
        give(&area.join("skillfreeze.toml"), me);
        file(area.join("skillfreeze.toml"), source("own", "own", ""));
        assert_eq!(ids(&list_in(&env, &area, &[])), ["demo"]);
        give(&area.join("own"), OTHER);
        assert_eq!(ids(&list_in(&env, &area, &[])), [""; 0]);
        let said = run_in(&env, &area, &["list"]).stderr;
        assert!(said.contains("`own` belongs to user 54321"), "{said}");
    }
}

/// `list`, which must end by itself.
#[track_caller]
fn list_at_once(env: &TestEnv, directory: &Path, arguments: &[&str]) -> Output {
    let program = env.program().to_str().unwrap();
    let arguments = [&["60", program, "list", "--json"], arguments].concat();
    Output::of(env.command_of("timeout", arguments).current_dir(directory))
}

#[test]
fn a_file_of_anybody_that_is_no_file_is_refused_and_not_waited_for() {
    for env in each() {
        let root = project(&env);
        package(root.join(".agents/skills"), "demo");
        let given = env.work().join("given.toml");
        for (path, options) in [
            (root.join("skillfreeze.toml"), &[][..]),
            (user_file(&env), &[]),
            (given.clone(), &["--config", "../given.toml"]),
        ] {
            directory(path.parent().unwrap());
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            let error = list_at_once(&env, &root, options).fails(1, "io");
            assert!(text(&error["message"]).contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
            fs::remove_file(&path).unwrap();
            // A link to nothing is not nothing.
            symlink("nowhere.toml", &path).unwrap();
            let error = list_at_once(&env, &root, options).fails(4, "not-found");
            assert!(text(&error["message"]).contains("cannot read the configuration"), "{error}");
            file(path.with_file_name("nowhere.toml"), "x");
            list_at_once(&env, &root, options).fails(6, "config-invalid");
            fs::remove_file(path.with_file_name("nowhere.toml")).unwrap();
            fs::remove_file(&path).unwrap();
        }
        let above = user_file(&env).parent().unwrap().to_owned();
        fs::remove_dir(&above).unwrap();
        symlink("nowhere", &above).unwrap();
        run_in(&env, &root, &["list", "--json"]).fails(4, "not-found");
        fs::remove_file(&above).unwrap();
        assert_eq!(ids(&list_in(&env, &root, &[])), ["demo"]);
    }
}

#[test]
fn more_sources_than_anybody_has_are_refused() {
    for env in each() {
        let root = project(&env);
        let given = env.work().join("given.toml");
        for (path, options, above) in [
            (root.join("skillfreeze.toml"), &[][..], ""),
            (user_file(&env), &[], "/srv/"),
            (given.clone(), &["--config", "../given.toml"], "/srv/"),
        ] {
            let many = |count: usize| -> String {
                (0..count)
                    .map(|number| source(&format!("s{number}"), format!("{above}s{number}"), ""))
                    .collect()
            };
            file(&path, many(257));
            let error = run_in(&env, &root, &[&["list", "--json"], options].concat());
            let error = error.fails(6, "config-too-large");
            let message = text(&error["message"]);
            assert!(message.contains("257") && message.contains("256"), "{message}");
            file(&path, many(256));
            let listed = list_in(&env, &root, options);
            assert_eq!(listed["sources"].as_array().unwrap().len(), 256 + 4);
            fs::remove_file(&path).unwrap();
        }
    }
}
