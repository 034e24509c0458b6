//! A command that has the caller's terminal.

use std::path::Path;

use serde_json::json;
use skillfreeze_testing::Output;

use super::sources::open_up;
use super::{Place, events};

/// A shell with job control that is given to everything else here.
const SHELL: [&str; 7] = ["env", "PS1=$ ", "bash", "--norc", "--noprofile", "--noediting", "-i"];
/// What is typed to that shell to hear when its job has stopped.
const UNTIL_STOPPED: &str = "until [ -n \"$(jobs -s)\" ]; do sleep 0.05; done; echo $((40 + 2)) left\n";
/// Tries the requests in its arguments on standard input and on no descriptor at all.
const REQUESTS: &str = r#"
import ctypes, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
ioctl = {"x86_64": 16, "aarch64": 29}[platform.machine()]
for request in sys.argv[1:]:
    for number in (0, -1):
        text = ctypes.create_string_buffer(b"x", 64)
        done = libc.syscall(ctypes.c_long(ioctl), ctypes.c_long(number), ctypes.c_ulong(int(request, 16)), text)
        print(request, number, ctypes.get_errno() if done else 0, flush=True)
        ctypes.set_errno(0)
"#;

/// `run` in a terminal, with what is waited for and typed there.
fn typed<S: AsRef<std::ffi::OsStr>>(place: &Place, steps: &[(&str, &str)], command: &[S]) -> Output {
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launch/terminal.py");
    let driver = std::fs::read_to_string(driver).unwrap();
    let mut python = place.env.command_of("/usr/bin/python3", ["-c", &driver, &json!(steps).to_string()]);
    Output::of(python.args(command))
}

/// The words of `run --tty`.
fn words<'a>(place: &'a Place, command: &[&'a str]) -> Vec<&'a str> {
    let program = place.env.program().to_str().unwrap();
    [&[program, "run", &place.digest], &place.options().collect::<Vec<_>>()[..], &["--tty", "--"], command]
        .concat()
}

/// The same as a line for a shell, whose words need no quotes.
fn line(place: &Place, command: &str) -> String {
    format!("{} '{command}'\n", words(place, &["sh", "-c"]).join(" "))
}

#[test]
fn the_command_has_the_terminal_and_cannot_type_there() {
    for place in Place::each_way() {
        let requests = ["0x5412", "0x541c", "0x100005412", "0xffffffff0000541c", "0x5413"];
        let command = [&["python3", "-c", REQUESTS], &requests[..]].concat();
        let output = typed(&place, &[], &words(&place, &command));
        // EPERM from the filter, and EBADF from the system where it lets the request pass.
        let refused = requests[..4].iter().map(|request| format!("{request} 0 1\n{request} -1 1\n"));
        let expected = refused.collect::<String>() + "0x5413 0 0\n0x5413 -1 9\n";
        assert_eq!(output.ok(), expected);
        let record = place.record();
        assert_eq!(record["launch"]["terminal"], true, "{record}");

        let script = "stty rows 12 cols 34; stty size; tty >/dev/null && exec 3</dev/tty && echo has one";
        let output = typed(&place, &[], &words(&place, &["sh", "-c", script]));
        assert_eq!(output.ok(), "12 34\nhas one\n");
    }
}

/// Streams that are the terminal stay so; typing takes one's own, which no filter needs to say.
#[test]
fn without_it_the_terminal_is_a_stream_and_no_more() {
    for place in Place::each_way() {
        let words = |command| {
            let mut words = words(&place, command);
            words.retain(|word| *word != "--tty");
            words
        };
        let output = typed(&place, &[], &words(&["python3", "-c", REQUESTS, "0x5412", "0x5413"]));
        assert_eq!(output.ok(), "0x5412 0 1\n0x5412 -1 9\n0x5413 0 0\n0x5413 -1 9\n");
        let script =
            "stty rows 12 cols 34; stty size; read line; echo read $line; (: </dev/tty) 2>&1 || echo no tty";
        let output = typed(&place, &[("12 34", "typed\n")], &words(&["sh", "-c", script]));
        assert!(output.ok().contains("read typed\n") && output.stdout.ends_with("no tty\n"), "{output:#?}");
    }
}

#[test]
fn what_is_typed_reaches_the_command() {
    for place in Place::each() {
        let script =
            "trap \"echo interrupted; exit 7\" INT; echo rea\"\"dy; read line; echo got $line; read x";
        let steps = [("ready", "hello\n"), ("got hello", "\x03")];
        let output = typed(&place, &steps, &words(&place, &["sh", "-c", script]));
        assert_eq!(output.status, 7, "{output:#?}");
        assert!(output.stdout.ends_with("^Cinterrupted\n"), "{output:#?}");
        // The signal goes to the command alone, which ends by itself, and the shell is still there. (A shell
        // that is about to start something else can miss one.)
        let line = line(&place, "echo rea\"\"dy; exec sleep 100");
        let steps =
            [("$ ", line.as_str()), ("ready", "\x03"), ("$ ", "echo status=$?.\n"), ("130.", "exit 0\n")];
        typed(&place, &steps, &SHELL).ok();
    }
}

#[test]
fn stopping_stops_both_and_the_shell_continues_both() {
    for place in Place::each_of(&[super::Way::Stage, super::Way::Bind]) {
        let line = line(&place, "echo rea\"\"dy; while read line; do echo got $line.; done");
        let steps = [
            ("$ ", line.as_str()),
            ("ready", "one\n"),
            ("got one.", "\x1a"),
            ("Stopped", "jobs; echo $((40 + 2)) left\n"),
            ("42 left", "fg\n"),
            ("run", "two\n"),
            // Again, and continued where it cannot read: it stops by itself and comes back.
            ("got two.", "\x1a"),
            ("Stopped", "bg\n"),
            ("$ ", UNTIL_STOPPED),
            ("42 left", "fg\n"),
            ("run", "three\n"),
            ("got three.", "\x04"),
            ("$ ", "echo status=$?.\n"),
            ("status=0.", "exit 0\n"),
        ];
        typed(&place, &steps, &SHELL).ok();
        place.verify();
    }
}

/// The shell that started it is not stopped when it reads, so it has its terminal again.
#[test]
fn the_terminal_comes_back_however_the_command_ends() {
    for place in Place::each() {
        // No job control, so that nobody but `run` itself gives it back.
        for (command, status) in [("exit 3", 3), ("kill -9 $$", 137), ("sleep 100 & kill -15 $$", 143)] {
            let run = words(&place, &["sh", "-c"]).join(" ");
            let script = format!("{run} '{command}'; echo status=$?.; read line; echo got $line");
            let expected = format!("status={status}.");
            let output = typed(&place, &[(&expected, "back\n")], &["sh", "-c", &script]);
            assert!(output.ok().ends_with("got back\n"), "{output:#?}");
        }
        // Also when `run` itself is killed, and when its helper is.
        open_up(&place);
        let run = words(&place, &["sh", "-c"]).join(" ").replacen("--tty", "--tty --workspace ws", 1);
        let children = "/proc/$(cat pid)/task/$(cat pid)/children";
        for (killed, status) in [("$(cat pid)", 137), (&format!("$(cat {children})"), 125)] {
            let script = format!(
                "(until [ -e ws/ready ]; do sleep 0.02; done; rm -f ws/ready; kill -9 {killed}) &
                sh -c \"echo \\$\\$ >pid; exec {run} 'touch ready; sleep 100'\"
                echo status=$?.; until read line; do sleep 0.02; done; echo got $line"
            );
            let expected = format!("status={status}.");
            let output = typed(&place, &[(&expected, "back\n")], &["sh", "-c", &script]);
            assert!(output.ok().ends_with("got back\n"), "{output:#?}");
        }
        // Nothing can be read before it is in the foreground, in a job that begins in the background.
        let line = line(&place, "read line; echo got $line.").replace('\n', " &\n");
        let steps = [
            ("$ ", line.as_str()),
            ("$ ", UNTIL_STOPPED),
            ("42 left", "fg\n"),
            ("run", "late\n"),
            ("got late.", "exit 0\n"),
        ];
        typed(&place, &steps, &SHELL).ok();
    }
}

#[test]
fn there_must_be_a_terminal() {
    for place in Place::each() {
        let (output, lines) = place.run_with_lines(&[&place.digest, "--json", "--tty", "--", "true"]);
        let error = output.fails(125, "terminal-missing");
        assert!(error["hint"].as_str().unwrap().contains("--tty"), "{error}");
        assert_eq!(events(&lines), ["planned", "verified", "terminal-missing"]);
        let landlock = ["--json", "--tty", "--sandbox", "landlock", "--require", "read-only"];
        place.run(&landlock, &["true"]).fails(125, "sandbox-cannot");
        // One that is somebody else's is none either.
        let run = [&["setsid", "--wait"], &words(&place, &["true"])[..]].concat();
        let output = typed(&place, &[], &run);
        assert!(output.status == 125 && output.stdout.contains("--tty"), "{output:#?}");
    }
}
