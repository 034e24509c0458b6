//! Plans for sandboxes of other programs: what a caller's own sandbox must be given, as data, and in
//! the words of the sandboxes that are common.
//!
//! The integrity is `checked`: every byte was hashed before the plan was made, and the plan says how to
//! hash it again; what stands between is the caller's sandbox.

mod bubblewrap;
mod docker;
mod seatbelt;
mod variables;

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;
use skillfreeze_manifest::{Digest, MANIFEST_FILE, SkillId};

use crate::bind::{Bind, BindError, normal_target, overlaps};
use crate::guard::Guard;
use crate::host::SYSTEM;
use crate::integrity::{Integrity, Method};
use crate::names::Names;
use crate::plan::{EXTENSIONS_BYTES, INTEGRITY_VARIABLE, TAKEN, check_variables};
use crate::plan_error::PlanError;
use crate::seatbelt::{Profile, Resolve, protection};
use crate::shell;
use crate::verify::Verified;

/// The schema of such a plan.
pub const HANDOFF_SCHEMA: &str = "skillfreeze.plan.v1";

/// What a caller asks of a plan for its own sandbox.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct HandoffRequest {
    /// How the two directories are called in the sandbox.
    pub names: Names,
    /// Whether the sandbox shows the host's file system, so that the snapshot is at its own path, and
    /// nothing is mounted where nothing is.
    pub at_host: bool,
    /// The least integrity that will do.
    pub require: Option<Integrity>,
    /// A directory of the host for `$SKILL_EXTENSIONS_DIR`.
    pub extensions: Option<Bind>,
    /// The lock file that keeps the snapshot in its store while somebody holds a lock on it.
    pub lease: Option<Utf8PathBuf>,
    /// The store's root, in which nothing may be written.
    pub store: Option<Utf8PathBuf>,
    /// Places from which a later run would take skills or configuration, in which nothing may be written.
    pub guards: Vec<Guard>,
}

/// What a caller's own sandbox must be given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Handoff {
    /// [`HANDOFF_SCHEMA`].
    pub schema: &'static str,
    /// The snapshot, of which every byte was hashed.
    pub snapshot: Digest,
    /// What can be promised: [`Integrity::Checked`].
    pub integrity: Integrity,
    /// By what means: [`Method::Plan`].
    pub how: Method,
    /// The packages in it.
    pub skills: Vec<SkillId>,
    /// The snapshot's directory on the host.
    pub path: Utf8PathBuf,
    /// Where the command sees it.
    pub skills_dir: Utf8PathBuf,
    /// Whether that is the host's own path, so that the sandbox shows the host's file system.
    pub at_host: bool,
    /// What must be mounted, in this order.
    pub mounts: Vec<HandoffMount>,
    /// What must be set in the command's environment.
    pub environment: BTreeMap<String, String>,
    /// What must be locked while the command runs.
    pub lease: HandoffLease,
    /// The words that check everything again afterwards.
    pub verify: Vec<String>,
    /// Options for bubblewrap, to be put after the caller's own.
    pub bwrap: Vec<String>,
    /// Rules for Seatbelt, to be put last in the caller's own profile.
    pub seatbelt: Profile,
    /// What the caller should know.
    pub notes: Vec<HandoffNote>,
}

/// One mount of a caller's sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HandoffMount {
    /// Something of the host.
    Bind {
        /// Where it is.
        source: Utf8PathBuf,
        /// Where the command sees it.
        target: Utf8PathBuf,
        /// Whether the command must not be able to write it.
        read_only: bool,
    },
    /// An empty, writable file system of its own.
    Tmpfs {
        /// Where.
        target: Utf8PathBuf,
        /// Bytes that it can hold.
        bytes: u64,
    },
}

/// A file to hold a shared lock on (`fcntl`, whole file) while the command runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HandoffLease {
    /// On the host.
    pub path: Utf8PathBuf,
    /// In the sandbox.
    pub target: Utf8PathBuf,
    /// Whether it is the store's, so that the lock keeps the snapshot there; else it is the manifest of a
    /// snapshot that is in no store, which nothing removes but its owner.
    pub keeps: bool,
}

/// What a caller should know of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HandoffNote {
    /// The mounts need a root directory that can be written while the sandbox is built: a sandbox whose
    /// root is the host's, read-only, has no place for them.
    NeedsOwnRoot,
    /// There is no `$SKILL_EXTENSIONS_DIR`: the host's file system has no private place for it.
    NoExtensions,
}

impl Handoff {
    /// Works out what the caller's sandbox must be given. Starts nothing and writes nothing; where
    /// paths of the host lead is asked of `resolve` alone.
    ///
    /// # Errors
    /// [`PlanError`]; [`PlanError::Integrity`] when more than [`Integrity::Checked`] is required.
    pub fn new(
        verified: &Verified,
        request: &HandoffRequest,
        resolve: Resolve<'_>,
    ) -> Result<Self, PlanError> {
        let skills = verified.manifest().packages().iter().map(|package| package.id().clone()).collect();
        Self::of(verified.digest(), verified.path(), skills, request, resolve)
    }

    /// The same from plain data.
    fn of(
        snapshot: Digest,
        path: &Utf8Path,
        skills: Vec<SkillId>,
        request: &HandoffRequest,
        resolve: Resolve<'_>,
    ) -> Result<Self, PlanError> {
        let integrity = Integrity::Checked;
        if let Some(required) = request.require.filter(|required| *required > integrity) {
            return Err(PlanError::Integrity { required, available: integrity });
        }
        check_variables(&request.names)?;
        let at_host = request.at_host;
        let skills_dir =
            if at_host { path.to_owned() } else { normal_target(request.names.skills_dir.clone())? };
        let lease = lease(path, &skills_dir, request);
        let mut mounts =
            vec![HandoffMount::Bind { source: path.to_owned(), target: skills_dir.clone(), read_only: true }];
        if lease.keeps {
            let (source, target) = (lease.path.clone(), lease.target.clone());
            mounts.push(HandoffMount::Bind { source, target, read_only: true });
        }
        let extensions = extensions(path, request)?;
        mounts.extend(extensions.clone());
        let extensions_dir = extensions.as_ref().map(HandoffMount::target);
        if !at_host {
            check_system([Some(skills_dir.as_path()), extensions_dir].into_iter().flatten())?;
        }
        check_targets(&skills_dir, &lease, extensions_dir)?;
        let mut notes = Vec::new();
        if !at_host {
            notes.push(HandoffNote::NeedsOwnRoot);
        }
        if extensions_dir.is_none() {
            notes.push(HandoffNote::NoExtensions);
        }
        let environment = environment(&request.names, &skills_dir, extensions_dir, integrity);
        let verify = ["skillfreeze", "verify", path.as_str(), "--digest", &snapshot.to_string()];
        let mut handoff = Self {
            schema: HANDOFF_SCHEMA,
            snapshot,
            integrity,
            how: Method::Plan,
            skills,
            path: path.to_owned(),
            skills_dir,
            at_host,
            mounts,
            environment,
            lease,
            verify: verify.map(str::to_owned).into(),
            bwrap: Vec::new(),
            seatbelt: protection(path, resolve)?,
            notes,
        };
        handoff.bwrap = handoff.bubblewrap_words();
        Ok(handoff)
    }
}

impl HandoffMount {
    /// Where the command sees it.
    #[must_use]
    pub fn target(&self) -> &Utf8Path {
        match self {
            Self::Bind { target, .. } | Self::Tmpfs { target, .. } => target,
        }
    }
}

fn lease(path: &Utf8Path, skills_dir: &Utf8Path, request: &HandoffRequest) -> HandoffLease {
    match &request.lease {
        Some(lease) => {
            // Beside the snapshot, since nothing can be put in it.
            let target = if request.at_host {
                lease.clone()
            } else {
                Utf8PathBuf::from(format!("{skills_dir}.lease"))
            };
            HandoffLease { path: lease.clone(), target, keeps: true }
        }
        None => HandoffLease {
            path: path.join(MANIFEST_FILE),
            target: skills_dir.join(MANIFEST_FILE),
            keeps: false,
        },
    }
}

fn extensions(snapshot: &Utf8Path, request: &HandoffRequest) -> Result<Option<HandoffMount>, PlanError> {
    let target = normal_target(request.names.extensions_dir.clone())?;
    let Some(bind) = &request.extensions else {
        let private = HandoffMount::Tmpfs { target, bytes: EXTENSIONS_BYTES };
        return Ok(Some(private).filter(|_| !request.at_host));
    };
    let source = bind.source.clone();
    if let Some(store) = request.store.as_ref().filter(|store| overlaps(store, &source)) {
        return Err(BindError::Store { path: source, store: store.clone() }.into());
    }
    if overlaps(snapshot, &source) {
        return Err(BindError::Snapshot { path: source, snapshot: snapshot.to_owned() }.into());
    }
    let found = request.guards.iter().filter_map(|guard| guard.found.as_ref());
    if let Some(found) = found.into_iter().find(|found| overlaps(&found.canonical, &source)) {
        return Err(BindError::InSource { path: source, root: found.canonical.clone() }.into());
    }
    let target = if request.at_host { source.clone() } else { target };
    Ok(Some(HandoffMount::Bind { source, target, read_only: false }))
}

fn reserved(target: &Utf8Path, reserved: &Utf8Path) -> PlanError {
    BindError::TargetReserved { target: target.to_owned(), reserved: reserved.to_owned() }.into()
}

/// No mount hides what a sandbox needs itself, as in one of ours.
fn check_system<'a>(targets: impl Iterator<Item = &'a Utf8Path>) -> Result<(), PlanError> {
    for target in targets {
        let mut taken = SYSTEM.iter().chain(&TAKEN).map(|taken| Utf8Path::new(*taken));
        if let Some(taken) = taken.find(|taken| overlaps(target, taken)) {
            return Err(reserved(target, taken));
        }
    }
    Ok(())
}

/// No mount hides another, nor everything.
fn check_targets(
    skills_dir: &Utf8Path,
    lease: &HandoffLease,
    extensions_dir: Option<&Utf8Path>,
) -> Result<(), PlanError> {
    if skills_dir == "/" {
        return Err(reserved(skills_dir, skills_dir));
    }
    let Some(extensions_dir) = extensions_dir else { return Ok(()) };
    let taken = [skills_dir, lease.target.as_path()];
    match taken.into_iter().find(|taken| overlaps(extensions_dir, taken)) {
        Some(taken) => Err(reserved(extensions_dir, taken)),
        None => Ok(()),
    }
}

fn environment(
    names: &Names,
    skills_dir: &Utf8Path,
    extensions_dir: Option<&Utf8Path>,
    integrity: Integrity,
) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::from(
        [
            (names.skills_variable.as_str(), skills_dir.as_str()),
            (INTEGRITY_VARIABLE, integrity.as_str()),
            // A cache of bytecode that others share runs the code of another revision, or planted code:
            // none is written, and an empty prefix means none apart from the read-only sources'.
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("PYTHONPYCACHEPREFIX", ""),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let extensions = extensions_dir.map(|dir| (names.extensions_variable.clone(), dir.to_string()));
    environment.extend(extensions);
    environment
}

/// Words as one line for a shell, or each ended by a NUL byte.
#[must_use]
pub fn words_text(words: &[String], null: bool) -> String {
    if null {
        words.iter().map(|word| format!("{word}\0")).collect()
    } else {
        format!("{}\n", shell::join(words.iter().map(String::as_str)))
    }
}

/// Refuses a path with a control character where the form has no way to write one.
fn refuse_controls(form: &'static str, paths: &[&Utf8Path]) -> Result<(), PlanError> {
    match paths.iter().find(|path| path.as_str().contains(char::is_control)) {
        Some(path) => Err(PlanError::Uncarried { form, path: path.to_path_buf() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
