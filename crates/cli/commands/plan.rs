//! `plan`: what a caller's own sandbox must be given.

use camino::Utf8PathBuf;
use clap::{Args, ValueEnum};
use skillfreeze::Digest;
use skillfreeze::mount::seatbelt::Resolved;
use skillfreeze::mount::{
    Guard, Handoff, HandoffNote, HandoffRequest, Integrity, Names, PlanError, Verified, words_text,
};
use skillfreeze::store::Store;

use super::naming::lease;
use super::run::directory_bind;
use crate::context::{Context, canonical};
use crate::exit::Failure;

/// Check a snapshot and print what your own sandbox must be given
///
/// Every byte is hashed, and the integrity is `checked`: what keeps the snapshot as it is from then on is
/// your sandbox. Afterwards run what `verify` of the JSON form says.
///
/// For bubblewrap: `words=$(skillfreeze plan SNAPSHOT --format bwrap) && eval "bwrap OPTIONS $words --
/// COMMAND"`. While the command runs, bubblewrap holds a lock that keeps the snapshot in the store, so it
/// cannot be told `--as-pid-1`. After `--ro-bind / /` nothing can be mounted at `/skills` ("Can't mkdir
/// /skills: Read-only file system"): use `--skills-dir host` there, which leaves the snapshot at its own
/// path. The words of the other forms go before the image of `docker run` or before the command of
/// `sandbox-exec`; there the lock is yours to hold.
///
/// For a shell and what it starts: `plan=$(skillfreeze plan SNAPSHOT --format env) && eval "$plan"`. It mounts
/// nothing, so the snapshot is at its own path there.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// A snapshot: `sha256:…`, or a directory with `--digest`
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,
    /// The digest that a snapshot named by its directory must have
    #[arg(long, value_name = "DIGEST")]
    digest: Option<Digest>,
    /// For what: a program, `bwrap`, `sandbox-exec`, a shell, `docker run`
    #[arg(long, value_name = "FORMAT", default_value = "json", conflicts_with = "json")]
    format: Format,
    /// End each word with a NUL byte, as `bwrap --args FD` and `xargs -0` read them
    #[arg(long)]
    null: bool,
    /// The least integrity that will do [possible values: sealed, read-only, checked]
    #[arg(long, value_name = "LEVEL")]
    require: Option<Integrity>,
    /// The name of the variable for the skills
    #[arg(long, value_name = "NAME", default_value = "SKILLS_DIR")]
    skills_var: String,
    /// Where the command sees the skills; `host` for the snapshot's own path, in a sandbox that shows
    /// the host's file system [default: /skills, with `seatbelt` and `env` host]
    #[arg(long, value_name = "DIR|host")]
    skills_dir: Option<Utf8PathBuf>,
    /// Keep what the command writes to $SKILL_EXTENSIONS_DIR in this directory
    #[arg(long, value_name = "DIR")]
    extensions: Option<Utf8PathBuf>,
    /// The name of the variable for the writable directory
    #[arg(long, value_name = "NAME", default_value = "SKILL_EXTENSIONS_DIR")]
    extensions_var: String,
    /// Where the command sees the writable directory
    #[arg(long, value_name = "DIR", default_value = "/skill-extensions")]
    extensions_dir: Utf8PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Bwrap,
    Seatbelt,
    Env,
    Docker,
}

impl Plan {
    pub(crate) fn run(&self, context: &Context) -> Result<u8, Failure> {
        let is_json = self.format == Format::Json;
        if !is_json && context.output().is_json() {
            return Err(
                Failure::usage("`--json` and `--format` ask for two forms").hint("leave one of them out")
            );
        }
        if self.null && is_json {
            return Err(Failure::usage("`--null` is for words, and JSON has none")
                .hint("name a `--format` other than `json`"));
        }
        let handoff = self.plan(context)?;
        if is_json {
            context.output().json(&handoff)?;
            return Ok(0);
        }
        if handoff.notes.contains(&HandoffNote::NoExtensions) {
            context.output().warning(&format!(
                "there is no private place for ${}: name a directory with `--extensions`",
                self.extensions_var
            ));
        }
        let text = match self.format {
            Format::Json => return Ok(0),
            Format::Bwrap => words_text(&handoff.bwrap, self.null),
            Format::Docker => words_text(&handoff.docker_words()?, self.null),
            Format::Seatbelt => words_text(&handoff.seatbelt_words(&Resolved::of_host)?, self.null),
            Format::Env if self.null => {
                handoff.environment.iter().map(|(name, value)| format!("{name}={value}\0")).collect()
            }
            Format::Env => handoff.variable_lines()?,
        };
        context.output().bytes(text.as_bytes())?;
        Ok(0)
    }

    fn plan(&self, context: &Context) -> Result<Handoff, Failure> {
        let named = context.snapshot(&self.snapshot, self.digest)?;
        let anchor = named.anchor(&self.snapshot)?;
        let store = if named.in_store { context.store_to_use()? } else { None };
        // Held until the plan is printed; from then on it is the caller's to hold.
        let (dir, held) = match &store {
            Some(store) => lease(store, &anchor)?,
            None => (None, None),
        };
        let path = canonical(&named.path)?;
        let progress = context.progress();
        let verified = Verified::check(dir.unwrap_or(named.dir), &path, anchor, &progress)?;
        drop(progress);
        let request = self.request(context, held.is_some().then_some(&anchor))?;
        let handoff = Handoff::new(&verified, &request, &Resolved::of_host);
        handoff.map_err(|error| {
            let is_more = matches!(error, PlanError::Integrity { .. });
            let failure = Failure::from(error);
            if is_more {
                failure.hint(
                    "`skillfreeze run` and `skillfreeze seal` keep that promise; a plan leaves it to your sandbox",
                )
            } else {
                failure
            }
        })
    }

    /// `leased` is the snapshot whose lease there is to hold.
    fn request(&self, context: &Context, leased: Option<&Digest>) -> Result<HandoffRequest, Failure> {
        let names = Names {
            skills_variable: self.skills_var.clone(),
            extensions_variable: self.extensions_var.clone(),
            extensions_dir: self.extensions_dir.clone(),
            ..Names::default()
        };
        let mut request = HandoffRequest::default();
        request.at_host = match &self.skills_dir {
            Some(dir) => dir == "host",
            None => matches!(self.format, Format::Seatbelt | Format::Env),
        };
        request.names = match &self.skills_dir {
            Some(dir) if !request.at_host => Names { skills_dir: dir.clone(), ..names },
            _ => names,
        };
        request.require = self.require;
        request.extensions = self.extensions.as_deref().map(directory_bind).transpose()?;
        if let Some(extensions) = &request.extensions {
            // What is written where skills are taken from would be a skill of the next run.
            request.guards = Guard::of_project(&extensions.source);
            request.guards.extend(Guard::of_project(context.project()?.root()));
        }
        request.store = context.root().ok().and_then(|root| canonical(&root).ok());
        request.lease = match (&request.store, leased) {
            (Some(root), Some(snapshot)) => Some(root.join(Store::lease_path(snapshot))),
            _ => None,
        };
        Ok(request)
    }
}
