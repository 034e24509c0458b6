//! The references by which a run asks for packages.

use std::fmt;
use std::str::FromStr;

use skillfreeze_manifest::{Digest, IdError, REVISION_HEX, SkillId, Version, VersionError};
use skillfreeze_store::RevisionNumber;

/// What a run asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Everything that the sources in force hold, or without any source the store's active revisions.
    All,
    /// Nothing.
    None,
    /// Exactly these.
    These(Vec<Reference>),
}

/// One reference: `id`, `id@3`, `id@version=1.2.0`, `id@sha256:…`, `id@<12 or more hex digits>`,
/// `id@source`, `source:id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The source that it names, if it does.
    pub source: Option<String>,
    /// The skill.
    pub id: SkillId,
    /// Which of its revisions.
    pub pick: Pick,
}

/// Which revision of a skill a reference means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// The one that a bare id means.
    Default,
    /// What the sources hold, whatever is active.
    Source,
    /// The one with this number in the store.
    Number(RevisionNumber),
    /// The one whose author gave it this version.
    Version(Version),
    /// The one whose package digest begins with these 12 to 64 hex digits.
    Digest(String),
}

/// Why a text is no [`Reference`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// The id is none.
    #[error("`{reference}` does not name a skill")]
    Id {
        /// As given.
        reference: String,
        /// What is wrong with the id.
        source: IdError,
    },
    /// The source's name is empty.
    #[error("`{reference}` names an empty source")]
    Source {
        /// As given.
        reference: String,
    },
    /// The version is none.
    #[error("`{reference}` does not name a version")]
    Version {
        /// As given.
        reference: String,
        /// What is wrong with it.
        source: VersionError,
    },
    /// What follows `@` is nothing that picks a revision.
    #[error("`{reference}` does not name a revision after `@`")]
    Revision {
        /// As given.
        reference: String,
    },
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let reference = || text.to_owned();
        let (name, pick) = match text.split_once('@') {
            None => (text, Pick::Default),
            Some((name, pick)) => (name, parse_pick(text, pick)?),
        };
        let (source, id) = match name.rsplit_once(':') {
            None => (None, name),
            Some(("", _)) => return Err(ReferenceError::Source { reference: reference() }),
            Some((source, id)) => (Some(source.to_owned()), id),
        };
        let id = id.parse().map_err(|source| ReferenceError::Id { reference: reference(), source })?;
        Ok(Self { source, id, pick })
    }
}

fn parse_pick(text: &str, pick: &str) -> Result<Pick, ReferenceError> {
    let reference = || text.to_owned();
    let is_hex = |hex: &str| hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if pick == "source" {
        return Ok(Pick::Source);
    }
    if let Some(version) = pick.strip_prefix("version=") {
        let version = version.parse();
        return version
            .map(Pick::Version)
            .map_err(|source| ReferenceError::Version { reference: reference(), source });
    }
    if let Ok(number) = pick.parse() {
        return Ok(Pick::Number(number));
    }
    let hex = pick.strip_prefix(Digest::PREFIX).unwrap_or(pick);
    if is_hex(hex) && (REVISION_HEX..=64).contains(&hex.len()) {
        return Ok(Pick::Digest(hex.to_owned()));
    }
    Err(ReferenceError::Revision { reference: reference() })
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            write!(f, "{source}:")?;
        }
        write!(f, "{}", self.id)?;
        match &self.pick {
            Pick::Default => Ok(()),
            Pick::Source => f.write_str("@source"),
            Pick::Number(number) => write!(f, "@{number}"),
            Pick::Version(version) => write!(f, "@version={version}"),
            Pick::Digest(hex) => write!(f, "@{}{hex}", Digest::PREFIX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_each_form() {
        let hex = "ba7816bf8f01";
        for (text, shown) in [
            ("pdf", "pdf"),
            ("pdf@3", "pdf@3"),
            ("pdf@version=1.2.0", "pdf@version=1.2.0"),
            ("pdf@source", "pdf@source"),
            ("team:pdf", "team:pdf"),
            ("/srv/a:b:pdf@3", "/srv/a:b:pdf@3"),
            (&format!("pdf@{hex}"), &format!("pdf@sha256:{hex}")),
            (&format!("pdf@sha256:{hex}"), &format!("pdf@sha256:{hex}")),
            // Up to nine digits are a number, twelve or more a digest.
            ("pdf@123456789", "pdf@123456789"),
            ("pdf@123456789012", "pdf@sha256:123456789012"),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.to_string(), shown);
            assert_eq!(reference.to_string().parse(), Ok(reference));
        }
    }

    #[test]
    fn names_each_fault() {
        for text in ["", "../evil", "PDF", "team:", "a:B", "@3"] {
            assert!(matches!(text.parse::<Reference>(), Err(ReferenceError::Id { .. })), "{text}");
        }
        assert!(matches!(":pdf".parse::<Reference>(), Err(ReferenceError::Source { .. })));
        assert!(matches!("pdf@version=".parse::<Reference>(), Err(ReferenceError::Version { .. })));
        for text in
            ["pdf@", "pdf@latest", "pdf@1234567890", "pdf@ba7816bf8f0", "pdf@sha256:BA7816BF8F01", "pdf@0"]
        {
            assert!(matches!(text.parse::<Reference>(), Err(ReferenceError::Revision { .. })), "{text}");
        }
        let long = format!("pdf@{}", "a".repeat(65));
        assert!(long.parse::<Reference>().is_err());
    }
}
