//! Finding and reading the `SKILL.md` of one package.
//!
//! No link is followed by accident and nothing blocks: the directory's own listing decides whether
//! there is a `SKILL.md`, so that the answer is the same where names are compared without case; a
//! link is resolved here, component by component, and only to a regular file of the same package.

use std::error::Error as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, readlinkat, statat};
use rustix::io::Errno;
use skillfreeze_manifest::{
    Diagnostic, EntryKind, Limits, Membership, SKILL_FILE, Severity, Stamp, describe_kind, escape_bytes,
    list_dir, membership, open_dir, open_file,
};

use crate::fence;

/// The most links to links; as Linux has it.
const MAX_LINKS: usize = 40;

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
    /// The entry is a link that leads out of the package.
    #[error("`{SKILL_FILE}` is a link to `{target}`, out of the package")]
    LinkEscapes { target: String },
    /// The entry is a link to nothing, or in a circle.
    #[error("`{SKILL_FILE}` is a link to `{target}`, which is not there")]
    LinkDangles { target: String },
    /// The entry is a link to or through something in the package that a package cannot have a
    /// link to.
    #[error("`{SKILL_FILE}` is a link to `{target}`, which is no regular file of the package")]
    LinkForbidden { target: String },
    /// The file is over the limit.
    #[error("`{SKILL_FILE}` has {actual} bytes, more than {limit}")]
    TooLarge { actual: u64, limit: u64 },
}

impl SkillFileError {
    pub(crate) fn diagnostic(&self) -> Diagnostic {
        let (severity, code) = match self {
            Self::DirectoryVanished | Self::Vanished => (Severity::Error, "vanished"),
            Self::DirectoryUnreadable { .. } | Self::Unreadable { .. } => (Severity::Error, "unreadable"),
            Self::Absent => (Severity::Info, "no-skill-file"),
            Self::Misnamed { .. } => (Severity::Error, "skill-file-misnamed"),
            Self::WrongKind { kind: EntryKind::Directory } => (Severity::Error, "wrong-type"),
            Self::WrongKind { .. } => (Severity::Error, "special-file"),
            Self::LinkEscapes { .. } => (Severity::Error, "skill-md-symlink-escape"),
            Self::LinkDangles { .. } => (Severity::Error, "skill-md-dangling"),
            Self::LinkForbidden { .. } => (Severity::Error, "skill-md-symlink-forbidden"),
            Self::TooLarge { .. } => (Severity::Error, "skill-md-too-large"),
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

/// SHIM
pub(crate) struct SkillHead {
    pub(crate) bytes: Vec<u8>,
    pub(crate) size: u64,
}
pub(crate) fn read_skill_head(
    root: impl AsFd,
    name: &str,
    form: crate::catalog::Form,
    limits: &Limits,
) -> Result<SkillHead, SkillFileError> {
    let bytes = match form {
        crate::catalog::Form::Directory => read_skill_file(root, name, limits)?,
        _ => {
            let file = open_file(root, name).map_err(refuse)?;
            let stamp = Stamp::of(&file).map_err(refuse)?;
            if stamp.kind != EntryKind::File {
                return Err(SkillFileError::WrongKind { kind: stamp.kind });
            }
            read(file, stamp.size, limits)?
        }
    };
    let size = bytes.len() as u64;
    Ok(SkillHead { bytes, size })
}
impl SkillFileError {
    pub(crate) fn of_directory(cause: io::Error) -> Self {
        if vanished(&cause) { Self::DirectoryVanished } else { Self::DirectoryUnreadable { cause } }
    }
}
/// Reads the `SKILL.md` of the package in the directory `name` of a source.
///
/// Of a file whose front matter is too large it returns the beginning that tells so, and reads no
/// further.
///
/// # Errors
/// [`SkillFileError`] where there is none that belongs to the package and is within the limits.
pub(crate) fn read_skill_file(
    root: impl AsFd,
    name: &str,
    limits: &Limits,
) -> Result<Vec<u8>, SkillFileError> {
    let unreadable = |cause| SkillFileError::DirectoryUnreadable { cause };
    let package = open_dir(root, name).map_err(|cause| match vanished(&cause) {
        true => SkillFileError::DirectoryVanished,
        false => unreadable(cause),
    })?;
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
    let path = match entry.kind {
        EntryKind::File => SKILL_FILE.to_owned(),
        EntryKind::Link => resolve(&package)?,
        kind => return Err(SkillFileError::WrongKind { kind }),
    };
    let file = open_file(&package, &path).map_err(refuse)?;
    let stamp = Stamp::of(&file).map_err(refuse)?;
    if stamp.kind != EntryKind::File {
        return Err(SkillFileError::WrongKind { kind: stamp.kind });
    }
    read(file, stamp.size, limits)
}

/// Whether an error says that what was listed is gone, or something else by now.
fn vanished(cause: &io::Error) -> bool {
    matches!(Errno::from_io_error(cause), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

fn refuse(cause: io::Error) -> SkillFileError {
    if vanished(&cause) { SkillFileError::Vanished } else { SkillFileError::Unreadable { cause } }
}

fn read(file: File, size: u64, limits: &Limits) -> Result<Vec<u8>, SkillFileError> {
    let limit = limits.skill_bytes;
    let mut bytes = Vec::new();
    // One byte over a limit tells that it is exceeded.
    let head = limits.front_matter_bytes.saturating_add(1);
    (&file).take(head).read_to_end(&mut bytes).map_err(refuse)?;
    let has_more = bytes.len() as u64 == head;
    let is_refused = has_more && fence::locate(&bytes, limits.front_matter_bytes).is_err();
    if is_refused {
        return Ok(bytes);
    }
    if has_more && size <= limit {
        let rest = limit.saturating_add(1).saturating_sub(head);
        (&file).take(rest).read_to_end(&mut bytes).map_err(refuse)?;
    }
    let actual = size.max(bytes.len() as u64);
    if actual > limit {
        return Err(SkillFileError::TooLarge { actual, limit });
    }
    Ok(bytes)
}

/// Follows the link `SKILL.md` by hand; returns the path in the package of the file it leads to.
fn resolve(package: &OwnedFd) -> Result<String, SkillFileError> {
    let read_link = |path: &str| readlinkat(package, path, Vec::new()).map_err(|cause| refuse(cause.into()));
    let first = read_link(SKILL_FILE)?;
    let shown = || escape_bytes(first.to_bytes());
    let escapes = || match statat(package, SKILL_FILE, AtFlags::empty()) {
        Err(Errno::NOENT) => SkillFileError::LinkDangles { target: shown() },
        _ => SkillFileError::LinkEscapes { target: shown() },
    };
    let forbidden = || SkillFileError::LinkForbidden { target: shown() };
    let dangles = || SkillFileError::LinkDangles { target: shown() };

    let mut target = first.clone();
    let mut above: Vec<String> = Vec::new();
    for _ in 0..MAX_LINKS {
        let text = target.to_str().map_err(|_| forbidden())?.to_owned();
        if text.starts_with('/') {
            return Err(escapes());
        }
        // `above` is the directory of the link, without a link in it.
        let mut kind = EntryKind::Directory;
        for component in text.split('/') {
            if kind != EntryKind::Directory {
                // A link to a directory has no place in a package, so neither has a way through one.
                return Err(forbidden());
            }
            match component {
                "" | "." => continue,
                ".." => {
                    above.pop().ok_or_else(escapes)?;
                    continue;
                }
                _ => above.push(component.to_owned()),
            }
            kind = match Stamp::at(package, above.join("/").as_bytes()) {
                Ok(stamp) => stamp.kind,
                Err(cause) if vanished(&cause) => return Err(dangles()),
                Err(cause) => return Err(SkillFileError::Unreadable { cause }),
            };
            let is_directory = kind == EntryKind::Directory;
            if membership(component.as_bytes(), is_directory) != Membership::Content {
                return Err(forbidden());
            }
        }
        match kind {
            EntryKind::File => return Ok(above.join("/")),
            EntryKind::Link => target = read_link(&above.join("/"))?,
            _ => return Err(forbidden()),
        }
        above.pop();
    }
    Err(dangles())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a directory held when it was listed may be gone, or a link, when it is opened.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "makes the directory that is read")]
    fn what_changed_after_the_listing_has_vanished() {
        let temp = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", temp.path().join("link")).unwrap();
        std::fs::write(temp.path().join("file"), "x").unwrap();
        let root = File::open(temp.path()).unwrap();
        for name in ["absent", "link", "file"] {
            let error = read_skill_file(&root, name, &Limits::DEFAULT).unwrap_err();
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
