//! How launches under Landlock end, and what is left of them: nothing.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use skillfreeze_testing::file;

use super::super::wait_until;
use super::Enclosed;
use crate::support::names;

#[test]
fn statuses_and_signals_are_the_commands() {
    for enclosed in Enclosed::each() {
        assert_eq!(enclosed.run(&[], &["sh", "-c", "exit 7"]).status, 7);
        assert_eq!(enclosed.run(&[], &["sh", "-c", "kill -9 $$"]).status, 137);
        enclosed.run(&[], &["no-such-command"]).fails(127, "command-not-found");
        enclosed.run(&[], &["/etc/passwd"]).fails(126, "command-not-executable");
        for (script, status) in [
            ("trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done", 5),
            ("echo ready; exec sleep 100", 143),
        ] {
            let mut child =
                enclosed.command(&[], &["sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(status));
        }
        assert_eq!(names(enclosed.0.work("tmp")), [""; 0]);
    }
}

/// Processes with this among their arguments.
fn running(marker: &str) -> Vec<i32> {
    let numbers = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(marker).then_some(number)
    });
    numbers.collect()
}

/// The parent of a process.
fn parent(number: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A command that leaves processes everywhere: in the background, in a session of its own, with a reaper of
/// its own.
fn scattering(marker: &str) -> String {
    let reaper = "import ctypes, os, time\nctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n\
                  if os.fork() == 0:\n os.setsid()\n os.fork()\n\
                  while True: time.sleep(1)";
    format!(
        "sleep='while :; do sleep 1; done'; (setsid sh -c \"$sleep\" {marker} &); sh -c \"$sleep\" {marker} & \
         /usr/bin/python3 -c '{reaper}' {marker} & sleep 0.3; "
    )
}

#[test]
fn the_end_of_the_command_is_the_end_of_all_that_it_started() {
    for enclosed in Enclosed::each() {
        let marker = format!("landlock-end-{}-{}", std::process::id(), enclosed.0.is_roots());
        let script = format!("{}echo ended; exit 4", scattering(&marker));
        let output = enclosed.run(&[], &["sh", "-c", &script]);
        assert_eq!((output.status, output.stdout.as_str()), (4, "ended\n"), "{output:#?}");
        assert_eq!(running(&marker), [0; 0]);
    }
}

#[test]
fn nothing_is_left_whichever_process_is_killed() {
    for enclosed in Enclosed::each() {
        let place = &enclosed.0;
        for (generation, name) in ["main", "helper", "inner", "command"].into_iter().enumerate() {
            let marker = format!("landlock-{name}-{}-{}", std::process::id(), place.is_roots());
            let script = format!("{}echo $$; while :; do sleep 1; done", scattering(&marker));
            let mut run = enclosed.command(&[], &["sh", "-c", &script, &marker]);
            let mut child = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            let mut number: i32 = line.trim().parse().unwrap();
            assert!(running(&marker).len() >= 6, "{:?}", running(&marker));
            for _ in generation..3 {
                number = parent(number);
            }
            assert_eq!(number == Pid::from_child(&child).as_raw_nonzero().get(), name == "main");
            kill_process(Pid::from_raw(number).unwrap(), Signal::KILL).unwrap();
            let status = child.wait().unwrap().code();
            let expected = [None, Some(125), Some(125), Some(137)][generation];
            assert_eq!(status, expected, "{name}");
            wait_until(|| running(&marker).is_empty());
            wait_until(|| names(place.work("tmp")).is_empty());
            place.verify();
        }
    }
}

/// What its user may have closed or made deep is removed all the same.
#[test]
fn the_launchs_own_directory_is_removed_whatever_it_holds() {
    for enclosed in Enclosed::each() {
        let outside = enclosed.0.work("outside");
        file(outside.join("file"), "");
        symlink("outside", enclosed.0.work("link")).unwrap();
        let script = format!(
            "ln -s {0} $HOME/link; ln -s {0} $TMPDIR/x; cd $HOME; i=0; while [ $i -lt 300 ]; do mkdir d; cd -P d; \
             i=$((i+1)); done; touch file; chmod 0 . .. $HOME $TMPDIR; chmod 0 $TMPDIR/..; echo done",
            outside.display()
        );
        assert_eq!(enclosed.run(&[], &["sh", "-c", &script]).ok(), "done\n");
        assert!(outside.join("file").exists());
    }
}
