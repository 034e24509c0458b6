//! Scanning one source, level by level, and looking once more before anything of it is returned.
//!
//! Every entry is examined on its own, in parallel, and a fault is that entry's alone; the results do
//! not depend on timing or on the order in which a file system lists its entries. A list is never
//! truncated: over the limit the scan fails with the count.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cap_std::fs::Dir;
use skillfreeze_manifest::{Diagnostic, Form, Limits, Progress, Severity, Silent, Stamp, for_each};

use crate::collection::{self, COLLECTION_FILE, Collection};
use crate::found::{Found, LeftOut};
use crate::root_path::RootPath;
use crate::route::{Reach, Seen};
use crate::skill_file::is_of_machine;
use crate::source::{Layout, Source};
use crate::walk::{Above, Lead, Listed, Outcome, Walk, list};

/// The most entries of a source unless configured: the largest public collections have some 1,000.
pub const MAX_PACKAGES: usize = 4096;

/// How to scan.
#[derive(Clone, Copy)]
pub struct ScanOptions<'a> {
    /// Limits on each package; `skill_bytes` and `front_matter_bytes` count here.
    pub limits: Limits,
    /// The most entries of each source in the directories that are searched, packages or not.
    pub max_packages: usize,
    /// Is told of each entry that was examined.
    pub progress: &'a dyn Progress,
    /// Stops the scan once it is set. The scan returns when all that it had begun is done.
    pub cancel: Option<&'a AtomicBool>,
}

impl Default for ScanOptions<'_> {
    fn default() -> Self {
        Self { limits: Limits::DEFAULT, max_packages: MAX_PACKAGES, progress: &Silent, cancel: None }
    }
}

impl ScanOptions<'_> {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }
}

/// Why a scan gives no catalog.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// A required source is not there, or one that is there may not be read.
    #[error("cannot read the source `{}` at `{}`", .id.escape_debug(), .path.as_str().escape_debug())]
    Root {
        /// The source's id.
        id: String,
        /// The source's path.
        path: RootPath,
        /// What the system says.
        #[source]
        cause: io::Error,
    },
    /// A required source holds nothing that could be used as a whole.
    #[error("the source `{}` cannot be used: {fault}", .id.escape_debug())]
    Unusable {
        /// The source's id.
        id: String,
        /// Why.
        fault: Diagnostic,
    },
    /// A source has too many entries.
    #[error("the source `{}` has {actual} entries, more than {limit}", .id.escape_debug())]
    Entries {
        /// The source's id.
        id: String,
        /// How many were counted, of whatever kind.
        actual: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The machine has no more descriptors or memory, or cannot read its disk.
    #[error("cannot scan the source `{}`", .id.escape_debug())]
    Machine {
        /// The source's id.
        id: String,
        /// What could not be done.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A source changed as often as it was read.
    #[error("the source `{}` changes while it is read, at `{}`", .id.escape_debug(), .path.escape_debug())]
    Changing {
        /// The source's id.
        id: String,
        /// What was not the same before and after.
        path: String,
    },
    /// The scan was cancelled.
    #[error("the scan was cancelled")]
    Cancelled,
}

impl ScanError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Root { cause, .. } => root_code(cause.kind()),
            Self::Unusable { fault, .. } => fault.code,
            Self::Entries { .. } => "scan-limit",
            Self::Machine { .. } => "io",
            Self::Changing { .. } => "catalog-stale",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The code of what keeps a root from being read.
fn root_code(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => "root-absent",
        io::ErrorKind::NotADirectory => "root-not-a-directory",
        io::ErrorKind::PermissionDenied => "root-unreadable",
        _ => "root-failed",
    }
}

/// What a scan found in one source.
#[derive(Debug, Clone)]
pub(crate) struct Scanned {
    pub(crate) root: Root,
    pub(crate) packages: Vec<Found>,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) collections: Vec<Collection>,
    /// Directories that were listed, the root apart, and the files that make collections of them.
    pub(crate) routes: Vec<(String, Seen)>,
}

/// A source's root.
#[derive(Debug, Clone)]
pub(crate) enum Root {
    Open {
        dir: Arc<Dir>,
        stamp: Stamp,
    },
    /// It cannot be used, and is not required; it has a state where it could be opened.
    Failed {
        stamp: Option<Stamp>,
        fault: Diagnostic,
    },
}

impl Scanned {
    fn failed(stamp: Option<Stamp>, fault: Diagnostic) -> Self {
        Self::empty(Root::Failed { stamp, fault })
    }

    fn empty(root: Root) -> Self {
        Self { root, packages: Vec::new(), left_out: Vec::new(), collections: Vec::new(), routes: Vec::new() }
    }

    /// Says what is not as it was when it was read, if anything.
    pub(crate) fn changed(&self, source: &dyn Source) -> Option<String> {
        let opened = source.open().and_then(|dir| Ok((Stamp::of(&dir)?, dir)));
        let now = match (opened, &self.root) {
            (Ok((now, dir)), Root::Open { stamp, .. }) if now == *stamp => dir,
            (Ok((now, _)), Root::Failed { stamp: Some(stamp), .. }) if now == *stamp => return None,
            (Err(_), Root::Failed { stamp: None, .. }) => return None,
            // Not being able to look is no change: what was scanned is as true as it was.
            (Err(error), Root::Open { dir, .. }) if is_of_machine(&error) => match dir.try_clone() {
                Ok(dir) => dir,
                Err(_) => return None,
            },
            _ => return Some(".".to_owned()),
        };
        let listed = self.routes.iter().map(|(path, seen)| (path.as_str(), seen));
        let packages = self.packages.iter().map(|found| (found.directory.as_str(), &found.seen));
        let left_out = self.left_out.iter().map(|left| (left.route.as_str(), &left.seen));
        let routes: Vec<_> = listed.chain(packages).chain(left_out).collect();
        let current = for_each(routes.len(), |index| routes[index].1.is_current(&now, routes[index].0));
        current.iter().position(|is_current| !is_current).map(|index| routes[index].0.to_owned())
    }
}

/// What a failure of a root amounts to: an error where the source is required, or where it is there
/// and kept from us.
fn fail(source: &dyn Source, stamp: Option<Stamp>, cause: io::Error) -> Result<Scanned, ScanError> {
    let definition = source.definition();
    if definition.is_needed() || cause.kind() == io::ErrorKind::PermissionDenied || is_of_machine(&cause) {
        let (id, path) = (definition.id.clone(), definition.path.clone());
        return Err(ScanError::Root { id, path, cause });
    }
    let message = format!("`{}`: {cause}", definition.path.as_str().escape_debug());
    let fault = Diagnostic::new(Severity::Warning, root_code(cause.kind()), message);
    Ok(Scanned::failed(stamp, fault))
}

/// What a source amounts to whose materializer failed.
pub(crate) fn unfilled(source: &dyn Source, cause: &io::Error) -> Result<Scanned, ScanError> {
    let definition = source.definition();
    let fault = Diagnostic::new(
        Severity::Warning,
        "materializer-failed",
        format!("`{}`: its materializer failed: {cause}", definition.path.as_str().escape_debug()),
    );
    if definition.is_needed() {
        return Err(ScanError::Unusable { id: definition.id.clone(), fault });
    }
    Ok(Scanned::failed(None, fault))
}

/// Scans a source. What changed meanwhile is for the caller to find out.
pub(crate) fn scan(source: &dyn Source, options: &ScanOptions<'_>) -> Result<Scanned, ScanError> {
    let definition = source.definition();
    let too_many =
        |actual| ScanError::Entries { id: definition.id.clone(), actual, limit: options.max_packages };
    let opened = source.open().and_then(|dir| Ok((Stamp::of(&dir)?, dir)));
    let (stamp, dir) = match opened {
        Ok(opened) => opened,
        Err(cause) => return fail(source, None, cause),
    };
    let mut entries = 0;
    let dir = Arc::new(dir);
    let mut scanned = Scanned::empty(Root::Open { dir: Arc::clone(&dir), stamp });
    let mut leads = match first_leads(source, &dir, options.max_packages) {
        Ok(First::Leads { leads, entries: listed, collection }) => {
            entries += listed;
            if let Some((collection, seen)) = collection.map(|found| *found) {
                scanned.routes.push((COLLECTION_FILE.to_owned(), seen));
                scanned.collections.push(collection);
            }
            leads
        }
        Ok(First::TooMany(count)) => return Err(too_many(count)),
        Ok(First::Unusable(fault)) if definition.is_needed() => {
            return Err(ScanError::Unusable { id: definition.id.clone(), fault });
        }
        Ok(First::Unusable(fault)) => return Ok(Scanned::failed(Some(stamp), fault)),
        Err(cause) => return fail(source, Some(stamp), cause),
    };
    let link_roots = source.link_roots();
    let walk = Walk {
        link_roots: &link_roots,
        source,
        root: &dir,
        limits: &options.limits,
        max_entries: options.max_packages,
    };
    while !leads.is_empty() {
        if entries > options.max_packages {
            return Err(too_many(entries));
        }
        options.progress.begin("scan", leads.len());
        let outcomes = for_each(leads.len(), |index| {
            let outcome = if options.is_cancelled() { Outcome::Nothing } else { walk.examine(&leads[index]) };
            options.progress.advance();
            outcome
        });
        if options.is_cancelled() {
            return Err(ScanError::Cancelled);
        }
        leads = Vec::new();
        for outcome in outcomes {
            match outcome {
                Outcome::Package(found) => scanned.packages.push(*found),
                Outcome::LeftOut(left) => scanned.left_out.push(left),
                Outcome::Category { collection, leads: more, entries: listed, path, seen } => {
                    entries += listed;
                    leads.extend(more);
                    scanned.collections.extend(collection);
                    scanned.routes.push((path, seen));
                }
                Outcome::TooMany(count) => return Err(too_many(entries + count)),
                Outcome::Machine(source) => {
                    let (id, source) = (definition.id.clone(), Box::new(source));
                    return Err(ScanError::Machine { id, source });
                }
                Outcome::Nothing => {}
            }
        }
    }
    if entries > options.max_packages {
        return Err(too_many(entries));
    }
    scanned.packages.sort_by(|first, second| first.directory.as_bytes().cmp(second.directory.as_bytes()));
    collection::refuse_clashes(&mut scanned.packages, &mut scanned.left_out, &mut scanned.collections);
    Ok(scanned)
}

/// What a root's layout makes of its own entries.
enum First {
    Leads { leads: Vec<Lead>, entries: usize, collection: Option<Box<(Collection, Seen)>> },
    TooMany(usize),
    Unusable(Diagnostic),
}

fn first_leads(source: &dyn Source, dir: &Dir, limit: usize) -> io::Result<First> {
    let (depth, form) = match source.definition().layout {
        Layout::Package => {
            let (path, kind) = (".".to_owned(), skillfreeze_manifest::EntryKind::Directory);
            let lead = Lead { path, kind, is_utf8: true, depth: 0, collection: None, form: Form::Directory };
            return Ok(First::Leads { leads: vec![lead], entries: 1, collection: None });
        }
        Layout::Children => (1, Form::Directory),
        Layout::Flat => (1, Form::File),
        Layout::Nested(depth) | Layout::Collection(depth) => (depth, Form::Directory),
    };
    let above = Above { path: ".", depth: depth.saturating_sub(1), collection: None, form };
    let Listed { mut leads, entries, has_collection_file } = match list(dir, &above, limit)? {
        Ok(listed) => listed,
        Err(count) => return Ok(First::TooMany(count)),
    };
    if !matches!(source.definition().layout, Layout::Collection(_)) {
        return Ok(First::Leads { leads, entries, collection: None });
    }
    if !has_collection_file {
        let message = format!("`{}` has no `{COLLECTION_FILE}`", source.definition().path);
        return Ok(First::Unusable(Diagnostic::new(Severity::Warning, "collection-missing", message)));
    }
    // Before it is read, so that a later edit is seen.
    let seen = Seen::entry(dir, COLLECTION_FILE, Reach::Within);
    match collection::read(dir) {
        Err(fault) => Ok(First::Unusable(fault)),
        Ok((id, prompt)) => {
            leads.iter_mut().for_each(|lead| lead.collection = Some(id.clone()));
            let collection = Collection { id, prompt, source: 0, directory: ".".to_owned() };
            let collection = Some(Box::new((collection, seen)));
            Ok(First::Leads { leads, entries, collection })
        }
    }
}
