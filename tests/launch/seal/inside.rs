//! `verify --inside`, wherever it is asked.

use skillfreeze_testing::{Output, Runner, file, set_mode, skip};

use super::Place;

fn inside(place: &Place, directory: &str) -> Output {
    place.env.run(["verify", directory, "--digest", &place.digest, "--inside", "--json"])
}

#[test]
fn what_can_be_changed_is_told() {
    for place in Place::each() {
        let snapshot = place.snapshot.to_str().unwrap();
        let error = inside(&place, snapshot).fails(3, "mount-writable");
        assert!(error["hint"].is_string(), "{error}");
        place.env.run(["verify", snapshot, "--inside", "--json"]).fails(2, "usage");
        // The store's own name for it is a digest as well.
        place.env.run(["verify", &place.digest, "--inside", "--json"]).fails(3, "mount-writable");
        place.verify();
    }
}

/// What does not match is told as it is without.
#[test]
fn what_does_not_match_comes_first() {
    for place in Place::each() {
        set_mode(place.snapshot.join("demo/SKILL.md"), 0o644);
        file(place.snapshot.join("demo/SKILL.md"), "evil\n");
        inside(&place, place.snapshot.to_str().unwrap()).fails(3, "integrity");
    }
}

/// A mount alone can be read-only while its file system is not: nothing is said of the latter, and nothing
/// is done to it.
#[test]
fn a_mount_is_told_from_its_file_system() {
    if !Runner::available().contains(&Runner::Root) {
        skip!("only root mounts");
    }
    for place in Place::each().filter(Place::is_roots) {
        let script = "mount --bind $1 $1 && mount -o remount,bind,ro $1 && \"$2\" verify $1 --digest $3 --inside \
                      --json && touch $4/still-writable";
        let mut shell = place.env.command_of("unshare", ["-m", "sh", "-c", script, "sh"]);
        shell.arg(&place.snapshot).arg(place.env.program()).arg(&place.digest).arg(place.env.work());
        let output = Output::of(&mut shell).json();
        assert_eq!(output["inside"]["filesystem_read_only"], false, "{output}");
        assert_eq!(output["inside"]["probes"], 5, "{output}");
        assert!(place.work("still-writable").exists());
    }
}

/// Whoever could make the file system writable again can change it.
#[test]
fn a_file_system_that_can_be_made_writable_is_told() {
    if !Runner::available().contains(&Runner::Root) {
        skip!("only root mounts");
    }
    for place in Place::each().filter(Place::is_roots) {
        let script = "mount -t tmpfs x ws && cp -a $1/. ws && chmod 555 ws && mount -o remount,ro ws && \
                      \"$2\" verify ws --digest $3 --inside --json";
        let mut shell = place.env.command_of("unshare", ["-m", "sh", "-c", script, "sh"]);
        shell.arg(&place.snapshot).arg(place.env.program()).arg(&place.digest).arg("--json");
        let error = Output::of(&mut shell).fails(3, "mount-writable");
        assert!(error["message"].as_str().unwrap().contains("remount was not refused"), "{error}");
    }
}

/// A sandbox need not have the store, a home, nor the kernel's list of mounts.
#[test]
fn little_is_needed() {
    for place in Place::each() {
        let directory = place.snapshot.to_str().unwrap();
        let program = place.env.program().to_str().unwrap();
        let bare =
            ["bwrap", "--ro-bind", directory, "/s", "--ro-bind", program, "/p", "--ro-bind", "/usr", "/usr"];
        let links = ["--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--clearenv"];
        for (proc, is_known) in [(&["--proc", "/proc"][..], true), (&[], false)] {
            let command =
                [&bare[..], &links, proc, &["--", "/p", "verify", "/s", "--digest", &place.digest]].concat();
            let command = [&command[..], &["--inside", "--json"]].concat();
            let output = place.seal(&[], &command).json();
            assert_eq!((&output["clean"], &output["warnings"]), (&true.into(), &serde_json::json!([])));
            assert_eq!(output["inside"]["filesystem_read_only"], is_known, "{output}");
            assert_eq!(output["inside"]["noexec"], false);
        }
    }
}
