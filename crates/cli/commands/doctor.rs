//! `doctor`: what this host can do.

use std::io;

use camino::Utf8PathBuf;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, PermissionsExt as _};
use clap::Args;
use rustix::fs::{Access, access};
use serde::Serialize;
use skillfreeze::Manifest;
use skillfreeze::manifest::{MANIFEST_FILE, Silent};
use skillfreeze::mount::{
    BubblewrapChoice, Host, Integrity, Launch, LaunchRequest, Method, RunContext, Seal, Session, Verified,
};

use super::run::search_path;
use crate::context::Context;
use crate::exit::{Failure, UNAVAILABLE};
use crate::output::table;
use crate::users;

/// Find out what this host can do, and what mends what it cannot
///
/// Starts a real sandbox around `true` with an empty snapshot.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Use this bubblewrap
    #[arg(long, value_name = "PATH")]
    bwrap: Option<Utf8PathBuf>,
}

/// What `doctor --json` prints.
#[derive(Debug, Serialize)]
struct DoctorOutput {
    schema: &'static str,
    /// The best integrity that `run` can give here.
    #[serde(skip_serializing_if = "Option::is_none")]
    integrity: Option<Integrity>,
    /// By what means.
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<Method>,
    checks: Vec<Finding>,
}

#[derive(Debug, Serialize)]
struct Finding {
    name: &'static str,
    ok: bool,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Finding {
    fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, ok: true, detail: detail.into(), code: None, fix: None }
    }

    fn bad(name: &'static str, failure: Failure) -> Self {
        Self { name, ok: false, detail: failure.message, code: Some(failure.code), fix: failure.hint }
    }
}

impl Doctor {
    pub(crate) fn run(&self, context: &Context) -> Result<u8, Failure> {
        let directories = search_path();
        let choice = match &self.bwrap {
            Some(path) => BubblewrapChoice::At(path),
            None => BubblewrapChoice::Search { directories: &directories, outside: &[] },
        };
        let mut checks = vec![store(context)];
        let mut best = None;
        match Host::probe(Some(&choice)) {
            Err(error) => checks.push(Finding::bad("bubblewrap", error.into())),
            Ok(host) => {
                checks.push(Finding::good("kernel", host.kernel.clone()));
                let found = host.bubblewrap.as_ref();
                let found = found.map(|found| format!("{} ({})", found.path, found.version));
                checks.push(Finding::good("bubblewrap", found.unwrap_or_default()));
                let mut started = launch(&host, Seal::StagedTmpfs);
                if let Err(failure) = &started
                    && failure.code == "seal-unavailable"
                {
                    let fix = "let this program create user and mount namespaces";
                    checks.push(Finding::bad("stage", failure.clone().hint(fix)));
                    started = launch(&host, Seal::SealedMemfd);
                }
                match started {
                    Ok((integrity, how)) => {
                        best = Some((integrity, how));
                        let detail =
                            format!("a sandbox starts and checks itself; integrity `{integrity}` by `{how}`");
                        checks.push(Finding::good("sandbox", detail));
                    }
                    Err(failure) => checks.push(Finding::bad("sandbox", failure)),
                }
            }
        }
        let (integrity, how) = best.unzip();
        let output = DoctorOutput { schema: "skillfreeze.doctor.v1", integrity, how, checks };
        context.output().data(&output, || text(&output))?;
        Ok(if output.integrity.is_some() { 0 } else { UNAVAILABLE })
    }
}

fn store(context: &Context) -> Finding {
    let found = context.root().and_then(|root| Ok((context.store_to_read()?.is_some(), root)));
    let (is_there, root) = match found {
        Ok(found) => found,
        Err(failure) => return Finding::bad("store", failure),
    };
    // What is not there yet is made in the nearest directory above that is.
    let place = root.ancestors().find(|place| place.exists()).unwrap_or(&root);
    match (access(place.as_std_path(), Access::WRITE_OK | Access::EXEC_OK), is_there) {
        (Ok(()), true) => Finding::good("store", root),
        (Ok(()), false) => Finding::good("store", format!("{root} (there is none yet)")),
        (Err(error), _) => {
            let failure = Failure::io(format_args!("`{place}` cannot be written"), &error.into());
            Finding::bad("store", failure.hint("name another place with `--root`"))
        }
    }
}

/// Launches `true` on an empty snapshot, through everything that a real launch goes through.
fn launch(host: &Host, seal: Seal) -> Result<(Integrity, Method), Failure> {
    let temporary = tempfile::Builder::new().prefix("skillfreeze-doctor").tempdir();
    let temporary = temporary.map_err(|error| Failure::io("cannot make a temporary directory", &error))?;
    let path = Utf8PathBuf::from_path_buf(temporary.path().to_owned()).map_err(|path| {
        Failure::new("path-not-utf8", format!("`{}` is not UTF-8", path.to_string_lossy()))
    })?;
    let manifest = Manifest::new(Vec::new()).map_err(|error| Failure::of("manifest-invalid", &error))?;
    let made = empty_snapshot(&path, &manifest);
    let dir = made.map_err(|error| Failure::io(format_args!("cannot write to `{path}`"), &error))?;
    let handle =
        dir.try_clone().map_err(|error| Failure::io(format_args!("cannot open `{path}`"), &error))?;
    let verified = Verified::check(handle, &path, manifest.digest(), &Silent)?;
    let mut request = LaunchRequest::new(vec!["true".into()]);
    request.environment = [("PATH".into(), "/usr/bin:/bin".into())].into();
    request.seal = Some(seal);
    let launch = Launch::new(verified, request, host)?;
    let integrity = launch.plan().integrity;
    let context = RunContext {
        id: "doctor".to_owned(),
        actor: users::actor(),
        requested: Vec::new(),
        packages: Vec::new(),
    };
    let session = Session::new(context, &Silent);
    let ended = launch.run(session);
    // A directory without write permission cannot be emptied by its owner.
    let _ = dir.set_permissions(".", cap_std::fs::Permissions::from_mode(0o700));
    let ended = ended?;
    match ended.exit.code() {
        0 => Ok((integrity, ended.how)),
        status => {
            Err(Failure::new("sandbox-broken", format!("`true` ended with status {status} in the sandbox")))
        }
    }
}

fn empty_snapshot(path: &Utf8PathBuf, manifest: &Manifest) -> io::Result<Dir> {
    let dir = Dir::open_ambient_dir(path, ambient_authority())?;
    dir.write(MANIFEST_FILE, manifest.to_bytes())?;
    dir.set_permissions(MANIFEST_FILE, cap_std::fs::Permissions::from_mode(0o444))?;
    dir.set_permissions(".", cap_std::fs::Permissions::from_mode(0o555))?;
    Ok(dir)
}

fn text(output: &DoctorOutput) -> String {
    let mut text = String::new();
    for check in &output.checks {
        let mark = if check.ok { "ok" } else { "no" };
        text.push_str(&table(&[vec![mark.to_owned(), check.name.to_owned(), check.detail.clone()]]));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("      fix: {fix}\n"));
        }
    }
    let best = match (output.integrity, output.how) {
        (Some(integrity), Some(how)) => format!("{integrity} ({how})"),
        _ => "none".to_owned(),
    };
    text.push_str(&format!("best integrity of `run` here: {best}\n"));
    text
}
