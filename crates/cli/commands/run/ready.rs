//! The snapshot that a run reads: named, or frozen now; checked either way.

use skillfreeze::manifest::Progress;
use skillfreeze::mount::{Provenance, Verified, VerifyError};
use skillfreeze::preparer::{Chosen, Existing, Resolved};
use skillfreeze::store::Store;

use super::Run;
use crate::commands::naming::{Ready, hint_for_skill, lease, named};
use crate::commands::selecting::{Take, prepare, requested};
use crate::context::Context;
use crate::exit::Failure;
use crate::sources::Sources;

impl Run {
    /// Names the snapshot, or freezes the selection; checks every byte either way.
    pub(super) fn ready(
        &self,
        context: &Context,
        sources: &Sources,
        progress: &dyn Progress,
    ) -> Result<Ready, Failure> {
        match &self.snapshot {
            Some(text) => named(context, text, self.digest, progress).map_err(|failure| {
                hint_for_skill(failure, text, format!("to freeze a skill and run it: `--skill {text}`"))
            }),
            None => self.frozen(context, sources, progress),
        }
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
