//! Tests that cannot run here say so and are counted.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

/// The directory of the public corpora, named by `SKILLFREEZE_CORPORA`.
#[must_use]
pub fn corpora() -> Option<PathBuf> {
    env::var_os("SKILLFREEZE_CORPORA").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Prints `skipped: reason`, and appends the line to the file that `SKILLFREEZE_SKIPS` names, which
/// is how CI counts; [`skip!`](crate::skip) also leaves the test.
pub fn record_skip(reason: &str) {
    eprintln!("skipped: {reason}");
    if let Some(path) = env::var_os("SKILLFREEZE_SKIPS") {
        // One write of one line: tests append at the same time.
        let line = format!("skipped: {reason}\n");
        let opened = OpenOptions::new().create(true).append(true).open(path);
        opened.and_then(|mut file| file.write_all(line.as_bytes())).expect("the list of skips is writable");
    }
}

/// Leaves the test with a reason, given as to `format!`, that is printed and counted.
///
/// ```
/// use skillfreeze_testing::{corpora, skip};
///
/// fn test() {
///     let Some(_corpora) = corpora() else { skip!("SKILLFREEZE_CORPORA is not set") };
/// }
/// ```
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        $crate::record_skip(&format!($($reason)+));
        return;
    }};
}
