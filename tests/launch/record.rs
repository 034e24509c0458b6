//! The run record: what it says is true, and what it must not say is not in it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use skillfreeze_testing::{Output, package_digest, sha256};

use super::Place;
use crate::support::text;

const SECRET: &str = "very-secret-value";

/// What a shell prints, without the last line's end.
fn shell(script: &str, argument: &Path) -> String {
    let output = Output::of(Command::new("sh").args(["-c", script, "sh"]).arg(argument));
    output.ok().trim_end().to_owned()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_record_says_what_was_run_and_how() {
    for place in Place::each() {
        let options =
            ["--record", "record.json", "--workspace", "ws", "--env", "TOKEN", "--require", "read-only"];
        let mut run = place.command(&options, &["sh", "-c", "exit 3", "$SKILLS_DIR/x"]);
        assert_eq!(Output::of(run.env("TOKEN", SECRET)).status, 3);
        let record = place.record();
        assert_eq!(
            keys(&record),
            [
                "actor",
                "attestation",
                "checks",
                "ended_at",
                "exit",
                "id",
                "launch",
                "manifest",
                "outcome",
                "packages",
                "requested",
                "schema",
                "snapshot",
                "started_at"
            ]
        );
        assert_eq!(record["schema"], "skillfreeze.run.v1");
        assert_eq!(record["outcome"], "exited");
        assert!(text(&record["attestation"]).starts_with("unsigned"));
        let user = Output::of(&mut place.env.command_of("id", ["-u"]));
        assert!(text(&record["actor"]).ends_with(&format!("({})", user.ok().trim())), "{record}");
        assert!(text(&record["started_at"]) <= text(&record["ended_at"]));
        assert_eq!(record["requested"], json!([place.digest]));
        assert_eq!(record["snapshot"], place.digest.as_str());
        assert_eq!(record["exit"], json!({"status": 3}));

        let package = &record["packages"][0];
        assert_eq!((&package["id"], &package["number"]), (&"demo".into(), &1.into()));
        assert_eq!(package["digest"], package_digest(place.work("src/demo")).as_str());
        assert_eq!(package["added_by"], record["actor"]);
        assert!(text(&package["path"]).ends_with("src/demo"), "{package}");

        let checks = &record["checks"];
        assert_eq!(checks["before"], checks["after"]);
        assert_eq!(checks["before"]["files"], 3);
        assert_eq!(checks["before"]["faults"], json!([]));
        assert_eq!((&checks["inside"]["skills"], &checks["inside"]["noexec"]), (&1.into(), &false.into()));
        assert!(checks["inside"]["probes"].as_u64().unwrap() >= 7, "{checks}");
    }
}

#[test]
fn the_record_describes_the_launch() {
    for place in Place::each() {
        let options = ["--workspace", "ws", "--env", "TOKEN", "--require", "read-only", "--network", "host"];
        let mut run = place.command(&options, &["true"]);
        Output::of(run.env("TOKEN", SECRET)).ok();
        let record = place.record();
        let launch = &record["launch"];
        assert_eq!(
            keys(launch),
            [
                "argv_digest",
                "backend",
                "environment",
                "how",
                "integrity",
                "kernel",
                "live_sources_visible",
                "mounts",
                "network",
                "required",
                "scope",
                "skills_path",
                "terminal",
                "user",
                "working_directory"
            ]
        );
        assert_eq!((&launch["integrity"], &launch["how"]), (&"read-only".into(), &"bind".into()));
        assert_eq!(launch["required"], "read-only");
        assert_eq!(launch["network"], "host");
        assert_eq!(launch["skills_path"], "/skills");
        assert_eq!(launch["working_directory"], place.work("ws").to_str().unwrap());
        assert_eq!(launch["live_sources_visible"], json!([]));
        assert_eq!(launch["kernel"], Output::of(Command::new("uname").arg("-r")).ok().trim());
        let expected = json!({
            "kind": "bwrap",
            "path": "/usr/bin/bwrap",
            "version": Output::of(Command::new("bwrap").arg("--version")).ok().trim(),
            "digest": format!("sha256:{}", sha256("/usr/bin/bwrap")),
            "binds_descriptors": true,
        });
        assert_eq!(launch["backend"], expected);
        let user = if place.is_roots() {
            "65534".to_owned()
        } else {
            Output::of(&mut place.env.command_of("id", ["-u"])).ok().trim().to_owned()
        };
        assert_eq!(launch["user"][0].to_string(), user);
        let mounts = launch["mounts"].as_array().unwrap();
        let of_kind = |kind: &str| mounts.iter().filter(|mount| mount["kind"] == kind).collect::<Vec<_>>();
        let binds = of_kind("bind");
        assert_eq!((binds.len(), &binds[0]["writable"]), (1, &true.into()), "{mounts:?}");
        assert_eq!(binds[0]["source"], place.work("ws").to_str().unwrap());
        assert_eq!(of_kind("snapshot").len(), 1);
    }
}

#[test]
fn the_record_holds_names_of_variables_and_no_values() {
    for place in Place::each() {
        fs::write(place.work("variables"), format!("# a comment\nFROM_FILE={SECRET}\n")).unwrap();
        let named = format!("GIVEN={SECRET}");
        let options =
            ["--env", "TOKEN", "--env", &named, "--env-file", "variables", "--record", "record.json"];
        let mut run = place.command(&options, &["sh", "-c", "echo $TOKEN $GIVEN $FROM_FILE", SECRET]);
        let output = Output::of(run.env("TOKEN", SECRET));
        assert_eq!(output.ok(), format!("{SECRET} {SECRET} {SECRET}\n"));
        let path = &place.records()[0];
        let bytes = fs::read_to_string(path).unwrap();
        // Arguments are a digest for the same reason.
        assert!(!bytes.contains(SECRET), "{bytes}");
        assert_eq!(bytes, fs::read_to_string(place.work("record.json")).unwrap());
        let names = [
            "FROM_FILE",
            "GIVEN",
            "HOME",
            "LANG",
            "PATH",
            "PYTHONDONTWRITEBYTECODE",
            "PYTHONPYCACHEPREFIX",
            "SKILLS_DIR",
            "SKILLS_INTEGRITY",
            "SKILL_EXTENSIONS_DIR",
            "TMPDIR",
            "TOKEN",
            "XDG_CACHE_HOME",
        ];
        assert_eq!(place.record()["launch"]["environment"], json!(names));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "something temporary is left");
    }
}

#[test]
fn other_tools_recompute_what_the_record_says() {
    for place in Place::each() {
        place.run(&["--record", "record.json"], &["printf", "%s", "$SKILLS_DIR/demo", "a b"]).ok();
        let record = place.work("record.json");
        let manifest = shell("jq -j .manifest \"$1\" | sha256sum | cut -d' ' -f1", &record);
        assert_eq!(format!("sha256:{manifest}"), place.digest);
        assert_eq!(manifest, sha256(place.snapshot.join(".snapshot.json")));
        // The arguments as the command got them.
        let arguments =
            shell("printf '%s\\0' printf %s /skills/demo 'a b' | sha256sum | cut -d' ' -f1", &record);
        let launch = &place.record()["launch"];
        assert_eq!(launch["argv_digest"], format!("sha256:{arguments}"));
    }
}

#[test]
fn a_run_is_shown_and_verified_by_its_id_and_by_its_file() {
    for place in Place::each() {
        place.run(&["--record", "record.json"], &["true"]).ok();
        let record = place.record();
        let id = text(&record["id"]);
        for name in [id.as_str(), "record.json"] {
            assert_eq!(place.env.run(["show", name, "--json"]).json(), record);
            assert!(place.env.run(["show", name]).ok().contains(&place.digest));
            let verified = place.env.run(["verify", name, "--json"]).json();
            assert_eq!(verified["snapshot"], place.digest.as_str());
            assert_eq!((&verified["clean"], &verified["anchored"]), (&true.into(), &true.into()));
        }
        let path = format!("runs/{}/{}/{id}.json", &id[..4], &id[4..6]);
        assert_eq!(place.records(), [place.env.root().join(path)]);

        let changed = fs::read_to_string(place.work("record.json")).unwrap().replace("SKILL.md", "skill.md");
        fs::write(place.work("record.json"), changed).unwrap();
        place.env.run(["verify", "record.json", "--json"]).fails(3, "integrity");
        place.env.run(["show", "20000101T000000Z-00000000", "--json"]).fails(4, "run-unknown");
    }
}

#[test]
fn a_command_that_could_not_start_leaves_a_record_that_says_so() {
    for place in Place::each() {
        place.run(&["--json"], &["no-such-command"]).fails(127, "command-not-found");
        let record = place.record();
        assert_eq!(record["outcome"], "failed");
        assert_eq!(record["error"]["code"], "command-not-found");
        assert!(record["exit"].is_null() && record["checks"]["after"].is_null(), "{record}");
    }
}

/// A record that cannot be kept is a run that must not happen.
#[test]
fn nothing_starts_when_the_record_cannot_be_written() {
    for place in Place::each() {
        skillfreeze_testing::directory(place.work("record.json"));
        let (output, lines) = place.run_with_lines(&[
            "--json",
            &place.digest,
            "--record",
            "record.json",
            "--workspace",
            "ws",
            "--",
            "touch",
            "started",
        ]);
        output.fails(125, "record-not-written");
        assert_eq!(super::events(&lines), ["record-not-written"]);
        assert!(!place.work("ws/started").exists());
    }
}

/// Records last longer than the programs that write them.
#[test]
fn a_record_of_before_there_were_other_sandboxes_is_read() {
    for place in Place::each() {
        place.run(&[], &["true"]).ok();
        let path = place.records().remove(0);
        let mut record = place.record();
        let launch = record["launch"].as_object_mut().unwrap();
        launch.remove("scope");
        launch.remove("terminal");
        launch["backend"].as_object_mut().unwrap().remove("kind").unwrap();
        record.as_object_mut().unwrap().remove("opened");
        fs::write(&path, record.to_string()).unwrap();
        let id = text(&record["id"]);
        assert!(place.env.run(["show", &id]).ok().contains("bubblewrap"));
        place.env.run(["verify", &id]).ok();
    }
}
