//! The exit status, and the standard streams.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Output as Raw, Stdio};
use std::thread;

use skillfreeze_testing::Output;

use super::Place;

#[test]
fn the_status_is_the_commands_own() {
    for place in Place::each_way() {
        for (script, status) in [
            ("exit 0", 0),
            ("exit 1", 1),
            ("exit 3", 3),
            ("exit 125", 125),
            ("exit 126", 126),
            ("exit 255", 255),
            ("kill -KILL $$", 137),
            ("kill -TERM $$", 143),
            ("kill -SEGV $$", 139),
        ] {
            let output = place.run(&[], &["sh", "-c", script]);
            // What the command does is no failure of the program, which so has nothing to say.
            assert_eq!((output.status, output.stderr.as_str()), (status, ""), "{script}: {output:#?}");
        }
    }
}

#[test]
fn a_command_that_cannot_be_started_has_a_status_of_its_own() {
    for place in Place::each_way() {
        for (program, status, code) in [
            ("no-such-command", 127, "command-not-found"),
            ("/usr/bin/no-such-command", 127, "command-not-found"),
            ("$SKILLS_DIR/demo/no-such-command", 127, "command-not-found"),
            ("$SKILLS_DIR/demo/scripts/tool.py", 126, "command-not-executable"),
            ("/usr", 126, "command-not-executable"),
        ] {
            place.run(&["--json"], &[program]).fails(status, code);
        }
    }
}

/// Every failure of the program itself, usage included, so that a caller can tell it from the command's.
#[test]
fn what_is_the_programs_own_failure_has_status_125() {
    for place in Place::each() {
        let unknown = format!("sha256:{}", "0".repeat(64));
        for (arguments, code) in [
            (&["run", "--json"][..], "usage"),
            (&["run", "--json", "--"], "usage"),
            (&["run", "--json", &place.digest, "--"], "usage"),
            (&["run", "--json", &place.digest, "--no-such-option", "--", "true"], "usage"),
            (&["run", "--json", &place.digest, "--all", "--", "true"], "usage"),
            (&["run", "--json", "sha256:x", "--", "true"], "usage"),
            (&["run", "--json", &unknown, "--", "true"], "snapshot-unknown"),
            (&["run", "--json", "--source", "src", "-s", "other", "--", "true"], "selection-unknown"),
            (&["run", "--json", "--source", "no-such-source", "--", "true"], "root-absent"),
            (&["run", "--json", &place.digest, "--record", "none/x", "--", "true"], "not-found"),
        ] {
            place.env.run(arguments).fails(125, code);
        }
    }
}

fn with_input(place: &Place, command: &[&str], input: Vec<u8>) -> Raw {
    let mut command = place.command(&[], command);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    output
}

#[test]
fn streams_pass_unharmed_and_apart() {
    for place in Place::each_way() {
        let input: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        let output = with_input(&place, &["sh", "-c", "cat; printf 'e\\377\\n' >&2"], input.clone());
        assert!(output.stdout == input, "{} bytes", output.stdout.len());
        assert_eq!(output.stderr, b"e\xff\n");

        let huge = place.command(&[], &["head", "-c", "50000000", "/dev/zero"]).output().unwrap();
        assert_eq!((huge.stdout.len(), huge.stderr.len()), (50_000_000, 0));
        assert!(huge.stdout.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn arguments_arrive_byte_for_byte() {
    for place in Place::each() {
        let argument = OsStr::from_bytes(b"a\xff\xfe \n'\"$HOME\\");
        let command = ["printf".as_ref(), "%s".as_ref(), argument];
        let output = place.command(&[], &command).output().unwrap();
        assert_eq!(output.stdout, argument.as_bytes());
    }
}

/// The daemon holds standard output open: whoever reads that to its end would wait for it.
#[test]
fn what_a_command_leaves_behind_ends_with_it() {
    for place in Place::each_way() {
        let script = "setsid sleep 100000 & (setsid sh -c 'sleep 100000 & wait' &); exit 3";
        let output = Output::of(&mut place.command(&[], &["sh", "-c", script]));
        assert_eq!(output.status, 3, "{output:#?}");
    }
}
