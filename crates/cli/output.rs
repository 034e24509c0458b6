//! What the program prints: data on standard output, talk on standard error.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::{Value, json};
use skillfreeze::manifest::{Diagnostic, Severity, is_bidi_control};

use crate::args::{Color, Global};
use crate::excerpt;
use crate::exit::Failure;

/// Warnings that change nothing of what is found or frozen, and that only a package's author can mend: most
/// public packages have some.
const FOR_AUTHORS: [&str; 12] = [
    "allowed-tools-invalid",
    "compatibility-empty",
    "compatibility-too-long",
    "desc-too-long",
    "metadata-not-string",
    "metadata-null",
    "name-dir-mismatch",
    "name-underscore",
    "permission-unknown",
    "permissions-null",
    "unknown-key",
    "version-invalid",
];

/// How to print.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    verbose: bool,
    color: Color,
}

impl Output {
    pub(crate) fn new(global: &Global) -> Self {
        Self { json: global.json, quiet: global.quiet, verbose: global.verbose, color: global.color }
    }

    /// Whether data is printed as JSON.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Whether what is merely worth knowing is printed too.
    pub(crate) fn is_verbose(self) -> bool {
        self.verbose
    }

    /// Whether progress may be shown.
    pub(crate) fn shows_progress(self) -> bool {
        !self.quiet && !self.json && io::stderr().is_terminal()
    }

    /// Prints an object as one line of JSON, or the text that `text` makes.
    pub(crate) fn data<T: Serialize>(self, value: &T, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json { self.json(value) } else { self.text(&text()) }
    }

    /// Prints an object as one line of JSON.
    pub(crate) fn json<T: Serialize>(self, value: &T) -> Result<(), Failure> {
        let line = serde_json::to_string(value).map_err(|error| Failure::new("io", error.to_string()))?;
        self.text(&line)
    }

    /// Prints lines of text.
    pub(crate) fn text(self, text: &str) -> Result<(), Failure> {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        self.bytes(format!("{text}{end}").as_bytes())
    }

    /// Prints bytes as they are.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
        match written {
            // A reader that has seen enough, such as `head`, is no fault.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(|error| Failure::io("cannot print", &error)),
        }
    }

    /// Prints a warning on standard error; with `--json` it stands in the data.
    pub(crate) fn warning(self, message: &str) {
        if !self.quiet && !self.json {
            self.talk(AnsiColor::Yellow, "warning", message);
        }
    }

    /// Prints what was found about many packages: of warnings only those that matter to whoever uses
    /// them, and how many there are for their authors.
    pub(crate) fn findings<'a>(self, packages: impl IntoIterator<Item = (String, &'a [Diagnostic])>) {
        let mut notes = 0;
        for (about, diagnostics) in packages {
            let is_shown = |diagnostic: &&Diagnostic| {
                self.verbose
                    || diagnostic.severity != Severity::Warning
                    || !FOR_AUTHORS.contains(&diagnostic.code)
            };
            let shown: Vec<Diagnostic> = diagnostics.iter().filter(is_shown).cloned().collect();
            notes += diagnostics.len() - shown.len();
            self.diagnostics(&about, &shown);
        }
        if notes > 0 {
            let (s, them) = if notes == 1 { ("", "it") } else { ("s", "them") };
            self.warning(&format!(
                "{notes} note{s} for authors of skills; `skillfreeze validate` or `--verbose` shows {them}"
            ));
        }
    }

    /// Prints what was found about something: warnings and errors, infos with `--verbose`.
    pub(crate) fn diagnostics(self, about: &str, diagnostics: &[Diagnostic]) {
        for diagnostic in diagnostics {
            let (color, label) = match diagnostic.severity {
                Severity::Error => (AnsiColor::Red, "left out"),
                Severity::Warning => (AnsiColor::Yellow, "warning"),
                _ if self.verbose => (AnsiColor::Cyan, "info"),
                _ => continue,
            };
            if !self.quiet && !self.json {
                self.talk(color, label, &format!("{about}: {diagnostic}"));
                self.excerpt(diagnostic);
            }
        }
    }

    /// Prints the line that a finding is about, if it is known.
    fn excerpt(self, diagnostic: &Diagnostic) {
        let choice = self.choice(&io::stderr());
        if let Some(block) = excerpt::block(diagnostic, choice != ColorChoice::Never) {
            // Nothing can be said to somebody who does not listen.
            let _ = writeln!(AutoStream::new(io::stderr().lock(), choice), "{block}");
        }
    }

    /// Prints what went wrong and does not end the command.
    pub(crate) fn trouble(self, failure: &Failure) {
        if self.json {
            return print_error_json(failure);
        }
        self.warning(&failure.message);
        if let Some(hint) = failure.hint.as_ref().filter(|_| !self.quiet) {
            self.talk(AnsiColor::Cyan, "hint", hint);
        }
    }

    /// Prints why the command failed.
    pub(crate) fn failure(self, failure: &Failure) {
        if self.json {
            return print_error_json(failure);
        }
        self.talk(AnsiColor::Red, "error", &failure.message);
        for fault in failure.details["faults"].as_array().into_iter().flatten() {
            self.talk(AnsiColor::Red, "  fault", &fault_text(fault));
        }
        for fault in &failure.faults {
            // Below the line itself stands what to do, too.
            let hint = fault.hint.clone().filter(|_| fault.excerpt.is_none());
            self.talk(AnsiColor::Red, "  fault", &fault_text(&json!(Diagnostic { hint, ..fault.clone() })));
            self.excerpt(fault);
        }
        if let Some(hint) = &failure.hint {
            self.talk(AnsiColor::Cyan, "hint", hint);
        }
    }

    /// Whether data may be coloured.
    pub(crate) fn colors_data(self) -> bool {
        self.choice(&io::stdout()) != ColorChoice::Never
    }

    fn choice(self, stream: &impl RawStream) -> ColorChoice {
        match self.color {
            Color::Auto => AutoStream::choice(stream),
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        }
    }

    fn talk(self, color: AnsiColor, label: &str, message: &str) {
        let choice = self.choice(&io::stderr());
        let style = Style::new().fg_color(Some(color.into())).bold();
        let mut stderr = AutoStream::new(io::stderr().lock(), choice);
        // Nothing can be said to somebody who does not listen.
        let _ = writeln!(stderr, "{style}{label}:{style:#} {}", one_line(message));
    }
}

/// Escapes what could move the cursor or colour a terminal: names and descriptions come from
/// packages that nobody vouches for.
pub(crate) fn printable(text: &str) -> String {
    let is_plain =
        |character: char| character == '\n' || !(character.is_control() || is_bidi_control(character));
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if is_plain(character) { plain.push(character) } else { plain.extend(character.escape_default()) }
    }
    plain
}

/// So many of something, `3 files` or `1 file`.
pub(crate) fn counted<N: fmt::Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let ending = if number == N::from(1) { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// A text that stays on its line and does nothing to a terminal.
pub(crate) fn one_line(text: &str) -> String {
    printable(text).replace('\n', "\\n")
}

/// A fault of a check, or a finding about a package, in a line.
fn fault_text(fault: &Value) -> String {
    let place = [&fault["path"], &fault["line"], &fault["column"]];
    let place = place.into_iter().filter(|part| !part.is_null()).map(|part| match part.as_str() {
        Some(text) => text.to_owned(),
        None => part.to_string(),
    });
    let place = place.collect::<Vec<_>>().join(":");
    let detail = match (&fault["message"], &fault["expected"], &fault["actual"]) {
        (Value::String(message), ..) => message.clone(),
        (_, Value::String(expected), Value::String(actual)) => format!("expected {expected}, found {actual}"),
        (_, _, Value::String(actual)) => actual.clone(),
        _ => String::new(),
    };
    let code = fault["code"].as_str().unwrap_or_default();
    let parts = [code.to_owned(), place, detail];
    let text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    match fault["hint"].as_str() {
        Some(hint) => format!("{text} ({hint})"),
        None => text,
    }
}

/// Prints a failure as text on standard error, before it is known how the caller wants it.
pub(crate) fn print_error(failure: &Failure) {
    // Nothing can be said to somebody who does not listen.
    let _ = writeln!(io::stderr().lock(), "error: {}", one_line(&failure.message));
}

/// Prints a failure as one line of JSON on standard error.
pub(crate) fn print_error_json(failure: &Failure) {
    // Nothing can be said to somebody who does not listen.
    let _ = writeln!(io::stderr().lock(), "{}", failure.to_json());
}

/// A table with columns as wide as their widest cell.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let pad = width.saturating_sub(cell.chars().count());
            line.push_str(&printable(cell).replace('\n', " "));
            line.push_str(&" ".repeat(pad + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
