//! What changes between the check and the sealing, and where nothing is sealed, after the check.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::ioctl_fionread;
use rustix::pipe::fcntl_setpipe_size;
use serde_json::Value;
use skillfreeze_testing::{Output, set_mode};

use super::{Place, Way, events, wait_until};
use crate::support::codes;

/// A pipe in which one more status line finds room and a second one does not, so that a launch waits
/// between the check and the sealing until it is read.
pub(super) struct Gate {
    reader: fs::File,
    path: PathBuf,
    filled: u64,
}

impl Gate {
    /// Room for a line of some 220 bytes, and not for the next, of some 100.
    const ROOM: usize = 290;

    pub(super) fn new(place: &Place) -> Self {
        Self::with_room_for(place, 0)
    }

    /// The same where the first line is that much longer.
    pub(super) fn with_room_for(place: &Place, more: usize) -> Self {
        let path = place.work("gate");
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        set_mode(&path, 0o666);
        let mut reader = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let size = fcntl_setpipe_size(reader.as_fd(), 4096).unwrap();
        let filling = vec![b'\n'; size - Self::ROOM - more];
        reader.write_all(&filling).unwrap();
        Self { reader, path, filled: filling.len() as u64 }
    }

    /// Waits until the first line is in.
    pub(super) fn wait(&self) {
        wait_until(|| ioctl_fionread(self.reader.as_fd()).unwrap() > self.filled);
    }

    /// Lets everything pass; gives the lines.
    pub(super) fn open(self) -> Vec<Value> {
        // Nothing of the size that a pipe has is left to wait for: all writers have gone at the end.
        let mut reader = BufReader::new(fs::File::open(&self.path).unwrap());
        drop(self.reader);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let lines = text.lines().filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Shell scripts that change the snapshot, their first argument, for good, and a fault that each is.
const CHANGES: [(&str, &str); 8] = [
    ("chmod 644 $1/demo/SKILL.md; echo evil >>$1/demo/SKILL.md; chmod 444 $1/demo/SKILL.md", "wrong-size"),
    (
        "chmod 644 $1/demo/SKILL.md; printf - | dd of=$1/demo/SKILL.md conv=notrunc seek=9 bs=1 2>/dev/null; chmod 444 $1/demo/SKILL.md",
        "wrong-hash",
    ),
    ("chmod 755 $1/demo; rm $1/demo/SKILL.md; chmod 555 $1/demo", "missing"),
    ("chmod 755 $1/demo; touch $1/demo/new; chmod 555 $1/demo", "unexpected"),
    ("chmod 755 $1/demo; ln -sf /etc/passwd $1/demo/SKILL.md; chmod 555 $1/demo", "wrong-type"),
    ("chmod 644 $1/.snapshot.json; echo >>$1/.snapshot.json; chmod 444 $1/.snapshot.json", "manifest-digest"),
    ("chmod 755 $1/demo", "wrong-mode"),
    ("chmod 644 $1/demo/SKILL.md; truncate -s 1T $1/demo/SKILL.md; chmod 444 $1/demo/SKILL.md", "wrong-size"),
];

#[test]
fn what_changes_between_the_check_and_the_sealing_is_never_started() {
    for place in Place::each_of(&[Way::Stage, Way::MemoryFiles]) {
        for (script, fault) in CHANGES {
            let place = Place { way: place.way, ..Place::new(place.env.runner()) };
            let gate = Gate::new(&place);
            let mut run = place.env.command_of("sh", ["-c", r#"exec "$@" 3>>gate"#, "sh"]);
            run.arg(place.env.program()).args(["run", "--json", "--status-fd", "3", &place.digest]);
            run.args(place.options()).args(["--", "echo", "started"]);
            let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            gate.wait();
            // The snapshot has been checked, and nothing else has been done.
            let changed = place.env.command_of("sh", ["-ec", script, "sh"]).arg(&place.snapshot).status();
            assert!(changed.unwrap().success());
            let lines = gate.open();
            let output = child.wait_with_output().unwrap();
            assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), &b""[..]), "{script}");
            assert_eq!(events(&lines), ["planned", "verified", "integrity"], "{script}");
            let error: Value = serde_json::from_slice(&output.stderr).unwrap();
            assert_eq!(error["code"], "integrity", "{script}: {error}");
            let faults = codes(&error["details"]["faults"]);
            assert!(faults.iter().any(|(code, _)| code == fault), "{script}: {error}");
            let record = place.record();
            assert_eq!(
                (&record["outcome"], &record["error"]["code"]),
                (&"failed".into(), &"integrity".into())
            );
        }
    }
}

#[test]
fn what_changes_while_the_command_runs_is_told_where_nothing_is_sealed() {
    for (script, fault) in CHANGES {
        for place in Place::each_of(&[Way::Bind]) {
            let mut run = place.command(&["--json"], &["sh", "-c", "echo ready; read x; exit 0"]);
            let mut child =
                run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut ready = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
            assert_eq!(ready, "ready\n");
            Output::of(place.env.command_of("sh", ["-ec", script, "sh"]).arg(&place.snapshot)).ok();
            drop(child.stdin.take());
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(125), "{script}");
            let error: Value = serde_json::from_slice(&output.stderr).unwrap();
            assert_eq!(error["code"], "integrity-after-run", "{script}: {error}");
            let faults = codes(&error["details"]["faults"]);
            assert!(faults.iter().any(|(code, _)| code == fault), "{script}: {error}");
            assert_eq!(place.record()["exit"]["status"], 0);
        }
    }
}
