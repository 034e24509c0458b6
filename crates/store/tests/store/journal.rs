//! The journal's chain, its torn ends, and what is refused.

use std::fs;
use std::io::Write as _;

use skillfreeze_manifest::Digest;
use skillfreeze_store::Store;

use crate::support::{OPTIONS, Place, candidate};

fn filled() -> (Place, Vec<u8>) {
    let place = Place::new();
    for name in ["a", "b", "c"] {
        place.package(name);
        place.add_one(&place.open(), name).unwrap();
    }
    let journal = fs::read(place.path("store/journal")).unwrap();
    (place, journal)
}

#[test]
fn golden_lines() {
    let place = Place::new();
    place.package("demo");
    place.add_one(&place.open(), "demo").unwrap();
    let journal = fs::read_to_string(place.path("store/journal")).unwrap();
    let lines: Vec<&str> = journal.lines().collect();
    let archive = Digest::of(&fs::read(place.archive()).unwrap());
    let digest = "sha256:faee5062adb15f523a17093765b39b9ec78030ccef3f233eb3fabec375e53a3b";
    let first = format!(
        r#"{{"actor":"tester","at":"2026-01-02T03:04:05Z","change":"added","data":{{"archive":"{archive}","bytes":39,"digest":"{digest}","files":1,"id":"demo","number":1,"origin":{{"kind":"directory","path":"/src/demo"}},"scope":"user","version":"1.0"}},"previous":"{}","schema":"skillfreeze.journal.v1","seq":1}}"#,
        Digest::of(b"")
    );
    let second = format!(
        r#"{{"actor":"tester","at":"2026-01-02T03:04:05Z","change":"activated","data":{{"digest":"{digest}","id":"demo","number":1,"scope":"user"}},"previous":"{}","schema":"skillfreeze.journal.v1","seq":2}}"#,
        Digest::of(first.as_bytes())
    );
    assert_eq!(lines, [first, second]);
}

#[test]
fn a_torn_last_line_was_never_acknowledged() {
    let (place, whole) = filled();
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for with_index in [true, false] {
        for cut in [last + 1, last + 40, whole.len() - 1] {
            fs::write(place.path("store/journal"), &whole).unwrap();
            place.open();
            fs::write(place.path("store/journal"), &whole[..cut]).unwrap();
            if !with_index {
                fs::remove_file(place.path("store/index.db")).unwrap();
            }
            let reader = place.read_only();
            assert_eq!(reader.revisions().unwrap().len(), 3);
            assert_eq!(reader.active(&"c".parse().unwrap()).unwrap(), None);
            assert_eq!(fs::read(place.path("store/journal")).unwrap().len(), cut, "readers write nothing");
            // The next writer cuts it off and goes on.
            assert!(place.add_one(&place.open(), "c").unwrap().activated);
            assert_eq!(fs::read(place.path("store/journal")).unwrap(), whole);
        }
    }
}

#[test]
fn damage_is_refused_with_its_line_and_nothing_is_written() {
    let (place, whole) = filled();
    let text = String::from_utf8(whole.clone()).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut flipped = whole.clone();
    let at = lines[0].len() + lines[1].len() + 30;
    flipped[at] ^= 1;
    for (what, journal, line) in [
        ("a byte, which the next line shows", flipped, 4),
        ("a line gone", [&lines[..2], &lines[3..]].concat().concat().into_bytes(), 3),
        ("the first line gone", lines[1..].concat().into_bytes(), 1),
        ("a line twice", [&lines[..2], &lines[1..]].concat().concat().into_bytes(), 3),
        ("two lines swapped", [lines[1], lines[0], lines[2]].concat().into_bytes(), 1),
        ("an empty line", [lines[0], "\n", lines[1]].concat().into_bytes(), 2),
        ("white space", text.replacen(r#"{"actor""#, r#"{ "actor""#, 1).into_bytes(), 1),
        ("no text", [&whole[..], b"\xff\n"].concat(), 7),
        ("a duplicate key", text.replacen(r#""seq":1}"#, r#""seq":1,"seq":1}"#, 1).into_bytes(), 1),
        ("an unknown field", text.replacen(r#""seq":1}"#, r#""seq":1,"x":1}"#, 1).into_bytes(), 1),
    ] {
        for with_index in [true, false] {
            fs::write(place.path("store/journal"), &whole).unwrap();
            place.open();
            let open_before = place.open();
            fs::write(place.path("store/journal"), &journal).unwrap();
            if !with_index {
                fs::remove_file(place.path("store/index.db")).unwrap();
            }
            for error in
                [place.try_open().unwrap_err(), Store::open_read_only(place.dir("store")).unwrap_err()]
            {
                assert_eq!(error.code(), "journal-corrupt", "{what}");
                assert!(error.to_string().starts_with(&format!("line {line} ")), "{what}: {error}");
            }
            assert_eq!(fs::read(place.path("store/journal")).unwrap(), journal, "{what}");
            drop(open_before);
        }
    }
}

#[test]
fn a_journal_that_shrank_is_refused() {
    let (place, whole) = filled();
    let store = place.open();
    fs::write(
        place.path("store/journal"),
        &whole[..whole.iter().position(|byte| *byte == b'\n').unwrap() + 1],
    )
    .unwrap();
    assert_eq!(store.revisions().unwrap_err().code(), "journal-corrupt");
    let src = place.dir("src");
    assert_eq!(store.add(&[candidate(&src, "a")], &OPTIONS).unwrap_err().code(), "journal-corrupt");
}

/// Appends a line that follows, with another change or schema.
fn append(place: &Place, change: &str, data: &str, schema: &str) {
    let whole = fs::read_to_string(place.path("store/journal")).unwrap();
    let previous = Digest::of(whole.lines().last().unwrap().as_bytes());
    let seq = whole.lines().count() + 1;
    let line = format!(
        r#"{{"actor":"x","at":"x","change":"{change}","data":{data},"previous":"{previous}","schema":"{schema}","seq":{seq}}}"#
    );
    let mut journal = fs::File::options().append(true).open(place.path("store/journal")).unwrap();
    writeln!(journal, "{line}").unwrap();
}

#[test]
fn what_a_newer_version_wrote_is_refused() {
    for (change, schema) in [("withdrawn", "skillfreeze.journal.v1"), ("added", "skillfreeze.journal.v2")] {
        let (place, _) = filled();
        let store = place.open();
        append(&place, change, "{}", schema);
        assert_eq!(store.revisions().unwrap_err().code(), "journal-newer");
        let error = place.try_open().unwrap_err();
        assert_eq!(error.code(), "journal-newer");
        assert!(error.to_string().contains("line 7 "), "{error}");
    }
}

#[test]
fn what_contradicts_is_refused() {
    let digest = Digest::of(b"");
    for (change, data) in [
        ("archived", format!(r#"{{"archive":"{digest}","digest":"{digest}"}}"#)),
        ("activated", format!(r#"{{"digest":"{digest}","id":"a","number":9,"scope":"user"}}"#)),
        ("activated", format!(r#"{{"digest":"{digest}","id":"a","number":1,"scope":"world"}}"#)),
        ("enabled", r#"{"id":"../evil","scope":"user"}"#.to_owned()),
        ("enabled", r#"{"id":"a","scope":"world"}"#.to_owned()),
        ("disabled", r#"{"id":"a","scope":{"project":"here"}}"#.to_owned()),
        ("disabled", r#"{"id":"a","scope":{"project":"/a/../b"}}"#.to_owned()),
        ("disabled", r#"{"id":"a"}"#.to_owned()),
        ("disabled", r#"{"id":"a","more":1,"scope":"user"}"#.to_owned()),
        (
            "added",
            format!(
                r#"{{"archive":"{digest}","bytes":1,"digest":"{digest}","files":1,"id":"a","number":3,"origin":{{"kind":"directory","path":"/"}},"scope":"user"}}"#
            ),
        ),
    ] {
        let (place, _) = filled();
        append(&place, change, &data, "skillfreeze.journal.v1");
        assert_eq!(place.try_open().unwrap_err().code(), "journal-corrupt", "{change} {data}");
    }
}
