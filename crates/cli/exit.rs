//! Failures: what becomes of the errors of the libraries.

mod codes;
mod hints;

use std::error::Error;
use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::ArgMatches;
use serde_json::{Value, json};
use skillfreeze::catalog::{DiscoveryError, ScanError};
use skillfreeze::manifest::{Diagnostic, Severity};
use skillfreeze::mount::{
    AliasError, BindError, BubblewrapError, Event, LaunchError, PlanError, RootfsError, StatusWriter,
    VerifyError, quote,
};
use skillfreeze::preparer::{FreezeError, ReferenceError, ResolveError};
use skillfreeze::store::{AddError, PackageError, StoreError};

use self::codes::status_of;
pub(crate) use self::codes::{INTEGRITY, LAUNCH, UNAVAILABLE, USAGE};
pub(crate) use self::hints::LET_MOUNT;
use self::hints::hint_of;
use crate::environment::Unusable;

/// The schema of an error as JSON.
pub(crate) const ERROR_SCHEMA: &str = "skillfreeze.error.v1";

/// Why a command did not do what it was asked.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// The exit status.
    pub(crate) status: u8,
    /// The stable code.
    pub(crate) code: String,
    /// What happened, causes included.
    pub(crate) message: String,
    /// What to type or do next.
    pub(crate) hint: Option<String>,
    /// All that is wrong with the package that it is about.
    pub(crate) faults: Vec<Diagnostic>,
    /// What else a program may want to know, by the code.
    pub(crate) details: Value,
}

impl Failure {
    /// A failure with the status and the hint that its code usually has.
    pub(crate) fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        let code = code.into();
        let (status, hint) = (status_of(&code), hint_of(&code).map(str::to_owned));
        Self { status, code, message: message.into(), hint, faults: Vec::new(), details: json!({}) }
    }

    /// A failure of an error with its causes.
    pub(crate) fn of(code: impl Into<String>, error: &dyn Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        Self::new(code, message)
    }

    /// Wrong usage.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new("usage", message)
    }

    /// Something of the machine that has to do with a path.
    pub(crate) fn io(doing: impl std::fmt::Display, error: &std::io::Error) -> Self {
        let code = match error.kind() {
            // What is said to lie below a file is as absent as any.
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => "not-found",
            std::io::ErrorKind::PermissionDenied => "permission",
            std::io::ErrorKind::StorageFull
            | std::io::ErrorKind::QuotaExceeded
            | std::io::ErrorKind::FileTooLarge => "no-space",
            std::io::ErrorKind::ReadOnlyFilesystem => "read-only",
            _ => "io",
        };
        Self::new(code, format!("{doing}: {error}"))
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same failure, of a package of which this was said: what of it is an error is kept.
    pub(crate) fn because(mut self, diagnostics: Vec<Diagnostic>) -> Self {
        self.faults = faults(diagnostics);
        self
    }

    pub(crate) fn details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// The same failure, with what was being done when it came about.
    pub(crate) fn while_doing(mut self, doing: impl std::fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }

    /// The same failure of a launch: whatever it was, the command did not run as asked.
    pub(crate) fn of_launch(mut self) -> Self {
        self.status = LAUNCH;
        self
    }

    /// The object that `--json` prints on standard error.
    pub(crate) fn to_json(&self) -> Value {
        let mut details = self.details.clone();
        if !self.faults.is_empty() {
            details["faults"] = json!(self.faults);
        }
        json!({
            "schema": ERROR_SCHEMA,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "details": details,
        })
    }
}

/// What of all that was said about a package makes it unusable.
pub(crate) fn faults(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.retain(|diagnostic| diagnostic.severity == Severity::Error);
    diagnostics
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::of(error.code(), &error)
    }
}

impl From<AddError> for Failure {
    fn from(error: AddError) -> Self {
        Self::of(add_code(&error), &error).because(error.diagnostics())
    }
}

/// The code of a package that was not added: another name may be all that it needs.
pub(crate) fn add_code(error: &AddError) -> &'static str {
    let diagnostics = error.diagnostics();
    let reserved = diagnostics.iter().find(|diagnostic| diagnostic.code == "reserved-name");
    reserved.map_or_else(|| error.code(), |reserved| reserved.code)
}

impl From<ScanError> for Failure {
    fn from(error: ScanError) -> Self {
        Self::of(error.code(), &error)
    }
}

impl From<DiscoveryError> for Failure {
    fn from(error: DiscoveryError) -> Self {
        Self::of(error.code(), &error)
    }
}

impl From<ReferenceError> for Failure {
    fn from(error: ReferenceError) -> Self {
        Self::of("reference", &error)
            .hint("write `id`, `id@3`, `id@version=1.2.0`, `id@sha256:…` or `source:id`")
    }
}

impl From<ResolveError> for Failure {
    fn from(error: ResolveError) -> Self {
        let failure = Self::of(error.code(), &error);
        match &error {
            ResolveError::Unknown { near, .. } if near.is_empty() => {
                failure.hint("`skillfreeze list` shows what there is")
            }
            ResolveError::Unknown { near, .. } => {
                let names: Vec<String> = near.iter().map(|id| format!("`{id}`")).collect();
                failure.hint(format!("did you mean {}?", names.join(", "))).details(json!({ "near": near }))
            }
            ResolveError::UnknownSource { sources, .. } => {
                let names: Vec<String> = sources.iter().map(|id| format!("`{id}`")).collect();
                let hint = match names.as_slice() {
                    [] => "no source is in force".to_owned(),
                    names => format!("these are in force: {}", names.join(", ")),
                };
                failure.hint(hint).details(json!({ "sources": sources }))
            }
            ResolveError::Inactive { reference, numbers } => {
                let names: Vec<String> =
                    numbers.iter().map(|number| format!("`{}@{number}`", reference.id)).collect();
                failure.hint(format!(
                    "name one ({}), or make one active with `skillfreeze add DIR`",
                    names.join(", ")
                ))
            }
            ResolveError::Invalid { diagnostics, .. } => {
                failure.hint("mend the package, or select others").because(diagnostics.clone())
            }
            ResolveError::Ambiguous { digests, .. } => {
                failure.hint("name one by its digest: `id@sha256:…`").details(json!({ "digests": digests }))
            }
            ResolveError::Missing { ids } => failure
                .hint("mend the source that should hold it, or take it out of the enabled ones")
                .details(json!({ "missing": ids })),
            ResolveError::Contested { choices, .. } => {
                failure.hint("name the one that is meant").details(json!({ "choices": choices }))
            }
            ResolveError::Add { source, .. } => failure.because(source.diagnostics()),
            _ => failure,
        }
    }
}

impl From<FreezeError> for Failure {
    fn from(error: FreezeError) -> Self {
        match &error {
            FreezeError::Store(store) => Self::of(store.code(), store),
            FreezeError::PackageMissing { .. } => Self::of("package-missing", &error),
            FreezeError::Package { source, .. } => {
                let code = match source {
                    PackageError::Io(fault) => fault.code(),
                    _ => "package-damaged",
                };
                Self::of(code, &error).hint("add the package again from its source: `skillfreeze add DIR`")
            }
            FreezeError::Write { path, source } => Self::io(format_args!("cannot write `{path}`"), source),
            FreezeError::Unchecked { .. } => Self::of("io", &error),
            FreezeError::Unstable { .. } => Self::of("snapshot-unstable", &error),
            _ => Self::of("manifest-invalid", &error),
        }
    }
}

impl From<VerifyError> for Failure {
    fn from(error: VerifyError) -> Self {
        let failure = Self::of(error.code(), &error);
        match &error {
            VerifyError::Faults { faults, .. } => failure.details(json!({ "faults": faults })),
            _ => failure,
        }
    }
}

impl From<BubblewrapError> for Failure {
    fn from(error: BubblewrapError) -> Self {
        Self::of(error.code(), &error)
    }
}

impl From<AliasError> for Failure {
    fn from(error: AliasError) -> Self {
        let failure = Self::of(error.code(), &error);
        match error {
            AliasError::NotFound { .. } => {
                failure.hint("`skillfreeze verify --format sha256sum` lists the files")
            }
            _ => failure,
        }
    }
}

impl From<BindError> for Failure {
    fn from(error: BindError) -> Self {
        Self::from(PlanError::from(error))
    }
}

impl From<RootfsError> for Failure {
    fn from(error: RootfsError) -> Self {
        Self::of(error.code(), &error)
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        let failure = Self::of(error.code(), &error);
        match plan_hint(&error) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// What helps against a refusal that names paths.
fn plan_hint(error: &PlanError) -> Option<String> {
    match error {
        PlanError::SnapshotUnreachable(found) => Some(format!(
            "let that user through (`{}`); where a store elsewhere is named (`--root`, `SKILLFREEZE_ROOT`), \
             only its own directories are closed",
            let_through(&found.closed)
        )),
        PlanError::BindUnreachable(found) => Some(format!(
            "let that user through (`{}`), or name another user with `--user`",
            let_through(&found.closed)
        )),
        PlanError::Bind(BindError::TargetMissing { place, .. }) => {
            Some(format!("create `{place}` first, or bind it at another place (`--bind PATH:TARGET`)"))
        }
        _ => None,
    }
}

/// What opens directories to everybody who knows what is in them.
pub(crate) fn let_through(closed: &[Utf8PathBuf]) -> String {
    closed.iter().fold("chmod a+x".to_owned(), |words, path| format!("{words} {}", quote(path.as_str())))
}

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        let mut failure = Self::of(error.code(), &error);
        failure.status = u8::try_from(error.status()).unwrap_or(LAUNCH);
        match &error {
            LaunchError::Refused { refusal, .. } => failure.hint(refusal.fix),
            LaunchError::Plan(error) => match plan_hint(error) {
                Some(hint) => failure.hint(hint),
                None => failure,
            },
            LaunchError::Helper { message, .. } if message.contains("not permitted") && rustix::process::geteuid().is_root() => {
                failure.hint("root lacks the capability SYS_ADMIN here, as in most containers: start as an ordinary user")
            }
            LaunchError::Directory { .. } => failure.hint("redirect it from or to a file, a pipe or /dev/null"),
            LaunchError::Unsealed { faults } => failure.details(json!({ "faults": faults })),
            LaunchError::Changed { faults, appeared, exit } => {
                failure.details(json!({ "faults": faults, "appeared": appeared, "exit": exit }))
            }
            LaunchError::SourceAppeared { paths, exit } => {
                failure.details(json!({ "paths": paths, "exit": exit }))
            }
            _ => failure,
        }
    }
}

/// Answers a command line that cannot be used: as JSON where it asks for that, on `--status-fd` too
/// where a launch was meant.
pub(crate) fn usage(error: &Unusable, lenient: &ArgMatches) -> ExitCode {
    let below = lenient.subcommand();
    let asks_for_json = |matches: &ArgMatches| matches!(matches.try_get_one::<bool>("json"), Ok(Some(true)));
    let is_json = asks_for_json(lenient) || below.is_some_and(|(_, matches)| asks_for_json(matches));
    let failure = match error {
        Unusable::Arguments(error) => {
            let text = error.to_string();
            let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
            let message = lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned();
            Failure::usage(message).hint("see `skillfreeze help`")
        }
        Unusable::Variable { name, value } => {
            let failure = Failure::usage(format!("the environment variable {name} has the value `{value}`"));
            failure.hint("write 1 or 0, true or false, yes or no")
        }
    };
    match error {
        _ if is_json => crate::output::print_error_json(&failure),
        // Nothing can be said to somebody who does not listen.
        Unusable::Arguments(error) => drop(error.print()),
        Unusable::Variable { .. } => crate::output::print_error(&failure),
    }
    let Some(("run" | "seal", matches)) = below else { return ExitCode::from(USAGE) };
    if let Ok(Some(number)) = matches.try_get_one::<i32>("status_fd")
        && let Ok(mut status) = StatusWriter::to_descriptor(*number)
    {
        status.send(&Event::Error { code: failure.code, message: failure.message });
    }
    ExitCode::from(LAUNCH)
}
