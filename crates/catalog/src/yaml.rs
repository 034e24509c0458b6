//! YAML as a front matter may use it: mappings, sequences and text, nothing that refers or computes.
//!
//! The one module that knows the YAML parser. It takes the parser's events, not its values: text
//! keeps its source form (`1.10` stays `1.10`) and its notation, which alone tells `"1"` from `1`.
//! Anchors, aliases, tags, merge keys and directives are refused before anything is expanded, and
//! depth and size are bounded while the events arrive, so that no input costs more than its length.

use std::borrow::Cow;
use std::collections::BTreeMap;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError};
use skillfreeze_manifest::{Diagnostic, Severity};

use crate::fence::{Position, is_control};

/// The most collections inside one another; public front matter has at most five.
const MAX_DEPTH: usize = 16;
/// The most keys, values and items together; public front matter has at most some dozens.
const MAX_NODES: usize = 2048;

/// A value and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) at: Position,
}

/// What a [`Node`] holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// A scalar: its text after escapes and folding, and whether it stood there without quotes.
    Text { text: String, plain: bool },
    /// A list.
    Sequence(Vec<Node>),
    /// Keys and values, in the order of the file, no key twice.
    Mapping(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Position,
    pub(crate) value: Node,
}

impl Node {
    /// The type in words: what YAML 1.2's core schema makes of a plain scalar, and `date`.
    pub(crate) fn describe(&self) -> &'static str {
        match &self.value {
            Value::Text { text, plain: true } => describe_plain(text),
            Value::Text { .. } => "string",
            Value::Sequence(_) => "sequence",
            Value::Mapping(_) => "mapping",
        }
    }

    /// Whether nothing, `~` or `null` stands there.
    pub(crate) fn is_null(&self) -> bool {
        self.describe() == "null"
    }

    /// The text of a scalar of any type.
    pub(crate) fn scalar(&self) -> Option<&str> {
        match &self.value {
            Value::Text { text, .. } => Some(text),
            _ => None,
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

/// Why a text is no front matter's YAML.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum YamlError {
    /// The text is not YAML.
    #[error("the front matter is not YAML")]
    Syntax {
        at: Position,
        #[source]
        cause: ScanError,
    },
    /// The text uses something that makes YAML more than data.
    #[error("the front matter uses {feature}, which is not allowed")]
    Feature { at: Position, feature: &'static str },
    /// A key stands twice in one mapping.
    #[error("the key `{}` stands twice, first at {}:{}", .key.escape_debug(), .first.line, .first.column)]
    DuplicateKey { at: Position, key: String, first: Position },
    /// Collections are nested too deeply.
    #[error("the front matter is nested more than {MAX_DEPTH} deep")]
    TooDeep { at: Position },
    /// There are too many nodes.
    #[error("the front matter has more than {MAX_NODES} keys and values")]
    TooManyNodes { at: Position },
    /// An escape stands for a control character.
    #[error("the front matter holds the control character {character:?} as an escape")]
    ControlCharacter { at: Position, character: char },
}

impl YamlError {
    /// The finding; `closing_line` is where the block ends, which is too late when its own fence
    /// was forgotten and a rule of the body taken for one.
    pub(crate) fn diagnostic(&self, closing_line: usize) -> Diagnostic {
        let (code, at) = match self {
            Self::Syntax { at, .. } => ("fm-yaml", at),
            Self::Feature { at, .. } => ("fm-yaml-feature", at),
            Self::DuplicateKey { at, .. } => ("fm-dup-key", at),
            Self::TooDeep { at } => ("fm-too-deep", at),
            Self::TooManyNodes { at } => ("fm-too-large", at),
            Self::ControlCharacter { at, .. } => ("fm-control-char", at),
        };
        let (message, hint) = match self {
            Self::Syntax { cause, .. } => (
                format!("{self}: {}; no fence before line {closing_line}", cause.info()),
                // Where a later version takes the value for text, it will say so with this hint too.
                matches!(cause.kind(), ErrorKind::MappingValueNotAllowed)
                    .then_some("quote the value or use `>-`: a plain value cannot hold `: `"),
            ),
            // Text that begins with `&`, `*` or `!` is the usual reason.
            Self::Feature { feature: "an anchor" | "an alias" | "a tag", .. } => {
                (self.to_string(), Some("write the value out, or quote it if it is text"))
            }
            _ => (self.to_string(), None),
        };
        let diagnostic = Diagnostic::new(Severity::Error, code, message).at(at.line, at.column);
        match hint {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        }
    }
}

/// Parses a block that begins with its opening fence; the result is the root node.
///
/// # Errors
/// Every key that stands twice, or the one fault after which nothing can be read.
pub(crate) fn parse(text: &str) -> Result<Node, Vec<YamlError>> {
    let options = granit_parser::options! {
        disallow_directives: true,
        bom_inside_document_as_content: true,
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut tree = Tree::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let taken = event.map_err(refuse).and_then(|(event, span)| tree.take(event, position(&span.start)));
        if let Err(error) = taken {
            return Err(vec![error]);
        }
    }
    if !tree.duplicates.is_empty() {
        return Err(tree.duplicates);
    }
    // Without any event of a node there is nothing, which is what a null says.
    let nothing = Value::Text { text: String::new(), plain: true };
    Ok(tree.root.unwrap_or(Node { value: nothing, at: Position { line: 1, column: 1 } }))
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

fn refuse(cause: ScanError) -> YamlError {
    let at = position(cause.marker());
    match cause.kind() {
        ErrorKind::RecursionLimitExceeded => YamlError::TooDeep { at },
        ErrorKind::UnknownAnchor => YamlError::Feature { at, feature: "an alias" },
        ErrorKind::UndeclaredTagHandle => YamlError::Feature { at, feature: "a tag" },
        ErrorKind::DirectiveDisallowed => YamlError::Feature { at, feature: "a directive" },
        _ => YamlError::Syntax { at, cause },
    }
}

/// The tree as far as the events have come.
#[derive(Default)]
struct Tree {
    root: Option<Node>,
    open: Vec<Open>,
    nodes: usize,
    documents: usize,
    duplicates: Vec<YamlError>,
}

/// A collection whose end has not come yet.
enum Open {
    Sequence {
        at: Position,
        items: Vec<Node>,
    },
    Mapping {
        at: Position,
        entries: Vec<Entry>,
        seen: BTreeMap<String, Position>,
        key: Option<(String, Position)>,
    },
}

impl Tree {
    fn take(&mut self, event: Event<'_>, at: Position) -> Result<(), YamlError> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(YamlError::Feature { at, feature: "a second document" });
                }
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                return Err(YamlError::Feature { at, feature: "an alias" });
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.start(at, anchor, tag.is_some())?;
                self.scalar(text, style == ScalarStyle::Plain, at)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.start_collection(at, anchor, tag.is_some())?;
                self.open.push(Open::Sequence { at, items: Vec::new() });
            }
            Event::MappingStart(_, anchor, tag) => {
                self.start_collection(at, anchor, tag.is_some())?;
                self.open.push(Open::Mapping { at, entries: Vec::new(), seen: BTreeMap::new(), key: None });
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::Sequence { at, items }) => self.finish(Node { value: Value::Sequence(items), at }),
                Some(Open::Mapping { at, entries, .. }) => {
                    self.finish(Node { value: Value::Mapping(entries), at })
                }
                None => {}
            },
            _ => {}
        }
        Ok(())
    }

    /// What holds for every node, before anything is kept of it.
    fn start(&mut self, at: Position, anchor: usize, tagged: bool) -> Result<(), YamlError> {
        if anchor != 0 {
            return Err(YamlError::Feature { at, feature: "an anchor" });
        }
        if tagged {
            return Err(YamlError::Feature { at, feature: "a tag" });
        }
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(YamlError::TooManyNodes { at });
        }
        Ok(())
    }

    fn start_collection(&mut self, at: Position, anchor: usize, tagged: bool) -> Result<(), YamlError> {
        self.start(at, anchor, tagged)?;
        if self.open.len() >= MAX_DEPTH {
            return Err(YamlError::TooDeep { at });
        }
        if let Some(Open::Mapping { key: None, .. }) = self.open.last() {
            return Err(YamlError::Feature { at, feature: "a sequence or mapping as a key" });
        }
        Ok(())
    }

    fn scalar(&mut self, text: Cow<'_, str>, plain: bool, at: Position) -> Result<(), YamlError> {
        if let Some(character) = text.chars().find(|character| is_control(*character)) {
            return Err(YamlError::ControlCharacter { at, character });
        }
        let text = text.into_owned();
        if let Some(Open::Mapping { seen, key: key @ None, .. }) = self.open.last_mut() {
            if plain && text == "<<" {
                return Err(YamlError::Feature { at, feature: "a merge key" });
            }
            match seen.get(&text) {
                Some(first) => {
                    self.duplicates.push(YamlError::DuplicateKey { at, key: text.clone(), first: *first });
                }
                None => {
                    seen.insert(text.clone(), at);
                }
            }
            *key = Some((text, at));
        } else {
            self.finish(Node { value: Value::Text { text, plain }, at });
        }
        Ok(())
    }

    /// Puts a whole node where it belongs.
    fn finish(&mut self, node: Node) {
        match self.open.last_mut() {
            Some(Open::Sequence { items, .. }) => items.push(node),
            Some(Open::Mapping { entries, key, .. }) => {
                if let Some((key, at)) = key.take() {
                    entries.push(Entry { key, at, value: node });
                }
            }
            None => self.root = Some(node),
        }
    }
}
