//! What of the host a sandbox is lent, and which of it is live sources.

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze_manifest::EntryKind;

use super::Snapshot;
use super::environment::HOME;
use super::root::Root;
use crate::bind::{Bind, BindError, Policy};
use crate::guard::{Protection, protect};
use crate::names::Names;
use crate::plan_error::PlanError;
use crate::request::LaunchRequest;

/// Places that the sandbox makes itself and that nothing else may be, hold or lie in.
fn closed_places(names: &Names) -> Vec<Utf8PathBuf> {
    let own = ["/proc", "/dev", "/sys"].map(Utf8PathBuf::from);
    [names.skills_dir.clone(), names.extensions_dir.clone()].into_iter().chain(own).collect()
}

pub(super) fn plan_binds(
    snapshot: &Snapshot<'_>,
    request: &LaunchRequest,
    names: &Names,
    root: &Root,
    kind_at: &dyn Fn(&Utf8Path) -> Option<EntryKind>,
) -> Result<Protection, PlanError> {
    root.check(request)?;
    let owned = |path: &Utf8Path| path.to_owned();
    let policy = Policy {
        store: request.store.as_deref(),
        snapshot: snapshot.path,
        closed: closed_places(names).into_iter().chain(root.links().map(owned)).collect(),
        kept: root.kept().map(owned).chain(["/etc".into(), HOME.into()]).collect(),
        shown: root.shown().map(|(source, target)| (source.to_owned(), target.to_owned())).collect(),
        kind_at,
    };
    let asked: Vec<Bind> = request.workspace.iter().chain(&request.binds).cloned().collect();
    let mut protection = protect(policy.check(asked)?, &request.guards, request.in_place)?;
    if let Some(rootfs) = &request.rootfs {
        protection.show(&rootfs.path, &request.guards);
    }
    if request.in_place && !protection.covers() {
        return Err(PlanError::InPlaceNothing);
    }
    if let Some(extensions) = &request.extensions {
        // Its target is one of the closed places by design; only its source is in question.
        let probe = Bind { target: "/extensions".into(), ..extensions.clone() };
        policy.check(vec![probe.clone()])?;
        let path = probe.source.clone();
        if let Some(root) = protect(vec![probe], &request.guards, false)?.visible.into_iter().next() {
            return Err(BindError::InSource { path, root }.into());
        }
    }
    Ok(protection)
}
