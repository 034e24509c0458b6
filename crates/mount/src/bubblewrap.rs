//! The bubblewrap command line, and what bubblewrap's refusals mean.

use std::ffi::OsString;
use std::os::fd::RawFd;

use camino::Utf8Path;

use crate::memory_files::MemoryFiles;
use crate::plan::{LaunchPlan, Mount};
use crate::request::Network;

/// Where the snapshot and the binds come from when bubblewrap starts.
#[derive(Debug, Clone)]
pub(crate) struct Sources<'a> {
    /// The snapshot.
    pub(crate) snapshot: SnapshotSource<'a>,
    /// The number of the descriptor of the first [`Mount::Bind`]; the others follow in order.
    pub(crate) first_bind: RawFd,
    /// The number of the descriptor of the system-call filter, where the command has a terminal.
    pub(crate) filter: Option<RawFd>,
}

/// How bubblewrap reaches the snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SnapshotSource<'a> {
    /// By the handle that was hashed.
    Handle(RawFd),
    /// At a path of the helper's private mount namespace, where it mounted that handle or a stage.
    Staged(&'a Utf8Path),
    /// From sealed memory files, whose descriptors follow each other from this number.
    Memory(&'a MemoryFiles, RawFd),
}

/// The options of bubblewrap for a plan, without the command.
///
/// The order matters: each mount is made in what those before it built.
pub(crate) fn arguments(plan: &LaunchPlan, sources: &Sources<'_>) -> Vec<OsString> {
    let mut arguments = Arguments::default();
    arguments.push(["--unshare-all"]);
    if plan.network == Network::Host {
        arguments.push(["--share-net"]);
    }
    // With all capabilities dropped and no further user namespace, nothing inside can mount.
    arguments.push(["--unshare-user", "--disable-userns", "--die-with-parent", "--cap-drop", "ALL"]);
    let mut next_bind = sources.first_bind;
    for mount in &plan.mounts {
        arguments.mount(mount, sources.snapshot, &mut next_bind);
    }
    arguments.push(["--chdir", plan.working_directory.as_str()]);
    // The first process inside is ours: it checks, starts the command and reaps what it leaves.
    match sources.filter {
        Some(number) => arguments.push(["--seccomp", &number.to_string(), "--as-pid-1"]),
        // In a session of its own, the command cannot reach the caller's terminal.
        None => arguments.push(["--new-session", "--as-pid-1"]),
    }
    arguments.0
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn push<const N: usize>(&mut self, arguments: [&str; N]) {
        self.0.extend(arguments.map(OsString::from));
    }

    fn mount(&mut self, mount: &Mount, snapshot: SnapshotSource<'_>, next_bind: &mut RawFd) {
        match mount {
            Mount::System { path } => self.push(["--ro-bind", path.as_str(), path.as_str()]),
            Mount::Link { path, to } => self.push(["--symlink", to.as_str(), path.as_str()]),
            Mount::Bind(bind) => {
                let option = if bind.writable { "--bind-fd" } else { "--ro-bind-fd" };
                self.push([option, &next_bind.to_string(), bind.target.as_str()]);
                *next_bind += 1;
            }
            Mount::Snapshot { target } => match snapshot {
                SnapshotSource::Handle(number) => {
                    self.push(["--ro-bind-fd", &number.to_string(), target.as_str()])
                }
                SnapshotSource::Staged(path) => self.push(["--ro-bind", path.as_str(), target.as_str()]),
                SnapshotSource::Memory(files, first) => {
                    self.push(["--perms", "0555", "--tmpfs", target.as_str()]);
                    self.0.extend(files.arguments(target, first).into_iter().map(OsString::from));
                }
            },
            // The helper has mounted it in the bind that the root lies in.
            Mount::InPlace { within: true, .. } => {}
            Mount::InPlace { target, .. } => {
                if let SnapshotSource::Staged(path) = snapshot {
                    self.push(["--ro-bind", path.as_str(), target.as_str()]);
                }
            }
            Mount::Tmpfs { target, bytes, mode } => {
                let (mode, bytes) = (format!("{mode:04o}"), bytes.to_string());
                self.push(["--perms", &mode, "--size", &bytes, "--tmpfs", target.as_str()]);
            }
            // A tmpfs is what bubblewrap has in its place.
            Mount::Private { .. } => {}
            Mount::Proc => self.push(["--proc", "/proc"]),
            Mount::Dev => self.push(["--dev", "/dev"]),
            Mount::ReadOnly { path } => self.push(["--remount-ro", path.as_str()]),
        }
    }
}

/// What a message of bubblewrap means, and what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The stable code.
    pub code: &'static str,
    /// What is the matter, in a sentence.
    pub sentence: &'static str,
    /// What mends it.
    pub fix: &'static str,
}

/// Messages of bubblewrap by a part that its versions share; the first that fits counts.
const REFUSALS: [(&str, Refusal); 10] = [
    (
        "setting up uid map: Permission denied",
        Refusal {
            code: "userns-restricted",
            sentence: "this system lets only named programs create user namespaces",
            fix: "give bubblewrap an AppArmor profile with `userns,` (Ubuntu ships one as `bwrap-userns-restrict`), or set kernel.apparmor_restrict_unprivileged_userns=0",
        },
    ),
    (
        "loopback: Failed RTM_NEWADDR",
        Refusal {
            code: "network-restricted",
            sentence: "this system does not let a user namespace set up its own network",
            fix: "give bubblewrap an AppArmor profile with `userns,`, or run with `--network host`",
        },
    ),
    (
        "No permissions to create a new namespace",
        Refusal {
            code: "userns-disabled",
            sentence: "this system lets ordinary users create no user namespaces",
            fix: "set kernel.unprivileged_userns_clone=1 (Debian) or user.max_user_namespaces to more than 0 (Red Hat)",
        },
    ),
    (
        "nesting depth or /proc/sys/user/max_*_namespaces exceeded",
        Refusal {
            code: "userns-limit",
            sentence: "no more namespaces may be created here",
            fix: "raise user.max_user_namespaces, or start outside of another sandbox",
        },
    ),
    (
        "Can't mount proc on",
        Refusal {
            code: "proc-masked",
            sentence: "parts of /proc are hidden here, as in most containers, so no new one may be mounted",
            fix: "start the container with an unmasked /proc (`--security-opt systempaths=unconfined` for docker), or on the host",
        },
    ),
    (
        "Creating new namespace failed: Operation not permitted",
        Refusal {
            code: "userns-forbidden",
            sentence: "a system-call filter forbids new namespaces here, as in most containers",
            fix: "start the container with a filter that allows unshare and clone, or on the host",
        },
    ),
    (
        "Creating new namespace failed",
        Refusal {
            code: "userns-unavailable",
            sentence: "no namespace can be created here",
            fix: "see `skillfreeze doctor`",
        },
    ),
    (
        "execvp /proc/self/fd/",
        Refusal {
            code: "program-not-executable",
            sentence: "the command's user cannot start this program, which is the first process of the sandbox",
            fix: "make the program readable and executable for everybody (`chmod a+rx`), and use the static build where the sandbox has another C library",
        },
    ),
    (
        "error while loading shared libraries",
        Refusal {
            code: "program-not-executable",
            sentence: "this program, which is the first process of the sandbox, does not find its libraries there",
            fix: "use a static build of it, which needs nothing of the sandbox's root (`scripts/release` makes one)",
        },
    ),
    (
        "Can't find source path",
        Refusal {
            code: "bind-unreachable",
            sentence: "the command's user cannot reach a directory that is to be mounted",
            fix: "give that user search permission on every directory above it, or name another user with `--user`",
        },
    ),
];

/// Says what bubblewrap's message means, if it is one that is known.
#[must_use]
pub fn explain(message: &str) -> Option<Refusal> {
    REFUSALS.iter().find(|(part, _)| message.contains(part)).map(|(_, refusal)| *refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explains_what_bubblewrap_says() {
        for (message, code) in [
            ("bwrap: setting up uid map: Permission denied\n", "userns-restricted"),
            ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted\n", "network-restricted"),
            (
                "bwrap: No permissions to create a new namespace, likely because the kernel does not allow non-privileged user namespaces.",
                "userns-disabled",
            ),
            (
                "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)\n",
                "userns-limit",
            ),
            ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted\n", "proc-masked"),
            ("bwrap: Creating new namespace failed: Operation not permitted\n", "userns-forbidden"),
            (
                "/proc/self/fd/12: error while loading shared libraries: libgcc_s.so.1: cannot open shared object file: No such file or directory",
                "program-not-executable",
            ),
            ("bwrap: Can't find source path /root/ws: Permission denied\n", "bind-unreachable"),
        ] {
            assert_eq!(explain(message).map(|refusal| refusal.code), Some(code), "{message}");
        }
        assert_eq!(explain("bwrap: something new"), None);
    }
}
