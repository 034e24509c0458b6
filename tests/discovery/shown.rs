//! What `list` shows as text: of each thing that is left out the reason, of collections what they tell.

use skillfreeze_testing::{file, package};

use super::{each, run_in};

#[test]
fn reasons_are_shown_and_not_what_is_merely_worth_knowing() {
    for env in each() {
        let front_matter = "description: d\nallowed-tools: Bash\n";
        file(env.work().join("flat/a.md"), format!("---\nname: A B\n{front_matter}---\n"));
        for source in ["one", "two"] {
            let text = format!("---\nname: demo\n{front_matter}---\n{source}\n");
            file(env.work().join(source).join("demo/SKILL.md"), text);
        }
        let flat = env.run(["list", "--skipped", "--source", "flat", "--layout", "flat"]);
        let lines: Vec<&str> = flat.ok().lines().filter(|line| line.starts_with("flat/")).collect();
        assert!(matches!(lines[..], [line] if line.contains(" a.md:2:7: ")), "{flat:?}");
        let both = env.run(["list", "--skipped", "--source", "one", "--source", "two"]);
        let lines: Vec<&str> = both.ok().lines().filter(|line| line.starts_with("two/")).collect();
        assert!(matches!(lines[..], [line] if line.ends_with("comes first (shadowed-by)")), "{both:?}");
    }
}

#[test]
fn a_collection_is_shown_as_it_is_told() {
    for env in each() {
        file(env.work().join("src/bio/COLLECTION.json"), r#"{"id": "bio", "prompt": "{count} for biology"}"#);
        for name in ["one", "two"] {
            package(env.work().join("src/bio"), name);
        }
        let listed = env.run(["list", "--source", "src"]);
        assert!(listed.ok().ends_with("\n\ncollections:\nbio  2 for biology\n"), "{listed:?}");
    }
}

#[test]
fn a_fault_of_a_collection_is_told_once_and_where() {
    for env in each() {
        let path = env.work().join("src/COLLECTION.json");
        file(&path, r#"{"id": "bio"}"#);
        let arguments = ["list", "--source", "src", "--layout", "collection"];
        let said = env.run(arguments);
        assert_eq!(said.status, 6, "{said:?}");
        let place = format!("{}:1:13: ", path.display());
        assert_eq!(said.stderr.matches("missing field `prompt`").count(), 1, "{said:?}");
        assert!(said.stderr.contains(&place), "{said:?}");
    }
}

#[test]
fn inactive_revisions_are_counted_and_shown_when_asked_for() {
    for env in each() {
        package(env.work().join("src"), "demo");
        env.run(["prepare", "--source", "src"]).ok();
        let listed = env.run(["list"]);
        assert_eq!(listed.ok(), "1 not active; `--inactive` shows them\n");
        assert_eq!(env.run(["list", "--json"]).json()["total"], 0);
        let listed = env.run(["list", "--inactive"]);
        assert!(listed.ok().starts_with("demo@1  "), "{listed:?}");
        assert_eq!(listed.stdout.lines().count(), 1);
        assert_eq!(env.run(["list", "--inactive", "--json"]).json()["skills"][0]["active"], false);
    }
}

#[test]
fn what_is_enabled_and_not_there_is_told() {
    for env in each() {
        let project = env.work().join("p");
        package(project.join(".agents/skills"), "demo");
        file(project.join("skillfreeze.toml"), "[skills]\nenabled = [\"demo\", \"gone\"]\n");
        let listed = run_in(&env, &project, &["list"]);
        assert!(listed.ok().starts_with("demo "), "{listed:?}");
        assert_eq!(listed.stderr, "warning: `gone` is enabled, but neither a source nor the store has it\n");
    }
}
