//! Snapshots as a whole: where they should be, and how their faults are printed.

use std::fs;
use std::os::unix::fs::symlink;

use skillfreeze_testing::{Output, Runner, set_mode};

use super::files::add;
use super::{Frozen, within};
use crate::support::environment;

/// Where the snapshot should be there is something else, or a link to where it has gone.
#[test]
fn a_snapshot_directory_that_was_replaced_is_not_used() {
    for runner in Runner::available() {
        let frozen = Frozen::new(*runner);
        let moved = frozen.path.with_file_name("moved");
        set_mode(&frozen.path, 0o755);
        fs::rename(&frozen.path, &moved).unwrap();
        symlink("moved", &frozen.path).unwrap();
        set_mode(&moved, 0o555);
        for arguments in
            [&["verify", &frozen.digest, "--json"][..], &["prepare", "--source", "src", "--json"]]
        {
            let run = frozen.env.run(arguments);
            assert!(run.status != 0 && run.stderr.contains("not-a-directory"), "{run:?}");
        }
        let run = frozen.run_marker();
        assert!(run.status == 125 && !frozen.has_started(), "{run:?}");
        fs::remove_file(&frozen.path).unwrap();
        frozen.env.run(["verify", &frozen.digest, "--json"]).fails(4, "snapshot-unknown");
        // Under another name, the right digest is as good as in its place.
        let moved = moved.to_str().unwrap();
        frozen.env.run(["verify", moved, "--digest", &frozen.digest]).ok();
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
