//! The names under which one frozen file is known: `$SKILLS_DIR/x`, `${SKILLS_DIR}/x`, `/skills/x`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use camino::Utf8Path;

/// Replaces a literal `$VARIABLE` or `${VARIABLE}` at the start of a command's argument by `dir`.
///
/// Only the whole argument or what is followed by `/` counts: the shell that started the program
/// would have replaced it by nothing, since the variable exists only inside the sandbox.
#[must_use]
pub fn expand_argument(argument: &OsStr, variable: &str, dir: &Utf8Path) -> OsString {
    let bytes = argument.as_bytes();
    for prefix in [format!("${variable}"), format!("${{{variable}}}")] {
        match bytes.strip_prefix(prefix.as_bytes()) {
            Some(rest) if rest.is_empty() || rest.starts_with(b"/") => {
                return OsString::from_vec([dir.as_str().as_bytes(), rest].concat());
            }
            _ => {}
        }
    }
    argument.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_at_the_start() {
        for (argument, expanded) in [
            ("$SKILLS_DIR/a/SKILL.md", "/skills/a/SKILL.md"),
            ("${SKILLS_DIR}/a", "/skills/a"),
            ("$SKILLS_DIR", "/skills"),
            ("$SKILLS_DIR_X/a", "$SKILLS_DIR_X/a"),
            ("x$SKILLS_DIR/a", "x$SKILLS_DIR/a"),
            ("echo $SKILLS_DIR/a", "echo $SKILLS_DIR/a"),
            ("$OTHER/a", "$OTHER/a"),
            ("", ""),
        ] {
            assert_eq!(
                expand_argument(OsStr::new(argument), "SKILLS_DIR", Utf8Path::new("/skills")),
                expanded
            );
        }
    }
}
