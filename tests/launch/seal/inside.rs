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

/// A mount alone can be read-only while the files are written by another path: that is less than sealed, and
/// said so. Nothing is done to the file system.
#[test]
fn a_mount_is_told_from_its_file_system() {
    for place in Place::each() {
        let snapshot = place.snapshot.to_str().unwrap();
        let script = "file=$1/demo/SKILL.md; shift; \"$0\" verify /mnt --inside --digest \"$@\" || exit; \
                      touch still-writable; chmod 644 $file; echo evil >$file; cat /mnt/demo/SKILL.md";
        let program = place.env.program().to_str().unwrap();
        let asked = |capabilities: &[&str], options: &[&str]| {
            let bare = ["--dev-bind", "/", "/", "--ro-bind", snapshot, "/mnt"];
            let shell = ["--", "sh", "-c", script, program, snapshot, &place.digest];
            let words = [&bare[..], capabilities, &shell, options].concat();
            Output::of(&mut place.env.command_of("bwrap", words))
        };
        let incapable = ["--cap-drop", "ALL"];
        let error = asked(&incapable, &["--json"]).fails(3, "mount-unsealed");
        assert!(error["message"].as_str().unwrap().contains("can change from elsewhere"), "{error}");
        assert!(error["hint"].as_str().unwrap().contains("--require read-only"), "{error}");
        // Who may mount can undo it.
        let capable = ["--unshare-user", "--cap-add", "ALL"];
        for options in [&["--json"][..], &["--json", "--require", "read-only"]] {
            let error = asked(&capable, options).fails(3, "mount-writable");
            assert!(error["message"].as_str().unwrap().contains("writable copy"), "{error}");
        }
        let output = asked(&incapable, &["--require", "read-only"]);
        let said =
            "this mount is read-only, but the files are not sealed: they can change from elsewhere\nevil\n";
        assert!(output.ok().ends_with(said), "{output:?}");
        assert!(place.work("still-writable").exists());
        place.env.run(["verify", snapshot, "--require", "sealed", "--json"]).fails(2, "usage");
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

/// A user namespace that does not know root says of nothing that it is root's.
#[test]
fn a_launch_in_there_says_why_it_trusts_no_bubblewrap() {
    for place in Place::each() {
        let program = place.env.program().to_str().unwrap();
        let run = |options: &[&str]| {
            let asked = [&[program, "run", &place.digest, "--json"], options, &["--", "true"]].concat();
            place.seal(&["--json"], &asked)
        };
        if place.is_roots() {
            run(&[]).ok();
            continue;
        }
        let error = run(&[]).fails(125, "bwrap-owner-unknown");
        assert!(
            error["message"].as_str().unwrap().contains("root is unknown in this user namespace"),
            "{error}"
        );
        assert!(error["hint"].as_str().unwrap().contains("--bwrap"), "{error}");
        run(&["--bwrap", "/usr/bin/bwrap"]).ok();
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
        for (proc, required, is_known) in
            [(&["--proc", "/proc"][..], "sealed", true), (&[], "read-only", false)]
        {
            let inside = |required| {
                let verify = ["--", "/p", "verify", "/s", "--digest", &place.digest, "--inside", "--json"];
                place.seal(&[], &[&bare[..], &links, proc, &verify, &["--require", required]].concat())
            };
            let output = inside(required).json();
            assert_eq!((&output["clean"], &output["warnings"]), (&true.into(), &serde_json::json!([])));
            assert_eq!(output["inside"]["sealed"], is_known, "{output}");
            assert_eq!(output["inside"]["noexec"], false);
            if !is_known {
                let error = inside("sealed").fails(3, "mount-unsealed");
                assert!(error["message"].as_str().unwrap().contains("/proc"), "{error}");
            }
        }
    }
}
