//! A launch: starts it, checks again after the end, keeps the record. How it is started and followed to its
//! end is the platform's.

use std::os::fd::OwnedFd;

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze_manifest::Progress;

use crate::exit::Ended;
use crate::guard::Guard;
use crate::host::Host;
use crate::integrity::{Integrity, Scope, Seal};
use crate::launch_error::LaunchError;
use crate::plan::LaunchPlan;
use crate::plan_error::PlanError;
use crate::private;
use crate::record::{CheckRecord, LaunchRecord, RunRecord};
use crate::request::LaunchRequest;
use crate::session::{Session, end, now, write_all};
use crate::status::{Event, StatusWriter};
use crate::verify::Verified;

/// A checked snapshot and a plan for it, ready to start.
#[derive(Debug)]
pub struct Launch {
    pub(crate) verified: Verified,
    pub(crate) plan: LaunchPlan,
    pub(crate) required: Option<Integrity>,
    /// The way to seal that the caller asked for: no other will do then.
    pub(crate) seal: Option<Seal>,
    pub(crate) guards: Vec<Guard>,
    pub(crate) kernel: String,
    /// Bytes of memory that there are, if that is known.
    pub(crate) memory: Option<u64>,
    /// The process whose end is to end the launch, if that is another one.
    pub(crate) caller: Option<OwnedFd>,
}

impl Launch {
    /// Plans a launch of a checked snapshot.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(verified: Verified, request: LaunchRequest, host: &Host) -> Result<Self, PlanError> {
        let request = request.guarded();
        let plan = LaunchPlan::new(&verified, &request, host)?;
        let LaunchRequest { require: required, seal, mut guards, .. } = request;
        // What the command cannot reach, it cannot have changed.
        // What the snapshot covers is uncovered where somebody else exchanges it.
        guards.retain(|guard| plan.covers(guard) || plan.binds().any(|bind| guard.is_exposed_by(bind)));
        let kernel = host.kernel.clone();
        Ok(Self { verified, plan, required, seal, guards, kernel, memory: host.memory, caller: None })
    }

    /// What the sandbox is given.
    #[must_use]
    pub fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    /// Starts the command, waits for its end and checks everything again.
    ///
    /// Call it from the thread that lives as long as the launch: when the thread that started the
    /// sandbox ends, the kernel ends the sandbox. While it runs, the signals HUP, INT, QUIT, TERM,
    /// USR1 and USR2 go to the command, which has this process's standard streams; where all that is in the
    /// way, take [`command`](Self::command). The calling program must call [`init`](crate::init) first
    /// of all.
    ///
    /// # Errors
    /// [`LaunchError`]; also when the command itself ended well but something did not match
    /// afterwards.
    pub fn run(mut self, session: Session<'_>) -> Result<Ended, LaunchError> {
        let Session { context, records, mut status, lease, progress } = session;
        status.send(&self.planned(&context.id));
        let launch = LaunchRecord::of_plan(&self.plan, self.required, self.kernel.clone());
        let mut record = RunRecord::started(context, &self.verified, launch, now());
        status.send(&Event::Verified(record.checks.before.clone()));
        let mut has_started = false;
        let mut own = None;
        let result = write_all(&records, &record).and_then(|()| {
            if let Some(path) = self.plan.private() {
                let doing = "choosing the launch's own directory";
                private::claim(&path).map_err(|source| LaunchError::Start { doing, source })?;
                own = Some(path);
            }
            self.seal_and_execute(&records, &mut record, &mut status, &mut has_started)
        });
        // However the command ended: one that was killed has had its time to change something.
        let result =
            if has_started { self.conclude(result, &mut record, &mut status, progress) } else { result };
        // The helper has done that, unless it was killed.
        let removed = own.map_or(Ok(()), |path| private::remove(&path));
        let removed = removed
            .map_err(|source| LaunchError::Start { doing: "removing the launch's own directory", source });
        let result = result.and_then(|ended| removed.map(|()| ended));
        let result = end(record, result, &records, &mut status);
        drop(lease);
        result
    }

    pub(crate) fn planned(&self, run: &str) -> Event {
        let LaunchPlan { snapshot, integrity, how, .. } = self.plan;
        let in_place = self.plan.places().skip(1).map(Utf8Path::to_owned).collect();
        Event::Planned { run: run.to_owned(), snapshot, integrity, how, scope: Scope::Sandbox, in_place }
    }

    /// Checks again after the end: every byte, and the places that skills come from.
    fn conclude(
        &self,
        result: Result<Ended, LaunchError>,
        record: &mut RunRecord,
        status: &mut StatusWriter,
        progress: &dyn Progress,
    ) -> Result<Ended, LaunchError> {
        let exit = result.as_ref().ok().map(|ended| ended.exit);
        record.exit = exit;
        if let Some(exit) = exit {
            status.send(&Event::Exited(exit));
        }
        let mut faults = Vec::new();
        // What was sealed cannot have changed, and is gone.
        if self.plan.integrity < Integrity::Sealed {
            let after = self.verified.check_again(progress);
            record.checks.after = Some(CheckRecord::from(&after));
            status.send(&Event::ReVerified(CheckRecord::from(&after)));
            faults = after.faults;
        }
        let appeared = self.guards.iter().filter(|guard| guard.has_changed()).map(|guard| guard.path.clone());
        let appeared: Vec<Utf8PathBuf> = appeared.collect();
        if !faults.is_empty() {
            return Err(LaunchError::Changed { faults, appeared, exit });
        }
        if !appeared.is_empty() {
            return Err(LaunchError::SourceAppeared { paths: appeared, exit });
        }
        result
    }
}
