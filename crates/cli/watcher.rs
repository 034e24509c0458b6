//! Being told of changes in the file system.
//!
//! The kernel tells of each directory that it is asked about (inotify); a call of [`Watcher::arm`] asks about
//! all that counts by now, and forgets the rest. It asks by path, and the kernel answers by inode: where
//! another directory has taken a path, the answer is another one, and that is how it is noticed.
//!
//! What is told is a reason to look and nothing else. Not everything is told: of a network's file
//! systems only what this machine does. So [`Watcher::wait`] also ends after a while without any news. Where
//! the kernel has no room for more watches, it ends every second, and the looking does it all.
//!
//! The crate `notify` is not used: it also reports what is merely opened, as each look does itself, keeps
//! what it was told of a path that has become another directory, and has no way to wait for the
//! reader of standard output at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, Event, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// After a change, nothing must happen for so long before it is looked at: what belongs together is over.
const QUIET: Duration = Duration::from_millis(150);
/// What goes on for longer is looked at all the same.
const LONGEST: Duration = Duration::from_secs(1);
/// How long to wait for news before looking without any.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where no news can come.
const INTERVAL: Duration = Duration::from_secs(1);
/// Room for some hundred events.
const BUFFER_BYTES: usize = 16 << 10;

/// The places of which changes count, by their directories.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places(BTreeMap<Utf8PathBuf, Entries>);

/// The entries of a directory that count.
#[derive(Debug, Clone)]
enum Entries {
    All,
    Named(BTreeSet<String>),
}

impl Entries {
    fn add(&mut self, other: Self) {
        match (self, other) {
            (Self::All, _) => {}
            (own, Self::All) => *own = Self::All,
            (Self::Named(own), Self::Named(other)) => own.extend(other),
        }
    }
}

impl Places {
    /// Counts everything in a directory, or a file itself.
    pub(crate) fn whole(&mut self, path: impl Into<Utf8PathBuf>) {
        self.add(path.into(), Entries::All);
    }

    /// Counts one entry of a directory, which need not be there.
    pub(crate) fn entry(&mut self, path: &Utf8Path) {
        if let (Some(directory), Some(name)) = (path.parent(), path.file_name()) {
            self.add(directory.to_owned(), Entries::Named([name.to_owned()].into()));
        }
    }

    /// Counts whatever could lead an absolute path elsewhere, or to something at last.
    pub(crate) fn way_to(&mut self, path: &Utf8Path) {
        for path in [Some(path), path.canonicalize_utf8().ok().as_deref()].into_iter().flatten() {
            path.ancestors().for_each(|path| self.entry(path));
        }
    }

    /// Counts what other places count too.
    pub(crate) fn extend(&mut self, other: &Self) {
        other.0.iter().for_each(|(path, entries)| self.add(path.clone(), entries.clone()));
    }

    fn add(&mut self, directory: Utf8PathBuf, entries: Entries) {
        self.0.entry(directory).or_insert_with(|| Entries::Named(BTreeSet::new())).add(entries);
    }
}

/// Why waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Something may have changed, or it is time to look.
    Look,
    /// Nobody reads standard output any more.
    NoReader,
}

/// Is told of changes, or wakes up every second.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// None where nothing is told.
    notices: Option<Notices>,
    /// How long to wait for news next time.
    patience: Duration,
}

impl Watcher {
    /// Asks for nothing yet.
    pub(crate) fn new() -> (Self, io::Result<()>) {
        let (notices, result) = match Notices::new() {
            Ok(notices) => (Some(notices), Ok(())),
            Err(error) => (None, Err(error)),
        };
        (Self { notices, patience: INTERVAL }, result)
    }

    /// Asks to be told of these places, and of no others.
    ///
    /// What is asked about for the first time may have changed just before: the next wait is a short one.
    ///
    /// # Errors
    /// What the system says where it has no room for so many; from then on the wait is always short.
    pub(crate) fn arm(&mut self, places: &Places) -> io::Result<()> {
        let Some(notices) = &mut self.notices else { return Ok(()) };
        match notices.ask(places) {
            Ok(has_new) => self.patience = if has_new { QUIET } else { PATIENCE },
            Err(error) => {
                (self.notices, self.patience) = (None, INTERVAL);
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Waits until something changed and then was quiet for a while, or it is time to look.
    pub(crate) fn wait(&mut self) -> io::Result<Woken> {
        let begun = Instant::now();
        let mut changed: Option<(Instant, Instant)> = None;
        loop {
            let until = match changed {
                Some((first, last)) => (first + LONGEST).min(last + QUIET),
                None => begun + self.patience,
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Woken::Look);
            }
            let (has_reader, has_news) = self.poll(left)?;
            if !has_reader {
                return Ok(Woken::NoReader);
            }
            if has_news && self.notices.as_mut().is_some_and(Notices::read) {
                let now = Instant::now();
                changed = Some((changed.map_or(now, |(first, _)| first), now));
            }
        }
    }

    /// Waits for news; tells whether standard output still has a reader, and whether there are any.
    fn poll(&self, timeout: Duration) -> io::Result<(bool, bool)> {
        let stdout = io::stdout();
        // What is not asked for, errors and the end, is told always.
        let mut descriptors = vec![PollFd::new(&stdout, PollFlags::empty())];
        if let Some(notices) = &self.notices {
            descriptors.push(PollFd::new(&notices.inotify, PollFlags::IN));
        }
        let timeout = Timespec::try_from(timeout).unwrap_or_default();
        match poll(&mut descriptors, Some(&timeout)) {
            Ok(_) => {
                let is_told = |index: usize| {
                    descriptors.get(index).is_some_and(|descriptor| !descriptor.revents().is_empty())
                };
                Ok((!is_told(0), is_told(1)))
            }
            Err(Errno::INTR) => Ok((true, false)),
            Err(error) => Err(error.into()),
        }
    }
}

/// What the kernel was asked about, and by what number it tells of it.
#[derive(Debug)]
struct Notices {
    inotify: OwnedFd,
    watched: BTreeMap<i32, Entries>,
}

impl Notices {
    fn new() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { inotify, watched: BTreeMap::new() })
    }

    /// Asks about these places alone; tells whether any of them was not asked about before.
    fn ask(&mut self, places: &Places) -> Result<bool, Errno> {
        // Never what is merely read: looking would be a reason to look.
        let wanted = WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MODIFY
            | WatchFlags::MOVE
            | WatchFlags::MOVE_SELF;
        let mut asked: BTreeMap<i32, Entries> = BTreeMap::new();
        // A directory comes before what is in it, so none can appear unnoticed in between.
        for (path, entries) in &places.0 {
            match inotify::add_watch(&self.inotify, path.as_str(), wanted) {
                Ok(number) => {
                    asked
                        .entry(number)
                        .or_insert_with(|| Entries::Named(BTreeSet::new()))
                        .add(entries.clone());
                }
                Err(error @ (Errno::NOSPC | Errno::NOMEM)) => return Err(error),
                // It is not there, or not for us to know of: where it is, that is told.
                Err(_) => {}
            }
        }
        let has_new = asked.keys().any(|number| !self.watched.contains_key(number));
        for number in self.watched.keys().filter(|number| !asked.contains_key(number)) {
            // It may be gone already.
            let _ = inotify::remove_watch(&self.inotify, *number);
        }
        self.watched = asked;
        Ok(has_new)
    }

    /// Reads some of what is told; whether any of it counts.
    fn read(&mut self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut counts = false;
        loop {
            match reader.next() {
                Ok(event) => counts |= is_counted(&mut self.watched, &event),
                // What cannot be read may be anything.
                Err(error) => return counts || error != Errno::AGAIN,
            }
            if reader.is_buffer_empty() {
                return counts;
            }
        }
    }
}

fn is_counted(watched: &mut BTreeMap<i32, Entries>, event: &Event<'_>) -> bool {
    if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
        return true;
    }
    let Some(entries) = watched.get(&event.wd()) else { return false };
    let is_counted = match (event.file_name(), entries) {
        (None, _) | (_, Entries::All) => true,
        (Some(name), Entries::Named(names)) => name.to_str().is_ok_and(|name| names.contains(name)),
    };
    if event.events().contains(ReadFlags::IGNORED) {
        watched.remove(&event.wd());
    }
    is_counted
}
