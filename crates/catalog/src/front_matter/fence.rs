//! The fences around the front matter of a `SKILL.md`.
//!
//! A fence is a line of exactly `---`, with blanks after it or not. The first line opens the block,
//! the next fence closes it; lines end in LF or CRLF, the closing one also at the end of the file.
//! One leading byte order mark is skipped.

use std::str;

use skillfreeze_manifest::{Diagnostic, Severity};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A place in a file: line and column in characters, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Position {
    /// Where a file begins.
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    /// The place right after `text` that begins here; lines end as in YAML, at a bare CR too.
    pub(crate) fn after(self, text: &str) -> Self {
        let breaks = text.bytes().zip(text.bytes().skip(1).map(Some).chain([None]));
        let breaks = breaks.filter(|(byte, next)| match byte {
            b'\n' => true,
            b'\r' => *next != Some(b'\n'),
            _ => false,
        });
        let lines = breaks.count();
        let last_line = text.rsplit(['\n', '\r']).next().unwrap_or_default();
        let column = last_line.chars().count() + if lines == 0 { self.column } else { 1 };
        Self { line: self.line + lines, column }
    }
}

/// A front matter block whose bytes are fit to be parsed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    /// From the opening fence, which is line 1, up to the closing one.
    pub(crate) text: &'a str,
    /// The line of the closing fence.
    pub(crate) closing_line: usize,
}

/// Why a file has no front matter block that can be parsed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum FenceError {
    /// The first line is no fence.
    #[error("the first line is not `---`")]
    Missing,
    /// The lines end in carriage returns alone.
    #[error("the first line is not `---`: the file has bare CR line ends")]
    BareCarriageReturns,
    /// No later line is a fence.
    #[error("no line `---` closes the front matter")]
    Unterminated,
    /// The fences and what is between them have too many bytes.
    #[error("no line `---` closes the front matter within its limit of {limit} bytes")]
    TooLarge { limit: u64 },
    /// The file is UTF-16.
    #[error("the file is not UTF-8 at byte offset 0: it begins with a byte order mark of UTF-16")]
    Utf16,
    /// The file, or its text below the front matter, is not UTF-8.
    #[error("the file is not UTF-8 at byte offset {offset}")]
    NotUtf8 { offset: usize, at: Position },
    /// The block has a character that YAML does not allow.
    #[error("the front matter holds the control character {character:?} at byte offset {offset}")]
    ControlCharacter { character: char, offset: usize, at: Position },
}

impl FenceError {
    pub(crate) fn diagnostic(&self) -> Diagnostic {
        let start = Position::START;
        let (code, at, hint) = match self {
            Self::Missing => ("fm-missing", start, Some("begin the file with a line of exactly `---`")),
            Self::BareCarriageReturns => {
                ("fm-missing", start, Some("save the file with LF or CRLF line ends"))
            }
            Self::Unterminated => {
                ("fm-unterminated", start, Some("end the front matter with a line of exactly `---`"))
            }
            Self::TooLarge { .. } => ("fm-too-large", start, None),
            Self::Utf16 => ("not-utf8", start, Some("save the file as UTF-8")),
            Self::NotUtf8 { at, .. } => ("not-utf8", *at, Some("save the file as UTF-8")),
            Self::ControlCharacter { at, .. } => ("fm-control-char", *at, None),
        };
        let diagnostic = Diagnostic::new(Severity::Error, code, self.to_string()).at(at.line, at.column);
        match hint {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        }
    }
}

/// Whether a character may not stand in a front matter, as itself or by an escape.
pub(crate) fn is_control(character: char) -> bool {
    // The next line mark is the one that YAML counts as printable.
    character.is_control() && !matches!(character, '\t' | '\n' | '\r' | '\u{85}')
}

/// Finds the fences; the first `limit` + 1 bytes of a file tell as much as the whole of it.
///
/// Returns the offsets of the opening fence and of the closing one.
///
/// # Errors
/// [`FenceError`] where there are none, or the front matter, fences included, is over the limit.
pub(crate) fn locate(bytes: &[u8], limit: u64) -> Result<(usize, usize), FenceError> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(FenceError::Utf16);
    }
    let opening = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let limit_index = usize::try_from(limit).unwrap_or(usize::MAX);
    // One byte more tells whether a line that ends at the limit does end there.
    let head = &bytes[..bytes.len().min(limit_index.saturating_add(1))];
    let line_end = |start: usize| {
        head[start..].iter().position(|byte| *byte == b'\n').map_or(head.len(), |length| start + length)
    };

    let mut start = opening.min(head.len());
    let mut end = line_end(start);
    if !is_fence(&head[start..end]) {
        let first = head[start..end].split(|byte| *byte == b'\r').next().unwrap_or_default();
        let bare = first.len() + 1 < end - start && is_fence(first);
        return Err(if bare { FenceError::BareCarriageReturns } else { FenceError::Missing });
    }
    while end < head.len() {
        start = end + 1;
        end = line_end(start);
        if is_fence(&head[start..end]) && end <= limit_index {
            return Ok((opening, start));
        }
    }
    Err(if bytes.len() > limit_index { FenceError::TooLarge { limit } } else { FenceError::Unterminated })
}

/// Whether a file begins with an opening fence.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    is_fence(text.split(|byte| *byte == b'\n').next().unwrap_or_default())
}

fn is_fence(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.strip_prefix(b"---").is_some_and(|rest| rest.iter().all(|byte| matches!(byte, b' ' | b'\t')))
}

/// Finds the front matter block of a `SKILL.md`, all of which must be UTF-8.
///
/// Where the file goes on after `bytes`, they may end within a character.
///
/// # Errors
/// [`FenceError`], the first that applies.
pub(crate) fn find_block(bytes: &[u8], limit: u64, goes_on: bool) -> Result<Block<'_>, FenceError> {
    let (opening, closing) = locate(bytes, limit)?;
    let valid = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let offset = error.valid_up_to();
            let valid = str::from_utf8(&bytes[..offset]).unwrap_or_default();
            let is_cut = goes_on && error.error_len().is_none();
            if !is_cut {
                let at = Position::START.after(valid.get(opening..).unwrap_or_default());
                return Err(FenceError::NotUtf8 { offset, at });
            }
            valid
        }
    };
    let text = &valid[opening..closing];
    if let Some((offset, character)) = text.char_indices().find(|(_, character)| is_control(*character)) {
        let at = Position::START.after(&text[..offset]);
        return Err(FenceError::ControlCharacter { character, offset: opening + offset, at });
    }
    Ok(Block { text, closing_line: Position::START.after(text).line })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 64;

    #[test]
    fn finds_the_block() {
        for (bytes, text, closing_line) in [
            ("---\na: b\n---\nbody\n", "---\na: b\n", 3),
            ("---\n---", "---\n", 2),
            ("---\r\na: b\r\n---\r\nbody", "---\r\na: b\r\n", 3),
            ("---\na: b\r\n---\r", "---\na: b\r\n", 3),
            ("\u{feff}---\na: b\n---", "---\na: b\n", 3),
            ("--- \na: b\n---\t \n", "--- \na: b\n", 3),
            ("---\n----\n ---\n--- x\n---x\n---\n", "---\n----\n ---\n--- x\n---x\n", 6),
            ("---\na\n---\n---\n", "---\na\n", 3),
        ] {
            assert_eq!(
                find_block(bytes.as_bytes(), LIMIT, false),
                Ok(Block { text, closing_line }),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn refuses_the_rest() {
        let at = |line, column| Position { line, column };
        for (bytes, error) in [
            (&b""[..], FenceError::Missing),
            (b"\n---\n---\n", FenceError::Missing),
            (b"----\na: b\n----\n", FenceError::Missing),
            (b" ---\na: b\n---\n", FenceError::Missing),
            (b"--\n", FenceError::Missing),
            (b"# Title\n", FenceError::Missing),
            (b"\xef\xbb\xbf", FenceError::Missing),
            (b"\xef\xbb\xbf\xef\xbb\xbf---\na: b\n---\n", FenceError::Missing),
            (b"---\ra: b\r---\r", FenceError::BareCarriageReturns),
            (b"---\ra: b\n---\n", FenceError::BareCarriageReturns),
            (b"---", FenceError::Unterminated),
            (b"---\n", FenceError::Unterminated),
            (b"---\na: b---", FenceError::Unterminated),
            (b"---\na: b\n---END\n", FenceError::Unterminated),
            (b"---\na: b\n ---\n", FenceError::Unterminated),
            (b"\xff\xfe-\0-\0-\0\n\0", FenceError::Utf16),
            (b"---\na: caf\xe9\n---\n", FenceError::NotUtf8 { offset: 10, at: at(2, 7) }),
            (b"---\na: b\n---\nbod\xff", FenceError::NotUtf8 { offset: 16, at: at(4, 4) }),
            (
                b"---\n\xc3\xa9\0\n---\n",
                FenceError::ControlCharacter { character: '\0', offset: 6, at: at(2, 2) },
            ),
            (
                b"---\na: \xc2\x9b\n---\n",
                FenceError::ControlCharacter { character: '\u{9b}', offset: 7, at: at(2, 4) },
            ),
        ] {
            assert_eq!(find_block(bytes, LIMIT, false), Err(error), "{}", bytes.escape_ascii());
        }
    }

    /// The limit counts both fences, and one byte more than the limit decides.
    #[test]
    fn the_limit_is_exact() {
        let text = format!("---\n{}\n---\n{}", "a".repeat(20), "body\n".repeat(30));
        let ends = 28;
        for (limit, fits) in [(ends, true), (ends - 1, false), (ends + 1, true)] {
            for bytes in [text.as_bytes(), &text.as_bytes()[..limit + 1]] {
                let found = locate(bytes, limit as u64);
                assert_eq!(found.is_ok(), fits, "{limit} {}", bytes.len());
                assert!(fits || found == Err(FenceError::TooLarge { limit: limit as u64 }));
            }
        }
        let blanks = format!("---{}\na: b\n---\n", " ".repeat(100));
        assert_eq!(locate(blanks.as_bytes(), 64), Err(FenceError::TooLarge { limit: 64 }));
        assert_eq!(locate(b"---\n---\n", u64::MAX), Ok((0, 4)));
    }
}
