//! Looking at one entry of a source: it is a package, a category with more entries, or left out.
//!
//! What else lies about in a directory is none of our business: plain files, dot entries such as
//! `.git` and `.venv`, and the dependencies that package managers unpack beside. A package is a leaf:
//! nothing in it is looked for.

use std::io;
use std::os::fd::AsFd;

use cap_std::fs::Dir;
use rustix::fs::readlinkat;
use rustix::io::Errno;
use skillfreeze_manifest::{
    Diagnostic, EntryKind, Form, Limits, LinkRoot, Severity, SkillId, count_entries, escape_bytes,
    list_dir_up_to, open_dir,
};

use crate::collection::{self, COLLECTION_FILE, Collection};
use crate::found::{self, Entry, Found, LeftOut};
use crate::front_matter::{ParseOptions, parse_front_matter};
use crate::route::{Reach, Seen};
use crate::skill_file::{SkillFile, SkillFileError, is_of_machine, read_skill_file};
use crate::source::{Links, Source};

/// An entry that may be a package or lead to some.
#[derive(Debug, Clone)]
pub(crate) struct Lead {
    /// Its path below the source's root, `.` for the root itself.
    pub(crate) path: String,
    pub(crate) kind: EntryKind,
    /// Whether its name is UTF-8; if not, `path` is escaped and leads nowhere.
    pub(crate) is_utf8: bool,
    /// How many levels below it packages may lie on.
    pub(crate) depth: u8,
    /// The collection that it is in.
    pub(crate) collection: Option<SkillId>,
    pub(crate) form: Form,
}

impl Lead {
    /// Where it is, with what it is called there.
    fn entry(&self, name: Option<&str>) -> Entry {
        let (path, form, collection) = (self.path.clone(), self.form, self.collection.clone());
        Entry { path, name: name.map(str::to_owned), form, collection }
    }
}

/// What an entry turned out to be.
#[derive(Debug)]
pub(crate) enum Outcome {
    Package(Box<Found>),
    LeftOut(LeftOut),
    /// A directory to look further in; a collection if it says so.
    Category {
        collection: Option<Collection>,
        leads: Vec<Lead>,
        entries: usize,
        path: String,
        seen: Seen,
    },
    /// Nothing that anybody could have meant as a package.
    Nothing,
    /// A directory has this many entries, more than are looked at.
    TooMany(usize),
    /// The machine could not look.
    Machine(SkillFileError),
}

/// What is listed of a directory.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) leads: Vec<Lead>,
    /// How many entries of all kinds it has.
    pub(crate) entries: usize,
    pub(crate) has_collection_file: bool,
}

/// The directory in which leads are listed.
pub(crate) struct Above<'a> {
    /// Its path below the root, `.` for the root itself.
    pub(crate) path: &'a str,
    /// How many levels below each of its entries packages may lie on.
    pub(crate) depth: u8,
    pub(crate) collection: Option<&'a SkillId>,
    pub(crate) form: Form,
}

/// Lists the entries of a directory that may be packages, by name in byte order; `Err` with their
/// number within where there are more than `limit` of any kind.
pub(crate) fn list(dir: impl AsFd, above: &Above<'_>, limit: usize) -> io::Result<Result<Listed, usize>> {
    let mut entries = list_dir_up_to(&dir, limit)?;
    if entries.len() > limit {
        return Ok(Err(count_entries(&dir)?.max(limit + 1)));
    }
    let count = entries.len();
    let has_collection_file = entries.iter().any(|entry| entry.name == COLLECTION_FILE.as_bytes());
    entries.retain(|entry| {
        !entry.name.starts_with(b".")
            && match above.form {
                Form::Directory => {
                    entry.name != b"node_modules"
                        && matches!(entry.kind, EntryKind::Directory | EntryKind::Link)
                }
                Form::File => entry.name.ends_with(b".md") && entry.kind != EntryKind::Directory,
            }
    });
    entries.sort_unstable_by(|first, second| first.name.cmp(&second.name));
    let leads = entries.into_iter().map(|entry| {
        let (name, is_utf8) = match String::from_utf8(entry.name) {
            Ok(name) => (name, true),
            Err(error) => (escape_bytes(error.as_bytes()), false),
        };
        let path = if above.path == "." { name } else { format!("{}/{name}", above.path) };
        let (depth, collection, form) = (above.depth, above.collection.cloned(), above.form);
        Lead { path, kind: entry.kind, is_utf8, depth, collection, form }
    });
    Ok(Ok(Listed { leads: leads.collect(), entries: count, has_collection_file }))
}

/// Looks at entries of one source.
pub(crate) struct Walk<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) root: &'a Dir,
    pub(crate) limits: &'a Limits,
    /// Where the source's links may lead.
    pub(crate) link_roots: &'a [LinkRoot],
    /// How many entries a directory may have.
    pub(crate) max_entries: usize,
}

impl Walk<'_> {
    /// Looks at one entry; reads of it at most the names in a directory and the beginning of a `SKILL.md`.
    pub(crate) fn examine(&self, lead: &Lead) -> Outcome {
        if !lead.is_utf8 {
            let message = format!("the name `{}` is not UTF-8", lead.path);
            let diagnostic = Diagnostic::new(Severity::Error, "path-not-utf8", message);
            let seen = Seen::entry(self.root, ".", Reach::Within);
            return Outcome::LeftOut(LeftOut::new(Err(&lead.path), seen, vec![diagnostic]));
        }
        match (lead.form, lead.kind) {
            (Form::Directory, EntryKind::Link) => self.link(lead),
            _ => {
                let seen = match lead.form {
                    Form::Directory => Seen::package(self.root, &lead.path, Reach::Within),
                    Form::File => Seen::entry(self.root, &lead.path, Reach::Within),
                };
                self.entry(lead, seen)
            }
        }
    }

    fn entry(&self, lead: &Lead, seen: Seen) -> Outcome {
        let name = match (lead.path.as_str(), lead.form) {
            (".", _) => self.source.definition().path.file_name(),
            (path, Form::Directory) => path.rsplit('/').next(),
            (path, Form::File) => path.strip_suffix(".md"),
        };
        let at = lead.entry(name);
        match read_skill_file(self.root, &lead.path, lead.form, self.limits, self.link_roots) {
            Ok(head) => self.package(at, seen, &head),
            Err(SkillFileError::Absent) if lead.form == Form::Directory => self.category(lead, seen),
            Err(error) if error.is_of_machine() => Outcome::Machine(error),
            Err(error) => Outcome::LeftOut(LeftOut::package(&at, seen, vec![error.diagnostic()])),
        }
    }

    fn package(&self, at: Entry, seen: Seen, head: &SkillFile) -> Outcome {
        // Notes lie beside flat packages; what does not begin as one is not meant as one.
        if at.form == Form::File && !crate::front_matter::fence::begins(&head.head) {
            let message = "the file does not begin with front matter";
            let diagnostic = Diagnostic::new(Severity::Info, "no-front-matter", message);
            return Outcome::LeftOut(LeftOut::new(Ok(&at.path), seen, vec![diagnostic]));
        }
        let of = ParseOptions::of(at.name.as_deref());
        let options = ParseOptions { size: Some(head.size), limits: *self.limits, ..of };
        match parse_front_matter(&head.head, &options) {
            Ok(front_matter) => Outcome::Package(Box::new(Found::new(at, seen, front_matter))),
            Err(diagnostics) => Outcome::LeftOut(LeftOut::package(&at, seen, diagnostics)),
        }
    }

    /// A directory without a `SKILL.md`.
    fn category(&self, lead: &Lead, seen: Seen) -> Outcome {
        let leave_out =
            |seen, diagnostic| Outcome::LeftOut(LeftOut::new(Ok(&lead.path), seen, vec![diagnostic]));
        let failed = |seen, error: io::Error| match SkillFileError::of_directory(error) {
            error if error.is_of_machine() => Outcome::Machine(error),
            error => leave_out(seen, error.diagnostic()),
        };
        let dir = match open_dir(self.root, &lead.path) {
            Ok(dir) => dir,
            Err(error) => return failed(seen, error),
        };
        let above = Above {
            path: &lead.path,
            depth: lead.depth.saturating_sub(1),
            collection: lead.collection.as_ref(),
            form: Form::Directory,
        };
        let listed = match list(&dir, &above, self.max_entries) {
            Ok(Ok(listed)) => listed,
            Ok(Err(count)) => return Outcome::TooMany(count),
            Err(error) => return failed(seen, error),
        };
        let Listed { mut leads, entries, has_collection_file } = listed;
        let path = lead.path.clone();
        if has_collection_file {
            if lead.collection.is_some() {
                let message = format!("a collection within a collection: `{COLLECTION_FILE}`");
                return leave_out(seen, Diagnostic::new(Severity::Error, "collection-nested", message));
            }
            // Before it is read, so that a later edit is seen.
            let seen = seen.with(self.root, &lead.path, COLLECTION_FILE);
            let (id, prompt) = match collection::read(&dir) {
                Ok(read) => read,
                Err(diagnostic) => return leave_out(seen, diagnostic),
            };
            for member in &mut leads {
                // Its members lie right in it, whatever the categories above it may have.
                (member.collection, member.depth) = (Some(id.clone()), 0);
            }
            let collection = Some(Collection { id, prompt, source: 0, directory: path.clone() });
            return Outcome::Category { collection, leads, entries, path, seen };
        }
        if lead.depth == 0 || leads.is_empty() {
            return leave_out(seen, SkillFileError::Absent.diagnostic());
        }
        Outcome::Category { collection: None, leads, entries, path, seen }
    }

    fn link(&self, lead: &Lead) -> Outcome {
        // Deeper links could lead anywhere in the source again.
        let is_in_root = !lead.path.contains('/');
        let is_allowed = self.source.definition().links == Links::Allow && is_in_root;
        let reach = if is_allowed { Reach::Anywhere } else { Reach::Within };
        let leads_to_a_file =
            reach.target(self.root, &lead.path).is_some_and(|stamp| stamp.kind != EntryKind::Directory);
        if leads_to_a_file {
            return Outcome::Nothing;
        }
        let seen = match is_allowed {
            true => Seen::package(self.root, &lead.path, reach),
            false => Seen::entry(self.root, &lead.path, reach),
        };
        let leave_out =
            |seen, diagnostic| Outcome::LeftOut(LeftOut::new(Ok(&lead.path), seen, vec![diagnostic]));
        let target = match readlinkat(self.root, lead.path.as_str(), Vec::new()) {
            Ok(target) => escape_bytes(target.to_bytes()),
            Err(error) => {
                let message = format!("the link was removed or replaced while the source was read: {error}");
                return leave_out(seen, Diagnostic::new(Severity::Error, "vanished", message));
            }
        };
        if !is_allowed {
            let message = format!("a link to `{target}`; the source does not allow links");
            let diagnostic = Diagnostic::new(Severity::Error, "symlink-not-allowed", message)
                .hint("name the directory that it leads to as a source, or copy it");
            return leave_out(seen, diagnostic);
        }
        let (dir, real_path) = match self.source.follow(self.root, &lead.path) {
            Ok(followed) => followed,
            Err(error) if is_of_machine(&error) => {
                return Outcome::Machine(SkillFileError::of_directory(error));
            }
            Err(error) => {
                let code = match error.kind() {
                    io::ErrorKind::NotFound => "symlink-dangling",
                    _ if Errno::from_io_error(&error) == Some(Errno::LOOP) => "symlink-loop",
                    _ => "unreadable",
                };
                let message = format!("a link to `{target}`, which cannot be opened: {error}");
                return leave_out(seen, Diagnostic::new(Severity::Error, code, message));
            }
        };
        let behind = Walk { root: &dir, ..*self };
        let outcome = match read_skill_file(&dir, ".", Form::Directory, self.limits, self.link_roots) {
            Ok(head) => behind.package(lead.entry(Some(&lead.path)), seen, &head),
            Err(error @ SkillFileError::Absent) => return leave_out(seen, error.diagnostic()),
            Err(error) if error.is_of_machine() => Outcome::Machine(error),
            Err(error) => {
                let at = lead.entry(Some(&lead.path));
                Outcome::LeftOut(LeftOut::package(&at, seen, vec![error.diagnostic()]))
            }
        };
        match outcome {
            Outcome::Package(mut found) => {
                found.real_path = Some(real_path);
                Outcome::Package(found)
            }
            Outcome::LeftOut(mut left) => {
                left.reach = left.reach.map(|reach| found::Reach { is_link: true, ..reach });
                Outcome::LeftOut(left)
            }
            other => other,
        }
    }
}
