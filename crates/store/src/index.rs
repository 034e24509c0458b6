//! The index: the journal's sum and the packages' listings, saved so that neither must be computed
//! again.
//!
//! `index.db` is an SQLite database with one row a revision, one a switch, one a listing, and one
//! that says which bytes of the journal it sums up. Nothing in it is trusted: each row carries its own digest, the
//! rows are counted, and the journal's bytes are hashed and compared. What does not fit is thrown
//! away and made anew from the journal, silently; a failure to write it is no failure of the store.
//! It has a rollback journal rather than a write-ahead log, so that it can be read on read-only media.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cap_std::fs::Dir;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior, params};
use serde::{Deserialize, Serialize};
use skillfreeze_manifest::{Digest, EntryKind, Hasher, Listing, Stamp, to_canonical_bytes};

use crate::atomic::{create_new, path_of, remove_tree};
use crate::revision::Revision;
use crate::state::{Position, State};
use crate::switch::Switch;

const INDEX: &str = "index.db";
/// What SQLite keeps beside a database.
const COMPANIONS: [&str; 3] = ["index.db-journal", "index.db-wal", "index.db-shm"];
/// The version of the tables below; an index of another version is made anew.
const VERSION: u32 = 2;
const TABLES: &str = "
    CREATE TABLE position (value TEXT NOT NULL, digest TEXT NOT NULL);
    CREATE TABLE revision (
        id TEXT NOT NULL, number INTEGER NOT NULL, value TEXT NOT NULL, digest TEXT NOT NULL,
        PRIMARY KEY (id, number)
    ) WITHOUT ROWID;
    CREATE TABLE switch (
        id TEXT NOT NULL, scope TEXT NOT NULL, value TEXT NOT NULL, digest TEXT NOT NULL,
        PRIMARY KEY (id, scope)
    ) WITHOUT ROWID;
    CREATE TABLE listing (package TEXT NOT NULL PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
";
/// How long to wait for another process that writes the index.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which bytes of the journal the rows sum up.
#[derive(Serialize, Deserialize)]
struct Saved {
    last: Digest,
    offset: u64,
    prefix: Digest,
    revisions: usize,
    seq: u64,
    switches: usize,
}

/// The index of a store, or none where there can be none.
#[derive(Debug)]
pub(crate) struct Index {
    connection: Mutex<Option<Connection>>,
    writable: bool,
}

impl Index {
    /// Opens the index of the store at `root`, and makes one if `writable` and it is absent.
    pub(crate) fn open(root: &Dir, writable: bool) -> Self {
        Self { connection: Mutex::new(connect(root, writable).ok()), writable }
    }

    /// The saved state, if it sums up the beginning of `journal`.
    pub(crate) fn load(&self, journal: &[u8]) -> Option<State> {
        let mut connection = self.lock();
        load(connection.as_mut()?, journal).ok().flatten()
    }

    /// The revisions that are saved, whatever journal they are of; none where they cannot be read.
    pub(crate) fn revisions(&self) -> Vec<Revision> {
        let mut connection = self.lock();
        connection.as_mut().and_then(|connection| revisions(connection).ok().flatten()).unwrap_or_default()
    }

    /// Saves `state` and some listings. Must be called under the journal's exclusive lock.
    ///
    /// A database that cannot be written for a reason of its own is made anew once; if that fails
    /// too, the store goes without.
    pub(crate) fn save(&self, root: &Dir, state: &State, listings: &[&Listing]) {
        if !self.writable {
            return;
        }
        let mut connection = self.lock();
        let attempt = |connection: &mut Option<Connection>| {
            if connection.is_none() {
                *connection = Some(connect(root, true)?);
            }
            connection.as_mut().map_or(Ok(()), |connection| save(connection, state, listings))
        };
        match attempt(&mut connection) {
            Ok(()) => {}
            // What is busy is whole: the next one to save brings it up to date.
            Err(error) if is_busy(&error) => {}
            Err(_) => {
                *connection = None;
                if remove(root).is_err() || attempt(&mut connection).is_err() {
                    *connection = None;
                }
            }
        }
    }

    /// The listing of a package, if it is there and gives the package's digest.
    pub(crate) fn listing(&self, package: &Digest) -> Option<Listing> {
        let connection = self.lock();
        let text: String = connection
            .as_ref()?
            .prepare_cached("SELECT text FROM listing WHERE package = ?1")
            .and_then(|mut query| query.query_row([package.hex()], |row| row.get(0)))
            .ok()?;
        if Digest::of(text.as_bytes()) != *package {
            return None;
        }
        Listing::parse(&text).ok()
    }

    /// Keeps a listing that was read from its archive.
    pub(crate) fn keep_listing(&self, listing: &Listing) {
        if let Some(connection) = self.lock().as_mut()
            && self.writable
        {
            let _ = insert_listing(connection, listing);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
    )
}

/// Removes the database and whatever SQLite keeps beside it.
fn remove(root: &Dir) -> std::io::Result<()> {
    for name in [INDEX].iter().chain(&COMPANIONS) {
        remove_tree(root, name.as_bytes())?;
    }
    Ok(())
}

fn connect(root: &Dir, writable: bool) -> rusqlite::Result<Connection> {
    // SQLite follows a link at the last component; only a file or nothing may be there.
    if Stamp::at(root, INDEX.as_bytes()).is_ok_and(|stamp| stamp.kind != EntryKind::File) {
        return Err(rusqlite::Error::InvalidPath(INDEX.into()));
    }
    if writable {
        // SQLite would make it with the umask's mode. It is not opened where it is there: closing it
        // would give up the locks that another connection of this process has on it (`fcntl(2)`).
        let _ = create_new(root, INDEX);
    }
    let access = if writable {
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
    } else {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    };
    // SQLite knows paths only. Should the path lead elsewhere by now, what is there fits no journal.
    let path = format!("{}/{INDEX}", path_of(root));
    let mut connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    if writable {
        connection.pragma_update(None, "synchronous", "FULL")?;
        if version(&connection)? == 0 {
            make_tables(&mut connection)?;
        }
    }
    if version(&connection)? != VERSION {
        return Err(rusqlite::Error::InvalidQuery);
    }
    Ok(connection)
}

fn make_tables(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been first.
    if version(&transaction)? == 0 {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// A row's value, if it has the digest that stands beside it.
fn checked<T: for<'de> Deserialize<'de>>(value: &str, digest: &str) -> Option<T> {
    if Digest::of(value.as_bytes()).hex() != digest {
        return None;
    }
    serde_json::from_str(value).ok()
}

fn saved(connection: &Connection) -> rusqlite::Result<Option<Saved>> {
    let row = connection
        .query_row("SELECT value, digest FROM position", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })
        .optional()?;
    Ok(row.and_then(|(value, digest)| checked(&value, &digest)))
}

fn load(connection: &mut Connection, journal: &[u8]) -> rusqlite::Result<Option<State>> {
    // One transaction: a writer may come between two queries.
    let transaction = connection.transaction()?;
    let Some(saved) = saved(&transaction)? else { return Ok(None) };
    let Some(prefix) = usize::try_from(saved.offset).ok().and_then(|offset| journal.get(..offset)) else {
        return Ok(None);
    };
    let mut hasher = Hasher::default();
    hasher.update(prefix);
    if hasher.clone().finish() != saved.prefix {
        return Ok(None);
    }
    let Some(revisions) = revisions(&transaction)? else { return Ok(None) };
    if revisions.len() != saved.revisions {
        return Ok(None);
    }
    let Some(switches) = switches(&transaction)? else { return Ok(None) };
    if switches.len() != saved.switches {
        return Ok(None);
    }
    let position = Position { seq: saved.seq, offset: saved.offset, last: saved.last, prefix: hasher };
    Ok(Some(State::restore(position, revisions, switches)))
}

/// The rows of revisions in their order; none where one is not as it was written.
fn revisions(connection: &Connection) -> rusqlite::Result<Option<Vec<Revision>>> {
    let mut query = connection.prepare("SELECT value, digest FROM revision ORDER BY id, number")?;
    let mut rows = query.query([])?;
    let mut revisions: Vec<Revision> = Vec::new();
    while let Some(row) = rows.next()? {
        let (value, digest): (String, String) = (row.get(0)?, row.get(1)?);
        let Some(revision) = checked::<Revision>(&value, &digest) else { return Ok(None) };
        if revisions.last().is_some_and(|last| (&last.id, last.number) >= (&revision.id, revision.number)) {
            return Ok(None);
        }
        revisions.push(revision);
    }
    Ok(Some(revisions))
}

/// The rows of switches; none where one is not as it was written, or is not in its place.
fn switches(connection: &Connection) -> rusqlite::Result<Option<Vec<Switch>>> {
    let mut query = connection.prepare("SELECT id, scope, value, digest FROM switch")?;
    let mut rows = query.query([])?;
    let mut switches = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, scope): (String, String) = (row.get(0)?, row.get(1)?);
        let (value, digest): (String, String) = (row.get(2)?, row.get(3)?);
        let switch = checked::<Switch>(&value, &digest)
            .filter(|switch| switch.id.as_str() == id && to_text(&switch.scope) == scope);
        let Some(switch) = switch else { return Ok(None) };
        switches.push(switch);
    }
    Ok(Some(switches))
}

fn save(connection: &mut Connection, state: &State, listings: &[&Listing]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let changed = saved(&transaction)?.and_then(|saved| state.changed_since(saved.seq, saved.last));
    if let Some(ids) = changed {
        for id in ids {
            insert_revisions(&transaction, state.of(id))?;
            insert_switches(&transaction, state.switches().of(id))?;
        }
    } else {
        transaction.execute("DELETE FROM revision", [])?;
        insert_revisions(&transaction, state.all())?;
        transaction.execute("DELETE FROM switch", [])?;
        insert_switches(&transaction, state.switches().iter())?;
    }
    for listing in listings {
        insert_listing(&transaction, listing)?;
    }
    let position = &state.position;
    let value = to_text(&Saved {
        last: position.last,
        offset: position.offset,
        prefix: position.prefix.clone().finish(),
        revisions: state.all().count(),
        seq: position.seq,
        switches: state.switches().iter().count(),
    });
    transaction.execute("DELETE FROM position", [])?;
    let digest = Digest::of(value.as_bytes()).hex();
    transaction.execute("INSERT INTO position (value, digest) VALUES (?1, ?2)", [&value, &digest])?;
    transaction.commit()
}

fn to_text<T: Serialize>(value: &T) -> String {
    String::from_utf8(to_canonical_bytes(value)).expect("canonical JSON is UTF-8")
}

fn insert_revisions<'a>(
    transaction: &Transaction<'_>,
    revisions: impl IntoIterator<Item = &'a Revision>,
) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached(
        "INSERT OR REPLACE INTO revision (id, number, value, digest) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for revision in revisions {
        let value = to_text(revision);
        let digest = Digest::of(value.as_bytes()).hex();
        insert.execute(params![revision.id.as_str(), revision.number.get(), value, digest])?;
    }
    Ok(())
}

fn insert_switches<'a>(
    transaction: &Transaction<'_>,
    switches: impl IntoIterator<Item = &'a Switch>,
) -> rusqlite::Result<()> {
    let mut insert = transaction
        .prepare_cached("INSERT OR REPLACE INTO switch (id, scope, value, digest) VALUES (?1, ?2, ?3, ?4)")?;
    for switch in switches {
        let value = to_text(switch);
        let digest = Digest::of(value.as_bytes()).hex();
        insert.execute(params![switch.id.as_str(), to_text(&switch.scope), value, digest])?;
    }
    Ok(())
}

fn insert_listing(connection: &Connection, listing: &Listing) -> rusqlite::Result<()> {
    let text = listing.to_text();
    let package = Digest::of(text.as_bytes()).hex();
    connection
        .prepare_cached("INSERT OR REPLACE INTO listing (package, text) VALUES (?1, ?2)")?
        .execute([package, text])?;
    Ok(())
}
