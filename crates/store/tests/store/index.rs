//! The index can be lost, damaged or old, and no answer changes.

use std::fs;

use skillfreeze_manifest::Listing;
use skillfreeze_store::{Revision, Store};

use crate::support::{Place, names};

fn filled() -> (Place, Vec<Revision>) {
    let place = Place::new();
    let all: Vec<String> = (0..40).map(|number| format!("s{number}")).collect();
    all.iter().for_each(|name| place.package(name));
    let store = place.open();
    place.add(&store, &all.iter().map(String::as_str).collect::<Vec<_>>());
    place.write("s1/more", "x");
    place.add_one(&store, "s1").unwrap();
    let revisions = store.revisions().unwrap();
    assert_eq!(revisions.len(), 41);
    (place, revisions)
}

fn listings(store: &Store, revisions: &[Revision]) -> Vec<Listing> {
    revisions.iter().map(|revision| store.listing(&revision.digest).unwrap().unwrap()).collect()
}

/// Checks the answers of all who may ask, and that writing goes on.
fn check(place: &Place, revisions: &[Revision], what: &str) {
    let store = place.read_only();
    assert_eq!(store.revisions().unwrap(), revisions, "{what}");
    for (listing, revision) in listings(&store, revisions).iter().zip(revisions) {
        assert_eq!(listing.digest(), revision.digest, "{what}");
    }
    let store = place.open();
    assert_eq!(store.revisions().unwrap(), revisions, "{what}");
    assert!(place.add_one(&store, "s1").unwrap().reused, "{what}");
    assert_eq!(place.open().revisions().unwrap(), revisions, "{what}");
    assert!(!names(&place.path("store")).iter().any(|name| name.starts_with("index.db-")), "{what}");
}

#[test]
fn deleting_it_loses_nothing() {
    let (place, revisions) = filled();
    fs::remove_file(place.path("store/index.db")).unwrap();
    check(&place, &revisions, "deleted");
    assert!(place.path("store/index.db").exists());
}

#[test]
fn damage_is_repaired_silently() {
    let (place, revisions) = filled();
    let good = fs::read(place.path("store/index.db")).unwrap();
    let mut damages: Vec<(String, Vec<u8>)> = vec![
        ("empty".into(), Vec::new()),
        ("no database".into(), b"this is no database".repeat(300)),
        ("half".into(), good[..good.len() / 2].to_vec()),
        ("zeros".into(), [&good[..4096], &vec![0; good.len() - 4096]].concat()),
    ];
    for at in (0..good.len()).step_by(1499) {
        let mut bad = good.clone();
        bad[at] ^= 0x11;
        damages.push((format!("byte {at}"), bad));
    }
    for (what, bad) in damages {
        fs::write(place.path("store/index.db"), bad).unwrap();
        check(&place, &revisions, &what);
    }
}

#[test]
fn an_old_or_foreign_one_is_brought_up_to_date() {
    let (place, _) = filled();
    let old = fs::read(place.path("store/index.db")).unwrap();
    place.write("s2/more", "x");
    place.add_one(&place.open(), "s2").unwrap();
    let revisions = place.open().revisions().unwrap();
    assert_eq!(revisions.len(), 42);
    fs::write(place.path("store/index.db"), &old).unwrap();
    check(&place, &revisions, "old");

    let (other, _) = filled();
    fs::copy(other.path("store/index.db"), place.path("store/index.db")).unwrap();
    check(&place, &revisions, "of another store with the same beginning");

    fs::remove_file(place.path("store/index.db")).unwrap();
    fs::create_dir(place.path("store/index.db")).unwrap();
    check(&place, &revisions, "a directory");
    fs::remove_file(place.path("store/index.db")).unwrap();
    fs::copy(other.path("store/index.db"), place.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", place.path("store/index.db")).unwrap();
    check(&place, &revisions, "a link");
}

#[test]
fn a_reader_writes_nothing() {
    let (place, revisions) = filled();
    fs::remove_file(place.path("store/index.db")).unwrap();
    let before = names(&place.path("store"));
    let store = place.read_only();
    assert_eq!(store.revisions().unwrap(), revisions);
    listings(&store, &revisions);
    assert_eq!(names(&place.path("store")), before);
}
