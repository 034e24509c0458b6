//! Places from which the next run would take skills: a sandbox that can write them can plant one.

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use skillfreeze_manifest::EntryKind;

use crate::bind::{Bind, BindError};

/// A source root or a configuration file of the host, as it was before the launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// Where it is looked for: absolute.
    pub path: Utf8PathBuf,
    /// What was there.
    pub found: Option<Guarded>,
    /// Every directory and link that the path leads through, and where it ends: who can write one of
    /// them can lead it elsewhere.
    pub route: Vec<Utf8PathBuf>,
}

/// What a guarded path led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarded {
    /// Where it really is.
    pub canonical: Utf8PathBuf,
    /// Its device and inode, by which another thing put in its place is noticed.
    pub identity: (u64, u64),
    /// What it is.
    pub kind: EntryKind,
}

impl Guard {
    /// Whether a command that can write this bind could put something else in the guarded place.
    pub(crate) fn is_exposed_by(&self, bind: &Bind) -> bool {
        bind.writable && self.route.iter().any(|path| path.starts_with(&bind.source))
    }
}

/// What the guards make of a set of binds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Protection {
    /// The binds, each followed by those that protect what lies in it.
    pub(crate) binds: Vec<Bind>,
    /// Live sources that the sandbox can read.
    pub(crate) visible: Vec<Utf8PathBuf>,
}

/// Re-binds read-only every guarded path that a writable bind would expose, and binds each
/// directory between the two onto itself, so that none of them can be renamed away to make room
/// for another.
pub(crate) fn protect(binds: Vec<Bind>, guards: &[Guard]) -> Result<Protection, BindError> {
    let mut protection = Protection::default();
    for bind in binds {
        let mut inner: Vec<Bind> = Vec::new();
        let mut bind = bind;
        for found in guards.iter().filter_map(|guard| guard.found.as_ref()) {
            if bind.source.starts_with(&found.canonical) && bind.source != found.canonical && bind.writable {
                let (path, root) = (bind.source, found.canonical.clone());
                return Err(BindError::InSource { path, root });
            }
            let Ok(below) = found.canonical.strip_prefix(&bind.source) else { continue };
            protection.visible.push(found.canonical.clone());
            if below == "" {
                bind.writable = false;
            } else if bind.writable {
                inner.extend(covers(&bind, below, found.kind == EntryKind::Directory));
            }
        }
        // What is read-only wins where one guard lies on the way to another.
        inner.sort_by(|a, b| {
            let key = |bind: &Bind| {
                (bind.target.as_str().split('/').map(str::to_owned).collect::<Vec<_>>(), bind.writable)
            };
            key(a).cmp(&key(b))
        });
        inner.dedup_by(|later, earlier| later.target == earlier.target);
        let mut kept: Vec<Bind> = Vec::new();
        for cover in inner {
            // Below something that is read-only as a whole nothing more is needed.
            if !kept.iter().any(|above| !above.writable && cover.target.starts_with(&above.target)) {
                kept.push(cover);
            }
        }
        let read_only = !bind.writable;
        protection.binds.push(bind);
        if !read_only {
            protection.binds.extend(kept);
        }
    }
    protection.visible.sort();
    protection.visible.dedup();
    Ok(protection)
}

fn covers(bind: &Bind, below: &Utf8Path, is_directory: bool) -> Vec<Bind> {
    let mut covers = Vec::new();
    let (mut source, mut target) = (bind.source.clone(), bind.target.clone());
    let mut components = below.components().peekable();
    while let Some(component) = components.next() {
        source.push(component);
        target.push(component);
        let is_last = components.peek().is_none();
        covers.push(Bind {
            source: source.clone(),
            target: target.clone(),
            writable: !is_last,
            is_directory: !is_last || is_directory,
            owner: bind.owner,
        });
    }
    covers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(path: &str, writable: bool) -> Bind {
        Bind::new(path.into(), None, writable, EntryKind::Directory, (1000, 1000)).unwrap()
    }

    fn guard(path: &str, kind: EntryKind) -> Guard {
        let found = Guarded { canonical: path.into(), identity: (1, 1), kind };
        Guard { path: path.into(), found: Some(found), route: vec![path.into()] }
    }

    fn shown(protection: &Protection) -> Vec<String> {
        let mode = |bind: &Bind| if bind.writable { "rw" } else { "ro" };
        protection.binds.iter().map(|bind| format!("{} {}", mode(bind), bind.target)).collect()
    }

    #[test]
    fn covers_the_root_and_all_on_the_way_to_it() {
        let guards = [
            guard("/ws/.agents/skills", EntryKind::Directory),
            guard("/ws/.claude/skills", EntryKind::Directory),
            guard("/ws/skillfreeze.toml", EntryKind::File),
            guard("/elsewhere", EntryKind::Directory),
            Guard { path: "/ws/skillfreeze.lock".into(), found: None, route: Vec::new() },
        ];
        let protection = protect(vec![bind("/ws", true)], &guards).unwrap();
        assert_eq!(
            shown(&protection),
            [
                "rw /ws",
                "rw /ws/.agents",
                "ro /ws/.agents/skills",
                "rw /ws/.claude",
                "ro /ws/.claude/skills",
                "ro /ws/skillfreeze.toml"
            ]
        );
        assert_eq!(protection.visible, ["/ws/.agents/skills", "/ws/.claude/skills", "/ws/skillfreeze.toml"]);
        assert!(!protection.binds[5].is_directory);
    }

    #[test]
    fn nested_guards_and_whole_binds() {
        let guards = [guard("/ws/a/b", EntryKind::Directory), guard("/ws/a", EntryKind::Directory)];
        assert_eq!(shown(&protect(vec![bind("/ws", true)], &guards).unwrap()), ["rw /ws", "ro /ws/a"]);
        assert_eq!(shown(&protect(vec![bind("/ws/a", true)], &guards).unwrap()), ["ro /ws/a"]);
        assert_eq!(shown(&protect(vec![bind("/ws", false)], &guards).unwrap()), ["ro /ws"]);
        let error = protect(vec![bind("/ws/a/c", true)], &guards).unwrap_err();
        assert_eq!(error.code(), "bind-in-source");
        assert!(protect(vec![bind("/ws/a/c", false)], &guards).is_ok());
        assert_eq!(shown(&protect(vec![bind("/ws/ab", true)], &guards).unwrap()), ["rw /ws/ab"]);
    }
}
