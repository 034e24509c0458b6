//! `doctor`: what this host can do.

mod ways;

use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use rustix::fs::{Access, access};
use serde::Serialize;
use skillfreeze::Digest;
use skillfreeze::mount::{BubblewrapChoice, DEFAULT_USER, Host, Integrity, Method, Unreachable};
use skillfreeze::store::Store;

use self::ways::Way;
use super::run::search_path;
use crate::context::{Context, open_dir};
use crate::exit::{Failure, UNAVAILABLE};
use crate::output::table;

/// Find out what this host can do, and what mends what it cannot
///
/// Tries every way of giving a snapshot to a command, by starting `true` in a real sandbox with an empty
/// one, and says which integrity each gives.
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
    /// What to type, where that does not go by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    checks: Vec<Finding>,
    ways: Vec<Way>,
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

    /// What a way that cannot be had says, under another name.
    fn of(name: &'static str, way: &Way) -> Self {
        let (detail, code, fix) = (way.detail.clone(), way.code.clone(), way.fix.clone());
        Self { name, ok: false, detail: detail.unwrap_or_default(), code, fix }
    }
}

impl Doctor {
    pub(crate) fn run(&self, context: &Context) -> Result<u8, Failure> {
        let directories = search_path();
        let choice = match &self.bwrap {
            Some(path) => BubblewrapChoice::At(path),
            None => BubblewrapChoice::Search { directories: &directories, outside: &[] },
        };
        let plain = Host::probe(None)?;
        let with_bubblewrap = Host::probe(Some(&choice)).map_err(Failure::from);
        let ways = ways::try_all(with_bubblewrap.as_ref(), &plain);
        let mut checks = vec![store(context), Finding::good("kernel", plain.kernel.clone())];
        match with_bubblewrap {
            Err(failure) => checks.push(Finding::bad("bubblewrap", failure)),
            Ok(host) => {
                let found = host.bubblewrap.map(|found| format!("{} ({})", found.path, found.version));
                checks.push(Finding::good("bubblewrap", found.unwrap_or_default()));
                checks.extend(sandbox(&ways));
            }
        }
        #[cfg(target_os = "linux")]
        checks.push(match ways::try_seal() {
            Ok(()) => Finding::good("seal", "a command with a sandbox of its own finds what is sealed"),
            Err(failure) => Finding::bad("seal", failure),
        });
        let best = ways.iter().find(|way| way.ok);
        let advice = best.and_then(|best| best.advice(unreachable(context, plain.user).as_ref()));
        // A plan is for somebody else's sandbox, not for `run`.
        let best = best.filter(|way| way.how != Method::Plan);
        let (integrity, how) = best.map(|way| (way.integrity, way.how)).unzip();
        let output = DoctorOutput { schema: "skillfreeze.doctor.v1", integrity, how, advice, checks, ways };
        context.output().data(&output, || text(&output))?;
        Ok(if output.integrity.is_some() { 0 } else { UNAVAILABLE })
    }
}

/// Whether bubblewrap's sandbox starts, as a launch that asks for nothing tries it.
fn sandbox(ways: &[Way]) -> Vec<Finding> {
    let [stage, files, ..] = ways else { return Vec::new() };
    let has_no_stage = stage.code.as_deref() == Some("seal-unavailable");
    let mut findings = Vec::new();
    if has_no_stage {
        findings.push(Finding::of("stage", stage));
    }
    let taken = if has_no_stage { files } else { stage };
    findings.push(if taken.ok {
        let detail =
            format!("a sandbox starts and checks itself; integrity `{}` by `{}`", taken.integrity, taken.how);
        Finding::good("sandbox", detail)
    } else {
        Finding::of("sandbox", taken)
    });
    findings
}

fn store(context: &Context) -> Finding {
    let found = context.root().and_then(|root| {
        let is_there = context.store_to_read()?.is_some();
        if is_there {
            owned(&root)?;
        }
        Ok((is_there, root))
    });
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

/// What keeps the user who runs the commands of root from the snapshots in the store, by their path.
fn unreachable(context: &Context, caller: (u32, u32)) -> Option<Unreachable> {
    let root = context.root().ok().filter(|_| caller.0 == 0)?;
    let snapshots = root.join(Store::snapshot_path(&Digest::of(b""))).parent()?.to_owned();
    let (user, group) = DEFAULT_USER;
    let found = Unreachable::check(&snapshots, (user, group));
    let mut found = found.err().unwrap_or(Unreachable { path: snapshots, user, closed: Vec::new() });
    // What is not there yet will be made closed to others.
    let absent = found.path.ancestors().take_while(|place| place.starts_with(&root) && !place.exists());
    let mut absent: Vec<Utf8PathBuf> = absent.map(Utf8Path::to_owned).collect();
    absent.reverse();
    found.closed.append(&mut absent);
    Some(found).filter(|found| !found.closed.is_empty())
}

/// What can be read is not yet what can be written without trusting somebody else.
fn owned(root: &Utf8Path) -> Result<(), Failure> {
    let checked = Store::check_owner(&open_dir(root)?).map_err(Failure::from);
    checked.map_err(|failure| failure.while_doing(format_args!("cannot open the store `{root}`")))
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
    text.push_str("\nways to give a command its skills, the best first:\n");
    let row = |way: &Way| {
        let mark = if way.ok { "yes" } else { "no" };
        let code = way.code.clone().unwrap_or_default();
        vec![mark.to_owned(), way.how.to_string(), way.integrity.to_string(), code]
    };
    text.push_str(&table(&output.ways.iter().map(row).collect::<Vec<_>>()));
    let mut told: Vec<&str> = Vec::new();
    for way in &output.ways {
        let (Some(code), Some(detail)) = (&way.code, &way.detail) else { continue };
        if !told.contains(&code.as_str()) {
            told.push(code);
            text.push_str(&table(&[vec![format!("{code}:"), detail.clone()]]));
            if let Some(fix) = &way.fix {
                text.push_str(&format!("      fix: {fix}\n"));
            }
        }
    }
    let best = match (output.integrity, output.how) {
        (Some(integrity), Some(how)) => format!("{integrity} ({how})"),
        _ => "none".to_owned(),
    };
    text.push_str(&format!("\nbest integrity of `run` here: {best}\n"));
    if let Some(advice) = &output.advice {
        text.push_str(&format!("{advice}\n"));
    }
    text
}
