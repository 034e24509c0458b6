//! Callers with little to give: low limits, closed streams, no home, ignored signals.

use skillfreeze_testing::{Output, file, package};

use super::{Place, Way};
use crate::support::{prepare, text};

/// Ignores the ends of child processes, and becomes its arguments.
const IGNORING_CHILDREN: &str = "
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
";
/// Bytes of private memory that suffice for a launch, but not for one more thread's stack.
const NO_THREAD: &str = "--data=2000000:2000000";

/// `run` with a command, started by another program.
fn run_by(place: &Place, starter: &[&str], command: &[&str]) -> Output {
    let mut run = place.env.command_of(starter[0], &starter[1..]);
    run.arg(place.env.program()).args(["run", "--json", &place.digest]).args(place.options());
    Output::of(run.arg("--").args(command))
}

#[test]
fn streams_may_be_closed_and_names_missing() {
    for place in Place::each_way() {
        let script = "head -2 $SKILLS_DIR/demo/SKILL.md; pwd; umask";
        for (starter, mask) in [
            (r#"exec "$@" <&-"#, "0022"),
            (r#"exec "$@" 2>&-"#, "0022"),
            (r#"unset HOME TMPDIR LANG; exec "$@""#, "0022"),
            (r#"export HOME= TMPDIR=/none; exec "$@""#, "0022"),
            (r#"ulimit -n 64; exec "$@""#, "0022"),
            (r#"ulimit -Sn 24; exec "$@""#, "0022"),
            (r#"trap "" HUP INT TERM PIPE; exec "$@""#, "0022"),
            (r#"umask 0777; exec "$@""#, "0777"),
            (r#"umask 0027; exec "$@""#, "0027"),
            (r#"umask 0; exec "$@""#, "0000"),
        ] {
            let output =
                run_by(&place, &["sh", "-c", &format!("umask 022; {starter}"), "sh"], &["sh", "-c", script]);
            assert_eq!(output.ok(), format!("---\nname: demo\n/tmp/home\n{mask}\n"), "{starter}");
        }
        for starter in [r#"exec "$@" >&-"#, r#"exec "$@" <&- >&- 2>&-"#] {
            let output = run_by(&place, &["sh", "-c", starter, "sh"], &["sh", "-c", "exit 3"]);
            assert_eq!(
                (output.status, output.stdout.as_str(), output.stderr.as_str()),
                (3, "", ""),
                "{starter}"
            );
        }
        // What reads may go away: the command hears of it as it would without a sandbox.
        let starter = r#""$@" | head -1; exit 5"#;
        let output =
            run_by(&place, &["sh", "-c", starter, "sh"], &["sh", "-c", "while :; do echo line; done"]);
        assert_eq!((output.status, output.stdout.as_str()), (5, "line\n"), "{output:#?}");
        let output = run_by(&place, &["python3", "-c", IGNORING_CHILDREN], &["sh", "-c", "true; exit 3"]);
        assert_eq!((output.status, output.stderr.as_str()), (3, ""), "{output:#?}");
    }
}

#[test]
fn what_is_too_little_is_named() {
    for mut place in Place::each_way() {
        file(package(place.work("src"), "large").join("data"), vec![7; 100_000]);
        (place.digest, place.snapshot) = prepare(&place.env, "src");
        let directory = "mkdir gone; cd gone; rmdir ../gone; exec \"$@\"";
        for (starter, code) in [
            (&["sh", "-c", "ulimit -n 20; exec \"$@\"", "sh"][..], "descriptor-limit"),
            (&["sh", "-c", "exec \"$@\" </", "sh"], "stream-directory"),
            (&["sh", "-c", directory, "sh"], "not-found"),
            (&["prlimit", "--fsize=0:0"], "record-not-written"),
            (&["prlimit", NO_THREAD], "process-limit"),
        ] {
            let output = run_by(&place, starter, &["echo", "started"]);
            let error = output.fails(125, code);
            assert!(!text(&error["message"]).is_empty(), "{error}");
            assert_eq!(output.stdout, "", "{starter:?}: {output:#?}");
        }
        // Memory files are files: their size is limited too. A stage's are, likewise.
        let output = run_by(&place, &["prlimit", "--fsize=50000:50000"], &["echo", "started"]);
        if place.way() == Way::Bind {
            assert_eq!(output.ok(), "started\n");
        } else {
            // It says nothing against the snapshot.
            let error = output.fails(125, "sandbox-start");
            assert!(text(&error["message"]).contains("`large/data`: File too large"), "{error}");
            assert_eq!(output.stdout, "");
        }
        place.run(&[], &["true"]).ok();
        place.verify();
    }
}

/// Threads are shared out among packages where there are more than a few; they are no necessity.
#[test]
fn a_check_needs_no_thread_but_its_own() {
    for mut place in Place::each() {
        for index in 0..6 {
            package(place.work("src"), &format!("p{index}"));
        }
        (place.digest, place.snapshot) = prepare(&place.env, "src");
        let mut verify = place.env.command_of("prlimit", [NO_THREAD]);
        let output = Output::of(verify.arg(place.env.program()).args(["verify", "--json", &place.digest]));
        assert_eq!(output.json()["packages"], 7);
        let output = run_by(&place, &["prlimit", NO_THREAD], &["true"]);
        let error = output.fails(125, "process-limit");
        assert!(text(&error["message"]).contains("relaying signals"), "{error}");
    }
}

/// What a service manager or `setpriv` leaves a program, bubblewrap refuses to start with.
#[test]
fn powers_of_the_caller_are_not_the_commands() {
    for place in Place::each_way().filter(|place| !place.is_roots()) {
        // In a namespace that does not know root, nothing is root's, bubblewrap neither.
        let run = place.command(&["--bwrap", "/usr/bin/bwrap"], &["grep", "^Cap[IPEA]", "/proc/self/status"]);
        let mut unshare = place.env.command_of("unshare", ["--user", "--map-current-user", "--keep-caps"]);
        let output = Output::of(unshare.arg(run.get_program()).args(run.get_args()));
        let sets: Vec<&str> = output.ok().lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(sets, ["0000000000000000"; 4], "{output:#?}");
    }
}

/// A descriptor may be open above the limit; where close_range(2) is refused, it is found all the same.
#[test]
fn no_descriptor_gets_in_where_one_call_cannot_close_all() {
    for place in Place::each_way() {
        let script = "exec 100</etc/passwd; ulimit -Sn 90; exec \"$@\"";
        let forbid = include_str!("forbid.py");
        let starter = ["bash", "-c", script, "bash", "python3", "-c", forbid, "436=38"];
        let output =
            run_by(&place, &starter, &["sh", "-c", "for fd in /proc/$$/fd/*; do echo ${fd##*/}; done"]);
        // The shell has the directory itself open while it lists it.
        assert_eq!(output.ok(), "0\n1\n2\n3\n", "{output:#?}");
    }
}

/// `timeout` and service managers send TERM alone.
#[test]
fn a_stopped_command_can_be_ended() {
    for place in Place::each_way() {
        let output = run_by(&place, &["timeout", "1"], &["sh", "-c", "kill -STOP $$"]);
        assert!([124, 143].contains(&output.status), "{output:#?}");
    }
}

#[test]
fn a_descriptor_that_cannot_be_written_takes_no_status_lines() {
    for place in Place::each() {
        let script = "exec \"$0\" run \"$1\" \"$2\" --status-fd 3 -- echo started 3</dev/null";
        let program = place.env.program().to_str().unwrap().to_owned();
        let output =
            Output::of(&mut place.env.command_of("sh", ["-c", script, &program, &place.digest, "--json"]));
        let error = output.fails(125, "usage");
        assert!(text(&error["message"]).contains("not open for writing"), "{output:#?}");
        assert!(text(&error["hint"]).contains("3>FILE"), "{output:#?}");
        assert_eq!(output.stdout, "");
    }
}

/// Too few descriptors are no damage, and too few processes no fault of bubblewrap's or the command's.
#[test]
fn what_the_machine_refuses_is_not_the_snapshots_fault() {
    for place in Place::each_way().filter(|place| !place.is_roots()) {
        for limit in 8..16 {
            let starter = format!("ulimit -n {limit}; exec \"$@\"");
            let output = run_by(&place, &["sh", "-c", &starter, "sh"], &["echo", "started"]);
            assert_eq!((output.status, output.stdout.as_str()), (125, ""), "{output:#?}");
            assert!(!output.stderr.contains("does not match"), "{output:#?}");
        }
    }
}
