//! Where a path of the host leads.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

use super::guarded::route;
use crate::seatbelt::Resolved;

impl Resolved {
    /// Follows a path of this host; nothing where it leads nowhere, or its end is not UTF-8.
    #[must_use]
    pub fn of_host(path: &Utf8Path) -> Option<Self> {
        let end = Utf8PathBuf::from_path_buf(fs::canonicalize(path).ok()?).ok()?;
        let links = route(path).into_iter().filter(|place| fs::read_link(place).is_ok()).collect();
        Some(Self { path: end, links })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_the_end_and_the_links_on_the_way() {
        let temp = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::from_path_buf(temp.path().canonicalize().unwrap()).unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", top.join("one")).unwrap();
        std::os::unix::fs::symlink("../one/b", top.join("a/two")).unwrap();
        let resolved = Resolved::of_host(&top.join("one/two")).unwrap();
        assert_eq!(resolved.path, top.join("a/b"));
        assert_eq!(resolved.links, [top.join("one"), top.join("a/two"), top.join("one")]);
        assert_eq!(Resolved::of_host(&top.join("none")), None);
    }
}
