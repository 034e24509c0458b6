//! What a launch can promise of the bytes that its command reads.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How strong the tie is between the bytes that were hashed and the bytes that are read.
///
/// Ordered: a stronger level is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Integrity {
    /// Hashed before the start and after the end; what stands between is the caller's own sandbox.
    Checked,
    /// Hashed before the start and after the end, and the sandbox cannot write them.
    ReadOnly,
    /// The bytes read are the very bytes that were hashed; nothing outside can change them.
    Sealed,
}

/// By what means a level is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A private tmpfs, hashed while it was filled (`sealed`).
    StagedTmpfs,
    /// Memory files that can no longer be written (`sealed`).
    SealedMemfd,
    /// A read-only bind of the directory handle that was hashed (`read-only`).
    Bind,
    /// A Seatbelt profile (`read-only`).
    Seatbelt,
    /// A Landlock rule set (`read-only`).
    Landlock,
    /// A plan that the caller carries out (`checked`).
    Plan,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StagedTmpfs => "staged-tmpfs",
            Self::SealedMemfd => "sealed-memfd",
            Self::Bind => "bind",
            Self::Seatbelt => "seatbelt",
            Self::Landlock => "landlock",
            Self::Plan => "plan",
        })
    }
}

/// A way to seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seal {
    /// A private tmpfs.
    StagedTmpfs,
    /// Sealed memory files.
    SealedMemfd,
}

impl FromStr for Seal {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "staged-tmpfs" => Ok(Self::StagedTmpfs),
            "sealed-memfd" => Ok(Self::SealedMemfd),
            _ => Err(UnknownName { name: name.to_owned(), known: "`staged-tmpfs`, `sealed-memfd`" }),
        }
    }
}

/// What encloses the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sandbox {
    /// The best that the platform has.
    #[default]
    Auto,
    /// bubblewrap, on Linux.
    #[serde(rename = "bwrap")]
    Bubblewrap,
    /// `sandbox-exec`, on macOS.
    Seatbelt,
    /// Landlock, on Linux without user namespaces.
    Landlock,
}

/// The strongest level that this version can give on this platform.
pub const STRONGEST: Integrity =
    if cfg!(target_os = "linux") { Integrity::Sealed } else { Integrity::ReadOnly };

impl Sandbox {
    /// The sandbox that is meant: of this platform, where none is named.
    pub(crate) fn chosen(self) -> Self {
        match self {
            Self::Auto if cfg!(target_os = "macos") => Self::Seatbelt,
            Self::Auto => Self::Bubblewrap,
            named => named,
        }
    }
}

/// The name of no level or sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is none of {known}")]
pub struct UnknownName {
    /// What was given.
    pub name: String,
    /// The names that there are.
    pub known: &'static str,
}

impl Integrity {
    /// The level's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Checked => "checked",
            Self::ReadOnly => "read-only",
            Self::Sealed => "sealed",
        }
    }
}

impl fmt::Display for Integrity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Integrity {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "checked" => Ok(Self::Checked),
            "read-only" => Ok(Self::ReadOnly),
            "sealed" => Ok(Self::Sealed),
            _ => Err(UnknownName { name: name.to_owned(), known: "`sealed`, `read-only`, `checked`" }),
        }
    }
}

impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Bubblewrap => "bwrap",
            Self::Seatbelt => "seatbelt",
            Self::Landlock => "landlock",
        })
    }
}

impl FromStr for Sandbox {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "auto" => Ok(Self::Auto),
            "bwrap" => Ok(Self::Bubblewrap),
            "seatbelt" => Ok(Self::Seatbelt),
            "landlock" => Ok(Self::Landlock),
            _ => Err(UnknownName { name: name.to_owned(), known: "`auto`, `bwrap`, `seatbelt`, `landlock`" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_named() {
        assert!(Integrity::Sealed > Integrity::ReadOnly && Integrity::ReadOnly > Integrity::Checked);
        for level in [Integrity::Sealed, Integrity::ReadOnly, Integrity::Checked] {
            assert_eq!(level.to_string().parse(), Ok(level));
            assert_eq!(serde_json::to_string(&level).unwrap(), format!("\"{level}\""));
        }
        for sandbox in [Sandbox::Auto, Sandbox::Bubblewrap, Sandbox::Seatbelt, Sandbox::Landlock] {
            assert_eq!(sandbox.to_string().parse(), Ok(sandbox));
            assert_eq!(serde_json::to_string(&sandbox).unwrap(), format!("\"{sandbox}\""));
        }
        for (method, seal) in [
            (Method::StagedTmpfs, Some(Seal::StagedTmpfs)),
            (Method::SealedMemfd, Some(Seal::SealedMemfd)),
            (Method::Bind, None),
            (Method::Seatbelt, None),
            (Method::Landlock, None),
            (Method::Plan, None),
        ] {
            assert_eq!(method.to_string().parse().ok(), seal);
            assert_eq!(serde_json::to_string(&method).unwrap(), format!("\"{method}\""));
        }
        assert!("frozen".parse::<Integrity>().is_err() && "docker".parse::<Sandbox>().is_err());
    }
}
