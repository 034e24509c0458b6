//! What a caller asks of a launch.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use camino::{Utf8Path, Utf8PathBuf};

use crate::bind::Bind;
use crate::guard::Guard;
use crate::host::Rootfs;
use crate::integrity::{Integrity, Sandbox, Seal};
use crate::names::Names;
use crate::network::Network;

/// What a caller asks for.
/// Made by [`LaunchRequest::new`] with the safest of everything; the fields say what else is wanted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LaunchRequest {
    /// The program and its arguments; at least the program.
    pub command: Vec<OsString>,
    /// The integrity to launch at, where it can be had; the platform's best without one.
    pub require: Option<Integrity>,
    /// How a sealed launch seals, whatever would be chosen.
    pub seal: Option<Seal>,
    /// What is to enclose the command.
    pub sandbox: Sandbox,
    /// A directory that the command works in and may write, at its own path.
    pub workspace: Option<Bind>,
    /// What else of the host it sees.
    pub binds: Vec<Bind>,
    /// Which network it sees.
    pub network: Network,
    /// Variables from the allow-list of the caller's environment, and those it names.
    pub environment: BTreeMap<OsString, OsString>,
    /// The root directory whose programs the command has; this machine's without one.
    pub rootfs: Option<Rootfs>,
    /// Whether the snapshot is also mounted over every source root in what the command is lent, so that
    /// it is read there too. Where it cannot be, there is no launch.
    pub in_place: bool,
    /// A directory of the host for `$SKILL_EXTENSIONS_DIR`; a private one without it.
    pub extensions: Option<Bind>,
    /// The user and group of the command, if root starts it.
    pub user: Option<(u32, u32)>,
    /// How the two directories are called.
    pub names: Names,
    /// Whether the command has the caller's terminal, at its standard input.
    pub terminal: bool,
    /// Descriptors that the command keeps beside the first three.
    pub keep: Vec<i32>,
    /// The store's root, which no bind may touch.
    pub store: Option<Utf8PathBuf>,
    /// Places from which a later run would take skills or configuration: the source roots in force.
    ///
    /// Those that a project conventionally has are guarded without being named, in whatever the
    /// command can write.
    pub guards: Vec<Guard>,
}

impl LaunchRequest {
    /// Asks for a command with no network, no workspace, nothing of the host and nothing of the
    /// caller's environment.
    #[must_use]
    pub fn new(command: Vec<OsString>) -> Self {
        Self {
            command,
            require: None,
            seal: None,
            sandbox: Sandbox::Auto,
            workspace: None,
            binds: Vec::new(),
            network: Network::None,
            environment: BTreeMap::new(),
            rootfs: None,
            in_place: false,
            extensions: None,
            user: None,
            names: Names::default(),
            terminal: false,
            keep: Vec::new(),
            store: None,
            guards: Vec::new(),
        }
    }

    /// Whether a variable of the caller's environment goes to the command without being named.
    #[must_use]
    pub fn passes(variable: &OsStr) -> bool {
        let name = variable.as_encoded_bytes();
        matches!(name, b"PATH" | b"LANG" | b"TERM" | b"TZ") || name.starts_with(b"LC_")
    }

    /// The same with the conventional places of every project that the command can write guarded.
    pub(crate) fn guarded(mut self) -> Self {
        let lent = self.workspace.iter().chain(&self.binds).chain(&self.extensions);
        // Of a file, the directory that it is in says whether it is one of those.
        let place = |bind: &Bind| match bind.source.parent() {
            Some(above) if !bind.is_directory => above.to_owned(),
            _ => bind.source.clone(),
        };
        // Only what covers sources needs to know of those that the command can merely read, and of the
        // project in which a bind is such a place itself.
        let above =
            |bind: &Bind| bind.source.ancestors().nth(2).filter(|_| self.in_place).map(Utf8Path::to_owned);
        let places = lent
            .filter(|bind| bind.writable || self.in_place)
            .flat_map(|bind| std::iter::once(place(bind)).chain(above(bind)));
        let mut guards: Vec<Guard> = places.flat_map(|place| Guard::of_project(&place)).collect();
        self.guards.append(&mut guards);
        self.guards.sort_by(|a, b| a.path.cmp(&b.path));
        self.guards.dedup_by(|a, b| a.path == b.path);
        self
    }
}
