//! Every JSON output fits its schema, and every schema has an output.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use skillfreeze_testing::{Output, Runner, TestEnv, file, package, set_mode};

/// Outputs of all commands, of good and of bad input.
fn outputs() -> Vec<Value> {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_skillfreeze"), Runner::available()[0]);
    let work = env.work();
    let good = package(work.join("skills"), "good");
    file(good.join("scripts/x.sh"), "#!/bin/sh\n");
    set_mode(good.join("scripts/x.sh"), 0o755);
    file(good.join("scripts/y.sh"), "#!/bin/sh\n");
    file(good.join(".git"), "gitdir: x\n");
    package(work.join("more"), "good");
    let bad = package(work.join("skills"), "bad");
    file(bad.join("SKILL.md"), "---\nname: bad\nname: bad\n---\n");
    let linked = package(work.join("skills"), "linked");
    std::os::unix::fs::symlink("/etc/hostname", linked.join("x")).unwrap();
    file(
        package(work.join("rich"), "rich").join("SKILL.md"),
        "---\nname: rich\ndescription: d\nversion: 1.10\nlicense: MIT\ncompatibility: any\ntags: [a]\n\
         allowed-tools: Read\npermissions:\n  filesystem: read\n  web: none\n  tools: [Read]\n---\n",
    );
    fs::create_dir(work.join("ws")).unwrap();
    fs::create_dir_all(work.join("ws/.agents/skills")).unwrap();

    let mut found = Vec::new();
    let mut run = |arguments: &[&str]| {
        let output = env.run(arguments);
        for line in output.stdout.lines().chain(output.stderr.lines()).filter(|line| line.starts_with('{')) {
            found.push(serde_json::from_str::<Value>(line).unwrap());
        }
        output.stdout
    };
    run(&["add", "--json", "skills/good", "skills/bad", "skills/linked"]);
    run(&["add", "--json", "skills/good"]);
    run(&["list", "--json"]);
    run(&["list", "--json", "--source", "skills", "--source", "more"]);
    run(&["show", "--json", "good"]);
    run(&["show", "--json", "good", "--source", "skills", "--source", "more"]);
    run(&["show", "--json", "rich", "--source", "rich"]);
    run(&["show", "--json", "bad", "--source", "skills"]);
    run(&["show", "--json", "absent"]);
    run(&["validate", "--json", "skills", "more", "rich"]);
    run(&["validate", "--json", "absent"]);
    let prepared = run(&["prepare", "--json", "--source", "skills", "--source", "more"]);
    let prepared: Value = serde_json::from_str(&prepared).unwrap();
    let digest = prepared["snapshot"].as_str().unwrap();
    run(&["show", "--json", digest]);
    run(&["verify", "--json", digest]);
    run(&["plan", "--json", digest]);
    run(&["plan", "--json", digest, "--skills-dir", "host", "--extensions", "ws"]);
    run(&["plan", "--json", digest, "--require", "sealed"]);
    run(&["read", "--json", "good", "--snapshot", digest]);
    run(&["read", "--json", "/skills/good/scripts/x.sh", "--snapshot", digest, "--path"]);
    run(&["doctor", "--json"]);
    run(&["doctor", "--json", "--bwrap", "/bin/true"]);
    run(&["run", "--json", digest, "--dry-run", "--workspace", "ws", "--ro-bind", "skills:/x", "--", "true"]);
    let landlock = ["--sandbox", "landlock", "--require", "read-only", "--workspace", "ws/.agents"];
    run(&[&["run", "--json", digest, "--dry-run"], &landlock[..], &["--", "true"]].concat());
    run(&["run", digest, "--status-fd", "1", "--record", "record", "--workspace", "ws", "--", "true"]);
    package(work.join("ws/.claude/skills"), "good");
    let in_place = ["run", digest, "--in-place", "--workspace", "ws", "--status-fd", "1"];
    run(&[&in_place[..], &["--record", "in-place", "--", "true"]].concat());
    run(&[&in_place[..3], &["--workspace", "ws", "--json", "--dry-run", "--", "true"]].concat());
    skillfreeze_testing::directory(work.join("other/usr"));
    crate::support::copy_loader(&env, &work.join("other"));
    let other = ["run", "--json", digest, "--rootfs", "other"];
    run(&[&other[..], &["--dry-run", "--", "true"]].concat());
    run(&[&other[..], &["--record", "other-root", "--", "true"]].concat());
    run(&["run", digest, "--status-fd", "1", "--", "sh", "-c", "kill -9 $$"]);
    run(&["run", "--json", digest, "--status-fd", "1", "--record", "failed", "--", "no-such-command"]);
    run(&["seal", digest, "--status-fd", "1", "--record", "sealed", "--", "true"]);
    let inside = env.program().to_str().unwrap();
    let inside = format!("{inside} verify --json --inside --digest {digest} $SKILLS_DIR");
    run(&["seal", digest, "--status-fd", "1", "--", "sh", "-c", &inside]);
    run(&["run", "--json", "sha256:000000000000", "--status-fd", "1", "--", "true"]);
    run(&["prepare", "--json", "absent"]);
    run(&["prepare", "--json", "--no-such-option"]);

    run(&["disable", "--json", "good", "absent"]);
    run(&["disable", "--json", "good"]);
    run(&["enable", "--json", "--scope", "project", "good"]);
    run(&["enable", "--json", "../evil"]);

    // `head` has read its line and goes, and so the watch ends.
    let watch = "\"$0\" list --watch --json --source skills 2>&1 | head -n 1";
    let watched = Output::of(&mut env.command_of("sh", ["-c", watch, env.program().to_str().unwrap()]));

    let snapshot = Path::new(prepared["path"].as_str().unwrap());
    set_mode(snapshot.join("good"), 0o755);
    run(&["verify", "--json", digest]);
    found.push(watched.json());
    found.push(serde_json::from_slice(&fs::read(snapshot.join(".snapshot.json")).unwrap()).unwrap());
    for record in ["record", "failed", "sealed", "in-place", "other-root"] {
        found.push(serde_json::from_slice(&fs::read(work.join(record)).unwrap()).unwrap());
    }
    found
}

/// The file that an output's schema is in.
fn schema_of(output: &Value) -> String {
    let schema = output["schema"].as_str().unwrap_or_default();
    format!("{}.json", schema.strip_prefix("skillfreeze.").unwrap_or(schema))
}

/// What the schemas have against these outputs, by a validator from outside.
fn objections(outputs: &[Value]) -> String {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemas");
    let mut python = Command::new("/usr/bin/python3")
        .arg(tests.join("check.py"))
        .arg(schemas())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = python.stdin.take().unwrap();
    for output in outputs {
        writeln!(stdin, "{}\t{output}", schema_of(output)).unwrap();
    }
    drop(stdin);
    let answer = python.wait_with_output().unwrap();
    let objections = String::from_utf8(answer.stdout).unwrap();
    assert_eq!(answer.status.success(), objections.is_empty(), "{objections}");
    objections
}

fn schemas() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas")
}

#[test]
fn every_output_fits_its_schema_and_every_schema_has_an_output() {
    let outputs = outputs();
    assert_eq!(objections(&outputs), "");
    let used: BTreeSet<String> = outputs.iter().map(schema_of).collect();
    let there =
        fs::read_dir(schemas()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = there.filter(|name| name != "common.json").collect();
    assert_eq!(used, there);
}

/// Schemas that take anything would pass the test above.
#[test]
fn a_schema_refuses_what_it_does_not_know() {
    let strange = json!({"schema": "skillfreeze.snapshot.v1", "packages": [], "more": 1});
    assert!(objections(&[strange]).contains("'more' was unexpected"));
}
