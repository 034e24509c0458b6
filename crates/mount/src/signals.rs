//! Relaying signals to the command while it runs, and leaving them as they were afterwards.

use std::fs::File;
use std::io::{self, Write as _};
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

#[cfg(target_os = "linux")]
use rustix::process::{Signal, pidfd_send_signal};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag::{register, register_conditional_default};
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use signal_hook::iterator::{Handle, SignalsInfo};

/// Signals that reach the command instead of this process while it runs.
const RELAYED: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// Those that are to end a command.
pub(crate) const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Whether the relayed signals do what they do by default, and how many launches say otherwise.
///
/// A handler that was once installed stays, so between launches it does the default action itself:
/// else a program that has launched anything could no longer be stopped.
struct Defaults {
    apply: Arc<AtomicBool>,
    launches: AtomicUsize,
}

fn defaults() -> io::Result<&'static Defaults> {
    static DEFAULTS: OnceLock<Defaults> = OnceLock::new();
    if let Some(defaults) = DEFAULTS.get() {
        return Ok(defaults);
    }
    let apply = Arc::new(AtomicBool::new(false));
    for signal in relayed() {
        register_conditional_default(signal, Arc::clone(&apply))?;
    }
    Ok(DEFAULTS.get_or_init(|| Defaults { apply, launches: AtomicUsize::new(0) }))
}

/// The signals that this process does not ignore: who started it with `nohup`, or in the background
/// of a script, wants them to do nothing.
fn relayed() -> Vec<i32> {
    RELAYED.into_iter().filter(|signal| !skillfreeze_sys::is_ignored(*signal)).collect()
}

/// Has the limit on the size of files be an error, like a full disk, not a signal that kills.
pub fn fail_at_limit_of_files() {
    // Who ignores it has that already.
    if !skillfreeze_sys::is_ignored(SIGXFSZ) {
        // A handler, unlike ignoring the signal, is gone in the programs that this one starts.
        let _ = register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
}

/// Sees to it that the ends of children are not ignored, which a process inherits.
pub(crate) fn notice_ends_of_children() {
    if skillfreeze_sys::is_ignored(SIGCHLD) {
        // A handler that does nothing is enough, and is gone in the programs that this one starts.
        let _ = register(SIGCHLD, Arc::new(AtomicBool::new(false)));
    }
}

/// Passes signals that this process receives on to the command, until it is dropped.
pub(crate) struct SignalRelay {
    handle: Handle,
    defaults: &'static Defaults,
}

impl SignalRelay {
    /// Sends them down the pipe to the command. Keeps in `ending` the last one that is to end it.
    pub(crate) fn new(control: &File, ending: &Arc<AtomicI32>) -> io::Result<Self> {
        let (mut control, ending) = (control.try_clone()?, Arc::clone(ending));
        Self::start(move |number, _| {
            if ENDING.contains(&number) {
                ending.store(number, Ordering::SeqCst);
            }
            match u8::try_from(number) {
                Ok(number) => control.write_all(&[number]).is_ok(),
                Err(_) => true,
            }
        })
    }

    /// Sends them to a process of this one's group, but for those that the kernel sends, as it does when
    /// something is typed at a terminal: they reach the whole group.
    #[cfg(target_os = "linux")]
    pub(crate) fn to_process(process: OwnedFd) -> io::Result<Self> {
        Self::start(move |number, is_from_process| {
            if let Some(signal) = Signal::from_named_raw(number).filter(|_| is_from_process) {
                // The command may have ended just now.
                let _ = pidfd_send_signal(&process, signal);
            }
            true
        })
    }

    /// Gives each signal's number, and whether a process sent it, to `pass_on`, until that says that there
    /// is nobody left.
    fn start(mut pass_on: impl FnMut(i32, bool) -> bool + Send + 'static) -> io::Result<Self> {
        let signals = relayed();
        let defaults = defaults()?;
        let mut signals = SignalsInfo::<WithRawSiginfo>::new(signals)?;
        let handle = signals.handle();
        let relay = move || {
            for signal in signals.forever() {
                // The kernel's own codes are above.
                if !pass_on(signal.si_signo, signal.si_code <= 0) {
                    return;
                }
            }
        };
        thread::Builder::new().spawn(relay)?;
        defaults.launches.fetch_add(1, Ordering::SeqCst);
        defaults.apply.store(false, Ordering::SeqCst);
        Ok(Self { handle, defaults })
    }
}

impl Drop for SignalRelay {
    fn drop(&mut self) {
        if self.defaults.launches.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.defaults.apply.store(true, Ordering::SeqCst);
        }
        self.handle.close();
    }
}
