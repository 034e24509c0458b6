//! What `enable` and `disable` share: the user's switch.

use clap::{Args, ValueEnum};
use serde::Serialize;
use skillfreeze::manifest::{IdError, SkillId};
use skillfreeze::store::Scope;

use crate::context::Context;
use crate::exit::Failure;
use crate::output::table;

/// Which skills, and for whom.
#[derive(Debug, Args)]
pub(crate) struct SwitchArgs {
    /// Ids of skills; they need not be in the store
    #[arg(required = true, value_name = "SKILL")]
    skills: Vec<String>,
    /// For whom it holds: the user everywhere, or this project, which comes before the user
    ///
    /// The project is the nearest directory with a `.git`, from the current one upwards; without
    /// any, the current one.
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    scope: ScopeName,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeName {
    User,
    Project,
}

/// What `enable --json` and `disable --json` print.
#[derive(Debug, Serialize)]
struct SwitchOutput {
    schema: &'static str,
    switched: Vec<SwitchedOutput>,
}

#[derive(Debug, Serialize)]
struct SwitchedOutput {
    id: SkillId,
    scope: Scope,
    enabled: bool,
    changed: bool,
}

impl SwitchArgs {
    /// Switches the skills on or off and says what that changed.
    pub(crate) fn switch(&self, context: &Context, on: bool) -> Result<u8, Failure> {
        let ids: Vec<SkillId> = self.skills.iter().map(|text| parse(text)).collect::<Result<_, _>>()?;
        let scope = match self.scope {
            ScopeName::User => Scope::User,
            ScopeName::Project => context.project()?.scope(),
        };
        let switched = context.store()?.switch(&ids, &scope, on)?;
        let switched = switched.into_iter().map(|switched| SwitchedOutput {
            id: switched.id,
            scope: scope.clone(),
            enabled: on,
            changed: switched.changed,
        });
        let output = SwitchOutput { schema: "skillfreeze.switch.v1", switched: switched.collect() };
        context.output().data(&output, || text(&output))?;
        Ok(0)
    }
}

fn parse(text: &str) -> Result<SkillId, Failure> {
    text.parse().map_err(|error: IdError| {
        Failure::of("reference", &error)
            .hint("write the skill's id alone: it is switched in all its revisions")
    })
}

fn text(output: &SwitchOutput) -> String {
    let row = |switched: &SwitchedOutput| {
        let state = if switched.enabled { "enabled" } else { "disabled" };
        let already = if switched.changed { "" } else { "already " };
        vec![switched.id.to_string(), format!("{already}{state} for {}", switched.scope)]
    };
    table(&output.switched.iter().map(row).collect::<Vec<_>>())
}
