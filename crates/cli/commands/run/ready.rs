//! The snapshot that a run reads: named, or frozen now; checked either way.

use skillfreeze::manifest::{CheckOptions, PackageEntry, Progress};
use skillfreeze::mount::{Provenance, Verified, VerifyError};
use skillfreeze::preparer::{Chosen, Existing, Resolved};
use skillfreeze::store::Store;

use super::Run;
use crate::commands::selecting::{prepare, requested};
use crate::context::Context;
use crate::exit::Failure;

/// A checked snapshot and what is known of it.
pub(super) struct Ready {
    pub(super) verified: Verified,
    pub(super) requested: Vec<String>,
    pub(super) packages: Vec<Provenance>,
    pub(super) store: Option<Store>,
}

impl Run {
    /// Names the snapshot, or freezes the selection; checks every byte either way.
    pub(super) fn ready(&self, context: &Context, progress: &dyn Progress) -> Result<Ready, Failure> {
        let options = CheckOptions::new(progress);
        if let Some(text) = &self.snapshot {
            let named = context.snapshot(text, self.digest)?;
            let anchor = named.digest.ok_or_else(|| {
                let failure =
                    Failure::usage(format!("`{text}` names no digest to check the snapshot against"));
                failure.hint("add `--digest sha256:…`, as `prepare` printed it")
            })?;
            let verified = Verified::check(named.dir, &named.path, anchor, &options)?;
            let store = if named.in_store { context.store_to_use()? } else { None };
            let packages = provenance_of_stored(store.as_ref(), &verified)?;
            return Ok(Ready { verified, requested: vec![text.clone()], packages, store });
        }
        let selection = self.selection.selection(&self.skill)?;
        let store = context.store()?;
        let root = context.root()?;
        let mut existing = Existing::LeaveToCaller;
        loop {
            let (resolved, snapshot) =
                prepare(context, &store, &selection, &self.sources, existing, progress)?;
            let path = root.join(Store::snapshot_path(&snapshot.digest));
            match Verified::check(snapshot.dir, &path, snapshot.digest, &options) {
                // One that was there and is damaged is set aside and built again, once.
                Err(VerifyError::Faults { .. }) if snapshot.reused && existing == Existing::LeaveToCaller => {
                    existing = Existing::Check;
                }
                verified => {
                    let (requested, packages) = (requested(&selection), provenance(&resolved));
                    return Ok(Ready { verified: verified?, requested, packages, store: Some(store) });
                }
            }
        }
    }
}

fn provenance(resolved: &Resolved) -> Vec<Provenance> {
    let one = |package: &Chosen| {
        let revision = package.revision.clone();
        Provenance {
            id: revision.id,
            digest: revision.digest,
            number: Some(revision.number.get()),
            version: revision.version,
            source: package.source.clone().or(revision.origin.source),
            path: Some(revision.origin.path),
            added_at: Some(revision.added_at),
            added_by: Some(revision.added_by),
            shadowed: package.shadowed.clone(),
        }
    };
    resolved.packages.iter().map(one).collect()
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
