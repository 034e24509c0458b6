//! Where packages may be, and that a single file may be one.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cap_std::fs::Dir;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use skillfreeze_manifest::{Diagnostic, Form, Limits};
use skillfreeze_store::{AddOptions, Candidate, Describe, Described, Description, Origin};

use crate::support::{ByName, OPTIONS, Place, codes, read_back, skill};

fn candidate<'a>(root: &'a Dir, path: &str, form: Form) -> Candidate<'a> {
    let origin = Origin { source: None, path: format!("/src/{path}") };
    Candidate::new(root, path, form, origin)
}

/// Keeps what it is told of each package.
#[derive(Default)]
struct Keeper(Mutex<Vec<(String, Form)>>);

impl Describe for Keeper {
    fn describe(&self, package: Described<'_>) -> Result<Description, Vec<Diagnostic>> {
        let name = package.directory.unwrap_or("-").to_owned();
        self.0.lock().unwrap().push((name, package.form));
        ByName.describe(package)
    }
}

#[test]
fn a_package_may_be_deep_below_the_root_or_a_file() {
    let place = Place::new();
    place.write("a/b/deep/SKILL.md", skill("deep"));
    place.write("a/b/deep/f", "x");
    place.write("a/b/other.md", "not of the package");
    place.write("flat.md", skill("flat"));
    place.write("a/flat.md", skill("inner"));
    let store = place.open();
    let src = place.dir("src");
    let deep = place.dir("src/a/b/deep");
    let mut unnamed = candidate(&deep, ".", Form::Directory);
    unnamed.origin.path = "/".to_owned();
    unnamed.name = None;
    let candidates = [
        candidate(&src, "a/b/deep", Form::Directory),
        candidate(&src, "flat.md", Form::File),
        candidate(&src, "a/flat.md", Form::File),
        unnamed,
    ];
    let keeper = Keeper::default();
    let options = AddOptions { describe: &keeper, ..OPTIONS };
    let added: Vec<_> = store.add(&candidates, &options).unwrap().into_iter().map(Result::unwrap).collect();
    let ids: Vec<&str> = added.iter().map(|added| added.revision.id.as_str()).collect();
    assert_eq!(ids, ["deep", "flat", "inner", "deep"]);
    assert_eq!(added[0].revision.digest, added[3].revision.digest);
    assert_eq!(added.iter().map(|added| added.files).collect::<Vec<_>>(), [2, 1, 1, 2]);
    assert_eq!(read_back(&store, &added[1]), [("SKILL.md".to_owned(), skill("flat").into_bytes())]);
    let mut told = keeper.0.into_inner().unwrap();
    told.sort_by(|a, b| a.0.cmp(&b.0));
    let expected =
        [("-", Form::Directory), ("deep", Form::Directory), ("flat", Form::File), ("flat", Form::File)];
    assert_eq!(told, expected.map(|(name, form)| (name.to_owned(), form)));
}

/// The same package, whatever the file's mode: it is no script.
#[test]
fn a_flat_package_is_that_of_a_directory_with_the_same_file() {
    let place = Place::new();
    place.package("demo");
    place.write("flat.md", skill("demo"));
    fs::set_permissions(place.path("src/flat.md"), fs::Permissions::from_mode(0o755)).unwrap();
    let store = place.open();
    let src = place.dir("src");
    let flat = store.add(&[candidate(&src, "flat.md", Form::File)], &OPTIONS).unwrap().remove(0).unwrap();
    assert_eq!(place.add_one(&store, "demo").unwrap().revision.digest, flat.revision.digest);
    assert!(!store.listing(&flat.revision.digest).unwrap().unwrap().files()[0].executable);
}

#[test]
fn what_is_no_flat_package() {
    let place = Place::new();
    place.package("demo");
    fs::write(place.path("outside"), "secret").unwrap();
    place.write("large.md", skill("large") + &"x".repeat(100));
    place.write("nameless.md", "---\n---\n");
    for (target, path) in
        [("../outside", "out.md"), ("demo/SKILL.md", "in.md"), ("none", "dangling.md"), ("demo", "way")]
    {
        symlink(target, place.path("src").join(path)).unwrap();
    }
    mknodat(CWD, place.path("src/pipe.md"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let store = place.open();
    let src = place.dir("src");
    let limits = Limits { skill_bytes: 100, ..Limits::DEFAULT };
    let options = AddOptions { limits, ..OPTIONS };
    let skill_file = "SKILL.md";
    for (path, form, code, at) in [
        ("out.md", Form::File, "skill-md-symlink-escape", skill_file),
        ("in.md", Form::File, "skill-md-symlink-escape", skill_file),
        ("dangling.md", Form::File, "skill-md-dangling", skill_file),
        ("pipe.md", Form::File, "special-file", skill_file),
        ("large.md", Form::File, "limit-skill-bytes", skill_file),
        ("demo", Form::File, "no-skill-file", ""),
        ("absent.md", Form::File, "unreadable", skill_file),
        ("nameless.md", Form::File, "name-invalid", ""),
        ("way/SKILL.md", Form::File, "unreadable", "."),
        ("../src/large.md", Form::File, "unreadable", "."),
        ("../outside", Form::File, "unreadable", "."),
        ("way", Form::Directory, "unreadable", "."),
        ("large.md", Form::Directory, "unreadable", "."),
    ] {
        let error = store.add(&[candidate(&src, path, form)], &options).unwrap().remove(0).unwrap_err();
        assert_eq!(codes(&error.diagnostics()), [(at, code)], "{path}: {error}");
        assert!(error.is_refusal() && !format!("{error:?}").contains("secret"), "{path}");
    }
    assert!(store.revisions().unwrap().is_empty());
}

/// Writes the file once more while its package is described, as many times.
struct Writer<'a>(&'a Place, AtomicUsize);

impl Describe for Writer<'_> {
    fn describe(&self, package: Described<'_>) -> Result<Description, Vec<Diagnostic>> {
        if self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            self.0.write("flat.md", [package.skill_md, b"more"].concat());
            // What lies beside it is none of its business.
            self.0.write("beside.md", "x");
        }
        ByName.describe(package)
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_is_read_once_more() {
    for times in [1, 2] {
        let place = Place::new();
        place.write("flat.md", skill("flat"));
        let store = place.open();
        let writer = Writer(&place, AtomicUsize::new(times));
        let options = AddOptions { describe: &writer, ..OPTIONS };
        let src = place.dir("src");
        let result = store.add(&[candidate(&src, "flat.md", Form::File)], &options).unwrap().remove(0);
        if times == 1 {
            let expected = (skill("flat") + "more").into_bytes();
            assert_eq!(read_back(&store, &result.unwrap()), [("SKILL.md".to_owned(), expected)]);
        } else {
            let error = result.unwrap_err();
            assert_eq!(error.code(), "source-changed");
            assert!(error.to_string().ends_with("`SKILL.md`"), "{error}");
        }
    }
}
