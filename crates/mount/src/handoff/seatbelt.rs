//! A plan in the words of `sandbox-exec`.

use camino::Utf8PathBuf;

use super::{Handoff, HandoffMount};
use crate::plan_error::PlanError;
use crate::seatbelt::{Grant, Resolve, arguments, profile};

impl Handoff {
    /// Words for `sandbox-exec`, to be followed by the command: a whole profile, its parameters, and
    /// `env` with the variables, which `sandbox-exec` cannot set.
    ///
    /// The command reads the system's programs and the snapshot, writes `$SKILL_EXTENSIONS_DIR` alone, and
    /// has no network. Who wants more writes a profile, with the rules of [`seatbelt`](Self::seatbelt)
    /// last.
    ///
    /// # Errors
    /// [`PlanError`] where a path leads nowhere, or the plan is not made [`at_host`](Self::at_host): this
    /// sandbox mounts nothing.
    pub fn seatbelt_words(&self, resolve: Resolve<'_>) -> Result<Vec<String>, PlanError> {
        if !self.at_host {
            return Err(PlanError::Uncarried { form: "seatbelt", path: self.skills_dir.clone() });
        }
        let writes: Vec<Utf8PathBuf> = self
            .mounts
            .iter()
            .filter_map(|mount| match mount {
                HandoffMount::Bind { source, read_only: false, .. } => Some(source.clone()),
                _ => None,
            })
            .collect();
        let grant = Grant { writes: &writes, ..Grant::new(&self.path) };
        let mut words = arguments(&profile(&grant, resolve)?);
        words.push("/usr/bin/env".to_owned());
        words.extend(self.environment.iter().map(|(name, value)| format!("{name}={value}")));
        Ok(words)
    }
}
