//! What to watch so as to learn that another scan may find something else.

use std::fs;

use skillfreeze_catalog::{Catalog, Layout, Links, Watched};

use crate::support::{Sources, scan};

/// What is watched, below the sources' own directory: `directory/`, `file`, `link@`.
fn watched(sources: &Sources, catalog: &Catalog) -> Vec<String> {
    let brief = |watched: Watched| {
        let (path, mark) = match watched {
            Watched::Directory(path) => (path, "/"),
            Watched::File(path) => (path, ""),
            Watched::Link(path) => (path, "@"),
        };
        format!("{}{mark}", path.strip_prefix(sources.utf8("")).expect("it is in the temporary directory"))
    };
    catalog.watched().into_iter().map(brief).collect()
}

#[test]
fn each_layout_is_watched_where_it_was_looked_at() {
    let sources = Sources::new();
    sources.package("src/demo");
    sources.package("src/tools/pdf");
    sources.file("src/empty/notes.txt", "x");
    sources.file("src/flat.md", "---\nname: flat\ndescription: d\n---\n");
    sources.file("src/SKILL.md", "---\nname: src\ndescription: d\n---\n");
    sources.file("src/COLLECTION.json", r#"{"id":"all","prompt":"{count} skills"}"#);
    for (layout, expected) in [
        (Layout::Children, &["src/", "src/empty/", "src/tools/", "src/demo/SKILL.md"][..]),
        (
            Layout::Nested(2),
            &["src/", "src/empty/", "src/tools/", "src/demo/SKILL.md", "src/tools/pdf/SKILL.md"],
        ),
        (Layout::Collection(1), &["src/", "src/empty/", "src/tools/", "src/demo/SKILL.md"]),
        (Layout::Flat, &["src/"]),
        (Layout::Package, &["src/SKILL.md"]),
    ] {
        let catalog = scan(vec![sources.source("src", |source| source.layout = layout)]);
        assert_eq!(watched(&sources, &catalog), expected, "{layout:?}");
    }
}

#[test]
fn links_and_rivals_are_watched_where_they_lead_and_lie() {
    let sources = Sources::new();
    sources.package("elsewhere/real");
    sources.package("a/same");
    sources.package("b/same");
    sources.package("a/other");
    sources.file("b/other/SKILL.md", "---\nname: other\ndescription: another\n---\n");
    sources.file("a/linked/docs/SKILL.md", "---\nname: linked\ndescription: d\n---\n");
    sources.link("docs/SKILL.md", "a/linked/SKILL.md");
    sources.link("../elsewhere/real", "b/real");
    sources.link("../elsewhere", "b/refused");
    fs::create_dir(sources.path("absent")).unwrap();
    let absent = sources.by_path("absent", |_| {});
    fs::remove_dir(sources.path("absent")).unwrap();
    let links = sources.by_path("b", |source| source.links = Links::Allow);
    let catalog = scan(vec![sources.by_path("a", |_| {}), links, absent]);
    let expected = [
        "a/",
        "a/same/",
        "absent/",
        "b/",
        "b/other/",
        "b/same/",
        "a/other/SKILL.md",
        "a/same/SKILL.md",
        "b/other/SKILL.md",
        "b/real/SKILL.md",
        "b/refused/SKILL.md",
        "a/linked/SKILL.md@",
    ];
    assert_eq!(watched(&sources, &catalog), expected);
}
