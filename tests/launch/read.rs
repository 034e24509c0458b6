//! One file of a snapshot, by each of its names.

use std::fs;

use skillfreeze_testing::{Output, file, set_mode};

use super::Place;
use crate::support::{prepare, text};

impl Place {
    fn read(&self, arguments: &[&str]) -> Output {
        self.env.run([&["read", "--snapshot", &self.digest], arguments].concat())
    }
}

#[test]
fn every_name_of_a_file_gives_its_bytes() {
    for place in Place::each() {
        let content = fs::read_to_string(place.snapshot.join("demo/scripts/tool.py")).unwrap();
        let host = format!("{}/demo/scripts/tool.py", place.snapshot.display());
        for alias in [
            "$SKILLS_DIR/demo/scripts/tool.py",
            "${SKILLS_DIR}/demo/scripts/tool.py",
            "/skills/demo/scripts/tool.py",
            "demo/scripts/tool.py",
            &host,
        ] {
            assert_eq!(place.read(&[alias]).ok(), content, "{alias}");
            assert_eq!(place.read(&[alias, "--path"]).ok().trim_end(), host);
        }
        let skill = fs::read_to_string(place.snapshot.join("demo/SKILL.md")).unwrap();
        assert_eq!(place.read(&["demo"]).ok(), skill);
        let own = ["--skills-var", "ACME_SKILLS", "--skills-dir", "/acme"];
        assert_eq!(place.read(&[&["$ACME_SKILLS/demo/SKILL.md"][..], &own].concat()).ok(), skill);
        assert_eq!(
            place.read(&[&["/acme/demo/SKILL.md", "--alias"][..], &own].concat()).ok(),
            "\"$ACME_SKILLS\"/demo/SKILL.md\n"
        );
        // The store's root may be reached through a link.
        let link = place.work("link");
        std::os::unix::fs::symlink(place.env.root(), &link).unwrap();
        let hex = place.digest.strip_prefix("sha256:").unwrap();
        let through = format!("{}/snapshots/sha256/{hex}/demo/SKILL.md", link.display());
        for alias in [&through, &host.replace("scripts/tool.py", "SKILL.md")] {
            assert_eq!(place.read(&["--root", link.to_str().unwrap(), alias]).ok(), skill, "{alias}");
        }
        let json = place.read(&["demo", "--json"]).json();
        assert_eq!((text(&json["text"]), text(&json["file"])), (skill, "SKILL.md".to_owned()));
        assert_eq!(text(&json["path"]), format!("{}/demo/SKILL.md", place.snapshot.display()));
        assert!(place.read(&["demo", "--json", "--path"]).json().get("text").is_none());
    }
}

#[test]
fn an_alias_is_one_word_that_runs_unchanged_in_a_sandbox_and_on_the_host() {
    for place in Place::each() {
        let odd = "a b/it's $HOME `id` ;#.sh";
        file(place.work("src/demo").join(odd), "echo \"ran $1\"\n");
        let (digest, snapshot) = prepare(&place.env, "src");
        let alias = place.env.run(["read", "--snapshot", &digest, "--alias", &format!("/skills/demo/{odd}")]);
        let script = format!("sh {} now", alias.ok().trim_end());
        let inside = place.env.run(["run", &digest, "--", "sh", "-c", &script]);
        assert_eq!(inside.ok(), "ran now\n");
        let mut outside = place.env.command_of("sh", ["-c", &script]);
        assert_eq!(Output::of(outside.env("SKILLS_DIR", &snapshot)).ok(), "ran now\n");
    }
}

#[test]
fn bytes_that_are_no_text_come_out_as_they_are() {
    for place in Place::each() {
        let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
        fs::write(place.work("src/demo/data.bin"), &bytes).unwrap();
        let (digest, _) = prepare(&place.env, "src");
        let arguments = ["read", "--snapshot", &digest, "$SKILLS_DIR/demo/data.bin"];
        let output = place.env.command(arguments).output().unwrap();
        assert!(output.status.success() && output.stdout == bytes);
        let json = place.env.run([&arguments[..], &["--json"]].concat()).json();
        assert!(json.get("text").is_none() && json["size"] == 70_000, "{json}");
    }
}

#[test]
fn nothing_is_printed_of_what_is_not_as_it_was_frozen() {
    for place in Place::each() {
        let tool = place.snapshot.join("demo/scripts/tool.py");
        set_mode(&tool, 0o644);
        fs::write(&tool, "NAME = 'fool'\n").unwrap();
        for option in [&[][..], &["--path"], &["--alias"]] {
            let refused = place.read(&[&["/skills/demo/scripts/tool.py", "--json"], option].concat());
            assert_eq!(refused.stdout, "");
            let error = refused.fails(3, "integrity");
            assert!(error["details"]["faults"].to_string().contains("wrong-hash"), "{error}");
        }
        // The others are as they were.
        place.read(&["demo"]).ok();
        set_mode(place.snapshot.join("demo/SKILL.md"), 0o644);
        place.read(&["demo"]).ok();
        let error = place.read(&["demo", "--path", "--json"]).fails(3, "integrity");
        assert!(error["details"]["faults"].to_string().contains("wrong-mode"), "{error}");
        // A link is not followed, whatever it leads to.
        let scripts = place.snapshot.join("demo/scripts");
        set_mode(&scripts, 0o755);
        fs::remove_file(&tool).unwrap();
        fs::write(place.work("same"), "NAME = 'tool'\n").unwrap();
        std::os::unix::fs::symlink(place.work("same"), &tool).unwrap();
        let error = place.read(&["/skills/demo/scripts/tool.py", "--json"]).fails(3, "integrity");
        assert!(error["details"]["faults"].to_string().contains("wrong-type"), "{error}");
        let manifest = place.snapshot.join(".snapshot.json");
        set_mode(&place.snapshot, 0o755);
        set_mode(&manifest, 0o644);
        fs::write(&manifest, "{}").unwrap();
        place.read(&["demo", "--json"]).fails(3, "integrity");
    }
}

#[test]
fn what_is_no_frozen_file_is_refused_by_name() {
    for place in Place::each() {
        for (alias, status, code) in [
            ("$SKILLS_DIR/../format.json", 2, "path-escape"),
            ("/skills/demo/../../../etc/passwd", 2, "path-escape"),
            ("/etc/passwd", 2, "path-escape"),
            ("/skills//demo/SKILL.md", 2, "path-component"),
            ("/skills/demo/./SKILL.md", 2, "path-component"),
            ("/skills/demo/none", 4, "not-found"),
            ("/skills/demo", 4, "not-found"),
            ("none", 4, "not-found"),
            ("$OTHER/demo/SKILL.md", 2, "alias-unknown"),
            ("./demo/SKILL.md", 2, "alias-unknown"),
            ("demo/../../../etc/passwd", 2, "path-escape"),
            ("demo//SKILL.md", 2, "path-component"),
            ("other/SKILL.md", 4, "not-found"),
        ] {
            let refused = place.read(&[alias, "--json"]);
            assert_eq!(refused.stdout, "", "{alias}");
            let error = refused.fails(status, code);
            assert!(text(&error["message"]).contains(alias) && error["hint"].is_string(), "{error}");
        }
        let path = place.snapshot.to_str().unwrap();
        place.env.run(["read", "demo", "--snapshot", path, "--json"]).fails(2, "usage");
        place.env.run(["read", "demo", "--snapshot", path, "--digest", &place.digest]).ok();
    }
}

#[test]
fn names_that_no_shell_or_sandbox_can_have_are_refused() {
    for place in Place::each() {
        for (option, name, code) in [
            ("--skills-var", "X$(id)", "environment-name"),
            ("--skills-var", "", "environment-name"),
            ("--skills-var", "PATH", "environment-name"),
            ("--skills-var", "LD_PRELOAD", "environment-name"),
            ("--skills-dir", "/", "mount-target-reserved"),
            ("--skills-dir", "skills", "mount-target-invalid"),
        ] {
            let arguments = ["read", "demo", "--json", "--snapshot", &place.digest, option, name];
            place.env.run(arguments).fails(2, code);
            if option == "--skills-var" {
                let seal = ["seal", "--json", &place.digest, option, name, "--", "echo", "started"];
                let output = place.env.run(seal);
                output.fails(125, code);
                assert_eq!(output.stdout, "");
            }
        }
    }
}
