//! The commands, one file each.

pub(crate) mod add;
pub(crate) mod completions;
pub(crate) mod disable;
pub(crate) mod doctor;
pub(crate) mod enable;
pub(crate) mod index;
pub(crate) mod keeping;
pub(crate) mod list;
pub(crate) mod naming;
pub(crate) mod plan;
pub(crate) mod prepare;
pub(crate) mod read;
pub(crate) mod run;
pub(crate) mod seal;
pub(crate) mod selecting;
pub(crate) mod show;
pub(crate) mod switching;
pub(crate) mod validate;
pub(crate) mod verify;
mod watch;

use crate::args::Verb;
use crate::context::Context;
use crate::exit::Failure;

/// Runs a command and returns its exit status.
pub(crate) fn run(context: &Context, command: Verb) -> Result<u8, Failure> {
    match command {
        Verb::List(list) => list.run(context),
        Verb::Show(show) => show.run(context),
        Verb::Validate(validate) => validate.run(context),
        Verb::Prepare(prepare) => prepare.run(context),
        Verb::Run(run) => run.run(context),
        Verb::Seal(seal) => seal.run(context),
        Verb::Verify(verify) => verify.run(context),
        Verb::Plan(plan) => plan.run(context),
        Verb::Read(read) => read.run(context),
        Verb::Doctor(doctor) => doctor.run(context),
        Verb::Add(add) => add.run(context),
        Verb::Enable(enable) => enable.run(context),
        Verb::Disable(disable) => disable.run(context),
        Verb::Completions(completions) => completions.run(context),
    }
}
