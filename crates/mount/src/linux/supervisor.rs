//! A launch in a process of its own, for callers that want a command to start, with streams of their choice.
//!
//! [`Launch::command`] gives the calling program itself, which starts again as *supervisor*: it is the `main`
//! of the launch. Everything goes to it by descriptors at agreed numbers: first a memory file with what can
//! be written down, then the rest, in the order in which it is named there. The supervisor lives no longer
//! than the process that made it: it watches that, and not the thread, which may end when it has started it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{OwnedFd, RawFd};
use std::process::Command;

use camino::Utf8PathBuf;
use cap_std::fs::Dir;
use command_fds::{CommandFdExt as _, FdMapping};
use rustix::process::{PidfdFlags, Resource, Rlimit, getpid, getrlimit, pidfd_open, setrlimit};
use serde::{Deserialize, Serialize};
use skillfreeze_manifest::{Digest, Manifest, Silent};

use crate::guard::Guard;
use crate::integrity::{Integrity, Seal};
use crate::launch::Launch;
use crate::linux::descriptors::{make_room, soft_limit};
use crate::linux::protocol::{Numbers, SUPERVISOR, memory_file, receive};
use crate::plan::LaunchPlan;
use crate::record::RunContext;
use crate::record_file::RecordFile;
use crate::session::{Session, describe};
use crate::status::StatusWriter;
use crate::verify::{Counts, Verified};

/// What can be written down of a launch and its session.
#[derive(Serialize, Deserialize)]
struct Handoff {
    path: Utf8PathBuf,
    digest: Digest,
    manifest: String,
    /// Files and bytes that were hashed.
    counts: (u64, u64),
    plan: LaunchPlan,
    /// A plan is written for people to read; these are its own, byte for byte.
    command: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    required: Option<Integrity>,
    seal: Option<Seal>,
    guards: Vec<Guard>,
    kernel: String,
    memory: Option<u64>,
    context: RunContext,
    /// The descriptors beside the snapshot and the caller: a directory for each of these names, then
    /// these.
    records: Vec<String>,
    /// The limit of descriptors that the command gets.
    soft_limit: Option<u64>,
    has_status: bool,
    has_lease: bool,
}

impl Launch {
    /// The launch as a command that the caller starts and waits for, by the standard library or an async
    /// runtime: what [`run`](Self::run) does, in a process of its own.
    ///
    /// Its standard streams are the sandboxed command's; its environment, arguments and working directory
    /// are not, and are to be left alone. Its exit status is the command's, 128+n when signal n ended that,
    /// 127 and 126 when it could not be started, and 125 for every failure of the launch itself, which is
    /// also a line on standard error and the last status line. The signals that `run` passes on, it passes
    /// on too. To kill it is to end everything inside; so is the end of the process that calls this, while
    /// the thread that starts the command may end.
    ///
    /// Start it once, and drop the `Command` then: it holds the lease and the end of the status lines.
    /// The session's progress is told nothing. The calling program must call [`init`](crate::init) first of
    /// all.
    ///
    /// # Errors
    /// What the system says when a descriptor or a memory file cannot be had.
    pub fn command(self, session: Session<'_>) -> io::Result<Command> {
        let Session { context, records, status, lease, progress: _ } = session;
        let (status, lease) = (status.into_descriptor(), lease);
        let (dir, path, digest, manifest, counts) = self.verified.into_parts();
        let numbers = Numbers::above(&self.plan.keep);
        let (names, directories): (Vec<String>, Vec<OwnedFd>) =
            records.into_iter().map(RecordFile::into_parts).unzip();
        let handoff = Handoff {
            path,
            digest,
            manifest: String::from_utf8(manifest.to_bytes()).expect("JSON is UTF-8"),
            counts: (counts.files, counts.bytes),
            command: self.plan.command.clone(),
            environment: self.plan.environment.clone().into_iter().collect(),
            plan: self.plan,
            required: self.required,
            seal: self.seal,
            guards: self.guards,
            kernel: self.kernel,
            memory: self.memory,
            context,
            records: names,
            soft_limit: soft_limit(),
            has_status: status.is_some(),
            has_lease: lease.is_some(),
        };
        let written = memory_file("supervisor-plan", &serde_json::to_vec(&handoff)?)?;
        let caller = pidfd_open(getpid(), PidfdFlags::empty())?;
        let handed = [OwnedFd::from(written), OwnedFd::from(dir), caller].into_iter();
        let handed: Vec<OwnedFd> = handed.chain(directories).chain(status).chain(lease).collect();
        make_room(numbers, handed.len()).map_err(io::Error::other)?;
        let mappings =
            numbers.supervisors().zip(handed).map(|(child_fd, parent_fd)| FdMapping { parent_fd, child_fd });
        let mut command = Command::new("/proc/self/exe");
        command.arg(SUPERVISOR).arg(numbers.to_argument()).env_clear();
        command.fd_mappings(mappings.collect()).map_err(|_| io::Error::from(io::ErrorKind::AlreadyExists))?;
        Ok(command)
    }
}

/// Runs the supervisor; gives the exit status.
pub(crate) fn run(numbers: Numbers) -> i32 {
    let failed = |message: &str| {
        // Nothing can be said to somebody who does not listen.
        let _ = writeln!(io::stderr(), "error: {}", message.replace('\n', " "));
    };
    let (launch, session) = match take_over(numbers) {
        Ok(taken) => taken,
        Err(error) => {
            failed(&format!("the launch cannot be taken over: {error}"));
            return 125;
        }
    };
    match launch.run(session) {
        Ok(ended) => ended.exit.code(),
        Err(error) => {
            failed(&describe(&error).message);
            error.status()
        }
    }
}

/// Takes over what [`Launch::command`] left.
fn take_over(numbers: Numbers) -> io::Result<(Launch, Session<'static>)> {
    let mut numbers = numbers.supervisors();
    let handoff: Handoff = receive(numbers.next().unwrap_or(RawFd::MAX))?;
    let mut next = || skillfreeze_sys::inherited(numbers.next().unwrap_or(RawFd::MAX));
    let (dir, caller) = (next()?, next()?);
    let records = handoff.records.into_iter().map(|name| Ok(RecordFile::from_parts(name, next()?)));
    let records = records.collect::<io::Result<_>>()?;
    let status = if handoff.has_status { StatusWriter::from(next()?) } else { StatusWriter::default() };
    let lease = if handoff.has_lease { Some(next()?) } else { None };
    // It was raised to hand all of this over.
    setrlimit(Resource::Nofile, Rlimit { current: handoff.soft_limit, ..getrlimit(Resource::Nofile) })?;
    // What comes after is handed what it needs, and what the command keeps.
    skillfreeze_sys::cloexec_from(3)?;
    handoff.plan.keep.iter().try_for_each(|number| skillfreeze_sys::set_cloexec(*number, false))?;

    let manifest = Manifest::parse(handoff.manifest.as_bytes()).map_err(io::Error::other)?;
    let (files, bytes) = handoff.counts;
    let verified = Verified::from_parts(
        Dir::from_std_file(File::from(dir)),
        handoff.path,
        handoff.digest,
        manifest,
        Counts { files, bytes },
    );
    let plan = LaunchPlan {
        command: handoff.command,
        environment: handoff.environment.into_iter().collect(),
        ..handoff.plan
    };
    let launch = Launch {
        verified,
        plan,
        required: handoff.required,
        seal: handoff.seal,
        guards: handoff.guards,
        kernel: handoff.kernel,
        memory: handoff.memory,
        caller: Some(caller),
    };
    let session = Session { context: handoff.context, records, status, lease, progress: &Silent };
    Ok((launch, session))
}
