//! Sealing: a stage is mounted, filled with what is hashed, and made read-only for good.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};

use camino::Utf8Path;
use rustix::fs::Mode;

use crate::linux::failed::{Failed, during, unavailable};
use crate::linux::protocol::{Report, SealPlan};
use crate::linux::stage::{self, Size};

/// Seals the snapshot behind a handle in the stage that `mount` mounts, and reports it.
pub(crate) fn seal(
    snapshot: &OwnedFd,
    plan: &SealPlan,
    report: &File,
    mount: impl FnOnce(Size) -> Result<OwnedFd, Failed>,
) -> Result<OwnedFd, Failed> {
    let stage = mount(Size { bytes: plan.bytes, inodes: plan.inodes }).map_err(unavailable)?;
    let callers = rustix::process::umask(Mode::empty());
    let check = stage::fill(&stage, snapshot, plan.digest).map_err(during("filling the stage"))?;
    // The command writes its own files by the caller's mask.
    rustix::process::umask(callers);
    if let Some(error) = stage::machines_failure(&check) {
        return Err(during("filling the stage")(error));
    }
    if !check.is_clean() {
        return Err(Failed::Told(Report::SealFailed { faults: check.faults }));
    }
    let own_path = format!("/proc/self/fd/{}", stage.as_raw_fd());
    stage::close(Utf8Path::new(&own_path)).map_err(during("sealing the stage"))?;
    let told = Report::Sealed { files: check.files, bytes: check.bytes };
    told.send(report).map_err(during("reporting"))?;
    Ok(stage)
}
