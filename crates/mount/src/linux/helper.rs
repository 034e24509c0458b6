//! The helper: stages the snapshot, gives up root's powers, starts bubblewrap and ends with it.
//!
//! It is this program, started again by `main`, so that it has a single thread when it changes its
//! namespaces and its user. It stays beside bubblewrap: when `main` is killed, bubblewrap is too, but a child
//! of it that still waits for a word of its parent would wait for ever. The helper and all of bubblewrap are
//! one process group until the first process inside starts.
//!
//! Where there is no bubblewrap, the first process encloses itself by Landlock; the helper, outside of that,
//! ends what it leaves behind.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use camino::{Utf8Path, Utf8PathBuf};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpgid, getpid, getppid, kill_current_process_group, pidfd_open,
    set_child_subreaper,
};
use rustix::thread::clear_ambient_capability_set;

use crate::linux::cover::cover;
use crate::linux::failed::{Failed, during};
use crate::linux::landlock::descendants;
use crate::linux::namespaces::{enter_namespaces, make_private};
use crate::linux::parent::{die_with_main, refuse_orphan};
use crate::linux::protocol::{
    Covered, HelperPlan, INNER, Identity, InnerPlan, Numbers, Report, SealPlan, amend, receive,
};
use crate::linux::sealing;
use crate::linux::stage;
use crate::linux::terminal;
use crate::private;
use crate::signals;

/// Runs the helper; ends with bubblewrap, or by failing.
pub(crate) fn run(numbers: Numbers) -> i32 {
    signals::fail_at_limit_of_files();
    let (Ok(report), Ok(control)) =
        (skillfreeze_sys::inherited(numbers.report()), skillfreeze_sys::inherited(numbers.control()))
    else {
        return 125;
    };
    let report = File::from(report);
    let failed = match start_sandbox(numbers, &report, &control) {
        Ok(sandbox) => {
            // Its end is for `main` to see, which waits until everybody has closed it.
            drop(report);
            return stay_beside(sandbox, &control);
        }
        Err(failed) => failed.report(),
    };
    // There is nobody else to tell: if `main` is gone, so is the launch.
    let _ = failed.send(&report);
    125
}

/// What the helper has started.
struct Sandbox {
    /// bubblewrap, or the first process itself where that encloses itself.
    child: Child,
    /// Whether it is bubblewrap.
    is_bubblewrap: bool,
    /// A directory for this launch alone.
    private: Option<Utf8PathBuf>,
    /// The process group of `main`, if the command has its terminal.
    lender: Option<Pid>,
}

/// Waits for the end of the sandbox; ends all that is in it if `main` ends before, and gives the terminal
/// that the command has back to the group of `main`.
fn stay_beside(sandbox: Sandbox, control: &OwnedFd) -> i32 {
    let Sandbox { mut child, is_bubblewrap, private, lender } = sandbox;
    match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
        Ok(end) => {
            // Only `main` writes there, so that nobody does when it is gone.
            let mut waiting = [PollFd::new(&end, PollFlags::IN), PollFd::new(control, PollFlags::empty())];
            while matches!(poll(&mut waiting, None), Ok(0) | Err(Errno::INTR)) {}
            if waiting[0].revents().is_empty() && is_bubblewrap && !lender.is_some_and(terminal::end_for) {
                // This process is one of the group.
                let _ = kill_current_process_group(Signal::KILL);
            }
        }
        // The kernel tells of the child's end alone.
        Err(_) => drop(child.wait()),
    }
    if !is_bubblewrap {
        descendants::end_all();
        // `main` tries again, and tells if it cannot be done.
        let _ = private.map(|path| private::remove(&path));
        return 0;
    }
    let ended = child.wait();
    if let Some(lender) = lender {
        // `main` may be killed before it does so itself.
        terminal::give_back(lender, 0);
    }
    ended.map_or(125, |_| 0)
}

/// Each launch takes one of the keys that its user may have.
fn no_keyring(source: io::Error) -> Failed {
    let doing = match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::DQUOT) => {
            "leaving the caller's keyring: the user has as many keys as may be (`kernel.keys.maxkeys`)"
        }
        _ => "leaving the caller's keyring",
    };
    during(doing)(source)
}

fn start_sandbox(numbers: Numbers, report: &File, control: &OwnedFd) -> Result<Sandbox, Failed> {
    die_with_main(true)?;
    let plan: HelperPlan = receive(numbers.helper_plan()).map_err(during("reading the plan"))?;
    let lender = getppid().filter(|_| plan.terminal).and_then(|main| getpgid(Some(main)).ok());
    if let Some(at) = &plan.stage {
        let snapshot =
            skillfreeze_sys::inherited(numbers.snapshot()).map_err(during("taking the snapshot"))?;
        match &plan.seal {
            Some(seal) => {
                let stage = seal_at(at, &snapshot, seal, plan.identity.is_some(), numbers, report)?;
                cover_all(&plan.covered, &stage)?;
            }
            None => mount_at(at, snapshot)?,
        }
    }
    if let Some(identity) = &plan.identity {
        give_up_root(identity)?;
    }
    // From here on, it is this process that ends what `main` leaves behind.
    die_with_main(false)?;
    refuse_orphan(control)?;
    // Powers that the caller hands on to whatever it executes are not for the command, and bubblewrap refuses to
    // start with any.
    clear_ambient_capability_set().map_err(during("giving up capabilities"))?;
    // Nor are the caller's keys, which it would find them in an inherited keyring.
    skillfreeze_sys::join_new_session_keyring().map_err(no_keyring)?;
    // Whatever else the caller's process had open ends here.
    skillfreeze_sys::cloexec_from(3).map_err(during("closing descriptors"))?;
    let is_there = |number: &i32| plan.watches || *number != numbers.notices();
    for number in numbers.all(plan.binds).filter(is_there).chain(plan.keep.iter().copied()) {
        match skillfreeze_sys::set_cloexec(number, false) {
            // The snapshot's handle has gone into the stage.
            Err(_) if number == numbers.snapshot() && plan.stage.is_some() => {}
            passed => passed.map_err(during("passing descriptors on"))?,
        }
    }
    let program = format!("/proc/self/fd/{}", numbers.program());
    let (mut command, doing) = match &plan.bubblewrap {
        Some(bubblewrap) => {
            let mut command = Command::new(bubblewrap);
            command.arg("--args").arg(numbers.arguments().to_string()).arg("--").arg(program);
            (command, "starting bubblewrap")
        }
        None => {
            // Whatever loses its parent inside comes to this process, which ends it.
            set_child_subreaper(Some(getpid())).map_err(during("becoming the reaper"))?;
            (Command::new(program), "starting the first process of the sandbox")
        }
    };
    command.arg(INNER).arg(numbers.to_argument());
    if let Some(path) = &plan.private {
        // Here, where somebody is sure to remove it: this process, or `main` if this one is killed.
        private::make(path).map_err(during("making the launch's own directory"))?;
    }
    // The first process inside sets the command's environment; anybody can read its own.
    let child = command.env_clear().spawn();
    let child = child.inspect_err(|_| drop(plan.private.as_deref().map(private::remove)));
    let child = child.map_err(during(doing))?;
    // What was handed on is not for this process to keep open: neither memory files nor the caller's pipes.
    let own = [numbers.report(), numbers.control()];
    for number in numbers.all(plan.binds).chain(plan.keep).filter(|number| !own.contains(number)) {
        drop(skillfreeze_sys::inherited(number));
    }
    Ok(Sandbox { child, is_bubblewrap: plan.bubblewrap.is_some(), private: plan.private, lender })
}

/// Seals the snapshot in namespaces of this process's own.
fn seal_at(
    at: &Utf8Path,
    snapshot: &OwnedFd,
    seal: &SealPlan,
    is_root: bool,
    numbers: Numbers,
    report: &File,
) -> Result<OwnedFd, Failed> {
    let stage = sealing::seal(snapshot, seal, report, |size| {
        enter_namespaces(is_root)?;
        stage::make(at, size).map_err(during("mounting the stage"))
    })?;
    // The first process inside makes sure that this is what it sees.
    let identity = stage::identity(&stage).map_err(during("looking at the stage"))?;
    let expect = |inner: &mut InnerPlan| inner.identity = Some(identity);
    amend(numbers.inner_plan(), "inner-plan", expect).map_err(during("passing the plan on"))?;
    Ok(stage)
}

/// Mounts the stage in the place of source roots as well.
fn cover_all(roots: &[Covered], stage: &OwnedFd) -> Result<(), Failed> {
    for root in roots {
        cover(root, stage).map_err(|error| {
            Failed::Told(Report::InPlaceFailed { message: format!("`{}`: {error}", root.root) })
        })?;
    }
    Ok(())
}

/// Mounts the very directory that was hashed where the command's user can reach it: below a directory
/// that this user may not enter, even an open descriptor is of no use to bubblewrap.
fn mount_at(at: &Utf8Path, snapshot: OwnedFd) -> Result<(), Failed> {
    // The clone comes first: the handle is of a mount that the new namespace does not have.
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let mount = open_tree(&snapshot, "", flags).map_err(during("cloning the snapshot's mount"))?;
    unshare(CloneFlags::CLONE_NEWNS).map_err(during("making a mount namespace"))?;
    make_private()?;
    let attributes = skillfreeze_sys::MountAttributes {
        read_only: true,
        no_suid: true,
        no_dev: true,
        ..Default::default()
    };
    skillfreeze_sys::mount_setattr(&mount, attributes).map_err(during("making the snapshot read-only"))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&mount, "", CWD, at.as_std_path(), flags).map_err(during("mounting the snapshot"))
}

fn give_up_root(identity: &Identity) -> Result<(), Failed> {
    let (user, group) = (Uid::from_raw(identity.user), Gid::from_raw(identity.group));
    setgroups(&[]).map_err(during("giving up root's groups"))?;
    setresgid(group, group, group).map_err(during("giving up root's group"))?;
    setresuid(user, user, user).map_err(during("giving up root"))
}
