//! Which of several packages wins, and where the others went.

use skillfreeze_catalog::{Catalog, ConflictPolicy, Discovery, Found, Place, ScanOptions};
use skillfreeze_manifest::Severity;

use crate::support::{Sources, discovery, id, ids, left_out, places, scan, shown, skill};

#[test]
fn the_first_source_and_then_the_first_directory_wins() {
    let sources = Sources::new();
    for directory in ["a/one", "b/demo", "b/only", "c/demo"] {
        sources.package(directory);
    }
    // Otherwise they would be one package in two places.
    sources.file("b/demo/more", "b");
    sources.file("c/demo/more", "c");
    sources.file("a/two/SKILL.md", skill("demo"));
    sources.file("a/three/SKILL.md", skill("demo").replace(": d\n", ": the third\n"));
    let catalog = sources.scan(&["a", "b", "c"]);
    assert_eq!(ids(&catalog), ["demo", "one", "only"]);
    let demo = catalog.find(&id("demo")).unwrap();
    assert_eq!((demo.source, demo.directory.as_str(), &demo.shadowed_by), (0, "three", &None));
    assert_eq!(left_out(&catalog), ["two: shadowed-by", "demo: shadowed-by", "demo: shadowed-by"]);
    let three = Place { source: 0, directory: "three".to_owned() };
    for left in catalog.left_out() {
        assert_eq!(left.id, Some(id("demo")));
        assert_eq!(left.shadowed_by, Some(three.clone()));
    }
    let message = &catalog.left_out()[1].diagnostics[0].message;
    assert!(message.contains("`three`") && message.contains("`a`"), "{message}");

    let found = |source: &str, name: &str| {
        catalog.find_in(source, &id(name)).map(|found| (found.source, found.directory.as_str()))
    };
    assert_eq!(found("a", "demo"), Some((0, "three")));
    assert_eq!(found("b", "demo"), Some((1, "demo")));
    assert_eq!(found("c", "demo"), Some((2, "demo")));
    assert_eq!(found("b", "only"), Some((1, "only")));
    assert_eq!(found("a", "only"), None);
    assert_eq!(found("d", "demo"), None);
    assert_eq!(catalog.find_in("c", &id("demo")).unwrap().shadowed_by, Some(three));
    assert!(catalog.find(&id("none")).is_none());

    let reversed = sources.scan(&["c", "b", "a"]);
    assert_eq!(reversed.find(&id("demo")).unwrap().directory, "demo");
}

fn with_policy(sources: &Sources, policy: ConflictPolicy, ranks: &[(&str, u32)]) -> Catalog {
    let sources = ranks.iter().map(|(id, rank)| sources.source(id, |source| source.rank = *rank)).collect();
    let discovery = Discovery::new(sources, policy).expect("no source twice");
    discovery.scan(&ScanOptions::default()).expect("the sources can be scanned")
}

#[test]
fn ranks_come_before_order_and_the_policy_before_both() {
    let sources = Sources::new();
    for (number, source) in ["a", "b", "c", "d"].into_iter().enumerate() {
        sources.package(&format!("{source}/demo"));
        sources.file(&format!("{source}/demo/n"), number.to_string());
    }
    sources.package("c/only");
    let ranks = [("a", 400), ("b", 100), ("c", 400), ("d", 300)];
    let first = with_policy(&sources, ConflictPolicy::First, &ranks);
    assert_eq!(places(&first), ["demo: b/demo", "only: c/only"]);
    assert_eq!(left_out(&first), ["demo: shadowed-by"; 3]);
    // Of two of the highest rank the later is passed over.
    let last = with_policy(&sources, ConflictPolicy::Last, &ranks);
    assert_eq!(places(&last), ["demo: a/demo", "only: c/only"]);

    let error = with_policy(&sources, ConflictPolicy::Error, &ranks);
    let demo = error.find(&id("demo")).unwrap();
    let contested: Vec<String> = demo.contested_by.iter().map(|place| shown(&error, place)).collect();
    assert_eq!(contested, ["d/demo", "a/demo", "c/demo"]);
    let said = &demo.diagnostics[0];
    assert_eq!((said.severity, said.code), (Severity::Error, "id-conflict"), "{said}");
    assert!(error.find(&id("only")).unwrap().contested_by.is_empty());
    assert_eq!(shown(&error, &error.find_in("c", &id("demo")).unwrap().place()), "c/demo");
}

#[test]
fn the_same_content_is_one_package_in_two_places() {
    let sources = Sources::new();
    for source in ["a", "b", "c", "d", "e", "f"] {
        sources.package(&format!("{source}/demo"));
        sources.file(&format!("{source}/demo/scripts/x"), "x");
    }
    sources.file("c/demo/scripts/x", "y");
    sources.file("d/demo/.git/config", "not content");
    skillfreeze_testing::set_mode(sources.path("e/demo/scripts/x"), 0o755);
    sources.link("x", "f/demo/scripts/link");
    for policy in [ConflictPolicy::First, ConflictPolicy::Error] {
        let ranks = ["a", "b", "c", "d", "e", "f"].map(|source| (source, 300));
        let catalog = with_policy(&sources, policy, &ranks);
        let demo = catalog.find(&id("demo")).unwrap();
        let origins: Vec<String> = demo.origins.iter().map(|place| shown(&catalog, place)).collect();
        assert_eq!(origins, ["b/demo", "d/demo"]);
        let notes = demo.diagnostics.iter().filter(|note| note.code == "same-content-as");
        assert_eq!(notes.count(), 2);
        assert_eq!(left_out(&catalog), ["demo: shadowed-by"; 3]);
        let by =
            |source: &str| catalog.find_in(source, &id("demo")).map(|found| shown(&catalog, &found.place()));
        assert_eq!(by("b").as_deref(), Some("b/demo"), "what is named is what is read");
        assert_eq!(by("c").as_deref(), Some("c/demo"));
    }
}

#[test]
fn the_same_directory_is_one_package_however_it_is_reached() {
    let sources = Sources::new();
    sources.package("src/real");
    sources.link("real", "src/alias");
    let allow = |source: &mut skillfreeze_catalog::Definition| {
        source.links = skillfreeze_catalog::Links::Allow;
    };
    let catalog = scan(vec![sources.source("src", allow)]);
    // The names come from the front matter, so that both are `real`.
    assert_eq!(places(&catalog), ["real: src/alias"]);
    assert_eq!(shown(&catalog, &catalog.packages()[0].origins[0]), "src/real");
    assert_eq!(left_out(&catalog), [""; 0]);
}

#[test]
fn what_is_bundled_cannot_be_shadowed() {
    let sources = Sources::new();
    sources.package("bundled/pdf");
    sources.file("bundled/office/SKILL.md", skill("documents"));
    sources.file("bundled/broken/SKILL.md", "no front matter");
    // By its id, by its directory, by an id that is its directory, by a directory that is its id, by
    // the directory of one that is broken; and one that is the same, and one that is another.
    sources.file("user/mine/SKILL.md", skill("pdf") + "another");
    sources.file("user/pdf/SKILL.md", skill("other"));
    sources.package("user/office");
    sources.file("user/documents/SKILL.md", skill("more"));
    sources.package("user/broken");
    sources.package("user/free");
    sources.file("user/PDF/SKILL.md", skill("shouted"));
    sources.package("same/pdf");
    for policy in [ConflictPolicy::First, ConflictPolicy::Last, ConflictPolicy::Error] {
        let open = |id: &str, rank: u32, reserved: bool| {
            sources.source(id, |source| (source.rank, source.reserved) = (rank, reserved))
        };
        let list = vec![open("user", 200, false), open("same", 300, false), open("bundled", 600, true)];
        let catalog = Discovery::new(list, policy).unwrap().scan(&ScanOptions::default()).unwrap();
        let expected = ["documents: bundled/office", "free: user/free", "pdf: bundled/pdf"];
        assert_eq!(places(&catalog), expected, "{policy:?}");
        assert_eq!(shown(&catalog, &catalog.find(&id("pdf")).unwrap().origins[0]), "same/pdf");
        assert_eq!(
            left_out(&catalog),
            [
                "PDF: reserved-name",
                "broken: reserved-name",
                "documents: reserved-name",
                "mine: reserved-name",
                "office: reserved-name",
                "pdf: reserved-name",
                "broken: fm-missing",
            ],
            "{policy:?}"
        );
        assert_eq!(catalog.find_in("user", &id("other")), None);
    }
    let alone = discovery(vec![sources.source("user", |_| {})]);
    let catalog = alone.scan(&ScanOptions::default()).unwrap();
    assert_eq!(ids(&catalog), ["broken", "free", "more", "office", "other", "pdf", "shouted"]);
}

#[test]
fn what_is_no_entry_of_its_own_can_still_be_read() {
    let sources = Sources::new();
    for directory in ["a/demo", "b/demo", "c/demo"] {
        sources.package(directory);
    }
    sources.file("c/demo/more", "c");
    let catalog = sources.scan(&["a", "b", "c"]);
    let brief = |found: &Found| shown(&catalog, &found.place());
    assert_eq!(catalog.copies().iter().map(brief).collect::<Vec<_>>(), ["b/demo"]);
    assert_eq!(catalog.shadowed().iter().map(brief).collect::<Vec<_>>(), ["c/demo"]);
    let copy = catalog.locate(&catalog.copies()[0]).unwrap();
    assert!(!copy.root.exists("demo/more"));
    assert!(catalog.locate(&catalog.shadowed()[0]).unwrap().root.exists("demo/more"));
    let left = catalog.locate_left_out(&catalog.left_out()[0]).unwrap().unwrap();
    assert_eq!((left.path.as_str(), left.name.as_deref()), ("demo", Some("demo")));
    assert!(left.root.exists("demo/more"));
}
