//! `verify`: re-hashes everything.

use camino::{Utf8Path, Utf8PathBuf};
use cap_std::fs::Dir;
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::json;
use skillfreeze::manifest::{
    Check, CheckOptions, Digest, EntryKind, Fault, FaultCode, MANIFEST_FILE, SKILL_FILE, Stamp,
    check_snapshot,
};
#[cfg(target_os = "linux")]
use skillfreeze::mount::{ProbeError, Probed, probe_read_only};
use skillfreeze::mount::{RunRecord, is_trusted_owner};

use super::show::find_run;
use crate::context::{Context, Named, canonical, open_dir};
use crate::exit::{Failure, INTEGRITY};
use crate::output::counted;

/// Hash every file of a snapshot again and compare it with the manifest
///
/// Named by its digest, or by a path with `--digest`, the manifest itself is checked too. A path
/// alone shows only that the files fit the manifest beside them (`"anchored": false`).
///
/// `--inside` is for a sandbox to look at what it was given. "Sealed" means that the files are in a file
/// system in memory that is read-only as a whole and that nothing in there can make writable, as `skillfreeze
/// seal` mounts it. A read-only mount alone (`--require read-only`) keeps the sandbox from writing by this
/// path, not by another, nor others outside. What is mounted over the path later is not known.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// A snapshot (`sha256:…`, or a directory) or a run
    #[arg(value_name = "SNAPSHOT|DIR|RUN")]
    target: String,
    /// The digest that the snapshot must have
    #[arg(long, value_name = "DIGEST")]
    digest: Option<Digest>,
    /// Ignore modes beyond the execute bit
    #[arg(long)]
    portable: bool,
    /// Look from inside a sandbox whether it is sealed, too: attempts to change it must fail
    #[arg(long)]
    inside: bool,
    /// The least that will do with `--inside`
    #[arg(long, value_name = "LEVEL", requires = "inside", default_value = "sealed")]
    require: Kept,
    /// How to print; `sha256sum` prints what `sha256sum -c` reads
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Sha256sum,
}

/// What keeps the files as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kept {
    /// The file system, for everybody
    Sealed,
    /// This mount of it
    ReadOnly,
}

/// What `verify --json` prints.
#[derive(Debug, Serialize)]
struct VerifyOutput {
    schema: &'static str,
    path: Utf8PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<Digest>,
    anchored: bool,
    clean: bool,
    packages: usize,
    files: u64,
    bytes: u64,
    faults: Vec<Fault>,
    warnings: Vec<Warning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inside: Option<Inside>,
}

/// What was found from inside.
#[derive(Debug, Serialize)]
struct Inside {
    probes: u64,
    noexec: bool,
    sealed: bool,
}

#[derive(Debug, Serialize)]
struct Warning {
    code: &'static str,
    message: String,
}

impl Verify {
    pub(crate) fn run(&self, context: &Context) -> Result<u8, Failure> {
        let named = self.named(context)?;
        if self.inside && named.digest.is_none() {
            let message = format!(
                "`{}` names no digest, without which the look from inside shows nothing",
                self.target
            );
            return Err(Failure::usage(message).hint("add `--digest sha256:…`, as `prepare` printed it"));
        }
        let progress = context.progress();
        // A file of somebody else than whose the snapshot is could be changed by that somebody.
        let owner = Stamp::of(&named.dir).map(|stamp| stamp.owner);
        let owners = [0, rustix::process::geteuid().as_raw(), owner.unwrap_or_default()];
        let options = CheckOptions::new(&progress).portable(self.portable).owners(&owners);
        let check = check_snapshot(&named.dir, named.digest, &options);
        drop(progress);
        // Whose it is says nothing where the sandbox's user namespace does not know them.
        let warnings = if self.inside { Vec::new() } else { warnings(&named)? };
        let inside =
            if self.inside && check.is_clean() { Some(probe(&named, &check, self.require)?) } else { None };
        let in_store = named.in_store;
        let output = VerifyOutput {
            schema: "skillfreeze.verify.v1",
            path: named.path,
            snapshot: check.digest,
            anchored: named.digest.is_some(),
            clean: check.is_clean(),
            packages: check.manifest.as_ref().map_or(0, |manifest| manifest.packages().len()),
            files: check.files,
            bytes: check.bytes,
            faults: check.faults.clone(),
            warnings,
            inside,
        };
        for warning in &output.warnings {
            context.output().warning(&warning.message);
        }
        match self.format {
            Format::Json => context.output().json(&output)?,
            Format::Sha256sum if output.clean => context.output().text(&sums(&check))?,
            Format::Sha256sum => {}
            Format::Text => context.output().data(&output, || text(&output))?,
        }
        if output.clean {
            return Ok(0);
        }
        let count = output.faults.len();
        let message =
            format!("`{}` does not match: {count} fault{}", output.path, if count == 1 { "" } else { "s" });
        let mut failure = Failure::new("integrity", message);
        failure.status = INTEGRITY;
        failure.hint = failure.hint.map(|usual| hint(&check, in_store).unwrap_or(usual));
        // As text they have been printed; who asked for something else finds them here.
        let shown = self.format == Format::Text && !context.output().is_json();
        Err(if shown { failure } else { failure.details(json!({ "faults": output.faults })) })
    }

    fn named(&self, context: &Context) -> Result<Named, Failure> {
        match find_run(context, &self.target)? {
            Some(record) => self.of_run(context, &record),
            None => context.snapshot(&self.target, self.digest),
        }
    }

    /// A run's record names the snapshot and holds its manifest word for word.
    fn of_run(&self, context: &Context, record: &RunRecord) -> Result<Named, Failure> {
        let actual = Digest::of(record.manifest.as_bytes());
        if actual != record.snapshot {
            let message = format!(
                "the record of run {} names {} but holds the manifest of {actual}",
                record.id, record.snapshot
            );
            return Err(Failure::new("integrity", message));
        }
        match &self.digest {
            Some(digest) if *digest != record.snapshot => {
                let message = format!("run {} had {}, not {digest}", record.id, record.snapshot);
                Err(Failure::new("integrity", message))
            }
            _ => context.snapshot(&record.snapshot.to_string(), Some(record.snapshot)),
        }
    }
}

/// Tries from inside to change what was found to be right.
#[cfg(target_os = "linux")]
fn probe(named: &Named, check: &Check, require: Kept) -> Result<Inside, Failure> {
    let first = check.manifest.iter().flat_map(|manifest| manifest.packages()).next();
    let skill = first.map(|package| Utf8Path::new(package.id().as_str()).join(SKILL_FILE));
    let file = skill.unwrap_or_else(|| MANIFEST_FILE.into());
    let probed = probe_read_only(&named.dir, &file).map_err(|error: ProbeError| {
        let mut failure = Failure::new(error.code(), format!("`{}` can be changed: {error}", named.path));
        failure.status = INTEGRITY;
        failure
    })?;
    let Probed { probes, noexec, unsealed, .. } = probed;
    if let Some(why) = unsealed.filter(|_| require == Kept::Sealed) {
        let message =
            format!("the files in `{}` are not sealed, they can change from elsewhere: {why}", named.path);
        let mut failure = Failure::new("mount-unsealed", message);
        failure.status = INTEGRITY;
        return Err(failure);
    }
    Ok(Inside { probes, noexec, sealed: unsealed.is_none() })
}

#[cfg(not(target_os = "linux"))]
fn probe(_: &Named, _: &Check, _: Kept) -> Result<Inside, Failure> {
    Err(Failure::new("seal-unavailable", "`--inside` looks at mounts of Linux"))
}

/// What to do about these faults, where that is more than the usual.
fn hint(check: &Check, in_store: bool) -> Option<String> {
    if check.faults.iter().all(|fault| fault.code == FaultCode::WrongMode) {
        return Some(
            "a copy that lost its modes is checked with `--portable`; `cp -a` keeps them".to_owned(),
        );
    }
    let [only] = check.faults.as_slice() else { return rebuild(check, in_store) };
    if only.code == FaultCode::Missing && only.path == MANIFEST_FILE {
        return Some("a snapshot's directory holds a `.snapshot.json`: is this one?".to_owned());
    }
    rebuild(check, in_store)
}

/// The command that builds a snapshot of the store again from the packages there.
fn rebuild(check: &Check, in_store: bool) -> Option<String> {
    /// More references than this are no command that anybody types.
    const MOST: usize = 8;
    let packages = check.manifest.as_ref().filter(|_| in_store)?.packages();
    if packages.is_empty() || packages.len() > MOST {
        return None;
    }
    let references: Vec<String> =
        packages.iter().map(|package| format!("{}@{}", package.id(), package.revision())).collect();
    Some(format!("build it again from the store's packages: `skillfreeze prepare {}`", references.join(" ")))
}

fn warnings(named: &Named) -> Result<Vec<Warning>, Failure> {
    let mut warnings = Vec::new();
    let mut look = |path: &Utf8Path, handle: &Dir, code_owner, code_mode| -> Result<(), Failure> {
        let stamp = Stamp::of(handle)
            .map_err(|error| Failure::io(format_args!("cannot examine `{path}`"), &error))?;
        if !is_trusted_owner(stamp.owner) {
            let message = format!("`{path}` belongs to user {}, who is neither you nor root", stamp.owner);
            warnings.push(Warning { code: code_owner, message });
        }
        // The mode of a link means nothing; that it is one is a fault.
        if stamp.kind != EntryKind::Link && stamp.mode & 0o022 != 0 {
            let message = format!("`{path}` can be written by others (mode {:04o})", stamp.mode);
            warnings.push(Warning { code: code_mode, message });
        }
        Ok(())
    };
    look(&named.path, &named.dir, "snapshot-owner", "snapshot-writable-by-others")?;
    if named.in_store
        && let Some(root) = named.path.ancestors().nth(3)
    {
        let root = canonical(root)?;
        look(&root, &open_dir(&root)?, "store-owner", "store-writable-by-others")?;
    }
    Ok(warnings)
}

fn text(output: &VerifyOutput) -> String {
    if output.clean {
        let digest = output.snapshot.map(|digest| digest.to_string()).unwrap_or_default();
        let anchor =
            if output.anchored { "" } else { " (the manifest itself was not checked: no digest was named)" };
        let inside = match &output.inside {
            Some(Inside { sealed: true, .. }) => "; sealed: nothing can change them",
            Some(_) => {
                "; this mount is read-only, but the files are not sealed: they can change from elsewhere"
            }
            None => "",
        };
        return format!(
            "{digest}: {}, {}, {} match{inside}{anchor}",
            counted(output.packages, "package"),
            counted(output.files, "file"),
            counted(output.bytes, "byte")
        );
    }
    output.faults.iter().map(|fault| format!("{fault}\n")).collect()
}

/// Lines that `sha256sum -c` reads, run in the snapshot directory.
fn sums(check: &Check) -> String {
    let packages = check.manifest.iter().flat_map(|manifest| manifest.packages());
    let files =
        packages.flat_map(|package| package.listing().files().iter().map(move |file| (package.id(), file)));
    files.map(|(id, file)| format!("{}  {id}/{}\n", file.digest.hex(), file.path)).collect()
}
