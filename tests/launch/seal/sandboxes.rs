//! The sandboxes of runners, unchanged, on a sealed snapshot: what they show is what was hashed, whatever
//! happens to the files, and nothing in them can change it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use skillfreeze_testing::{Output, Runner, file, record_skip, set_mode};

use super::Place;

/// Looks before and after the files were changed outside, then tries to change what it sees. Each attempt
/// that succeeds is named.
const ATTEMPTS: &str = r#"
echo ready
until [ -e "$WORK/go" ]; do sleep 0.02; done
cat "$DIR/demo/scripts/tool.py"
"$PROGRAM" verify "$DIR" --digest "$DIGEST" --inside --json
mine=$(mktemp -d 2>/dev/null || echo /mnt)
above=$(dirname "$SKILLS_DIR") name=$(basename "$SKILLS_DIR")
try() { "$@" >/dev/null 2>&1 && echo "succeeded: $*"; }
evil() { grep -q evil "$1/demo/scripts/tool.py"; }
entered() { nsenter "$@" grep -q evil "$SKILLS_DIR/demo/scripts/tool.py"; }
uncovered() { mount --bind "$above" "$mine" && evil "$mine/$name"; }
try touch "$DIR/new"
try chmod 755 "$DIR/demo"
try rm -f "$DIR/demo/SKILL.md"
try mv "$DIR" "$DIR.moved"
try rmdir "$DIR"
try mount -o remount,rw "$DIR"
try mount -o remount,bind,rw "$DIR"
try mount -i -o remount,rw "$DIR"
try umount "$SKILLS_DIR"
try umount -l "$SKILLS_DIR"
try uncovered
try entered -m -t 1
try entered -m -t "$OUTSIDE"
try entered -U -m -t "$OUTSIDE"
try evil "/proc/$OUTSIDE/root/$SKILLS_DIR"
try dd if=/dev/null "of=$DIR/demo/SKILL.md"
cat "$DIR/demo/scripts/tool.py"
"#;

/// Makes the files of the snapshot others, in every way that its owner can, while it is sealed.
fn change_outside(place: &Place) {
    let demo = place.snapshot.join("demo");
    for directory in [place.snapshot.clone(), demo.clone(), demo.join("scripts")] {
        set_mode(directory, 0o755);
    }
    let tool = demo.join("scripts/tool.py");
    set_mode(&tool, 0o644);
    file(&tool, "NAME = 'evil'\n");
    fs::remove_file(demo.join("SKILL.md")).unwrap();
    file(demo.join("SKILL.md"), "evil\n");
    file(demo.join("new"), "evil\n");
}

/// A sandbox, as the words that start a program in it; with a command in one word where it wants that.
struct Sandbox {
    words: Vec<String>,
    takes_line: bool,
}

fn sandbox(words: &[&str]) -> Sandbox {
    Sandbox { words: words.iter().map(|word| (*word).to_owned()).collect(), takes_line: false }
}

/// Tries everything in a sandbox. `directory` is where that shows the snapshot.
fn withstands(place: &Place, sandbox: &Sandbox, directory: &Path) {
    let Sandbox { words, takes_line } = sandbox;
    let script = place.work("attempts.sh");
    file(&script, ATTEMPTS);
    let line = format!("sh {}", script.display());
    let last: Vec<&str> = if *takes_line { vec![&line] } else { line.split(' ').collect() };
    let mut seal: Command =
        place.sealed(&[], &words.iter().map(String::as_str).chain(last).collect::<Vec<_>>());
    seal.env("WORK", place.env.work()).env("DIR", directory).env("PROGRAM", place.env.program());
    seal.env("DIGEST", &place.digest).env("OUTSIDE", std::process::id().to_string());
    let output_file = fs::File::create(place.work("output")).unwrap();
    let mut child = seal.stdout(output_file).stderr(Stdio::piped()).spawn().unwrap();
    let said = || fs::read_to_string(place.work("output")).unwrap();
    let mut has_ended = || child.try_wait().unwrap().is_some();
    for _ in 0..3000 {
        if said().contains("ready\n") || has_ended() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    change_outside(place);
    file(place.work("go"), "");
    let ended = child.wait_with_output().unwrap();
    let said = said();
    let lines: Vec<&str> = said.lines().collect();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(lines.len(), 4, "{words:?}: {said}{stderr}");
    let [ready, before, verified, after] = [lines[0], lines[1], lines[2], lines[3]];
    assert_eq!((ready, before, after), ("ready", "NAME = 'tool'", "NAME = 'tool'"), "{words:?}");
    let verified: Value = serde_json::from_str(verified).unwrap();
    assert_eq!((&verified["clean"], &verified["anchored"]), (&true.into(), &true.into()), "{verified}");
    assert_eq!(verified["inside"]["sealed"], true, "{verified}");
    assert_eq!(ended.status.code(), Some(0), "{words:?}: {ended:?}");
    // What was changed is what lies there now.
    place.env.run(["verify", &place.digest, "--json"]).fails(3, "integrity");
}

/// The same, each time with a snapshot of its own, at the snapshot's own path.
fn each_withstands(sandboxes: &dyn Fn(&Place) -> Vec<Sandbox>) {
    for runner in Runner::available() {
        for index in 0..sandboxes(&Place::new(*runner)).len() {
            let place = Place::new(*runner);
            withstands(&place, &sandboxes(&place)[index], &place.snapshot.clone());
        }
    }
}

#[test]
fn without_a_sandbox_it_cannot_be_changed() {
    each_withstands(&|_| vec![sandbox(&[])]);
}

#[test]
fn bubblewrap_shows_what_is_sealed() {
    let host = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"];
    let writable = ["bwrap", "--dev-bind", "/", "/"];
    each_withstands(&|_| {
        vec![
            sandbox(&[&host[..], &["--"]].concat()),
            sandbox(&[&host[..], &["--unshare-all", "--die-with-parent", "--"]].concat()),
            sandbox(&[&writable[..], &["--"]].concat()),
            sandbox(&[&writable[..], &["--unshare-user", "--uid", "0", "--cap-add", "ALL", "--"]].concat()),
        ]
    });
}

#[test]
fn namespaces_of_util_linux_show_what_is_sealed() {
    each_withstands(&|place| {
        let mut all = vec![sandbox(&["unshare", "-Urm"]), sandbox(&["unshare", "-Urmpf", "--mount-proc"])];
        if place.is_roots() {
            all.extend([sandbox(&["unshare", "-m"]), sandbox(&["unshare", "-mpf", "--mount-proc"])]);
        }
        all
    });
}

/// A bind of the sealed directory at another path is as sealed.
#[test]
fn a_bind_elsewhere_is_as_sealed() {
    let bind = "mount --bind \"$SKILLS_DIR\" /mnt && exec \"$@\"";
    for runner in Runner::available() {
        let mut namespaces = vec!["-Urm"];
        if *runner == Runner::Root {
            namespaces.push("-m");
        }
        for namespace in namespaces {
            let place = Place::new(*runner);
            withstands(&place, &sandbox(&["unshare", namespace, "sh", "-c", bind, "sh"]), Path::new("/mnt"));
        }
        let place = Place::new(*runner);
        let snapshot = place.snapshot.to_str().unwrap();
        let bound = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", "/mnt", "--bind", snapshot, "/mnt/s", "--"];
        withstands(&place, &sandbox(&bound), Path::new("/mnt/s"));
    }
}

/// A sandbox that others wrote and that agents use.
#[test]
fn a_sandbox_for_agents_shows_what_is_sealed() {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/srt/node_modules");
    let is_there =
        |program: &str| Command::new("which").arg(program).output().is_ok_and(|found| found.status.success());
    if !installed.join(".bin/srt").exists() || !["node", "socat", "rg"].into_iter().all(is_there) {
        record_skip("the sandbox runtime is not installed: npm, the network, socat or ripgrep is not there");
        return;
    }
    let settings = r#"{"network": {"allowedDomains": [], "deniedDomains": []},
        "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}"#;
    each_withstands(&|place| {
        // The checkout may be closed to the user.
        let own = place.work("node_modules");
        if !own.exists() {
            Output::of(Command::new("cp").arg("-r").arg(&installed).arg(&own)).ok();
            file(place.work("settings.json"), settings);
        }
        let (program, settings) = (own.join(".bin/srt"), place.work("settings.json"));
        let words = ["node", program.to_str().unwrap(), "--settings", settings.to_str().unwrap(), "-c"];
        vec![Sandbox { takes_line: true, ..sandbox(&words) }]
    });
}
