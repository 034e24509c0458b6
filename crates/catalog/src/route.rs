//! What a scan saw of the file system, so that it can be told later whether that is still so.
//!
//! Only identities, sizes and times are compared; nothing is read, and nothing is trusted because of
//! it: whoever freezes a package hashes its bytes.

use cap_std::fs::Dir;
use skillfreeze_manifest::{EntryKind, SKILL_FILE, Stamp};

/// The state of an entry of a source, and of the `SKILL.md` in it where that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    entry: State,
    skill: Option<State>,
}

/// The state of a path: of a link both its own and that of what it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    own: Option<Stamp>,
    target: Option<Stamp>,
}

impl State {
    fn at(root: &Dir, path: &str) -> Self {
        let own = Stamp::at(root, path.as_bytes()).ok();
        let mut state = Self { own, target: None };
        if state.is_link() {
            state.target = Stamp::through_links(root, path.as_bytes()).ok();
        }
        state
    }

    fn is_link(&self) -> bool {
        self.own.is_some_and(|stamp| stamp.kind == EntryKind::Link)
    }
}

impl Seen {
    /// Looks at an entry that may be a package: a directory or a link to one.
    pub(crate) fn package(root: &Dir, path: &str) -> Self {
        let skill = State::at(root, &format!("{path}/{SKILL_FILE}"));
        Self { entry: State::at(root, path), skill: Some(skill) }
    }

    /// Looks at an entry that nothing is looked for in: a file, or a directory that was listed.
    pub(crate) fn entry(root: &Dir, path: &str) -> Self {
        Self { entry: State::at(root, path), skill: None }
    }

    /// Whether the entry still is as it was.
    pub(crate) fn is_current(&self, root: &Dir, path: &str) -> bool {
        let now = if self.skill.is_some() { Self::package(root, path) } else { Self::entry(root, path) };
        now == *self
    }

    /// Whether it is an entry that may be a package.
    pub(crate) fn may_be_package(&self) -> bool {
        self.skill.is_some()
    }

    /// Whether the entry is a link.
    pub(crate) fn is_link(&self) -> bool {
        self.entry.is_link()
    }

    /// Whether the `SKILL.md` in it is a link.
    pub(crate) fn is_skill_link(&self) -> bool {
        self.skill.as_ref().is_some_and(State::is_link)
    }

    /// Device and inode of the entry itself, or of what it leads to: two entries that have them in
    /// common are one directory.
    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        self.entry.target.or(self.entry.own).map(|stamp| (stamp.device, stamp.inode))
    }
}
