//! Reports as SARIF 2.1.0, which code scanning takes.
//!
//! <https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>; one run, a rule a code. Columns
//! are counted in characters, and said to be. Paths of the working directory are relative to
//! `%SRCROOT%`, which the reader knows.

use std::collections::BTreeSet;

use camino::Utf8Path;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use skillfreeze::manifest::{Diagnostic, Severity};

use super::Report;
use crate::output::printable;

/// What stands for itself in no path: all but the unreserved characters of RFC 3986 and the slash.
/// A colon is encoded too, since the first part of a path with one would be a scheme.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The log of one run with all findings.
pub(super) fn log(reports: &[Report]) -> Value {
    let all = || reports.iter().flat_map(|report| &report.diagnostics);
    let codes: Vec<&str> = BTreeSet::from_iter(all().map(|diagnostic| diagnostic.code)).into_iter().collect();
    let results = reports
        .iter()
        .flat_map(|report| report.diagnostics.iter().map(|diagnostic| result(report, diagnostic, &codes)));
    json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "skillfreeze",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": codes.iter().map(|code| json!({ "id": code })).collect::<Vec<_>>(),
            } },
            "columnKind": "unicodeCodePoints",
            "results": results.collect::<Vec<_>>(),
        }],
    })
}

fn result(report: &Report, diagnostic: &Diagnostic, codes: &[&str]) -> Value {
    let level = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        _ => "note",
    };
    let text = match &diagnostic.hint {
        Some(hint) => format!("{} ({hint})", diagnostic.message),
        None => diagnostic.message.clone(),
    };
    let mut place = json!({ "artifactLocation": location(&report.place(diagnostic)) });
    // Both are counted from 1; a position that is not would make the whole log invalid.
    if let Some(line) = diagnostic.line.filter(|&line| line > 0) {
        place["region"] = json!({ "startLine": line });
        if let Some(column) = diagnostic.column.filter(|&column| column > 0) {
            place["region"]["startColumn"] = json!(column);
        }
    }
    json!({
        "ruleId": diagnostic.code,
        "ruleIndex": codes.binary_search(&diagnostic.code).ok(),
        "level": level,
        "message": { "text": message(&text) },
        "locations": [{ "physicalLocation": place }],
    })
}

/// A file or directory as a URI reference.
fn location(path: &Utf8Path) -> Value {
    let encoded = utf8_percent_encode(path.as_str(), ENCODED).to_string();
    if path.is_absolute() {
        json!({ "uri": format!("file://{encoded}") })
    } else {
        json!({ "uri": encoded, "uriBaseId": "%SRCROOT%" })
    }
}

/// A text in which nothing is a placeholder, a link (sections 3.11.5 and 3.11.6) or invisible.
fn message(text: &str) -> String {
    printable(text).replace('{', "{{").replace('}', "}}").replace("](", "] (")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{examples, objections};
    use super::*;

    #[test]
    fn a_finding_is_a_result() {
        let log = serde_json::to_string_pretty(&log(&examples())).expect("serialises");
        insta::assert_snapshot!(log, @r#"
        {
          "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
          "runs": [
            {
              "columnKind": "unicodeCodePoints",
              "results": [
                {
                  "level": "warning",
                  "locations": [
                    {
                      "physicalLocation": {
                        "artifactLocation": {
                          "uri": "skills/warned/SKILL.md",
                          "uriBaseId": "%SRCROOT%"
                        },
                        "region": {
                          "startColumn": 22,
                          "startLine": 3
                        }
                      }
                    }
                  ],
                  "message": {
                    "text": "the value holds `: ` (quote the value or use `>-`)"
                  },
                  "ruleId": "fm-recovered",
                  "ruleIndex": 2
                },
                {
                  "level": "note",
                  "locations": [
                    {
                      "physicalLocation": {
                        "artifactLocation": {
                          "uri": "skills/warned/.git",
                          "uriBaseId": "%SRCROOT%"
                        }
                      }
                    }
                  ],
                  "message": {
                    "text": "version control is left out"
                  },
                  "ruleId": "vcs-skipped",
                  "ruleIndex": 5
                },
                {
                  "level": "error",
                  "locations": [
                    {
                      "physicalLocation": {
                        "artifactLocation": {
                          "uri": "notes.md",
                          "uriBaseId": "%SRCROOT%"
                        },
                        "region": {
                          "startColumn": 1,
                          "startLine": 4
                        }
                      }
                    }
                  ],
                  "message": {
                    "text": "`name` stands twice"
                  },
                  "ruleId": "fm-dup-key",
                  "ruleIndex": 1
                },
                {
                  "level": "error",
                  "locations": [
                    {
                      "physicalLocation": {
                        "artifactLocation": {
                          "uri": "file:///srv/%C3%A9%231%0A%3A%3Aerror%3A%3Ax/scripts/a%20b%3Ac%2Cd%1B%5B31m%0A%25.sh"
                        }
                      }
                    }
                  ],
                  "message": {
                    "text": "`a\\u{{1b}}[2J\\u{{202e}}` 100%\n::error::[forged] (https://evil.example/) {{0}}"
                  },
                  "ruleId": "path-control",
                  "ruleIndex": 4
                },
                {
                  "level": "error",
                  "locations": [
                    {
                      "physicalLocation": {
                        "artifactLocation": {
                          "uri": "file:///srv/%C3%A9%231%0A%3A%3Aerror%3A%3Ax/SKILL.md"
                        },
                        "region": {
                          "startColumn": 301,
                          "startLine": 2
                        }
                      }
                    }
                  ],
                  "message": {
                    "text": "a control character"
                  },
                  "ruleId": "fm-control-char",
                  "ruleIndex": 0
                },
                {
                  "level": "error",
                  "locations": [
                    {
                      "physicalLocation": {
                        "artifactLocation": {
                          "uri": ".",
                          "uriBaseId": "%SRCROOT%"
                        }
                      }
                    }
                  ],
                  "message": {
                    "text": "there is no `SKILL.md`"
                  },
                  "ruleId": "no-skill-file",
                  "ruleIndex": 3
                }
              ],
              "tool": {
                "driver": {
                  "name": "skillfreeze",
                  "rules": [
                    {
                      "id": "fm-control-char"
                    },
                    {
                      "id": "fm-dup-key"
                    },
                    {
                      "id": "fm-recovered"
                    },
                    {
                      "id": "no-skill-file"
                    },
                    {
                      "id": "path-control"
                    },
                    {
                      "id": "vcs-skipped"
                    }
                  ],
                  "semanticVersion": "0.1.0"
                }
              }
            }
          ],
          "version": "2.1.0"
        }
        "#);
    }

    /// The published schema takes the same log; the one here takes nothing that it would not.
    #[test]
    fn a_log_fits_its_schema() {
        const CHECK: &str = "import json, jsonschema, sys
schema = json.load(open('tests/schemas/sarif.json'))
for error in jsonschema.Draft202012Validator(schema).iter_errors(json.load(sys.stdin)):
    print(error.json_path, error.message)";
        for reports in [examples(), Vec::new()] {
            assert_eq!(objections(&["-c", CHECK], &log(&reports).to_string()), "");
        }
        let mut strange = log(&examples());
        strange["runs"][0]["results"][0]["level"] = json!("info");
        assert!(objections(&["-c", CHECK], &strange.to_string()).contains("'info' is not one of"));
    }

    #[test]
    fn a_rule_is_found_by_its_index() {
        let log = log(&examples());
        let run = &log["runs"][0];
        for result in run["results"].as_array().expect("results") {
            let index = result["ruleIndex"].as_u64().and_then(|index| usize::try_from(index).ok());
            assert_eq!(run["tool"]["driver"]["rules"][index.expect("an index")]["id"], result["ruleId"]);
        }
    }

    #[test]
    fn a_path_is_encoded() {
        for (path, uri) in [
            ("a/SKILL.md", "a/SKILL.md"),
            ("a b/é", "a%20b/%C3%A9"),
            ("c:x", "c%3Ax"),
            ("a?b#c%20", "a%3Fb%23c%2520"),
            ("a\\b\n", "a%5Cb%0A"),
            ("../x", "../x"),
            ("~a-b_c.d", "~a-b_c.d"),
        ] {
            assert_eq!(location(path.into()), json!({ "uri": uri, "uriBaseId": "%SRCROOT%" }));
        }
        assert_eq!(location("/a b".into()), json!({ "uri": "file:///a%20b" }));
    }

    #[test]
    fn a_message_is_text_alone() {
        for (text, written) in [
            ("{0} of {a: b}", "{{0}} of {{a: b}}"),
            ("[here](https://evil.example/)", "[here] (https://evil.example/)"),
            ("a [b] (c)", "a [b] (c)"),
            ("a\u{1b}\u{202e}\n", "a\\u{{1b}}\\u{{202e}}\n"),
        ] {
            assert_eq!(message(text), written);
        }
    }
}
