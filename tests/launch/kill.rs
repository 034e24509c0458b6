//! A launch that loses one of its processes at any moment leaves nothing behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use skillfreeze_testing::{Output, directory};

use super::{Place, Way};
use crate::support::{names, text};

const KILL: &str = include_str!("kill.py");
/// What leaves a process behind that nobody waits for, and goes on.
const COMMAND: &str = "(setsid sleep 1000 &); exec sleep 1001";
/// Launches for each user and way.
const LAUNCHES: usize = 42;

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap()
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<String> {
    let below = |name: &String| {
        let path = directory.join(name);
        if path.is_dir() { files(&path) } else { vec![path.display().to_string()] }
    };
    names(directory).iter().flat_map(below).collect()
}

fn kill_processes_of_launches(way: Way) {
    for place in Place::each_of(&[way]) {
        let temporaries = place.work("tmp");
        directory(&temporaries);
        let before = mounts();
        let mut kill = place.env.command_of("python3", ["-c", KILL, &LAUNCHES.to_string()]);
        kill.env("TMPDIR", &temporaries).arg(place.env.root().join("leases"));
        kill.arg(place.env.program()).args(["run", &place.digest]).args(place.options());
        kill.args(["--", "sh", "-c", COMMAND]);
        let output = Output::of(&mut kill);
        let lines = output.ok().lines();
        let launches: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(launches.len(), LAUNCHES);
        let mut killed = BTreeMap::new();
        for launch in &launches {
            let none = serde_json::json!([]);
            assert_eq!((&launch["left"], &launch["locked"]), (&none, &none), "{launch}");
            // Of itself the program cannot tell; of any other it says that the launch failed, or how
            // the command ended.
            let status = launch["status"].as_i64().unwrap();
            let expected = match launch["killed"].as_str().unwrap() {
                "program" | "none" => &[-9][..],
                "command" => &[137],
                // It was told to end then, and told the command.
                "grandchild" => &[143],
                // That may have come before there was anybody to tell.
                "terminated" => &[-15, 143],
                _ => &[125],
            };
            assert!(expected.contains(&status), "{launch}");
            *killed.entry(text(&launch["killed"])).or_insert(0) += 1;
        }
        // One of each kind, or the moments were not what they should be.
        for process in ["program", "helper", "bubblewrap", "inner", "command", "grandchild", "terminated"] {
            assert!(killed.contains_key(process), "{process} was never killed: {killed:?}");
        }
        assert_eq!(mounts(), before);
        assert_eq!(names(&temporaries), [""; 0]);
        let records = files(&place.env.root().join("runs"));
        assert!(records.iter().all(|path| path.ends_with(".json") && !path.contains("/.")), "{records:?}");
        for path in records {
            let record: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            assert!(["started", "failed", "exited"].contains(&text(&record["outcome"]).as_str()));
        }
        assert_ne!(names(place.env.root().join("leases")), [""; 0]);
        place.run(&[], &["true"]).ok();
        place.verify();
        // What a killed writer of the store leaves there is swept by the next.
        assert_eq!(names(place.env.root().join("tmp")), [""; 0]);
    }
}

#[test]
fn nothing_is_left_of_a_stage() {
    kill_processes_of_launches(Way::Stage);
}

#[test]
fn nothing_is_left_of_memory_files() {
    kill_processes_of_launches(Way::MemoryFiles);
}

#[test]
fn nothing_is_left_of_a_bind() {
    kill_processes_of_launches(Way::Bind);
}
