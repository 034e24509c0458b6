//! Adding packages: many at once, all in one batch of the journal.

use std::fmt;

use cap_std::fs::Dir;
use rustix::fs::{renameat, syncfs};
use rustix::io::Errno;
use skillfreeze_manifest::{Diagnostic, Digest, Limits, Listing, Progress, SkillId, for_each};

use crate::activation::{self, Scope};
use crate::archive::{self, PACKAGES, PackageError, archive_name, archive_path};
use crate::atomic::{Guard, TEMPORARY, open_directory, random_name, rename_new};
use crate::error::{IoFault, StoreError, failed};
use crate::import::{Describe, Description, Import, ImportError};
use crate::journal::{Added as AddedLine, Archived, Batch, Change, Writer};
use crate::layout::QUARANTINE;
use crate::refusal::Refusal;
use crate::revision::{Origin, Revision};
use crate::state::State;
use crate::store::{Store, sync};

/// A directory that is to become a revision.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// The directory that it is in.
    pub root: &'a Dir,
    /// Its name there, one component, or `.` for `root` itself.
    pub directory: String,
    /// Where it comes from, for the record.
    pub origin: Origin,
    /// The id that the caller has seen, if any; another one in the hashed bytes is a fault.
    pub id: Option<SkillId>,
}

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

/// Why one package was not added; the others are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// The directory is not one that is taken as a package.
    #[error("the package at `{path}` is refused: {}", Listed(.faults))]
    Refused {
        /// The package's path, as its origin has it.
        path: String,
        /// All that is wrong with it, sorted by path.
        faults: Vec<Refusal>,
    },
    /// Its `SKILL.md` is not valid.
    #[error("the package at `{path}` is invalid")]
    Invalid {
        /// The package's path, as its origin has it.
        path: String,
        /// What the parser says.
        diagnostics: Vec<Diagnostic>,
    },
    /// Its id is not the one that the caller has seen.
    #[error("the package at `{path}` has the id `{actual}`, no longer `{expected}`")]
    IdChanged {
        /// The package's path, as its origin has it.
        path: String,
        /// What the caller has seen.
        expected: SkillId,
        /// What the hashed bytes say.
        actual: SkillId,
    },
    /// It changed while it was read, twice.
    #[error("the package at `{path}` changed while it was read: `{changed}`")]
    SourceChanged {
        /// The package's path, as its origin has it.
        path: String,
        /// What changed, relative to the package; `.` for its directory.
        changed: String,
    },
    /// Its id has all the numbers that there are.
    #[error("`{id}` has no revision number left")]
    NumbersUsedUp {
        /// The package's path, as its origin has it.
        path: String,
        /// The id.
        id: SkillId,
    },
    /// The store could not hold it.
    #[error("the package at `{path}` cannot be stored")]
    Io {
        /// The package's path, as its origin has it.
        path: String,
        /// What the system refused.
        #[source]
        source: IoFault,
    },
    /// Its archive was damaged between the first look and the last.
    #[error("the package at `{path}` cannot be stored")]
    Archive {
        /// The package's path, as its origin has it.
        path: String,
        /// What is wrong with the archive.
        #[source]
        source: Box<PackageError>,
    },
}

impl AddError {
    /// The stable code of the error; where the directory is refused, of its first fault.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused { faults, .. } => faults.first().map_or("refused", Refusal::code),
            Self::Invalid { .. } => "invalid",
            Self::IdChanged { .. } => "id-changed",
            Self::SourceChanged { .. } => "source-changed",
            Self::NumbersUsedUp { .. } => "numbers-used-up",
            Self::Io { source, .. } => source.code(),
            Self::Archive { source, .. } => source.code(),
        }
    }

    /// The package's path, as its origin has it.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Refused { path, .. }
            | Self::Invalid { path, .. }
            | Self::IdChanged { path, .. }
            | Self::SourceChanged { path, .. }
            | Self::NumbersUsedUp { path, .. }
            | Self::Io { path, .. }
            | Self::Archive { path, .. } => path,
        }
    }

    /// Its faults in the shape that all commands print; none where the error says it all.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        match self {
            Self::Refused { faults, .. } => faults.iter().map(Refusal::to_diagnostic).collect(),
            Self::Invalid { diagnostics, .. } => diagnostics.clone(),
            _ => Vec::new(),
        }
    }
}

/// Faults in one line.
struct Listed<'a>(&'a [Refusal]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            let separator = if index > 0 { "; " } else { "" };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

/// A package that was read, before it is decided what becomes of it.
struct Prepared {
    description: Description,
    listing: Listing,
    digest: Digest,
    diagnostics: Vec<Diagnostic>,
    archive: Archive,
}

/// Where a package's archive is.
enum Archive {
    /// In its place, with this digest, which was checked.
    Stored(Digest),
    /// In the temporary of this name, with this digest.
    Temporary(String, Digest),
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
        let path = || candidate.origin.path.clone();
        let name = match candidate.directory.as_str() {
            "." => candidate.origin.path.rsplit('/').next().unwrap_or("."),
            name => name,
        };
        let import = Import {
            root: candidate.root,
            directory: &candidate.directory,
            name,
            describe: options.describe,
            limits: options.limits,
            drop_bytecode: options.drop_bytecode,
            guard,
        };
        let imported = import.run().map_err(|error| match error {
            ImportError::Refused(faults) => AddError::Refused { path: path(), faults },
            ImportError::Invalid(diagnostics) => AddError::Invalid { path: path(), diagnostics },
            ImportError::Changed(changed) => AddError::SourceChanged { path: path(), changed },
            ImportError::Spool(source) => AddError::Io { path: path(), source },
        })?;
        let actual = &imported.description.id;
        if let Some(expected) = &candidate.id
            && expected != actual
        {
            let (expected, actual) = (expected.clone(), actual.clone());
            return Err(AddError::IdChanged { path: path(), expected, actual });
        }
        let digest = imported.listing.digest();
        let stored = known.by_digest(&digest).map(|revision| revision.archive);
        let archive = match stored {
            Some(stored) if archive::check(&self.root, &digest, stored).is_ok() => Archive::Stored(stored),
            _ => {
                let compress = || -> Result<Archive, IoFault> {
                    let mut tar = imported.spool.into_reader().map_err(failed("read", TEMPORARY))?;
                    let (name, mut file) = guard.create()?;
                    let digest = archive::compress(&mut tar, &mut file)
                        .map_err(failed("write", archive_path(&digest)))?;
                    Ok(Archive::Temporary(name, digest))
                };
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

    /// Enters what was read in the journal, under its lock.
    fn commit(
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
        let mut batch = Batch::new(state.clone(), &access.author.actor, (access.author.clock)());
        let mut decided = Vec::with_capacity(prepared.len());
        for (candidate, prepared) in candidates.iter().zip(prepared) {
            decided.push(match prepared {
                Ok(prepared) => self.enter(candidate, prepared, options, &packages, &mut batch)?,
                Err(error) => Err(error),
            });
        }
        if !batch.is_empty() {
            sync(&packages, PACKAGES)?;
            if state.position.seq == 0 {
                sync(&self.root, ".")?;
            }
            writer.append(&batch)?;
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
        packages: &Dir,
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
                    self.quarantine(packages, &digest)?;
                    self.place(packages, &name, &digest)?;
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
                self.place(packages, &name, &digest)?;
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
