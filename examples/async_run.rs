//! Runs several sandboxed commands at once in one async program, and reads what each prints and opens.
//!
//! ```sh
//! async_run [--first] SNAPSHOT_DIRECTORY DIGEST COMMAND… [-- COMMAND…]…
//! ```
//!
//! As each command ends, one line of JSON: its number, its exit status, its output, and the files of the
//! snapshot that it opened. With `--first` the others are ended when one has ended.
#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "an example opens what it is about")]

use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::{Value, json};
use skillfreeze::manifest::Silent;
use skillfreeze::mount::{
    BubblewrapChoice, Host, Launch, LaunchRequest, RunContext, Session, StatusWriter, Verified,
};
use tokio::process::Command;
use tokio::task::{JoinSet, spawn_blocking};

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Error> {
    // Before anything that may start a thread, as a runtime does: a launch starts this program again.
    skillfreeze::init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run_all(std::env::args().skip(1).collect()))
}

async fn run_all(mut arguments: Vec<String>) -> Result<(), Error> {
    let only_first = arguments.first().is_some_and(|argument| argument == "--first");
    arguments.drain(..usize::from(only_first));
    let [path, digest, commands @ ..] = arguments.as_slice() else {
        return Err("usage: async_run [--first] SNAPSHOT_DIRECTORY DIGEST COMMAND… [-- COMMAND…]…".into());
    };
    let mut running = JoinSet::new();
    for (number, command) in commands.split(|argument| argument == "--").enumerate() {
        let command = plan(path, digest, command)?;
        running.spawn(async move { (number, run(command).await) });
    }
    while let Some(ended) = running.join_next().await {
        let (number, ended) = ended?;
        let (status, output, opened) = ended?;
        println!("{}", json!({"number": number, "status": status, "output": output, "opened": opened}));
        if only_first {
            break;
        }
    }
    // What is dropped here while it runs is killed.
    Ok(())
}

/// A command to start, and where its status lines come from.
fn plan(path: &str, digest: &str, command: &[String]) -> Result<(Command, io::PipeReader), Error> {
    // All this reads the file system, so a server would do it by `spawn_blocking`.
    let dir = Dir::open_ambient_dir(path, ambient_authority())?;
    let verified = Verified::check(dir, path.into(), digest.parse()?, &Silent)?;
    let search = BubblewrapChoice::Search { directories: &["/usr/bin".into()], outside: &[] };
    let request = LaunchRequest::new(command.iter().map(Into::into).collect());
    let launch = Launch::new(verified, request, &Host::probe(Some(&search))?)?;

    let context = RunContext {
        id: "example".to_owned(),
        actor: "example".to_owned(),
        requested: vec![digest.to_owned()],
        packages: Vec::new(),
    };
    let (lines, writer) = io::pipe()?;
    let mut session = Session::new(context, &Silent);
    session.status = StatusWriter::from(OwnedFd::from(writer));
    Ok((Command::from(launch.command(session)?), lines))
}

async fn run(
    (mut command, mut lines): (Command, io::PipeReader),
) -> Result<(Option<i32>, String, Vec<Value>), Error> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    // It holds the other end of the status lines, which else would never end.
    drop(command);
    let lines = spawn_blocking(move || {
        let mut text = String::new();
        lines.read_to_string(&mut text).map(|_| text)
    });
    let (output, lines) = tokio::join!(child.wait_with_output(), lines);
    let (output, lines) = (output?, lines??);
    let lines = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let opened = lines.iter().filter(|line| line["event"] == "opened");
    let opened = opened.flat_map(|line| line["files"].as_array().cloned().unwrap_or_default()).collect();
    Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), opened))
}
