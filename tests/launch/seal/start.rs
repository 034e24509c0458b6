//! How a sealed command is started, refused, recorded and told of.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use skillfreeze_testing::{Output, Runner, file, package, set_mode, skip};

use super::Place;
use crate::launch::between::Gate;
use crate::launch::{WITH_STATUS, events, wait_until};
use crate::support::{prepare, text};

const NO_STAGE: &str = include_str!("../no_stage.py");

/// `seal` with status lines; gives those too.
fn with_lines(place: &Place, arguments: &[&str]) -> (Output, Vec<Value>) {
    let mut seal = place.env.command_of("sh", ["-c", WITH_STATUS, "sh"]);
    seal.arg(place.env.program()).args(["seal", "--json", "--status-fd", "3"]).args(arguments);
    let output = Output::of(&mut seal);
    (output, place.lines())
}

#[test]
fn the_status_is_the_commands_own() {
    for place in Place::each() {
        for (script, status) in [("exit 0", 0), ("exit 1", 1), ("exit 125", 125), ("kill -9 $$", 137)] {
            assert_eq!(place.seal(&[], &["sh", "-c", script]).status, status, "{script}");
        }
        place.seal(&["--json"], &["no-such-command"]).fails(127, "command-not-found");
        place.seal(&["--json"], &["./ws"]).fails(126, "command-not-executable");
        file(place.work("text"), "no program\n");
        place.seal(&["--json"], &["./text"]).fails(126, "command-not-executable");
        place.verify();
    }
}

#[test]
fn a_sealed_command_is_told_of_and_recorded() {
    for place in Place::each() {
        let (output, lines) = with_lines(&place, &[&place.digest, "--", "sh", "-c", "exit 3"]);
        assert_eq!(output.status, 3, "{output:#?}");
        assert_eq!(events(&lines), ["planned", "verified", "sealed", "started", "exited"]);
        let planned = json!({
            "schema": "skillfreeze.status.v1", "event": "planned", "run": place.record()["id"],
            "snapshot": place.digest, "integrity": "sealed", "how": "staged-tmpfs", "scope": "descendants",
        });
        assert_eq!(lines[0], planned);
        assert_eq!(lines[4], json!({"schema": "skillfreeze.status.v1", "event": "exited", "status": 3}));

        let record = place.record();
        assert_eq!((&record["outcome"], &record["exit"]), (&"exited".into(), &json!({"status": 3})));
        let launch = &record["launch"];
        assert_eq!(launch["skills_path"], place.snapshot.to_str().unwrap());
        assert_eq!(launch["working_directory"], place.env.work().to_str().unwrap());
        assert_eq!((&launch["scope"], &launch["how"]), (&"descendants".into(), &"staged-tmpfs".into()));
        for absent in ["backend", "mounts", "network", "live_sources_visible"] {
            assert!(launch[absent].is_null(), "{launch}");
        }
        let names: Vec<String> = launch["environment"].as_array().unwrap().iter().map(text).collect();
        assert!(
            ["HOME", "SKILLS_DIR", "SKILLS_INTEGRITY"].iter().all(|name| names.contains(&(*name).into()))
        );

        // What reads records reads this one.
        let run = text(&record["id"]);
        assert_eq!(place.env.run(["verify", &run, "--json"]).json()["clean"], true);
        let shown = place.env.run(["show", &run]);
        assert!(shown.ok().contains("its caller's own"), "{shown:#?}");
    }
}

#[test]
fn a_directory_needs_no_store() {
    for place in Place::each() {
        let snapshot = place.snapshot.to_str().unwrap();
        let mut seal = place.env.command(["seal", snapshot, "--digest", &place.digest]);
        seal.env("SKILLFREEZE_ROOT", "/nonexistent/store");
        seal.args(["--record", "record.json", "--skills-var", "MY_SKILLS", "--", "sh", "-c"]);
        seal.arg("echo $MY_SKILLS $SKILLS_INTEGRITY ${SKILLS_DIR-none}; head -n1 $MY_SKILLS/demo/scripts/go");
        assert_eq!(Output::of(&mut seal).ok(), format!("{snapshot} sealed none\n#!/bin/sh\n"));
        let record: Value = serde_json::from_slice(&fs::read(place.work("record.json")).unwrap()).unwrap();
        assert_eq!(
            (&record["outcome"], &record["snapshot"]),
            (&"exited".into(), &place.digest.clone().into())
        );
        // Nor is it the store's business.
        assert!(place.records().is_empty());
        place.env.run(["seal", snapshot, "--json", "--", "true"]).fails(125, "usage");
        let error = place.env.run(["seal", "demo", "--json", "--", "true"]).fails(125, "not-found");
        assert!(text(&error["hint"]).contains("skillfreeze prepare demo"), "{error}");
    }
}

/// Namespaces are entered by a process with a single thread, and a check of many packages has several.
#[test]
fn many_packages_are_sealed_each_time() {
    for mut place in Place::each() {
        for index in 0..16 {
            package(place.work("src"), &format!("package-{index}"));
        }
        (place.digest, place.snapshot) = prepare(&place.env, "src");
        for _ in 0..30 {
            assert_eq!(place.seal(&[], &["sh", "-c", "ls $SKILLS_DIR | wc -l"]).ok(), "17\n");
        }
    }
}

#[test]
fn what_does_not_fit_its_digest_is_not_started() {
    for place in Place::each() {
        let skill = place.snapshot.join("demo/SKILL.md");
        set_mode(&skill, 0o644);
        file(&skill, "evil\n");
        set_mode(&skill, 0o444);
        let (output, lines) = with_lines(&place, &[&place.digest, "--", "echo", "started"]);
        output.fails(125, "integrity");
        assert_eq!((output.stdout.as_str(), events(&lines).as_slice()), ("", &["integrity".to_owned()][..]));
    }
}

#[test]
fn a_command_that_works_elsewhere_is_refused_unless_forced() {
    for place in Place::each() {
        file(place.work("bin/docker"), "#!/bin/sh\necho ran\n");
        set_mode(place.work("bin/docker"), 0o755);
        std::os::unix::fs::symlink("docker", place.work("bin/mydocker")).unwrap();
        let path = format!("{}:/usr/bin:/bin", place.work("bin").display());
        let seal = |options: &[&str], command: &[&str]| {
            Output::of(place.sealed(options, command).env("PATH", &path))
        };
        for command in
            [&["docker", "run"][..], &["mydocker"], &["env", "A=b", "nice", "mydocker"], &["ssh", "x"]]
        {
            let output = seal(&["--json"], command);
            let error = output.fails(125, "seal-daemon");
            assert!(error["hint"].is_string() && output.stdout.is_empty(), "{error}");
        }
        assert!(place.records().is_empty());
        assert_eq!(seal(&["--force"], &["mydocker"]).ok(), "ran\n");
        // One that only talks of it is none.
        assert_eq!(seal(&[], &["echo", "docker"]).ok(), "docker\n");
        let mut podman = place.sealed(&["--json"], &["podman", "ps"]);
        Output::of(podman.env("CONTAINER_HOST", "unix:///x")).fails(125, "seal-daemon");
    }
}

#[test]
fn where_no_stage_can_be_mounted_nothing_is_started() {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        skip!("the filter of system calls knows two architectures");
    }
    for place in Place::each() {
        let mut seal = place.env.command_of("python3", ["-c", NO_STAGE]);
        seal.arg(place.env.program()).args(["seal", "--json", &place.digest, "--", "echo", "started"]);
        let output = Output::of(&mut seal);
        let error = output.fails(125, "seal-unavailable");
        assert!(output.stdout.is_empty(), "{error}");
        for part in ["user.max_user_namespaces", "AppArmor", "container", "skillfreeze doctor"] {
            assert!(error["hint"].as_str().unwrap().contains(part), "{part}: {error}");
        }
        let record = place.record();
        assert_eq!(
            (&record["outcome"], &record["error"]["code"]),
            (&"failed".into(), &"seal-unavailable".into())
        );
    }
}

#[test]
fn too_little_memory_seals_nothing() {
    if !Runner::available().contains(&Runner::Root) {
        skip!("only root mounts over /proc/meminfo");
    }
    for place in Place::each().filter(Place::is_roots) {
        file(place.work("meminfo"), "MemAvailable: 8 kB\n");
        let script = "mount --bind meminfo /proc/meminfo && exec \"$@\"";
        let mut seal = place.env.command_of("unshare", ["-m", "sh", "-c", script, "sh"]);
        seal.arg(place.env.program()).args(["seal", "--json", &place.digest, "--", "echo", "started"]);
        let output = Output::of(&mut seal);
        output.fails(125, "seal-memory");
        assert_eq!(output.stdout, "");
    }
}

/// Exchanges the snapshot's directory; `back` undoes it.
fn exchange(place: &Place, back: bool) {
    let aside = place.snapshot.with_extension("aside");
    if back {
        fs::remove_dir(&place.snapshot).unwrap();
        fs::rename(&aside, &place.snapshot).unwrap();
    } else {
        fs::rename(&place.snapshot, &aside).unwrap();
        fs::create_dir(&place.snapshot).unwrap();
    }
}

#[test]
fn a_directory_that_is_exchanged_before_the_sealing_is_not_sealed_over() {
    for place in Place::each() {
        let gate = Gate::new(&place);
        let mut seal = place.env.command_of("sh", ["-c", r#"exec "$@" 3>>gate"#, "sh"]);
        seal.arg(place.env.program()).args(["seal", "--json", "--status-fd", "3", &place.digest]);
        seal.args(["--", "echo", "started"]);
        let child = seal.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        gate.wait();
        exchange(&place, false);
        assert_eq!(events(&gate.open()), ["planned", "verified", "mount-swapped"]);
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), &b""[..]));
        exchange(&place, true);
        place.verify();
    }
}

/// The mount moves with its directory, and what is put in the place of that can be seen: so it is told.
#[test]
fn a_directory_that_is_exchanged_meanwhile_is_told_of() {
    for place in Place::each() {
        let wait = "echo ready >ready; until [ -e go ]; do sleep 0.02; done";
        let mut seal = place.sealed(&["--json"], &["sh", "-c", wait]);
        let child = seal.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(|| place.work("ready").exists());
        exchange(&place, false);
        file(place.work("go"), "");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        let error: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(error["code"], "mount-swapped");
        let record = place.record();
        assert_eq!((&record["outcome"], &record["exit"]), (&"failed".into(), &json!({"status": 0})));
        exchange(&place, true);
    }
}
