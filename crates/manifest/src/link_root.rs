//! Directories outside of a package that its links may lead into.

use cap_std::fs::Dir;

/// A directory that a source's configuration names, a Nix store for instance, so that links may
/// lead into it.
#[derive(Debug)]
pub struct LinkRoot {
    path: String,
    dir: Dir,
}

/// Why a path cannot be that of a [`LinkRoot`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkRootError {
    /// It is not absolute, so what it names depends on where one is.
    #[error("`{}` is not absolute", .path.escape_debug())]
    NotAbsolute {
        /// The path.
        path: String,
    },
    /// It has an empty component, `.`, `..` or a slash at its end, so that it is not compared as it
    /// is meant.
    #[error("`{}` is not canonical", .path.escape_debug())]
    NotCanonical {
        /// The path.
        path: String,
    },
}

impl LinkRoot {
    /// Makes the link root of an open directory and its absolute path, in which no component is a link.
    ///
    /// What a link says is compared with the path; what is there is reached through the handle alone.
    ///
    /// # Errors
    /// [`LinkRootError`] where the path is not absolute and canonical in its form.
    pub fn new(path: impl Into<String>, dir: Dir) -> Result<Self, LinkRootError> {
        let path = path.into();
        let Some(below) = path.strip_prefix('/') else { return Err(LinkRootError::NotAbsolute { path }) };
        if !below.is_empty() && below.split('/').any(|name| matches!(name, "" | "." | "..")) {
            return Err(LinkRootError::NotCanonical { path });
        }
        Ok(Self { path, dir })
    }

    /// The absolute path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The open directory.
    #[must_use]
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The components of the absolute path `target` that are below this one, of which empty ones
    /// tell of a slash at the end; none where `target` is elsewhere.
    ///
    /// Components are compared, not characters: `/nix/store-evil` is not below `/nix/store`.
    pub(crate) fn below<'t>(&self, target: &'t [u8]) -> Option<Vec<&'t [u8]>> {
        let mut left = target.strip_prefix(b"/")?.split(|byte| *byte == b'/');
        for name in self.path.split('/').filter(|name| !name.is_empty()) {
            let mut next = left.by_ref().skip_while(|given| matches!(*given, b"" | b"."));
            if next.next()? != name.as_bytes() {
                return None;
            }
        }
        Some(left.collect())
    }
}

/// The link root that an absolute target is below, by its index, and the components below it; the
/// innermost where one is in another.
pub(crate) fn find_root<'t>(roots: &[LinkRoot], target: &'t [u8]) -> Option<(usize, Vec<&'t [u8]>)> {
    let all = roots.iter().enumerate();
    all.filter_map(|(index, root)| Some((index, root.below(target)?)))
        .max_by_key(|(index, _)| roots[*index].path.len())
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "any directory will do")]
    fn root(path: &str) -> Result<LinkRoot, LinkRootError> {
        LinkRoot::new(path, Dir::open_ambient_dir("/", ambient_authority()).unwrap())
    }

    #[test]
    fn a_root_is_absolute_and_canonical() {
        for path in ["/", "/nix", "/nix/store", "/a b/é"] {
            assert_eq!(root(path).unwrap().path(), path);
        }
        for path in ["", "nix", "./nix", "../nix"] {
            let refused = root(path).err();
            assert_eq!(refused, Some(LinkRootError::NotAbsolute { path: path.to_owned() }));
        }
        for path in ["//", "/nix/", "/nix//store", "/./nix", "/nix/../etc", "/nix/."] {
            let refused = root(path).err();
            assert_eq!(refused, Some(LinkRootError::NotCanonical { path: path.to_owned() }));
        }
    }

    #[test]
    fn containment_is_by_whole_components() {
        for (path, target, below) in [
            ("/nix/store", "/nix/store/a/b", Some("a/b")),
            ("/nix/store", "/nix/store", Some("")),
            ("/nix/store", "/nix/store/", Some("")),
            ("/nix/store", "//nix/./store//a/", Some("/a/")),
            ("/nix/store", "/nix/store/../x", Some("../x")),
            ("/", "/etc/passwd", Some("etc/passwd")),
            ("/nix/store", "/nix/store-evil/a", None),
            ("/nix/store", "/nix/stor", None),
            ("/nix/store", "/nix", None),
            ("/nix/store", "/", None),
            ("/nix/store", "nix/store/a", None),
            ("/nix/store", "/NIX/store/a", None),
            ("/nix/store", "/x/../nix/store/a", None),
            ("/nix/store", "", None),
        ] {
            let found = root(path).unwrap().below(target.as_bytes()).map(|names| names.join(&b'/'));
            assert_eq!(found.as_deref(), below.map(str::as_bytes), "{path} {target}");
        }
    }

    #[test]
    fn the_innermost_root_counts() {
        let roots = ["/nix", "/nix/store", "/opt"].map(|path| root(path).unwrap());
        let index = |target: &str| find_root(&roots, target.as_bytes()).map(|(index, _)| index);
        assert_eq!(index("/nix/store/a"), Some(1));
        assert_eq!(index("/nix/var"), Some(0));
        assert_eq!(index("/opt/a"), Some(2));
        assert_eq!(index("/etc"), None);
    }
}
