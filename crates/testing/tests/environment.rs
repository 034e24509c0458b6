//! The test environment itself, with other programs in the place of ours.

use skillfreeze_testing::{Output, Runner, TestEnv, file, package, set_mode, tree};

#[test]
fn the_environment_is_cleared_and_the_user_right() {
    for runner in Runner::available() {
        let env = TestEnv::new("/bin/sh", *runner);
        package(env.work(), "demo");
        let run = |script: &str| env.run(["-c", script]).ok().trim().to_owned();
        let mut names: Vec<_> = run("env")
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, _)| name.to_owned())
            .collect();
        names.sort_unstable();
        names.retain(|name| !matches!(name.as_str(), "_" | "OLDPWD" | "PWD" | "SHLVL"));
        assert_eq!(names, ["HOME", "LANG", "PATH", "SKILLFREEZE_ROOT"]);
        assert_eq!(run("id -u") == "0", *runner == Runner::Root);
        assert_eq!(run("id -G"), run("id -g"));
        assert_eq!(run("pwd"), env.work().to_str().unwrap());
        run("touch $HOME/x && mkdir $SKILLFREEZE_ROOT && echo y >> demo/SKILL.md && cat demo/SKILL.md");
        assert!(env.root().is_dir());
        assert_eq!(env.runner(), *runner);
        let removed = env.root().to_owned();
        run("mkdir -p $SKILLFREEZE_ROOT/a/b && chmod -R a-w $SKILLFREEZE_ROOT");
        drop(env);
        assert!(!removed.exists());
    }
}

/// What root builds may lie where the user cannot go.
#[test]
fn a_program_behind_a_closed_directory_is_reached() {
    let closed = tempfile::tempdir().unwrap();
    set_mode(closed.path(), 0o700);
    let program = closed.path().join("program");
    file(&program, "#!/bin/sh\necho \"$@\"\n");
    set_mode(&program, 0o755);
    for runner in Runner::available() {
        let env = TestEnv::new(&program, *runner);
        assert_eq!(env.run(["a", "b"]).ok(), "a b\n");
        assert_eq!(Output::of(env.command(["x"]).arg("y")).stdout, "x y\n");
        assert_eq!(tree(env.work()), "");
        assert!(env.program().ends_with("program"));
        let other = Output::of(&mut env.command_of("id", ["-u"]));
        assert_eq!(other.ok() == "0\n", *runner == Runner::Root);
    }
}
