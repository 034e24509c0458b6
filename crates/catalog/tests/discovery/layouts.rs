//! Where in a source packages lie.

use skillfreeze_catalog::{Layout, Links};
use skillfreeze_manifest::{Form, Severity};
use skillfreeze_testing::directory;

use crate::support::{Sources, id, ids, left_out, places, scan, skill, try_scan};

#[test]
fn a_source_may_be_a_package_itself() {
    let sources = Sources::new();
    sources.package("demo/inner");
    sources.file("demo/SKILL.md", skill("demo"));
    let catalog = scan(vec![sources.source("demo", |source| source.layout = Layout::Package)]);
    assert_eq!(places(&catalog), ["demo: demo/."]);
    assert_eq!(catalog.path_of(&catalog.packages()[0]), sources.utf8("demo"));
    // Its directory's name is the source's.
    assert!(catalog.packages()[0].diagnostics.iter().all(|note| note.code != "name-dir-mismatch"));
    sources.package("none/x");
    let catalog = scan(vec![sources.source("none", |source| source.layout = Layout::Package)]);
    assert_eq!(left_out(&catalog), [".: no-skill-file"]);
}

#[test]
fn categories_are_searched_to_their_depth() {
    let sources = Sources::new();
    for package in ["src/top", "src/a/one", "src/a/b/two", "src/a/b/c/three", "src/top/examples/inner"] {
        sources.package(package);
    }
    for pruned in ["src/.git/x", "src/a/.venv/x", "src/node_modules/dep/evil", "src/a/node_modules/evil"] {
        sources.package(pruned);
    }
    sources.file("src/a/README.md", "x");
    directory(sources.path("src/a/empty"));
    sources.file("src/a/notes/x.txt", "x");
    let nested = |depth| scan(vec![sources.source("src", |source| source.layout = Layout::Nested(depth))]);
    for (depth, expected) in [
        (1, &["top"][..]),
        (2, &["one", "top"]),
        (3, &["one", "top", "two"]),
        (4, &["one", "three", "top", "two"]),
        (8, &["one", "three", "top", "two"]),
    ] {
        assert_eq!(ids(&nested(depth)), expected, "{depth}");
    }
    let catalog = nested(4);
    assert_eq!(places(&catalog)[1], "three: src/a/b/c/three");
    assert_eq!(left_out(&catalog), ["a/empty: no-skill-file", "a/notes: no-skill-file"]);
    assert!(catalog.left_out().iter().all(|left| left.diagnostics[0].severity == Severity::Info));
    // Nothing is looked for on a level that is too deep, and the directory says that it is no package.
    assert_eq!(left_out(&nested(1)), ["a: no-skill-file"]);
    assert!(
        nested(4)
            .packages()
            .iter()
            .all(|found| found.diagnostics.iter().all(|note| note.code != "name-dir-mismatch"))
    );
}

#[test]
fn flat_files_are_packages_of_one_file() {
    let sources = Sources::new();
    sources.file("src/demo.md", skill("demo"));
    sources.file("src/other.md", skill("another"));
    sources.file("src/README.md", "# Notes\n");
    sources.file("src/broken.md", "---\nname: 1\ndescription: d\n---\n");
    sources.file("src/.hidden.md", skill("hidden"));
    sources.file("src/x.MD", skill("x"));
    sources.package("src/directory");
    directory(sources.path("src/folder.md"));
    sources.link("demo.md", "src/link.md");
    sources.fifo("src/pipe.md");
    let catalog = scan(vec![sources.source("src", |source| source.layout = Layout::Flat)]);
    assert_eq!(places(&catalog), ["another: src/other.md", "demo: src/demo.md"]);
    assert!(catalog.packages().iter().all(|found| found.form == Form::File));
    let mismatch = |name: &str| {
        catalog.find(&id(name)).unwrap().diagnostics.iter().any(|note| note.code == "name-dir-mismatch")
    };
    assert_eq!((mismatch("demo"), mismatch("another")), (false, true));
    assert_eq!(left_out(&catalog).len(), 4, "{:?}", left_out(&catalog));
    assert_eq!(left_out(&catalog)[..2], ["README.md: no-front-matter", "broken.md: fm-type"]);
    assert_eq!(catalog.left_out()[0].diagnostics[0].severity, Severity::Info);
    for left in &catalog.left_out()[2..] {
        assert_eq!(left.diagnostics[0].severity, Severity::Error, "{left:?}");
    }
    let located = catalog.locate(catalog.find(&id("demo")).unwrap()).unwrap();
    assert_eq!(
        (located.path.as_str(), located.name.as_deref(), located.form),
        ("demo.md", Some("demo"), Form::File)
    );
}

const COLLECTION: &str = r#"{"id": "bio", "prompt": "{count} skills for bioinformatics"}"#;

#[test]
fn a_collection_has_members_to_its_depth() {
    let sources = Sources::new();
    sources.file("src/COLLECTION.json", COLLECTION);
    sources.package("src/one");
    sources.package("src/more/two");
    let collection =
        |depth| scan(vec![sources.source("src", |source| source.layout = Layout::Collection(depth))]);
    let catalog = collection(1);
    assert_eq!(ids(&catalog), ["one"]);
    assert_eq!(left_out(&catalog), ["more: no-skill-file"]);
    let catalog = collection(2);
    assert_eq!(ids(&catalog), ["one", "two"]);
    assert!(catalog.packages().iter().all(|found| found.collection == Some(id("bio"))));
    let [bio] = catalog.collections() else { panic!("{:?}", catalog.collections()) };
    assert_eq!((bio.id.as_str(), bio.directory.as_str()), ("bio", "."));
    assert_eq!(bio.prompt, "{count} skills for bioinformatics");
}

#[test]
fn a_collection_may_lie_among_packages() {
    let sources = Sources::new();
    sources.package("src/plain");
    sources.file("src/bio/COLLECTION.json", COLLECTION);
    sources.package("src/bio/one");
    sources.package("src/bio/deeper/two");
    // In a package it is a file like any other, and the package a leaf.
    sources.file("src/package/COLLECTION.json", COLLECTION);
    sources.package("src/package/inner");
    sources.file("src/package/SKILL.md", skill("package"));
    for layout in [Layout::Children, Layout::Nested(3)] {
        let catalog = scan(vec![sources.source("src", |source| source.layout = layout)]);
        assert_eq!(places(&catalog), ["one: src/bio/one", "package: src/package", "plain: src/plain"]);
        let member = |name: &str| catalog.find(&id(name)).unwrap().collection.clone();
        assert_eq!([member("one"), member("package"), member("plain")], [Some(id("bio")), None, None]);
        assert_eq!(left_out(&catalog), ["bio/deeper: no-skill-file"]);
    }
}

#[test]
fn one_source_has_the_id_of_a_collection() {
    let sources = Sources::new();
    for (source, member) in [("a", "one"), ("b", "two"), ("bundled", "three")] {
        let prompt = format!(r#"{{"id": "bio", "prompt": "{{count}} of {source}"}}"#);
        sources.file(&format!("{source}/bio/COLLECTION.json"), prompt);
        sources.package(&format!("{source}/bio/{member}"));
    }
    let open = |id: &str| sources.source(id, |source| source.reserved = id == "bundled");
    for (names, owner, member) in [(&["a", "b"][..], 0, "one"), (&["a", "b", "bundled"], 2, "three")] {
        let catalog = scan(names.iter().map(|name| open(name)).collect());
        assert_eq!(catalog.packages().len(), names.len());
        let [bio] = catalog.collections() else { panic!("{:?}", catalog.collections()) };
        assert_eq!((bio.source, &*bio.prompt), (owner, &*format!("{{count}} of {}", names[owner])));
        for found in catalog.packages() {
            let is_member = found.id().as_str() == member;
            assert_eq!(found.collection, is_member.then(|| id("bio")), "{}", found.id());
            let is_told = found.diagnostics.iter().any(|note| note.code == "collection-shadowed");
            assert_eq!(is_told, !is_member, "{}", found.id());
        }
    }
}

#[test]
fn clashing_ids_are_errors_and_no_tree_is_lost() {
    let sources = Sources::new();
    let collection = |id: &str| format!(r#"{{"id": "{id}", "prompt": "{{count}} skills"}}"#);
    sources.file("src/a/COLLECTION.json", collection("a"));
    sources.package("src/a/ok");
    sources.file("src/a/one/SKILL.md", skill("twice"));
    sources.file("src/a/two/SKILL.md", skill("twice"));
    // Two collections with one id, and one with the id of a package.
    sources.file("src/b/COLLECTION.json", collection("same"));
    sources.package("src/b/in-b");
    sources.file("src/c/COLLECTION.json", collection("same"));
    sources.package("src/c/in-c");
    sources.file("src/d/COLLECTION.json", collection("plain"));
    sources.package("src/d/in-d");
    sources.package("src/plain");
    sources.file("src/e/COLLECTION.json", collection("e"));
    sources.file("src/e/inner/COLLECTION.json", collection("inner"));
    sources.package("src/e/inner/x");
    sources.file("src/f/COLLECTION.json", "{");
    sources.package("src/f/x");
    let catalog = scan(vec![sources.source("src", |_| {})]);
    assert_eq!(ids(&catalog), ["ok", "plain"]);
    assert_eq!(
        left_out(&catalog),
        [
            "a/one: id-clash",
            "a/two: id-clash",
            "b/in-b: id-clash",
            "c/in-c: id-clash",
            "d/in-d: id-clash",
            "e/inner: collection-nested",
            "f: collection-invalid",
        ]
    );
    let clash = &catalog.left_out()[0].diagnostics[0];
    assert!(clash.message.contains("`a/one` and `a/two`"), "{clash}");
    let collections: Vec<&str> = catalog.collections().iter().map(|found| found.id.as_str()).collect();
    assert_eq!(collections, ["a", "e"]);
}

#[test]
fn a_collection_without_its_file_is_a_source_that_failed() {
    let sources = Sources::new();
    sources.package("src/demo");
    sources.package("other/ok");
    let open = |required| {
        let change = |source: &mut skillfreeze_catalog::Definition| {
            (source.layout, source.required) = (Layout::Collection(1), required);
        };
        try_scan(vec![sources.source("src", change), sources.source("other", |_| {})])
    };
    let catalog = open(false).unwrap();
    assert_eq!(ids(&catalog), ["ok"]);
    assert_eq!(catalog.sources()[0].fault.as_ref().unwrap().code, "collection-missing");
    assert_eq!(open(true).unwrap_err().code(), "collection-missing");
    sources.file("src/COLLECTION.json", "{}");
    assert_eq!(open(false).unwrap().sources()[0].fault.as_ref().unwrap().code, "collection-invalid");
}

#[test]
fn links_directly_in_a_root_are_followed_where_they_are_allowed() {
    let sources = Sources::new();
    sources.package("outside/far");
    sources.package("src/near");
    sources.package("src/category/deep");
    directory(sources.path("src/empty"));
    sources.file("src/file.txt", "x");
    for (target, link) in [
        ("near", "one"),
        ("../outside/far", "two"),
        ("empty", "three"),
        ("nowhere", "four"),
        ("file.txt", "five"),
        ("..", "six"),
        ("../outside/far", "category/seven"),
    ] {
        sources.link(target, &format!("src/{link}"));
    }
    let allow = |source: &mut skillfreeze_catalog::Definition| {
        (source.links, source.layout) = (Links::Allow, Layout::Nested(2));
    };
    // A handle of the root reaches what is in it and nothing else.
    let catalog = scan(vec![sources.source("src", allow)]);
    assert_eq!(places(&catalog), ["deep: src/category/deep", "near: src/near"]);
    assert_eq!(catalog.packages()[1].origins[0].directory, "one");
    assert_eq!(
        left_out(&catalog),
        [
            "category/seven: symlink-not-allowed",
            "empty: no-skill-file",
            "four: symlink-dangling",
            "six: unreadable",
            "three: no-skill-file",
            "two: unreadable",
        ]
    );
    // A source that may open paths reaches the rest.
    let catalog = scan(vec![sources.by_path("src", allow)]);
    assert_eq!(places(&catalog), ["deep: src/category/deep", "far: src/two", "near: src/near"]);
    let far = catalog.find(&id("far")).unwrap();
    assert_eq!(far.real_path, Some(sources.utf8("outside/far")));
    let located = catalog.locate(far).unwrap();
    assert_eq!((located.path.as_str(), located.name.as_deref()), (".", Some("two")));
    assert_eq!(located.root.read_to_string("SKILL.md").unwrap(), skill("far"));
    assert!(left_out(&catalog).contains(&"six: no-skill-file".to_owned()));
}
