//! Revisions: the immutable versions of packages, and where they came from.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use skillfreeze_manifest::{Digest, SkillId, Version};

/// A revision's local number: 1, 2, 3 and so on for each id, in the order of adding.
///
/// It is written as 1 to 9 decimal digits without a leading zero. It names nothing outside its
/// store: what is content-addressed is the digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RevisionNumber(u32);

/// Why a text or an integer is not a [`RevisionNumber`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no revision number: 1 to 9 digits, the first not 0", .0.escape_debug())]
pub struct RevisionNumberError(pub String);

impl RevisionNumber {
    /// The number of an id's first revision.
    pub const FIRST: Self = Self(1);
    /// The last number that has 9 digits.
    const MAX: u32 = 999_999_999;

    /// The number as an integer, at least 1.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }

    /// The number after it, unless it is the last.
    pub(crate) fn next(self) -> Option<Self> {
        (self.0 < Self::MAX).then(|| Self(self.0 + 1))
    }
}

impl TryFrom<u32> for RevisionNumber {
    type Error = RevisionNumberError;

    fn try_from(number: u32) -> Result<Self, Self::Error> {
        if (1..=Self::MAX).contains(&number) {
            Ok(Self(number))
        } else {
            Err(RevisionNumberError(number.to_string()))
        }
    }
}

impl FromStr for RevisionNumber {
    type Err = RevisionNumberError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || RevisionNumberError(text.to_owned());
        if text.len() > 9 || text.starts_with('0') || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(fail());
        }
        text.parse().map(Self).map_err(|_| fail())
    }
}

impl fmt::Display for RevisionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl<'de> Deserialize<'de> for RevisionNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(u32::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Where a package came from: for the record only, never trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenOrigin", into = "WrittenOrigin")]
pub struct Origin {
    /// The canonical path of the package's directory.
    pub path: String,
    /// The id of the configured source that it was found in.
    pub source: Option<String>,
}

/// An origin as it is written: other kinds than directories will come.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum WrittenOrigin {
    Directory {
        path: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
}

impl From<WrittenOrigin> for Origin {
    fn from(WrittenOrigin::Directory { path, source }: WrittenOrigin) -> Self {
        Self { path, source }
    }
}

impl From<Origin> for WrittenOrigin {
    fn from(Origin { path, source }: Origin) -> Self {
        Self::Directory { path, source }
    }
}

/// One immutable version of a package in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Revision {
    /// The package's id, as its own `SKILL.md` gives it.
    pub id: SkillId,
    /// The local number.
    pub number: RevisionNumber,
    /// The package digest: what the revision is.
    pub digest: Digest,
    /// The version that its author wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// When it was added: RFC 3339, UTC.
    pub added_at: String,
    /// Who added it.
    pub added_by: String,
    /// Where it came from.
    pub origin: Origin,
    /// Whether it is what a bare id means.
    pub active: bool,
    /// The number of files.
    pub files: u64,
    /// The bytes of all files together.
    pub bytes: u64,
    /// The digest of its archive in the store, of the compressed bytes.
    pub archive: Digest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, number) in [("1", 1), ("42", 42), ("999999999", 999_999_999)] {
            let parsed: RevisionNumber = text.parse().unwrap();
            assert_eq!((parsed.get(), parsed.to_string().as_str()), (number, text));
        }
        for text in ["", "0", "01", "+1", "-1", "1000000000", "1a", " 1", "١"] {
            assert_eq!(text.parse::<RevisionNumber>(), Err(RevisionNumberError(text.to_owned())));
        }
        assert!(RevisionNumber::try_from(0).is_err());
        assert!(RevisionNumber::try_from(1_000_000_000).is_err());
        assert!(RevisionNumber(RevisionNumber::MAX).next().is_none());
        assert!(serde_json::from_str::<RevisionNumber>("0").is_err());
    }

    #[test]
    fn origins_say_their_kind() {
        let origin = Origin { path: "/srv/x".into(), source: Some("team".into()) };
        let text = r#"{"kind":"directory","path":"/srv/x","source":"team"}"#;
        assert_eq!(serde_json::to_string(&origin).unwrap(), text);
        assert_eq!(serde_json::from_str::<Origin>(text).unwrap(), origin);
        for other in [r#"{"path":"/srv/x"}"#, r#"{"kind":"git","path":"/srv/x"}"#] {
            assert!(serde_json::from_str::<Origin>(other).is_err(), "{other}");
        }
    }
}
