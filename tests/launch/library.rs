//! Launches as commands of another program: the examples of the library, run as programs.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::{Value, json};
use skillfreeze_testing::Output;

use super::{Place, events, wait_until};
use crate::support::text;

/// An example of the library, built beside the program.
fn example(place: &Place, name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_skillfreeze")).with_file_name("examples").join(name);
    assert!(built.exists(), "`cargo test` and `cargo nextest` build {}", built.display());
    place.env.reachable(&built)
}

fn async_run(place: &Place, options: &[&str], commands: &[&str]) -> Command {
    let mut run = place.env.command_of(example(place, "async_run"), options);
    run.arg(&place.snapshot).arg(&place.digest).args(commands);
    run
}

fn run<S: AsRef<OsStr>>(place: &Place, options: &[&str], command: &[S]) -> Command {
    let mut run = place.env.command_of(example(place, "run"), options);
    run.arg(&place.snapshot).arg(&place.digest).args([place.work("."), place.work("ws")]).args(command);
    run
}

fn record(place: &Place) -> Value {
    serde_json::from_slice(&std::fs::read(place.work("record.json")).unwrap()).unwrap()
}

/// What a program printed, one JSON value a line, in the order of their numbers.
fn answers(output: &Output) -> Vec<Value> {
    let mut answers: Vec<Value> =
        output.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    answers.sort_by_key(|answer| answer["number"].as_u64());
    answers
}

#[test]
fn an_async_program_runs_commands_at_once() {
    for place in Place::each() {
        let commands = [
            &["cat", "$SKILLS_DIR/demo/SKILL.md", "--"][..],
            &["sh", "-c", "cat $SKILLS_DIR/demo/scripts/go >&2; exit 3", "--"],
            &["no-such-command", "--"],
            &["sh", "-c", "kill -9 $$"],
        ];
        let output = Output::of(&mut async_run(&place, &[], &commands.concat()));
        let skill = std::fs::read_to_string(place.snapshot.join("demo/SKILL.md")).unwrap();
        let answer = |number, status, output: &str, opened: &[&str]| json!({"number": number, "status": status, "output": output, "opened": opened});
        let expected = [
            answer(0, 0, &skill, &["demo/SKILL.md"]),
            answer(1, 3, "", &["demo/scripts/go"]),
            answer(2, 127, "", &[]),
            answer(3, 137, "", &[]),
        ];
        assert_eq!(answers(&output), expected);
        let script = std::fs::read_to_string(place.snapshot.join("demo/scripts/go")).unwrap();
        assert!(output.stderr.contains(&script), "{}", output.stderr);
        let failed: Vec<&str> = output.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(failed, ["error: cannot run `no-such-command`: No such file or directory (os error 2)"]);
        // Each runs while the other does.
        let times = "date +%s%N; sleep 2; date +%s%N";
        let output = Output::of(&mut async_run(&place, &[], &["sh", "-c", times, "--", "sh", "-c", times]));
        let times: Vec<Vec<u128>> = answers(&output)
            .iter()
            .map(|answer| text(&answer["output"]).lines().map(|time| time.parse().unwrap()).collect())
            .collect();
        assert!(times[0][0] < times[1][1] && times[1][0] < times[0][1], "{times:?}");
    }
}

/// The program would wait for the status lines' end else: `kill_on_drop` ends all of a launch.
#[test]
fn a_command_that_is_dropped_leaves_nothing() {
    for place in Place::each() {
        let (first, second) = (long(1), long(2));
        let commands = ["true", "--", "sleep", &first, "--", "setsid", "--wait", "sleep", &second];
        let output = Output::of(&mut async_run(&place, &["--first"], &commands));
        assert_eq!(answers(&output), [json!({"number": 0, "status": 0, "output": "", "opened": []})]);
        wait_until(|| !runs(&first) && !runs(&second));
    }
}

/// Seconds to sleep that nobody else on this machine does, another run of the tests at the same time
/// included: the last digit is the caller's, who has it to himself in this file.
fn long(digit: u32) -> String {
    format!("71{}{digit}", std::process::id())
}

/// Whether a process has this argument.
fn runs(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .any(|line| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()))
}

#[test]
fn a_command_is_given_everything_that_a_launch_has() {
    for place in Place::each() {
        let argument = OsStr::from_bytes(b"a\xff\xfe \n'\"$HOME\\");
        let script = "cat; printf '%s' \"$1\"; cat $SKILLS_DIR/demo/SKILL.md >&2; sleep 0.3; exit 7";
        let command = ["sh".as_ref(), "-c".as_ref(), script.as_ref(), "sh".as_ref(), argument];
        let mut run = run(&place, &[], &command);
        let mut child =
            run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"input\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert_eq!(output.stdout, [b"input\n", argument.as_bytes()].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        let skill = std::fs::read_to_string(place.snapshot.join("demo/SKILL.md")).unwrap();
        assert!(stderr.contains(&skill), "{stderr}");
        let lines: Vec<Value> = stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(events(&lines), ["planned", "verified", "sealed", "started", "opened", "exited"]);
        let record = record(&place);
        assert_eq!((&record["outcome"], &record["exit"]), (&"exited".into(), &json!({"status": 7})));
        assert_eq!(record["opened"], json!({"complete": true, "files": ["demo/SKILL.md"]}));
        assert_eq!((&record["id"], &record["snapshot"]), (&"example".into(), &place.digest.as_str().into()));
        assert!(text(&record["started_at"]) < text(&record["ended_at"]), "{record}");
        place.verify();
    }
}

#[test]
fn a_launch_that_fails_is_told_in_a_line() {
    for place in Place::each() {
        let output = Output::of(&mut run(&place, &[], &["/usr"]));
        let lines: Vec<&str> = output.stderr.lines().collect();
        assert_eq!(output.status, 126, "{output:?}");
        assert_eq!(lines.last(), Some(&"error: cannot run `/usr`: Permission denied (os error 13)"));
        let last: Value = serde_json::from_str(lines[lines.len() - 2]).unwrap();
        assert_eq!((&last["event"], &last["code"]), (&"error".into(), &"command-not-executable".into()));
        assert_eq!(record(&place)["error"]["code"], last["code"]);
    }
}

/// What is looked at after the end is handed over too.
#[test]
fn a_skill_that_the_command_plants_is_noticed() {
    for place in Place::each() {
        Output::of(&mut place.env.command_of("chmod", ["a+rwx", "ws"])).ok();
        let output = Output::of(&mut run(&place, &[], &["mkdir", "-p", ".agents/skills/evil"]));
        assert_eq!(output.status, 125, "{output:?}");
        let record = record(&place);
        assert_eq!(
            (&record["outcome"], &record["error"]["code"]),
            (&"failed".into(), &"source-appeared".into())
        );
    }
}

/// A program that has started a command which says that it is ready.
fn ready(place: &Place, options: &[&str], script: &str) -> (Child, BufReader<ChildStderr>) {
    let mut command = run(place, options, &["sh", "-c", script]);
    // What it leaves behind can be told by its group.
    command.process_group(0);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let lines = BufReader::new(child.stderr.take().unwrap());
    (child, lines)
}

fn shell(script: &str, pid: u32) {
    Output::of(Command::new("sh").args(["-c", script, "sh", &pid.to_string()])).ok();
}

/// With namespaces, and without them, where the snapshot lies where every user reaches it.
fn enclosures() -> impl Iterator<Item = (Place, &'static [&'static str])> {
    let landlock = Place::each().map(|mut place| {
        let copy = place.work("snapshot");
        Output::of(Command::new("cp").arg("-a").args([&place.snapshot, &copy])).ok();
        place.snapshot = copy;
        (place, &["--landlock"][..])
    });
    Place::each().map(|place| (place, &[][..])).chain(landlock)
}

/// The thread that started the command has ended by then; its process has not.
#[test]
fn the_end_of_the_program_is_the_end_of_its_command() {
    for (place, options) in enclosures() {
        let long = long(3);
        let script = format!("echo ready; trap '' TERM HUP; setsid sleep {long} & sleep {long}");
        let (mut child, mut lines) = ready(&place, options, &script);
        wait_until(|| runs(&long));
        shell("kill -9 $1", child.id());
        child.wait().unwrap();
        let mut rest = String::new();
        // Whoever still had standard error open would keep this from ending.
        lines.read_to_string(&mut rest).unwrap();
        let last: Vec<Value> = rest.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(events(&last).last().map(String::as_str), Some("caller-ended"), "{rest}");
        assert!(!runs(&long));
        let record = record(&place);
        assert_eq!(
            (&record["outcome"], &record["error"]["code"]),
            (&"failed".into(), &"caller-ended".into())
        );
        assert_eq!(record["opened"]["complete"] == true, options.is_empty());
    }
}

#[test]
fn a_killed_supervisor_takes_everything_along() {
    for (place, options) in enclosures() {
        let long = long(4);
        let script = format!("echo ready; setsid sleep {long} & sleep {long}");
        let (mut child, mut lines) = ready(&place, options, &script);
        wait_until(|| runs(&long));
        shell("pkill -9 -P $1", child.id());
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        // It was killed itself, which the example tells so.
        assert_eq!(child.wait().unwrap().code(), Some(255));
        wait_until(|| !runs(&long));
        // Nobody was there to write down how it ended.
        assert_eq!(record(&place)["outcome"], "started");
    }
}

#[test]
fn a_signal_to_the_supervisor_reaches_the_command() {
    for place in Place::each() {
        let script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done";
        let (mut child, _lines) = ready(&place, &[], script);
        shell("pkill -TERM -P $1", child.id());
        assert_eq!(child.wait().unwrap().code(), Some(9));
        assert_eq!(record(&place)["exit"], json!({"status": 9}));
    }
}

#[test]
fn a_low_limit_of_descriptors_is_no_obstacle() {
    for place in Place::each() {
        let starter = ["-c", "ulimit -Sn 14; exec \"$@\"", "sh"];
        let mut limited = place.env.command_of("sh", starter);
        let run = run(&place, &[], &["sh", "-c", "ulimit -Sn"]);
        limited.arg(run.get_program()).args(run.get_args());
        let output = Output::of(&mut limited);
        assert!(output.ok().lines().any(|line| line == "14"), "{output:#?}");
    }
}
