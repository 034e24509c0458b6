//! `show`: all about one skill, snapshot or run.

mod found;
mod skill;

use std::io::Read as _;

use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use skillfreeze::manifest::{Check, CheckOptions, Digest, REVISION_HEX, check_snapshot};
use skillfreeze::mount::RunRecord;
use skillfreeze::preparer::{Reference, ResolveError};

use crate::context::{Context, Named};
use crate::exit::{Failure, INTEGRITY};
use crate::output::table;
use crate::sources::SourceArgs;

/// Show all about a skill, a snapshot or a run
///
/// Of a skill: what the sources hold under its id, what shadows what, whether that differs from the
/// active revision, and all revisions in the store.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// A skill (`id`, `id@3`, `source:id`, …), a snapshot (`sha256:…`, or a directory) or a run
    #[arg(value_name = "SKILL|SNAPSHOT|RUN")]
    target: String,
    #[command(flatten)]
    sources: SourceArgs,
}

/// What `show SNAPSHOT --json` prints.
#[derive(Debug, Serialize)]
struct SnapshotOutput {
    schema: &'static str,
    snapshot: Digest,
    path: Utf8PathBuf,
    packages: Value,
}

impl Show {
    pub(crate) fn run(&self, context: &Context) -> Result<u8, Failure> {
        if let Some(record) = find_run(context, &self.target)? {
            context.output().data(&record, || run_text(&record))?;
            return Ok(0);
        }
        // It could be read as `source:id`, which no source is named for.
        let reference = self.target.parse::<Reference>().ok();
        let Some(reference) = reference.filter(|_| !self.target.starts_with(Digest::PREFIX)) else {
            return self.show_snapshot(context);
        };
        match skill::show(context, &self.sources, &reference)? {
            Ok(()) => Ok(0),
            // A text that is the path or the leading digits of a snapshot means that where no skill
            // has the name.
            Err(ResolveError::Unknown { .. }) if could_name_snapshot(&self.target) => {
                self.show_snapshot(context)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn show_snapshot(&self, context: &Context) -> Result<u8, Failure> {
        let Named { dir, path, digest, .. } = context.snapshot(&self.target, None)?;
        let progress = context.progress();
        let options = CheckOptions::new(&progress).portable(true);
        let Check { manifest, digest: found, faults, .. } = check_snapshot(&dir, digest, &options);
        let (Some(manifest), Some(snapshot)) = (manifest, found) else {
            let mut failure =
                Failure::new("integrity", format!("`{path}` holds no snapshot that could be shown"));
            failure.status = INTEGRITY;
            return Err(failure.details(json!({ "faults": faults })));
        };
        let packages = json!(manifest.packages());
        let output = SnapshotOutput { schema: "skillfreeze.show-snapshot.v1", snapshot, path, packages };
        context.output().data(&output, || {
            let row = |package: &skillfreeze::manifest::PackageEntry| {
                let version = package.version().map_or_else(|| "-".to_owned(), ToString::to_string);
                let (files, bytes) = (package.listing().files().len(), package.listing().bytes());
                vec![
                    package.id().to_string(),
                    package.revision().to_owned(),
                    version,
                    format!("{files} files"),
                    format!("{bytes} bytes"),
                ]
            };
            let rows: Vec<_> = manifest.packages().iter().map(row).collect();
            format!("{}\n{}\n{}", output.snapshot, output.path, table(&rows))
        })?;
        if !faults.is_empty() {
            context.output().warning("the files do not match the manifest: see `skillfreeze verify`");
        }
        Ok(0)
    }
}

fn could_name_snapshot(text: &str) -> bool {
    let is_hex = text.len() >= REVISION_HEX && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex || Utf8Path::new(text).is_dir()
}

fn run_text(record: &RunRecord) -> String {
    let mut rows = vec![
        ("run", record.id.clone()),
        ("outcome", json!(record.outcome).as_str().unwrap_or_default().to_owned()),
        ("started", format!("{} by {}", record.started_at, record.actor)),
        ("ended", record.ended_at.clone().unwrap_or_else(|| "-".to_owned())),
        ("snapshot", record.snapshot.to_string()),
        ("integrity", record.launch.integrity.to_string()),
        ("sandbox", sandbox_text(record)),
        ("user", format!("{}:{}", record.launch.user.0, record.launch.user.1)),
        ("network", json!(record.launch.network).as_str().unwrap_or("its caller's").to_owned()),
        ("started in", record.launch.working_directory.to_string()),
        ("command", format!("{} (the digest of its words)", record.launch.argv_digest)),
        (
            "packages",
            record.packages.iter().map(|package| package.id.to_string()).collect::<Vec<_>>().join(" "),
        ),
        ("exit", record.exit.map_or_else(|| "-".to_owned(), |exit| exit.code().to_string())),
    ];
    if let Some(error) = &record.error {
        rows.push(("error", format!("{} ({})", error.message, error.code)));
    }
    rows.push(("attestation", record.attestation.clone()));
    table(&rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect::<Vec<_>>())
}

fn sandbox_text(record: &RunRecord) -> String {
    match &record.launch.backend {
        Some(backend) => backend.to_string(),
        None => "its caller's own".to_owned(),
    }
}

/// Finds a run's record: by its id in the store, or by the path of a JSON file.
pub(crate) fn find_run(context: &Context, target: &str) -> Result<Option<RunRecord>, Failure> {
    let path = Utf8Path::new(target);
    let path = match run_path(target) {
        Some(relative) if !target.contains('/') => context.root()?.join("runs").join(relative),
        _ if path.extension() == Some("json") && path.is_file() => path.to_owned(),
        _ => return Ok(None),
    };
    let mut bytes = Vec::new();
    let read = std::fs::File::open(&path).and_then(|mut file| file.read_to_end(&mut bytes));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Failure::new("run-unknown", format!("there is no run `{target}` in the store")))
        }
        Err(error) => Err(Failure::io(format_args!("cannot read `{path}`"), &error)),
        Ok(_) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| Failure::new("record-invalid", format!("`{path}` is no run record: {error}"))),
    }
}

/// Where the record of a run lies below `runs/`: its id begins with the date.
fn run_path(id: &str) -> Option<String> {
    let (date, rest) = id.split_once('T')?;
    let is_id = date.len() == 8
        && date.bytes().all(|byte| byte.is_ascii_digit())
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_id.then(|| format!("{}/{}/{id}.json", &date[..4], &date[4..6]))
}
