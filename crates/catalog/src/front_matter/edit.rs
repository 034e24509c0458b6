//! Edits of a front matter that change the lines of the named keys and not one byte else.
//!
//! A value is replaced where it stands, whatever its notation: one that is a single line keeps the
//! comment behind it, one of several lines (a block scalar, a list, a mapping) goes with all of
//! them. Comments and blank lines between keys, the order of keys, line ends, a byte order mark and
//! the body stay. A new key goes last, before the closing fence. Text is written plain where that
//! reads back as the same, else in double quotes.
//!
//! Nothing is trusted to have worked: the result is parsed, and must say what it said before but for
//! the named keys; otherwise the edit is an error.

use std::ops::Range;

use skillfreeze_manifest::{Diagnostic, Limits};

use crate::front_matter::fence::{find_block, locate};
use crate::front_matter::findings::illustrate;
use crate::front_matter::node::{Content, Entry, Node, Notation};
use crate::front_matter::value::Value;
use crate::front_matter::yaml;

/// The keys whose values must be text; what looks like a number is put in quotes there.
const TEXT_KEYS: [&str; 3] = ["name", "id", "description"];

/// A change of one key of the top level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit<'a> {
    /// Gives it a text, whatever it held; it is added where there is none.
    Set {
        /// The key.
        key: &'a str,
        /// The text.
        text: &'a str,
    },
    /// Takes it away with its value; nothing happens where there is none.
    Remove {
        /// The key.
        key: &'a str,
    },
}

/// Why a front matter was not edited.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// There is no front matter, or it is no YAML as it stands; a key that stands twice included.
    #[error("the front matter cannot be read")]
    Unreadable {
        /// What is wrong with it.
        diagnostics: Vec<Diagnostic>,
    },
    /// The front matter has no lines of keys: it is `{…}`, a list or a text.
    #[error("the front matter is not one key a line")]
    NotLines,
    /// The key is written in a way that takes more than the beginning of its line.
    #[error("the key `{}` is not written as `key: value`", .key.escape_debug())]
    Notation {
        /// The key.
        key: String,
    },
    /// Two edits name one key.
    #[error("the key `{}` is edited twice", .key.escape_debug())]
    Twice {
        /// The key.
        key: String,
    },
    /// With the edit the front matter could not be read.
    #[error("the front matter could not be read with this `{}`", .key.escape_debug())]
    Unwritable {
        /// The key.
        key: String,
        /// What would be wrong with it.
        diagnostics: Vec<Diagnostic>,
    },
    /// With the edit the front matter would say something else in other places too.
    #[error("an edit of `{}` would change other keys", .key.escape_debug())]
    Entangled {
        /// The key.
        key: String,
    },
}

impl EditError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "edit-unreadable",
            Self::NotLines => "edit-not-lines",
            Self::Notation { .. } => "edit-notation",
            Self::Twice { .. } => "edit-twice",
            Self::Unwritable { .. } => "edit-unwritable",
            Self::Entangled { .. } => "edit-entangled",
        }
    }
}

impl Edit<'_> {
    fn key(&self) -> &str {
        match self {
            Self::Set { key, .. } | Self::Remove { key } => key,
        }
    }
}

/// Edits the front matter of a whole `SKILL.md`, and returns the whole of it.
///
/// ```
/// use skillfreeze_catalog::{Edit, edit_front_matter};
///
/// let bytes = b"---\nname: demo # mine\ndescription: >-\n  a\n  b\n---\nbody\n";
/// let edited = edit_front_matter(bytes, &[Edit::Set { key: "description", text: "Use when: c" }])?;
/// assert_eq!(edited, b"---\nname: demo # mine\ndescription: \"Use when: c\"\n---\nbody\n");
/// # Ok::<(), skillfreeze_catalog::EditError>(())
/// ```
///
/// # Errors
/// [`EditError`]; then nothing is changed, by none of the edits.
pub fn edit_front_matter(bytes: &[u8], edits: &[Edit<'_>]) -> Result<Vec<u8>, EditError> {
    for (index, edit) in edits.iter().enumerate() {
        if edits[..index].iter().any(|earlier| earlier.key() == edit.key()) {
            return Err(EditError::Twice { key: edit.key().to_owned() });
        }
    }
    let mut edited = bytes.to_vec();
    for edit in edits {
        edited = apply(&edited, edit)?;
    }
    Ok(edited)
}

fn apply(bytes: &[u8], edit: &Edit<'_>) -> Result<Vec<u8>, EditError> {
    let root = read(bytes).map_err(|diagnostics| EditError::Unreadable { diagnostics })?;
    let entries = match &root.content {
        Content::Mapping(entries) if root.notation == Notation::Block => &entries[..],
        _ if root.is_null() => &[],
        _ => return Err(EditError::NotLines),
    };
    let unreadable = || EditError::Unreadable { diagnostics: Vec::new() };
    let (opening, closing) = locate(bytes, Limits::DEFAULT.front_matter_bytes).map_err(|_| unreadable())?;
    let block = str::from_utf8(&bytes[opening..closing]).map_err(|_| unreadable())?;

    let index = entries.iter().position(|entry| entry.key == edit.key());
    let place = index.map(|index| Place::of(block, entries, index)).transpose()?;
    let mut expected: Vec<(String, Value)> =
        entries.iter().map(|entry| (entry.key.clone(), entry.value.to_value())).collect();
    let (range, replacement) = match (edit, index, place) {
        (Edit::Set { key, text }, Some(index), Some(place)) => {
            expected[index].1 = Value::Text((*text).to_owned());
            let written = write_value(text, TEXT_KEYS.contains(key));
            let blank = if place.value.start == place.after_colon { " " } else { "" };
            (place.value, format!("{blank}{written}"))
        }
        (Edit::Set { key, text }, ..) => {
            expected.push(((*key).to_owned(), Value::Text((*text).to_owned())));
            let indent = " ".repeat(entries.first().map_or(0, |entry| entry.at.column - 1));
            let end = if first_line_is_crlf(block) { "\r\n" } else { "\n" };
            let (name, written) = (write_key(key), write_value(text, TEXT_KEYS.contains(key)));
            (block.len()..block.len(), format!("{indent}{name}: {written}{end}"))
        }
        (Edit::Remove { .. }, Some(index), Some(place)) => {
            expected.remove(index);
            (place.lines, String::new())
        }
        (Edit::Remove { .. }, ..) => return Ok(bytes.to_vec()),
    };
    let edited =
        [&bytes[..opening + range.start], replacement.as_bytes(), &bytes[opening + range.end..]].concat();
    check(&edited, edit.key(), expected)?;
    Ok(edited)
}

fn first_line_is_crlf(block: &str) -> bool {
    block.find('\n').is_some_and(|end| block[..end].ends_with('\r'))
}

/// Holds what an edit has made against what it should have.
fn check(edited: &[u8], key: &str, expected: Vec<(String, Value)>) -> Result<(), EditError> {
    let root =
        read(edited).map_err(|diagnostics| EditError::Unwritable { key: key.to_owned(), diagnostics })?;
    let is_as_expected = match root.to_value() {
        Value::Mapping(entries) => entries == expected,
        _ => root.is_null() && expected.is_empty(),
    };
    if is_as_expected { Ok(()) } else { Err(EditError::Entangled { key: key.to_owned() }) }
}

/// Parses a front matter to the letter of YAML.
fn read(bytes: &[u8]) -> Result<Node, Vec<Diagnostic>> {
    let limit = Limits::DEFAULT.front_matter_bytes;
    let root = match find_block(bytes, limit, false) {
        Ok(block) => yaml::parse(block.text).map_err(|errors| {
            errors.iter().map(|error| error.diagnostic(block.closing_line)).collect::<Vec<_>>()
        }),
        Err(error) => Err(vec![error.diagnostic()]),
    };
    root.map_err(|mut diagnostics| {
        illustrate(&mut diagnostics, bytes, limit);
        diagnostics
    })
}

/// Where a key stands in the block.
struct Place {
    /// All of its lines.
    lines: Range<usize>,
    /// What is right behind its colon.
    after_colon: usize,
    /// The value, from right behind the colon if it does not follow on the same line.
    value: Range<usize>,
}

impl Place {
    fn of(block: &str, entries: &[Entry], index: usize) -> Result<Self, EditError> {
        let entry = &entries[index];
        let notation = || EditError::Notation { key: entry.key.clone() };
        let start = line_start(block, entry.range.start);
        let behind = &block[entry.range.end..];
        let colon = behind.find(|character| !matches!(character, ' ' | '\t')).ok_or_else(notation)?;
        let is_simple = block[start..entry.range.start].bytes().all(|byte| byte == b' ')
            && behind[colon..].starts_with(':');
        if !is_simple {
            return Err(notation());
        }
        let after_colon = entry.range.end + colon + 1;

        let Node { content, notation, range, .. } = &entry.value;
        let is_scalar = matches!(content, Content::Text(_)) && *notation != Notation::Block;
        let on_the_line = !block[after_colon..range.end.max(after_colon)].contains(['\n', '\r']);
        if is_scalar && on_the_line {
            let value = if range.is_empty() { after_colon..after_colon } else { range.clone() };
            let end = line_end(block, value.end);
            return Ok(Self { lines: start..end, after_colon, value });
        }
        let next = entries.get(index + 1).map_or(block.len(), |next| line_start(block, next.range.start));
        // What is told by brackets or quotes ends with them.
        let least = if *notation == Notation::Block { after_colon } else { range.end };
        let end = value_end(block, least, next, entry.at.column);
        Ok(Self { lines: start..line_end(block, end), after_colon, value: after_colon..end })
    }
}

/// Where a value of several lines ends: before the comments and blank lines that lead to the next
/// key. A comment that is indented more than the key belongs to the value.
fn value_end(block: &str, least: usize, next: usize, key_column: usize) -> usize {
    let mut end = least;
    let mut start = least;
    while start < next {
        let stop = line_end(block, start);
        let line = &block[start..stop];
        let content = line.trim_matches([' ', '\t', '\r', '\n']);
        let indent = line.len() - line.trim_start_matches(' ').len();
        let is_rest = start == least || indent >= key_column;
        if start != least && line.starts_with("...") {
            break;
        }
        if !content.is_empty() && (is_rest || !content.starts_with('#')) {
            end = start + line.trim_end_matches([' ', '\t', '\r', '\n']).len();
        }
        start = stop;
    }
    end
}

/// The offset of the line that holds `offset`; YAML ends lines at a bare CR too.
fn line_start(block: &str, offset: usize) -> usize {
    block[..offset].rfind(['\n', '\r']).map_or(0, |end| end + 1)
}

/// The offset behind the line that holds `offset`, its end included.
fn line_end(block: &str, offset: usize) -> usize {
    let Some(end) = block[offset..].find(['\n', '\r']) else { return block.len() };
    let end = offset + end;
    if block[end..].starts_with("\r\n") { end + 2 } else { end + 1 }
}

/// Writes a value plain where that reads back as the same, else in double quotes.
///
/// What would be nothing is quoted, and where only text will do, so is what would be a number.
fn write_value(text: &str, only_text: bool) -> String {
    let is_plain = reads_as_one(&format!("k: {text}\n"), text).is_some_and(|(_, value)| {
        let is_fit = !value.is_null() && (!only_text || value.string().is_some());
        value.scalar() == Some(text) && value.notation == Notation::Plain && is_fit
    });
    if is_plain { text.to_owned() } else { quote(text) }
}

/// Writes a key plain where that reads back as the same, else in double quotes.
fn write_key(text: &str) -> String {
    let is_plain = reads_as_one(&format!("{text}: v\n"), text).is_some_and(|(key, _)| key == text);
    if is_plain { text.to_owned() } else { quote(text) }
}

/// The only key and the value of a line with a text that has no character that only quotes show.
fn reads_as_one(line: &str, text: &str) -> Option<(String, Node)> {
    if text.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}', '\u{feff}']) {
        return None;
    }
    match yaml::parse(line).ok()?.content {
        Content::Mapping(mut entries) if entries.len() == 1 => entries.pop().map(|one| (one.key, one.value)),
        _ => None,
    }
}

fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ if character.is_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(character))),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
