//! A plan as variables.

use camino::Utf8Path;

use super::{Handoff, refuse_controls};
use crate::plan_error::PlanError;
use crate::shell::quote;

impl Handoff {
    /// The variables as `export NAME=VALUE`, a line each, as a shell reads them (`eval`).
    ///
    /// # Errors
    /// [`PlanError::Uncarried`] for a path that is more than one line.
    pub fn variable_lines(&self) -> Result<String, PlanError> {
        let line = |(name, value): (&String, &String)| {
            refuse_controls("env", &[Utf8Path::new(value)])?;
            Ok(format!("export {name}={}\n", if value.is_empty() { "".into() } else { quote(value) }))
        };
        self.environment.iter().map(line).collect()
    }
}
