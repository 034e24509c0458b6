//! Discovery: what a scan makes of directories, and of what happens to them.
#![expect(
    clippy::disallowed_methods,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "makes the directories that are scanned, in tables of what is done to them, and fails by unwrapping"
)]

mod conflicts;
mod current;
mod entries;
mod failures;
mod layouts;
mod registered;
mod support;
mod watched;
