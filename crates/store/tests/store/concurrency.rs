//! Many at once, in threads and in processes.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Barrier;
use std::{env, thread};

use crate::support::{Place, names, read_back};

#[test]
fn threads_with_stores_of_their_own_lose_nothing() {
    let place = Place::new();
    for number in 0..24 {
        place.package(&format!("s{number}"));
    }
    place.package("same");
    let barrier = Barrier::new(24);
    thread::scope(|scope| {
        for number in 0..24 {
            let (place, barrier) = (&place, &barrier);
            scope.spawn(move || {
                barrier.wait();
                // Creating the store is part of the race.
                let store = place.open();
                let own = format!("s{number}");
                let results = place.add(&store, &[&own, "same"]);
                for added in results {
                    let added = added.unwrap();
                    assert_eq!(added.revision.number.get(), 1);
                    assert_eq!(read_back(&store, &added).len(), 1);
                }
            });
        }
    });
    let store = place.open();
    assert_eq!(store.revisions().unwrap().len(), 25);
    assert_eq!(names(&place.path("store/packages/sha256")).len(), 25);
    assert!(names(&place.path("store/quarantine")).is_empty());
    std::fs::remove_file(place.path("store/index.db")).unwrap();
    assert_eq!(place.open().revisions().unwrap(), store.revisions().unwrap());
}

#[test]
fn threads_with_one_store_lose_nothing() {
    let place = Place::new();
    let store = place.open();
    for number in 0..12 {
        place.write(&format!("v{number}/SKILL.md"), format!("name: demo\n{number}\n"));
    }
    let numbers: BTreeSet<u32> = thread::scope(|scope| {
        let threads: Vec<_> = (0..12)
            .map(|number| {
                let (place, store) = (&place, &store);
                scope.spawn(move || {
                    let added = place.add_one(store, &format!("v{number}")).unwrap();
                    store.revisions().unwrap();
                    added.revision.number.get()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(numbers, (1..=12).collect());
    let active = store.revisions().unwrap().iter().filter(|revision| revision.active).count();
    assert_eq!(active, 1);
}

const PLACE: &str = "SKILLFREEZE_TEST_PLACE";

/// Not a test by itself: what the processes of the next one run.
#[test]
fn helper_adds_packages() {
    let Ok(path) = env::var(PLACE) else { return };
    let open = |below: &str| {
        let path = std::path::Path::new(&path).join(below);
        cap_std::fs::Dir::open_ambient_dir(path, cap_std::ambient_authority()).unwrap()
    };
    let author = skillfreeze_store::Author { actor: "helper".into(), clock: || "x".into() };
    let store = skillfreeze_store::Store::open(open("store"), author).unwrap();
    let src = open("src");
    for number in 0..8 {
        let candidate = crate::support::candidate(&src, &format!("s{number}"));
        store.add(&[candidate], &crate::support::OPTIONS).unwrap().remove(0).unwrap();
    }
}

#[test]
fn processes_lose_nothing_even_when_killed() {
    let place = Place::new();
    for number in 0..8 {
        place.package(&format!("s{number}"));
    }
    let spawn = || {
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "concurrency::helper_adds_packages"])
            .env(PLACE, place.path(""))
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    for round in 0..12 {
        let mut victims: Vec<_> = (0..4).map(|_| spawn()).collect();
        thread::sleep(std::time::Duration::from_millis(5 + 7 * round));
        for victim in &mut victims {
            victim.kill().unwrap();
            victim.wait().unwrap();
        }
        // Whatever the moment, the store is whole.
        let store = place.read_only();
        for revision in store.revisions().unwrap() {
            store.open_package(&revision.digest).unwrap().read_files(|_, _| Ok(())).unwrap();
        }
    }
    let mut finishers: Vec<_> = (0..4).map(|_| spawn()).collect();
    assert!(finishers.iter_mut().all(|child| child.wait().unwrap().success()));
    let store = place.open();
    assert_eq!(store.revisions().unwrap().len(), 8);
    drop(store);
    assert!(names(&place.path("store/tmp")).is_empty());
}
