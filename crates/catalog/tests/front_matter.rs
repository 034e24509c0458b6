//! What each kind of front matter gives: codes with their places, or the values.

use proptest::prelude::*;
use skillfreeze_catalog::{
    DESCRIPTION_CHARS, FrontMatter, LARGE_SKILL_BYTES, ParseOptions, Value, parse_front_matter,
};
use skillfreeze_manifest::{Diagnostic, Limits, Severity};

fn parse(text: impl AsRef<[u8]>) -> Result<FrontMatter, Vec<Diagnostic>> {
    parse_front_matter(text.as_ref(), &ParseOptions::of("demo"))
}

/// The values of a block with a good name that ends in `lines`.
fn with(lines: &str) -> FrontMatter {
    parse(format!("---\nname: demo\ndescription: d\n{lines}---\nbody\n")).expect("a valid block")
}

/// `code line:column` for each finding above an info, places where there are such.
fn brief(diagnostics: &[Diagnostic]) -> Vec<String> {
    let worse = diagnostics.iter().filter(|diagnostic| diagnostic.severity > Severity::Info);
    worse
        .map(|diagnostic| match (diagnostic.line, diagnostic.column) {
            (Some(line), Some(column)) => format!("{} {line}:{column}", diagnostic.code),
            _ => diagnostic.code.to_owned(),
        })
        .collect()
}

fn errors(text: impl AsRef<[u8]>) -> Vec<String> {
    let diagnostics = parse(text).expect_err("a faulty block");
    assert!(diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error));
    assert!(diagnostics.iter().all(|diagnostic| diagnostic.path.as_deref() == Some("SKILL.md")));
    brief(&diagnostics)
}

#[test]
fn line_ends_marks_and_fences_leave_no_trace_in_the_values() {
    for text in [
        "---\nname: demo\ndescription: d\n---\nbody\n",
        "---\nname: demo\ndescription: d\n---",
        "\u{feff}---\nname: demo\ndescription: d\n---\nbody\n",
        "---\r\nname: demo\r\ndescription: d\r\n---\r\nbody\r\n",
        "---\r\nname: demo\ndescription: d\r\n---\nbody\r\n",
        "--- \nname: demo\ndescription: d\n---\t \nbody\n",
        "---\nname: \"demo\"\ndescription: 'd'\n---\n",
        "---\n{name: demo, description: d}\n---\n",
        "---\n# a comment\nname: demo # another\ndescription: d\n...\n---\n",
    ] {
        let front_matter = parse(text).unwrap();
        assert_eq!(
            (front_matter.name.as_str(), front_matter.description.as_str()),
            ("demo", "d"),
            "{text:?}"
        );
        assert_eq!(brief(&front_matter.diagnostics), [""; 0], "{text:?}");
    }
}

#[test]
fn faults_have_a_code_and_a_place() {
    let deep = |open: &str, close: &str, depth: usize| {
        format!(
            "---\nname: demo\ndescription: d\nmetadata: {}{}\n---\n",
            open.repeat(depth),
            close.repeat(depth)
        )
    };
    let blocks: String = (0..20).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    for (text, expected) in [
        // The fences.
        ("---\rname: demo\rdescription: d\r---\rbody\r".to_owned(), &["fm-missing 1:1"][..]),
        ("----\nname: demo\ndescription: d\n----\n".to_owned(), &["fm-missing 1:1"]),
        (" ---\nname: demo\ndescription: d\n---\n".to_owned(), &["fm-missing 1:1"]),
        ("---\nname: demo\ndescription: d\n---END\nbody\n".to_owned(), &["fm-unterminated 1:1"]),
        ("---\nname: demo\ndescription: d---".to_owned(), &["fm-unterminated 1:1"]),
        ("---\nname: demo\ndescription: d\n\n# Title\ntext\n".to_owned(), &["fm-unterminated 1:1"]),
        (format!("---\nx: {}\n---\n", "a".repeat(5_000_000)), &["fm-too-large 1:1"]),
        // The grammar.
        ("---\nname: demo\nmetadata:\n  é: é: b\n---\n".to_owned(), &["fm-yaml 4:7"]),
        (
            "---\nname: demo\ndescription: |\n  x\n---not-a-fence\nallowed-tools: Bash\n---\n".to_owned(),
            &["fm-yaml 5:1"],
        ),
        (
            "---\nname: demo\ndescription: d\n\n# Title\nsome: text: here\n\n---\nmore\n".to_owned(),
            &["fm-yaml 6:11"],
        ),
        ("---\nname: [\n---\n".to_owned(), &["fm-yaml 2:7"]),
        ("---\nname: demo\n\tdescription: d\n---\n".to_owned(), &["fm-yaml 2:7"]),
        // Keys.
        ("---\nname: demo\ndescription: x\ndescription: y\n---\n".to_owned(), &["fm-dup-key 4:1"]),
        ("---\nname: b\n\"na\\x6de\": c\ndescription: d\n---\n".to_owned(), &["fm-dup-key 3:1"]),
        (
            "---\nname: c\nmetadata:\n  k: 1\n  k: 2\n  m: {k: 1, 'k': 2}\n---\n".to_owned(),
            &["fm-dup-key 5:3", "fm-dup-key 6:13"],
        ),
        // What is more than data.
        ("---\nname: &a demo\n---\n".to_owned(), &["fm-yaml-feature 2:10"]),
        ("---\nname: demo\ndescription: *a\n---\n".to_owned(), &["fm-yaml-feature 3:14"]),
        ("---\nname: demo\nmetadata: &a {self: *a}\n---\n".to_owned(), &["fm-yaml-feature 3:14"]),
        ("---\nname: !!str 1\n---\n".to_owned(), &["fm-yaml-feature 2:13"]),
        ("---\nname: !x!y 1\n---\n".to_owned(), &["fm-yaml-feature 2:7"]),
        ("---\nmetadata: {<<: {a: b}}\n---\n".to_owned(), &["fm-yaml-feature 2:12"]),
        ("---\nmetadata: {? [a] : b}\n---\n".to_owned(), &["fm-yaml-feature 2:14"]),
        ("---\nname: demo\n...\n%YAML 1.1\n---\n".to_owned(), &["fm-yaml-feature 4:1"]),
        ("---\nname: demo\n--- x\n---\n".to_owned(), &["fm-yaml-feature 3:1"]),
        ("---\nname: demo\n...\nname: other\n---\n".to_owned(), &["fm-yaml-feature 4:1"]),
        // Size.
        (deep("[", "]", 20_000), &["fm-too-deep 4:27"]),
        (deep("{a: ", "}", 10_000), &["fm-too-deep 4:71"]),
        (deep("[", "]", 16), &["fm-too-deep 4:26"]),
        (format!("---\n{blocks}---\n"), &["fm-too-deep 18:17"]),
        (format!("---\nmetadata: [{}]\n---\n", "x,".repeat(3000)), &["fm-too-large 2:4102"]),
        // Characters.
        ("---\nname: demo\ndescription: a\0b\n---\n".to_owned(), &["fm-control-char 3:15"]),
        ("---\nname: demo\ndescription: é\u{1b}[2J\n---\n".to_owned(), &["fm-control-char 3:15"]),
        ("---\nname: demo\ndescription: \"\\e[2J\"\n---\n".to_owned(), &["fm-control-char 3:14"]),
        ("---\nname: demo\n\"\\0\": d\n---\n".to_owned(), &["fm-control-char 3:1"]),
    ] {
        assert_eq!(errors(&text), expected, "{}", &text[..text.len().min(200)]);
    }
    for (bytes, expected) in [
        (&b"---\nname: l1\ndescription: caf\xe9\n---\n"[..], "not-utf8 3:17"),
        (b"---\nname: l1\ndescription: d\n---\n\nbody \xff\n", "not-utf8 6:6"),
        (b"\xff\xfe-\0-\0-\0\n\0n\0a\0m\0e\0", "not-utf8 1:1"),
        (b"\xfe\xff\0-\0-\0-\0\n", "not-utf8 1:1"),
    ] {
        assert_eq!(errors(bytes), [expected], "{}", bytes.escape_ascii());
    }
}

/// Nothing is expanded, so the bomb costs no more than its own length.
#[test]
fn an_alias_bomb_stays_small() {
    let mut text = "---\nname: demo\ndescription: d\nmetadata:\n  a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (before, letter) in ('a'..='h').zip('b'..='i') {
        text.push_str(&format!("  {letter}: &{letter} [{}]\n", vec![format!("*{before}"); 10].join(",")));
    }
    assert_eq!(errors(text + "---\n"), ["fm-yaml-feature 5:9"]);
}

#[test]
fn depth_up_to_the_limit_is_fine() {
    let lists = format!("metadata:\n  k: {}{}\n", "[".repeat(14), "]".repeat(14));
    assert_eq!(brief(&with(&lists).diagnostics), ["metadata-not-string 5:6"]);
}

#[test]
fn hints_say_what_to_do() {
    for (text, hint) in [
        ("---\nname: demo\nmetadata:\n  a: b: c\n---\n", "quote the value or use `>-`"),
        ("---\rname: demo\r---\r", "LF or CRLF"),
        ("\u{feff}\u{feff}---\nname: demo\n---\n", "begin the file"),
        ("---\nname: 123\ndescription: d\n---\n", "quote the value"),
        ("---\nname: PDF Tools\ndescription: d\n---\n", "add an `id`"),
    ] {
        let hints = parse(text).unwrap_err().into_iter().filter_map(|diagnostic| diagnostic.hint);
        assert!(hints.into_iter().any(|found| found.contains(hint)), "{text:?}");
    }
    let diagnostics = parse("---\nname: a\ndescription: d\n\n# Title\nsome: text: here\n---\n").unwrap_err();
    assert!(diagnostics[0].message.ends_with("no fence before line 7"), "{}", diagnostics[0]);
}

#[test]
fn text_keeps_its_source_form() {
    let front_matter = with(
        "license: 010\ncompatibility: >-\n  a\n  b\nallowed-tools: Read Write\nmetadata:\n  version: 1.10\n  \
         reviewed: 2026-06-23\n  flag: no\n  n: 0x1F\n  q: '1'\n  none: ~\n  list: [a]\n",
    );
    assert_eq!(front_matter.version.unwrap().as_str(), "1.10");
    assert_eq!(front_matter.license.as_deref(), Some("010"));
    assert_eq!(front_matter.compatibility.as_deref(), Some("a b"));
    assert_eq!(front_matter.allowed_tools, ["Read", "Write"]);
    assert_eq!(front_matter.metadata["list"], Value::Sequence(vec![Value::Text("a".to_owned())]));
    let texts =
        front_matter.metadata.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_text()?)));
    let metadata: Vec<_> = texts.collect();
    let expected = [
        ("flag", "no"),
        ("n", "0x1F"),
        ("none", "~"),
        ("q", "1"),
        ("reviewed", "2026-06-23"),
        ("version", "1.10"),
    ];
    assert_eq!(metadata, expected);
    assert_eq!(brief(&front_matter.diagnostics), ["metadata-not-string 16:9"]);

    for (lines, description) in [
        ("yes", "yes"),
        ("off", "off"),
        (">-\n  a\n  b\n\n  c", "a b\nc"),
        ("|\n  Triggers on: x\n  second", "Triggers on: x\nsecond\n"),
        (">\r\n  a\r\n  b\r", "a b\n"),
        ("a\n  b", "a b"),
        ("\"a\\tb\\u00e9\"", "a\tb\u{e9}"),
        ("'it''s'", "it's"),
        ("a\u{feff}b", "a\u{feff}b"),
        ("a # b", "a"),
        ("a#b", "a#b"),
    ] {
        let text = format!("---\nname: demo\ndescription: {lines}\n---\n");
        assert_eq!(parse(&text).unwrap().description, description, "{lines:?}");
    }
}

#[test]
fn names_and_ids() {
    for (lines, expected) in [
        ("name: 123", "fm-type 2:7"),
        ("name: -0x1F", "name-invalid 2:7"),
        ("name: 0x1f", "fm-type 2:7"),
        ("name: 1e3", "fm-type 2:7"),
        ("name: .5", "fm-type 2:7"),
        ("name: .inf", "fm-type 2:7"),
        ("name: true", "fm-type 2:7"),
        ("name: [a]", "fm-type 2:7"),
        ("name: {}", "fm-type 2:7"),
        ("name: ~", "fm-type 2:7"),
        ("name:", "fm-type 2:5"),
        ("name: 2026-01-01", "fm-type 2:7"),
        ("name: 2026-01-01T10:00:00Z", "fm-type 2:7"),
        ("version: 1", "name-missing"),
        ("id: demo", "name-missing"),
        ("name: \"\"", "name-invalid 2:7"),
        ("name: \"sp \"", "name-invalid 2:7"),
        ("name: \u{ff44}\u{ff45}\u{ff4d}\u{ff4f}", "name-invalid 2:7"),
        ("name: Demo", "name-invalid 2:7"),
        ("name: ../../evil", "name-invalid 2:7"),
        ("name: .", "name-invalid 2:7"),
        ("name: ..", "name-invalid 2:7"),
        ("name: /demo", "name-invalid 2:7"),
        ("name: con", "name-invalid 2:7"),
        ("name: demo.", "name-invalid 2:7"),
        ("name: \"de\\tmo\"\nid: demo", "name-invalid 2:7"),
        ("name: \"de\\u202Emo\"\nid: demo", "name-invalid 2:7"),
        ("name: Demo\nid: De", "id-invalid 3:5"),
        ("name: Demo\nid: 12", "fm-type 3:5"),
        ("\u{feff}name: demo", "name-missing"),
    ] {
        let found = errors(format!("---\n{lines}\ndescription: d\n---\n"));
        assert!(found.contains(&expected.to_owned()), "{lines:?}: {found:?}");
    }
    for (lines, name, id, expected) in [
        ("name: demo", "demo", "demo", &[][..]),
        ("name: 'demo'", "demo", "demo", &[]),
        ("name: \"123\"", "123", "123", &["name-dir-mismatch 2:7"]),
        ("name: other", "other", "other", &["name-dir-mismatch 2:7"]),
        ("name: no", "no", "no", &["name-dir-mismatch 2:7"]),
        ("name: demo_1", "demo_1", "demo_1", &["name-dir-mismatch 2:7", "name-underscore 2:7"]),
        ("name: Démo: tools\nid: demo".replace(": t", " t").as_str(), "Démo tools", "demo", &[]),
        ("id: other\nname: demo", "demo", "other", &["name-dir-mismatch 2:5"]),
    ] {
        let front_matter = parse(format!("---\n{lines}\ndescription: d\n---\n")).unwrap();
        assert_eq!((front_matter.name.as_str(), front_matter.id.as_str()), (name, id), "{lines:?}");
        assert_eq!(brief(&front_matter.diagnostics), expected, "{lines:?}");
    }
    let anywhere =
        parse_front_matter(b"---\nname: x\ndescription: d\n---\n", &ParseOptions::default()).unwrap();
    assert_eq!(brief(&anywhere.diagnostics), [""; 0]);
}

#[test]
fn descriptions() {
    for (lines, expected) in [
        ("", "desc-missing"),
        ("description:\n", "desc-empty 3:12"),
        ("description: ~\n", "desc-empty 3:14"),
        ("description: \"\"\n", "desc-empty 3:14"),
        ("description: \"  \\n\"\n", "desc-empty 3:14"),
        ("description: >\n", "desc-empty 3:14"),
        ("description: |\n\n", "desc-empty 3:14"),
        ("description: 12\n", "fm-type 3:14"),
        ("description: [a]\n", "fm-type 3:14"),
    ] {
        assert_eq!(errors(format!("---\nname: demo\n{lines}---\n")), [expected], "{lines:?}");
    }
    for (text, length) in [("a", 1024), ("\u{1f600}", 1024), ("a", 1025), ("é", 1025)] {
        let front_matter =
            parse(format!("---\nname: demo\ndescription: {}\n---\n", text.repeat(length))).unwrap();
        let too_long = length > DESCRIPTION_CHARS;
        assert_eq!(brief(&front_matter.diagnostics).contains(&"desc-too-long 3:14".to_owned()), too_long);
    }
}

#[test]
fn all_faults_not_the_first() {
    let found = errors("---\nx: 1\nname: 12\nmetadata: [a]\n---\n");
    assert_eq!(found, ["unknown-key 2:1", "fm-type 3:7", "fm-type 4:11", "desc-missing"]);
    assert_eq!(errors("---\n---\n"), ["name-missing", "desc-missing"]);
    assert_eq!(errors("---\n# nothing\n---\n"), ["name-missing", "desc-missing"]);
    assert_eq!(errors("---\n- a\n---\n"), ["fm-type 2:1", "name-missing", "desc-missing"]);
    assert_eq!(errors("---\ntext\n---\n"), ["fm-type 2:1", "name-missing", "desc-missing"]);
}

#[test]
fn what_is_only_warned_of() {
    for (lines, expected) in [
        ("metadata:\n", &["metadata-null 4:9"][..]),
        ("metadata: {}\n", &[]),
        ("metadata: {\"x\":{\"bins\":[\"a\"]}}\n", &["metadata-not-string 4:16"]),
        ("future-key: [1, 2]\n", &["unknown-key 4:1"]),
        ("version: 2.2.0\n", &[]),
        ("version: \"2\"\nmetadata: {version: 1}\n", &[]),
        ("version: é\n", &["version-invalid 4:10"]),
        ("version: [1]\n", &["version-invalid 4:10"]),
        ("metadata: {version: {a: b}}\n", &["metadata-not-string 4:21", "version-invalid 4:21"]),
    ] {
        assert_eq!(brief(&with(lines).diagnostics), expected, "{lines:?}");
    }
    assert_eq!(with("version: 2.2.0\nmetadata: {version: 1}\n").version.unwrap().as_str(), "2.2.0");
    let codes =
        |front_matter: FrontMatter| front_matter.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>();
    assert_eq!(codes(with("")), ["version-missing"]);
    assert_eq!(codes(with("version:\n")), ["version-missing"]);

    let large = format!("---\nname: demo\ndescription: d\n---\n{}", "line\n".repeat(LARGE_SKILL_BYTES / 5));
    let front_matter = parse(&large).unwrap();
    let warning =
        front_matter.diagnostics.iter().find(|diagnostic| diagnostic.code == "skill-md-large").unwrap();
    assert!(warning.message.contains(&large.len().to_string()), "{warning}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the bytes are, there is an answer, and what it points at is in the file.
    #[test]
    fn any_bytes_get_an_answer(
        text in "(\u{feff})?(---\n)?(name|description|metadata|[ \t\r\n:\\-\\[\\]{}#&*!|>'\"%@`,?~<.0é\u{0}\\\\]){0,60}(\n---\n)?.{0,3}",
        bytes in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        for input in [text.as_bytes(), &bytes, &[b"---\n", &bytes[..], b"\n---"].concat()] {
            let diagnostics = match parse_front_matter(input, &ParseOptions::default()) {
                Ok(front_matter) => front_matter.diagnostics,
                Err(diagnostics) => diagnostics,
            };
            let lines = input.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 1;
            prop_assert!(diagnostics.iter().all(|diagnostic| diagnostic.line.unwrap_or(1) <= lines));
        }
    }
}

/// The beginning of a file tells as much as the whole of it, when its size is known.
#[test]
fn a_beginning_is_enough() {
    let block = "---\nname: demo\ndescription: d\n---\n";
    let limits = Limits { front_matter_bytes: block.len() as u64, ..Limits::DEFAULT };
    let whole = format!("{block}{}", "é".repeat(LARGE_SKILL_BYTES));
    let parse = |bytes: &[u8], size| {
        parse_front_matter(bytes, &ParseOptions { limits, size, ..ParseOptions::of("demo") })
    };
    let size = Some(whole.len() as u64);
    let expected = parse(whole.as_bytes(), None).unwrap();
    assert!(expected.diagnostics.iter().any(|found| found.code == "skill-md-large"));
    for length in block.len() + 1..block.len() + 5 {
        assert_eq!(parse(&whole.as_bytes()[..length], size).unwrap(), expected, "{length}");
    }
    assert_eq!(parse(whole.as_bytes(), Some(1)).unwrap(), expected, "it grew while it was read");

    // A character is cut only where the file goes on.
    let cut = &whole.as_bytes()[..block.len() + 1];
    for size in [None, Some(cut.len() as u64)] {
        assert_eq!(brief(&parse(cut, size).unwrap_err()), ["not-utf8 5:1"]);
    }
    let faulty = [block.as_bytes(), b"\xff", "é".as_bytes()].concat();
    assert_eq!(brief(&parse(&faulty, Some(1000)).unwrap_err()), ["not-utf8 5:1"]);
    let too_large = format!("---\nx: {}\n---\n", "é".repeat(100));
    for length in [block.len() + 1, block.len() + 2] {
        let found = parse(&too_large.as_bytes()[..length], Some(too_large.len() as u64)).unwrap_err();
        assert_eq!(brief(&found), ["fm-too-large 1:1"]);
    }
}

#[test]
fn findings_show_their_lines() {
    for (text, line) in [
        ("\u{feff}----\n", "----"),
        ("---\r\nname: demo\r\ndescription: &a é\r\n---\r\n", "description: &a é"),
        ("---\nname: demo\ndescription: a\0b\n---\n", "description: a\0b"),
        ("---\nname: 12 # x\ndescription: d\n---\n", "name: 12 # x"),
    ] {
        let found = parse(text).unwrap_err();
        assert_eq!(found[0].excerpt.as_deref(), Some(line), "{text:?}");
        assert!(!format!("{}", found[0]).contains(line), "only where it is asked for");
    }
    let found = parse(b"---\nname: demo\ndescription: d\n---\nb\xffdy\n").unwrap_err();
    assert_eq!(found[0].excerpt.as_deref(), Some("b\u{fffd}dy"));
    let long = "x".repeat(10_000);
    let found = parse(format!("---\nname: demo\ndescription: *{long}\n---\n")).unwrap_err();
    assert_eq!(found[0].excerpt.as_deref(), Some(format!("description: *{long}").as_str()));
}
