//! The command line itself: help, the environment, what goes where.

use skillfreeze_testing::{Output, Runner, file, package};

use crate::support::{environment, text};

/// All help texts, so that a change of any of them is seen and meant.
#[test]
fn help_texts() {
    let env = environment(Runner::available()[0]);
    let mut all = String::new();
    let everyday = ["", "list", "show", "validate", "prepare", "run", "verify", "doctor"];
    let verbs =
        everyday.iter().chain(&["plan", "read"]).chain(&["add", "enable", "disable", "completions"]).copied();
    for verb in verbs {
        let arguments: Vec<&str> = if verb.is_empty() { vec!["--help"] } else { vec![verb, "--help"] };
        let help = env.run(&arguments);
        all.push_str(&format!("$ skillfreeze {}\n{}\n", arguments.join(" "), help.ok()));
    }
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("help", all);
    });
}

#[test]
fn options_come_from_the_environment_after_the_command_line() {
    let env = environment(Runner::available()[0]);
    package(env.work().join("a"), "in-a");
    package(env.work().join("b"), "in-b");
    let listed =
        Output::of(env.command(["list"]).env("SKILLFREEZE_JSON", "true").env("SKILLFREEZE_SOURCE", "a"));
    assert_eq!(text(&listed.json()["skills"][0]["id"]), "in-a");
    let listed = Output::of(env.command(["list", "--json", "--source", "b"]).env("SKILLFREEZE_SOURCE", "a"));
    assert_eq!(text(&listed.json()["skills"][0]["id"]), "in-b");
}

#[test]
fn data_is_on_standard_output_and_talk_on_standard_error() {
    let env = environment(Runner::available()[0]);
    package(env.work().join("src"), "good");
    package(env.work().join("src"), "bad");
    std::fs::write(env.work().join("src/bad/SKILL.md"), "no front matter").unwrap();
    let prepared = env.run(["prepare", "--source", "src"]);
    let digest = prepared.ok().trim();
    assert!(digest.starts_with("sha256:") && digest.len() == 71, "the digest alone: {digest}");
    assert!(prepared.stderr.contains("left out: src/bad: ") && prepared.stderr.contains("fm-missing"));
    let quiet = env.run(["prepare", "--quiet", "--source", "src"]);
    assert_eq!((quiet.ok().trim(), quiet.stderr.as_str()), (digest, ""));
    let failed = env.run(["verify", "sha256:000000000000"]);
    assert_eq!((failed.status, failed.stdout.as_str()), (4, ""));
    assert!(
        failed.stderr.starts_with("error: there is no snapshot sha256:000000000000 in"),
        "{}",
        failed.stderr
    );
    assert!(failed.stderr.contains("\nhint: "), "{}", failed.stderr);
}

/// A package could otherwise clear the screen, or hide what it is called.
#[test]
fn text_of_packages_cannot_steer_a_terminal() {
    let env = environment(Runner::available()[0]);
    let package = package(env.work().join("src"), "sly");
    let text = "---\nname: sly\ndescription: \"a\\u202Eb\"\nx: 1\n---\n";
    std::fs::write(package.join("SKILL.md"), text).unwrap();
    std::fs::write(package.join("\u{1b}[31m"), "").unwrap();
    for arguments in [&["list", "--skipped", "--source", "src"][..], &["prepare", "--source", "src", "sly"]] {
        let output = env.run(arguments);
        let printed = format!("{}{}", output.stdout, output.stderr);
        assert!(printed.contains("sly"));
        assert!(!printed.contains(['\u{1b}', '\u{202e}']), "{printed:?}");
    }
}

/// Whoever reads standard error line by line must be able to take each for the program's own.
#[test]
fn names_make_no_lines_of_their_own() {
    const FORGED: &str = "\nwarning: forged\nerror: forged\nhint: forged\nleft out: forged\r\ninfo: forged";
    let labels = ["warning", "error", "hint", "left out", "info"];
    let skill = "---\nname: ok\ndescription: Use when: asked\n---\n";
    for runner in Runner::available() {
        let env = environment(*runner);
        let source = format!("src{FORGED}");
        let place = |name: &str| env.work().join(&source).join(format!("{name}{FORGED}"));
        file(place("misnamed").join("SKILL.md"), skill);
        file(place("shadowed").join("SKILL.md"), skill.replace("asked", "told"));
        file(place("broken").join("SKILL.md"), "no front matter");
        file(place("empty").join("notes"), "x");
        file(place("category").join(format!("deep{FORGED}/SKILL.md")), "no front matter");
        let bytecode = format!("x{FORGED}.pyc");
        file(package(env.work().join(&source), "bytecode").join(bytecode), "x");
        std::os::unix::fs::symlink(format!("nowhere{FORGED}"), place("link")).unwrap();
        let config = format!("conf{FORGED}.toml");
        let root = env.work().join("absent").display().to_string() + FORGED;
        file(env.work().join(&config), format!("[[source]]\nid = \"own\"\nroot = {root:?}\n"));
        file(env.work().join("faulty\nerror: forged.toml"), "x");
        let (absent, nested) = (format!("absent{FORGED}"), ["--layout", "nested"]);
        for (arguments, mentions) in [
            (&["list", "--verbose", "--source", &source][..], "misnamed"),
            (&["list", "--verbose", "--source", &source, nested[0], nested[1]], "misnamed"),
            (&["list", "--source", &absent], "absent"),
            (&["list", "--config", &config], "absent"),
            (&["list", "--config", "faulty\nerror: forged.toml"], "faulty"),
            (&["list", "--config", &absent], "absent"),
            (&["validate", "--verbose", &source], "empty"),
            (&["validate", &absent], "absent"),
            (&["validate", "--config", &config], "absent"),
            (&["prepare", "--source", &source], "broken"),
            (&["prepare", "--source", &source, nested[0], nested[1]], "deep"),
            (&["prepare", "--source", &source, "bytecode"], "x"),
            (&["prepare", "--source", &absent], "absent"),
            (&["prepare", &absent], "absent"),
            (&["prepare", "--selection", &absent], "absent"),
        ] {
            let said = env.run(arguments).stderr;
            assert!(said.contains(&format!("{mentions}\\n")), "{arguments:?}: {said}");
            let is_forged =
                |line: &str| labels.iter().any(|label| line.starts_with(&format!("{label}: forged")));
            assert!(!said.lines().any(is_forged), "{arguments:?}: {said}");
            assert!(!said.contains('\r'), "{arguments:?}: {said:?}");
        }
    }
}

/// Wherever a finding about front matter is printed, its line is shown.
#[test]
fn a_finding_shows_its_line() {
    let env = environment(Runner::available()[0]);
    package(env.work().join("src"), "recovered");
    package(env.work().join("src"), "twice");
    let write = |path: &str, text: &str| std::fs::write(env.work().join(path), text).unwrap();
    write("src/recovered/SKILL.md", "---\nname: recovered\ndescription: Use when: asked\n---\n");
    write("src/twice/SKILL.md", "---\nname: twice\nname: b\ndescription: d\n---\n");
    let recovered =
        "(fm-recovered)\n  |\n3 | description: Use when: asked\n  |                      ^\n  |\n  = hint: ";
    let twice = "\n  |\n3 | name: b\n  | ^\n";
    let listed = env.run(["list", "--source", "src", "--skipped"]);
    assert!(listed.ok().contains(&format!("(fm-dup-key){twice}")), "{}", listed.stdout);
    assert!(listed.stderr.contains(recovered), "{}", listed.stderr);
    let prepared = env.run(["prepare", "--source", "src"]);
    assert!(prepared.stderr.contains(recovered), "{}", prepared.stderr);
    assert!(prepared.stderr.contains(&format!("(fm-dup-key){twice}")), "{}", prepared.stderr);
    for arguments in [&["add", "src/twice"][..], &["prepare", "twice", "--source", "src"]] {
        let failed = env.run(arguments);
        assert_eq!(failed.status, 6);
        let fault =
            format!("  fault: fm-dup-key SKILL.md:3:1 the key `name` stands twice, first at 2:1{twice}");
        assert!(failed.stderr.contains(&fault), "{}", failed.stderr);
    }
    for arguments in [&["list", "--source", "src"][..], &["prepare", "--source", "src"]] {
        let quiet = env.run([arguments, &["--quiet"]].concat());
        assert_eq!((quiet.status, quiet.stderr.as_str()), (0, ""));
    }
}

#[test]
fn colours_are_for_who_wants_them() {
    let env = environment(Runner::available()[0]);
    let failed = |color: &str, no_color: bool| {
        let mut command = env.command(["show", "absent", "--color", color]);
        if no_color {
            command.env("NO_COLOR", "1");
        }
        Output::of(&mut command).stderr.contains("\u{1b}[")
    };
    assert!(!failed("auto", false) && !failed("never", false) && failed("always", false));
    assert!(!failed("auto", true));
}

#[test]
fn a_reader_that_has_gone_is_no_fault() {
    let env = environment(Runner::available()[0]);
    for number in 0..50 {
        package(env.work().join("src"), &format!("skill-{number}"));
    }
    let script = "set -o pipefail; \"$0\" list --json --source src | true";
    let output = Output::of(&mut env.command_of("bash", ["-c", script, env.program().to_str().unwrap()]));
    assert_eq!((output.status, output.stderr.as_str()), (0, ""));
}

#[test]
fn completions_are_for_each_shell() {
    let env = environment(Runner::available()[0]);
    for shell in ["bash", "zsh", "fish"] {
        assert!(env.run(["completions", shell]).ok().contains("prepare"), "{shell}");
    }
    let script = env.run(["completions", "bash"]);
    let checked = Output::of(&mut env.command_of("bash", ["-nc", script.ok()]));
    assert_eq!((checked.status, checked.stderr.as_str()), (0, ""));
}

#[test]
fn the_store_is_where_the_environment_says() {
    let env = environment(Runner::available()[0]);
    package(env.work().join("src"), "demo");
    let path = |variables: &[(&str, &str)]| {
        let mut command = env.command(["prepare", "--json", "--source", "src"]);
        command.env_remove("SKILLFREEZE_ROOT").envs(variables.iter().copied());
        let path = text(&Output::of(&mut command).json()["path"]);
        path.split("/snapshots/").next().unwrap_or_default().to_owned()
    };
    let home = env.home().to_str().unwrap();
    assert_eq!(path(&[]), format!("{home}/.local/state/skillfreeze"));
    let state = format!("{home}/state");
    assert_eq!(path(&[("XDG_STATE_HOME", &state)]), format!("{state}/skillfreeze"));
    // The XDG specification: a relative path is to be ignored.
    assert_eq!(path(&[("XDG_STATE_HOME", "relative")]), format!("{home}/.local/state/skillfreeze"));
    let mut command = env.command(["list", "--json"]);
    command.env_remove("SKILLFREEZE_ROOT").env_remove("HOME");
    Output::of(&mut command).fails(2, "usage");
}

/// A collection of some hundred packages has some thousand of them.
#[test]
fn what_only_an_author_can_mend_is_counted() {
    let env = environment(Runner::available()[0]);
    let skill = "---\nname: demo\ndescription: Use when: asked\ncolour: red\nshape: round\n---\n";
    file(env.work().join("src/demo/SKILL.md"), skill);
    for arguments in [&["list", "--source", "src"][..], &["prepare", "--source", "src"]] {
        let said = env.run(arguments).stderr;
        assert!(said.contains("2 notes for authors") && !said.contains("unknown-key"), "{said}");
        assert!(said.contains("SKILL.md:3:22") && said.contains("fm-recovered"), "{said}");
        let said = env.run([arguments, &["--verbose"]].concat()).stderr;
        assert!(said.contains("SKILL.md:4:1") && !said.contains("for authors"), "{said}");
        assert_eq!(env.run([arguments, &["--quiet"]].concat()).stderr, "");
    }
}
