//! YAML as a front matter may use it: mappings, sequences and text, nothing that refers or computes.
//!
//! The one module that knows the YAML parser. It takes the parser's events, not its values: text
//! keeps its source form (`1.10` stays `1.10`) and its notation, which alone tells `"1"` from `1`.
//! Anchors, aliases, tags, merge keys and directives are refused before anything is expanded, and
//! depth and size are bounded while the events arrive, so that no input costs more than its length.

use std::collections::BTreeMap;
use std::ops::Range;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, StructureStyle};
use skillfreeze_manifest::{Diagnostic, Severity};

use crate::front_matter::fence::{Position, is_control};
use crate::front_matter::node::{Content, Entry, Node, Notation};

/// The most collections inside one another; public front matter has at most five.
const MAX_DEPTH: usize = 16;
/// The most keys, values and items together; public front matter has at most some dozens.
pub(crate) const MAX_NODES: usize = 2048;

/// What to do about a value that the grammar does not let stand without quotes.
pub(crate) const COLON_HINT: &str = "quote the value or use `>-`: a plain value cannot hold `: `";

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
                matches!(cause.kind(), ErrorKind::MappingValueNotAllowed).then_some(COLON_HINT),
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
    let (tree, fault) = read(text);
    match fault {
        Some(error) => Err(vec![error]),
        None if !tree.duplicates.is_empty() => Err(tree.duplicates),
        // Without any event of a node there is nothing, which is what a null says.
        None => Ok(tree.root.unwrap_or_else(Node::nothing)),
    }
}

/// A plain value of a block's top level that holds `: `, after which nothing can be read.
pub(crate) struct StrayColon {
    /// The column of the keys of the top level, counted from 1.
    pub(crate) key_column: usize,
    /// The offset of the value.
    pub(crate) value: usize,
    /// The offset of the colon, which the value holds.
    pub(crate) colon: usize,
}

/// Finds the colon where that is the first fault of a text.
pub(crate) fn stray_colon(text: &str) -> Option<StrayColon> {
    let (tree, fault) = read(text);
    let Some(YamlError::Syntax { cause, .. }) = fault else { return None };
    if !matches!(cause.kind(), ErrorKind::MappingValueNotAllowed) {
        return None;
    }
    // The parser hands over all of the value that is before the colon, and then fails.
    let [Open::Mapping { entries, notation: Notation::Block, key: None, .. }] = &tree.open[..] else {
        return None;
    };
    let Entry { at, value, .. } = entries.last()?;
    let colon = cause.marker().byte_offset()?;
    let between = text.get(value.range.end..colon)?;
    let is_it = value.notation == Notation::Plain
        && !value.range.is_empty()
        && between.bytes().all(|byte| matches!(byte, b' ' | b'\t'));
    is_it.then_some(StrayColon { key_column: at.column, value: value.range.start, colon })
}

/// Reads as far as it goes.
fn read(text: &str) -> (Tree, Option<YamlError>) {
    let options = granit_parser::options! {
        disallow_directives: true,
        bom_inside_document_as_content: true,
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut tree = Tree::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let taken = event.map_err(refuse).and_then(|(event, span)| tree.take(event, &span));
        if let Err(error) = taken {
            return (tree, Some(error));
        }
    }
    (tree, None)
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

/// The bytes of a span; every marker of a parser that reads a text has its offset.
fn range(span: &Span) -> Range<usize> {
    let start = span.start.byte_offset().unwrap_or_default();
    start..span.end.byte_offset().unwrap_or(start)
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
        start: usize,
        notation: Notation,
        items: Vec<Node>,
    },
    Mapping {
        at: Position,
        start: usize,
        notation: Notation,
        entries: Vec<Entry>,
        seen: BTreeMap<String, Position>,
        key: Option<(String, Position, Range<usize>)>,
    },
}

impl Tree {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), YamlError> {
        let (at, range) = (position(&span.start), range(span));
        let start = range.start;
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
                let notation = match style {
                    ScalarStyle::Plain => Notation::Plain,
                    ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Notation::Quoted,
                    _ => Notation::Block,
                };
                // The parser gives `~` for nothing.
                let is_nothing = notation == Notation::Plain && range.is_empty();
                let text = if is_nothing { String::new() } else { text.into_owned() };
                self.scalar(Node { content: Content::Text(text), notation, at, range })?;
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.start_collection(at, anchor, tag.is_some())?;
                let notation = notation(style);
                self.open.push(Open::Sequence { at, start, notation, items: Vec::new() });
            }
            Event::MappingStart(style, anchor, tag) => {
                self.start_collection(at, anchor, tag.is_some())?;
                let (notation, seen) = (notation(style), BTreeMap::new());
                self.open.push(Open::Mapping { at, start, notation, entries: Vec::new(), seen, key: None });
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::Sequence { at, start, notation, items }) => {
                    let content = Content::Sequence(items);
                    self.finish(Node { content, notation, at, range: start..range.end });
                }
                Some(Open::Mapping { at, start, notation, entries, .. }) => {
                    let content = Content::Mapping(entries);
                    self.finish(Node { content, notation, at, range: start..range.end });
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

    fn scalar(&mut self, node: Node) -> Result<(), YamlError> {
        let at = node.at;
        let Content::Text(text) = &node.content else { return Ok(()) };
        if let Some(character) = text.chars().find(|character| is_control(*character)) {
            return Err(YamlError::ControlCharacter { at, character });
        }
        if let Some(Open::Mapping { seen, key: key @ None, .. }) = self.open.last_mut() {
            if node.notation == Notation::Plain && text == "<<" {
                return Err(YamlError::Feature { at, feature: "a merge key" });
            }
            match seen.get(text) {
                Some(first) => {
                    self.duplicates.push(YamlError::DuplicateKey { at, key: text.clone(), first: *first });
                }
                None => {
                    seen.insert(text.clone(), at);
                }
            }
            *key = Some((text.clone(), at, node.range));
        } else {
            self.finish(node);
        }
        Ok(())
    }

    /// Puts a whole node where it belongs.
    fn finish(&mut self, node: Node) {
        match self.open.last_mut() {
            Some(Open::Sequence { items, .. }) => items.push(node),
            Some(Open::Mapping { entries, key, .. }) => {
                if let Some((key, at, range)) = key.take() {
                    entries.push(Entry { key, at, range, value: node });
                }
            }
            None => self.root = Some(node),
        }
    }
}

fn notation(style: StructureStyle) -> Notation {
    match style {
        StructureStyle::Flow => Notation::Flow,
        StructureStyle::Block => Notation::Block,
    }
}
