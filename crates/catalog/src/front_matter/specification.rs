//! The Agent Skills specification to the letter, for strict parsing.
//!
//! Taken from the specification of agentskills.io (`docs/specification.mdx` of
//! github.com/agentskills/agentskills, as of 2026-08-09):
//!
//! * `name`: 1 to 64 characters of `a-z`, `0-9` and `-`, with no hyphen at either end and no two in
//!   a row, equal to the directory's name;
//! * `description`: 1 to 1,024 characters; `compatibility`: 1 to 500, if provided;
//! * `metadata`: a map from string keys to string values;
//! * `allowed-tools`: one string, separated by spaces.
//!
//! Taken from its reference validator (`skills-ref/src/skills_ref/validator.py` and `parser.py`
//! there): no other top-level keys than these and `license`, and every scalar counts as a string,
//! because it reads YAML without types. It also lets names hold letters of other alphabets, which the
//! specification does not; here the specification counts. Lengths are of the text without the blanks
//! around it, as everywhere in this crate; the validator counts a block scalar's last newline.
//!
//! What breaks a rule is said in any case and is an error only where it makes a package unusable;
//! strict parsing makes it an error with the same code.

use skillfreeze_manifest::{Diagnostic, Severity};

/// The most characters in a description.
pub const DESCRIPTION_CHARS: usize = 1024;
/// The most characters in `compatibility`.
pub const COMPATIBILITY_CHARS: usize = 500;
/// The most characters in a name.
const NAME_CHARS: usize = 64;

/// The keys of the top level; there are no others.
const KEYS: [&str; 6] = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

/// The codes of what breaks the specification and outside strict parsing is no error.
const CODES: [&str; 11] = [
    "allowed-tools-form",
    "allowed-tools-invalid",
    "compatibility-empty",
    "compatibility-too-long",
    "desc-too-long",
    "fm-type",
    "metadata-not-string",
    "metadata-null",
    "name-dir-mismatch",
    "name-underscore",
    "unknown-key",
];

/// Whether the specification has a key of the top level.
pub(crate) fn has_key(key: &str) -> bool {
    KEYS.contains(&key)
}

/// Makes an error of what breaks the specification.
pub(crate) fn enforce(diagnostics: &mut [Diagnostic]) {
    for diagnostic in diagnostics {
        if CODES.contains(&diagnostic.code) {
            diagnostic.severity = Severity::Error;
        }
    }
}

/// Says what is wrong with a name.
pub(crate) fn name_fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("is empty")
    } else if name.chars().count() > NAME_CHARS {
        Some("has more than 64 characters")
    } else if !name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')) {
        Some("has other characters than `a-z`, `0-9` and `-`")
    } else if name.starts_with('-') || name.ends_with('-') {
        Some("begins or ends with `-`")
    } else if name.contains("--") {
        Some("has `--`")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let longest = "a".repeat(64);
        for name in ["a", "pdf-tools", "0-1-2", longest.as_str()] {
            assert_eq!(name_fault(name), None, "{name}");
        }
        let too_long = "a".repeat(65);
        for (name, fault) in [
            ("", "empty"),
            (too_long.as_str(), "64"),
            ("Pdf", "other characters"),
            ("pdf_tools", "other characters"),
            ("pdf tools", "other characters"),
            ("é", "other characters"),
            ("-pdf", "begins"),
            ("pdf-", "begins"),
            ("pdf--tools", "`--`"),
        ] {
            assert!(name_fault(name).is_some_and(|found| found.contains(fault)), "{name}");
        }
    }
}
