//! `validate`: what authors are told of their packages, with nothing written.

mod corpora;
mod faults;
mod formats;
mod subjects;

use serde_json::Value;
use skillfreeze_testing::{Output, TestEnv, tree};

use crate::support::text;

/// What was said of a package: `severity code path:line:column`, as much of that as there is. That
/// it has no version is said of nearly every package here, and left out.
fn said(package: &Value) -> Vec<String> {
    let one = |diagnostic: &Value| {
        let mut line = format!("{} {}", text(&diagnostic["severity"]), text(&diagnostic["code"]));
        if let Some(path) = diagnostic["path"].as_str() {
            line.push_str(&format!(" {path}"));
        }
        if !diagnostic["line"].is_null() {
            line.push_str(&format!(":{}:{}", diagnostic["line"], diagnostic["column"]));
        }
        line
    };
    let diagnostics = package["diagnostics"].as_array().unwrap().iter();
    diagnostics.filter(|diagnostic| diagnostic["code"] != "version-missing").map(one).collect()
}

/// What was said of each package, by its path.
fn packages(report: &Value) -> Vec<(String, Vec<String>)> {
    let packages = report["packages"].as_array().unwrap();
    packages.iter().map(|package| (text(&package["path"]), said(package))).collect()
}

/// Runs `validate --json`, which must write nothing; gives the status and what was reported.
#[track_caller]
fn validate(env: &TestEnv, arguments: &[&str]) -> (i32, Value) {
    // Gives the files to the user, so that the two dumps compare.
    drop(env.command([""]));
    let before = (tree(env.work()), tree(env.home()));
    let output = env.run([&["validate", "--json"], arguments].concat());
    assert_eq!((tree(env.work()), tree(env.home())), before);
    assert!(!env.root().exists(), "a store was made");
    (output.status, report(&output))
}

/// The report on standard output, checked against the status.
#[track_caller]
fn report(output: &Output) -> Value {
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
    if report.is_null() {
        return report;
    }
    let packages = report["packages"].as_array().unwrap();
    let valid = packages.iter().filter(|package| package["valid"] == true).count();
    assert_eq!((&report["valid"], &report["invalid"]), (&valid.into(), &(packages.len() - valid).into()));
    for package in packages {
        let is_faulty = said(package).iter().any(|line| line.starts_with("error "));
        assert_eq!(package["valid"], !is_faulty, "{package}");
    }
    if output.status == 6 {
        let error = output.fails(6, "invalid");
        assert_ne!(report["invalid"], 0, "{error}");
    }
    report
}
