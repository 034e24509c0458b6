//! `run`: checks a snapshot and launches a command that reads it.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::fd::{OwnedFd, RawFd};

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, ValueEnum};
use skillfreeze::manifest::{CheckOptions, Digest, Progress};
use skillfreeze::mount::{
    Bind, BubblewrapChoice, Event, Guard, Host, Integrity, Launch, LaunchRequest, Names, Network,
    PlanWarning, Provenance, RecordFile, RunContext, Sandbox, Session, StatusWriter, Verified, VerifyError,
};
use skillfreeze::preparer::{Existing, Resolved};
use skillfreeze::store::Store;

use super::selecting::{SelectionArgs, SourceArgs, prepare, read_text, requested};
use super::show::run_path;
use crate::context::{Context, absolute, canonical, now, open_dir};
use crate::exit::Failure;
use crate::users;

/// Variables of the caller's environment that the command gets without being named.
const PASSED: [&str; 4] = ["PATH", "LANG", "TERM", "TZ"];
/// Where a project keeps the skills and the configuration of its next run.
const PROJECT_SOURCES: [&str; 4] =
    [".agents/skills", ".claude/skills", "skillfreeze.toml", "skillfreeze.lock"];

/// Check a snapshot and run a command that reads it
///
/// Names a snapshot, or freezes a selection first, as `prepare` does. The command sees it read-only
/// at `$SKILLS_DIR`, has an empty writable `$SKILL_EXTENSIONS_DIR`, and no network and no files of
/// the host beyond the system's programs, unless they are named. Afterwards every byte is hashed
/// again.
///
/// The exit status is the command's own, 128+n when signal n ended it; 127 when there is no such
/// command, 126 when it cannot be run, 125 when anything else failed.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// A snapshot: `sha256:…`, or a directory with `--digest`
    #[arg(value_name = "SNAPSHOT", conflicts_with_all = ["skill", "all", "none", "selection", "source"])]
    snapshot: Option<String>,
    /// The digest that a snapshot named by its directory must have
    #[arg(long, value_name = "DIGEST", requires = "snapshot")]
    digest: Option<Digest>,
    /// Freeze this skill: `id`, `id@3`, `id@version=1.2.0`, `id@sha256:…`, `source:id`
    #[arg(long = "skill", short, value_name = "SKILL", conflicts_with_all = ["all", "none"])]
    skill: Vec<String>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    sources: SourceArgs,
    /// The least integrity that will do [default: the best there is; possible values: sealed, read-only, checked]
    #[arg(long, value_name = "LEVEL")]
    require: Option<Integrity>,
    /// What encloses the command [possible values: auto, bwrap, seatbelt, landlock]
    #[arg(long, value_name = "SANDBOX", default_value = "auto", hide_default_value = true)]
    sandbox: Sandbox,
    /// A directory that the command works in and may write, at its own path
    #[arg(long, value_name = "DIR")]
    workspace: Option<Utf8PathBuf>,
    /// Let the command write this file or directory of the host
    #[arg(long, value_name = "PATH[:TARGET]")]
    bind: Vec<String>,
    /// Let the command read this file or directory of the host
    #[arg(long, value_name = "PATH[:TARGET]")]
    ro_bind: Vec<String>,
    /// Set a variable, or pass the caller's on
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// Set the variables of a file: NAME=VALUE lines, `#` for comments
    #[arg(long, value_name = "FILE")]
    env_file: Vec<Utf8PathBuf>,
    /// Which network the command sees
    #[arg(long, value_name = "NETWORK", default_value = "none")]
    network: NetworkArg,
    /// Keep what the command writes to $SKILL_EXTENSIONS_DIR in this directory
    #[arg(long, value_name = "DIR")]
    extensions: Option<Utf8PathBuf>,
    /// Whom the command runs as, when root starts it [default: the workspace's owner, else 65534]
    #[arg(long, value_name = "USER[:GROUP]")]
    user: Option<String>,
    /// The name of the variable for the skills
    #[arg(long, value_name = "NAME", default_value = "SKILLS_DIR")]
    skills_var: String,
    /// Where the command sees the skills
    #[arg(long, value_name = "DIR", default_value = "/skills")]
    skills_dir: Utf8PathBuf,
    /// The name of the variable for the writable directory
    #[arg(long, value_name = "NAME", default_value = "SKILL_EXTENSIONS_DIR")]
    extensions_var: String,
    /// Where the command sees the writable directory
    #[arg(long, value_name = "DIR", default_value = "/skill-extensions")]
    extensions_dir: Utf8PathBuf,
    /// Write status lines, each a JSON object, to this open descriptor
    #[arg(long, value_name = "FD")]
    status_fd: Option<RawFd>,
    /// Keep the run record in this file too
    #[arg(long, value_name = "FILE")]
    record: Option<Utf8PathBuf>,
    /// Leave this descriptor open for the command
    #[arg(long, value_name = "FD")]
    keep_fd: Vec<RawFd>,
    /// Use this bubblewrap
    #[arg(long, value_name = "PATH")]
    bwrap: Option<Utf8PathBuf>,
    /// Print the plan as JSON and start nothing
    #[arg(long)]
    dry_run: bool,
    /// The command; `$SKILLS_DIR/` at the start of an argument is replaced
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Which network the command sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NetworkArg {
    /// A loopback of its own.
    None,
    /// The host's.
    Host,
}

/// A checked snapshot and what is known of it.
struct Ready {
    verified: Verified,
    requested: Vec<String>,
    packages: Vec<Provenance>,
    store: Option<Store>,
}

impl Run {
    pub(crate) fn run(self, context: &Context) -> Result<u8, Failure> {
        // Before this process opens anything, so that only the caller's own descriptors count.
        let kept = self.check_kept();
        let mut status = self.status().map_err(Failure::of_launch)?;
        let launched = kept.map_err(Failure::of_launch).and_then(|()| self.launch(context, &mut status));
        launched.inspect_err(|failure| {
            // A launch that got further has said it itself, and this says it once.
            status.send(&Event::Error { code: failure.code.clone(), message: failure.message.clone() });
        })
    }

    fn launch(&self, context: &Context, status: &mut StatusWriter) -> Result<u8, Failure> {
        let progress = context.progress();
        let host = Host::probe(&self.bubblewrap(&search_path(), &self.outside()?)).map_err(Failure::from);
        let host = host.map_err(Failure::of_launch)?;
        let ready = self.ready(context, &progress).map_err(Failure::of_launch)?;
        let request = self.request(context).map_err(Failure::of_launch)?;
        let Ready { verified, requested, packages, store } = ready;
        let snapshot = verified.digest();
        let launch =
            Launch::new(verified, request, &host).map_err(|error| Failure::from(error).of_launch())?;
        for warning in &launch.plan().warnings {
            context.output().warning(&describe_warning(warning));
        }
        if self.dry_run {
            context.output().json(launch.plan())?;
            return Ok(0);
        }
        let id = run_id().map_err(Failure::of_launch)?;
        let records = self.records(store.as_ref(), &id).map_err(Failure::of_launch)?;
        let lease = lease(store.as_ref(), &snapshot).map_err(Failure::of_launch)?;
        let session = Session {
            context: RunContext { id, actor: users::actor(), requested, packages },
            records,
            status: std::mem::take(status),
            lease,
            clock: now,
            progress: &progress,
        };
        let ended = launch.run(session)?;
        if ended.noexec {
            context.output().warning("the snapshot is on a file system without execution: bundled programs could not be started directly");
        }
        Ok(u8::try_from(ended.exit.code()).unwrap_or(u8::MAX))
    }

    /// Names the snapshot, or freezes the selection; checks every byte either way.
    fn ready(&self, context: &Context, progress: &dyn Progress) -> Result<Ready, Failure> {
        let options = CheckOptions { portable: false, progress };
        if let Some(text) = &self.snapshot {
            let named = context.snapshot(text, self.digest)?;
            let anchor = named.digest.ok_or_else(|| {
                let failure =
                    Failure::usage(format!("`{text}` names no digest to check the snapshot against"));
                failure.hint("add `--digest sha256:…`, as `prepare` printed it")
            })?;
            let verified = Verified::check(named.dir, &named.path, anchor, &options)?;
            let store = if named.in_store { context.store_to_use()? } else { None };
            let packages = provenance_of_stored(store.as_ref(), &verified)?;
            return Ok(Ready { verified, requested: vec![text.clone()], packages, store });
        }
        let selection = self.selection.selection(&self.skill)?;
        let store = context.store()?;
        let root = context.root()?;
        let mut existing = Existing::LeaveToCaller;
        loop {
            let (resolved, snapshot) =
                prepare(context, &store, &selection, &self.sources, existing, progress)?;
            let path = root.join(Store::snapshot_path(&snapshot.digest));
            match Verified::check(snapshot.dir, &path, snapshot.digest, &options) {
                // One that was there and is damaged is set aside and built again, once.
                Err(VerifyError::Faults { .. }) if snapshot.reused && existing == Existing::LeaveToCaller => {
                    existing = Existing::Check;
                }
                verified => {
                    let (requested, packages) = (requested(&selection), provenance(&resolved));
                    return Ok(Ready { verified: verified?, requested, packages, store: Some(store) });
                }
            }
        }
    }

    fn request(&self, context: &Context) -> Result<LaunchRequest, Failure> {
        let workspace = match &self.workspace {
            Some(workspace) => Some(directory_bind(workspace)?),
            None => None,
        };
        let mut binds = Vec::new();
        for (list, writable) in [(&self.bind, true), (&self.ro_bind, false)] {
            for text in list {
                let (source, target) = match text.split_once(':') {
                    Some((source, target)) => (source, Some(Utf8Path::new(target))),
                    None => (text.as_str(), None),
                };
                binds.push(Bind::resolve(Utf8Path::new(source), target, writable)?);
            }
        }
        let extensions = match &self.extensions {
            Some(extensions) => Some(directory_bind(extensions)?),
            None => None,
        };
        let store = context.root().ok().and_then(|root| canonical(&root).ok());
        let guards = self.guards(workspace.iter().chain(binds.iter().filter(|bind| bind.writable)))?;
        Ok(LaunchRequest {
            command: self.command.clone(),
            require: self.require,
            sandbox: self.sandbox,
            workspace,
            binds,
            network: match self.network {
                NetworkArg::None => Network::None,
                NetworkArg::Host => Network::Host,
            },
            environment: self.environment()?,
            extensions,
            user: self.user.as_deref().map(users::parse).transpose().map_err(Failure::usage)?,
            names: Names {
                skills_variable: self.skills_var.clone(),
                skills_dir: self.skills_dir.clone(),
                extensions_variable: self.extensions_var.clone(),
                extensions_dir: self.extensions_dir.clone(),
            },
            keep: self.keep_fd.clone(),
            store,
            guards,
        })
    }

    /// The places that a later run would take skills or configuration from, as far as the command
    /// could write them.
    fn guards<'a>(&self, writable: impl Iterator<Item = &'a Bind>) -> Result<Vec<Guard>, Failure> {
        let mut paths: Vec<Utf8PathBuf> = Vec::new();
        for source in &self.sources.source {
            paths.push(absolute(source)?);
        }
        let mut projects: Vec<Utf8PathBuf> = Vec::new();
        for bind in writable.filter(|bind| bind.is_directory) {
            projects.push(bind.source.clone());
            projects.extend(project_of(&bind.source));
        }
        if let Ok(here) = env::current_dir()
            && let Ok(here) = Utf8PathBuf::from_path_buf(here)
        {
            projects.push(project_of(&here).unwrap_or(here));
        }
        for project in &projects {
            paths.extend(PROJECT_SOURCES.iter().map(|source| project.join(source)));
        }
        paths.sort();
        paths.dedup();
        Ok(paths.iter().map(|path| Guard::resolve(path)).collect())
    }

    fn environment(&self) -> Result<BTreeMap<OsString, OsString>, Failure> {
        let is_passed = |name: &OsStr| {
            PASSED.iter().any(|passed| name == *passed) || name.as_encoded_bytes().starts_with(b"LC_")
        };
        let mut environment: BTreeMap<OsString, OsString> =
            env::vars_os().filter(|(name, _)| is_passed(name)).collect();
        for file in &self.env_file {
            for line in read_text(file)?.lines() {
                let line = line.trim();
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let (name, value) = line
                    .split_once('=')
                    .ok_or_else(|| Failure::usage(format!("`{file}` has a line that is not `NAME=VALUE`")))?;
                environment.insert(name.into(), value.into());
            }
        }
        for text in &self.env {
            use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
            let bytes = text.as_bytes();
            match bytes.iter().position(|byte| *byte == b'=') {
                Some(at) => {
                    environment.insert(
                        OsString::from_vec(bytes[..at].to_vec()),
                        OsString::from_vec(bytes[at + 1..].to_vec()),
                    );
                }
                None => {
                    // A name that is not set is not passed on, as with `env` and `podman`.
                    if let Some(value) = env::var_os(text) {
                        environment.insert(text.clone(), value);
                    }
                }
            }
        }
        Ok(environment)
    }

    fn check_kept(&self) -> Result<(), Failure> {
        for &number in &self.keep_fd {
            if number < 3 || !is_open(number) {
                return Err(Failure::usage(format!(
                    "`--keep-fd {number}`: no descriptor above 2 is open at that number"
                )));
            }
        }
        Ok(())
    }

    fn status(&self) -> Result<StatusWriter, Failure> {
        let Some(number) = self.status_fd else { return Ok(StatusWriter::default()) };
        let failed = |error| Failure::usage(format!("`--status-fd {number}`: {error}"));
        StatusWriter::to_descriptor(number).map_err(failed)
    }

    fn outside(&self) -> Result<Vec<Utf8PathBuf>, Failure> {
        let here = env::current_dir().ok().and_then(|here| Utf8PathBuf::from_path_buf(here).ok());
        // The root directory holds every program, and nobody works there.
        let here = here.filter(|here| here != "/");
        let workspace = self.workspace.as_ref().map(|workspace| canonical(workspace)).transpose();
        Ok(here.into_iter().chain(workspace.map_err(Failure::of_launch)?).collect())
    }

    fn bubblewrap<'a>(
        &'a self,
        directories: &'a [Utf8PathBuf],
        outside: &'a [Utf8PathBuf],
    ) -> BubblewrapChoice<'a> {
        match &self.bwrap {
            Some(path) => BubblewrapChoice::At(path),
            None => BubblewrapChoice::Search { directories, outside },
        }
    }

    fn records(&self, store: Option<&Store>, id: &str) -> Result<Vec<RecordFile>, Failure> {
        let mut records = Vec::new();
        if let Some(file) = &self.record {
            let path = absolute(file)?;
            let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(Failure::usage(format!("`--record {file}` names no file")));
            };
            records.push(RecordFile::new(open_dir(above)?, name.to_owned()));
        }
        let Some(store) = store else { return Ok(records) };
        let writable = match store.is_writable() {
            true => store.records().map_err(Failure::from),
            false => Err(Failure::new("read-only", "the store cannot be written, so it keeps no run record")),
        };
        let kept = writable.and_then(|runs| {
            let path = run_path(id).unwrap_or_default();
            let (above, name) = path.rsplit_once('/').unwrap_or(("", &path));
            let made = runs.create_dir_all(above).and_then(|()| runs.open_dir(above));
            let dir = made.map_err(|error| Failure::io("cannot make a place for the run record", &error))?;
            Ok(RecordFile::new(dir, name.to_owned()))
        });
        match kept {
            Ok(file) => records.push(file),
            // A store that cannot be written still serves, if the record is kept elsewhere.
            Err(_) if !records.is_empty() => {}
            Err(failure) => return Err(failure.hint("keep the record elsewhere: `--record FILE`")),
        }
        Ok(records)
    }
}

/// Directories of the search path that are absolute.
pub(crate) fn search_path() -> Vec<Utf8PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories =
        env::split_paths(&path).filter_map(|directory| Utf8PathBuf::from_path_buf(directory).ok());
    directories.filter(|directory| directory.is_absolute()).collect()
}

fn is_open(number: RawFd) -> bool {
    std::fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok()
}

/// The nearest directory above with a `.git` file or directory.
fn project_of(path: &Utf8Path) -> Option<Utf8PathBuf> {
    path.ancestors().find(|above| above.join(".git").exists()).map(Utf8Path::to_owned)
}

fn directory_bind(path: &Utf8Path) -> Result<Bind, Failure> {
    let bind = Bind::resolve(path, None, true)?;
    if bind.is_directory {
        return Ok(bind);
    }
    Err(Failure::usage(format!("`{path}` is not a directory")))
}

fn lease(store: Option<&Store>, snapshot: &Digest) -> Result<Option<OwnedFd>, Failure> {
    match store {
        Some(store) => Ok(store.lease(snapshot)?.map(|lease| OwnedFd::from(lease.into_file()))),
        None => Ok(None),
    }
}

/// A name for a run: when it began, and a random part.
fn run_id() -> Result<String, Failure> {
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|error| Failure::new("io", format!("no random bytes: {error}")))?;
    let time = now().replace(['-', ':'], "");
    let time = time.split('.').next().unwrap_or_default();
    let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{time}Z-{random}"))
}

fn provenance(resolved: &Resolved) -> Vec<Provenance> {
    let one = |package: &skillfreeze::preparer::Chosen| {
        let revision = package.revision.clone();
        Provenance {
            id: revision.id,
            digest: revision.digest,
            number: Some(revision.number.get()),
            version: revision.version,
            source: package.source.clone().or(revision.origin.source),
            path: Some(revision.origin.path),
            added_at: Some(revision.added_at),
            added_by: Some(revision.added_by),
            shadowed: package.shadowed.clone(),
        }
    };
    resolved.packages.iter().map(one).collect()
}

fn provenance_of_stored(store: Option<&Store>, verified: &Verified) -> Result<Vec<Provenance>, Failure> {
    let revisions = store.map(Store::revisions).transpose()?.unwrap_or_default();
    let one = |package: &skillfreeze::manifest::PackageEntry| {
        let revision = revisions.iter().find(|revision| revision.digest == package.digest());
        Provenance {
            id: package.id().clone(),
            digest: package.digest(),
            number: revision.map(|revision| revision.number.get()),
            version: package.version().cloned(),
            source: revision.and_then(|revision| revision.origin.source.clone()),
            path: revision.map(|revision| revision.origin.path.clone()),
            added_at: revision.map(|revision| revision.added_at.clone()),
            added_by: revision.map(|revision| revision.added_by.clone()),
            shadowed: Vec::new(),
        }
    };
    Ok(verified.manifest().packages().iter().map(one).collect())
}

fn describe_warning(warning: &PlanWarning) -> String {
    match warning {
        PlanWarning::WorkspaceNotWritable { path, user } => {
            format!("`{path}` is root's, and the command runs as user {user}, who cannot write it")
        }
        PlanWarning::LiveSourcesVisible { paths } => {
            let paths: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
            format!("the command can read skills that are not frozen: {}", paths.join(", "))
        }
    }
}
