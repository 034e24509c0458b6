//! The directories of a store, and the format that it says it has.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};

use cap_std::fs::Dir;
use rustix::fs::fsync;
use serde::{Deserialize, Serialize};
use skillfreeze_manifest::{Stamp, escape_bytes, list_dir, open_file, to_canonical_bytes};

use crate::archive::PACKAGES;
use crate::atomic::{Guard, TEMPORARY, make_dir, rename_new};
use crate::error::{StoreError, failed};
use crate::journal::JOURNAL;
use crate::lease::LEASES;
use crate::staging::SNAPSHOTS;

/// Where damaged archives go.
pub(crate) const QUARANTINE: &str = "quarantine";
/// Where run records live.
pub(crate) const RECORDS: &str = "runs";
const FORMAT: &str = "format.json";
/// The format that this version reads and writes.
const VERSION: u64 = 1;
/// No format file is longer; what is longer is none.
const MAX_FORMAT_BYTES: u64 = 64 << 10;
/// Directories that are made with the store.
const DIRECTORIES: [&str; 7] = [TEMPORARY, "packages", PACKAGES, "snapshots", SNAPSHOTS, LEASES, QUARANTINE];
/// What may be there before `format.json` is: what another process has begun with, and what a
/// file system of its own begins with.
const BEGINNINGS: [&str; 6] = [TEMPORARY, "packages", "snapshots", LEASES, QUARANTINE, "lost+found"];

/// What may be done with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    ReadAndWrite,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Format {
    features: BTreeMap<String, String>,
    version: u64,
}

/// Refuses a store that others than the caller and root may change.
pub(crate) fn check_owner(root: &Dir) -> Result<(), StoreError> {
    let stamp = Stamp::of(root).map_err(failed("look at", "."))?;
    let caller = rustix::process::geteuid().as_raw();
    if stamp.owner != caller && stamp.owner != 0 {
        return Err(StoreError::Owner { owner: stamp.owner, caller });
    }
    if stamp.mode & 0o022 != 0 {
        return Err(StoreError::WritableByOthers { mode: stamp.mode });
    }
    Ok(())
}

/// Reads the format and says what may be done with the store; none where there is no format.
pub(crate) fn read_format(root: &Dir) -> Result<Option<Use>, StoreError> {
    let file = match open_file(root, FORMAT) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let has_changes = Stamp::at(root, JOURNAL.as_bytes()).is_ok_and(|stamp| stamp.size > 0);
            return if has_changes { Err(StoreError::FormatMissing) } else { Ok(None) };
        }
        Err(error) => return Err(failed("open", FORMAT)(error).into()),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FORMAT_BYTES).read_to_end(&mut bytes).map_err(failed("read", FORMAT))?;
    parse_format(&bytes).map(Some)
}

fn parse_format(bytes: &[u8]) -> Result<Use, StoreError> {
    let invalid = |source| StoreError::FormatInvalid { source };
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(invalid)?;
    // Another version may have other fields: it is looked at first.
    match value.get("version").and_then(serde_json::Value::as_u64) {
        Some(found) if found != VERSION => return Err(StoreError::FormatVersion { found, known: VERSION }),
        _ => {}
    }
    let format: Format = serde_json::from_value(value).map_err(invalid)?;
    // This version knows no feature at all.
    let mut allowed = Use::ReadAndWrite;
    for (feature, kind) in format.features {
        match kind.as_str() {
            "read-compatible" => allowed = Use::Read,
            _ => return Err(StoreError::FormatFeature { feature, kind }),
        }
    }
    Ok(allowed)
}

/// Makes what is missing of a store, `format.json` included.
///
/// After a crash the directory is still one that can be made a store. Several may do it at once.
pub(crate) fn make(root: &Dir) -> Result<(), StoreError> {
    let has_format = Stamp::at(root, FORMAT.as_bytes()).is_ok();
    if !has_format {
        check_empty(root)?;
    }
    for path in DIRECTORIES {
        make_dir(root, path)?;
    }
    if !has_format {
        write_format(root)?;
    }
    Ok(())
}

fn check_empty(root: &Dir) -> Result<(), StoreError> {
    let entries = list_dir(root).map_err(failed("list", "."))?;
    let is_beginning = |name: &[u8]| BEGINNINGS.iter().any(|known| known.as_bytes() == name);
    let mut strange = entries.iter().map(|entry| &entry.name).filter(|name| !is_beginning(name));
    let Some(name) = strange.next() else { return Ok(()) };
    // Another process may have finished in the meantime: then it is a store after all.
    if Stamp::at(root, FORMAT.as_bytes()).is_ok() {
        return Ok(());
    }
    Err(StoreError::NotAStore { found: escape_bytes(name) })
}

fn write_format(root: &Dir) -> Result<(), StoreError> {
    let guard = Guard::new(root)?;
    let (name, mut file) = guard.create()?;
    let bytes = to_canonical_bytes(&Format { features: BTreeMap::new(), version: VERSION });
    file.write_all(&bytes).map_err(failed("write", FORMAT))?;
    fsync(&file).map_err(failed("sync", FORMAT))?;
    // Where another process was first its file stays, and says the same.
    rename_new(guard.dir(), &name, root, FORMAT).map_err(failed("create", FORMAT))?;
    fsync(root).map_err(failed("sync", "."))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let code = |text: &str| parse_format(text.as_bytes()).map_err(|error| error.code());
        assert_eq!(code(r#"{"features":{},"version":1}"#), Ok(Use::ReadAndWrite));
        assert_eq!(code(r#"{"features":{"x":"read-compatible"},"version":1}"#), Ok(Use::Read));
        for (text, expected) in [
            (r#"{"features":{"x":"incompatible"},"version":1}"#, "format-feature"),
            (r#"{"features":{"x":"else"},"version":1}"#, "format-feature"),
            (r#"{"features":{"a":"read-compatible","x":"incompatible"},"version":1}"#, "format-feature"),
            (r#"{"features":{},"version":2}"#, "format-version"),
            (r#"{"layout":[],"version":2}"#, "format-version"),
            (r#"{"features":{},"more":1,"version":1}"#, "format-invalid"),
            (r#"{"version":1}"#, "format-invalid"),
            ("", "format-invalid"),
            ("{}{}", "format-invalid"),
        ] {
            assert_eq!(code(text), Err(expected), "{text}");
        }
    }
}
