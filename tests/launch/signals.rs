//! Signals to the program, and its sudden end.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::{Place, wait_until};

/// Two processes of one group that each say what they receive.
const TRAP: &str = r#"
import os, signal, sys, time
def say(text):
    os.write(1, text.encode() + b"\n")
child = os.fork()
def handle(number, frame):
    say(("parent" if child else "child") + " got " + signal.Signals(number).name)
    if child:
        os.waitpid(child, 0)
    os._exit(7)
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), handle)
say("ready")
for _ in range(1000):  # not `pause`, which would sleep on a signal that came just before it
    time.sleep(0.02)
"#;

fn spawn(place: &Place, command: &[&str], ready: usize) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = place.command(&[], command);
    // Alone in its group, so that signals to the group reach no test.
    let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..ready {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }
    (child, stdout)
}

#[test]
fn signals_reach_the_handlers_of_the_commands_whole_group() {
    for place in Place::each_way() {
        for (signal, name) in [
            (Signal::TERM, "SIGTERM"),
            (Signal::INT, "SIGINT"),
            (Signal::HUP, "SIGHUP"),
            (Signal::USR1, "SIGUSR1"),
        ] {
            // To the program alone, as `kill` sends it, and to its group, as a terminal does.
            for send in [kill_process, kill_process_group] {
                let (mut child, mut stdout) = spawn(&place, &["python3", "-c", TRAP, name], 2);
                send(Pid::from_child(&child), signal).unwrap();
                let mut said = String::new();
                stdout.read_to_string(&mut said).unwrap();
                let mut lines: Vec<&str> = said.lines().collect();
                lines.sort_unstable();
                assert_eq!(lines, [format!("child got {name}"), format!("parent got {name}")]);
                assert_eq!(child.wait().unwrap().code(), Some(7), "{name}");
            }
        }
    }
}

#[test]
fn a_signal_without_a_handler_ends_the_command() {
    for place in Place::each_way() {
        let (mut child, _stdout) = spawn(&place, &["sh", "-c", "echo ready; exec sleep 30"], 1);
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    }
}

/// Processes with this among their arguments.
fn running(marker: &str) -> Vec<String> {
    let lines = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).into_owned())
    });
    lines.filter(|line| line.contains(marker)).collect()
}

#[test]
fn killing_the_program_ends_everything_inside() {
    for place in Place::each_way() {
        let marker = format!("marker-{}-{}", std::process::id(), place.is_roots());
        // One process as it is, one in a session of its own without a living parent.
        let script = "sleep=\"while :; do sleep 1; done\"; (setsid sh -c \"$sleep\" $0 &); \
                      sh -c \"$sleep\" $0 & echo ready; wait";
        let (mut child, _stdout) = spawn(&place, &["sh", "-c", script, &marker], 1);
        // The program, the command and the two.
        wait_until(|| running(&marker).len() >= 4);
        assert_eq!(place.record()["outcome"], "started");
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until(|| running(&marker).is_empty());
        let record = place.record();
        assert_eq!(record["outcome"], "started");
        assert!(record["exit"].is_null() && record["ended_at"].is_null(), "{record}");
        place.verify();
    }
}
