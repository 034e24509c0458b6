//! The snapshot that a run reads: named, or frozen now; checked either way.

use std::os::fd::OwnedFd;

use cap_std::fs::Dir;
use skillfreeze::Digest;
use skillfreeze::manifest::{PackageEntry, Progress};
use skillfreeze::mount::{Provenance, Verified, VerifyError};
use skillfreeze::preparer::{Chosen, Existing, Reference, Resolved};
use skillfreeze::store::Store;

use super::Run;
use crate::commands::selecting::{Take, prepare, requested};
use crate::context::Context;
use crate::exit::Failure;
use crate::sources::Sources;

/// A checked snapshot and what is known of it.
pub(super) struct Ready {
    pub(super) verified: Verified,
    pub(super) requested: Vec<String>,
    pub(super) packages: Vec<Provenance>,
    pub(super) store: Option<Store>,
    /// Taken before the check, so that nothing cleans the snapshot up from then on.
    pub(super) lease: Option<OwnedFd>,
}

impl Run {
    /// Names the snapshot, or freezes the selection; checks every byte either way.
    pub(super) fn ready(
        &self,
        context: &Context,
        sources: &Sources,
        progress: &dyn Progress,
    ) -> Result<Ready, Failure> {
        match &self.snapshot {
            Some(text) => self.named(context, text, progress),
            None => self.frozen(context, sources, progress),
        }
    }

    /// The snapshot that the command line names.
    fn named(&self, context: &Context, text: &str, progress: &dyn Progress) -> Result<Ready, Failure> {
        let named = context.snapshot(text, self.digest).map_err(|failure| {
            let is_skill = failure.code == "not-found" && text.parse::<Reference>().is_ok();
            if is_skill {
                failure.hint(format!("to freeze a skill and run it: `--skill {text}`"))
            } else {
                failure
            }
        })?;
        let anchor = named.anchor(text)?;
        let store = if named.in_store { context.store_to_use()? } else { None };
        let (dir, lease) = match &store {
            Some(store) => lease(store, &anchor)?,
            None => (None, None),
        };
        let verified = Verified::check(dir.unwrap_or(named.dir), &named.path, anchor, progress)?;
        let packages = provenance_of_stored(store.as_ref(), &verified)?;
        Ok(Ready { verified, requested: vec![text.to_owned()], packages, store, lease })
    }

    /// The selection, frozen now.
    fn frozen(
        &self,
        context: &Context,
        sources: &Sources,
        progress: &dyn Progress,
    ) -> Result<Ready, Failure> {
        let selection = self.selection.selection(&self.skill)?;
        let store = context.store()?;
        let root = context.root()?;
        let mut existing = Existing::LeaveToCaller;
        loop {
            let (resolved, snapshot) = prepare(
                context,
                &store,
                &selection,
                sources,
                &Take { drop_bytecode: self.drop_bytecode, existing, progress },
            )?;
            let (dir, lease) = lease(&store, &snapshot.digest)?;
            let path = root.join(Store::snapshot_path(&snapshot.digest));
            match Verified::check(dir.unwrap_or(snapshot.dir), &path, snapshot.digest, progress) {
                // One that was there and is damaged is set aside and built again, once.
                Err(VerifyError::Faults { .. }) if snapshot.reused && existing == Existing::LeaveToCaller => {
                    existing = Existing::Check;
                }
                verified => {
                    let (requested, packages) = (requested(&selection), provenance(&resolved));
                    let (verified, store) = (verified?, Some(store));
                    return Ok(Ready { verified, requested, packages, store, lease });
                }
            }
        }
    }
}

/// Takes a lock on a snapshot of the store, so that nothing cleans it up while it is in use, and opens
/// it once the lock is held.
pub(crate) fn lease(store: &Store, snapshot: &Digest) -> Result<(Option<Dir>, Option<OwnedFd>), Failure> {
    let lease = store.lease(snapshot)?.map(|lease| OwnedFd::from(lease.into_file()));
    Ok((store.open_snapshot(snapshot)?, lease))
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
