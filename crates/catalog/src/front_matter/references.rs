//! References of a Markdown text to files beside it.
//!
//! A flat skill is frozen as its one file, so that whatever else it refers to is not there: each link
//! or image whose target is a relative path is told. A target with a scheme, a fragment of the text
//! itself and an absolute path do not count, nor does anything in code.

use pulldown_cmark::{Event, LinkType, Parser, Tag};
use skillfreeze_manifest::{Diagnostic, Limits, Severity};

use crate::front_matter::fence::{self, Position};

/// The most references that are told one by one.
const MAX_TOLD: usize = 100;

/// A link or image with a relative target.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reference {
    /// The line that it begins in, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The target as Markdown resolves it, with its fragment.
    pub target: String,
}

/// Finds the links and images of a Markdown text whose targets are relative paths, in its order.
///
/// A front matter at its beginning is not part of the text, but of its line numbers.
#[must_use]
pub fn relative_references(markdown: &str) -> Vec<Reference> {
    let limit = Limits::DEFAULT.front_matter_bytes;
    let closing = fence::locate(markdown.as_bytes(), limit).map_or(0, |(_, closing)| closing);
    let body = match markdown[closing..].find('\n') {
        Some(end) if closing > 0 => closing + end + 1,
        None if closing > 0 => markdown.len(),
        _ => 0,
    };
    let mut references = Vec::new();
    let (mut at, mut seen) = (Position::START.after(&markdown[..body]), body);
    for (event, range) in Parser::new(&markdown[body..]).into_offset_iter() {
        let Event::Start(Tag::Link { link_type, dest_url, .. } | Tag::Image { link_type, dest_url, .. }) =
            event
        else {
            continue;
        };
        if !matches!(link_type, LinkType::Autolink | LinkType::Email) && is_relative_path(&dest_url) {
            // Starts come in the order of the text.
            let start = (body + range.start).max(seen);
            at = at.after(&markdown[seen..start]);
            seen = start;
            references.push(Reference { line: at.line, column: at.column, target: dest_url.into_string() });
        }
    }
    references
}

/// Whether a target is a path that begins where the text is.
fn is_relative_path(target: &str) -> bool {
    let scheme = target.split([':', '/', '?', '#']).next().unwrap_or_default();
    let has_scheme = target[scheme.len()..].starts_with(':')
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    !has_scheme && !target.is_empty() && !target.starts_with(['#', '?', '/', '\\'])
}

/// Warns of each reference of a flat skill, whose files are not frozen with it.
///
/// `path` is the skill's file, as it is to be shown. Over a hundred are counted only.
#[must_use]
pub fn flat_resources(path: &str, markdown: &str) -> Vec<Diagnostic> {
    let references = relative_references(markdown);
    let lines: Vec<&str> = markdown.lines().collect();
    let told = references.iter().take(MAX_TOLD).map(|reference| {
        let target = reference.target.escape_debug();
        let diagnostic = warn(format!("`{target}` is not frozen: a flat skill is its one file"));
        let diagnostic = diagnostic.at_path(path).at(reference.line, reference.column);
        match lines.get(reference.line - 1) {
            Some(line) => diagnostic.excerpt(*line),
            None => diagnostic,
        }
    });
    let untold = references.len().saturating_sub(MAX_TOLD);
    let rest = (untold > 0).then(|| warn(format!("{untold} more references are not frozen")).at_path(path));
    told.chain(rest).collect()
}

fn warn(message: String) -> Diagnostic {
    Diagnostic::new(Severity::Warning, "flat-resource-not-frozen", message)
        .hint("make it a directory with a `SKILL.md`, and put what it needs into it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_relative_targets_and_their_places() {
        for (markdown, expected) in [
            ("", &[][..]),
            ("[a](b.md)", &[(1, 1, "b.md")]),
            ("é [a](./b/c.md#d) ![e](<f g.png> \"t\")\n", &[(1, 3, "./b/c.md#d"), (1, 19, "f g.png")]),
            ("[a](https://b) [c](#d) [e](/f) [g](mailto:h) [i](?j) [k]() [l](\\\\m) [n](//o)", &[]),
            ("[a](C:/b) [c](a.b-c+d:e) [f](g/h:i) [j](1:k)", &[(1, 26, "g/h:i"), (1, 37, "1:k")]),
            ("<https://a> <b@c.d>", &[]),
            ("`[a](b)`\n\n```\n[a](b)\n```\n\n    [a](b)\n", &[]),
            ("[a][b] [b]\n\n[b]: c.md\n", &[(1, 1, "c.md"), (1, 8, "c.md")]),
            (
                "- x\n  - [![a](b.png)](c.md)\r\n> [d](../e)\n",
                &[(2, 5, "c.md"), (2, 6, "b.png"), (3, 3, "../e")],
            ),
            ("---\nname: a\ndescription: '[a](b)'\n---\n[c](d)\n", &[(5, 1, "d")]),
            ("\u{feff}---\r\nname: a\r\n---\r\n\r\n[c](d)\n", &[(5, 1, "d")]),
            ("---\nname: '[a](b)'\n---", &[]),
            ("[a](b\n", &[]),
        ] {
            let found = relative_references(markdown);
            let found: Vec<_> =
                found.iter().map(|found| (found.line, found.column, found.target.as_str())).collect();
            assert_eq!(found, expected, "{markdown:?}");
        }
    }

    #[test]
    fn nothing_is_left_out_silently() {
        let diagnostics = flat_resources("a.md", &"[a](b)\n".repeat(MAX_TOLD + 7));
        assert_eq!(diagnostics.len(), MAX_TOLD + 1);
        assert!(diagnostics.iter().all(|diagnostic| diagnostic.code == "flat-resource-not-frozen"));
        assert_eq!((diagnostics[1].line, diagnostics[1].excerpt.as_deref()), (Some(2), Some("[a](b)")));
        assert!(diagnostics[MAX_TOLD].message.starts_with("7 more"), "{}", diagnostics[MAX_TOLD]);
    }
}
