//! The parser against another one: PyYAML, without types, on every real file that it accepts.
#![expect(clippy::disallowed_methods, reason = "unpacks archives and reads them by path")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use skillfreeze_catalog::{ParseOptions, front_matter_value, parse_front_matter};
use skillfreeze_testing::{corpora, skip};

/// Prints a line for each file: its path and its front matter, where PyYAML reads it.
///
/// The system's Python, which has the system's packages.
const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = r#"
import json, pathlib, sys, yaml
for path in sorted(pathlib.Path(sys.argv[1]).rglob("SKILL.md")):
    block = path.read_bytes().decode("utf-8-sig").split("\n---", 1)[0] + "\n"
    try:
        print(json.dumps([str(path), yaml.load(block, yaml.BaseLoader)]))
    except yaml.YAMLError as error:
        # What the authors wrote in the one line of their description, which holds a colon.
        line = block.splitlines()[2]
        place = [error.problem_mark.line + 1, error.problem_mark.column + 1]
        print(json.dumps([str(path), [line.removeprefix("description: ").strip(), place]]))
"#;

#[test]
fn text_values_equal_those_of_pyyaml() {
    let Some(corpora) = corpora() else { skip!("SKILLFREEZE_CORPORA is not set") };
    if !Command::new(PYTHON).args(["-c", "import yaml"]).status().is_ok_and(|status| status.success()) {
        skip!("{PYTHON} has no PyYAML");
    }
    let temp = tempfile::tempdir().unwrap();
    for archive in ["bioskills.tar.zst", "nvidia-signed.tar.zst"] {
        let mut tar = Command::new("tar");
        let status =
            tar.args(["--zstd", "-xf"]).arg(corpora.join(archive)).arg("-C").arg(temp.path()).status();
        assert!(status.unwrap().success());
    }
    let output = Command::new(PYTHON).args(["-c", SCRIPT]).arg(temp.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let (mut equal, mut recovered) = (0, 0);
    for line in str::from_utf8(&output.stdout).unwrap().lines() {
        let (path, expected): (String, Value) = serde_json::from_str(line).unwrap();
        let bytes = fs::read(Path::new(&path)).unwrap();
        let options = ParseOptions::default();
        if let Value::Array(expected) = expected {
            let front_matter = parse_front_matter(&bytes, &options).unwrap();
            assert_eq!(Value::from(front_matter.description), expected[0], "{path}");
            // PyYAML's mark is the place of the warning, and of the error where nothing is recovered.
            let strict = parse_front_matter(&bytes, &ParseOptions { strict: true, ..options }).unwrap_err();
            for (found, code) in [(&front_matter.diagnostics, "fm-recovered"), (&strict, "fm-yaml")] {
                let found: Vec<_> = found.iter().filter(|found| found.code == code).collect();
                assert_eq!(found.len(), 1, "{path}");
                assert_eq!(json!([found[0].line, found[0].column]), expected[1], "{path}");
            }
            recovered += 1;
        } else {
            let values = front_matter_value(&bytes, &options).unwrap();
            assert_eq!(serde_json::to_value(&values).unwrap(), expected, "{path}");
            equal += 1;
        }
    }
    assert_eq!((equal, recovered), (619, 13));
}
