//! What to do about a failure, by its code.

/// What lets a stage be mounted, by which alone a command with its own sandbox can be sealed.
pub(crate) const LET_MOUNT: &str = "let this program create user and mount namespaces: \
    user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 (Debian), an AppArmor profile with \
    `userns,` (Ubuntu), a container with a filter that allows unshare and mount";

/// What helps against most failures of a code.
pub(super) fn hint_of(code: &str) -> Option<&'static str> {
    Some(match code {
        "bytecode" => "delete it, or leave it out with `--drop-bytecode`",
        "no-space" => "free some space and try again",
        "read-only" => "name another store with `--root`",
        "not-a-store" => "name a store or an empty directory with `--root`",
        "store-owner" => "name a store of your own with `--root`",
        "store-writable-by-others" => {
            "take the others' write permission away: `chmod go-w` on the store's root"
        }
        "snapshot-owner" => "copy the snapshot to a directory of your own",
        "symlink-escape" | "symlink-dangling" | "symlink-to-directory" => {
            "put the file itself in the place of the link"
        }
        "scan-limit" => {
            "raise it with `--max-packages`, or with `packages` under `[limits]` of the user's configuration"
        }
        "config-not-permitted" => {
            "say it in the user's or the system's configuration instead, if it is meant"
        }
        "config-invalid"
        | "config-not-utf8"
        | "config-too-large"
        | "source-depth-unused"
        | "source-depth-range"
        | "source-id-invalid"
        | "skill-id-invalid" => "mend the file; nothing is taken from one that is not right",
        "source-twice" | "source-id-taken" => {
            "give each source an id of its own, and name no directory twice"
        }
        "root-malformed" => "write an absolute path without `.`, `..`, `//` or a slash at its end",
        "root-absent" => "make the directory, mend its path, or take the source out",
        "root-not-a-directory" => "name the directory that holds the skills",
        "root-unreadable" => "give yourself permission to read it, or take the source out",
        "collection-unknown" => "`skillfreeze list --json` shows the collections",
        "approval-unsupported" => {
            "take `approval` out of the user's or the system's configuration, if nothing needs it"
        }
        "catalog-stale" => "wait until nothing writes to the source, then try again",
        "source-changed" => "wait until nothing writes to the package, then try again",
        "journal-newer" => "use the version of skillfreeze that wrote it, or a later one",
        "integrity-unavailable" => {
            "ask for less with `--require`; `skillfreeze doctor` shows the best that can be had here"
        }
        "sandbox-unavailable" => "use `--sandbox bwrap` or `--sandbox landlock`, the only ones so far",
        "landlock-missing" => {
            "start a kernel with Landlock (`landlock` in `lsm=`), or a container whose system-call filter lets \
             it pass; `skillfreeze doctor` shows what else there is"
        }
        "landlock-too-old" => "use Linux 6.12 or later; `skillfreeze doctor` shows what else there is",
        "landlock-broken" => {
            "report this with the kernel's version: what encloses the command is not to be relied on"
        }
        "landlock-elsewhere" => "leave the other place out, or use `--sandbox bwrap`, which mounts",
        "landlock-source-exposed" => {
            "bind it with `--ro-bind`, work in a directory without it, or use `--sandbox bwrap`, which covers it"
        }
        "landlock-read-only" => {
            "make what is around it read-only too (`--ro-bind`), or use `--sandbox bwrap`, which covers it"
        }
        "seal-memory" => {
            "free some memory, select fewer skills, or take less with `--require read-only`, which needs none"
        }
        "seal-unavailable" => {
            "leave `--seal` out, so that another way is tried; `skillfreeze doctor` shows which there is"
        }
        "seal-daemon" => {
            "start what reads the files from here; or say `--force`, if it is not to read the snapshot"
        }
        "mount-swapped" => "find out what moved or replaced the directory; do not trust what was read since",
        "mount-writable" => "mount it read-only, or have `skillfreeze seal` start the sandbox",
        "mount-unsealed" => {
            "have `skillfreeze seal` start the sandbox, which must show `/proc`; or take less with `--require read-only`"
        }
        "seal-too-many-files" => {
            "let this program create user and mount namespaces, so that any number of files can be sealed; \
             or select fewer skills, or take less with `--require read-only`"
        }
        "in-place-layout" => {
            "only a source with each skill in a directory of its own, directly below it, can be covered; leave \
             `--in-place` out, and have the agent read `$SKILLS_DIR`"
        }
        "temporaries-unusable" => "name another directory of temporaries in the variable `TMPDIR`",
        "process-limit" => skillfreeze::mount::PROCESS_LIMIT,
        "too-many-mounts" => "bind fewer places: one directory instead of what is in it",
        "descriptor-limit" => "raise the hard limit of open files (`ulimit -Hn`), or bind fewer places",
        "bwrap-failed" => "see what `bwrap --unshare-all --ro-bind / / true` says by itself",
        "sandbox-start" => "`skillfreeze doctor` shows which ways there are here",
        "sandbox-broken" => "report this with the versions of bubblewrap and of the kernel",
        "bwrap-missing" => {
            "install bubblewrap (Debian, Fedora, Arch: package `bubblewrap`), or name it with `--bwrap`"
        }
        "bwrap-unusable" => "name another one with `--bwrap`, or install the system's",
        "store-shown" => "move the store out of the system's directories, or name another with `--root`",
        "bwrap-untrusted" => "use one that root installed, or name this one with `--bwrap`",
        "bwrap-owner-unknown" => {
            "if it is the system's, name it with `--bwrap`; or start outside of this user namespace"
        }
        "bwrap-too-old" => "install bubblewrap 0.8.0-2+deb12u1, 0.10 or later",
        "bind-store" => "bind something else; the store is never visible in a sandbox",
        "bind-snapshot" => "keep the snapshot outside of what the sandbox may write",
        "bind-in-source" => "work outside of the skills, or bind it with `--ro-bind`",
        "bind-special-file" => "bind a directory or a regular file",
        "mount-target-invalid" => "write the place as an absolute path without `.` and `..`",
        "mount-target-type" => "bind a directory to a directory, or a file to a file",
        "mount-target-reserved" => "name a place of its own, such as a directory directly below `/`",
        "bind-not-found" => {
            "name a file or directory that is there; what follows the first colon is the place in the sandbox"
        }
        "environment-name" => "use another name, without `=`; some variables this program sets itself",
        "command-not-found" => "name the command by its path, or put its directory into the sandbox's `PATH`",
        "command-not-executable" => "give it permission to be executed (`chmod +x`), or name a program",
        "rootfs-not-found" => "name a directory that is there, as of an unpacked image",
        "integrity" => "do not use it: prepare the snapshot again, or get it again from where it came",
        "integrity-after-run" => "do not trust what the command did; find out what writes to the snapshot",
        "source-appeared" => "look at it before the next run: the command may have planted it",
        "in-place-bind" => "leave that bind out: what lies in a source is read from the snapshot",
        "in-place-nothing" => {
            "lend the command the sources (`--workspace`, `--ro-bind`), or leave `--in-place` out: `$SKILLS_DIR` is always there"
        }
        "in-place-changed" => {
            "find out what moves or exchanges the source while launches start, then try again"
        }
        "in-place-unavailable" => {
            "leave `--in-place` out, or start where a private file system can be mounted: `skillfreeze doctor`"
        }
        "rootfs-empty" | "rootfs-not-a-directory" => {
            "name the directory that has `bin` and `usr` in it, as of an unpacked image"
        }
        "rootfs-loader" => {
            "use a static build of this program, which needs nothing of the root (`scripts/release` makes one)"
        }
        "rootfs-writable" => "keep what the command may write outside of the root directory",
        "sandbox-cannot" => "use `--sandbox bwrap`, or leave the option out",
        "terminal-missing" => "start it in a terminal, or leave `--tty` out",
        "terminal-unsupported" => "leave `--tty` out: the command then has a session of its own",
        "alias-unknown" => {
            "write `$SKILLS_DIR/ID/PATH` or `ID/PATH`, or a skill's id alone for its `SKILL.md`"
        }
        "path-component" => "write the path as the manifest has it",
        "path-escape" => "only files of the snapshot can be read",
        "seatbelt-failed" => "start it outside of any other sandbox: one cannot be put into another",
        "plan-path" => {
            "use another `--format`, or a path without colons and control characters; `seatbelt` mounts nothing, \
             so it takes `--skills-dir host` alone"
        }
        "user-root" => "name an ordinary user with `--user`",
        "user-not-permitted" => "leave `--user` out, or start as root",
        "mount-not-visible" => {
            "let the command's user read the snapshot: give search permission (`chmod a+x`) to every directory above"
        }
        _ => return None,
    })
}
