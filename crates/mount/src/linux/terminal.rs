//! The caller's terminal, lent to a command: who is in its foreground, and stopping together.
//!
//! The command's process group is the terminal's foreground group while it runs, so that what is
//! typed reaches it and signals from the keyboard reach it alone. When it stops, this process stops
//! too, with its group, as the job that the caller's shell knows; when the shell continues that,
//! the command is continued, in the foreground if the job is there. At the end the terminal goes
//! back.

use std::fs::File;
use std::io::{self, Write as _};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::{
    Pid, getpgrp, kill_current_process_group, kill_process_group, setpgid, test_kill_process_group,
};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::launch_error::LaunchError;
use crate::linux::protocol::{FOREGROUND, Ground};

/// How long is waited for the end of a command whose launch was killed: this, so many times.
const WAIT: Duration = Duration::from_millis(10);
const MAX_WAITS: u32 = 200;

/// The terminal at standard input while a command has it.
pub(crate) struct Terminal {
    /// Where the first process inside takes signals and [`FOREGROUND`] from, until it is to end.
    control: Option<File>,
}

impl Terminal {
    /// Looks whether there is a terminal to lend, and whether this process is in its foreground.
    ///
    /// # Errors
    /// [`LaunchError::NoTerminal`] where standard input is not the terminal of this session.
    pub(crate) fn look() -> Result<Ground, LaunchError> {
        let foreground = tcgetpgrp(io::stdin()).map_err(|errno| LaunchError::NoTerminal(errno.into()))?;
        Ok(if foreground == getpgrp() { Ground::Foreground } else { Ground::Background })
    }

    /// Lends it to the command that a launch has begun to start. Until the command is there, this
    /// process is not stopped: the command would then take the terminal from the caller's shell.
    pub(crate) fn lend(control: &File) -> io::Result<Self> {
        block(true, Signal::SIGTSTP)?;
        Ok(Self { control: Some(control.try_clone()?) })
    }

    /// The command has been started.
    pub(crate) fn started(&self) {
        // The thread that relays signals keeps it blocked, so that this thread is the one to stop.
        let _ = block(false, Signal::SIGTSTP);
    }

    /// Lets the pipe to the first process inside close, which ends it.
    pub(crate) fn cut(&mut self) {
        self.control = None;
    }

    /// The command was stopped by a signal: stops this process and its group, until they are
    /// continued, then continues the command.
    ///
    /// # Errors
    /// What the system says; the command stays stopped.
    pub(crate) fn stop(&mut self, signal: i32) -> io::Result<()> {
        let is_foreground = || tcgetpgrp(io::stdin()).is_ok_and(|foreground| foreground == getpgrp());
        let wants_terminal = signal == Signal::SIGTTIN as i32 || signal == Signal::SIGTTOU as i32;
        // If the terminal was given to this process behind the command's back, it is there to be had.
        if !wants_terminal || !is_foreground() {
            block(true, Signal::SIGTSTP)?;
            kill_current_process_group(rustix::process::Signal::TSTP)?;
            // Stops here. Where nobody could continue it, the kernel does not stop it at all.
            block(false, Signal::SIGTSTP)?;
        }
        let Some(control) = &mut self.control else { return Ok(()) };
        if is_foreground() {
            control.write_all(&[FOREGROUND])?;
        }
        control.write_all(&[Signal::SIGCONT as u8])
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.started();
        // Without the helper nobody has waited for the end of the command itself.
        give_back(getpgrp(), if self.control.is_none() { MAX_WAITS } else { 0 });
    }
}

/// Makes a group the terminal's foreground group once the one that is has no process any more, as the
/// group of a command that has ended: whoever else got the terminal in the meantime keeps it.
pub(crate) fn give_back(group: Pid, waits: u32) {
    for left in (0..=waits).rev() {
        let Ok(foreground) = tcgetpgrp(io::stdin()) else { return };
        if foreground == group {
            return;
        }
        if test_kill_process_group(foreground) == Err(rustix::io::Errno::SRCH) {
            // Where it cannot be had, there is nothing left to try.
            let _ = make_foreground(group);
            return;
        }
        if left > 0 {
            thread::sleep(WAIT);
        }
    }
}

/// Ends all other processes of the helper's group, `main` having ended, and gives the terminal back to
/// the group that `main` was in, where a script that started it goes on. Does nothing and says so where
/// nobody is left there; else the helper is in that group from then on.
pub(crate) fn end_for(caller: Pid) -> bool {
    let group = getpgrp();
    if setpgid(None, Some(caller)).is_err() {
        return false;
    }
    // The command ends with the first process inside, which is one of them.
    let _ = kill_process_group(group, rustix::process::Signal::KILL);
    give_back(caller, MAX_WAITS);
    true
}

/// Makes a group of this session the foreground group of the terminal at standard input.
pub(crate) fn make_foreground(group: Pid) -> io::Result<()> {
    // Else a process in the background would be stopped for trying.
    let before = SigSet::from(Signal::SIGTTOU).thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let made = tcsetpgrp(io::stdin(), group);
    before.thread_set_mask()?;
    Ok(made?)
}

fn block(does: bool, signal: Signal) -> io::Result<()> {
    let signals = SigSet::from(signal);
    Ok(if does { signals.thread_block() } else { signals.thread_unblock() }?)
}
