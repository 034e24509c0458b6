//! What of the snapshot a command opened, by the kernel's word.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use skillfreeze_testing::{Output, corpora, file, package, set_mode, skip};

use super::{Place, Way, events};
use crate::corpora::unpack;
use crate::support::{prepare, text};

/// Becomes a program that may watch only so much.
const FEW_WATCHES: &str = include_str!("few_watches.py");
/// The ways whose files only the command can open.
const PRIVATE: [Way; 2] = [Way::Stage, Way::MemoryFiles];

fn is_opened(line: &&Value) -> bool {
    line["event"] == "opened"
}

/// Runs a command; gives the files that the lines tell, which are those of the record, and whether these
/// are all.
#[track_caller]
fn opened(place: &Place, command: &[&str]) -> (Vec<String>, bool) {
    let arguments = [&[place.digest.as_str(), "--record", "record.json", "--"], command].concat();
    let (output, lines) = place.run_with_lines(&arguments);
    output.ok();
    told(place, &lines)
}

#[track_caller]
fn told(place: &Place, lines: &[Value]) -> (Vec<String>, bool) {
    let lines: Vec<&Value> = lines.iter().filter(is_opened).collect();
    let files = |list: &Value| list.as_array().unwrap().iter().map(text).collect::<Vec<_>>();
    let mut told: Vec<String> = lines.iter().flat_map(|line| files(&line["files"])).collect();
    told.sort();
    let record: Value = serde_json::from_slice(&std::fs::read(place.work("record.json")).unwrap()).unwrap();
    assert_eq!(files(&record["opened"]["files"]), told, "{lines:?}");
    let complete = &lines.last().unwrap()["complete"];
    assert_eq!(&record["opened"]["complete"], complete, "{lines:?}");
    (told, complete == true)
}

#[test]
fn what_the_command_opens_is_told_and_nothing_else() {
    for place in Place::each_of(&PRIVATE) {
        for (script, files) in [
            // The checks that are made before the start open a lot.
            ("true", &[][..]),
            ("cat $SKILLS_DIR/demo/SKILL.md >/dev/null", &["demo/SKILL.md"]),
            // Twice is once; looking at names is not opening.
            (
                "cd $SKILLS_DIR; cat demo/SKILL.md demo/SKILL.md >/dev/null; ls -lR >/dev/null; test -r demo/scripts/go; cat demo/SKILL.md >/dev/null",
                &["demo/SKILL.md"],
            ),
            ("cat $SKILLS_DIR/.snapshot.json >/dev/null", &[".snapshot.json"]),
            // A program is opened to be executed.
            ("$SKILLS_DIR/demo/scripts/go x >/dev/null", &["demo/scripts/go"]),
            ("cd $SKILLS_DIR/demo/scripts; python3 tool.py", &["demo/scripts/tool.py"]),
            // By whichever process, and whatever name.
            (
                "setsid sh -c 'cat /proc/self/cwd/../../skills/demo/SKILL.md' >/dev/null; cd /skills/demo/scripts; head -c 1 ./../scripts/go >/dev/null",
                &["demo/SKILL.md", "demo/scripts/go"],
            ),
            // What cannot be opened is not.
            (
                "cat $SKILLS_DIR/demo/none 2>/dev/null; echo x 2>/dev/null >>$SKILLS_DIR/demo/SKILL.md; true",
                &[],
            ),
        ] {
            let found = opened(&place, &["sh", "-c", script]);
            assert_eq!(found, (files.iter().map(|path| (*path).to_owned()).collect(), true), "{script}");
        }
        // The command itself is a program of a package.
        let found = opened(&place, &["$SKILLS_DIR/demo/scripts/go", "x"]);
        assert_eq!(found, (vec!["demo/scripts/go".to_owned()], true));
        place.verify();
    }
}

#[test]
fn what_is_opened_is_told_while_the_command_runs() {
    for place in Place::each_of(&PRIVATE) {
        let script = "cat $SKILLS_DIR/demo/SKILL.md; read x; cat $SKILLS_DIR/demo/scripts/go $SKILLS_DIR/demo/SKILL.md";
        let mut run = place.env.command_of("sh", ["-c", "exec \"$@\" 3>&1 >/dev/null", "sh"]);
        run.arg(place.env.program()).args(["run", "--status-fd", "3", &place.digest]).args(place.options());
        let mut child = run
            .args(["--", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let expected = |files: Value| json!({"schema": "skillfreeze.status.v1", "event": "opened", "files": files, "complete": true});
        let first = lines.by_ref().find(|line| is_opened(&line));
        assert_eq!(first, Some(expected(json!(["demo/SKILL.md"]))));
        drop(child.stdin.take());
        let rest: Vec<Value> = lines.collect();
        assert_eq!(events(&rest), ["opened", "exited"]);
        let files: Vec<&Value> = rest.iter().flat_map(|line| line["files"].as_array()).flatten().collect();
        assert_eq!(files, ["demo/scripts/go"]);
        assert!(child.wait().unwrap().success());
    }
}

/// The files of a bound snapshot are the host's, which others open too.
#[test]
fn nothing_is_told_of_what_others_can_open_or_what_did_not_run() {
    for place in Place::each_of(&[Way::Bind]) {
        let (output, lines) =
            place.run_with_lines(&[&place.digest, "--", "cat", "$SKILLS_DIR/demo/SKILL.md"]);
        output.ok();
        assert_eq!(events(&lines), ["planned", "verified", "started", "exited", "re-verified"]);
        assert!(place.record().get("opened").is_none());
    }
    for place in Place::each_of(&PRIVATE) {
        let (output, lines) = place.run_with_lines(&[&place.digest, "--", "no-such-command"]);
        assert_eq!(output.status, 127);
        assert!(!lines.iter().any(|line| is_opened(&line)), "{lines:?}");
        assert!(place.record().get("opened").is_none());
    }
}

/// A sandbox that is killed has had its time to read.
#[test]
fn what_a_killed_command_opened_is_told_too() {
    for place in Place::each_of(&PRIVATE) {
        let script = "cat $SKILLS_DIR/demo/scripts/tool.py; kill -9 $$";
        let (output, lines) =
            place.run_with_lines(&[&place.digest, "--record", "record.json", "--", "sh", "-c", script]);
        assert_eq!(output.status, 137);
        assert_eq!(told(&place, &lines), (vec!["demo/scripts/tool.py".to_owned()], true));
    }
}

/// The command shares nothing with what watches it: it has no descriptor of it, and none is left to find.
#[test]
fn the_command_does_not_get_what_tells_on_it() {
    for place in Place::each_of(&PRIVATE) {
        let script = "ls -l /proc/self/fd /proc/1/fd 2>&1 | grep -c inotify; true";
        assert_eq!(place.run(&[], &["sh", "-c", script]).ok(), "0\n");
    }
}

#[test]
fn what_the_kernel_had_no_room_to_watch_is_not_said_to_be_unread() {
    for place in Place::each_of(&PRIVATE) {
        let read =
            "cat $SKILLS_DIR/.snapshot.json $SKILLS_DIR/demo/SKILL.md $SKILLS_DIR/demo/scripts/go >/dev/null";
        let all = [".snapshot.json", "demo/SKILL.md", "demo/scripts/go"];
        // The root, the package and its scripts are three directories.
        for (what, limit, seen) in
            [("watches", "3", 3), ("watches", "2", 2), ("watches", "0", 0), ("instances", "0", 0)]
        {
            let mut run =
                place.env.command_of("sh", ["-c", super::WITH_STATUS, "sh", "/usr/bin/python3", "-c"]);
            run.args([FEW_WATCHES, what, limit]).arg(place.env.program()).args(["run", &place.digest]);
            run.args(["--status-fd", "3", "--record", "record.json"]).args(place.options());
            // Who has no root there cannot see that it is root's.
            run.args(["--bwrap", "/usr/bin/bwrap"]);
            Output::of(run.args(["--", "sh", "-c", read])).ok();
            let found = told(&place, &place.lines());
            assert_eq!(
                found,
                (all[..seen].iter().map(|path| (*path).to_owned()).collect(), seen == 3),
                "{what} {limit}"
            );
        }
    }
}

#[test]
fn every_file_of_many_is_told() {
    for mut place in Place::each_of(&PRIVATE) {
        let many = package(place.work("src"), "many");
        for index in 0..800 {
            file(many.join(format!("d{}/{index:03}.txt", index % 40)), format!("{index}\n"));
        }
        file(many.join("run"), "#!/bin/sh\n");
        set_mode(many.join("run"), 0o755);
        (place.digest, place.snapshot) = prepare(&place.env, "src");
        let (files, complete) = opened(&place, &["sh", "-c", "cat $SKILLS_DIR/many/*/*.txt | wc -l"]);
        let expected: BTreeSet<String> =
            (0..800).map(|index| format!("many/d{}/{index:03}.txt", index % 40)).collect();
        assert!(complete && files == Vec::from_iter(expected), "{}", files.len());
    }
}

#[test]
fn a_public_collection_is_watched_whole() {
    let Some(corpora) = corpora() else { skip!("SKILLFREEZE_CORPORA is not set") };
    for mut place in Place::each_of(&[Way::Stage]) {
        unpack(&place.env, &corpora.join("bioskills.tar.zst"));
        let prepare = ["prepare", "--source", "bioskills", "--layout", "nested", "--json"];
        let prepared = place.env.run(prepare).json();
        assert!(prepared["packages"].as_array().unwrap().len() >= 500, "{}", prepared["packages"]);
        place.digest = text(&prepared["snapshot"]);
        let find =
            "cd $SKILLS_DIR && find . -name SKILL.md -exec cat {} + >/dev/null && find . -name SKILL.md";
        let arguments = [place.digest.as_str(), "--record", "record.json", "--", "sh", "-c", find];
        let (output, lines) = place.run_with_lines(&arguments);
        let listed: BTreeSet<String> =
            output.ok().lines().map(|line| line.trim_start_matches("./").to_owned()).collect();
        assert_eq!(listed.len(), prepared["packages"].as_array().unwrap().len());
        let (files, complete) = told(&place, &lines);
        assert!(complete && files == Vec::from_iter(listed), "{} files", files.len());
    }
}
