//! Disks that are full.

use std::fs;

use skillfreeze_testing::{Output, Runner, TestEnv, package, record_skip};

use super::incompressible;
use crate::support::environment;

/// Runs the program on a store of limited size, then on the same store with room.
///
/// The store is a file system of its own in a namespace of its own; that is why a shell does it all.
/// Prints lines of `name=value`.
const SCRIPT: &str = r#"
mount -t tmpfs -o "mode=700,$1" tmpfs "$SKILLFREEZE_ROOT" || exit 77
snapshots() { ls -A "$SKILLFREEZE_ROOT/snapshots/sha256" 2>/dev/null | grep -v '^\.'; }
program=$2
$program add src/small --json >small.out 2>small.err
echo "small=$?"
$program prepare --source src --json >prepare.out 2>prepare.err
echo "prepare=$?"
$program add src/large --json >add.out 2>add.err
echo "add=$?"
$program list --json >list.out 2>list.err
echo "list=$?"
for snapshot in $(snapshots); do
    $program verify "sha256:$snapshot" >/dev/null 2>&1
    echo "verify=$?"
done
# Without the options that it has: among them are ids that the namespace does not know.
mount --options-mode ignore -o remount,size=64m,nr_inodes=0 "$SKILLFREEZE_ROOT" || exit 1
$program add src/small src/large >/dev/null 2>late.err
echo "late-add=$?"
$program prepare --source src >digest 2>>late.err
echo "late-prepare=$?"
$program verify "$(cat digest)" >/dev/null 2>>late.err
echo "late-verify=$?"
test "$(snapshots)" = "$(sed s/sha256://  digest)"
echo "only=$?"
left=$(ls -A "$SKILLFREEZE_ROOT/tmp"; ls -A "$SKILLFREEZE_ROOT/snapshots/sha256" | grep '^\.new-')
test -z "$left"
echo "swept=$?"
umount "$SKILLFREEZE_ROOT"
"#;

/// Adds what does not fit before what does, in one batch.
const ONE_TOO_LARGE: &str = r#"
mount -t tmpfs -o "mode=700,$1" tmpfs "$SKILLFREEZE_ROOT" || exit 77
$2 add src/large src/small --json >/dev/null 2>add.err
echo "add=$?"
$2 list --json >list.out
umount "$SKILLFREEZE_ROOT"
"#;

/// Runs a script on a store of limited size; none where no file system can be mounted.
fn with_limit(env: &TestEnv, runner: Runner, script: &str, limit: &str) -> Option<String> {
    fs::create_dir_all(env.work().join("store")).unwrap();
    let namespaces = if runner == Runner::Root { "-m" } else { "-Urm" };
    let program = env.program().to_str().unwrap();
    let arguments = [namespaces, "sh", "-c", script, "sh", limit, program];
    let mut command = env.command_of("unshare", arguments);
    let run = Output::of(command.env("SKILLFREEZE_ROOT", env.work().join("store")));
    if run.status == 77 || run.stderr.contains("unshare failed") {
        record_skip(&format!("no file system can be mounted here: {}", run.stderr));
        return None;
    }
    Some(run.ok().to_owned())
}

fn value<'a>(said: &'a str, name: &str) -> &'a str {
    let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    assert!(line.is_some(), "no {name} in {said}");
    line.unwrap_or_default()
}

#[test]
fn a_full_disk_is_told_and_nothing_is_half_there_at_any_size() {
    // Pages of four kilobytes: from one in which nothing fits to those in which all does.
    let sizes = (1..28).chain((28..130).step_by(6)).map(|pages| format!("size={}k", pages * 4));
    // A file system can also run out of files.
    let inodes = (8..44).step_by(3).map(|number| format!("nr_inodes={number}"));
    let limits: Vec<String> = sizes.chain(inodes).collect();
    let runners = Runner::available();
    for (index, runner) in runners.iter().enumerate() {
        let mut outcomes = Vec::new();
        // The users take turns: what matters is the size.
        for limit in limits.iter().skip(index).step_by(runners.len()) {
            let env = environment(*runner);
            package(env.work().join("src"), "small");
            incompressible(env.work().join("src"), "large", 60_000);
            let Some(said) = with_limit(&env, *runner, SCRIPT, limit) else { return };
            let read = |name: &str| fs::read_to_string(env.work().join(name)).unwrap();
            for step in ["small", "prepare", "add"] {
                let status = value(&said, step);
                let error = read(&format!("{step}.err"));
                assert!(
                    status == "0" || status == "1" && error.contains("\"code\":\"no-space\""),
                    "{limit}: {step} gave {status}: {error}"
                );
                outcomes.push((step, status == "0"));
            }
            // What was frozen is all that there is to freeze.
            if value(&said, "prepare") == "0" {
                let prepared: serde_json::Value = serde_json::from_str(&read("prepare.out")).unwrap();
                let frozen = crate::support::texts(&prepared["packages"], "id");
                assert_eq!(frozen, ["large", "small"], "{limit}: {prepared}");
                assert_eq!(prepared["left_out"], serde_json::json!([]), "{limit}");
            }
            // What can be seen is whole.
            let list: serde_json::Value = serde_json::from_str(&read("list.out")).unwrap();
            let ids = crate::support::texts(&list["skills"], "id");
            let succeeded = |step: &str| value(&said, step) == "0";
            assert!(!succeeded("small") || ids.contains(&"small".to_owned()), "{limit}: {said}");
            assert!(!succeeded("add") || ids.contains(&"large".to_owned()), "{limit}: {said}");
            let seen = said.lines().filter(|line| line.starts_with("verify=")).collect::<Vec<_>>();
            assert!(seen.iter().all(|line| *line == "verify=0"), "{limit}: {said}");
            assert_eq!(seen.len(), usize::from(succeeded("prepare")), "{limit}: {said}");
            // With room, everything works as if nothing had been.
            for step in ["list", "late-add", "late-prepare", "late-verify", "only", "swept"] {
                assert_eq!(value(&said, step), "0", "{limit}: {said} {}", read("late.err"));
            }
        }
        for step in ["small", "prepare", "add"] {
            assert!(outcomes.contains(&(step, true)) && outcomes.contains(&(step, false)), "{step}");
        }
    }
}

/// What was begun of a package that does not fit makes room at once for those after it.
#[test]
fn a_package_that_does_not_fit_takes_no_room_from_the_others() {
    for runner in Runner::available() {
        let env = environment(*runner);
        package(env.work().join("src"), "small");
        incompressible(env.work().join("src"), "large", 2_000_000);
        let Some(said) = with_limit(&env, *runner, ONE_TOO_LARGE, "size=1m") else { return };
        let read = |name: &str| fs::read_to_string(env.work().join(name)).unwrap();
        assert_eq!(value(&said, "add"), "1");
        assert!(read("add.err").contains("\"code\":\"no-space\""), "{}", read("add.err"));
        let list: serde_json::Value = serde_json::from_str(&read("list.out")).unwrap();
        assert_eq!(crate::support::texts(&list["skills"], "id"), ["small"]);
    }
}
