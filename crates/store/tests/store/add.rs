//! What becomes of sound packages.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use skillfreeze_manifest::{Diagnostic, Digest};
use skillfreeze_store::{AddOptions, Describe, Described, Description};

use crate::support::{ByName, OPTIONS, Place, candidate, codes, names, read_back, skill};

#[test]
fn one_package_becomes_a_revision() {
    let place = Place::new();
    place.package("demo");
    place.write("demo/scripts/run", "#!/bin/sh\n");
    let store = place.open();
    let added = place.add_one(&store, "demo").unwrap();
    assert!(!added.reused && added.activated && added.revision.active);
    assert_eq!((added.files, added.bytes), (2, skill("demo").len() as u64 + 10));
    assert_eq!(added.revision.number.get(), 1);
    assert_eq!(added.revision.added_by, "tester");
    assert_eq!(added.revision.added_at, "2026-01-02T03:04:05Z");
    assert_eq!(added.revision.version.as_ref().map(|version| version.as_str()), Some("1.0"));
    // The digest of the text that `find`, `stat` and `sha256sum` give.
    let text = format!(
        "skillfreeze package v1\n100644 {} {} SKILL.md\n100755 10 {} scripts/run\n",
        skill("demo").len(),
        Digest::of(skill("demo").as_bytes()).hex(),
        Digest::of(b"#!/bin/sh\n").hex(),
    );
    assert_eq!(added.revision.digest, Digest::of(text.as_bytes()));
    let expected = vec![
        ("SKILL.md".to_owned(), skill("demo").into_bytes()),
        ("scripts/run".to_owned(), b"#!/bin/sh\n".to_vec()),
    ];
    assert_eq!(read_back(&store, &added), expected);
    assert_eq!(store.listing(&added.revision.digest).unwrap().unwrap().to_text(), text);
    assert!(names(&place.path("store/tmp")).iter().all(|name| name.ends_with(".lock")));
    drop(store);
    assert!(names(&place.path("store/tmp")).is_empty());
}

#[test]
fn the_directory_itself_can_be_the_package() {
    let place = Place::new();
    place.package("demo");
    let dir = place.dir("src/demo");
    let mut whole = candidate(&dir, ".");
    whole.origin.path = "/src/demo".into();
    let store = place.open();
    let whole = store.add(&[whole], &OPTIONS).unwrap().remove(0).unwrap();
    assert_eq!(whole.revision.digest, place.add_one(&store, "demo").unwrap().revision.digest);
}

#[test]
fn numbers_activation_and_reuse() {
    let place = Place::new();
    let store = place.open();
    place.package("demo");
    let first = place.add_one(&store, "demo").unwrap();
    place.write("demo/more", "x");
    let candidate_only = AddOptions { activate: false, ..OPTIONS };
    let second = place.add_with(&store, &["demo"], &candidate_only).remove(0).unwrap();
    assert_eq!((second.revision.number.get(), second.activated, second.reused), (2, false, false));
    let id = "demo".parse().unwrap();
    assert_eq!(store.active(&id).unwrap().unwrap().digest, first.revision.digest);

    let again = place.add_one(&store, "demo").unwrap();
    assert_eq!((again.revision.number.get(), again.activated, again.reused), (2, true, true));
    let and_again = place.add_one(&store, "demo").unwrap();
    assert_eq!((and_again.activated, and_again.reused), (false, true));
    let lines = fs::read_to_string(place.path("store/journal")).unwrap();
    // Two additions, two activations, and nothing for what was there.
    assert_eq!(lines.lines().count(), 4);

    let numbers: Vec<(u32, bool)> = store
        .revisions_of(&id)
        .unwrap()
        .iter()
        .map(|revision| (revision.number.get(), revision.active))
        .collect();
    assert_eq!(numbers, [(1, false), (2, true)]);
    let hex = second.revision.digest.hex();
    for prefix in [&hex[..12], &hex[..13], &hex] {
        assert_eq!(store.find(prefix).unwrap(), std::slice::from_ref(&and_again.revision), "{prefix}");
    }
    assert_eq!(store.find("").unwrap().len(), 2);
    for nothing in ["xyz", &hex.to_uppercase(), &format!("{hex}0"), "é"] {
        assert!(store.find(nothing).unwrap().is_empty(), "{nothing}");
    }
}

#[test]
fn a_batch_keeps_its_order_and_its_faults_apart() {
    let place = Place::new();
    let all: Vec<String> = (0..60).map(|number| format!("s{number}")).collect();
    all.iter().for_each(|name| place.package(name));
    fs::remove_file(place.path("src/s7/SKILL.md")).unwrap();
    place.write("s9/SKILL.md", skill("s8"));
    place.write("s10/SKILL.md", "---\nname: NO\n---\n");
    let store = place.open();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let results = place.add(&store, &all);
    for (name, result) in all.iter().zip(&results) {
        match *name {
            "s7" => assert_eq!(result.as_ref().unwrap_err().code(), "no-skill-file"),
            "s10" => assert_eq!(result.as_ref().unwrap_err().code(), "invalid"),
            // The very same content twice in one batch.
            "s9" => assert!(result.as_ref().unwrap().reused),
            _ => assert_eq!(result.as_ref().unwrap().revision.id.as_str(), *name),
        }
    }
    assert_eq!(store.revisions().unwrap().len(), 57);
    assert_eq!(results[7].as_ref().unwrap_err().path(), "/src/s7");
}

#[test]
fn what_is_left_out_and_what_is_remarked() {
    let place = Place::new();
    place.package("demo");
    for path in
        [".git/config", "sub/.git", ".DS_Store", "._x", "__MACOSX/._y", "Thumbs.db", "sub/desktop.ini"]
    {
        place.write(&format!("demo/{path}"), "x");
    }
    for path in [".gitignore", ".github/x", ".env.example", "metadata.json", ".hidden/f", "pkg/__init__.py"] {
        place.write(&format!("demo/{path}"), "");
    }
    place.write("demo/no.sh", "#!/bin/sh\n");
    fs::set_permissions(place.path("src/demo/no.sh"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::create_dir_all(place.path("src/demo/empty/inner")).unwrap();
    place.write("demo/__pycache__/a.pyc", "x");
    place.write("demo/b.pyc", "x");
    place.write("demo/a/f.md", "shared");
    fs::create_dir(place.path("src/demo/b")).unwrap();
    symlink("../a/f.md", place.path("src/demo/b/f.md")).unwrap();
    symlink("b/f.md", place.path("src/demo/twice")).unwrap();
    let store = place.open();
    let refused = place.add_one(&store, "demo").unwrap_err();
    // The faults, and then the remarks, but for those of files that were not read.
    assert_eq!(
        codes(&refused.diagnostics()),
        [
            ("__pycache__", "bytecode"),
            ("b.pyc", "bytecode"),
            (".DS_Store", "os-metadata-skipped"),
            ("._x", "os-metadata-skipped"),
            (".git", "vcs-skipped"),
            ("Thumbs.db", "os-metadata-skipped"),
            ("__MACOSX", "os-metadata-skipped"),
            ("b/f.md", "materialized-link"),
            ("empty", "empty-directory-dropped"),
            ("sub", "empty-directory-dropped"),
            ("sub/.git", "vcs-skipped"),
            ("sub/desktop.ini", "os-metadata-skipped"),
            ("twice", "materialized-link"),
        ]
    );
    let options = AddOptions { drop_bytecode: true, ..OPTIONS };
    let added = place.add_with(&store, &["demo"], &options).remove(0).unwrap();
    assert_eq!(
        codes(&added.diagnostics),
        [
            (".DS_Store", "os-metadata-skipped"),
            ("._x", "os-metadata-skipped"),
            (".git", "vcs-skipped"),
            ("Thumbs.db", "os-metadata-skipped"),
            ("__MACOSX", "os-metadata-skipped"),
            ("__pycache__", "bytecode-dropped"),
            ("b.pyc", "bytecode-dropped"),
            ("b/f.md", "materialized-link"),
            ("empty", "empty-directory-dropped"),
            ("no.sh", "script-not-executable"),
            ("sub", "empty-directory-dropped"),
            ("sub/.git", "vcs-skipped"),
            ("sub/desktop.ini", "os-metadata-skipped"),
            ("twice", "materialized-link"),
        ]
    );
    let files: Vec<(String, Vec<u8>)> = read_back(&store, &added);
    let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        paths,
        [
            ".env.example",
            ".github/x",
            ".gitignore",
            ".hidden/f",
            "SKILL.md",
            "a/f.md",
            "b/f.md",
            "metadata.json",
            "no.sh",
            "pkg/__init__.py",
            "twice"
        ]
    );
    assert_eq!(files[6].1, b"shared");
    assert_eq!(files[10].1, b"shared");
}

#[test]
fn a_skill_file_may_be_a_link_inside() {
    let place = Place::new();
    place.write("demo/docs/skill-text.md", skill("demo"));
    symlink("docs/skill-text.md", place.path("src/demo/SKILL.md")).unwrap();
    let store = place.open();
    assert_eq!(place.add_one(&store, "demo").unwrap().files, 2);
}

#[test]
fn content_only_decides_the_digest() {
    let place = Place::new();
    let paths = ["SKILL.md", "a-b", "a/b", "ab", "I.md", "i2.md", "_x"];
    for (name, order) in [("one", [0, 1, 2, 3, 4, 5, 6]), ("two", [6, 5, 4, 3, 2, 1, 0])] {
        for at in order {
            place.write(&format!("{name}/{}", paths[at]), skill("demo"));
        }
    }
    fs::hard_link(place.path("src/one/ab"), place.path("elsewhere")).unwrap();
    fs::set_permissions(place.path("src/two/ab"), fs::Permissions::from_mode(0o600)).unwrap();
    let store = place.open();
    let [one, two] = ["one", "two"].map(|name| place.add_one(&store, name).unwrap());
    assert_eq!(one.revision.digest, two.revision.digest);
    assert!(two.reused);
    fs::set_permissions(place.path("src/two/ab"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_ne!(place.add_one(&store, "two").unwrap().revision.digest, one.revision.digest);
}

#[test]
fn large_and_sparse_files_pass_through_the_spool() {
    let place = Place::new();
    place.package("demo");
    let size = 20 << 20;
    fs::File::create(place.path("src/demo/sparse")).unwrap().set_len(size).unwrap();
    let store = place.open();
    let added = place.add_one(&store, "demo").unwrap();
    assert_eq!(codes(&added.diagnostics), [("", "large-package")]);
    let files = read_back(&store, &added);
    assert_eq!(files[1].1.len() as u64, size);
    assert!(files[1].1.iter().all(|byte| *byte == 0));
}

#[test]
fn a_damaged_or_lost_archive_is_written_anew() {
    let place = Place::new();
    place.package("demo");
    let store = place.open();
    let added = place.add_one(&store, "demo").unwrap();
    let archive = place.archive();
    let good = fs::read(&archive).unwrap();
    for damage in 0..2 {
        if damage == 0 {
            let mut bad = good.clone();
            bad[20] ^= 1;
            fs::write(&archive, bad).unwrap();
        } else {
            fs::remove_file(&archive).unwrap();
        }
        let again = place.add_one(&store, "demo").unwrap();
        assert!(again.reused && !again.activated);
        assert_eq!(fs::read(&archive).unwrap(), good);
        assert_eq!(read_back(&store, &added).len(), 1);
    }
    assert_eq!(names(&place.path("store/quarantine")).len(), 1);
    let lines = fs::read_to_string(place.path("store/journal")).unwrap();
    assert_eq!(lines.matches(r#""change":"archived""#).count(), 2);
    assert_eq!(place.open().revisions().unwrap().len(), 1);
}

/// Changes a file of the package each time that its `SKILL.md` is parsed, so many times.
struct Meddler<'a> {
    place: &'a Place,
    left: AtomicUsize,
    act: fn(&Place),
}

impl Describe for Meddler<'_> {
    fn describe(&self, package: Described<'_>) -> Result<Description, Vec<Diagnostic>> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_ok() {
            (self.act)(self.place);
        }
        ByName.describe(package)
    }
}

#[test]
fn what_changes_while_it_is_read_is_tried_once_more() {
    type Act = (&'static str, fn(&Place));
    let acts: [Act; 6] = [
        ("SKILL.md", |place| fs::write(place.path("src/demo/SKILL.md"), skill("demo") + "x").unwrap()),
        ("a/f", |place| {
            // The same size, and the modification time set back.
            let path = place.path("src/demo/a/f");
            let modified = fs::metadata(&path).unwrap().modified().unwrap();
            fs::write(&path, "y").unwrap();
            fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
        }),
        (".", |place| {
            let _ = fs::remove_file(place.path("src/demo/new"));
            fs::write(place.path("src/demo/new"), "").unwrap();
        }),
        ("a", |place| {
            fs::rename(place.path("src/demo/a/f"), place.path("src/demo/a/g")).unwrap();
            fs::copy(place.path("src/demo/a/g"), place.path("src/demo/a/f")).unwrap();
            fs::remove_file(place.path("src/demo/a/g")).unwrap();
        }),
        ("a/f", |place| {
            let mode = fs::metadata(place.path("src/demo/a/f")).unwrap().permissions().mode() ^ 0o111;
            fs::set_permissions(place.path("src/demo/a/f"), fs::Permissions::from_mode(mode)).unwrap();
        }),
        (".", |place| {
            fs::rename(place.path("src/demo/a"), place.path("src/demo/b")).unwrap();
            fs::rename(place.path("src/demo/b"), place.path("src/demo/a")).unwrap();
        }),
    ];
    for (changed, act) in acts {
        for times in [1, 2] {
            let place = Place::new();
            place.package("demo");
            place.write("demo/a/f", "x");
            // Change times are as coarse as the kernel's clock tick.
            std::thread::sleep(std::time::Duration::from_millis(20));
            let store = place.open();
            let meddler = Meddler { place: &place, left: AtomicUsize::new(times), act };
            let options = AddOptions { describe: &meddler, ..OPTIONS };
            let result = place.add_with(&store, &["demo"], &options).remove(0);
            if times == 1 {
                let added = result.unwrap();
                assert_eq!(read_back(&store, &added).len() as u64, added.files);
                continue;
            }
            let error = result.unwrap_err();
            assert_eq!(error.code(), "source-changed");
            assert!(error.to_string().ends_with(&format!("`{changed}`")), "{error}, not {changed}");
            assert!(store.revisions().unwrap().is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_added_is_read_back(
        files in proptest::collection::btree_map(
            "[a-z]{1,60}(/[a-zà-ö0-9_]{1,60}){0,3}",
            (proptest::collection::vec(any::<u8>(), 0..2000), any::<bool>()),
            0..8,
        ),
        flip in any::<(prop::sample::Index, u8)>(),
    ) {
        let place = Place::new();
        place.package("demo");
        let mut expected = vec![("SKILL.md".to_owned(), skill("demo").into_bytes())];
        for (path, (content, executable)) in files {
            // A prefix of another path cannot be a file too.
            if place.path("src/demo").join(&path).exists() || path.match_indices('/').any(|(at, _)| place.path("src/demo").join(&path[..at]).is_file()) {
                continue;
            }
            place.write(&format!("demo/{path}"), &content);
            let mode = if executable { 0o755 } else { 0o644 };
            fs::set_permissions(place.path("src/demo").join(&path), fs::Permissions::from_mode(mode)).unwrap();
            expected.push((path, content));
        }
        expected.sort();
        let store = place.open();
        let Ok(added) = place.add_one(&store, "demo") else { return Ok(()) };
        prop_assert_eq!(read_back(&store, &added), expected);

        // Any one byte of the archive that changes is found.
        let archive = place.archive();
        let mut bytes = fs::read(&archive).unwrap();
        let at = flip.0.index(bytes.len());
        bytes[at] ^= flip.1.max(1);
        fs::write(&archive, bytes).unwrap();
        let package = store.open_package(&added.revision.digest).unwrap();
        prop_assert!(package.read_files(|_, _| Ok(())).is_err());
    }
}
