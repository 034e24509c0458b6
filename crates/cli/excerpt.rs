//! The line of a file that a finding is about, with a caret under what is meant.
//!
//! The line is a stranger's text: whatever in it would act on a terminal is shown by a sign.

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Message, Renderer, Snippet};
use skillfreeze::manifest::{Diagnostic, is_bidi_control};

use crate::output::one_line;

/// The width to which longer lines are cut, around what is meant.
const WIDTH: usize = 110;

/// What lays out findings.
pub(crate) fn renderer(is_colored: bool) -> Renderer {
    if is_colored { Renderer::styled() } else { Renderer::plain() }.term_width(WIDTH)
}

/// A finding's line, if it is known, and its hint: what follows the finding itself.
pub(crate) fn block(diagnostic: &Diagnostic, is_colored: bool) -> Option<String> {
    let mut group = Group::with_level(Level::INFO).element(snippet(diagnostic)?);
    if let Some(hint) = hint(diagnostic) {
        group = group.element(hint);
    }
    Some(renderer(is_colored).render(&[group]))
}

/// A finding's line with the caret.
pub(crate) fn snippet(diagnostic: &Diagnostic) -> Option<Snippet<'static, Annotation<'static>>> {
    let (line, column) = (diagnostic.line?, diagnostic.column?);
    let source = visible(diagnostic.excerpt.as_ref()?);
    let mut rest = source.char_indices().skip(column.saturating_sub(1)).map(|(offset, _)| offset);
    let start = rest.next().unwrap_or(source.len());
    let end = rest.next().unwrap_or(source.len());
    let caret = AnnotationKind::Primary.span(start..end);
    Some(Snippet::source(source).line_start(line).annotation(caret))
}

/// What to do about a finding, if that is said.
pub(crate) fn hint(diagnostic: &Diagnostic) -> Option<Message<'static>> {
    let hint = diagnostic.hint.as_ref()?;
    Some(Level::HELP.with_name(Some("hint")).message(one_line(hint)))
}

/// A line of a file with a sign for each character that would act on a terminal: one for one, since
/// the column is counted in it.
fn visible(line: &str) -> String {
    let sign = |character: char| match character {
        '\0'..='\u{1f}' => {
            char::from_u32(0x2400 + u32::from(character)).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        '\u{7f}' => '\u{2421}',
        _ if character.is_control() || is_bidi_control(character) => char::REPLACEMENT_CHARACTER,
        _ => character,
    };
    line.trim_end_matches(['\r', '\n']).chars().map(sign).collect()
}

#[cfg(test)]
mod tests {
    use skillfreeze::manifest::Severity;

    use super::*;

    #[test]
    fn a_line_and_what_to_do_about_it() {
        let recovered = Diagnostic::new(Severity::Warning, "fm-recovered", "the value holds `: `")
            .at_path("SKILL.md")
            .at(3, 22)
            .hint("quote\nthe value")
            .excerpt("description: Use when:\u{1b}[31m foo\r");
        insta::assert_snapshot!(block(&recovered, false).expect("it has a line"), @r#"
          |
        3 | description: Use when:␛[31m foo
          |                      ^
          |
          = hint: quote\nthe value
        "#);
        assert!(block(&recovered, true).is_some_and(|block| block.contains("\u{1b}[")));
        let placeless = Diagnostic::new(Severity::Warning, "large-package", "large").hint("less");
        assert_eq!(block(&placeless, false), None);
        let excerptless = placeless.at(3, 1);
        assert_eq!(block(&excerptless, false), None);
    }
}
