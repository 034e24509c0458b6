//! Places from which the next run would take skills: the command must not plant any.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;
use skillfreeze_testing::{Output, directory, file, package, set_mode, tree};

use super::Place;

/// Tries each of its arguments as a shell command; prints `OK` or the reason of the refusal.
const ATTEMPTS: &str = r#"
for attempt; do
    if said=$(LC_ALL=C sh -c "$attempt" 2>&1); then echo OK; else echo "${said##*: }"; fi
done
"#;

pub(super) fn attempts(place: &Place, options: &[&str], attempts: &[&str]) -> Output {
    let options = [&["--json", "--workspace", "ws"], options].concat();
    place.run(&options, &[&["sh", "-c", ATTEMPTS, "sh"], attempts].concat())
}

/// Everybody's to write, since the command of root is somebody else.
pub(super) fn open_up(place: &Place) {
    let opened = place.env.command_of("chmod", ["-R", "a+rwX", "ws"]).status();
    assert!(opened.unwrap().success());
}

#[test]
fn live_sources_cannot_be_changed_or_moved_away() {
    for place in Place::each() {
        package(place.work("ws/.agents/skills"), "live");
        package(place.work("ws/.claude/skills"), "live");
        file(place.work("ws/skillfreeze.toml"), "");
        file(place.work("ws/skillfreeze.lock"), "");
        open_up(&place);
        let before = tree(place.work("ws"));
        let (busy, read_only) = ("Device or resource busy", "Read-only file system");
        let table = [
            ("cat .agents/skills/live/SKILL.md", "OK"),
            ("mv .agents .old", busy),
            ("mv .claude .old", busy),
            ("mv .agents/skills .agents/old", busy),
            ("rmdir .agents/skills", busy),
            ("mv -T --exchange .agents .claude 2>/dev/null || mv -T .agents .claude", busy),
            ("mkdir -p .agents/skills/evil", read_only),
            ("ln -s /tmp .agents/skills/evil", read_only),
            ("cp -r .agents/skills/live .agents/skills/evil", read_only),
            ("echo evil >>.agents/skills/live/SKILL.md", read_only),
            ("rm .claude/skills/live/SKILL.md", read_only),
            ("chmod 777 .claude/skills/live", read_only),
            ("echo evil >>skillfreeze.toml", read_only),
            ("echo evil >>skillfreeze.lock", read_only),
            ("mv skillfreeze.toml old", busy),
            ("rm skillfreeze.lock", busy),
            ("touch new && rm new", "OK"),
            ("touch .agents/new && rm .agents/new", "OK"),
        ];
        let output = attempts(&place, &[], &table.map(|(attempt, _)| attempt));
        let answers: Vec<_> =
            table.iter().zip(output.ok().lines()).map(|((a, _), answer)| (*a, answer)).collect();
        assert_eq!(answers, table);
        assert_eq!(tree(place.work("ws")), before);
        let visible = [".agents/skills", ".claude/skills", "skillfreeze.lock", "skillfreeze.toml"]
            .map(|path| place.work("ws").join(path));
        assert_eq!(place.record()["launch"]["live_sources_visible"], json!(visible));
        let warned = place.run(&["--workspace", "ws"], &["true"]);
        assert!(warned.stderr.contains("the command can read what is not frozen"), "{warned:#?}");
    }
}

#[test]
fn a_source_that_appears_is_told() {
    for place in Place::each() {
        for (plant, path) in [
            ("mkdir -p .agents/skills/evil", ".agents/skills"),
            ("mkdir -p other .claude; ln -s ../other .claude/skills", ".claude/skills"),
            ("touch skillfreeze.toml", "skillfreeze.toml"),
            ("touch skillfreeze.lock", "skillfreeze.lock"),
        ] {
            let path = place.work("ws").join(path);
            fs::remove_dir_all(place.work("ws")).unwrap();
            directory(place.work("ws"));
            open_up(&place);
            let output = attempts(&place, &["--record", "record.json"], &[plant]);
            let error = output.fails(125, "source-appeared");
            assert_eq!(output.stdout, "OK\n");
            assert_eq!(error["details"], json!({"paths": [path], "exit": {"status": 0}}));
            let record: serde_json::Value =
                serde_json::from_slice(&fs::read(place.work("record.json")).unwrap()).unwrap();
            assert_eq!((&record["outcome"], &record["exit"]["status"]), (&"failed".into(), &0.into()));
            assert_eq!(record["error"]["code"], "source-appeared");
        }
    }
}

/// Where the source is a link, what it leads to is protected, but the link could be exchanged.
#[test]
fn a_link_to_a_source_that_is_exchanged_is_told() {
    for place in Place::each() {
        package(place.work("ws/real"), "live");
        directory(place.work("ws/.agents"));
        symlink("../real", place.work("ws/.agents/skills")).unwrap();
        open_up(&place);
        let plant = "mkdir -p evil/live && rm .agents/skills && ln -s ../evil .agents/skills";
        let output = attempts(&place, &[], &["mkdir real/evil", "mv real old", plant]);
        output.fails(125, "source-appeared");
        assert_eq!(output.stdout, "Read-only file system\nDevice or resource busy\nOK\n");
    }
}

/// The project of a workspace begins above it, at the directory with `.git`.
#[test]
fn the_sources_of_the_project_are_guarded_also_from_a_bind_above() {
    for place in Place::each() {
        directory(place.work("ws/.git"));
        package(place.work("ws/.agents/skills"), "live");
        directory(place.work("ws/deep/er"));
        open_up(&place);
        let bind = place.work("ws");
        let script = format!("cd {} && mkdir -p .agents/skills/evil", bind.display());
        let options = ["--json", "--bind", "ws", "--workspace", "ws/deep/er"];
        let output = place.run(&options, &["sh", "-c", &script]);
        assert!(output.status == 1 && output.stderr.contains("Read-only file system"), "{output:#?}");
    }
}

#[test]
fn a_named_source_is_not_a_workspace() {
    for place in Place::each() {
        let run = |options: &[&str]| {
            let arguments =
                [&["run", "--json", "--source", "src"], options, &["--", "touch", "started"]].concat();
            place.env.run(arguments)
        };
        let before = tree(place.env.work());
        for options in [["--workspace", "src/demo"], ["--bind", "src/demo"], ["--extensions", "src/demo"]] {
            run(&options).fails(125, "bind-in-source");
        }
        // The root of the source itself becomes read-only.
        set_mode(place.work("src"), 0o777);
        let output = run(&["--workspace", "src"]);
        assert!(output.status == 1 && output.stderr.contains("Read-only file system"), "{output:#?}");
        set_mode(place.work("src"), 0o755);
        assert_eq!(tree(place.env.work()), before);
    }
}
