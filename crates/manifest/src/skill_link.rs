//! A `SKILL.md` that is a link: which file may stand for it.
//!
//! The same file must be found by whoever lists packages and by whoever stores them, so there is
//! one rule for both. That a link leads out of the package and nowhere is found by following it,
//! which opens nothing.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;

use crate::contents::{Membership, membership};
use crate::link::{Destination, LinkTarget};
use crate::listing::SKILL_FILE;
use crate::nofollow::{EntryKind, escape_bytes};

/// Why a `SKILL.md` that is a link is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkillLinkError {
    /// It leads out of the package.
    #[error("`{SKILL_FILE}` is a link to `{target}`, out of the package")]
    Escapes {
        /// What it says, escaped.
        target: String,
    },
    /// It leads to nothing, or in a circle.
    #[error("`{SKILL_FILE}` is a link to `{target}`, which is not there")]
    Dangles {
        /// What it says, escaped.
        target: String,
    },
    /// It leads to or through what is no regular file of the package.
    #[error("`{SKILL_FILE}` is a link to `{target}`, which is no regular file of the package")]
    Forbidden {
        /// What it says, escaped.
        target: String,
    },
}

impl SkillLinkError {
    /// Tells of the link `name` of `dir`, which says `target` and leads out of its package.
    #[must_use]
    pub fn outside(dir: impl AsFd, name: &str, target: &[u8]) -> Self {
        let target = escape_bytes(target);
        match statat(dir, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Self::Dangles { target },
            _ => Self::Escapes { target },
        }
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Escapes { .. } => "skill-md-symlink-escape",
            Self::Dangles { .. } => "skill-md-dangling",
            Self::Forbidden { .. } => "skill-md-symlink-forbidden",
        }
    }
}

impl Destination {
    /// The file that a `SKILL.md` leads to: the link `name` of `dir`, which says `target`.
    ///
    /// # Errors
    /// [`SkillLinkError`] where that file can be no `SKILL.md`.
    pub fn of_skill_file(
        self,
        dir: impl AsFd,
        name: &str,
        target: &[u8],
    ) -> Result<LinkTarget, SkillLinkError> {
        let shown = || escape_bytes(target);
        match self {
            Self::Found(found) if found.is_content() => Ok(found),
            Self::Found(_) | Self::Nameless => Err(SkillLinkError::Forbidden { target: shown() }),
            Self::Nowhere | Self::Loop => Err(SkillLinkError::Dangles { target: shown() }),
            Self::Outside => Err(SkillLinkError::outside(dir, name, target)),
        }
    }
}

impl LinkTarget {
    /// Whether it is a regular file that a package may hold, as far as names tell.
    fn is_content(&self) -> bool {
        // What lies below a link root is no package, so nothing there is left out of one.
        let is_member = || {
            let names: Vec<&str> = self.path.split('/').collect();
            let of_package = |(index, name): (usize, &&str)| {
                membership(name.as_bytes(), index + 1 < names.len()) == Membership::Content
            };
            names.iter().enumerate().all(of_package)
        };
        self.stamp.kind == EntryKind::File && !self.passes_link && (self.root.is_some() || is_member())
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "makes the links that are followed")]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;

    use super::*;
    use crate::{LinkRoot, read_link, resolve_link};

    fn open(path: &Path) -> Dir {
        Dir::open_ambient_dir(path, ambient_authority()).unwrap()
    }

    #[test]
    fn a_skill_file_leads_to_content() {
        let temp = tempfile::tempdir().unwrap();
        for file in ["package/d/f", "package/.git/f", "package/f.pyc", "root/f", "other/f"] {
            let path = temp.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file).unwrap();
        }
        let root = temp.path().join("root").into_os_string().into_string().unwrap();
        let roots = [LinkRoot::new(root.clone(), open(&temp.path().join("root"))).unwrap()];
        let package = open(&temp.path().join("package"));
        symlink("d", temp.path().join("package/to-d")).unwrap();
        symlink(&root, temp.path().join("package/to-root")).unwrap();
        for (target, expected) in [
            ("d/f", Ok("d/f".to_owned())),
            (&format!("{root}/f"), Ok(format!("{root}/f"))),
            ("d", Err("skill-md-symlink-forbidden")),
            (&root, Err("skill-md-symlink-forbidden")),
            ("to-d/f", Err("skill-md-symlink-forbidden")),
            ("to-root/f", Err("skill-md-symlink-forbidden")),
            (".git/f", Err("skill-md-symlink-forbidden")),
            ("f.pyc", Err("skill-md-symlink-forbidden")),
            ("d/none", Err("skill-md-dangling")),
            ("SKILL.md", Err("skill-md-dangling")),
            ("/nonexistent", Err("skill-md-dangling")),
            ("../other/none", Err("skill-md-dangling")),
            ("/etc/passwd", Err("skill-md-symlink-escape")),
            ("../other/f", Err("skill-md-symlink-escape")),
        ] {
            let path = temp.path().join("package/SKILL.md");
            symlink(target, &path).unwrap();
            let said = read_link(&package, SKILL_FILE.as_bytes()).unwrap();
            let destination = resolve_link(&package, "", &said, &roots).unwrap();
            let found = destination.of_skill_file(&package, SKILL_FILE, &said);
            let found = found
                .map(|found| found.display_path(&roots))
                .map_err(|error| (error.code(), error.to_string()));
            if let Err((_, message)) = &found {
                assert!(message.contains(target), "{message}");
            }
            assert_eq!(found.map_err(|(code, _)| code), expected, "{target}");
            std::fs::remove_file(path).unwrap();
        }
    }
}
