//! Stores that cannot be written, or not by everybody.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;
use skillfreeze_testing::{Output, Runner, directory, package, record_skip, set_mode, tree};

use crate::support::{environment, names, prepare, text, texts};

/// Takes the write permission from a tree, or gives it back to its owner.
fn make_writable(path: &Path, writable: bool) {
    let found = fs::symlink_metadata(path).unwrap();
    if found.is_dir() {
        let mode = if writable { 0o700 } else { 0o500 };
        set_mode(path, 0o700);
        fs::read_dir(path).unwrap().for_each(|entry| make_writable(&entry.unwrap().path(), writable));
        set_mode(path, mode);
    } else if found.is_file() {
        set_mode(path, if writable { 0o600 } else { 0o400 });
    }
}

/// What must work on a store that cannot be written, and what must be refused. Each line: a name and
/// a status.
const SCRIPT: &str = r#"
program=$1 digest=$2
say() { echo "$1=$2"; }
run() { name=$1; shift; "$program" "$@" --json >"$name.out" 2>"$name.err"; say "$name" $?; }
run verify verify "$digest"
run show show "$digest"
run skill show demo
run list list
run add add src/new
run prepare prepare --source src
"$program" run "$digest" --json --record record.json -- cat '$SKILLS_DIR/demo/SKILL.md' >run.out 2>run.err
say run $?
"$program" run "$digest" --json -- true >unrecorded.out 2>unrecorded.err
say unrecorded $?
"#;

#[test]
fn a_store_that_cannot_be_written_still_answers() {
    for runner in Runner::available() {
        let env = environment(*runner);
        package(env.work().join("src"), "demo");
        env.run(["add", "src/demo"]).ok();
        let (digest, path) = prepare(&env, "src");
        package(env.work().join("src"), "new");
        let can_launch = env.run(["run", &digest, "--", "true"]).status == 0;
        if !can_launch {
            record_skip("nothing can be launched here");
        }
        let root = env.root().to_str().unwrap();
        let program = env.program().to_str().unwrap();
        let code = if *runner == Runner::Root {
            // To root modes are no hindrance: the file system has to refuse.
            let mounted =
                format!("mount --bind {root} {root} && mount -o remount,ro,bind {root} || exit 77\n{SCRIPT}");
            let run = Output::of(
                &mut env.command_of("unshare", ["-m", "sh", "-c", &mounted, "sh", program, &digest]),
            );
            if run.status == 77 || run.stderr.contains("unshare failed") {
                record_skip(&format!("nothing can be mounted read-only here: {}", run.stderr));
                continue;
            }
            fs::write(env.work().join("said"), run.stdout).unwrap();
            "read-only"
        } else {
            // The snapshot has its own modes, which are part of what is checked.
            let others =
                ["tmp", "packages", "leases", "quarantine", "runs", "journal", "index.db", "format.json"];
            others
                .iter()
                .map(|name| env.root().join(name))
                .filter(|path| path.exists())
                .for_each(|path| make_writable(&path, false));
            for path in ["snapshots/sha256", "snapshots", ""] {
                set_mode(env.root().join(path), 0o500);
            }
            let before = tree(env.root());
            let run = Output::of(&mut env.command_of("sh", ["-c", SCRIPT, "sh", program, &digest]));
            assert_eq!(tree(env.root()), before);
            fs::write(env.work().join("said"), run.stdout).unwrap();
            "permission"
        };
        let read = |name: &str| fs::read_to_string(env.work().join(name)).unwrap();
        let said = read("said");
        let status = |name: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.unwrap_or_else(|| panic!("no {name} in {said}")).to_owned()
        };
        for name in ["verify", "show", "skill", "list"] {
            assert_eq!(status(name), "0", "{name}: {}", read(&format!("{name}.err")));
        }
        let list: Value = serde_json::from_str(&read("list.out")).unwrap();
        assert_eq!(texts(&list["skills"], "id"), ["demo"]);
        for name in ["add", "prepare"] {
            assert_eq!(status(name), "1");
            let error: Value = serde_json::from_str(&read(&format!("{name}.err"))).unwrap();
            assert_eq!(error["code"], code, "{name}: {error}");
        }
        if can_launch {
            assert_eq!(status("run"), "0", "{}", read("run.err"));
            assert_eq!(read("run.out"), fs::read_to_string(path.join("demo/SKILL.md")).unwrap());
            let record: Value = serde_json::from_str(&read("record.json")).unwrap();
            assert_eq!(text(&record["snapshot"]), digest);
            // Without a record there is no run.
            assert_eq!(status("unrecorded"), "125");
            let error: Value = serde_json::from_str(read("unrecorded.err").lines().last().unwrap()).unwrap();
            assert!(["read-only", "permission"].contains(&text(&error["code"]).as_str()), "{error}");
        }
        make_writable(&env.root().join("packages"), true);
    }
}

#[test]
fn a_store_that_the_user_cannot_enter_is_named() {
    let env = environment(Runner::User);
    package(env.work().join("src"), "demo");
    prepare(&env, "src");
    set_mode(env.root(), 0o000);
    for arguments in
        [&["add", "src/demo", "--json"][..], &["prepare", "--source", "src", "--json"], &["list", "--json"]]
    {
        let error = env.run(arguments).fails(1, "permission");
        assert!(text(&error["message"]).contains(env.root().to_str().unwrap()), "{error}");
    }
    set_mode(env.root(), 0o700);
    assert_eq!(texts(&env.run(["list", "--inactive", "--json"]).json()["skills"], "id"), ["demo"]);

    // Nor can one be made where the user may not write.
    let closed = env.work().join("closed");
    directory(&closed);
    drop(env.command([""]));
    set_mode(&closed, 0o555);
    let error = env.run(["add", "src/demo", "--json", "--root", "closed/store"]).fails(1, "permission");
    assert!(text(&error["message"]).contains("closed/store"), "{error}");
}

#[test]
fn a_store_that_others_may_write_is_refused_for_writing_and_reported() {
    for runner in Runner::available() {
        for mode in [0o770, 0o702, 0o777] {
            let env = environment(*runner);
            package(env.work().join("src"), "demo");
            let (digest, _) = prepare(&env, "src");
            set_mode(env.root(), mode);
            for arguments in [&["add", "src/demo", "--json"][..], &["prepare", "--source", "src", "--json"]] {
                env.run(arguments).fails(1, "store-writable-by-others");
            }
            let verified = env.run(["verify", &digest, "--json"]).json();
            assert_eq!(texts(&verified["warnings"], "code"), ["store-writable-by-others"]);
            assert_eq!(texts(&env.run(["list", "--inactive", "--json"]).json()["skills"], "id"), ["demo"]);
            let run = env.run(["run", &digest, "--json", "--", "true"]);
            run.fails(125, "store-writable-by-others");
            set_mode(env.root(), 0o700);
            env.run(["add", "src/demo"]).ok();
        }
    }
}

#[test]
fn a_directory_that_holds_something_else_is_not_made_a_store() {
    for runner in Runner::available() {
        let env = environment(*runner);
        package(env.work().join("src"), "demo");
        package(env.work().join("project"), "x");
        drop(env.command([""]));
        let before = tree(env.work());
        env.run(["add", "src/demo", "--json", "--root", "project"]).fails(2, "not-a-store");
        assert_eq!(tree(env.work()), before);
    }
}

/// The caller's mask changes neither what is private nor what is frozen.
#[test]
fn the_umask_does_not_matter() {
    for runner in Runner::available() {
        let mut trees = Vec::new();
        for mask in ["000", "022", "027", "077"] {
            let env = environment(*runner);
            let demo = package(env.work().join("src"), "demo");
            skillfreeze_testing::file(demo.join("a/run.sh"), "#!/bin/sh\n");
            set_mode(demo.join("a/run.sh"), 0o755);
            let script = "umask $2; $1 add src/demo >/dev/null && $1 prepare --source src";
            let program = env.program().to_str().unwrap();
            let run = Output::of(&mut env.command_of("sh", ["-c", script, "sh", program, mask]));
            env.run(["verify", run.ok().trim()]).ok();
            let frozen = tree(env.root().join("snapshots"));
            let modes: Vec<(String, u32)> = names(env.root())
                .into_iter()
                .map(|name| {
                    use std::os::unix::fs::PermissionsExt as _;
                    let mode = fs::metadata(env.root().join(&name)).unwrap().permissions().mode() & 0o7777;
                    (name, mode)
                })
                .collect();
            assert!(modes.iter().all(|(_, mode)| mode & 0o077 == 0), "umask {mask}: {modes:?}");
            trees.push((frozen, modes));
        }
        assert!(trees.iter().all(|one| *one == trees[0]), "{trees:#?}");
    }
}

/// A mask says what others may not do; what the owner needs is not for it to take.
#[test]
fn the_callers_mask_does_not_close_the_store_to_its_owner() {
    for runner in Runner::available() {
        for mask in ["0000", "0277", "0777"] {
            let env = environment(*runner);
            package(env.work().join("src"), "demo");
            let script = format!("umask {mask}; exec \"$0\" \"$@\"");
            let prepare = ["-c", &script, env.program().to_str().unwrap(), "prepare", "--source", "src"];
            for _ in 0..2 {
                Output::of(&mut env.command_of("sh", prepare)).ok();
            }
            env.run(["run", "--all", "--source", "src", "--", "true"]).ok();
            assert_eq!(fs::metadata(env.root()).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
}

/// Somebody else's litter among the temporaries is no reason to refuse to write.
#[test]
fn what_cannot_be_swept_stands_in_nobodys_way() {
    for runner in Runner::available() {
        let env = environment(*runner);
        package(env.work().join("src"), "demo");
        env.run(["prepare", "--source", "src"]).ok();
        fs::create_dir(env.root().join("tmp/x.lock")).unwrap();
        fs::create_dir_all(env.root().join("tmp/closed/inner")).unwrap();
        set_mode(env.root().join("tmp/closed"), 0o000);
        package(env.work().join("src"), "other");
        env.run(["prepare", "--source", "src"]).ok();
        if env.root().join("tmp/closed").exists() {
            set_mode(env.root().join("tmp/closed"), 0o755);
        }
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_like_a_full_disk() {
    for runner in Runner::available() {
        let env = environment(*runner);
        package(env.work().join("src"), "demo");
        let program = env.program().to_str().unwrap();
        // The shell's own output would meet the limit too.
        let script = "ulimit -f 0; exec \"$0\" --json prepare --source src 2>&1 | cat; exit ${PIPESTATUS[0]}";
        let output = Output::of(&mut env.command_of("bash", ["-c", script, program]));
        assert_eq!(output.status, 1, "{output:?}");
        assert!(output.stdout.contains("\"code\":\"no-space\""), "{output:?}");
        env.run(["prepare", "--source", "src"]).ok();
    }
}
