//! A hostile process of the same user changes the snapshot all the time: what a sealed command reads is what
//! was hashed, or the command is never started.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;
use skillfreeze_testing::file;

use super::{Place, Way};

const HOSTILE: &str = include_str!("hostile.py");
/// Launches for each user and way; `scripts/soak` asks for more.
const LAUNCHES: usize = 100;
/// What the command does: everything is read twice, with time between for who wants to change it.
const READ: &str = "cd $SKILLS_DIR; for _ in 1 2; do \
                    find . -type f -print0 | sort -z | xargs -0 sha256sum; sleep 0.01; done; \
                    demo/scripts/go there";
/// What may keep a launch from starting: each says that the snapshot is not as it should be, or not there.
const REFUSALS: [&str; 3] = ["integrity", "snapshot-unknown", "not-found"];
/// How a refusal is told that came when the first check had already passed.
const WHILE_SEALING: &str = "the snapshot changed while it was sealed";

/// The hostile process, ended when dropped.
struct Hostile<'a> {
    place: &'a Place,
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl<'a> Hostile<'a> {
    fn new(place: &'a Place) -> Self {
        let mut hostile = place.env.command_of("python3", ["-c", HOSTILE]);
        hostile.arg(&place.snapshot).arg(place.work("stop")).stdout(Stdio::piped());
        let mut child = hostile.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        stdout.read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        Self { place, child, stdout }
    }

    /// Lets it undo its last change; gives how often each kind of change was there to be seen.
    fn stop(mut self) -> BTreeMap<String, u64> {
        file(self.place.work("stop"), "");
        let mut seen = String::new();
        self.stdout.read_line(&mut seen).unwrap();
        assert!(self.child.wait().unwrap().success(), "the hostile process failed");
        serde_json::from_str(&seen).unwrap()
    }
}

impl Drop for Hostile<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launches() -> usize {
    std::env::var("SKILLFREEZE_SOAK").map_or(LAUNCHES, |number| number.parse().unwrap())
}

#[test]
fn a_command_of_a_stage_reads_what_was_hashed_or_is_never_started() {
    launch_beside_a_hostile_process(Way::Stage);
}

#[test]
fn a_command_of_memory_files_reads_what_was_hashed_or_is_never_started() {
    launch_beside_a_hostile_process(Way::MemoryFiles);
}

#[expect(clippy::print_stdout, reason = "the soak shows the figures")]
fn launch_beside_a_hostile_process(way: Way) {
    for place in Place::each_of(&[way]) {
        let command = ["sh", "-c", READ];
        let expected = place.run(&[], &command).ok().to_owned();
        assert!(expected.lines().count() > 8 && expected.ends_with("gone with there\n"), "{expected}");
        let hostile = Hostile::new(&place);
        let (mut started, mut before, mut while_sealing) = (0, 0, 0);
        for _ in 0..launches() {
            let output = place.run(&["--json"], &command);
            if output.status == 0 {
                assert_eq!((output.stdout.as_str(), output.stderr.as_str()), (expected.as_str(), ""));
                started += 1;
                continue;
            }
            assert_eq!((output.status, output.stdout.as_str()), (125, ""), "{output:#?}");
            let error: Value = serde_json::from_str(output.stderr.lines().last().unwrap()).unwrap();
            assert!(REFUSALS.contains(&error["code"].as_str().unwrap()), "{error}");
            let is_late = error["message"].as_str().unwrap().starts_with(WHILE_SEALING);
            *(if is_late { &mut while_sealing } else { &mut before }) += 1;
        }
        let changes = hostile.stop();
        println!(
            "{way:?}, {:?}: {started} started, {before} refused by the check, {while_sealing} while sealing; \
             changes: {changes:?}",
            place.env.runner()
        );
        // Neither half says anything if the other is empty.
        assert!(started > 0 && before + while_sealing > 0, "{started}, {before}, {while_sealing}");
        assert!(changes.len() > 15 && changes.values().all(|seen| *seen > 0), "{changes:?}");
        place.verify();
        assert!(fs::metadata(place.work("stop")).is_ok());
    }
}
