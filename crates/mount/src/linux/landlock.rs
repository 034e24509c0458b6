//! Enclosing the first process by Landlock, where no namespaces are to be had.
//!
//! There is no other root, no other network and no other numbering of processes then, only rules that this
//! process and all that it starts are bound by: what may be opened below which directory, whom a signal
//! reaches, and a filter of system calls for what Landlock does not look at. What the rules cannot keep the
//! command from is to change modes, owners, times and extended attributes of files that are its user's.
//!
//! ```text
//! main ── helper ── inner (the rules) ── command (the rules, and one more set around it)
//! ```
//!
//! `helper` stands outside of the rules, so that nothing inside reaches it: it is the reaper of all orphans,
//! ends what is left, and removes the launch's own directory. The set of rules around the command keeps it
//! from sending signals to `inner`, whose own reach ends at the rules that it is bound by: a signal from it
//! to everybody ends just what it has started.

mod calls;
pub(crate) mod descendants;
pub(crate) mod probes;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use rustix::thread::{CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities};
use serde::{Deserialize, Serialize};
use skillfreeze_manifest::{EntryKind, Stamp};

use crate::linux::filter::program;
use crate::linux::probe::ProbeError;
use crate::linux::protocol::Numbers;
use crate::mount::Mount;
use crate::network::Network;

/// The version of Landlock without which a promise would not hold: the first that keeps signals inside.
pub(crate) const NEEDED: u32 = 6;
const VERSION: ABI = ABI::V6;

/// Devices that hold nothing, and whether they may be written.
const DEVICES: [(&str, bool); 6] = [
    ("/dev/null", true),
    ("/dev/zero", true),
    ("/dev/full", true),
    ("/dev/random", false),
    ("/dev/urandom", false),
    ("/dev/tty", true),
];

/// What the first process encloses itself in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Enclosure {
    /// What may be read or written.
    pub(crate) mounts: Vec<Mount>,
    /// The network.
    pub(crate) network: Network,
    /// Where the command starts.
    pub(crate) working_directory: Utf8PathBuf,
}

/// The rules are in force here. What only this process may do with that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Enclosed(());

impl Enclosure {
    /// Encloses this process, while it has a single thread, in what the plan says; the handles of the binds
    /// and of the snapshot are taken from the agreed numbers.
    pub(crate) fn enter(&self, numbers: Numbers) -> io::Result<()> {
        let rules = self.rules(numbers)?;
        give_up_capabilities()?;
        // The terminal of the caller is not the command's, which could type into it.
        rustix::process::setsid()?;
        rustix::process::chdir(self.working_directory.as_std_path())?;
        set_child_subreaper(Some(getpid()))?;
        rules.restrict_self().map_err(io::Error::other)?;
        let filter = program(&calls::refused(self.network)).ok_or(io::ErrorKind::Unsupported)?;
        skillfreeze_sys::set_filter(&filter)
    }

    fn rules(&self, numbers: Numbers) -> io::Result<RulesetCreated> {
        let mut rules = base(self.network).map_err(io::Error::other)?;
        let mut binds = numbers.first_bind()..;
        for mount in &self.mounts {
            match mount {
                Mount::System { path } => {
                    // What the command's user cannot reach, it cannot be allowed.
                    if let Ok(place) = open(path) {
                        rules = allow(rules, place, reading())?;
                    }
                }
                Mount::Proc => rules = allow(rules, open("/proc".into())?, reading())?,
                Mount::Dev => {
                    for (path, writable) in DEVICES {
                        let access = if writable { reading() | AccessFs::WriteFile } else { reading() };
                        // A container may have fewer.
                        if let Ok(device) = open(path.into()) {
                            rules = allow(rules, device, access)?;
                        }
                    }
                }
                Mount::Private { path } => rules = allow(rules, open(path)?, writing())?,
                Mount::Bind(bind) => {
                    let handle = binds.next().ok_or(io::ErrorKind::InvalidData)?;
                    let access = if bind.writable { writing() } else { reading() };
                    rules = allow(rules, skillfreeze_sys::inherited(handle)?, access)?;
                }
                Mount::Snapshot { .. } => {
                    let handle = skillfreeze_sys::inherited(numbers.snapshot())?;
                    rules = allow(rules, handle, reading())?;
                }
                // Nothing is mounted.
                Mount::Link { .. } | Mount::InPlace { .. } | Mount::Tmpfs { .. } | Mount::ReadOnly { .. } => {
                }
            }
        }
        Ok(rules)
    }
}

impl Enclosed {
    /// Tries whether signals are kept inside, now that the process has enclosed itself.
    pub(crate) fn confirm() -> Result<Self, ProbeError> {
        // The helper is outside, and of the same user.
        match kill(getppid(), None) {
            Err(nix::errno::Errno::EPERM) => Ok(Self(())),
            answer => Err(ProbeError {
                check: probes::BROKEN,
                detail: format!("reaching another process with a signal: {answer:?}"),
            }),
        }
    }

    /// Has a command enclosed once more when it starts, so that it cannot send signals to this process.
    pub(crate) fn keep_inside(self, command: &mut Command) -> io::Result<()> {
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .scope(Scope::Signal)
            .and_then(Ruleset::create)
            .map_err(io::Error::other)?;
        let rules: Option<OwnedFd> = rules.into();
        skillfreeze_sys::enclose(command, rules.ok_or(io::ErrorKind::Unsupported)?);
        Ok(())
    }

    /// Ends everything that was started inside, all at once, so that nothing can escape by starting another.
    pub(crate) fn end_all(self) {
        // To everybody whom a signal reaches from here, but this process itself.
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
        while matches!(wait(WaitOptions::empty()), Ok(_) | Err(Errno::INTR)) {}
    }
}

/// Gives up every capability, also what the command would get of it: the rules are about an ordinary user.
fn give_up_capabilities() -> io::Result<()> {
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

fn base(network: Network) -> Result<RulesetCreated, RulesetError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(VERSION))?
        .scope(Scope::from_all(VERSION))?;
    match network {
        Network::None => rules.handle_access(AccessNet::from_all(VERSION))?.create(),
        Network::Host => rules.create(),
    }
}

/// Reading, listing and starting programs.
fn reading() -> BitFlags<AccessFs> {
    AccessFs::from_read(VERSION)
}

/// All but making devices and controlling them.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_all(VERSION) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

fn allow(rules: RulesetCreated, handle: OwnedFd, access: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    let is_directory = Stamp::of(&handle)?.kind == EntryKind::Directory;
    let access = if is_directory { access } else { access & AccessFs::from_file(VERSION) };
    rules.add_rule(PathBeneath::new(handle.as_fd(), access)).map_err(io::Error::other)
}

/// Opens a place of the system, as itself or where a link leads.
fn open(path: &Utf8Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path.as_std_path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}
