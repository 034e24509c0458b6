//! Opening: what is made, what is refused, what is swept.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use skillfreeze_manifest::Digest;
use skillfreeze_store::Store;

use crate::support::{OPTIONS, Place, candidate, names};

#[test]
fn an_empty_directory_becomes_a_store() {
    let place = Place::new();
    place.open();
    assert_eq!(
        names(&place.path("store")),
        ["format.json", "index.db", "leases", "packages", "quarantine", "snapshots", "tmp"]
    );
    assert_eq!(
        fs::read_to_string(place.path("store/format.json")).unwrap(),
        r#"{"features":{},"version":1}"#
    );
    for path in
        ["leases", "packages", "packages/sha256", "quarantine", "snapshots", "snapshots/sha256", "tmp"]
    {
        let mode = fs::metadata(place.path("store").join(path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{path}");
    }
    assert!(names(&place.path("store/tmp")).is_empty());
}

#[test]
fn a_directory_with_something_else_is_no_store() {
    let place = Place::new();
    fs::write(place.path("store/notes.txt"), "").unwrap();
    let error = place.try_open().unwrap_err();
    assert_eq!(error.code(), "not-a-store");
    assert!(error.to_string().contains("`notes.txt`"));
    assert_eq!(names(&place.path("store")), ["notes.txt"]);
}

#[test]
fn a_store_of_a_format_that_is_not_known() {
    for (text, write, read) in [
        (r#"{"features":{"x":"incompatible"},"version":1}"#, Err("format-feature"), Err("format-feature")),
        (r#"{"features":{},"version":2}"#, Err("format-version"), Err("format-version")),
        ("{", Err("format-invalid"), Err("format-invalid")),
        (r#"{"features":{"x":"read-compatible"},"version":1}"#, Ok(()), Ok(())),
    ] {
        let place = Place::new();
        place.package("demo");
        place.add_one(&place.open(), "demo").unwrap();
        fs::write(place.path("store/format.json"), text).unwrap();
        assert_eq!(place.try_open().map(drop).map_err(|error| error.code()), write, "{text}");
        let opened = Store::open_read_only(place.dir("store"));
        assert_eq!(opened.map(drop).map_err(|error| error.code()), read, "{text}");
        if let Ok(store) = place.try_open() {
            let src = place.dir("src");
            assert_eq!(store.add(&[candidate(&src, "demo")], &OPTIONS).unwrap_err().code(), "read-only");
            assert_eq!(store.revisions().unwrap().len(), 1);
        }
    }
    let place = Place::new();
    place.package("demo");
    place.add_one(&place.open(), "demo").unwrap();
    fs::remove_file(place.path("store/format.json")).unwrap();
    assert_eq!(place.try_open().unwrap_err().code(), "format-missing");
}

#[test]
fn a_store_that_others_may_write_is_read_only() {
    let place = Place::new();
    place.open();
    for mode in [0o770, 0o702] {
        fs::set_permissions(place.path("store"), fs::Permissions::from_mode(mode)).unwrap();
        let error = place.try_open().unwrap_err();
        assert_eq!(error.code(), "store-writable-by-others");
        assert!(error.to_string().contains(&format!("{mode:04o}")));
        place.read_only();
    }
    fs::set_permissions(place.path("store"), fs::Permissions::from_mode(0o755)).unwrap();
    place.open();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(place.path("store"), Some(12345), None).unwrap();
        assert_eq!(place.try_open().unwrap_err().code(), "store-owner");
        place.read_only();
    } else {
        println!("skipped: only root can give a directory away");
    }
}

#[test]
fn reading_needs_no_store() {
    let place = Place::new();
    let store = place.read_only();
    let digest = Digest::of(b"");
    assert!(store.revisions().unwrap().is_empty());
    assert!(store.snapshots().unwrap().is_empty());
    assert!(store.open_snapshot(&digest).unwrap().is_none());
    assert!(store.listing(&digest).unwrap().is_none());
    assert!(store.lease(&digest).unwrap().is_none());
    for error in [
        store.stage_snapshot().unwrap_err(),
        store.set_aside_snapshot(&digest, &place.dir("store")).unwrap_err(),
        store.records().unwrap_err(),
    ] {
        assert_eq!(error.code(), "read-only");
    }
    assert!(names(&place.path("store")).is_empty());
}

#[test]
fn only_what_the_dead_left_is_swept() {
    let place = Place::new();
    let alive = place.open();
    let staging = alive.stage_snapshot().unwrap();
    staging.dir().write("f", "x").unwrap();
    let kept = (names(&place.path("store/tmp")), names(&place.path("store/snapshots/sha256")));
    fs::write(place.path("store/tmp/dead.lock"), "").unwrap();
    fs::write(place.path("store/tmp/dead-0"), "x").unwrap();
    fs::write(place.path("store/tmp/orphan-7"), "x").unwrap();
    fs::create_dir_all(place.path("store/tmp/tree/below")).unwrap();
    symlink("/etc/passwd", place.path("store/tmp/link")).unwrap();
    let frozen = place.path("store/snapshots/sha256/.new-dead/sub");
    fs::create_dir_all(&frozen).unwrap();
    fs::write(frozen.join("f"), "x").unwrap();
    for path in [&frozen, frozen.parent().unwrap()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o555)).unwrap();
    }
    fs::create_dir(place.path("store/snapshots/sha256/.damaged-1")).unwrap();
    drop(place.open());
    assert_eq!(names(&place.path("store/tmp")), kept.0);
    let mut expected = vec![".damaged-1".to_owned()];
    expected.extend(kept.1);
    assert_eq!(names(&place.path("store/snapshots/sha256")), expected);
    drop((staging, alive));
    assert!(names(&place.path("store/tmp")).is_empty());
}
