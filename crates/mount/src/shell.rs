//! Words as a shell reads them.

use std::borrow::Cow;

/// The word as it must be written for a POSIX shell to read it as it is.
///
/// What no shell looks at twice stays as it is; everything else is put between single quotes.
#[must_use]
pub fn quote(word: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// Words with spaces between them, each quoted where it needs to be.
pub(crate) fn join<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_each_word_as_it_was() {
        let words = [
            "plain", "", "a b", "it's", "'", "''", "$HOME", "`id`", "a\\b", "*", "~", "#", "a\nb", "-n", "é",
            "{a,b}", "!x", "x=y", "a;b", "\"", "a\tb",
        ];
        let script = format!("printf '%s\\0' {}", join(words));
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let read: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
        let expected: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).chain([&b""[..]]).collect();
        assert_eq!(read, expected);
        assert_eq!(quote("/skills/a-b_c.md"), "/skills/a-b_c.md");
    }
}
