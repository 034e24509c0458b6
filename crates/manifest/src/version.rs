//! The version that a package's author wrote: shown, never compared.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A package's version as its front matter writes it: 1 to 64 printable ASCII bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(String);

/// Why a text is not a [`Version`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no version: 1 to {} printable ASCII characters", .0.escape_debug(), Version::MAX_BYTES)]
pub struct VersionError(pub String);

impl Version {
    /// The most bytes in a version.
    pub const MAX_BYTES: usize = 64;

    /// The version as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let printable = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if text.is_empty() || text.len() > Self::MAX_BYTES || !printable {
            return Err(VersionError(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_is_printable_and_refuses_the_rest() {
        for text in ["1.10", "1.2.0-rc.1+build", "v 2", &"9".repeat(64)] {
            assert_eq!(text.parse::<Version>().map(|version| version.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "1\n", "é", "\u{7f}", &"9".repeat(65)] {
            assert_eq!(text.parse::<Version>(), Err(VersionError(text.to_owned())));
        }
    }
}
