//! A sandbox with the programs of another root directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use skillfreeze_testing::{Output, directory, file, set_mode};

use super::Place;
use crate::support::{copy_loader, names};

/// Makes a root with a shell that needs no library, and links to it.
fn root(place: &Place) -> PathBuf {
    let root = place.work("root");
    directory(root.join("usr/bin"));
    fs::copy("/bin/busybox", root.join("usr/bin/busybox")).unwrap();
    set_mode(root.join("usr/bin/busybox"), 0o755);
    for name in ["sh", "cat", "ls", "touch"] {
        symlink("busybox", root.join("usr/bin").join(name)).unwrap();
    }
    symlink("usr/bin", root.join("bin")).unwrap();
    file(root.join("etc/os-release"), "ID=other\n");
    root
}

#[test]
fn the_command_has_the_other_roots_programs_and_files() {
    for place in Place::each_way() {
        let root = root(&place);
        copy_loader(&place.env, &root);
        // What is made by the sandbox, what is no file, and what the skills take the place of.
        for name in ["proc", "dev", "sys", "tmp", "run", "skills"] {
            file(root.join(name).join("theirs"), "");
        }
        let _listener = UnixListener::bind(root.join("socket")).unwrap();
        file(root.join("file"), "at the top\n");
        symlink("/etc/os-release", root.join("alias")).unwrap();
        symlink("nowhere", root.join("skill-extensions")).unwrap();
        directory(root.join("lib"));
        let script = "echo /*; cat /etc/os-release /file /alias; head -1 /skills/demo/SKILL.md
            ls /tmp /sys /run 2>/dev/null; touch /usr/x /etc/x /x; echo kept >/skill-extensions/x && cat /skill-extensions/x";
        let output = place.run(&["--rootfs", "root", "--record", "record"], &["busybox", "sh", "-c", script]);
        let (seen, rest) = output.ok().split_once('\n').unwrap();
        let seen: Vec<&str> = seen.split(' ').filter(|name| !name.starts_with("/lib")).collect();
        let expected = "/alias /bin /dev /etc /file /proc /skill-extensions /skills /tmp /usr".split(' ');
        assert_eq!(seen, expected.collect::<Vec<_>>());
        assert_eq!(rest, "ID=other\nat the top\nID=other\n---\n/tmp:\nhome\nkept\n");
        assert_eq!(output.stderr.matches("Read-only file system").count(), 3, "{output:#?}");
        let record = place.record();
        assert_eq!(record["launch"]["rootfs"], json!(root));
        place.verify();
    }
}

#[test]
fn the_hosts_resolver_needs_a_place() {
    for place in Place::each() {
        let root = root(&place);
        copy_loader(&place.env, &root);
        let run = || {
            let options = ["--rootfs", "root", "--network", "host"];
            place.run(&options, &["busybox", "sh", "-c", "cat /etc/resolv.conf; ls /etc"])
        };
        assert_eq!(run().stdout, "os-release\n");
        symlink("os-release", root.join("etc/resolv.conf")).unwrap();
        assert_eq!(run().ok(), "ID=other\nos-release\nresolv.conf\n");
        fs::remove_file(root.join("etc/resolv.conf")).unwrap();
        file(root.join("etc/resolv.conf"), "theirs\n");
        let host = fs::read_to_string("/etc/resolv.conf").unwrap();
        assert_eq!(run().ok(), format!("{host}os-release\nresolv.conf\n"));
        assert_eq!(fs::read_to_string(root.join("etc/resolv.conf")).unwrap(), "theirs\n");
    }
}

#[test]
fn mount_points_must_be_in_the_other_root() {
    for place in Place::each() {
        let root = root(&place);
        copy_loader(&place.env, &root);
        directory(root.join("srv/here"));
        let run = |target: &str| {
            let bind = format!("ws:{target}");
            place.run(&["--json", "--rootfs", "root", "--bind", &bind], &["busybox", "ls", target])
        };
        for target in ["/srv/here", "/srv", "/mnt/new", "/new"] {
            assert_eq!(run(target).ok(), "", "{target}");
        }
        let error = run("/srv/new/one").fails(125, "mount-target-missing");
        assert!(error["message"].as_str().unwrap().contains("/root/srv"), "{error}");
        let hint = format!("create `{}` first", root.join("srv/new/one").display());
        assert!(error["hint"].as_str().unwrap().starts_with(&hint), "{error}");
        // A file cannot become the place of a directory, nor the other way round.
        file(root.join("plain"), "");
        for (bind, target) in [("ws:/plain", "/plain"), ("ws:/plain/x", "/plain"), ("ws/own:/srv", "/srv")] {
            file(place.work("ws/own"), "");
            let output = place.run(&["--json", "--rootfs", "root", "--bind", bind], &["true"]);
            let error = output.fails(125, "mount-target-type");
            assert!(error["message"].as_str().unwrap().contains(&format!("`{target}`")), "{error}");
        }
        for target in ["/usr", "/etc", "/bin/x"] {
            run(target).fails(125, "mount-target-reserved");
        }
    }
}

/// Images have such directories for what is mounted.
#[test]
fn an_empty_directory_of_the_other_root_gives_way_to_mount_points() {
    for place in Place::each() {
        let root = root(&place);
        copy_loader(&place.env, &root);
        for name in ["home", "opt", "lib32"] {
            directory(root.join(name));
        }
        file(place.work("ws/file"), "");
        let binds = ["--bind", "ws:/home/u/deep/p", "--ro-bind", "ws/file:/opt/tool/file"];
        let options = [&["--json", "--rootfs", "root"], &binds[..]].concat();
        let script =
            "ls -R /home /opt; touch /home/x /home/u/x /opt/x; touch /home/u/deep/p/new && echo kept";
        let output = place.run(&options, &["busybox", "sh", "-c", script]);
        let listed = "/home:\nu\n\n/home/u:\ndeep\n\n/home/u/deep:\np\n\n/home/u/deep/p:\nfile\n\n\
                      /opt:\ntool\n\n/opt/tool:\nfile\n";
        assert!(output.stdout.starts_with(listed), "{output:#?}");
        assert_eq!(output.stdout.ends_with("kept\n"), !place.is_roots(), "{output:#?}");
        assert_eq!(output.stderr.matches("Read-only file system").count(), 3, "{output:#?}");
        // Nothing is made on the host.
        assert!(names(root.join("home")).is_empty() && names(root.join("opt")).is_empty());
        // Where it is not empty, it stays what it is; and nothing takes the place of libraries.
        directory(root.join("home/theirs"));
        for (target, code) in [("/home/u/p", "mount-target-missing"), ("/lib32/x", "mount-target-missing")] {
            let bind = format!("ws:{target}");
            place.run(&["--json", "--rootfs", "root", "--bind", &bind], &["true"]).fails(125, code);
        }
    }
}

#[test]
fn a_root_must_have_programs_and_be_nobodys_to_write() {
    for place in Place::each() {
        let root = root(&place);
        copy_loader(&place.env, &root);
        directory(place.work("empty/home"));
        file(place.work("file"), "");
        let store = place.env.root().to_str().unwrap().to_owned();
        let above = place.env.root().parent().unwrap().to_str().unwrap().to_owned();
        for (options, code) in [
            (&["--rootfs", "none"][..], "rootfs-not-found"),
            (&["--rootfs", "file"], "rootfs-not-a-directory"),
            (&["--rootfs", "empty"], "rootfs-empty"),
            (&["--rootfs", &store], "rootfs-empty"),
            (&["--rootfs", "root", "--workspace", "root"], "rootfs-writable"),
            (&["--rootfs", "root", "--bind", "root/etc:/mnt/x"], "rootfs-writable"),
            (&["--rootfs", "root", "--extensions", "."], "rootfs-writable"),
            (&["--rootfs", "root", "--sandbox", "landlock", "--require", "read-only"], "sandbox-cannot"),
            (&["--rootfs", "root", "--skills-dir", "/etc/skills"], "mount-target-reserved"),
        ] {
            let options = [&["--json"], options].concat();
            let output = place.run(&options, &["busybox", "echo", "started"]);
            output.fails(125, code);
            assert_eq!(output.stdout, "");
        }
        // With programs beside it, the store would be seen.
        directory(place.env.root().parent().unwrap().join("usr"));
        copy_loader(&place.env, Path::new(&above));
        place.run(&["--json", "--rootfs", &above], &["true"]).fails(125, "bind-store");
    }
}

/// A build that needs a loader cannot be the first process where there is none.
#[test]
fn the_programs_own_loader_must_be_there() {
    for place in Place::each() {
        root(&place);
        let headers = Output::of(Command::new("ldd").arg(place.env.program()));
        let is_static = !headers.stdout.contains("ld-linux");
        let output = place.run(&["--json", "--rootfs", "root"], &["busybox", "echo", "started"]);
        if is_static {
            assert_eq!(output.ok(), "started\n");
        } else {
            let error = output.fails(125, "rootfs-loader");
            assert!(error["hint"].as_str().unwrap().contains("static"), "{error}");
            assert_eq!(output.stdout, "");
            // The libraries are missed later, by the loader itself.
            let loader = headers
                .stdout
                .split_whitespace()
                .find(|word| word.contains("ld-linux") && word.starts_with('/'));
            let loader = loader.unwrap();
            let copy = place.work("root").join(loader.trim_start_matches('/'));
            directory(copy.parent().unwrap());
            fs::copy(loader, &copy).unwrap();
            set_mode(copy, 0o755);
            let output = place.run(&["--json", "--rootfs", "root"], &["busybox", "echo", "started"]);
            output.fails(125, "program-not-executable");
        }
    }
}
