//! Manifests that were changed: none but the one that was named is believed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;
use skillfreeze_testing::{Runner, file, package, set_mode, sha256};

use super::{Frozen, Tampering, replace, rewrite, run_table};
use crate::support::{environment, prepare};

const MANIFEST: &str = ".snapshot.json";

/// Rewrites the manifest as text.
fn edit(at: &Path, change: impl FnOnce(String) -> String) {
    rewrite(&at.join(MANIFEST), |bytes| change(String::from_utf8(bytes).unwrap()).into_bytes());
}

fn swap(at: &Path, from: &str, to: &str) {
    edit(at, |text| {
        assert!(text.contains(from), "{from}: {text}");
        text.replacen(from, to, 1)
    });
}

fn node(path: &Path, kind: FileType) {
    mknodat(CWD, path, kind, Mode::from_raw_mode(0o444), 0).unwrap();
}

/// A change after which the bytes are no manifest at all; what is not the one named is not parsed.
const fn no_manifest(what: &'static str, change: fn(&Path)) -> Tampering {
    Tampering::new(what, change, &[(MANIFEST, "manifest-digest")])
        .unanchored(&[(MANIFEST, "manifest-invalid")])
}

/// A change after which something else than a file is in the manifest's place.
const fn no_file(what: &'static str, change: fn(&Path)) -> Tampering {
    Tampering::new(what, change, &[(MANIFEST, "wrong-type")])
}

#[test]
fn an_edited_manifest_is_found() {
    run_table(
        Runner::available(),
        &[
            no_manifest("a newline at the end", |at| edit(at, |text| text + "\n")),
            no_manifest("a newline at the beginning", |at| edit(at, |text| format!("\n{text}"))),
            no_manifest("white space", |at| swap(at, "{\"packages\"", "{ \"packages\"")),
            no_manifest("indented", |at| {
                edit(at, |text| {
                    let value: Value = serde_json::from_str(&text).unwrap();
                    serde_json::to_string_pretty(&value).unwrap()
                });
            }),
            no_manifest("keys in another order", |at| {
                edit(at, |text| {
                    let schema = "\"schema\":\"skillfreeze.snapshot.v1\"";
                    let rest = text.replace(&format!(",{schema}"), "");
                    rest.replacen('{', &format!("{{{schema},"), 1)
                });
            }),
            no_manifest("packages in another order", |at| {
                edit(at, |text| {
                    let mut value: Value = serde_json::from_str(&text).unwrap();
                    value["packages"].as_array_mut().unwrap().reverse();
                    serde_json::to_string(&value).unwrap()
                });
            }),
            no_manifest("files in another order", |at| {
                edit(at, |text| {
                    let mut value: Value = serde_json::from_str(&text).unwrap();
                    value["packages"][0]["files"].as_array_mut().unwrap().reverse();
                    serde_json::to_string(&value).unwrap()
                });
            }),
            no_manifest("an escape", |at| swap(at, "\"demo\"", "\"dem\\u006f\"")),
            no_manifest("another size", |at| swap(at, "\"size\":0", "\"size\":1")),
            no_manifest("another mode", |at| swap(at, "\"executable\":true", "\"executable\":false")),
            no_manifest("another path", |at| swap(at, "a/b.md", "a/c.md")),
            no_manifest("a path that leads out", |at| swap(at, "\"a/b.md\"", "\"../../evil\"")),
            no_manifest("an id that leads out", |at| swap(at, "\"id\":\"demo\"", "\"id\":\"../demo\"")),
            no_manifest("an id twice", |at| swap(at, "\"id\":\"other\"", "\"id\":\"demo\"")),
            no_manifest("a digest in capitals", |at| {
                edit(at, |text| {
                    let (before, after) = text.split_once("sha256:").unwrap();
                    format!("{before}sha256:{}{}", after[..64].to_uppercase(), &after[64..])
                });
            }),
            no_manifest("an unknown field", |at| swap(at, "{\"packages\"", "{\"created\":1,\"packages\"")),
            no_manifest("a key twice", |at| swap(at, "\"id\":\"demo\"", "\"id\":\"demo\",\"id\":\"demo\"")),
            no_manifest("a newer schema", |at| swap(at, "snapshot.v1", "snapshot.v2")),
            no_manifest("trailing data", |at| edit(at, |text| text + "{}")),
            no_manifest("conflict markers", |at| edit(at, |text| text + "\n<<<<<<< x\n")),
            no_manifest("a byte order mark", |at| edit(at, |text| format!("\u{feff}{text}"))),
            no_manifest("cut short", |at| edit(at, |text| text[..text.len() - 1].to_owned())),
            no_manifest("half of it", |at| edit(at, |text| text[..text.len() / 2].to_owned())),
            no_manifest("nothing", |at| edit(at, |_| String::new())),
            no_manifest("zeros", |at| rewrite(&at.join(MANIFEST), |bytes| vec![0; bytes.len()])),
            no_manifest("not UTF-8", |at| {
                rewrite(&at.join(MANIFEST), |bytes| [&bytes[..], b"\xff"].concat())
            }),
            no_manifest("nested without end", |at| edit(at, |_| "[".repeat(1 << 20))),
            no_manifest("huge", |at| edit(at, |text| text + &" ".repeat(8 << 20))),
        ],
    );
}

#[test]
fn a_manifest_that_is_gone_or_no_file_is_found() {
    run_table(
        Runner::available(),
        &[
            Tampering::new("gone", |at| replace(&at.join(MANIFEST), |_| {}), &[(MANIFEST, "missing")]),
            no_file("a link to the same bytes", |at| {
                let copy = at.parent().unwrap().parent().unwrap().join("copy");
                fs::copy(at.join(MANIFEST), &copy).unwrap();
                replace(&at.join(MANIFEST), |path| symlink(copy, path).unwrap());
            }),
            no_file("a link to itself", |at| {
                replace(&at.join(MANIFEST), |path| symlink(MANIFEST, path).unwrap());
            }),
            no_file("a directory", |at| {
                replace(&at.join(MANIFEST), |path| file(path.join("x"), "x"));
            }),
            no_file("a FIFO", |at| replace(&at.join(MANIFEST), |path| node(path, FileType::Fifo))),
            no_file("a socket", |at| replace(&at.join(MANIFEST), |path| node(path, FileType::Socket))),
            // Longer than any that is read; it takes no room, and must take no memory.
            Tampering::new(
                "longer than the longest",
                |at| {
                    replace(&at.join(MANIFEST), |path| {
                        fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
                        set_mode(path, 0o444);
                    });
                },
                &[(MANIFEST, "manifest-invalid")],
            ),
        ],
    );
}

/// A manifest and files that fit each other say nothing without the digest.
#[test]
fn only_the_digest_tells_a_forged_manifest() {
    run_table(
        Runner::available(),
        &[
            Tampering::new(
                "a version that nobody wrote",
                |at| {
                    edit(at, |text| {
                        let (before, after) = text.split_once("\"revision\":\"").unwrap();
                        let (revision, after) = after.split_at(12);
                        format!("{before}\"revision\":\"{revision}\",\"version\":\"6.6.6{after}")
                    });
                },
                &[(MANIFEST, "manifest-digest")],
            )
            .unanchored(&[]),
            Tampering::new(
                "an empty selection",
                |at| edit(at, |_| "{\"packages\":[],\"schema\":\"skillfreeze.snapshot.v1\"}".to_owned()),
                &[(MANIFEST, "manifest-digest")],
            )
            .unanchored(&[("demo", "unexpected"), ("other", "unexpected")]),
        ],
    );
}

/// The whole of another snapshot, under the name of the one that was asked for.
#[test]
fn another_snapshot_in_its_place_is_found() {
    for runner in Runner::available() {
        let frozen = Frozen::new(*runner);
        let other = environment(*runner);
        file(package(other.work().join("src"), "demo").join("f"), "evil");
        let (digest, path) = prepare(&other, "src");
        let place = frozen.path.parent().unwrap();
        super::remove(&frozen.path);
        let copied =
            std::process::Command::new("cp").args(["-a", "--"]).arg(&path).arg(&frozen.path).status();
        assert!(copied.unwrap().success() && place.is_dir());

        let faults = &[(MANIFEST, "manifest-digest")];
        let found = frozen.verify("anchored", &[&frozen.digest], faults);
        assert_eq!(
            (&found["faults"][0]["expected"], &found["faults"][0]["actual"]),
            (&Value::from(frozen.digest.as_str()), &Value::from(digest.as_str()))
        );
        let found = frozen.verify("unanchored", &[frozen.path.to_str().unwrap()], &[]);
        assert_eq!(
            (&found["snapshot"], &found["anchored"]),
            (&Value::from(digest.as_str()), &Value::from(false))
        );
        assert_eq!(format!("sha256:{}", sha256(frozen.path.join(MANIFEST))), digest);
        let run = frozen.run_marker();
        assert!(!frozen.has_started(), "{run:?}");
        assert_eq!(frozen.env.run(["prepare", "--source", "src"]).ok().trim(), frozen.digest);
    }
}
