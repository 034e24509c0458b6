//! `completions`: what a shell needs to complete the command line.

use clap::Args;
use clap_complete::Shell;

use crate::context::Context;
use crate::exit::Failure;

/// Print the completions for a shell
#[derive(Debug, Args)]
pub(crate) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, context: &Context) -> Result<u8, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::args::command(), "skillfreeze", &mut script);
        context.output().text(&String::from_utf8_lossy(&script))?;
        Ok(0)
    }
}
