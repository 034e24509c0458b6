//! Why one package is not added.

use std::error::Error as _;
use std::fmt;

use skillfreeze_manifest::{Diagnostic, Severity, SkillId};

use crate::error::IoFault;
use crate::package::PackageError;
use crate::refusal::Refusal;

/// Why one package was not added; the others are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// What is there is not taken as a package.
    #[error("the package at `{path}` is refused: {}", Listed(.faults))]
    Refused {
        /// The package's path, as its origin has it.
        path: String,
        /// All that is wrong with it, sorted by path, but for what its `SKILL.md` says.
        faults: Vec<Refusal>,
        /// What the parser says of its `SKILL.md`, and then what else there is to say.
        diagnostics: Vec<Diagnostic>,
    },
    /// Its `SKILL.md` is not valid.
    #[error("the package at `{path}` is invalid")]
    Invalid {
        /// The package's path, as its origin has it.
        path: String,
        /// What the parser says, and then what else there is to say.
        diagnostics: Vec<Diagnostic>,
    },
    /// Its id is not the one that the caller has seen.
    #[error("the package at `{path}` has the id `{actual}`, no longer `{expected}`")]
    IdChanged {
        /// The package's path, as its origin has it.
        path: String,
        /// What the caller has seen.
        expected: SkillId,
        /// What the hashed bytes say.
        actual: SkillId,
    },
    /// It changed while it was read, twice.
    #[error("the package at `{path}` changed while it was read: `{changed}`")]
    SourceChanged {
        /// The package's path, as its origin has it.
        path: String,
        /// What changed, relative to the package; `.` for its directory.
        changed: String,
    },
    /// Its id has all the numbers that there are.
    #[error("`{id}` has no revision number left")]
    NumbersUsedUp {
        /// The package's path, as its origin has it.
        path: String,
        /// The id.
        id: SkillId,
    },
    /// The store could not hold it.
    #[error("the package at `{path}` cannot be stored")]
    Io {
        /// The package's path, as its origin has it.
        path: String,
        /// What the system refused.
        #[source]
        source: IoFault,
    },
    /// Its archive was damaged between the first look and the last.
    #[error("the package at `{path}` cannot be stored")]
    Archive {
        /// The package's path, as its origin has it.
        path: String,
        /// What is wrong with the archive.
        #[source]
        source: Box<PackageError>,
    },
}

impl AddError {
    /// The stable code of the error; where the directory is refused, of its first fault.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused { faults, .. } => faults.first().map_or("refused", Refusal::code),
            Self::Invalid { .. } => "invalid",
            Self::IdChanged { .. } => "id-changed",
            Self::SourceChanged { .. } => "source-changed",
            Self::NumbersUsedUp { .. } => "numbers-used-up",
            Self::Io { source, .. } => source.code(),
            Self::Archive { source, .. } => source.code(),
        }
    }

    /// The package's path, as its origin has it.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Refused { path, .. }
            | Self::Invalid { path, .. }
            | Self::IdChanged { path, .. }
            | Self::SourceChanged { path, .. }
            | Self::NumbersUsedUp { path, .. }
            | Self::Io { path, .. }
            | Self::Archive { path, .. } => path,
        }
    }

    /// Whether the package is at fault, as it was and will be when it is read again; else the store,
    /// the machine, or somebody who writes to the package.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Refused { faults, .. } => !faults.iter().any(Refusal::is_of_machine),
            Self::Invalid { .. } => true,
            _ => false,
        }
    }

    /// All that is to be said of it in the shape that all commands print, at least one of them an
    /// error: first the faults of the package, then those of its `SKILL.md`, then the rest.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut diagnostics = match self {
            Self::Refused { faults, diagnostics, .. } => {
                faults.iter().map(Refusal::to_diagnostic).chain(diagnostics.iter().cloned()).collect()
            }
            Self::Invalid { diagnostics, .. } => diagnostics.clone(),
            _ => Vec::new(),
        };
        if diagnostics.iter().all(|diagnostic| diagnostic.severity < Severity::Error) {
            let mut message = self.to_string();
            let mut cause = self.source();
            while let Some(error) = cause {
                message = format!("{message}: {error}");
                cause = error.source();
            }
            diagnostics.push(Diagnostic::new(Severity::Error, self.code(), message));
        }
        diagnostics
    }
}

/// Faults in one line.
struct Listed<'a>(&'a [Refusal]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            let separator = if index > 0 { "; " } else { "" };
            write!(f, "{separator}{}", fault.to_diagnostic().message)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::failed;

    #[test]
    fn every_error_has_a_diagnostic_with_its_code_and_message() {
        let path = || "/src/demo".to_owned();
        let id = |id: &str| id.parse::<SkillId>().unwrap();
        let full = || failed("write", "tmp/x")(rustix::io::Errno::NOSPC);
        let lost = PackageError::Missing { path: "packages/sha256/x".into() };
        for (error, code, message) in [
            (
                AddError::Refused {
                    path: path(),
                    faults: vec![Refusal::NoSkillFile],
                    diagnostics: Vec::new(),
                },
                "no-skill-file",
                "SKILL",
            ),
            (AddError::Invalid { path: path(), diagnostics: Vec::new() }, "invalid", "invalid"),
            (
                AddError::IdChanged { path: path(), expected: id("a"), actual: id("b") },
                "id-changed",
                "the id `b`",
            ),
            (AddError::SourceChanged { path: path(), changed: "f".into() }, "source-changed", "`f`"),
            (AddError::NumbersUsedUp { path: path(), id: id("a") }, "numbers-used-up", "`a`"),
            (AddError::Io { path: path(), source: full() }, "no-space", "`tmp/x`"),
            (AddError::Archive { path: path(), source: Box::new(lost) }, "archive-missing", "missing"),
        ] {
            let [diagnostic] = error.diagnostics().try_into().unwrap();
            assert_eq!((diagnostic.severity, diagnostic.code, error.code()), (Severity::Error, code, code));
            assert!(diagnostic.message.contains(message), "{}", diagnostic.message);
            assert_eq!(error.is_refusal(), matches!(code, "no-skill-file" | "invalid"));
        }
    }
}
