//! The bubblewrap command line.

use std::ffi::OsString;
use std::os::fd::RawFd;

use camino::Utf8Path;

use crate::linux::memory_files::MemoryFiles;
use crate::mount::Mount;
use crate::network::Network;
use crate::plan::LaunchPlan;

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
