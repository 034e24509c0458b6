//! What is at the places that later runs take skills and configuration from.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use super::kind_of;
use crate::guard::{Guard, Guarded};

/// Where a project keeps the skills and the configuration of its next run.
const PROJECT_SOURCES: [&str; 4] =
    [".agents/skills", ".claude/skills", "skillfreeze.toml", "skillfreeze.lock"];

/// The directories and links that an absolute path leads through, and where it ends or would end,
/// each by its canonical place.
pub(super) fn route(path: &Utf8Path) -> Vec<Utf8PathBuf> {
    /// As many links as Linux follows.
    const MAX_LINKS: usize = 40;
    let mut route = Vec::new();
    let mut at = Utf8PathBuf::from("/");
    let mut links = 0;
    let mut pending: Vec<String> = path.components().rev().map(|part| part.as_str().to_owned()).collect();
    while let Some(part) = pending.pop() {
        match part.as_str() {
            "/" => at = "/".into(),
            "." => {}
            ".." => {
                at.pop();
            }
            part => {
                let place = at.join(part);
                let target =
                    fs::read_link(&place).ok().and_then(|target| Utf8PathBuf::from_path_buf(target).ok());
                route.push(place.clone());
                match target {
                    Some(target) if links < MAX_LINKS => {
                        links += 1;
                        pending.extend(target.components().rev().map(|part| part.as_str().to_owned()));
                    }
                    _ => at = place,
                }
            }
        }
    }
    route
}

impl Guard {
    /// Looks at a path that a later run would take skills or configuration from.
    #[must_use]
    pub fn resolve(path: &Utf8Path) -> Self {
        let found = fs::canonicalize(path).ok().and_then(|canonical| {
            let found = fs::symlink_metadata(&canonical).ok()?;
            let canonical = Utf8PathBuf::from_path_buf(canonical).ok()?;
            Some(Guarded {
                canonical,
                identity: (found.dev(), found.ino()),
                kind: kind_of(found.file_type()),
            })
        });
        Self { path: path.to_owned(), found, route: route(path) }
    }

    /// Looks at the places where a project keeps skills and configuration, in a directory and in the
    /// project that it belongs to: the nearest above with a `.git` file or directory.
    #[must_use]
    pub fn of_project(directory: &Utf8Path) -> Vec<Self> {
        let project = directory.ancestors().find(|above| fs::symlink_metadata(above.join(".git")).is_ok());
        let mut places = vec![directory];
        places.extend(project.filter(|project| *project != directory));
        let paths = places.into_iter().flat_map(|place| PROJECT_SOURCES.map(|source| place.join(source)));
        paths.map(|path| Self::resolve(&path)).collect()
    }

    /// Whether the path leads to something else than before: it appeared, or was exchanged.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        match Self::resolve(&self.path).found {
            Some(now) => self.found.as_ref().is_none_or(|before| *before != now),
            // What has gone cannot be taken for a skill.
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_notices_what_appears_and_what_is_exchanged() {
        let temp = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(temp.path()).unwrap().join("skills");
        let absent = Guard::resolve(&path);
        assert!(absent.found.is_none() && !absent.has_changed());
        fs::create_dir(&path).unwrap();
        assert!(absent.has_changed());
        let present = Guard::resolve(&path);
        assert!(!present.has_changed());
        fs::rename(&path, path.with_extension("old")).unwrap();
        assert!(!present.has_changed());
        fs::create_dir(&path).unwrap();
        assert!(present.has_changed());
    }

    #[test]
    fn a_route_names_every_link_on_the_way() {
        let temp = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::from_path_buf(temp.path().canonicalize().unwrap()).unwrap();
        fs::create_dir_all(top.join("data/ws")).unwrap();
        std::os::unix::fs::symlink("data", top.join("link")).unwrap();
        std::os::unix::fs::symlink("../../other/skills", top.join("data/ws/skills")).unwrap();
        let route = route(&top.join("link/ws/skills"));
        let below: Vec<&Utf8Path> = route.iter().filter_map(|path| path.strip_prefix(&top).ok()).collect();
        assert_eq!(below, ["", "link", "data", "data/ws", "data/ws/skills", "other", "other/skills"]);
    }
}
