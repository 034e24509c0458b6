//! Places from which the next run would take skills: a sandbox that can write them can plant one.

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use skillfreeze_manifest::EntryKind;

use crate::bind::{Bind, BindError};
use crate::mount::Mount;
use crate::plan_error::PlanError;

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
    /// The binds, each followed by what protects and what covers something in it.
    pub(crate) mounts: Vec<Mount>,
    /// Live sources that the sandbox can read.
    pub(crate) visible: Vec<Utf8PathBuf>,
    /// Source roots over which the snapshot must be mounted before they are bound.
    pub(crate) covered: Vec<Guarded>,
}

impl Protection {
    /// Whether the snapshot takes the place of any source root.
    pub(crate) fn covers(&self) -> bool {
        self.mounts.iter().any(|mount| matches!(mount, Mount::InPlace { .. }))
    }

    /// The binds alone.
    pub(crate) fn into_binds(self) -> Vec<Bind> {
        let bind = |mount| if let Mount::Bind(bind) = mount { Some(bind) } else { None };
        self.mounts.into_iter().filter_map(bind).collect()
    }

    /// Adds the live sources in a directory that the sandbox can read as well.
    pub(crate) fn show(&mut self, directory: &Utf8Path, guards: &[Guard]) {
        let found = guards.iter().filter_map(|guard| guard.found.as_ref());
        let shown = found.filter(|found| found.canonical.starts_with(directory));
        self.visible.extend(shown.map(|found| found.canonical.clone()));
        self.visible.sort();
        self.visible.dedup();
    }
}

/// The source roots in a bind, or the one that it is; of several in each other the outermost.
fn roots_in<'a>(bind: &Bind, guards: &'a [Guard]) -> Vec<&'a Guarded> {
    let found = guards.iter().filter_map(|guard| guard.found.as_ref());
    let is_root =
        |found: &&Guarded| found.kind == EntryKind::Directory && found.canonical.starts_with(&bind.source);
    let mut roots: Vec<&Guarded> = found.filter(is_root).collect();
    // What is above comes before what is below.
    roots.sort_by(|a, b| a.canonical.cmp(&b.canonical));
    roots.dedup_by(|below, above| below.canonical.starts_with(&above.canonical));
    roots
}

/// Re-binds read-only every guarded path that a writable bind would expose, and binds each
/// directory between the two onto itself, so that none of them can be renamed away to make room
/// for another. With `in_place` the snapshot takes the place of every source root.
pub(crate) fn protect(binds: Vec<Bind>, guards: &[Guard], in_place: bool) -> Result<Protection, PlanError> {
    let mut protection = Protection::default();
    for bind in binds {
        let roots = if in_place { roots_in(&bind, guards) } else { Vec::new() };
        protection.add(bind, guards, &roots)?;
    }
    protection.visible.sort();
    protection.visible.dedup();
    protection.covered.sort_by(|a, b| a.canonical.cmp(&b.canonical));
    protection.covered.dedup_by(|later, earlier| later.canonical == earlier.canonical);
    protection.check()?;
    Ok(protection)
}

impl Protection {
    /// Adds a bind, in which these are the roots whose place the snapshot takes.
    fn add(&mut self, mut bind: Bind, guards: &[Guard], roots: &[&Guarded]) -> Result<(), BindError> {
        let mut inner: Vec<Bind> = Vec::new();
        for found in guards.iter().filter_map(|guard| guard.found.as_ref()) {
            if bind.source.starts_with(&found.canonical) && bind.source != found.canonical && bind.writable {
                let (path, root) = (bind.source, found.canonical.clone());
                return Err(BindError::InSource { path, root });
            }
            let Ok(below) = found.canonical.strip_prefix(&bind.source) else { continue };
            let root = roots.iter().find(|root| found.canonical.starts_with(&root.canonical));
            if root.is_none() {
                self.visible.push(found.canonical.clone());
            }
            if below == "" {
                bind.writable = false;
            } else if bind.writable && root.is_none_or(|root| root.canonical == found.canonical) {
                let mut covers = covers(&bind, below, found.kind == EntryKind::Directory);
                if root.is_some() {
                    // The snapshot in its place comes with the bind, and is read-only anyway.
                    covers.pop();
                }
                inner.extend(covers);
            }
        }
        let places: Vec<Mount> = roots.iter().map(|root| in_place_of(&bind, root)).collect();
        let is_replaced = roots.iter().any(|root| root.canonical == bind.source);
        let is_writable = bind.writable;
        if !is_replaced {
            self.covered.extend(roots.iter().map(|root| (*root).clone()));
            self.mounts.push(Mount::Bind(bind));
        }
        if is_writable {
            self.mounts.extend(outermost(inner).into_iter().map(Mount::Bind));
        }
        self.mounts.extend(places);
        Ok(())
    }

    /// What is bound is looked for by its path, which must not lead into the snapshot.
    fn check(&self) -> Result<(), PlanError> {
        for mount in &self.mounts {
            if let Mount::Bind(bind) = mount
                && let Some(root) = self.covered.iter().find(|root| bind.source.starts_with(&root.canonical))
            {
                let (path, root) = (bind.source.clone(), root.canonical.clone());
                return Err(PlanError::InPlaceBind { path, root });
            }
        }
        Ok(())
    }
}

/// The mount that takes the place of a root in a bind.
fn in_place_of(bind: &Bind, root: &Guarded) -> Mount {
    let below = root.canonical.strip_prefix(&bind.source).unwrap_or(Utf8Path::new(""));
    let within = below != "";
    let target = if within { bind.target.join(below) } else { bind.target.clone() };
    Mount::InPlace { target, root: root.canonical.clone(), within }
}

/// The covers of one bind in the order in which they are mounted, each once.
fn outermost(mut covers: Vec<Bind>) -> Vec<Bind> {
    // What is read-only wins where one guard lies on the way to another.
    covers.sort_by(|a, b| {
        let key = |bind: &Bind| {
            (bind.target.as_str().split('/').map(str::to_owned).collect::<Vec<_>>(), bind.writable)
        };
        key(a).cmp(&key(b))
    });
    covers.dedup_by(|later, earlier| later.target == earlier.target);
    let mut kept: Vec<Bind> = Vec::new();
    for cover in covers {
        // Below something that is read-only as a whole nothing more is needed.
        if !kept.iter().any(|above| !above.writable && cover.target.starts_with(&above.target)) {
            kept.push(cover);
        }
    }
    kept
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
        let line = |mount: &Mount| match mount {
            Mount::Bind(bind) => format!("{} {}", if bind.writable { "rw" } else { "ro" }, bind.target),
            Mount::InPlace { target, root, within } => format!("in place {target} {root} {within}"),
            other => panic!("{other:?}"),
        };
        protection.mounts.iter().map(line).collect()
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
        let protection = protect(vec![bind("/ws", true)], &guards, false).unwrap();
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
        assert!(matches!(&protection.mounts[5], Mount::Bind(bind) if !bind.is_directory));
    }

    #[test]
    fn nested_guards_and_whole_binds() {
        let guards = [guard("/ws/a/b", EntryKind::Directory), guard("/ws/a", EntryKind::Directory)];
        assert_eq!(shown(&protect(vec![bind("/ws", true)], &guards, false).unwrap()), ["rw /ws", "ro /ws/a"]);
        assert_eq!(shown(&protect(vec![bind("/ws/a", true)], &guards, false).unwrap()), ["ro /ws/a"]);
        assert_eq!(shown(&protect(vec![bind("/ws", false)], &guards, false).unwrap()), ["ro /ws"]);
        let error = protect(vec![bind("/ws/a/c", true)], &guards, false).unwrap_err();
        assert_eq!(error.code(), "bind-in-source");
        assert!(protect(vec![bind("/ws/a/c", false)], &guards, false).is_ok());
        assert_eq!(shown(&protect(vec![bind("/ws/ab", true)], &guards, false).unwrap()), ["rw /ws/ab"]);
    }

    #[test]
    fn the_snapshot_takes_the_place_of_roots() {
        let guards = [
            guard("/ws/.agents/skills", EntryKind::Directory),
            guard("/ws/.claude/skills", EntryKind::Directory),
            guard("/ws/.claude/skills/deep", EntryKind::Directory),
            guard("/ws/.claude/skills/file", EntryKind::File),
            guard("/ws/skillfreeze.toml", EntryKind::File),
            guard("/elsewhere", EntryKind::Directory),
        ];
        let writable = protect(vec![bind("/ws", true)], &guards, true).unwrap();
        let places = [
            "in place /ws/.agents/skills /ws/.agents/skills true",
            "in place /ws/.claude/skills /ws/.claude/skills true",
        ];
        let expected = ["rw /ws", "rw /ws/.agents", "rw /ws/.claude", "ro /ws/skillfreeze.toml"];
        assert_eq!(shown(&writable), [&expected[..], &places].concat());
        assert_eq!(writable.visible, ["/ws/skillfreeze.toml"]);
        let covered: Vec<_> = writable.covered.iter().map(|root| root.canonical.as_str()).collect();
        assert_eq!(covered, ["/ws/.agents/skills", "/ws/.claude/skills"]);
        assert_eq!(shown(&protect(vec![bind("/ws", false)], &guards, true).unwrap())[1..], places);

        let itself = protect(vec![bind("/ws/.claude/skills", true)], &guards, true).unwrap();
        assert_eq!(shown(&itself), ["in place /ws/.claude/skills /ws/.claude/skills false"]);
        assert!(itself.covered.is_empty() && itself.visible.is_empty() && itself.covers());
        assert!(!protect(vec![bind("/ws/src", true)], &guards, true).unwrap().covers());

        // The path of what is bound leads into the snapshot, once that is there.
        let inside = vec![bind("/ws", true), bind("/ws/.claude/skills/deep", false)];
        let error = protect(inside, &guards[..2], true).unwrap_err();
        assert_eq!(error.code(), "in-place-bind");
    }
}
