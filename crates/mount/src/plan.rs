//! The launch plan: what a sandbox is given, worked out as data before anything is started.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize, Serializer};
use skillfreeze_manifest::{Digest, EntryKind, SkillId};

use crate::alias::expand_argument;
use crate::bind::{Bind, BindError, Policy, normal_target, overlaps};
use crate::guard::protect;
use crate::host::{Bubblewrap, Host, SystemEntry};
use crate::integrity::{Integrity, Method, STRONGEST, Sandbox, Seal};
use crate::plan_error::PlanError;
use crate::request::{LaunchRequest, Names, Network};
use crate::stage::Size;
use crate::verify::Verified;

/// The schema of a plan as it is printed.
pub const PLAN_SCHEMA: &str = "skillfreeze.launch-plan.v1";
/// Bytes that the sandbox's `/tmp` and its home can each hold.
const TMP_BYTES: u64 = 1 << 30;
/// Bytes that the private `$SKILL_EXTENSIONS_DIR` can hold.
const EXTENSIONS_BYTES: u64 = 256 << 20;
/// Bytes of shared memory.
const SHM_BYTES: u64 = 64 << 20;
/// The sandbox's home.
const HOME: &str = "/tmp/home";
/// The variable that tells the command what its launch promises.
const INTEGRITY_VARIABLE: &str = "SKILLS_INTEGRITY";
/// Variables that every command has. Shared caches of bytecode let another revision's code run, or a
/// planted one: each launch has its own, and writes none.
const DEFAULTS: [(&str, &str); 6] = [
    ("HOME", HOME),
    ("TMPDIR", "/tmp"),
    ("XDG_CACHE_HOME", "/tmp/home/.cache"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PYTHONPYCACHEPREFIX", "/tmp/home/.cache/python"),
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
];
/// Who runs a command that root started and that no workspace gives to somebody: `nobody`.
const NOBODY: (u32, u32) = (65534, 65534);

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
    /// Where the command starts.
    pub working_directory: Utf8PathBuf,
    /// The command.
    #[serde(serialize_with = "lossy_list")]
    pub command: Vec<OsString>,
    /// The names of the directories.
    pub names: Names,
    /// Descriptors that the command keeps.
    pub keep: Vec<i32>,
    /// Live sources that the command can read beside the frozen ones.
    pub live_sources_visible: Vec<Utf8PathBuf>,
    /// What the caller should know.
    pub warnings: Vec<PlanWarning>,
}

/// One step of building the sandbox's file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Mount {
    /// Part of the host's own system, read-only, by its path.
    System {
        /// Where, inside and outside.
        path: Utf8PathBuf,
    },
    /// A link of the root directory.
    Link {
        /// Where.
        path: Utf8PathBuf,
        /// What it holds.
        to: Utf8PathBuf,
    },
    /// What the caller wants bound, or what protects something in it.
    Bind(Bind),
    /// The snapshot, read-only.
    Snapshot {
        /// Where.
        target: Utf8PathBuf,
    },
    /// An empty file system of its own.
    Tmpfs {
        /// Where.
        target: Utf8PathBuf,
        /// Bytes it can hold.
        bytes: u64,
        /// The mode of its root.
        mode: u32,
    },
    /// The process file system.
    Proc,
    /// A minimal set of devices.
    Dev,
    /// What has been built at this path is made read-only.
    ReadOnly {
        /// Where.
        path: Utf8PathBuf,
    },
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
        check_memory(how, snapshot.memory, host.memory)?;
        let names = Names {
            skills_dir: normal_target(request.names.skills_dir.clone())?,
            extensions_dir: normal_target(request.names.extensions_dir.clone())?,
            ..request.names.clone()
        };
        check_names(&names, host)?;
        let mut warnings = Vec::new();
        let user = choose_user(request, host, &mut warnings)?;
        let (binds, live_sources_visible) = plan_binds(&snapshot, request, &names, host, kind_at)?;
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
            mounts: plan_mounts(request, &names, host, binds),
            environment: plan_environment(request, &names, integrity)?,
            network: request.network,
            user,
            drops_privileges: host.user.0 == 0,
            working_directory: request
                .workspace
                .as_ref()
                .map_or_else(|| HOME.into(), |bind| bind.target.clone()),
            command,
            names,
            keep: request.keep.clone(),
            live_sources_visible,
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

/// Places that the sandbox makes itself and that nothing else may be, hold or lie in.
fn closed_places(names: &Names) -> Vec<Utf8PathBuf> {
    let own = ["/proc", "/dev", "/sys"].map(Utf8PathBuf::from);
    [names.skills_dir.clone(), names.extensions_dir.clone()].into_iter().chain(own).collect()
}

/// The two directories are made in the sandbox's own root: they lie in nothing and hold nothing.
fn check_names(names: &Names, host: &Host) -> Result<(), PlanError> {
    let system = host.system.iter().map(SystemEntry::path);
    let taken: Vec<&Utf8Path> =
        system.chain(["/etc", "/proc", "/dev", "/sys", "/tmp"].map(Utf8Path::new)).collect();
    for target in [&names.skills_dir, &names.extensions_dir] {
        let clash = taken.iter().find(|taken| overlaps(target, taken)).map(|taken| taken.to_path_buf());
        if let Some(reserved) = clash {
            return Err(BindError::TargetReserved { target: target.clone(), reserved }.into());
        }
    }
    if overlaps(&names.skills_dir, &names.extensions_dir) {
        let (target, reserved) = (names.extensions_dir.clone(), names.skills_dir.clone());
        return Err(BindError::TargetReserved { target, reserved }.into());
    }
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
    };
    let own = [&names.skills_variable, &names.extensions_variable];
    for (index, name) in own.into_iter().enumerate() {
        let is_taken = name == INTEGRITY_VARIABLE
            || DEFAULTS.iter().any(|(default, _)| name == default)
            || own[..index].contains(&name);
        if !is_name(name) || is_taken {
            return Err(PlanError::Variable { name: name.clone() });
        }
    }
    Ok(())
}

fn choose_user(
    request: &LaunchRequest,
    host: &Host,
    warnings: &mut Vec<PlanWarning>,
) -> Result<(u32, u32), PlanError> {
    if host.user.0 != 0 {
        return match request.user {
            Some(user) if user != host.user => Err(PlanError::UserOther { caller: host.user, user }),
            _ => Ok(host.user),
        };
    }
    // Root's group opens doors too.
    let owner = request.workspace.as_ref().map(|workspace| workspace.owner).filter(|owner| owner.0 != 0);
    let owner = owner.map(|(user, group)| (user, if group == 0 { NOBODY.1 } else { group }));
    let user = request.user.or(owner).unwrap_or(NOBODY);
    // The highest number means nobody to the system calls, and so no change.
    if [user.0, user.1].iter().any(|id| matches!(*id, 0 | u32::MAX)) {
        return Err(PlanError::UserRoot);
    }
    if let Some(workspace) = request.workspace.as_ref().filter(|workspace| workspace.owner.0 == 0) {
        let path = workspace.source.clone();
        warnings.push(PlanWarning::WorkspaceNotWritable { path, user: user.0 });
    }
    Ok(user)
}

fn plan_binds(
    snapshot: &Snapshot<'_>,
    request: &LaunchRequest,
    names: &Names,
    host: &Host,
    kind_at: &dyn Fn(&Utf8Path) -> Option<EntryKind>,
) -> Result<(Vec<Bind>, Vec<Utf8PathBuf>), PlanError> {
    let links = host.system.iter().filter_map(|entry| match entry {
        SystemEntry::Link(path, _) => Some(path.clone()),
        SystemEntry::Directory(_) => None,
    });
    let directories = host.system.iter().filter_map(|entry| match entry {
        SystemEntry::Directory(path) => Some(path.clone()),
        SystemEntry::Link(..) => None,
    });
    let shown: Vec<Utf8PathBuf> = directories.chain(host.etc.iter().cloned()).collect();
    if let Some(store) = &request.store
        && let Some(shown) = shown.iter().find(|shown| overlaps(store, shown))
    {
        return Err(PlanError::StoreShown { store: store.clone(), shown: shown.clone() });
    }
    let kept = shown.iter().cloned().chain(["/etc".into(), HOME.into()]).collect();
    let policy = Policy {
        store: request.store.as_deref(),
        snapshot: snapshot.path,
        closed: closed_places(names).into_iter().chain(links).collect(),
        kept,
        shown,
        kind_at,
    };
    let asked: Vec<Bind> = request.workspace.iter().chain(&request.binds).cloned().collect();
    let protection = protect(policy.check(asked)?, &request.guards)?;
    if let Some(extensions) = &request.extensions {
        // Its target is one of the closed places by design; only its source is in question.
        let probe = Bind { target: "/extensions".into(), ..extensions.clone() };
        policy.check(vec![probe.clone()])?;
        let path = probe.source.clone();
        if let Some(root) = protect(vec![probe], &request.guards)?.visible.into_iter().next() {
            return Err(BindError::InSource { path, root }.into());
        }
    }
    Ok((protection.binds, protection.visible))
}

fn plan_mounts(request: &LaunchRequest, names: &Names, host: &Host, binds: Vec<Bind>) -> Vec<Mount> {
    let tmpfs = |target: &str, bytes, mode| Mount::Tmpfs { target: target.into(), bytes, mode };
    let mut mounts: Vec<Mount> = host
        .system
        .iter()
        .map(|entry| match entry {
            SystemEntry::Directory(path) => Mount::System { path: path.clone() },
            SystemEntry::Link(path, to) => Mount::Link { path: path.clone(), to: to.clone() },
        })
        .collect();
    mounts.extend(host.etc.iter().map(|path| Mount::System { path: path.clone() }));
    if request.network == Network::Host {
        mounts.extend(host.resolver.iter().map(|path| Mount::System { path: path.clone() }));
    }
    mounts.extend([Mount::Proc, Mount::System { path: "/proc/sys".into() }]);
    // The devices' own file system has no limit of size, so nothing may be written there.
    mounts.extend([
        Mount::Dev,
        tmpfs("/dev/shm", SHM_BYTES, 0o1777),
        Mount::ReadOnly { path: "/dev".into() },
    ]);
    mounts.extend([tmpfs("/tmp", TMP_BYTES, 0o1777), tmpfs(HOME, TMP_BYTES, 0o700)]);
    mounts.extend(binds.into_iter().map(Mount::Bind));
    mounts.push(match &request.extensions {
        Some(bind) => Mount::Bind(Bind { target: names.extensions_dir.clone(), ..bind.clone() }),
        None => tmpfs(names.extensions_dir.as_str(), EXTENSIONS_BYTES, 0o755),
    });
    mounts.push(Mount::Snapshot { target: names.skills_dir.clone() });
    mounts.push(Mount::ReadOnly { path: "/".into() });
    mounts
}

fn plan_environment(
    request: &LaunchRequest,
    names: &Names,
    integrity: Integrity,
) -> Result<BTreeMap<OsString, OsString>, PlanError> {
    let mut environment: BTreeMap<OsString, OsString> = BTreeMap::new();
    environment.extend(DEFAULTS.map(|(name, value)| (name.into(), value.into())));
    let own = [
        (names.skills_variable.as_str(), names.skills_dir.as_str()),
        (names.extensions_variable.as_str(), names.extensions_dir.as_str()),
        (INTEGRITY_VARIABLE, integrity.as_str()),
    ];
    for (name, value) in &request.environment {
        if name.is_empty()
            || name.as_encoded_bytes().iter().any(|byte| matches!(byte, b'=' | 0))
            || value.as_encoded_bytes().contains(&0)
            || own.iter().any(|(own, _)| name == *own)
        {
            return Err(PlanError::Variable { name: name.to_string_lossy().into_owned() });
        }
        environment.insert(name.clone(), value.clone());
    }
    environment.extend(own.map(|(name, value)| (name.into(), value.into())));
    Ok(environment)
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
