//! What a scan saw of the file system, so that it can be told later whether that is still so.
//!
//! Only identities, sizes and times are compared; nothing is read, and nothing is trusted because of
//! it: whoever freezes a package hashes its bytes. Two states within one tick of the file system's clock
//! can look the same.

use cap_std::fs::Dir;
use skillfreeze_manifest::{EntryKind, SKILL_FILE, Stamp};

/// The state of an entry of a source, and of the file in it that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    reach: Reach,
    entry: State,
    inner: Option<(&'static str, State)>,
}

/// How far links are followed to look at what they lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Not out of the source: what is outside is not touched.
    Within,
    /// Wherever they lead, as the source allows.
    Anywhere,
}

/// The state of a path: of a link both its own and that of what it leads to, if that may be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    own: Option<Stamp>,
    target: Option<Stamp>,
}

impl State {
    fn at(root: &Dir, path: &str, reach: Reach) -> Self {
        let own = Stamp::at(root, path.as_bytes()).ok();
        let mut state = Self { own, target: None };
        if state.is_link() {
            state.target = reach.target(root, path);
        }
        state
    }

    fn is_link(&self) -> bool {
        self.own.is_some_and(|stamp| stamp.kind == EntryKind::Link)
    }
}

impl Reach {
    /// The state of what a link leads to.
    pub(crate) fn target(self, root: &Dir, path: &str) -> Option<Stamp> {
        match self {
            Self::Within => Stamp::beneath(root, path).ok(),
            Self::Anywhere => Stamp::through_links(root, path.as_bytes()).ok(),
        }
    }
}

impl Seen {
    /// Looks at an entry that may be a package: a directory, or a link to one that may be followed.
    pub(crate) fn package(root: &Dir, path: &str, reach: Reach) -> Self {
        Self::entry(root, path, reach).with(root, path, SKILL_FILE)
    }

    /// Looks at an entry that nothing is looked for in: a file, or a directory that was listed.
    pub(crate) fn entry(root: &Dir, path: &str, reach: Reach) -> Self {
        Self { reach, entry: State::at(root, path, reach), inner: None }
    }

    /// The same, with the state that a file in it has now.
    pub(crate) fn with(self, root: &Dir, path: &str, file: &'static str) -> Self {
        let state = State::at(root, &format!("{path}/{file}"), self.reach);
        Self { inner: Some((file, state)), ..self }
    }

    /// Whether the entry still is as it was.
    pub(crate) fn is_current(&self, root: &Dir, path: &str) -> bool {
        let now = Self::entry(root, path, self.reach);
        match self.inner {
            Some((file, _)) => now.with(root, path, file) == *self,
            None => now == *self,
        }
    }

    /// Whether something was looked for in the entry.
    pub(crate) fn may_be_package(&self) -> bool {
        self.inner.is_some()
    }

    /// Whether the entry is a link.
    pub(crate) fn is_link(&self) -> bool {
        self.entry.is_link()
    }

    /// Whether the file in it is a link.
    pub(crate) fn is_skill_link(&self) -> bool {
        self.inner.as_ref().is_some_and(|(_, state)| state.is_link())
    }

    /// Device and inode of the entry itself, or of what it leads to: two entries that have them in
    /// common are one directory.
    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        self.entry.target.or(self.entry.own).map(|stamp| (stamp.device, stamp.inode))
    }
}
