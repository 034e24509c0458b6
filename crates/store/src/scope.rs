//! Scopes: for whom a change holds.
//!
//! In the journal, and wherever else a scope is JSON: `"user"` or `{"project":"/canonical/root"}`.

use std::fmt;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

/// For whom a change holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// For the store's user, everywhere.
    User,
    /// In one project.
    Project(ProjectRoot),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.write_str("the user"),
            Self::Project(root) => write!(f, "the project `{}`", root.as_path().as_str().escape_debug()),
        }
    }
}

/// The directory that a project is known by: an absolute path without `.`, `..`, doubled or trailing
/// separators.
///
/// That no link is on the way is for the caller to see to: two spellings of one directory would be
/// two projects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Utf8PathBuf")]
pub struct ProjectRoot(Utf8PathBuf);

/// Why a path is no [`ProjectRoot`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no project's root: it is not absolute and canonical", .0.as_str().escape_debug())]
pub struct ProjectRootError(pub Utf8PathBuf);

impl ProjectRoot {
    /// The root as a path.
    #[must_use]
    pub fn as_path(&self) -> &Utf8Path {
        &self.0
    }
}

impl TryFrom<Utf8PathBuf> for ProjectRoot {
    type Error = ProjectRootError;

    fn try_from(path: Utf8PathBuf) -> Result<Self, Self::Error> {
        let goes_up = path.components().any(|component| component == Utf8Component::ParentDir);
        // The components leave out whatever else there can be too much of; paths compare by them.
        let plain = path.components().collect::<Utf8PathBuf>();
        if path.is_absolute() && !goes_up && plain.as_str() == path.as_str() {
            Ok(Self(path))
        } else {
            Err(ProjectRootError(path))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_one_spelling() {
        for path in ["/", "/a", "/a/b c/…", "/a/..b/.c"] {
            let root = ProjectRoot::try_from(Utf8PathBuf::from(path)).unwrap();
            assert_eq!(root.as_path(), path);
        }
        for path in ["", "a", "./a", "//a", "/a/", "/a//b", "/a/./b", "/a/.", "/a/../b", "/..", "//"] {
            let path = Utf8PathBuf::from(path);
            assert_eq!(ProjectRoot::try_from(path.clone()), Err(ProjectRootError(path)));
        }
    }

    #[test]
    fn as_json() {
        let project = Scope::Project(ProjectRoot(Utf8PathBuf::from("/p")));
        for (scope, text) in [(Scope::User, r#""user""#), (project, r#"{"project":"/p"}"#)] {
            assert_eq!(serde_json::to_string(&scope).unwrap(), text);
            assert_eq!(serde_json::from_str::<Scope>(text).unwrap(), scope);
        }
        for text in
            [r#""world""#, r#""project""#, r#"{"project":"p"}"#, r#"{"project":"/p/"}"#, r#"{"user":1}"#]
        {
            assert!(serde_json::from_str::<Scope>(text).is_err(), "{text}");
        }
    }
}
