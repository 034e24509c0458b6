//! Runs a sandboxed command by the standard library alone, and keeps a record.
//!
//! ```sh
//! run [--landlock] SNAPSHOT_DIRECTORY DIGEST RECORD_DIRECTORY WORKSPACE COMMAND…
//! ```
//!
//! It ends as the command does, which works in the workspace and may write it. Status lines go to standard error, the record to `record.json` in the record
//! directory. With `--landlock` it needs no namespaces, and promises less.
#![expect(clippy::disallowed_methods, reason = "an example opens what it is about")]

use std::ffi::OsString;
use std::process::ExitCode;
use std::thread;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use skillfreeze::manifest::Silent;
use skillfreeze::mount::{
    Bind, BubblewrapChoice, Host, Integrity, Launch, LaunchRequest, RecordFile, RunContext, Sandbox, Session,
    StatusWriter, Verified,
};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<ExitCode, Error> {
    // First of all: a launch starts this program again.
    skillfreeze::init();
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let by_landlock = arguments.first().is_some_and(|argument| argument == "--landlock");
    arguments.drain(..usize::from(by_landlock));
    let usage = "usage: run [--landlock] SNAPSHOT_DIRECTORY DIGEST RECORD_DIRECTORY WORKSPACE COMMAND…";
    let [path, digest, records, workspace, command @ ..] = arguments.as_slice() else {
        return Err(usage.into());
    };
    let text = |argument: &OsString| argument.to_str().map(str::to_owned).ok_or(usage);
    let (path, digest, workspace) = (text(path)?, text(digest)?, text(workspace)?);

    let dir = Dir::open_ambient_dir(&path, ambient_authority())?;
    let verified = Verified::check(dir, path.as_str().into(), digest.parse()?, &Silent)?;
    let search = BubblewrapChoice::Search { directories: &["/usr/bin".into()], outside: &[] };
    let mut request = LaunchRequest::new(command.to_vec());
    request.workspace = Some(Bind::resolve(workspace.as_str().into(), None, true)?);
    if by_landlock {
        request.sandbox = Sandbox::Landlock;
        request.require = Some(Integrity::ReadOnly);
    }
    let launch = Launch::new(verified, request, &Host::probe(Some(&search))?)?;

    let context = RunContext {
        id: "example".to_owned(),
        actor: "example".to_owned(),
        requested: vec![digest],
        packages: Vec::new(),
    };
    let mut session = Session::new(context, &Silent);
    let records = Dir::open_ambient_dir(records, ambient_authority())?;
    session.records = vec![RecordFile::new(records, "record.json".to_owned())?];
    session.status = StatusWriter::to_descriptor(2)?;
    let mut command = launch.command(session)?;
    // The thread that starts the command may end before it does, as one of a pool may.
    let mut child = thread::spawn(move || command.spawn()).join().expect("starting does not panic")?;
    let status = child.wait()?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)))
}
