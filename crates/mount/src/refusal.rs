//! What bubblewrap's refusals mean.

/// What a message of bubblewrap means, and what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The stable code.
    pub code: &'static str,
    /// What is the matter, in a sentence.
    pub sentence: &'static str,
    /// What mends it.
    pub fix: &'static str,
}

/// The code of what the command's user cannot reach.
pub(crate) const UNREACHABLE: &str = "bind-unreachable";

/// What mends a limit on processes.
pub const PROCESS_LIMIT: &str =
    "raise the limit of processes (`ulimit -u`, or the control group's `pids.max`), or end some";

/// Messages of bubblewrap by a part that its versions share; the first that fits counts.
const REFUSALS: [(&str, Refusal); 12] = [
    (
        "Resource temporarily unavailable",
        Refusal {
            code: "process-limit",
            sentence: "no more processes may be started here",
            fix: PROCESS_LIMIT,
        },
    ),
    (
        "setting up uid map: Permission denied",
        Refusal {
            code: "userns-restricted",
            sentence: "this system lets only named programs create user namespaces",
            fix: "give bubblewrap an AppArmor profile with `userns,` (Ubuntu ships one as `bwrap-userns-restrict`), or set kernel.apparmor_restrict_unprivileged_userns=0",
        },
    ),
    (
        // An address, or the link itself.
        "loopback: Failed RTM_NEW",
        Refusal {
            code: "network-restricted",
            sentence: "this system does not let a user namespace set up its own network",
            fix: "give bubblewrap an AppArmor profile with `userns,`, or run with `--network host`",
        },
    ),
    (
        // "create a new", "create new" or "creating new namespace", by version.
        "No permissions to creat",
        Refusal {
            code: "userns-disabled",
            sentence: "this system, or the filter of a container, lets ordinary users create no user namespaces",
            fix: "set kernel.unprivileged_userns_clone=1 (Debian) or user.max_user_namespaces to more than 0 (Red Hat); start a container with a filter that allows unshare and clone",
        },
    ),
    (
        "nesting depth or /proc/sys/user/max_*_namespaces exceeded",
        Refusal {
            code: "userns-limit",
            sentence: "no more namespaces may be created here",
            fix: "raise user.max_user_namespaces, or start outside of another sandbox",
        },
    ),
    (
        "Can't mount proc on",
        Refusal {
            code: "proc-masked",
            sentence: "parts of /proc are hidden here, as in most containers, so no new one may be mounted",
            fix: "start the container with an unmasked /proc (`--security-opt systempaths=unconfined` for docker), or on the host",
        },
    ),
    (
        "Creating new namespace failed: Operation not permitted",
        Refusal {
            code: "userns-forbidden",
            sentence: "a system-call filter forbids new namespaces here, as in most containers",
            fix: "start the container with a filter that allows unshare and clone, or on the host",
        },
    ),
    (
        "Creating new namespace failed",
        Refusal {
            code: "userns-unavailable",
            sentence: "no namespace can be created here",
            fix: "start a kernel with user namespaces (CONFIG_USER_NS)",
        },
    ),
    (
        "execvp /proc/self/fd/",
        Refusal {
            code: "program-not-executable",
            sentence: "the command's user cannot start this program, which is the first process of the sandbox",
            fix: "make the program readable and executable for everybody (`chmod a+rx`), and use the static build where the sandbox has another C library",
        },
    ),
    (
        "error while loading shared libraries",
        Refusal {
            code: "program-not-executable",
            sentence: "this program, which is the first process of the sandbox, does not find its libraries there",
            fix: "use a static build of it, which needs nothing of the sandbox's root (`scripts/release` makes one)",
        },
    ),
    (
        "Can't find source path",
        Refusal {
            code: UNREACHABLE,
            sentence: "the command's user cannot reach a directory that is to be mounted",
            fix: "give that user search permission on every directory above it, or name another user with `--user`",
        },
    ),
    (
        "Can't chdir to",
        Refusal {
            code: UNREACHABLE,
            sentence: "the command's user cannot enter the workspace",
            fix: "give that user search permission on it, or name another user with `--user`",
        },
    ),
];

/// Says what bubblewrap's message means, if it is one that is known.
#[must_use]
pub fn explain(message: &str) -> Option<Refusal> {
    REFUSALS.iter().find(|(part, _)| message.contains(part)).map(|(_, refusal)| *refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explains_what_bubblewrap_says() {
        for (message, code) in [
            ("bwrap: Creating new namespace failed: Resource temporarily unavailable\n", "process-limit"),
            ("bwrap: setting up uid map: Permission denied\n", "userns-restricted"),
            ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted\n", "network-restricted"),
            (
                "bwrap: No permissions to create a new namespace, likely because the kernel does not allow non-privileged user namespaces.",
                "userns-disabled",
            ),
            (
                "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces. See <https://deb.li/bubblewrap>",
                "userns-disabled",
            ),
            (
                "bwrap: No permissions to creating new namespace, likely because the kernel does not allow non-privileged user namespaces.",
                "userns-disabled",
            ),
            (
                "bwrap: Creating new namespace failed, likely because the kernel does not support user namespaces.  bwrap must be installed setuid on such systems.",
                "userns-unavailable",
            ),
            ("bwrap: loopback: Failed RTM_NEWLINK: Operation not permitted\n", "network-restricted"),
            (
                "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)\n",
                "userns-limit",
            ),
            ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted\n", "proc-masked"),
            ("bwrap: Creating new namespace failed: Operation not permitted\n", "userns-forbidden"),
            (
                "/proc/self/fd/12: error while loading shared libraries: libgcc_s.so.1: cannot open shared object file: No such file or directory",
                "program-not-executable",
            ),
            ("bwrap: Can't find source path /root/ws: Permission denied\n", "bind-unreachable"),
            ("bwrap: Can't chdir to /srv/ws: Permission denied\n", "bind-unreachable"),
        ] {
            assert_eq!(explain(message).map(|refusal| refusal.code), Some(code), "{message}");
        }
        assert_eq!(explain("bwrap: something new"), None);
    }
}
