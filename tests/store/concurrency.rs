//! Many processes at once.

use std::process::{Child, Stdio};

use skillfreeze_testing::{Runner, package, package_digest};

use super::{changes, is_swept, listed, snapshots};
use crate::support::{environment, names, text};

/// Half of them for one package and one snapshot, all of them for a store that is not there yet.
#[test]
fn two_hundred_writers_lose_nothing_and_do_nothing_twice() {
    for runner in Runner::available() {
        let env = environment(*runner);
        for number in 0..20 {
            package(env.work().join("own"), &format!("s{number:02}"));
        }
        for id in ["a", "b", "same"] {
            package(env.work().join("src"), id);
        }
        let mut running: Vec<Child> = Vec::new();
        for number in 0..200 {
            let own = format!("own/s{:02}", number / 2 % 20);
            let arguments: &[&str] = match number % 4 {
                0 | 2 => &["add", &own],
                1 => &["add", "src/same", "own/s00"],
                _ => &["prepare", "--source", "src"],
            };
            let spawned = env.command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
            running.push(spawned.unwrap());
        }
        for child in running {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let mut expected: Vec<String> = (0..20).map(|number| format!("s{number:02}")).collect();
        expected.extend(["a", "b", "same"].map(str::to_owned));
        expected.sort_unstable();
        assert_eq!(listed(&env), expected);
        let mut entered: Vec<String> = changes(&env, "added").iter().map(|data| text(&data["id"])).collect();
        entered.sort_unstable();
        assert_eq!(entered, expected);
        // `add` activates and `prepare` does not: each that was added is active, once.
        let active = changes(&env, "activated").iter().map(|data| text(&data["id"])).collect::<Vec<_>>();
        assert_eq!(active.len(), 21, "{active:?}");
        assert_eq!(names(env.root().join("packages/sha256")).len(), 23);
        assert!(changes(&env, "archived").is_empty());
        let [snapshot] = snapshots(&env).try_into().unwrap();
        assert_eq!(env.run(["prepare", "--source", "src"]).ok().trim(), snapshot);
        env.run(["verify", &snapshot]).ok();
        for skill in env.run(["list", "--inactive", "--json"]).json()["skills"].as_array().unwrap() {
            assert_eq!(skill["digest"], package_digest(text(&skill["directory"])));
            assert_eq!(skill["number"], 1);
        }
        is_swept(&env);
        assert_eq!(names(env.root().join("quarantine")), [""; 0]);
    }
}
