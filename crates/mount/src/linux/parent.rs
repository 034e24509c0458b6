//! What a process of a launch does about the end of `main`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::linux::failed::{Failed, during};

const LOOKING: &str = "looking after its parent";

/// Has this process killed when `main` ends, or not any more.
pub(crate) fn die_with_main(does: bool) -> Result<(), Failed> {
    set_parent_process_death_signal(does.then_some(Signal::KILL)).map_err(during(LOOKING))
}

/// `main` may have ended before anybody looked after it: only it writes to the pipe of `control`.
pub(crate) fn refuse_orphan(control: &OwnedFd) -> Result<(), Failed> {
    let mut waiting = [PollFd::new(control, PollFlags::empty())];
    match poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(0) => Ok(()),
        Ok(_) => Err(during(LOOKING)(io::Error::from(io::ErrorKind::BrokenPipe))),
        Err(errno) => Err(during(LOOKING)(errno)),
    }
}
