//! What the command gets beside files: variables, arguments, descriptors.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use skillfreeze_testing::{Output, file};

use super::{Place, Way};

/// Opens its first argument at the descriptors 5, 7 and 70, and becomes the rest.
const WITH_DESCRIPTORS: &str = "
import os, sys
opened = os.open(sys.argv[1], os.O_RDONLY)
written = os.open(os.devnull, os.O_WRONLY)
for number, file in ((5, written), (7, opened), (70, opened)):
    os.dup2(file, number, inheritable=True)
os.execv(sys.argv[2], sys.argv[2:])
";

/// Prints which descriptors are open.
const DESCRIPTORS: &str = "
import os
def is_open(number):
    try:
        os.fstat(number)
        return True
    except OSError:
        return False
print(*filter(is_open, range(1024)))
";

fn variables(output: &Output) -> BTreeMap<&str, &str> {
    output.ok().lines().map(|line| line.split_once('=').unwrap()).collect()
}

/// What every command gets, in this tests' environment.
fn usual(way: Way) -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("HOME", "/tmp/home"),
        ("LANG", "C.UTF-8"),
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONPYCACHEPREFIX", "/tmp/home/.cache/python"),
        ("SKILLS_DIR", "/skills"),
        ("SKILLS_INTEGRITY", way.integrity()),
        ("SKILL_EXTENSIONS_DIR", "/skill-extensions"),
        ("TMPDIR", "/tmp"),
        ("XDG_CACHE_HOME", "/tmp/home/.cache"),
    ])
}

#[test]
fn the_environment_is_what_the_list_allows_and_what_is_named() {
    for place in Place::each_way() {
        let caller = [
            ("LC_TIME", "C"),
            ("TERM", "dumb"),
            ("TZ", "UTC"),
            ("TOKEN", "t"),
            ("LD_PRELOAD", ""),
            ("PYTHONPATH", "/evil"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("XDG_RUNTIME_DIR", "/run/user/1"),
            ("SSH_AUTH_SOCK", "/x"),
        ];
        let run = |options: &[&str]| Output::of(place.command(options, &["env"]).envs(caller));
        let passed = [("LC_TIME", "C"), ("TERM", "dumb"), ("TZ", "UTC")];
        let expected: BTreeMap<&str, &str> = usual(place.way()).into_iter().chain(passed).collect();
        assert_eq!(variables(&run(&[])), expected);

        file(place.work("vars"), "# comment\n\nA=from file\n  B=x=y  \nC=file\nEMPTY=\n");
        let options =
            ["--env", "TOKEN", "--env", "C=line=2", "--env", "NOT_SET", "--env", "TZ=", "--env-file", "vars"];
        let named =
            [("A", "from file"), ("B", "x=y"), ("C", "line=2"), ("EMPTY", ""), ("TOKEN", "t"), ("TZ", "")];
        let expected: BTreeMap<&str, &str> = expected.into_iter().chain(named).collect();
        assert_eq!(variables(&run(&options)), expected);
        assert_eq!(variables(&run(&["--env", "HOME=/tmp/own"]))["HOME"], "/tmp/own");
    }
}

#[test]
fn a_variable_that_cannot_be_set_is_refused() {
    for place in Place::each_way() {
        for variable in ["=x", "SKILLS_DIR=/evil", "SKILLS_INTEGRITY=sealed", "SKILL_EXTENSIONS_DIR=x"] {
            place.run(&["--json", "--env", variable], &["true"]).fails(125, "environment-name");
        }
        place.run(&["--json", "--env", ""], &["true"]).fails(125, "usage");
        for name in ["", "1A", "A-B", "A=B", "A B"] {
            place.run(&["--json", "--skills-var", name], &["true"]).fails(125, "environment-name");
        }
        file(place.work("vars"), "# two\nA=1\nno equals sign\n");
        let error = place.run(&["--json", "--env-file", "vars"], &["true"]).fails(125, "usage");
        assert!(error["message"].as_str().unwrap().starts_with("line 3 of `vars`"), "{error}");
        place.run(&["--json", "--env-file", "none"], &["true"]).fails(125, "not-found");
    }
}

/// Arguments of processes are for everybody to read, also outside.
#[test]
fn no_process_shows_a_value_among_its_arguments() {
    for place in Place::each_way() {
        let secret = format!("secret-{}-{}", std::process::id(), place.is_roots());
        file(place.work("vars"), format!("FROM_FILE={secret}\n"));
        let script = "echo $TOKEN $FROM_FILE; read x; exit 0";
        let options = ["--env", "TOKEN", "--env-file", "vars"];
        let mut command = place.command(&options, &["sh", "-c", script]);
        let command = command.env("TOKEN", &secret).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, format!("{secret} {secret}\n"));
        let mut seen = 0;
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(arguments) = std::fs::read(entry.path().join("cmdline")) else { continue };
            let arguments = String::from_utf8_lossy(&arguments);
            seen += usize::from(arguments.contains("__skillfreeze-inner"));
            assert!(!arguments.contains(&secret), "{arguments}");
        }
        assert!(seen > 0, "the sandbox was looked at");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn the_skills_variable_is_replaced_at_the_start_of_arguments_only() {
    for place in Place::each_way() {
        let arguments = [
            "$SKILLS_DIR/a",
            "${SKILLS_DIR}/a b",
            "$SKILLS_DIR",
            "x$SKILLS_DIR/a",
            "--path=$SKILLS_DIR/a",
            "$SKILLS_DIRECTORY/a",
            "$ACME_SKILLS/a",
        ];
        let printed = |options: &[&str]| {
            let output = place.run(options, &[&["printf", "%s\n"], &arguments[..]].concat());
            output.ok().lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let mut expected = arguments.to_vec();
        expected[..3].copy_from_slice(&["/skills/a", "/skills/a b", "/skills"]);
        assert_eq!(printed(&[]), expected);
        expected[..3].copy_from_slice(&arguments[..3]);
        expected[6] = "/acme/skills/a";
        assert_eq!(printed(&["--skills-var", "ACME_SKILLS", "--skills-dir", "/acme/skills"]), expected);
    }
}

#[test]
fn products_name_the_two_directories_themselves() {
    for place in Place::each_way() {
        let options = [
            "--skills-var",
            "ACME_SKILLS",
            "--skills-dir",
            "/acme/skills/",
            "--extensions-var",
            "ACME_MORE",
            "--extensions-dir",
            "/more",
        ];
        let script =
            "cat $ACME_SKILLS/demo/SKILL.md && touch $ACME_MORE/x && ls -d /skills /skill-extensions; env";
        let output = place.run(&options, &["sh", "-c", script]);
        let printed = output.ok();
        assert!(printed.starts_with("---\nname: demo\n"), "{output:#?}");
        let ours: Vec<&str> =
            printed.lines().filter(|line| line.contains("ACME") || line.contains("SKILL")).collect();
        assert_eq!(ours.len(), 3, "{output:#?}");
        let integrity = format!("SKILLS_INTEGRITY={}", place.way().integrity());
        for line in ["ACME_SKILLS=/acme/skills", "ACME_MORE=/more", &integrity] {
            assert!(ours.contains(&line), "{output:#?}");
        }
        assert_eq!(output.stderr.matches("No such file").count(), 2, "{output:#?}");
    }
}

#[test]
fn descriptors_are_closed_but_for_those_to_be_kept() {
    for place in Place::each_way() {
        let run = |options: &[&str], command: &[&str]| {
            let outer = ["-c", WITH_DESCRIPTORS, "src/demo/SKILL.md"];
            let mut run = place.env.command_of("python3", outer);
            run.arg(place.env.program()).args(["run", "--json", &place.digest]);
            run.args(place.options()).args(options);
            Output::of(run.arg("--").args(command))
        };
        let list = ["python3", "-c", DESCRIPTORS];
        assert_eq!(run(&[], &list).ok(), "0 1 2\n");
        assert_eq!(run(&["--status-fd", "5"], &list).ok(), "0 1 2\n");
        assert_eq!(run(&["--keep-fd", "7"], &list).ok(), "0 1 2 7\n");
        assert_eq!(run(&["--keep-fd", "70", "--keep-fd", "5", "--bind", "ws"], &list).ok(), "0 1 2 5 70\n");
        assert!(run(&["--keep-fd", "7"], &["sh", "-c", "cat <&7"]).ok().contains("name: demo"));
        // Not open, not above 2, or the program's own.
        for number in ["6", "3", "4", "2", "-1"] {
            run(&[&format!("--keep-fd={number}")], &list).fails(125, "usage");
        }
    }
}
