//! The tree of a front matter: text, sequences and mappings, each with its place and notation.
//!
//! Text keeps its source form, and the notation alone tells `"1"` from `1`. Types are therefore told
//! when they are asked for: what YAML 1.2's core schema makes of a plain scalar, and `date`.

use std::ops::Range;

use crate::front_matter::fence::Position;
use crate::front_matter::value::Value;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) content: Content,
    pub(crate) notation: Notation,
    pub(crate) at: Position,
    /// Its bytes in the block; those of a block scalar or a block collection may end later than it does.
    pub(crate) range: Range<usize>,
}

/// What a [`Node`] holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// A scalar: its text after escapes and folding.
    Text(String),
    /// A list.
    Sequence(Vec<Node>),
    /// Keys and values, in the order of the file, no key twice.
    Mapping(Vec<Entry>),
}

/// How a [`Node`] is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    /// A scalar without quotes.
    Plain,
    /// A scalar in single or double quotes.
    Quoted,
    /// A collection in brackets.
    Flow,
    /// A scalar behind `|` or `>`, or a collection told by its indentation.
    Block,
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Position,
    /// The key's bytes in the block, its quotes included.
    pub(crate) range: Range<usize>,
    pub(crate) value: Node,
}

impl Node {
    /// What stands where nothing does.
    pub(crate) fn nothing() -> Self {
        Self {
            content: Content::Text(String::new()),
            notation: Notation::Plain,
            at: Position::START,
            range: 0..0,
        }
    }

    /// The type in words.
    pub(crate) fn describe(&self) -> &'static str {
        match &self.content {
            Content::Text(text) if self.notation == Notation::Plain => describe_plain(text),
            Content::Text(_) => "string",
            Content::Sequence(_) => "sequence",
            Content::Mapping(_) => "mapping",
        }
    }

    /// Whether nothing, `~` or `null` stands there.
    pub(crate) fn is_null(&self) -> bool {
        self.describe() == "null"
    }

    /// The text of a scalar of any type.
    pub(crate) fn scalar(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text of a scalar that is text and nothing else.
    pub(crate) fn string(&self) -> Option<&str> {
        self.scalar().filter(|_| self.describe() == "string")
    }

    /// The entries of a mapping.
    pub(crate) fn entries(&self) -> Option<&[Entry]> {
        match &self.content {
            Content::Mapping(entries) => Some(entries),
            _ => None,
        }
    }

    /// The same without places and notation.
    pub(crate) fn to_value(&self) -> Value {
        // Bounded: the parser admits no deeper tree than its limit.
        match &self.content {
            Content::Text(text) => Value::Text(text.clone()),
            Content::Sequence(items) => Value::Sequence(items.iter().map(Self::to_value).collect()),
            Content::Mapping(entries) => Value::Mapping(
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_value())).collect(),
            ),
        }
    }
}

fn describe_plain(text: &str) -> &'static str {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return "null",
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => return "boolean",
        ".nan" | ".NaN" | ".NAN" => return "number",
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let based = |prefix: &str, base: u32| {
        text.strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|digit| digit.is_digit(base)))
    };
    if digits(unsigned) || based("0x", 16) || based("0o", 8) {
        "integer"
    } else if matches!(unsigned, ".inf" | ".Inf" | ".INF") || is_float(unsigned) {
        "number"
    } else if is_date(text) {
        "date"
    } else {
        "string"
    }
}

/// Whether a text without its sign is a float: `1.5`, `.5`, `1.`, `1e3`.
fn is_float(text: &str) -> bool {
    // What else Rust reads as a float, `inf`, `nan` and signs, has other characters or a sign in front.
    text.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'))
        && text.parse::<f64>().is_ok()
}

/// Whether a text begins as YAML 1.1's timestamps do, `2026-01-01` with a time after it or not.
fn is_date(text: &str) -> bool {
    let day = text.split(['T', 't', ' ', '\t']).next().unwrap_or_default();
    let parts: Vec<&str> = day.split('-').collect();
    let number = |part: &str, lengths: &[usize]| {
        lengths.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
    };
    matches!(parts[..], [year, month, day]
        if number(year, &[4]) && number(month, &[1, 2]) && number(day, &[1, 2]))
}
