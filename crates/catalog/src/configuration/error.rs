//! What is wrong with a configuration, and where it is written.

use std::fmt;

use camino::Utf8PathBuf;
use skillfreeze_manifest::IdError;

use crate::root_path::RootPathError;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigPlace {
    /// The file, as its reader named it.
    pub file: Utf8PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// The character in the line, counted from 1.
    pub column: usize,
}

impl ConfigPlace {
    /// The place before the byte `offset` of a file's text.
    pub(crate) fn new(file: impl Into<Utf8PathBuf>, text: &str, offset: usize) -> Self {
        // Whoever gives the offset may count past the end, or into a character.
        let offset = (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            file: file.into(),
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for ConfigPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.as_str().escape_debug(), self.line, self.column)
    }
}

/// Whose file may say something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Whose {
    /// The user's (or the one that `--config` names) and the system's.
    UserOrSystem,
    /// The system's alone.
    System,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UserOrSystem => "the user's or the system's",
            Self::System => "the system's",
        })
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file is larger than any that somebody writes.
    #[error("`{}` has more than {limit} bytes", .file.as_str().escape_debug())]
    TooLarge {
        /// The file.
        file: Utf8PathBuf,
        /// How many it may have.
        limit: usize,
    },
    /// A file has more sources than anybody needs.
    #[error("`{}` has {actual} sources, more than {limit}", .file.as_str().escape_debug())]
    TooManySources {
        /// The file.
        file: Utf8PathBuf,
        /// How many it has.
        actual: usize,
        /// How many it may have.
        limit: usize,
    },
    /// A file is no UTF-8.
    #[error("{at}: not UTF-8")]
    NotUtf8 {
        /// The first byte that is not.
        at: ConfigPlace,
    },
    /// A file is no TOML, or has a key or a value that a configuration does not have.
    #[error("{at}: {}{message}", in_key(.key))]
    Invalid {
        /// Where.
        at: ConfigPlace,
        /// The path of the key, such as `source.links`, as far as the text could be understood.
        key: Option<String>,
        /// What the parser says, in one line.
        message: String,
    },
    /// A file says what a file of its kind is not trusted with.
    #[error("{at}: {said} is for {whose} configuration alone to say")]
    NotPermitted {
        /// Where.
        at: ConfigPlace,
        /// The path of the key, such as `source.links`.
        key: &'static str,
        /// What of it is not permitted.
        said: &'static str,
        /// Whose file may say it.
        whose: Whose,
    },
    /// The path of a root is malformed.
    #[error("{at}: `{key}`")]
    RootMalformed {
        /// Where.
        at: ConfigPlace,
        /// `source.root` or `source.link_roots`.
        key: &'static str,
        /// What is wrong with it.
        #[source]
        source: RootPathError,
    },
    /// The id of a skill is none.
    #[error("{at}: `skills.enabled`")]
    SkillId {
        /// Where.
        at: ConfigPlace,
        /// What is wrong with it.
        #[source]
        source: IdError,
    },
    /// The id of a source is none.
    #[error("{at}: `{}` is no id of a source: 1 to 64 of a-z, 0-9, `.`, `_` and `-`", .id.escape_debug())]
    SourceId {
        /// Where.
        at: ConfigPlace,
        /// As written.
        id: String,
    },
    /// A source has the id of one that is always there.
    #[error("{at}: the id `{id}` is that of a conventional source")]
    SourceIdTaken {
        /// Where.
        at: ConfigPlace,
        /// The id.
        id: String,
    },
    /// Two sources have one id.
    #[error("{second}: a source `{id}` is at {first} already")]
    SourceTwice {
        /// The id.
        id: String,
        /// Where the one is that comes first.
        first: ConfigPlace,
        /// Where the other one is.
        second: ConfigPlace,
    },
    /// A depth is given to a layout that has none.
    #[error("{at}: `source.depth` goes with the layouts `nested` and `collection` only")]
    DepthUnused {
        /// Where.
        at: ConfigPlace,
    },
    /// A depth is out of range.
    #[error("{at}: `source.depth` is {depth}, not from 1 to {limit}")]
    DepthRange {
        /// Where.
        at: ConfigPlace,
        /// As written.
        depth: i64,
        /// The greatest there is.
        limit: u8,
    },
}

fn in_key(key: &Option<String>) -> String {
    key.as_ref().map_or_else(String::new, |key| format!("`{}`: ", key.escape_debug()))
}

impl ConfigError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } | Self::TooManySources { .. } => "config-too-large",
            Self::NotUtf8 { .. } => "config-not-utf8",
            Self::Invalid { .. } => "config-invalid",
            Self::NotPermitted { .. } => "config-not-permitted",
            Self::RootMalformed { source, .. } => source.code(),
            Self::SkillId { .. } => "skill-id-invalid",
            Self::SourceId { .. } => "source-id-invalid",
            Self::SourceIdTaken { .. } => "source-id-taken",
            Self::SourceTwice { .. } => "source-twice",
            Self::DepthUnused { .. } => "source-depth-unused",
            Self::DepthRange { .. } => "source-depth-range",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let text = "ab\né=1\r\n\nx";
        for (offset, line, column) in [
            (0, 1, 1),
            (2, 1, 3),
            (3, 2, 1),
            (4, 2, 1),
            (5, 2, 2),
            (9, 3, 1),
            (10, 4, 1),
            (11, 4, 2),
            (99, 4, 2),
        ] {
            let place = ConfigPlace::new("f", text, offset);
            assert_eq!((place.line, place.column), (line, column), "{offset}");
        }
        assert_eq!(ConfigPlace::new("a\nb", "", 0).to_string(), r"a\nb:1:1");
    }
}
