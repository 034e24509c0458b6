//! What a scan makes of odd and hostile entries.

use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use skillfreeze_catalog::{Catalog, Layout, Links, ScanError, ScanOptions};
use skillfreeze_manifest::{Limits, Progress, Severity};
use skillfreeze_testing::{directory, set_mode, skip};

use crate::support::{Sources, discovery, ids, left_out, scan, skill};

#[test]
fn a_fault_is_its_package_s_alone() {
    let sources = Sources::new();
    sources.package("root/ok");
    sources.file("root/number/SKILL.md", "---\nname: 123\ndescription: d\n---\n");
    sources.file("root/bomb/SKILL.md", format!("---\nmetadata: {}\n---\n", "[".repeat(20_000)));
    sources.file("root/huge/SKILL.md", format!("---\nx: {}\n---\n", "a".repeat(5_000_000)));
    sources.file("root/body/SKILL.md", skill("body") + &"x".repeat(1 << 20));
    // What is wrong below the front matter is found when the package is read, not by a scan.
    sources.file("root/tail/SKILL.md", [skill("tail").as_bytes(), &b"x".repeat(100_000), b"\xff"].concat());
    sources.file("root/lower/skill.md", skill("lower"));
    directory(sources.path("root/empty"));
    directory(sources.path("root/nested/SKILL.md"));
    directory(sources.path("root/fifo"));
    sources.fifo("root/fifo/SKILL.md");
    directory(sources.path("root/sock"));
    let _socket = UnixListener::bind(sources.path("root/sock/SKILL.md")).unwrap();
    directory(sources.bytes("root", b"b\xff"));
    let catalog = sources.scan(&["root"]);
    assert_eq!(ids(&catalog), ["ok", "tail"]);
    assert_eq!(
        left_out(&catalog),
        [
            "b\\xff: path-not-utf8",
            "body: limit-skill-bytes",
            "bomb: fm-too-deep",
            "empty: no-skill-file",
            "fifo: special-file",
            "huge: fm-too-large",
            "lower: skill-file-misnamed",
            "nested: wrong-type",
            "number: fm-type",
            "sock: special-file",
        ]
    );
    for left in catalog.left_out() {
        let expected = if left.directory == "empty" { Severity::Info } else { Severity::Error };
        assert_eq!(
            left.diagnostics.iter().map(|diagnostic| diagnostic.severity).max(),
            Some(expected),
            "{left:?}"
        );
    }
    assert_eq!(catalog.left_out()[6].diagnostics[0].path.as_deref(), Some("skill.md"));
}

#[test]
fn what_lies_about_in_a_root_is_ignored() {
    let sources = Sources::new();
    sources.package("root/demo");
    for path in ["root/README.md", "root/foo.md", "root/.DS_Store"] {
        sources.file(path, "x");
    }
    for directory in [".archive/old", ".git/x", ".venv/y", "node_modules/dep/skills/evil", "node_modules/z"] {
        sources.package(&format!("root/{directory}"));
    }
    sources.package("root/demo/examples/other");
    sources.file("root/demo/node_modules/p/i.js", "1");
    sources.link("README.md", "root/linked.md");
    sources.fifo("root/pipe");
    let catalog = sources.scan(&["root"]);
    assert_eq!(ids(&catalog), ["demo"]);
    assert_eq!(left_out(&catalog), [""; 0]);
}

#[test]
fn links_in_a_root_are_named_and_not_followed() {
    let sources = Sources::new();
    sources.package("src/real");
    sources.package("root/ok");
    sources.link("../src/real", "root/one");
    sources.link("ok", "root/two");
    sources.link("/nonexistent", "root/three");
    let catalog = sources.scan(&["root"]);
    assert_eq!(ids(&catalog), ["ok"]);
    let expected = ["one: symlink-not-allowed", "three: symlink-not-allowed", "two: symlink-not-allowed"];
    assert_eq!(left_out(&catalog), expected);
    assert!(catalog.left_out()[0].diagnostics[0].message.contains("`../src/real`"));
}

#[test]
fn a_linked_skill_file_stays_in_its_package() {
    let sources = Sources::new();
    sources.file("outside/S.md", skill("escape"));
    for (directory, target) in [
        ("inside", "docs/skill.md"),
        ("chain", "docs/link.md"),
        ("dotted", "./docs/../docs//skill.md"),
        ("escape", "../../outside/S.md"),
        ("sideways", "../inside/docs/skill.md"),
        ("reenters", "../reenters/docs/skill.md"),
        ("absolute", "/etc/passwd"),
        ("absent", "/nonexistent"),
        ("dangling", "docs/none.md"),
        ("circle", "SKILL.md"),
        ("through", "directory/skill.md"),
        ("directory", "docs"),
        ("itself", "."),
        ("git", ".git/skill.md"),
        ("fifo", "pipe"),
        ("below-file", "docs/skill.md/x"),
    ] {
        let path = |name: &str| format!("root/{directory}/{name}");
        sources.file(&path("docs/skill.md"), skill(directory));
        sources.file(&path(".git/skill.md"), skill(directory));
        sources.link("skill.md", &path("docs/link.md"));
        sources.link("docs", &path("directory"));
        sources.fifo(&path("pipe"));
        sources.link(target, &path("SKILL.md"));
    }
    let catalog = sources.scan(&["root"]);
    assert_eq!(ids(&catalog), ["chain", "dotted", "inside"]);
    assert_eq!(
        left_out(&catalog),
        [
            "absent: skill-md-dangling",
            "absolute: skill-md-symlink-escape",
            "below-file: skill-md-dangling",
            "circle: skill-md-dangling",
            "dangling: skill-md-dangling",
            "directory: skill-md-symlink-forbidden",
            "escape: skill-md-symlink-escape",
            "fifo: skill-md-symlink-forbidden",
            "git: skill-md-symlink-forbidden",
            "itself: skill-md-symlink-forbidden",
            "reenters: skill-md-symlink-escape",
            "sideways: skill-md-symlink-escape",
            "through: skill-md-symlink-forbidden",
        ]
    );
    let escape = &catalog.left_out()[6].diagnostics[0];
    assert!(escape.message.contains("`../../outside/S.md`"), "{escape}");
}

#[test]
fn unreadable_as_an_ordinary_user() {
    if rustix::process::geteuid().is_root() {
        skip!("root reads everything");
    }
    let sources = Sources::new();
    sources.package("root/ok");
    sources.package("root/locked");
    sources.package("root/file");
    set_mode(sources.path("root/locked"), 0o000);
    set_mode(sources.path("root/file/SKILL.md"), 0o000);
    let catalog = sources.scan(&["root"]);
    set_mode(sources.path("root/locked"), 0o755);
    assert_eq!(ids(&catalog), ["ok"]);
    assert_eq!(left_out(&catalog), ["file: unreadable", "locked: unreadable"]);
    let diagnostic = &catalog.left_out()[1].diagnostics[0];
    assert!(diagnostic.message.contains("Permission denied"), "{diagnostic}");
}

#[test]
fn the_order_of_creation_does_not_matter() {
    let sources = Sources::new();
    for name in ["eee", "aaa", "ccc", "bbb", "a-b", "a_b"] {
        sources.package(&format!("one/{name}"));
    }
    for name in ["a_b", "bbb", "a-b", "ccc", "aaa", "eee"] {
        sources.package(&format!("two/{name}"));
    }
    let [one, two] = ["one", "two"].map(|path| {
        scan(vec![sources.source(path, |source| {
            (source.id, source.path) = ("x".into(), "/x".parse().unwrap());
        })])
    });
    assert_eq!(ids(&one), ["a-b", "a_b", "aaa", "bbb", "ccc", "eee"]);
    assert_eq!(one.digest(), two.digest());
}

#[derive(Default)]
struct Count(AtomicUsize, AtomicUsize);

impl Progress for Count {
    fn begin(&self, _phase: &str, total: usize) {
        self.0.fetch_add(total, Ordering::Relaxed);
    }
    fn advance(&self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_list_is_whole_or_an_error() {
    let sources = Sources::new();
    for number in 0..300 {
        sources.package(&format!("root/s{number}"));
    }
    let discovery = discovery(vec![sources.source("root", |_| {})]);
    let count = Count::default();
    let options = ScanOptions { progress: &count, max_packages: 300, ..ScanOptions::default() };
    let catalog = discovery.scan(&options).unwrap();
    assert_eq!(catalog.packages().len(), 300);
    assert_eq!((count.0.into_inner(), count.1.into_inner()), (300, 300));

    let options = ScanOptions { max_packages: 299, ..ScanOptions::default() };
    let error = discovery.scan(&options).unwrap_err();
    assert!(matches!(error, ScanError::Entries { actual: 300, limit: 299, .. }), "{error}");

    let limits = Limits { skill_bytes: 10, ..Limits::DEFAULT };
    let options = ScanOptions { limits, ..ScanOptions::default() };
    let catalog = discovery.scan(&options).unwrap();
    assert_eq!(catalog.left_out().len(), 300);
    assert_eq!(catalog.left_out()[0].diagnostics[0].code, "limit-skill-bytes");
}

/// What lies about beside the packages counts too, and is counted to its end.
#[test]
fn a_source_of_too_much_that_is_no_package_is_an_error() {
    let sources = Sources::new();
    sources.package("root/demo");
    (1..160).for_each(|number| sources.file(&format!("root/f{number}"), ""));
    let discovery = discovery(vec![sources.source("root", |_| {})]);
    let scan = |max_packages| discovery.scan(&ScanOptions { max_packages, ..ScanOptions::default() });
    assert_eq!(ids(&scan(160).unwrap()), ["demo"]);
    for limit in [159, 10, 0] {
        let error = scan(limit).unwrap_err();
        assert!(matches!(&error, ScanError::Entries { actual: 160, .. }), "{error}");
        assert_eq!((error.code(), error.to_string().contains("160 entries")), ("scan-limit", true));
    }
}

/// Stops the scan from within, as another thread would.
struct Stop(AtomicBool, AtomicUsize);

impl Progress for Stop {
    fn begin(&self, _phase: &str, _total: usize) {}
    fn advance(&self) {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_cancelled_scan_ends_when_its_workers_have() {
    let sources = Sources::new();
    (0..100).for_each(|number| sources.package(&format!("root/s{number}")));
    let discovery = discovery(vec![sources.source("root", |_| {})]);
    let stop = Stop(AtomicBool::new(false), AtomicUsize::new(0));
    let options = ScanOptions { progress: &stop, cancel: Some(&stop.0), ..ScanOptions::default() };
    assert!(matches!(discovery.scan(&options), Err(ScanError::Cancelled)));
    assert_eq!(stop.1.load(Ordering::Relaxed), 100, "every entry is accounted for");
    assert_eq!(discovery.scan(&ScanOptions::default()).unwrap().packages().len(), 100);
}

#[test]
fn what_is_meant_as_a_package_is_told_from_what_is_not() {
    let sources = Sources::new();
    sources.file("root/broken/SKILL.md", "no front matter");
    sources.file("root/case/skill.md", skill("case"));
    sources.file("root/empty/x", "");
    sources.file("root/nested/COLLECTION.json", "{");
    sources.file("src/linked/SKILL.md", "no front matter");
    sources.link("../src/linked", "root/linked");
    sources.link("../src", "root/none");
    sources.link("/nonexistent", "root/nowhere");
    std::fs::create_dir_all(sources.bytes("root", b"n\xff")).unwrap();
    let read = |catalog: &Catalog| -> Vec<String> {
        let read = catalog.left_out().iter().filter_map(|left| {
            let located = catalog.locate_left_out(left).unwrap()?;
            let content = located.root.read(format!("{}/SKILL.md", located.path)).unwrap_or_default();
            let (path, name) = (&located.path, located.name.unwrap_or_default());
            Some(format!("{}: {path} {name} {}", left.directory, content.len()))
        });
        read.collect()
    };
    let refusing = sources.by_path("root", |source| source.layout = Layout::Nested(2));
    assert_eq!(read(&scan(vec![refusing])), ["broken: broken broken 15", "case: case case 0"]);
    let allowing = sources.by_path("root", |source| source.links = Links::Allow);
    let expected = ["broken: broken broken 15", "case: case case 0", "linked: . linked 15"];
    assert_eq!(read(&scan(vec![allowing])), expected);
    sources.file("flat/broken.md", "---\nname: x\n");
    sources.file("flat/notes.md", "notes");
    let flat = scan(vec![sources.source("flat", |source| source.layout = Layout::Flat)]);
    let located = flat.locate_left_out(&flat.left_out()[0]).unwrap().unwrap();
    assert_eq!((located.path.as_str(), located.name.as_deref()), ("broken.md", Some("broken")));
    assert!(flat.locate_left_out(&flat.left_out()[1]).unwrap().is_none());
}
