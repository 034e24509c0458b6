//! Plans for sandboxes of other programs, carried out.

use std::fs;
use std::path::Path;

use serde_json::Value;
use skillfreeze_testing::{Output, directory, set_mode};

use super::{Place, wait_until};
use crate::support::{text, texts};

/// bubblewrap's options for a sandbox of the caller's own.
const SANDBOX: &str = "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib \
                       --symlink usr/lib64 /lib64 --proc /proc --dev /dev --unshare-pid --die-with-parent";

/// Tries to take the lock that whoever removes a snapshot takes, and says whether somebody holds it.
const LOCK: &str = "
import fcntl, struct, sys
with open(sys.argv[1], 'r+') as file:
    try:
        fcntl.fcntl(file, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0))
        print('free')
    except BlockingIOError:
        print('held')
";

impl Place {
    fn plan(&self, options: &[&str]) -> Output {
        self.env.run([&["plan", &self.digest], options].concat())
    }

    fn plan_json(&self, options: &[&str]) -> Value {
        self.plan(options).json()
    }

    /// A script with the plan's words in the place of `WORDS`.
    fn shell(&self, options: &[&str], script: &str) -> std::process::Command {
        let plan = format!("words=$(\"$0\" plan {} {}) && eval \"{script}\"", self.digest, options.join(" "));
        self.env.command_of("sh", ["-c", &plan, self.env.program().to_str().unwrap()])
    }

    fn lock(&self, path: &Path) -> String {
        let path = path.to_str().unwrap();
        Output::of(&mut self.env.command_of("/usr/bin/python3", ["-c", LOCK, path])).ok().trim().to_owned()
    }
}

#[test]
fn bubblewrap_carries_out_a_plan_and_holds_the_lease() {
    for place in Place::each() {
        let ws = place.work("ws");
        let inside = "env; ls -A \\$SKILLS_DIR; touch \\$SKILL_EXTENSIONS_DIR/x && echo extended; \
                      df -k --output=size \\$SKILL_EXTENSIONS_DIR | tail -n 1; \
                      touch \\$SKILLS_DIR/x 2>&1; chmod u+w \\$SKILLS_DIR/demo/SKILL.md 2>&1; \
                      grep CapEff /proc/self/status; cat \\$SKILLS_DIR/demo/SKILL.md | sha256sum; \
                      touch ready; while [ ! -e go ]; do sleep 0.02; done";
        let script = format!(
            "exec bwrap {SANDBOX} --bind {0} {0} --chdir {0} $words -- sh -c '{inside}'",
            ws.display()
        );
        let mut command = place.shell(&["--format", "bwrap"], &script);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let running = command.spawn().unwrap();
        wait_until(|| ws.join("ready").exists());
        let leases: Vec<_> = fs::read_dir(place.env.root().join("leases")).unwrap().collect();
        let lease = leases[0].as_ref().unwrap().path();
        assert_eq!(place.lock(&lease), "held");
        fs::write(ws.join("go"), "").unwrap();
        let output = running.wait_with_output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{told} {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(place.lock(&lease), "free");
        for line in [
            "SKILLS_DIR=/skills",
            "SKILL_EXTENSIONS_DIR=/skill-extensions",
            "SKILLS_INTEGRITY=checked",
            "PYTHONDONTWRITEBYTECODE=1",
            "demo",
            "extended",
            "262144",
            "touch: cannot touch '/skills/x': Read-only file system",
            "chmod: changing permissions of '/skills/demo/SKILL.md': Read-only file system",
            "CapEff:\t0000000000000000",
        ] {
            assert!(told.lines().any(|found| found.trim() == line), "no `{line}` in {told}");
        }
        let file = place.snapshot.join("demo/SKILL.md");
        let sum = Output::of(std::process::Command::new("sha256sum").arg(file));
        assert!(told.contains(&format!("{}  -", sum.ok().split_whitespace().next().unwrap())));
        place.verify();
    }
}

#[test]
fn where_the_root_is_the_hosts_the_snapshot_stays_at_its_own_path() {
    for place in Place::each() {
        let mounted = Output::of(
            &mut place.shell(&["--format", "bwrap"], "bwrap --ro-bind / / --dev /dev $words -- true"),
        );
        assert_eq!(
            (mounted.status, mounted.stderr.contains("Can't mkdir /skills")),
            (1, true),
            "{mounted:?}"
        );
        let inside = "echo \\$SKILLS_DIR; echo \\${SKILL_EXTENSIONS_DIR-none}; touch \\$SKILLS_DIR/x 2>&1; \
                      ls \\$SKILLS_DIR";
        // Even where all of the host can be written.
        for root in ["--ro-bind / /", "--bind / /"] {
            let script = format!("bwrap {root} --dev /dev $words -- sh -c '{inside}'");
            let output =
                Output::of(&mut place.shell(&["--format", "bwrap", "--skills-dir", "host"], &script));
            let snapshot = place.snapshot.display();
            let expected = format!(
                "{snapshot}\nnone\ntouch: cannot touch '{snapshot}/x': Read-only file system\ndemo\n"
            );
            assert_eq!(output.ok(), expected);
            assert!(output.stderr.contains("--extensions"), "{output:?}");
        }
        directory(place.work("kept"));
        let script = "bwrap --ro-bind / / --dev /dev $words -- sh -c 'touch \\$SKILL_EXTENSIONS_DIR/it'";
        let options = ["--format", "bwrap", "--skills-dir", "host", "--extensions", "kept"];
        Output::of(&mut place.shell(&options, script)).ok();
        assert!(place.work("kept/it").exists());
    }
}

#[test]
fn bubblewrap_reads_the_words_from_a_descriptor() {
    for place in Place::each() {
        let script = format!(
            "\"$0\" plan {} --format bwrap --null >words && bwrap {SANDBOX} --args 3 -- ls /skills 3<words",
            place.digest
        );
        let mut command = place.env.command_of("sh", ["-c", &script, place.env.program().to_str().unwrap()]);
        assert_eq!(Output::of(&mut command).ok(), "demo\n");
    }
}

#[test]
fn a_snapshot_outside_of_the_store_is_held_by_its_manifest() {
    for place in Place::each() {
        let copy = place.work("it's, a copy");
        Output::of(std::process::Command::new("cp").arg("-a").arg(&place.snapshot).arg(&copy)).ok();
        let path = copy.to_str().unwrap();
        let refused = place.env.run(["plan", path, "--json"]);
        refused.fails(2, "usage");
        let plan = place.env.run(["plan", path, "--digest", &place.digest]).json();
        assert_eq!((&plan["lease"]["keeps"], &plan["path"]), (&false.into(), &path.into()));
        assert_eq!(plan["lease"]["target"], "/skills/.snapshot.json");
        let script = format!(
            "words=$(\"$0\" plan \"$1\" --digest {} --format bwrap) && eval \"bwrap {SANDBOX} $words -- ls /skills\"",
            place.digest
        );
        let program = place.env.program().to_str().unwrap();
        let output = Output::of(&mut place.env.command_of("sh", ["-c", &script, program, path]));
        assert_eq!(output.ok(), "demo\n");
    }
}

#[test]
fn a_plan_says_what_it_promises_and_how_to_check_again() {
    for place in Place::each() {
        let plan = place.plan_json(&[]);
        assert_eq!((&plan["integrity"], &plan["how"]), (&"checked".into(), &"plan".into()));
        assert_eq!(plan["notes"], serde_json::json!(["needs-own-root"]));
        let verify: Vec<String> = plan["verify"].as_array().unwrap().iter().map(text).collect();
        let verify = || place.env.run(&verify[1..]);
        assert!(verify().ok().starts_with(&place.digest));

        let env = place.plan(&["--format", "env", "--skills-dir", "/a b", "--skills-var", "ACME"]);
        let child = |env: &Output, name: &str| {
            let script = format!("{}sh -c 'printf %s \"${name}\"'", env.ok());
            Output::of(std::process::Command::new("sh").args(["-c", &script])).ok().to_owned()
        };
        assert_eq!(child(&env, "ACME"), "/a b", "what the shell starts has it");
        assert_eq!(child(&place.plan(&["--format", "env"]), "SKILLS_DIR"), text(&plan["path"]));
        let words = ["--format", "env", "--null", "--skills-dir", "/skills"];
        assert!(place.plan(&words).ok().contains("SKILLS_DIR=/skills\0"));
        let docker = place.plan(&["--format", "docker"]);
        assert!(docker.ok().starts_with("--mount type=bind,source=/") && !docker.stdout.contains("lease"));
        let seatbelt = place.plan(&["--format", "seatbelt"]);
        assert!(seatbelt.ok().starts_with("-p '(version 1)\n(deny default)"), "{seatbelt:?}");
        let profile = place.plan_json(&["--skills-dir", "host"]);
        assert_eq!(
            texts(&serde_json::json!([profile["seatbelt"]["parameters"]]), "FROZEN_0"),
            [text(&plan["path"])]
        );

        let file = place.snapshot.join("demo/scripts/tool.py");
        set_mode(&file, 0o644);
        fs::write(&file, "NAME = 'fool'\n").unwrap();
        set_mode(&file, 0o444);
        assert_eq!(verify().status, 3);
        for format in ["json", "bwrap", "env", "docker", "seatbelt"] {
            let refused = place.plan(&["--format", format]);
            assert_eq!((refused.status, refused.stdout.as_str()), (3, ""), "{refused:?}");
        }
    }
}

#[test]
fn what_a_plan_cannot_be_is_refused_by_name() {
    for place in Place::each() {
        directory(place.work("new\nline"));
        directory(place.work(".agents/skills"));
        for (options, status, code, says) in [
            (&["--require", "sealed"][..], 7, "integrity-unavailable", "skillfreeze seal"),
            (&["--require", "read-only"], 7, "integrity-unavailable", "skillfreeze run"),
            (&["--skills-dir", "skills"], 2, "mount-target-invalid", "skills"),
            (&["--skills-dir", "/"], 2, "mount-target-reserved", "/"),
            (&["--skills-dir", "/etc"], 2, "mount-target-reserved", "/etc"),
            (&["--skills-dir", "/dev/x"], 2, "mount-target-reserved", "/dev"),
            (&["--skills-var", "A=B"], 2, "environment-name", "A=B"),
            (&["--extensions", "../store"], 2, "bind-store", "store"),
            (&["--extensions", ".agents/skills"], 2, "bind-in-source", ".agents/skills"),
            (&["--extensions", "none"], 2, "bind-not-found", "none"),
            (&["--extensions", "src/demo/SKILL.md"], 2, "usage", "not a directory"),
            (&["--null"], 2, "usage", "--null"),
            (&["--format", "bwrap"], 2, "usage", "--format"),
        ] {
            let refused = place.plan(&[options, &["--json"]].concat()).fails(status, code);
            assert!(refused.to_string().contains(says), "{refused}");
        }
        for (options, says) in [
            (&["--format", "env", "--skills-dir", "host", "--extensions", "new\nline"][..], "new\\nline"),
            (&["--format", "docker", "--extensions", "new\nline"], "new\\nline"),
            (&["--format", "docker", "--extensions-dir", "/a:b"], "/a:b"),
            (&["--format", "seatbelt", "--skills-dir", "/skills"], "`/skills`"),
        ] {
            let refused = place.plan(options);
            assert_eq!((refused.status, refused.stdout.as_str()), (2, ""), "{refused:?}");
            assert!(refused.stderr.contains(says) && refused.stderr.contains("--format"), "{refused:?}");
        }
        let twice = place.env.run(["--json", "plan", &place.digest, "--format", "env"]);
        twice.fails(2, "usage");
        // What is typed comes before the environment.
        let mut typed = place.env.command(["plan", &place.digest, "--format", "bwrap"]);
        assert!(Output::of(typed.env("SKILLFREEZE_JSON", "1")).ok().starts_with("--ro-bind "));
        let unknown = place.env.run(["plan", "sha256:000000000000", "--json"]);
        unknown.fails(4, "snapshot-unknown");
    }
}
