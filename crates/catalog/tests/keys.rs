//! The keys that a front matter may have, beyond name and description; and strict parsing.

use skillfreeze_catalog::{
    COMPATIBILITY_CHARS, FrontMatter, ParseOptions, Permissions, Value, front_matter_value,
    parse_front_matter,
};
use skillfreeze_manifest::{Diagnostic, Severity};

fn parse(lines: &str, strict: bool) -> Result<FrontMatter, Vec<Diagnostic>> {
    let text = format!("---\nname: demo\ndescription: d\n{lines}---\nbody\n");
    parse_front_matter(text.as_bytes(), &ParseOptions { strict, ..ParseOptions::of("demo") })
}

fn valid(lines: &str) -> FrontMatter {
    parse(lines, false).expect(lines)
}

/// `code line:column` of each finding of a severity.
fn brief(diagnostics: &[Diagnostic], severity: Severity) -> Vec<String> {
    let found = diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity);
    found
        .map(|found| match (found.line, found.column) {
            (Some(line), Some(column)) => format!("{} {line}:{column}", found.code),
            _ => found.code.to_owned(),
        })
        .collect()
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn tags_and_tools() {
    for (lines, tags) in [
        ("", &[][..]),
        ("tags:\n", &[]),
        ("tags: []\n", &[]),
        ("tags: [a, b c, '1', 2024, 1.10]\n", &["a", "b c", "1", "2024", "1.10"]),
        ("tags:\n- a\n- \" b \"\n", &["a", "b"]),
        ("tags: a, b c,,d\n", &["a", "b c", "d"]),
        ("tags: one\n", &["one"]),
    ] {
        assert_eq!(valid(lines).tags, tags, "{lines:?}");
    }
    for (lines, tools, infos) in [
        ("", &[][..], &["version-missing"][..]),
        ("allowed-tools:\n", &[], &["version-missing"]),
        ("allowed-tools: Bash(git diff:*) Read\n", &["Bash(git diff:*)", "Read"], &["version-missing"]),
        ("allowed-tools: Read, Write\n", &["Read", "Write"], &["allowed-tools-form 4:16", "version-missing"]),
        ("allowed-tools: Bash(a, b)\n", &["Bash(a, b)"], &["version-missing"]),
        (
            "allowed-tools:\n  - Bash(git diff:*)\n  - Read\n",
            &["Bash(git diff:*)", "Read"],
            &["allowed-tools-form 5:3", "version-missing"],
        ),
    ] {
        let front_matter = valid(lines);
        assert_eq!(front_matter.allowed_tools, tools, "{lines:?}");
        assert_eq!(brief(&front_matter.diagnostics, Severity::Info), infos, "{lines:?}");
    }
}

#[test]
fn switches_are_true_or_false() {
    for (lines, disabled, invocable) in [
        ("", false, true),
        ("disable-model-invocation: true\nuser-invocable: false\n", true, false),
        ("disable-model-invocation: false\nuser-invocable: true\n", false, true),
    ] {
        let front_matter = valid(lines);
        assert_eq!(front_matter.disable_model_invocation, disabled, "{lines:?}");
        assert_eq!(front_matter.user_invocable, invocable, "{lines:?}");
        assert_eq!(brief(&front_matter.diagnostics, Severity::Warning), [""; 0]);
    }
    for value in
        ["yes", "no", "on", "1", "\"true\"", "'false'", "True", "TRUE", "~", "", "[true]", "{}", "truely"]
    {
        for key in ["disable-model-invocation", "user-invocable"] {
            let found = parse(&format!("{key}: {value}\n"), false).unwrap_err();
            assert_eq!(found.iter().filter(|found| found.code == "fm-type").count(), 1, "{key}: {value}");
            assert!(found.iter().any(|found| found.message.starts_with(key)));
        }
    }
}

#[test]
fn old_keys_are_refused_with_their_new_names() {
    for (lines, place, new) in [
        ("invocable: true\n", "key-renamed 4:1", "`user-invocable`"),
        ("\"mode\": auto\n", "key-renamed 4:1", "`disable-model-invocation`"),
        ("user-invocable: true\ninvocable: [x]\n", "key-renamed 5:1", "`user-invocable`"),
    ] {
        for strict in [false, true] {
            let found = parse(lines, strict).unwrap_err();
            assert!(brief(&found, Severity::Error).contains(&place.to_owned()), "{lines:?}: {found:?}");
            let hint = found.iter().find(|found| found.code == "key-renamed").unwrap().hint.clone().unwrap();
            assert!(hint.contains(new), "{hint}");
        }
    }
    assert_eq!(brief(&valid("metadata:\n  mode: x\n").diagnostics, Severity::Warning), [""; 0]);
}

#[test]
fn what_is_not_understood_is_kept() {
    let front_matter = valid(
        "requirements: {python: 3.10, bins: [jq, 'yes']}\ncapabilities: [a, no]\norigin: 010\nfuture: {a: [~, {}]}\n\
         empty:\nmetadata: {x: {bins: [1.10]}, y: no}\n",
    );
    let requirements = front_matter.requirements.unwrap();
    assert_eq!(requirements.get("python"), Some(&text("3.10")));
    assert_eq!(requirements.get("bins"), Some(&Value::Sequence(vec![text("jq"), text("yes")])));
    assert_eq!(front_matter.capabilities, Some(Value::Sequence(vec![text("a"), text("no")])));
    assert_eq!(front_matter.origin, Some(text("010")));
    assert_eq!(
        serde_json::to_string(&front_matter.other).unwrap(),
        r#"{"empty":"","future":{"a":["~",{}]}}"#
    );
    let metadata = serde_json::to_string(&front_matter.metadata).unwrap();
    assert_eq!(metadata, r#"{"x":{"bins":["1.10"]},"y":"no"}"#);
    assert_eq!(
        brief(&front_matter.diagnostics, Severity::Warning),
        ["unknown-key 7:1", "unknown-key 8:1", "metadata-not-string 9:15"]
    );
    let bytes = b"---\nb: 1.10\na:\n- {}\n- \"\\n\"\n---\n";
    let value = front_matter_value(bytes, &ParseOptions::default()).unwrap();
    assert_eq!(serde_json::to_string(&value).unwrap(), r#"{"b":"1.10","a":[{},"\n"]}"#);
    let nothing = front_matter_value(b"---\n---\n", &ParseOptions::default()).unwrap();
    assert_eq!(nothing, text(""));
    let faults = front_matter_value(b"---\na: [\n---\n", &ParseOptions::default()).unwrap_err();
    assert_eq!(brief(&faults, Severity::Error), ["fm-yaml 2:4"]);
}

#[test]
fn permissions_are_understood_or_refused() {
    let json = |permissions: &Option<Permissions>| serde_json::to_string(permissions).unwrap();
    for (lines, expected, warnings) in [
        ("", "null", &[][..]),
        ("permissions:\n", "null", &["permissions-null 4:12"]),
        ("permissions: {}\n", "{}", &[]),
        (
            "permissions:\n  filesystem: none\n  web: none\n  tools: []\n",
            r#"{"filesystem":"none","web":"none","tools":[]}"#,
            &[],
        ),
        (
            "permissions: {filesystem: read, web: optional}\n",
            r#"{"filesystem":"read","web":"optional"}"#,
            &[],
        ),
        (
            "permissions: {filesystem: 'write', web: \"required\"}\n",
            r#"{"filesystem":"write","web":"required"}"#,
            &[],
        ),
        ("permissions: {tools: [Bash(git:*), Read]}\n", r#"{"tools":["Bash(git:*)","Read"]}"#, &[]),
        ("permissions: {tools: 'Bash(a b), Read'}\n", r#"{"tools":["Bash(a b)","Read"]}"#, &[]),
        ("permissions: {network: none}\n", "{}", &["permission-unknown 4:15"]),
    ] {
        let front_matter = valid(lines);
        assert_eq!(json(&front_matter.permissions), expected, "{lines:?}");
        assert_eq!(brief(&front_matter.diagnostics, Severity::Warning), warnings, "{lines:?}");
    }
    for (lines, expected) in [
        ("permissions: all\n", "fm-type 4:14"),
        ("permissions: [web]\n", "fm-type 4:14"),
        ("permissions: {filesystem: full}\n", "permission-invalid 4:27"),
        ("permissions: {filesystem: Read}\n", "permission-invalid 4:27"),
        ("permissions: {filesystem: ~}\n", "permission-invalid 4:27"),
        ("permissions: {filesystem: [read]}\n", "permission-invalid 4:27"),
        ("permissions: {web: true}\n", "permission-invalid 4:20"),
        ("permissions: {web: no}\n", "permission-invalid 4:20"),
        ("permissions: {web:}\n", "permission-invalid 4:18"),
        ("permissions: {tools: {a: b}}\n", "permission-invalid 4:22"),
        ("permissions: {tools: [a, [b]]}\n", "permission-invalid 4:22"),
        ("permissions: {tools: [1]}\n", "permission-invalid 4:22"),
        ("permissions: {tools: ~}\n", "permission-invalid 4:22"),
        ("permissions: {tools: 'Bash(a'}\n", "permission-invalid 4:22"),
    ] {
        let found = parse(lines, false).unwrap_err();
        assert_eq!(brief(&found, Severity::Error), [expected], "{lines:?}");
    }
}

/// What only describes a package is warned of, what lets it do things is refused; strictly, all is.
#[test]
fn types() {
    for (lines, place) in [
        ("license: [a]\n", "fm-type 4:10"),
        ("compatibility: {a: b}\n", "fm-type 4:16"),
        ("tags: {a: b}\n", "fm-type 4:7"),
        ("tags: [[a]]\n", "fm-type 4:7"),
        ("tags: [~]\n", "fm-type 4:7"),
    ] {
        let front_matter = valid(lines);
        assert_eq!(brief(&front_matter.diagnostics, Severity::Warning), [place], "{lines:?}");
        assert!(brief(&parse(lines, true).unwrap_err(), Severity::Error).contains(&place.to_owned()));
    }
    for (lines, place) in [
        ("allowed-tools: {a: b}\n", "fm-type 4:16"),
        ("allowed-tools: [a, [b]]\n", "fm-type 4:20"),
        ("allowed-tools: [1]\n", "fm-type 4:17"),
        ("metadata: text\n", "fm-type 4:11"),
    ] {
        assert_eq!(brief(&parse(lines, false).unwrap_err(), Severity::Error), [place], "{lines:?}");
    }
}

/// Each rule of the specification: said otherwise, refused strictly, by the same code.
#[test]
fn the_specification_to_the_letter() {
    let just = format!("compatibility: {}\n", "é".repeat(COMPATIBILITY_CHARS));
    for lines in [
        "",
        "license: MIT\nallowed-tools: Bash(git:*) Bash(jq:*) Read\nmetadata:\n  author: a\n  version: \"1.0\"\n",
        "metadata: {version: 1.10, flag: no}\n",
        just.as_str(),
    ] {
        parse(lines, true).expect(lines);
    }
    let long = format!("compatibility: {}\n", "é".repeat(COMPATIBILITY_CHARS + 1));
    for (lines, place) in [
        ("id: demo\n", "unknown-key 4:1"),
        ("version: 1.0.0\n", "unknown-key 4:1"),
        ("tags: [a]\n", "unknown-key 4:1"),
        ("permissions: {web: none}\n", "unknown-key 4:1"),
        ("user-invocable: true\n", "unknown-key 4:1"),
        ("future: x\n", "unknown-key 4:1"),
        ("compatibility: \"\"\n", "compatibility-empty 4:16"),
        ("compatibility:\n", "compatibility-empty 4:14"),
        (long.as_str(), "compatibility-too-long 4:16"),
        ("metadata:\n", "metadata-null 4:9"),
        ("metadata: {a: [b]}\n", "metadata-not-string 4:15"),
        ("allowed-tools: Read, Write\n", "allowed-tools-form 4:16"),
        ("allowed-tools: [Read]\n", "allowed-tools-form 4:16"),
        ("allowed-tools: Bash(git\n", "allowed-tools-invalid 4:16"),
    ] {
        valid(lines);
        assert_eq!(brief(&parse(lines, true).unwrap_err(), Severity::Error), [place], "{lines:?}");
    }
    for (head, directory, places) in [
        ("name: other\ndescription: d\n", "demo", &["name-dir-mismatch 2:7"][..]),
        ("name: demo_1\ndescription: d\n", "demo_1", &["name-underscore 2:7"]),
        ("name: Demo tools\nid: demo\ndescription: d\n", "demo", &["name-invalid 2:7", "unknown-key 3:1"]),
        ("name: other\nid: demo\ndescription: d\n", "demo", &["name-dir-mismatch 2:7", "unknown-key 3:1"]),
        ("name: demo\ndescription: \"\"\n", "demo", &["desc-empty 3:14"]),
    ] {
        let text = format!("---\n{head}---\n");
        let options = ParseOptions { strict: true, ..ParseOptions::of(directory) };
        let found = parse_front_matter(text.as_bytes(), &options).unwrap_err();
        assert_eq!(brief(&found, Severity::Error), places, "{head:?}");
    }
    let text = format!("---\nname: demo\ndescription: {}\n---\n", "é".repeat(1025));
    let strict = ParseOptions { strict: true, ..ParseOptions::default() };
    assert_eq!(
        brief(&parse_front_matter(text.as_bytes(), &strict).unwrap_err(), Severity::Error),
        ["desc-too-long 3:14"]
    );
    // What is no rule of the specification is not refused strictly.
    let text =
        format!("---\nname: demo\ndescription: d\nmetadata: {{version: é}}\n---\n{}", "x".repeat(70_000));
    let found = parse_front_matter(text.as_bytes(), &strict).unwrap().diagnostics;
    assert_eq!(brief(&found, Severity::Warning), ["version-invalid 4:21", "skill-md-large"]);
}
