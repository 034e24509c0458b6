//! What is refused before anything starts, and leaves the host as it was.

use std::os::unix::fs::{chown, symlink};
use std::process::Command;

use skillfreeze_testing::{Runner, directory, file, package, set_mode, skip, tree};

use super::Place;

/// Everything of the host that a launch could change.
fn host(place: &Place) -> [String; 3] {
    // The index is no part of what a store holds, and opening it may make its companion files; the
    // status lines are written by the test itself.
    let without = |tree: String, what: &str| {
        tree.lines().filter(|line| !line.contains(what)).collect::<Vec<_>>().join("\n")
    };
    let store = without(tree(place.env.root()), " index.db");
    [without(tree(place.env.work()), " status"), tree(place.env.home()), store]
}

/// Asserts that nothing is made or changed by refusals.
#[track_caller]
fn unchanged(place: &Place, refusals: impl FnOnce()) {
    // A launch leaves the file behind that its lease is a lock on.
    place.run(&[], &["true"]).ok();
    let before = host(place);
    refusals();
    assert_eq!(host(place), before);
}

/// Asserts that a launch with these options is refused, and that nothing was started.
#[track_caller]
fn refused(place: &Place, options: &[&str], code: &str) -> serde_json::Value {
    let command = ["--", "sh", "-c", "echo started; touch started"];
    let (output, lines) = place.run_with_lines(&[&["--json", &place.digest], options, &command].concat());
    let error = output.fails(125, code);
    assert_eq!(output.stdout, "", "{options:?}");
    assert_eq!(super::events(&lines), [code], "{options:?}");
    error
}

#[test]
fn the_store_is_never_visible() {
    for place in Place::each() {
        let root = place.env.root().to_str().unwrap().to_owned();
        let above = place.env.root().parent().unwrap().to_str().unwrap().to_owned();
        let inside = format!("{root}/snapshots");
        let snapshot = place.snapshot.to_str().unwrap().to_owned();
        symlink(place.env.root(), place.work("link")).unwrap();
        symlink(place.env.root().join("packages"), place.work("link-inside")).unwrap();
        let roundabout = format!("{}/../store", place.env.home().display());
        unchanged(&place, || {
            for path in
                [&root, &above, &inside, &snapshot, "/", "link", "link-inside", "../store", &roundabout]
            {
                for option in ["--bind", "--ro-bind", "--workspace", "--extensions"] {
                    refused(&place, &[option, path], "bind-store");
                }
                refused(&place, &["--ro-bind", &format!("{path}:/mnt/x")], "bind-store");
            }
        });
    }
}

#[test]
fn what_is_neither_file_nor_directory_is_not_bound() {
    for place in Place::each() {
        assert!(Command::new("mkfifo").arg(place.work("fifo")).status().unwrap().success());
        let _listener = std::os::unix::net::UnixListener::bind(place.work("socket")).unwrap();
        symlink("socket", place.work("link")).unwrap();
        symlink("none", place.work("dangling")).unwrap();
        file(place.work("file"), "");
        unchanged(&place, || {
            for path in ["fifo", "socket", "link", "/dev/null"] {
                for option in ["--bind", "--ro-bind", "--workspace", "--extensions"] {
                    refused(&place, &[option, path], "bind-special-file");
                }
            }
            let error = refused(&place, &["--bind", "none"], "bind-not-found");
            assert!(error["hint"].as_str().unwrap().contains("colon"), "{error}");
            refused(&place, &["--ro-bind", "dangling"], "bind-not-found");
            refused(&place, &["--extensions", "none"], "bind-not-found");
            refused(&place, &["--workspace", "file"], "usage");
        });
    }
}

#[test]
fn a_target_must_be_a_plain_place_that_the_sandbox_does_not_need() {
    for place in Place::each() {
        directory(place.work("data"));
        unchanged(&place, || {
            for (target, code) in [
                ("", "mount-target-invalid"),
                ("relative", "mount-target-invalid"),
                ("./relative", "mount-target-invalid"),
                ("..", "mount-target-invalid"),
                ("/x/../y", "mount-target-invalid"),
                ("/x/..", "mount-target-invalid"),
                ("/x/./y", "mount-target-invalid"),
                ("/", "mount-target-reserved"),
                ("//", "mount-target-reserved"),
                ("/skills", "mount-target-reserved"),
                ("/skills/", "mount-target-reserved"),
                ("//skills", "mount-target-reserved"),
                ("/skills/demo", "mount-target-reserved"),
                ("/skill-extensions/x", "mount-target-reserved"),
                ("/proc", "mount-target-reserved"),
                ("/proc/sys", "mount-target-reserved"),
                ("/dev/shm", "mount-target-reserved"),
                ("/sys/x", "mount-target-reserved"),
                ("/tmp", "mount-target-reserved"),
                ("/tmp/home", "mount-target-reserved"),
                ("/etc", "mount-target-reserved"),
                ("/etc/passwd", "mount-target-reserved"),
                ("/usr", "mount-target-reserved"),
                ("/usr/no-such-directory", "mount-target-missing"),
                ("/usr/bin/env", "mount-target-type"),
            ] {
                for option in ["--bind", "--ro-bind"] {
                    let error = refused(&place, &[option, &format!("data:{target}")], code);
                    assert!(error["hint"].is_string(), "{error}");
                }
            }
            refused(&place, &["--bind", "data:/x", "--ro-bind", "ws:/x/"], "mount-target-twice");
            for (option, path, code) in [
                ("--skills-dir", "relative", "mount-target-invalid"),
                ("--skills-dir", "/", "mount-target-reserved"),
                ("--skills-dir", "/usr/share/skills", "mount-target-reserved"),
                ("--skills-dir", "/tmp/skills", "mount-target-reserved"),
                ("--skills-dir", "/skill-extensions/skills", "mount-target-reserved"),
                ("--extensions-dir", "/skills/extensions", "mount-target-reserved"),
                ("--extensions-dir", "/a/../b", "mount-target-invalid"),
                ("--extensions-dir", "/dev", "mount-target-reserved"),
            ] {
                refused(&place, &[option, path], code);
            }
            refused(&place, &["--skills-dir", "/x", "--bind", "data:/x/y"], "mount-target-reserved");
            let error = place.run(&["--json", "--skills-dir", "/tmp/sk"], &["true"]);
            let error = error.fails(125, "mount-target-reserved");
            assert_eq!(
                error["message"],
                "nothing can be mounted at `/tmp/sk`: the sandbox needs `/tmp` itself"
            );
            assert!(error["hint"].as_str().unwrap().contains("directly below `/`"), "{error}");
        });
    }
}

/// bubblewrap would make the mount point on the host: where the bind is writable, and through a link
/// anywhere in the sandbox's user's reach.
#[test]
fn no_mount_point_is_made_below_a_bind_or_through_a_link() {
    for place in Place::each() {
        directory(place.work("outside"));
        directory(place.work("data"));
        directory(place.work("ws/dir"));
        file(place.work("ws/file"), "");
        symlink(place.work("outside"), place.work("ws/out")).unwrap();
        symlink("dir", place.work("ws/link")).unwrap();
        symlink("none", place.work("ws/dangling")).unwrap();
        let workspace = place.work("ws");
        unchanged(&place, || {
            for (below, code) in [
                ("none", "mount-target-missing"),
                ("none/deeper", "mount-target-missing"),
                ("dir/none", "mount-target-missing"),
                ("out", "mount-target-type"),
                ("out/x", "mount-target-type"),
                ("link", "mount-target-type"),
                ("link/x", "mount-target-type"),
                ("dangling", "mount-target-type"),
                ("file", "mount-target-type"),
                ("file/x", "mount-target-type"),
            ] {
                let bind = format!("data:{}", workspace.join(below).display());
                for option in ["--bind", "--ro-bind"] {
                    refused(&place, &["--workspace", "ws", option, &bind], code);
                }
                let bind = format!("data:/w/{below}");
                refused(&place, &["--ro-bind", "ws:/w", "--bind", &bind], code);
            }
            refused(&place, &["--bind", "ws:/w", "--ro-bind", "ws/file:/w/dir"], "mount-target-type");
        });
        // Where it is there, it is used.
        let bind = format!("data:{}", workspace.join("dir").display());
        place.run(&["--workspace", "ws", "--ro-bind", &bind], &["ls", "dir"]).ok();
    }
}

#[test]
fn weaker_than_asked_for_is_refused() {
    for place in Place::each() {
        unchanged(&place, || {
            for (options, code) in [
                (["--sandbox", "landlock"], "integrity-unavailable"),
                (["--sandbox", "seatbelt"], "sandbox-unavailable"),
            ] {
                let error = refused(&place, &options, code);
                assert!(error["hint"].is_string(), "{error}");
            }
        });
        let enough = [
            ["--require", "checked"],
            ["--require", "read-only"],
            ["--require", "sealed"],
            ["--sandbox", "bwrap"],
        ];
        for options in enough {
            place.run(&options, &["true"]).ok();
        }
        for options in
            [["--require", "none"], ["--seal", "bind"], ["--sandbox", "docker"], ["--network", "bridge"]]
        {
            place.run(&[&["--json"][..], &options].concat(), &["true"]).fails(125, "usage");
        }
    }
}

#[test]
fn a_bare_directory_needs_a_digest_and_must_match_it() {
    for place in Place::each() {
        // A copy that the store knows nothing of.
        let copied = place.env.command_of("cp", ["-a"]).arg(&place.snapshot).arg("copy").status();
        assert!(copied.unwrap().success());
        let run = |options: &[&str]| {
            let arguments =
                [&["run", "--json", "copy"], options, &["--", "head", "-1", "/skills/demo/SKILL.md"]];
            place.env.run(arguments.concat())
        };
        let error = run(&[]).fails(125, "usage");
        assert!(error["hint"].as_str().unwrap().contains("--digest"), "{error}");
        let other = format!("sha256:{}", "0".repeat(64));
        let error = run(&["--digest", &other]).fails(125, "integrity");
        assert_eq!(error["details"]["faults"][0]["code"], "manifest-digest");
        run(&["--digest", "sha256:short"]).fails(125, "usage");
        assert_eq!(place.records().len(), 0);
        assert_eq!(run(&["--digest", &place.digest]).ok(), "---\n");
        // The digest counts also where a stored one is named.
        place.run(&["--json", "--digest", &other], &["true"]).fails(125, "integrity");
        // What is writable by the command would not stay as it was checked.
        let writable = ["run", "--json", "copy", "--digest", &place.digest, "--bind"];
        for path in [".", "copy", "copy/demo"] {
            place.env.run([&writable[..], &[path, "--", "true"]].concat()).fails(125, "bind-snapshot");
        }
        set_mode(place.work("copy"), 0o755);
    }
}

#[test]
fn a_snapshot_of_another_ordinary_user_is_refused() {
    if !Runner::available().contains(&Runner::Root) {
        skip!("only root gives directories away");
    }
    for place in Place::each() {
        let copied = place.env.command_of("cp", ["-a"]).arg(&place.snapshot).arg("../copy").status();
        assert!(copied.unwrap().success());
        let copy = place.env.work().parent().unwrap().join("copy");
        let run = || place.env.run(["run", "--json", "../copy", "--digest", &place.digest, "--", "true"]);
        run().ok();
        chown(&copy, Some(54321), Some(54321)).unwrap();
        run().fails(125, "snapshot-owner");
        chown(&copy, Some(0), Some(0)).unwrap();
        run().ok();
    }
}

/// The store's own rules hold for a launch that freezes first.
#[test]
fn a_selection_that_cannot_be_frozen_starts_nothing() {
    for place in Place::each() {
        let broken = package(place.work("other"), "broken");
        symlink("/etc/passwd", broken.join("passwd")).unwrap();
        let run = |options: &[&str]| {
            place
                .env
                .run([&["run", "--json"], options, &["--workspace", "ws", "--", "touch", "started"]].concat())
        };
        let output = run(&["--source", "other", "-s", "broken"]);
        assert_eq!(output.status, 125, "{output:#?}");
        assert!(output.stderr.contains("symlink-escape"), "{output:#?}");
        run(&["--source", "src", "-s", "demo@sha256:000000000000"]).fails(125, "selection-unknown");
        assert!(!place.work("ws/started").exists());
        assert_eq!(place.records().len(), 0);
    }
}

/// A workspace may hold links of any name, to anywhere: nothing of the sandbox is made through them.
#[test]
fn links_named_like_the_sandboxes_own_places_lead_nowhere() {
    let names = [
        "skills",
        "skill-extensions",
        "tmp/home",
        ".git",
        ".agents",
        ".agents/skills",
        ".claude/skills",
        "skillfreeze.toml",
        "skillfreeze.lock",
    ];
    let script = "cat $SKILLS_DIR/demo/SKILL.md; touch $SKILL_EXTENSIONS_DIR/x $HOME/x; rm -f skills/x";
    for place in Place::each() {
        directory(place.work("outside"));
        set_mode(place.work("outside"), 0o777);
        let skill = std::fs::read_to_string(place.snapshot.join("demo/SKILL.md")).unwrap();
        let store = place.env.root().to_owned();
        let ends =
            [place.work("outside"), place.work("none"), store.join("new"), store, "/".into(), ".".into()];
        // A launch that starts writes its record, and holds its lease.
        let host = || {
            let before = host(&place).join("\n");
            let is_kept = |line: &&str| !line.contains(" runs") && !line.contains(" leases");
            let own = ["/skills", "/skill-extensions", "/tmp/home"].map(std::fs::exists).map(Result::unwrap);
            (before.lines().filter(is_kept).collect::<Vec<_>>().join("\n"), own)
        };
        let mut started = 0;
        for (to, name) in ends.iter().flat_map(|to| names.map(|name| (to, name))) {
            std::fs::remove_dir_all(place.work("ws")).unwrap();
            let link = place.work("ws").join(name);
            directory(link.parent().unwrap());
            symlink(to, &link).unwrap();
            let before = host();
            let output = place.run(&["--json", "--workspace", "ws"], &["sh", "-c", script]);
            if output.status == 0 {
                assert_eq!(output.stdout, skill, "{name}: {output:#?}");
                started += 1;
            } else {
                output.fails(125, "bind-in-source");
                assert_eq!((output.stdout.as_str(), to.to_str()), ("", Some("/")), "{name}: {output:#?}");
            }
            assert_eq!(host(), before, "{name} to {}", to.display());
        }
        assert!(started > 40, "{started}");
    }
}
