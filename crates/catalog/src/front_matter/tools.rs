//! Lists of names in one text: tools, with what they are allowed in parentheses, and tags.

/// Splits a text of tools at blanks and commas, but not inside parentheses:
/// `Bash(git diff:*), Read` is `Bash(git diff:*)` and `Read`.
///
/// Returns also whether every parenthesis has its other; what is behind one that has not is one tool.
pub(crate) fn split_tools(text: &str) -> (Vec<String>, bool) {
    let mut tools = Vec::new();
    let mut tool = String::new();
    let (mut depth, mut is_balanced) = (0usize, true);
    for character in text.chars() {
        match character {
            '(' => depth += 1,
            ')' if depth == 0 => is_balanced = false,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 && (character.is_whitespace() || character == ',') {
            if !tool.is_empty() {
                tools.push(std::mem::take(&mut tool));
            }
        } else {
            tool.push(character);
        }
    }
    let tool = tool.trim_end();
    if !tool.is_empty() {
        tools.push(tool.to_owned());
    }
    (tools, is_balanced && depth == 0)
}

/// Whether a text separates its tools by commas, which the Agent Skills specification does not have.
pub(crate) fn has_separating_comma(text: &str) -> bool {
    let mut depth = 0usize;
    text.chars().any(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && character == ','
    })
}

/// The name of a tool without what it is allowed: `Bash` of `Bash(git diff:*)`.
pub(crate) fn tool_name(tool: &str) -> &str {
    tool.split('(').next().unwrap_or(tool).trim_end()
}

/// Splits a text of tags at commas.
pub(crate) fn split_tags(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools() {
        for (text, expected, is_balanced) in [
            ("", &[][..], true),
            (" , ", &[], true),
            ("Read", &["Read"], true),
            ("Read Write", &["Read", "Write"], true),
            ("Read, Write,Edit", &["Read", "Write", "Edit"], true),
            ("Bash(git diff:*) Read", &["Bash(git diff:*)", "Read"], true),
            ("Bash(a, b), Bash((c) d)", &["Bash(a, b)", "Bash((c) d)"], true),
            ("Bash(jq:*)Read", &["Bash(jq:*)Read"], true),
            ("Read Bash(git diff ", &["Read", "Bash(git diff"], false),
            ("Read) Write", &["Read)", "Write"], false),
        ] {
            let (tools, balanced) = split_tools(text);
            assert_eq!(tools, expected, "{text:?}");
            assert_eq!(balanced, is_balanced, "{text:?}");
        }
        for (text, expected) in [("A B", false), ("A, B", true), ("A(b, c) D", false), ("A) , B", true)] {
            assert_eq!(has_separating_comma(text), expected, "{text:?}");
        }
        assert_eq!(["Bash(git:*)", "Read", "A (b)", ""].map(tool_name), ["Bash", "Read", "A", ""]);
    }

    #[test]
    fn tags() {
        assert_eq!(split_tags("a, b c ,,d"), ["a", "b c", "d"]);
        assert!(split_tags(" , ").is_empty());
    }
}
