//! What of the host a sandbox may see beside its own root: resolved once, checked before anything starts.

use std::io;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use skillfreeze_manifest::{EntryKind, describe_kind};

/// A file or directory of the host and where the sandbox sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Where it is on the host: absolute and canonical.
    pub source: Utf8PathBuf,
    /// Where the sandbox sees it: absolute, without `.` and `..`.
    pub target: Utf8PathBuf,
    /// Whether the sandbox may write it.
    pub writable: bool,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// The numeric ids of its owner and group.
    pub owner: (u32, u32),
}

/// Why something is not bound into the sandbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The source cannot be resolved.
    #[error("cannot bind `{path}`")]
    Source {
        /// As given.
        path: Utf8PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The source's canonical path is not UTF-8.
    #[error("cannot bind `{path}`: its canonical path is not UTF-8")]
    NotUtf8 {
        /// As given.
        path: Utf8PathBuf,
    },
    /// The source is neither a file nor a directory. A read-only bind of a socket does not keep the
    /// sandbox from connecting to it.
    #[error("cannot bind `{path}`: it is a {kind}")]
    Special {
        /// The source.
        path: Utf8PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// The source is, holds or lies in the store.
    #[error("cannot bind `{path}`: it is, holds or lies in the store `{store}`")]
    Store {
        /// The source.
        path: Utf8PathBuf,
        /// The store's root.
        store: Utf8PathBuf,
    },
    /// The source is, holds or lies in the snapshot, and the sandbox could write it.
    #[error("cannot bind `{path}` writable: it is, holds or lies in the snapshot `{snapshot}`")]
    Snapshot {
        /// The source.
        path: Utf8PathBuf,
        /// The snapshot directory.
        snapshot: Utf8PathBuf,
    },
    /// The source lies in a source root, or is one or holds one that could not be protected: what is
    /// written there would be a skill of the next run.
    #[error("cannot bind `{path}` writable: skills are taken from `{root}`")]
    InSource {
        /// The source.
        path: Utf8PathBuf,
        /// The source root.
        root: Utf8PathBuf,
    },
    /// The target is not absolute, or has `.` or `..` in it.
    #[error("`{target}` is no place for a mount: an absolute path without `..` is needed")]
    TargetForm {
        /// The target.
        target: Utf8PathBuf,
    },
    /// The target is, holds or lies in a place that the sandbox needs itself.
    #[error("nothing can be mounted at `{target}`: the sandbox needs `{reserved}` itself")]
    TargetReserved {
        /// The target.
        target: Utf8PathBuf,
        /// What it clashes with.
        reserved: Utf8PathBuf,
    },
    /// Two binds have one target.
    #[error("`{target}` is the target of two mounts")]
    TargetTwice {
        /// The target.
        target: Utf8PathBuf,
    },
    /// The target lies in something else of the host that the sandbox sees and does not exist there;
    /// making it would write to the host.
    #[error("`{target}` does not exist in `{within}`, and nothing is created there")]
    TargetMissing {
        /// The target.
        target: Utf8PathBuf,
        /// What it lies in, on the host.
        within: Utf8PathBuf,
        /// Where it would be on the host.
        place: Utf8PathBuf,
    },
    /// The target lies in another bind and is a link there, or lies behind one, or has another type.
    #[error("`{target}` is not a {expected} but a {actual} on the host")]
    TargetType {
        /// The target, or what is above it.
        target: Utf8PathBuf,
        /// `directory` or `file`.
        expected: &'static str,
        /// What is there.
        actual: &'static str,
    },
}

impl BindError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Source { source, .. } if source.kind() == io::ErrorKind::NotFound => "bind-not-found",
            Self::Source { .. } => "bind-unreadable",
            Self::NotUtf8 { .. } => "path-not-utf8",
            Self::Special { .. } => "bind-special-file",
            Self::Store { .. } => "bind-store",
            Self::Snapshot { .. } => "bind-snapshot",
            Self::InSource { .. } => "bind-in-source",
            Self::TargetForm { .. } => "mount-target-invalid",
            Self::TargetReserved { .. } => "mount-target-reserved",
            Self::TargetTwice { .. } => "mount-target-twice",
            Self::TargetMissing { .. } => "mount-target-missing",
            Self::TargetType { .. } => "mount-target-type",
        }
    }
}

impl Bind {
    /// Checks what was found at a canonical path and describes the bind of it.
    ///
    /// Without a `target` the sandbox sees it at the same path.
    ///
    /// # Errors
    /// [`BindError::Special`] and [`BindError::TargetForm`].
    pub(crate) fn new(
        source: Utf8PathBuf,
        target: Option<Utf8PathBuf>,
        writable: bool,
        kind: EntryKind,
        owner: (u32, u32),
    ) -> Result<Self, BindError> {
        if !matches!(kind, EntryKind::File | EntryKind::Directory) {
            return Err(BindError::Special { path: source, kind: describe_kind(kind) });
        }
        let target = normal_target(target.unwrap_or_else(|| source.clone()))?;
        Ok(Self { source, target, writable, is_directory: kind == EntryKind::Directory, owner })
    }
}

/// Takes a target that is absolute and goes only down; drops doubled and trailing slashes.
pub fn normal_target(target: Utf8PathBuf) -> Result<Utf8PathBuf, BindError> {
    let goes_down = target
        .components()
        .all(|component| matches!(component, Utf8Component::RootDir | Utf8Component::Normal(_)));
    // `components` skips `.`, which is as good as any other spelling of a path that a user mistyped.
    let is_plain = !target.as_str().split('/').any(|part| part == ".");
    if !target.is_absolute() || !goes_down || !is_plain {
        return Err(BindError::TargetForm { target });
    }
    Ok(target.components().collect())
}

/// Whether one path is the other or lies below it, component by component.
pub(crate) fn overlaps(a: &Utf8Path, b: &Utf8Path) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

/// Everything that the checks of all binds together need to know.
pub(crate) struct Policy<'a> {
    /// The store's root, if there is one.
    pub(crate) store: Option<&'a Utf8Path>,
    /// The snapshot directory.
    pub(crate) snapshot: &'a Utf8Path,
    /// Places that a bind may neither be, hold nor lie in.
    pub(crate) closed: Vec<Utf8PathBuf>,
    /// Places that a bind may not be or hold, but may lie in.
    pub(crate) kept: Vec<Utf8PathBuf>,
    /// What the sandbox's own root shows read-only: where it is on the host, and where the sandbox sees it.
    pub(crate) shown: Vec<(Utf8PathBuf, Utf8PathBuf)>,
    /// What is at a path of the host, without following a link.
    pub(crate) kind_at: &'a dyn Fn(&Utf8Path) -> Option<EntryKind>,
}

impl Policy<'_> {
    /// Checks binds one by one and against each other, and puts what is above before what is below.
    pub(crate) fn check(&self, mut binds: Vec<Bind>) -> Result<Vec<Bind>, BindError> {
        binds.sort_by(|a, b| a.target.as_str().split('/').cmp(b.target.as_str().split('/')));
        for (index, bind) in binds.iter().enumerate() {
            self.check_source(bind)?;
            self.check_target(&bind.target)?;
            if binds[..index].last().is_some_and(|before| before.target == bind.target) {
                return Err(BindError::TargetTwice { target: bind.target.clone() });
            }
            let within = binds[..index].iter().rev().find(|above| bind.target.starts_with(&above.target));
            if let Some(above) = within {
                self.check_exists(bind, &above.source, &above.target)?;
            } else if let Some((source, target)) =
                self.shown.iter().find(|(_, shown)| bind.target.starts_with(shown))
            {
                self.check_exists(bind, source, target)?;
            }
        }
        Ok(binds)
    }

    fn check_source(&self, bind: &Bind) -> Result<(), BindError> {
        let path = || bind.source.clone();
        if let Some(store) = self.store.filter(|store| overlaps(&bind.source, store)) {
            return Err(BindError::Store { path: path(), store: store.to_owned() });
        }
        if bind.writable && overlaps(&bind.source, self.snapshot) {
            return Err(BindError::Snapshot { path: path(), snapshot: self.snapshot.to_owned() });
        }
        Ok(())
    }

    fn check_target(&self, target: &Utf8Path) -> Result<(), BindError> {
        let closed = self.closed.iter().find(|closed| overlaps(target, closed));
        let kept = self.kept.iter().find(|kept| kept.starts_with(target));
        match closed.or(kept) {
            Some(reserved) => {
                Err(BindError::TargetReserved { target: target.to_owned(), reserved: reserved.clone() })
            }
            None => Ok(()),
        }
    }

    /// A mount point inside a directory of the host must be there already: bubblewrap would create
    /// it, through a link if there is one.
    fn check_exists(&self, bind: &Bind, source: &Utf8Path, target: &Utf8Path) -> Result<(), BindError> {
        let below = bind.target.strip_prefix(target).unwrap_or(Utf8Path::new(""));
        let mut at = source.to_owned();
        let mut components = below.components().peekable();
        // What takes the place of the whole must be of its type, too.
        let wants_directory = components.peek().is_some() || bind.is_directory;
        let (expected, other) =
            if wants_directory { ("directory", EntryKind::File) } else { ("file", EntryKind::Directory) };
        if (self.kind_at)(source) == Some(other) {
            let actual = describe_kind(other);
            return Err(BindError::TargetType { target: target.to_owned(), expected, actual });
        }
        while let Some(component) = components.next() {
            at.push(component);
            let wants_directory = components.peek().is_some() || bind.is_directory;
            match (self.kind_at)(&at) {
                None => {
                    return Err(BindError::TargetMissing {
                        target: bind.target.clone(),
                        within: source.to_owned(),
                        place: source.join(below),
                    });
                }
                Some(EntryKind::Directory) if wants_directory => {}
                Some(EntryKind::File) if !wants_directory => {}
                Some(kind) => {
                    let expected = if wants_directory { "directory" } else { "file" };
                    return Err(BindError::TargetType { target: at, expected, actual: describe_kind(kind) });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(source: &str, target: &str, writable: bool) -> Bind {
        let target = Some(Utf8PathBuf::from(target));
        Bind::new(source.into(), target, writable, EntryKind::Directory, (1000, 1000)).unwrap()
    }

    fn check(binds: &[(&str, &str, bool)]) -> Result<Vec<String>, &'static str> {
        let kind_at = |path: &Utf8Path| match path.as_str() {
            "/home/u/ws/dir" | "/usr/share" => Some(EntryKind::Directory),
            "/home/u/ws/link" => Some(EntryKind::Link),
            "/home/u/ws/file" => Some(EntryKind::File),
            _ => None,
        };
        let policy = Policy {
            store: Some(Utf8Path::new("/home/u/.local/state/skillfreeze")),
            snapshot: Utf8Path::new("/snap"),
            closed: vec!["/skills".into(), "/proc".into()],
            kept: vec!["/tmp/home".into(), "/usr".into(), "/etc".into()],
            shown: vec![("/usr".into(), "/usr".into())],
            kind_at: &kind_at,
        };
        let binds = binds.iter().map(|(source, target, writable)| bind(source, target, *writable)).collect();
        let checked = policy.check(binds).map_err(|error| error.code())?;
        Ok(checked.into_iter().map(|bind| bind.target.into_string()).collect())
    }

    #[test]
    fn orders_what_is_above_before_what_is_below() {
        let targets = check(&[("/c", "/w/dir/x", false), ("/b", "/w-x", false)]).unwrap();
        assert_eq!(targets, ["/w/dir/x", "/w-x"]);
        let targets = check(&[("/b", "/home/u/ws/dir", false), ("/home/u/ws", "/home/u/ws", true)]).unwrap();
        assert_eq!(targets, ["/home/u/ws", "/home/u/ws/dir"]);
    }

    #[test]
    fn refuses_each_with_its_own_code() {
        for (source, target, writable, code) in [
            ("/home/u/.local/state/skillfreeze", "/x", false, "bind-store"),
            ("/home/u", "/x", false, "bind-store"),
            ("/home/u/.local/state/skillfreeze/packages", "/x", false, "bind-store"),
            ("/snap", "/x", true, "bind-snapshot"),
            ("/", "/x", true, "bind-store"),
            ("/snap/a", "/x", true, "bind-snapshot"),
            ("/a", "/skills", false, "mount-target-reserved"),
            ("/a", "/skills/x", false, "mount-target-reserved"),
            ("/a", "/", false, "mount-target-reserved"),
            ("/a", "/proc/self", false, "mount-target-reserved"),
            ("/a", "/tmp", false, "mount-target-reserved"),
            ("/a", "/usr", false, "mount-target-reserved"),
            ("/a", "/usr/none", false, "mount-target-missing"),
        ] {
            assert_eq!(check(&[(source, target, writable)]), Err(code), "{source} {target}");
        }
        for (source, target, writable) in [
            ("/snap", "/x", false),
            ("/home/u2", "/x", true),
            ("/a", "/usr/share", false),
            ("/a", "/tmp/x", true),
            ("/a", "/etc/x", false),
        ] {
            assert!(check(&[(source, target, writable)]).is_ok(), "{source} {target}");
        }
        let workspace = ("/home/u/ws", "/home/u/ws", true);
        for (target, code) in [
            ("/home/u/ws/none", "mount-target-missing"),
            ("/home/u/ws/link", "mount-target-type"),
            ("/home/u/ws/link/x", "mount-target-type"),
            ("/home/u/ws/file", "mount-target-type"),
            ("/home/u/ws", "mount-target-twice"),
        ] {
            assert_eq!(check(&[workspace, ("/a", target, false)]), Err(code), "{target}");
        }
    }

    #[test]
    fn targets_go_down() {
        for target in ["x", "/a/../b", "/a/./b", "", "../x", "/.."] {
            assert!(matches!(normal_target(target.into()), Err(BindError::TargetForm { .. })), "{target}");
        }
        assert_eq!(normal_target("//a//b/".into()).unwrap(), "/a/b");
    }

    #[test]
    fn a_socket_is_refused() {
        let error = Bind::new("/run/docker.sock".into(), None, false, EntryKind::Socket, (0, 0)).unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            ("bind-special-file", "cannot bind `/run/docker.sock`: it is a socket")
        );
    }
}
