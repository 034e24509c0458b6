//! What the README shows really runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use skillfreeze_testing::{Output, Runner, TestEnv};

/// The block of this language that follows `<!-- test: NAME -->` in the README.
fn block(name: &str, language: &str) -> String {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let (_, rest) = readme.split_once(&format!("<!-- test: {name} -->\n```{language}\n")).unwrap();
    rest.split_once("\n```").unwrap().0.to_owned()
}

/// Runs a block in the repository, which the session's paths are relative to.
fn run(env: &TestEnv, script: &str, variables: &[(&str, &str)]) -> Output {
    run_by(env, &["bash", "-euc", script], variables)
}

fn run_by(env: &TestEnv, words: &[&str], variables: &[(&str, &str)]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_skillfreeze")).parent().unwrap();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(env!("CARGO_MANIFEST_DIR")).env_clear();
    command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", program.display()));
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
    let session = run(&env, &block("session", "sh"), &[]);
    let output = session.ok();
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines[0].starts_with("sha256:"));
    assert!(lines[1].contains("2 packages, 5 files") && lines[1].starts_with(lines[0]), "{output}");
    assert!(lines[2] == "---" && lines[3] == "name: release-notes", "{output}");
    assert_eq!(lines[lines.len() - 2..], [".snapshot.json", "log-digest"]);
}

#[test]
fn a_sandbox_of_a_runner_finds_what_is_sealed() {
    let env = environment();
    let sealed = run(&env, &block("seal", "sh"), &[]);
    let output = sealed.ok();
    assert!(output.lines().next().unwrap().ends_with("match; sealed: nothing can change them"), "{output}");
    assert!(output.contains("name: release-notes"), "{output}");
}

#[test]
fn a_program_is_told_what_its_agent_opens() {
    let env = environment();
    let work = env.work().to_str().unwrap();
    let shell = run(&env, &format!("set -o pipefail\n{}", block("shell", "sh")), &[("work", work)]);
    assert_eq!(
        shell.ok().lines().collect::<BTreeSet<_>>(),
        ["log-digest/SKILL.md", "release-notes/SKILL.md"].into()
    );
    assert!(fs::read_to_string(env.work().join("output")).unwrap().contains("name: release-notes"));
    // How many lines tell it is a matter of timing.
    let told =
        |output: &Output| output.ok().lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    let python = run_by(&env, &["python3", "-c", &block("python", "python")], &[]);
    assert_eq!(told(&python), "log-digest/SKILL.md\n0 None");
    let node = run_by(&env, &["node", "--input-type=module", "-e", &block("node", "js")], &[]);
    assert_eq!(told(&node), "release-notes/SKILL.md\n0 undefined");
    // With a command that is not there, all say so.
    let absent =
        |name, language: &str| block(name, language).replace("\"sh\", \"-c\"", "\"no-such-command\"");
    let python = run_by(&env, &["python3", "-c", &absent("python", "python")], &[]);
    assert_eq!(told(&python), "127 command-not-found");
    let node = run_by(&env, &["node", "--input-type=module", "-e", &absent("node", "js")], &[]);
    assert_eq!(told(&node), "undefined command-not-found");
}

#[test]
fn a_sandbox_of_ones_own_is_given_the_skills() {
    let env = environment();
    let snapshot = run(&env, "skillfreeze prepare --source examples/skills", &[]);
    let snapshot = snapshot.ok().trim_end();
    let output = run(&env, &block("plan", "sh"), &[("snapshot", snapshot)]);
    let lines: Vec<&str> = output.ok().lines().collect();
    assert_eq!(lines[..2], ["log-digest", "release-notes"]);
    assert!(lines[2].starts_with(snapshot), "{output:?}");
}

/// Runs the auditor's page on a snapshot and returns what it prints.
fn audit(env: &TestEnv, snapshot: &str, digest: &str, record: &str) -> Output {
    let id = "release-notes";
    let script = format!("set -o pipefail\n{}", block("audit", "sh"));
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
