//! What is refused, each fault with its code and path.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use skillfreeze_manifest::{Diagnostic, Digest, Limits, Severity};
use skillfreeze_store::{AddError, AddOptions, Refusal};

use crate::support::{OPTIONS, Place, candidate, skill};

/// Builds a package with `make` and expects exactly these faults.
fn refuses(make: impl FnOnce(&Place), expected: &[(&str, &str)]) {
    refuses_with(&OPTIONS, make, expected);
}

fn refuses_with(options: &AddOptions<'_>, make: impl FnOnce(&Place), expected: &[(&str, &str)]) {
    let place = Place::new();
    place.package("demo");
    place.package("ok");
    make(&place);
    let store = place.open();
    let mut results = place.add_with(&store, &["demo", "ok"], options);
    assert!(results[1].is_ok(), "the fault is one package's alone");
    let error = results.remove(0).unwrap_err();
    let found = error.diagnostics();
    // What is remarked of it comes after its faults.
    let faults = found.iter().filter(|found| found.severity == Severity::Error);
    let found: Vec<(&str, &str)> =
        faults.map(|fault| (fault.code, fault.path.as_deref().unwrap_or(""))).collect();
    assert_eq!(found, expected, "{error}");
    assert_eq!(error.code(), expected[0].0);
    assert_eq!(store.revisions().unwrap().len(), 1);
}

fn link(place: &Place, target: &str, path: &str) {
    symlink(target, place.path("src/demo").join(path)).unwrap();
}

#[test]
fn links() {
    for (target, code) in [
        ("/etc/hostname", "symlink-escape"),
        ("../../outside", "symlink-escape"),
        ("../demo/SKILL.md", "symlink-escape"),
        ("a/../../ok/SKILL.md", "symlink-escape"),
        ("absent", "symlink-dangling"),
        ("a/absent/x", "symlink-dangling"),
        ("SKILL.md/x", "symlink-dangling"),
        ("SKILL.md/", "symlink-dangling"),
        ("a", "symlink-to-directory"),
        (".", "symlink-to-directory"),
        ("a/..", "symlink-to-directory"),
        (".git/config", "symlink-to-excluded"),
        (".DS_Store", "symlink-to-excluded"),
        ("x", "symlink-loop"),
    ] {
        let make = |place: &Place| {
            fs::write(place.path("outside"), "secret").unwrap();
            place.write("demo/a/f", "");
            place.write("demo/.git/config", "");
            place.write("demo/.DS_Store", "");
            link(place, target, "x");
        };
        refuses(make, &[(code, "x")]);
    }
    let pipe = |place: &Place| {
        mknodat(CWD, place.path("src/demo/p"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        link(place, "p", "x");
    };
    refuses(pipe, &[("special-file", "p"), ("symlink-to-special", "x")]);
    let through = |place: &Place| {
        link(place, "..", "up");
        link(place, "up/ok/SKILL.md", "x");
    };
    refuses(through, &[("symlink-escape", "up"), ("symlink-escape", "x")]);
    let circle = |place: &Place| {
        link(place, "b", "a");
        link(place, "a", "b");
    };
    refuses(circle, &[("symlink-loop", "a"), ("symlink-loop", "b")]);
    let skill_file = |place: &Place| {
        fs::remove_file(place.path("src/demo/SKILL.md")).unwrap();
        link(place, "../ok/SKILL.md", "SKILL.md");
    };
    refuses(skill_file, &[("skill-md-symlink-escape", "SKILL.md")]);
}

#[test]
fn an_escape_tells_nothing_of_its_target() {
    let place = Place::new();
    place.package("demo");
    fs::write(place.path("src/outside"), "secret".repeat(999)).unwrap();
    link(&place, "../outside", "x");
    let error = place.add_one(&place.open(), "demo").unwrap_err();
    let text = format!("{error} {error:?} {:?}", error.diagnostics());
    assert!(text.contains("../outside"));
    assert!(!text.contains("5994") && !text.contains(&Digest::of("secret".repeat(999).as_bytes()).hex()));
}

#[test]
fn special_files_are_never_opened() {
    refuses(
        |place| {
            mknodat(CWD, place.path("src/demo/pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
            UnixListener::bind(place.path("src/demo/socket")).unwrap();
        },
        &[("special-file", "pipe"), ("special-file", "socket")],
    );
    let instead = |place: &Place| {
        fs::remove_file(place.path("src/demo/SKILL.md")).unwrap();
        mknodat(CWD, place.path("src/demo/SKILL.md"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    };
    refuses(instead, &[("special-file", "SKILL.md")]);
}

#[test]
fn names() {
    let raw = |place: &Place, name: &[u8]| {
        fs::write(place.path("src/demo").join(OsStr::from_bytes(name)), "x").unwrap();
    };
    refuses(|place| raw(place, b"b\xff.txt"), &[("path-not-utf8", "b\\xff.txt")]);
    refuses(
        |place| {
            raw(place, b"a\nb");
            raw(place, b"aux.md");
            raw(place, b"c:d");
            raw(place, "e\u{301}".as_bytes());
        },
        &[
            ("path-invalid", "a\\nb"),
            ("path-invalid", "aux.md"),
            ("path-invalid", "c:d"),
            ("path-invalid", "e\u{301}"),
        ],
    );
    refuses(
        |place| {
            place.write("demo/a/x", "");
            place.write("demo/A/y", "");
            place.write("demo/skill.md", "");
        },
        &[("path-collision", "a/x"), ("path-collision", "skill.md")],
    );
    let misnamed = |place: &Place| {
        fs::rename(place.path("src/demo/SKILL.md"), place.path("src/demo/skill.md")).unwrap();
    };
    refuses(misnamed, &[("skill-file-misnamed", "skill.md")]);
    let gone = |place: &Place| fs::remove_file(place.path("src/demo/SKILL.md")).unwrap();
    refuses(gone, &[("no-skill-file", "")]);
    let directory = |place: &Place| {
        fs::remove_file(place.path("src/demo/SKILL.md")).unwrap();
        place.write("demo/SKILL.md/f", "");
    };
    refuses(directory, &[("no-skill-file", "")]);
}

#[test]
fn all_faults_sorted_and_none_twice() {
    refuses(
        |place| {
            place.write("demo/z.pyc", "");
            link(place, "/etc/passwd", "b");
            mknodat(CWD, place.path("src/demo/m"), FileType::Fifo, Mode::RWXU, 0).unwrap();
            fs::remove_file(place.path("src/demo/SKILL.md")).unwrap();
        },
        &[("no-skill-file", ""), ("symlink-escape", "b"), ("special-file", "m"), ("bytecode", "z.pyc")],
    );
}

#[test]
fn limits() {
    let limited = |change: fn(&mut Limits)| {
        let mut options = OPTIONS;
        change(&mut options.limits);
        options
    };
    let more = |place: &Place| {
        place.write("demo/a/b/c", "12345");
        place.write("demo/d", "1");
    };
    let length = skill("demo").len() as u64;
    let cases: [(AddOptions<'_>, &[(&str, &str)]); 5] = [
        (limited(|limits| limits.files = 2), &[("limit-files", "")]),
        (limited(|limits| limits.package_bytes = 44), &[("limit-package-bytes", "")]),
        (limited(|limits| limits.file_bytes = 38), &[("limit-file-bytes", "SKILL.md")]),
        (limited(|limits| limits.depth = 2), &[("limit-depth", "a/b/c")]),
        (limited(|limits| limits.skill_bytes = 38), &[("limit-skill-bytes", "SKILL.md")]),
    ];
    assert_eq!(length, 39);
    for (options, expected) in cases {
        refuses_with(
            &options,
            |place| {
                more(place);
                // Its neighbour stays within all of them.
                place.write("ok/SKILL.md", "name: ok\n");
            },
            expected,
        );
    }
    // All limits are inclusive.
    let place = Place::new();
    place.package("demo");
    more(&place);
    let limits = Limits {
        files: 3,
        package_bytes: length + 6,
        file_bytes: length,
        depth: 3,
        skill_bytes: length,
        ..Limits::DEFAULT
    };
    let options = AddOptions { limits, ..OPTIONS };
    assert!(place.add_with(&place.open(), &["demo"], &options)[0].is_ok());
}

#[test]
fn a_limit_says_its_numbers() {
    let fault = Refusal::LimitFileBytes { path: "a".into(), number: 7, limit: 5 };
    assert_eq!(fault.to_string(), "`a` has 7 bytes; the limit for a file is 5");
}

#[test]
fn directories_without_end_are_given_up() {
    let mut options = OPTIONS;
    options.limits.files = 10;
    let many = |place: &Place| {
        for number in 0..40 {
            fs::create_dir_all(place.path(&format!("src/demo/{number}"))).unwrap();
        }
    };
    refuses_with(&options, many, &[("limit-files", "")]);
}

#[test]
fn what_cannot_be_read_is_named() {
    if rustix::process::geteuid().is_root() {
        println!("skipped: root reads everything");
        return;
    }
    refuses(
        |place| {
            for name in ["x", "y"] {
                place.write(&format!("demo/{name}"), "");
                let path = place.path(&format!("src/demo/{name}"));
                fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
            }
        },
        &[("unreadable", "x"), ("unreadable", "y")],
    );
}

#[test]
fn what_is_no_directory_or_absent_or_a_link() {
    let place = Place::new();
    place.package("demo");
    place.write("file", "");
    symlink("demo", place.path("src/link")).unwrap();
    let store = place.open();
    for name in ["file", "absent", "link", "..", "../src/demo"] {
        let error = place.add_one(&store, name).unwrap_err();
        assert_eq!(error.code(), "unreadable", "{name}: {error}");
    }
}

#[test]
fn an_id_that_changed_since_the_scan() {
    let place = Place::new();
    place.package("demo");
    let src = place.dir("src");
    let mut seen = candidate(&src, "demo");
    seen.id = Some("other".parse().unwrap());
    let error = place.open().add(&[seen], &OPTIONS).unwrap().remove(0).unwrap_err();
    assert_eq!(error.code(), "id-changed");
    assert_eq!(error.to_string(), "the package at `/src/demo` has the id `demo`, no longer `other`");
}

/// What is left out costs reading and telling all the same.
#[test]
fn what_is_left_out_is_counted_and_told_in_a_few_lines() {
    let place = Place::new();
    let store = place.open();
    place.package("demo");
    let (most, added) = (16 * 8, 100);
    (0..added).for_each(|number| place.write(&format!("demo/a/._{number:03}"), ""));
    place.write("demo/a/f", "");
    place.write("demo/.git/config", "");
    let limits = Limits { files: 8, ..Limits::DEFAULT };
    let options = AddOptions { limits, drop_bytecode: true, ..OPTIONS };
    let told = |code: &str| {
        let added = place.add_with(&store, &["demo"], &options).remove(0).unwrap();
        let of_code = |diagnostic: &&Diagnostic| diagnostic.code == code;
        let one = |diagnostic: &Diagnostic| (diagnostic.path.clone(), diagnostic.message.clone());
        added.diagnostics.iter().filter(of_code).map(one).collect::<Vec<_>>()
    };
    let metadata = told("os-metadata-skipped");
    assert_eq!(metadata.len(), 17);
    assert_eq!(metadata[0].0, None);
    assert!(metadata[0].1.ends_with("in 84 more places"), "{}", metadata[0].1);
    assert_eq!(metadata[1].0.as_deref(), Some("a/._000"));
    assert_eq!(told("vcs-skipped").len(), 1);

    // Beside them are `a`, `a/f`, `.git` and `SKILL.md`.
    (added..most - 4).for_each(|number| place.write(&format!("demo/a/{number:03}.pyc"), ""));
    assert_eq!(told("bytecode-dropped").len(), 17);
    place.write("demo/a/._last", "");
    match place.add_with(&store, &["demo"], &options).remove(0) {
        Err(AddError::Refused { faults, .. }) => {
            let codes: Vec<&str> = faults.iter().map(Refusal::code).collect();
            assert_eq!(codes, ["limit-entries"]);
            assert!(faults[0].to_string().contains("129 entries") && faults[0].to_string().contains("128"));
        }
        other => panic!("{other:?}"),
    }
}
