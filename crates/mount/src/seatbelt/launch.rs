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
use std::process::{Command, Stdio};
use std::thread;

use camino::Utf8PathBuf;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
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
        record.checks.inside = Some(self.try_profile(&profile)?);

        let mut words = self.plan.command.iter();
        let program = words.next().cloned().unwrap_or_default();
        let mut command = self.enclosed(&profile);
        command.arg(&program).args(words);
        self.close_others().map_err(failed("closing descriptors"))?;
        let mut child = command.spawn().map_err(failed("starting `sandbox-exec`"))?;
        *has_started = true;
        status.send(&Event::Started);
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
        let (mut signals, control) = io::pipe().map_err(failed("relaying signals"))?;
        let control = File::from(OwnedFd::from(control));
        let relay = SignalRelay::new(&control).map_err(failed("relaying signals"))?;
        thread::spawn(move || {
            let mut number = [0];
            while signals.read_exact(&mut number).is_ok() {
                if let Ok(signal) = Signal::try_from(i32::from(number[0])) {
                    let _ = kill(group, signal);
                }
            }
        });
        let ended = child.wait().map_err(failed("waiting for the command"));
        drop(relay);
        // What it has left behind in its group ends with it.
        let _ = killpg(group, Signal::SIGKILL);
        let ended = ended?;
        let exit = match (ended.code(), ended.signal()) {
            (Some(status), _) => Exit::Status(status),
            (None, signal) => Exit::Signal(signal.unwrap_or(0)),
        };
        Ok(Ended { exit, how: self.plan.how, noexec: false })
    }

    /// `sandbox-exec` with everything but the command.
    fn enclosed(&self, profile: &Profile) -> Command {
        let mut command = Command::new(SANDBOX_EXEC);
        command
            .args(arguments(profile))
            .env_clear()
            .envs(&self.plan.environment)
            .current_dir(&self.plan.working_directory)
            // A terminal's keys are for this process, which passes the signals on.
            .process_group(0);
        if self.plan.drops_privileges {
            command.uid(self.plan.user.0).gid(self.plan.user.1);
        }
        command
    }

    /// Marks every descriptor above the first three close-on-exec, but those that the command keeps.
    fn close_others(&self) -> io::Result<()> {
        let open: Vec<i32> = fs::read_dir("/dev/fd")?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|number| *number > 2)
            .collect();
        for number in open {
            match skillfreeze_sys::set_cloexec(number, !self.plan.keep.contains(&number)) {
                // The one that the list was read from.
                Err(error) if error.raw_os_error() == Some(Errno::EBADF as i32) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Tries the profile: every `SKILL.md` can be read, and the owner cannot change modes, which is harmless
    /// where that fails.
    fn try_profile(&self, profile: &Profile) -> Result<InsideRecord, LaunchError> {
        /// So many paths fit on any command line.
        const PATHS: usize = 500;
        let skills_dir = &self.plan.names.skills_dir;
        let attempt = |program: &str, arguments: &[Utf8PathBuf]| {
            let mut command = self.enclosed(profile);
            command.arg(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
            command.output().map_err(failed("starting `sandbox-exec`"))
        };
        let files = self.plan.skills.iter().map(|skill| skills_dir.join(skill.as_str()).join(SKILL_FILE));
        let files: Vec<Utf8PathBuf> = iter::once(skills_dir.join(MANIFEST_FILE)).chain(files).collect();
        for files in files.chunks(PATHS) {
            let read = attempt("/bin/cat", files)?;
            if !read.status.success() {
                let message = String::from_utf8_lossy(&read.stderr).trim().to_owned();
                return Err(LaunchError::Seatbelt { message });
            }
        }
        if attempt("/bin/chmod", &["0555".into(), skills_dir.clone()])?.status.success() {
            let (check, detail) = ("mount-writable".to_owned(), format!("chmod of `{skills_dir}` succeeds"));
            return Err(LaunchError::SelfCheck { check, detail });
        }
        Ok(InsideRecord { skills: self.plan.skills.len() as u64, probes: 1, noexec: false })
    }
}
