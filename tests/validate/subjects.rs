//! What is validated: the paths that are named, or else the project.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use skillfreeze_testing::{Output, Runner, TestEnv, directory, file, package};

use super::{packages, report, validate};
use crate::support::{environment, text};

/// The paths that were reported.
fn paths(env: &TestEnv, arguments: &[&str]) -> (i32, Vec<String>) {
    let (status, report) = validate(env, arguments);
    (status, packages(&report).into_iter().map(|(path, _)| path).collect())
}

fn flat(name: &str) -> String {
    format!("---\nname: {name}\ndescription: d\n---\n[a](more/x.md)\n")
}

/// A work directory with packages of all layouts.
fn library() -> TestEnv {
    let env = environment(Runner::available()[0]);
    let work = env.work();
    for path in ["src/one", "src/two", "tree/cat/deep", "tree/top", "bio/member"] {
        let (above, id) = path.rsplit_once('/').unwrap();
        package(work.join(above), id);
    }
    file(work.join("bio/COLLECTION.json"), "{\"id\": \"bio\", \"prompt\": \"{count} skills\"}");
    file(work.join("flat/note.md"), flat("note"));
    file(work.join("flat/README.md"), "# Notes\n");
    file(work.join("src/README.md"), "x");
    file(work.join("src/empty/x"), "x");
    directory(work.join("none"));
    env
}

#[test]
fn a_path_is_what_its_files_say_or_what_the_options_say() {
    let env = library();
    for (arguments, expected) in [
        (&["src"][..], &["src/one", "src/two"][..]),
        (&["src/"], &["src/one", "src/two"]),
        (&["./src"], &["./src/one", "./src/two"]),
        (&["src/two", "src/one"], &["src/one", "src/two"]),
        (&["src/one/SKILL.md"], &["src/one"]),
        (&["src/one/SKILL.md", "src/one", "./src/one/"], &["src/one"]),
        // Whatever leads to it, a package is told once.
        (&["src", "src/one"], &["src/one", "src/two"]),
        (&["src", "flat/note.md"], &["flat/note.md", "src/one", "src/two"]),
        (&["flat/note.md", "./flat/note.md"], &["flat/note.md"]),
        (&["flat", "--layout", "flat"], &["flat/note.md"]),
        (&["bio"], &["bio/member"]),
        (&["tree"], &["tree/top"]),
        (&["tree", "--layout", "nested"], &["tree/cat/deep", "tree/top"]),
        (&["tree", "--layout", "nested", "--depth", "1"], &["tree/top"]),
    ] {
        let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        assert_eq!(paths(&env, arguments), (0, expected), "{arguments:?}");
    }
    let one = env.work().join("src/one");
    let output = Output::of(env.command(["validate", "--json", "."]).current_dir(&one));
    assert_eq!(packages(&report(&output)), [(".".to_owned(), vec![])]);
    let output = Output::of(env.command(["validate", "--json", "SKILL.md"]).current_dir(&one));
    assert_eq!(packages(&report(&output)), [(".".to_owned(), vec![])]);
}

#[test]
fn a_path_that_is_no_such_thing_is_refused() {
    let env = library();
    for (arguments, status, code) in [
        (&["absent"][..], 4, "root-absent"),
        (&["src", "absent"], 4, "root-absent"),
        (&["src/one/SKILL.md/x"], 4, "root-absent"),
        (&["src/empty/x"], 2, "root-not-a-directory"),
        (&["none"], 4, "not-found"),
        (&["src", "none"], 4, "not-found"),
        (&["src", "--layout", "collection"], 6, "collection-missing"),
        (&["src", "--max-packages", "2"], 6, "scan-limit"),
        (&["src", "--max-packages", "0"], 2, "usage"),
        (&["--layout", "flat"], 2, "usage"),
        (&["--links", "allow"], 2, "usage"),
        (&["src", "--depth", "2"], 2, "usage"),
        (&["src", "--format", "xml"], 2, "usage"),
    ] {
        let failed = env.run([&["validate", "--json"], arguments].concat());
        failed.fails(status, code);
    }
    // What is beside it is told all the same.
    let failed = env.run(["validate", "src", "none", "--json"]);
    assert_eq!(packages(&report(&failed)).len(), 2);
}

#[test]
fn a_collection_that_cannot_be_read_is_reported() {
    let env = library();
    file(env.work().join("bio/COLLECTION.json"), "{\"id\": ");
    let (status, report) = validate(&env, &["bio", "src"]);
    let expected = ("bio".to_owned(), vec!["error collection-invalid COLLECTION.json:1:7".to_owned()]);
    assert_eq!((status, packages(&report)[0].clone()), (6, expected));
    assert_eq!(report["valid"], 2);
    file(env.work().join("tree/cat/COLLECTION.json"), "{}");
    let (status, report) = validate(&env, &["tree", "--layout", "nested"]);
    assert_eq!((status, packages(&report)[0].0.as_str()), (6, "tree/cat"));
}

/// What is not UTF-8 is shown by escapes, which may be what another is really called.
#[test]
fn a_name_that_is_not_utf8_is_told_beside_what_is_called_like_it() {
    for runner in Runner::available() {
        let env = environment(*runner);
        let source = env.work().join("src");
        for name in [r"b\c", r"a\xff"] {
            package(source.join("x"), name);
            fs::rename(source.join("x").join(name), source.join(name)).unwrap();
            file(
                source.join(name).join("SKILL.md"),
                format!("---\nname: n{}\ndescription: d\n---\n", &name[..1]),
            );
        }
        fs::remove_dir(source.join("x")).unwrap();
        for bytes in [&b"a\xff"[..], b"a\xfe", b"b\xff"] {
            package(source.join(OsStr::from_bytes(bytes)), ".");
        }
        let (status, report) = validate(&env, &["src"]);
        let found: Vec<(String, String, bool)> = report["packages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|package| (text(&package["path"]), text(&package["id"]), package["valid"] == true))
            .collect();
        let expected = [
            (r"src/a\xfe", "", false),
            (r"src/a\xff", "", false),
            (r"src/a\xff", "na", true),
            (r"src/b\c", "nb", true),
            (r"src/b\xff", "", false),
        ];
        let expected = expected.map(|(path, id, valid)| (path.to_owned(), id.to_owned(), valid));
        let mut found = found;
        found.sort();
        assert_eq!((status, found), (6, expected.to_vec()), "{report}");
        let faults = packages(&report).into_iter().flat_map(|(_, said)| said);
        assert_eq!(faults.filter(|fault| fault.starts_with("error path-not-utf8")).count(), 3, "{report}");
        // Named by itself, it is what it is.
        let (status, report) = validate(&env, &[r"src/a\xff"]);
        assert_eq!((status, report["valid"].as_u64()), (0, Some(1)), "{report}");
    }
}

/// What somebody may have meant otherwise is told to who asks, and is no package.
#[test]
fn what_is_no_package_does_not_count() {
    let env = library();
    let quiet = env.run(["validate", "src"]);
    assert_eq!((quiet.ok(), quiet.stderr.as_str()), ("2 valid, 0 invalid\n", ""));
    let verbose = env.run(["validate", "src", "--verbose"]);
    assert!(verbose.ok().ends_with("\n2 valid, 0 invalid\n"), "{}", verbose.stdout);
    assert!(!verbose.stdout.contains("empty"), "{}", verbose.stdout);
    assert!(verbose.stderr.contains("info: src/empty: ") && verbose.stderr.contains("(no-skill-file)"));
    let flat = env.run(["validate", "flat", "--layout", "flat", "--verbose"]);
    assert!(flat.stderr.contains("info: flat/README.md: ") && flat.stderr.contains("(no-front-matter)"));
    // Who names it means it.
    let (status, report) = validate(&env, &["flat/README.md"]);
    let expected = ("flat/README.md".to_owned(), vec!["error fm-missing SKILL.md:1:1".to_owned()]);
    assert_eq!((status, packages(&report)), (6, vec![expected]));
}

#[test]
fn a_flat_skill_leaves_its_resources_behind() {
    let env = library();
    let expected = vec!["warning flat-resource-not-frozen SKILL.md:5:1".to_owned()];
    for arguments in [&["flat/note.md"][..], &["flat", "--layout", "flat"]] {
        let (status, report) = validate(&env, arguments);
        assert_eq!((status, packages(&report)), (0, vec![("flat/note.md".to_owned(), expected.clone())]));
    }
    let shown = env.run(["validate", "flat/note.md"]);
    assert!(shown.ok().contains("--> flat/note.md:5:1\n"), "{}", shown.stdout);
    symlink("note.md", env.work().join("flat/link.md")).unwrap();
    let (status, report) = validate(&env, &["flat/link.md"]);
    let expected = ("flat/link.md".to_owned(), vec!["error skill-md-symlink-escape SKILL.md".to_owned()]);
    assert_eq!((status, packages(&report)), (6, vec![expected]));
    // Whoever freezes it is told, too.
    let prepared = env.run(["prepare", "--source", "flat", "--layout", "flat"]);
    assert!(prepared.stderr.contains("(flat-resource-not-frozen)\n  |\n5 | [a](more/x.md)\n  | ^\n"));
}

#[test]
fn who_shares_an_id_is_told() {
    let env = library();
    file(env.work().join("more/copy.md"), flat("one"));
    let (status, found) = validate(&env, &["more/copy.md", "src"]);
    let of_copy = packages(&found)[0].clone();
    assert_eq!((status, of_copy.0.as_str()), (0, "more/copy.md"));
    assert!(of_copy.1.contains(&"warning shadowed-by".to_owned()), "{of_copy:?}");
    // The same content elsewhere is a package all the same, and shadows nothing.
    fs::create_dir(env.work().join("again")).unwrap();
    package(env.work().join("again"), "one");
    let (status, found) = validate(&env, &["src", "again"]);
    let expected = [
        ("again/one".to_owned(), vec![]),
        ("src/one".to_owned(), vec!["info same-content-as".to_owned()]),
        ("src/two".to_owned(), vec![]),
    ];
    assert_eq!((status, packages(&found)), (0, expected.to_vec()));
}

/// A project in `work/p` and a user with skills and configuration of their own, all of it faulty.
fn project(runner: Runner) -> TestEnv {
    let env = environment(runner);
    let work = env.work();
    package(work.join("p/.agents/skills"), "agent");
    package(work.join("p/.claude/skills"), "claude");
    package(work.join("p/tools/skills"), "tool");
    directory(work.join("p/.git"));
    directory(work.join("p/sub"));
    file(work.join("p/skillfreeze.toml"), "[[source]]\nid = \"tools\"\nroot = \"tools/skills\"\n");
    file(env.home().join(".agents/skills/bad/SKILL.md"), "bad");
    file(work.join("elsewhere/bad/SKILL.md"), "bad");
    let source = format!("[[source]]\nid = \"user\"\nroot = \"{}/elsewhere\"\n", work.display());
    file(env.home().join(".config/skillfreeze/skillfreeze.toml"), source);
    env
}

#[test]
fn without_a_path_the_project_is_validated() {
    for runner in Runner::available() {
        let env = project(*runner);
        let work = env.work().to_str().unwrap().to_owned();
        let run = |directory: &str, arguments: &[&str]| {
            let arguments = [&["validate", "--json"], arguments].concat();
            let output = Output::of(env.command(arguments).current_dir(env.work().join(directory)));
            let paths = packages(&report(&output)).into_iter().map(|(path, _)| path).collect();
            (output.status, paths)
        };
        let own = [".agents/skills/agent", ".claude/skills/claude", "tools/skills/tool"];
        let expected: Vec<String> = own.iter().map(ToString::to_string).collect();
        assert_eq!(run("p", &[]), (0, expected));
        let expected: Vec<String> = own.iter().map(|path| format!("{work}/p/{path}")).collect();
        assert_eq!(run("p/sub", &[]), (0, expected), "what is not below is absolute");

        // In a package, that is part of it, once.
        let agent = "p/.agents/skills/agent";
        let others = own[1..].iter().map(|path| format!("{work}/p/{path}"));
        let expected: Vec<String> = others.chain([".".to_owned()]).collect();
        assert_eq!(run(agent, &[]), (0, expected));
        file(env.work().join("p/SKILL.md"), "---\nname: p\ndescription: d\n---\n");
        assert_eq!(run("p", &[]).1.len(), 4);

        // A configuration that is named is meant, the user's is not.
        file(env.work().join("given.toml"), format!("[[source]]\nid = \"g\"\nroot = \"{work}/given\"\n"));
        file(env.work().join("given/broken/SKILL.md"), "x");
        let (status, found): (i32, Vec<String>) = run("p", &["--config", "../given.toml"]);
        assert_eq!((status, found.len()), (6, 5));
        assert!(found.contains(&format!("{work}/given/broken")), "{found:?}");
        assert_eq!(run("p", &["--config", "../given.toml", "tools/skills/tool"]).1, ["tools/skills/tool"]);
        assert!(!env.root().exists());
    }
    let env = environment(Runner::available()[0]);
    let nothing = env.run(["validate"]);
    assert_eq!((nothing.ok(), nothing.stderr.as_str()), ("0 valid, 0 invalid\n", ""));
}

#[test]
fn a_configured_source_that_is_not_there_is_told() {
    let env = project(Runner::available()[0]);
    fs::remove_dir_all(env.work().join("p/tools")).unwrap();
    let output = Output::of(env.command(["validate"]).current_dir(env.work().join("p")));
    assert_eq!(output.ok(), "2 valid, 0 invalid\n");
    assert!(output.stderr.contains("the source `tools` is left out"), "{}", output.stderr);
    // One directory under two names is validated once.
    fs::remove_dir_all(env.work().join("p/.claude/skills")).unwrap();
    symlink("../.agents/skills", env.work().join("p/.claude/skills")).unwrap();
    let output = Output::of(env.command(["validate", "--quiet"]).current_dir(env.work().join("p")));
    assert_eq!((output.ok(), output.stderr.as_str()), ("1 valid, 0 invalid\n", ""));
}
