//! Which of several packages wins, and where the others went.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use camino::Utf8PathBuf;
use cap_std::fs::Dir;
use skillfreeze_catalog::{
    Catalog, ConflictPolicy, Definition, Discovery, Found, Layout, Links, Place, ScanError, ScanOptions,
    Source,
};
use skillfreeze_manifest::{Limits, Severity};

use crate::support::{Sources, discovery, id, ids, left_out, places, scan, shown, skill, try_scan};

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
    let allow = |source: &mut Definition| source.links = Links::Allow;
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
    // Of several that take a name of a faulty bundled package, be they the same or not, none is reached.
    sources.package("more/broken");
    sources.file("rest/broken/SKILL.md", skill("broken") + "another");
    // Nor does one that must not have its directory's name keep another from being found.
    sources.file("more/free/SKILL.md", skill("free") + "another");
    sources.file("again/office/SKILL.md", skill("free"));
    let open = |id: &str| sources.source(id, |source| source.reserved = id == "bundled");
    let list = ["again", "user", "more", "rest", "bundled"].map(open);
    let catalog = Discovery::new(list.into(), ConflictPolicy::First).unwrap();
    let catalog = catalog.scan(&ScanOptions::default()).unwrap();
    assert_eq!(catalog.find(&id("broken")), None);
    for source in ["user", "more", "rest"] {
        assert_eq!(catalog.find_in(source, &id("broken")), None, "{source}");
    }
    assert_eq!(shown(&catalog, &catalog.find(&id("free")).unwrap().place()), "user/free");
    let alone = discovery(vec![sources.source("user", |_| {})]);
    let catalog = alone.scan(&ScanOptions::default()).unwrap();
    assert_eq!(ids(&catalog), ["broken", "free", "more", "office", "other", "pdf", "shouted"]);
}

/// Whoever cannot read what is bundled does not know its names, which are others' to take then.
#[test]
fn a_bundle_that_is_not_there_is_an_error_as_if_it_were_required() {
    let sources = Sources::new();
    sources.package("user/pdf");
    sources.file("file", "x");
    sources.package("bare/pdf");
    sources.file("faulty/COLLECTION.json", "{");
    for (path, layout, code) in [
        ("absent", Layout::Children, "root-absent"),
        ("absent", Layout::Package, "root-absent"),
        ("absent", Layout::Flat, "root-absent"),
        ("file", Layout::Children, "root-not-a-directory"),
        ("file/below", Layout::Children, "root-not-a-directory"),
        ("bare", Layout::Collection(1), "collection-missing"),
        ("faulty", Layout::Collection(1), "collection-invalid"),
    ] {
        let with = |reserved| {
            let bundled =
                sources.by_path(path, |source| (source.layout, source.reserved) = (layout, reserved));
            try_scan(vec![sources.by_path("user", |_| {}), bundled])
        };
        let error = with(true).unwrap_err();
        assert!(error.code() == code && error.to_string().contains(path), "{path} {layout:?}: {error}");
        assert_eq!(ids(&with(false).unwrap()), ["pdf"], "{path} {layout:?}");
    }
}

/// What a faulty package of a bundle is called, by whatever layout it lies there, is the bundle's name.
#[test]
fn a_faulty_package_of_a_bundle_keeps_its_name() {
    let broken = "---\nname: pdf\n---\n";
    for (path, layout) in [
        ("bundled/pdf/SKILL.md", Layout::Children),
        ("bundled/tools/pdf/SKILL.md", Layout::Nested(2)),
        ("bundled/pdf.md", Layout::Flat),
        ("pdf/SKILL.md", Layout::Package),
    ] {
        let sources = Sources::new();
        sources.file(path, broken);
        let root = path.split('/').next().unwrap();
        sources.package("user/free");
        sources.file("user/mine/SKILL.md", skill("pdf"));
        sources.file("user/pdf/SKILL.md", skill("other"));
        let scan_with = |reserved| {
            let bundled =
                sources.by_path(root, |source| (source.layout, source.reserved) = (layout, reserved));
            scan(vec![sources.by_path("user", |_| {}), bundled])
        };
        let catalog = scan_with(true);
        assert_eq!(places(&catalog), ["free: user/free"], "{layout:?}");
        assert!(catalog.reserves("pdf"), "{layout:?}");
        for name in ["pdf", "other"] {
            assert!(catalog.find_in("user", &id(name)).is_none(), "{layout:?}: {name}");
        }
        let refused = left_out(&catalog);
        let refused = refused.iter().filter(|left| left.ends_with(": reserved-name"));
        assert_eq!(refused.collect::<Vec<_>>(), ["mine: reserved-name", "pdf: reserved-name"], "{layout:?}");
        assert_eq!(ids(&scan_with(false)), ["free", "other", "pdf"], "{layout:?}");
    }
}

/// What is compared is what could be frozen: no more is read of rivals than a package may have.
#[test]
fn comparing_rivals_ends_where_a_package_would_be_too_large() {
    let sources = Sources::new();
    for source in ["a", "b"] {
        sources.package(&format!("{source}/demo"));
        sources.file(&format!("{source}/demo/deep/er/x"), "x".repeat(100));
    }
    let skill_bytes = skill("demo").len() as u64;
    let (default, all) = (Limits::DEFAULT, skill_bytes + 100);
    for (limits, is_same) in [
        (default, true),
        (Limits { files: 2, ..default }, true),
        (Limits { files: 1, ..default }, false),
        (Limits { file_bytes: 100, ..default }, true),
        (Limits { file_bytes: 99, ..default }, false),
        (Limits { package_bytes: all, ..default }, true),
        (Limits { package_bytes: all - 1, ..default }, false),
        (Limits { depth: 3, ..default }, true),
        (Limits { depth: 2, ..default }, false),
    ] {
        let options = ScanOptions { limits, ..ScanOptions::default() };
        let list = ["a", "b"].map(|id| sources.source(id, |_| {})).into();
        let catalog = discovery(list).scan(&options).unwrap();
        assert_eq!(places(&catalog), ["demo: a/demo"], "{limits:?}");
        let lost = if is_same { vec![] } else { vec!["demo: shadowed-by"] };
        assert_eq!((left_out(&catalog), catalog.copies().len()), (to_strings(&lost), usize::from(is_same)));
    }
    // A flat package is one file.
    for source in ["a", "b"] {
        sources.file(&format!("{source}/flat.md"), skill("flat"));
    }
    for (file_bytes, copies) in [(skill("flat").len() as u64, 1), (skill("flat").len() as u64 - 1, 0)] {
        let limits = Limits { file_bytes, ..default };
        let options = ScanOptions { limits, ..ScanOptions::default() };
        let list = ["a", "b"].map(|id| sources.source(id, |source| source.layout = Layout::Flat)).into();
        assert_eq!(discovery(list).scan(&options).unwrap().copies().len(), copies, "{file_bytes}");
    }
}

fn to_strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

/// A source of a link to a package, that counts how often it is followed, and sets something when it is
/// opened for the second time: once everything was scanned.
#[derive(Debug)]
struct Followed {
    inner: Arc<dyn Source>,
    opened: AtomicUsize,
    followed: Arc<AtomicUsize>,
    cancel: Option<Arc<AtomicBool>>,
}

impl Source for Followed {
    fn definition(&self) -> &Definition {
        self.inner.definition()
    }

    fn open(&self) -> io::Result<Dir> {
        if let Some(cancel) = self.cancel.as_ref().filter(|_| self.opened.fetch_add(1, Ordering::SeqCst) > 0)
        {
            cancel.store(true, Ordering::SeqCst);
        }
        self.inner.open()
    }

    fn follow(&self, root: &Dir, name: &str) -> io::Result<(Dir, Utf8PathBuf)> {
        self.followed.fetch_add(1, Ordering::SeqCst);
        self.inner.follow(root, name)
    }
}

#[test]
fn comparing_rivals_can_be_cancelled() {
    let sources = Sources::new();
    for source in ["a", "b"] {
        sources.package(&format!("real-{source}/demo"));
        fs::create_dir(sources.path(source)).unwrap();
        sources.link(&format!("../real-{source}/demo"), &format!("{source}/demo"));
    }
    let (followed, cancel) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let run = |cancels: bool| {
        followed.store(0, Ordering::SeqCst);
        let list = ["a", "b"].map(|id| -> Arc<dyn Source> {
            let inner = sources.by_path(id, |source| source.links = Links::Allow);
            let cancel = Some(Arc::clone(&cancel)).filter(|_| cancels);
            Arc::new(Followed { inner, opened: AtomicUsize::new(0), followed: Arc::clone(&followed), cancel })
        });
        let options = ScanOptions { cancel: Some(&cancel), ..ScanOptions::default() };
        let scanned = discovery(list.into()).scan(&options);
        (scanned.map(|catalog| catalog.copies().len()), followed.load(Ordering::SeqCst))
    };
    // Each link once to examine it, and once more to compare what it leads to.
    assert!(matches!(run(false), (Ok(1), 4)));
    let (cancelled, count) = run(true);
    assert!(matches!(cancelled, Err(ScanError::Cancelled)), "{cancelled:?}");
    assert_eq!(count, 2, "nothing is opened to be compared");
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
