//! Where the project begins that the caller works in.
//!
//! That is the nearest directory with a `.git`, a file or a directory, from the current one upwards; without
//! any, the current one. Somebody else may have put a `.git` into a directory above, `/tmp` say, to
//! make all below it their project. So a directory above counts only if it and its `.git` belong to the
//! caller, to root, or to whom the current directory belongs; one that does not ends the search.

use std::os::unix::fs::MetadataExt as _;
use std::{fs, io};

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze::store::{ProjectRoot, Scope};

use crate::context::canonical;
use crate::exit::Failure;

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
