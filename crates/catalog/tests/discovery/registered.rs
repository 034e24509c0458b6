//! Packages that a caller registers, and roots that a caller fills.

use std::io;

use cap_std::fs::Dir;
use skillfreeze_catalog::{
    Catalog, Discovery, Materializer, PackageDir, REGISTERED_ID, Registration, ScanOptions,
};

use crate::support::{Sources, discovery, id, ids, left_out, places, skill};

fn scan(discovery: &Discovery) -> Catalog {
    discovery.scan(&ScanOptions::default()).expect("the sources can be scanned")
}

fn register(sources: &Sources, discovery: &Discovery, path: &str) -> Registration {
    discovery.register(PackageDir { dir: sources.dir(path), path: sources.root(path) })
}

#[test]
fn a_registered_package_is_there_as_long_as_its_registration() {
    let sources = Sources::new();
    for path in
        ["project/demo", "configured/demo", "configured/other", "away/demo", "away/other", "twin/other"]
    {
        sources.package(path);
        sources.file(&format!("{path}/path"), path);
    }
    let list = vec![
        sources.source("project", |source| source.rank = 200),
        sources.source("configured", |source| source.rank = 300),
    ];
    let discovery = discovery(list);
    let before = scan(&discovery);
    assert_eq!(places(&before), ["demo: project/demo", "other: configured/other"]);

    let demo = register(&sources, &discovery, "away/demo");
    let other = register(&sources, &discovery, "away/other");
    let catalog = scan(&discovery);
    // Its rank is between the project's and what is configured.
    assert_eq!(places(&catalog), ["demo: project/demo", "other: registered/."]);
    assert_eq!(catalog.path_of(catalog.find(&id("other")).unwrap()), sources.utf8("away/other"));
    assert_eq!(
        catalog.path_of(catalog.find_in(REGISTERED_ID, &id("demo")).unwrap()),
        sources.utf8("away/demo")
    );
    assert!(catalog.require_current(catalog.packages()).is_ok());

    // The later of two is passed over, and reported.
    let twin = register(&sources, &discovery, "twin/other");
    let catalog = scan(&discovery);
    assert_eq!(catalog.path_of(catalog.find(&id("other")).unwrap()), sources.utf8("away/other"));
    assert_eq!(
        left_out(&catalog),
        [".: shadowed-by", ".: shadowed-by", "demo: shadowed-by", "other: shadowed-by"]
    );

    drop(other);
    let catalog = scan(&discovery);
    assert_eq!(catalog.path_of(catalog.find(&id("other")).unwrap()), sources.utf8("twin/other"));
    drop((demo, twin));
    assert_eq!(scan(&discovery).digest(), before.digest());
    // One that outlives its discovery is just dropped.
    let late = register(&sources, &discovery, "away/demo");
    drop(discovery);
    drop(late);
}

#[derive(Debug)]
struct Fill(&'static str, Result<&'static str, io::ErrorKind>);

impl Materializer for Fill {
    fn source(&self) -> &str {
        self.0
    }

    fn fill(&self, root: &Dir) -> io::Result<()> {
        let name = self.1?;
        root.create_dir_all(name)?;
        root.write(format!("{name}/SKILL.md"), skill(name))
    }
}

#[test]
fn a_materializer_fills_the_one_source_that_is_its_own() {
    let sources = Sources::new();
    sources.package("other/plain");
    skillfreeze_testing::directory(sources.path("filled"));
    let open = |required| {
        let change = |source: &mut skillfreeze_catalog::Definition| source.required = required;
        discovery(vec![sources.source("filled", change), sources.source("other", |_| {})])
    };
    let mut filled = open(false);
    for (target, code) in [
        ("absent", "materializer-target"),
        ("", "materializer-target"),
        ("registered", "materializer-target"),
    ] {
        assert_eq!(filled.materialize(Box::new(Fill(target, Ok("x")))).unwrap_err().code(), code);
    }
    filled.materialize(Box::new(Fill("filled", Ok("made")))).unwrap();
    let twice = filled.materialize(Box::new(Fill("filled", Ok("y")))).unwrap_err();
    assert_eq!(twice.code(), "materializer-twice");
    assert_eq!(ids(&scan(&filled)), ["made", "plain"]);

    // What a source holds whose materializer failed may be half of it.
    let mut failing = open(false);
    failing.materialize(Box::new(Fill("filled", Err(io::ErrorKind::TimedOut)))).unwrap();
    let catalog = scan(&failing);
    assert_eq!(ids(&catalog), ["plain"]);
    assert_eq!(catalog.sources()[0].fault.as_ref().unwrap().code, "materializer-failed");
    let mut required = open(true);
    required.materialize(Box::new(Fill("filled", Err(io::ErrorKind::TimedOut)))).unwrap();
    let error = required.scan(&ScanOptions::default()).unwrap_err();
    assert_eq!(error.code(), "materializer-failed");
}
