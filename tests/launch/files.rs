//! What the command sees and may write: the skills, the extensions, its home, its caches.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use skillfreeze_testing::{Output, Runner, file, package, set_mode, tree};

use super::Place;
use crate::support::{environment, names};

#[test]
fn the_skills_are_those_selected_and_the_manifest() {
    for runner in Runner::available() {
        let env = environment(*runner);
        for id in ["a", "b", "c"] {
            package(env.work().join("src"), id);
        }
        let list = |arguments: &[&str]| {
            let command = ["--", "sh", "-c", "ls -A $SKILLS_DIR"];
            let output = env.run([&["run", "--source", "src"], arguments, &command].concat());
            let mut names: Vec<String> = output.ok().lines().map(str::to_owned).collect();
            names.sort();
            names
        };
        assert_eq!(list(&["-s", "a", "-s", "c"]), [".snapshot.json", "a", "c"]);
        assert_eq!(list(&["--all"]), [".snapshot.json", "a", "b", "c"]);
        assert_eq!(list(&["--none"]), [".snapshot.json"]);
    }
}

#[test]
fn bundled_programs_run_in_place_by_their_execute_bits() {
    for place in Place::each_way() {
        assert_eq!(place.run(&[], &["$SKILLS_DIR/demo/scripts/go", "it"]).ok(), "gone with it\n");
        let output = place.run(
            &[],
            &["stat", "-c", "%a", "$SKILLS_DIR/demo/scripts/go", "/skills/demo/SKILL.md", "/skills"],
        );
        assert_eq!(output.ok(), "555\n444\n555\n");
    }
}

/// Python would write bytecode beside what it imports, and read what somebody planted there.
#[test]
fn an_import_from_the_skills_leaves_nothing_behind() {
    for place in Place::each_way() {
        let before = tree(&place.snapshot);
        let script = "import sys; sys.path.insert(0, '/skills/demo/scripts'); import tool\n\
                      import os; print(tool.NAME, tool.__cached__, os.path.exists(tool.__cached__))";
        let cached = "/tmp/home/.cache/python/skills/demo/scripts/tool.cpython-";
        for (options, written) in [(&[][..], "False"), (&["--env", "PYTHONDONTWRITEBYTECODE="], "True")] {
            let output = place.run(options, &["python3", "-c", script]);
            let printed = output.ok();
            assert!(printed.starts_with(&format!("tool {cached}")), "{output:#?}");
            assert!(printed.ends_with(&format!(".pyc {written}\n")), "{output:#?}");
        }
        assert_eq!(tree(&place.snapshot), before);
    }
}

#[test]
fn home_and_caches_can_be_written_and_hold_programs() {
    for place in Place::each_way() {
        let script = "set -e
            for dir in $HOME $TMPDIR $XDG_CACHE_HOME $SKILL_EXTENSIONS_DIR /dev/shm; do
                mkdir -p $dir
                printf '#!/bin/sh\\necho from $0\\n' >$dir/program
                chmod 755 $dir/program
                $dir/program
            done
            pwd";
        assert_eq!(
            place.run(&[], &["sh", "-c", script]).ok(),
            "from /tmp/home/program\nfrom /tmp/program\nfrom /tmp/home/.cache/program\n\
             from /skill-extensions/program\nfrom /dev/shm/program\n/tmp/home\n"
        );
        assert_eq!(
            place.run(&[], &["sh", "-c", "ls -A $HOME $SKILL_EXTENSIONS_DIR /dev/shm"]).ok(),
            "/dev/shm:\n\n/skill-extensions:\n\n/tmp/home:\n"
        );
    }
}

#[test]
fn what_is_private_to_a_run_is_limited() {
    for place in Place::each_way() {
        let script = "import os
for path in ('/skill-extensions', '/tmp', '/tmp/home', '/dev/shm'):
    found = os.statvfs(path)
    print(path, found.f_blocks * found.f_frsize >> 20)";
        let sizes = place.run(&[], &["python3", "-c", script]);
        assert_eq!(sizes.ok(), "/skill-extensions 256\n/tmp 1024\n/tmp/home 1024\n/dev/shm 64\n");
        let full = "head -c 300M /dev/zero >$SKILL_EXTENSIONS_DIR/x; stat -c %s $SKILL_EXTENSIONS_DIR/x";
        let full = place.run(&[], &["sh", "-c", full]);
        assert_eq!(full.ok(), format!("{}\n", 256 << 20));
        assert!(full.stderr.contains("No space left"), "{full:#?}");
    }
}

#[test]
fn extensions_are_gone_afterwards_unless_they_are_kept() {
    for place in Place::each_way() {
        let before = (tree(place.env.work()), tree(place.env.home()));
        let count = ["sh", "-c", "ls -A $SKILL_EXTENSIONS_DIR | wc -l; echo x >$SKILL_EXTENSIONS_DIR/x"];
        for _ in 0..2 {
            assert_eq!(place.run(&[], &count).ok(), "0\n");
        }
        assert_eq!((tree(place.env.work()), tree(place.env.home())), before);

        skillfreeze_testing::directory(place.work("kept"));
        // Started by root, the command is somebody else.
        set_mode(place.work("kept"), 0o777);
        for count_before in ["0\n", "1\n"] {
            assert_eq!(place.run(&["--extensions", "kept"], &count).ok(), count_before);
        }
        assert_eq!(fs::read_to_string(place.work("kept/x")).unwrap(), "x\n");
        place.verify();
    }
}

#[test]
fn a_workspace_is_written_at_its_own_path() {
    for place in Place::each_way() {
        let workspace = place.work("ws");
        if place.is_roots() {
            set_mode(&workspace, 0o777);
        }
        file(workspace.join("given"), "given\n");
        let script = "pwd; cat given; mkdir -p a/b; echo written >a/b/c; ln a/b/c a/d; mv a/d a/e; ls ..";
        let output = place.run(&["--workspace", "ws"], &["sh", "-c", script]);
        assert_eq!(output.ok(), format!("{}\ngiven\nws\n", workspace.display()));
        assert_eq!(fs::read_to_string(workspace.join("a/e")).unwrap(), "written\n");
        assert_eq!(fs::metadata(workspace.join("a/e")).unwrap().nlink(), 2);
    }
}

#[test]
fn binds_show_files_and_directories_where_they_are_wanted() {
    for place in Place::each_way() {
        file(place.work("data/file"), "data\n");
        set_mode(place.work("data"), 0o777);
        let data = place.work("data");
        let path = data.to_str().unwrap();
        let script = format!("cat {path}/file; touch {path}/x || ls {path}");
        let output = place.run(&["--ro-bind", "data"], &["sh", "-c", &script]);
        assert_eq!(output.ok(), "data\nfile\n");
        let options =
            ["--bind", "data:/mnt/data", "--ro-bind", "data/file:/etc/one", "--ro-bind", "data:/usr/local"];
        let script = "cat /etc/one /usr/local/file; echo new >/mnt/data/new; echo x >/etc/one";
        let output = place.run(&options, &["sh", "-c", script]);
        assert_eq!((output.stdout.as_str(), output.status), ("data\ndata\n", 2), "{output:#?}");
        assert_eq!(names(place.work("data")), ["file", "new"]);
        assert_eq!(fs::read_to_string(place.work("data/file")).unwrap(), "data\n");
    }
}

/// A dry run says what a launch would get, and starts and keeps nothing.
#[test]
fn a_dry_run_prints_the_plan_alone() {
    for place in Place::each_way() {
        let command = ["sh", "-c", "touch started"];
        let mut run = place.command(&["--dry-run", "--workspace", "ws", "--env", "TOKEN=t"], &command);
        let plan = Output::of(&mut run).json();
        assert_eq!(plan["schema"], "skillfreeze.launch-plan.v1");
        assert_eq!(plan["snapshot"], place.digest.as_str());
        assert_eq!(plan["command"], serde_json::json!(command));
        assert_eq!(plan["environment"]["TOKEN"], "t");
        assert_eq!(names(place.work("ws")), [""; 0]);
        assert_eq!(place.records().len(), 0);
    }
}
