//! `run`: checks a snapshot and launches a command that reads it.

mod in_place;
mod ready;
mod request;

use std::env;
use std::ffi::OsString;
use std::os::fd::RawFd;

use camino::Utf8PathBuf;
use clap::{Args, ValueEnum};
use skillfreeze::Digest;
use skillfreeze::mount::{
    BubblewrapChoice, Event, Host, Integrity, Launch, PlanWarning, RunContext, Sandbox, Seal, Session,
    StatusWriter,
};

pub(crate) use self::request::directory_bind;
use super::keeping::{records, run_id, status_writer};
use super::naming::Ready;
use super::selecting::SelectionArgs;
use crate::config_files::refuse_approval;
use crate::context::{Context, canonical};
use crate::exit::Failure;
use crate::sources::{SourceArgs, Sources};
use crate::users;

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
    /// Leave Python bytecode out instead of refusing the package
    #[arg(long)]
    drop_bytecode: bool,
    /// The integrity to launch at; refused where it cannot be had [default: the best there is; possible values: sealed, read-only, checked]
    #[arg(long, value_name = "LEVEL")]
    require: Option<Integrity>,
    /// How to seal [default: the best there is; possible values: staged-tmpfs, sealed-memfd]
    #[arg(long, value_name = "WAY")]
    seal: Option<Seal>,
    /// What encloses the command; `landlock` needs no namespaces, and is to be had with `--require
    /// read-only` [possible values: auto, bwrap, seatbelt, landlock]
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
    /// Show the snapshot also in the place of every source that the command can see, where programs look for
    /// skills by themselves
    #[arg(long)]
    in_place: bool,
    /// Use the programs of this root directory, such as an unpacked image, instead of this machine's
    #[arg(long, value_name = "DIR")]
    rootfs: Option<Utf8PathBuf>,
    /// Give the command this terminal, with job control
    #[arg(long)]
    tty: bool,
    /// Whom the command runs as, by name or number, when root starts it [default: the workspace's
    /// owner, else 65534]
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
        let (search_path, outside) = (search_path(), self.outside()?);
        let bubblewrap = self.bubblewrap(&search_path, &outside);
        let is_needed = self.sandbox != Sandbox::Landlock;
        let host = Host::probe(is_needed.then_some(&bubblewrap));
        let host = host.map_err(|error| elsewise(error.into()).of_launch())?;
        let sources = Sources::find(context, &self.sources, true).map_err(Failure::of_launch)?;
        refuse_approval(&sources.configuration).map_err(Failure::of_launch)?;
        let ready = self.ready(context, &sources, &progress).map_err(Failure::of_launch)?;
        let request = self.request(context, &sources).map_err(Failure::of_launch)?;
        let Ready { verified, requested, packages, store, lease } = ready;
        let launch =
            Launch::new(verified, request, &host).map_err(|error| Failure::from(error).of_launch())?;
        for warning in &launch.plan().warnings {
            context.output().warning(&describe_warning(warning));
        }
        for warning in
            in_place::check_places(launch.plan(), &sources, &packages).map_err(Failure::of_launch)?
        {
            context.output().warning(&warning);
        }
        if self.dry_run {
            context.output().json(launch.plan())?;
            return Ok(0);
        }
        let id = run_id().map_err(Failure::of_launch)?;
        let records = records(context, self.record.as_deref(), Some(launch.plan()), store.as_ref(), &id)
            .map_err(Failure::of_launch)?;
        let run = RunContext { id, actor: users::actor(), requested, packages };
        let mut session = Session::new(run, &progress);
        session.records = records;
        session.status = std::mem::take(status);
        session.lease = lease;
        let ended = launch.run(session).map_err(|error| elsewise(error.into()))?;
        if ended.noexec {
            context.output().warning("the snapshot is on a file system without execution: bundled programs could not be started directly");
        }
        Ok(u8::try_from(ended.exit.code()).unwrap_or(u8::MAX))
    }

    /// Looks whether the descriptors to keep are there.
    fn check_kept(&self) -> Result<(), Failure> {
        for &number in &self.keep_fd {
            if number < 3 || !is_open(number) {
                return Err(Failure::usage(format!(
                    "`--keep-fd {number}`: no descriptor above 2 that is not a directory is open at that number"
                )));
            }
        }
        Ok(())
    }

    fn status(&self) -> Result<StatusWriter, Failure> {
        status_writer(self.status_fd, StatusWriter::to_descriptor)
    }

    fn outside(&self) -> Result<Vec<Utf8PathBuf>, Failure> {
        let here = env::current_dir().ok().and_then(|here| Utf8PathBuf::from_path_buf(here).ok());
        let workspace = self.workspace.as_ref().map(|workspace| canonical(workspace)).transpose();
        let outside = here.into_iter().chain(workspace.map_err(Failure::of_launch)?);
        // The root directory holds every program.
        Ok(outside.filter(|directory| directory != "/").collect())
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
}

/// The same failure; where bubblewrap starts nothing here, there may be what needs neither it nor namespaces.
fn elsewise(failure: Failure) -> Failure {
    let is_bubblewraps = failure.code.starts_with("userns-")
        || matches!(failure.code.as_str(), "bwrap-missing" | "network-restricted" | "proc-masked");
    match failure.hint.clone().filter(|_| is_bubblewraps) {
        Some(hint) => failure.hint(format!("{hint}; `skillfreeze doctor` shows what else works here")),
        None => failure,
    }
}

fn is_open(number: RawFd) -> bool {
    // A directory would be a way into the host, as it would be in the place of a standard stream.
    std::fs::metadata(format!("/proc/self/fd/{number}")).is_ok_and(|found| !found.is_dir())
}

/// Directories of the search path that are absolute.
pub(crate) fn search_path() -> Vec<Utf8PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories =
        env::split_paths(&path).filter_map(|directory| Utf8PathBuf::from_path_buf(directory).ok());
    directories.filter(|directory| directory.is_absolute()).collect()
}

fn describe_warning(warning: &PlanWarning) -> String {
    match warning {
        PlanWarning::WorkspaceNotWritable { path, user } | PlanWarning::BindNotWritable { path, user } => {
            format!(
                "the command runs as user {user}, who cannot write `{path}`: give it to that user (`chown`), or \
                 name who can write it (`--user`)"
            )
        }
        PlanWarning::LiveSourcesVisible { paths } => {
            let paths: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
            format!("the command can read what is not frozen: {}", paths.join(", "))
        }
        other => format!("{other:?}"),
    }
}
