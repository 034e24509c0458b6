//! What a scan makes of odd and hostile directories.
#![expect(clippy::disallowed_methods, reason = "makes the directories that are scanned")]

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use camino::Utf8PathBuf;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use skillfreeze_catalog::{Catalog, Layout, ScanError, ScanOptions, Source};
use skillfreeze_manifest::{Limits, Progress, Severity, SkillId};
use skillfreeze_testing::{directory, file, package, set_mode, skip};
use tempfile::TempDir;

/// A temporary directory with sources in it.
struct Sources(TempDir);

impl Sources {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        file(self.path(path), content);
    }

    fn package(&self, path: &str) {
        let (directory, name) = path.rsplit_once('/').expect("a source and a name");
        package(self.path(directory), name);
    }

    fn link(&self, target: &str, path: &str) {
        symlink(target, self.path(path)).expect("the name is free");
    }

    fn fifo(&self, path: &str) {
        mknodat(CWD, self.path(path), FileType::Fifo, Mode::RUSR, 0).expect("the name is free");
    }

    fn open(&self, id: &str) -> Source {
        let path = Utf8PathBuf::from_path_buf(self.path(id)).expect("the temporary directory is UTF-8");
        let root = Dir::open_ambient_dir(&path, ambient_authority()).expect("the source is there");
        Source { id: id.to_owned(), path, root, layout: Layout::Children }
    }

    fn scan(&self, ids: &[&str]) -> Catalog {
        let sources = ids.iter().map(|id| self.open(id)).collect();
        Catalog::scan(sources, &ScanOptions::default()).expect("the sources can be listed")
    }
}

fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: d\n---\nbody\n")
}

fn id(text: &str) -> SkillId {
    text.parse().expect("an id")
}

fn ids(catalog: &Catalog) -> Vec<&str> {
    catalog.packages().iter().map(|package| package.id.as_str()).collect()
}

/// `directory: code` for all that is left out, the first reason of each.
fn left_out(catalog: &Catalog) -> Vec<String> {
    let brief =
        |left: &skillfreeze_catalog::LeftOut| format!("{}: {}", left.directory, left.diagnostics[0].code);
    catalog.left_out().iter().map(brief).collect()
}

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
    directory(sources.path("root").join(std::ffi::OsStr::from_bytes(b"b\xff")));
    let catalog = sources.scan(&["root"]);
    assert_eq!(ids(&catalog), ["ok", "tail"]);
    assert_eq!(
        left_out(&catalog),
        [
            "b\\xff: path-not-utf8",
            "body: skill-md-too-large",
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
    sources.link("../outside.md", "root/linked.md");
    sources.file("outside.md", "x");
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
fn the_first_source_and_then_the_first_directory_wins() {
    let sources = Sources::new();
    for directory in ["a/one", "b/demo", "b/only", "c/demo"] {
        sources.package(directory);
    }
    sources.file("a/two/SKILL.md", skill("demo"));
    sources.file("a/three/SKILL.md", skill("demo").replace(": d\n", ": the third\n"));
    let catalog = sources.scan(&["a", "b", "c"]);
    assert_eq!(ids(&catalog), ["demo", "one", "only"]);
    let demo = catalog.find(&id("demo")).unwrap();
    assert_eq!((demo.source, demo.directory.as_str(), &demo.shadowed_by), (0, "three", &None));
    assert_eq!(left_out(&catalog), ["two: shadowed-by", "demo: shadowed-by", "demo: shadowed-by"]);
    for left in catalog.left_out() {
        assert_eq!(left.id, Some(id("demo")));
        assert_eq!(left.shadowed_by, Some((0, "three".to_owned())));
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
    assert_eq!(catalog.find_in("c", &id("demo")).unwrap().shadowed_by, Some((0, "three".to_owned())));
    assert!(catalog.find(&id("none")).is_none());

    let reversed = sources.scan(&["c", "b", "a"]);
    assert_eq!(reversed.find(&id("demo")).unwrap().directory, "demo");
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
    let (one, two) = (sources.scan(&["one"]), sources.scan(&["two"]));
    assert_eq!(ids(&one), ["a-b", "a_b", "aaa", "bbb", "ccc", "eee"]);
    assert_eq!(one.packages(), two.packages());
}

#[derive(Default)]
struct Count(AtomicUsize, AtomicUsize);

impl Progress for Count {
    fn begin(&self, _phase: &str, total: usize) {
        self.0.store(total, Ordering::Relaxed);
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
    let count = Count::default();
    let options = ScanOptions { progress: &count, max_packages: 300, ..ScanOptions::default() };
    let catalog = Catalog::scan(vec![sources.open("root")], &options).unwrap();
    assert_eq!(catalog.packages().len(), 300);
    assert_eq!((count.0.into_inner(), count.1.into_inner()), (300, 300));

    let options = ScanOptions { max_packages: 299, ..ScanOptions::default() };
    let error = Catalog::scan(vec![sources.open("root")], &options).unwrap_err();
    assert!(matches!(error, ScanError::Limit { actual: 300, limit: 299 }), "{error}");

    let limits = Limits { skill_bytes: 10, ..Limits::DEFAULT };
    let options = ScanOptions { limits, ..ScanOptions::default() };
    let catalog = Catalog::scan(vec![sources.open("root")], &options).unwrap();
    assert_eq!(catalog.left_out().len(), 300);
    assert_eq!(catalog.left_out()[0].diagnostics[0].code, "skill-md-too-large");
}

/// What lies about beside the packages is not listed to its end.
#[test]
fn a_source_of_too_much_that_is_no_package_is_an_error() {
    let sources = Sources::new();
    sources.package("root/demo");
    (1..160).for_each(|number| sources.file(&format!("root/f{number}"), ""));
    let options = ScanOptions { max_packages: 10, ..ScanOptions::default() };
    let scan = || Catalog::scan(vec![sources.open("root")], &options);
    assert_eq!(ids(&scan().unwrap()), ["demo"]);
    sources.file("root/.one-more", "");
    let error = scan().unwrap_err();
    assert!(matches!(&error, ScanError::Entries { limit: 160, .. }), "{error}");
    assert_eq!(error.code(), "scan-limit");
}

#[test]
fn sources_that_cannot_be_told_apart_or_listed_are_errors() {
    let sources = Sources::new();
    sources.package("root/demo");
    let error = Catalog::scan(vec![sources.open("root"), sources.open("root")], &ScanOptions::default());
    assert!(matches!(error, Err(ScanError::DuplicateSource { id }) if id == "root"));

    sources.file("file", "x");
    let file = Dir::from_std_file(fs::File::open(sources.path("file")).unwrap());
    let source =
        Source { id: "file".to_owned(), path: "/x/file".into(), root: file, layout: Layout::Children };
    let error = Catalog::scan(vec![source], &ScanOptions::default()).unwrap_err();
    assert!(matches!(&error, ScanError::List { path, .. } if path == Path::new("/x/file")), "{error}");
}
