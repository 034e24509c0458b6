//! Values that hold `: ` without quotes, which YAML does not allow and authors write all the same.
//!
//! Where a block is no YAML only because a plain value of its top level holds `: `, that value is put
//! in quotes and the whole block parsed again, so that no other key is lost or taken for something
//! else. The value ends where the plain scalar would have: at ` #`, or before the first line that is
//! not indented more than its key. Single quotes are used, since they fold lines as plain scalars do
//! and know no escapes. Nothing is guessed: what is wrong in any other way, in a nested value too,
//! stays an error.
//!
//! Nothing is taken for a key below what reads as the beginning of the body, since then the closing
//! fence was forgotten and the "values" are prose.

use std::ops::Range;

use skillfreeze_manifest::{Diagnostic, Severity};

use crate::front_matter::fence::Position;
use crate::front_matter::node::Node;
use crate::front_matter::yaml::{self, COLON_HINT, YamlError};

/// Blanks and line ends; other white space is text to YAML.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// What a block says after recovery.
pub(crate) struct Recovered {
    /// The root, or why there still is none.
    pub(crate) root: Result<Node, Vec<YamlError>>,
    /// The colons of the values that were put in quotes.
    pub(crate) colons: Vec<Position>,
}

/// Parses a block, with quotes around top-level values that lack them.
///
/// All places are those of `text`: nothing but the end of a comment stands behind a quoted value in
/// its last line.
pub(crate) fn parse(text: &str) -> Recovered {
    let root = yaml::parse(text);
    if !matches!(&root, Err(errors) if matches!(errors[..], [YamlError::Syntax { .. }])) {
        return Recovered { root, colons: Vec::new() };
    }
    let strays = find(text);
    if strays.is_empty() {
        return Recovered { root, colons: Vec::new() };
    }
    let mut quoted = String::with_capacity(text.len() + 2 * strays.len());
    let mut copied = 0;
    for (value, _) in &strays {
        quoted.push_str(&text[copied..value.start]);
        quoted.push('\'');
        quoted.push_str(&text[value.clone()].replace('\'', "''"));
        quoted.push('\'');
        copied = value.end;
    }
    quoted.push_str(&text[copied..]);
    Recovered { root: yaml::parse(&quoted), colons: strays.into_iter().map(|(_, colon)| colon).collect() }
}

/// The warning that a value was put in quotes.
pub(crate) fn diagnostic(colon: Position) -> Diagnostic {
    let message = "the value holds `: ` without quotes; it was taken as text";
    Diagnostic::new(Severity::Warning, "fm-recovered", message).at(colon.line, colon.column).hint(COLON_HINT)
}

/// Finds the values to be quoted, each with the place of its first stray colon.
///
/// After each value it goes on with the next line, not with the whole block, so that the work does
/// not grow with the square of the values. What only the whole block can tell, its last parse does.
fn find(text: &str) -> Vec<(Range<usize>, Position)> {
    let body = body(text);
    let mut found: Vec<(Range<usize>, Position)> = Vec::new();
    let mut key_column = None;
    let mut from = 0;
    let mut at = Position::START;
    // With more there are too many keys for any block.
    while found.len() < yaml::MAX_NODES
        && let Some(stray) = yaml::stray_colon(&text[from..])
    {
        let (value, colon) = (from + stray.value, from + stray.colon);
        if value >= body || *key_column.get_or_insert(stray.key_column) != stray.key_column {
            break;
        }
        let end = value_end(text, colon, stray.key_column);
        at = at.after(&text[from..colon]);
        found.push((value..end, at));
        from = next_line(text, end);
        at = at.after(&text[colon..from]);
    }
    found
}

/// The offset of what reads as a heading of the body, below a blank line and the required keys.
fn body(text: &str) -> usize {
    let (mut has_name, mut has_description, mut is_below_blank) = (false, false, false);
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        has_name |= line.starts_with("name:");
        has_description |= line.starts_with("description:");
        let is_heading = line.trim_start_matches('#').starts_with(' ') && line.starts_with('#');
        if is_below_blank && is_heading && has_name && has_description {
            return offset;
        }
        is_below_blank = line.trim_matches(BLANKS).is_empty();
        offset += line.len();
    }
    text.len()
}

/// Where the plain scalar that holds the colon would end, without blanks behind it.
fn value_end(text: &str, colon: usize, key_column: usize) -> usize {
    let mut end = colon + 1;
    let mut line = colon;
    loop {
        let next = next_line(text, line);
        let content = &text[line..next];
        // A value that continues begins its line with as many spaces as the key is indented, and one.
        let indent = content.len() - content.trim_start_matches(' ').len();
        let inner = content.trim_matches(BLANKS);
        if line != colon && !inner.is_empty() && (indent < key_column || inner.starts_with('#')) {
            break;
        }
        let comment = content.match_indices('#').find(|(at, _)| content[..*at].ends_with([' ', '\t']));
        let length = content[..comment.map_or(content.len(), |(at, _)| at)].trim_end_matches(BLANKS).len();
        if length > 0 {
            end = line + length;
        }
        if comment.is_some() || next == text.len() {
            break;
        }
        line = next;
    }
    end
}

/// The offset of the line after the one that holds `offset`; YAML ends lines at a bare CR too.
fn next_line(text: &str, offset: usize) -> usize {
    let rest = &text.as_bytes()[offset..];
    match rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        Some(at) if rest[at] == b'\r' && rest.get(at + 1) == Some(&b'\n') => offset + at + 2,
        Some(at) => offset + at + 1,
        None => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each value ends where the scalar does, and what is behind it stays.
    #[test]
    fn finds_where_values_end() {
        for (text, expected) in [
            ("a: b: c\nd: e\n", &["b: c"][..]),
            ("a: b: c", &["b: c"]),
            ("a: b:\nd: e\n", &["b:"]),
            ("a: b : c  \nd: e\n", &["b : c"]),
            ("a: b: c # d: e\n", &["b: c"]),
            ("a: b: c#d \t# e\n", &["b: c#d"]),
            ("a: b: # c\nd: e\n", &["b:"]),
            ("a: b: c\r\nd: e: f\r\n", &["b: c", "e: f"]),
            ("a: b: c\n  d: e\n\n   f\n\ng: h\n", &["b: c\n  d: e\n\n   f"]),
            ("a: b\n  c: d\n  # e\n  f\n", &["b\n  c: d"]),
            ("a:\n  b\n  c: d\ne: f\n", &["b\n  c: d"]),
            ("  a: b: c\n   d\n  e: f\n", &["b: c\n   d"]),
            ("a: b: c\n\td\n", &["b: c"]),
            ("a: it's: c\n", &["it's: c"]),
            ("a: b: c\rd: e: f\n", &["b: c", "e: f"]),
            ("a: é: ü\nb: 'c'\nd: é: x\n", &["é: ü", "é: x"]),
            ("a: b: [c\nd: {e: f\n", &["b: [c"]),
            // Not at the top level, not plain, or no mapping in blocks.
            ("a:\n  b: c: d\n", &[]),
            ("a: \"b\": c\n", &[]),
            ("a: 'b': c\n", &[]),
            ("a: [b]: c\n", &[]),
            ("- a: b: c\n", &[]),
            ("{a: b: c}\n", &[]),
            ("a: b\nc\nd: e: f\n", &[]),
            // The body.
            ("name: a\ndescription: b\n\n# T\nc: d: e\n", &[]),
            ("name: a\n\n# T\ndescription: d: e\n", &["d: e"]),
            ("name: a\ndescription: b\n# T\nc: d: e\n", &["d: e"]),
        ] {
            let found: Vec<_> = find(text).into_iter().map(|(value, _)| &text[value]).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn colons_keep_their_places() {
        let text = "---\na: b\nc: é d: e\n\nf:\n  g: h\ni: j\n  k: l\r\nm: n:\n";
        let expected = [(3, 7), (8, 4), (9, 5)].map(|(line, column)| Position { line, column });
        assert_eq!(parse(text).colons, expected);
    }
}
