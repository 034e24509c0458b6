//! `disable`: the user's switch, off.

use clap::Args;

use super::switching::SwitchArgs;
use crate::context::Context;
use crate::exit::Failure;

/// Keep skills from being used, everywhere or in one project
///
/// It holds for all revisions, also for those that are added later, and for what the sources hold.
#[derive(Debug, Args)]
pub(crate) struct Disable {
    #[command(flatten)]
    skills: SwitchArgs,
}

impl Disable {
    pub(crate) fn run(&self, context: &Context) -> Result<u8, Failure> {
        self.skills.switch(context, false)
    }
}
