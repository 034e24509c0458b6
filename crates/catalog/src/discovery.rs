//! Walking the sources: each direct child of a root is a package, left out, or nothing.
//!
//! Every package is read on its own, in parallel, and a fault is that package's alone; the results
//! do not depend on timing or on the order in which a file system lists its entries. A list is
//! never truncated: over the limit the scan fails with the count.

use std::io;

use camino::Utf8PathBuf;
use rustix::fs::{AtFlags, FileType, readlinkat, statat};
use skillfreeze_manifest::{
    Diagnostic, Entry, EntryKind, Limits, Progress, Severity, Silent, escape_bytes, for_each, list_dir_up_to,
};

use crate::conflict::{Catalog, Found, LeftOut};
use crate::frontmatter::{ParseOptions, parse_front_matter};
use crate::skill_file::read_skill_file;
use crate::source::{Layout, Source};

/// The most packages of a scan unless configured: the largest public collections have some 1,000.
pub const MAX_PACKAGES: usize = 4096;

/// How many entries a source may have for each package; files and the like may lie about in it.
const ENTRIES_PER_PACKAGE: usize = 16;

/// How to scan.
#[derive(Clone, Copy)]
pub struct ScanOptions<'a> {
    /// Limits on each package; `skill_bytes` and `front_matter_bytes` count here.
    pub limits: Limits,
    /// The most candidates, directories and links to them, in all sources together.
    pub max_packages: usize,
    /// Is told of each candidate that is done.
    pub progress: &'a dyn Progress,
}

impl Default for ScanOptions<'_> {
    fn default() -> Self {
        Self { limits: Limits::DEFAULT, max_packages: MAX_PACKAGES, progress: &Silent }
    }
}

/// Why a scan gives no catalog.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// Two sources have one id.
    #[error("two sources have the id `{}`", .id.escape_debug())]
    DuplicateSource {
        /// The id.
        id: String,
    },
    /// A source's directory cannot be listed.
    #[error("cannot list the source `{}` at `{path}`", .id.escape_debug())]
    List {
        /// The source's id.
        id: String,
        /// The source's path.
        path: Utf8PathBuf,
        /// What the system says.
        #[source]
        cause: io::Error,
    },
    /// A source has too many entries, of whatever kind.
    #[error("the source `{}` has more than {limit} entries", .id.escape_debug())]
    Entries {
        /// The source's id.
        id: String,
        /// How many there may be.
        limit: usize,
    },
    /// The sources together have too many directories.
    #[error("the sources have {actual} directories, more than {limit}")]
    Limit {
        /// How many there are.
        actual: usize,
        /// How many there may be.
        limit: usize,
    },
}

impl ScanError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::DuplicateSource { .. } => "source-twice",
            Self::List { cause, .. } if cause.kind() == io::ErrorKind::NotADirectory => {
                "root-not-a-directory"
            }
            Self::List { .. } => "root-unreadable",
            Self::Entries { .. } | Self::Limit { .. } => "scan-limit",
        }
    }
}

impl Catalog {
    /// Scans the sources, the first of which wins where two hold the same id.
    ///
    /// # Errors
    /// [`ScanError`] when a source cannot be listed, or there is too much; never for a package's
    /// fault.
    pub fn scan(sources: Vec<Source>, options: &ScanOptions<'_>) -> Result<Self, ScanError> {
        for (index, source) in sources.iter().enumerate() {
            if sources[..index].iter().any(|earlier| earlier.id == source.id) {
                return Err(ScanError::DuplicateSource { id: source.id.clone() });
            }
        }
        let mut candidates = Vec::new();
        for (index, source) in sources.iter().enumerate() {
            let limit = options.max_packages.saturating_mul(ENTRIES_PER_PACKAGE);
            let entries = list_candidates(source, limit).map_err(|cause| ScanError::List {
                id: source.id.clone(),
                path: source.path.clone(),
                cause,
            })?;
            let entries = entries.ok_or_else(|| ScanError::Entries { id: source.id.clone(), limit })?;
            candidates.extend(entries.into_iter().map(|entry| (index, entry)));
        }
        if candidates.len() > options.max_packages {
            return Err(ScanError::Limit { actual: candidates.len(), limit: options.max_packages });
        }

        options.progress.begin("scan", candidates.len());
        let examined = for_each(candidates.len(), |index| {
            let (source, entry) = &candidates[index];
            let result = examine(&sources[*source], *source, entry, &options.limits);
            options.progress.advance();
            result
        });
        let mut found = Vec::new();
        let mut left_out = Vec::new();
        for result in examined {
            match result {
                Ok(package) => found.push(package),
                Err(package) => left_out.push(package),
            }
        }
        Ok(Self::resolve(sources, found, left_out))
    }
}

/// The entries of a source that might be packages, by name in byte order; none where it has more than
/// `limit` of any kind.
///
/// What else lies about in a root is none of our business: files, dot entries such as `.git` and
/// `.venv`, and the dependencies that package managers unpack beside.
fn list_candidates(source: &Source, limit: usize) -> io::Result<Option<Vec<Entry>>> {
    if source.layout == Layout::Package {
        return Ok(Some(vec![Entry { name: b".".to_vec(), kind: EntryKind::Directory }]));
    }
    let mut entries = list_dir_up_to(&source.root, limit)?;
    if entries.len() > limit {
        return Ok(None);
    }
    entries.retain(|entry| {
        !entry.name.starts_with(b".")
            && entry.name != b"node_modules"
            && match entry.kind {
                EntryKind::Directory => true,
                EntryKind::Link => !leads_to_a_file(source, &entry.name),
                _ => false,
            }
    });
    entries.sort_unstable_by(|first, second| first.name.cmp(&second.name));
    Ok(Some(entries))
}

/// Whether a link leads to what would be ignored without it; the one look through a link.
fn leads_to_a_file(source: &Source, name: &[u8]) -> bool {
    statat(&source.root, name, AtFlags::empty())
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::Directory)
}

fn examine(source: &Source, index: usize, entry: &Entry, limits: &Limits) -> Result<Found, LeftOut> {
    let leave_out = |diagnostics| LeftOut {
        source: index,
        directory: escape_bytes(&entry.name),
        id: None,
        diagnostics,
        shadowed_by: None,
    };
    if entry.kind == EntryKind::Link {
        return Err(leave_out(vec![refuse_link(source, &entry.name)]));
    }
    let Ok(name) = str::from_utf8(&entry.name) else {
        let message = format!("the directory's name `{}` is not UTF-8", escape_bytes(&entry.name));
        return Err(leave_out(vec![Diagnostic::new(Severity::Error, "path-not-utf8", message)]));
    };
    let bytes =
        read_skill_file(&source.root, name, limits).map_err(|error| leave_out(vec![error.diagnostic()]))?;
    let own_name = match source.layout {
        Layout::Children => Some(name),
        Layout::Package => source.path.file_name(),
    };
    let options = ParseOptions { limits: *limits, ..ParseOptions::of(own_name) };
    let front_matter = parse_front_matter(&bytes, &options).map_err(leave_out)?;
    Ok(Found {
        id: front_matter.id,
        name: front_matter.name,
        description: front_matter.description,
        version: front_matter.version,
        source: index,
        directory: name.to_owned(),
        diagnostics: front_matter.diagnostics,
        shadowed_by: None,
    })
}

fn refuse_link(source: &Source, name: &[u8]) -> Diagnostic {
    match readlinkat(&source.root, name, Vec::new()) {
        Ok(target) => {
            let message =
                format!("a link to `{}`; the source does not allow links", escape_bytes(target.to_bytes()));
            Diagnostic::new(Severity::Error, "symlink-not-allowed", message)
                .hint("name the directory that it leads to as a source, or copy it")
        }
        Err(error) => {
            let message = format!("the link was removed or replaced while the source was read: {error}");
            Diagnostic::new(Severity::Error, "vanished", message)
        }
    }
}
