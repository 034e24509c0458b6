//! Finding the `SKILL.md` of one package and reading its beginning.
//!
//! No link is followed by accident and nothing blocks: the directory's own listing decides whether
//! there is a `SKILL.md`, so that the answer is the same where names are compared without case; a
//! link leads to a regular file of the same package, or of a link root. Of the file no more is read
//! than its front matter may have, so that a scan costs the same whatever the packages hold.

use std::error::Error as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;

use rustix::io::Errno;
use skillfreeze_manifest::{
    Diagnostic, EntryKind, Form, Limits, LinkRoot, SKILL_FILE, Severity, SkillLinkError, Stamp,
    describe_kind, escape_bytes, list_dir, open_dir, open_file, read_link, resolve_link,
};

use crate::front_matter::fence;

/// The beginning of a `SKILL.md`.
#[derive(Debug)]
pub(crate) struct SkillFile {
    /// Its first bytes: all, or one more than a front matter may have.
    pub(crate) head: Vec<u8>,
    /// The bytes of the whole file.
    pub(crate) size: u64,
}

/// Why there is no `SKILL.md` to be parsed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SkillFileError {
    /// The package's directory was there when the source was listed.
    #[error("the directory was removed or replaced while the source was read")]
    DirectoryVanished,
    /// The package's directory cannot be opened or listed.
    #[error("the directory cannot be read")]
    DirectoryUnreadable {
        #[source]
        cause: io::Error,
    },
    /// No entry is called `SKILL.md` in any case.
    #[error("the directory has no `{SKILL_FILE}`")]
    Absent,
    /// An entry is called so but for the case.
    #[error("the directory has `{found}`, not `{SKILL_FILE}`")]
    Misnamed { found: String },
    /// The entry is no regular file.
    #[error("`{SKILL_FILE}` is a {}", describe_kind(*.kind))]
    WrongKind { kind: EntryKind },
    /// The entry was there when the directory was listed.
    #[error("`{SKILL_FILE}` was removed or replaced while the directory was read")]
    Vanished,
    /// The entry cannot be opened or read.
    #[error("`{SKILL_FILE}` cannot be read")]
    Unreadable {
        #[source]
        cause: io::Error,
    },
    /// The entry is a link to what can be no `SKILL.md`.
    #[error(transparent)]
    Link(#[from] SkillLinkError),
    /// The file is over the limit.
    #[error("`{SKILL_FILE}` has {actual} bytes, more than {limit}")]
    TooLarge { actual: u64, limit: u64 },
}

impl SkillFileError {
    /// Whether it says nothing of the package: the machine has no more descriptors or memory, or cannot
    /// read its disk.
    pub(crate) fn is_of_machine(&self) -> bool {
        match self {
            Self::DirectoryUnreadable { cause } | Self::Unreadable { cause } => is_of_machine(cause),
            _ => false,
        }
    }

    pub(crate) fn of_directory(cause: io::Error) -> Self {
        if vanished(&cause) { Self::DirectoryVanished } else { Self::DirectoryUnreadable { cause } }
    }

    pub(crate) fn diagnostic(&self) -> Diagnostic {
        let (severity, code) = match self {
            Self::DirectoryVanished | Self::Vanished => (Severity::Error, "vanished"),
            Self::DirectoryUnreadable { .. } | Self::Unreadable { .. } => (Severity::Error, "unreadable"),
            Self::Absent => (Severity::Info, "no-skill-file"),
            Self::Misnamed { .. } => (Severity::Error, "skill-file-misnamed"),
            Self::WrongKind { kind: EntryKind::Directory } => (Severity::Error, "wrong-type"),
            Self::WrongKind { .. } => (Severity::Error, "special-file"),
            Self::Link(error) => (Severity::Error, error.code()),
            Self::TooLarge { .. } => (Severity::Error, "limit-skill-bytes"),
        };
        // A diagnostic is text without a cause, so the text has it.
        let message = match self.source() {
            Some(cause) => format!("{self}: {cause}"),
            None => self.to_string(),
        };
        let diagnostic = Diagnostic::new(severity, code, message);
        match self {
            Self::DirectoryVanished | Self::DirectoryUnreadable { .. } | Self::Absent => diagnostic,
            Self::Misnamed { found } => {
                diagnostic.at_path(found.clone()).hint(format!("rename it to `{SKILL_FILE}`"))
            }
            _ => diagnostic.at_path(SKILL_FILE),
        }
    }
}

/// Reads the beginning of the `SKILL.md` of the package at `path` below a source's root, `.` for the
/// root itself; of a flat package that is the file at `path`.
///
/// A file is not over its limit where its front matter is faulty or too large: the parser tells
/// more of it.
///
/// # Errors
/// [`SkillFileError`] where there is none that belongs to the package and is within the limits.
pub(crate) fn read_skill_file(
    root: impl AsFd,
    path: &str,
    form: Form,
    limits: &Limits,
    link_roots: &[LinkRoot],
) -> Result<SkillFile, SkillFileError> {
    let file = match form {
        Form::File => open_flat(root, path)?,
        Form::Directory => open_in_directory(root, path, link_roots)?,
    };
    let stamp = Stamp::of(&file).map_err(refuse)?;
    if stamp.kind != EntryKind::File {
        return Err(SkillFileError::WrongKind { kind: stamp.kind });
    }
    let mut head = Vec::new();
    // One byte over the limit tells that it is exceeded.
    let most = limits.front_matter_bytes.saturating_add(1);
    file.take(most).read_to_end(&mut head).map_err(refuse)?;
    let is_cut = head.len() as u64 == most;
    let size = stamp.size.max(head.len() as u64);
    let is_faulty = is_cut && fence::locate(&head, limits.front_matter_bytes).is_err();
    if size > limits.skill_bytes && !is_faulty {
        return Err(SkillFileError::TooLarge { actual: size, limit: limits.skill_bytes });
    }
    Ok(SkillFile { head, size })
}

fn open_in_directory(root: impl AsFd, path: &str, link_roots: &[LinkRoot]) -> Result<File, SkillFileError> {
    let unreadable = |cause| SkillFileError::DirectoryUnreadable { cause };
    let package = open_dir(root, path).map_err(SkillFileError::of_directory)?;
    let entries = list_dir(&package).map_err(unreadable)?;
    let Some(entry) = entries.iter().find(|entry| entry.name == SKILL_FILE.as_bytes()) else {
        let variant = entries
            .iter()
            .filter(|entry| entry.name.eq_ignore_ascii_case(SKILL_FILE.as_bytes()))
            .min_by(|first, second| first.name.cmp(&second.name));
        return Err(match variant {
            Some(entry) => SkillFileError::Misnamed { found: escape_bytes(&entry.name) },
            None => SkillFileError::Absent,
        });
    };
    match entry.kind {
        EntryKind::File => open_file(&package, SKILL_FILE).map_err(refuse),
        EntryKind::Link => {
            let target = read_link(&package, SKILL_FILE.as_bytes()).map_err(refuse)?;
            let destination = resolve_link(&package, "", &target, link_roots).map_err(refuse)?;
            let found = destination.of_skill_file(&package, SKILL_FILE, &target)?;
            found.open(&package, link_roots).map_err(refuse)
        }
        kind => Err(SkillFileError::WrongKind { kind }),
    }
}

fn open_flat(root: impl AsFd, path: &str) -> Result<File, SkillFileError> {
    let (above, name) = path.rsplit_once('/').unwrap_or((".", path));
    let above = open_dir(root, above).map_err(refuse)?;
    match Stamp::at(&above, name.as_bytes()).map_err(refuse)?.kind {
        EntryKind::File => open_file(&above, name).map_err(refuse),
        // Nothing else is in the package, so wherever it leads is outside.
        EntryKind::Link => {
            let target = read_link(&above, name.as_bytes()).map_err(refuse)?;
            Err(SkillLinkError::outside(&above, name, &target).into())
        }
        kind => Err(SkillFileError::WrongKind { kind }),
    }
}

/// Whether an error is the machine's and not that of what was opened.
pub(crate) fn is_of_machine(cause: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(cause),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO | Errno::NOBUFS)
    )
}

/// Whether an error says that what was listed is gone, or something else by now.
fn vanished(cause: &io::Error) -> bool {
    matches!(Errno::from_io_error(cause), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

fn refuse(cause: io::Error) -> SkillFileError {
    if vanished(&cause) { SkillFileError::Vanished } else { SkillFileError::Unreadable { cause } }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "makes the directories that are read")]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    const SKILL: &str = "---\nname: demo\n---\nbody\n";

    /// A directory with `root/`, the root of a source.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            std::fs::create_dir(place.path("root")).unwrap();
            place
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn write(&self, path: &str, content: impl AsRef<[u8]>) {
            std::fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
            std::fs::write(self.path(path), content).unwrap();
        }

        fn link(&self, target: impl AsRef<Path>, path: &str) {
            std::fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
            symlink(target, self.path(path)).unwrap();
        }

        fn fifo(&self, path: &str) {
            mknodat(CWD, self.path(path), FileType::Fifo, Mode::RUSR, 0).unwrap();
        }

        fn link_root(&self, path: &str) -> LinkRoot {
            let path = self.path(path);
            let dir = Dir::open_ambient_dir(&path, ambient_authority()).unwrap();
            LinkRoot::new(path.into_os_string().into_string().unwrap(), dir).unwrap()
        }

        fn read(&self, path: &str, form: Form, roots: &[LinkRoot]) -> Result<SkillFile, SkillFileError> {
            let root = File::open(self.path("root")).unwrap();
            read_skill_file(&root, path, form, &Limits::DEFAULT, roots)
        }

        fn code(&self, path: &str, form: Form, roots: &[LinkRoot]) -> &'static str {
            self.read(path, form, roots).map_or_else(|error| error.diagnostic().code, |_| "sound")
        }
    }

    #[test]
    fn a_package_is_below_the_root_or_the_root_or_a_file() {
        let place = Place::new();
        for path in ["root/SKILL.md", "root/a/b/demo/SKILL.md", "root/flat.md", "root/a/flat.md"] {
            place.write(path, SKILL);
        }
        for (path, form) in [
            (".", Form::Directory),
            ("a/b/demo", Form::Directory),
            ("flat.md", Form::File),
            ("a/flat.md", Form::File),
        ] {
            let read = place.read(path, form, &[]).unwrap();
            assert_eq!((read.head.as_slice(), read.size), (SKILL.as_bytes(), SKILL.len() as u64), "{path}");
        }
        place.link("a", "root/way");
        place.link("flat.md", "root/linked.md");
        place.link("none", "root/dangling.md");
        place.fifo("root/pipe.md");
        for (path, form, code) in [
            ("way/b/demo", Form::Directory, "vanished"),
            ("a/b", Form::Directory, "no-skill-file"),
            ("../root/a/b/demo", Form::Directory, "unreadable"),
            ("way/flat.md", Form::File, "vanished"),
            ("none.md", Form::File, "vanished"),
            ("linked.md", Form::File, "skill-md-symlink-escape"),
            ("dangling.md", Form::File, "skill-md-dangling"),
            ("pipe.md", Form::File, "special-file"),
            ("a", Form::File, "wrong-type"),
        ] {
            assert_eq!(place.code(path, form, &[]), code, "{path}");
        }
    }

    #[test]
    fn no_more_is_read_than_a_front_matter_may_have() {
        let place = Place::new();
        let body = |bytes: usize| [SKILL.as_bytes(), &vec![b'\xff'; bytes - SKILL.len()]].concat();
        let most = 64 << 10;
        for form in [Form::Directory, Form::File] {
            let path = if form == Form::File { "flat.md" } else { "." };
            let file = if form == Form::File { "root/flat.md" } else { "root/SKILL.md" };
            for (size, head) in
                [(most, most), (most + 1, most + 1), (most + 2, most + 1), (1 << 20, most + 1)]
            {
                place.write(file, body(size));
                let read = place.read(path, form, &[]).unwrap();
                assert_eq!((read.size, read.head.len()), (size as u64, head), "{size}");
            }
            place.write(file, body((1 << 20) + 1));
            assert_eq!(place.code(path, form, &[]), "limit-skill-bytes");
            // The parser says more of what has no front matter to begin with.
            place.write(file, vec![b'x'; (1 << 20) + 1]);
            assert_eq!(place.read(path, form, &[]).unwrap().head.len(), most + 1);
        }
    }

    #[test]
    fn a_link_may_lead_into_a_link_root() {
        let place = Place::new();
        place.write("nix/S.md", SKILL);
        place.write("nix-evil/S.md", SKILL);
        std::fs::create_dir(place.path("nix/d")).unwrap();
        place.link(place.path("nix/S.md"), "nix/chained.md");
        place.link(place.path("nix-evil/S.md"), "nix/out.md");
        place.link(place.path("nix"), "alias");
        let roots = [place.link_root("nix")];
        for (target, expected) in [
            ("nix/S.md", "sound"),
            ("nix/chained.md", "sound"),
            ("nix/out.md", "skill-md-symlink-escape"),
            ("nix-evil/S.md", "skill-md-symlink-escape"),
            ("alias/S.md", "skill-md-symlink-escape"),
            ("nix/none", "skill-md-dangling"),
            ("nix/d", "skill-md-symlink-forbidden"),
            ("nix", "skill-md-symlink-forbidden"),
        ] {
            place.link(place.path(target), "root/demo/SKILL.md");
            assert_eq!(place.code("demo", Form::Directory, &roots), expected, "{target}");
            if expected == "sound" {
                let read = place.read("demo", Form::Directory, &roots).unwrap();
                assert_eq!(read.head, SKILL.as_bytes());
                assert_eq!(place.code("demo", Form::Directory, &[]), "skill-md-symlink-escape");
            }
            std::fs::remove_file(place.path("root/demo/SKILL.md")).unwrap();
        }
        place.link("docs/S.md", "root/demo/SKILL.md");
        place.link(place.path("nix/S.md"), "root/demo/docs/S.md");
        assert_eq!(place.code("demo", Form::Directory, &roots), "sound");
        place.link("../nix/S.md", "root/flat.md");
        assert_eq!(place.code("flat.md", Form::File, &roots), "skill-md-symlink-escape");
    }

    /// What a directory held when it was listed may be gone, or a link, when it is opened.
    #[test]
    fn what_changed_after_the_listing_has_vanished() {
        let temp = tempfile::tempdir().unwrap();
        symlink("/etc", temp.path().join("link")).unwrap();
        std::fs::write(temp.path().join("file"), "x").unwrap();
        let root = File::open(temp.path()).unwrap();
        for name in ["absent", "link", "file"] {
            let error = read_skill_file(&root, name, Form::Directory, &Limits::DEFAULT, &[]).unwrap_err();
            assert!(matches!(error, SkillFileError::DirectoryVanished), "{name}: {error}");
        }
        for name in ["absent", "link/passwd", "file/x"] {
            let error = refuse(open_file(&root, name).unwrap_err());
            assert_eq!(error.diagnostic().code, "vanished", "{name}");
        }
    }

    #[test]
    fn only_what_is_gone_has_vanished() {
        let error = refuse(io::Error::from(Errno::ACCESS));
        let diagnostic = error.diagnostic();
        assert_eq!((diagnostic.code, diagnostic.path.as_deref()), ("unreadable", Some(SKILL_FILE)));
        assert!(diagnostic.message.contains("Permission denied"), "{diagnostic}");
    }
}
