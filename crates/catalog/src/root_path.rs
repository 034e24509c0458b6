//! The paths of sources' roots: absolute and canonical in form.
//!
//! Grammar: `/`, or `/` and components joined by single `/`; no component is `.` or `..`, and none is
//! empty, so nothing trails. It says nothing of links on the way: what is opened is opened elsewhere.

use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::str::FromStr;

use camino::{Utf8Path, Utf8PathBuf};

/// An absolute path in canonical form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RootPath(Utf8PathBuf);

/// Why a text is no [`RootPath`], or none below one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RootPathError {
    /// It is empty.
    #[error("the path is empty")]
    Empty,
    /// It is relative where it must be absolute.
    #[error("`{}` is not absolute", .0.escape_debug())]
    Relative(String),
    /// It is absolute where it must be relative.
    #[error("`{}` is not relative", .0.escape_debug())]
    Absolute(String),
    /// A component is `..`.
    #[error("`{}` has a component `..`", .0.escape_debug())]
    Parent(String),
    /// A component is `.`.
    #[error("`{}` has a component `.`", .0.escape_debug())]
    Dot(String),
    /// Two separators follow each other.
    #[error("`{}` has a doubled `/`", .0.escape_debug())]
    DoubledSeparator(String),
    /// It ends with a separator.
    #[error("`{}` ends with `/`", .0.escape_debug())]
    TrailingSeparator(String),
    /// No path has a NUL.
    #[error("`{}` has a NUL", .0.escape_debug())]
    Nul(String),
}

impl RootPathError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "root-malformed"
    }
}

impl RootPath {
    /// The path.
    #[must_use]
    pub fn as_path(&self) -> &Utf8Path {
        &self.0
    }

    /// The path of what is `relative` to this one, and below it.
    ///
    /// # Errors
    /// [`RootPathError`] when `relative` is absolute or not in canonical form.
    pub fn below(&self, relative: &str) -> Result<Self, RootPathError> {
        if relative.starts_with('/') {
            return Err(RootPathError::Absolute(relative.to_owned()));
        }
        check_components(relative, relative)?;
        Ok(Self(self.0.join(relative)))
    }
}

/// Checks what follows the leading separator of `whole`, or all of it.
fn check_components(whole: &str, components: &str) -> Result<(), RootPathError> {
    let fail = |reason: fn(String) -> RootPathError| Err(reason(whole.to_owned()));
    if whole.is_empty() {
        return Err(RootPathError::Empty);
    }
    if whole.contains('\0') {
        return fail(RootPathError::Nul);
    }
    if components.starts_with('/') || components.contains("//") {
        return fail(RootPathError::DoubledSeparator);
    }
    for component in components.split('/') {
        match component {
            "" => return fail(RootPathError::TrailingSeparator),
            "." => return fail(RootPathError::Dot),
            ".." => return fail(RootPathError::Parent),
            _ => {}
        }
    }
    Ok(())
}

impl FromStr for RootPath {
    type Err = RootPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix('/') {
            None if text.is_empty() => return Err(RootPathError::Empty),
            None => return Err(RootPathError::Relative(text.to_owned())),
            Some("") => {}
            Some(components) => check_components(text, components)?,
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<Utf8PathBuf> for RootPath {
    type Error = RootPathError;

    fn try_from(path: Utf8PathBuf) -> Result<Self, Self::Error> {
        path.as_str().parse()
    }
}

impl Deref for RootPath {
    type Target = Utf8Path;

    fn deref(&self) -> &Utf8Path {
        &self.0
    }
}

impl AsRef<Path> for RootPath {
    fn as_ref(&self) -> &Path {
        self.0.as_std_path()
    }
}

impl fmt::Display for RootPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::RootPathError::*;
    use super::*;

    #[test]
    fn takes_one_spelling_of_each_path() {
        for text in ["/", "/a", "/srv/my skills/ü", "/a/...", "/.agents/..skills"] {
            assert_eq!(text.parse::<RootPath>().map(|path| path.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn names_each_broken_rule() {
        assert_eq!("".parse::<RootPath>(), Err(Empty));
        for (text, reason) in [
            ("a", Relative as fn(String) -> RootPathError),
            ("./a", Relative),
            ("../a", Relative),
            ("~/a", Relative),
            ("/a/..", Parent),
            ("/..", Parent),
            ("/a/../b", Parent),
            ("/.", Dot),
            ("/a/./b", Dot),
            ("//", DoubledSeparator),
            ("//a", DoubledSeparator),
            ("/a//b", DoubledSeparator),
            ("/a//", DoubledSeparator),
            ("/a/", TrailingSeparator),
            ("/a\0b", Nul),
        ] {
            let error = text.parse::<RootPath>().unwrap_err();
            assert_eq!((&error, error.code()), (&reason(text.to_owned()), "root-malformed"));
        }
    }

    #[test]
    fn below_another() {
        let root: RootPath = "/p".parse().unwrap();
        for (base, text, path) in [("/p", "a", "/p/a"), ("/p", ".a/b c", "/p/.a/b c"), ("/", "a", "/a")] {
            let base: RootPath = base.parse().unwrap();
            let below = base.below(text).unwrap();
            assert_eq!(below.to_string(), path);
            assert_eq!(path.parse(), Ok(below), "it is a path like any other");
        }
        assert_eq!(root.below(""), Err(Empty));
        for (text, reason) in [
            ("/p/a", Absolute as fn(String) -> RootPathError),
            ("/", Absolute),
            (".", Dot),
            ("./a", Dot),
            ("..", Parent),
            ("a/../../b", Parent),
            ("a//b", DoubledSeparator),
            ("a/", TrailingSeparator),
            ("a\0", Nul),
        ] {
            assert_eq!(root.below(text), Err(reason(text.to_owned())));
        }
    }
}
