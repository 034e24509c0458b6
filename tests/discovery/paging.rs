//! Pages of the list, and searching it.

use serde_json::{Value, json};
use skillfreeze_testing::{TestEnv, file, package};

use super::{each, ids, skill};
use crate::support::texts;

const SKILLS: [(&str, &str); 7] = [
    ("pdf-tools", "description: Merge and split files\ntags: [documents]"),
    ("pdf", "description: Reads documents"),
    ("merge", "description: Joins tables"),
    ("tables", "description: Reads spreadsheets\nuser-invocable: false"),
    ("zebra", "description: The word documents here"),
    ("strasse", "description: Finds a STRASSE"),
    ("other", "description: nothing of it"),
];

/// A source of skills, made in this order, and one collection in it.
fn source(env: &TestEnv, name: &str, order: impl Iterator<Item = usize>) {
    let root = env.work().join(name);
    for index in order {
        let (id, lines) = SKILLS[index];
        file(root.join(id).join("SKILL.md"), format!("---\nname: {id}\n{lines}\n---\nbody\n"));
    }
    file(root.join("col/COLLECTION.json"), r#"{"id": "col", "prompt": "{count}"}"#);
    for id in ["member", "aside"] {
        file(
            root.join("col").join(id).join("SKILL.md"),
            format!("---\nname: {id}\ndescription: The word documents here\n---\n"),
        );
    }
}

#[track_caller]
fn list(env: &TestEnv, source: &str, arguments: &[&str]) -> Value {
    env.run([&["list", "--source", source, "--layout", "nested", "--json"], arguments].concat()).json()
}

/// All pages of so many, one after the other.
#[track_caller]
fn pages(env: &TestEnv, arguments: &[&str], limit: usize) -> Vec<String> {
    let (mut found, mut offset) = (Vec::new(), 0);
    loop {
        let (limit, at) = (limit.to_string(), offset.to_string());
        let page = list(env, "src", &[&["--limit", &limit, "--offset", &at], arguments].concat());
        found.extend(ids(&page));
        let Some(next) = page["next_offset"].as_u64().and_then(|next| usize::try_from(next).ok()) else {
            assert_eq!(page["total"], found.len(), "{page}");
            return found;
        };
        assert_eq!(next, found.len());
        assert!(next > offset, "{page}");
        offset = next;
    }
}

#[test]
fn pages_make_up_the_whole_in_its_order() {
    for env in each() {
        source(&env, "src", 0..SKILLS.len());
        for arguments in [
            &[][..],
            &["documents"],
            &["--user"],
            &["--collection", "col"],
            &["merge", "documents", "--user"],
        ] {
            let whole = list(&env, "src", arguments);
            assert_eq!(whole.get("next_offset"), None);
            for limit in [1, 2, 3, 100] {
                assert_eq!(pages(&env, arguments, limit), ids(&whole), "{arguments:?} {limit}");
            }
            // Behind the end there is nothing, which is no error.
            let behind = list(&env, "src", &[arguments, &["--offset", "99"]].concat());
            assert_eq!(
                (ids(&behind), behind.get("next_offset"), &behind["total"]),
                (vec![], None, &whole["total"])
            );
            let far = list(
                &env,
                "src",
                &[arguments, &["--offset", &u64::MAX.to_string(), "--limit", "1"]].concat(),
            );
            assert_eq!(ids(&far), [""; 0]);
        }
        let shown = env.run(["list", "--source", "src", "--limit", "2"]);
        assert!(shown.ok().contains("`--offset 2` shows more"), "{shown:?}");
        for wrong in [
            &["--limit", "0"][..],
            &["--limit", "-1"],
            &["--offset", "x"],
            &["--collection", "../x"],
            &["--max-packages", "0"],
            &["--max-packages", "-1"],
        ] {
            env.run([&["list", "--source", "src", "--json"], wrong].concat()).fails(2, "usage");
        }
    }
}

#[test]
fn filters_and_words_find_what_they_say() {
    for env in each() {
        source(&env, "src", 0..SKILLS.len());
        for (arguments, expected) in [
            (&["--collection", "col"][..], &["aside", "member"][..]),
            (&["--user", "tables"], &["merge"]),
            (&["tables"], &["tables", "merge"]),
            (&["pdf"], &["pdf", "pdf-tools"]),
            (&["merge"], &["merge", "pdf-tools"]),
            // Tags before descriptions; of equals those outside of collections, then by id.
            (&["documents"], &["pdf-tools", "pdf", "zebra", "aside", "member"]),
            (&["documents", "--collection", "col"], &["aside", "member"]),
            (&["DOCUMENTS", "pdf"], &["pdf-tools", "pdf", "zebra", "aside", "member"]),
            (&["straße"], &["strasse"]),
            (&["absent"], &[]),
            (&["..."], &[]),
        ] {
            let found = list(&env, "src", arguments);
            assert_eq!(ids(&found), expected, "{arguments:?}");
            assert_eq!(found["total"], expected.len());
            let scores: Vec<f64> = found["skills"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|skill| skill["score"].as_f64())
                .collect();
            assert!(scores.is_sorted_by(|first, second| first >= second), "{found}");
            assert_eq!(scores.len(), if arguments[0].starts_with("--c") { 0 } else { expected.len() });
        }
        let wrong = ["list", "--source", "src", "--layout", "nested", "--json", "--collection", "none"];
        assert_eq!(env.run(wrong).fails(4, "collection-unknown")["details"]["collections"], json!(["col"]));
        let col = list(&env, "src", &["--limit", "1"]);
        assert_eq!(
            col["collections"],
            json!([{"id": "col", "prompt": "{count}", "source": "src", "directory": "col", "count": 2}])
        );
        // The filter comes before the page, and changes no score.
        let [all, some] = [&["documents"][..], &["documents", "--collection", "col"]]
            .map(|arguments| list(&env, "src", arguments));
        assert_eq!(skill(&all, "member")["score"], skill(&some, "member")["score"]);
    }
}

#[test]
fn one_answer_whatever_the_order_of_creation_and_however_often() {
    for env in each() {
        source(&env, "one/src", 0..SKILLS.len());
        source(&env, "two/src", (0..SKILLS.len()).rev());
        for arguments in [&[][..], &["documents"], &["pdf", "merge", "tables"], &["--limit", "3"]] {
            let arguments =
                [&["list", "--source", "src", "--layout", "nested", "--json"], arguments].concat();
            let all = ["one", "two", "one"].map(|directory| {
                let mut listed = super::run_in(&env, env.work().join(directory), &arguments).json();
                listed["sources"] = Value::Null;
                listed
            });
            assert!(all.iter().all(|listed| *listed == all[0]), "{all:?}");
        }
    }
}

/// A search answers what is there to be used: what the store has besides is no answer.
#[test]
fn a_search_knows_what_is_active_and_what_is_switched_off() {
    for env in each() {
        package(env.home().join(".agents/skills"), "demo");
        env.run(["prepare"]).ok();
        let found = env.run(["list", "demo", "--json"]).json();
        assert_eq!(texts(&found["skills"], "id"), ["demo"]);
        env.run(["disable", "demo"]).ok();
        let found = env.run(["list", "demo", "--json"]).json();
        assert_eq!(
            (ids(&found), &skill(&found, "demo")["enabled"]),
            (vec!["demo".to_owned()], &false.into())
        );
    }
}
