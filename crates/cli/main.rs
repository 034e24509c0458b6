//! The `skillfreeze` program: arguments, output and progress, and no logic of its own.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "paths, the environment and the clock come in here")]

mod args;
mod commands;
mod config_files;
mod context;
mod describer;
mod directories;
mod environment;
mod excerpt;
mod exit;
mod output;
mod path_source;
mod progress;
mod project;
mod report;
mod sources;
mod users;
mod watcher;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    // A launch starts this program again, as the helper and as the first process of the sandbox.
    skillfreeze::init();
    // A limit on the size of files is to be an error like a full disk, not a signal that kills. The
    // handler, unlike ignoring the signal, is gone in the programs that this one starts.
    let reached = Arc::new(AtomicBool::new(false));
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, reached);
    let arguments = match args::parse() {
        Ok(arguments) => arguments,
        Err(status) => return status,
    };
    let context = context::Context::new(arguments.global);
    match commands::run(&context, arguments.command) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            context.output().failure(&failure);
            ExitCode::from(failure.status)
        }
    }
}
