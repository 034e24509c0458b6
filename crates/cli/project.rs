//! Where the project begins that the caller works in.
//!
//! That is the nearest directory with a `.git`, a file or a directory, from the current one upwards; without
//! any, the current one. Somebody else may have put a `.git` into a directory above, `/tmp` say, to
//! make all below it their project. So a directory above counts only if it and its `.git` belong to the
//! caller, to root, or to whom the current directory belongs; one that does not ends the search.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use rustix::fs::OFlags;
use skillfreeze::catalog;
use skillfreeze::store::{ProjectRoot, Scope};

use crate::context::canonical;
use crate::exit::Failure;

/// The mode of a directory like `/tmp`.
const SHARED: u32 = 0o1002;

/// The project that a directory belongs to.
#[derive(Debug)]
pub(crate) struct Project {
    root: ProjectRoot,
    /// What ended the search because it is somebody else's.
    untrusted: Option<Owned>,
}

/// A directory with a `.git`, or that `.git`, and whose it is.
#[derive(Debug)]
struct Owned {
    path: Utf8PathBuf,
    owner: u32,
}

impl Project {
    /// The project of the current directory.
    pub(crate) fn current() -> Result<Self, Failure> {
        Self::find(&canonical(Utf8Path::new("."))?)
    }

    /// The project of `cwd`, a canonical path.
    pub(crate) fn find(cwd: &Utf8Path) -> Result<Self, Failure> {
        let failed = |error| Failure::io(format_args!("cannot look at `{cwd}`"), &error);
        let trusted = [rustix::process::geteuid().as_raw(), 0, fs::metadata(cwd).map_err(failed)?.uid()];
        let (mut root, mut untrusted) = (cwd, None);
        for directory in cwd.ancestors() {
            // Links in a circle, say: whatever it is, what is above it is not the nearest.
            let Ok(owners) = owners_with_git(directory) else { break };
            let Some(owners) = owners else { continue };
            if directory != cwd {
                untrusted = owners.into_iter().find(|owned| !trusted.contains(&owned.owner));
            }
            if untrusted.is_none() {
                root = directory;
            }
            break;
        }
        let root = ProjectRoot::try_from(root.to_owned()).map_err(|error| Failure::of("io", &error))?;
        Ok(Self { root, untrusted })
    }

    /// Its directory, canonical.
    pub(crate) fn root(&self) -> &Utf8Path {
        self.root.as_path()
    }

    /// What the store keeps under its name.
    pub(crate) fn store_key(&self) -> ProjectRoot {
        self.root.clone()
    }

    /// Opens a directory of the project, which no link leads out of, and on the way to which nobody can put
    /// anything but those who may say what the project's skills are.
    pub(crate) fn open_dir(&self, path: &Utf8Path) -> io::Result<Dir> {
        let dir = self.dir()?.open_dir(path).map_err(|error| leads_out(path, error))?;
        self.check_way(path, &dir)?;
        Ok(dir)
    }

    /// Opens a file of the project under the same conditions, without waiting for the other end of a pipe.
    pub(crate) fn open_file(&self, path: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let path = Utf8Path::new(path);
        let file = self.dir()?.open_with(path, &options).map_err(|error| leads_out(path, error))?;
        self.check_way(path, &file)?;
        Ok(file.into_std())
    }

    fn dir(&self) -> io::Result<Dir> {
        Dir::open_ambient_dir(self.root(), ambient_authority())
    }

    /// Looks at every link and directory on the way to something that was opened, and at that itself: in a
    /// directory that everybody may write, `/tmp` say, anybody can leave skills for whoever works there.
    fn check_way(&self, path: &Utf8Path, opened: &impl AsRawFd) -> io::Result<()> {
        let real = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()))?;
        let real = Utf8PathBuf::from_path_buf(real).map_err(|_| io::ErrorKind::InvalidFilename)?;
        let spelled = self.root().join(path);
        for place in [&spelled, &real].into_iter().flat_map(|path| path.ancestors()) {
            if place != self.root() && place.starts_with(self.root()) {
                self.check_owner(place)?;
            }
        }
        Ok(())
    }

    fn check_owner(&self, place: &Utf8Path) -> io::Result<()> {
        let found = fs::symlink_metadata(place)?;
        let trusted = [rustix::process::geteuid().as_raw(), 0, fs::metadata(self.root())?.uid()];
        let owner = found.uid();
        let place = place.strip_prefix(self.root()).unwrap_or(place);
        if !trusted.contains(&owner) {
            return Err(io::Error::other(format!(
                "`{place}` belongs to user {owner}, neither to the project's owner nor to you"
            )));
        }
        // Sticky and everybody's is what is meant to be shared. Without the bit it may only look so, as
        // where the file system knows no modes.
        if found.is_dir() && found.mode() & SHARED == SHARED {
            return Err(io::Error::other(format!("everybody may leave files in `{place}`")));
        }
        Ok(())
    }

    /// The scope of the sources that it has.
    pub(crate) fn source_scope(&self) -> catalog::Scope {
        // Both are canonical paths.
        self.root().as_str().parse().map_or(catalog::Scope::Session, catalog::Scope::Project)
    }

    /// The scope of what is said of this project.
    pub(crate) fn scope(&self) -> Scope {
        Scope::Project(self.root.clone())
    }

    /// What to tell the caller who might expect another root.
    pub(crate) fn warning(&self) -> Option<String> {
        let Owned { path, owner } = self.untrusted.as_ref()?;
        Some(format!(
            "`{path}` belongs to user {owner}: the project is taken to begin at `{}`",
            self.root.as_path()
        ))
    }
}

/// Tells a link that leads out of the project from a file that may not be read.
fn leads_out(path: &Utf8Path, error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
        return io::Error::other(format!("`{path}` leads out of the project"));
    }
    error
}

/// Whose a directory and its `.git` are, if it has one: a file, a directory, or a link to one, which is
/// whose the link is.
fn owners_with_git(directory: &Utf8Path) -> io::Result<Option<[Owned; 2]>> {
    let git = directory.join(".git");
    match fs::metadata(&git) {
        Ok(metadata) if metadata.is_dir() || metadata.is_file() => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let owner = fs::metadata(directory)?.uid();
    let owner_of_git = fs::symlink_metadata(&git)?.uid();
    Ok(Some([Owned { path: directory.to_owned(), owner }, Owned { path: git, owner: owner_of_git }]))
}
