//! The archive's bytes: deterministic, readable by others, wholly checked.

use std::fs;
use std::process::Command;

use skillfreeze_manifest::Digest;

use crate::support::{Place, read_back};

fn long(directory: usize, name: usize) -> String {
    format!("{}/{}", "d".repeat(directory), "n".repeat(name))
}

/// A package with every kind of header: plain, split, too long to split, not ASCII.
fn varied(place: &Place) {
    place.package("demo");
    place.write("demo/scripts/run", "#!/bin/sh\necho hi\n");
    place.write("demo/empty", "");
    place.write("demo/block", [7; 512]);
    place.write(&format!("demo/{}", long(150, 100)), "split");
    place.write(&format!("demo/{}", long(120, 150)), "does not split");
    place.write("demo/münchen/日本語.md", "not ascii");
    place.write(&format!("demo/{}", "x".repeat(100)), "just fits");
    place.write(&format!("demo/{}", "y".repeat(101)), "just does not");
}

#[test]
fn golden() {
    let place = Place::new();
    varied(&place);
    let store = place.open();
    let added = place.add_one(&store, "demo").unwrap();
    let tar = zstd::decode_all(fs::File::open(place.archive()).unwrap()).unwrap();
    assert_eq!(
        (added.revision.digest.to_string().as_str(), tar.len(), Digest::of(&tar).to_string().as_str()),
        GOLDEN
    );
    assert_eq!(added.revision.archive, Digest::of(&fs::read(place.archive()).unwrap()));
}

/// Of the stream before it is compressed: the compressed bytes may change with the encoder.
const GOLDEN: (&str, usize, &str) = (
    "sha256:b0c66e785d6f4d28a3649b59704a3c552c2f8e2efe5f8d76d4efc43920575365",
    12800,
    "sha256:ee23e2946ec7286e04e36a980bbdc62c4f19554be2ae6bf4de02698232296bed",
);

#[test]
fn other_programs_extract_it() {
    let place = Place::new();
    varied(&place);
    let store = place.open();
    let added = place.add_one(&store, "demo").unwrap();
    let tar = zstd::decode_all(fs::File::open(place.archive()).unwrap()).unwrap();
    fs::write(place.path("demo.tar"), tar).unwrap();
    let python = "import sys,tarfile; tarfile.open(sys.argv[1], 'r:').extractall(sys.argv[2])";
    for (name, program, arguments) in [
        (
            "tar",
            "tar",
            vec!["--extract", "--preserve-permissions", "--file", "demo.tar", "--directory", "tar"],
        ),
        ("python", "python3", vec!["-W", "ignore", "-c", python, "demo.tar", "python"]),
    ] {
        fs::create_dir(place.path(name)).unwrap();
        let Ok(output) = Command::new(program).args(arguments).current_dir(place.path("")).output() else {
            println!("skipped: no `{program}` here");
            continue;
        };
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        for (path, content) in read_back(&store, &added) {
            assert_eq!(fs::read(place.path(name).join(&path)).unwrap(), content, "{program}: {path}");
        }
        let diff =
            Command::new("diff").arg("-r").args([place.path("src/demo"), place.path(name)]).output().unwrap();
        assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
        use std::os::unix::fs::PermissionsExt as _;
        let mode =
            |path: &str| fs::metadata(place.path(name).join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("scripts/run"), mode("SKILL.md")), (0o755, 0o644));
    }
}

#[test]
fn every_changed_byte_is_found() {
    let place = Place::new();
    place.package("demo");
    place.write("demo/f", "some text, some text, some text");
    let store = place.open();
    let digest = place.add_one(&store, "demo").unwrap().revision.digest;
    let archive = place.archive();
    let good = fs::read(&archive).unwrap();
    let read =
        || store.open_package(&digest).unwrap().read_files(|_, _| Ok(())).map_err(|error| error.code());
    assert_eq!(read(), Ok(()));
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(&archive, &bad).unwrap();
        assert!(matches!(read(), Err("archive-digest" | "archive-damaged")), "byte {at}");
        fs::write(&archive, &good[..at]).unwrap();
        assert!(read().is_err(), "cut at {at}");
    }
    fs::write(&archive, [&good[..], b"\0"].concat()).unwrap();
    assert_eq!(read(), Err("archive-digest"));
    fs::write(&archive, good.repeat(2)).unwrap();
    assert_eq!(read(), Err("archive-digest"));
    fs::remove_file(&archive).unwrap();
    assert_eq!(store.open_package(&digest).unwrap_err().code(), "archive-missing");
}

#[test]
fn a_package_may_be_read_in_part_and_is_checked_in_whole() {
    let place = Place::new();
    varied(&place);
    let store = place.open();
    let digest = place.add_one(&store, "demo").unwrap().revision.digest;
    let mut seen = 0;
    let package = store.open_package(&digest).unwrap();
    package
        .read_files(|_, bytes| {
            seen += 1;
            bytes.read(&mut [0; 3]).map(drop)
        })
        .unwrap();
    assert_eq!(seen, 9);
    let package = store.open_package(&digest).unwrap();
    let error = package.read_files(|_, _| Err(rustix::io::Errno::NOSPC.into())).unwrap_err();
    assert_eq!(error.code(), "no-space");
    assert_eq!(store.open_package(&Digest::of(b"")).unwrap_err().code(), "package-unknown");
}
