//! `seal`: a command of the caller's own, with its own sandbox, on sealed bytes.

#[cfg(target_os = "linux")]
use std::env;
use std::ffi::OsString;
use std::os::fd::RawFd;

use camino::Utf8PathBuf;
use clap::Args;
use skillfreeze::Digest;
use skillfreeze::mount::{Event, StatusWriter};
#[cfg(target_os = "linux")]
use skillfreeze::mount::{RunContext, SealRequest, SealedCommand, Session};

#[cfg(target_os = "linux")]
use super::keeping::{records, run_id, status_writer};
#[cfg(target_os = "linux")]
use super::naming::{Ready, hint_for_skill, named};
use crate::context::Context;
use crate::exit::{Failure, LET_MOUNT};
#[cfg(target_os = "linux")]
use crate::users;

/// Run a command that brings its own sandbox, with the snapshot sealed at its path
///
/// The command runs as it would without: in the same group of processes, with the same variables and
/// descriptors, and its arguments unchanged. What it and what it starts find at the snapshot's own path,
/// which `$SKILLS_DIR` names, are the bytes that were hashed, in a file system that nobody can change.
/// Whether a sandbox lets anybody see that path is the command's own business: `verify --inside` looks.
///
/// The exit status is the command's own, 128+n when signal n ended it; 127 when there is no such
/// command, 126 when it cannot be run, 125 when anything else failed.
#[derive(Debug, Args)]
pub(crate) struct Seal {
    /// A snapshot: `sha256:…`, or a directory with `--digest`
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,
    /// The digest that a snapshot named by its directory must have
    #[arg(long, value_name = "DIGEST")]
    digest: Option<Digest>,
    /// Keep the run record in this file too
    #[arg(long, value_name = "FILE")]
    record: Option<Utf8PathBuf>,
    /// Write status lines, each a JSON object, to this open descriptor
    #[arg(long, value_name = "FD")]
    status_fd: Option<RawFd>,
    /// The name of the variable for the skills
    #[arg(long, value_name = "NAME", default_value = "SKILLS_DIR")]
    skills_var: String,
    /// Start even what is known to hand paths to a daemon, which reads what is not sealed
    #[arg(long)]
    force: bool,
    /// The command, which is started as it is
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Seal {
    pub(crate) fn run(self, context: &Context) -> Result<u8, Failure> {
        let mut status = self.status().map_err(Failure::of_launch)?;
        let sealed = self.start(context, &mut status).inspect_err(|failure| {
            // One that got further has said it itself, and this says it once.
            status.send(&Event::Error { code: failure.code.clone(), message: failure.message.clone() });
        });
        sealed.map_err(|failure| match failure.code.as_str() {
            // There is no other way, nor less to be had.
            "seal-unavailable" => {
                failure.hint(format!("{LET_MOUNT}; `skillfreeze doctor` shows what else can be had here"))
            }
            "seal-memory" => failure.hint("free some memory, or select fewer skills"),
            _ => failure,
        })
    }

    fn status(&self) -> Result<StatusWriter, Failure> {
        status_writer(self.status_fd, StatusWriter::in_place_of_descriptor)
    }

    #[cfg(not(target_os = "linux"))]
    fn start(&self, _: &Context, _: &mut StatusWriter) -> Result<u8, Failure> {
        let message = "no private file system can be mounted on this system";
        Err(Failure::new("seal-unavailable", message).of_launch())
    }

    #[cfg(target_os = "linux")]
    fn start(&self, context: &Context, status: &mut StatusWriter) -> Result<u8, Failure> {
        let progress = context.progress();
        let ready = named(context, &self.snapshot, self.digest, &progress).map_err(|failure| {
            let hint = format!("to freeze a skill first: `skillfreeze prepare {}`", self.snapshot);
            hint_for_skill(failure, &self.snapshot, hint).of_launch()
        })?;
        let Ready { verified, requested, packages, store, lease } = ready;
        let sealed = SealedCommand::new(verified, self.request().map_err(Failure::of_launch)?)
            .map_err(|error| Failure::from(error).of_launch())?;
        let id = run_id().map_err(Failure::of_launch)?;
        let records = records(context, self.record.as_deref(), None, store.as_ref(), &id)
            .map_err(Failure::of_launch)?;
        let run = RunContext { id, actor: users::actor(), requested, packages };
        let mut session = Session::new(run, &progress);
        session.records = records;
        session.status = std::mem::take(status);
        session.lease = lease;
        let ended = sealed.run(session)?;
        Ok(u8::try_from(ended.exit.code()).unwrap_or(u8::MAX))
    }

    #[cfg(target_os = "linux")]
    fn request(&self) -> Result<SealRequest, Failure> {
        let here =
            env::current_dir().map_err(|error| Failure::io("cannot find the current directory", &error))?;
        let mut request = SealRequest::new(self.command.clone(), here);
        request.environment = env::vars_os().collect();
        request.skills_variable.clone_from(&self.skills_var);
        request.force = self.force;
        Ok(request)
    }
}
