//! `enable`: the user's switch, on.

use clap::Args;

use super::switching::SwitchArgs;
use crate::context::Context;
use crate::exit::Failure;

/// Let skills be used again that were disabled
///
/// A skill of which nothing was said is enabled. What is said of a project comes before what is said
/// for the user.
#[derive(Debug, Args)]
pub(crate) struct Enable {
    #[command(flatten)]
    skills: SwitchArgs,
}

impl Enable {
    pub(crate) fn run(&self, context: &Context) -> Result<u8, Failure> {
        self.skills.switch(context, true)
    }
}
