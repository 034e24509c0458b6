//! What every command works with: the store, the sources, the clock.

use std::cell::Cell;
use std::env;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use skillfreeze::Digest;
use skillfreeze::manifest::REVISION_HEX;
use skillfreeze::store::{Author, Store, StoreError};

use crate::args::Global;
use crate::exit::{Failure, USAGE};
use crate::output::Output;
use crate::progress::Bar;
use crate::project::Project;
use crate::users;

/// What every command works with.
#[derive(Debug)]
pub(crate) struct Context {
    global: Global,
    /// What is worth saying of the project is said once.
    is_warned: Cell<bool>,
}

impl Context {
    pub(crate) fn new(global: Global) -> Self {
        Self { global, is_warned: Cell::new(false) }
    }

    pub(crate) fn output(&self) -> Output {
        Output::new(&self.global)
    }

    /// A bar for the command's long parts.
    pub(crate) fn progress(&self) -> Bar {
        Bar::new(self.output().shows_progress())
    }

    /// Where the store is.
    pub(crate) fn root(&self) -> Result<Utf8PathBuf, Failure> {
        if let Some(root) = &self.global.root {
            return absolute(root);
        }
        let named =
            |name: &str| env::var(name).ok().filter(|value| value.starts_with('/')).map(Utf8PathBuf::from);
        let state = named("XDG_STATE_HOME").or_else(|| named("HOME").map(|home| home.join(".local/state")));
        let missing = || {
            Failure::usage("neither HOME nor XDG_STATE_HOME says where the store is")
                .hint("name it with `--root`")
        };
        Ok(state.ok_or_else(missing)?.join("skillfreeze"))
    }

    /// Opens the store for writing, making it if there is none.
    pub(crate) fn store(&self) -> Result<Store, Failure> {
        let root = self.root()?;
        let failed = |error: io::Error| {
            let code = if error.kind() == io::ErrorKind::PermissionDenied { "permission" } else { "io" };
            Failure::new(code, format!("cannot make the store `{root}`: {error}"))
                .hint("name another place with `--root`")
        };
        let is_new = !root.exists();
        DirBuilder::new().recursive(true).mode(0o700).create(&root).map_err(failed)?;
        if is_new {
            // Whatever the caller's mask takes away, the owner must be able to use it.
            fs::set_permissions(&root, Permissions::from_mode(0o700)).map_err(failed)?;
        }
        let dir = open_dir(&root)?;
        let opened = Store::open(dir, Author { actor: users::actor(), clock: now });
        opened.map_err(|error| cannot_open(&root, error))
    }

    /// Opens the store for reading; there may be none.
    pub(crate) fn store_to_read(&self) -> Result<Option<Store>, Failure> {
        let root = self.root()?;
        match Dir::open_ambient_dir(&root, ambient_authority()) {
            Ok(dir) => Store::open_read_only(dir).map(Some).map_err(|error| cannot_open(&root, error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::io(format_args!("cannot open the store `{root}`"), &error)),
        }
    }

    /// Opens the store for writing where that can be done, else for reading.
    pub(crate) fn store_to_use(&self) -> Result<Option<Store>, Failure> {
        match self.store() {
            Ok(store) => Ok(Some(store)),
            Err(failure) if matches!(failure.code.as_str(), "permission" | "read-only") => {
                self.store_to_read()
            }
            Err(failure) => Err(failure),
        }
    }

    /// The configuration file that the command line names.
    pub(crate) fn config(&self) -> Option<&Utf8Path> {
        self.global.config.as_deref()
    }

    /// The project that the caller works in.
    pub(crate) fn project(&self) -> Result<Project, Failure> {
        let project = Project::current()?;
        if let Some(warning) = project.warning().filter(|_| !self.is_warned.replace(true)) {
            self.output().warning(&warning);
        }
        Ok(project)
    }
}

/// The store's own messages name what is in it, not where it is.
fn cannot_open(root: &Utf8Path, error: StoreError) -> Failure {
    Failure::from(error).while_doing(format_args!("cannot open the store `{root}`"))
}

/// Opens a directory that the command line names.
pub(crate) fn open_dir(path: &Utf8Path) -> Result<Dir, Failure> {
    let failed = |error| {
        let mut failure = Failure::io(format_args!("cannot open `{path}`"), &error);
        if error.kind() == io::ErrorKind::NotADirectory {
            failure.code = "not-a-directory".to_owned();
            failure.status = USAGE;
        }
        failure
    };
    Dir::open_ambient_dir(path, ambient_authority()).map_err(failed)
}

/// The absolute path without links of something that the command line names.
pub(crate) fn canonical(path: &Utf8Path) -> Result<Utf8PathBuf, Failure> {
    let failed = |error: io::Error| Failure::io(format_args!("cannot find `{path}`"), &error);
    let canonical = fs::canonicalize(path).map_err(failed)?;
    let not_utf8 = |path: std::path::PathBuf| {
        Failure::new("path-not-utf8", format!("the path `{}` is not UTF-8", path.to_string_lossy()))
    };
    Utf8PathBuf::from_path_buf(canonical).map_err(not_utf8)
}

/// Whether a path is a link to nothing, or below one.
pub(crate) fn leads_nowhere(path: &Utf8Path) -> bool {
    let last = path.ancestors().find(|path| fs::symlink_metadata(path).is_ok());
    last.is_some_and(|last| fs::metadata(last).is_err())
}

/// The absolute path of something that need not be there.
pub(crate) fn absolute(path: &Utf8Path) -> Result<Utf8PathBuf, Failure> {
    let failed = |error| Failure::io(format_args!("cannot find `{path}`"), &error);
    camino::absolute_utf8(path).map_err(failed)
}

/// The time, RFC 3339, UTC.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// A snapshot, as a command line names it.
#[derive(Debug)]
pub(crate) struct Named {
    /// Its directory, or what a store has in the place of one: only a check says which.
    pub(crate) dir: Dir,
    /// Where that is.
    pub(crate) path: Utf8PathBuf,
    /// The digest that it must have, if the caller named one.
    pub(crate) digest: Option<Digest>,
    /// Whether it lies in the caller's own store.
    pub(crate) in_store: bool,
}

impl Named {
    /// The digest to check the snapshot against, without which nothing is run, planned or read.
    pub(crate) fn anchor(&self, text: &str) -> Result<Digest, Failure> {
        self.digest.ok_or_else(|| {
            let failure = Failure::usage(format!("`{text}` names no digest to check the snapshot against"));
            failure.hint("add `--digest sha256:…`, as `prepare` printed it")
        })
    }
}

impl Context {
    /// Opens the snapshot that `text` names: by `sha256:…` or 12 or more of its hex digits in the
    /// store, or by a path.
    pub(crate) fn snapshot(&self, text: &str, digest: Option<Digest>) -> Result<Named, Failure> {
        let hex = text.strip_prefix(Digest::PREFIX);
        let is_hex = |text: &str| {
            (REVISION_HEX..=64).contains(&text.len())
                && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        match hex.or_else(|| Some(text).filter(|text| is_hex(text) && !Utf8Path::new(text).exists())) {
            Some(hex) if is_hex(hex) => self.stored_snapshot(hex, digest),
            Some(_) => {
                let failure = Failure::usage(format!("`{text}` is no snapshot digest"));
                Err(failure.hint("write `sha256:` and 12 to 64 lower-case hex digits"))
            }
            None => {
                let path = canonical(Utf8Path::new(text))?;
                Ok(Named { dir: open_dir(&path)?, path, digest, in_store: false })
            }
        }
    }

    fn stored_snapshot(&self, hex: &str, digest: Option<Digest>) -> Result<Named, Failure> {
        let root = self.root()?;
        let unknown = || {
            let failure =
                Failure::new("snapshot-unknown", format!("there is no snapshot sha256:{hex} in `{root}`"));
            failure.hint("prepare it, or name another store with `--root`")
        };
        let store = self.store_to_read()?.ok_or_else(unknown)?;
        let fitting: Vec<Digest> = match Digest::from_hex(hex) {
            Ok(digest) => vec![digest],
            Err(_) => store.snapshots()?.into_iter().filter(|digest| digest.hex().starts_with(hex)).collect(),
        };
        let found = match fitting.as_slice() {
            [] => return Err(unknown()),
            [found] => *found,
            several => {
                let message = format!("sha256:{hex} fits {} snapshots", several.len());
                return Err(Failure::new("selection-ambiguous", message).hint("write more digits"));
            }
        };
        let dir = store.open_snapshot(&found)?.ok_or_else(unknown)?;
        let path = root.join(Store::snapshot_path(&found));
        Ok(Named { dir, path, digest: Some(digest.unwrap_or(found)), in_store: true })
    }
}
