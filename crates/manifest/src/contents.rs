//! Which entries of a directory belong to a package.

/// What becomes of a directory entry, by its name alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Membership {
    /// It is content.
    Content,
    /// It is left out and reported.
    Excluded(Exclusion),
    /// It is Python bytecode: refused, or left out and reported if the caller says so.
    Bytecode,
}

/// Why an entry is left out. The list is closed: ignore files in a package have no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Exclusion {
    /// `.git`, a file or a directory, at any depth.
    VersionControl,
    /// `.DS_Store`, `._*`, `__MACOSX/`, `Thumbs.db`, `desktop.ini`.
    OsMetadata,
    /// `__pycache__/`, `*.pyc`, `*.pyo`, left out on request.
    Bytecode,
}

impl Exclusion {
    /// The stable code under which the exclusion is reported.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::VersionControl => "vcs-skipped",
            Self::OsMetadata => "os-metadata-skipped",
            Self::Bytecode => "bytecode-dropped",
        }
    }
}

/// Says what becomes of an entry of a package's tree.
///
/// `name` is the entry's own name, `is_directory` says whether it is a directory itself (a link to
/// one is not).
#[must_use]
pub fn membership(name: &[u8], is_directory: bool) -> Membership {
    match name {
        b".git" => Membership::Excluded(Exclusion::VersionControl),
        b".DS_Store" | b"Thumbs.db" | b"desktop.ini" => Membership::Excluded(Exclusion::OsMetadata),
        b"__MACOSX" if is_directory => Membership::Excluded(Exclusion::OsMetadata),
        _ if name.starts_with(b"._") => Membership::Excluded(Exclusion::OsMetadata),
        b"__pycache__" if is_directory => Membership::Bytecode,
        _ if !is_directory && (name.ends_with(b".pyc") || name.ends_with(b".pyo")) => Membership::Bytecode,
        _ => Membership::Content,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closed_list() {
        let vcs = Membership::Excluded(Exclusion::VersionControl);
        let os = Membership::Excluded(Exclusion::OsMetadata);
        for (name, is_directory, expected) in [
            (".git", true, vcs),
            (".git", false, vcs),
            (".gitignore", false, Membership::Content),
            (".gitkeep", false, Membership::Content),
            (".github", true, Membership::Content),
            (".DS_Store", false, os),
            ("._SKILL.md", false, os),
            ("__MACOSX", true, os),
            ("__MACOSX", false, Membership::Content),
            ("Thumbs.db", false, os),
            ("desktop.ini", false, os),
            ("__pycache__", true, Membership::Bytecode),
            ("__pycache__", false, Membership::Content),
            ("a.pyc", false, Membership::Bytecode),
            ("a.pyo", false, Membership::Bytecode),
            ("a.pyc", true, Membership::Content),
            ("node_modules", true, Membership::Content),
            (".env", false, Membership::Content),
            ("a.py", false, Membership::Content),
        ] {
            assert_eq!(membership(name.as_bytes(), is_directory), expected, "{name} {is_directory}");
        }
    }
}
