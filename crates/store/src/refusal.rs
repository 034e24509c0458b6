//! Why a directory is not taken as a package: one variant a kind of fault.

use std::error::Error as _;
use std::io;

use rustix::io::Errno;
use skillfreeze_manifest::{Diagnostic, PathError, SKILL_FILE, Severity, SkillLinkError};

/// One fault of a package's directory.
///
/// Paths are relative to the package; what is not UTF-8 in them is escaped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no `SKILL.md`.
    #[error("there is no `{SKILL_FILE}`")]
    NoSkillFile,
    /// `SKILL.md` is there in another case only, which some file systems would take for it.
    #[error("`{found}` should be `{SKILL_FILE}`")]
    SkillFileMisnamed {
        /// The name that is there.
        found: String,
    },
    /// A name is not UTF-8.
    #[error("the name `{path}` is not UTF-8")]
    PathNotUtf8 {
        /// Its path, escaped.
        path: String,
    },
    /// A path is not a portable package path.
    #[error("the path is not portable")]
    PathInvalid {
        /// The path, escaped.
        path: String,
        /// The rule that it breaks.
        source: PathError,
    },
    /// Two paths are the same where case is ignored.
    #[error("the path clashes with another")]
    PathCollision {
        /// The path, escaped.
        path: String,
        /// The two.
        source: PathError,
    },
    /// Python bytecode, which would run in place of the source beside it.
    #[error("`{path}` is Python bytecode")]
    Bytecode {
        /// The path.
        path: String,
    },
    /// A FIFO, socket or device.
    #[error("`{path}` is a {kind}")]
    SpecialFile {
        /// The path.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// `SKILL.md` is a link to what can be no `SKILL.md`.
    #[error(transparent)]
    SkillLink(#[from] SkillLinkError),
    /// A link leads out of the package.
    #[error("the link `{path}` -> `{target}` leads out of the package")]
    SymlinkEscape {
        /// The link.
        path: String,
        /// What it says, escaped.
        target: String,
    },
    /// A link leads nowhere.
    #[error("the link `{path}` -> `{target}` leads nowhere")]
    SymlinkDangling {
        /// The link.
        path: String,
        /// What it says, escaped.
        target: String,
    },
    /// A link leads to a directory.
    #[error("the link `{path}` -> `{target}` leads to a directory")]
    SymlinkToDirectory {
        /// The link.
        path: String,
        /// What it says, escaped.
        target: String,
    },
    /// A link leads back to itself, or through too many others.
    #[error("the link `{path}` -> `{target}` leads through more than {limit} links")]
    SymlinkLoop {
        /// The link.
        path: String,
        /// What it says, escaped.
        target: String,
        /// How many links are followed.
        limit: usize,
    },
    /// A link leads to something in the directory that does not belong to the package.
    #[error("the link `{path}` -> `{target}` leads to what is no part of the package")]
    SymlinkToExcluded {
        /// The link.
        path: String,
        /// What it says, escaped.
        target: String,
    },
    /// A link leads to a FIFO, socket or device.
    #[error("the link `{path}` -> `{target}` leads to a {kind}")]
    SymlinkToSpecial {
        /// The link.
        path: String,
        /// What it says, escaped.
        target: String,
        /// What is there.
        kind: &'static str,
    },
    /// The system would not let something be read.
    #[error("cannot read `{path}`")]
    Unreadable {
        /// The path; `.` for the package's directory.
        path: String,
        /// What it said.
        source: io::Error,
    },
    /// Too many files, or directories.
    #[error("the package has {number} files or directories or more; the limit is {limit}")]
    LimitFiles {
        /// How many were counted before counting stopped.
        number: u64,
        /// How many there may be.
        limit: u64,
    },
    /// Too many entries, of whatever kind, what is left out included.
    #[error("the package has {number} entries or more, what is left out included; the limit is {limit}")]
    LimitEntries {
        /// How many were counted before counting stopped.
        number: u64,
        /// How many there may be.
        limit: u64,
    },
    /// Too many bytes in all.
    #[error("the package has {number} bytes; the limit is {limit}")]
    LimitPackageBytes {
        /// How many there are.
        number: u64,
        /// How many there may be.
        limit: u64,
    },
    /// Too many bytes in one file.
    #[error("`{path}` has {number} bytes; the limit for a file is {limit}")]
    LimitFileBytes {
        /// The file.
        path: String,
        /// How many it has.
        number: u64,
        /// How many it may have.
        limit: u64,
    },
    /// Too deep a path.
    #[error("`{path}` has {number} components; the limit is {limit}")]
    LimitDepth {
        /// The path.
        path: String,
        /// How many it has.
        number: usize,
        /// How many it may have.
        limit: usize,
    },
    /// Too long a `SKILL.md`.
    #[error("`{SKILL_FILE}` has {number} bytes; the limit is {limit}")]
    LimitSkillBytes {
        /// How many it has.
        number: u64,
        /// How many it may have.
        limit: u64,
    },
}

impl Refusal {
    /// The stable code of the fault.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSkillFile => "no-skill-file",
            Self::SkillFileMisnamed { .. } => "skill-file-misnamed",
            Self::PathNotUtf8 { .. } => "path-not-utf8",
            Self::PathInvalid { .. } => "path-invalid",
            Self::PathCollision { .. } => "path-collision",
            Self::Bytecode { .. } => "bytecode",
            Self::SpecialFile { .. } => "special-file",
            Self::SkillLink(error) => error.code(),
            Self::SymlinkEscape { .. } => "symlink-escape",
            Self::SymlinkDangling { .. } => "symlink-dangling",
            Self::SymlinkToDirectory { .. } => "symlink-to-directory",
            Self::SymlinkLoop { .. } => "symlink-loop",
            Self::SymlinkToExcluded { .. } => "symlink-to-excluded",
            Self::SymlinkToSpecial { .. } => "symlink-to-special",
            Self::Unreadable { .. } => "unreadable",
            Self::LimitFiles { .. } => "limit-files",
            Self::LimitEntries { .. } => "limit-entries",
            Self::LimitPackageBytes { .. } => "limit-package-bytes",
            Self::LimitFileBytes { .. } => "limit-file-bytes",
            Self::LimitDepth { .. } => "limit-depth",
            Self::LimitSkillBytes { .. } => "limit-skill-bytes",
        }
    }

    /// Where the fault is; none where it is the whole package's.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::NoSkillFile
            | Self::LimitFiles { .. }
            | Self::LimitEntries { .. }
            | Self::LimitPackageBytes { .. } => None,
            Self::SkillLink(_) | Self::LimitSkillBytes { .. } => Some(SKILL_FILE),
            Self::SkillFileMisnamed { found } => Some(found),
            Self::PathNotUtf8 { path }
            | Self::PathInvalid { path, .. }
            | Self::PathCollision { path, .. }
            | Self::Bytecode { path }
            | Self::SpecialFile { path, .. }
            | Self::SymlinkEscape { path, .. }
            | Self::SymlinkDangling { path, .. }
            | Self::SymlinkToDirectory { path, .. }
            | Self::SymlinkLoop { path, .. }
            | Self::SymlinkToExcluded { path, .. }
            | Self::SymlinkToSpecial { path, .. }
            | Self::Unreadable { path, .. }
            | Self::LimitFileBytes { path, .. }
            | Self::LimitDepth { path, .. } => Some(path),
        }
    }

    /// Whether the machine had no descriptors or no memory left to look.
    pub(crate) fn is_of_machine(&self) -> bool {
        let Self::Unreadable { source, .. } = self else { return false };
        let errno = source.raw_os_error().map(Errno::from_raw_os_error);
        matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
    }

    /// What to do about it, where that can be said.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::SkillFileMisnamed { .. } => Some("rename it to `SKILL.md`"),
            Self::Bytecode { .. } => Some("remove it, or leave all bytecode out with `--drop-bytecode`"),
            Self::SkillLink(SkillLinkError::Escapes { .. })
            | Self::SymlinkEscape { .. }
            | Self::SymlinkToDirectory { .. } => Some("replace the link with a copy of what it leads to"),
            _ => None,
        }
    }

    /// The fault in the shape that all commands print, its cause in the message.
    #[must_use]
    pub fn to_diagnostic(&self) -> Diagnostic {
        let mut message = self.to_string();
        if let Some(cause) = self.source() {
            message = format!("{message}: {cause}");
        }
        let mut diagnostic = Diagnostic::new(Severity::Error, self.code(), message);
        if let Some(path) = self.path() {
            diagnostic = diagnostic.at_path(path);
        }
        if let Some(hint) = self.hint() {
            diagnostic = diagnostic.hint(hint);
        }
        diagnostic
    }
}
