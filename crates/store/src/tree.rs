//! What a package looked like when it was surveyed, to be compared with what it looks like later.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use skillfreeze_manifest::{
    Destination, Entry, LinkRoot, LinkTarget, SKILL_FILE, Stamp, escape_bytes, list_dir_up_to, open_dir,
    resolve_link,
};

use crate::link::Link;

/// What there was of a package.
#[derive(Default)]
pub(crate) struct Tree {
    /// Every directory by path, the package's own as the empty path, with its entries by name.
    pub(crate) directories: BTreeMap<String, (Stamp, Vec<Entry>)>,
    /// Every file and link by path.
    pub(crate) leaves: BTreeMap<String, Stamp>,
    /// Links that lead into link roots, each with what it leads to.
    pub(crate) borrowed: Vec<(Link, LinkTarget)>,
    /// The name and state of the one file of a flat package.
    pub(crate) flat: Option<(String, Stamp)>,
}

impl Tree {
    /// Looks again, and names the first path that is not as it was.
    pub(crate) fn check_unchanged(
        &self,
        package: BorrowedFd<'_>,
        link_roots: &[LinkRoot],
    ) -> Result<(), String> {
        if let Some((name, stamp)) = &self.flat
            && !Stamp::at(package, name.as_bytes()).is_ok_and(|now| now == *stamp)
        {
            return Err(SKILL_FILE.to_owned());
        }
        for (path, (stamp, entries)) in &self.directories {
            let changed = |_| shown(path);
            let handle = open_below(package, path).map_err(changed)?;
            if Stamp::of(&handle).map_err(changed)? != *stamp
                || sorted(&handle, entries.len()).map_err(changed)? != *entries
            {
                return Err(shown(path));
            }
            for entry in entries {
                let path = join(path, &escape_bytes(&entry.name));
                if let Some(stamp) = self.leaves.get(&path)
                    && !Stamp::at(&handle, &entry.name).is_ok_and(|now| now == *stamp)
                {
                    return Err(path);
                }
            }
        }
        for (link, found) in &self.borrowed {
            match resolve_link(package, &link.above, &link.target, link_roots) {
                Ok(Destination::Found(now)) if now == *found => {}
                _ => return Err(link.path.to_string()),
            }
        }
        Ok(())
    }
}

/// A path in the package for messages.
pub(crate) fn shown(path: &str) -> String {
    if path.is_empty() { ".".to_owned() } else { path.to_owned() }
}

pub(crate) fn join(above: &str, name: &str) -> String {
    if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") }
}

pub(crate) fn open_below(package: BorrowedFd<'_>, path: &str) -> io::Result<OwnedFd> {
    open_dir(package, if path.is_empty() { "." } else { path })
}

/// The entries of a directory by name, where there are no more than `most`; else any that are more.
pub(crate) fn sorted(dir: impl AsFd, most: usize) -> io::Result<Vec<Entry>> {
    let mut entries = list_dir_up_to(dir, most)?;
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}
