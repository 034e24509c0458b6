//! The snapshot that a command line names, checked.

use std::os::fd::OwnedFd;

use cap_std::fs::Dir;
use skillfreeze::Digest;
use skillfreeze::manifest::{PackageEntry, Progress};
use skillfreeze::mount::{Provenance, Verified};
use skillfreeze::preparer::Reference;
use skillfreeze::store::Store;

use crate::context::{Context, canonical};
use crate::exit::Failure;

/// A checked snapshot and what is known of it.
pub(crate) struct Ready {
    pub(crate) verified: Verified,
    pub(crate) requested: Vec<String>,
    pub(crate) packages: Vec<Provenance>,
    pub(crate) store: Option<Store>,
    /// Taken before the check, so that nothing cleans the snapshot up from then on.
    pub(crate) lease: Option<OwnedFd>,
}

/// Says what helps somebody who named a skill where a snapshot is meant.
pub(crate) fn hint_for_skill(failure: Failure, text: &str, hint: String) -> Failure {
    let is_skill = failure.code == "not-found" && text.parse::<Reference>().is_ok();
    if is_skill { failure.hint(hint) } else { failure }
}

/// The snapshot that the command line names.
pub(crate) fn named(
    context: &Context,
    text: &str,
    digest: Option<Digest>,
    progress: &dyn Progress,
) -> Result<Ready, Failure> {
    let named = context.snapshot(text, digest)?;
    let anchor = named.anchor(text)?;
    let store = if named.in_store { context.store_to_use()? } else { None };
    let (dir, lease) = match &store {
        Some(store) => lease(store, &anchor)?,
        None => (None, None),
    };
    // Without links on the way; at its end there may be one by now, which the check does not follow.
    let path = match (named.path.parent(), named.path.file_name()) {
        (Some(above), Some(name)) => canonical(above)?.join(name),
        _ => named.path,
    };
    let verified = Verified::check(dir.unwrap_or(named.dir), &path, anchor, progress)?;
    let packages = provenance_of_stored(store.as_ref(), &verified)?;
    Ok(Ready { verified, requested: vec![text.to_owned()], packages, store, lease })
}

/// Takes a lock on a snapshot of the store, so that nothing cleans it up while it is in use, and opens
/// it once the lock is held.
pub(crate) fn lease(store: &Store, snapshot: &Digest) -> Result<(Option<Dir>, Option<OwnedFd>), Failure> {
    let lease = store.lease(snapshot)?.map(|lease| OwnedFd::from(lease.into_file()));
    Ok((store.open_snapshot(snapshot)?, lease))
}

fn provenance_of_stored(store: Option<&Store>, verified: &Verified) -> Result<Vec<Provenance>, Failure> {
    let revisions = store.map(Store::revisions).transpose()?.unwrap_or_default();
    let one = |package: &PackageEntry| {
        let revision = revisions.iter().find(|revision| revision.digest == package.digest());
        Provenance {
            id: package.id().clone(),
            digest: package.digest(),
            number: revision.map(|revision| revision.number.get()),
            version: package.version().cloned(),
            source: revision.and_then(|revision| revision.origin.source.clone()),
            path: revision.map(|revision| revision.origin.path.clone()),
            added_at: revision.map(|revision| revision.added_at.clone()),
            added_by: revision.map(|revision| revision.added_by.clone()),
            shadowed: Vec::new(),
        }
    };
    Ok(verified.manifest().packages().iter().map(one).collect())
}
