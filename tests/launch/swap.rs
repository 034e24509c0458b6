//! Other bytes at the snapshot's place, or in it: before, while and after the command runs.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::Value;
use skillfreeze_testing::{Output, file, set_mode};

use super::{Place, Way, events, wait_until};
use crate::support::codes;

const GOOD: &str = "---\nname: demo\ndescription: d\n---\nbody\n";
const READ: [&str; 2] = ["cat", "$SKILLS_DIR/demo/SKILL.md"];
/// Launches for each user and way while the directory is exchanged all the time.
const LAUNCHES: usize = 60;

/// Makes a directory beside the snapshot that differs in one file.
fn evil_twin(place: &Place) -> PathBuf {
    let evil = place.snapshot.with_extension("evil");
    let copied = place.env.command_of("cp", ["-a"]).arg(&place.snapshot).arg(&evil).status();
    assert!(copied.unwrap().success());
    overwrite(&evil);
    evil
}

fn overwrite(snapshot: &Path) {
    let skill = snapshot.join("demo/SKILL.md");
    set_mode(&skill, 0o644);
    file(&skill, GOOD.replace("body", "EVIL"));
    set_mode(&skill, 0o444);
}

fn exchange(a: &Path, b: &Path) {
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
}

#[test]
fn a_directory_that_is_exchanged_all_the_time_never_shows_other_bytes() {
    for place in Place::each_way() {
        let evil = evil_twin(&place);
        let done = AtomicBool::new(false);
        let outputs = thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    exchange(&place.snapshot, &evil);
                    // A launch takes some tens of these, so the exchange falls into each of its parts.
                    thread::sleep(Duration::from_micros(500));
                }
            });
            let launch = |_| place.run(&["--json"], &READ);
            let outputs: Vec<Output> = (0..LAUNCHES).map(launch).collect();
            done.store(true, Ordering::Relaxed);
            outputs
        });
        let (started, refused): (Vec<_>, Vec<_>) =
            outputs.into_iter().partition(|output| !output.stdout.is_empty());
        for output in &started {
            assert_eq!((output.stdout.as_str(), output.status), (GOOD, 0), "{output:#?}");
        }
        for output in &refused {
            assert_eq!(output.status, 125, "{output:#?}");
            let error: Value = serde_json::from_str(output.stderr.trim()).unwrap();
            assert!(
                ["integrity", "bwrap-failed", "bind-unreachable"].contains(&error["code"].as_str().unwrap()),
                "{error}"
            );
        }
        // Neither half says anything if the other is empty.
        assert!(!started.is_empty() && !refused.is_empty(), "{} started", started.len());
    }
}

/// bubblewrap itself waits until the directory has been exchanged: after the check, before the mount.
#[test]
fn a_directory_exchanged_between_check_and_mount_is_not_what_the_command_reads() {
    for place in Place::each_way() {
        let evil = evil_twin(&place);
        let meeting = place.work("meeting");
        skillfreeze_testing::directory(&meeting);
        set_mode(&meeting, 0o777);
        let wrapper = place.work("bwrap");
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = --args ] || exec /usr/bin/bwrap \"$@\"\n\
             echo >{0}/ready\nwhile [ ! -e {0}/go ]; do sleep 0.01; done\nexec /usr/bin/bwrap \"$@\"\n",
            meeting.display()
        );
        file(&wrapper, script);
        set_mode(&wrapper, 0o755);
        let command = ["sh", "-c", "cat $SKILLS_DIR/demo/SKILL.md; read x; exit 0"];
        let mut command = place.command(&["--json", "--bwrap", wrapper.to_str().unwrap()], &command);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(|| meeting.join("ready").exists());
        exchange(&place.snapshot, &evil);
        file(meeting.join("go"), "");
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut read = String::new();
        while !read.ends_with("body\n") && !read.ends_with("EVIL\n") {
            if stdout.read_line(&mut read).unwrap() == 0 {
                break;
            }
        }
        exchange(&place.snapshot, &evil);
        drop(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((read.as_str(), output.status.code()), (GOOD, Some(0)), "{stderr}");
        place.verify();
    }
}

#[test]
fn a_directory_that_was_replaced_is_not_launched() {
    for place in Place::each() {
        let evil = evil_twin(&place);
        exchange(&place.snapshot, &evil);
        let output = place.run(&["--json"], &READ);
        let error = output.fails(125, "integrity");
        assert_eq!(output.stdout, "");
        assert_eq!(
            codes(&error["details"]["faults"]),
            [("wrong-hash".to_owned(), "demo/SKILL.md".to_owned())]
        );
        assert!(place.records().is_empty());
        fs::rename(&place.snapshot, place.snapshot.with_extension("gone")).unwrap();
        place.run(&["--json"], &READ).fails(125, "snapshot-unknown");
    }
}

#[test]
fn what_changes_in_the_snapshot_while_the_command_runs_is_told() {
    for place in Place::each_of(&[Way::Bind]) {
        let mut command = place.env.command_of("sh", ["-c", super::WITH_STATUS, "sh"]);
        command.arg(place.env.program()).args(["run", "--status-fd", "3", "--json", &place.digest]);
        command.args(place.options()).arg("--").args(["sh", "-c", "echo ready; read x; exit 4"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        overwrite(&place.snapshot);
        set_mode(place.snapshot.join("demo"), 0o755);
        file(place.snapshot.join("demo/new"), "");
        set_mode(place.snapshot.join("demo"), 0o555);
        drop(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(125));

        let found = [("unexpected", "demo/new"), ("wrong-hash", "demo/SKILL.md")];
        let expected: Vec<_> = found.map(|(code, path)| (code.to_owned(), path.to_owned())).into();
        let sorted = |faults: &Value| {
            let mut faults = codes(faults);
            faults.sort();
            faults
        };
        let error: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(error["code"], "integrity-after-run");
        assert_eq!(sorted(&error["details"]["faults"]), expected);
        assert_eq!(error["details"]["exit"]["status"], 4);
        let lines = place.lines();
        assert_eq!(
            events(&lines),
            ["planned", "verified", "started", "exited", "re-verified", "integrity-after-run"]
        );
        assert_eq!(sorted(&lines[4]["faults"]), expected);
        let record = place.record();
        assert_eq!(record["outcome"], "failed");
        assert_eq!(record["error"]["code"], "integrity-after-run");
        assert_eq!(sorted(&record["checks"]["after"]["faults"]), expected);
        assert_eq!(codes(&record["checks"]["before"]["faults"]), []);
        assert_eq!(record["exit"]["status"], 4);
    }
}
