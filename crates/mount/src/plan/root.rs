//! What the root directory of a sandbox is made of: this machine's programs, or another root's.

use camino::{Utf8Path, Utf8PathBuf};

use crate::bind::{BindError, overlaps};
use crate::host::{Host, SystemEntry};
use crate::mount::Mount;
use crate::names::Names;
use crate::network::Network;
use crate::plan_error::PlanError;
use crate::request::LaunchRequest;

/// The entries of the root that hold programs, libraries and their configuration: no bind may take
/// their place.
const KEPT: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc"];

/// The first mounts of a sandbox.
pub(super) struct Root {
    /// In this order.
    pub(super) mounts: Vec<Mount>,
    /// The configuration of the host's resolver, after them.
    pub(super) resolver: Option<Mount>,
}

impl Root {
    pub(super) fn of(request: &LaunchRequest, names: &Names, host: &Host) -> Self {
        // A mount point that is not there would be made.
        let has_place = request.rootfs.as_ref().is_none_or(|rootfs| rootfs.has_resolver);
        let resolver = host.resolver.as_ref().filter(|_| has_place && request.network == Network::Host);
        let resolver = resolver.map(|path| Mount::System { path: path.clone() });
        let Some(rootfs) = &request.rootfs else {
            let system = host.system.iter().map(|entry| match entry {
                SystemEntry::Directory(path) => Mount::System { path: path.clone() },
                SystemEntry::Link(path, to) => Mount::Link { path: path.clone(), to: to.clone() },
            });
            let etc = host.etc.iter().map(|path| Mount::System { path: path.clone() });
            return Self { mounts: system.chain(etc).collect(), resolver };
        };
        // What the sandbox has at these places of its own is not the root's.
        let own = |path: &Utf8Path| path == names.skills_dir || path == names.extensions_dir;
        let lent = || request.workspace.iter().chain(&request.binds).map(|bind| bind.target.as_path());
        // In an empty directory nothing can be mounted, so the sandbox has one of its own in its place.
        let gives_way = |path: &Utf8Path| {
            rootfs.empty.iter().any(|empty| empty == path)
                && !KEPT.iter().any(|kept| path == *kept)
                && lent().any(|target| target != path && target.starts_with(path))
        };
        let entries = rootfs.entries.iter().filter(|mount| match mount {
            Mount::Bind(bind) => !own(&bind.target) && !gives_way(&bind.target),
            Mount::Link { path, .. } => !own(path),
            _ => true,
        });
        Self { mounts: entries.cloned().collect(), resolver }
    }

    /// What it shows of the host: where that is, and where the sandbox sees it.
    pub(super) fn shown(&self) -> impl Iterator<Item = (&Utf8Path, &Utf8Path)> {
        self.mounts.iter().filter_map(|mount| match mount {
            Mount::System { path } => Some((path.as_path(), path.as_path())),
            Mount::Bind(bind) => Some((bind.source.as_path(), bind.target.as_path())),
            _ => None,
        })
    }

    /// Its links.
    pub(super) fn links(&self) -> impl Iterator<Item = &Utf8Path> {
        self.mounts.iter().filter_map(|mount| match mount {
            Mount::Link { path, .. } => Some(path.as_path()),
            _ => None,
        })
    }

    /// Places of it that a bind may not take, but may lie in.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Utf8Path> {
        let is_kept = |path: &&Utf8Path| KEPT.iter().any(|kept| path.starts_with(kept));
        self.shown().map(|(_, target)| target).filter(is_kept)
    }

    /// Refuses a root that would show the store, or that the command could write.
    pub(super) fn check(&self, request: &LaunchRequest) -> Result<(), PlanError> {
        let shows =
            |store: &Utf8PathBuf| self.shown().map(|(source, _)| source).find(|shown| overlaps(store, shown));
        let Some(rootfs) = &request.rootfs else {
            return match request.store.as_ref().and_then(|store| Some((store, shows(store)?))) {
                Some((store, shown)) => {
                    Err(PlanError::StoreShown { store: store.clone(), shown: shown.to_owned() })
                }
                None => Ok(()),
            };
        };
        let path = || rootfs.path.clone();
        if let Some(store) = request.store.as_ref().filter(|store| overlaps(store, &rootfs.path)) {
            return Err(BindError::Store { path: path(), store: store.clone() }.into());
        }
        let mut lent = request.workspace.iter().chain(&request.binds).chain(&request.extensions);
        match lent.find(|bind| bind.writable && overlaps(&bind.source, &rootfs.path)) {
            Some(bind) => Err(PlanError::RootfsWritable { path: path(), bind: bind.source.clone() }),
            None => Ok(()),
        }
    }
}
