//! What is said while a front matter is read, each with its place.

use std::cmp::Reverse;

use skillfreeze_manifest::{Diagnostic, SKILL_FILE, Severity};

use crate::front_matter::fence::Position;
use crate::front_matter::node::Node;

/// Bytes of all excerpts of one file together, for each byte of a front matter's limit.
///
/// Lines are told whole, and a long one may have a thousand faults.
const EXCERPTS: usize = 4;

/// The findings so far.
#[derive(Default)]
pub(crate) struct Findings {
    found: Vec<Diagnostic>,
}

impl Findings {
    /// Says something that has no place.
    pub(crate) fn say(&mut self, severity: Severity, code: &'static str, message: impl Into<String>) {
        self.found.push(Diagnostic::new(severity, code, message));
    }

    /// Says something about a place.
    pub(crate) fn say_at(
        &mut self,
        at: Position,
        severity: Severity,
        code: &'static str,
        message: impl Into<String>,
    ) {
        self.found.push(Diagnostic::new(severity, code, message).at(at.line, at.column));
    }

    /// Takes what is ready.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.found.push(diagnostic);
    }

    /// Says that a value has another type than its key asks for.
    pub(crate) fn wrong_type(&mut self, node: &Node, severity: Severity, key: &str, expected: &str) {
        let message = format!("{key}: expected {expected}, found {}", node.describe());
        let diagnostic = Diagnostic::new(severity, "fm-type", message).at(node.at.line, node.at.column);
        let is_scalar = node.scalar().is_some() && !node.is_null();
        self.push(if expected.starts_with("string") && is_scalar {
            diagnostic.hint("quote the value if it is text")
        } else {
            diagnostic
        });
    }

    /// All of them in the order of the file; what is missing has no place and comes last, the worst
    /// of it first.
    pub(crate) fn sorted(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|diagnostic| {
            (diagnostic.line.is_none(), diagnostic.line, diagnostic.column, Reverse(diagnostic.severity))
        });
        self.found
    }
}

/// Adds the file and the lines to what is said about it.
///
/// Over a limit of all lines together there are no more.
pub(crate) fn illustrate(diagnostics: &mut [Diagnostic], bytes: &[u8], limit: u64) {
    let line_limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut room = line_limit.saturating_mul(EXCERPTS);
    let mut starts = None;
    for diagnostic in diagnostics {
        diagnostic.path = Some(SKILL_FILE.to_owned());
        let Some(line) = diagnostic.line else { continue };
        let starts = starts.get_or_insert_with(|| line_starts(bytes));
        let Some(&start) = line.checked_sub(1).and_then(|index| starts.get(index)) else { continue };
        let end = starts.get(line).copied().unwrap_or(bytes.len()).min(start.saturating_add(line_limit));
        if end - start > room {
            continue;
        }
        room -= end - start;
        let text = String::from_utf8_lossy(&bytes[start..end]);
        let text = text.strip_prefix('\u{feff}').filter(|_| start == 0).unwrap_or(&text);
        diagnostic.excerpt = Some(text.trim_end_matches(['\r', '\n']).to_owned());
    }
}

/// Where each line begins; lines end as in YAML, at a bare CR too.
fn line_starts(bytes: &[u8]) -> Vec<usize> {
    let is_end = |at: &usize| match bytes[*at] {
        b'\n' => true,
        b'\r' => bytes.get(at + 1) != Some(&b'\n'),
        _ => false,
    };
    [0].into_iter().chain((0..bytes.len()).filter(is_end).map(|at| at + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_the_lines() {
        let bytes = b"\xef\xbb\xbf---\r\n a: b \rc\n\xff\xc3\xa9";
        for (line, expected) in [
            (1, Some("---")),
            (2, Some(" a: b ")),
            (3, Some("c")),
            (4, Some("\u{fffd}é")),
            (5, None),
            (0, None),
        ] {
            let mut found = [Diagnostic::new(Severity::Info, "x", "y").at(line, 1)];
            illustrate(&mut found, bytes, 64);
            assert_eq!(found[0].excerpt.as_deref(), expected, "{line}");
        }
        let mut found = [Diagnostic::new(Severity::Info, "x", "y")];
        illustrate(&mut found, bytes, 64);
        assert_eq!((found[0].excerpt.as_deref(), found[0].path.as_deref()), (None, Some("SKILL.md")));
    }

    /// A thousand faults in one long line are not a thousand copies of it.
    #[test]
    fn excerpts_are_bounded() {
        let bytes = "x".repeat(100);
        let mut found = vec![Diagnostic::new(Severity::Info, "x", "y").at(1, 1); 50];
        illustrate(&mut found, bytes.as_bytes(), 100);
        assert_eq!(found.iter().filter(|found| found.excerpt.is_some()).count(), EXCERPTS);
        illustrate(&mut found, bytes.as_bytes(), 10);
        assert_eq!(found[0].excerpt.as_deref(), Some("xxxxxxxxxx"));
    }
}
