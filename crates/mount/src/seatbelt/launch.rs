//! Starting a command under a Seatbelt profile, and following it to its end: macOS alone.
//!
//! There is no first process of ours inside: `sandbox-exec` becomes the command. Whether the profile holds
//! is tried by processes of its own before. When this process is killed, the command goes on.

#![expect(clippy::disallowed_methods, reason = "looks at this process's own descriptors")]

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::iter;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;

use camino::Utf8PathBuf;
use nix::libc;
use rustix::fs::statfs;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use skillfreeze_manifest::{MANIFEST_FILE, SKILL_FILE};

use super::{Profile, Resolved, SANDBOX_EXEC, arguments};
use crate::exit::Ended;
use crate::exit::Exit;
use crate::launch::Launch;
use crate::launch_error::LaunchError;
use crate::private;
use crate::record::{InsideRecord, RunRecord};
use crate::record_file::RecordFile;
use crate::signals::SignalRelay;
use crate::status::{Event, StatusWriter};

/// What tries the profile: parts of macOS.
const CAT: &str = "/bin/cat";
const CHMOD: &str = "/bin/chmod";

fn failed(doing: &'static str) -> impl Fn(io::Error) -> LaunchError {
    move |source| LaunchError::Start { doing, source }
}

impl Launch {
    /// Starts the command and waits for its end.
    pub(crate) fn seal_and_execute(
        &mut self,
        _: &[RecordFile],
        record: &mut RunRecord,
        status: &mut StatusWriter,
        has_started: &mut bool,
    ) -> Result<Ended, LaunchError> {
        if let Some(private) = self.plan.private() {
            let owner = self.plan.drops_privileges.then_some(self.plan.user);
            private::make(&private)
                .and_then(|()| owner.map_or(Ok(()), |owner| private::give(&private, owner)))
                .map_err(failed("making the launch's own directory"))?;
        }
        let profile = self.plan.seatbelt_profile(self.verified.path(), &Resolved::of_host);
        let profile = profile.map_err(LaunchError::Plan)?;
        let inside = self.try_profile(&profile)?;
        let noexec = inside.noexec;
        record.checks.inside = Some(inside);

        let mut words = self.plan.command.iter();
        let program = words.next().cloned().unwrap_or_default();
        let mut command = self.enclosed(&profile).map_err(failed("listing descriptors"))?;
        command.arg(&program).args(words);
        // What can fail does so before the command runs.
        let relay = Relay::start().map_err(failed("relaying signals"))?;
        let mut child = command.spawn().map_err(failed("starting `sandbox-exec`"))?;
        let group = Pid::from_child(&child);
        relay.to(group);
        *has_started = true;
        status.send(&Event::Started);
        let waited = wait_unreaped(group);
        // Its number is its own until it is reaped: before that, nobody signals it any more, and what it has
        // left behind in its group ends.
        relay.end();
        let _ = kill_process_group(group, Signal::KILL);
        let ended = child.wait();
        let ended = waited.and(ended).map_err(failed("waiting for the command"))?;
        let exit = match (ended.code(), ended.signal()) {
            (Some(status), _) => Exit::Status(status),
            (None, signal) => Exit::Signal(signal.unwrap_or(0)),
        };
        Ok(Ended { exit, how: self.plan.how, noexec })
    }

    /// `sandbox-exec` with everything but the command.
    fn enclosed(&self, profile: &Profile) -> io::Result<Command> {
        let mut command = self.as_user(SANDBOX_EXEC)?;
        command.args(arguments(profile));
        Ok(command)
    }

    /// A program as the command's user, with the command's environment and the descriptors that it keeps.
    fn as_user(&self, program: &str) -> io::Result<Command> {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(&self.plan.environment)
            .current_dir(&self.plan.working_directory)
            // A terminal's keys are for this process, which passes the signals on.
            .process_group(0);
        if self.plan.drops_privileges {
            command.uid(self.plan.user.0).gid(self.plan.user.1);
        }
        let open =
            fs::read_dir("/dev/fd")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        skillfreeze_sys::keep_only(&mut command, open.max().unwrap_or(2), self.plan.keep.clone());
        Ok(command)
    }

    /// Tries the profile: every `SKILL.md` can be read, and who could change a mode cannot under it, which is
    /// harmless where that does not fail.
    fn try_profile(&self, profile: &Profile) -> Result<InsideRecord, LaunchError> {
        /// So many paths fit on any command line.
        const PATHS: usize = 500;
        let skills_dir = &self.plan.names.skills_dir;
        let attempt = |command: io::Result<Command>, arguments: &[Utf8PathBuf]| {
            let mut command = command.map_err(failed("listing descriptors"))?;
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
            command.output().map_err(failed("trying the profile"))
        };
        let inside = |program: &str, arguments: &[Utf8PathBuf]| {
            let command = self.enclosed(profile).map(|mut command| {
                command.arg(program);
                command
            });
            attempt(command, arguments)
        };
        let needed = |output: Output| {
            let message = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let is_done = output.status.success();
            if is_done { Ok(()) } else { Err(LaunchError::Seatbelt { message: message() }) }
        };
        let files = self.plan.skills.iter().map(|skill| skills_dir.join(skill.as_str()).join(SKILL_FILE));
        let files: Vec<Utf8PathBuf> = iter::once(skills_dir.join(MANIFEST_FILE)).chain(files).collect();
        for files in files.chunks(PATHS) {
            needed(inside(CAT, files)?)?;
        }
        let change = ["0555".into(), skills_dir.clone()];
        // Who cannot change it anyway shows nothing of the profile by failing.
        let mut probes = 0;
        if attempt(self.as_user(CHMOD), &change)?.status.success() {
            if let Some(private) = self.plan.private() {
                // Nor does a program that does not work under it.
                needed(inside(CHMOD, &["0700".into(), private])?)?;
            }
            if inside(CHMOD, &change)?.status.success() {
                let detail = format!("chmod of `{skills_dir}` succeeds");
                return Err(LaunchError::SelfCheck { check: "mount-writable".to_owned(), detail });
            }
            probes = 1;
        }
        let mounted =
            statfs(skills_dir.as_std_path()).map_err(|errno| failed("looking at the mount")(errno.into()))?;
        let noexec = mounted.f_flags & libc::MNT_NOEXEC.cast_unsigned() != 0;
        Ok(InsideRecord { skills: self.plan.skills.len() as u64, probes, noexec })
    }
}

/// Waits until a child has ended, and leaves it to be reaped.
fn wait_unreaped(child: Pid) -> io::Result<()> {
    loop {
        match waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(Errno::INTR) => {}
            waited => return Ok(waited.map(drop)?),
        }
    }
}

/// Passes signals that this process receives on to a command, once it is told which.
struct Relay {
    signals: SignalRelay,
    /// Keeps the pipe open until the end.
    control: File,
    command: mpsc::Sender<Pid>,
    thread: thread::JoinHandle<()>,
}

impl Relay {
    fn start() -> io::Result<Self> {
        let (mut numbers, control) = io::pipe()?;
        let control = File::from(OwnedFd::from(control));
        let signals = SignalRelay::new(&control, &std::sync::Arc::default())?;
        let (command, told) = mpsc::channel();
        let relay = move || {
            let Ok(command) = told.recv() else { return };
            let mut number = [0];
            while numbers.read_exact(&mut number).is_ok() {
                if let Some(signal) = Signal::from_named_raw(number[0].into()) {
                    let _ = kill_process(command, signal);
                }
            }
        };
        let thread = thread::Builder::new().spawn(relay)?;
        Ok(Self { signals, control, command, thread })
    }

    fn to(&self, command: Pid) {
        // The thread waits for it.
        let _ = self.command.send(command);
    }

    /// After this, nothing is sent any more.
    fn end(self) {
        let Self { signals, control, command, thread } = self;
        drop((signals, control, command));
        let _ = thread.join();
    }
}
