//! Paths inside a package, restricted so that a package means the same on Linux and macOS and can
//! be unpacked anywhere.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use caseless::Caseless as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// The Unicode version by which paths are normalised and case-folded.
pub const UNICODE_VERSION: (u64, u64, u64) = (16, 0, 0);

/// A relative, `/`-separated, portable UTF-8 path in normalisation form C.
///
/// No component is empty, `.` or `..`, ends in a dot or a space, is a device name of Windows, or
/// holds a control character, a bidirectional control or one of `\ : * ? " < > |`. A component has
/// at most 255 bytes, the whole at most 512. A name that breaks a rule is refused, never rewritten.
///
/// Ordered by bytes: `a-b` before `a/b` before `ab`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackagePath(String);

/// Why a text is not a [`PackagePath`], or two of them cannot stand side by side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path is empty, or has an empty component: a leading, trailing or doubled `/`.
    #[error("path `{}` is empty or has an empty component", .path.escape_debug())]
    EmptyComponent {
        /// The path as given.
        path: String,
    },
    /// A component is `.` or `..`.
    #[error("path `{}` has the component `{component}`", .path.escape_debug())]
    DotComponent {
        /// The path as given.
        path: String,
        /// `.` or `..`.
        component: String,
    },
    /// A character is not allowed in a portable name.
    #[error("path `{}` holds the character {character:?} (U+{:04X})", .path.escape_debug(), *.character as u32)]
    Character {
        /// The path as given.
        path: String,
        /// The first such character.
        character: char,
    },
    /// A component ends in a dot or a space.
    #[error("path `{}` has a component that ends in a dot or a space", .path.escape_debug())]
    TrailingDotOrSpace {
        /// The path as given.
        path: String,
    },
    /// A component is a device name of Windows, such as `con` or `aux.txt`.
    #[error("path `{}` has the device name `{}` as a component", .path.escape_debug(), .component.escape_debug())]
    DeviceName {
        /// The path as given.
        path: String,
        /// The component.
        component: String,
    },
    /// The path is not in normalisation form C.
    #[error("path `{}` is not in Unicode normalisation form C", .path.escape_unicode())]
    NotNormalized {
        /// The path as given.
        path: String,
    },
    /// A component or the whole path is too long.
    #[error("path `{}` is longer than {} bytes a component or {} in all", .path.escape_debug(), PackagePath::MAX_COMPONENT_BYTES, PackagePath::MAX_BYTES)]
    TooLong {
        /// The path as given.
        path: String,
    },
    /// Two paths, or two directories of them, are equal after normalisation and case folding.
    #[error("paths `{first}` and `{second}` are the same where names are compared without case")]
    Collision {
        /// The path seen first.
        first: String,
        /// The path seen later.
        second: String,
    },
    /// A path is a file and also the directory of another file.
    #[error("path `{path}` is both a file and a directory")]
    FileAndDirectory {
        /// The path.
        path: String,
    },
}

impl PackagePath {
    /// The most bytes in one component.
    pub const MAX_COMPONENT_BYTES: usize = 255;
    /// The most bytes in a path.
    pub const MAX_BYTES: usize = 512;

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The components from the top down; there is at least one.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// The directories above the path, from the top down, without the package's own: for `a/b/c`
    /// these are `a` and `a/b`.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        directories(&self.0)
    }

    fn check(path: &str) -> Result<(), PathError> {
        let path_ = || path.to_owned();
        if path.len() > Self::MAX_BYTES {
            return Err(PathError::TooLong { path: path_() });
        }
        for component in path.split('/') {
            check_component(path, component)?;
        }
        if !is_nfc(path) {
            return Err(PathError::NotNormalized { path: path_() });
        }
        Ok(())
    }
}

/// The directories above a path, from the top down.
pub(crate) fn directories(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

fn check_component(path: &str, component: &str) -> Result<(), PathError> {
    let path_ = || path.to_owned();
    if component.is_empty() {
        return Err(PathError::EmptyComponent { path: path_() });
    }
    if matches!(component, "." | "..") {
        return Err(PathError::DotComponent { path: path_(), component: component.to_owned() });
    }
    if component.len() > PackagePath::MAX_COMPONENT_BYTES {
        return Err(PathError::TooLong { path: path_() });
    }
    if let Some(character) = component.chars().find(|&character| is_refused(character)) {
        return Err(PathError::Character { path: path_(), character });
    }
    if component.ends_with(['.', ' ']) {
        return Err(PathError::TrailingDotOrSpace { path: path_() });
    }
    if is_device_name(component) {
        return Err(PathError::DeviceName { path: path_(), component: component.to_owned() });
    }
    Ok(())
}

fn is_refused(character: char) -> bool {
    // `is_control` is C0, DEL and C1.
    matches!(character, '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|')
        || character.is_control()
        || is_bidi_control(character)
}

/// Whether a character changes the direction of the text after it, and so what a reader sees.
#[must_use]
pub fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Whether Windows would open a device by this name, with any extension and in any case.
pub(crate) fn is_device_name(component: &str) -> bool {
    let stem = component.split('.').next().unwrap_or(component).trim_end_matches(' ');
    let stem = stem.to_ascii_lowercase();
    match stem.as_str() {
        "con" | "prn" | "aux" | "nul" => true,
        _ => {
            let digit = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
            // Windows takes the superscript digits of Latin-1 for digits too.
            matches!(digit, Some("1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "¹" | "²" | "³"))
        }
    }
}

impl fmt::Display for PackagePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for PackagePath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::check(text)?;
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for PackagePath {
    type Error = PathError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::check(&text)?;
        Ok(Self(text))
    }
}

impl Serialize for PackagePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for PackagePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// The paths of one package, which must stay apart on a file system that ignores case.
#[derive(Debug, Default)]
pub struct PathSet {
    /// What each folded path or directory prefix was written as, and whether it is a file.
    seen: BTreeMap<String, (String, bool)>,
}

impl PathSet {
    /// Takes in the path of one more file.
    ///
    /// # Errors
    /// [`PathError::Collision`] when it or a directory above it equals another after folding, and
    /// [`PathError::FileAndDirectory`] when a file would hold files.
    pub fn insert(&mut self, path: &PackagePath) -> Result<(), PathError> {
        for directory in path.directories() {
            self.insert_one(directory, false)?;
        }
        self.insert_one(path.as_str(), true)
    }

    fn insert_one(&mut self, path: &str, is_file: bool) -> Result<(), PathError> {
        let Some((first, first_is_file)) = self.seen.get(&fold(path)) else {
            self.seen.insert(fold(path), (path.to_owned(), is_file));
            return Ok(());
        };
        if first != path || (is_file && *first_is_file) {
            return Err(PathError::Collision { first: first.clone(), second: path.to_owned() });
        }
        if is_file != *first_is_file {
            return Err(PathError::FileAndDirectory { path: path.to_owned() });
        }
        Ok(())
    }
}

/// The form in which two paths are compared: normalised, case-folded in full, normalised again. Paths that
/// a file system of any kind may take for one have the same.
#[must_use]
pub fn fold(path: &str) -> String {
    if path.is_ascii() {
        return path.to_ascii_lowercase();
    }
    path.chars().nfc().default_case_fold().nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_portable_names() {
        for text in [
            "SKILL.md",
            "a/b/c",
            ".hidden/f",
            "a b",
            "é",
            "日本語/x",
            "..a",
            "a..b",
            "con2",
            "com10",
            "lpt",
            "console",
            "x.con",
            "👩‍🔬",
            ".env.example",
            "-",
            "~",
            "com0",
        ] {
            assert_eq!(text.parse::<PackagePath>().map(|path| path.to_string()).as_deref(), Ok(text));
        }
        let longest = format!("{}/{}/x", "a".repeat(255), "b".repeat(254));
        assert_eq!(longest.len(), PackagePath::MAX_BYTES);
        assert!(longest.parse::<PackagePath>().is_ok());
    }

    #[test]
    fn names_each_broken_rule() {
        let path = |text: &str| text.to_owned();
        for text in ["", "/a", "a/", "a//b", "/"] {
            assert_eq!(text.parse::<PackagePath>(), Err(PathError::EmptyComponent { path: path(text) }));
        }
        for (text, component) in [(".", "."), ("..", ".."), ("a/../b", ".."), ("./a", "."), ("a/.", ".")] {
            let component = component.to_owned();
            assert_eq!(
                text.parse::<PackagePath>(),
                Err(PathError::DotComponent { path: path(text), component })
            );
        }
        let characters = "\\:*?\"<>|\0\t\n\r\u{1b}\u{7f}\u{80}\u{9f}\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}";
        for character in characters.chars() {
            let text = format!("a/b{character}c");
            assert_eq!(
                text.parse::<PackagePath>(),
                Err(PathError::Character { path: text.clone(), character })
            );
        }
        for text in ["a.", "a ", "a./b", "a /b", "..."] {
            assert_eq!(text.parse::<PackagePath>(), Err(PathError::TrailingDotOrSpace { path: path(text) }));
        }
        for text in ["con", "CON", "a/Aux.txt", "nul.tar.gz", "prn", "com1", "LPT9.x", "com¹", "nul .txt"] {
            assert!(matches!(text.parse::<PackagePath>(), Err(PathError::DeviceName { .. })), "{text}");
        }
        assert!(matches!("e\u{301}".parse::<PackagePath>(), Err(PathError::NotNormalized { .. })));
        for text in ["a".repeat(256), format!("{}/{}/xy", "a".repeat(255), "b".repeat(254))] {
            assert_eq!(text.parse::<PackagePath>(), Err(PathError::TooLong { path: text.clone() }));
        }
    }

    #[test]
    fn finds_collisions() {
        let insert = |paths: &[&str]| {
            let mut set = PathSet::default();
            paths.iter().try_for_each(|path| set.insert(&path.parse().unwrap()))
        };
        for paths in [
            &["a", "A"][..],
            &["a/x", "A/y"],
            &["straße", "STRASSE"],
            &["ΑΣ", "ας"],
            &["x", "x"],
            &["a/b/c", "a/B/d"],
            &["ﬁ", "fi"],
            &["a", "A/b"],
            &["Å", "å"],
        ] {
            assert!(matches!(insert(paths), Err(PathError::Collision { .. })), "{paths:?}");
        }
        for paths in [&["a", "a/b"][..], &["a/b", "a"]] {
            assert_eq!(insert(paths), Err(PathError::FileAndDirectory { path: "a".into() }));
        }
        assert_eq!(insert(&["a/b", "a/c", "a-b", "ab", "I.md", "i2.md", "ı.md"]), Ok(()));
    }

    #[test]
    fn one_unicode_version() {
        let (major, minor, update) = unicode_normalization::UNICODE_VERSION;
        assert_eq!((major.into(), minor.into(), update.into()), UNICODE_VERSION);
        assert_eq!(caseless::UNICODE_VERSION, UNICODE_VERSION);
    }
}
