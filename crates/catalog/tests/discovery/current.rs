//! What a catalog knows of what it saw, and what is kept of a scan for the next.

use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use skillfreeze_catalog::{
    Catalog, Collection, ConflictPolicy, Definition, Discovery, Layers, Layout, ScanError, ScanOptions, Scope,
};
use skillfreeze_manifest::Progress;

use crate::support::{Sources, discovery, id, ids, left_out, scan, skill};

/// Something that happens to sources, and what it is called.
type Change = (&'static str, fn(&Sources));

fn require(catalog: &Catalog, name: &str) -> Result<(), &'static str> {
    catalog.require_current([catalog.find(&id(name)).expect("it was found")]).map_err(|stale| {
        assert!(stale.path.as_str().ends_with(name) && stale.id == id(name), "{stale}");
        stale.code()
    })
}

#[test]
fn what_is_selected_must_be_what_was_found() {
    let edits: [Change; 7] = [
        ("edited", |sources| sources.file("src/demo/SKILL.md", skill("demo") + "more")),
        ("same size", |sources| sources.file("src/demo/SKILL.md", skill("demo").replace("body", "BODY"))),
        ("file added", |sources| sources.file("src/demo/more", "")),
        ("removed", |sources| fs::remove_dir_all(sources.path("src/demo")).unwrap()),
        ("skill removed", |sources| fs::remove_file(sources.path("src/demo/SKILL.md")).unwrap()),
        ("replaced", |sources| {
            fs::rename(sources.path("src/demo"), sources.path("src/.old")).unwrap();
            sources.package("src/demo");
        }),
        ("made a link", |sources| {
            fs::rename(sources.path("src/demo"), sources.path("src/.old")).unwrap();
            sources.link(".old", "src/demo");
        }),
    ];
    for (name, edit) in edits {
        let sources = Sources::new();
        sources.package("src/demo");
        sources.package("src/other");
        sources.package("low/demo");
        let catalog = scan(vec![sources.source("src", |_| {}), sources.source("low", |_| {})]);
        assert_eq!(require(&catalog, "demo"), Ok(()), "{name}");
        // What else changes does not matter.
        sources.package("src/new");
        sources.file("src/other/SKILL.md", "broken");
        fs::remove_dir_all(sources.path("low/demo")).unwrap();
        assert_eq!(require(&catalog, "demo"), Ok(()), "{name}");
        assert_eq!(require(&catalog, "other"), Err("catalog-stale"), "{name}");
        edit(&sources);
        assert_eq!(require(&catalog, "demo"), Err("catalog-stale"), "{name}");
    }
}

/// The directory that was scanned may live on under another name, and another one be in its place.
#[test]
fn what_is_selected_must_lie_where_it_was_found() {
    let sources = Sources::new();
    sources.package("src/demo");
    sources.package("low/other");
    let catalog = scan(vec![sources.by_path("src", |_| {}), sources.by_path("low", |_| {})]);
    assert_eq!((require(&catalog, "demo"), require(&catalog, "other")), (Ok(()), Ok(())));
    fs::rename(sources.path("src"), sources.path("old")).unwrap();
    assert_eq!((require(&catalog, "demo"), require(&catalog, "other")), (Err("catalog-stale"), Ok(())));
    sources.package("src/demo");
    assert_eq!((require(&catalog, "demo"), require(&catalog, "other")), (Err("catalog-stale"), Ok(())));
    fs::remove_dir_all(sources.path("src")).unwrap();
    fs::rename(sources.path("old"), sources.path("src")).unwrap();
    assert_eq!(require(&catalog, "demo"), Ok(()));
}

/// Does something when the scan has examined as many entries as there are.
struct Meanwhile<F>(AtomicUsize, usize, F);

impl<F: Fn(usize) + Sync> Progress for Meanwhile<F> {
    fn begin(&self, _phase: &str, _total: usize) {}
    fn advance(&self) {
        let count = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        if count.is_multiple_of(self.1) {
            (self.2)(count / self.1);
        }
    }
}

#[test]
fn what_changes_during_a_scan_is_looked_at_again() {
    // An empty source, one that is shadowed, one that is absent, the root: every route counts.
    let changes: [Change; 4] = [
        ("empty", |sources| sources.package("empty/new")),
        ("shadowed", |sources| sources.file("low/demo/SKILL.md", skill("demo-2"))),
        ("absent", |sources| sources.package("absent/new")),
        ("replaced", |sources| {
            fs::rename(sources.path("src"), sources.path("old")).unwrap();
            sources.package("src/new");
        }),
    ];
    for (name, change) in changes {
        let sources = Sources::new();
        sources.package("src/demo");
        sources.package("low/demo");
        sources.file("low/demo/more", "x");
        fs::create_dir(sources.path("empty")).unwrap();
        let list = ["src", "low", "empty", "absent"].map(|id| sources.by_path(id, |_| {})).into();
        let once = Meanwhile(AtomicUsize::new(0), 2, |round| {
            if round == 1 {
                change(&sources);
            }
        });
        let options = ScanOptions { progress: &once, ..ScanOptions::default() };
        let catalog = discovery(list).scan(&options).unwrap();
        let expected = if name == "shadowed" { "demo-2" } else { "new" };
        assert!(ids(&catalog).contains(&expected), "{name}: {:?}", ids(&catalog));
    }
}

#[test]
fn what_changes_each_time_is_an_error() {
    let sources = Sources::new();
    sources.package("src/demo");
    let always = Meanwhile(AtomicUsize::new(0), 1, |round| {
        sources.file("src/demo/SKILL.md", skill("demo") + &"x".repeat(round));
    });
    let options = ScanOptions { progress: &always, ..ScanOptions::default() };
    let error = discovery(vec![sources.by_path("src", |_| {})]).scan(&options).unwrap_err();
    assert!(matches!(&error, ScanError::Changing { id, path } if id == "src" && path == "demo"), "{error}");
    assert_eq!(error.code(), "catalog-stale");
}

/// Counts the entries that a scan examines.
fn examined(discovery: &Discovery) -> (Result<Catalog, ScanError>, usize) {
    let count = Meanwhile(AtomicUsize::new(0), usize::MAX, |_| {});
    let options = ScanOptions { progress: &count, ..ScanOptions::default() };
    let result = discovery.scan(&options);
    (result, count.0.into_inner())
}

#[test]
fn layers_that_did_not_change_are_kept_and_one_that_fails_costs_itself() {
    let sources = Sources::new();
    (0..3).for_each(|number| sources.package(&format!("user/u{number}")));
    (0..2).for_each(|number| sources.package(&format!("project/p{number}")));
    let layers = Layers::default();
    let open = |scope: Scope, rank| {
        move |source: &mut Definition| (source.scope, source.rank) = (scope.clone(), rank)
    };
    // The ranks that they have by convention, which are the other way round.
    let project = Scope::Project(sources.root("project"));
    let make = || {
        let list = vec![
            sources.by_path("user", open(Scope::User, 500)),
            sources.by_path("project", |source| {
                open(project.clone(), 200)(source);
                source.required = true;
            }),
        ];
        Discovery::new(list, ConflictPolicy::First).unwrap().with_layers(&layers)
    };
    let (catalog, count) = examined(&make());
    let first = catalog.unwrap();
    assert_eq!((first.packages().len(), count), (5, 5));
    let (catalog, count) = examined(&make());
    assert_eq!((catalog.unwrap().digest(), count), (first.digest(), 0));

    sources.package("project/p2");
    let (catalog, count) = examined(&make());
    assert_eq!((catalog.unwrap().packages().len(), count), (6, 3), "only the project is scanned again");

    fs::rename(sources.path("project"), sources.path("away")).unwrap();
    let (failed, count) = examined(&make());
    assert_eq!((failed.unwrap_err().code(), count), ("root-absent", 0));
    fs::rename(sources.path("away"), sources.path("project")).unwrap();
    let (catalog, count) = examined(&make());
    assert_eq!((catalog.unwrap().packages().len(), count), (6, 3), "the user's layer was still there");

    // Another limit or layout may make another layer of the same files.
    let options = ScanOptions { max_packages: 2, ..ScanOptions::default() };
    assert_eq!(make().scan(&options).unwrap_err().code(), "scan-limit");
    let list = vec![sources.by_path("user", |source| {
        open(Scope::User, 500)(source);
        source.layout = Layout::Nested(2);
    })];
    let (_, count) = examined(&Discovery::new(list, ConflictPolicy::First).unwrap().with_layers(&layers));
    assert_eq!(count, 3);
}

/// Overwrites a file where it lies, and gives it a time that it has not had.
fn edit(sources: &Sources, path: &str, content: &str, seconds: u64) {
    let mut file =
        fs::OpenOptions::new().write(true).truncate(true).open(sources.path(path)).expect("it is there");
    file.write_all(content.as_bytes()).expect("it is writable");
    // Else two states within one tick of the clock look the same.
    file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).expect("it is ours");
}

/// Nothing but the file itself shows that: neither its directory nor any package changes.
#[test]
fn a_collection_file_that_is_edited_in_place_is_read_again() {
    for (directory, layout) in
        [(".", Layout::Collection(1)), ("bio", Layout::Nested(2)), ("tools/bio", Layout::Nested(3))]
    {
        let sources = Sources::new();
        let path = format!("src/{directory}/COLLECTION.json");
        sources.file(&path, r#"{"id": "bio", "prompt": "{count} before"}"#);
        sources.package(&format!("src/{directory}/demo"));
        let layers = Layers::default();
        let list = || vec![sources.by_path("src", |source| source.layout = layout)];
        let said = || {
            let (scanned, count) = examined(&discovery(list()).with_layers(&layers));
            let catalog = scanned.unwrap();
            let brief = |collection: &Collection| format!("{}: {}", collection.id, collection.prompt);
            let collections: Vec<String> = catalog.collections().iter().map(brief).collect();
            (collections, left_out(&catalog), count > 0)
        };
        let is = |collection: &str| (vec![collection.to_owned()], vec![], true);
        assert_eq!(said(), is("bio: {count} before"), "{layout:?}");
        assert!(!said().2, "{layout:?}: what did not change is kept");
        // Of the same length, another id, one that is no collection, and back.
        edit(&sources, &path, r#"{"id": "bio", "prompt": "{count} after!"}"#, 1);
        assert_eq!(said(), is("bio: {count} after!"), "{layout:?}");
        edit(&sources, &path, r#"{"id": "oib", "prompt": "{count} after!"}"#, 2);
        assert_eq!(said(), is("oib: {count} after!"), "{layout:?}");
        edit(&sources, &path, r#"{"id": "oib", "prompt": "count"}"#, 3);
        assert_eq!(said().0, [""; 0], "{layout:?}");
        edit(&sources, &path, r#"{"id": "bio", "prompt": "{count} before"}"#, 4);
        assert_eq!(said(), is("bio: {count} before"), "{layout:?}");
    }
}

/// Two configurations of one user may differ in nothing else.
#[test]
fn a_layer_is_not_kept_for_a_source_with_other_link_roots() {
    let sources = Sources::new();
    sources.package("src/plain");
    for (root, name) in [("one", "a"), ("two", "b")] {
        sources.file(&format!("{root}/S.md"), skill(name));
        fs::create_dir_all(sources.path(&format!("src/{name}"))).unwrap();
        let target = sources.utf8(root).join("S.md");
        sources.link(target.as_str(), &format!("src/{name}/SKILL.md"));
    }
    for scope in [Scope::System, Scope::User, Scope::Project(sources.root("src")), Scope::Session] {
        let layers = Layers::default();
        let scan = |roots: &[&str]| {
            let source = sources.by_path("src", |source| {
                source.scope = scope.clone();
                source.link_roots = roots.iter().map(|root| sources.root(root)).collect();
            });
            let (catalog, count) = examined(&discovery(vec![source]).with_layers(&layers));
            (ids(&catalog.unwrap()).join(" "), count)
        };
        for (roots, expected) in
            [(&["one"][..], "a plain"), (&[], "plain"), (&["two"], "b plain"), (&["one", "two"], "a b plain")]
        {
            assert_eq!(scan(roots), (expected.to_owned(), 3), "{scope:?} {roots:?}");
            assert_eq!(scan(roots), (expected.to_owned(), 0), "{scope:?} {roots:?}: the same again");
        }
    }
}

#[test]
fn the_digest_is_that_of_what_the_catalog_says() {
    let sources = Sources::new();
    sources.package("src/demo");
    let digest = || scan(vec![sources.source("src", |_| {})]).digest();
    let before = digest();
    assert_eq!(digest(), before);
    sources.file("src/demo/more", "not told by a catalog");
    sources.file("src/demo/SKILL.md", skill("demo") + "more of the body");
    sources.file("src/notes.txt", "x");
    assert_eq!(digest(), before);
    let mut seen = vec![before];
    let edits: [fn(&Sources); 4] = [
        |sources| sources.file("src/demo/SKILL.md", skill("demo").replace(": d", ": e")),
        |sources| sources.package("src/other"),
        |sources| sources.file("src/broken/SKILL.md", "x"),
        |sources| fs::remove_dir_all(sources.path("src/other")).unwrap(),
    ];
    for edit in edits {
        edit(&sources);
        assert!(!seen.contains(&digest()));
        seen.push(digest());
    }
}
