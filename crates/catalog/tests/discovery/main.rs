//! Discovery: what a scan makes of directories, and of what happens to them.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests make the directories that are scanned, and fail by unwrapping"
)]

mod conflicts;
mod current;
mod entries;
mod failures;
mod layouts;
mod registered;
mod support;
