//! Another root directory whose programs a sandbox has instead of this machine's.

use std::fs;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze_manifest::EntryKind;

use super::{kind_at, kind_of};
use crate::bind::Bind;
use crate::mount::Mount;

/// Entries that the sandbox makes itself.
const OWN: [&str; 5] = ["dev", "proc", "run", "sys", "tmp"];
/// Entries of which one is there where there are programs.
const PROGRAMS: [&str; 5] = ["bin", "nix", "opt", "sbin", "usr"];

/// A root directory, as an unpacked image is one, and what a sandbox sees of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rootfs {
    /// Where it is: absolute and canonical.
    pub path: Utf8PathBuf,
    /// Its entries: read-only binds and links.
    pub(crate) entries: Vec<Mount>,
    /// Where the sandbox sees those of them that are empty directories.
    pub(crate) empty: Vec<Utf8PathBuf>,
    /// Whether it has a regular file `/etc/resolv.conf` over which the host's can be mounted.
    pub(crate) has_resolver: bool,
}

/// Why a directory cannot be the root of a sandbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootfsError {
    /// It cannot be read.
    #[error("cannot read the root directory `{path}`")]
    Source {
        /// The directory, or what is in it.
        path: Utf8PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something on the way to it or in it has a name that is not UTF-8.
    #[error("the root directory `{path}` has an entry, or a path, that is not UTF-8")]
    NotUtf8 {
        /// The directory.
        path: Utf8PathBuf,
    },
    /// It is no directory.
    #[error("the root `{path}` is not a directory")]
    NotDirectory {
        /// What was named.
        path: Utf8PathBuf,
    },
    /// It holds no programs.
    #[error("the root directory `{path}` has no programs: there is none of {} in it", PROGRAMS.map(|name| format!("`{name}`")).join(", "))]
    Empty {
        /// The directory.
        path: Utf8PathBuf,
    },
    /// This program, the first process of every sandbox, could not be started there.
    #[error("this program needs `{loader}`, which the root directory `{path}` does not have")]
    Loader {
        /// The directory.
        path: Utf8PathBuf,
        /// The dynamic loader that this program was linked for.
        loader: String,
    },
}

impl RootfsError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Source { source, .. } if source.kind() == io::ErrorKind::NotFound => "rootfs-not-found",
            Self::Source { .. } => "rootfs-unreadable",
            Self::NotUtf8 { .. } => "path-not-utf8",
            Self::NotDirectory { .. } => "rootfs-not-a-directory",
            Self::Empty { .. } => "rootfs-empty",
            Self::Loader { .. } => "rootfs-loader",
        }
    }
}

impl Rootfs {
    /// Looks at a root directory, which may be named through links.
    ///
    /// Directories and regular files directly in it will be bound read-only, and links made again;
    /// left out is what the sandbox makes itself (`/dev`, `/proc`, `/run`, `/sys`, `/tmp`), and what
    /// is of another kind.
    ///
    /// # Errors
    /// [`RootfsError`].
    pub fn resolve(path: &Utf8Path) -> Result<Self, RootfsError> {
        let fail = |source| RootfsError::Source { path: path.to_owned(), source };
        let not_utf8 = || RootfsError::NotUtf8 { path: path.to_owned() };
        let canonical = fs::canonicalize(path).map_err(fail)?;
        let canonical = Utf8PathBuf::from_path_buf(canonical).map_err(|_| not_utf8())?;
        if !fs::metadata(&canonical).map_err(fail)?.is_dir() {
            return Err(RootfsError::NotDirectory { path: canonical });
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(&canonical).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name().into_string().map_err(|_| not_utf8())?;
            if !OWN.contains(&name.as_str()) {
                entries.extend(mount_of(&canonical.join(&name), &Utf8Path::new("/").join(&name))?);
            }
        }
        entries.sort_by(|a, b| target(a).cmp(target(b)));
        let has_program =
            |mount: &Mount| PROGRAMS.iter().any(|name| target(mount) == Utf8Path::new("/").join(name));
        if !entries.iter().any(has_program) {
            return Err(RootfsError::Empty { path: canonical });
        }
        #[cfg(target_os = "linux")]
        check_loader(&canonical)?;
        let etc = canonical.join("etc");
        let has_resolver = kind_at(&etc) == Some(EntryKind::Directory)
            && kind_at(&etc.join("resolv.conf")) == Some(EntryKind::File);
        let empty =
            entries.iter().filter(|mount| is_empty(mount)).map(target).map(Utf8Path::to_owned).collect();
        Ok(Self { path: canonical, entries, empty, has_resolver })
    }
}

/// Where the sandbox sees an entry.
fn target(mount: &Mount) -> &Utf8Path {
    match mount {
        Mount::Bind(bind) => &bind.target,
        Mount::Link { path, .. } => path,
        _ => Utf8Path::new("/"),
    }
}

/// Whether an entry is a directory in which there is nothing; of one that cannot be read, nobody knows.
fn is_empty(mount: &Mount) -> bool {
    let Mount::Bind(bind) = mount else { return false };
    bind.is_directory && fs::read_dir(&bind.source).is_ok_and(|mut entries| entries.next().is_none())
}

fn mount_of(source: &Utf8Path, target: &Utf8Path) -> Result<Option<Mount>, RootfsError> {
    use std::os::unix::fs::MetadataExt as _;
    let fail = |error| RootfsError::Source { path: source.to_owned(), source: error };
    let found = fs::symlink_metadata(source).map_err(fail)?;
    Ok(match kind_of(found.file_type()) {
        EntryKind::Link => {
            let to = fs::read_link(source).map_err(fail)?;
            let to = Utf8PathBuf::from_path_buf(to)
                .map_err(|_| RootfsError::NotUtf8 { path: source.to_owned() })?;
            Some(Mount::Link { path: target.to_owned(), to })
        }
        kind @ (EntryKind::Directory | EntryKind::File) => Some(Mount::Bind(Bind {
            source: source.to_owned(),
            target: target.to_owned(),
            writable: false,
            is_directory: kind == EntryKind::Directory,
            owner: (found.uid(), found.gid()),
        })),
        _ => None,
    })
}

/// Looks whether the root has the dynamic loader that this program needs, if it needs one.
#[cfg(target_os = "linux")]
fn check_loader(root: &Utf8Path) -> Result<(), RootfsError> {
    use std::os::unix::fs::FileExt as _;

    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

    let own = Utf8Path::new("/proc/self/exe");
    let needed = fs::File::open(own)
        .and_then(|file| crate::linux::elf::interpreter(&|bytes, at| file.read_exact_at(bytes, at)));
    let needed = needed.map_err(|source| RootfsError::Source { path: own.to_owned(), source })?;
    let Some(loader) = needed else { return Ok(()) };
    // As it will be looked for inside.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = openat(CWD, root.as_std_path(), flags | OFlags::DIRECTORY, Mode::empty())
        .and_then(|root| openat2(&root, loader.as_str(), flags, Mode::empty(), ResolveFlags::IN_ROOT));
    match found {
        Ok(_) => Ok(()),
        Err(_) => Err(RootfsError::Loader { path: root.to_owned(), loader }),
    }
}

/// Nothing of this program is started inside.
#[cfg(not(target_os = "linux"))]
fn check_loader(_: &Utf8Path) -> Result<(), RootfsError> {
    Ok(())
}
