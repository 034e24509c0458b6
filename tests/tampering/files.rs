//! Files and directories that were changed, added, removed or replaced.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use skillfreeze_testing::{Runner, directory, file, set_mode};

use super::{Tampering, remove, replace, rewrite, run_table, within};

fn flip(path: &Path) {
    rewrite(path, |mut content| {
        let middle = content.len() / 2;
        content[middle] ^= 1;
        content
    });
}

fn node(path: &Path, kind: FileType) {
    mknodat(CWD, path, kind, Mode::from_raw_mode(0o444), 0).unwrap();
}

/// Adds a file of a frozen file's mode.
pub(super) fn add(path: &Path) {
    file(path, "");
    set_mode(path, 0o444);
}

#[test]
fn a_changed_file_is_found() {
    run_table(
        Runner::available(),
        &[
            Tampering::new(
                "a byte of a skill file",
                |at| flip(&at.join("demo/SKILL.md")),
                &[("demo/SKILL.md", "wrong-hash")],
            ),
            Tampering::new(
                "a byte of a program",
                |at| flip(&at.join("demo/run.sh")),
                &[("demo/run.sh", "wrong-hash")],
            ),
            Tampering::new(
                "a byte of a hidden file",
                |at| flip(&at.join("demo/.hidden")),
                &[("demo/.hidden", "wrong-hash")],
            ),
            Tampering::new(
                "a byte deep below",
                |at| flip(&at.join("demo/a/c/d.bin")),
                &[("demo/a/c/d.bin", "wrong-hash")],
            ),
            Tampering::new(
                "a byte more",
                |at| rewrite(&at.join("demo/a/b.md"), |content| [&content, "x".as_bytes()].concat()),
                &[("demo/a/b.md", "wrong-size")],
            ),
            Tampering::new(
                "a byte in an empty file",
                |at| rewrite(&at.join("demo/empty"), |_| b"x".to_vec()),
                &[("demo/empty", "wrong-size")],
            ),
            Tampering::new(
                "a byte less",
                |at| rewrite(&at.join("demo/a/b.md"), |content| content[1..].to_vec()),
                &[("demo/a/b.md", "wrong-size")],
            ),
            Tampering::new(
                "many at once",
                |at| {
                    flip(&at.join("other/SKILL.md"));
                    flip(&at.join("demo/run.sh"));
                    set_mode(at.join("demo/run.sh"), 0o755);
                    within(&at.join("demo"), || add(&at.join("demo/extra")));
                    within(&at.join("demo/a"), || fs::remove_file(at.join("demo/a/b.md")).unwrap());
                    within(at, || add(&at.join("zzz")));
                },
                &[
                    ("demo/a/b.md", "missing"),
                    ("demo/extra", "unexpected"),
                    ("demo/run.sh", "wrong-hash"),
                    ("demo/run.sh", "wrong-mode"),
                    ("other/SKILL.md", "wrong-hash"),
                    ("zzz", "unexpected"),
                ],
            )
            .portable(&[
                ("demo/a/b.md", "missing"),
                ("demo/extra", "unexpected"),
                ("demo/run.sh", "wrong-hash"),
                ("other/SKILL.md", "wrong-hash"),
                ("zzz", "unexpected"),
            ]),
            Tampering::new(
                "the same bytes again, at another time",
                |at| {
                    replace(&at.join("demo/a/b.md"), |path| {
                        file(path, "b\n");
                        let opened = fs::File::options().write(true).open(path).unwrap();
                        opened.set_modified(UNIX_EPOCH + Duration::from_secs(1)).unwrap();
                        set_mode(path, 0o444);
                    });
                },
                &[],
            ),
        ],
    );
}

#[test]
fn a_changed_mode_is_found() {
    run_table(
        Runner::available(),
        &[
            Tampering::new(
                "a writable file",
                |at| set_mode(at.join("demo/a/b.md"), 0o644),
                &[("demo/a/b.md", "wrong-mode")],
            )
            .portable(&[]),
            Tampering::new(
                "an execute bit",
                |at| set_mode(at.join("demo/a/b.md"), 0o445),
                &[("demo/a/b.md", "wrong-mode")],
            ),
            Tampering::new(
                "a program without its bits",
                |at| set_mode(at.join("demo/run.sh"), 0o444),
                &[("demo/run.sh", "wrong-mode")],
            ),
            Tampering::new(
                "a program for its owner only",
                |at| set_mode(at.join("demo/run.sh"), 0o744),
                &[("demo/run.sh", "wrong-mode")],
            )
            .portable(&[]),
            Tampering::new(
                "set-user-id",
                |at| set_mode(at.join("demo/run.sh"), 0o4555),
                &[("demo/run.sh", "wrong-mode")],
            )
            .portable(&[]),
            Tampering::new(
                "a writable directory",
                |at| set_mode(at.join("demo/a"), 0o755),
                &[("demo/a", "wrong-mode")],
            )
            .portable(&[]),
            Tampering::new(
                "a package for its owner only",
                |at| set_mode(at.join("demo"), 0o700),
                &[("demo", "wrong-mode")],
            )
            .portable(&[]),
            Tampering::new("a writable snapshot", |at| set_mode(at, 0o755), &[(".", "wrong-mode")])
                .portable(&[]),
            Tampering::new(
                "a writable manifest",
                |at| set_mode(at.join(".snapshot.json"), 0o644),
                &[(".snapshot.json", "wrong-mode")],
            )
            .portable(&[]),
        ],
    );
}

#[test]
fn what_was_added_or_removed_is_found() {
    run_table(
        Runner::available(),
        &[
            Tampering::new(
                "files beside others",
                |at| {
                    within(&at.join("demo"), || {
                        add(&at.join("demo/a.md"));
                        add(&at.join("demo/.x"));
                    });
                    within(&at.join("demo/a/c"), || add(&at.join("demo/a/c/..x")));
                },
                &[("demo/.x", "unexpected"), ("demo/a.md", "unexpected"), ("demo/a/c/..x", "unexpected")],
            ),
            Tampering::new(
                "what a package would leave out",
                |at| {
                    within(&at.join("demo"), || {
                        add(&at.join("demo/.DS_Store"));
                        add(&at.join("demo/m.pyc"));
                        directory(at.join("demo/.git"));
                    });
                },
                &[
                    ("demo/.DS_Store", "unexpected"),
                    ("demo/.git", "unexpected"),
                    ("demo/m.pyc", "unexpected"),
                ],
            ),
            Tampering::new(
                "every kind of entry",
                |at| {
                    within(&at.join("other"), || {
                        directory(at.join("other/directory"));
                        node(&at.join("other/fifo"), FileType::Fifo);
                        node(&at.join("other/socket"), FileType::Socket);
                        symlink("SKILL.md", at.join("other/link")).unwrap();
                        symlink("/nowhere", at.join("other/void")).unwrap();
                    });
                },
                &[
                    ("other/directory", "unexpected"),
                    ("other/fifo", "unexpected"),
                    ("other/link", "unexpected"),
                    ("other/socket", "unexpected"),
                    ("other/void", "unexpected"),
                ],
            ),
            Tampering::new(
                "an empty directory beside the manifest",
                |at| {
                    within(at, || directory(at.join("extra")));
                },
                &[("extra", "unexpected")],
            ),
            Tampering::new(
                "a dotfile beside the manifest",
                |at| {
                    within(at, || add(&at.join(".marker")));
                },
                &[(".marker", "unexpected")],
            ),
            Tampering::new(
                "another package and another manifest",
                |at| {
                    within(at, || {
                        add(&at.join(".snapshot.json~"));
                        file(at.join("evil/SKILL.md"), "x");
                    });
                },
                &[(".snapshot.json~", "unexpected"), ("evil", "unexpected")],
            ),
            Tampering::new(
                "a file that is gone",
                |at| within(&at.join("demo"), || remove(&at.join("demo/SKILL.md"))),
                &[("demo/SKILL.md", "missing")],
            ),
            Tampering::new(
                "a directory that is gone",
                |at| within(&at.join("demo"), || remove(&at.join("demo/a"))),
                &[("demo/a", "missing")],
            ),
            Tampering::new(
                "a package that is gone",
                |at| within(at, || remove(&at.join("demo"))),
                &[("demo", "missing")],
            ),
            Tampering::new(
                "another name",
                |at| {
                    within(&at.join("demo"), || {
                        fs::rename(at.join("demo/run.sh"), at.join("demo/RUN.sh")).unwrap();
                    });
                },
                &[("demo/RUN.sh", "unexpected"), ("demo/run.sh", "missing")],
            ),
        ],
    );
}

#[test]
fn what_became_something_else_is_found() {
    run_table(
        Runner::available(),
        &[
            Tampering::new(
                "a file into a link to the same bytes",
                |at| {
                    replace(&at.join("demo/SKILL.md"), |path| {
                        let copy = at.with_file_name("copy");
                        file(&copy, "---\nname: demo\ndescription: d\n---\nbody\n");
                        set_mode(&copy, 0o444);
                        symlink(&copy, path).unwrap();
                    });
                    // Nothing else is about it, so that it may go before anybody looks.
                    fs::remove_file(at.with_file_name("copy")).unwrap();
                },
                &[("demo/SKILL.md", "wrong-type")],
            ),
            Tampering::new(
                "a file into a link to its neighbour",
                |at| replace(&at.join("demo/empty"), |path| symlink(".hidden", path).unwrap()),
                &[("demo/empty", "wrong-type")],
            ),
            Tampering::new(
                "a file into a FIFO",
                |at| replace(&at.join("demo/SKILL.md"), |path| node(path, FileType::Fifo)),
                &[("demo/SKILL.md", "wrong-type")],
            ),
            Tampering::new(
                "a file into a socket",
                |at| replace(&at.join("demo/a/b.md"), |path| node(path, FileType::Socket)),
                &[("demo/a/b.md", "wrong-type")],
            ),
            Tampering::new(
                "a file into a directory",
                |at| replace(&at.join("demo/run.sh"), |path| file(path.join("x"), "x")),
                &[("demo/run.sh", "wrong-type")],
            ),
            Tampering::new(
                "a directory into a link to the same tree",
                |at| {
                    within(&at.join("demo"), || {
                        within(at, || {
                            fs::rename(at.join("demo/a"), at.join("moved")).unwrap();
                            symlink("../moved", at.join("demo/a")).unwrap();
                        });
                    });
                },
                &[("demo/a", "wrong-type"), ("moved", "unexpected")],
            ),
            Tampering::new(
                "a directory into a file",
                |at| replace(&at.join("demo/a/c"), add),
                &[("demo/a/c", "wrong-type")],
            ),
            Tampering::new(
                "a package into a link to another",
                |at| replace(&at.join("demo"), |path| symlink("other", path).unwrap()),
                &[("demo", "wrong-type")],
            ),
            Tampering::new(
                "a package into a file",
                |at| replace(&at.join("demo"), add),
                &[("demo", "wrong-type")],
            ),
        ],
    );
}

/// To root a mode is only a mode.
#[test]
fn what_the_user_cannot_read_is_found() {
    run_table(
        &[Runner::User],
        &[
            Tampering::new(
                "a file",
                |at| set_mode(at.join("demo/SKILL.md"), 0o000),
                &[("demo/SKILL.md", "unreadable")],
            ),
            Tampering::new(
                "a directory",
                |at| set_mode(at.join("demo/a/c"), 0o000),
                &[("demo/a/c", "unreadable")],
            ),
            Tampering::new(
                "a directory that cannot be searched",
                |at| set_mode(at.join("demo/a/c"), 0o444),
                &[("demo/a/c", "wrong-mode"), ("demo/a/c", "unreadable"), ("demo/a/c/d.bin", "unreadable")],
            ),
            Tampering::new("a package", |at| set_mode(at.join("other"), 0o000), &[("other", "unreadable")]),
            Tampering::new(
                "the manifest",
                |at| set_mode(at.join(".snapshot.json"), 0o000),
                &[(".snapshot.json", "unreadable")],
            ),
        ],
    );
}
