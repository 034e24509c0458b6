//! Sources that cannot be read, and sources that do not make a discovery.

use std::fs;

use skillfreeze_catalog::{ConflictPolicy, Discovery, DiscoveryError, Links, REGISTERED_ID, ScanError};
use skillfreeze_testing::{set_mode, skip};

use crate::support::{Sources, ids, try_scan};

#[test]
fn a_source_that_is_absent_costs_itself_unless_it_is_required() {
    let sources = Sources::new();
    sources.package("ok/demo");
    sources.file("file", "x");
    for (path, code) in
        [("absent", "root-absent"), ("file", "root-not-a-directory"), ("file/below", "root-not-a-directory")]
    {
        let with = |required| {
            let change = |source: &mut skillfreeze_catalog::Definition| source.required = required;
            try_scan(vec![sources.by_path(path, change), sources.by_path("ok", |_| {})])
        };
        let catalog = with(false).unwrap();
        assert_eq!(ids(&catalog), ["demo"]);
        let fault = catalog.sources()[0].fault.as_ref().unwrap();
        assert!(fault.code == code && fault.message.contains(path), "{fault}");
        assert!(catalog.sources()[1].fault.is_none());
        let error = with(true).unwrap_err();
        assert!(error.code() == code && error.to_string().contains(path), "{error}");
    }
}

#[test]
fn a_root_that_is_kept_from_us_is_an_error() {
    if rustix::process::geteuid().is_root() {
        skip!("root reads everything");
    }
    let sources = Sources::new();
    sources.package("ok/demo");
    sources.package("locked/demo");
    set_mode(sources.path("locked"), 0o000);
    let scanned = try_scan(vec![sources.by_path("ok", |_| {}), sources.by_path("locked", |_| {})]);
    set_mode(sources.path("locked"), 0o755);
    let error = scanned.unwrap_err();
    assert_eq!(error.code(), "root-unreadable");
    assert!(matches!(error, ScanError::Root { ref id, .. } if id == "locked"), "{error}");
}

#[test]
fn a_handle_of_something_else_is_no_root() {
    let sources = Sources::new();
    sources.file("file", "x");
    let file = cap_std::fs::Dir::from_std_file(fs::File::open(sources.path("file")).unwrap());
    let definition = skillfreeze_catalog::Definition::new("file", "/x/file".parse().unwrap());
    let source = std::sync::Arc::new(skillfreeze_catalog::FileSource::new(definition, file));
    let catalog = try_scan(vec![source]).unwrap();
    assert_eq!(catalog.sources()[0].fault.as_ref().unwrap().code, "root-not-a-directory");
}

#[test]
fn sources_that_cannot_be_told_apart_are_errors() {
    let sources = Sources::new();
    sources.package("root/demo");
    let registered = Discovery::new(vec![sources.by_path(REGISTERED_ID, |_| {})], ConflictPolicy::First);
    assert!(matches!(registered, Err(DiscoveryError::RegisteredId)));
    for ids in [&["root", "root"][..], &["root", "other", "root"]] {
        let list = ids.iter().map(|id| sources.by_path(id, |source| source.links = Links::Refuse)).collect();
        let error = Discovery::new(list, ConflictPolicy::First).unwrap_err();
        assert!(matches!(&error, DiscoveryError::DuplicateSource { id } if ids.contains(&id.as_str())));
        assert_eq!(error.code(), "source-twice");
    }
}
