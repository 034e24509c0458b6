//! Sealing: what is sealed, by which way, and what is refused before the command starts.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use skillfreeze_testing::{Output, Runner, file, package, record_skip, skip};

use super::{Place, Way, events};
use crate::support::{codes, prepare, text};

/// Becomes a program that cannot mount anything itself, while bubblewrap can.
const NO_STAGE: &str = include_str!("no_stage.py");
/// Prints the digest of each file of the skills.
const DIGESTS: &str = "cd $SKILLS_DIR && find . -type f -print0 | sort -z | xargs -0 sha256sum";

/// The program where no stage can be mounted, with status lines.
pub(super) fn run_without_stage(place: &Place, arguments: &[&str]) -> (Output, Vec<Value>) {
    let mut run = place.env.command_of("sh", ["-c", super::WITH_STATUS, "sh", "python3", "-c", NO_STAGE]);
    run.arg(place.env.program()).args(["run", "--status-fd", "3"]).args(arguments);
    let output = Output::of(&mut run);
    (output, place.lines())
}

pub(super) fn knows_the_system_calls() -> bool {
    let knows = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    if !knows {
        record_skip("the number of unshare(2) is known for x86_64 and aarch64 only");
    }
    knows
}

#[test]
fn memory_files_are_taken_where_no_stage_can_be_mounted() {
    for place in Place::each().filter(|_| knows_the_system_calls()) {
        let command = ["--", "sh", "-c", "echo $SKILLS_INTEGRITY; cat $SKILLS_DIR/demo/SKILL.md"];
        let (output, lines) = run_without_stage(&place, &[&[place.digest.as_str()], &command[..]].concat());
        let skill = fs::read_to_string(place.snapshot.join("demo/SKILL.md")).unwrap();
        assert_eq!(output.ok(), format!("sealed\n{skill}"));
        assert_eq!(
            events(&lines),
            ["planned", "verified", "planned", "sealed", "started", "opened", "exited"]
        );
        assert_eq!(place.record()["opened"]["files"], serde_json::json!(["demo/SKILL.md"]));
        assert_eq!((&lines[0]["how"], &lines[2]["how"]), (&"staged-tmpfs".into(), &"sealed-memfd".into()));
        assert_eq!(lines[0]["run"], lines[2]["run"]);
        let launch = &place.record()["launch"];
        assert_eq!((&launch["integrity"], &launch["how"]), (&"sealed".into(), &"sealed-memfd".into()));
        place.verify();
    }
}

/// If the machine loses power while the command runs, the record that is left says how it ran.
#[test]
fn the_record_names_the_way_that_was_taken_while_the_command_runs() {
    for place in Place::each().filter(|_| knows_the_system_calls()) {
        let mut run = place.env.command_of("python3", ["-c", NO_STAGE]);
        run.arg(place.env.program()).args(["run", &place.digest, "--", "sh", "-c", "echo ready; read x"]);
        let mut child = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let record = place.record();
        assert_eq!(
            (&record["outcome"], &record["launch"]["how"]),
            (&"started".into(), &"sealed-memfd".into())
        );
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

#[test]
fn a_stage_that_was_asked_for_is_had_or_nothing_starts() {
    for place in Place::each().filter(|_| knows_the_system_calls()) {
        let arguments = ["--json", &place.digest, "--seal", "staged-tmpfs", "--", "echo", "started"];
        let (output, lines) = run_without_stage(&place, &arguments);
        let error = output.fails(125, "seal-unavailable");
        assert!(error["hint"].is_string() && text(&error["message"]).contains("not permitted"), "{error}");
        assert_eq!(
            (output.stdout.as_str(), events(&lines).join(" ")),
            ("", "planned verified seal-unavailable".into())
        );
        assert_eq!(place.record()["outcome"], "failed");
    }
}

/// The stage is mounted over a directory from which nothing is bound; where each has a use, there is none.
#[test]
fn a_stage_needs_a_directory_that_nothing_is_bound_from() {
    for place in Place::each() {
        let directories = ["/mnt", "/media", "/srv", "/opt", "/home"];
        let there = directories.iter().filter(|path| Path::new(path).is_dir());
        let binds: Vec<String> = there.map(|path| format!("--ro-bind={path}:/bound{path}")).collect();
        let mut options: Vec<&str> = binds.iter().map(String::as_str).collect();
        options.push("--json");
        place.run(&options, &["cat", "$SKILLS_DIR/demo/SKILL.md"]).ok();
        assert_eq!(place.record()["launch"]["how"], "sealed-memfd");
        options.extend(["--seal", "staged-tmpfs"]);
        place.run(&options, &["true"]).fails(125, "seal-unavailable");
        // One that is free is enough.
        let free: Vec<&str> = options.into_iter().filter(|option| !option.contains("/srv")).collect();
        place.run(&free, &["true"]).ok();
    }
}

#[test]
fn doctor_says_which_way_sealing_takes() {
    for place in Place::each() {
        let checks = |output: &Output| {
            let found = output.json();
            (found["how"].clone(), codes(&found["checks"]), found)
        };
        let (how, _, found) = checks(&place.env.run(["doctor", "--json"]));
        assert_eq!((&how, &found["integrity"]), (&"staged-tmpfs".into(), &"sealed".into()));
        if !knows_the_system_calls() {
            continue;
        }
        let mut doctor = place.env.command_of("python3", ["-c", NO_STAGE]);
        let (how, codes, found) =
            checks(&Output::of(doctor.arg(place.env.program()).args(["doctor", "--json"])));
        assert_eq!((&how, &found["integrity"]), (&"sealed-memfd".into(), &"sealed".into()));
        assert!(codes.iter().any(|(code, _)| code == "seal-unavailable"), "{found}");
        let stage =
            found["checks"].as_array().unwrap().iter().find(|check| check["name"] == "stage").unwrap();
        assert!(!text(&stage["fix"]).is_empty() && stage["ok"] == false, "{stage}");
    }
}

/// How deep a file of a package may lie: so many directories, and the file.
const DEPTH: usize = 31;

/// A place with one more package, `big`, of many small files and of directories that go deep.
fn with_many_files(place: &mut Place, files: usize) {
    let big = package(place.work("src"), "big");
    for index in 0..files - DEPTH - 1 {
        file(big.join(format!("many/{index:05}-{}", "long".repeat(10))), format!("{index}\n"));
    }
    let mut deep = big;
    for index in 0..DEPTH {
        deep = deep.join(format!("d{index}"));
        file(deep.join("x"), format!("{index}\n"));
    }
    (place.digest, place.snapshot) = prepare(&place.env, "src");
}

/// What is in the snapshot, by `sha256sum`.
fn digests(place: &Place) -> String {
    let mut digests = place.env.command_of("sh", ["-c", DIGESTS]);
    Output::of(digests.env("SKILLS_DIR", &place.snapshot)).ok().to_owned()
}

#[test]
fn a_stage_holds_thousands_of_files_and_deep_directories() {
    for mut place in Place::each_of(&[Way::Stage]) {
        with_many_files(&mut place, 4096);
        let expected = digests(&place);
        assert_eq!(place.run(&[], &["sh", "-c", DIGESTS]).ok(), expected);
        assert!(expected.lines().count() >= 4096);
        let modes = "cd $SKILLS_DIR && find . -printf '%m %y %p\\n' | sort";
        let outside =
            Output::of(place.env.command_of("sh", ["-c", modes]).env("SKILLS_DIR", &place.snapshot));
        assert_eq!(place.run(&[], &["sh", "-c", modes]).ok(), outside.ok());
    }
}

#[test]
fn memory_files_are_as_many_as_the_limits_allow() {
    for mut place in Place::each_of(&[Way::MemoryFiles]) {
        with_many_files(&mut place, 1200);
        let expected = digests(&place);
        let limited = |limit: &str, command: &[&str]| {
            let program = place.env.program().to_str().unwrap();
            let script = format!("{limit} && exec \"$@\"");
            let mut run = place.env.command_of("sh", ["-c", &script, "sh", program, "run", "--json"]);
            Output::of(run.arg(&place.digest).args(place.options()).arg("--").args(command))
        };
        // The limit is raised for the launch, and is the caller's again for the command.
        let script = format!("ulimit -Sn >&2; {DIGESTS}");
        let output = limited("ulimit -Sn 256", &["sh", "-c", &script]);
        assert_eq!((output.ok(), output.stderr.as_str()), (expected.as_str(), "256\n"));
        let error = limited("ulimit -n 600", &["echo", "started"]).fails(125, "descriptor-limit");
        assert!(text(&error["message"]).contains("600") && error["hint"].is_string(), "{error}");
    }
    for mut place in Place::each_of(&[Way::MemoryFiles]) {
        with_many_files(&mut place, 1800);
        let output = place.run(&["--json"], &["echo", "started"]);
        let error = output.fails(125, "seal-too-many-files");
        assert!(text(&error["message"]).contains("9000") && error["hint"].is_string(), "{error}");
        assert_eq!(output.stdout, "");
    }
}

/// A machine that says it has little memory: nothing is started that it cannot hold.
#[test]
fn a_machine_with_too_little_memory_seals_nothing() {
    if !Runner::available().contains(&Runner::Root) {
        skip!("only root mounts over /proc/meminfo");
    }
    for place in Place::each().filter(Place::is_roots) {
        file(place.work("meminfo"), "MemTotal: 64 kB\nMemAvailable: 8 kB\n");
        let script = "mount --bind meminfo /proc/meminfo && exec \"$@\"";
        let run = |options: &[&str]| {
            let mut run = place.env.command_of("unshare", ["-m", "sh", "-c", script, "sh"]);
            run.arg(place.env.program()).args(["run", "--json", &place.digest]).args(options);
            Output::of(run.args(["--", "echo", "started"]))
        };
        for options in
            [&[][..], &["--seal", "staged-tmpfs"], &["--seal", "sealed-memfd"], &["--require", "sealed"]]
        {
            let output = run(options);
            let error = output.fails(125, "seal-memory");
            assert!(text(&error["message"]).contains("0 MiB are available"), "{error}");
            assert!(error["hint"].is_string() && output.stdout.is_empty(), "{error}");
        }
        assert!(place.records().is_empty());
        // The plan is refused, not the machine: what takes no memory goes further.
        assert!(!run(&["--require", "read-only"]).stderr.contains("seal-memory"));
    }
}

/// Memory files need the snapshot's memory twice, which is looked for when they are fallen back to.
#[test]
fn memory_for_one_copy_is_not_enough_for_memory_files() {
    if !Runner::available().contains(&Runner::Root) {
        skip!("only root mounts over /proc/meminfo");
    }
    for place in Place::each().filter(|place| place.is_roots() && knows_the_system_calls()) {
        // A page for each of four files and a kibibyte for each of seven inodes are 23.
        file(place.work("meminfo"), "MemAvailable: 30 kB\n");
        let script = "mount --bind meminfo /proc/meminfo && exec 3>status && exec \"$@\"";
        let mut run =
            place.env.command_of("unshare", ["-m", "sh", "-c", script, "sh", "python3", "-c", NO_STAGE]);
        run.arg(place.env.program()).args(["run", "--json", "--status-fd", "3", &place.digest]);
        let output = Output::of(run.args(["--", "echo", "started"]));
        output.fails(125, "seal-memory");
        assert_eq!(output.stdout, "");
        assert_eq!(events(&place.lines()), ["planned", "verified", "planned", "seal-memory"]);
        assert_eq!(place.record()["error"]["code"], "seal-memory");
    }
}

/// A memory control group with a limit, removed at the end; none where none can be made.
struct ControlGroup(PathBuf);

impl ControlGroup {
    fn new(limit: u64) -> Option<Self> {
        let name = format!("skillfreeze-{}", std::process::id());
        for (top, file) in
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
        {
            let group = Path::new(top).join(&name);
            if fs::create_dir(&group).is_err() {
                continue;
            }
            let group = Self(group);
            if fs::write(group.0.join(file), limit.to_string()).is_ok() {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_control_group_with_too_little_memory_seals_nothing() {
    for mut place in Place::each().filter(Place::is_roots) {
        let big = package(place.work("src"), "big");
        file(big.join("data"), vec![7; 64 << 20]);
        (place.digest, place.snapshot) = prepare(&place.env, "src");
        for (limit, refused) in [(48 << 20, true), (1 << 30, false)] {
            let Some(group) = ControlGroup::new(limit) else { skip!("no memory control group can be made") };
            let script = "echo $$ >$1/cgroup.procs && shift && exec \"$@\"";
            let mut run = place.env.command_of("sh", ["-c", script, "sh"]);
            run.arg(&group.0).arg(place.env.program()).args(["run", "--json", &place.digest]);
            let output = Output::of(run.args(["--", "echo", "started"]));
            if refused {
                output.fails(125, "seal-memory");
                assert_eq!(output.stdout, "");
            } else {
                assert_eq!(output.ok(), "started\n");
            }
        }
    }
}

/// Nobody outside the launch can see what it holds, and nothing is left of it.
#[test]
fn a_seal_is_gone_with_its_launch() {
    for place in Place::each_of(&[Way::Stage, Way::MemoryFiles]) {
        let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
        let before = mounts();
        let mut command = place.command(&[], &["sh", "-c", "echo ready; read x; exit 0"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!((line.as_str(), mounts()), ("ready\n", before.clone()));
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert_eq!(mounts(), before);
    }
}

/// What a package may have that a file system could make something of arrives as its bytes alone.
#[test]
fn no_mode_beyond_reading_and_executing_comes_in() {
    for place in Place::each_way() {
        let find = "find $SKILLS_DIR ! -type f ! -type d -o -perm /7222 -o -type d ! -perm 555";
        assert_eq!(place.run(&[], &["sh", "-c", find]).ok(), "");
        let flags = "grep ' /skills ' /proc/self/mountinfo | cut -d' ' -f6";
        let output = place.run(&[], &["sh", "-c", flags]);
        let flags: Vec<&str> = output.ok().trim().split(',').collect();
        for flag in ["ro", "nosuid", "nodev"] {
            assert!(flags.contains(&flag), "{flags:?}");
        }
    }
}
