//! Each form of a plan, compared whole, and what no form can carry.

use std::process::Command;

use skillfreeze_manifest::EntryKind;

use super::*;
use crate::seatbelt::Resolved;

const SNAPSHOT: &str = "/home/u/store/snapshots/sha256/x";

fn resolve(path: &Utf8Path) -> Option<Resolved> {
    Some(Resolved { path: path.to_owned(), links: Vec::new() })
}

fn request() -> HandoffRequest {
    HandoffRequest {
        lease: Some("/home/u/store/leases/x".into()),
        store: Some("/home/u/store".into()),
        ..HandoffRequest::default()
    }
}

fn extensions(path: &str) -> Option<Bind> {
    Some(Bind::new(path.into(), None, true, EntryKind::Directory, (1000, 1000)).unwrap())
}

fn at_host() -> HandoffRequest {
    HandoffRequest { at_host: true, extensions: extensions("/home/u/it's kept"), ..request() }
}

fn try_plan(path: &str, request: &HandoffRequest) -> Result<Handoff, PlanError> {
    let skills = vec!["demo".parse().unwrap()];
    Handoff::of(Digest::of(b"snapshot"), Utf8Path::new(path), skills, request, &resolve)
}

fn plan(request: &HandoffRequest) -> Handoff {
    try_plan(SNAPSHOT, request).unwrap()
}

#[test]
fn json() {
    let text = |handoff: &Handoff| format!("{}\n", serde_json::to_string_pretty(handoff).unwrap());
    assert_eq!(text(&plan(&request())), include_str!("mounted.json"));
    assert_eq!(text(&plan(&at_host())), include_str!("at_host.json"));
}

#[test]
fn words() {
    let (mounted, at_host) = (plan(&request()), plan(&at_host()));
    let line = |words: Vec<String>| words_text(&words, false);
    let forms = [
        ("bwrap", line(mounted.bubblewrap_words())),
        ("bwrap at the host's paths", line(at_host.bubblewrap_words())),
        ("docker", line(mounted.docker_words().unwrap())),
        ("docker at the host's paths", line(at_host.docker_words().unwrap())),
        ("env", mounted.variable_lines().unwrap()),
        ("env at the host's paths", at_host.variable_lines().unwrap()),
        ("seatbelt", line(at_host.seatbelt_words(&resolve).unwrap())),
    ];
    let text: String = forms.into_iter().map(|(form, text)| format!("== {form}\n{text}")).collect();
    assert_eq!(text, include_str!("words.txt"));
}

#[test]
fn without_a_store_the_manifest_is_locked() {
    let bare = HandoffRequest { lease: None, store: None, ..request() };
    let handoff = plan(&bare);
    assert!(!handoff.lease.keeps);
    assert_eq!(handoff.lease.target, "/skills/.snapshot.json");
    assert_eq!(handoff.mounts.len(), 2, "the manifest is in the snapshot already");
    let at_host = plan(&HandoffRequest { at_host: true, ..bare });
    assert_eq!(at_host.lease.target, at_host.lease.path);
    assert_eq!(at_host.notes, [HandoffNote::NoExtensions]);
    assert!(!at_host.environment.contains_key("SKILL_EXTENSIONS_DIR"));
}

#[test]
fn refuses_each_with_its_own_code() {
    let named = |skills_dir: &str, extensions_dir: &str| {
        let (skills_dir, extensions_dir) = (skills_dir.into(), extensions_dir.into());
        HandoffRequest { names: Names { skills_dir, extensions_dir, ..Names::default() }, ..request() }
    };
    let variable = |name: &str| HandoffRequest {
        names: Names { skills_variable: name.to_owned(), ..Names::default() },
        ..request()
    };
    let kept = |path: &str| HandoffRequest { extensions: extensions(path), ..request() };
    for (request, code) in [
        (HandoffRequest { require: Some(Integrity::Sealed), ..request() }, "integrity-unavailable"),
        (HandoffRequest { require: Some(Integrity::ReadOnly), ..request() }, "integrity-unavailable"),
        (named("skills", "/x"), "mount-target-invalid"),
        (named("/skills/../x", "/x"), "mount-target-invalid"),
        (named("/", "/x"), "mount-target-reserved"),
        (named("/etc", "/x"), "mount-target-reserved"),
        (named("/usr", "/x"), "mount-target-reserved"),
        (named("/lib64/x", "/x"), "mount-target-reserved"),
        (named("/proc/x", "/x"), "mount-target-reserved"),
        (named("/skills", "/dev/x"), "mount-target-reserved"),
        (named("/skills", "/tmp"), "mount-target-reserved"),
        (named("/skills", "/skills/x"), "mount-target-reserved"),
        (named("/skills", "/"), "mount-target-reserved"),
        (named("/skills", "/skills.lease"), "mount-target-reserved"),
        (variable("A B"), "environment-name"),
        (variable("SKILLS_INTEGRITY"), "environment-name"),
        (kept(SNAPSHOT), "bind-store"),
        (kept("/home/u"), "bind-store"),
        (HandoffRequest { store: None, ..kept("/home/u") }, "bind-snapshot"),
    ] {
        let refused = try_plan(SNAPSHOT, &request).map_err(|error| error.code());
        assert_eq!(refused.map(|_| ()), Err(code), "{request:?}");
    }
    assert!(try_plan(SNAPSHOT, &HandoffRequest { require: Some(Integrity::Checked), ..request() }).is_ok());
}

#[test]
fn what_a_form_cannot_carry_is_refused_by_name() {
    let host = HandoffRequest { at_host: true, lease: None, store: None, ..request() };
    let odd = "/tmp/a, \"b\"\n$c";
    let handoff = try_plan(odd, &host).unwrap();
    for refused in [handoff.variable_lines().err(), handoff.docker_words().err()] {
        let error = refused.unwrap();
        assert_eq!(error.code(), "plan-path");
        assert!(error.to_string().contains(r#"/tmp/a, \"b\"\n$c"#), "{error}");
    }
    assert!(handoff.seatbelt_words(&resolve).is_ok());
    let error = plan(&request()).seatbelt_words(&resolve).unwrap_err();
    assert!(error.code() == "plan-path" && error.to_string().contains("/skills"), "{error}");
    let colon =
        HandoffRequest { names: Names { extensions_dir: "/x:y".into(), ..Names::default() }, ..request() };
    assert_eq!(plan(&colon).docker_words().unwrap_err().code(), "plan-path");
    // A shell carries all of it to bubblewrap.
    let script = format!("printf '%s\\0' {}", words_text(&handoff.bwrap, false));
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), words_text(&handoff.bwrap, true));
}

/// docker reads a mount as a record of comma-separated values; so does Python.
#[test]
fn a_mount_of_docker_is_a_record_that_others_read() {
    let path = "/srv/a,b \"c\"/x";
    let host = HandoffRequest { at_host: true, lease: None, store: None, ..request() };
    let words = try_plan(path, &host).unwrap().docker_words().unwrap();
    let script = "import csv, sys; print(*next(csv.reader([sys.argv[1]])), sep='\\n')";
    let output = Command::new("/usr/bin/python3").args(["-c", script, &words[1]]).output().unwrap();
    let read = String::from_utf8(output.stdout).unwrap();
    assert_eq!(read, format!("type=bind\nsource={path}\ntarget={path}\nreadonly\n"));
}
