//! Signals to the program that sealed, those of a terminal, and its sudden end.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use skillfreeze_testing::Output;

use super::Place;
use crate::launch::wait_until;

/// Says each signal that it receives; ends with 7 after the one that its argument names, which its caller
/// sends once the others have had their time.
const TRAP: &str = r#"
import signal, sys
signals = {getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")}
last = getattr(signal, sys.argv[1])
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
print("ready", flush=True)
while True:
    got = signal.sigwait(signals)
    print(got.name, flush=True)
    if got == last and not signal.sigpending() & signals:
        sys.exit(7)
"#;

/// Starts a program in a terminal of its own, types an interrupt when it says that it is ready, and sends
/// another signal when it says that this has come.
const TYPE: &str = r#"
import os, pty, signal, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
said = b""
typed = sent = False
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
    if b"SIGINT" in said and not sent:
        sent = True
        os.kill(child, signal.SIGUSR1)
print(*said.decode().replace("^C", "").split()[1:], os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
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
            let (last, last_name) = match signal {
                Signal::USR2 => (Signal::USR1, "SIGUSR1"),
                _ => (Signal::USR2, "SIGUSR2"),
            };
            let (mut child, mut stdout) = spawn(&place, &["python3", "-c", TRAP, last_name]);
            let mut said = String::new();
            kill_process(Pid::from_child(&child), signal).unwrap();
            stdout.read_line(&mut said).unwrap();
            // They are passed on in order, so that a second one of the first would come before this.
            kill_process(Pid::from_child(&child), last).unwrap();
            stdout.read_to_string(&mut said).unwrap();
            assert_eq!((said, child.wait().unwrap().code()), (format!("{name}\n{last_name}\n"), Some(7)));
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
        terminal.arg(place.env.program()).args([
            "seal",
            &place.digest,
            "--",
            "python3",
            "-c",
            TRAP,
            "SIGUSR1",
        ]);
        assert_eq!(Output::of(&mut terminal).ok(), "SIGINT SIGUSR1 7\n");
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
