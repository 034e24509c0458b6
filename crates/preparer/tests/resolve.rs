//! What is frozen of packages that change: all of it as it is at one moment, or nothing.
#![expect(
    clippy::disallowed_methods,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "makes the source that is read, in tables of what is done to it, and fails by unwrapping"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use camino::Utf8PathBuf;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use skillfreeze_catalog::{Catalog, ConflictPolicy, Definition, Discovery, ScanOptions, Source};
use skillfreeze_manifest::{Diagnostic, Limits, Silent};
use skillfreeze_preparer::{InForce, Precedence, ResolveError, Resolved, Selection, resolve};
use skillfreeze_store::{AddOptions, Author, Describe, Described, Description, Store};
use skillfreeze_testing::{file, package, package_digest};
use tempfile::TempDir;

/// Takes the directory's name for the id, but for what it is told to do to `moving`.
struct ByDirectory<F>(F);

impl<F: Fn() -> &'static str + Sync> Describe for ByDirectory<F> {
    fn describe(&self, package: Described<'_>) -> Result<Description, Vec<Diagnostic>> {
        let directory = package.directory.unwrap();
        let id = if directory == "moving" { self.0() } else { directory };
        Ok(Description { id: id.parse().unwrap(), version: None, diagnostics: Vec::new() })
    }
}

/// A source that is opened by its path, as the program's are.
#[derive(Debug)]
struct ByPath(Definition);

impl Source for ByPath {
    fn definition(&self) -> &Definition {
        &self.0
    }

    fn open(&self) -> io::Result<Dir> {
        Dir::open_ambient_dir(&self.0.path, ambient_authority())
    }

    fn follow(&self, _: &Dir, _: &str) -> io::Result<(Dir, Utf8PathBuf)> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A store, and a source `src` with the packages `ok` and `moving`.
struct Place {
    temp: TempDir,
    store: Store,
    discovery: Discovery,
}

impl Place {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        package(temp.path().join("src"), "ok");
        file(package(temp.path().join("src"), "moving").join("scripts/x"), "one");
        fs::create_dir(temp.path().join("store")).unwrap();
        let root = Dir::open_ambient_dir(temp.path().join("store"), ambient_authority()).unwrap();
        let author = Author { actor: "test".into(), clock: || "2026-01-01T00:00:00Z".into() };
        let store = Store::open(root, author).unwrap();
        let path = Utf8PathBuf::from_path_buf(temp.path().join("src")).unwrap();
        let source = ByPath(Definition::new("src", path.try_into().unwrap()));
        let discovery = Discovery::new(vec![Arc::new(source)], ConflictPolicy::First).unwrap();
        Self { temp, store, discovery }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.temp.path().join("src").join(path)
    }

    fn scan(&self) -> Catalog {
        self.discovery.scan(&ScanOptions::default()).unwrap()
    }

    fn resolve(
        &self,
        catalog: &Catalog,
        selection: &Selection,
        describe: &dyn Describe,
    ) -> Result<Resolved, ResolveError> {
        let in_force = InForce {
            catalog,
            precedence: Precedence::Sources,
            enabled: &|_| true,
            wanted: &BTreeSet::new(),
        };
        let limits = Limits::DEFAULT;
        let options =
            AddOptions { describe, limits, drop_bytecode: false, activate: false, progress: &Silent };
        resolve(&self.store, &in_force, selection, &options)
    }

    /// Asserts that what was frozen is what is there now.
    #[track_caller]
    fn is_frozen_as_it_is(&self, resolved: &Resolved) {
        let moving = resolved.packages.iter().find(|chosen| chosen.revision.id.as_str() == "moving").unwrap();
        assert_eq!(moving.revision.digest.to_string(), package_digest(self.path("moving")));
    }
}

/// What changes under the reader's hands is not left out of everything like what is faulty.
#[test]
fn what_is_not_known_to_be_faulty_is_not_left_out() {
    let place = Place::new();
    let all = |describe: &dyn Describe| match place.resolve(&place.scan(), &Selection::All, describe) {
        Ok(resolved) => panic!("{resolved:?}"),
        Err(ResolveError::Add { reference, source }) => (reference.to_string(), source.code()),
        Err(error) => panic!("{error}"),
    };
    let changing = || {
        let path = place.path("moving/more");
        let before = fs::read_to_string(&path).unwrap_or_default();
        fs::write(&path, before + "more").unwrap();
        "moving"
    };
    assert_eq!(all(&ByDirectory(changing)), ("src:moving".to_owned(), "source-changed"));
    assert_eq!(all(&ByDirectory(|| "other")), ("src:moving".to_owned(), "id-changed"));
}

#[test]
fn what_is_not_what_was_found_is_not_frozen() {
    let edits: [(&str, fn(&Place)); 6] = [
        ("edited", |place| file(place.path("moving/SKILL.md"), "---\nname: moving\ndescription: e\n---\n")),
        ("file added", |place| file(place.path("moving/new"), "x")),
        ("skill removed", |place| fs::remove_file(place.path("moving/SKILL.md")).unwrap()),
        ("removed", |place| fs::remove_dir_all(place.path("moving")).unwrap()),
        ("replaced", |place| {
            fs::rename(place.path("moving"), place.path("../old")).unwrap();
            package(place.path(""), "moving");
        }),
        ("the source replaced", |place| {
            fs::rename(place.path(""), place.temp.path().join("old")).unwrap();
            package(place.path(""), "moving");
            package(place.path(""), "ok");
        }),
    ];
    for (name, edit) in edits {
        for selection in [Selection::All, Selection::These(vec!["moving".parse().unwrap()])] {
            let place = Place::new();
            let catalog = place.scan();
            edit(&place);
            let error = place.resolve(&catalog, &selection, &ByDirectory(|| "moving")).unwrap_err();
            assert_eq!(error.code(), "catalog-stale", "{name}: {error}");
            assert_eq!(place.store.revisions().unwrap(), [], "{name}");
        }
    }
}

/// A scan reads nothing but the `SKILL.md`: what lies deeper is frozen as it is when it is read.
#[test]
fn what_the_scan_did_not_look_at_is_frozen_as_it_is_now() {
    let place = Place::new();
    let catalog = place.scan();
    file(place.path("moving/scripts/x"), "two");
    let resolved = place.resolve(&catalog, &Selection::All, &ByDirectory(|| "moving")).unwrap();
    place.is_frozen_as_it_is(&resolved);

    // Somebody writes once while it is read: it is read again, all of it.
    let count = AtomicUsize::new(0);
    let once = || {
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            file(place.path("moving/scripts/x"), "three");
            file(place.path("moving/scripts/y"), "new");
        }
        "moving"
    };
    let resolved = place.resolve(&catalog, &Selection::All, &ByDirectory(once)).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 2);
    place.is_frozen_as_it_is(&resolved);
}
