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

const WRAPPERS: [Wrapper; 27] = [
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
    wrapper("busybox", "", &[], 0),
    wrapper("xargs", "adEILnPs", XARGS, 0),
    wrapper("flock", "wE", &["--timeout", "--wait", "--conflict-exit-code"], 1),
    wrapper("taskset", "", &[], 1),
    wrapper("setpriv", "", SETPRIV, 0),
    wrapper("prlimit", "o", &["--output"], 0),
    wrapper("chroot", "", &["--userspec", "--groups"], 1),
    wrapper("runuser", "ugG", &["--user", "--group", "--supp-group"], 0),
    wrapper(
        "unshare",
        "RwSG",
        &["--root", "--wd", "--setuid", "--setgid", "--propagation", "--setgroups"],
        0,
    ),
    wrapper("nsenter", "tSG", &["--target", "--setuid", "--setgid"], 0),
    wrapper("setarch", "", &[], 1),
    wrapper("linux32", "", &[], 0),
    wrapper("linux64", "", &[], 0),
    wrapper("strace", "abeoOPpsSuUEIX", &["--output", "--trace", "--user", "--env", "--string-limit"], 0),
    wrapper("choom", "n", &["--adjust"], 0),
    wrapper("su", "", &[], 0),
    wrapper("script", "", &[], 0),
];

const XARGS: &[&str] =
    &["--arg-file", "--delimiter", "--max-args", "--max-chars", "--max-procs", "--process-slot-var"];
const SETPRIV: &[&str] = &[
    "--ambient-caps",
    "--inh-caps",
    "--bounding-set",
    "--ruid",
    "--euid",
    "--reuid",
    "--rgid",
    "--egid",
    "--regid",
    "--groups",
    "--securebits",
    "--pdeathsig",
    "--selinux-label",
    "--apparmor-profile",
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
    if wrapper.starts_text_alone() {
        // Its other words are a user or a file.
        let text = arguments.iter().skip_while(|word| *word != "-c" && *word != "--command").nth(1);
        return text.map(|text| words_of(text)).unwrap_or_default();
    }
    let mut rest = VecDeque::from(arguments);
    while let Some(option) = next_if(&mut rest, |word| word.starts_with('-')) {
        if option == "--" {
            break;
        }
        if let Some(text) = split_string(wrapper, &option, &mut rest) {
            for word in words_of(&text).into_iter().rev() {
                rest.push_front(word);
            }
        } else if wrapper.takes_next(&option) {
            rest.pop_front();
        }
    }
    let mut operands = wrapper.operands;
    // The priority may be left out.
    let is_operand =
        |word: &str| wrapper.name != "chrt" || word.starts_with(|first: char| first.is_ascii_digit());
    while operands > 0 && next_if(&mut rest, is_operand).is_some() {
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

    /// Whether it starts the text of its option `-c`, or else a shell.
    fn starts_text_alone(&self) -> bool {
        matches!(self.name, "su" | "script")
    }

    /// Whether the value of an option is the next word.
    fn takes_next(&self, option: &str) -> bool {
        if option.starts_with("--") {
            // A long option may be cut short.
            return self.long.iter().any(|long| long.starts_with(option));
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
    if let Some(long) = option.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let is_split = !name.is_empty() && "split-string".starts_with(name);
        return if is_split { value.map(str::to_owned).or_else(|| rest.pop_front()) } else { None };
    }
    // Behind letters without a value.
    let glued = option.trim_start_matches(['-', 'i', 'v', '0']).strip_prefix('S')?;
    if glued.is_empty() { rest.pop_front() } else { Some(glued.to_owned()) }
}

/// The words of a text with quotes, which may be in the middle of a word.
fn words_of(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in text.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if matches!(letter, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_ascii_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
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
            ("timeout .5 docker", Some("docker")),
            ("timeout inf docker", Some("docker")),
            ("timeout --kill 5 10 docker", Some("docker")),
            ("nice --adj 5 docker", Some("docker")),
            ("busybox timeout 5 docker", Some("docker")),
            ("xargs -n 1 docker", Some("docker")),
            ("flock -w 5 lock docker", Some("docker")),
            ("taskset -c 0 docker", Some("docker")),
            ("setpriv --reuid 5 --no-new-privs docker", Some("docker")),
            ("prlimit --nofile=5 docker", Some("docker")),
            ("chroot --userspec=a:b / docker", Some("docker")),
            ("runuser -u x -- docker", Some("docker")),
            ("unshare -r --wd / docker", Some("docker")),
            ("nsenter -t 1 -m docker", Some("docker")),
            ("setarch x86_64 docker", Some("docker")),
            ("linux64 docker", Some("docker")),
            ("strace -f -o log docker", Some("docker")),
            ("choom -n 5 -- docker", Some("docker")),
            ("su docker", None),
            ("su root -c docker", Some("docker")),
            ("script -q -c docker log", Some("docker")),
            ("flock docker cat", None),
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
            &["env", "-iS", "docker x"],
            &["env", "-vS", "docker x"],
            &["env", "-S", "\"docker\" x"],
            &["env", "-S", "FOO=\"a b\" docker x"],
            &["env", "--split=docker x"],
            &["su", "-c", "docker x"],
        ];
        for split in split.map(words) {
            assert_eq!(daemon_of(&split, &|_| false, &canonical).as_deref(), Some("docker"), "{split:?}");
        }
        let is_remote = |name: &str| name == "CONTAINER_HOST";
        assert_eq!(daemon_of(&words(&["podman", "ps"]), &is_remote, &canonical).as_deref(), Some("podman"));
        assert_eq!(daemon_of(&[], &is_remote, &canonical), None);
    }
}
