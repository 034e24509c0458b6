//! The journal: the append-only truth about a store.
//!
//! One canonical JSON object (RFC 8785) a line, each line ended by a newline:
//!
//! ```text
//! {"actor":…,"at":…,"change":…,"data":{…},"previous":"sha256:…","schema":"skillfreeze.journal.v1","seq":1}
//! ```
//!
//! `seq` counts from 1. `previous` is the digest of the line before without its newline, and of no
//! bytes at all in the first line, so the last line vouches for all lines. Changes: `added`,
//! `activated`, `archived` (an archive was lost or damaged and has been written anew), `enabled` and
//! `disabled` (the user's switch of an id). A change that this version does not know is refused as [`JournalError::Newer`], never skipped.
//!
//! Writers hold an exclusive lock on the file while they append, readers a shared one while they
//! read what is new. A last line without a newline was never acknowledged: readers pass over it,
//! the next writer cuts it off. Whatever else is malformed is [`JournalError::Corrupt`], and then
//! nothing is written.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

use cap_std::fs::Dir;
use rustix::fs::{fdatasync, ftruncate};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skillfreeze_manifest::{Digest, EntryKind, SkillId, Stamp, Version, open_file, to_canonical_bytes};

use crate::activation::Activated;
use crate::atomic::open_writable;
use crate::error::{IoFault, StoreError, failed};
use crate::lock::{Sharing, lock};
use crate::revision::{Origin, Revision, RevisionNumber};
use crate::scope::Scope;
use crate::state::State;
use crate::switch::{Switch, Switching};

/// The journal's name in the store.
pub(crate) const JOURNAL: &str = "journal";
const SCHEMA: &str = "skillfreeze.journal.v1";

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// A line is malformed, out of its place, or contradicts those before it.
    #[error("line {line} of the journal {reason}")]
    Corrupt {
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        reason: CorruptLine,
    },
    /// A newer version has written a line that this one does not understand.
    #[error("line {line} of the journal is of a newer version: `{found}` is unknown")]
    Newer {
        /// The line, counted from 1.
        line: u64,
        /// The schema or the change that is unknown.
        found: String,
    },
}

/// What is wrong with a journal's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CorruptLine {
    /// It is not a JSON object with a line's fields.
    #[error("is malformed")]
    Malformed,
    /// It is not in canonical form.
    #[error("is not in canonical form")]
    NotCanonical,
    /// Its `seq` is not its place.
    #[error("has a `seq` that is not its place")]
    Seq,
    /// Its `previous` is not the digest of the line before.
    #[error("does not name the digest of the line before")]
    Previous,
    /// The line after it names another digest.
    #[error("is not the line that the next one names")]
    Changed,
    /// It says something that cannot follow from the lines before.
    #[error("contradicts the lines before it")]
    Contradiction,
    /// The journal ends before a line that was there.
    #[error("is gone though it was there")]
    Gone,
}

impl JournalError {
    /// The stable code: `journal-corrupt` or `journal-newer`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Corrupt { .. } => "journal-corrupt",
            Self::Newer { .. } => "journal-newer",
        }
    }
}

/// A line as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    actor: String,
    at: String,
    change: String,
    data: Value,
    previous: Digest,
    schema: String,
    seq: u64,
}

/// A line as it is understood.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) actor: String,
    pub(crate) at: String,
    pub(crate) change: Change,
    pub(crate) seq: u64,
}

/// What a line says.
#[derive(Debug)]
pub(crate) enum Change {
    Added(Added),
    Activated(Activated),
    Archived(Archived),
    Enabled(Switching),
    Disabled(Switching),
}

/// The data of an `added` line: a package became a revision.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Added {
    pub(crate) archive: Digest,
    pub(crate) bytes: u64,
    pub(crate) digest: Digest,
    pub(crate) files: u64,
    pub(crate) id: SkillId,
    pub(crate) number: RevisionNumber,
    pub(crate) origin: Origin,
    pub(crate) scope: Scope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<Version>,
}

/// The data of an `archived` line: a package's archive was written anew.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Archived {
    pub(crate) archive: Digest,
    pub(crate) digest: Digest,
}

impl Added {
    /// The revision that the line makes.
    pub(crate) fn to_revision(&self, line: &Line) -> Revision {
        Revision {
            id: self.id.clone(),
            number: self.number,
            digest: self.digest,
            version: self.version.clone(),
            added_at: line.at.clone(),
            added_by: line.actor.clone(),
            origin: self.origin.clone(),
            active: false,
            files: self.files,
            bytes: self.bytes,
            archive: self.archive,
        }
    }
}

impl Switching {
    /// The switch that the line makes.
    pub(crate) fn to_switch(&self, line: &Line, on: bool) -> Switch {
        Switch {
            id: self.id.clone(),
            scope: self.scope.clone(),
            on,
            at: line.at.clone(),
            actor: line.actor.clone(),
        }
    }
}

impl Change {
    fn name(&self) -> &'static str {
        match self {
            Self::Added(_) => "added",
            Self::Activated(_) => "activated",
            Self::Archived(_) => "archived",
            Self::Enabled(_) => "enabled",
            Self::Disabled(_) => "disabled",
        }
    }

    fn to_data(&self) -> Value {
        let data = match self {
            Self::Added(data) => serde_json::to_value(data),
            Self::Activated(data) => serde_json::to_value(data),
            Self::Archived(data) => serde_json::to_value(data),
            Self::Enabled(data) | Self::Disabled(data) => serde_json::to_value(data),
        };
        data.expect("the changes' types have text keys and no other way to fail")
    }

    /// Reads the data of a change that this version knows; none where it knows no such change.
    fn parse(name: &str, data: Value) -> Option<serde_json::Result<Self>> {
        match name {
            "added" => Some(serde_json::from_value(data).map(Self::Added)),
            "activated" => Some(serde_json::from_value(data).map(Self::Activated)),
            "archived" => Some(serde_json::from_value(data).map(Self::Archived)),
            "enabled" => Some(serde_json::from_value(data).map(Self::Enabled)),
            "disabled" => Some(serde_json::from_value(data).map(Self::Disabled)),
            _ => None,
        }
    }
}

/// Reads the line after `state` and checks that it follows.
fn parse_line(state: &State, bytes: &[u8]) -> Result<Line, JournalError> {
    let number = state.position.seq + 1;
    let corrupt = |reason| JournalError::Corrupt { line: number, reason };
    let newer = |found| JournalError::Newer { line: number, found };
    let value: Value = serde_json::from_slice(bytes).map_err(|_| corrupt(CorruptLine::Malformed))?;
    // A duplicate key is lost in `value`, so the bytes are no longer its canonical form.
    if to_canonical_bytes(&value) != bytes {
        return Err(corrupt(CorruptLine::NotCanonical));
    }
    match value.get("schema") {
        Some(Value::String(schema)) if schema != SCHEMA => return Err(newer(schema.clone())),
        _ => {}
    }
    let written: Written = serde_json::from_value(value).map_err(|_| corrupt(CorruptLine::Malformed))?;
    if written.seq != number {
        return Err(corrupt(CorruptLine::Seq));
    }
    if written.previous != state.position.last {
        return Err(corrupt(CorruptLine::Previous));
    }
    let Written { actor, at, change: name, data, seq, .. } = written;
    match Change::parse(&name, data) {
        None => Err(newer(name)),
        Some(Err(_)) => Err(corrupt(CorruptLine::Malformed)),
        Some(Ok(change)) => Ok(Line { actor, at, change, seq }),
    }
}

/// Whether a line, which need not be understood, has the digest of the line before it.
fn follows(line: &[u8], before: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Link {
        previous: Digest,
    }
    serde_json::from_slice::<Link>(line).is_ok_and(|link| link.previous == Digest::of(before))
}

/// Takes in all whole lines of `bytes`, which follow `state`.
pub(crate) fn replay(state: &mut State, bytes: &[u8]) -> Result<(), JournalError> {
    let mut lines =
        bytes.split_inclusive(|byte| *byte == b'\n').map_while(|line| line.strip_suffix(b"\n")).peekable();
    while let Some(line) = lines.next() {
        let parsed = parse_line(state, line).map_err(|error| match lines.peek() {
            // What looks newer may be damage: the line after it knows.
            Some(next) if matches!(error, JournalError::Newer { .. }) && !follows(next, line) => {
                JournalError::Corrupt { line: state.position.seq + 1, reason: CorruptLine::Changed }
            }
            _ => error,
        })?;
        if !state.apply(&parsed, line) {
            let reason = CorruptLine::Contradiction;
            return Err(JournalError::Corrupt { line: parsed.seq, reason });
        }
    }
    Ok(())
}

/// Opens the journal for reading under a shared lock; none where there is no journal.
pub(crate) fn open_reader(root: &Dir) -> Result<Option<File>, IoFault> {
    let file = match open_file(root, JOURNAL) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", JOURNAL)(error)),
    };
    check_kind(&file)?;
    lock(&file, Sharing::Shared).map_err(failed("lock", JOURNAL))?;
    Ok(Some(file))
}

fn check_kind(file: &File) -> Result<u64, IoFault> {
    let stamp = Stamp::of(file).map_err(failed("look at", JOURNAL))?;
    if stamp.kind != EntryKind::File {
        let error = std::io::Error::from(std::io::ErrorKind::InvalidInput);
        return Err(failed("read", JOURNAL)(error));
    }
    Ok(stamp.size)
}

/// Reads all bytes from `offset` on.
pub(crate) fn read_from(mut file: &File, offset: u64) -> Result<Vec<u8>, IoFault> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(offset)).map_err(failed("read", JOURNAL))?;
    file.read_to_end(&mut bytes).map_err(failed("read", JOURNAL))?;
    Ok(bytes)
}

/// Brings `state` up to the end of the journal.
pub(crate) fn catch_up(state: &mut State, file: &File) -> Result<(), StoreError> {
    if check_kind(file)? < state.position.offset {
        let reason = CorruptLine::Gone;
        return Err(JournalError::Corrupt { line: state.position.seq, reason }.into());
    }
    Ok(replay(state, &read_from(file, state.position.offset)?)?)
}

/// The journal under its exclusive lock.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
}

impl Writer {
    /// Waits for the lock, brings `state` up to date and cuts off a torn last line.
    pub(crate) fn open(root: &Dir, state: &mut State) -> Result<Self, StoreError> {
        let file = open_writable(root, JOURNAL).map_err(failed("open", JOURNAL))?;
        check_kind(&file)?;
        lock(&file, Sharing::Exclusive).map_err(failed("lock", JOURNAL))?;
        catch_up(state, &file)?;
        if check_kind(&file)? > state.position.offset {
            ftruncate(&file, state.position.offset).map_err(failed("truncate", JOURNAL))?;
        }
        Ok(Self { file })
    }

    /// Appends the lines of a batch and makes them durable.
    ///
    /// After a crash the first few may be there; each is whole and true on its own.
    pub(crate) fn append(&mut self, batch: &Batch) -> Result<(), AppendError> {
        let written = self
            .file
            .seek(SeekFrom::Start(batch.start))
            .and_then(|_| self.file.write_all(&batch.lines))
            .and_then(|()| Ok(fdatasync(&self.file)?));
        written.map_err(|error| {
            let is_undone = ftruncate(&self.file, batch.start).is_ok();
            AppendError { fault: failed("append to", JOURNAL)(error), is_undone }
        })
    }
}

/// Why an append failed.
#[derive(Debug)]
pub(crate) struct AppendError {
    pub(crate) fault: IoFault,
    /// Whether none of the lines is there; else some may be, and are true.
    pub(crate) is_undone: bool,
}

/// Changes that are to be appended together.
#[derive(Debug)]
pub(crate) struct Batch {
    start: u64,
    lines: Vec<u8>,
    actor: String,
    at: String,
    /// The state after them.
    pub(crate) state: State,
}

impl Batch {
    /// Begins a batch that follows `state`.
    pub(crate) fn new(state: State, actor: &str, at: String) -> Self {
        Self { start: state.position.offset, lines: Vec::new(), actor: actor.to_owned(), at, state }
    }

    /// Whether there is nothing to append.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Adds one change.
    pub(crate) fn push(&mut self, change: Change) {
        let line =
            Line { actor: self.actor.clone(), at: self.at.clone(), change, seq: self.state.position.seq + 1 };
        let bytes = to_canonical_bytes(&Written {
            actor: line.actor.clone(),
            at: line.at.clone(),
            change: line.change.name().to_owned(),
            data: line.change.to_data(),
            previous: self.state.position.last,
            schema: SCHEMA.to_owned(),
            seq: line.seq,
        });
        let applied = self.state.apply(&line, &bytes);
        debug_assert!(applied, "a change is made from the state that it follows");
        self.lines.extend_from_slice(&bytes);
        self.lines.push(b'\n');
    }
}
