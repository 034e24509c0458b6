//! What stays of a run and what is told of it: its name, its records, its status lines.

use std::io;
use std::os::fd::RawFd;

use camino::Utf8Path;
use skillfreeze::mount::{LaunchPlan, RecordFile, StatusWriter};
use skillfreeze::store::Store;

use crate::context::{Context, absolute, canonical, now, open_dir};
use crate::exit::Failure;

/// Where status lines go, as `open` takes over the descriptor that was named, if one was.
pub(crate) fn status_writer(
    number: Option<RawFd>,
    open: impl FnOnce(RawFd) -> io::Result<StatusWriter>,
) -> Result<StatusWriter, Failure> {
    let Some(number) = number else { return Ok(StatusWriter::default()) };
    open(number).map_err(|error| {
        let failure = Failure::usage(format!("`--status-fd {number}`: {error}"));
        failure.hint(format!("open it for writing, in a shell with `{number}>FILE` at the end of the line"))
    })
}

/// The files that the record of a run is kept in: the one that was named, and the store's. The one that was
/// named must be out of reach of a sandbox that there is a `plan` of.
pub(crate) fn records(
    context: &Context,
    named: Option<&Utf8Path>,
    plan: Option<&LaunchPlan>,
    store: Option<&Store>,
    id: &str,
) -> Result<Vec<RecordFile>, Failure> {
    let mut records = Vec::new();
    if let Some(file) = named {
        records.push(named_record(context, plan, file)?);
    }
    let Some(store) = store else { return Ok(records) };
    // The name begins with the date.
    let (year, month) = (id[..4].parse().unwrap_or(0), id[4..6].parse().unwrap_or(0));
    let kept = store.record_dir(year, month).map_err(Failure::from).and_then(|dir| {
        RecordFile::new(dir, format!("{id}.json"))
            .map_err(|error| Failure::io("cannot keep the run record in the store", &error))
    });
    match kept {
        Ok(file) => records.push(file),
        // A store that cannot be written still serves, if the record is kept elsewhere.
        Err(_) if !records.is_empty() => {}
        Err(failure) => return Err(failure.hint("keep the record elsewhere: `--record FILE`")),
    }
    Ok(records)
}

/// The file that the command line names, which neither the command nor the store may have a use for.
fn named_record(
    context: &Context,
    plan: Option<&LaunchPlan>,
    file: &Utf8Path,
) -> Result<RecordFile, Failure> {
    let path = absolute(file)?;
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Failure::usage(format!("`--record {file}` names no file")));
    };
    let above = canonical(above)?;
    let mut binds = plan.into_iter().flat_map(LaunchPlan::binds);
    if let Some(bind) = binds.find(|bind| bind.writable && above.join(name).starts_with(&bind.source)) {
        let message = format!("`--record {file}` lies in `{}`, which the command can write", bind.source);
        return Err(Failure::new("record-writable", message).hint("keep the record elsewhere"));
    }
    if let Ok(root) = context.root().and_then(|root| canonical(&root))
        && above.starts_with(&root)
    {
        let message = format!("`--record {file}` lies in the store, which keeps its own record");
        return Err(Failure::new("record-in-store", message)
            .hint("keep the record elsewhere, or leave `--record` out"));
    }
    RecordFile::new(open_dir(&above)?, name.to_owned()).map_err(|error| {
        Failure::new("record-not-written", format!("cannot keep the record in `{file}`: {error}"))
    })
}

/// A name for a run: when it began, and a random part.
pub(crate) fn run_id() -> Result<String, Failure> {
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|error| Failure::new("io", format!("no random bytes: {error}")))?;
    let time = now().replace(['-', ':'], "");
    let time = time.split('.').next().unwrap_or_default();
    let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{time}Z-{random}"))
}
