//! Odd and hostile front matter that tools for the same job were seen to get wrong, and variants.

use skillfreeze_catalog::{FrontMatter, ParseOptions, parse_front_matter};
use skillfreeze_manifest::{Diagnostic, Severity};

/// What a file must give: a name and a description, or faults; and warnings with their places.
enum Right {
    Valid(&'static str, String, &'static [&'static str]),
    Invalid(&'static [&'static str]),
}
use Right::{Invalid, Valid};

fn parse(bytes: &[u8], strict: bool) -> Result<FrontMatter, Vec<Diagnostic>> {
    parse_front_matter(bytes, &ParseOptions { strict, ..ParseOptions::default() })
}

fn brief(diagnostics: &[Diagnostic], severity: Severity) -> Vec<String> {
    let found = diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity);
    found
        .map(|found| match (found.line, found.column) {
            (Some(line), Some(column)) => format!("{} {line}:{column}", found.code),
            _ => found.code.to_owned(),
        })
        .collect()
}

fn valid(name: &'static str, description: impl Into<String>, warnings: &'static [&'static str]) -> Right {
    Valid(name, description.into(), warnings)
}

/// A block with a good name and description before these lines.
fn with(lines: impl AsRef<str>) -> Vec<u8> {
    format!("---\nname: demo\ndescription: d\n{}---\n", lines.as_ref()).into_bytes()
}

fn utf16(text: &str, little: bool) -> Vec<u8> {
    let units = "\u{feff}".encode_utf16().chain(text.encode_utf16());
    units.flat_map(|unit| if little { unit.to_le_bytes() } else { unit.to_be_bytes() }).collect()
}

/// Lists that each hold ten of the one before.
fn bomb() -> Vec<u8> {
    let mut lines = "metadata:\n  a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (before, letter) in ('a'..='h').zip('b'..='i') {
        lines.push_str(&format!("  {letter}: &{letter} [{}]\n", vec![format!("*{before}"); 10].join(",")));
    }
    with(lines)
}

fn cases() -> Vec<(&'static str, Vec<u8>, Right)> {
    let d = |name| valid(name, "d", &[]);
    vec![
        ("A01 a mark", "\u{feff}---\nname: demo\ndescription: d\n---\nbody\n".into(), d("demo")),
        ("A01 a mark and CRLF", "\u{feff}---\r\nname: demo\r\ndescription: d\r\n---".into(), d("demo")),
        ("A01 two marks", "\u{feff}\u{feff}---\nname: demo\n---\n".into(), Invalid(&["fm-missing 1:1"])),
        (
            "A01 a mark inside",
            "---\nname: demo\ndescription: \u{feff}d\n---\n".into(),
            valid("demo", "\u{feff}d", &[]),
        ),
        ("A02 CRLF", "---\r\nname: demo\r\ndescription: d\r\n---\r\nbody\r\n".into(), d("demo")),
        ("A02 mixed", "---\nname: demo\r\ndescription: d\n---\r\nbody".into(), d("demo")),
        (
            "A02 a block scalar",
            "---\r\nname: demo\r\ndescription: |\r\n  a\r\n\r\n  b\r\n---\r\n".into(),
            valid("demo", "a\n\nb\n", &[]),
        ),
        ("A03", "---\rname: demo\rdescription: d\r---\rbody\r".into(), Invalid(&["fm-missing 1:1"])),
        ("A03 the last line", "---\rname: demo\r---\r\n".into(), Invalid(&["fm-missing 1:1"])),
        (
            "A04",
            "---\nname: demo\ndescription: Use when: foo\nallowed-tools: Read\n---\n".into(),
            valid("demo", "Use when: foo", &["fm-recovered 3:22"]),
        ),
        ("A06 123", "---\nname: 123\ndescription: d\n---\n".into(), Invalid(&["fm-type 2:7"])),
        ("A06 true", "---\nname: true\ndescription: d\n---\n".into(), Invalid(&["fm-type 2:7"])),
        ("A06 [a]", "---\nname: [a]\ndescription: d\n---\n".into(), Invalid(&["fm-type 2:7"])),
        ("A06 {}", "---\nname: {}\ndescription: d\n---\n".into(), Invalid(&["fm-type 2:7"])),
        ("A06 null", "---\nname: null\ndescription: d\n---\n".into(), Invalid(&["fm-type 2:7"])),
        ("A06 a date", "---\nname: 2026-01-01\ndescription: d\n---\n".into(), Invalid(&["fm-type 2:7"])),
        (
            "A07",
            "---\nname: demo\ndescription: yes\nmetadata:\n  n: 010\n---\n".into(),
            valid("demo", "yes", &[]),
        ),
        (
            "A08 folded",
            "---\nname: demo\ndescription: >-\n  a\n  b\n\n  c\nlicense: MIT\n---\n".into(),
            valid("demo", "a b\nc", &[]),
        ),
        (
            "A08 literal",
            "---\nname: lit\ndescription: |\n  Triggers on: x\n  second\n---\n".into(),
            valid("lit", "Triggers on: x\nsecond\n", &[]),
        ),
        (
            "A10",
            "---\nname: demo\ndescription: |\n  x\n---not-a-fence\nallowed-tools: Bash\n---\nbody\n".into(),
            Invalid(&["fm-yaml 5:1"]),
        ),
        (
            "A10 the only one",
            "---\nname: end\ndescription: d\n---END\n".into(),
            Invalid(&["fm-unterminated 1:1"]),
        ),
        ("A11", "---\nname: eof\ndescription: d\n---".into(), d("eof")),
        ("A11 no fence", "---\nname: bad\ndescription: foo---".into(), Invalid(&["fm-unterminated 1:1"])),
        ("A12", "---\nname: a\ndescription: d\n\n# Title\ntext\n".into(), Invalid(&["fm-unterminated 1:1"])),
        (
            "A12 a rule",
            "---\nname: b\ndescription: d\n\n# Title\nsome: text: here\n\n---\nmore\n".into(),
            Invalid(&["fm-yaml 6:11"]),
        ),
        (
            "A12 prose",
            "---\nname: b\ndescription: d\n\n# Title\ntext\n\n---\n".into(),
            Invalid(&["fm-yaml 6:1"]),
        ),
        ("A14", "--- \nname: ok\ndescription: d\n---\t \nbody\n".into(), d("ok")),
        ("A14 four", "----\nname: no\ndescription: d\n----\n".into(), Invalid(&["fm-missing 1:1"])),
        ("A14 indented", "---\nname: no\ndescription: d\n ---\n".into(), Invalid(&["fm-unterminated 1:1"])),
        ("A15", "---\nname: a\ndescription: x\ndescription: y\n---\n".into(), Invalid(&["fm-dup-key 4:1"])),
        (
            "A15 quoted",
            "---\nname: b\n\"name\": c\ndescription: d\n---\n".into(),
            Invalid(&["fm-dup-key 3:1"]),
        ),
        ("A15 deep", with("metadata:\n  k: 1\n  k: 2\n"), Invalid(&["fm-dup-key 6:3"])),
        ("A15 in brackets", with("x: [{k: 1, ? k : 2}]\n"), Invalid(&["fm-dup-key 4:14"])),
        ("A16 a bomb", bomb(), Invalid(&["fm-yaml-feature 5:9"])),
        ("A16 a circle", with("metadata: &a {self: *a}\n"), Invalid(&["fm-yaml-feature 4:14"])),
        ("A16 a merge", with("metadata:\n  <<: {a: b}\n"), Invalid(&["fm-yaml-feature 5:3"])),
        ("A16 a tag", with("x: !!python/object:os.system a\n"), Invalid(&["fm-yaml-feature 4:30"])),
        (
            "A17 lists",
            with(format!("metadata: {}{}\n", "[".repeat(20_000), "]".repeat(20_000))),
            Invalid(&["fm-too-deep 4:27"]),
        ),
        (
            "A17 mappings",
            with(format!("metadata: {}{}\n", "{a: ".repeat(10_000), "}".repeat(10_000))),
            Invalid(&["fm-too-deep 4:71"]),
        ),
        ("A18 a block", with(format!("x: {}\n", "a".repeat(5_000_000))), Invalid(&["fm-too-large 1:1"])),
        (
            "A18 a body",
            [with(""), "line\n".repeat(30_000).into_bytes()].concat(),
            valid("demo", "d", &["skill-md-large"]),
        ),
        ("A18 keys", with((0..2000).map(|k| format!("k{k}: v\n")).collect::<String>()), {
            Invalid(&["fm-too-large 1025:8"])
        }),
        ("A18 a long line", with(format!("license: {}\n", "a".repeat(60_000))), d("demo")),
        (
            "A19 1,024 characters",
            format!("---\nname: emoji\ndescription: {}\n---\n", "\u{1f600}".repeat(1024)).into(),
            valid("emoji", "\u{1f600}".repeat(1024), &[]),
        ),
        (
            "A19 1,025",
            format!("---\nname: long\ndescription: {}\n---\n", "a".repeat(1025)).into(),
            valid("long", "a".repeat(1025), &["desc-too-long 3:14"]),
        ),
        (
            "A19 blanks around",
            format!("---\nname: long\ndescription: |\n  {}\n---\n", "a".repeat(1024)).into(),
            valid("long", "a".repeat(1024) + "\n", &[]),
        ),
        ("A21 null", with("metadata:\n"), valid("demo", "d", &["metadata-null 4:9"])),
        ("A21 JSON", with("metadata: {\"x\":{\"bins\":[\"a\"]}}\n"), {
            valid("demo", "d", &["metadata-not-string 4:16"])
        }),
        ("A21 a list", with("metadata: [a]\n"), Invalid(&["fm-type 4:11"])),
        ("A22 Latin-1", b"---\nname: l1\ndescription: caf\xe9\n---\n".into(), Invalid(&["not-utf8 3:17"])),
        ("A22 NUL", "---\nname: nul\ndescription: a\0b\n---\n".into(), Invalid(&["fm-control-char 3:15"])),
        (
            "A22 an escape",
            "---\nname: nul\ndescription: \"a\\0b\"\n---\n".into(),
            Invalid(&["fm-control-char 3:14"]),
        ),
        ("A22 UTF-16", utf16("---\nname: u16\ndescription: d\n---\n", true), Invalid(&["not-utf8 1:1"])),
        (
            "A22 UTF-16, big",
            utf16("---\nname: u16\ndescription: d\n---\n", false),
            Invalid(&["not-utf8 1:1"]),
        ),
        ("A22 the body", [with(""), b"\0\x1b ok".to_vec()].concat(), d("demo")),
        (
            "A24 wide letters",
            "---\nname: \u{ff44}\u{ff45}\u{ff4d}\u{ff4f}\ndescription: d\n---\n".into(),
            Invalid(&["name-invalid 2:7"]),
        ),
        ("A24 a blank", "---\nname: \"sp \"\ndescription: d\n---\n".into(), Invalid(&["name-invalid 2:7"])),
        (
            "A24 Cyrillic",
            "---\nname: d\u{435}mo\ndescription: d\n---\n".into(),
            Invalid(&["name-invalid 2:7"]),
        ),
        ("A25 none", "---\ndescription: d\n---\n".into(), Invalid(&["name-missing"])),
        ("A25 quoted", "---\nname: \"q\"\ndescription: d\n---\n".into(), d("q")),
        ("A26", with("version: 2.2.0\n"), d("demo")),
        ("A26 unknown", with("Version: 2\n"), valid("demo", "d", &["unknown-key 4:1"])),
        ("A28 nothing", "---\nname: a\ndescription:\n---\n".into(), Invalid(&["desc-empty 3:12"])),
        ("A28 blanks", "---\nname: b\ndescription: \"  \"\n---\n".into(), Invalid(&["desc-empty 3:14"])),
        ("A28 a block", "---\nname: c\ndescription: >\n---\n".into(), Invalid(&["desc-empty 3:14"])),
        (
            "A28 wide blanks",
            "---\nname: c\ndescription: \"\\u3000\"\n---\n".into(),
            Invalid(&["desc-empty 3:14"]),
        ),
        ("a tab as a blank", "---\nname:\tdemo\ndescription: d\n---\n".into(), d("demo")),
        ("a tab as indentation", with("metadata:\n\ta: b\n"), Invalid(&["fm-yaml 5:2"])),
    ]
}

#[test]
fn each_case_is_right() {
    for (case, bytes, right) in cases() {
        let found = parse(&bytes, false);
        match (&found, right) {
            (Ok(front_matter), Valid(name, description, warnings)) => {
                assert_eq!(front_matter.name, name, "{case}");
                assert_eq!(front_matter.description, description, "{case}");
                assert_eq!(brief(&front_matter.diagnostics, Severity::Warning), warnings, "{case}");
            }
            (Err(diagnostics), Invalid(errors)) => {
                assert_eq!(brief(diagnostics, Severity::Error), errors, "{case}");
            }
            _ => panic!("{case}: {found:?}"),
        }
        if let (Err(expected), Err(strictly)) = (&found, parse(&bytes, true)) {
            let errors = brief(&strictly, Severity::Error);
            let is_there = |error| errors.contains(error);
            assert!(
                brief(expected, Severity::Error).iter().all(is_there),
                "{case}: strict parsing is no laxer"
            );
        } else {
            assert!(found.is_ok(), "{case}: strict parsing is no laxer");
        }
    }
}
