//! The sealer: stages the snapshot over its own path and becomes the caller's command there.
//!
//! It is this program, started again by `main`, so that it has a single thread when it changes its
//! namespaces. It enters two, one below the other: the stage belongs to the upper one, in which nobody
//! stays, and the command runs in the lower one, where even root cannot make the stage writable or take it
//! away. Under root `main` says who is in the lower one, for only a process above can.
//!
//! The command keeps its caller's process group, descriptors, variables, directory and limits. Nothing of
//! the sealer is left in it but that it is killed when `main` is.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::linux::descriptors::open_hashed;
use crate::linux::failed::{Failed, during, unavailable};
use crate::linux::namespaces::{enter_below, enter_namespaces, map_alone, own_ids};
use crate::linux::parent::{die_with_main, refuse_orphan};
use crate::linux::protocol::{Numbers, Report, SealerPlan, receive};
use crate::linux::sealing;
use crate::linux::stage;
use crate::signals;

/// Names the process that the sockets are for which a manager of services hands down.
pub(crate) const SOCKETS_VARIABLE: &str = "LISTEN_PID";

/// Runs the sealer; its plan is at the first of the numbers. It ends only by failing.
pub(crate) fn run(numbers: Numbers) -> i32 {
    signals::fail_at_limit_of_files();
    let Ok(plan) = receive::<SealerPlan>(numbers.helper_plan()) else { return 125 };
    // What was handed down is not for the command.
    let take = |number| {
        skillfreeze_sys::set_cloexec(number, true)?;
        skillfreeze_sys::inherited(number)
    };
    let (Ok(report), Ok(control), Ok(snapshot)) =
        (take(plan.report), take(plan.control), take(plan.snapshot))
    else {
        return 125;
    };
    let report = File::from(report);
    let Err(failed) = become_command(&plan, &snapshot, &report, &control);
    // There is nobody else to tell: if `main` is gone, so is the launch.
    let _ = failed.report().send(&report);
    125
}

fn become_command(
    plan: &SealerPlan,
    snapshot: &OwnedFd,
    report: &File,
    control: &OwnedFd,
) -> Result<Infallible, Failed> {
    die_with_main(true)?;
    let ids = own_ids();
    enter_namespaces(plan.is_root).map_err(unavailable)?;
    seal(plan, snapshot, report)?;
    enter_below().map_err(unavailable)?;
    if plan.is_root {
        Report::Unmapped.send(report).map_err(during("reporting"))?;
        wait_for_word(control).map_err(during("waiting for users to be mapped"))?;
    } else {
        map_alone(ids).map_err(unavailable)?;
    }
    if let Some(directory) = &plan.directory {
        rustix::process::chdir(directory.as_os_str()).map_err(during("entering the working directory"))?;
    }
    // Becoming another in a namespace may have undone it.
    die_with_main(true)?;
    refuse_orphan(control)?;
    Report::Started.send(report).map_err(during("reporting"))?;
    let error = match plan.command.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            if plan.takes_sockets {
                command.env(SOCKETS_VARIABLE, std::process::id().to_string());
            }
            command.args(arguments).exec()
        }
        None => io::ErrorKind::InvalidInput.into(),
    };
    Err(Failed::Told(Report::NotStarted { errno: error.raw_os_error().unwrap_or(0) }))
}

/// Seals the snapshot over the very directory that was hashed.
fn seal(plan: &SealerPlan, snapshot: &OwnedFd, report: &File) -> Result<(), Failed> {
    let swapped = |error: io::Error| Failed::Told(Report::Swapped { message: error.to_string() });
    let at = open_hashed(&plan.at, snapshot).map_err(swapped)?;
    let mount = |size| stage::make_over(&at, size).map_err(during("mounting the stage"));
    sealing::seal(snapshot, &plan.seal, report, mount).map(drop)
}

/// Waits for `main`, which writes a byte.
fn wait_for_word(control: &OwnedFd) -> io::Result<()> {
    File::from(control.try_clone()?).read_exact(&mut [0])
}
