//! What is refused: by what is said, by whom, and by how it is written.

use proptest::prelude::*;
use skillfreeze_catalog::{CONVENTIONAL_IDS, ConfigError, MAX_CONFIG_BYTES};

use crate::support::{FILES, merge, merge_bytes, refused, source};

/// Each has its place, the key, and who may say it.
#[test]
fn what_it_may_not_say() {
    let user = "the user's or the system's configuration alone to say";
    let system = "the system's configuration alone to say";
    let in_source = |line: &str| source(&format!("root = \"r\"\n{line}"));
    for (name, text, text_of_error) in [
        ("project", "approval = \"none\"".into(), format!("/p/f.toml:1:12: `approval` is for {user}")),
        ("project", "approval = \"required\"".into(), format!("/p/f.toml:1:12: `approval` is for {user}")),
        (
            "project",
            "conflicts = \"first\"".into(),
            format!("/p/f.toml:1:13: `conflicts` other than `error` is for {user}"),
        ),
        (
            "project",
            "\nconflicts = \"last\"".into(),
            format!("/p/f.toml:2:13: `conflicts` other than `error` is for {user}"),
        ),
        ("project", "\n[limits]\nfiles = 1".into(), format!("/p/f.toml:2:1: `limits` is for {user}")),
        ("project", "[limits]".into(), format!("/p/f.toml:1:1: `limits` is for {user}")),
        ("project", "limits.depth = 1".into(), format!("/p/f.toml:1:1: `limits` is for {user}")),
        ("project", "limits = {}".into(), format!("/p/f.toml:1:10: `limits` is for {user}")),
        (
            "project",
            source("root = \"/p/r\""),
            format!("/p/f.toml:3:8: an absolute `source.root` is for {user}"),
        ),
        (
            "project",
            in_source("rank = 199"),
            format!("/p/f.toml:4:8: a `source.rank` below 200 or above 499 is for {user}"),
        ),
        (
            "project",
            in_source("rank = 500"),
            format!("/p/f.toml:4:8: a `source.rank` below 200 or above 499 is for {user}"),
        ),
        (
            "project",
            in_source("links = \"allow\""),
            format!("/p/f.toml:4:9: `source.links = \"allow\"` is for {user}"),
        ),
        (
            "project",
            in_source("link_roots = []"),
            format!("/p/f.toml:4:14: `source.link_roots` is for {user}"),
        ),
        (
            "project",
            in_source("reserved = true"),
            format!("/p/f.toml:4:12: `source.reserved` is for {system}"),
        ),
        (
            "project",
            in_source("reserved = false"),
            format!("/p/f.toml:4:12: `source.reserved` is for {system}"),
        ),
        (
            "user",
            source("root = \"/r\"\nreserved = true"),
            format!("/u.toml:4:12: `source.reserved` is for {system}"),
        ),
        (
            "given",
            source("root = \"/r\"\nreserved = true"),
            format!("/g.toml:4:12: `source.reserved` is for {system}"),
        ),
    ] {
        let text: String = text;
        assert_eq!(refused(&[(name, &text)]), ("config-not-permitted", text_of_error), "{text}");
        // Only whose file it is makes it wrong.
        let trusted = text.replace("\"r\"", "\"/r\"");
        assert!(merge(&[("system", &trusted)]).is_ok(), "{trusted}");
    }
    let error = merge(&[("project", "approval = \"none\"")]).unwrap_err();
    assert!(matches!(error, ConfigError::NotPermitted { key: "approval", .. }), "{error:?}");
    // What is the default anyway can be spelt out.
    for name in ["user", "given", "system"] {
        assert!(merge(&[(name, &source("root = \"/r\"\nreserved = false\nrank = 0"))]).is_ok());
    }
}

#[test]
fn roots_have_one_spelling() {
    for (name, root, cause) in [
        ("user", "", "the path is empty"),
        ("user", "r", "`r` is not absolute"),
        ("given", "./r", "`./r` is not absolute"),
        ("system", "~/r", "`~/r` is not absolute"),
        ("user", "/a/../b", "`/a/../b` has a component `..`"),
        ("user", "/a/./b", "`/a/./b` has a component `.`"),
        ("user", "/a//b", "`/a//b` has a doubled `/`"),
        ("system", "/a/", "`/a/` ends with `/`"),
        ("user", r"/a\u0000", r"`/a\0` has a NUL"),
        ("project", "", "the path is empty"),
        ("project", ".", "`.` has a component `.`"),
        ("project", "..", "`..` has a component `..`"),
        ("project", "../p/r", "`../p/r` has a component `..`"),
        ("project", "r/../../etc", "`r/../../etc` has a component `..`"),
        ("project", "r/", "`r/` ends with `/`"),
        ("project", "a//b", "`a//b` has a doubled `/`"),
    ] {
        let (code, text) = refused(&[(name, &source(&format!("root = \"{root}\"")))]);
        let file = FILES.iter().find(|(known, _)| *known == name).unwrap().1;
        assert_eq!((code, text), ("root-malformed", format!("{file}:3:8: `source.root`: {cause}")));
    }
    let (code, text) = refused(&[("user", &source("root = \"/r\"\nlink_roots = [\"/a\", \"/b/\"]"))]);
    let expected = "/u.toml:4:21: `source.link_roots`: `/b/` ends with `/`";
    assert_eq!((code, text.as_str()), ("root-malformed", expected));
}

#[test]
fn ids_of_sources() {
    let with_id = |id: &str, root: &str| format!("[[source]]\nroot = \"{root}\"\nid = \"{id}\"\n");
    for id in ["a", "0", ".", "a.b_c-d", &"a".repeat(64)] {
        assert_eq!(merge(&[("user", &with_id(id, "/r"))]).unwrap().sources[0].id, id);
    }
    for (id, shown) in
        [("", ""), ("A", "A"), ("a b", "a b"), ("a:b", "a:b"), ("a/b", "a/b"), ("é", "é"), (r"a\n", r"a\n")]
    {
        let text =
            format!("/u.toml:3:6: `{shown}` is no id of a source: 1 to 64 of a-z, 0-9, `.`, `_` and `-`");
        assert_eq!(refused(&[("user", &with_id(id, "/r"))]), ("source-id-invalid", text));
    }
    assert_eq!(refused(&[("user", &with_id(&"a".repeat(65), "/r"))]).0, "source-id-invalid");
    for id in CONVENTIONAL_IDS {
        let text = format!("/s.toml:3:6: the id `{id}` is that of a conventional source");
        assert_eq!(refused(&[("system", &with_id(id, "/r"))]), ("source-id-taken", text));
    }
    // Nothing puts itself in the place of another, neither in one file nor in two.
    let twice = format!("{}{}", with_id("a", "/r"), with_id("a", "/s"));
    let text = "/u.toml:6:6: a source `a` is at /u.toml:3:6 already";
    assert_eq!(refused(&[("user", &twice)]), ("source-twice", text.to_owned()));
    for (first, second, text) in [
        ("given", "project", "/p/f.toml:3:6: a source `a` is at /g.toml:3:6 already"),
        ("project", "user", "/u.toml:3:6: a source `a` is at /p/f.toml:3:6 already"),
        ("user", "system", "/s.toml:3:6: a source `a` is at /u.toml:3:6 already"),
    ] {
        let root = |name| if name == "project" { "r" } else { "/r" };
        let files = [(first, &*with_id("a", root(first))), (second, &*with_id("a", root(second)))];
        assert_eq!(refused(&files), ("source-twice", text.to_owned()));
    }
}

#[test]
fn ids_of_skills() {
    for (ids, column, cause) in [
        (r#""a", "../evil""#, 17, "`../evil` is no id: runs of a-z and 0-9 joined by single `-` or `_`"),
        (r#""A""#, 12, "`A` is no id: runs of a-z and 0-9 joined by single `-` or `_`"),
        (r#""con""#, 12, "`con` is a device name, which no file system that Windows shares can hold"),
    ] {
        let text = format!("/p/f.toml:2:{column}: `skills.enabled`: {cause}");
        let said = format!("[skills]\nenabled = [{ids}]");
        assert_eq!(refused(&[("project", &said)]), ("skill-id-invalid", text));
    }
}

/// As the text of errors is what people work with, all of it is here.
#[test]
fn malformed_text_is_refused_with_its_place() {
    let golden = [
        ("approval = \"nene\"", "1:12: `approval`: unknown variant `nene`, expected `none` or `required`"),
        ("approval = 3", "1:12: `approval`: wanted string or table"),
        (
            "\n\n  aproval = \"required\"",
            "3:3: `aproval`: unknown field `aproval`, expected one of `approval`, `conflicts`, `source`, `skills`, `limits`",
        ),
        (
            "root = \"/x\"",
            "1:1: `root`: unknown field `root`, expected one of `approval`, `conflicts`, `source`, `skills`, `limits`",
        ),
        ("[skills]\nenable = []", "2:1: `skills.enable`: unknown field `enable`, expected `enabled`"),
        ("skills.enabled = \"a\"", "1:18: `skills.enabled`: invalid type: string \"a\", expected a sequence"),
        ("[limits]\nfiles = 0", "2:9: `limits.files`: invalid value: integer `0`, expected a nonzero u64"),
        (
            "[limits]\ndepth = -1",
            "2:9: `limits.depth`: invalid value: integer `-1`, expected a nonzero usize",
        ),
        (
            "[limits]\nwarn_files = 1",
            "2:1: `limits.warn_files`: unknown field `warn_files`, expected one of `files`, `package_bytes`, `file_bytes`, `depth`, `skill_bytes`, `front_matter_bytes`, `packages`",
        ),
        ("[[source]]\nid = \"a\"", "1:1: `source`: missing field `root`"),
        ("[source]\nid = \"a\"", "1:1: `source`: invalid type: map, expected a sequence"),
        (
            "[[source]]\nid = \"é\"\nroot = \"/r\"\nrank = 1.5",
            "4:8: `source.rank`: invalid type: floating point `1.5`, expected u32",
        ),
        (
            "[[source]]\nid = \"a\"\nroot = \"/r\"\nlinks = true",
            "4:9: `source.links`: wanted string or table",
        ),
        (
            "source = [{ id = \"é\", rootz = \"/r\" }]",
            "1:23: `source.rootz`: unknown field `rootz`, expected one of `id`, `root`, `layout`, `depth`, `rank`, `required`, `links`, `link_roots`, `reserved`",
        ),
        // Conflict markers.
        ("approval = \"none\"\n<<<<<<< HEAD\n", "2:9: key with no value, expected `=`"),
        ("=======\n", "1:2: extra `=`, expected nothing"),
        ("\n>>>>>>> theirs\n", "2:9: key with no value, expected `=`"),
        // Duplicates.
        ("approval = \"none\"\napproval = \"none\"", "2:1: duplicate key"),
        ("[limits]\n[limits]", "2:2: duplicate key"),
        ("[[source]]\nid = \"a\"\nid = \"b\"", "3:1: duplicate key"),
        // Cut off.
        ("approval = \"requ", "1:17: invalid basic string, expected `\"`"),
        ("approval =", "1:11: string values must be quoted, expected literal string"),
        ("[[source]", "1:10: unclosed array table, expected `]`"),
        ("# é\n[skills]\nenabled = [\"a\"", "3:15: unclosed array, expected `]`"),
        // Other formats, and rubbish.
        ("{\"approval\": \"none\"}", "1:1: invalid key-value pair, expected key"),
        ("approval: none", "1:11: key with no value, expected `=`"),
        ("approval = \"none\"\0", "1:18: unexpected key or value, expected newline, `#`"),
    ];
    for (text, expected) in golden {
        for name in ["given", "project", "user", "system"] {
            let file = FILES.iter().find(|(known, _)| *known == name).unwrap().1;
            assert_eq!(refused(&[(name, text)]), ("config-invalid", format!("{file}:{expected}")), "{text}");
        }
    }
    // However deep, it is an error and no overflow of the stack.
    let deep = format!("x = {}", "[".repeat(500_000));
    assert_eq!(refused(&[("project", &deep)]).0, "config-invalid");
    let deep = format!("{}x = 1", "x.".repeat(500_000));
    assert_eq!(refused(&[("project", &deep)]).0, "config-invalid");
    // A faulty file is never passed over for another.
    assert_eq!(refused(&[("given", ""), ("user", ""), ("system", "x")]).0, "config-invalid");
}

#[test]
fn text_that_is_none_or_too_much() {
    let error = merge_bytes(&[("user", b"# \xc3\xa9\n# a\xff\n")]).unwrap_err();
    assert_eq!((error.code(), error.to_string().as_str()), ("config-not-utf8", "/u.toml:2:4: not UTF-8"));
    let blank = vec![b'\n'; MAX_CONFIG_BYTES + 1];
    assert!(merge_bytes(&[("project", &blank[1..])]).is_ok());
    let error = merge_bytes(&[("project", &blank)]).unwrap_err();
    let expected = format!("`/p/f.toml` has more than {MAX_CONFIG_BYTES} bytes");
    assert_eq!((error.code(), error.to_string()), ("config-too-large", expected));
    // A mark at the beginning counts for nothing, not for places either.
    assert_eq!(refused(&[("user", "\u{feff}x = 1")]).1[..13], *"/u.toml:1:1: ");
}

proptest! {
    /// Each text has an answer, and a refusal has a place in its file.
    #[test]
    fn any_text_has_an_answer(
        words in proptest::collection::vec(
            prop_oneof![
                "[\\[\\]{}=\\.,#\"' \\n]{1,3}",
                "source|skills|limits|id|root|rank|depth|links|enabled|files|approval|reserved",
                "\"[a-z/.]{0,6}\"|-?[0-9]{1,20}|true|none|\\PC",
            ],
            0..40,
        ),
    ) {
        let text = words.concat();
        for (name, file) in FILES {
            if let Err(error) = merge(&[(name, &text)]) {
                prop_assert!(error.to_string().starts_with(&format!("{file}:")), "{error}");
            }
        }
    }
}
