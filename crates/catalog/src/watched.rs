//! The places whose change may change what a scan finds.
//!
//! They are for those who are told of changes by the system: whatever is seen there is a reason to scan
//! again, and never what a scan would have found. What lies deeper in a package is not among them: it
//! says nothing of a package beyond whether another one has the same content.

use camino::Utf8PathBuf;
use skillfreeze_manifest::SKILL_FILE;

use crate::catalog::{Catalog, CatalogSource};
use crate::found::{Found, LeftOut};
use crate::route::Seen;
use crate::source::Layout;

/// A place whose change may change what a scan finds, by its absolute path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// A directory of which each entry counts.
    Directory(Utf8PathBuf),
    /// A file that counts, alone in its directory; it need not be there.
    File(Utf8PathBuf),
    /// A link that counts, and with it the file that it leads to.
    Link(Utf8PathBuf),
}

impl Catalog {
    /// What to watch so as to learn that another scan may find something else, sorted.
    ///
    /// A root that is absent is among it. The ways to the roots are not: who opens a source knows how it
    /// is reached.
    #[must_use]
    pub fn watched(&self) -> Vec<Watched> {
        let mut watched = Vec::new();
        for source in &self.sources {
            if source.root.is_none() || source.definition.layout != Layout::Package {
                watched.push(Watched::Directory(source.definition.path.to_path_buf()));
            }
            watched.extend(source.listed.iter().map(|path| Watched::Directory(source.below(path))));
        }
        for found in self.packages.iter().chain(&self.shadowed) {
            self.watch_package(found, &mut watched);
        }
        for left in &self.left_out {
            self.watch_left_out(left, &mut watched);
        }
        watched.sort();
        watched.dedup();
        watched
    }

    fn watch_package(&self, found: &Found, watched: &mut Vec<Watched>) {
        // The root holds all of a file's state.
        if !found.seen.may_be_package() {
            return;
        }
        let source = &self.sources[found.source];
        // Whether two packages are one depends on their files too.
        if !found.origins.is_empty() || found.shadowed_by.is_some() {
            watched.push(Watched::Directory(source.below(&found.directory)));
        }
        for place in &found.origins {
            watched.push(Watched::Directory(self.sources[place.source].below(&place.directory)));
        }
        source.watch_skill(&found.directory, &found.seen, watched);
    }

    fn watch_left_out(&self, left: &LeftOut, watched: &mut Vec<Watched>) {
        if !left.seen.may_be_package() {
            return;
        }
        let source = &self.sources[left.source];
        // Nothing but a package is looked for behind a link, which may lead to any busy place.
        if left.id.is_none() && !left.seen.is_link() {
            watched.push(Watched::Directory(source.below(&left.route)));
            if !left.seen.is_skill_link() {
                return;
            }
        }
        source.watch_skill(&left.route, &left.seen, watched);
    }
}

impl CatalogSource {
    /// The absolute path of something in it; `.` is the source itself.
    fn below(&self, path: &str) -> Utf8PathBuf {
        self.definition.path.join(path).components().collect()
    }

    fn watch_skill(&self, directory: &str, seen: &Seen, watched: &mut Vec<Watched>) {
        let skill = self.below(directory).join(SKILL_FILE);
        watched.push(if seen.is_skill_link() { Watched::Link(skill) } else { Watched::File(skill) });
    }
}
