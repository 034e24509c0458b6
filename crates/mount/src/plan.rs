//! The launch plan: what a sandbox is given, worked out as data before anything is started.

mod binds;
mod environment;
mod mounts;
mod root;
mod user;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Serialize, Serializer};
use skillfreeze_manifest::{Digest, EntryKind, SkillId};

use self::binds::plan_binds;
use self::environment::{HOME, check_names, plan_environment};
pub use self::mounts::Mount;
use self::mounts::plan_mounts;
use self::root::Root;
use self::user::choose_user;
use crate::alias::expand_argument;
use crate::bind::{Bind, normal_target};
use crate::filter::Machine;
use crate::guard::{Guarded, Protection};
use crate::host::{Bubblewrap, Host};
use crate::integrity::{Integrity, Method, STRONGEST, Sandbox, Seal};
use crate::plan_error::PlanError;
use crate::request::{LaunchRequest, Names, Network};
use crate::stage::Size;
use crate::verify::Verified;

/// The schema of a plan as it is printed.
pub const PLAN_SCHEMA: &str = "skillfreeze.launch-plan.v1";

/// What a sandbox is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LaunchPlan {
    /// [`PLAN_SCHEMA`].
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
    pub backend: Bubblewrap,
    /// What is mounted, in this order.
    pub mounts: Vec<Mount>,
    /// The command's whole environment.
    #[serde(serialize_with = "lossy_map")]
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
    #[serde(serialize_with = "lossy_list")]
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
    /// The source roots over which the helper mounts the snapshot.
    #[serde(skip)]
    pub(crate) covered: Vec<Guarded>,
    /// What the caller should know.
    pub warnings: Vec<PlanWarning>,
}

/// What a caller should know of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum PlanWarning {
    /// The workspace is root's, and the command runs as somebody else.
    WorkspaceNotWritable {
        /// The workspace.
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
        let snapshot = Snapshot { digest: verified.digest(), path: verified.path(), skills, memory };
        Self::of(snapshot, request, host, &crate::host::kind_at)
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
        if !matches!(request.sandbox, Sandbox::Auto | Sandbox::Bubblewrap) {
            return Err(PlanError::Sandbox { sandbox: request.sandbox });
        }
        if let Some(required) = request.require.filter(|required| *required > STRONGEST) {
            return Err(PlanError::Integrity { required, available: STRONGEST });
        }
        if request.terminal && Machine::own().is_none() {
            return Err(PlanError::Terminal);
        }
        if !host.bubblewrap.binds_descriptors {
            let Bubblewrap { path, version, .. } = host.bubblewrap.clone();
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
        let mut warnings = Vec::new();
        let user = choose_user(request, host, &mut warnings)?;
        let Protection { mounts: binds, visible: live_sources_visible, covered } =
            plan_binds(&snapshot, request, &names, &root, kind_at)?;
        if !live_sources_visible.is_empty() {
            warnings.push(PlanWarning::LiveSourcesVisible { paths: live_sources_visible.clone() });
        }
        let command = request
            .command
            .iter()
            .map(|argument| expand_argument(argument, &names.skills_variable, &names.skills_dir))
            .collect();
        Ok(Self {
            schema: PLAN_SCHEMA,
            snapshot: snapshot.digest,
            skills: snapshot.skills,
            integrity,
            how,
            backend: host.bubblewrap.clone(),
            mounts: plan_mounts(request, &names, root, binds),
            environment: plan_environment(request, &names, integrity)?,
            network: request.network,
            user,
            drops_privileges: host.user.0 == 0,
            terminal: request.terminal,
            working_directory: request
                .workspace
                .as_ref()
                .map_or_else(|| HOME.into(), |bind| bind.target.clone()),
            command,
            rootfs: request.rootfs.as_ref().map(|rootfs| rootfs.path.clone()),
            names,
            keep: request.keep.clone(),
            live_sources_visible,
            covered,
            warnings,
        })
    }
}

/// What a plan needs to know of a snapshot.
pub(crate) struct Snapshot<'a> {
    pub(crate) digest: Digest,
    pub(crate) path: &'a Utf8Path,
    pub(crate) skills: Vec<SkillId>,
    /// Bytes of memory that one copy of it takes.
    pub(crate) memory: u64,
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

fn lossy(text: &OsStr) -> std::borrow::Cow<'_, str> {
    text.to_string_lossy()
}

fn lossy_list<S: Serializer>(list: &[OsString], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.iter().map(|text| lossy(text)))
}

fn lossy_map<S: Serializer>(map: &BTreeMap<OsString, OsString>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map.iter().map(|(name, value)| (lossy(name), lossy(value))))
}
