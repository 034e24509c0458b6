//! Snapshots as a whole: where they should be, and how their faults are printed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Stdio};

use skillfreeze_testing::{Output, Runner, file, package, set_mode};

use super::files::add;
use super::{Faults, Frozen, remove, rewrite, within};
use crate::support::{environment, names, prepare, text};

/// Something that is put in the place of a snapshot.
type Replacement = (&'static str, fn(&Path));

/// Where the snapshot should be there is something else, or a link to where it has gone.
#[test]
fn a_snapshot_directory_that_was_replaced_is_not_used_and_built_again() {
    let replacements: &[Replacement] = &[
        ("a link to the snapshot", |path| symlink("moved", path).unwrap()),
        ("a link to nothing", |path| symlink("nowhere", path).unwrap()),
        ("a link to itself", |path| symlink(path.file_name().unwrap(), path).unwrap()),
        ("a file", |path| fs::write(path, "").unwrap()),
    ];
    for runner in Runner::available() {
        let frozen = Frozen::new(*runner);
        let moved = frozen.path.with_file_name("moved");
        set_mode(&frozen.path, 0o755);
        fs::rename(&frozen.path, &moved).unwrap();
        set_mode(&moved, 0o555);
        for (what, replace) in replacements.iter().copied() {
            replace(&frozen.path);
            let faults: Faults = &[(".", "wrong-type")];
            let found = frozen.verify(what, &[&frozen.digest], faults);
            assert_eq!(found["faults"][0]["expected"], "directory", "{what}");
            let actual = if what == "a file" { "file" } else { "link" };
            assert_eq!(found["faults"][0]["actual"], actual, "{what}");
            if frozen.launches {
                let error = frozen.run_marker().fails(125, "integrity");
                assert_eq!(error["details"]["faults"], found["faults"], "{what}");
                assert!(!frozen.has_started(), "{what}");
            }

            let prepared = frozen.env.run(["prepare", "--source", "src", "--json"]).json();
            assert_eq!(
                (text(&prepared["snapshot"]), &prepared["reused"]),
                (frozen.digest.clone(), &false.into())
            );
            assert_eq!(prepared["set_aside"].as_array().map(Vec::len), Some(1), "{what}");
            frozen.verify(what, &[&frozen.digest], &[]);
            remove(&frozen.path);
            remove(&frozen.path.with_file_name(text(&prepared["set_aside"][0])));
        }
        frozen.env.run(["verify", &frozen.digest, "--json"]).fails(4, "snapshot-unknown");
        // Under another name, the right digest is as good as in its place.
        let moved = moved.to_str().unwrap();
        frozen.env.run(["verify", moved, "--digest", &frozen.digest]).ok();
    }
}

/// Whoever finds it damaged first sets it aside, once; nobody sets aside what was built again.
#[test]
fn many_that_find_one_snapshot_damaged_build_it_again_once() {
    for runner in Runner::available() {
        let frozen = Frozen::new(*runner);
        for round in 0..12 {
            rewrite(&frozen.path.join("demo/a/b.md"), |bytes| [&bytes[..], b"x"].concat());
            let prepare = || {
                let mut command = frozen.env.command(["prepare", "--source", "src"]);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            };
            let running: Vec<Child> = (0..8).map(|_| prepare()).collect();
            for child in running {
                let output = child.wait_with_output().unwrap();
                assert!(output.status.success(), "{round}: {}", String::from_utf8_lossy(&output.stderr));
                assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), frozen.digest, "{round}");
            }
            let entries = names(frozen.path.parent().unwrap());
            let damaged: Vec<&String> = entries.iter().filter(|name| name.starts_with(".damaged-")).collect();
            assert_eq!((damaged.len(), entries.len()), (1, 2), "{round}: {entries:?}");
            frozen.verify("built again", &[&frozen.digest], &[]);
            remove(&frozen.path.with_file_name(damaged[0]));
        }
    }
}

/// As text, a line a fault; what a terminal would act on is escaped.
#[test]
fn faults_are_printed_a_line_each() {
    let frozen = Frozen::new(Runner::available()[0]);
    within(&frozen.path, || {
        add(&frozen.path.join("a\u{1b}[31m\nb"));
        add(&frozen.path.join("plain"));
    });
    let Output { stdout, status, .. } = frozen.env.run(["verify", &frozen.digest]);
    assert_eq!(status, 3);
    assert!(stdout.contains("unexpected plain") && !stdout.contains('\u{1b}'), "{stdout}");
    assert_eq!(stdout.lines().count(), 2, "{stdout}");
    let empty = environment(Runner::available()[0]);
    empty.run(["verify", &frozen.digest, "--json"]).fails(4, "snapshot-unknown");
}

/// What cannot be looked at for want of descriptors may be whole, and is not thrown away.
#[test]
fn a_snapshot_that_the_machine_has_no_room_to_check_is_left_alone() {
    for runner in Runner::available() {
        let env = environment(*runner);
        for number in 0..24 {
            let package = package(env.work().join("src"), &format!("skill-{number}"));
            file(package.join("a/b/c"), "");
        }
        let (digest, _) = prepare(&env, "src");
        let script = "ulimit -n $1; shift; exec \"$@\"";
        for limit in 10..24 {
            let limit = limit.to_string();
            let program = env.program().to_str().unwrap();
            let arguments = ["-c", script, "sh", &limit, program, "prepare", "--source", "src", "--quiet"];
            Output::of(&mut env.command_of("bash", arguments));
            let names = names(env.root().join("snapshots/sha256"));
            assert!(names.iter().any(|name| digest.ends_with(name)), "{limit}: {names:?}");
            assert!(!names.iter().any(|name| name.starts_with(".damaged")), "{limit}: {names:?}");
        }
        env.run(["verify", &digest]).ok();
    }
}
