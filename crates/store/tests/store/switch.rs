//! Switches: what is written, what is remembered, and by which ways.

use std::fs;

use camino::Utf8PathBuf;
use skillfreeze_manifest::{Digest, SkillId};
use skillfreeze_store::{ProjectRoot, Scope, Store, Switched};

use crate::support::{Place, names};

fn id(text: &str) -> SkillId {
    text.parse().unwrap()
}

fn root(path: &str) -> ProjectRoot {
    Utf8PathBuf::from(path).try_into().unwrap()
}

fn project(path: &str) -> Scope {
    Scope::Project(root(path))
}

fn lines(place: &Place) -> Vec<String> {
    let journal = fs::read_to_string(place.path("store/journal")).unwrap();
    journal.lines().map(str::to_owned).collect()
}

/// Switches one skill and says whether that changed anything.
fn switch(store: &Store, name: &str, scope: &Scope, on: bool) -> bool {
    let switched: Vec<Switched> = store.switch(&[id(name)], scope, on).unwrap();
    assert_eq!((switched.len(), switched[0].id.as_str()), (1, name));
    switched[0].changed
}

/// All switches as text, with who said so and when checked.
fn all(store: &Store) -> Vec<String> {
    let switches = store.switches().unwrap();
    let mut found = Vec::new();
    for switch in switches.iter() {
        assert_eq!((switch.actor.as_str(), switch.at.as_str()), ("tester", "2026-01-02T03:04:05Z"));
        found.push(format!("{} {} {}", switch.id, switch.scope, switch.on));
    }
    found
}

#[test]
fn golden_lines() {
    let place = Place::new();
    let store = place.open();
    switch(&store, "demo", &Scope::User, false);
    switch(&store, "demo", &project("/p q/\u{e9}\""), true);
    let first = format!(
        r#"{{"actor":"tester","at":"2026-01-02T03:04:05Z","change":"disabled","data":{{"id":"demo","scope":"user"}},"previous":"{}","schema":"skillfreeze.journal.v1","seq":1}}"#,
        Digest::of(b"")
    );
    let second = format!(
        r#"{{"actor":"tester","at":"2026-01-02T03:04:05Z","change":"enabled","data":{{"id":"demo","scope":{{"project":"/p q/é\""}}}},"previous":"{}","schema":"skillfreeze.journal.v1","seq":2}}"#,
        Digest::of(first.as_bytes())
    );
    assert_eq!(lines(&place), [first, second]);
}

#[test]
fn the_same_again_writes_nothing() {
    let place = Place::new();
    let store = place.open();
    let (user, here) = (Scope::User, project("/here"));
    for (scope, on, changes) in [
        (&user, true, true), // Said is more than not said.
        (&user, true, false),
        (&user, false, true),
        (&user, false, false),
        (&here, false, true), // Another scope, though it is off there already.
        (&here, false, false),
        (&here, true, true),
        (&user, false, false),
        (&user, true, true),
    ] {
        let before = fs::read(place.path("store/journal")).unwrap_or_default();
        assert_eq!(switch(&store, "demo", scope, on), changes, "{scope} {on}");
        assert_eq!(fs::read(place.path("store/journal")).unwrap() != before, changes, "{scope} {on}");
    }
    // One batch: each id once, in one write.
    let before = lines(&place).len();
    let switched = store.switch(&[id("a"), id("demo"), id("a"), id("b")], &user, true).unwrap();
    let changed: Vec<bool> = switched.iter().map(|switched| switched.changed).collect();
    assert_eq!((changed, lines(&place).len()), (vec![true, false, false, true], before + 2));
    assert_eq!(store.switch(&[], &user, true).unwrap(), []);
}

/// A store that has packages and switches, also of what it does not have.
fn filled() -> (Place, Vec<String>) {
    let place = Place::new();
    place.package("demo");
    let store = place.open();
    switch(&store, "absent", &project("/b"), false);
    place.add_one(&store, "demo").unwrap();
    switch(&store, "demo", &Scope::User, false);
    switch(&store, "demo", &project("/b"), false);
    switch(&store, "demo", &project("/a"), true);
    switch(&store, "demo", &project("/b"), true);
    let expected = [
        "absent the project `/b` false",
        "demo the user false",
        "demo the project `/a` true",
        "demo the project `/b` true",
    ];
    (place, expected.map(str::to_owned).to_vec())
}

#[test]
fn every_reader_knows_them_with_and_without_an_index() {
    let (place, expected) = filled();
    let state = |store: &Store, name: &str, project: Option<&str>| {
        store.switches().unwrap().state(&id(name), project.map(root).as_ref())
    };
    let index = fs::read(place.path("store/index.db")).unwrap();
    let mut damaged = index.clone();
    let row = index.windows(4).rposition(|bytes| bytes == b"\"on\"").unwrap();
    damaged[row + 5] ^= 1;
    for index in [Some(index), Some(damaged), Some(Vec::new()), None] {
        match index {
            Some(bytes) => fs::write(place.path("store/index.db"), bytes).unwrap(),
            None => fs::remove_file(place.path("store/index.db")).unwrap(),
        }
        for store in [place.read_only(), place.open(), place.open()] {
            assert_eq!(all(&store), expected);
            assert_eq!(state(&store, "demo", None), Some(false));
            assert_eq!(state(&store, "demo", Some("/a")), Some(true));
            assert_eq!(state(&store, "demo", Some("/elsewhere")), Some(false));
            assert_eq!(state(&store, "absent", None), None);
            // A switch activates nothing and adds nothing.
            assert_eq!(store.revisions().unwrap().len(), 1);
            assert!(store.active(&id("demo")).unwrap().is_some());
        }
    }
    assert!(!names(&place.path("store")).iter().any(|name| name.starts_with("index.db-")));
}

#[test]
fn an_index_that_is_behind_is_brought_up_to_date() {
    let (place, _) = filled();
    let old = fs::read(place.path("store/index.db")).unwrap();
    let (first, second) = (place.open(), place.open());
    assert!(switch(&first, "demo", &Scope::User, true));
    // Each sees what the other has said, and says nothing twice.
    assert!(!switch(&second, "demo", &Scope::User, true));
    assert!(switch(&second, "new", &Scope::User, false));
    let expected = all(&first);
    assert_eq!(expected.len(), 5);
    drop((first, second));
    fs::write(place.path("store/index.db"), &old).unwrap();
    for store in [place.read_only(), place.open(), place.read_only()] {
        assert_eq!(all(&store), expected);
    }
}

#[test]
fn an_index_of_the_version_before_is_made_anew() {
    let (place, expected) = filled();
    fs::remove_file(place.path("store/index.db")).unwrap();
    let old = rusqlite::Connection::open(place.path("store/index.db")).unwrap();
    old.execute_batch(
        "CREATE TABLE position (value TEXT NOT NULL, digest TEXT NOT NULL);
         CREATE TABLE revision (id TEXT NOT NULL, number INTEGER NOT NULL, value TEXT NOT NULL,
             digest TEXT NOT NULL, PRIMARY KEY (id, number)) WITHOUT ROWID;
         CREATE TABLE listing (package TEXT NOT NULL PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
         PRAGMA user_version = 1;",
    )
    .unwrap();
    old.close().unwrap();
    for store in [place.read_only(), place.open(), place.read_only()] {
        assert_eq!(all(&store), expected);
    }
    let new = rusqlite::Connection::open(place.path("store/index.db")).unwrap();
    let rows: u32 = new.query_row("SELECT count(*) FROM switch", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 4);
}

#[test]
fn a_torn_switch_was_never_acknowledged() {
    let (place, _) = filled();
    let before = all(&place.open());
    let kept = fs::read(place.path("store/journal")).unwrap();
    switch(&place.open(), "demo", &Scope::User, true);
    let whole = fs::read(place.path("store/journal")).unwrap();
    for cut in [kept.len() + 1, whole.len() - 40, whole.len() - 1] {
        fs::write(place.path("store/journal"), &whole[..cut]).unwrap();
        assert_eq!(all(&place.read_only()), before);
        assert!(switch(&place.open(), "demo", &Scope::User, true));
        assert_eq!(fs::read(place.path("store/journal")).unwrap(), whole);
    }
}

#[test]
fn a_reader_switches_nothing() {
    let (place, expected) = filled();
    let store = place.read_only();
    assert_eq!(store.switch(&[id("demo")], &Scope::User, true).unwrap_err().code(), "read-only");
    assert_eq!(all(&store), expected);
}
