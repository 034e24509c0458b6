//! The helper: makes what bubblewrap needs, gives up root's powers, and becomes bubblewrap.
//!
//! It is this program, started again by `main`, so that it has a single thread when it changes its
//! namespaces and its user.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::mount::{
    MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_change, move_mount, open_tree,
};

use crate::protocol::{HelperPlan, INNER, Identity, Numbers, Report, receive};

/// What the helper was doing when it failed.
struct Failed {
    doing: &'static str,
    source: io::Error,
}

fn during(doing: &'static str) -> impl Fn(io::Error) -> Failed {
    move |source| Failed { doing, source }
}

/// Runs the helper; ends only by becoming bubblewrap or by failing.
pub(crate) fn run(numbers: Numbers) -> i32 {
    let Ok(report) = skillfreeze_sys::inherited(numbers.report()) else { return 125 };
    let report = File::from(report);
    let Err(Failed { doing, source }) = become_bubblewrap(numbers);
    let failed = Report::HelperFailed { doing: doing.to_owned(), message: source.to_string() };
    // There is nobody else to tell: if `main` is gone, so is the launch.
    let _ = failed.send(&report);
    125
}

fn become_bubblewrap(numbers: Numbers) -> Result<Infallible, Failed> {
    let plan: HelperPlan = receive(numbers.helper_plan()).map_err(during("reading the plan"))?;
    if let Some(identity) = &plan.identity {
        let snapshot =
            skillfreeze_sys::inherited(numbers.snapshot()).map_err(during("taking the snapshot"))?;
        stage(snapshot, identity)?;
        give_up_root(identity)?;
    }
    // The caller's keys are not for the command, which would find them in an inherited keyring.
    skillfreeze_sys::join_new_session_keyring().map_err(during("leaving the caller's keyring"))?;
    // Whatever else the caller's process had open ends here.
    skillfreeze_sys::cloexec_from(3).map_err(during("closing descriptors"))?;
    for number in numbers.all(plan.binds).chain(plan.keep) {
        match skillfreeze_sys::set_cloexec(number, false) {
            // The snapshot's handle has gone into the stage.
            Err(_) if number == numbers.snapshot() && plan.identity.is_some() => {}
            passed => passed.map_err(during("passing descriptors on"))?,
        }
    }
    let mut command = Command::new(&plan.bubblewrap);
    command.arg("--args").arg(numbers.arguments().to_string());
    command.arg("--").arg(format!("/proc/self/fd/{}", numbers.program()));
    command.arg(INNER).arg(numbers.to_argument());
    // The first process inside sets the command's environment; anybody can read its own.
    Err(Failed { doing: "starting bubblewrap", source: command.env_clear().exec() })
}

/// Mounts the very directory that was hashed where `identity` can reach it: below a directory that
/// this user may not enter, even an open descriptor is of no use to bubblewrap.
fn stage(snapshot: OwnedFd, identity: &Identity) -> Result<(), Failed> {
    // The clone comes first: the handle is of a mount that the new namespace does not have.
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let mount = open_tree(&snapshot, "", flags)
        .map_err(io::Error::from)
        .map_err(during("cloning the snapshot's mount"))?;
    unshare(CloneFlags::CLONE_NEWNS).map_err(io::Error::from).map_err(during("making a mount namespace"))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(io::Error::from).map_err(during("making mounts private"))?;
    let attributes = skillfreeze_sys::MountAttributes { read_only: true, no_suid: true, no_dev: true };
    skillfreeze_sys::mount_setattr(&mount, attributes).map_err(during("making the snapshot read-only"))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&mount, "", rustix::fs::CWD, identity.stage.as_std_path(), flags)
        .map_err(io::Error::from)
        .map_err(during("mounting the snapshot"))
}

fn give_up_root(identity: &Identity) -> Result<(), Failed> {
    let (user, group) = (Uid::from_raw(identity.user), Gid::from_raw(identity.group));
    setgroups(&[]).map_err(io::Error::from).map_err(during("giving up root's groups"))?;
    setresgid(group, group, group).map_err(io::Error::from).map_err(during("giving up root's group"))?;
    setresuid(user, user, user).map_err(io::Error::from).map_err(during("giving up root"))
}
