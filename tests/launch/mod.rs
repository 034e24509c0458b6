//! Launches as a caller sees them, and as the command inside does.

mod after;
mod attack;
mod between;
mod bubblewrap;
mod doctor;
mod environment;
mod execution;
mod files;
mod hostile;
mod in_place;
mod kill;
mod landlock;
mod library;
mod limits;
mod lines;
mod opened;
mod plan;
mod read;
mod record;
mod refusals;
mod rootfs;
mod seal;
mod sealing;
mod signals;
mod sources;
mod status;
mod swap;
mod terminal;
mod user;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use skillfreeze_testing::{Output, Runner, TestEnv, directory, file, package, set_mode};

use crate::support::{environment, prepare, text};

/// Opens descriptor 3 for the status lines and becomes what its arguments say.
const WITH_STATUS: &str = r#"exec "$@" 3>status"#;

/// How a launch keeps the snapshot as it was when it was hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// In a private file system.
    Stage,
    /// In memory files.
    MemoryFiles,
    /// Not at all against others on the host: the snapshot itself is mounted, and checked again.
    Bind,
}

impl Way {
    const ALL: [Self; 3] = [Self::Stage, Self::MemoryFiles, Self::Bind];

    /// What asks for it.
    fn options(self) -> [&'static str; 2] {
        match self {
            Self::Stage => ["--seal", "staged-tmpfs"],
            Self::MemoryFiles => ["--seal", "sealed-memfd"],
            Self::Bind => ["--require", "read-only"],
        }
    }

    fn integrity(self) -> &'static str {
        if self == Self::Bind { "read-only" } else { "sealed" }
    }

    fn how(self) -> &'static str {
        match self {
            Self::Stage => "staged-tmpfs",
            Self::MemoryFiles => "sealed-memfd",
            Self::Bind => "bind",
        }
    }

    /// The events of a launch until the sandbox is started.
    fn begun(self) -> &'static [&'static str] {
        if self == Self::Bind { &["planned", "verified"] } else { &["planned", "verified", "sealed"] }
    }
}

/// A store with one snapshot of one package, `demo`, and a directory `ws` to work in.
struct Place {
    env: TestEnv,
    /// The snapshot's digest.
    digest: String,
    /// The snapshot's directory.
    snapshot: PathBuf,
    /// The way that launches take; none for what they take by themselves.
    way: Option<Way>,
}

impl Place {
    fn new(runner: Runner) -> Self {
        let env = environment(runner);
        let demo = package(env.work().join("src"), "demo");
        file(demo.join("scripts/go"), "#!/bin/sh\necho \"gone with $1\"\n");
        set_mode(demo.join("scripts/go"), 0o755);
        file(demo.join("scripts/tool.py"), "NAME = 'tool'\n");
        directory(env.work().join("ws"));
        let (digest, snapshot) = prepare(&env, "src");
        Self { env, digest, snapshot, way: None }
    }

    /// The same, as each user to be had here.
    fn each() -> impl Iterator<Item = Self> {
        Runner::available().iter().map(|runner| Self::new(*runner))
    }

    /// The same, for each of these ways.
    fn each_of(ways: &[Way]) -> impl Iterator<Item = Self> {
        let ways = ways.iter().map(|way| Some(*way));
        Runner::available()
            .iter()
            .flat_map(move |runner| ways.clone().map(|way| Self { way, ..Self::new(*runner) }))
    }

    /// The same, for each way.
    fn each_way() -> impl Iterator<Item = Self> {
        Self::each_of(&Way::ALL)
    }

    /// The way that launches take here.
    fn way(&self) -> Way {
        self.way.unwrap_or(Way::Stage)
    }

    /// What `run` is told of the way.
    fn options(&self) -> impl Iterator<Item = &'static str> {
        self.way.into_iter().flat_map(Way::options)
    }

    fn is_roots(&self) -> bool {
        self.env.runner() == Runner::Root
    }

    fn work(&self, path: impl AsRef<Path>) -> PathBuf {
        self.env.work().join(path)
    }

    /// `run SNAPSHOT OPTIONS -- COMMAND`, not yet started.
    fn command<S: AsRef<OsStr>>(&self, options: &[&str], command: &[S]) -> Command {
        let mut run = self.env.command(["run", &self.digest]);
        run.args(self.options()).args(options).arg("--").args(command);
        run
    }

    fn run<S: AsRef<OsStr>>(&self, options: &[&str], command: &[S]) -> Output {
        Output::of(&mut self.command(options, command))
    }

    /// `run` with these arguments and status lines; gives those too.
    fn run_with_lines<S: AsRef<OsStr>>(&self, arguments: &[S]) -> (Output, Vec<Value>) {
        let mut run = self.env.command_of("sh", ["-c", WITH_STATUS, "sh"]);
        run.arg(self.env.program()).args(["run", "--status-fd", "3"]).args(self.options()).args(arguments);
        let output = Output::of(&mut run);
        (output, self.lines())
    }

    fn lines(&self) -> Vec<Value> {
        let lines = std::fs::read_to_string(self.work("status")).unwrap();
        assert!(lines.is_empty() || lines.ends_with('\n'), "{lines}");
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Asserts that the snapshot is as it was frozen.
    #[track_caller]
    fn verify(&self) {
        let verified = self.env.run(["verify", &self.digest, "--json"]).json();
        assert_eq!((&verified["clean"], &verified["anchored"]), (&true.into(), &true.into()), "{verified}");
    }

    /// The records in the store, by their paths.
    fn records(&self) -> Vec<PathBuf> {
        let mut records = Vec::new();
        let mut open = vec![self.env.root().join("runs")];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() { open.push(path) } else { records.push(path) }
            }
        }
        records.sort();
        records
    }

    /// The only record in the store.
    #[track_caller]
    fn record(&self) -> Value {
        let records = self.records();
        assert_eq!(records.len(), 1, "{records:?}");
        serde_json::from_slice(&std::fs::read(&records[0]).unwrap()).unwrap()
    }
}

/// The names of the events of status lines; an error's is its code. How many lines tell what was opened is
/// a matter of timing, so there is one.
fn events(lines: &[Value]) -> Vec<String> {
    let event = |line: &Value| match line["event"].as_str() {
        Some("error") => text(&line["code"]),
        _ => text(&line["event"]),
    };
    let mut events: Vec<String> = lines.iter().map(event).collect();
    events.dedup_by(|event, before| event == "opened" && before == "opened");
    events
}

/// Waits for what another process does; fails after half a minute, so that nothing hangs.
#[track_caller]
fn wait_until(holds: impl Fn() -> bool) {
    for _ in 0..3000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert!(holds(), "it does not come true");
}
