//! What launches are on Linux: the processes, what they seal and enclose with, and what they try from inside.

pub(crate) mod bubblewrap;
pub(crate) mod cover;
pub(crate) mod daemon;
pub(crate) mod descriptors;
pub(crate) mod elf;
pub(crate) mod failed;
pub(crate) mod filter;
#[cfg(test)]
mod golden;
pub(crate) mod helper;
pub(crate) mod inner;
pub(crate) mod landlock;
pub(crate) mod memory_files;
pub(crate) mod namespaces;
pub(crate) mod opened;
pub(crate) mod parent;
pub(crate) mod probe;
pub(crate) mod processes;
pub(crate) mod protocol;
pub(crate) mod running;
pub(crate) mod sealed_command;
pub(crate) mod sealer;
pub(crate) mod sealing;
pub(crate) mod selfcheck;
pub(crate) mod stage;
pub(crate) mod supervisor;
pub(crate) mod terminal;
pub(crate) mod typing;

pub use self::probe::{ProbeError, Probed, Unsealed, probe_read_only};
pub use self::sealed_command::{SealRequest, SealedCommand};
use crate::signals;

/// Becomes the process of a launch that this program was started as, and ends with it; returns if it was
/// started as none.
pub(crate) fn become_part_of_a_launch() {
    signals::notice_ends_of_children();
    let mut arguments = std::env::args_os().skip(1);
    let (Some(role), Some(numbers), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        return;
    };
    let run = match role.to_str() {
        Some(protocol::SUPERVISOR) => supervisor::run,
        Some(protocol::HELPER) => helper::run,
        Some(protocol::INNER) => inner::run,
        Some(protocol::SEALER) => sealer::run,
        _ => return,
    };
    // Before anything is opened: from here on, what was handed down can be told from that.
    let noted = skillfreeze_sys::note_inherited().ok();
    let numbers = noted.and_then(|()| protocol::Numbers::from_argument(&numbers));
    let status = numbers.map_or(125, run);
    std::process::exit(status);
}
