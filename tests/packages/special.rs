//! What is neither file, directory nor link, and what cannot be read.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use skillfreeze_testing::{Runner, file, package, set_mode, skip};

use super::{Refusal, all_refuse, refuses};
use crate::support::{codes, environment, text, texts};

fn fifo(path: impl AsRef<Path>) {
    mknodat(CWD, path.as_ref(), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
}

/// A test that opened one would hang here.
#[test]
fn fifos_and_sockets_are_refused_and_never_opened() {
    let make = |demo: &Path| {
        fifo(demo.join("pipe"));
        fs::create_dir(demo.join("sub")).unwrap();
        UnixListener::bind(demo.join("sub/sock")).unwrap();
        symlink("pipe", demo.join("to-pipe")).unwrap();
    };
    let faults = [("special-file", "pipe"), ("special-file", "sub/sock"), ("symlink-to-special", "to-pipe")];
    all_refuse("fifo and socket", make, Refusal::found_by_add(&faults));
}

#[test]
fn a_skill_file_that_is_a_fifo_is_refused() {
    let make = |demo: &Path| {
        fs::remove_file(demo.join("SKILL.md")).unwrap();
        fifo(demo.join("SKILL.md"));
    };
    let faults = [("special-file", "SKILL.md")];
    all_refuse("fifo", make, Refusal::found_by_scan(&faults, &faults));
}

#[test]
fn devices_are_refused_where_root_can_make_them() {
    let probe = tempfile::tempdir().unwrap();
    let null = |path: &Path| {
        mknodat(CWD, path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(1, 3))
    };
    if null(&probe.path().join("null")).is_err() {
        skip!("no device node can be made here");
    }
    let make = |demo: &Path| null(&demo.join("null")).unwrap();
    all_refuse("device", make, Refusal::found_by_add(&[("special-file", "null")]));
}

/// Root reads everything, so this is about the user.
#[test]
fn what_the_user_cannot_read_is_named_all_of_it() {
    let make = |demo: &Path| {
        file(demo.join("x"), "x");
        file(demo.join("y"), "y");
        file(demo.join("locked/z"), "z");
        for path in ["x", "y", "locked"] {
            set_mode(demo.join(path), 0o000);
        }
    };
    let faults = [("unreadable", "locked"), ("unreadable", "x"), ("unreadable", "y")];
    let expected = Refusal { status: 1, ..Refusal::found_by_add(&faults) };
    refuses(Runner::User, "unreadable directory", make, expected);
    let files = |demo: &Path| {
        make(demo);
        set_mode(demo.join("locked"), 0o755);
    };
    let faults = [("unreadable", "x"), ("unreadable", "y")];
    refuses(Runner::User, "unreadable files", files, Refusal { status: 1, ..Refusal::found_by_add(&faults) });
}

#[test]
fn a_directory_that_the_user_cannot_read_does_not_hide_its_neighbours() {
    let env = environment(Runner::User);
    package(env.work().join("src"), "ok");
    set_mode(package(env.work().join("src"), "locked"), 0o000);
    fs::create_dir(env.work().join("closed")).unwrap();
    set_mode(env.work().join("closed"), 0o000);

    let listed = env.run(["list", "--source", "src", "--json"]).json();
    assert_eq!(texts(&listed["skills"], "id"), ["ok"]);
    let left_out = &listed["left_out"][0];
    assert_eq!(left_out["directory"], "locked");
    assert_eq!(codes(&left_out["diagnostics"])[0].0, "unreadable");
    assert!(text(&left_out["diagnostics"][0]["message"]).contains("Permission denied"));
    env.run(["prepare", "--source", "src"]).ok();

    let error = env.run(["prepare", "--source", "closed", "--json"]).fails(1, "root-unreadable");
    assert!(text(&error["message"]).contains("/closed`"), "{error}");
}
