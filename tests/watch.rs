//! `list --watch`: a line for each change that shows, and none for those that do not.
//!
//! Nothing here is timed: a line is waited for until it comes, and each change is one rename, so that
//! none is seen by halves. That a change makes no line is seen by the next one, which tells of the next
//! change alone.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use skillfreeze_testing::{Runner, TestEnv, directory, file, package, record_skip, set_mode};

use crate::support::environment;

/// Nothing takes this long; without a limit a line that never comes would hang the test.
const LIMIT: Duration = Duration::from_secs(60);

/// A running `list --watch`.
struct Watching {
    child: Child,
    lines: Receiver<String>,
    talk: Receiver<String>,
}

impl Watching {
    fn start(env: &TestEnv, options: &[&str]) -> Self {
        Self::of(&mut env.command([&["list", "--watch"], options].concat()))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = read_lines(child.stdout.take().unwrap());
        let talk = read_lines(child.stderr.take().unwrap());
        Self { child, lines, talk }
    }

    /// The next line.
    #[track_caller]
    fn next(&self) -> Value {
        let line = self.lines.recv_timeout(LIMIT);
        assert!(line.is_ok(), "no line, but {:?}", self.talk.try_iter().collect::<Vec<_>>());
        let line: Value = serde_json::from_str(&line.unwrap_or_default()).unwrap();
        assert_eq!(line["schema"], "skillfreeze.catalog-changed.v1");
        line
    }

    /// Asserts what the next line says was added, removed and changed; returns it.
    #[track_caller]
    fn says(&self, added: &[&str], removed: &[&str], changed: &[&str]) -> Value {
        let line = self.next();
        let said = [&line["added"], &line["removed"], &line["changed"]];
        assert_eq!(said, [&json!(added), &json!(removed), &json!(changed)], "{line}");
        line
    }

    /// The next line on standard error.
    #[track_caller]
    fn complains(&self) -> String {
        self.talk.recv_timeout(LIMIT).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end, which must come by itself.
    fn end(mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < LIMIT, "it does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it; gives all that it said on standard error and was not asked for yet.
    fn stop(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.talk.iter().collect()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        // The test may not listen to the end.
        BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    receiver
}

/// A place beside what is watched.
fn aside(env: &TestEnv) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    env.root().with_file_name(format!("aside-{}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Puts a file into its place, whole, as careful editors save.
fn put(env: &TestEnv, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    let whole = aside(env);
    file(&whole, content);
    fs::rename(whole, path).unwrap();
}

/// Puts a package into a source, or another description into one that is there.
fn skill(env: &TestEnv, source: impl AsRef<Path>, id: &str, description: &str) {
    let content = format!("---\nname: {id}\ndescription: {description}\n---\nbody\n");
    let path = source.as_ref().join(id);
    if path.exists() {
        return put(env, path.join("SKILL.md"), content);
    }
    let whole = aside(env);
    file(whole.join("SKILL.md"), content);
    fs::rename(whole, path).unwrap();
}

/// Takes something out of its place.
fn take(env: &TestEnv, path: impl AsRef<Path>) {
    fs::rename(path, aside(env)).unwrap();
}

#[test]
fn each_change_of_the_catalog_is_a_line() {
    for runner in Runner::available() {
        let env = environment(*runner);
        let root = env.work().join(".agents/skills");
        package(&root, "demo");
        package(&root, "other");
        let watching = Watching::start(&env, &[]);
        let first = watching.says(&["demo", "other"], &[], &[]);
        assert_eq!((&first["skills"], &first["left_out"]), (&json!(2), &json!(0)));

        skill(&env, &root, "demo", "edited");
        let edited = watching.says(&[], &[], &["demo"]);
        assert_ne!(edited["digest"], first["digest"]);
        // A body does not show, nor does what else is in a package.
        put(&env, root.join("demo/SKILL.md"), "---\nname: demo\ndescription: edited\n---\nanother body\n");
        file(root.join("demo/scripts/new"), "");
        file(root.join("notes.txt"), "");
        skill(&env, &root, "new", "d");
        watching.says(&["new"], &[], &[]);
        take(&env, root.join("new"));
        assert_eq!(watching.says(&[], &["new"], &[])["digest"], edited["digest"]);

        put(&env, root.join("demo/SKILL.md"), "---\nname: demo\n---\n");
        let broken = watching.says(&[], &["demo"], &[]);
        assert_eq!((&broken["skills"], &broken["left_out"]), (&json!(1), &json!(1)));
        skill(&env, &root, "demo", "edited");
        assert_eq!(watching.says(&["demo"], &[], &[])["digest"], edited["digest"]);
        assert_eq!(watching.stop(), [""; 0]);
    }
}

#[test]
fn a_root_may_vanish_return_appear_and_be_replaced() {
    for runner in Runner::available() {
        let env = environment(*runner);
        let root = env.work().join(".agents/skills");
        package(&root, "demo");
        let watching = Watching::start(&env, &[]);
        let first = watching.says(&["demo"], &[], &[]);
        for vanishing in [root.as_path(), root.parent().unwrap()] {
            fs::rename(vanishing, env.work().join("away")).unwrap();
            watching.says(&[], &["demo"], &[]);
            fs::rename(env.work().join("away"), vanishing).unwrap();
            assert_eq!(watching.says(&["demo"], &[], &[])["digest"], first["digest"]);
        }
        take(&env, root.parent().unwrap());
        watching.says(&[], &["demo"], &[]);
        // Neither it nor what is above it is there; it comes with all that is in it.
        package(env.work().join("aside/skills"), "demo");
        fs::rename(env.work().join("aside"), root.parent().unwrap()).unwrap();
        assert_eq!(watching.says(&["demo"], &[], &[])["digest"], first["digest"]);

        // One that has never been there, in a home that has nothing.
        package(env.home().join("aside/skills"), "of-user");
        fs::rename(env.home().join("aside"), env.home().join(".claude")).unwrap();
        watching.says(&["of-user"], &[], &[]);

        // Another tree takes the place of the first, and is watched in its turn.
        directory(env.work().join("next/skills"));
        skill(&env, env.work().join("next/skills"), "demo", "of the other branch");
        fs::rename(root.parent().unwrap(), env.work().join("old")).unwrap();
        fs::rename(env.work().join("next"), root.parent().unwrap()).unwrap();
        // The moment between the two may be seen or not.
        let mut line = watching.next();
        while line["removed"] == json!(["demo"]) {
            line = watching.next();
        }
        assert!(line["changed"] == json!(["demo"]) || line["added"] == json!(["demo"]), "{line}");
        skill(&env, env.work().join("old/skills"), "demo", "of nobody");
        skill(&env, &root, "demo", "edited after the change");
        watching.says(&[], &[], &["demo"]);
        skill(&env, &root, "more", "d");
        watching.says(&["more"], &[], &[]);
        assert_eq!(watching.stop(), [""; 0]);
    }
}

#[test]
fn directories_within_a_source_may_be_replaced_too() {
    let env = environment(Runner::available()[0]);
    let src = env.work().join("src");
    package(src.join("tools"), "pdf");
    package(env.work().join("elsewhere"), "real");
    std::os::unix::fs::symlink("../elsewhere/real", src.join("real")).unwrap();
    let options = ["--source", "src", "--layout", "nested", "--links", "allow"];
    let watching = Watching::start(&env, &options);
    watching.says(&["pdf", "real"], &[], &[]);
    // A category, deep down, behind a link, and a directory that becomes a category.
    skill(&env, src.join("tools"), "pdf", "edited");
    watching.says(&[], &[], &["pdf"]);
    skill(&env, env.work().join("elsewhere"), "real", "edited");
    watching.says(&[], &[], &["real"]);
    for (directory, left_out) in [("more", 1), ("more/deep", 1)] {
        fs::create_dir(src.join(directory)).unwrap();
        assert_eq!(watching.says(&[], &[], &[])["left_out"], left_out);
    }
    skill(&env, src.join("more/deep"), "below", "d");
    assert_eq!(watching.says(&["below"], &[], &[])["left_out"], 0);
    take(&env, src.join("tools/pdf"));
    let gone = watching.says(&[], &["pdf"], &[]);
    assert_eq!(gone["left_out"], 1, "a category of nothing");
    skill(&env, src.join("tools"), "pdf", "another");
    watching.says(&["pdf"], &[], &[]);
    skill(&env, src.join("tools"), "pdf", "and edited");
    watching.says(&[], &[], &["pdf"]);
}

#[test]
fn the_store_and_the_configuration_count_too() {
    for runner in Runner::available() {
        let env = environment(*runner);
        package(env.work().join(".agents/skills"), "demo");
        package(env.work().join("team"), "of-team");
        let watching = Watching::start(&env, &[]);
        let first = watching.says(&["demo"], &[], &[]);
        // A directory above with a `.git` is another project, which has no skills.
        let git = env.work().with_file_name(".git");
        fs::create_dir(&git).unwrap();
        watching.says(&[], &["demo"], &[]);
        fs::remove_dir(&git).unwrap();
        assert_eq!(watching.says(&["demo"], &[], &[])["digest"], first["digest"]);
        // There was no store.
        env.run(["disable", "demo"]).ok();
        watching.says(&[], &[], &["demo"]);
        env.run(["enable", "demo"]).ok();
        assert_eq!(watching.says(&[], &[], &["demo"])["digest"], first["digest"]);
        env.run(["add", ".agents/skills/demo"]).ok();
        let active = watching.says(&[], &[], &["demo"]);
        // What is frozen and not made active is a revision; what is only frozen again is nothing new.
        env.run(["prepare", "demo"]).ok();

        let config = env.work().join("skillfreeze.toml");
        put(&env, &config, "[[source]]\nid = \"team\"\nroot = \"team\"\n");
        watching.says(&["of-team"], &[], &[]);
        put(&env, &config, "[[source]]\nid = \"team\"\nrot = \"team\"\n");
        assert!(watching.complains().contains("`rot`"));
        assert!(watching.complains().contains("hint: mend the file"));
        put(&env, &config, "");
        assert_eq!(watching.says(&[], &["of-team"], &[])["digest"], active["digest"]);
        directory(env.home().join(".config/skillfreeze"));
        let config = env.home().join(".config/skillfreeze/skillfreeze.toml");
        put(&env, config, "[skills]\nenabled = [\"other\"]\n");
        watching.says(&[], &[], &["demo"]);
        assert_eq!(watching.stop(), [""; 0]);
    }
}

/// Makes many changes while the program is stopped, so that they all are there when it goes on.
#[test]
fn a_burst_is_one_line() {
    let env = environment(Runner::available()[0]);
    directory(env.work().join("src"));
    let watching = Watching::start(&env, &["--source", "src"]);
    watching.says(&[], &[], &[]);
    watching.signal(Signal::STOP);
    let ids: Vec<String> = (100..150).map(|number| format!("skill-{number}")).collect();
    for id in &ids {
        package(env.work().join("src"), id);
        skill(&env, env.work().join("src"), id, "edited");
    }
    watching.signal(Signal::CONT);
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let line = watching.says(&ids, &[], &[]);
    assert_eq!(line["skills"], 50);
    skill(&env, env.work().join("src"), "last", "d");
    watching.says(&["last"], &[], &[]);
}

#[test]
fn what_changes_all_the_time_is_told_all_the_same() {
    let env = environment(Runner::available()[0]);
    package(env.work().join("src"), "demo");
    let noise = env.work().join("src/log.txt");
    file(&noise, "");
    let watching = Watching::start(&env, &["--source", "src"]);
    watching.says(&["demo"], &[], &[]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fs::write(&noise, "x").unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        skill(&env, env.work().join("src"), "demo", "edited");
        let line = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| watching.next()));
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(line.unwrap()["changed"], json!(["demo"]));
    });
}

#[test]
fn what_fails_is_told_once_and_watched_further() {
    let env = environment(Runner::available()[0]);
    for id in ["a", "b", "c"] {
        package(env.work().join("src"), id);
    }
    let watching = Watching::start(&env, &["--json", "--source", "src", "--max-packages", "2"]);
    let error: Value = serde_json::from_str(&watching.complains()).unwrap();
    assert_eq!((&error["code"], &error["schema"]), (&json!("scan-limit"), &json!("skillfreeze.error.v1")));
    // It still fails, for the same reason.
    fs::rename(env.work().join("src/c"), env.work().join("src/d")).unwrap();
    take(&env, env.work().join("src/d"));
    watching.says(&["a", "b"], &[], &[]);
    skill(&env, env.work().join("src"), "e", "d");
    assert!(watching.complains().contains("scan-limit"));
    take(&env, env.work().join("src/e"));
    skill(&env, env.work().join("src"), "a", "edited");
    watching.says(&[], &[], &["a"]);
    assert_eq!(watching.stop(), [""; 0]);

    let env = environment(Runner::User);
    let root = env.work().join(".agents/skills");
    package(&root, "demo");
    let watching = Watching::start(&env, &[]);
    watching.says(&["demo"], &[], &[]);
    set_mode(&root, 0);
    assert!(watching.complains().contains("Permission denied"));
    set_mode(&root, 0o755);
    skill(&env, &root, "more", "d");
    watching.says(&["more"], &[], &[]);
}

#[test]
fn a_source_that_is_left_out_is_told_when_it_begins_to_be() {
    let env = environment(Runner::available()[0]);
    let watching = Watching::start(&env, &["--source", "absent/src"]);
    watching.says(&[], &[], &[]);
    assert!(watching.complains().contains("root-absent"));
    package(env.work().join("aside/src"), "demo");
    fs::rename(env.work().join("aside"), env.work().join("absent")).unwrap();
    watching.says(&["demo"], &[], &[]);
    fs::rename(env.work().join("absent"), env.work().join("aside")).unwrap();
    watching.says(&[], &["demo"], &[]);
    assert!(watching.complains().contains("root-absent"));
    // What the command line itself is wrong about is no reason to wait.
    env.run(["list", "--watch", "--json", "--source", "a", "--source", "a"]).fails(2, "source-twice");
    env.run(["list", "--watch", "--json", "words"]).fails(2, "usage");
}

/// The kernel gives each user so many watches; a user namespace can have fewer.
#[test]
fn without_a_watch_left_it_looks_by_itself() {
    for runner in Runner::available() {
        let env = environment(*runner);
        for (limit, at_once) in [("max_inotify_instances", "0"), ("max_inotify_watches", "3")] {
            let src = env.work().join(limit);
            package(&src, "demo");
            let script = format!("echo {at_once} >/proc/sys/user/{limit} || exit 77; exec \"$@\"");
            let program = env.program().to_str().unwrap();
            let arguments = ["-Ur", "sh", "-c", &script, "sh", program, "list", "--watch", "--source", limit];
            let probe =
                env.command_of("unshare", [&arguments[..4], &["sh", "true"]].concat()).output().unwrap();
            if !probe.status.success() {
                record_skip(&format!("no namespace with fewer watches: {probe:?}"));
                continue;
            }
            let watching = Watching::of(&mut env.command_of("unshare", arguments));
            watching.says(&["demo"], &[], &[]);
            let said = watching.complains();
            assert!(said.contains("looking every second"), "{said}");
            assert!(watching.complains().contains("fs.inotify"));
            skill(&env, &src, "demo", "edited");
            watching.says(&[], &[], &["demo"]);
            fs::rename(&src, env.work().join("away")).unwrap();
            watching.says(&[], &["demo"], &[]);
            fs::rename(env.work().join("away"), &src).unwrap();
            watching.says(&["demo"], &[], &[]);
        }
    }
}

#[test]
fn it_ends_with_its_reader_and_by_signals() {
    let env = environment(Runner::available()[0]);
    for signal in [Signal::INT, Signal::TERM] {
        let watching = Watching::start(&env, &[]);
        watching.says(&[], &[], &[]);
        watching.signal(signal);
        assert_eq!(watching.end().signal(), Some(signal.as_raw()));
    }
    // Nothing changes, and yet it does not wait for the next line to find out.
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = env.command(["list", "--watch"]);
    let child = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    drop(command);
    let mut first = String::new();
    let mut reader = BufReader::new(reader);
    reader.read_line(&mut first).unwrap();
    drop(reader);
    let (_, lines) = channel();
    let (_, talk) = channel();
    let watching = Watching { child, lines, talk };
    assert_eq!(watching.end().code(), Some(0));
}
