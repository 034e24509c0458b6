//! What belongs to a package, and how it is frozen.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use skillfreeze_testing::{Output, Runner, directory, file, package, package_digest, set_mode, sha256};

use super::{Refusal, all_refuse, takes, takes_with};
use crate::support::{environment, names, text};

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn any_execute_bit_at_the_source_makes_a_file_executable_and_none_is_added() {
    let table = [
        ("all", 0o755, true),
        ("owner", 0o700, true),
        ("group", 0o654, true),
        ("others", 0o645, true),
        ("special", 0o4755, true),
        ("none", 0o644, false),
        ("private", 0o600, false),
        ("sticky", 0o1666, false),
    ];
    for runner in Runner::available() {
        let taken = takes(*runner, |demo| {
            for (name, bits, _) in table {
                file(demo.join(name), "#!/bin/sh\necho hi\n");
                set_mode(demo.join(name), bits);
            }
        });
        for (name, _, executable) in table {
            let files = taken.package["files"].as_array().unwrap();
            let listed = files.iter().find(|file| file["path"] == name).unwrap();
            assert_eq!(listed["executable"], executable, "{name}");
            assert_eq!(mode(taken.frozen.join(name)), if executable { 0o555 } else { 0o444 }, "{name}");
        }
        assert_eq!(taken.said("script-not-executable"), ["none", "private", "sticky"]);
        assert_eq!(taken.digest(), package_digest(taken.env.work().join("src/demo")));
        assert_eq!(mode(&taken.frozen), 0o555);
        let root = taken.frozen.parent().unwrap();
        assert_eq!((mode(root), mode(root.join(".snapshot.json"))), (0o555, 0o444));
    }
}

#[test]
fn a_read_only_source_is_taken_and_leaves_nothing_that_cannot_be_removed() {
    for runner in Runner::available() {
        for faulty in [false, true] {
            let env = environment(*runner);
            let demo = package(env.work().join("src"), "demo");
            file(demo.join("sub/f"), "x");
            if faulty {
                file(demo.join("sub/x.pyc"), "x");
            }
            for (path, bits) in [("SKILL.md", 0o444), ("sub/f", 0o444), ("sub", 0o555), ("", 0o555)] {
                set_mode(demo.join(path), bits);
            }
            let added = env.run(["add", "src/demo", "--json"]);
            let prepared = env.run(["prepare", "--source", "src", "--json"]);
            if faulty {
                added.fails(6, "bytecode");
                prepared.fails(4, "nothing-selected");
            } else {
                assert_eq!(added.json()["added"][0]["files"], 2);
                env.run(["verify", &text(&prepared.json()["snapshot"])]).ok();
            }
            assert_eq!(names(env.root().join("tmp")), [""; 0]);
            assert_eq!(names(env.root().join("snapshots/sha256")).len(), usize::from(!faulty));
            assert_eq!(names(env.root().join("packages/sha256")).len(), usize::from(!faulty));
        }
    }
}

#[test]
fn metadata_of_operating_systems_and_version_control_is_left_out_and_reported() {
    for runner in Runner::available() {
        let taken = takes(*runner, |demo| {
            for path in [
                "__MACOSX/demo/._SKILL.md",
                "._SKILL.md",
                ".DS_Store",
                "a/.DS_Store",
                "Thumbs.db",
                "desktop.ini",
                ".git/config",
                "a/.gitignore",
                ".gitkeep",
                ".github/workflows/ci.yml",
                ".gitattributes",
            ] {
                file(demo.join(path), "x");
            }
            file(demo.join("a/.git"), "gitdir: ../x\n");
        });
        let kept = [".gitattributes", ".github/workflows/ci.yml", ".gitkeep", "SKILL.md", "a/.gitignore"];
        assert_eq!(taken.paths(), kept);
        assert_eq!(taken.said("vcs-skipped"), [".git", "a/.git"]);
        let metadata = [".DS_Store", "._SKILL.md", "Thumbs.db", "__MACOSX", "a/.DS_Store", "desktop.ini"];
        assert_eq!(taken.said("os-metadata-skipped"), metadata);
        assert_eq!(taken.digest(), package_digest(taken.env.work().join("src/demo")));
    }
    let only_metadata = |demo: &Path| {
        fs::remove_file(demo.join("SKILL.md")).unwrap();
        file(demo.join("._SKILL.md"), "x");
        file(demo.join("__MACOSX/SKILL.md"), "x");
    };
    let env = environment(Runner::available()[0]);
    only_metadata(&package(env.work(), "demo"));
    env.run(["add", "demo", "--json"]).fails(6, "no-skill-file");
}

#[test]
fn nothing_else_is_filtered_by_its_name() {
    let paths = [
        ".env.example",
        ".gitignore",
        ".hidden/f",
        ".venv/lib/x.py",
        "SKILL.md",
        "build/out.bin",
        "dist/x.js",
        "metadata.json",
        "node_modules/p/i.js",
        "references/b.md",
        "scripts/a.js",
    ];
    for runner in Runner::available() {
        let taken = takes(*runner, |demo| {
            for path in paths.iter().filter(|path| **path != "SKILL.md") {
                file(demo.join(path), path);
            }
            // An ignore file in a package has no effect.
            file(demo.join(".gitignore"), "*\n");
            file(demo.join(".skillignore"), "*\n");
            fs::remove_file(demo.join(".skillignore")).unwrap();
        });
        assert_eq!(taken.paths(), paths);
        assert_eq!(taken.digest(), package_digest(&taken.frozen));
    }
}

#[test]
fn a_source_that_is_a_package_itself_is_taken_whole() {
    for runner in Runner::available() {
        let env = environment(*runner);
        let demo = package(env.work(), "demo");
        for path in ["scripts/a.js", "references/b.md", ".git/HEAD"] {
            file(demo.join(path), path);
        }
        for arguments in [["prepare", "--source", "demo", "--json"], ["prepare", "demo", "--source", "demo"]]
        {
            env.run(arguments).ok();
        }
        let prepared = env.run(["prepare", "--source", "demo", "--json"]).json();
        assert_eq!(prepared["files"], 3);
        assert_eq!(prepared["packages"][0]["digest"], package_digest(&demo));
        env.run(["add", "demo"]).ok();
    }
}

#[test]
fn a_new_revision_has_nothing_of_the_old_one() {
    for runner in Runner::available() {
        let env = environment(*runner);
        for (version, name) in [("v1", "old.md"), ("v2", "new.md")] {
            file(package(env.work().join(version), "demo").join(name), name);
        }
        let first = env.run(["add", "v1/demo", "--json"]).json()["added"][0].clone();
        let second = env.run(["add", "v2/demo", "--json"]).json()["added"][0].clone();
        assert_eq!((&first["number"], &second["number"]), (&Value::from(1), &Value::from(2)));
        for (reference, version, files) in
            [("demo", "v2", ["SKILL.md", "new.md"]), ("demo@1", "v1", ["SKILL.md", "old.md"])]
        {
            let prepared = env.run(["prepare", reference, "--json"]).json();
            let frozen = Path::new(prepared["path"].as_str().unwrap()).join("demo");
            assert_eq!(names(&frozen), files);
            assert_eq!(
                prepared["packages"][0]["digest"],
                package_digest(env.work().join(version).join("demo"))
            );
        }
    }
}

#[test]
fn empty_files_are_content_and_empty_directories_are_not() {
    for runner in Runner::available() {
        let taken = takes(*runner, |demo| {
            file(demo.join("pkg/__init__.py"), "");
            directory(demo.join("empty/below"));
            directory(demo.join("pkg/sub"));
            file(demo.join("vcs/.git"), "x");
        });
        assert_eq!(taken.paths(), ["SKILL.md", "pkg/__init__.py"]);
        let nothing = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(taken.package["files"][1]["digest"], nothing);
        assert_eq!(taken.package["files"][1]["size"], 0);
        assert_eq!(taken.said("empty-directory-dropped"), ["empty", "pkg/sub", "vcs"]);
        assert_eq!(names(&taken.frozen), ["SKILL.md", "pkg"]);
        assert_eq!(names(taken.frozen.join("pkg")), ["__init__.py"]);
    }
}

#[test]
fn holes_are_zeros_and_attributes_and_hard_links_are_not_content() {
    for runner in Runner::available() {
        let mut plain = None;
        for odd in [false, true] {
            let taken = takes(*runner, |demo| {
                if odd {
                    fs::File::create(demo.join("s")).unwrap().set_len(1 << 20).unwrap();
                    let script = "import os, sys; os.setxattr(sys.argv[1], 'user.x', b'1')";
                    let set =
                        Command::new("python3").args(["-c", script]).arg(demo.join("SKILL.md")).status();
                    assert!(set.unwrap().success(), "the test's file system keeps attributes");
                    // The other name is outside of the package.
                    file(demo.parent().unwrap().with_file_name("other"), "linked");
                    fs::hard_link(demo.parent().unwrap().with_file_name("other"), demo.join("t")).unwrap();
                    set_mode(demo.join("s"), 0o644);
                } else {
                    file(demo.join("s"), vec![0; 1 << 20]);
                    file(demo.join("t"), "linked");
                }
            });
            assert_eq!(fs::read(taken.frozen.join("s")).unwrap(), vec![0; 1 << 20]);
            let frozen = taken.frozen.join("t");
            assert_eq!(fs::metadata(&frozen).unwrap().nlink(), 1);
            let script = "import os, sys; print(os.listxattr(sys.argv[1]))";
            let mut list = Command::new("python3");
            let listed = Output::of(list.args(["-c", script]).arg(taken.frozen.join("SKILL.md")));
            assert!(!listed.ok().contains("user.x"), "{listed:?}");
            assert_eq!(*plain.get_or_insert_with(|| taken.digest()), taken.digest());
        }
    }
}

#[test]
fn bytecode_is_refused_or_left_out_on_request() {
    let make = |demo: &Path| {
        file(demo.join("scripts/h.py"), "x=1\n");
        let compile =
            Command::new("python3").args(["-m", "py_compile"]).arg(demo.join("scripts/h.py")).status();
        assert!(compile.unwrap().success());
        let cache = demo.join("scripts/__pycache__");
        let compiled = cache.join(&names(&cache)[0]);
        // Without its source beside it, and where no cache is: it would run all the same.
        fs::copy(&compiled, demo.join("scripts/orphan.pyc")).unwrap();
        fs::copy(&compiled, demo.join("old.pyo")).unwrap();
    };
    let paths = ["old.pyo", "scripts/__pycache__", "scripts/orphan.pyc"];
    let faults = paths.map(|path| ("bytecode", path));
    all_refuse("bytecode", make, Refusal::found_by_add(&faults));
    for runner in Runner::available() {
        let clean = takes(*runner, |demo| file(demo.join("scripts/h.py"), "x=1\n"));
        let dropped = takes_with(*runner, &["--drop-bytecode"], make);
        assert_eq!(dropped.said("bytecode-dropped"), paths);
        assert_eq!(dropped.digest(), clean.digest());
        let env = environment(*runner);
        make(&package(env.work().join("src"), "demo"));
        let options = ["prepare", "--source", "src", "--drop-bytecode", "--json"];
        assert_eq!(env.run(options).json()["packages"][0]["digest"], clean.digest());
    }
}

/// Names alone decide nothing of what is bytecode where the kind of the entry is another.
#[test]
fn what_only_looks_like_bytecode_is_content() {
    let taken = takes(Runner::available()[0], |demo| {
        file(demo.join("pyc"), "x");
        file(demo.join("a.pyc.md"), "x");
        file(demo.join("dir.pyc/f"), "x");
        file(demo.join("sub/__pycache__"), "a file");
    });
    assert_eq!(taken.paths(), ["SKILL.md", "a.pyc.md", "dir.pyc/f", "pyc", "sub/__pycache__"]);
    assert_eq!(taken.package["files"][3]["digest"], format!("sha256:{}", sha256(taken.frozen.join("pyc"))));
}

/// A reader that walks the tree would take it for another skill.
#[test]
fn a_skill_file_below_a_package_is_content_and_warned_of() {
    for runner in Runner::available() {
        let env = environment(*runner);
        let source = env.work().join("src");
        package(source.join("learn/examples"), "tasklist");
        package(&source, "tasklist");
        package(&source, "learn");
        let prepared = env.run(["prepare", "--source", "src", "--json"]).json();
        assert_eq!(crate::support::texts(&prepared["packages"], "id"), ["learn", "tasklist"]);
        let frozen = Path::new(prepared["path"].as_str().unwrap());
        assert!(frozen.join("learn/examples/tasklist/SKILL.md").is_file());
        let nested = ("nested-skill-file".to_owned(), "examples/tasklist/SKILL.md".to_owned());
        assert!(crate::support::codes(&prepared["packages"][0]["diagnostics"]).contains(&nested));
        assert!(!crate::support::codes(&prepared["packages"][1]["diagnostics"]).contains(&nested));
    }
}
