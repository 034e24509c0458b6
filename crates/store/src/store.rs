//! The store: what is opened, and what it answers.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cap_std::fs::Dir;
use skillfreeze_manifest::{Digest, Listing, SkillId, Stamp};

use crate::activation;
use crate::archive;
use crate::atomic::{Guard, make_dir, open_directory, sweep};
use crate::error::{StoreError, failed};
use crate::index::Index;
use crate::journal::{self, CorruptLine, JournalError};
use crate::layout::{self, RECORDS, Use};
use crate::lease::{self, Lease};
use crate::package::{PackageReader, read_listing};
use crate::revision::Revision;
use crate::staging::{self, SNAPSHOTS, Staging};
use crate::state::State;

/// Who changes a store, and what time it is.
#[derive(Debug, Clone)]
pub struct Author {
    /// Who: a name for the record.
    pub actor: String,
    /// When: gives the present time as RFC 3339 in UTC, to the second or finer.
    pub clock: fn() -> String,
}

/// A store of packages and snapshots.
///
/// Any number of processes and threads may use one store at once, through handles of their own or
/// a shared one.
pub struct Store {
    pub(crate) root: Dir,
    pub(crate) index: Index,
    pub(crate) state: Mutex<State>,
    access: Option<Access>,
}

/// What a store that is open for writing has in addition.
pub(crate) struct Access {
    pub(crate) author: Author,
    pub(crate) guard: Guard,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("writable", &self.access.is_some()).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store in the directory `root` for reading and writing, and makes one where the
    /// directory is empty.
    ///
    /// A store with a feature that this version can only read is opened for reading. What dead
    /// processes left behind is swept. A crash leaves an empty directory's store unmade or made.
    ///
    /// # Errors
    /// [`StoreError`] when the directory is no store, or is not the caller's alone to change; when
    /// the format is unknown or the journal corrupt; when the system refuses something.
    pub fn open(root: Dir, author: Author) -> Result<Self, StoreError> {
        let root = usable(&root)?;
        layout::check_owner(&root)?;
        if layout::read_format(&root)? == Some(Use::Read) {
            return Self::open_read_only(root);
        }
        layout::make(&root)?;
        sweep(&root, &open_directory(&root, SNAPSHOTS)?)?;
        let guard = Guard::new(&root)?;
        let index = Index::open(&root, true);
        let (state, is_saved) = load(&root, &index)?;
        let store = Self { root, index, state: Mutex::new(state), access: Some(Access { author, guard }) };
        if !is_saved {
            let mut state = store.lock_state();
            let _writer = journal::Writer::open(&store.root, &mut state)?;
            store.index.save(&store.root, &state, &[]);
        }
        Ok(store)
    }

    /// Opens the store in the directory `root` for reading, and writes nothing whatever.
    ///
    /// An empty directory is an empty store. Without an index that fits, the journal is read.
    ///
    /// # Errors
    /// [`StoreError`] when the format is unknown, the journal corrupt, or something unreadable.
    pub fn open_read_only(root: Dir) -> Result<Self, StoreError> {
        let root = usable(&root)?;
        layout::read_format(&root)?;
        let index = Index::open(&root, false);
        let (state, _) = load(&root, &index)?;
        Ok(Self { root, index, state: Mutex::new(state), access: None })
    }

    /// Looks whether the store in the directory `root` could be opened for writing without trusting
    /// others than root with it.
    ///
    /// # Errors
    /// [`StoreError`] when it belongs to somebody else, or others may write it.
    pub fn check_owner(root: &Dir) -> Result<(), StoreError> {
        layout::check_owner(root)
    }

    /// Whether the store is open for writing.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.access.is_some()
    }

    /// What writing needs, where the store is open for it.
    pub(crate) fn access(&self, action: &'static str) -> Result<&Access, StoreError> {
        self.access.as_ref().ok_or(StoreError::ReadOnly { action })
    }

    pub(crate) fn lock_state(&self) -> MutexGuard<'_, State> {
        // A state is replaced as a whole or moved on by whole lines, so a panic elsewhere leaves it sound.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state after everything that has been written by now.
    pub(crate) fn refreshed(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let mut state = self.lock_state();
        let length = Stamp::at(&self.root, journal::JOURNAL.as_bytes()).map_or(0, |stamp| stamp.size);
        if length != state.position.offset
            && let Some(file) = journal::open_reader(&self.root)?
        {
            journal::catch_up(&mut state, &file)?;
        }
        Ok(state)
    }

    /// The files of a package; none when the store has no such package.
    ///
    /// # Errors
    /// [`StoreError`] when the journal is corrupt, or neither the index nor the archive has it.
    pub fn listing(&self, package: &Digest) -> Result<Option<Listing>, StoreError> {
        let Some(archive) = self.refreshed()?.by_digest(package).map(|revision| revision.archive) else {
            return Ok(None);
        };
        if let Some(listing) = self.index.listing(package) {
            return Ok(Some(listing));
        }
        let listing = read_listing(&self.root, package, archive)?;
        self.index.keep_listing(&listing);
        Ok(Some(listing))
    }

    /// Opens a package's archive to read its files.
    ///
    /// # Errors
    /// [`StoreError::PackageUnknown`], or what [`listing`](Self::listing) fails with.
    pub fn open_package(&self, package: &Digest) -> Result<PackageReader, StoreError> {
        let unknown = StoreError::PackageUnknown { package: *package };
        let listing = self.listing(package)?;
        let archive = self.lock_state().by_digest(package).map(|revision| revision.archive);
        let (Some(listing), Some(archive)) = (listing, archive) else { return Err(unknown) };
        Ok(PackageReader::open(&self.root, listing, archive)?)
    }

    /// All revisions, by id and number.
    ///
    /// # Errors
    /// [`StoreError`] when the journal is corrupt or unreadable.
    pub fn revisions(&self) -> Result<Vec<Revision>, StoreError> {
        Ok(self.refreshed()?.all().cloned().collect())
    }

    /// The revisions of one id, by number.
    ///
    /// # Errors
    /// [`StoreError`] when the journal is corrupt or unreadable.
    pub fn revisions_of(&self, id: &SkillId) -> Result<Vec<Revision>, StoreError> {
        Ok(self.refreshed()?.of(id).to_vec())
    }

    /// The active revision of an id.
    ///
    /// # Errors
    /// [`StoreError`] when the journal is corrupt or unreadable.
    pub fn active(&self, id: &SkillId) -> Result<Option<Revision>, StoreError> {
        Ok(activation::active(self.refreshed()?.of(id)).cloned())
    }

    /// The revisions whose package digest begins with these lower-case hex digits, by digest; none
    /// for what are no hex digits.
    ///
    /// # Errors
    /// [`StoreError`] when the journal is corrupt or unreadable.
    pub fn find(&self, digest_prefix_hex: &str) -> Result<Vec<Revision>, StoreError> {
        Ok(self.refreshed()?.find(digest_prefix_hex))
    }

    /// Begins a snapshot in a directory of its own (0700) beside its place.
    ///
    /// # Errors
    /// [`StoreError`] when the store is read-only or the system refuses.
    pub fn stage_snapshot(&self) -> Result<Staging, StoreError> {
        self.access("stage a snapshot")?;
        Staging::new(&self.root)
    }

    /// Opens a snapshot's directory, never through a link; none when there is no such snapshot.
    ///
    /// That it bears the name says nothing of what it holds, nor that it is a directory at all: check
    /// it.
    ///
    /// # Errors
    /// [`StoreError`] when the system refuses.
    pub fn open_snapshot(&self, digest: &Digest) -> Result<Option<Dir>, StoreError> {
        staging::open_snapshot(&self.root, digest)
    }

    /// The digests by which snapshots are named, sorted.
    ///
    /// # Errors
    /// [`StoreError`] when their directory cannot be listed.
    pub fn snapshots(&self) -> Result<Vec<Digest>, StoreError> {
        staging::snapshots(&self.root)
    }

    /// A snapshot's path relative to the store: `snapshots/sha256/<hex>`.
    #[must_use]
    pub fn snapshot_path(digest: &Digest) -> String {
        staging::snapshot_path(digest)
    }

    /// Renames a damaged snapshot, so that a sound one can take its place, and gives the new name,
    /// `.damaged-<random>` in the same directory.
    ///
    /// `checked` is what was found damaged, as [`open_snapshot`](Self::open_snapshot) gave it. None
    /// when it no longer bears the name, because others have set it aside: what stands there now may
    /// be sound. A crash leaves the old name or the new.
    ///
    /// # Errors
    /// [`StoreError`] when the store is read-only or the system refuses.
    pub fn set_aside_snapshot(&self, digest: &Digest, checked: &Dir) -> Result<Option<String>, StoreError> {
        self.access("set a snapshot aside")?;
        let mut state = self.lock_state();
        // Nothing of it is for the journal, but whoever changes the store holds its lock.
        let _writer = journal::Writer::open(&self.root, &mut state)?;
        staging::set_aside(&self.root, digest, checked)
    }

    /// The lock file of a snapshot's leases, relative to the root.
    #[must_use]
    pub fn lease_path(snapshot: &Digest) -> String {
        lease::path(snapshot)
    }

    /// Keeps a snapshot from being removed while the lease lives.
    ///
    /// None on a store that is open for reading only and has no lock file for it yet.
    ///
    /// # Errors
    /// [`StoreError`] when the system refuses.
    pub fn lease(&self, snapshot: &Digest) -> Result<Option<Lease>, StoreError> {
        if self.access.is_some() {
            Ok(Some(Lease::take(&self.root, snapshot)?))
        } else {
            Ok(Lease::take_existing(&self.root, snapshot)?)
        }
    }

    /// Opens the directory of run records, and makes it (0700) where it is absent.
    ///
    /// # Errors
    /// [`StoreError`] when it is absent from a read-only store or the system refuses.
    pub fn records(&self) -> Result<Dir, StoreError> {
        if self.access.is_some() {
            make_dir(&self.root, RECORDS)?;
        }
        match open_directory(&self.root, RECORDS) {
            Err(fault) if self.access.is_none() && fault.source.kind() == std::io::ErrorKind::NotFound => {
                Err(StoreError::ReadOnly { action: "keep run records" })
            }
            opened => Ok(opened?),
        }
    }

    /// Opens the directory of the run records of one month, `runs/YYYY/MM`, and makes it (0700) where
    /// it is absent, with the directories above it.
    ///
    /// All of them are durable: a record that is synced in it is there after a crash.
    ///
    /// # Errors
    /// [`StoreError`] when the store is read-only or the system refuses.
    pub fn record_dir(&self, year: u16, month: u8) -> Result<Dir, StoreError> {
        self.access("keep run records")?;
        let mut dir = self.records()?;
        sync(&self.root, ".")?;
        let mut path = RECORDS.to_owned();
        for name in [format!("{year:04}"), format!("{month:02}")] {
            make_dir(&dir, &name)?;
            // Also where it is there already: who has made it may not have come this far.
            sync(&dir, &path)?;
            dir = open_directory(&dir, &name)?;
            path = format!("{path}/{name}");
        }
        Ok(dir)
    }
}

/// Opens a directory anew: `cap-std` opens directories with `O_PATH`, and those cannot be listed
/// or synced.
fn usable(root: &Dir) -> Result<Dir, StoreError> {
    Ok(open_directory(root, ".")?)
}

/// The state of the store, and whether the index has all of it.
fn load(root: &Dir, index: &Index) -> Result<(State, bool), StoreError> {
    let file = match journal::open_reader(root)? {
        // Nothing is locked without a journal, so a writer may make one now. The index is saved after the
        // journal: where it has nothing there was none, and where it has something there is one, or was.
        None if index.revisions().is_empty() => return Ok((State::default(), true)),
        None => journal::open_reader(root)?,
        opened => opened,
    };
    let bytes = file.as_ref().map(|file| journal::read_from(file, 0)).transpose()?.unwrap_or_default();
    let saved = index.load(&bytes);
    let had_index = saved.is_some();
    let mut state = saved.unwrap_or_default();
    let from = state.position.offset;
    let rest = usize::try_from(from).ok().and_then(|from| bytes.get(from..)).unwrap_or_default();
    journal::replay(&mut state, rest)?;
    if !had_index {
        check_nothing_lost(root, index, &state)?;
    }
    let is_saved = had_index && state.position.offset == from || state.position.seq == 0;
    Ok((state, is_saved))
}

/// Refuses a journal that has lost lines, as far as that can be known: the index, which is saved after
/// the journal, has a revision that the journal lacks, and its archive is there, and is the one.
///
/// An index that is merely foreign or damaged names archives that are not.
fn check_nothing_lost(root: &Dir, index: &Index, state: &State) -> Result<(), StoreError> {
    let lost = index.revisions().into_iter().any(|revision| {
        state.by_digest(&revision.digest).is_none()
            && archive::check(root, &revision.digest, revision.archive).is_ok()
    });
    if lost {
        let (line, reason) = (state.position.seq + 1, CorruptLine::Gone);
        return Err(JournalError::Corrupt { line, reason }.into());
    }
    Ok(())
}

/// Makes the names in a directory durable.
pub(crate) fn sync(dir: &Dir, path: &str) -> Result<(), StoreError> {
    Ok(rustix::fs::fsync(dir).map_err(failed("sync", path))?)
}
