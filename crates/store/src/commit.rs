//! Entering packages that were read: archives into their places, lines into the journal.

use cap_std::fs::Dir;
use rustix::fs::{AtFlags, renameat, syncfs, unlinkat};
use rustix::io::Errno;
use skillfreeze_manifest::{Diagnostic, Digest, Listing};

use crate::activation::{self, Scope};
use crate::add::{AddOptions, Added};
use crate::add_error::AddError;
use crate::archive::{self, PACKAGES, archive_name, archive_path};
use crate::atomic::{TEMPORARY, open_directory, random_name, rename_new};
use crate::candidate::Candidate;
use crate::describe::Description;
use crate::error::{StoreError, failed};
use crate::journal::{Added as AddedLine, AppendError, Archived, Batch, Change, Writer};
use crate::layout::QUARANTINE;
use crate::store::{Store, sync};

/// A package that was read, before it is decided what becomes of it.
pub(crate) struct Prepared {
    pub(crate) description: Description,
    pub(crate) listing: Listing,
    pub(crate) digest: Digest,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) archive: Archive,
}

/// Where a package's archive is.
pub(crate) enum Archive {
    /// In its place, with this digest, which was checked.
    Stored(Digest),
    /// In the temporary of this name, with this digest.
    Temporary(String, Digest),
}

/// Archives that are in their places and in no journal yet; removed when they do not get there, so
/// that a full disk is not fuller afterwards.
struct Placed<'a> {
    packages: &'a Dir,
    new: Vec<String>,
}

impl Placed<'_> {
    fn keep(&mut self) {
        self.new.clear();
    }
}

impl Drop for Placed<'_> {
    fn drop(&mut self) {
        for name in &self.new {
            // One that stays is replaced when its package is added again.
            let _ = unlinkat(self.packages, name, AtFlags::empty());
        }
    }
}

impl Store {
    /// Enters what was read in the journal, under its lock.
    pub(crate) fn commit(
        &self,
        candidates: &[Candidate<'_>],
        prepared: Vec<Result<Prepared, AddError>>,
        options: &AddOptions<'_>,
        has_archives: bool,
    ) -> Result<Vec<Result<Added, AddError>>, StoreError> {
        let access = self.access("add a package")?;
        if has_archives {
            // One call for all archives, and before the lock: it may take long.
            syncfs(access.guard.dir()).map_err(failed("sync", TEMPORARY))?;
        }
        let packages = open_directory(&self.root, PACKAGES)?;
        let mut state = self.lock_state();
        let mut writer = Writer::open(&self.root, &mut state)?;
        // Dropped before the lock is.
        let mut placed = Placed { packages: &packages, new: Vec::new() };
        let mut batch = Batch::new(state.clone(), &access.author.actor, (access.author.clock)());
        let mut decided = Vec::with_capacity(prepared.len());
        for (candidate, prepared) in candidates.iter().zip(prepared) {
            decided.push(match prepared {
                Ok(prepared) => self.enter(candidate, prepared, options, &mut placed, &mut batch)?,
                Err(error) => Err(error),
            });
        }
        if !batch.is_empty() {
            sync(&packages, PACKAGES)?;
            if state.position.seq == 0 {
                sync(&self.root, ".")?;
            }
            if let Err(AppendError { fault, is_undone }) = writer.append(&batch) {
                if !is_undone {
                    placed.keep();
                }
                return Err(fault.into());
            }
            placed.keep();
            *state = batch.state;
            let new: Vec<&Listing> = decided
                .iter()
                .flatten()
                .filter(|(added, _)| !added.reused)
                .map(|(_, listing)| listing)
                .collect();
            self.index.save(&self.root, &state, &new);
        }
        let finish = |(mut added, _): (Added, Listing)| {
            // A later package of the batch may have become active in its place.
            if let Some(revision) = state.by_digest(&added.revision.digest) {
                added.revision = revision.clone();
            }
            added
        };
        Ok(decided.into_iter().map(|added| added.map(finish)).collect())
    }

    /// Puts one package's archive in its place and its lines in the batch.
    fn enter(
        &self,
        candidate: &Candidate<'_>,
        prepared: Prepared,
        options: &AddOptions<'_>,
        placed: &mut Placed<'_>,
        batch: &mut Batch,
    ) -> Result<Result<(Added, Listing), AddError>, StoreError> {
        let Prepared { description, listing, digest, diagnostics, archive } = prepared;
        let path = || candidate.origin.path.clone();
        let Description { id, version, .. } = description;
        let (files, bytes) = (listing.files().len() as u64, listing.bytes());
        let stored = batch.state.by_digest(&digest).map(|revision| revision.archive);
        match (stored, archive) {
            // Another look is needed only where another process, or the same batch, was first.
            (Some(stored), Archive::Stored(checked)) if stored == checked => {}
            (Some(stored), archive) => match (archive::check(&self.root, &digest, stored), archive) {
                (Ok(()), _) => {}
                (Err(_), Archive::Temporary(name, archive)) => {
                    self.quarantine(placed.packages, &digest)?;
                    self.place(placed.packages, &name, &digest)?;
                    batch.push(Change::Archived(Archived { archive, digest }));
                }
                (Err(source), Archive::Stored(_)) => {
                    return Ok(Err(AddError::Archive { path: path(), source: Box::new(source) }));
                }
            },
            (None, Archive::Temporary(name, archive)) => {
                let Some(number) = batch.state.next_number(&id) else {
                    return Ok(Err(AddError::NumbersUsedUp { path: path(), id }));
                };
                self.place(placed.packages, &name, &digest)?;
                placed.new.push(archive_name(&digest));
                batch.push(Change::Added(AddedLine {
                    archive,
                    bytes,
                    digest,
                    files,
                    id,
                    number,
                    origin: candidate.origin.clone(),
                    scope: Scope::User,
                    version,
                }));
            }
            // The journal had it when it was checked, and a journal only grows.
            (None, Archive::Stored(_)) => return Err(StoreError::PackageUnknown { package: digest }),
        }
        let Some(revision) = batch.state.by_digest(&digest).cloned() else {
            return Err(StoreError::PackageUnknown { package: digest });
        };
        let change = activation::activate(batch.state.of(&revision.id), &revision);
        let change = change.filter(|_| options.activate);
        let activated = change.is_some();
        if let Some(change) = change {
            batch.push(Change::Activated(change));
        }
        let reused = stored.is_some();
        Ok(Ok((Added { revision, reused, activated, diagnostics, files, bytes }, listing)))
    }

    /// Renames a finished archive into its place.
    ///
    /// What may be there is in no journal: a writer that had renamed it died before its append. So
    /// it is replaced.
    fn place(&self, packages: &Dir, name: &str, digest: &Digest) -> Result<(), StoreError> {
        let tmp = open_directory(&self.root, TEMPORARY)?;
        renameat(&tmp, name, packages, archive_name(digest))
            .map_err(failed("publish", archive_path(digest)))?;
        Ok(())
    }

    /// Moves a damaged archive out of the way, if there is one.
    fn quarantine(&self, packages: &Dir, digest: &Digest) -> Result<(), StoreError> {
        let quarantine = open_directory(&self.root, QUARANTINE)?;
        let name = archive_name(digest);
        loop {
            let aside = format!("{}-{name}", random_name()?);
            match rename_new(packages, &name, &quarantine, &aside) {
                Ok(true) | Err(Errno::NOENT) => return Ok(()),
                Ok(false) => {}
                Err(error) => return Err(failed("set aside", archive_path(digest))(error).into()),
            }
        }
    }
}
