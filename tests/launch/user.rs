//! Whom the command runs as.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};

use serde_json::json;
use skillfreeze_testing::{Runner, directory, file, record_skip, set_mode};

use super::Place;

/// Somebody without a name.
const STRANGER: u32 = 54321;

/// Root's places; none where the tests do not run as root.
fn roots_places() -> Vec<Place> {
    let places: Vec<Place> = Place::each_way().filter(Place::is_roots).collect();
    if places.is_empty() {
        record_skip("the tests do not run as root");
    }
    places
}

#[test]
fn an_ordinary_user_stays_itself() {
    for place in Place::each_way().filter(|place| !place.is_roots()) {
        let outside = place.env.command_of("id", ["-u"]).output().unwrap().stdout;
        let own = String::from_utf8(outside).unwrap().trim().to_owned();
        let command = ["sh", "-c", "id -u; grep ^Cap /proc/self/status | grep -vc '0000000000000000$'"];
        for options in [&[][..], &["--user", &own]] {
            assert_eq!(place.run(options, &command).stdout, format!("{own}\n0\n"));
        }
        for (user, code) in
            [("0", "user-not-permitted"), ("54321", "user-not-permitted"), ("no-such-user", "usage")]
        {
            place.run(&["--json", "--user", user], &["true"]).fails(125, code);
        }
    }
}

#[test]
fn what_root_starts_is_never_root() {
    for place in roots_places() {
        let command =
            ["sh", "-c", "id -u; id -g; id -G; grep ^Cap /proc/self/status | grep -vc '0000000000000000$'"];
        let ids = |options: &[&str]| {
            let output = place.run(options, &command);
            output.stdout.lines().map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ids(&[]), "65534 65534 65534 0");
        assert_eq!(ids(&["--user", "nobody"]), "65534 65534 65534 0");
        assert_eq!(ids(&["--user", "54321:54322"]), "54321 54322 54322 0");
        assert_eq!(ids(&["--user", "54321"]), "54321 54321 54321 0");
        for (user, code) in [
            ("0", "user-root"),
            ("root", "user-root"),
            ("0:5", "user-root"),
            ("x:y", "usage"),
            ("no-such-user", "usage"),
        ] {
            place.run(&["--json", "--user", user], &["true"]).fails(125, code);
        }
        chown(place.work("ws"), Some(STRANGER), Some(STRANGER)).unwrap();
        for user in ["0", "root"] {
            place.run(&["--json", "--workspace", "ws", "--user", user], &["true"]).fails(125, "user-root");
        }
    }
}

#[test]
fn the_workspaces_owner_runs_what_root_starts() {
    for place in roots_places() {
        chown(place.work("ws"), Some(STRANGER), Some(STRANGER + 1)).unwrap();
        let output = place.run(&["--workspace", "ws"], &["sh", "-c", "id -u; id -g; touch made"]);
        assert_eq!((output.ok(), output.stderr.as_str()), ("54321\n54322\n", ""));
        let made = fs::metadata(place.work("ws/made")).unwrap();
        assert_eq!((made.uid(), made.gid()), (STRANGER, STRANGER + 1));
        let output =
            place.run(&["--workspace", "ws", "--user", "nobody"], &["sh", "-c", "id -u; touch other"]);
        assert_eq!((output.stdout.as_str(), output.status), ("65534\n", 1), "{output:#?}");
    }
}

#[test]
fn roots_own_workspace_can_be_read_and_not_written() {
    for place in roots_places() {
        file(place.work("ws/given"), "given\n");
        let output =
            place.run(&["--workspace", "ws"], &["sh", "-c", "cat given; touch new; chmod 777 given"]);
        assert_eq!((output.stdout.as_str(), output.status), ("given\n", 1), "{output:#?}");
        assert!(output.stderr.starts_with("warning: "), "{output:#?}");
        assert!(output.stderr.contains("runs as user 65534, who cannot write"), "{output:#?}");
        assert_eq!(crate::support::names(place.work("ws")), ["given"]);
        assert_eq!(fs::metadata(place.work("ws/given")).unwrap().mode() & 0o777, 0o644);
    }
}

/// The command's user could not go to the snapshot by its path: it gets the handle's own mount.
#[test]
fn a_store_behind_a_closed_directory_serves_the_commands_user() {
    for place in Place::each_way() {
        set_mode(place.env.root(), 0o700);
        let output = place.run(&[], &["head", "-1", "$SKILLS_DIR/demo/SKILL.md"]);
        assert_eq!(output.ok(), "---\n");
    }
    assert!(!Runner::available().is_empty());
}

#[test]
fn what_the_commands_user_cannot_write_is_told() {
    for place in roots_places() {
        for name in ["own", "open", "kept"] {
            directory(place.work(name));
        }
        file(place.work("own/file"), "");
        chown(place.work("own"), Some(STRANGER), Some(STRANGER)).unwrap();
        set_mode(place.work("open"), 0o777);
        let told = |options: &[&str]| {
            let output = place.run(options, &["true"]);
            output.ok();
            let lines = output.stderr.lines().filter(|line| line.starts_with("warning: the command runs as"));
            lines.map(|line| line.split('`').nth(1).unwrap().rsplit('/').next().unwrap().to_owned()).collect()
        };
        for (options, names) in [
            (&["--workspace", "ws"][..], &["ws"][..]),
            (&["--workspace", "open"], &[]),
            (&["--workspace", "own", "--bind", "own/file:/x", "--bind", "kept"], &["file", "kept"]),
            (&["--workspace", "own", "--user", "nobody"], &["own"]),
            (&["--extensions", "kept"], &["kept"]),
            (&["--extensions", "open", "--ro-bind", "kept"], &[]),
        ] {
            let told: Vec<String> = told(options);
            assert_eq!(told, names, "{options:?}");
        }
        let plan = place.run(&["--bind", "kept", "--dry-run"], &["true"]).json();
        let warning = json!([{"code": "bind-not-writable", "path": place.work("kept"), "user": 65534}]);
        assert_eq!(plan["warnings"], warning);
    }
}

/// bubblewrap opens binds by their path; what closes the way is named.
#[test]
fn closed_directories_above_what_is_lent_are_named() {
    for place in roots_places() {
        directory(place.work("closed/deep/ws"));
        set_mode(place.work("closed"), 0o700);
        set_mode(place.work("closed/deep"), 0o750);
        let workspace = place.work("closed/deep/ws");
        for option in ["--workspace", "--ro-bind", "--extensions"] {
            let output = place.run(&["--json", option, workspace.to_str().unwrap()], &["echo", "started"]);
            assert_eq!(output.stdout, "");
            let last = output.stderr.lines().last().unwrap();
            let error: serde_json::Value = serde_json::from_str(last).unwrap();
            assert_eq!((output.status, &error["code"]), (125, &json!("bind-unreachable")), "{error}");
            let (above, closed) = (place.work("closed"), place.work("closed/deep"));
            let named = format!(
                "user 65534 cannot reach `{}`: no search permission on `{}`, `{}`",
                workspace.display(),
                above.display(),
                closed.display()
            );
            assert_eq!(error["message"], named);
            let hint = format!("`chmod a+x {} {}`", above.display(), closed.display());
            assert!(error["hint"].as_str().unwrap().contains(&hint), "{error}");
        }
        set_mode(place.work("ws"), 0o700);
        let error = place.run(&["--json", "--workspace", "ws"], &["true"]);
        let last = error.stderr.lines().last().unwrap().to_owned();
        assert!(last.contains("bind-unreachable") && last.contains("/ws`"), "{error:#?}");
    }
}
