//! Programs as a search path finds them.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The canonical path of what a command's first word starts, with the search path `path`; none where that
/// is not to be found.
pub(crate) fn canonical_program(program: &OsStr, path: &OsStr) -> Option<PathBuf> {
    let is_file = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.is_file());
    let found = if program.as_encoded_bytes().contains(&b'/') {
        Some(Path::new(program).to_owned())
    } else {
        env::split_paths(path).map(|directory| directory.join(program)).find(is_file)
    };
    fs::canonicalize(found?).ok()
}
