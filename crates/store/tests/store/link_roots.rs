//! Links that lead out of a package, to where the user allows it.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use skillfreeze_manifest::{Diagnostic, LinkRoot};
use skillfreeze_store::{AddError, AddOptions, Added, Candidate, Describe, Described, Description, Store};

use crate::support::{ByName, OPTIONS, Place, candidate, codes, read_back, skill};

fn add(
    place: &Place,
    store: &Store,
    link_roots: &[LinkRoot],
    options: &AddOptions<'_>,
) -> Result<Added, AddError> {
    let src = place.dir("src");
    let candidate = Candidate { link_roots, ..candidate(&src, "demo") };
    store.add(&[candidate], options).unwrap().remove(0)
}

/// `src/demo` with a `SKILL.md`, and beside `src` the directories `root`, `root-evil` and `other`.
fn place() -> Place {
    let place = Place::new();
    place.package("demo");
    for directory in ["root/d", "root-evil", "other"] {
        fs::create_dir_all(place.path(directory)).unwrap();
    }
    for file in ["root/f", "root/d/f", "root-evil/f", "other/f"] {
        fs::write(place.path(file), format!("bytes of {file}")).unwrap();
    }
    place
}

#[test]
fn links_below_a_root_are_stored_as_files() {
    let place = place();
    let link = |target: &str, path: &str| symlink(place.path(target), place.path(path)).unwrap();
    fs::write(place.path("root/S.md"), skill("demo")).unwrap();
    fs::remove_file(place.path("src/demo/SKILL.md")).unwrap();
    link("root/S.md", "src/demo/SKILL.md");
    link("root/f", "src/demo/plain");
    link("root/f", "root/chained");
    link("root/chained", "src/demo/chained");
    symlink("d/../d/f", place.path("root/inner")).unwrap();
    link("root/inner", "src/demo/inner");
    link("other/f", "root/across");
    link("root/across", "src/demo/across");
    link("root/d", "root/by-directory");
    link("root/by-directory/f", "src/demo/by-directory");
    symlink("plain", place.path("src/demo/first")).unwrap();

    let store = place.open();
    let roots = [place.link_root("root"), place.link_root("other")];
    let added = add(&place, &store, &roots, &OPTIONS).unwrap();
    let expected = [
        ("SKILL.md", skill("demo")),
        ("across", "bytes of other/f".to_owned()),
        ("by-directory", "bytes of root/d/f".to_owned()),
        ("chained", "bytes of root/f".to_owned()),
        ("first", "bytes of root/f".to_owned()),
        ("inner", "bytes of root/d/f".to_owned()),
        ("plain", "bytes of root/f".to_owned()),
    ];
    let expected = expected.map(|(path, content)| (path.to_owned(), content.into_bytes()));
    assert_eq!(read_back(&store, &added), expected);
    assert_eq!(
        codes(&added.diagnostics),
        expected.each_ref().map(|(path, _)| (path.as_str(), "materialized-link"))
    );
    let told = &added.diagnostics[1].message;
    assert!(told.contains(place.path("other/f").to_str().unwrap()), "{told}");

    // Nothing of it without the roots; with one of them, what leads into the other is refused.
    let all = add(&place, &store, &[], &OPTIONS).unwrap_err().diagnostics();
    let escapes = ["SKILL.md", "across", "by-directory", "chained", "first", "inner", "plain"]
        .map(|path| (path, if path == "SKILL.md" { "skill-md-symlink-escape" } else { "symlink-escape" }));
    assert_eq!(codes(&all), escapes);
    let one = add(&place, &store, &roots[..1], &OPTIONS).unwrap_err().diagnostics();
    assert_eq!(codes(&one)[0], ("across", "symlink-escape"));
    let faults = one.iter().filter(|found| found.code != "materialized-link");
    assert_eq!(faults.count(), 1);
}

#[test]
fn what_does_not_end_in_a_file_below_a_root_is_refused() {
    for (target, code) in [
        ("TOP/root", "symlink-to-directory"),
        ("TOP/root/d", "symlink-to-directory"),
        ("TOP/root/none", "symlink-dangling"),
        ("TOP/root/dangling", "symlink-dangling"),
        ("TOP/root/circle", "symlink-loop"),
        ("TOP/root/pipe", "symlink-to-special"),
        ("TOP/root/out", "symlink-escape"),
        ("TOP/root/up", "symlink-escape"),
        ("TOP/root/../root/f", "symlink-escape"),
        ("TOP/root-evil/f", "symlink-escape"),
        ("TOP/alias/f", "symlink-escape"),
        ("TOP/src/demo/SKILL.md", "symlink-escape"),
        ("../../root/f", "symlink-escape"),
        ("/etc/hostname", "symlink-escape"),
    ] {
        let place = place();
        let top = place.path("");
        let top = top.to_str().unwrap().trim_end_matches('/');
        for (target, path) in [
            ("none", "root/dangling"),
            ("circle", "root/circle"),
            ("TOP/root-evil/f", "root/out"),
            ("../root-evil/f", "root/up"),
            ("TOP/root", "alias"),
            (target, "src/demo/x"),
        ] {
            symlink(target.replace("TOP", top), place.path(path)).unwrap();
        }
        mknodat(CWD, place.path("root/pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let roots = [place.link_root("root")];
        let error = add(&place, &place.open(), &roots, &OPTIONS).unwrap_err();
        assert_eq!(codes(&error.diagnostics()), [("x", code)], "{target}: {error}");
        let said = format!("{error:?}");
        assert!(!said.contains("bytes of"), "{said}");
    }
}

/// Does something once, while the package is read.
struct Once<F>(AtomicBool, F);

impl<F: Fn() + Sync> Describe for Once<F> {
    fn describe(&self, package: Described<'_>) -> Result<Description, Vec<Diagnostic>> {
        if !self.0.swap(true, Ordering::SeqCst) {
            (self.1)();
        }
        ByName.describe(package)
    }
}

/// What is outside is watched like what is inside: changed bytes, and a changed way to them.
#[test]
fn what_changes_below_a_root_is_read_once_more() {
    let place = place();
    let link = |target: &str, path: &str| {
        let _ = fs::remove_file(place.path(path));
        symlink(place.path(target), place.path(path)).unwrap();
    };
    link("root/f", "root/current");
    link("root/current", "src/demo/x");
    let store = place.open();
    let roots = [place.link_root("root")];
    let read = |act: &(dyn Fn() + Sync)| {
        let once = Once(AtomicBool::new(false), act);
        let options = AddOptions { describe: &once, ..OPTIONS };
        let added = add(&place, &store, &roots, &options).unwrap();
        String::from_utf8(read_back(&store, &added).remove(1).1).unwrap()
    };
    assert_eq!(read(&|| {}), "bytes of root/f");
    assert_eq!(read(&|| fs::write(place.path("root/f"), "other bytes!").unwrap()), "other bytes!");
    assert_eq!(read(&|| link("root/d/f", "root/current")), "bytes of root/d/f");
}

#[test]
fn limits_hold_for_what_is_outside() {
    let place = place();
    fs::write(place.path("root/large"), "x".repeat(1000)).unwrap();
    symlink(place.path("root/large"), place.path("src/demo/x")).unwrap();
    let mut options = OPTIONS;
    options.limits.file_bytes = 999;
    let error = add(&place, &place.open(), &[place.link_root("root")], &options).unwrap_err();
    assert_eq!(error.code(), "limit-file-bytes");
}
