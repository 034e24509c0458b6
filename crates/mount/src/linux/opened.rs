//! Which files of the snapshot the command opened, as the kernel tells it (inotify).
//!
//! `main` makes the instance, and the first process inside asks it, right before it starts the command, to
//! tell of what is opened in each directory of the snapshot: from there alone the launch's private file
//! system can be named. Only that has files that nobody else opens; a snapshot that is bound is the host's,
//! and is not watched. The kernel tells of every open, also of a program that is executed, and says so where
//! it had no room to; what is not told is then not known.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use camino::Utf8Path;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use skillfreeze_manifest::Manifest;

use crate::record::OpenedRecord;
use crate::size::snapshot_directories;
use crate::status::Event;

/// Room for some hundred events.
const BUFFER_BYTES: usize = 16 << 10;

/// Asks to be told of what is opened in each of these directories below `root`; gives the numbers that the
/// kernel tells of them by, in their order, as far as it had room.
pub(crate) fn watch(notices: &OwnedFd, root: &Utf8Path, directories: &[String]) -> Vec<i32> {
    let watched = WatchFlags::OPEN | WatchFlags::ONLYDIR;
    let ask =
        |directory: &String| inotify::add_watch(notices, root.join(directory).as_std_path(), watched).ok();
    directories.iter().map_while(ask).collect()
}

/// What was opened so far.
#[derive(Debug)]
pub(crate) struct Opened {
    /// None where the kernel has no room for one more.
    notices: Option<OwnedFd>,
    /// All that should be watched.
    directories: Vec<String>,
    /// What is, by the kernel's numbers.
    watched: BTreeMap<i32, String>,
    files: BTreeSet<String>,
    /// Whether nothing that was opened can have gone untold.
    is_complete: bool,
}

impl Opened {
    /// Nothing is watched yet.
    pub(crate) fn new(manifest: &Manifest) -> Self {
        let notices = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        // Its root first.
        let mut directories = vec![String::new()];
        directories.extend(snapshot_directories(manifest));
        Self { notices, directories, watched: BTreeMap::new(), files: BTreeSet::new(), is_complete: false }
    }

    /// What the first process inside is to watch, by this instance; nothing where there is none.
    pub(crate) fn to_watch(&self) -> (&[String], Option<BorrowedFd<'_>>) {
        match &self.notices {
            Some(notices) => (&self.directories, Some(notices.as_fd())),
            None => (&[], None),
        }
    }

    /// Takes the numbers that [`watch`] gave.
    pub(crate) fn watching(&mut self, numbers: Vec<i32>) {
        self.is_complete = numbers.len() == self.directories.len();
        self.watched = numbers.into_iter().zip(self.directories.iter().cloned()).collect();
    }

    /// What becomes readable when something is opened; none once that is known no more.
    pub(crate) fn notices(&self) -> Option<&OwnedFd> {
        self.notices.as_ref()
    }

    /// Reads once what the kernel has to tell, and says what was not said before, if there is anything.
    pub(crate) fn read(&mut self) -> Option<Event> {
        let mut new = Vec::new();
        self.read_into(&mut new);
        (!new.is_empty()).then(|| self.event(new))
    }

    /// The same for all there is, to be said also when it is nothing: no more will follow.
    pub(crate) fn read_last(&mut self) -> Event {
        let mut new = Vec::new();
        while self.read_into(&mut new) {}
        self.event(new)
    }

    /// What the record says.
    pub(crate) fn record(&self) -> OpenedRecord {
        OpenedRecord { complete: self.is_complete, files: self.files.iter().cloned().collect() }
    }

    /// Is told nothing any more. The kernel takes some ten milliseconds to forget the watches, for which
    /// nobody needs to wait.
    pub(crate) fn close(&mut self) {
        let notices = self.notices.take();
        // Without a thread to be had, it is waited for.
        let _ = thread::Builder::new().spawn(move || drop(notices));
    }

    fn event(&self, mut files: Vec<String>) -> Event {
        files.sort();
        Event::Opened { files, complete: self.is_complete }
    }

    /// Reads once; whether there may be more.
    fn read_into(&mut self, new: &mut Vec<String>) -> bool {
        let Some(notices) = &self.notices else { return false };
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(notices, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => self.is_complete = false,
                Ok(event) if event.events().contains(ReadFlags::OPEN | ReadFlags::ISDIR) => {}
                Ok(event) if event.events().contains(ReadFlags::OPEN) => {
                    let name = event.file_name().and_then(|name| name.to_str().ok());
                    let Some((directory, name)) = self.watched.get(&event.wd()).zip(name) else { continue };
                    let separator = if directory.is_empty() { "" } else { "/" };
                    let path = format!("{directory}{separator}{name}");
                    if self.files.insert(path.clone()) {
                        new.push(path);
                    }
                }
                // A directory that goes with its file system.
                Ok(_) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => {
                    (self.notices, self.is_complete) = (None, false);
                    return false;
                }
            }
            if reader.is_buffer_empty() {
                return true;
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make and open what they watch")]
mod tests {
    use std::fs::{self, File};

    use skillfreeze_manifest::{Digest, FileEntry, Listing, PackageEntry};

    use super::*;

    fn manifest(paths: &[&str]) -> Manifest {
        let file = |path: &&str| {
            let digest = Digest::of(b"");
            FileEntry { path: path.parse().unwrap(), executable: false, size: 0, digest }
        };
        let listing = Listing::new(paths.iter().map(file).collect()).unwrap();
        Manifest::new(vec![PackageEntry::new("demo".parse().unwrap(), None, listing)]).unwrap()
    }

    fn said(event: &Event) -> (Vec<&str>, bool) {
        match event {
            Event::Opened { files, complete } => (files.iter().map(String::as_str).collect(), *complete),
            _ => panic!("{event:?}"),
        }
    }

    /// A snapshot's tree of empty files, all of it watched but for the last `left_out` directories.
    fn watched(left_out: usize) -> (tempfile::TempDir, Opened) {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("demo/a/b")).unwrap();
        let manifest = manifest(&["SKILL.md", "a/b/x", "a/y"]);
        for path in [".snapshot.json", "demo/SKILL.md", "demo/a/b/x", "demo/a/y"] {
            File::create(temp.path().join(path)).unwrap();
        }
        let mut opened = Opened::new(&manifest);
        let (directories, _) = opened.to_watch();
        assert_eq!(directories, ["", "demo", "demo/a", "demo/a/b"]);
        let directories = &directories[..directories.len() - left_out];
        let root = Utf8Path::from_path(temp.path()).unwrap();
        let numbers = watch(opened.notices().unwrap(), root, directories);
        opened.watching(numbers);
        (temp, opened)
    }

    #[test]
    fn files_are_told_once_and_directories_never() {
        let (temp, mut opened) = watched(0);
        let open = |path: &str| File::open(temp.path().join(path)).map(drop).unwrap();
        assert_eq!(opened.read(), None);
        for path in ["demo/a/y", "demo/SKILL.md", "demo/a/b", "", "demo/a/y"] {
            open(path);
        }
        assert_eq!(said(&opened.read().unwrap()), (vec!["demo/SKILL.md", "demo/a/y"], true));
        open("demo/a/y");
        assert_eq!(opened.read(), None);
        open(".snapshot.json");
        open("demo/a/b/x");
        assert_eq!(said(&opened.read_last()), (vec![".snapshot.json", "demo/a/b/x"], true));
        assert_eq!(said(&opened.read_last()), (vec![], true));
        let files = [".snapshot.json", "demo/SKILL.md", "demo/a/b/x", "demo/a/y"].map(str::to_owned);
        assert_eq!(opened.record(), OpenedRecord { complete: true, files: files.into() });
        // The directories going is not something opened.
        drop(temp);
        assert_eq!(said(&opened.read_last()), (vec![], true));
    }

    #[test]
    fn what_is_not_watched_is_not_said_to_be() {
        let (temp, mut opened) = watched(1);
        File::open(temp.path().join("demo/a/b/x")).unwrap();
        File::open(temp.path().join("demo/a/y")).unwrap();
        assert_eq!(said(&opened.read_last()), (vec!["demo/a/y"], false));
        opened.notices = None;
        assert!(opened.to_watch().0.is_empty() && opened.to_watch().1.is_none());
        assert_eq!((opened.read(), opened.record().complete), (None, false));
    }

    #[test]
    fn more_than_the_kernel_keeps_is_said_to_be_missing() {
        let (temp, mut opened) = watched(0);
        let kept = rustix::fs::open(
            "/proc/sys/fs/inotify/max_queued_events",
            rustix::fs::OFlags::RDONLY,
            rustix::fs::Mode::empty(),
        );
        let kept = std::io::read_to_string(File::from(kept.unwrap())).unwrap();
        // The same file twice in a row is one event.
        for _ in 0..kept.trim().parse::<usize>().unwrap() / 2 + 1 {
            File::open(temp.path().join("demo/a/y")).unwrap();
            File::open(temp.path().join("demo/SKILL.md")).unwrap();
        }
        assert_eq!(said(&opened.read_last()), (vec!["demo/SKILL.md", "demo/a/y"], false));
    }
}
