//! Switches: which skills the user wants, for everything or in one project.
//!
//! A switch is of an id, which need not be in the store: skills that only a source has can be switched
//! too. Nothing said means on; what is said of a project beats what is said for the user. The journal
//! has a line for each change, `enabled` or `disabled`, with the data `{"id":…,"scope":…}`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skillfreeze_manifest::SkillId;

use crate::error::StoreError;
use crate::journal::{AppendError, Batch, Change, Writer};
use crate::scope::{ProjectRoot, Scope};
use crate::store::{Store, sync};

/// What was last said of an id in a scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Switch {
    /// The skill.
    pub id: SkillId,
    /// For whom it holds.
    pub scope: Scope,
    /// Whether the skill is enabled.
    pub on: bool,
    /// Since when: RFC 3339, UTC.
    pub at: String,
    /// Who said so.
    pub actor: String,
}

/// The data of an `enabled` or a `disabled` line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Switching {
    pub(crate) id: SkillId,
    pub(crate) scope: Scope,
}

/// What became of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Switched {
    /// The skill.
    pub id: SkillId,
    /// Whether it was said anew; `false` where the same had been said of the same scope.
    pub changed: bool,
}

/// All that was said, the last word for each id and scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switches(BTreeMap<SkillId, BTreeMap<Scope, Switch>>);

impl Switches {
    /// Whether the user said that a skill is on (`true`) or off; none where nothing was said.
    ///
    /// What holds for `project` comes first, then what holds everywhere.
    #[must_use]
    pub fn state(&self, id: &SkillId, project: Option<&ProjectRoot>) -> Option<bool> {
        let scopes = self.0.get(id)?;
        let own = project.and_then(|root| scopes.get(&Scope::Project(root.clone())));
        own.or_else(|| scopes.get(&Scope::User)).map(|switch| switch.on)
    }

    /// All switches, by id, the user's before those of projects.
    pub fn iter(&self) -> impl Iterator<Item = &Switch> {
        self.0.values().flat_map(BTreeMap::values)
    }

    /// The switches of one id.
    pub(crate) fn of(&self, id: &SkillId) -> impl Iterator<Item = &Switch> {
        self.0.get(id).into_iter().flat_map(BTreeMap::values)
    }

    /// What was said of this very scope.
    fn said(&self, id: &SkillId, scope: &Scope) -> Option<bool> {
        self.0.get(id)?.get(scope).map(|switch| switch.on)
    }

    /// Takes a switch in, in the place of what was said before.
    pub(crate) fn insert(&mut self, switch: Switch) {
        self.0.entry(switch.id.clone()).or_default().insert(switch.scope.clone(), switch);
    }
}

impl Store {
    /// Says that these skills are on or off, for the user or in a project.
    ///
    /// What was said already is not written again. A crash leaves some first few of them switched,
    /// and those that were acknowledged all.
    ///
    /// # Errors
    /// [`StoreError`] when the store is read-only, the journal corrupt, or the system refuses.
    pub fn switch(&self, ids: &[SkillId], scope: &Scope, on: bool) -> Result<Vec<Switched>, StoreError> {
        let access = self.access("switch a skill")?;
        let mut state = self.lock_state();
        let mut writer = Writer::open(&self.root, &mut state)?;
        let mut batch = Batch::new(state.clone(), &access.author.actor, (access.author.clock)());
        let mut switched = Vec::with_capacity(ids.len());
        for id in ids {
            let changed = batch.state.switches().said(id, scope) != Some(on);
            if changed {
                let data = Switching { id: id.clone(), scope: scope.clone() };
                batch.push(if on { Change::Enabled(data) } else { Change::Disabled(data) });
            }
            switched.push(Switched { id: id.clone(), changed });
        }
        if !batch.is_empty() {
            if state.position.seq == 0 {
                sync(&self.root, ".")?;
            }
            writer.append(&batch).map_err(|AppendError { fault, .. }| fault)?;
            *state = batch.state;
            self.index.save(&self.root, &state, &[]);
        }
        Ok(switched)
    }

    /// What the user said of skills.
    ///
    /// # Errors
    /// [`StoreError`] when the journal is corrupt or unreadable.
    pub fn switches(&self) -> Result<Switches, StoreError> {
        Ok(self.refreshed()?.switches().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_comes_before_the_user() {
        let [here, there] =
            ["/here", "/there"].map(|path| ProjectRoot::try_from(camino::Utf8PathBuf::from(path)).unwrap());
        let id: SkillId = "demo".parse().unwrap();
        let switch =
            |scope, on| Switch { id: id.clone(), scope, on, at: String::new(), actor: String::new() };
        let (user, project) = (Scope::User, Scope::Project(here.clone()));
        for (switches, everywhere, in_here, in_there) in [
            (vec![], None, None, None),
            (vec![(&user, true)], Some(true), Some(true), Some(true)),
            (vec![(&user, false)], Some(false), Some(false), Some(false)),
            (vec![(&project, false)], None, Some(false), None),
            (vec![(&project, true), (&user, false)], Some(false), Some(true), Some(false)),
            (vec![(&user, true), (&project, false)], Some(true), Some(false), Some(true)),
            (vec![(&user, false), (&user, true)], Some(true), Some(true), Some(true)),
        ] {
            let mut all = Switches::default();
            switches.iter().for_each(|(scope, on)| all.insert(switch((*scope).clone(), *on)));
            let state = |project| all.state(&id, project);
            assert_eq!(
                (state(None), state(Some(&here)), state(Some(&there))),
                (everywhere, in_here, in_there),
                "{switches:?}"
            );
            assert_eq!(all.state(&"other".parse().unwrap(), Some(&here)), None);
        }
    }
}
