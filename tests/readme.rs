//! What the README shows really runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use skillfreeze_testing::{Output, Runner, TestEnv};

/// The shell block that follows `<!-- test: NAME -->` in the README.
fn block(name: &str) -> String {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let (_, rest) = readme.split_once(&format!("<!-- test: {name} -->\n```sh\n")).unwrap();
    rest.split_once("\n```").unwrap().0.to_owned()
}

/// Runs a block in the repository, which the session's paths are relative to.
fn run(env: &TestEnv, script: &str, variables: &[(&str, &str)]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_skillfreeze")).parent().unwrap();
    let mut command = Command::new("bash");
    command.args(["-euc", script]).current_dir(env!("CARGO_MANIFEST_DIR")).env_clear();
    command.env("PATH", format!("{}:/usr/bin:/bin", program.display()));
    command.env("HOME", env.home()).env("SKILLFREEZE_ROOT", env.root());
    command.envs(variables.iter().copied());
    Output::of(&mut command)
}

fn environment() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_skillfreeze"), Runner::available()[0])
}

#[test]
fn the_session_runs() {
    let env = environment();
    let session = run(&env, &block("session"), &[]);
    let output = session.ok();
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines[0].starts_with("sha256:"));
    assert!(lines[1].contains("2 packages, 5 files") && lines[1].starts_with(lines[0]), "{output}");
    assert!(lines[2] == "---" && lines[3] == "name: release-notes", "{output}");
    assert_eq!(lines[lines.len() - 2..], [".snapshot.json", "log-digest"]);
}

/// Runs the auditor's page on a snapshot and returns what it prints.
fn audit(env: &TestEnv, snapshot: &str, digest: &str, record: &str) -> Output {
    let id = "release-notes";
    let script = format!("set -o pipefail\n{}", block("audit"));
    let (snapshot_dir, work) = (snapshot, env.work().to_str().unwrap());
    let output =
        run(env, &script, &[("snapshot_dir", snapshot_dir), ("work", work), ("id", id), ("record", record)]);
    let hex = digest.strip_prefix("sha256:").unwrap();
    if output.status == 0 {
        assert!(output.stdout.starts_with(&format!("{hex}  .snapshot.json\n")), "{}", output.stdout);
        assert!(output.stdout.ends_with(&format!("{hex}  -\n")), "{}", output.stdout);
    }
    output
}

#[test]
fn the_auditors_page_finds_what_verify_finds() {
    let env = environment();
    let prepare = "skillfreeze prepare --json --source examples/skills";
    let prepared = run(&env, prepare, &[]).json();
    let (path, digest) = (prepared["path"].as_str().unwrap(), prepared["snapshot"].as_str().unwrap());
    let record = env.work().join("record.json");
    let record = record.to_str().unwrap();
    run(&env, &format!("skillfreeze run {digest} --record {record} -- true"), &[]).ok();

    let package =
        prepared["packages"].as_array().unwrap().iter().find(|package| package["id"] == "release-notes");
    let hex = package.unwrap()["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let clean = audit(&env, path, digest, record);
    assert_eq!(clean.status, 0, "{}{}", clean.stdout, clean.stderr);
    assert_eq!(clean.stdout.lines().count(), 3, "{}", clean.stdout);
    assert!(clean.stdout.contains(&format!("\n{hex}  -\n")), "{}", clean.stdout);

    let file = Path::new(path).join("release-notes/SKILL.md");
    skillfreeze_testing::set_mode(&file, 0o644);
    let content = fs::read(&file).unwrap();
    fs::write(&file, [b"x", &content[1..]].concat()).unwrap();
    assert_ne!(audit(&env, path, digest, record).status, 0);
    fs::write(&file, content).unwrap();
    assert_eq!(audit(&env, path, digest, record).status, 0);
    skillfreeze_testing::set_mode(Path::new(path), 0o755);
    fs::write(Path::new(path).join("extra"), "").unwrap();
    assert_ne!(audit(&env, path, digest, record).status, 0);
}
