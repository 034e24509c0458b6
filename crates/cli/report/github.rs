//! Reports as GitHub's workflow commands, which annotate the lines of a pull request.
//!
//! ```text
//! ::error file=F,line=L,col=C,title=CODE::MESSAGE
//! ```
//!
//! The runner takes a line that begins with `::` for a command, `%25`, `%0D` and `%0A` in it for `%`
//! and the ends of lines, and in a property `%3A` and `%2C` for `:` and `,`.

use skillfreeze::manifest::{Diagnostic, Severity};

use super::{Report, count_line};
use crate::output::{one_line, printable};

/// A command a finding, infos only when asked for; the count is a line of the log.
pub(super) fn commands(reports: &[Report], infos: bool) -> String {
    let mut text = String::new();
    for report in reports {
        for diagnostic in &report.diagnostics {
            if diagnostic.severity > Severity::Info || infos {
                text.push_str(&command(report, diagnostic));
                text.push('\n');
            }
        }
    }
    text.push_str(&count_line(reports));
    text
}

fn command(report: &Report, diagnostic: &Diagnostic) -> String {
    let command = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        _ => "notice",
    };
    let mut text = format!("::{command} file={}", property(&one_line(report.place(diagnostic).as_str())));
    if let Some(line) = diagnostic.line {
        text.push_str(&format!(",line={line}"));
        if let Some(column) = diagnostic.column {
            text.push_str(&format!(",col={column}"));
        }
    }
    text.push_str(&format!(",title={}::{}", property(diagnostic.code), data(&diagnostic.message)));
    if let Some(hint) = &diagnostic.hint {
        text.push_str(&data(&format!("\nhint: {hint}")));
    }
    text
}

/// A command's message.
fn data(text: &str) -> String {
    printable(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a command's property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::super::tests::examples;
    use super::*;

    #[test]
    fn a_finding_is_a_command() {
        insta::assert_snapshot!(commands(&examples(), true), @r#"
        ::warning file=skills/warned/SKILL.md,line=3,col=22,title=fm-recovered::the value holds `: `%0Ahint: quote the value or use `>-`
        ::notice file=skills/warned/.git,title=vcs-skipped::version control is left out
        ::error file=notes.md,line=4,col=1,title=fm-dup-key::`name` stands twice
        ::error file=/srv/é#1\n%3A%3Aerror%3A%3Ax/scripts/a b%3Ac%2Cd\u{1b}[31m\n%25.sh,title=path-control::`a\u{1b}[2J\u{202e}` 100%25%0A::error::[forged](https://evil.example/) {0}
        ::error file=/srv/é#1\n%3A%3Aerror%3A%3Ax/SKILL.md,line=2,col=301,title=fm-control-char::a control character
        ::error file=.,title=no-skill-file::there is no `SKILL.md`
        2 valid, 3 invalid, 1 warning
        "#);
        assert!(!commands(&examples(), false).contains("::notice"));
    }

    /// The runner's own way back.
    fn decode(text: &str) -> String {
        let text = text.replace("%0D", "\r").replace("%0A", "\n").replace("%3A", ":").replace("%2C", ",");
        text.replace("%25", "%")
    }

    #[test]
    fn a_text_is_read_back_and_ends_nowhere_before() {
        for text in ["a:b,c::d", "100%", "%0A%3A", "a\nb", "::error::x", "", "é名"] {
            for encoded in [data(text), property(text)] {
                assert!(!encoded.contains(['\n', '\r']), "{encoded:?}");
                assert_eq!(decode(&encoded), text);
            }
            assert!(!property(text).contains([':', ',']), "{text}");
        }
        assert_eq!(data("a\r\u{1b}"), "a\\r\\u{1b}");
    }
}
