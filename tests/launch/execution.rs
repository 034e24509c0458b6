//! What runs inside: the code that was hashed and no leftover of other code; tools in the places that they use.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use skillfreeze_testing::{Output, Runner, directory, file, set_mode, skip};

use super::{Place, Way};
use crate::support::prepare;

/// Compiles its first argument to its second, as bytecode that Python takes without looking at the source;
/// prints what Python adds to a module's name in its cache.
const COMPILE: &str = "
import py_compile, sys
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
py_compile.compile(sys.argv[1], sys.argv[2], doraise=True, invalidation_mode=mode)
print(sys.implementation.cache_tag)
";

/// A program of the package that prints the name that its module has.
fn with_program(place: &mut Place, name: &str) {
    file(place.work("src/demo/scripts/tool.py"), format!("NAME = '{name}'\n"));
    file(place.work("src/demo/scripts/main.py"), "import tool\nprint(tool.NAME)\n");
    (place.digest, place.snapshot) = prepare(&place.env, "src");
}

fn open_up(place: &Place, name: &str) {
    Output::of(&mut place.env.command_of("chmod", ["-R", "a+rwX", name])).ok();
}

/// Both have a module of one name and one size, and whatever a run keeps is kept.
#[test]
fn no_revision_runs_the_bytecode_of_another() {
    // A command may switch bytecode on.
    const IMPORT: &str = "
import sys
sys.dont_write_bytecode = False
sys.path.insert(0, '/skills/demo/scripts')
import main
";
    const COUNT: &str = "find . $SKILL_EXTENSIONS_DIR /tmp -name '*.pyc' | wc -l";
    for mut place in Place::each_way() {
        directory(place.work("kept"));
        open_up(&place, "ws");
        open_up(&place, "kept");
        let options = ["--workspace", "ws", "--extensions", "kept"];
        for name in ["one", "two"] {
            with_program(&mut place, name);
            let script = format!("{COUNT}; python3 -c \"$0\"; test $({COUNT}) -ge 2 && echo written");
            let output = place.run(&options, &["sh", "-c", &script, IMPORT]);
            assert_eq!(output.ok(), format!("0\n{name}\nwritten\n"));
        }
    }
}

#[test]
fn bytecode_that_was_planted_does_not_run_in_the_place_of_a_source() {
    for mut place in Place::each_way() {
        with_program(&mut place, "frozen");
        file(place.work("ws/own.py"), "NAME = 'own'\n");
        file(place.work("ws/use.py"), "import own\nprint(own.NAME)\n");
        file(place.work("planted.py"), "NAME = 'planted'\n");
        let mut compile = Command::new("python3");
        compile.args(["-c", COMPILE]).args([place.work("planted.py"), place.work("planted.pyc")]);
        let tag = Output::of(&mut compile).ok().trim().to_owned();
        let home = place.env.home().join(".cache/python");
        for at in [
            place.work(format!("ws/__pycache__/tool.{tag}.pyc")),
            place.work(format!("ws/__pycache__/own.{tag}.pyc")),
            place.work("ws/tool.pyc"),
            home.join(format!("skills/demo/scripts/tool.{tag}.pyc")),
            home.join(format!("tool.{tag}.pyc")),
        ] {
            directory(at.parent().unwrap());
            fs::copy(place.work("planted.pyc"), at).unwrap();
        }
        // What the planted bytecode would do, where nothing keeps Python from it.
        let outside = Output::of(Command::new("python3").arg("use.py").current_dir(place.work("ws")));
        assert_eq!(outside.ok(), "planted\n");

        let options = ["--workspace", "ws"];
        let program = ["python3", "$SKILLS_DIR/demo/scripts/main.py"];
        assert_eq!(place.run(&options, &program).ok(), "frozen\n");
        assert_eq!(place.run(&options, &["python3", "use.py"]).ok(), "own\n");
    }
}

/// `uv` and `npm` unpack programs there and start them.
#[test]
fn programs_run_where_tools_put_them() {
    for place in Place::each_way() {
        let script = r#"
            set -e
            for directory in "$HOME" "$TMPDIR" "$XDG_CACHE_HOME" "$SKILL_EXTENSIONS_DIR"; do
                mkdir -p "$directory/bin"
                printf '#!/bin/sh\necho "$0"\n' >"$directory/bin/script"
                chmod +x "$directory/bin/script"
                "$directory/bin/script"
                cp /bin/echo "$directory/bin/echo"
                "$directory/bin/echo" copied
            done
            python3 -m venv --without-pip "$HOME/venv"
            "$HOME/venv/bin/python" -c 'import sys; print(sys.prefix)'
        "#;
        let output = place.run(&[], &["sh", "-c", script]);
        let expected: String = ["/tmp/home", "/tmp", "/tmp/home/.cache", "/skill-extensions"]
            .map(|directory| format!("{directory}/bin/script\ncopied\n"))
            .concat();
        assert_eq!(output.ok(), format!("{expected}/tmp/home/venv\n"));
    }
}

/// A snapshot on a file system from which nothing is executed; sealed, it lies on another.
#[test]
fn a_snapshot_that_cannot_be_executed_is_told() {
    if !Runner::available().contains(&Runner::Root) {
        skip!("only root mounts a file system");
    }
    const SCRIPT: &str = r#"
        mount -t tmpfs -o noexec,mode=0755 none "$1" && cp -a "$2" "$1/snapshot" && cd "$3" || exit 99
        user=$4 group=$5
        shift 5
        exec setpriv --reuid "$user" --regid "$group" --clear-groups "$@"
    "#;
    for place in Place::each_way() {
        directory(place.work("mounted"));
        let owner = fs::metadata(&place.snapshot).unwrap();
        let mut run = Command::new("unshare");
        run.args(["-m", "sh", "-c", SCRIPT, "sh"]).arg(place.work("mounted")).arg(&place.snapshot);
        run.arg(place.env.work()).args([owner.uid().to_string(), owner.gid().to_string()]);
        run.arg(place.env.program()).args(["run", "mounted/snapshot", "--digest", &place.digest]);
        run.env("HOME", place.env.home()).env("SKILLFREEZE_ROOT", place.env.root());
        run.args(["--record", "record.json"]).args(place.options());
        let script = "$SKILLS_DIR/demo/scripts/go x; echo $?; sh $SKILLS_DIR/demo/scripts/go y";
        set_mode(place.env.work(), 0o777);
        let output = Output::of(run.args(["--", "sh", "-c", script]));
        let is_told = place.way() == Way::Bind;
        let started = if is_told { "126\n" } else { "gone with x\n0\n" };
        assert_eq!(output.ok(), format!("{started}gone with y\n"));
        assert_eq!(output.stderr.contains("file system without execution"), is_told, "{output:#?}");
        let record = fs::read(place.work("record.json")).unwrap();
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
        assert_eq!(record["checks"]["inside"]["noexec"], is_told);
    }
}
