//! What `doctor` says of a host, and that each refusal has one code and what mends it.

use std::collections::BTreeMap;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use skillfreeze_testing::{Output, Runner, directory, file, record_skip, set_mode, skip};

use super::Place;
use super::bubblewrap::{HELP, fake};
use crate::support::text;

const NO_USERNS: &str = include_str!("no_userns.py");
const FORBID: &str = include_str!("forbid.py");

/// What `doctor` found.
struct Found(Value);

impl Found {
    /// Asserts that it ended with this status, and that all that it refuses has a code, a sentence and a fix.
    #[track_caller]
    fn of(command: &mut Command, status: i32) -> Self {
        let output = Output::of(command.arg("--json"));
        assert_eq!(output.status, status, "{output:#?}");
        let found: Value = serde_json::from_str(&output.stdout).unwrap();
        for list in ["checks", "ways"] {
            for one in found[list].as_array().unwrap().iter().filter(|one| one["ok"] == false) {
                for key in ["code", "detail", "fix"] {
                    assert!(!text(&one[key]).is_empty(), "{key} of {one}");
                }
            }
        }
        assert_eq!(found["integrity"].is_null(), status == 7, "{found}");
        Self(found)
    }

    /// The codes of the ways; nothing of those that can be had.
    fn ways(&self) -> BTreeMap<String, String> {
        let ways = self.0["ways"].as_array().unwrap();
        ways.iter().map(|way| (text(&way["how"]), text(&way["code"]))).collect()
    }

    fn best(&self) -> (String, String) {
        (text(&self.0["how"]), text(&self.0["integrity"]))
    }

    fn advice(&self) -> String {
        text(&self.0["advice"])
    }

    fn check(&self, name: &str) -> &Value {
        let checks = self.0["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == name).unwrap()
    }

    /// Asserts that nothing starts under bubblewrap, for this reason.
    #[track_caller]
    fn no_bubblewrap(&self, code: &str) {
        let ways = self.ways();
        for way in ["staged-tmpfs", "sealed-memfd", "bind"] {
            assert_eq!(ways[way], code, "{way}: {}", self.0);
        }
        self.landlock_is_best();
    }

    #[track_caller]
    fn landlock_is_best(&self) {
        assert_eq!(self.best(), ("landlock".to_owned(), "read-only".to_owned()), "{}", self.0);
        assert!(
            self.advice().contains("skillfreeze run --sandbox landlock --require read-only"),
            "{}",
            self.0
        );
    }
}

fn doctor(place: &Place) -> Command {
    place.env.command(["doctor"])
}

/// The same, started by another program.
fn under(place: &Place, words: &[&str]) -> Command {
    let mut command = place.env.command_of(words[0], &words[1..]);
    command.arg(place.env.program()).arg("doctor");
    command
}

#[test]
fn every_way_is_tried() {
    for place in Place::each() {
        let found = Found::of(&mut doctor(&place), 0);
        assert_eq!(found.best(), ("staged-tmpfs".to_owned(), "sealed".to_owned()));
        assert_eq!(found.advice(), "");
        let ways = found.ways();
        assert_eq!(ways.len(), 5, "{ways:?}");
        assert!(ways.values().all(String::is_empty), "{ways:?}");
        let levels: Vec<String> =
            found.0["ways"].as_array().unwrap().iter().map(|way| text(&way["integrity"])).collect();
        assert_eq!(levels, ["sealed", "sealed", "read-only", "read-only", "checked"]);
        assert_eq!(found.check("seal")["ok"], true);
        let shown = place.env.run(["doctor"]);
        assert!(shown.ok().contains("yes  landlock      read-only"), "{shown:#?}");
    }
}

/// Makes what `doctor` is told by a bubblewrap that says `message`.
fn told(place: &Place, message: &str) -> Found {
    let path = place.work("fake-bwrap");
    fake(&path, HELP, &format!("cat >&2 <<'END'\nbwrap: {message}\nEND\nexit 1"));
    Found::of(doctor(place).arg("--bwrap").arg(path), 0)
}

#[test]
fn each_refusal_of_bubblewrap_is_explained() {
    for place in Place::each() {
        let mut fixes = BTreeMap::new();
        for (message, code) in [
            ("setting up uid map: Permission denied", "userns-restricted"),
            ("loopback: Failed RTM_NEWADDR: Operation not permitted", "network-restricted"),
            ("No permissions to create new namespace, likely because …", "userns-disabled"),
            ("No permissions to creating new namespace, likely because …", "userns-disabled"),
            (
                "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
                "userns-limit",
            ),
            (
                "Creating new namespace failed, likely because the kernel does not support user namespaces.",
                "userns-unavailable",
            ),
            ("Can't mount proc on /newroot/proc: Operation not permitted", "proc-masked"),
            ("something new", "bwrap-failed"),
        ] {
            let found = told(&place, message);
            found.no_bubblewrap(code);
            let sandbox = found.check("sandbox");
            assert_eq!((text(&sandbox["code"]).as_str(), &sandbox["ok"]), (code, &false.into()));
            assert!(text(&sandbox["detail"]).contains(message), "{sandbox}");
            fixes.insert(text(&sandbox["fix"]), code);
        }
        // Each has its own.
        assert_eq!(fixes.len(), 7, "{fixes:?}");
    }
}

#[test]
fn a_bubblewrap_that_cannot_be_used_is_named() {
    for place in Place::each() {
        let own = place.work("bin");
        fake(&own.join("bwrap"), HELP, "exit 1");
        set_mode(own.join("bwrap"), 0o777);
        fake(&place.work("old"), "--bind --ro-bind", "exit 1");
        let path = |path: &str| {
            let mut command = doctor(&place);
            command.env("PATH", path);
            command
        };
        let at = |path: &str| {
            let mut command = doctor(&place);
            command.arg("--bwrap").arg(place.work(path));
            command
        };
        for (mut command, code) in [
            (path("/nonexistent"), "bwrap-missing"),
            (path(own.to_str().unwrap()), "bwrap-untrusted"),
            (at("old"), "bwrap-too-old"),
            (at("none"), "bwrap-unusable"),
        ] {
            let found = Found::of(&mut command, 0);
            found.no_bubblewrap(code);
            assert_eq!(found.check("bubblewrap")["code"], code);
        }
    }
}

#[test]
fn a_program_that_says_nothing_is_not_taken_for_bubblewrap() {
    for place in Place::each() {
        file(place.work("silent"), "#!/bin/sh\n");
        set_mode(place.work("silent"), 0o755);
        let found = Found::of(doctor(&place).arg("--bwrap").arg(place.work("silent")), 0);
        found.no_bubblewrap("bwrap-unusable");
        let detail = text(&found.check("bubblewrap")["detail"]);
        assert!(detail.contains("does not answer as bubblewrap does"), "{detail}");
    }
}

#[test]
fn without_a_place_for_temporaries_the_variable_is_named() {
    for place in Place::each() {
        let found = Found::of(doctor(&place).env("TMPDIR", "/nonexistent"), 7);
        for way in found.0["ways"].as_array().unwrap() {
            assert!(text(&way["fix"]).contains("`TMPDIR`"), "{way}");
        }
    }
}

#[test]
fn without_user_namespaces_landlock_is_what_there_is() {
    for place in Place::each() {
        let found =
            Found::of(under(&place, &["python3", "-c", NO_USERNS]).args(["--bwrap", "/usr/bin/bwrap"]), 0);
        found.landlock_is_best();
        assert_eq!(found.ways()["sealed-memfd"], "userns-limit");
        let staged = if place.is_roots() { "userns-limit" } else { "seal-unavailable" };
        assert_eq!(found.ways()["staged-tmpfs"], staged);
        let seal = found.check("seal");
        assert_eq!(seal["code"], "seal-unavailable", "{seal}");
        assert!(text(&seal["fix"]).contains("user.max_user_namespaces"), "{seal}");
        // Nor that: somebody else's sandbox is left.
        let words = ["python3", "-c", NO_USERNS, "/usr/bin/python3", "-c", FORBID, "444=38"];
        let found = Found::of(&mut under(&place, &words), 7);
        assert_eq!(
            (found.ways()["landlock"].as_str(), found.ways()["plan"].as_str()),
            ("landlock-missing", "")
        );
        assert!(found.advice().contains("skillfreeze plan"), "{}", found.0);
    }
}

/// What is recommended works: root's store is closed to the user as whom its commands run.
#[test]
fn the_advice_tells_what_closes_the_store_to_the_commands_user() {
    for place in Place::each() {
        let advice = |store: &Path| {
            let mut command = under(&place, &["python3", "-c", NO_USERNS]);
            command.args(["--bwrap", "/usr/bin/bwrap"]).env("SKILLFREEZE_ROOT", store);
            let found = Found::of(&mut command, 0);
            found.landlock_is_best();
            found.advice()
        };
        let store = place.env.root();
        set_mode(store, 0o700);
        let absent = place.work("absent");
        if !place.is_roots() {
            assert!(!advice(store).contains("chmod") && !advice(&absent).contains("chmod"));
            continue;
        }
        let closed =
            |store: &Path| [store.to_owned(), store.join("snapshots"), store.join("snapshots/sha256")];
        let opening = |store: &Path| {
            let [root, above, snapshots] = closed(store);
            format!("`chmod a+x {} {} {}`", root.display(), above.display(), snapshots.display())
        };
        let told = advice(store);
        assert!(told.contains(&format!("must first reach the store: {}", opening(store))), "{told}");
        let told = advice(&absent);
        assert!(told.contains(&format!("`skillfreeze prepare`, then {}", opening(&absent))), "{told}");
        for path in closed(store) {
            set_mode(path, 0o711);
        }
        assert!(!advice(store).contains("chmod"), "{}", advice(store));
        place.run(&["--sandbox", "landlock", "--require", "read-only"], &["true"]).ok();
    }
}

#[test]
fn a_filter_against_namespaces_is_one_of_the_reasons_named() {
    const NEWUSER: &str = "0x10000000";
    let (clone, unshare) = match std::env::consts::ARCH {
        "x86_64" => (56, 272),
        "aarch64" => (220, 97),
        _ => skip!("the numbers of clone(2) and unshare(2) are known for x86_64 and aarch64 only"),
    };
    for place in Place::each() {
        let rules = format!("{clone}/{NEWUSER}=1,{unshare}/{NEWUSER}=1");
        let found = Found::of(&mut under(&place, &["python3", "-c", FORBID, &rules]), 0);
        found.landlock_is_best();
        assert_eq!(found.ways()["bind"], "userns-disabled");
        assert!(text(&found.check("sandbox")["fix"]).contains("filter"), "{}", found.0);
    }
}

/// Root's places; says so where there are none.
fn roots_places() -> Vec<Place> {
    let places: Vec<Place> = Place::each().filter(Place::is_roots).collect();
    if places.is_empty() {
        record_skip("only root mounts over parts of /proc and gives stores away");
    }
    places
}

#[test]
fn a_masked_proc_is_noticed() {
    for place in roots_places() {
        let script =
            "mount -t tmpfs none /proc/acpi 2>/dev/null || mount -t tmpfs none /proc/fs; exec \"$@\"";
        let found = Found::of(&mut under(&place, &["unshare", "-m", "sh", "-c", script, "sh"]), 0);
        found.no_bubblewrap("proc-masked");
    }
}

#[test]
fn too_little_memory_leaves_what_takes_none() {
    for place in roots_places() {
        // Whatever of /proc is covered is masked for bubblewrap too.
        file(place.work("meminfo"), "MemTotal: 64 kB\nMemAvailable: 0 kB\n");
        let script = "mount --bind meminfo /proc/meminfo && exec \"$@\"";
        let found = Found::of(&mut under(&place, &["unshare", "-m", "sh", "-c", script, "sh"]), 0);
        let ways = found.ways();
        assert_eq!(
            (ways["staged-tmpfs"].as_str(), ways["sealed-memfd"].as_str()),
            ("seal-memory", "seal-memory")
        );
        assert_eq!((ways["bind"].as_str(), ways["landlock"].as_str()), ("proc-masked", ""));
    }
}

#[test]
fn too_few_descriptors_are_a_reason_for_every_sandbox() {
    for place in Place::each() {
        let found = Found::of(&mut under(&place, &["sh", "-c", "ulimit -n 30 && exec \"$@\"", "sh"]), 7);
        for way in ["staged-tmpfs", "sealed-memfd", "bind", "landlock"] {
            assert_eq!(found.ways()[way], "descriptor-limit");
        }
        assert!(found.advice().contains("skillfreeze plan"), "{}", found.0);
    }
}

#[test]
fn a_store_of_somebody_else_is_not_called_good() {
    if !Runner::available().contains(&Runner::Root) {
        skip!("only root gives directories away");
    }
    for place in Place::each() {
        let store = || Found::of(&mut doctor(&place), 0).check("store").clone();
        assert_eq!(store()["ok"], true);
        set_mode(place.env.root(), 0o777);
        assert_eq!(store()["code"], "store-writable-by-others");
        set_mode(place.env.root(), 0o755);
        chown(place.env.root(), Some(54321), Some(54321)).unwrap();
        assert_eq!(store()["code"], "store-owner");
        // There is none yet, which is no matter.
        let other = place.work("other");
        directory(&other);
        let mut command = doctor(&place);
        assert_eq!(Found::of(command.env("SKILLFREEZE_ROOT", other), 0).check("store")["ok"], true);
    }
}
