//! The law, over the library: what was just frozen is clean, and no byte of it can change unseen.

use std::fs;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::Index;
use skillfreeze::Store;
use skillfreeze::manifest::{CheckOptions, Diagnostic, FaultCode, Form, Limits, Silent, check_snapshot};
use skillfreeze::preparer::{Existing, Pin, freeze};
use skillfreeze::store::{AddOptions, Author, Candidate, Describe, Described, Description, Origin};
use skillfreeze_testing::{directory, file, set_mode};

/// Takes every package for `demo`: front matter is not what this is about.
struct Demo;

impl Describe for Demo {
    fn describe(&self, _: Described<'_>) -> Result<Description, Vec<Diagnostic>> {
        Ok(Description { id: "demo".parse().unwrap(), version: None, diagnostics: Vec::new() })
    }
}

#[expect(clippy::disallowed_methods, reason = "a test opens what it is about")]
fn open(path: &Path) -> Dir {
    Dir::open_ambient_dir(path, ambient_authority()).unwrap()
}

/// Paths of files; the directories' names are never those of files.
fn path() -> impl Strategy<Value = String> {
    (vec("d[a-c]", 0..3), "f[a-z.~ é-]{0,3}[a-z]")
        .prop_map(|(above, name)| above.into_iter().chain([name]).collect::<Vec<_>>().join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn freezing_is_clean_and_every_change_of_a_byte_is_found(
        files in btree_map(path(), (vec(any::<u8>(), 0..300), any::<bool>()), 0..8),
        which in any::<Index>(),
        place in any::<Index>(),
        bits in 1..=u8::MAX,
    ) {
        let temp = tempfile::tempdir().unwrap();
        let source = temp.path().join("src");
        file(source.join("demo/SKILL.md"), "---\n");
        for (path, (content, executable)) in &files {
            file(source.join("demo").join(path), content);
            set_mode(source.join("demo").join(path), if *executable { 0o755 } else { 0o644 });
        }
        directory(temp.path().join("store"));
        let author = Author { actor: "test".into(), clock: || "2026-01-01T00:00:00Z".into() };
        let store = Store::open(open(&temp.path().join("store")), author).unwrap();
        let options = AddOptions {
            describe: &Demo, limits: Limits::DEFAULT, drop_bytecode: false, activate: false, progress: &Silent,
        };
        let root = open(&source);
        let origin = Origin { source: None, path: "demo".into() };
        let candidate = Candidate::new(&root, "demo", Form::Directory, origin);
        let added = store.add(&[candidate], &options).unwrap().remove(0).unwrap();
        let packages = [Pin { id: added.revision.id, digest: added.revision.digest, version: None }];
        let snapshot = freeze(&store, &packages, Existing::Check, &Silent).unwrap();
        let check = CheckOptions::new(&Silent);
        let clean = check_snapshot(&snapshot.dir, Some(snapshot.digest), &check);
        prop_assert!(clean.is_clean(), "{:?}", clean.faults);
        prop_assert_eq!(clean.files, files.len() as u64 + 1);

        let top = temp.path().join("store").join(Store::snapshot_path(&snapshot.digest));
        let mut all: Vec<PathBuf> = files.keys().map(|path| Path::new("demo").join(path)).collect();
        all.extend(["demo/SKILL.md".into(), ".snapshot.json".into()]);
        all.retain(|path| fs::metadata(top.join(path)).unwrap().len() > 0);
        let changed = &all[which.index(all.len())];
        let mut bytes = fs::read(top.join(changed)).unwrap();
        let at = place.index(bytes.len());
        bytes[at] ^= bits;
        let mode = fs::metadata(top.join(changed)).unwrap().permissions();
        set_mode(top.join(changed), 0o644);
        fs::write(top.join(changed), bytes).unwrap();
        fs::set_permissions(top.join(changed), mode).unwrap();

        let found = check_snapshot(&snapshot.dir, Some(snapshot.digest), &check);
        let is_manifest = changed.ends_with(".snapshot.json");
        let expected = if is_manifest { FaultCode::ManifestDigest } else { FaultCode::WrongHash };
        prop_assert_eq!(&found.faults[0].code, &expected, "{:?}", found.faults);
        prop_assert!(found.faults.iter().all(|fault| Path::new(&fault.path) == changed));
        prop_assert!(!found.is_clean() && (is_manifest || found.faults.len() == 1));
        // The directories are frozen, and the place is removed at the end.
        open_up(&top);
    }
}

fn open_up(path: &Path) {
    if path.is_dir() {
        set_mode(path, 0o755);
        fs::read_dir(path).unwrap().for_each(|entry| open_up(&entry.unwrap().path()));
    }
}
