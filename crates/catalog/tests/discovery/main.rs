//! Discovery: what a scan makes of directories, and of what happens to them.
#![expect(clippy::disallowed_methods, reason = "makes the directories that are scanned")]

mod conflicts;
mod current;
mod entries;
mod failures;
mod layouts;
mod registered;
mod support;
mod watched;
