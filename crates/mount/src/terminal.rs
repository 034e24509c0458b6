//! The caller's terminal, lent to a command: who is in its foreground, and stopping together.
//!
//! The command's process group is the terminal's foreground group while it runs, so that what is
//! typed reaches it and signals from the keyboard reach it alone. When it stops, this process stops
//! too, with its group, as the job that the caller's shell knows; when the shell continues that,
//! the command is continued, in the foreground if the job is there. At the end the terminal goes
//! back.

use std::fs::File;
use std::io::{self, Write as _};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::{Pid, getpgrp, kill_current_process_group, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::launch_error::LaunchError;
use crate::protocol::{FOREGROUND, Ground};

/// The terminal at standard input while a command has it.
pub(crate) struct Terminal {
    /// Where the first process inside takes signals and [`FOREGROUND`] from.
    control: File,
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
        Ok(Self { control: control.try_clone()? })
    }

    /// The command has been started.
    pub(crate) fn started(&self) {
        // The thread that relays signals keeps it blocked, so that this thread is the one to stop.
        let _ = block(false, Signal::SIGTSTP);
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
        if is_foreground() {
            self.control.write_all(&[FOREGROUND])?;
        }
        self.control.write_all(&[Signal::SIGCONT as u8])
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.started();
        let _ = give_back(getpgrp());
    }
}

/// Makes a group the terminal's foreground group if the one that is has no process any more, as the
/// group of a command that has ended: whoever else got the terminal in the meantime keeps it.
pub(crate) fn give_back(group: Pid) -> io::Result<()> {
    let foreground = tcgetpgrp(io::stdin())?;
    match test_kill_process_group(foreground) {
        Err(rustix::io::Errno::SRCH) => make_foreground(group),
        _ => Ok(()),
    }
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
