//! Reports for programs: SARIF and GitHub's workflow commands.

use std::fs;

use serde_json::Value;
use skillfreeze_testing::{Runner, TestEnv, file};

use crate::support::{environment, text};

/// A package that would like to be more than text wherever it is printed.
fn hostile() -> TestEnv {
    let env = environment(Runner::available()[0]);
    let package = env.work().join("src/a b%");
    file(
        package.join("SKILL.md"),
        "---\nname: demo\ndescription: \"\u{1b}[2J\"\n\"x\\n::error::forged\": 1\n---\n",
    );
    file(package.join("evil\n::error::x{0}"), "");
    fs::create_dir(package.join("e\u{202e}")).unwrap();
    file(package.join("e\u{202e}/f"), "");
    env
}

#[test]
fn github_reads_one_command_a_finding() {
    let env = hostile();
    let output = env.run(["validate", "src", "--format", "github"]);
    assert_eq!(output.status, 6);
    let (commands, count): (Vec<&str>, Vec<&str>) =
        output.stdout.lines().partition(|line| line.starts_with("::"));
    assert_eq!(count, ["0 valid, 1 invalid"]);
    assert!(!commands.is_empty());
    for command in commands {
        let (properties, _) = command["::".len()..].split_once("::").unwrap();
        assert!(properties.starts_with("error file=src/a b%25/"), "{command}");
        assert!(properties.contains(",title="), "{command}");
        assert!(!command.contains(['\u{1b}', '\u{202e}']), "{command:?}");
    }
    assert!(output.stdout.contains("SKILL.md,line=3,col=15,title=fm-control-char::"), "{}", output.stdout);
}

#[test]
fn sarif_is_one_log_of_all_findings() {
    let env = hostile();
    let output = env.run(["validate", "src", "--format", "sarif"]);
    assert_eq!(output.status, 6);
    let log: Value = serde_json::from_str(&output.stdout).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    assert!(results.len() >= 3, "{log}");
    for result in results {
        let place = &result["locations"][0]["physicalLocation"];
        assert!(text(&place["artifactLocation"]["uri"]).starts_with("src/a%20b%25/"), "{result}");
        assert_eq!(
            (&result["level"], &place["artifactLocation"]["uriBaseId"]),
            (&"error".into(), &"%SRCROOT%".into())
        );
        let message = text(&result["message"]["text"]);
        assert!(!message.contains(['\u{1b}', '\u{202e}']) && !message.contains("]("), "{message:?}");
    }
    let control = results.iter().find(|result| result["ruleId"] == "fm-control-char").unwrap();
    let region = &control["locations"][0]["physicalLocation"]["region"];
    assert_eq!((&region["startLine"], &region["startColumn"]), (&3.into(), &15.into()));
}
