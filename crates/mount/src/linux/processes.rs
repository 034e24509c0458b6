//! Starting the processes of a launch and following their reports, on Linux: chooses how to seal.

use std::io;

use rustix::io::Errno;

use crate::backend::Backend;
use crate::exit::Ended;
use crate::exit::Exit;
use crate::integrity::Method;
use crate::launch::Launch;
use crate::launch_error::LaunchError;
use crate::linux::descriptors::{make_room, soft_limit};
use crate::linux::memory_files::{self, MemoryFiles};
use crate::linux::protocol::{Numbers, Report};
use crate::linux::running::{News, Running};
use crate::linux::stage;
use crate::plan::{check_binds, check_memory};
use crate::record::{InsideRecord, RunRecord};
use crate::record_file::RecordFile;
use crate::refusal::UNREACHABLE;
use crate::session::write_all;
use crate::size::Size;
use crate::status::{Event, StatusWriter};
use crate::verify::trusted_owners;

impl Launch {
    /// Seals and starts the sandbox; in memory files where the helper may mount no stage and the caller
    /// did not ask for one.
    pub(crate) fn seal_and_execute(
        &mut self,
        records: &[RecordFile],
        record: &mut RunRecord,
        status: &mut StatusWriter,
        has_started: &mut bool,
    ) -> Result<Ended, LaunchError> {
        let soft_limit = soft_limit();
        let is_in_place = self.plan.places().count() > 1;
        if self.plan.how != Method::SealedMemfd {
            let covered = self.plan.covered(&self.guards);
            let started = Running::start(&self.plan, &self.verified, None, covered, soft_limit);
            match started.and_then(|running| self.follow(running, record, status, has_started)) {
                Err(LaunchError::StageUnavailable { doing, message }) if is_in_place => {
                    return Err(LaunchError::InPlace { message: format!("{doing}: {message}") });
                }
                Err(LaunchError::StageUnavailable { .. }) if self.seal.is_none() => {}
                done => return done,
            }
            self.plan.how = Method::SealedMemfd;
            record.launch.how = self.plan.how;
            write_all(records, record)?;
            status.send(&self.planned(&record.id));
            let one_copy = Size::of(self.verified.manifest()).memory();
            check_memory(self.plan.how, one_copy, self.memory)?;
        }
        let lent = self.plan.binds().count() + memory_files::count(self.verified.manifest())?;
        make_room(Numbers::above(&self.plan.keep), lent)?;
        let (check, files) = MemoryFiles::fill(&self.verified, self.plan.snapshot, &trusted_owners())
            .map_err(|source| LaunchError::Start { doing: "making memory files", source })?;
        if let Some(source) = stage::machines_failure(&check) {
            return Err(LaunchError::Start { doing: "filling memory files", source });
        }
        if !check.is_clean() {
            return Err(LaunchError::Unsealed { faults: check.faults });
        }
        status.send(&Event::Sealed { files: check.files, bytes: check.bytes });
        let running = Running::start(&self.plan, &self.verified, Some(files), Vec::new(), soft_limit)?;
        self.follow(running, record, status, has_started)
    }

    /// Names what the command's user cannot reach, where that is why bubblewrap gave up.
    fn explain(&self, error: LaunchError) -> LaunchError {
        match error {
            LaunchError::Refused { refusal, .. }
                if refusal.code == UNREACHABLE && self.plan.drops_privileges =>
            {
                check_binds(&self.plan).map_or_else(LaunchError::Plan, |()| error)
            }
            error => error,
        }
    }

    /// Follows a started sandbox to its end.
    fn follow(
        &self,
        mut running: Running,
        record: &mut RunRecord,
        status: &mut StatusWriter,
        has_started: &mut bool,
    ) -> Result<Ended, LaunchError> {
        let how = self.plan.how;
        let mut last = None;
        let mut noexec = false;
        while let Some(news) = running.next(self.caller.as_ref()) {
            let report = match news {
                News::Report(report) => report,
                News::Opened(event) => {
                    status.send(&event);
                    continue;
                }
            };
            match &report {
                Report::Stopped { signal } => {
                    running.stop(*signal);
                    continue;
                }
                Report::Checked { skills, probes, noexec: found } => {
                    noexec = *found;
                    record.checks.inside = Some(InsideRecord { skills: *skills, probes: *probes, noexec });
                    // From here on the command may run, whether that is told or not.
                    *has_started = true;
                }
                Report::Sealed { files, bytes } => {
                    status.send(&Event::Sealed { files: *files, bytes: *bytes })
                }
                Report::Started => status.send(&Event::Started),
                Report::NotStarted { .. } => *has_started = false,
                _ => {}
            }
            last = Some(report);
        }
        // The pipe has closed, so nothing inside is alive; only the helper is left to be reaped.
        running.wait().map_err(|source| LaunchError::Start { doing: "waiting for the sandbox", source })?;
        if let Some(opened) = running.opened() {
            status.send(&opened.read_last());
            record.opened = Some(opened.record());
            opened.close();
        }
        match last {
            // However it ended, that was not its own doing any more.
            _ if running.interrupted().is_some() => {
                Err(LaunchError::Interrupted { signal: running.interrupted().unwrap_or_default() })
            }
            _ if running.caller_has_ended() => Err(LaunchError::CallerEnded),
            Some(Report::Exited { status }) => Ok(Ended { exit: Exit::Status(status), how, noexec }),
            Some(Report::Killed { signal }) => Ok(Ended { exit: Exit::Signal(signal), how, noexec }),
            Some(Report::HelperFailed { doing, message }) => Err(LaunchError::Helper { doing, message }),
            Some(Report::StageUnavailable { doing, message }) => {
                Err(LaunchError::StageUnavailable { doing, message })
            }
            Some(Report::InPlaceFailed { message }) => Err(LaunchError::Cover { message }),
            Some(Report::SealFailed { faults }) => Err(LaunchError::Unsealed { faults }),
            Some(Report::CheckFailed { check, detail }) => Err(LaunchError::SelfCheck { check, detail }),
            // That is the machine's doing, not the command's.
            Some(Report::NotStarted { errno }) if errno == Errno::AGAIN.raw_os_error() => {
                Err(LaunchError::Start { doing: "starting the command", source: Errno::AGAIN.into() })
            }
            Some(Report::NotStarted { errno }) => {
                let program = self.plan.command.first().map(|program| program.to_string_lossy().into_owned());
                let source = io::Error::from_raw_os_error(errno);
                Err(LaunchError::NotStarted { program: program.unwrap_or_default(), source })
            }
            Some(
                Report::Started
                | Report::Stopped { .. }
                | Report::Watching { .. }
                | Report::Checked { .. }
                | Report::Unmapped
                | Report::Swapped { .. },
            ) => Err(LaunchError::Lost),
            Some(Report::Sealed { .. }) | None if matches!(self.plan.backend, Backend::Bubblewrap(_)) => {
                Err(self.explain(running.refusal()))
            }
            Some(Report::Sealed { .. }) | None => Err(LaunchError::Lost),
        }
    }
}
