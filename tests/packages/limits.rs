//! Limits: what is at one is taken, what is over it is refused with its number.

use std::fs;
use std::path::Path;

use skillfreeze_testing::{Runner, directory, file, package};

use super::{Refusal, all_refuse, pairs, takes};
use crate::support::{codes, environment, text};

/// A file of zeros that takes no room; limits are about the length.
fn sparse(path: impl AsRef<Path>, bytes: u64) {
    file(&path, "");
    fs::File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

fn skill(description: &str, body: &str) -> String {
    format!("---\nname: demo\ndescription: {description}\n---\n{body}")
}

/// A package over a limit.
type Case<'a> = (&'a str, &'a dyn Fn(&Path), Refusal<'a>);

#[test]
fn files_and_bytes_and_depth_have_limits() {
    let deep = |components: usize| vec!["d"; components].join("/");
    let too_deep = deep(33);
    let at_the_deepest = [("limit-depth", too_deep.as_str())];
    let table: &[Case<'_>] = &[
        (
            "a large file",
            &|demo| sparse(demo.join("big"), (64 << 20) + 1),
            Refusal::found_by_add(&[("limit-file-bytes", "big")]),
        ),
        (
            "a large package",
            &|demo| (0..5).for_each(|number| sparse(demo.join(number.to_string()), 52 << 20)),
            Refusal::found_by_add(&[("limit-package-bytes", "")]),
        ),
        ("a deep path", &|demo| file(demo.join(&too_deep), "x"), Refusal::found_by_add(&at_the_deepest)),
        (
            "a large skill file",
            &|demo| file(demo.join("SKILL.md"), skill("d", &"x".repeat(1 << 20))),
            Refusal::found_by_scan(
                &[("limit-skill-bytes", "SKILL.md")],
                &[("limit-skill-bytes", "SKILL.md")],
            ),
        ),
        (
            "a large front matter",
            &|demo| file(demo.join("SKILL.md"), skill(&"x".repeat(64 << 10), "")),
            Refusal::front_matter(&[("fm-too-large", "SKILL.md")]),
        ),
    ];
    for (what, make, expected) in table {
        all_refuse(what, make, *expected);
    }
    let taken = takes(Runner::available()[0], |demo| {
        file(demo.join(deep(32)), "x");
        let head = skill("d", "");
        file(demo.join("SKILL.md"), format!("{head}{}", "x".repeat((1 << 20) - head.len())));
    });
    assert_eq!(taken.paths(), ["SKILL.md".to_owned(), deep(32)]);
    assert_eq!(taken.said("skill-md-large"), ["SKILL.md"]);
}

/// A scan reads metadata only, so it lists what is wrong further down as sound.
#[test]
fn a_body_that_is_not_text_is_refused_when_the_package_is_read() {
    let make = |demo: &Path| {
        file(demo.join("SKILL.md"), [skill("d", &"x".repeat(100_000)).as_bytes(), b"\xff"].concat());
    };
    let faults = [("not-utf8", "SKILL.md")];
    let expected = Refusal { status: 6, code: "invalid", faults: &faults, scan: None };
    all_refuse("not text", make, expected);
}

/// Its author hears of it all at once.
#[test]
fn faults_of_files_and_of_the_front_matter_are_told_together() {
    let env = environment(Runner::available()[0]);
    let demo = env.work().join("demo");
    file(demo.join("SKILL.md"), "---\nname: 1\n---\n");
    file(demo.join("x.pyc"), "");
    std::os::unix::fs::symlink("/etc/passwd", demo.join("y")).unwrap();
    let error = env.run(["add", "demo", "--json"]).fails(6, "bytecode");
    let faults = [
        ("bytecode", "x.pyc"),
        ("symlink-escape", "y"),
        ("fm-type", "SKILL.md"),
        ("desc-missing", "SKILL.md"),
    ];
    assert_eq!(pairs(&codes(&error["details"]["faults"])), faults);
}

#[test]
fn the_number_of_files_is_limited_and_a_large_one_warned_of() {
    for (more, taken) in [(511, true), (512, true), (4095, true), (4096, false)] {
        let env = environment(Runner::available()[0]);
        let demo = package(env.work(), "demo");
        (0..more).for_each(|number| fs::write(demo.join(number.to_string()), "").unwrap());
        let added = env.run(["add", "demo", "--json"]);
        if taken {
            let added = added.json()["added"][0].clone();
            assert_eq!(added["files"], more + 1);
            let warned = text(&added["diagnostics"]) + &added["diagnostics"].to_string();
            assert_eq!(warned.contains("large-package"), more > 511);
        } else {
            let error = added.fails(6, "limit-files");
            assert!(text(&error["message"]).contains("4097") && text(&error["message"]).contains("4096"));
        }
    }
}

/// Directories are no content, but a tree of them without end must not be walked to its end.
#[test]
fn dependency_directories_without_files_are_passed_over() {
    let taken = takes(Runner::available()[0], |demo| {
        (0..3000).for_each(|number| directory(demo.join(format!("node_modules/p{number}"))));
    });
    assert_eq!(taken.paths(), ["SKILL.md"]);
    assert_eq!(taken.said("empty-directory-dropped"), ["node_modules"]);
}
