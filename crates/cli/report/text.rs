//! Reports for people: each finding with its line and a caret under what is meant.

use annotate_snippets::{Element, Level, Origin, Renderer};
use skillfreeze::manifest::{Diagnostic, Severity};

use super::{Report, count_line};
use crate::excerpt::{hint, renderer, snippet};
use crate::output::one_line;

/// How a report is to look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// Whether escape sequences may colour it.
    pub(super) is_colored: bool,
    /// Whether what is merely worth knowing is shown too.
    pub(super) infos: bool,
}

/// All findings, and how many packages are valid.
pub(super) fn text(reports: &[Report], look: &Look) -> String {
    let renderer = renderer(look.is_colored);
    let mut text = String::new();
    for report in reports {
        for diagnostic in &report.diagnostics {
            if diagnostic.severity > Severity::Info || look.infos {
                text.push_str(&finding(report, diagnostic, &renderer));
                text.push_str("\n\n");
            }
        }
    }
    text.push_str(&count_line(reports));
    text
}

fn finding(report: &Report, diagnostic: &Diagnostic, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        _ => Level::INFO,
    };
    let path = one_line(report.place(diagnostic).as_str());
    let title = level.primary_title(one_line(&diagnostic.message)).id(diagnostic.code);
    let mut group = title.element(place(path, diagnostic));
    if let Some(hint) = hint(diagnostic) {
        group = group.element(hint);
    }
    renderer.render(&[group])
}

/// Where it is: with the line itself, if that is known.
fn place(path: String, diagnostic: &Diagnostic) -> Element<'static> {
    if let Some(snippet) = snippet(diagnostic) {
        return snippet.path(path).into();
    }
    let origin = Origin::path(path);
    match (diagnostic.line, diagnostic.column) {
        (Some(line), Some(column)) => origin.line(line).char_column(column).into(),
        (Some(line), None) => origin.line(line).into(),
        (None, _) => origin.into(),
    }
}

#[cfg(test)]
mod tests {
    use skillfreeze::manifest::is_bidi_control;

    use super::super::tests::examples;
    use super::*;

    const PLAIN: Look = Look { is_colored: false, infos: false };

    #[test]
    fn a_finding_shows_its_line() {
        insta::assert_snapshot!(text(&examples(), &PLAIN), @r#"
        warning[fm-recovered]: the value holds `: `
         --> skills/warned/SKILL.md:3:22
          |
        3 | description: Use when: foo
          |                      ^
          |
          = hint: quote the value or use `>-`

        error[fm-dup-key]: `name` stands twice
         --> notes.md:4:1
          |
        4 | name: b
          | ^

        error[path-control]: `a\u{1b}[2J\u{202e}` 100%\n::error::[forged](https://evil.example/) {0}
        --> /srv/é#1\n::error::x/scripts/a b:c,d\u{1b}[31m\n%.sh

        error[fm-control-char]: a control character
         --> /srv/é#1\n::error::x/SKILL.md:2:301
          |
        2 | ...xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx␛[31m��␉名前yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy...
          |                                                     ^

        error[no-skill-file]: there is no `SKILL.md`
        --> .

        2 valid, 3 invalid, 1 warning
        "#);
    }

    #[test]
    fn infos_are_shown_to_who_asks() {
        let reports = &examples()[1..2];
        assert!(!text(reports, &PLAIN).contains("vcs-skipped"));
        insta::assert_snapshot!(text(reports, &Look { infos: true, ..PLAIN }), @r#"
        warning[fm-recovered]: the value holds `: `
         --> skills/warned/SKILL.md:3:22
          |
        3 | description: Use when: foo
          |                      ^
          |
          = hint: quote the value or use `>-`

        info[vcs-skipped]: version control is left out
        --> skills/warned/.git

        1 valid, 0 invalid, 1 warning
        "#);
    }

    #[test]
    fn nothing_of_a_package_acts_on_a_terminal() {
        let plain = text(&examples(), &Look { infos: true, ..PLAIN });
        let acts =
            |character: char| character != '\n' && character.is_control() || is_bidi_control(character);
        assert_eq!(plain.find(acts), None, "{plain:?}");
        assert!(plain.lines().all(|line| !line.starts_with("::")), "{plain}");
        // What colours it is ours: without it, it is the same text.
        let colored = text(&examples(), &Look { infos: true, is_colored: true });
        assert_ne!(colored, plain);
        assert_eq!(anstream::adapter::strip_str(&colored).to_string(), plain);
    }

    #[test]
    fn any_place_is_taken() {
        for (line, column, excerpt) in [
            (1, 1, ""),
            (1, 9, "a"),
            (usize::MAX, usize::MAX, "名"),
            (0, 0, "a\nb"),
            (7, 2, "e\u{301}\u{200d}🚀"),
        ] {
            let diagnostic = Diagnostic::new(Severity::Error, "x", "m").at(line, column).excerpt(excerpt);
            let report = Report { path: "a".into(), is_file: false, id: None, diagnostics: vec![diagnostic] };
            assert!(text(&[report], &PLAIN).starts_with("error[x]: m\n"), "{line} {column}");
        }
    }
}
