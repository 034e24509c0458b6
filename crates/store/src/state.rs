//! The state of a store: what its journal's lines add up to.

use std::collections::{BTreeMap, BTreeSet};

use skillfreeze_manifest::{Digest, Hasher, SkillId};

use crate::activation;
use crate::journal::{Change, Line};
use crate::revision::{Revision, RevisionNumber};
use crate::scope::Scope;
use crate::switch::{Switch, Switches};

/// How far into the journal a state goes.
#[derive(Debug, Clone)]
pub(crate) struct Position {
    /// The number of the last line; 0 before the first.
    pub(crate) seq: u64,
    /// The byte after the last line's newline.
    pub(crate) offset: u64,
    /// The digest of the last line without its newline; of nothing before the first.
    pub(crate) last: Digest,
    /// Has taken in all bytes before `offset`.
    pub(crate) prefix: Hasher,
}

impl Default for Position {
    fn default() -> Self {
        Self { seq: 0, offset: 0, last: Digest::of(b""), prefix: Hasher::default() }
    }
}

/// Everything that the store knows, after the line at its position.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) position: Position,
    revisions: BTreeMap<SkillId, Vec<Revision>>,
    by_digest: BTreeMap<Digest, SkillId>,
    switches: Switches,
    /// The line that last changed an id, and the positions that were passed since this process
    /// began: what is needed to bring an index up to date that is at one of them.
    changed: BTreeMap<SkillId, u64>,
    passed: BTreeMap<u64, Digest>,
}

impl State {
    /// Takes up a state that was saved.
    pub(crate) fn restore(position: Position, saved: Vec<Revision>, switches: Vec<Switch>) -> Self {
        let mut state = Self::default();
        state.passed.insert(position.seq, position.last);
        state.position = position;
        for revision in saved {
            state.by_digest.insert(revision.digest, revision.id.clone());
            state.revisions.entry(revision.id.clone()).or_default().push(revision);
        }
        switches.into_iter().for_each(|switch| state.switches.insert(switch));
        state
    }

    /// Takes in one line, whose place in the chain has been checked; `false` when it contradicts
    /// the lines before it, and then nothing is changed.
    pub(crate) fn apply(&mut self, line: &Line, bytes: &[u8]) -> bool {
        let applied = match &line.change {
            Change::Added(added) => {
                let revision = added.to_revision(line);
                let applied = added.scope == Scope::User && self.insert(revision);
                applied.then(|| BTreeSet::from([added.id.clone()]))
            }
            Change::Activated(change) => self
                .revisions
                .get_mut(&change.id)
                .is_some_and(|revisions| activation::apply(revisions, change))
                .then(|| BTreeSet::from([change.id.clone()])),
            Change::Archived(change) => self.by_digest.get(&change.digest).cloned().map(|id| {
                for revision in self.revisions.get_mut(&id).into_iter().flatten() {
                    if revision.digest == change.digest {
                        revision.archive = change.archive;
                    }
                }
                BTreeSet::from([id])
            }),
            Change::Enabled(switching) | Change::Disabled(switching) => {
                let on = matches!(line.change, Change::Enabled(_));
                self.switches.insert(switching.to_switch(line, on));
                Some(BTreeSet::from([switching.id.clone()]))
            }
        };
        let Some(ids) = applied else { return false };
        let position = &mut self.position;
        position.seq = line.seq;
        position.offset += bytes.len() as u64 + 1;
        position.last = Digest::of(bytes);
        position.prefix.update(bytes);
        position.prefix.update(b"\n");
        self.passed.insert(position.seq, position.last);
        self.changed.extend(ids.into_iter().map(|id| (id, line.seq)));
        true
    }

    fn insert(&mut self, revision: Revision) -> bool {
        if self.next_number(&revision.id) != Some(revision.number)
            || self.by_digest.contains_key(&revision.digest)
        {
            return false;
        }
        self.by_digest.insert(revision.digest, revision.id.clone());
        self.revisions.entry(revision.id.clone()).or_default().push(revision);
        true
    }

    /// The number that the next revision of `id` gets; none when they are used up.
    pub(crate) fn next_number(&self, id: &SkillId) -> Option<RevisionNumber> {
        self.of(id).last().map_or(Some(RevisionNumber::FIRST), |last| last.number.next())
    }

    /// All revisions, by id and number.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Revision> {
        self.revisions.values().flatten()
    }

    /// The revisions of one id, by number.
    pub(crate) fn of(&self, id: &SkillId) -> &[Revision] {
        self.revisions.get(id).map_or(&[], Vec::as_slice)
    }

    /// The revision with this package digest.
    pub(crate) fn by_digest(&self, digest: &Digest) -> Option<&Revision> {
        let id = self.by_digest.get(digest)?;
        self.of(id).iter().find(|revision| revision.digest == *digest)
    }

    /// The revisions whose package digest begins with these hex digits, by digest.
    pub(crate) fn find(&self, prefix: &str) -> Vec<Revision> {
        let Ok(from) = Digest::from_hex(&format!("{prefix:0<64}")) else { return Vec::new() };
        self.by_digest
            .range(from..)
            .take_while(|(digest, _)| digest.hex().starts_with(prefix))
            .filter_map(|(digest, _)| self.by_digest(digest).cloned())
            .collect()
    }

    /// What the user said of skills.
    pub(crate) fn switches(&self) -> &Switches {
        &self.switches
    }

    /// The ids that changed since the line `seq` with the digest `last`; none when that line was
    /// never passed, and everything may have changed.
    pub(crate) fn changed_since(&self, seq: u64, last: Digest) -> Option<Vec<&SkillId>> {
        (self.passed.get(&seq) == Some(&last))
            .then(|| self.changed.iter().filter(|(_, changed)| **changed > seq).map(|(id, _)| id).collect())
    }
}
