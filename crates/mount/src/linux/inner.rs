//! The first process inside the sandbox: checks, starts the command, relays signals, reaps.
//!
//! It is this program, started by bubblewrap through an open descriptor, and it is process 1 of its
//! namespace: when it ends, the kernel ends everything else in there. Without namespaces it is started by the
//! helper, encloses itself by Landlock, and ends everything itself.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use nix::sys::signal::{Signal, killpg};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, WaitOptions, getrlimit, set_dumpable_behavior, setrlimit, wait,
};

use crate::linux::landlock::Enclosed;
use crate::linux::probe::ProbeError;
use crate::linux::protocol::{FOREGROUND, Ground, InnerPlan, Numbers, Report, receive};
use crate::linux::{opened, selfcheck, terminal};
use crate::signals::ENDING;

/// Runs the inner process; its status means nothing, the reports say it all.
pub(crate) fn run(numbers: Numbers) -> i32 {
    let (Ok(report), Ok(control)) =
        (skillfreeze_sys::inherited(numbers.report()), skillfreeze_sys::inherited(numbers.control()))
    else {
        return 125;
    };
    let (report, control) = (File::from(report), File::from(control));
    let ended = prepare(numbers).map_err(|error| Report::HelperFailed {
        doing: "preparing the first process of the sandbox".to_owned(),
        message: error.to_string(),
    });
    let ended = ended.and_then(|plan| supervise(&plan, numbers, &report, control));
    let ended = ended.unwrap_or_else(|failed| failed);
    // If `main` is gone there is nobody to tell, and the sandbox ends either way.
    let _ = ended.send(&report);
    0
}

/// Takes the plan, gives the command its own standard error back, and closes the rest.
///
/// The command has the same user, and `/proc/1` would lead it to this program's file on the host,
/// which it could chmod, and to the pipe of reports, which it could forge: so first of all this
/// process becomes one that only root can look into.
fn prepare(numbers: Numbers) -> io::Result<InnerPlan> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let stderr = skillfreeze_sys::inherited(numbers.stderr())?;
    rustix::stdio::dup2_stderr(&stderr)?;
    let plan: InnerPlan = receive(numbers.inner_plan())?;
    skillfreeze_sys::cloexec_from(3)?;
    for &number in &plan.keep {
        skillfreeze_sys::set_cloexec(number, false)?;
    }
    Ok(plan)
}

/// Does everything from the check to the command's end.
fn supervise(plan: &InnerPlan, numbers: Numbers, report: &File, control: File) -> Result<Report, Report> {
    let failed =
        |error: ProbeError| Report::CheckFailed { check: error.check.to_owned(), detail: error.detail };
    let enclosed = match &plan.enclosure {
        Some(enclosure) => {
            enclosure.enter(numbers).map_err(|error| Report::HelperFailed {
                doing: "enclosing the first process by Landlock".to_owned(),
                message: error.to_string(),
            })?;
            Some(Enclosed::confirm().map_err(failed)?)
        }
        None => None,
    };
    let passed = selfcheck::run(plan).map_err(failed)?;
    let tell = |told: Report| told.send(report).map_err(|_| told);
    tell(Report::Checked { skills: passed.skills, probes: passed.probes, noexec: passed.noexec })?;
    if !plan.watched.is_empty() {
        tell(watch(plan, numbers)?)?;
    }
    // If there is nobody to relay signals, the command is not started.
    let (started, command) = mpsc::channel();
    let abandoned = relay_signals(control, command, enclosed).map_err(|error| Report::HelperFailed {
        doing: "relaying signals".to_owned(),
        message: error.to_string(),
    })?;
    let command = start(plan, enclosed)
        .map_err(|error| Report::NotStarted { errno: error.raw_os_error().unwrap_or(0) })?;
    let _ = started.send(command);
    tell(Report::Started)?;
    let stopped = |signal| {
        // If `main` is gone, so is the sandbox.
        let _ = Report::Stopped { signal }.send(report);
    };
    let ended = reap_until(command, plan.terminal.is_some().then_some(&stopped));
    if abandoned.load(Ordering::SeqCst) {
        // It did not end, it was ended.
        std::process::exit(125);
    }
    // Elsewhere the kernel does, when this process ends.
    if let Some(enclosed) = enclosed {
        enclosed.end_all();
    }
    Ok(ended)
}

/// From here on, what is opened is the command's doing. The instance is closed again before that starts.
fn watch(plan: &InnerPlan, numbers: Numbers) -> Result<Report, Report> {
    let notices = skillfreeze_sys::inherited(numbers.notices()).map_err(|error| Report::HelperFailed {
        doing: "taking over what tells of opened files".to_owned(),
        message: error.to_string(),
    })?;
    Ok(Report::Watching { numbers: opened::watch(&notices, &plan.skills_dir, &plan.watched) })
}

/// Starts the command in a process group of its own, so that a signal reaches what it started too,
/// as one typed at a terminal does.
fn start(plan: &InnerPlan, enclosed: Option<Enclosed>) -> io::Result<Pid> {
    // `main` may have raised its own limit to hand everything down.
    let limit = Rlimit { current: plan.descriptors, ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit)?;
    let (program, arguments) = plan.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(plan.environment.iter().map(|(name, value)| (name, value)));
    if let Some(enclosed) = enclosed {
        enclosed.keep_inside(&mut command)?;
    }
    command.process_group(0);
    if plan.terminal == Some(Ground::Foreground) {
        skillfreeze_sys::take_terminal(&mut command);
    }
    let child = command.spawn()?;
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Sends each signal that `main` writes into the pipe on to the command's group; ends the sandbox
/// when the pipe closes, which it does only when `main` is gone. Says then that it was not the command's own end.
fn relay_signals(
    mut control: File,
    command: Receiver<Pid>,
    enclosed: Option<Enclosed>,
) -> io::Result<Arc<AtomicBool>> {
    let abandoned = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&abandoned);
    let relay = move || {
        let Ok(command) = command.recv() else { return };
        let group = nix::unistd::Pid::from_raw(command.as_raw_nonzero().get());
        let mut number = [0];
        while control.read_exact(&mut number).is_ok() {
            if number[0] == FOREGROUND {
                // A terminal that is gone is for the command to notice.
                let _ = terminal::make_foreground(command);
            } else if let Ok(signal) = Signal::try_from(i32::from(number[0])) {
                // The command may have ended just now.
                let _ = killpg(group, signal);
                // One that is stopped must be there to be ended.
                if ENDING.contains(&i32::from(number[0])) {
                    let _ = killpg(group, Signal::SIGCONT);
                }
            }
        }
        told.store(true, Ordering::SeqCst);
        if let Some(enclosed) = enclosed {
            enclosed.end_all();
        }
        std::process::exit(125);
    };
    thread::Builder::new().spawn(relay)?;
    Ok(abandoned)
}

/// Reaps every child, also those that the command left behind, until the command itself has ended.
/// Tells `stopped` each time that it is stopped.
fn reap_until(command: Pid, stopped: Option<&dyn Fn(i32)>) -> Report {
    let options = if stopped.is_some() { WaitOptions::UNTRACED } else { WaitOptions::empty() };
    loop {
        match wait(options) {
            Ok(Some((pid, status))) if pid == command => {
                if let Some(status) = status.exit_status() {
                    return Report::Exited { status };
                }
                if let Some(signal) = status.terminating_signal() {
                    return Report::Killed { signal };
                }
                if let (Some(signal), Some(stopped)) = (status.stopping_signal(), stopped) {
                    stopped(signal);
                }
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                let doing = "waiting for the command".to_owned();
                return Report::HelperFailed { doing, message: error.to_string() };
            }
        }
    }
}
