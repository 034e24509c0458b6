//! What is said of a package without storing it.

use std::os::unix::fs::symlink;
use std::sync::Mutex;

use skillfreeze_manifest::{Diagnostic, Form, Limits, PackagePath, Severity};
use skillfreeze_store::{
    AddError, AddOptions, Candidate, Describe, Described, Description, Inspected, Origin, inspect,
};

use crate::support::{ByName, OPTIONS, Place, candidate, codes, skill};

fn inspect_demo(place: &Place, options: &AddOptions<'_>) -> Result<Inspected, AddError> {
    inspect(&candidate(&place.dir("src"), "demo"), options)
}

#[test]
fn it_says_what_add_says_and_writes_nothing() {
    let place = Place::new();
    place.package("demo");
    place.write("demo/a/f", "x".repeat(6 << 20));
    place.write("demo/.git/config", "");
    symlink("a/f", place.path("src/demo/link")).unwrap();
    place.write("flat.md", skill("flat"));
    let before = place.stamps();
    let inspected = inspect_demo(&place, &OPTIONS).unwrap();
    let src = place.dir("src");
    let origin = Origin { source: None, path: "/src/flat.md".into() };
    let flat_candidate = Candidate::new(&src, "flat.md", Form::File, origin);
    let flat = inspect(&flat_candidate, &OPTIONS).unwrap();
    assert_eq!(place.stamps(), before);

    let store = place.open();
    let added = place.add_one(&store, "demo").unwrap();
    assert_eq!(inspected.listing.digest(), added.revision.digest);
    assert_eq!(store.listing(&added.revision.digest).unwrap().unwrap(), inspected.listing);
    assert_eq!(inspected.diagnostics, added.diagnostics);
    assert_eq!(codes(&added.diagnostics), [(".git", "vcs-skipped"), ("link", "materialized-link")]);
    assert_eq!(inspected.description.id, added.revision.id);
    assert_eq!(inspected.description.version, added.revision.version);
    let added = store.add(&[flat_candidate], &OPTIONS).unwrap().remove(0).unwrap();
    assert_eq!(flat.listing.digest(), added.revision.digest);
}

#[test]
fn all_faults_are_told_at_once() {
    let place = Place::new();
    place.write("demo/SKILL.md", "---\nname: NO\n---\n");
    place.write("demo/b.pyc", "");
    place.write("demo/.git/config", "");
    symlink("/etc/passwd", place.path("src/demo/x")).unwrap();
    let expected =
        [("b.pyc", "bytecode"), ("x", "symlink-escape"), ("", "name-invalid"), (".git", "vcs-skipped")];
    let refused = inspect_demo(&place, &OPTIONS).unwrap_err();
    assert_eq!(codes(&refused.diagnostics()), expected);
    assert_eq!(codes(&place.add_one(&place.open(), "demo").unwrap_err().diagnostics()), expected);
    assert!(refused.is_refusal() && refused.code() == "bytecode");

    // The parser is asked nothing of a `SKILL.md` that is not there, or not within its limit.
    let limits = Limits { skill_bytes: 10, ..Limits::DEFAULT };
    let refused = inspect_demo(&place, &AddOptions { limits, drop_bytecode: true, ..OPTIONS }).unwrap_err();
    let faults = refused.diagnostics();
    let faults: Vec<Diagnostic> =
        faults.into_iter().filter(|found| found.severity == Severity::Error).collect();
    assert_eq!(codes(&faults), [("SKILL.md", "limit-skill-bytes"), ("x", "symlink-escape")]);

    // Nothing but `SKILL.md` is at fault: what else there is to say comes after it.
    std::fs::remove_file(place.path("src/demo/x")).unwrap();
    let invalid = inspect_demo(&place, &AddOptions { drop_bytecode: true, ..OPTIONS }).unwrap_err();
    let expected = [("", "name-invalid"), (".git", "vcs-skipped"), ("b.pyc", "bytecode-dropped")];
    assert_eq!(codes(&invalid.diagnostics()), expected);
    assert_eq!(invalid.code(), "invalid");
}

#[test]
fn an_id_that_is_not_the_expected_one_is_told() {
    let place = Place::new();
    place.package("demo");
    let src = place.dir("src");
    let expecting = Candidate { id: Some("other".parse().unwrap()), ..candidate(&src, "demo") };
    assert_eq!(inspect(&expecting, &OPTIONS).unwrap_err().code(), "id-changed");
}

/// Keeps what it is shown.
#[derive(Default)]
struct Reader(Mutex<Vec<(String, bool, Vec<u8>)>>);

impl Describe for Reader {
    fn describe(&self, package: Described<'_>) -> Result<Description, Vec<Diagnostic>> {
        ByName.describe(package)
    }

    fn look_at(&self, path: &PackagePath, executable: bool, head: &[u8]) -> Vec<Diagnostic> {
        self.0.lock().unwrap().push((path.to_string(), executable, head.to_vec()));
        let seen = Diagnostic::new(Severity::Warning, "seen", "").at_path(path.as_str());
        if path.as_str() == "run" { vec![seen] } else { Vec::new() }
    }
}

#[test]
fn each_file_is_looked_at_once_by_its_beginning() {
    let place = Place::new();
    place.package("demo");
    place.write("demo/empty", "");
    place.write("demo/large", "x".repeat(1 << 20));
    place.write("demo/run", "#!/bin/sh\n");
    let reader = Reader::default();
    let inspected = inspect_demo(&place, &AddOptions { describe: &reader, ..OPTIONS }).unwrap();
    assert_eq!(codes(&inspected.diagnostics), [("run", "seen")]);
    let expected = [
        ("SKILL.md", false, skill("demo")),
        ("empty", false, String::new()),
        ("large", false, "x".repeat(64 << 10)),
        ("run", true, "#!/bin/sh\n".to_owned()),
    ];
    let expected = expected.map(|(path, executable, head)| (path.to_owned(), executable, head.into_bytes()));
    assert_eq!(*reader.0.lock().unwrap(), expected);
}
