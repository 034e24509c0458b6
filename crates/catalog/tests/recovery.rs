//! Values that hold `: ` without quotes: what is recovered, and what never is.

use proptest::prelude::*;
use skillfreeze_catalog::{FrontMatter, ParseOptions, Value, front_matter_value, parse_front_matter};
use skillfreeze_manifest::{Diagnostic, Severity};

fn parse(text: &str, strict: bool) -> Result<FrontMatter, Vec<Diagnostic>> {
    parse_front_matter(text.as_bytes(), &ParseOptions { strict, ..ParseOptions::of("demo") })
}

fn value(text: &str) -> Option<Value> {
    front_matter_value(text.as_bytes(), &ParseOptions::default()).ok()
}

/// The `line:column` of each finding with this code.
fn places(diagnostics: &[Diagnostic], code: &str) -> Vec<String> {
    let found = diagnostics.iter().filter(|diagnostic| diagnostic.code == code);
    found.filter_map(|found| Some(format!("{}:{}", found.line?, found.column?))).collect()
}

#[test]
fn what_was_meant_as_text_is_text() {
    let long = "é".repeat(2000);
    let cases: &[(&str, &str, &[&str])] = &[
        ("description: Use when: foo\n", "Use when: foo", &["3:22"]),
        ("description: Use when: foo\r\n", "Use when: foo", &["3:22"]),
        ("description: é: é: b\n", "é: é: b", &["3:15"]),
        ("description: For this:\n", "For this:", &["3:22"]),
        ("description: a : b\n", "a : b", &["3:16"]),
        ("description: it's: \"a\" \\n b\n", "it's: \"a\" \\n b", &["3:18"]),
        ("description: a: 'b' # c: d\n", "a: 'b'", &["3:15"]),
        ("description: a: b#c\n", "a: b#c", &["3:15"]),
        ("description: a: [b, {c\n", "a: [b, {c", &["3:15"]),
        ("description: a\n  b: c\n", "a b: c", &["4:4"]),
        ("description: a: b\r\n  c: d\r\n\r\n  e\r\n\r\n", "a: b c: d\ne", &["3:15"]),
        ("description:\n  a\n  b: c # d\n", "a b: c", &["5:4"]),
        ("description: a: | \n", "a: |", &["3:15"]),
        ("description: a: \u{a0}b\u{a0}\n", "a: \u{a0}b\u{a0}", &["3:15"]),
        ("description: a: b\n# c: d: e\nlicense: f: g\n", "a: b", &["3:15", "5:11"]),
        ("description: a: b\nwhen_to_use: c: d\ntags: [e: f]\n", "a: b", &["3:15", "4:15"]),
    ];
    for (lines, description, colons) in cases {
        for (mark, end) in [("", "\n"), ("\u{feff}", "\n"), ("", "\r\n")] {
            let text =
                format!("{mark}---{end}name: demo{end}{lines}allowed-tools: Read{end}---{end}body: a: b\n");
            let front_matter = parse(&text, false).expect(&text);
            assert_eq!(front_matter.description, *description, "{text:?}");
            assert_eq!(front_matter.allowed_tools, ["Read"], "{text:?}");
            assert_eq!(places(&front_matter.diagnostics, "fm-recovered"), *colons, "{text:?}");
            for found in front_matter.diagnostics.iter().filter(|found| found.code == "fm-recovered") {
                assert_eq!(found.severity, Severity::Warning);
                assert!(found.hint.as_ref().unwrap().starts_with("quote the value or use `>-`"));
                let line = text.lines().nth(found.line.unwrap() - 1).unwrap();
                assert_eq!(found.excerpt.as_deref(), Some(line));
            }

            let faults = parse(&text, true).unwrap_err();
            assert_eq!(places(&faults, "fm-yaml"), colons[..1], "{text:?}");
            assert_eq!(faults[0].severity, Severity::Error);
            assert_eq!(faults.len(), 1, "{faults:?}");
        }
    }
    let front_matter = parse(&format!("---\nname: demo\ndescription: {long}: {long}\n---\n"), false).unwrap();
    assert_eq!(front_matter.description, format!("{long}: {long}"));
    assert_eq!(places(&front_matter.diagnostics, "fm-recovered"), ["3:2014"]);
}

#[test]
fn any_other_error_stays_one() {
    for (lines, faults, recovered) in [
        ("metadata:\n  a: b: c\n", &["4:7"][..], &[][..]),
        ("metadata:\n  - a: b: c\n", &["4:9"], &[]),
        ("metadata: {a: b: c}\n", &["3:16"], &[]),
        ("description: \"a\": b\n", &["3:17"], &[]),
        ("description: 'a': b\n", &["3:17"], &[]),
        ("description: [a]: b\n", &["3:17"], &[]),
        ("description: a: b\n\tc\n", &["4:2"], &["3:15"]),
        ("description: a: b\nfoo\n", &["4:1"], &["3:15"]),
        ("description: a: b # c\n  d: e\n", &["4:3"], &["3:15"]),
        ("description: a: b\nmetadata:\n  c: d: e\n", &["5:7"], &["3:15"]),
        ("description: a: b\nmetadata: [c\n", &["4:11"], &["3:15"]),
    ] {
        let text = format!("---\nname: demo\n{lines}---\n");
        let found = parse(&text, false).unwrap_err();
        assert_eq!(places(&found, "fm-yaml"), faults, "{text:?} {found:?}");
        assert_eq!(places(&found, "fm-recovered"), recovered, "{text:?}");
        assert_eq!(
            found.len(),
            faults.len() + recovered.len(),
            "no other is left to be looked at: {found:?}"
        );
        assert_eq!(value(&text), None);
    }
    // What is refused for another reason is not looked at for colons.
    for (lines, code) in [
        ("description: &a b: c\n", "fm-yaml-feature"),
        ("description: a: b\nlicense: *c\n", "fm-yaml-feature"),
        ("description: a: b\ndescription: c\n", "fm-dup-key"),
        ("description: a: b\nmetadata:\n  c: 1\n  c: 2\n", "fm-dup-key"),
    ] {
        let found = parse(&format!("---\nname: demo\n{lines}---\n"), false).unwrap_err();
        assert!(found.iter().any(|found| found.code == code), "{lines:?}: {found:?}");
    }
}

/// Places behind a recovered value are those of the file, not of the text with quotes.
#[test]
fn later_places_are_those_of_the_file() {
    let text = "---\nname: demo\ndescription: it's: it's\n  it's: x # y\nmetadata:\n  k: 1\n  k: 2\n---\n";
    let found = parse(text, false).unwrap_err();
    assert_eq!(places(&found, "fm-dup-key"), ["7:3"]);
    assert!(found.iter().any(|found| found.message.contains("first at 6:3")), "{found:?}");
    let text = "---\nname: demo\ndescription: a: 'b'\nfuture: c: d # e\nmetadata: {x: [y]}\n---\n";
    let found = parse(text, false).unwrap().diagnostics;
    assert_eq!(places(&found, "unknown-key"), ["4:1"]);
    assert_eq!(places(&found, "metadata-not-string"), ["5:15"]);
    let text = "---\nname: demo\ndescription: d\ntags: a: b\npermissions: c: d\n---\n";
    assert_eq!(places(&parse(text, false).unwrap_err(), "fm-type"), ["5:14"]);
}

/// The body is not taken for keys where the closing fence was forgotten.
#[test]
fn prose_is_not_recovered() {
    let body = "\n# Title\n\nsome: text: here\n\n---\n";
    for before in ["", "tags: a: b\n"] {
        let found = parse(&format!("---\nname: demo\ndescription: d\n{before}{body}"), false).unwrap_err();
        assert_eq!(places(&found, "fm-yaml").len(), 1);
        assert!(found.iter().any(|found| found.message.contains("no fence before line")), "{found:?}");
    }
    let found = parse(&format!("---\nname: demo\n{body}"), false).unwrap_err();
    assert_eq!(places(&found, "fm-yaml"), [""; 0], "without a description it is no whole front matter");
}

/// As many values as there may be keys cost no more than reading them a few times.
#[test]
fn many_values_are_recovered() {
    let lines: String = (0..1000).map(|key| format!("k{key}: a: b\n")).collect();
    let front_matter = parse(&format!("---\nname: demo\ndescription: d\n{lines}---\n"), false).unwrap();
    assert_eq!(front_matter.other.len(), 1000);
    assert_eq!(places(&front_matter.diagnostics, "fm-recovered").len(), 1000);
    let lines: String = (0..2000).map(|key| format!("k{key}: a: b\n")).collect();
    let found = parse(&format!("---\nname: demo\ndescription: d\n{lines}---\n"), false).unwrap_err();
    assert_eq!(places(&found, "fm-too-large").len(), 1);
}

fn entry() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z é'\"#]{0,8}".prop_map(|text| format!(": x{text}\n")),
        "[a-z é]{0,4}\n  [a-z]{1,4}\n\n   [a-z']{1,4}".prop_map(|text| format!(": x{text}\n")),
        "[a-z'é:# ]{1,6}".prop_map(|text| format!(": \"{text}\"\n")),
        Just(": |\n  a: b: c\n\n  # d\n".to_owned()),
        Just(":\n  a: b\n  c: [d, {e: f}]\n".to_owned()),
        Just(":\n- a\n- b: c\n".to_owned()),
        Just(":\n# a comment: b\n".to_owned()),
        Just(": x # a: b\n".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Quoting a value neither loses nor changes another one.
    #[test]
    fn other_keys_stay(
        entries in proptest::collection::vec(entry(), 1..6),
        stray in "x[a-z'\"é#,\\[]{0,6}:( [a-z:'\"é\\\\]{0,6})?(\n  [a-z]{1,4}(: [a-z'])?)?( # [a-z]{1,4}: x)?",
        at in any::<prop::sample::Index>(),
        is_crlf in any::<bool>(),
    ) {
        let at = at.index(entries.len() + 1);
        let with = |value: Option<&str>| -> String {
            let mut text = "---\n".to_owned();
            for (key, entry) in entries.iter().enumerate() {
                if let Some(value) = value.filter(|_| key == at) {
                    text.push_str(&format!("stray: {value}\n"));
                }
                text.push_str(&format!("k{key}{entry}"));
            }
            if let Some(value) = value.filter(|_| at == entries.len()) {
                text.push_str(&format!("stray: {value}\n"));
            }
            text.push_str("---\n");
            if is_crlf { text.replace('\n', "\r\n") } else { text }
        };
        let (Some(before), Some(after)) = (value(&with(None)), value(&with(Some(&stray)))) else {
            // Without the stray value it may be no YAML either; recovery has nothing to say then.
            prop_assert!(value(&with(None)).is_none(), "not recovered: {:?}", with(Some(&stray)));
            return Ok(());
        };
        let Value::Mapping(mut after) = after else { panic!("a mapping") };
        let (key, text) = after.remove(at);
        prop_assert_eq!(Value::Mapping(after), before);
        prop_assert_eq!(key, "stray");
        // Lines are folded into one, and a comment is none of it.
        let lines: Vec<&str> =
            stray.lines().map(|line| line.split(" #").next().unwrap_or_default().trim()).collect();
        let expected = lines.join(" ");
        prop_assert_eq!(text.as_text(), Some(expected.trim_end()));
    }
}
