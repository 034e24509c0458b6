//! Commands that do their work elsewhere: they hand paths to a daemon or to another machine, which does not
//! see what is mounted for the command.
//!
//! The list cannot be whole, and what a shell or a script starts is not looked at: it is there to tell
//! somebody who does not know. Programs that copy files (`scp`, `rsync`) are not on it, for they read the
//! files themselves.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Programs that always do.
const ELSEWHERE: &[&str] = &[
    // Clients of container daemons.
    "docker",
    "docker-compose",
    "nerdctl",
    "ctr",
    "crictl",
    "podman-remote",
    "devcontainer",
    // Containers and machines that others run.
    "lxc",
    "incus",
    "kubectl",
    "oc",
    "limactl",
    "lima",
    "colima",
    "orb",
    "orbctl",
    "multipass",
    "vagrant",
    // The system's and the user's manager of services.
    "systemd-run",
    "systemctl",
    "machinectl",
    "run0",
    "busctl",
    // Servers that may have been there before.
    "tmux",
    "screen",
    "at",
    "batch",
    "crontab",
    // Another machine, which may be this one.
    "ssh",
    "mosh",
    // The way out of a sandbox of Flatpak.
    "flatpak-spawn",
    "host-spawn",
];

/// Variables that make a remote client of `podman`.
const PODMAN_VARIABLES: [&str; 2] = ["CONTAINER_HOST", "CONTAINER_CONNECTION"];
/// Its options that do so.
const PODMAN_OPTIONS: [&str; 3] = ["--remote", "--url", "--connection"];
/// The same, before its own command alone.
const PODMAN_LETTERS: [&str; 2] = ["-r", "-c"];

/// A program that starts the command which its arguments name.
struct Wrapper {
    name: &'static str,
    /// Letters of options with a value.
    letters: &'static str,
    /// Long options with a value, which may be the next word.
    long: &'static [&'static str],
    /// Words between the options and the command.
    operands: usize,
}

const fn wrapper(
    name: &'static str,
    letters: &'static str,
    long: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper { name, letters, long, operands }
}

const WRAPPERS: [Wrapper; 10] = [
    wrapper("env", "uC", &["--unset", "--chdir"], 0),
    wrapper("nice", "n", &["--adjustment"], 0),
    wrapper("nohup", "", &[], 0),
    wrapper("timeout", "ks", &["--kill-after", "--signal"], 1),
    wrapper("setsid", "", &[], 0),
    wrapper("stdbuf", "ioe", &["--input", "--output", "--error"], 0),
    wrapper("ionice", "cn", &["--class", "--classdata"], 0),
    wrapper("chrt", "TPD", &["--sched-runtime", "--sched-period", "--sched-deadline"], 1),
    wrapper("time", "fo", &["--format", "--output"], 0),
    wrapper("sudo", "ugphCTRDrtU", &["--user", "--group", "--prompt", "--host", "--chdir", "--chroot"], 0),
];

/// The program of a command that does its work elsewhere, if it is known to.
///
/// `is_set` says which variables the command gets; `canonical` finds a program, through links to it.
pub(crate) fn daemon_of(
    command: &[OsString],
    is_set: &dyn Fn(&str) -> bool,
    canonical: &dyn Fn(&OsStr) -> Option<PathBuf>,
) -> Option<String> {
    let mut words: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut assigned: Vec<String> = Vec::new();
    loop {
        let program = words.first()?.clone();
        let typed = name_of(Path::new(&program));
        let found = canonical(OsStr::new(&program)).and_then(|path| name_of(&path));
        let names: Vec<&str> = typed.iter().chain(&found).map(String::as_str).collect();
        if names.iter().any(|name| ELSEWHERE.contains(name)) {
            return Some(program);
        }
        let is_set = |name: &&str| is_set(name) || assigned.iter().any(|assigned| assigned == name);
        if names.contains(&"podman") {
            let is_remote = PODMAN_VARIABLES.iter().any(is_set) || asks_for_remote(&words[1..]);
            return is_remote.then_some(program);
        }
        // As typed alone: a program of many names, such as busybox, is what it is called.
        let wrapper = WRAPPERS.iter().find(|wrapper| typed.as_deref() == Some(wrapper.name))?;
        words = wrapped(wrapper, words.split_off(1), &mut assigned);
    }
}

fn name_of(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

/// The command that a wrapper starts, from its arguments; what they assign is added to `assigned`.
fn wrapped(wrapper: &Wrapper, arguments: Vec<String>, assigned: &mut Vec<String>) -> Vec<String> {
    let mut rest = VecDeque::from(arguments);
    while let Some(option) = next_if(&mut rest, |word| word.starts_with('-')) {
        if option == "--" {
            break;
        }
        if let Some(text) = split_string(wrapper, &option, &mut rest) {
            for word in text.split_ascii_whitespace().rev() {
                rest.push_front(word.to_owned());
            }
        } else if wrapper.takes_next(&option) {
            rest.pop_front();
        }
    }
    let mut operands = wrapper.operands;
    let is_number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
    while operands > 0 && next_if(&mut rest, is_number).is_some() {
        operands -= 1;
    }
    while let Some(assignment) = next_if(&mut rest, |word| wrapper.assigns() && word.contains('=')) {
        assigned.extend(assignment.split('=').next().map(str::to_owned));
    }
    rest.into()
}

fn next_if(words: &mut VecDeque<String>, is_meant: impl Fn(&str) -> bool) -> Option<String> {
    if words.front().is_some_and(|word| is_meant(word)) { words.pop_front() } else { None }
}

impl Wrapper {
    fn assigns(&self) -> bool {
        matches!(self.name, "env" | "sudo")
    }

    /// Whether the value of an option is the next word.
    fn takes_next(&self, option: &str) -> bool {
        if option.starts_with("--") {
            return self.long.contains(&option);
        }
        // The first letter with a value takes what is left of the word, if anything is.
        let with_value = option[1..].find(|letter| self.letters.contains(letter));
        with_value.is_some_and(|at| at + 2 == option.len())
    }
}

/// The text that `env -S` splits into words.
fn split_string(wrapper: &Wrapper, option: &str, rest: &mut VecDeque<String>) -> Option<String> {
    if wrapper.name != "env" {
        return None;
    }
    let glued = option.strip_prefix("--split-string=").or_else(|| option.strip_prefix("-S"));
    match glued {
        Some("") => rest.pop_front(),
        None if option == "--split-string" => rest.pop_front(),
        glued => glued.map(str::to_owned),
    }
}

fn asks_for_remote(arguments: &[String]) -> bool {
    let is_long = |word: &String| PODMAN_OPTIONS.iter().any(|option| word.split('=').next() == Some(option));
    let before = arguments.iter().take_while(|word| word.starts_with('-'));
    let is_letter = |word: &String| PODMAN_LETTERS.contains(&word.as_str());
    arguments.iter().any(is_long) || before.into_iter().any(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_works_elsewhere_is_known() {
        let canonical = |program: &OsStr| (program == "mydocker").then(|| PathBuf::from("/usr/bin/docker"));
        for (command, expected) in [
            ("docker run -v x:y z", Some("docker")),
            ("/usr/bin/docker ps", Some("/usr/bin/docker")),
            ("mydocker run", Some("mydocker")),
            ("docker-compose up", Some("docker-compose")),
            ("systemd-run --user x", Some("systemd-run")),
            ("ssh localhost cat x", Some("ssh")),
            ("tmux new x", Some("tmux")),
            ("kubectl cp x y", Some("kubectl")),
            // What reads files itself.
            ("cat docker", None),
            ("scp x host:y", None),
            ("rsync -a x host:y", None),
            ("bwrap --ro-bind / / -- x", None),
            ("sh -c docker", None),
            ("podman run x", None),
            ("podman run -c 512 x", None),
            ("podman --log-level debug run x", None),
            ("podman --remote run x", Some("podman")),
            ("podman --log-level debug --remote=true run x", Some("podman")),
            ("podman -r run x", Some("podman")),
            ("podman --url=unix:/x run x", Some("podman")),
            ("podman --connection c run x", Some("podman")),
            ("podman-remote run x", Some("podman-remote")),
            // Behind others.
            ("env docker", Some("docker")),
            ("env -i -u C A=b D=e docker", Some("docker")),
            ("env -iu C A=b docker", Some("docker")),
            ("env -uC docker", Some("docker")),
            ("env - -- docker", Some("docker")),
            ("env --unset=C --chdir /x docker", Some("docker")),
            ("env -u docker cat", None),
            ("env CONTAINER_HOST=x podman run", Some("podman")),
            ("env A=docker cat", None),
            ("/usr/bin/env nice -n 5 nohup docker", Some("docker")),
            ("nice -5 docker", Some("docker")),
            ("timeout -k 5 --signal=TERM 10 docker", Some("docker")),
            ("timeout --foreground 10s docker", Some("docker")),
            ("setsid -w docker", Some("docker")),
            ("stdbuf -oL -e 0 docker", Some("docker")),
            ("ionice -c3 docker", Some("docker")),
            ("ionice -c 2 -n 0 docker", Some("docker")),
            ("chrt -i 0 docker", Some("docker")),
            ("chrt --idle docker", Some("docker")),
            ("time -f %e docker", Some("docker")),
            ("sudo -u root A=b docker", Some("docker")),
            ("env", None),
            ("timeout", None),
        ] {
            let words: Vec<OsString> = command.split(' ').map(OsString::from).collect();
            assert_eq!(daemon_of(&words, &|_| false, &canonical).as_deref(), expected, "{command}");
        }
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let split = [
            &["env", "-S", "A=b docker run"][..],
            &["env", "--split-string=docker run"],
            &["env", "-Sdocker"],
        ];
        for split in split.map(words) {
            assert_eq!(daemon_of(&split, &|_| false, &canonical).as_deref(), Some("docker"), "{split:?}");
        }
        let is_remote = |name: &str| name == "CONTAINER_HOST";
        assert_eq!(daemon_of(&words(&["podman", "ps"]), &is_remote, &canonical).as_deref(), Some("podman"));
        assert_eq!(daemon_of(&[], &is_remote, &canonical), None);
    }
}
