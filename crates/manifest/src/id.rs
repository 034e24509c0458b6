//! Skill ids: the names by which packages are selected and under which they are mounted.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::path::is_device_name;

/// A skill's id: lower-case ASCII letters and digits in runs joined by single `-` or `_`, 1 to 64
/// bytes, not a device name of Windows, compared byte for byte.
///
/// Grammar: `^[a-z0-9]+([-_][a-z0-9]+)*$`. Every id is a valid package path component.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SkillId(String);

/// Why a text is not a [`SkillId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The text is longer than 64 bytes.
    #[error("`{}` has {} bytes; an id has at most {}", .0.escape_debug(), .0.len(), SkillId::MAX_BYTES)]
    TooLong(String),
    /// The text does not fit the grammar.
    #[error("`{}` is no id: runs of a-z and 0-9 joined by single `-` or `_`", .0.escape_debug())]
    Grammar(String),
    /// The text is a device name of Windows.
    #[error("`{0}` is a device name, which no file system that Windows shares can hold")]
    DeviceName(String),
}

impl SkillId {
    /// The most bytes in an id.
    pub const MAX_BYTES: usize = 64;

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SkillId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > Self::MAX_BYTES {
            return Err(IdError::TooLong(text.to_owned()));
        }
        let is_run = |run: &str| {
            !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if !text.split(['-', '_']).all(is_run) {
            return Err(IdError::Grammar(text.to_owned()));
        }
        if is_device_name(text) {
            return Err(IdError::DeviceName(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for SkillId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for SkillId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SkillId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_ids() {
        for text in ["a", "pdf-tools", "a_b-c", "0", "con2", &"a".repeat(64)] {
            assert_eq!(text.parse::<SkillId>().map(|id| id.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn names_each_broken_rule() {
        for text in [
            "",
            "-a",
            "a-",
            "a--b",
            "a-_b",
            "A",
            "a.b",
            "a/b",
            "..",
            "../../evil",
            "ｄｅｍｏ",
            "sp ",
            "é",
            "a\n",
        ] {
            assert_eq!(text.parse::<SkillId>(), Err(IdError::Grammar(text.to_owned())));
        }
        for text in ["con", "nul", "com1", "lpt9"] {
            assert_eq!(text.parse::<SkillId>(), Err(IdError::DeviceName(text.to_owned())));
        }
        let long = "a".repeat(65);
        assert_eq!(long.parse::<SkillId>(), Err(IdError::TooLong(long.clone())));
    }
}
