//! Which bubblewrap is used, and what becomes of its refusals.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use skillfreeze_testing::{Output, Runner, directory, file, set_mode, skip};

use super::{Place, Way, events};

/// What a bubblewrap must say that it can do, to be used.
pub(super) const HELP: &str = "--disable-userns --as-pid-1 --size --cap-drop --remount-ro --die-with-parent \
                    --ro-bind-fd --bind-fd --args";

/// Writes a program that says it is bubblewrap, and runs `script` when it is to start a sandbox.
pub(super) fn fake(path: &Path, help: &str, script: &str) {
    let text = format!(
        "#!/bin/sh\ncase $1 in\n--help) echo {help};;\n--version) echo bubblewrap 0.fake;;\n*)\n{script}\n;;\nesac\n"
    );
    file(path, text);
    set_mode(path, 0o755);
}

/// Runs with a fake bubblewrap and status lines.
fn run_with(place: &Place, script: &str) -> (Output, Vec<Value>) {
    let path = place.work("fake-bwrap");
    fake(&path, HELP, script);
    let path = path.to_str().unwrap().to_owned();
    place.run_with_lines(&["--json", &place.digest, "--bwrap", &path, "--", "sh", "-c", "echo started"])
}

#[test]
fn each_known_refusal_has_a_code_and_a_fix() {
    for place in Place::each_way() {
        for (message, code) in [
            ("setting up uid map: Permission denied", "userns-restricted"),
            ("loopback: Failed RTM_NEWADDR: Operation not permitted", "network-restricted"),
            (
                "No permissions to create a new namespace, likely because the kernel does not allow \
                 non-privileged user namespaces.",
                "userns-disabled",
            ),
            (
                "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
                "userns-limit",
            ),
            ("Can't mount proc on /newroot/proc: Operation not permitted", "proc-masked"),
            ("Creating new namespace failed: Operation not permitted", "userns-forbidden"),
            ("Creating new namespace failed: Invalid argument", "userns-unavailable"),
            ("Can't find source path /root/ws: Permission denied", "bind-unreachable"),
        ] {
            let script = format!("cat >&2 <<'END'\nbwrap: {message}\nEND\nexit 1");
            let (output, lines) = run_with(&place, &script);
            let error = output.fails(125, code);
            assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{error}");
            assert!(error["message"].as_str().unwrap().contains(message), "{error}");
            assert_eq!(events(&lines), [place.way().begun(), &[code]].concat());
        }
    }
}

#[test]
fn what_bubblewrap_says_else_is_passed_on() {
    for place in Place::each_way() {
        let (output, _) = run_with(&place, "echo 'bwrap: something new' >&2; exit 1");
        let error = output.fails(125, "bwrap-failed");
        assert!(error["message"].as_str().unwrap().contains("something new"), "{error}");
    }
}

/// A sandbox that is none must not pass for one, whatever the program in its place does.
#[test]
fn nothing_runs_without_a_sandbox() {
    for place in Place::each_way() {
        for (script, code) in [
            ("exit 0", "bwrap-failed"),
            ("kill -9 $$", "bwrap-failed"),
            // Starts the first process as it is asked to, but encloses it in nothing.
            ("while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"", "mount-not-visible"),
        ] {
            let (output, lines) = run_with(&place, script);
            output.fails(125, code);
            assert_eq!(output.stdout, "", "{script}");
            assert!(!events(&lines).contains(&"started".to_owned()), "{script}: {lines:?}");
            assert_eq!(events(&lines).last().map(String::as_str), Some(code));
        }
    }
}

/// Changes the options on their way to the real bubblewrap: with `sed`, on one option a line.
fn changed(change: &str) -> String {
    format!(
        "options=$(tr '\\0' '\\n' </proc/self/fd/$2 | sed '{change}')\n\
         shift 2\n\
         IFS='\n'\n\
         exec /usr/bin/bwrap $options \"$@\""
    )
}

/// What was planned is not believed: the first process inside looks.
#[test]
fn a_weaker_sandbox_than_planned_is_noticed_from_inside() {
    for place in Place::each_of(&[Way::Stage, Way::Bind]) {
        // The control: unchanged options do start.
        let (output, _) = run_with(&place, &changed(""));
        assert_eq!(output.ok(), "started\n");
        let elsewhere = place.work("copy");
        let copied = place.env.command_of("cp", ["-a"]).arg(&place.snapshot).arg(&elsewhere).status();
        assert!(copied.unwrap().success());
        let swap =
            format!("/^--ro-bind/{{N;N;s,.*\\n/skills$,--ro-bind\\n{}\\n/skills,}}", elsewhere.display());
        let writable = "/^--ro-bind/{N;N;s,^--ro-\\(.*\\n/skills\\)$,--\\1,}";
        for (change, code) in [
            ("/^--ro-bind/{N;N;s,.*\\n/skills$,--tmpfs\\n/skills,}", "mount-swapped"),
            (swap.as_str(), "mount-swapped"),
            (writable, "mount-writable"),
        ] {
            let (output, lines) = run_with(&place, &changed(change));
            if change == writable && (place.is_roots() || place.way() == Way::Stage) {
                // What the helper lends to bubblewrap is read-only already.
                assert_eq!(output.ok(), "started\n");
                continue;
            }
            assert_eq!(events(&lines), [place.way().begun(), &[code]].concat(), "{change}: {output:#?}");
            output.fails(125, code);
        }
        place.verify();
    }
}

/// The same, where bubblewrap itself makes what is mounted.
#[test]
fn a_weaker_sandbox_of_memory_files_is_noticed_from_inside() {
    for place in Place::each_of(&[Way::MemoryFiles]) {
        let (output, _) = run_with(&place, &changed(""));
        assert_eq!(output.ok(), "started\n");
        for (change, code) in [
            ("/^--remount-ro$/{N;s,.*\\n/skills$,--chmod\\n0555\\n/skills,}", "mount-writable"),
            ("s,^/skills/demo/SKILL.md$,/skills/demo/other,", "mount-not-visible"),
            ("s,^/skills/.snapshot.json$,/skills/other,", "mount-not-visible"),
            (
                "s,^/skills/demo/SKILL.md$,/skills/x,;s,^/skills/.snapshot.json$,/skills/demo/SKILL.md,;s,^/skills/x$,/skills/.snapshot.json,",
                "mount-swapped",
            ),
        ] {
            let (output, lines) = run_with(&place, &changed(change));
            assert_eq!(events(&lines), [place.way().begun(), &[code]].concat(), "{change}: {output:#?}");
            output.fails(125, code);
        }
        place.verify();
    }
}

fn search(place: &Place, path: &str) -> Output {
    Output::of(place.command(&["--json"], &["/usr/bin/echo", "started"]).env("PATH", path))
}

#[test]
fn bubblewrap_is_not_taken_from_where_others_put_it() {
    for place in Place::each() {
        let marker = place.work("used");
        let own = place.work("bin");
        directory(&own);
        let script = format!("echo used >{}; exit 1", marker.display());
        for directory in [place.env.work(), own.as_path()] {
            fake(&directory.join("bwrap"), HELP, &script);
        }
        let work = place.env.work().to_str().unwrap();
        // In the working directory and below, by whatever name, and in no directory at all.
        for path in
            [work, own.to_str().unwrap(), ".", "", "bin", "/nonexistent", &format!("{work}/../work/bin")]
        {
            let output = search(&place, path);
            assert_eq!(output.status, 125, "{path}: {output:#?}");
            assert!(
                output.stderr.contains("\"bwrap-missing\"") || output.stderr.contains("\"bwrap-untrusted\""),
                "{path}: {output:#?}"
            );
            assert!(!marker.exists(), "{path}");
        }
        let path = format!("{work}:.:{}:/usr/bin", own.display());
        assert_eq!(search(&place, &path).ok(), "started\n", "the next one that can be trusted");
        assert!(!marker.exists());
        // Named, it is used, whoever it belongs to.
        for named in ["bin/bwrap", "./bwrap", "bwrap"] {
            let output = place.run(&["--json", "--bwrap", named], &["echo", "started"]);
            output.fails(125, "bwrap-failed");
        }
    }
}

#[test]
fn a_bubblewrap_that_others_may_write_is_refused() {
    if !Runner::available().contains(&Runner::Root) {
        skip!("only root makes programs that are root's");
    }
    for place in Place::each() {
        // Not below the working directory, where it would not be looked for, nor below anything that
        // is the user's.
        let top = tempfile::tempdir().unwrap();
        set_mode(top.path(), 0o755);
        let bin = top.path().join("bin");
        directory(&bin);
        let program = bin.join("bwrap");
        fs::copy("/usr/bin/bwrap", &program).unwrap();
        let run = |modes: [u32; 2], owners: [u32; 2]| {
            for ((path, mode), owner) in [&bin, &program].into_iter().zip(modes).zip(owners) {
                std::os::unix::fs::chown(path, Some(owner), Some(0)).unwrap();
                set_mode(path, mode);
            }
            search(&place, bin.to_str().unwrap())
        };
        assert_eq!(run([0o755, 0o755], [0, 0]).ok(), "started\n");
        for (modes, owners) in [
            ([0o755, 0o777], [0, 0]),
            ([0o755, 0o775], [0, 0]),
            ([0o777, 0o755], [0, 0]),
            ([0o775, 0o755], [0, 0]),
            ([0o755, 0o755], [0, 54321]),
            ([0o755, 0o755], [54321, 0]),
        ] {
            run(modes, owners).fails(125, "bwrap-untrusted");
        }
    }
}

#[test]
fn a_bubblewrap_without_a_needed_option_is_too_old() {
    for place in Place::each() {
        let path = place.work("fake-bwrap");
        for option in HELP.split_whitespace().filter(|option| *option != "--args") {
            let help: Vec<&str> = HELP.split_whitespace().filter(|other| *other != option).collect();
            fake(&path, &help.join(" "), "echo used >&2");
            let output = place.run(&["--json", "--bwrap", path.to_str().unwrap()], &["true"]);
            let error = output.fails(125, "bwrap-too-old");
            assert!(error["message"].as_str().unwrap().contains("0.fake"), "{error}");
        }
        let nothing: PathBuf = place.work("none");
        place.run(&["--json", "--bwrap", nothing.to_str().unwrap()], &["true"]).fails(125, "bwrap-unusable");
    }
}

/// As one is that waits for a file server that does not answer.
#[test]
fn one_that_hangs_can_be_ended() {
    for place in Place::each() {
        let path = place.work("fake-bwrap");
        fake(&path, HELP, "exec sleep 1000");
        let mut run = place.env.command_of("timeout", ["-k", "60", "1"]);
        run.arg(place.env.program()).args(["run", "--json", &place.digest, "--bwrap"]).arg(&path);
        let output = Output::of(run.args(["--", "echo", "started"]));
        assert!([124, 143].contains(&output.status), "{output:#?}");
        assert!(output.stderr.contains("\"interrupted\"") && output.stdout.is_empty(), "{output:#?}");
    }
}
