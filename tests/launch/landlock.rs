//! Launches where nothing but Landlock encloses the command.

mod processes;

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;
use skillfreeze_testing::{Output, Runner, directory, file, record_skip, set_mode, skip};

use super::{Place, WITH_STATUS, events};
use crate::support::{codes, names, text};

const OPTIONS: [&str; 5] = ["--json", "--sandbox", "landlock", "--require", "read-only"];
/// Tries to get around the rules.
const ATTEMPTS: &str = include_str!("landlock.py");
/// Becomes a program where no user namespace can be made.
const NO_USERNS: &str = include_str!("no_userns.py");
/// Becomes a program to which some system calls are forbidden.
const FORBID: &str = include_str!("forbid.py");

/// A place whose snapshot the command's user reaches, and whose temporaries are its own.
struct Enclosed(Place);

impl Enclosed {
    fn each() -> impl Iterator<Item = Self> {
        Place::each().map(|place| {
            // Where root starts the command, somebody else reads the snapshot.
            let root = place.env.root();
            for directory in [root, &root.join("snapshots"), &root.join("snapshots/sha256")] {
                set_mode(directory, 0o711);
            }
            let enclosed = Self(place);
            enclosed.open_directory("tmp");
            enclosed
        })
    }

    fn command(&self, options: &[&str], command: &[&str]) -> Command {
        let mut run = self.0.command(&[&OPTIONS[..], options].concat(), command);
        run.env("TMPDIR", self.0.work("tmp"));
        run
    }

    fn run(&self, options: &[&str], command: &[&str]) -> Output {
        let output = Output::of(&mut self.command(options, command));
        assert_eq!(names(self.0.work("tmp")), [""; 0], "{output:#?}");
        output
    }

    /// A directory that the command's user may write.
    fn open_directory(&self, name: &str) -> PathBuf {
        let path = self.0.work(name);
        directory(&path);
        if self.0.is_roots() {
            set_mode(&path, 0o777);
        }
        path
    }

    fn snapshot(&self) -> &str {
        self.0.snapshot.to_str().unwrap()
    }
}

#[test]
fn it_is_no_way_of_asking_for_less() {
    for Enclosed(place) in Enclosed::each() {
        for more in [&[][..], &["--require", "sealed"]] {
            let options = [&["--json", "--sandbox", "landlock"], more].concat();
            let error = place.run(&options, &["echo", "started"]).fails(125, "integrity-unavailable");
            assert!(text(&error["message"]).contains("--require read-only"), "{error}");
        }
        for way in ["staged-tmpfs", "sealed-memfd"] {
            let error = place.run(&[&OPTIONS[..], &["--seal", way]].concat(), &["echo", "started"]);
            let error = error.fails(125, "sandbox-cannot");
            assert!(text(&error["message"]).contains("(`--seal`)"), "{error}");
            assert!(text(&error["hint"]).contains("leave the option out"), "{error}");
        }
        for level in ["read-only", "checked"] {
            place.run(&["--sandbox", "landlock", "--require", level], &["true"]).ok();
        }
    }
}

#[test]
fn plan_lines_and_record_say_how() {
    for enclosed in Enclosed::each() {
        let place = &enclosed.0;
        let plan = enclosed.run(&["--dry-run"], &["cat", "$SKILLS_DIR/demo/SKILL.md"]).json();
        let abi = plan["backend"]["abi"].as_u64().unwrap();
        assert!(abi >= 6, "{plan}");
        let backend = json!({ "kind": "landlock", "abi": abi });
        let skill = format!("{}/demo/SKILL.md", enclosed.snapshot());
        assert_eq!((&plan["backend"], &plan["how"]), (&backend, &"landlock".into()));
        assert_eq!(plan["command"], json!(["cat", skill]));
        assert_eq!(plan["environment"]["SKILLS_DIR"], enclosed.snapshot());

        let mut run = place.env.command_of("sh", ["-c", WITH_STATUS, "sh"]);
        run.arg(place.env.program()).args(["run", "--status-fd", "3"]).args(OPTIONS).arg(&place.digest);
        run.args(["--", "sh", "-c", "echo $SKILLS_INTEGRITY; cat $SKILLS_DIR/demo/SKILL.md"]);
        let output = Output::of(&mut run);
        let expected = fs::read_to_string(place.snapshot.join("demo/SKILL.md")).unwrap();
        assert_eq!(output.ok(), format!("read-only\n{expected}"));
        assert_eq!(events(&place.lines()), ["planned", "verified", "started", "exited", "re-verified"]);
        let record = place.record();
        assert_eq!(record["launch"]["backend"], backend);
        assert_eq!(
            (&record["launch"]["how"], &record["launch"]["required"]),
            (&"landlock".into(), &"read-only".into())
        );
        assert_eq!(record["checks"]["after"]["faults"], json!([]));
        assert!(record["checks"]["inside"]["probes"].as_u64().unwrap() >= 9, "{record}");
        let shown = place.env.run(["show", record["id"].as_str().unwrap()]);
        assert!(shown.ok().contains(&format!("Landlock (ABI {abi})")), "{shown:#?}");
        place.verify();
    }
}

#[test]
fn nothing_outside_is_reached() {
    for enclosed in Enclosed::each() {
        let place = &enclosed.0;
        // Everything here may be read by everybody, but for the rules.
        let secret = enclosed.open_directory("elsewhere").join("secret");
        file(&secret, "secret");
        set_mode(place.env.root(), 0o755);
        let format = place.env.root().join("format.json");
        set_mode(&format, 0o644);
        let _listener = UnixListener::bind(place.work("elsewhere/socket")).unwrap();
        let paths = [&secret, &format, &place.env.work().to_owned(), &place.env.home().to_owned()];
        let paths: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
        let system =
            ["/", "/etc", "/etc/shadow", "/tmp", "/root", "/home", "/run", "/sys", "/dev", "/proc/1/environ"];
        let attempts = place.work("attempts");
        file(attempts.join("attempts.py"), ATTEMPTS);
        let script = attempts.join("attempts.py");
        let python = [&["/usr/bin/python3", script.to_str().unwrap()], &paths[..], &system].concat();
        let mut run = place.env.command_of("sh", ["-c", "MAIN=$$ exec \"$@\"", "sh"]);
        run.arg(place.env.program()).args(["run", &place.digest]).args(OPTIONS).args(["--env", "MAIN"]);
        run.args(["--ro-bind", attempts.to_str().unwrap(), "--"]).args(python);
        assert_eq!(Output::of(&mut run).ok(), "done 9\n");
        // The control: outside, most of that is not refused.
        let outside = Output::of(&mut place.env.command_of("cat", [&secret, &format]));
        assert!(outside.ok().starts_with("secret"), "{outside:#?}");
        place.verify();
    }
}

/// Modes are the owner's to change, rules or not; that does not help to change bytes, and is found.
#[test]
fn the_owners_chmod_opens_nothing_and_is_found() {
    for enclosed in Enclosed::each() {
        let place = &enclosed.0;
        let script = "cd $SKILLS_DIR; chmod u+w . demo demo/SKILL.md 2>/dev/null; \
                      for change in 'echo x >>demo/SKILL.md' 'mkdir demo/x' 'rm -f demo/SKILL.md' \
                      'mv demo/SKILL.md demo/x' 'mv demo other' 'ln demo/SKILL.md demo/x' \
                      'ln -s x demo/x' 'mkfifo demo/x' 'truncate -s 0 demo/SKILL.md' \
                      'ln demo/SKILL.md $HOME/x'; \
                      do eval \"$change\" 2>/dev/null && echo \"$change was not refused\"; done; echo done";
        let output = enclosed.run(&[], &["sh", "-c", script]);
        assert_eq!(output.stdout, "done\n");
        if place.is_roots() {
            // Nobody owns nothing of it.
            output.ok();
            place.verify();
            continue;
        }
        let error = output.fails(125, "integrity-after-run");
        let faults = codes(&error["details"]["faults"]);
        assert!(faults.iter().all(|(code, _)| code == "wrong-mode"), "{error}");
        assert!(faults.iter().any(|(_, path)| path == "demo/SKILL.md"), "{error}");
        assert_eq!(place.record()["checks"]["after"]["faults"].as_array().unwrap().len(), faults.len());
    }
}

#[test]
fn what_is_lent_is_as_writable_as_was_said() {
    for enclosed in Enclosed::each() {
        let place = &enclosed.0;
        let workspace = enclosed.open_directory("ws");
        let [read, kept] = ["read", "kept"].map(|name| enclosed.open_directory(name));
        file(read.join("file"), "read\n");
        file(place.work("ws/file"), "old\n");
        let script = "set -e; pwd; echo new >made; mkdir dir; mv made dir/; cat $1/file; \
                      ! touch $1/x 2>/dev/null; touch $SKILL_EXTENSIONS_DIR/kept; \
                      touch $HOME/a $TMPDIR/b; cp /bin/true $HOME/run; $HOME/run";
        let paths: Vec<&str> = [&read, &kept].map(|path| path.to_str().unwrap()).into();
        let options = ["--workspace", "ws", "--ro-bind", paths[0], "--extensions", paths[1]];
        let output = enclosed.run(&options, &["sh", "-c", script, "sh", paths[0]]);
        assert_eq!(output.ok(), format!("{}\nread\n", workspace.display()));
        assert_eq!(fs::read_to_string(workspace.join("dir/made")).unwrap(), "new\n");
        assert!(kept.join("kept").exists() && !read.join("x").exists());
        // Its own, where none are lent, are empty each time.
        for _ in 0..2 {
            let script = "ls -A $SKILL_EXTENSIONS_DIR; touch $SKILL_EXTENSIONS_DIR/left";
            assert_eq!(enclosed.run(&[], &["sh", "-c", script]).ok(), "");
        }
        place.verify();
    }
}

#[test]
fn what_rules_cannot_keep_is_refused_by_name() {
    for enclosed in Enclosed::each() {
        let place = &enclosed.0;
        directory(place.work("ws/.agents/skills"));
        directory(place.work("plain/inner"));
        directory(place.work("configured"));
        file(place.work("configured/skillfreeze.lock"), "");
        let [source, inner, configuration] = [".agents/skills", "inner", "skillfreeze.lock"];
        for (options, code, named) in [
            (&["--workspace", "ws"][..], "landlock-source-exposed", source),
            (&["--workspace", "configured"], "landlock-source-exposed", configuration),
            (&["--extensions", "ws"], "bind-in-source", source),
            (&["--workspace", "plain", "--ro-bind", "plain/inner"], "landlock-read-only", inner),
            (&["--ro-bind", "plain:/elsewhere"], "landlock-elsewhere", "/elsewhere"),
            (&["--bind", "plain:/elsewhere"], "landlock-elsewhere", "/elsewhere"),
            (&["--skills-dir", "/other"], "landlock-elsewhere", "/other"),
            (&["--extensions-dir", "/other"], "landlock-elsewhere", "/other"),
            (&["--ro-bind", "../store"], "bind-store", "store"),
        ] {
            let output = enclosed.run(options, &["sh", "-c", "echo started"]);
            let error = output.fails(125, code);
            assert!(text(&error["message"]).contains(named), "{error}");
            assert!(error["hint"].is_string(), "{error}");
            assert_eq!(output.stdout, "");
        }
        // To be read is no harm.
        enclosed.run(&["--ro-bind", "ws"], &["ls", place.work("ws/.agents/skills").to_str().unwrap()]).ok();
    }
}

#[test]
fn what_appears_where_skills_come_from_is_told() {
    for enclosed in Enclosed::each() {
        enclosed.open_directory("ws");
        let output = enclosed.run(&["--workspace", "ws"], &["mkdir", "-p", ".agents/skills/evil"]);
        let error = output.fails(125, "source-appeared");
        assert!(text(&error["message"]).contains("/ws/.agents/skills"), "{error}");
    }
}

#[test]
fn the_network_is_the_hosts_or_none() {
    for enclosed in Enclosed::each() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let script = format!(
            "import socket\nfor family, to in ((socket.AF_INET, ('127.0.0.1', {})), (socket.AF_UNIX, '/run/x')):\n \
             try: socket.socket(family).connect(to); print('connected')\n except OSError as error: print(error.errno)",
            address.port()
        );
        let python = ["/usr/bin/python3", "-c", &script];
        assert_eq!(enclosed.run(&[], &python).ok(), "1\n1\n");
        assert_eq!(enclosed.run(&["--network", "host"], &python).ok(), "connected\n1\n");
    }
}

fn under(place: &Place, script: &str, first: &[&str], arguments: &[&str]) -> Output {
    let mut run = place.env.command_of("python3", ["-c", script]);
    Output::of(run.args(first).arg(place.env.program()).args(arguments))
}

#[test]
fn it_needs_no_user_namespace() {
    for Enclosed(place) in Enclosed::each() {
        let run = |options: &[&str]| {
            let command = ["--", "cat", "$SKILLS_DIR/demo/SKILL.md"];
            under(&place, NO_USERNS, &[], &[&["run", &place.digest, "--json"], options, &command].concat())
        };
        // The system's own belongs to nobody who is known there.
        let error = run(&["--bwrap", "/usr/bin/bwrap"]).fails(125, "userns-limit");
        assert!(text(&error["hint"]).ends_with("`skillfreeze doctor` shows what else works here"), "{error}");
        let skill = fs::read_to_string(place.snapshot.join("demo/SKILL.md")).unwrap();
        assert_eq!(run(&["--sandbox", "landlock", "--require", "read-only"]).ok(), skill);
    }
}

/// The number of seccomp(2).
fn seccomp() -> Option<u32> {
    let number = match std::env::consts::ARCH {
        "x86_64" => Some(317),
        "aarch64" => Some(277),
        _ => None,
    };
    if number.is_none() {
        record_skip("the number of seccomp(2) is known for x86_64 and aarch64 only");
    }
    number
}

#[test]
fn without_landlock_nothing_starts() {
    const CREATE: &str = "444";
    for Enclosed(place) in Enclosed::each() {
        for errno in [38, 95] {
            let arguments = [&["run", &place.digest], &OPTIONS[..], &["--", "echo", "started"]].concat();
            let output = under(&place, FORBID, &[&format!("{CREATE}={errno}")], &arguments);
            let error = output.fails(125, "landlock-missing");
            assert!(error["hint"].is_string() && output.stdout.is_empty(), "{error}");
        }
    }
}

/// What says that it encloses is not believed.
#[test]
fn rules_that_are_not_in_force_are_noticed_from_inside() {
    const RESTRICT: &str = "446=0";
    let Some(seccomp) = seccomp() else { return };
    for Enclosed(place) in Enclosed::each() {
        for lie in [RESTRICT.to_owned(), format!("{seccomp}=0")] {
            let arguments = [&["run", &place.digest], &OPTIONS[..], &["--", "echo", "started"]].concat();
            let output = under(&place, FORBID, &[&lie], &arguments);
            let error = output.fails(125, "landlock-broken");
            assert!(output.stdout.is_empty(), "{error}");
        }
        // The control.
        let arguments = [&["run", &place.digest], &OPTIONS[..], &["--", "echo", "started"]].concat();
        assert_eq!(under(&place, FORBID, &["1000=1"], &arguments).ok(), "started\n");
    }
}

#[test]
fn what_the_commands_user_cannot_reach_is_refused_before_the_start() {
    if !Runner::available().contains(&Runner::Root) {
        skip!("only root starts a command as somebody else");
    }
    for enclosed in Enclosed::each().filter(|enclosed| enclosed.0.is_roots()) {
        let place = &enclosed.0;
        directory(place.work("closed/inner"));
        set_mode(place.work("closed"), 0o700);
        let error = enclosed.run(&["--workspace", "closed/inner"], &["true"]).fails(125, "bind-unreachable");
        let closed = place.work("closed").to_str().unwrap().to_owned();
        assert!(text(&error["message"]).ends_with(&format!("no search permission on `{closed}`")), "{error}");
        assert!(text(&error["hint"]).contains(&format!("`chmod a+x {closed}`")), "{error}");

        let root = place.env.root();
        set_mode(root, 0o700);
        set_mode(root.join("snapshots"), 0o700);
        let named = [root.to_owned(), root.join("snapshots")].map(|path| path.to_str().unwrap().to_owned());
        let run = |options: &[&str]| {
            let output = place.run(&[&OPTIONS[..], options].concat(), &["echo", "started"]);
            assert_eq!(output.stdout, "");
            output.fails(125, "snapshot-unreachable")
        };
        let error = run(&[]);
        let listed = format!(
            "user 65534 cannot reach `{}`: no search permission on `{}`, `{}`",
            place.snapshot.display(),
            named[0],
            named[1]
        );
        assert_eq!(text(&error["message"]), listed);
        assert!(text(&error["hint"]).contains(&format!("`chmod a+x {} {}`", named[0], named[1])), "{error}");
        assert!(text(&run(&["--user", "54321"])["message"]).starts_with("user 54321 "));
        assert!(place.records().is_empty());
        // What the hint says is what it takes.
        for path in &named {
            assert!(Command::new("chmod").args(["a+x", path]).status().unwrap().success());
        }
        assert_eq!(enclosed.run(&[], &["echo", "started"]).ok(), "started\n");
    }
}

/// The rules are about an ordinary user, whatever powers the caller has.
#[test]
fn powers_of_the_caller_are_not_the_commands() {
    for place in Enclosed::each().filter(|place| !place.0.is_roots()) {
        let run = place.command(&[], &["grep", "^Cap[IPEA]", "/proc/self/status"]);
        let starter = ["--user", "--map-current-user", "--keep-caps"];
        let mut unshare = place.0.env.command_of("unshare", starter);
        unshare.arg(run.get_program()).args(run.get_args()).env("TMPDIR", place.0.work("tmp"));
        let output = Output::of(&mut unshare);
        let sets: Vec<&str> = output.ok().lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(sets, ["0000000000000000"; 4], "{output:#?}");
    }
}

/// The launch's own directory lies where neither the command nor the store has anything.
#[test]
fn temporaries_lie_in_nothing_that_is_lent_or_kept() {
    for place in Enclosed::each() {
        let workspace = place.open_directory("lent");
        let options = ["--workspace", "lent"];
        for temporaries in [workspace.as_path(), place.0.env.root()] {
            let mut run = place.0.command(&[&OPTIONS[..], &options].concat(), &["echo", "started"]);
            let output = Output::of(run.env("TMPDIR", temporaries));
            assert!(
                text(&output.fails(125, "temporaries-unusable")["hint"]).contains("TMPDIR"),
                "{output:#?}"
            );
            assert_eq!(output.stdout, "");
        }
    }
}
