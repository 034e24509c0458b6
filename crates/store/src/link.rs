//! Links of a package: which of them are stored as files, and what is wrong with the others.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use skillfreeze_manifest::{
    Destination, Diagnostic, EntryKind, LinkRoot, LinkTarget, MAX_LINKS, PackagePath, SKILL_FILE, Severity,
    SkillLinkError, describe_kind, escape_bytes, resolve_link,
};

use crate::import::is_gone;
use crate::refusal::Refusal;
use crate::survey::{Planned, Survey};

/// A link that was found.
pub(crate) struct Link {
    pub(crate) path: PackagePath,
    /// The directory above it, empty for the package's own.
    pub(crate) above: String,
    /// What it says.
    pub(crate) target: Vec<u8>,
}

impl Survey {
    /// Turns links to the package's own files, and into link roots, into files; all others are
    /// faults.
    ///
    /// # Errors
    /// The path of a link that changed meanwhile.
    pub(crate) fn resolve_links(
        &mut self,
        package: BorrowedFd<'_>,
        links: Vec<Link>,
        link_roots: &[LinkRoot],
    ) -> Result<(), String> {
        let mut materialized = Vec::new();
        for link in links {
            let path = link.path.to_string();
            let destination = match resolve_link(package, &link.above, &link.target, link_roots) {
                Ok(destination) => destination,
                Err(error) if is_gone(&error) => return Err(path),
                Err(source) => {
                    self.refusals.push(Refusal::Unreadable { path, source });
                    continue;
                }
            };
            match accept(&self.files, package, &link, destination) {
                Ok((found, planned)) => {
                    let from = found.display_path(link_roots);
                    let message = format!("the link to `{from}` is stored as that file's bytes");
                    let note = Diagnostic::new(Severity::Info, "materialized-link", message);
                    self.diagnostics.push(note.at_path(path));
                    materialized.push((link.path.clone(), planned));
                    if found.root.is_some() {
                        self.tree.borrowed.push((link, found));
                    }
                }
                Err(refusal) => self.refusals.push(refusal),
            }
        }
        self.files.extend(materialized);
        Ok(())
    }
}

/// The file that a link stands for.
fn accept(
    files: &BTreeMap<PackagePath, Planned>,
    package: BorrowedFd<'_>,
    link: &Link,
    destination: Destination,
) -> Result<(LinkTarget, Planned), Refusal> {
    let target = || escape_bytes(&link.target);
    if link.path.as_str() == SKILL_FILE {
        let found = destination.of_skill_file(package, SKILL_FILE, &link.target)?;
        let planned = plan(files, &found).ok_or_else(|| SkillLinkError::Forbidden { target: target() })?;
        return Ok((found, planned));
    }
    let (path, target) = (link.path.to_string(), target());
    Err(match destination {
        Destination::Found(found) => match found.stamp.kind {
            EntryKind::File => match plan(files, &found) {
                Some(planned) => return Ok((found, planned)),
                None => Refusal::SymlinkToExcluded { path, target },
            },
            EntryKind::Directory => Refusal::SymlinkToDirectory { path, target },
            kind => Refusal::SymlinkToSpecial { path, target, kind: describe_kind(kind) },
        },
        Destination::Outside => Refusal::SymlinkEscape { path, target },
        Destination::Nowhere => Refusal::SymlinkDangling { path, target },
        Destination::Loop => Refusal::SymlinkLoop { path, target, limit: MAX_LINKS },
        _ => Refusal::SymlinkToExcluded { path, target },
    })
}

/// How to read what a link leads to; none where it does not belong to the package.
fn plan(files: &BTreeMap<PackagePath, Planned>, found: &LinkTarget) -> Option<Planned> {
    let stamp = match found.root {
        Some(_) => found.stamp,
        None => files.get(&found.path.parse().ok()?)?.stamp,
    };
    let (root, from) = (found.root, found.path.clone());
    Some(Planned { root, from, stamp, executable: stamp.is_executable() })
}
