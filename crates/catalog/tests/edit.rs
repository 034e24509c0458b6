//! Edits of a front matter: what changes, what stays, and what is refused.

use proptest::prelude::*;
use skillfreeze_catalog::{Edit, EditError, ParseOptions, Value, edit_front_matter, front_matter_value};

fn set<'a>(key: &'a str, text: &'a str) -> Edit<'a> {
    Edit::Set { key, text }
}

fn remove(key: &str) -> Edit<'_> {
    Edit::Remove { key }
}

fn edited(text: &str, edits: &[Edit<'_>]) -> Result<String, EditError> {
    edit_front_matter(text.as_bytes(), edits).map(|bytes| String::from_utf8(bytes).expect("UTF-8"))
}

#[test]
fn only_the_named_lines_change() {
    for (before, edit, after) in [
        // Scalars of one line keep what is around them.
        ("name: a\nk: b\n", set("name", "c"), "name: c\nk: b\n"),
        ("name:   a  # d: e\nk: b\n", set("name", "c"), "name:   c  # d: e\nk: b\n"),
        ("'name' : \"a\"\n", set("name", "c"), "'name' : c\n"),
        ("k:\nl: x\n", set("k", "c"), "k: c\nl: x\n"),
        ("k: # d\nl: x\n", set("k", "c"), "k: c # d\nl: x\n"),
        ("k: ~\n", set("k", "c"), "k: c\n"),
        ("k: a\r\nl: b\n", set("k", "c"), "k: c\r\nl: b\n"),
        // Values of several lines go with all of them.
        ("k: |\n  a\n  # b\n\n\n# c\nl: x\n", set("k", "c"), "k: c\n\n\n# c\nl: x\n"),
        ("k: >- # d\n  a\n\nl: x\n", set("k", "c"), "k: c\n\nl: x\n"),
        ("k: a\n  b\n  c\nl: x\n", set("k", "c"), "k: c\nl: x\n"),
        ("k: 'a\n  # b'\nl: x\n", set("k", "c"), "k: c\nl: x\n"),
        ("k:\n  a: b\n  # d\n  c:\n  - d\n# e\n\nl: x\n", set("k", "c"), "k: c\n# e\n\nl: x\n"),
        ("k:\n- a\n# b\n- c\nl: x\n", set("k", "c"), "k: c\nl: x\n"),
        ("k: [a,\n  b] # d\nl: x\n", set("k", "c"), "k: c\nl: x\n"),
        ("k: {a: b}\nl: x\n", set("k", "c"), "k: c\nl: x\n"),
        ("l: x\nk:\r\n  a: b\r\n", set("k", "c"), "l: x\nk: c\r\n"),
        ("k: |\n  a\n...\n", set("k", "c"), "k: c\n...\n"),
        ("  k:\n    a: b\n  # d\n  l: x\n", set("k", "c"), "  k: c\n  # d\n  l: x\n"),
        // New keys go last.
        ("k: a\n# b\n\n", set("l", "c"), "k: a\n# b\n\nl: c\n"),
        ("  k: |\n    a\n", set("l", "c"), "  k: |\n    a\n  l: c\n"),
        ("# nothing\n", set("l", "c"), "# nothing\nl: c\n"),
        ("", set("l", "c"), "l: c\n"),
        ("k: a\n", set("a: b", "c"), "k: a\n\"a: b\": c\n"),
        ("k: a\n", set("<<", "c"), "k: a\n\"<<\": c\n"),
        // Away.
        ("k: a # b\n# c\nl: x\n", remove("k"), "# c\nl: x\n"),
        ("l: x\nk:\n  a: b\n\n  # d\n", remove("k"), "l: x\n"),
        ("k: |+\n  a\n\n# b\n", remove("k"), "\n# b\n"),
        ("k: a\r\nl: x\n", remove("k"), "l: x\n"),
        ("k: a\n", remove("l"), "k: a\n"),
        ("k: a\n", remove("k"), ""),
    ] {
        for (mark, body) in [("", "body\r\nk: a\n"), ("\u{feff}", "")] {
            let around = |block: &str| format!("{mark}---\n{block}--- \n{body}");
            assert_eq!(edited(&around(before), &[edit]).as_deref(), Ok(around(after).as_str()), "{before:?}");
        }
    }
    let windows = "---\r\nk: a\r\n---";
    assert_eq!(edited(windows, &[set("l", "c")]).unwrap(), "---\r\nk: a\r\nl: c\r\n---");
    let both = edited("---\na: 1\nb: 2\n---\n", &[remove("a"), set("c", "3"), set("b", "4")]);
    assert_eq!(both.unwrap(), "---\nb: 4\nc: 3\n---\n");
    assert_eq!(edited("---\na: 1\n---\n", &[]).unwrap(), "---\na: 1\n---\n");
}

#[test]
fn texts_are_written_so_that_they_read_back() {
    for (key, text, written) in [
        ("k", "a b", "a b"),
        ("k", "it's#1, {x}", "it's#1, {x}"),
        ("k", "a: b", "\"a: b\""),
        ("k", "a:", "\"a:\""),
        ("k", "a # b", "\"a # b\""),
        ("k", "", "\"\""),
        ("k", " a", "\" a\""),
        ("k", "~", "\"~\""),
        ("k", "null", "\"null\""),
        ("k", "- a", "\"- a\""),
        ("k", "[a]", "\"[a]\""),
        ("k", "*a", "\"*a\""),
        ("k", "!a", "\"!a\""),
        ("k", "a\nb: c", "\"a\\nb: c\""),
        ("k", "\"\\\t", "\"\\\"\\\\\\t\""),
        ("k", "a\u{2028}b\u{feff}", "\"a\\u2028b\\ufeff\""),
        ("version", "1.10", "1.10"),
        ("user-invocable", "false", "false"),
        ("name", "123", "\"123\""),
        ("description", "true", "\"true\""),
        ("description", "yes", "yes"),
    ] {
        let expected = format!("---\nx: y\n{key}: {written}\n---\n");
        assert_eq!(edited("---\nx: y\n---\n", &[set(key, text)]), Ok(expected), "{text:?}");
    }
}

#[test]
fn what_cannot_be_edited_is_an_error() {
    let long = "x".repeat(70_000);
    for (text, edits, code) in [
        ("name: a\n", &[set("k", "c")][..], "edit-unreadable"),
        ("---\nname: a\n", &[set("k", "c")], "edit-unreadable"),
        ("---\nname: [\n---\n", &[set("k", "c")], "edit-unreadable"),
        ("---\nname: a: b\n---\n", &[set("name", "c")], "edit-unreadable"),
        ("---\nk: a\n'k': b\n---\n", &[set("k", "c")], "edit-unreadable"),
        ("---\n{k: a}\n---\n", &[set("k", "c")], "edit-not-lines"),
        ("---\n- k\n---\n", &[remove("k")], "edit-not-lines"),
        ("---\ntext\n---\n", &[set("k", "c")], "edit-not-lines"),
        ("---\n? k\n: a\n---\n", &[set("k", "c")], "edit-notation"),
        ("---\n? k\n---\n", &[remove("k")], "edit-notation"),
        ("---\nk: a\n---\n", &[set("k", "c"), remove("k")], "edit-twice"),
        ("---\nk: a\n---\n", &[set("k", "a\u{1b}b")], "edit-unwritable"),
        ("---\nk: a\n...\n---\n", &[set("l", "c")], "edit-unwritable"),
        // The blank line would become one of the value above it.
        ("---\nk: |+\n  a\nl: b\n\nm: c\n---\n", &[remove("l")], "edit-entangled"),
        ("---\nk: a\n---\n", &[set("k", long.as_str())], "edit-unwritable"),
    ] {
        let error = edited(text, edits).unwrap_err();
        assert_eq!(error.code(), code, "{text:?}: {error}");
        if let EditError::Unreadable { diagnostics } | EditError::Unwritable { diagnostics, .. } = error {
            assert!(!diagnostics.is_empty(), "{text:?}");
        }
    }
}

/// An entry's lines behind its key, and the lines up to the next key.
fn entry() -> impl Strategy<Value = (String, String)> {
    let value = prop_oneof![
        "[a-z é]{0,6}".prop_map(|text| format!(": x{text}")),
        Just(":".to_owned()),
        Just(": 'it''s: # x'".to_owned()),
        Just(": |\n  a: b\n\n  # c".to_owned()),
        Just(": >\n  a\n  b".to_owned()),
        Just(": a\n  b".to_owned()),
        Just(":\n  a: b\n  # c\n  d: [e, {f: g}]".to_owned()),
        Just(":\n- a\n# b\n- c: d".to_owned()),
        Just(": [a,\n b]".to_owned()),
    ];
    (value, prop_oneof![Just("\n"), Just("\n\n"), Just("\n# k0: x\n"), Just("\n\n#\n\n")])
        .prop_map(|(value, rest)| (value, rest.to_owned()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// All bytes but those of the key stay, and the text reads back.
    #[test]
    fn all_other_bytes_stay(
        entries in proptest::collection::vec(entry(), 1..6),
        at in any::<prop::sample::Index>(),
        text in "([a-z :#'\"\\\\\n\t~{}\\[\\],&*!|>%@`é\u{feff}-]|true|1\\.0){0,8}",
        mark in prop_oneof![Just(""), Just("\u{feff}")],
        is_crlf in any::<bool>(),
        body in ".{0,10}",
    ) {
        let at = at.index(entries.len());
        let fold = |text: String| if is_crlf { text.replace('\n', "\r\n") } else { text };
        let chunk = |index: usize| format!("k{index}{}{}", entries[index].0, entries[index].1);
        let part = |range: std::ops::Range<usize>| fold(range.map(chunk).collect());
        let head = format!("{mark}{}{}", fold("---\n".to_owned()), part(0..at));
        let tail = format!("{}{}{body}", part(at + 1..entries.len()), fold("---\n".to_owned()));
        let whole = format!("{head}{}{tail}", fold(chunk(at)));
        let key = format!("k{at}");
        let rest = fold(entries[at].1.clone());

        let changed = edited(&whole, &[set(&key, &text)]).unwrap();
        prop_assert!(changed.starts_with(&format!("{head}{key}:")), "{:?}", changed);
        prop_assert!(changed.ends_with(&format!("{rest}{tail}")), "{:?}", changed);
        let written = &changed[head.len()..changed.len() - rest.len() - tail.len()];
        prop_assert!(!written.contains('\n'), "{:?}", written);
        let value = front_matter_value(changed.as_bytes(), &ParseOptions::default()).unwrap();
        prop_assert_eq!(value.get(&key).and_then(Value::as_text), Some(text.as_str()));

        let end = if is_crlf { "\r\n" } else { "\n" };
        let without = edited(&whole, &[remove(&key)]).unwrap();
        prop_assert_eq!(without, format!("{head}{}{tail}", &rest[end.len()..]));

        let added = edited(&whole, &[set("new", &text)]).unwrap();
        let before = whole.strip_suffix(&format!("{}{body}", fold("---\n".to_owned()))).unwrap();
        prop_assert!(added.starts_with(&format!("{before}new: ")), "{:?}", added);
    }
}
