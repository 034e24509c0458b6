//! Signals to the program that sealed, those of a terminal, and its sudden end.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use skillfreeze_testing::Output;

use super::Place;
use crate::launch::wait_until;

/// Says what it receives, for a while after the first; then ends with 7.
const TRAP: &str = r#"
import signal, sys, time
got = []
for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"):
    signal.signal(getattr(signal, name), lambda number, frame: got.append(signal.Signals(number).name))
print("ready", flush=True)
while not got:
    time.sleep(0.02)
time.sleep(0.3)
print(*got, flush=True)
sys.exit(7)
"#;

/// Starts a program in a terminal of its own and types an interrupt when it says that it is ready.
const TYPE: &str = r#"
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
said = b""
typed = False
while True:
    try:
        read = os.read(terminal, 1000)
    except OSError:
        break
    if not read:
        break
    said += read
    if b"ready" in said and not typed:
        typed = True
        os.write(terminal, b"\x03")
print(said.decode().replace("^C", "").split()[-1], os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

fn spawn(place: &Place, command: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut seal = place.sealed(&[], command);
    let mut child = seal.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("ready"), "{line}");
    (child, stdout)
}

#[test]
fn a_signal_to_the_program_reaches_the_command_once() {
    for place in Place::each() {
        for (signal, name) in [
            (Signal::TERM, "SIGTERM"),
            (Signal::INT, "SIGINT"),
            (Signal::HUP, "SIGHUP"),
            (Signal::QUIT, "SIGQUIT"),
            (Signal::USR1, "SIGUSR1"),
            (Signal::USR2, "SIGUSR2"),
        ] {
            let (mut child, mut stdout) = spawn(&place, &["python3", "-c", TRAP]);
            kill_process(Pid::from_child(&child), signal).unwrap();
            let mut said = String::new();
            stdout.read_to_string(&mut said).unwrap();
            assert_eq!((said.trim(), child.wait().unwrap().code()), (name, Some(7)));
        }
        let (mut child, _stdout) = spawn(&place, &["sh", "-c", "echo ready; exec sleep 30"]);
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    }
}

/// It reaches the whole group in the foreground, so passing it on would make two of it.
#[test]
fn what_is_typed_at_a_terminal_reaches_the_command_once() {
    for place in Place::each() {
        let mut terminal = place.env.command_of("python3", ["-c", TYPE]);
        terminal.arg(place.env.program()).args(["seal", &place.digest, "--", "python3", "-c", TRAP]);
        assert_eq!(Output::of(&mut terminal).ok(), "SIGINT 7\n");
    }
}

#[test]
fn killing_the_program_ends_the_command() {
    for place in Place::each() {
        let (mut child, mut stdout) = spawn(&place, &["sh", "-c", "echo ready $$; exec sleep 1000"]);
        let mut rest = String::new();
        assert_eq!(place.record()["outcome"], "started");
        child.kill().unwrap();
        child.wait().unwrap();
        // The command held the pipe's other end.
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!((rest.as_str(), &place.record()["outcome"]), ("", &"started".into()));
        place.seal(&[], &["true"]).ok();
    }
}

/// A command that outlives what it started is one process, as without sealing.
#[test]
fn the_command_is_a_child_of_the_program() {
    for place in Place::each() {
        let (mut child, mut stdout) =
            spawn(&place, &["sh", "-c", "echo ready; echo $$ $PPID; exec sleep 30"]);
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let numbers: Vec<i32> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        assert_eq!(numbers[1].unsigned_abs(), child.id());
        let command = Pid::from_raw(numbers[0]).unwrap();
        kill_process(command, Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
        wait_until(|| test_kill_process(command).is_err());
    }
}
