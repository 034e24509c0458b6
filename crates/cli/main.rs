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

fn main() -> ExitCode {
    // A launch starts this program again, as the helper and as the first process of the sandbox.
    skillfreeze::init();
    skillfreeze::mount::fail_at_limit_of_files();
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
