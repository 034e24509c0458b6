//! Writers that are killed at any moment.

use std::hash::{BuildHasher as _, RandomState};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use skillfreeze_testing::{Runner, TestEnv, file, package};

use super::{changes, is_swept, listed, snapshots};
use crate::support::{environment, text};

const ROUNDS: usize = 60;

/// A delay of at most `longest`. What is right does not depend on it, so it may be random.
fn some_delay(longest: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8) % 1000;
    longest * u32::try_from(random).unwrap() / 1000
}

fn start(env: &TestEnv, arguments: &[&str]) -> Child {
    env.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// How long a run takes that nobody disturbs.
fn undisturbed(env: &TestEnv, arguments: &[&str]) -> Duration {
    // What others have left to be written would be waited for, and the delays be too long.
    rustix::fs::sync();
    let begin = Instant::now();
    assert!(start(env, arguments).wait().unwrap().success());
    begin.elapsed()
}

/// Starts the program, kills it after a while, and says whether it had succeeded before.
///
/// The next delay is shorter if it had and longer if not, so that about half of the kills come in
/// time, however fast the machine is just now.
fn interrupt(env: &TestEnv, arguments: &[&str], longest: &mut Duration) -> bool {
    let mut child = start(env, arguments);
    thread::sleep(some_delay(*longest));
    child.kill().unwrap();
    let succeeded = child.wait().unwrap().success();
    *longest = if succeeded { *longest * 4 / 5 } else { *longest * 5 / 4 };
    succeeded
}

#[test]
fn an_add_that_is_killed_leaves_the_store_as_it_was_or_with_the_whole_package() {
    for runner in Runner::available() {
        let env = environment(*runner);
        let make = |id: &str| file(package(env.work(), id).join("f"), id.repeat(3000));
        make("first");
        let mut longest = undisturbed(&env, &["add", "first"]);
        let mut ids = vec!["first".to_owned()];
        let mut killed = 0;
        for round in 0..ROUNDS {
            let id = format!("s{round:03}");
            make(&id);
            let acknowledged = interrupt(&env, &["add", &id], &mut longest);
            killed += usize::from(!acknowledged);
            let found = listed(&env);
            assert!(!acknowledged || found.contains(&id), "{id} was acknowledged");
            ids.push(id.clone());
            ids.sort_unstable();
            assert!(
                found == ids || found == ids.iter().filter(|one| **one != id).cloned().collect::<Vec<_>>()
            );

            let added = env.run(["add", &id, "--json"]).json()["added"][0].clone();
            assert_eq!((&added["number"], added["reused"].as_bool()), (&1.into(), Some(found == ids)));
            is_swept(&env);
        }
        assert!(killed > ROUNDS / 10, "only {killed} of {ROUNDS} were killed in time");
        assert_eq!(listed(&env), ids);
        // The chain is whole, and holds each package once.
        for change in ["added", "activated"] {
            let mut entered: Vec<String> =
                changes(&env, change).iter().map(|data| text(&data["id"])).collect();
            entered.sort_unstable();
            assert_eq!(entered, ids);
        }
        let prepared = env.run(["prepare", "--json"]).json();
        assert_eq!(prepared["packages"].as_array().unwrap().len(), ids.len());
        env.run(["verify", &text(&prepared["snapshot"])]).ok();
    }
}

#[test]
fn a_prepare_that_is_killed_leaves_no_snapshot_or_the_whole_one() {
    for runner in Runner::available() {
        let env = environment(*runner);
        let source = env.work().join("src");
        for number in 0..6 {
            file(package(&source, &format!("p{number}")).join("a/b/f"), "x".repeat(2000));
        }
        let prepare = ["prepare", "--source", "src", "--json"];
        let mut longest = undisturbed(&env, &prepare);
        let mut killed = 0;
        for round in 0..ROUNDS {
            // Half of the rounds have a package to add too.
            if round % 2 == 0 {
                file(source.join("p0/a/b/f"), format!("{round}"));
            } else {
                let newest = snapshots(&env);
                for digest in newest.iter().take(1) {
                    let path = env.root().join("snapshots/sha256").join(&digest["sha256:".len()..]);
                    skillfreeze_testing::set_mode(path.join("p1/SKILL.md"), 0o644);
                }
            }
            let before = snapshots(&env);
            killed += usize::from(!interrupt(&env, &prepare, &mut longest));
            for new in snapshots(&env).iter().filter(|new| !before.contains(new)) {
                env.run(["verify", new]).ok();
            }
            let prepared = env.run(prepare).json();
            is_swept(&env);
            env.run(["verify", &text(&prepared["snapshot"])]).ok();
        }
        assert!(killed > ROUNDS / 10, "only {killed} of {ROUNDS} were killed in time");
        let ids: Vec<String> = (0..6).map(|number| format!("p{number}")).collect();
        assert_eq!(
            listed(&env).iter().filter(|id| *id != "p0").collect::<Vec<_>>(),
            ids[1..].iter().collect::<Vec<_>>()
        );
        let revisions = changes(&env, "added");
        let mut digests: Vec<String> = revisions.iter().map(|data| text(&data["digest"])).collect();
        digests.sort_unstable();
        let all = digests.len();
        digests.dedup();
        assert_eq!((digests.len(), changes(&env, "activated").len()), (all, 0));
        assert_eq!(all, 6 + ROUNDS / 2);
    }
}
