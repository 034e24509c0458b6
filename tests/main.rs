//! Whole-program tests: the program as its users run it.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests make and damage trees by path, and fail by unwrapping"
)]

mod architecture;
mod command_line;
mod configuration;
mod corpora;
mod discovery;
mod launch;
mod packages;
mod readme;
mod schemas;
mod selection;
mod show;
mod store;
mod support;
mod tampering;
mod validate;
mod watch;
