//! What of the host a sandbox is lent, and which of it is live sources.

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze_manifest::EntryKind;

use super::Snapshot;
use super::environment::HOME;
use crate::bind::{Bind, BindError, Policy, overlaps};
use crate::guard::protect;
use crate::host::{Host, SystemEntry};
use crate::plan_error::PlanError;
use crate::request::{LaunchRequest, Names};

/// Places that the sandbox makes itself and that nothing else may be, hold or lie in.
fn closed_places(names: &Names) -> Vec<Utf8PathBuf> {
    let own = ["/proc", "/dev", "/sys"].map(Utf8PathBuf::from);
    [names.skills_dir.clone(), names.extensions_dir.clone()].into_iter().chain(own).collect()
}

pub(super) fn plan_binds(
    snapshot: &Snapshot<'_>,
    request: &LaunchRequest,
    names: &Names,
    host: &Host,
    kind_at: &dyn Fn(&Utf8Path) -> Option<EntryKind>,
) -> Result<(Vec<Bind>, Vec<Utf8PathBuf>), PlanError> {
    let links = host.system.iter().filter_map(|entry| match entry {
        SystemEntry::Link(path, _) => Some(path.clone()),
        SystemEntry::Directory(_) => None,
    });
    let directories = host.system.iter().filter_map(|entry| match entry {
        SystemEntry::Directory(path) => Some(path.clone()),
        SystemEntry::Link(..) => None,
    });
    let shown: Vec<Utf8PathBuf> = directories.chain(host.etc.iter().cloned()).collect();
    if let Some(store) = &request.store
        && let Some(shown) = shown.iter().find(|shown| overlaps(store, shown))
    {
        return Err(PlanError::StoreShown { store: store.clone(), shown: shown.clone() });
    }
    let kept = shown.iter().cloned().chain(["/etc".into(), HOME.into()]).collect();
    let policy = Policy {
        store: request.store.as_deref(),
        snapshot: snapshot.path,
        closed: closed_places(names).into_iter().chain(links).collect(),
        kept,
        shown,
        kind_at,
    };
    let asked: Vec<Bind> = request.workspace.iter().chain(&request.binds).cloned().collect();
    let protection = protect(policy.check(asked)?, &request.guards)?;
    if let Some(extensions) = &request.extensions {
        // Its target is one of the closed places by design; only its source is in question.
        let probe = Bind { target: "/extensions".into(), ..extensions.clone() };
        policy.check(vec![probe.clone()])?;
        let path = probe.source.clone();
        if let Some(root) = protect(vec![probe], &request.guards)?.visible.into_iter().next() {
            return Err(BindError::InSource { path, root }.into());
        }
    }
    Ok((protection.binds, protection.visible))
}
