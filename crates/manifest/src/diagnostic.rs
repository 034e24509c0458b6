//! What is said about a package beside its result: one shape for every command.

use std::fmt;

use serde::Serialize;

/// How much a [`Diagnostic`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Info,
    /// Works, but probably not as meant.
    Warning,
    /// The package cannot be used.
    Error,
}

/// One finding about a package or a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// How much it matters.
    pub severity: Severity,
    /// A stable code, such as `fm-dup-key`.
    pub code: &'static str,
    /// Where: a path relative to the package or the source, with what is not UTF-8 escaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The line, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The column in characters, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// What was found.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The text of the line, as it is in the file and without its end: for people, never in JSON.
    #[serde(skip)]
    pub excerpt: Option<String>,
}

impl Diagnostic {
    /// Makes a finding without a place or a hint.
    #[must_use]
    pub fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity,
            code,
            path: None,
            line: None,
            column: None,
            message: message.into(),
            hint: None,
            excerpt: None,
        }
    }

    /// Says which path it is about.
    #[must_use]
    pub fn at_path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Where it is, as `path:line:column`, or the path alone.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        let path = self.path.as_ref()?;
        Some(match (self.line, self.column) {
            (Some(line), Some(column)) => format!("{path}:{line}:{column}"),
            _ => path.clone(),
        })
    }

    /// Says which line and column it is about, both counted from 1.
    #[must_use]
    pub fn at(mut self, line: usize, column: usize) -> Self {
        self.line = Some(line);
        self.column = Some(column);
        self
    }

    /// Says what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Gives the text of the line that it is about.
    #[must_use]
    pub fn excerpt(mut self, line: impl Into<String>) -> Self {
        self.excerpt = Some(line.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place() {
            write!(f, "{place}: ")?;
        }
        write!(f, "{} ({})", self.message, self.code)
    }
}
