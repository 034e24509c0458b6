//! What was found about packages, for authors and for continuous integration.
//!
//! One [`Report`] a package; [`Format`] says for whom it is written. Names and messages are a
//! stranger's text: each format escapes what its reader would take for more than text.

mod github;
mod sarif;
mod text;

use camino::{Utf8Path, Utf8PathBuf};
use clap::ValueEnum;
use serde::Serialize;
use skillfreeze::manifest::{Diagnostic, Severity, SkillId};

use crate::exit::Failure;
use crate::output::Output;

/// What was found about one package.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    /// The package's directory, or the one file that a flat skill is: absolute, or relative to the
    /// working directory.
    pub(crate) path: Utf8PathBuf,
    /// Whether the path is that of a flat skill's file.
    pub(crate) is_file: bool,
    /// Its id, as far as it could be read.
    pub(crate) id: Option<SkillId>,
    /// Errors, warnings and infos, in the order in which they are printed.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Report {
    /// Whether the package can be used.
    pub(crate) fn is_valid(&self) -> bool {
        self.count(Severity::Error) == 0
    }

    /// How many findings of a severity there are.
    fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }

    /// The file or directory that a finding is about.
    fn place(&self, diagnostic: &Diagnostic) -> Utf8PathBuf {
        let path = self.path.strip_prefix(".").unwrap_or(&self.path);
        match &diagnostic.path {
            // A flat skill's findings are about the `SKILL.md` that its file is frozen as.
            Some(below) if !self.is_file => path.join(below),
            _ if path == "" => Utf8Path::new(".").to_owned(),
            _ => path.to_owned(),
        }
    }
}

/// For whom reports are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people, with the lines that are meant
    Text,
    /// One JSON object
    Json,
    /// SARIF 2.1.0, as code scanning takes it
    Sarif,
    /// Workflow commands, which GitHub shows beside the lines
    Github,
}

/// Prints reports, and how many packages are valid.
pub(crate) fn print(reports: &[Report], format: Format, output: Output) -> Result<(), Failure> {
    match format {
        Format::Json => output.json(&Packages::of(reports)),
        Format::Sarif => output.json(&sarif::log(reports)),
        Format::Github => output.text(&github::commands(reports, output.is_verbose())),
        Format::Text => output.data(&Packages::of(reports), || {
            text::text(reports, &text::Look { is_colored: output.colors_data(), infos: output.is_verbose() })
        }),
    }
}

/// What `validate --json` prints.
#[derive(Debug, Serialize)]
struct Packages<'a> {
    schema: &'static str,
    packages: Vec<Package<'a>>,
    valid: usize,
    invalid: usize,
}

#[derive(Debug, Serialize)]
struct Package<'a> {
    path: &'a Utf8Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a SkillId>,
    valid: bool,
    diagnostics: &'a [Diagnostic],
}

impl<'a> Packages<'a> {
    fn of(reports: &'a [Report]) -> Self {
        let package = |report: &'a Report| Package {
            path: &report.path,
            id: report.id.as_ref(),
            valid: report.is_valid(),
            diagnostics: &report.diagnostics,
        };
        let (valid, invalid) = validity(reports);
        Self {
            schema: "skillfreeze.validate.v1",
            packages: reports.iter().map(package).collect(),
            valid,
            invalid,
        }
    }
}

/// How many packages are valid, and how many are not.
fn validity(reports: &[Report]) -> (usize, usize) {
    let valid = reports.iter().filter(|report| report.is_valid()).count();
    (valid, reports.len() - valid)
}

/// The last line for people: how many packages are valid, and how many warnings there are.
fn count_line(reports: &[Report]) -> String {
    let (valid, invalid) = validity(reports);
    let warnings: usize = reports.iter().map(|report| report.count(Severity::Warning)).sum();
    let warnings = match warnings {
        0 => String::new(),
        1 => ", 1 warning".to_owned(),
        many => format!(", {many} warnings"),
    };
    format!("{valid} valid, {invalid} invalid{warnings}\n")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// What a program of Python's has against a text on its standard input.
    pub(super) fn objections(arguments: &[&str], input: &str) -> String {
        let mut python = Command::new("/usr/bin/python3")
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("Python is there");
        let mut stdin = python.stdin.take().expect("a pipe");
        stdin.write_all(input.as_bytes()).expect("it reads");
        drop(stdin);
        let answer = python.wait_with_output().expect("it ends");
        String::from_utf8_lossy(&[answer.stdout, answer.stderr].concat()).into_owned()
    }

    /// Packages as they are, and as somebody makes them who means no good.
    pub(super) fn examples() -> Vec<Report> {
        let recovered = Diagnostic::new(Severity::Warning, "fm-recovered", "the value holds `: `")
            .at_path("SKILL.md")
            .at(3, 22)
            .hint("quote the value or use `>-`")
            .excerpt("description: Use when: foo\r");
        let twice = Diagnostic::new(Severity::Error, "fm-dup-key", "`name` stands twice")
            .at_path("SKILL.md")
            .at(4, 1)
            .excerpt("name: b");
        let info =
            Diagnostic::new(Severity::Info, "vcs-skipped", "version control is left out").at_path(".git");
        let hostile = Diagnostic::new(
            Severity::Error,
            "path-control",
            "`a\u{1b}[2J\u{202e}` 100%\n::error::[forged](https://evil.example/) {0}",
        )
        .at_path("scripts/a b:c,d\u{1b}[31m\n%.sh");
        let far = Diagnostic::new(Severity::Error, "fm-control-char", "a control character")
            .at_path("SKILL.md")
            .at(2, 301)
            .excerpt(format!("{}\u{1b}[31m\u{202e}\u{9b}\t名前{}", "x".repeat(300), "y".repeat(300)));
        let report = |path: &str, id: Option<&str>, diagnostics| Report {
            path: path.into(),
            is_file: path.ends_with(".md"),
            id: id.map(|id| id.parse().expect("an id")),
            diagnostics,
        };
        vec![
            report("skills/good", Some("good"), vec![]),
            report("./skills/warned", Some("warned"), vec![recovered, info]),
            report("notes.md", None, vec![twice]),
            report("/srv/é#1\n::error::x", None, vec![hostile, far]),
            report(
                ".",
                None,
                vec![Diagnostic::new(Severity::Error, "no-skill-file", "there is no `SKILL.md`")],
            ),
        ]
    }

    #[test]
    fn json_holds_all_but_the_lines() {
        let json = serde_json::to_string_pretty(&Packages::of(&examples()[..3])).expect("serialises");
        insta::assert_snapshot!(json, @r#"
        {
          "schema": "skillfreeze.validate.v1",
          "packages": [
            {
              "path": "skills/good",
              "id": "good",
              "valid": true,
              "diagnostics": []
            },
            {
              "path": "./skills/warned",
              "id": "warned",
              "valid": true,
              "diagnostics": [
                {
                  "severity": "warning",
                  "code": "fm-recovered",
                  "path": "SKILL.md",
                  "line": 3,
                  "column": 22,
                  "message": "the value holds `: `",
                  "hint": "quote the value or use `>-`"
                },
                {
                  "severity": "info",
                  "code": "vcs-skipped",
                  "path": ".git",
                  "message": "version control is left out"
                }
              ]
            },
            {
              "path": "notes.md",
              "valid": false,
              "diagnostics": [
                {
                  "severity": "error",
                  "code": "fm-dup-key",
                  "path": "SKILL.md",
                  "line": 4,
                  "column": 1,
                  "message": "`name` stands twice"
                }
              ]
            }
          ],
          "valid": 2,
          "invalid": 1
        }
        "#);
    }

    #[test]
    fn json_fits_its_schema() {
        let json = serde_json::to_string(&Packages::of(&examples())).expect("serialises");
        let check = |line: &str| objections(&["tests/schemas/check.py", "schemas"], line);
        assert_eq!(check(&format!("validate.v1.json\t{json}\n")), "");
        let strange = json.replacen("\"valid\"", "\"vlaid\"", 1);
        assert!(check(&format!("validate.v1.json\t{strange}\n")).contains("'vlaid' was unexpected"));
    }

    #[test]
    fn what_cannot_be_used_is_invalid() {
        assert_eq!(count_line(&examples()), "2 valid, 3 invalid, 1 warning\n");
        assert_eq!(count_line(&examples()[..1]), "1 valid, 0 invalid\n");
        assert_eq!(count_line(&[]), "0 valid, 0 invalid\n");
        let twice = [examples().remove(1), examples().remove(1)];
        assert_eq!(count_line(&twice), "2 valid, 0 invalid, 2 warnings\n");
    }

    #[test]
    fn a_finding_is_placed_below_its_package() {
        let about = |path: Option<&str>| Diagnostic { path: path.map(str::to_owned), ..example() };
        fn example() -> Diagnostic {
            Diagnostic::new(Severity::Error, "x", "x")
        }
        for (path, is_file, below, place) in [
            ("a", false, Some("SKILL.md"), "a/SKILL.md"),
            ("./a", false, Some("x/y"), "a/x/y"),
            (".", false, Some("SKILL.md"), "SKILL.md"),
            ("..", false, Some("SKILL.md"), "../SKILL.md"),
            ("/a", false, Some("SKILL.md"), "/a/SKILL.md"),
            ("a", false, None, "a"),
            (".", false, None, "."),
            ("a/b.md", true, Some("SKILL.md"), "a/b.md"),
            ("a/b.md", true, None, "a/b.md"),
        ] {
            let report = Report { path: path.into(), is_file, id: None, diagnostics: vec![] };
            assert_eq!(report.place(&about(below)), place, "{path} {below:?}");
        }
    }
}
