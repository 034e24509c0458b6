//! The run record: what was requested, frozen, checked and started, and how it ended.
//!
//! It is written before the command starts, with the outcome `started`, and replaced when it has
//! ended: a machine that loses power leaves the first one. It is the word of the host that wrote
//! it, and says so.

use std::ffi::OsString;

use camino::Utf8PathBuf;
use serde::{Deserialize, Deserializer, Serialize};
use skillfreeze_manifest::{Check, Digest, Fault, SkillId, Version};

use crate::backend::{Backend, Bubblewrap};
use crate::exit::Exit;
use crate::integrity::{Integrity, Method, Scope};
use crate::mount::Mount;
use crate::network::Network;
use crate::plan::LaunchPlan;
use crate::verify::Verified;

/// The schema of a run record.
pub const RECORD_SCHEMA: &str = "skillfreeze.run.v1";
/// What a record is worth as evidence.
const ATTESTATION: &str = "unsigned: the word of the host that wrote it";

/// Everything there is to say of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// [`RECORD_SCHEMA`].
    pub schema: String,
    /// The run's name in the store.
    pub id: String,
    /// How far it got.
    pub outcome: Outcome,
    /// Who vouches for all this.
    pub attestation: String,
    /// Who started it.
    pub actor: String,
    /// When, RFC 3339, UTC.
    pub started_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// The references as they were given.
    pub requested: Vec<String>,
    /// The snapshot.
    pub snapshot: Digest,
    /// `.snapshot.json` word for word; its SHA-256 is `snapshot`.
    pub manifest: String,
    /// Where each package came from.
    pub packages: Vec<Provenance>,
    /// How the command was enclosed.
    pub launch: LaunchRecord,
    /// What was checked.
    pub checks: Checks,
    /// What of the snapshot the command opened, where only it could and it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened: Option<OpenedRecord>,
    /// How the command ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Why the run failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorRecord>,
}

/// How far a run got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The command was about to be started; nothing is known of its end.
    Started,
    /// The command ended and everything still matched.
    Exited,
    /// The launch failed, or something did not match after the end.
    Failed,
}

/// Where a package came from, as far as the host knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Its id.
    pub id: SkillId,
    /// Its package digest.
    pub digest: Digest,
    /// Its number in the store, a local name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Its author's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// The source it was discovered in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Where it lay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// When it came into the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_at: Option<String>,
    /// Who added it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_by: Option<String>,
    /// What else had its id and was passed over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shadowed: Vec<String>,
}

/// How a command was enclosed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchRecord {
    /// What the launch promised.
    pub integrity: Integrity,
    /// By what means.
    pub how: Method,
    /// The least that the caller would have taken, if it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<Integrity>,
    /// For whom it promised that.
    #[serde(default)]
    pub scope: Scope,
    /// What enclosed the command; none where its caller's own sandbox does.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "backend_of_any_record")]
    pub backend: Option<Backend>,
    /// The kernel's release.
    pub kernel: String,
    /// Where the skills were, inside.
    pub skills_path: Utf8PathBuf,
    /// What was mounted, where something enclosed the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mounts: Option<Vec<Mount>>,
    /// The network, where something enclosed the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// The numeric user and group of the command.
    pub user: (u32, u32),
    /// The directory that it had as its root instead of this machine's, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rootfs: Option<Utf8PathBuf>,
    /// Whether it had the caller's terminal.
    #[serde(default)]
    pub terminal: bool,
    /// The names of its environment variables, not their values.
    pub environment: Vec<String>,
    /// The digest of the program and its arguments, each ended by a NUL.
    pub argv_digest: Digest,
    /// Where it started.
    pub working_directory: Utf8PathBuf,
    /// Live sources that it could read, where something enclosed the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_sources_visible: Option<Vec<Utf8PathBuf>>,
}

/// Reads what enclosed a command also from records of before there was more than one such thing.
fn backend_of_any_record<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Backend>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Recorded {
        OfAKind(Backend),
        Bubblewrap(Bubblewrap),
    }
    Ok(Some(match Recorded::deserialize(deserializer)? {
        Recorded::OfAKind(backend) => backend,
        Recorded::Bubblewrap(bubblewrap) => Backend::Bubblewrap(bubblewrap),
    }))
}

impl LaunchRecord {
    /// Describes a launch in a sandbox.
    pub(crate) fn of_plan(plan: &LaunchPlan, required: Option<Integrity>, kernel: String) -> Self {
        Self {
            integrity: plan.integrity,
            how: plan.how,
            required,
            scope: Scope::Sandbox,
            backend: Some(plan.backend.clone()),
            kernel,
            skills_path: plan.names.skills_dir.clone(),
            mounts: Some(plan.mounts.clone()),
            network: Some(plan.network),
            user: plan.user,
            rootfs: plan.rootfs.clone(),
            terminal: plan.terminal,
            environment: names(plan.environment.keys()),
            argv_digest: argv_digest(&plan.command),
            working_directory: plan.working_directory.clone(),
            live_sources_visible: Some(plan.live_sources_visible.clone()),
        }
    }
}

/// The names of variables, for a record.
pub(crate) fn names<'a>(variables: impl Iterator<Item = &'a OsString>) -> Vec<String> {
    variables.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// The digest of a program and its arguments, each ended by a NUL.
pub(crate) fn argv_digest(command: &[OsString]) -> Digest {
    let mut argv = Vec::new();
    for argument in command {
        argv.extend_from_slice(argument.as_encoded_bytes());
        argv.push(0);
    }
    Digest::of(&argv)
}

/// What was checked, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checks {
    /// Before the start.
    pub before: CheckRecord,
    /// By the first process inside the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<InsideRecord>,
    /// After the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<CheckRecord>,
}

/// One check of every byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckRecord {
    /// Files hashed.
    pub files: u64,
    /// Bytes hashed.
    pub bytes: u64,
    /// What did not match.
    pub faults: Vec<Fault>,
}

impl From<&Check> for CheckRecord {
    fn from(check: &Check) -> Self {
        Self { files: check.files, bytes: check.bytes, faults: check.faults.clone() }
    }
}

/// The check from inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InsideRecord {
    /// Packages whose `SKILL.md` could be read.
    pub skills: u64,
    /// Attempts to change the snapshot or undo the sandbox that were refused.
    pub probes: u64,
    /// Whether the packages' programs could not be started.
    pub noexec: bool,
}

/// What of the snapshot the command, or whatever it started, opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenedRecord {
    /// Whether these are all: the kernel had room to watch each directory and to tell of each open.
    pub complete: bool,
    /// The files, relative to the snapshot's root; sorted.
    pub files: Vec<String>,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorRecord {
    /// The stable code.
    pub code: String,
    /// What happened.
    pub message: String,
}

/// What a caller knows of a run that the launch does not.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunContext {
    /// The run's name in the store.
    pub id: String,
    /// Who starts it.
    pub actor: String,
    /// The references as they were given.
    pub requested: Vec<String>,
    /// Where each package came from.
    pub packages: Vec<Provenance>,
}

impl RunRecord {
    /// Describes a run that is about to start.
    pub(crate) fn started(
        context: RunContext,
        verified: &Verified,
        launch: LaunchRecord,
        now: String,
    ) -> Self {
        let counts = verified.counts();
        let manifest = String::from_utf8(verified.manifest().to_bytes()).expect("JSON is UTF-8");
        Self {
            schema: RECORD_SCHEMA.to_owned(),
            id: context.id,
            outcome: Outcome::Started,
            attestation: ATTESTATION.to_owned(),
            actor: context.actor,
            started_at: now,
            ended_at: None,
            requested: context.requested,
            snapshot: verified.digest(),
            manifest,
            packages: context.packages,
            launch,
            checks: Checks {
                before: CheckRecord { files: counts.files, bytes: counts.bytes, faults: Vec::new() },
                inside: None,
                after: None,
            },
            opened: None,
            exit: None,
            error: None,
        }
    }
}
