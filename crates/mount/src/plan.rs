//! The launch plan: what a sandbox is given, worked out as data before anything is started.

mod at_host;
mod binds;
mod environment;
#[cfg(target_os = "linux")]
mod landlock;
mod mounts;
mod reach;
mod root;
mod seatbelt;
mod user;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use skillfreeze_manifest::{Digest, EntryKind, SkillId};

use self::binds::plan_binds;
pub(crate) use self::environment::check_variables;
use self::environment::{HOME, check_names, own_places, plan_environment};
pub(crate) use self::environment::{INTEGRITY_VARIABLE, TAKEN};
pub(crate) use self::mounts::EXTENSIONS_BYTES;
use self::mounts::plan_mounts;
#[cfg(target_os = "linux")]
pub(crate) use self::reach::check_binds;
use self::root::Root;
pub use self::user::DEFAULT_USER;
use self::user::choose_user;
use crate::alias::expand_argument;
use crate::backend::Backend;
use crate::backend::Bubblewrap;
use crate::bind::{Bind, normal_target};
use crate::guard::{Guard, Guarded, Protection};
use crate::host::Host;
use crate::integrity::{Integrity, Method, STRONGEST, Sandbox, Seal};
use crate::mount::Mount;
use crate::names::Names;
use crate::network::Network;
use crate::plan_error::PlanError;
use crate::private;
use crate::request::LaunchRequest;
use crate::size::Size;
use crate::verify::Verified;

/// The schema of a plan as it is printed.
pub const PLAN_SCHEMA: &str = "skillfreeze.launch-plan.v1";

/// What a sandbox is given.
///
/// As JSON it is for people and programs to look at: what is not UTF-8 in the command and its environment is
/// replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LaunchPlan {
    /// [`PLAN_SCHEMA`].
    #[serde(skip_deserializing, default = "schema")]
    pub schema: &'static str,
    /// The snapshot that is mounted.
    pub snapshot: Digest,
    /// The packages in it.
    pub skills: Vec<SkillId>,
    /// What the launch promises.
    pub integrity: Integrity,
    /// By what means.
    pub how: Method,
    /// What encloses the command.
    pub backend: Backend,
    /// What is mounted, in this order.
    pub mounts: Vec<Mount>,
    /// The command's whole environment.
    #[serde(serialize_with = "lossy_map", deserialize_with = "plain_map")]
    pub environment: BTreeMap<OsString, OsString>,
    /// The network.
    pub network: Network,
    /// The numeric user and group of the command.
    pub user: (u32, u32),
    /// Whether the caller is root, so that the helper must become `user` before bubblewrap starts.
    pub drops_privileges: bool,
    /// Whether the command has the caller's terminal.
    pub terminal: bool,
    /// Where the command starts.
    pub working_directory: Utf8PathBuf,
    /// The command.
    #[serde(serialize_with = "lossy_list", deserialize_with = "plain_list")]
    pub command: Vec<OsString>,
    /// The directory that the sandbox has as its root instead of this machine's, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rootfs: Option<Utf8PathBuf>,
    /// The names of the directories.
    pub names: Names,
    /// Descriptors that the command keeps.
    pub keep: Vec<i32>,
    /// Live sources that the command can read beside the frozen ones.
    pub live_sources_visible: Vec<Utf8PathBuf>,
    /// What the caller should know.
    pub warnings: Vec<PlanWarning>,
}

/// What a caller should know of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PlanWarning {
    /// The command's user cannot write the workspace, by its owner and mode.
    WorkspaceNotWritable {
        /// The workspace.
        path: Utf8PathBuf,
        /// Who runs the command.
        user: u32,
    },
    /// The same of something else that it was lent to write.
    BindNotWritable {
        /// Where that is on the host.
        path: Utf8PathBuf,
        /// Who runs the command.
        user: u32,
    },
    /// The command can read skills that are not frozen beside the frozen ones.
    LiveSourcesVisible {
        /// Where.
        paths: Vec<Utf8PathBuf>,
    },
}

impl LaunchPlan {
    /// Works out what the sandbox is given. Starts nothing and writes nothing.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(verified: &Verified, request: &LaunchRequest, host: &Host) -> Result<Self, PlanError> {
        let skills = verified.manifest().packages().iter().map(|package| package.id().clone()).collect();
        let memory = Size::of(verified.manifest()).memory();
        let private = private::name(&host.temporaries).map_err(PlanError::Random)?;
        let snapshot = Snapshot { digest: verified.digest(), path: verified.path(), skills, memory, private };
        let mut plan = Self::of(snapshot, request, host, &crate::host::kind_at)?;
        if plan.drops_privileges {
            reach::warn_of_unwritable(&mut plan, request);
            reach::check_at_host(&plan)?;
        }
        Ok(plan)
    }

    /// What of the host the sandbox is lent, in the order of the mounts.
    pub fn binds(&self) -> impl Iterator<Item = &Bind> {
        self.mounts.iter().filter_map(|mount| match mount {
            Mount::Bind(bind) => Some(bind),
            _ => None,
        })
    }

    /// Where the sandbox sees the snapshot, `$SKILLS_DIR` first, then the source roots that it covers.
    pub fn places(&self) -> impl Iterator<Item = &Utf8Path> {
        let covered = self.mounts.iter().filter_map(|mount| match mount {
            Mount::InPlace { target, .. } => Some(target.as_path()),
            _ => None,
        });
        std::iter::once(self.names.skills_dir.as_path()).chain(covered)
    }

    /// Whether the helper must mount the snapshot over what was found at a guarded path.
    pub(crate) fn covers(&self, guard: &Guard) -> bool {
        let found = guard.found.as_ref().map(|found| &found.canonical);
        let is_it =
            |mount: &Mount| matches!(mount, Mount::InPlace { root, within: true, .. } if Some(root) == found);
        self.mounts.iter().any(is_it)
    }

    /// The source roots over which the helper must mount the snapshot, each once, by however many names it
    /// is guarded.
    pub(crate) fn covered(&self, guards: &[Guard]) -> Vec<Guarded> {
        let mut covered: Vec<Guarded> = Vec::new();
        for found in guards.iter().filter(|guard| self.covers(guard)).filter_map(|guard| guard.found.as_ref())
        {
            // One that was another a moment ago stays, and is refused.
            if !covered.contains(found) {
                covered.push(found.clone());
            }
        }
        covered
    }

    /// The directory of the host that is made for this launch alone, where there is one.
    pub(crate) fn private(&self) -> Option<Utf8PathBuf> {
        at_host::private_directory(self)
    }

    /// The same from plain data: what is at a path of the host is asked of `kind_at` alone.
    pub(crate) fn of(
        snapshot: Snapshot<'_>,
        request: &LaunchRequest,
        host: &Host,
        kind_at: &dyn Fn(&Utf8Path) -> Option<EntryKind>,
    ) -> Result<Self, PlanError> {
        if request.command.is_empty() {
            return Err(PlanError::NoCommand);
        }
        match request.sandbox.chosen() {
            #[cfg(target_os = "linux")]
            Sandbox::Landlock => return landlock::plan(snapshot, request, host, kind_at),
            Sandbox::Seatbelt => return seatbelt::plan(snapshot, request, host, kind_at),
            Sandbox::Auto | Sandbox::Bubblewrap if cfg!(target_os = "linux") => {}
            sandbox => return Err(PlanError::Sandbox { sandbox }),
        }
        if let Some(required) = request.require.filter(|required| *required > STRONGEST) {
            return Err(PlanError::Integrity { required, available: STRONGEST });
        }
        #[cfg(target_os = "linux")]
        if request.terminal && !crate::linux::filter::is_known_here() {
            return Err(PlanError::Terminal);
        }
        let Some(bubblewrap) = host.bubblewrap.clone() else {
            return Err(PlanError::Sandbox { sandbox: Sandbox::Bubblewrap });
        };
        if !bubblewrap.binds_descriptors {
            let Bubblewrap { path, version, .. } = bubblewrap;
            return Err(PlanError::NoDescriptorBind { path, version });
        }
        // Less than the best is had only by asking for it.
        let (integrity, how) = match (request.seal, request.require) {
            (Some(Seal::SealedMemfd), _) => (Integrity::Sealed, Method::SealedMemfd),
            (Some(Seal::StagedTmpfs), _) | (None, None | Some(Integrity::Sealed)) => {
                (Integrity::Sealed, Method::StagedTmpfs)
            }
            (None, Some(Integrity::ReadOnly | Integrity::Checked)) => (Integrity::ReadOnly, Method::Bind),
        };
        if request.in_place && how != Method::StagedTmpfs {
            return Err(PlanError::InPlace { how });
        }
        check_memory(how, snapshot.memory, host.memory)?;
        let names = Names {
            skills_dir: normal_target(request.names.skills_dir.clone())?,
            extensions_dir: normal_target(request.names.extensions_dir.clone())?,
            ..request.names.clone()
        };
        let root = Root::of(request, &names, host);
        check_names(&names, &root)?;
        let user = choose_user(request, host)?;
        let Protection { mounts: binds, visible: live_sources_visible, .. } =
            plan_binds(&snapshot, request, &names, &root, kind_at)?;
        let mut warnings = Vec::new();
        if !live_sources_visible.is_empty() {
            warnings.push(PlanWarning::LiveSourcesVisible { paths: live_sources_visible.clone() });
        }
        Ok(Self {
            schema: PLAN_SCHEMA,
            snapshot: snapshot.digest,
            skills: snapshot.skills,
            integrity,
            how,
            backend: Backend::Bubblewrap(bubblewrap),
            mounts: plan_mounts(request, &names, root, binds),
            environment: plan_environment(request, &names, integrity, own_places())?,
            network: request.network,
            user,
            drops_privileges: host.user.0 == 0,
            terminal: request.terminal,
            working_directory: request
                .workspace
                .as_ref()
                .map_or_else(|| HOME.into(), |bind| bind.target.clone()),
            command: command_of(request, &names),
            rootfs: request.rootfs.as_ref().map(|rootfs| rootfs.path.clone()),
            names,
            keep: request.keep.clone(),
            live_sources_visible,
            warnings,
        })
    }
}

/// The command, with the skills where they will be.
fn command_of(request: &LaunchRequest, names: &Names) -> Vec<OsString> {
    let expand = |argument: &OsString| expand_argument(argument, &names.skills_variable, &names.skills_dir);
    request.command.iter().map(expand).collect()
}

/// What a plan needs to know of a snapshot.
pub(crate) struct Snapshot<'a> {
    pub(crate) digest: Digest,
    pub(crate) path: &'a Utf8Path,
    pub(crate) skills: Vec<SkillId>,
    /// Bytes of memory that one copy of it takes.
    pub(crate) memory: u64,
    /// A name for a directory of this launch alone, where one is needed.
    pub(crate) private: Utf8PathBuf,
}

/// Refuses what memory cannot hold; `memory` is what one copy of the snapshot takes.
pub(crate) fn check_memory(how: Method, memory: u64, available: Option<u64>) -> Result<(), PlanError> {
    let copies = match how {
        Method::StagedTmpfs => 1,
        // The memory files, and what bubblewrap makes of them, are there at once for a moment.
        Method::SealedMemfd => 2,
        _ => 0,
    };
    let needed = memory.saturating_mul(copies);
    match available {
        Some(available) if available < needed => Err(PlanError::Memory { needed, available }),
        _ => Ok(()),
    }
}

fn schema() -> &'static str {
    PLAN_SCHEMA
}

fn lossy(text: &OsStr) -> std::borrow::Cow<'_, str> {
    text.to_string_lossy()
}

fn lossy_list<S: Serializer>(list: &[OsString], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.iter().map(|text| lossy(text)))
}

fn lossy_map<S: Serializer>(map: &BTreeMap<OsString, OsString>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map.iter().map(|(name, value)| (lossy(name), lossy(value))))
}

fn plain_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<OsString>, D::Error> {
    let list = Vec::<String>::deserialize(deserializer)?;
    Ok(list.into_iter().map(OsString::from).collect())
}

fn plain_map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<OsString, OsString>, D::Error> {
    let map = BTreeMap::<String, String>::deserialize(deserializer)?;
    Ok(map.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
}
