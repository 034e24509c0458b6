//! What the configuration's files make the program do, and what it refuses to pass over.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;
use skillfreeze_testing::{
    Output, Runner, TestEnv, directory, file, package, package_digest, record_skip, set_mode,
};

use crate::support::{codes, environment, names, text, texts};

/// Gives the program an `/etc` of its own with the file `system.toml` in the place of the system's.
const WITH_SYSTEM: &str = r#"
users=$(cat /etc/passwd) && configuration=$(cat system.toml) || exit 77
mount -t tmpfs tmpfs /etc || exit 77
mkdir /etc/skillfreeze
printf '%s\n' "$users" >/etc/passwd
printf '%s\n' "$configuration" >/etc/skillfreeze/skillfreeze.toml
exec "$@"
"#;

fn skill(env: &TestEnv, path: &str, id: &str, description: &str) {
    let content = format!("---\nname: {id}\ndescription: {description}\n---\n");
    file(env.work().join(path).join("SKILL.md"), content);
}

/// Runs the program under the system's configuration; none where no file system can be mounted.
fn with_system(env: &TestEnv, arguments: &[&str]) -> Option<Output> {
    let namespaces = if env.runner() == Runner::Root { "-m" } else { "-Urm" };
    let program = env.program().to_str().unwrap();
    let unshare = [namespaces, "sh", "-c", WITH_SYSTEM, "sh", program];
    let run = Output::of(&mut env.command_of("unshare", [&unshare[..], arguments].concat()));
    if run.status == 77 || run.stderr.contains("unshare failed") {
        record_skip(&format!("no file system can be mounted here: {}", run.stderr));
        return None;
    }
    Some(run)
}

/// A bundled `office` in the directory `documents`, a bundled package that is broken, and packages of the
/// project that have their names.
fn bundled(runner: Runner) -> TestEnv {
    let env = environment(runner);
    let root = env.work().with_file_name("bundled");
    skill(&env, "../bundled/documents", "office", "bundled");
    file(root.join("broken/SKILL.md"), "no front matter");
    let root = root.to_str().unwrap().to_owned();
    file(
        env.work().join("system.toml"),
        format!("[[source]]\nid = \"bundled\"\nroot = \"{root}\"\nreserved = true\n"),
    );
    skill(&env, ".agents/skills/office", "office", "planted");
    skill(&env, "vendor/office", "office", "planted too");
    skill(&env, ".agents/skills/documents", "papers", "planted");
    skill(&env, ".agents/skills/broken", "broken", "planted");
    skill(&env, ".agents/skills/other", "other", "the project's own");
    env
}

#[test]
fn what_is_bundled_cannot_be_shadowed_by_the_project() {
    for runner in Runner::available() {
        let env = bundled(*runner);
        // The project cannot get in front by any rank, nor make anything reserved.
        let config = env.work().join("skillfreeze.toml");
        file(&config, "[[source]]\nid = \"first\"\nroot = \"vendor\"\nrank = 200\n");
        let Some(listed) = with_system(&env, &["list", "--json"]) else { return };
        let listed = listed.json();
        assert_eq!(texts(&listed["skills"], "id"), ["office", "other"]);
        assert_eq!(texts(&listed["skills"], "source"), ["bundled", "project-agents"]);
        let refused: Vec<String> = listed["left_out"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|left| codes(&left["diagnostics"])[0].0 == "reserved-name")
            .map(|left| format!("{}/{}", text(&left["source"]), text(&left["directory"])))
            .collect();
        let expected = ["broken", "documents", "office"].map(|name| format!("project-agents/{name}"));
        let expected = [&expected[..], &["first/office".to_owned()]].concat();
        assert_eq!(refused, expected, "{listed}");
        let frozen = with_system(&env, &["prepare", "--json", "office"]).unwrap().json();
        assert_eq!(frozen["packages"][0]["source"], "bundled");
        let digest = package_digest(env.work().with_file_name("bundled").join("documents"));
        assert_eq!(text(&frozen["packages"][0]["digest"]), digest);
        for reference in ["papers", "broken", "project-agents:office", "first:office"] {
            let refused = with_system(&env, &["prepare", "--json", reference]).unwrap();
            refused.fails(6, "selection-invalid");
        }
        file(&config, "[[source]]\nid = \"first\"\nroot = \"vendor\"\nreserved = true\n");
        let refused = with_system(&env, &["list", "--json"]).unwrap();
        assert_ne!(refused.status, 0, "{refused:?}");
        assert!(refused.stderr.contains("source.reserved"), "{refused:?}");
    }
}

#[test]
fn nothing_is_added_under_the_name_of_what_is_bundled() {
    for runner in Runner::available() {
        let env = bundled(*runner);
        // What was added before it was bundled is not what the name means from then on.
        env.run(["add", ".agents/skills/office"]).ok();
        for name in ["office", "documents", "broken"] {
            let path = format!(".agents/skills/{name}");
            for options in [&[][..], &["--candidate"]] {
                let add = [&["add", "--json", &path], options].concat();
                let Some(refused) = with_system(&env, &add) else { return };
                let error = refused.fails(5, "reserved-name");
                assert_eq!(texts(&error["details"]["faults"], "code"), ["reserved-name"], "{error}");
                let printed: Value = serde_json::from_str(&refused.stdout).unwrap();
                assert_eq!(texts(&printed["failed"], "code"), ["reserved-name"]);
            }
        }
        // What is bundled itself would be another revision than the next one that is bundled.
        let own = env.work().with_file_name("bundled").join("documents");
        with_system(&env, &["add", "--json", own.to_str().unwrap()]).unwrap().fails(5, "reserved-name");
        with_system(&env, &["add", "--json", ".agents/skills/other"]).unwrap().ok();

        fs::remove_dir_all(env.work().join(".agents")).unwrap();
        for selected in [&[][..], &["office"]] {
            let frozen = with_system(&env, &[&["prepare", "--json"], selected].concat()).unwrap().json();
            let packages = frozen["packages"].as_array().unwrap();
            let office = packages.iter().find(|package| package["id"] == "office").unwrap();
            assert_eq!(text(&office["digest"]), package_digest(&own), "{frozen}");
        }
        let listed = with_system(&env, &["list", "--json"]).unwrap().json();
        let office =
            listed["skills"].as_array().unwrap().iter().find(|skill| skill["description"] == "bundled");
        assert_eq!(office.map(|skill| text(&skill["source"])), Some("bundled".to_owned()), "{listed}");
        // Without the system's configuration it is as it was.
        assert_eq!(env.run(["prepare", "--json", "office"]).json()["packages"][0]["number"], 1);
    }
}

/// Nobody knows the names then, so that anybody could have them.
#[test]
fn nothing_is_taken_where_a_bundle_cannot_be_read() {
    for runner in Runner::available() {
        let env = bundled(*runner);
        let root = env.work().with_file_name("bundle");
        let config = |layout: &str| {
            let root = root.to_str().unwrap();
            let text = format!("[[source]]\nid = \"lost\"\nroot = \"{root}\"\nreserved = true\n{layout}");
            file(env.work().join("system.toml"), text);
        };
        let check = |code: &str, status: i32| {
            let mut table = vec![
                (&["list", "--json"][..], status),
                (&["prepare", "--json"], status),
                (&["prepare", "--json", "other"], status),
                (&["prepare", "--json", "project-agents:office"], status),
                (&["add", "--json", ".agents/skills/office"], status),
            ];
            // In a user's namespace root's bubblewrap is nobody's, which is refused before.
            if *runner == Runner::Root {
                table.push((&["run", "--json", "--skill", "other", "--", "true"], 125));
            }
            for (arguments, status) in table {
                let Some(refused) = with_system(&env, arguments) else { return false };
                let error = refused.fails(status, code);
                assert!(text(&error["message"]).contains("`lost`"), "{error}");
                assert_eq!(refused.stdout, "", "{arguments:?}");
            }
            true
        };
        for layout in ["", "layout = \"flat\"", "layout = \"package\"", "layout = \"collection\""] {
            config(layout);
            if !check("root-absent", 4) {
                return;
            }
        }
        config("");
        file(&root, "x");
        check("root-not-a-directory", 2);
        fs::remove_file(&root).unwrap();
        symlink("nowhere", &root).unwrap();
        check("root-failed", 1);
        fs::remove_file(&root).unwrap();
        directory(&root);
        config("layout = \"collection\"");
        check("collection-missing", 6);
        // A directory of root's, so that the capabilities in the namespace do not help.
        if *runner == Runner::User && Runner::available().len() > 1 {
            config("");
            set_mode(&root, 0o700);
            check("root-unreadable", 1);
        }
        assert_eq!(names(env.root().join("packages/sha256")), [""; 0]);
    }
}

/// In any layout, what is bundled and faulty is nobody else's to replace.
#[test]
fn nobody_else_has_the_name_of_what_is_bundled_and_faulty() {
    for runner in Runner::available() {
        for (layout, root, path) in [
            ("children", "bundle", "office/SKILL.md"),
            ("nested", "bundle", "tools/office/SKILL.md"),
            ("flat", "bundle", "office.md"),
            ("package", "bundle/office", "SKILL.md"),
        ] {
            let env = bundled(*runner);
            let root = env.work().with_file_name("x").with_file_name(root);
            file(root.join(path), "---\nname: office\n---\n");
            let root = root.to_str().unwrap();
            let text = format!("id = \"faulty\"\nroot = \"{root}\"\nreserved = true\nlayout = \"{layout}\"");
            file(env.work().join("system.toml"), format!("[[source]]\n{text}\n"));
            let Some(listed) = with_system(&env, &["list", "--json"]) else { return };
            let listed = listed.json();
            assert_eq!(texts(&listed["skills"], "id"), ["broken", "other", "papers"], "{layout}");
            let refused = listed["left_out"].as_array().unwrap().iter().map(|left| {
                (
                    format!("{}/{}", left["source"], left["directory"]),
                    codes(&left["diagnostics"])[0].0.clone(),
                )
            });
            let expected = ("\"project-agents\"/\"office\"".to_owned(), "reserved-name".to_owned());
            assert!(refused.collect::<Vec<_>>().contains(&expected), "{layout}: {listed}");
            for reference in ["office", "project-agents:office", "faulty:office"] {
                let refused = with_system(&env, &["prepare", "--json", reference]).unwrap();
                refused.fails(6, "selection-invalid");
            }
            let added = with_system(&env, &["add", "--json", ".agents/skills/office"]).unwrap();
            added.fails(5, "reserved-name");
        }
    }
}

/// Until approvals exist, nobody who requires them gets what was not approved.
#[test]
fn approval_that_is_required_is_not_passed_over() {
    let env = environment(Runner::available()[0]);
    package(env.work().join(".agents/skills"), "demo");
    let (digest, _) = crate::support::prepare(&env, ".agents/skills");
    directory(env.home().join(".config/skillfreeze"));
    let config = env.home().join(".config/skillfreeze/skillfreeze.toml");
    file(&config, "approval = \"none\"\n");
    env.run(["prepare", "--json"]).ok();
    file(&config, "approval = \"required\"\n");
    for (arguments, status) in [
        (&["prepare", "--json"][..], 2),
        (&["prepare", "--json", "demo"], 2),
        (&["prepare", "--json", "--source", ".agents/skills"], 2),
        (&["add", "--json", ".agents/skills/demo"], 2),
        (&["run", "--json", "--skill", "demo", "--", "true"], 125),
        (&["run", "--json", &digest, "--", "true"], 125),
    ] {
        let error = env.run(arguments).fails(status, "approval-unsupported");
        assert!(text(&error["message"]).contains("requires approval"), "{error}");
    }
    env.run(["list", "--json"]).ok();
    env.run(["verify", "--json", &digest]).ok();
}
