//! What is looked at after the end, however the command ended and whatever it could write.

use std::fs::{self, File};
use std::os::unix::fs::symlink;

use skillfreeze_testing::{Output, directory, file, package};

use super::{Place, Way};
use crate::support::{text, texts};

/// Plants a skill where its first argument says, then ends by the signal that its second names.
const PLANT: &str = r#"mkdir -p "$1/.agents/skills/evil"; kill -"$2" $$"#;

fn open_up(place: &Place, name: &str) {
    let opened = place.env.command_of("chmod", ["-R", "a+rwX", name]).status();
    assert!(opened.unwrap().success());
}

#[test]
fn a_command_that_kills_itself_is_looked_after_like_any_other() {
    for place in Place::each_way() {
        open_up(&place, "ws");
        // 40 is a real-time signal, which many tables of signals do not have.
        for signal in ["9", "15", "40"] {
            let _ = fs::remove_dir_all(place.work("ws/.agents"));
            let command = ["bash", "-c", PLANT, "bash", ".", signal];
            let refused = place.run(&["--json", "--workspace", "ws"], &command).fails(125, "source-appeared");
            assert_eq!(refused["details"]["exit"]["signal"], signal.parse::<u64>().unwrap());
        }
        assert_eq!(place.run(&[], &["bash", "-c", "kill -40 $$"]).status, 168);
        // Nor does a child that nobody waits for take the sandbox along.
        let orphan = "(bash -c 'kill -40 $$' &); sleep 0.3; echo alive";
        assert_eq!(place.run(&[], &["bash", "-c", orphan]).ok(), "alive\n");
    }
}

/// Who is killed of the processes between the program and the command.
const KILL: [&str; 2] = [
    // The helper, the program's only child.
    "pkill -9 -P $1",
    // bubblewrap, the helper's.
    "pkill -9 -P $(pgrep -P $1)",
];

/// The kernel may end the sandbox when memory runs out, and the command can bring that about.
#[test]
fn a_sandbox_that_was_killed_is_looked_after() {
    for (place, kill) in Place::each_way().flat_map(|place| {
        let again = Place { way: place.way, ..Place::new(place.env.runner()) };
        [place, again].into_iter().zip(KILL)
    }) {
        open_up(&place, "ws");
        let script = "mkdir -p .agents/skills/evil; touch planted; sleep 60";
        let mut command = place.command(&["--json", "--workspace", "ws"], &["sh", "-c", script]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        super::wait_until(|| place.work("ws/planted").exists());
        let parent = child.id().to_string();
        Output::of(std::process::Command::new("sh").args(["-c", kill, "sh", &parent])).ok();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        let error: serde_json::Value =
            serde_json::from_str(String::from_utf8_lossy(&output.stderr).lines().last().unwrap()).unwrap();
        assert_eq!(error["code"], "source-appeared", "{error}");
        let record = place.record();
        assert_eq!(record["outcome"], "failed");
        // What was sealed is gone, and could not have changed.
        let faults = record["checks"]["after"]["faults"].as_array().map(Vec::len);
        assert_eq!(faults, (place.way() == Way::Bind).then_some(0));
    }
}

#[test]
fn everything_that_appeared_is_named_beside_what_changed() {
    for place in Place::each_way() {
        open_up(&place, "ws");
        let script = "mkdir -p .agents/skills .claude/skills; touch skillfreeze.toml";
        let refused = place.run(&["--json", "--workspace", "ws"], &["sh", "-c", script]);
        let refused = refused.fails(125, "source-appeared");
        assert_eq!(refused["details"]["paths"].as_array().unwrap().len(), 3);
        for name in [".agents/skills", ".claude/skills", "skillfreeze.toml"] {
            assert!(text(&refused["message"]).contains(name), "{refused}");
        }
    }
}

#[test]
fn a_directory_for_extensions_is_guarded_like_a_workspace() {
    for place in Place::each() {
        directory(place.work("ext"));
        open_up(&place, "ext");
        let script = "mkdir -p $SKILL_EXTENSIONS_DIR/.agents/skills/evil";
        let refused = place.run(&["--json", "--extensions", "ext"], &["sh", "-c", script]);
        refused.fails(125, "source-appeared");
        // What holds skills already, or is where they are, is not lent at all.
        package(place.work("project/.agents/skills"), "live");
        directory(place.work("project/.git"));
        for extensions in ["project", "project/.agents", "project/.agents/skills", "ext"] {
            place.run(&["--json", "--extensions", extensions], &["true"]).fails(125, "bind-in-source");
        }
    }
}

#[test]
fn a_source_reached_through_a_link_is_guarded_where_the_link_is() {
    for place in Place::each() {
        package(place.work("elsewhere/skills"), "live");
        directory(place.work("data/ws"));
        symlink("data", place.work("link")).unwrap();
        symlink("../../elsewhere/skills", place.work("data/ws/skills")).unwrap();
        open_up(&place, "data");
        let script = "rm skills && mkdir -p skills/evil";
        let arguments = [
            "run",
            "--json",
            "--source",
            "link/ws/skills",
            "--workspace",
            "data/ws",
            "--",
            "sh",
            "-c",
            script,
        ];
        let refused = place.env.run(arguments).fails(125, "source-appeared");
        let paths = texts(&serde_json::json!([{ "path": refused["details"]["paths"][0] }]), "path");
        assert!(paths[0].ends_with("link/ws/skills"), "{refused}");
    }
}

/// What the host does elsewhere meanwhile is not the command's doing.
#[test]
fn sources_that_the_command_cannot_write_may_come_and_go() {
    for place in Place::each() {
        let mut command = place.command(&["--json"], &["sleep", "0.3"]);
        let child = command.spawn().unwrap();
        package(place.work(".agents/skills"), "new");
        assert!(child.wait_with_output().unwrap().status.success());
    }
}

#[test]
fn a_record_is_kept_only_where_it_replaces_nothing_else() {
    for place in Place::each() {
        directory(place.work("ws/records"));
        directory(place.work("a-directory"));
        assert_eq!(place.env.command_of("mkfifo", ["fifo"]).status().unwrap().code(), Some(0));
        symlink("nowhere", place.work("link")).unwrap();
        file(place.work("old"), "an older record");
        let store = format!("{}/journal", place.env.root().display());
        for (options, code) in [
            (&["--record", "ws/records/r.json"][..], "record-writable"),
            (&["--record", &store], "record-in-store"),
            (&["--record", "fifo"], "record-not-written"),
            (&["--record", "link"], "record-not-written"),
            (&["--record", "a-directory"], "record-not-written"),
            (&["--record", "none/r.json"], "not-found"),
        ] {
            let journal = fs::read(&store).unwrap();
            let options = [&["--json", "--workspace", "ws"], options].concat();
            place.run(&options, &["true"]).fails(125, code);
            assert_eq!(fs::read(&store).unwrap(), journal);
        }
        assert!(fs::symlink_metadata(place.work("link")).unwrap().is_symlink());
        place.run(&["--record", "old"], &["true"]).ok();
        assert!(fs::read_to_string(place.work("old")).unwrap().contains("\"outcome\":\"exited\""));
    }
}

#[test]
fn single_files_are_guarded_and_no_place_for_the_record() {
    for place in Place::each() {
        directory(place.work("project/.git"));
        file(place.work("project/skillfreeze.toml"), "");
        file(place.work("project/notes"), "");
        open_up(&place, "project");
        let config = place.work("project/skillfreeze.toml");
        let script = format!("echo evil >{}", config.display());
        let output = place.run(&["--bind", "project/skillfreeze.toml"], &["sh", "-c", &script]);
        assert_ne!(output.status, 0);
        assert_eq!(fs::read_to_string(&config).unwrap(), "");
        let options = ["--json", "--bind", "project/notes", "--record", "project/notes"];
        place.run(&options, &["true"]).fails(125, "record-writable");
    }
}

/// Whoever gets a directory as a stream can open everything below and above it.
#[test]
fn a_standard_stream_that_is_a_directory_is_refused() {
    for place in Place::each_way() {
        let mut command = place.command(&["--json"], &["true"]);
        command.stdin(File::open(place.env.work()).unwrap());
        Output::of(&mut command).fails(125, "stream-directory");
    }
}

/// A caller's keys, such as those of an encrypted directory, are found through an inherited keyring.
#[test]
fn the_callers_keyring_stays_outside() {
    const CALLER: &str = r#"
import ctypes, os, sys
kernel = ctypes.CDLL(None)
kernel.syscall(250, 1, None)                                       # KEYCTL_JOIN_SESSION_KEYRING
assert kernel.syscall(248, b"user", b"secret", b"x", 1, -3) > 0    # add_key
assert kernel.syscall(250, 10, -3, b"user", b"secret", 0) > 0      # KEYCTL_SEARCH
os.execv(sys.argv[1], sys.argv[1:])
"#;
    const COMMAND: &str = r#"
import ctypes
print(ctypes.CDLL(None).syscall(250, 10, -3, b"user", b"secret", 0))
"#;
    for place in Place::each_way() {
        if cfg!(not(target_arch = "x86_64")) {
            skillfreeze_testing::skip!("the numbers of system calls are those of x86_64");
        }
        let program = place.env.program().to_str().unwrap().to_owned();
        let command = ["/usr/bin/python3", "-c", COMMAND];
        let options: Vec<&str> = place.options().collect();
        let caller = ["-c", CALLER, &program, "run", &place.digest];
        let run = [&caller[..], &options, &["--"], &command].concat();
        let output = Output::of(&mut place.env.command_of("python3", run));
        assert_eq!(output.ok(), "-1\n");
    }
}

#[test]
fn a_snapshot_with_a_strangers_file_is_refused() {
    for place in Place::each().filter(Place::is_roots) {
        for path in ["demo/SKILL.md", "demo/scripts", "demo", ".snapshot.json"] {
            let stranger = place.snapshot.join(path);
            std::os::unix::fs::lchown(&stranger, Some(4242), None).unwrap();
            let refused = place.run(&["--json"], &["true"]).fails(125, "integrity");
            assert_eq!(refused["details"]["faults"][0]["code"], "wrong-owner", "{path}");
            place.env.run(["verify", "--json", &place.digest]).fails(3, "integrity");
            // Freezing it again gives one that is nobody else's.
            place.env.run(["prepare", "--source", "src"]).ok();
            place.verify();
        }
    }
}
