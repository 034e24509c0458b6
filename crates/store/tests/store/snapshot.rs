//! Snapshots and leases.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use skillfreeze_manifest::{Digest, EntryKind, Stamp};
use skillfreeze_store::{Published, Store};

use crate::support::{Place, names};

fn stage(store: &Store, content: &str) -> skillfreeze_store::Staging {
    let staging = store.stage_snapshot().unwrap();
    staging.dir().create_dir("demo").unwrap();
    staging.dir().write("demo/SKILL.md", content).unwrap();
    let mode = cap_std::fs::Permissions::from_std(fs::Permissions::from_mode(0o555));
    staging.dir().set_permissions("demo", mode).unwrap();
    staging
}

#[test]
fn published_whole_and_once() {
    let place = Place::new();
    let store = place.open();
    let digest = Digest::of(b"x");
    let staging = stage(&store, "first");
    let hidden = names(&place.path("store/snapshots/sha256"));
    assert!(hidden[0].starts_with(".new-"));
    let mode =
        fs::metadata(place.path("store/snapshots/sha256").join(&hidden[0])).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert!(store.snapshots().unwrap().is_empty());
    assert_eq!(staging.publish(&digest).unwrap(), Published::New);
    assert_eq!(stage(&store, "second").publish(&digest).unwrap(), Published::Existed);
    assert_eq!(names(&place.path("store/snapshots/sha256")), [digest.hex()]);
    assert_eq!(store.snapshots().unwrap(), [digest]);
    let path = place.path("store").join(Store::snapshot_path(&digest));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o555);
    assert_eq!(fs::read_to_string(path.join("demo/SKILL.md")).unwrap(), "first");
    let dir = store.open_snapshot(&digest).unwrap().unwrap();
    assert_eq!(dir.read_to_string("demo/SKILL.md").unwrap(), "first");

    let aside = store.set_aside_snapshot(&digest, &dir).unwrap().unwrap();
    assert!(aside.starts_with(".damaged-"));
    assert!(store.open_snapshot(&digest).unwrap().is_none());
    assert_eq!(stage(&store, "third").publish(&digest).unwrap(), Published::New);
    // Who has found the first one damaged too, and comes late, leaves the new one alone.
    assert_eq!(store.set_aside_snapshot(&digest, &dir).unwrap(), None);
    assert_eq!(names(&place.path("store/snapshots/sha256")), [aside, digest.hex()]);
    // So that the temporary directory can be removed by anybody.
    for name in names(&place.path("store/snapshots/sha256")) {
        for below in [name.clone(), format!("{name}/demo")] {
            let path = place.path("store/snapshots/sha256").join(below);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}

#[test]
fn dropped_unpublished_it_is_gone() {
    let place = Place::new();
    let store = place.open();
    drop(stage(&store, "x"));
    assert!(names(&place.path("store/snapshots/sha256")).is_empty());
}

/// Nothing is read through it, and it can be set aside like any that is damaged.
#[test]
fn what_is_no_directory_is_opened_as_what_it_is() {
    let place = Place::new();
    let store = place.open();
    let digest = Digest::of(b"x");
    let path = place.path("store").join(Store::snapshot_path(&digest));
    let makers: [&dyn Fn(); 3] =
        [&|| symlink(place.path("src"), &path).unwrap(), &|| symlink("nowhere", &path).unwrap(), &|| {
            fs::write(&path, "").unwrap()
        }];
    for (make, kind) in makers.into_iter().zip([EntryKind::Link, EntryKind::Link, EntryKind::File]) {
        make();
        let found = store.open_snapshot(&digest).unwrap().unwrap();
        assert_eq!(Stamp::of(&found).unwrap().kind, kind);
        assert!(store.set_aside_snapshot(&digest, &found).unwrap().unwrap().starts_with(".damaged-"));
        assert!(store.open_snapshot(&digest).unwrap().is_none());
    }
}

#[test]
fn leases_are_shared_and_seen_by_readers() {
    let place = Place::new();
    let store = place.open();
    let digest = Digest::of(b"x");
    let lease = store.lease(&digest).unwrap().unwrap();
    assert!(store.lease(&digest).unwrap().is_some());
    assert!(place.read_only().lease(&digest).unwrap().is_some());
    assert_eq!(names(&place.path("store/leases")), [digest.hex()]);
    let exclude = || {
        let file =
            fs::File::options().write(true).open(place.path("store/leases").join(digest.hex())).unwrap();
        let lock = nix::libc::flock {
            l_type: i16::try_from(nix::libc::F_WRLCK).unwrap(),
            l_whence: 0,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_OFD_SETLK(&lock)).is_ok()
    };
    assert!(!exclude());
    let file = lease.into_file();
    assert!(!exclude());
    drop(file);
    assert!(exclude());
}

#[test]
fn records_are_made_on_demand() {
    let place = Place::new();
    let store = place.open();
    assert!(!place.path("store/runs").exists());
    store.records().unwrap().write("x", "y").unwrap();
    let mode = fs::metadata(place.path("store/runs")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert!(place.read_only().records().is_ok());

    for (month, path) in [(1, "store/runs/2026/01"), (12, "store/runs/2026/12"), (12, "store/runs/2026/12")] {
        store.record_dir(2026, month).unwrap().write("x", "y").unwrap();
        for made in ["store/runs/2026", path] {
            let mode = fs::metadata(place.path(made)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{made}");
        }
        assert_eq!(names(&place.path(path)), ["x"]);
    }
    assert_eq!(place.read_only().record_dir(2026, 1).unwrap_err().code(), "read-only");
}
