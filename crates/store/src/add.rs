//! Adding packages: many at once, all in one batch of the journal.

use std::fmt;

use skillfreeze_manifest::{Diagnostic, Limits, Progress, for_each};

use crate::add_error::AddError;
use crate::archive::{self, archive_path};
use crate::atomic::{Guard, TEMPORARY};
use crate::candidate::Candidate;
use crate::commit::{Archive, Prepared};
use crate::describe::Describe;
use crate::error::{IoFault, StoreError, failed};
use crate::import;
use crate::revision::Revision;
use crate::spool::Spool;
use crate::state::State;
use crate::store::Store;

/// How to add.
#[derive(Clone, Copy)]
pub struct AddOptions<'a> {
    /// Reads what a package says of itself.
    pub describe: &'a dyn Describe,
    /// How much one package may hold.
    pub limits: Limits,
    /// Whether bytecode is left out rather than refused.
    pub drop_bytecode: bool,
    /// Whether each revision becomes the active one of its id.
    pub activate: bool,
    /// Is told of every package that was read.
    pub progress: &'a dyn Progress,
}

impl fmt::Debug for AddOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddOptions")
            .field("limits", &self.limits)
            .field("drop_bytecode", &self.drop_bytecode)
            .field("activate", &self.activate)
            .finish_non_exhaustive()
    }
}

/// A package that is in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Added {
    /// Its revision.
    pub revision: Revision,
    /// Whether the same content was a revision already.
    pub reused: bool,
    /// Whether it became the active one by this call.
    pub activated: bool,
    /// What is worth saying about it, sorted by path.
    pub diagnostics: Vec<Diagnostic>,
    /// The number of its files.
    pub files: u64,
    /// The bytes of its files together.
    pub bytes: u64,
}

impl Store {
    /// Adds packages and gives the results in the order of the candidates.
    ///
    /// Each package is read side by side with others; then all that are sound are entered in the
    /// journal with one append. A package whose content is a revision already is that revision,
    /// once its archive's digest was checked; a lost or damaged archive is replaced.
    ///
    /// A crash leaves none of the batch's revisions, or the first few of them, or all; each that is
    /// there is whole, for its archive is durable before its line is written. Any number of processes
    /// may add at once.
    ///
    /// # Errors
    /// Outside, [`StoreError`] where nothing was added: the store is read-only, its journal is
    /// corrupt, the system refused. Inside, [`AddError`] for one package.
    pub fn add(
        &self,
        candidates: &[Candidate<'_>],
        options: &AddOptions<'_>,
    ) -> Result<Vec<Result<Added, AddError>>, StoreError> {
        let guard = &self.access("add a package")?.guard;
        let known = self.refreshed()?.clone();
        options.progress.begin("adding", candidates.len());
        let prepared = for_each(candidates.len(), |index| {
            let prepared = self.prepare(&candidates[index], options, guard, &known);
            options.progress.advance();
            prepared
        });
        let temporaries: Vec<String> = prepared
            .iter()
            .flatten()
            .filter_map(|prepared| match &prepared.archive {
                Archive::Temporary(name, _) => Some(name.clone()),
                Archive::Stored(_) => None,
            })
            .collect();
        let added = self.commit(candidates, prepared, options, !temporaries.is_empty());
        for name in temporaries {
            // Most are renamed by now; the others are swept at the latest with the guard.
            let _ = guard.remove(&name);
        }
        added
    }

    /// Reads one package, and compresses it unless its archive is there and sound.
    fn prepare(
        &self,
        candidate: &Candidate<'_>,
        options: &AddOptions<'_>,
        guard: &Guard,
        known: &State,
    ) -> Result<Prepared, AddError> {
        let imported = import::read(candidate, options, || Spool::new(guard))?;
        let digest = imported.listing.digest();
        let stored = known.by_digest(&digest).map(|revision| revision.archive);
        let archive = match stored {
            Some(stored) if archive::check(&self.root, &digest, stored).is_ok() => Archive::Stored(stored),
            _ => {
                let compress = || -> Result<Archive, IoFault> {
                    let mut tar = imported.sink.into_reader().map_err(failed("read", TEMPORARY))?;
                    let (name, digest) = guard.write(|file| {
                        archive::compress(&mut tar, file).map_err(failed("write", archive_path(&digest)))
                    })?;
                    Ok(Archive::Temporary(name, digest))
                };
                let path = || candidate.origin.path.clone();
                compress().map_err(|source| AddError::Io { path: path(), source })?
            }
        };
        Ok(Prepared {
            description: imported.description,
            listing: imported.listing,
            digest,
            diagnostics: imported.diagnostics,
            archive,
        })
    }
}
