//! The snapshot in the place of the sources, for programs that look for skills there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::json;
use skillfreeze_testing::{Output, directory, file, package, tree};

use super::between::Gate;
use super::sealing::{knows_the_system_calls, run_without_stage};
use super::sources::{attempts, open_up};
use super::{Place, Way, events, wait_until};

/// A workspace with live sources, of which one has another `demo` and a package of its own.
fn live(place: &Place) -> PathBuf {
    let skills = place.work("ws/.claude/skills");
    file(package(&skills, "demo").join("SKILL.md"), "live");
    package(&skills, "extra");
    package(place.work("ws/.agents/skills"), "other");
    file(place.work("ws/skillfreeze.toml"), "");
    open_up(place);
    skills
}

fn frozen(place: &Place) -> String {
    fs::read_to_string(place.snapshot.join("demo/SKILL.md")).unwrap()
}

#[test]
fn frozen_bytes_are_read_there_while_the_live_ones_change() {
    let script = "touch ready; until [ -e go ]; do sleep 0.02; done
        ls -A .claude/skills .agents/skills; cat .claude/skills/demo/SKILL.md; .agents/skills/demo/scripts/go it";
    for place in Place::each_of(&[Way::Stage]) {
        let skills = live(&place);
        let mut run = place.command(&["--workspace", "ws", "--in-place"], &["sh", "-c", script]);
        let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(|| place.work("ws/ready").exists());
        fs::write(skills.join("demo/SKILL.md"), "changed").unwrap();
        package(&skills, "new");
        fs::write(place.work("ws/go"), "").unwrap();
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && !told.contains("skills"), "{told}");
        assert!(told.contains("skillfreeze.toml"), "{told}");
        let listed = ".agents/skills:\n.snapshot.json\ndemo\n\n.claude/skills:\n.snapshot.json\ndemo\n";
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            format!("{listed}{}gone with it\n", frozen(&place))
        );
        assert_eq!(fs::read_to_string(skills.join("demo/SKILL.md")).unwrap(), "changed");
        place.verify();
    }
}

#[test]
fn the_plan_the_lines_and_the_record_say_so() {
    for place in Place::each() {
        let skills = live(&place);
        let agents = place.work("ws/.agents/skills");
        let options = ["--workspace", "ws", "--in-place"];
        let arguments = [&[place.digest.as_str()], &options[..], &["--", "true"]].concat();
        let (output, lines) = place.run_with_lines(&arguments);
        output.ok();
        assert_eq!(lines[0]["in_place"], json!([agents, skills]));
        let record = place.record();
        let launch = &record["launch"];
        assert_eq!(launch["live_sources_visible"], json!([place.work("ws/skillfreeze.toml")]));
        let covered: Vec<_> =
            launch["mounts"].as_array().unwrap().iter().filter(|mount| mount["kind"] == "in-place").collect();
        let mount =
            |root: &PathBuf| json!({"kind": "in-place", "root": root, "target": root, "within": true});
        assert_eq!(covered, [&mount(&agents), &mount(&skills)]);
        // Each place is probed as the first one is.
        assert_eq!(record["checks"]["inside"]["probes"], 17, "{record}");
        let plan = place.run(&[&options[..], &["--dry-run"]].concat(), &["true"]).json();
        assert_eq!(plan["mounts"], launch["mounts"]);
    }
}

#[test]
fn the_command_cannot_uncover_the_live_ones() {
    for place in Place::each() {
        let skills = live(&place);
        let before = tree(place.work("ws"));
        let (busy, read_only) = ("Device or resource busy", "Read-only file system");
        let call = |call: &str| {
            format!(
                "python3 -c \"import ctypes; libc = ctypes.CDLL(None, use_errno=True)
libc.{call} and exec('raise OSError(ctypes.get_errno(), \\'refused\\')')\""
            )
        };
        let table: [(&str, &str); 11] = [
            ("cat .claude/skills/extra/SKILL.md", "No such file or directory"),
            ("mv .claude .old", busy),
            ("mv .claude/skills .claude/old", busy),
            ("rmdir .agents/skills", busy),
            ("mkdir .claude/skills/evil", read_only),
            ("echo evil >.claude/skills/extra", read_only),
            ("chmod 755 .claude/skills/demo", read_only),
            (&call("umount2(b'.claude/skills', 2)"), "[Errno 1] refused"),
            (&call("mount(None, b'.claude/skills', None, 0x1020, None)"), "[Errno 1] refused"),
            ("touch .claude/new && rm .claude/new", "OK"),
            ("touch new && rm new", "OK"),
        ];
        let output = attempts(&place, &["--in-place"], &table.map(|(attempt, _)| attempt));
        let answers: Vec<_> =
            table.iter().zip(output.ok().lines()).map(|((a, _), answer)| (*a, answer)).collect();
        assert_eq!(answers, table);
        assert_eq!(tree(place.work("ws")), before);

        // Who exchanges a source on the host uncovers it; that is found after the end.
        let script = "touch ready; until [ -e go ]; do sleep 0.02; done";
        let mut run = place.command(&["--json", "--workspace", "ws", "--in-place"], &["sh", "-c", script]);
        let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(|| place.work("ws/ready").exists());
        fs::rename(&skills, place.work("ws/old")).unwrap();
        package(&skills, "evil");
        fs::write(place.work("ws/go"), "").unwrap();
        let told = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
        assert!(told.contains("source-appeared"), "{told}");
    }
}

/// Wherever a source is seen, also if it is itself what is bound.
#[test]
fn every_bind_of_a_source_is_covered() {
    for place in Place::each() {
        live(&place);
        let script = "for place; do cat $place/demo/SKILL.md; ls $place; done";
        let run = |options: &[&str], places: &[&str]| {
            let options = [&["--in-place"], options].concat();
            place.run(&options, &[&["sh", "-c", script, "sh"], places].concat())
        };
        let expected = format!("{}demo\n", frozen(&place));
        for (options, places) in [
            (&["--ro-bind", "ws:/w"][..], &["/w/.claude/skills", "/w/.agents/skills"][..]),
            (&["--bind", "ws:/w", "--ro-bind", "ws:/x"], &["/w/.claude/skills", "/x/.claude/skills"]),
            (&["--ro-bind", "ws/.claude/skills:/x"], &["/x"]),
            (&["--bind", "ws/.claude/skills:/x"], &["/x"]),
            (&["--workspace", "ws", "--ro-bind", "ws/.claude/skills:/x"], &[".claude/skills", "/x"]),
        ] {
            assert_eq!(run(options, places).ok(), expected.repeat(places.len()), "{options:?}");
        }
        let arguments =
            ["run", "--source", "src", "--in-place", "--ro-bind", "src:/x", "--", "ls", "-A", "/x"];
        assert_eq!(place.env.run(arguments).ok(), ".snapshot.json\ndemo\n");
        let inside = ["--json", "--workspace", "ws", "--ro-bind", "ws/.claude/skills/extra:/x"];
        run(&inside, &[]).fails(125, "in-place-bind");
    }
}

/// One directory is one source, by however many names.
#[test]
fn a_source_that_several_names_lead_to_is_covered_once() {
    for (link, to) in [(".claude/skills", "../.agents/skills"), (".claude", ".agents")] {
        for place in Place::each() {
            package(place.work("ws/.agents/skills"), "other");
            let link = place.work("ws").join(link);
            directory(link.parent().unwrap());
            symlink(to, link).unwrap();
            open_up(&place);
            let listed = ".agents/skills:\n.snapshot.json\ndemo\n\n.claude/skills:\n.snapshot.json\ndemo\n";
            let options = ["--workspace", "ws", "--in-place"];
            let output = place.run(&options, &["ls", "-A", ".claude/skills", ".agents/skills"]);
            assert_eq!(output.ok(), listed);
            let record = place.record();
            let mounts = record["launch"]["mounts"].as_array().unwrap();
            assert_eq!(mounts.iter().filter(|mount| mount["kind"] == "in-place").count(), 1, "{record}");
        }
    }
}

#[test]
fn a_source_that_is_exchanged_before_it_is_covered_is_named() {
    for place in Place::each() {
        let skills = live(&place);
        // The line of the plan names both roots.
        let names = [skills.as_path(), &place.work("ws/.agents/skills")].map(|path| path.as_os_str().len());
        let gate = Gate::with_room_for(&place, names.iter().sum::<usize>() + r#","in_place":["",""]"#.len());
        let script = r#"exec 3>gate && exec "$@""#;
        let mut run = place.env.command_of("sh", ["-c", script, "sh"]);
        run.arg(place.env.program()).args(["run", "--json", "--status-fd", "3", &place.digest]);
        run.args(["--workspace", "ws", "--in-place", "--", "echo", "started"]);
        let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        gate.wait();
        fs::rename(&skills, place.work("ws/old")).unwrap();
        package(&skills, "evil");
        gate.open();
        let output = child.wait_with_output().unwrap();
        let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(
            (&error["code"], output.stdout.as_slice()),
            (&json!("in-place-changed"), &b""[..]),
            "{error}"
        );
        assert!(error["message"].as_str().unwrap().contains(skills.to_str().unwrap()), "{error}");
        assert!(error["hint"].as_str().unwrap().contains("exchanges the source"), "{error}");
    }
}

#[test]
fn nothing_starts_where_it_cannot_be_had() {
    for place in Place::each() {
        live(&place);
        let run = |options: &[&str]| {
            let options = [&["--json", "--in-place"], options].concat();
            place.run(&options, &["echo", "started"])
        };
        for (options, code) in [
            (&["--workspace", "ws", "--seal", "sealed-memfd"][..], "in-place-unavailable"),
            (&["--workspace", "ws", "--require", "read-only"], "in-place-unavailable"),
            (
                &["--workspace", "ws", "--sandbox", "landlock", "--require", "read-only"],
                "in-place-unavailable",
            ),
            (&[], "in-place-nothing"),
            (&["--workspace", "src/demo/scripts"], "in-place-nothing"),
        ] {
            let output = run(options);
            assert!(output.fails(125, code)["hint"].is_string(), "{output:#?}");
            assert_eq!(output.stdout, "");
        }
        if knows_the_system_calls() {
            let arguments =
                [&place.digest, "--json", "--in-place", "--workspace", "ws", "--", "echo", "started"];
            let (output, lines): (Output, _) = run_without_stage(&place, &arguments);
            output.fails(125, "in-place-unavailable");
            assert_eq!(output.stdout, "");
            assert_eq!(events(&lines), ["planned", "verified", "in-place-unavailable"]);
        }
    }
}

/// An agent looks where the source has a skill, and the snapshot has it by its id.
#[test]
fn what_would_lie_elsewhere_is_told_or_refused() {
    for place in Place::each() {
        let skill = |path: &str| {
            file(place.work("ws").join(path), format!("---\nname: demo\ndescription: {path}\n---\n"));
        };
        for path in ["pk/SKILL.md", "nest/cat/demo/SKILL.md", "flat/demo.md", "named/other/SKILL.md"] {
            skill(path);
        }
        let run = |json: &[&str], source: &str, layout: &str| {
            let source = format!("ws/{source}");
            let options = ["--in-place", "--workspace", "ws", "--source", &source, "--layout", layout];
            place.env.run([&["run"], json, &options[..], &["--", "ls", "named"]].concat())
        };
        for (source, layout) in [("pk", "package"), ("nest", "nested"), ("flat", "flat")] {
            let output = run(&["--json"], source, layout);
            assert!(output.fails(125, "in-place-layout")["hint"].is_string(), "{output:#?}");
        }
        let output = run(&[], "named", "children");
        assert_eq!((output.status, output.stdout.as_str()), (0, "demo\n"), "{output:#?}");
        assert!(output.stderr.contains("named/other") && output.stderr.contains("named/demo"), "{output:#?}");
    }
}
