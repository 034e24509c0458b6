//! Ending what a command leaves behind, where no namespace of processes ends with its first.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};

/// Kills every process below this one and waits until there is none. It must be a reaper of orphans, so
/// that what a killed one leaves becomes its child.
pub(crate) fn end_all() {
    loop {
        for child in children() {
            // It may have ended just now.
            let _ = kill(child, Signal::SIGKILL);
        }
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            // There is none left.
            Err(_) => return,
        }
    }
}

/// The children of this process.
#[expect(clippy::disallowed_methods, reason = "the kernel tells of processes by path alone")]
fn children() -> Vec<Pid> {
    // Also those that a `/proc` with hidden processes does not show.
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists: Option<Vec<String>> =
        threads.map(|thread| fs::read_to_string(thread.path().join("children")).ok()).collect();
    match lists {
        Some(lists) => lists
            .iter()
            .flat_map(|list| list.split_whitespace())
            .filter_map(|number| number.parse().ok().map(Pid::from_raw))
            .collect(),
        // The kernel was built without it.
        None => children_that_show(),
    }
}

#[expect(clippy::disallowed_methods, reason = "the kernel tells of processes by path alone")]
fn children_that_show() -> Vec<Pid> {
    let own = std::process::id().to_string();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read(entry.path().join("stat")).ok()?;
        (parent(&stat)? == own.as_bytes()).then_some(Pid::from_raw(number))
    });
    numbers.collect()
}

/// The parent's number in a process's `stat`: the second word after the name, which can hold anything.
fn parent(stat: &[u8]) -> Option<&[u8]> {
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(end_of_name + 2..)?.split(|byte| *byte == b' ').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pass_for_another_parent() {
        assert_eq!(parent(b"12 (sh) S 7 12 12 0"), Some(&b"7"[..]));
        assert_eq!(parent(b"12 (a) S 1 (b) R 7 12"), Some(&b"7"[..]));
        assert_eq!(parent(b"12 (x"), None);
    }
}
