//! What each reference means, and what is said when it means nothing.

use std::fs;

use serde_json::Value;
use skillfreeze_testing::{Runner, TestEnv, file, package};

use crate::support::{environment, text, texts};

/// A skill's SKILL.md with a version and a body.
fn write(env: &TestEnv, path: &str, id: &str, version: &str, body: &str) {
    let content = format!("---\nname: {id}\ndescription: d\nversion: {version}\n---\n{body}\n");
    file(env.work().join(path).join("SKILL.md"), content);
}

/// A store with `pdf` in two revisions, the second active, and the source `src` with a third content.
fn history() -> TestEnv {
    let env = environment(Runner::available()[0]);
    for (version, body) in [("1.0", "one"), ("2.0", "two")] {
        write(&env, "old/pdf", "pdf", version, body);
        env.run(["add", "old/pdf"]).ok();
    }
    write(&env, "src/pdf", "pdf", "3.0", "three");
    env
}

/// The package that a reference freezes.
fn frozen(env: &TestEnv, arguments: &[&str]) -> Value {
    let prepared = env.run([&["prepare", "--json"], arguments].concat()).json();
    let packages = prepared["packages"].as_array().unwrap();
    assert_eq!(packages.len(), 1, "{prepared}");
    packages[0].clone()
}

#[test]
fn each_form_of_a_reference_reaches_its_revision() {
    let env = history();
    let digest = |number: u64| {
        let shown = env.run(["show", "pdf", "--json"]).json();
        let revisions = shown["revisions"].as_array().unwrap();
        text(&revisions.iter().find(|revision| revision["number"] == number).unwrap()["digest"])
    };
    let (one, two) = (digest(1), digest(2));
    let short = |digest: &str| digest.strip_prefix("sha256:").unwrap()[..12].to_owned();
    for (reference, version) in [
        ("pdf".to_owned(), "2.0"),
        ("pdf@1".to_owned(), "1.0"),
        ("pdf@2".to_owned(), "2.0"),
        ("pdf@version=1.0".to_owned(), "1.0"),
        (format!("pdf@{one}"), "1.0"),
        (format!("pdf@{}", short(&one)), "1.0"),
        (format!("pdf@sha256:{}", short(&two)), "2.0"),
    ] {
        assert_eq!(text(&frozen(&env, &[&reference])["version"]), version, "{reference}");
    }
    // A source on the command line is newer than anything that is active …
    for reference in ["pdf", "src:pdf", "pdf@source"] {
        assert_eq!(text(&frozen(&env, &[reference, "--source", "src"])["version"]), "3.0", "{reference}");
    }
    // … unless a revision is named.
    assert_eq!(text(&frozen(&env, &["pdf@1", "--source", "src"])["version"]), "1.0");
    // Freezing stored it and activated nothing.
    assert_eq!(text(&frozen(&env, &["pdf"])["version"]), "2.0");
    assert_eq!(text(&frozen(&env, &["pdf@3"])["version"]), "3.0");
}

#[test]
fn everything_means_the_sources_or_else_what_is_active() {
    let env = history();
    assert_eq!(text(&frozen(&env, &[])["version"]), "2.0");
    assert_eq!(text(&frozen(&env, &["--all"])["version"]), "2.0");
    assert_eq!(text(&frozen(&env, &["--all", "--source", "src"])["version"]), "3.0");
    let none = env.run(["prepare", "--json", "--none"]).json();
    assert_eq!(none["packages"].as_array().unwrap().len(), 0);
    let empty = environment(Runner::available()[0]);
    empty.run(["prepare", "--json"]).fails(4, "nothing-selected");
}

#[test]
fn a_selection_is_read_from_a_file_or_from_standard_input() {
    let env = history();
    package(env.work().join("src"), "other");
    file(env.work().join("wanted"), "# two of them\npdf@1   # the old one\n\nother\n");
    let prepared = env.run(["prepare", "--json", "--source", "src", "--selection", "wanted"]).json();
    assert_eq!(texts(&prepared["packages"], "id"), ["other", "pdf"]);
    let mut command = env.command(["prepare", "--selection", "-"]);
    command.stdin(fs::File::open(env.work().join("wanted")).unwrap());
    let output = command.output().unwrap();
    assert!(!output.status.success(), "`other` is in no source here");
    env.run(["prepare", "--json", "--selection", "absent"]).fails(4, "not-found");
    // A generator that failed would otherwise select nothing.
    env.run(["prepare", "--json", "--selection", "/dev/null"]).fails(4, "nothing-selected");
}

#[test]
fn a_shadowed_package_is_reported_and_reached_by_its_source() {
    let env = environment(Runner::available()[0]);
    write(&env, "a/demo", "demo", "1", "a");
    write(&env, "b/demo", "demo", "2", "b");
    let sources = ["--source", "a", "--source", "b"];
    let prepared = env.run([&["prepare", "--json"], &sources[..]].concat()).json();
    assert_eq!(text(&prepared["packages"][0]["version"]), "1");
    assert_eq!(prepared["packages"][0]["shadowed"][0], "b/demo");
    assert_eq!(prepared["left_out"][0]["diagnostics"][0]["code"], "shadowed-by");
    let named = env.run([&["prepare", "--json", "b:demo"], &sources[..]].concat()).json();
    assert_eq!(text(&named["packages"][0]["version"]), "2");
    assert_eq!(text(&named["packages"][0]["source"]), "b");
}

/// Two sources may have a skill of one name in one version, of which one alone is trusted.
#[test]
fn a_revision_of_a_source_is_one_that_came_from_it() {
    for runner in Runner::available() {
        let env = environment(*runner);
        for source in ["a", "b", "c"] {
            write(&env, &format!("{source}/demo"), "demo", "1.0", source);
        }
        let sources = ["--source", "a", "--source", "b", "--source", "c"];
        let digest = |reference: &str| text(&frozen(&env, &[&[reference], &sources[..]].concat())["digest"]);
        // The first of `a`, the second of `b`; the third is nobody's, and none is of `c`.
        let (a, b) = (digest("a:demo"), digest("b:demo"));
        write(&env, "own/demo", "demo", "1.0", "own");
        let own = text(&env.run(["add", "own/demo", "--json"]).json()["added"][0]["digest"]);
        let short = |digest: &str| digest["sha256:".len()..][..12].to_owned();
        // With the sources in force, and without them: it is the store that is asked.
        for sources in [&sources[..], &[]] {
            for (reference, expected) in [
                ("demo@1".to_owned(), &a),
                ("demo@2".to_owned(), &b),
                ("demo@3".to_owned(), &own),
                ("a:demo@1".to_owned(), &a),
                ("b:demo@2".to_owned(), &b),
                ("a:demo@version=1.0".to_owned(), &a),
                ("b:demo@version=1.0".to_owned(), &b),
                (format!("a:demo@{}", short(&a)), &a),
                (format!("b:demo@{b}"), &b),
            ] {
                let package = frozen(&env, &[&[&*reference], sources].concat());
                assert_eq!(text(&package["digest"]), *expected, "{reference} {sources:?}");
            }
            for reference in [
                "a:demo@2".to_owned(),
                "a:demo@3".to_owned(),
                "a:demo@4".to_owned(),
                "b:demo@1".to_owned(),
                "c:demo@1".to_owned(),
                "c:demo@3".to_owned(),
                "c:demo@version=1.0".to_owned(),
                format!("a:demo@{}", short(&b)),
                format!("b:demo@{a}"),
                format!("b:demo@{own}"),
                "A:demo@1".to_owned(),
                "project-agents:demo@1".to_owned(),
            ] {
                let failed = env.run([&["prepare", "--json", &reference], sources].concat());
                failed.fails(4, "selection-unknown");
            }
        }
        env.run(["prepare", "--json", "demo@version=1.0"]).fails(5, "selection-ambiguous");
    }
}

#[test]
fn a_source_that_is_not_in_force_is_told_with_those_that_are() {
    for runner in Runner::available() {
        let env = environment(*runner);
        for source in ["a", "b"] {
            write(&env, &format!("{source}/demo"), "demo", "1.0", source);
        }
        let sources = ["--source", "a", "--source", "b"];
        env.run([&["prepare", "a:demo"], &sources[..]].concat()).ok();
        let conventional = ["project-agents", "project-claude", "user-agents", "user-claude"];
        for pick in ["", "@source", "@1", "@version=1.0", "@sha256:0123456789ab"] {
            let reference = format!("elsewhere:demo{pick}");
            for (sources, known) in [(&sources[..], &["a", "b"][..]), (&[], &conventional)] {
                let failed = env.run([&["prepare", "--json", &reference], sources].concat());
                let error = failed.fails(4, "selection-unknown");
                assert_eq!(error["details"], serde_json::json!({ "sources": known }), "{error}");
                let message = text(&error["message"]);
                assert_eq!(message, format!("`{reference}` names a source that is not in force"));
                let listed: Vec<String> = known.iter().map(|id| format!("`{id}`")).collect();
                assert_eq!(text(&error["hint"]), format!("these are in force: {}", listed.join(", ")));
            }
        }
        // One that is in force and does not have it is another matter.
        let error = env.run([&["prepare", "--json", "b:dem"], &sources[..]].concat());
        assert_eq!(error.fails(4, "selection-unknown")["details"]["near"], serde_json::json!(["demo"]));
    }
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_frozen() {
    let env = history();
    package(env.work().join("src"), "good");
    file(env.work().join("src/broken/SKILL.md"), "---\nname: broken\n---\n");
    for (arguments, status, code) in [
        (&["absent"][..], 4, "selection-unknown"),
        (&["pdf@9"], 4, "selection-unknown"),
        (&["pdf@version=9"], 4, "selection-unknown"),
        (&["pdf@0123456789ab"], 4, "selection-unknown"),
        (&["elsewhere:pdf"], 4, "selection-unknown"),
        (&["pdf@source"], 4, "selection-unknown"),
        (&["pdf@1", "pdf@2"], 5, "selection-conflict"),
        (&["../evil"], 2, "reference"),
        (&["pdf@latest"], 2, "reference"),
        (&["broken", "--source", "src"], 6, "selection-invalid"),
        (&["--all", "pdf"], 2, "usage"),
        (&["--all", "--none"], 2, "usage"),
        (&["pdf", "--source", "absent"], 4, "root-absent"),
        (&["pdf", "--source", "src/pdf/SKILL.md"], 2, "root-not-a-directory"),
        (&["pdf", "--source", "src", "--source", "src"], 2, "source-twice"),
        (&["pdf", "--source", "src", "--max-packages", "0"], 2, "usage"),
    ] {
        env.run([&["prepare", "--json"], arguments].concat()).fails(status, code);
    }
    let near = env.run(["prepare", "--json", "pfd"]).fails(4, "selection-unknown");
    assert_eq!(near["hint"], "did you mean `pdf`?");
    let faults = env.run(["prepare", "--json", "broken", "--source", "src"]).fails(6, "selection-invalid");
    assert_eq!(texts(&faults["details"]["faults"], "code"), ["desc-missing"]);
    assert_eq!(fs::read_dir(env.root().join("snapshots/sha256")).unwrap().count(), 0);
}

#[test]
fn a_skill_without_an_active_revision_is_not_called_unknown() {
    let env = environment(Runner::available()[0]);
    package(env.work().join("src"), "demo");
    env.run(["prepare", "--source", "src"]).ok();
    let refused = env.run(["prepare", "--json", "demo"]).fails(4, "selection-inactive");
    assert!(text(&refused["hint"]).contains("`demo@1`"), "{refused}");
    env.run(["prepare", "demo@1"]).ok();
    env.run(["add", "src/demo"]).ok();
    env.run(["prepare", "demo"]).ok();
}

#[test]
fn one_version_in_two_revisions_is_ambiguous() {
    let env = history();
    write(&env, "old/pdf", "pdf", "2.0", "two, mended in silence");
    env.run(["add", "old/pdf"]).ok();
    let refused = env.run(["prepare", "--json", "pdf@version=2.0"]).fails(5, "selection-ambiguous");
    assert_eq!(refused["details"]["digests"].as_array().unwrap().len(), 2);
}

#[test]
fn a_faulty_package_stops_only_who_names_it() {
    let env = environment(Runner::available()[0]);
    package(env.work().join("src"), "good");
    let linked = package(env.work().join("src"), "linked");
    std::os::unix::fs::symlink("/etc/hostname", linked.join("x")).unwrap();
    let prepared = env.run(["prepare", "--json", "--source", "src"]).json();
    assert_eq!(texts(&prepared["packages"], "id"), ["good"]);
    assert_eq!(prepared["left_out"][0]["directory"], "linked");
    assert_eq!(prepared["left_out"][0]["diagnostics"][0]["code"], "symlink-escape");
    env.run(["prepare", "--json", "--source", "src", "good"]).ok();
    env.run(["prepare", "--json", "--source", "src", "linked"]).fails(6, "symlink-escape");
}

/// What a source has is not what is frozen: whoever edits a skill is told why nothing changes.
#[test]
fn a_source_that_differs_from_the_active_revision_is_told() {
    for runner in Runner::available() {
        let env = environment(*runner);
        let root = ".agents/skills";
        for id in ["pdf", "same", "broken", "refused", "only-stored"] {
            write(&env, &format!("{root}/{id}"), id, "1", "one");
            env.run(["add", &format!("{root}/{id}")]).ok();
        }
        let said = |selected: &[&str]| {
            let prepared = env.run([&["prepare", "--json"], selected].concat()).json();
            let packages = prepared["packages"].as_array().unwrap().clone();
            let of = |package: &Value| (text(&package["id"]), package["diagnostics"].clone());
            packages.iter().map(of).filter(|(_, said)| *said != serde_json::json!([])).collect::<Vec<_>>()
        };
        assert_eq!(said(&[]), []);
        write(&env, &format!("{root}/pdf"), "pdf", "1", "two");
        // Beside the SKILL.md, too: it is the content that counts.
        file(env.work().join(root).join("same/.DS_Store"), "not content");
        file(env.work().join(root).join("broken/SKILL.md"), "---\nname: broken\n---\n");
        std::os::unix::fs::symlink("/etc/hostname", env.work().join(root).join("refused/x")).unwrap();
        fs::remove_dir_all(env.work().join(root).join("only-stored")).unwrap();
        let expected = [
            ("broken", "source-invalid", "desc-missing", ""),
            (
                "pdf",
                "source-differs",
                "has another content than the active revision 1",
                "`pdf@source` selects it",
            ),
            ("refused", "source-invalid", "symlink-escape", ""),
        ];
        for selected in [&[][..], &["broken", "pdf", "refused", "same", "only-stored"]] {
            let said = said(selected);
            assert_eq!(said.len(), expected.len(), "{said:?}");
            for ((id, diagnostics), (of, code, part, hint)) in said.iter().zip(expected) {
                assert_eq!((id.as_str(), diagnostics[0]["code"].as_str()), (of, Some(code)));
                assert_eq!((&diagnostics[0]["severity"], &diagnostics[1]), (&"warning".into(), &Value::Null));
                let message = text(&diagnostics[0]["message"]);
                assert!(message.contains("`project-agents`") && message.contains(part), "{message}");
                assert_eq!(text(&diagnostics[0]["hint"]), hint);
            }
        }
        // Who names a revision means that one, and who names the source gets what it has.
        assert_eq!(said(&["pdf@1"]), []);
        assert_eq!(said(&["pdf@source"]), []);
        assert_eq!(said(&["--source", root, "pdf"]), []);
        let shown = env.run(["prepare", "pdf"]);
        assert!(shown.stderr.contains("the source `project-agents` has another content"), "{shown:?}");
    }
}
