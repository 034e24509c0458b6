//! A sealed command runs as it would without.

use std::fs;

use skillfreeze_testing::{Output, file};

use super::Place;

/// Runs a shell's line as the user, in which `seal` is a command sealed with the snapshot.
fn shell(place: &Place, line: &str) -> Output {
    let script = format!("seal() {{ \"$PROGRAM\" seal \"$DIGEST\" \"$@\"; }}\n{line}");
    let mut shell = place.env.command_of("bash", ["-c", &script]);
    Output::of(shell.env("PROGRAM", place.env.program()).env("DIGEST", &place.digest))
}

#[test]
fn the_callers_descriptors_variables_and_limits_stay() {
    for place in Place::each() {
        for (line, said) in [
            // At numbers that the program would else use itself, too.
            ("seal -- bash -c 'echo a >&9; echo b >&10; echo c >&11' 9>&1 10>&1 11>&1", "a\nb\nc\n"),
            ("echo in | seal -- cat", "in\n"),
            ("A='x y' seal -- sh -c 'echo \"$A\"'", "x y\n"),
            ("seal -- printf '%s|' '$SKILLS_DIR/x' '' '*'", "$SKILLS_DIR/x||*|"),
            ("umask 027; seal -- sh -c umask", "0027\n"),
            ("ulimit -Sn 77; seal -- sh -c 'ulimit -Sn'", "77\n"),
            ("cd ws; seal -- sh -c 'basename $(pwd -P)'", "ws\n"),
            ("SKILLS_DIR=/old SKILLS_INTEGRITY=old seal -- sh -c 'echo $SKILLS_INTEGRITY'", "sealed\n"),
            // Sockets of a manager of services are for the process that it names.
            (
                "export LISTEN_PID; sh -c 'LISTEN_PID=$$ exec \"$PROGRAM\" seal $DIGEST -- \
                     sh -c \"echo \\$((LISTEN_PID - \\$\\$))\"'",
                "0\n",
            ),
            ("LISTEN_PID=1 seal -- sh -c 'echo $LISTEN_PID'", "1\n"),
            ("(trap '' HUP; seal -- sh -c 'kill -HUP $$; echo lives')", "lives\n"),
            ("(trap '' XFSZ; seal -- sh -c 'kill -XFSZ $$; echo lives')", "lives\n"),
            // But for two, of which nothing can be told any more when the program begins.
            ("(trap '' PIPE; seal -- sh -c 'kill -PIPE $$; echo lives'); echo $?", "141\n"),
        ] {
            assert_eq!(shell(&place, line).ok(), said, "{line}");
        }
        // The status lines are the program's alone: the command cannot write any.
        let line = "seal --status-fd 7 -- sh -c 'echo forged >&7' 7>status 2>/dev/null";
        assert_eq!(shell(&place, line).status, 2);
        assert!(!fs::read_to_string(place.work("status")).unwrap().contains("forged"));
    }
}

#[test]
fn who_the_command_is_and_what_it_may_is_as_before() {
    for place in Place::each() {
        let identity = "id -u; id -g; stat -c %u .";
        let before = Output::of(&mut place.env.command_of("sh", ["-c", identity]));
        assert_eq!(place.seal(&[], &["sh", "-c", identity]).ok(), before.ok());
        if place.is_roots() {
            // Root can still give files away and become another.
            let root = "touch new && chown 12:34 new && stat -c %u:%g new && setpriv --reuid 12 --clear-groups id -u";
            assert_eq!(place.seal(&[], &["sh", "-c", root]).ok(), "12:34\n12\n");
        }
        // Another sandbox of ours, too.
        let mut nested = place.sealed(&[], &[place.env.program()]);
        // In a user namespace that knows one user, what is root's looks like nobody's.
        let bubblewrap = if place.is_roots() { &[][..] } else { &["--bwrap", "/usr/bin/bwrap"] };
        nested.arg("run").args(bubblewrap).args([
            &place.digest,
            "--",
            "cat",
            "$SKILLS_DIR/demo/scripts/tool.py",
        ]);
        assert_eq!(Output::of(&mut nested).ok(), "NAME = 'tool'\n");
    }
}

/// The directory that the command starts in is the sealed one, not what lies below.
#[test]
fn a_working_directory_in_the_snapshot_is_entered_again() {
    for place in Place::each() {
        for (directory, command) in [("", "cat demo/scripts/tool.py"), ("demo/scripts", "cat tool.py")] {
            let evil = "chmod 755 . && for f in *; do :; done; touch new";
            for (script, status) in [(command, 0), (evil, 1)] {
                let mut seal = place.sealed(&[], &["sh", "-c", script]);
                let output = Output::of(seal.current_dir(place.snapshot.join(directory)));
                assert_eq!(output.status, status, "{output:#?}");
            }
        }
        place.verify();
    }
}

#[test]
fn nothing_shows_outside_and_nothing_is_left() {
    for place in Place::each() {
        let snapshot = place.snapshot.to_str().unwrap();
        let shows = || fs::read_to_string("/proc/self/mountinfo").unwrap().contains(snapshot);
        let wait = "mount 2>/dev/null | grep -c skillfreeze; echo ready >ready; until [ -e go ]; do sleep 0.02; done";
        let child =
            place.sealed(&[], &["sh", "-c", wait]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        crate::launch::wait_until(|| place.work("ready").exists());
        assert!(!shows());
        file(place.work("go"), "");
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"1\n"[..]));
        assert!(!shows());
    }
}
