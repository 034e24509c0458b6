//! What a package holds, found before anything is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use skillfreeze_manifest::{
    Diagnostic, Entry, EntryKind, Exclusion, Limits, LinkRoot, Membership, PackagePath, PathSet, SKILL_FILE,
    Severity, SkillLinkError, Stamp, describe_kind, escape_bytes, membership, open_file, read_link,
};

use crate::exclusions::Exclusions;
use crate::import::is_gone;
use crate::link::Link;
use crate::refusal::Refusal;
use crate::tarball::MAX_FILE_BYTES;
use crate::tree::{Tree, join, open_below, shown, sorted};

/// How many entries a directory tree may have for each file that a package may have. What is left out
/// of a package is no part of it, but it is read and told.
const ENTRIES_PER_FILE: u64 = 16;

/// A file that is to be read.
pub(crate) struct Planned {
    /// The index of the link root where its bytes are; none where they are in the package.
    pub(crate) root: Option<usize>,
    /// Where its bytes are: elsewhere than its path where it is a link.
    pub(crate) from: String,
    /// Its state when it was found.
    pub(crate) stamp: Stamp,
    /// Whether it is executable in the package.
    pub(crate) executable: bool,
}

impl Planned {
    /// Opens it for reading, through no link.
    pub(crate) fn open(&self, package: BorrowedFd<'_>, link_roots: &[LinkRoot]) -> io::Result<File> {
        match self.root.and_then(|index| link_roots.get(index)) {
            Some(root) => open_file(root.dir(), &self.from),
            None => open_file(package, &self.from),
        }
    }
}

/// A package's files, its faults, and what is worth saying about it.
#[derive(Default)]
pub(crate) struct Survey {
    pub(crate) tree: Tree,
    pub(crate) files: BTreeMap<PackagePath, Planned>,
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Survey {
    /// Walks the whole package without reading a file.
    ///
    /// # Errors
    /// The path of something that changed meanwhile.
    pub(crate) fn take(
        package: BorrowedFd<'_>,
        limits: &Limits,
        drop_bytecode: bool,
        link_roots: &[LinkRoot],
    ) -> Result<Self, String> {
        let mut walk = Walk {
            package,
            limits,
            drop_bytecode,
            survey: Self::default(),
            links: Vec::new(),
            pending: vec![String::new()],
            left_out: Exclusions::default(),
            entries: 0,
            count: 0,
            is_cut_short: false,
        };
        walk.run()?;
        walk.left_out.finish(&mut walk.survey.diagnostics);
        if walk.is_cut_short {
            return Ok(walk.survey);
        }
        let Walk { mut survey, links, .. } = walk;
        survey.resolve_links(package, links, link_roots)?;
        survey.find_skill_file();
        survey.find_collisions();
        survey.find_empty_directories();
        survey.find_nested_skill_files();
        survey.check_bytes(limits);
        Ok(survey)
    }

    /// Looks at the one file of a flat package, the entry `name` of the directory `above`.
    ///
    /// It is never executable: no script is a `SKILL.md`, and its mode comes with where it lies.
    ///
    /// # Errors
    /// The path of something that changed meanwhile.
    pub(crate) fn take_flat(above: BorrowedFd<'_>, name: &str, limits: &Limits) -> Result<Self, String> {
        let path = || SKILL_FILE.to_owned();
        let mut survey = Self::default();
        let stamp = match Stamp::at(above, name.as_bytes()) {
            Ok(stamp) => stamp,
            Err(source) => {
                survey.refusals.push(Refusal::Unreadable { path: path(), source });
                return Ok(survey);
            }
        };
        match stamp.kind {
            EntryKind::File => {
                let skill_file = SKILL_FILE.parse().expect("it is a package path");
                let planned = Planned { root: None, from: name.to_owned(), stamp, executable: false };
                survey.files.insert(skill_file, planned);
                survey.tree.flat = Some((name.to_owned(), stamp));
            }
            // Nothing else is in the package, so wherever it leads is outside.
            EntryKind::Link => {
                let target = read_link(above, name.as_bytes()).map_err(|_| path())?;
                survey.refusals.push(SkillLinkError::outside(above, name, &target).into());
            }
            EntryKind::Directory => survey.refusals.push(Refusal::NoSkillFile),
            kind => {
                let kind = describe_kind(kind);
                survey.refusals.push(Refusal::SpecialFile { path: path(), kind });
            }
        }
        survey.check_bytes(limits);
        Ok(survey)
    }

    fn find_skill_file(&mut self) {
        if self.files.keys().any(|path| path.as_str() == SKILL_FILE)
            || self.refusals.iter().any(|refusal| refusal.path() == Some(SKILL_FILE))
        {
            return;
        }
        let entries = self.tree.directories.get("").map_or(&[][..], |(_, entries)| entries);
        let variant = entries.iter().find(|entry| {
            entry.kind != EntryKind::Directory && entry.name.eq_ignore_ascii_case(SKILL_FILE.as_bytes())
        });
        self.refusals.push(match variant {
            Some(entry) => Refusal::SkillFileMisnamed { found: escape_bytes(&entry.name) },
            None => Refusal::NoSkillFile,
        });
    }

    fn find_collisions(&mut self) {
        let mut paths = PathSet::default();
        for path in self.files.keys() {
            if let Err(source) = paths.insert(path) {
                self.refusals.push(Refusal::PathCollision { path: path.to_string(), source });
            }
        }
    }

    /// Reports the topmost directories without a file anywhere below.
    fn find_empty_directories(&mut self) {
        let used: BTreeSet<&str> = self.files.keys().flat_map(PackagePath::directories).collect();
        for path in self.tree.directories.keys().filter(|path| !path.is_empty()) {
            let above = path.rsplit_once('/').map_or("", |(above, _)| above);
            if !used.contains(path.as_str()) && (above.is_empty() || used.contains(above)) {
                let message = "the directory holds no file and is left out";
                let warning = Diagnostic::new(Severity::Warning, "empty-directory-dropped", message);
                self.diagnostics.push(warning.at_path(path.as_str()));
            }
        }
    }

    /// Warns of further `SKILL.md`: a reader that walks the whole tree would take them for skills.
    fn find_nested_skill_files(&mut self) {
        for path in self.files.keys() {
            if path.components().next_back() == Some(SKILL_FILE) && path.as_str() != SKILL_FILE {
                let message = "it is content of this package and no skill of its own";
                let warning = Diagnostic::new(Severity::Warning, "nested-skill-file", message);
                self.diagnostics.push(warning.at_path(path.as_str()));
            }
        }
    }

    fn check_bytes(&mut self, limits: &Limits) {
        let number = self.files.len() as u64;
        if number > limits.files {
            self.refusals.push(Refusal::LimitFiles { number, limit: limits.files });
        }
        let mut bytes: u64 = 0;
        for (path, planned) in &self.files {
            let number = planned.stamp.size;
            bytes = bytes.saturating_add(number);
            let limit = limits.file_bytes.min(MAX_FILE_BYTES);
            if number > limit {
                self.refusals.push(Refusal::LimitFileBytes { path: path.to_string(), number, limit });
            }
            if path.as_str() == SKILL_FILE && number > limits.skill_bytes {
                self.refusals.push(Refusal::LimitSkillBytes { number, limit: limits.skill_bytes });
            }
        }
        if bytes > limits.package_bytes {
            self.refusals.push(Refusal::LimitPackageBytes { number: bytes, limit: limits.package_bytes });
        }
    }
}

struct Walk<'a> {
    package: BorrowedFd<'a>,
    limits: &'a Limits,
    drop_bytecode: bool,
    survey: Survey,
    links: Vec<Link>,
    /// Directories that are still to be listed.
    pending: Vec<String>,
    left_out: Exclusions,
    /// Entries of all directories so far.
    entries: u64,
    /// Files, links and directories so far, without what is left out.
    count: u64,
    is_cut_short: bool,
}

impl Walk<'_> {
    fn run(&mut self) -> Result<(), String> {
        let limit = self.limits.files.saturating_mul(ENTRIES_PER_FILE);
        while let Some(path) = self.pending.pop() {
            let most = usize::try_from(limit - self.entries).unwrap_or(usize::MAX);
            let listed = open_below(self.package, &path)
                .and_then(|handle| Ok((Stamp::of(&handle)?, sorted(&handle, most)?, handle)));
            let (stamp, entries, handle) = match listed {
                Ok(listed) => listed,
                Err(error) if is_gone(&error) => return Err(shown(&path)),
                Err(source) => {
                    self.refuse(Refusal::Unreadable { path: shown(&path), source });
                    continue;
                }
            };
            self.entries += entries.len() as u64;
            if self.entries > limit {
                self.refuse(Refusal::LimitEntries { number: self.entries, limit });
                self.is_cut_short = true;
                return Ok(());
            }
            for entry in &entries {
                self.enter(&handle, &path, entry)?;
                let (files, limit) = (self.survey.files.len() as u64, self.limits.files);
                // What is beyond is not looked at: it may be without end, directories included.
                if files > limit || self.count > limit.saturating_mul(2) {
                    let number = if files > limit { files } else { self.count };
                    self.refuse(Refusal::LimitFiles { number, limit });
                    self.is_cut_short = true;
                    return Ok(());
                }
            }
            self.survey.tree.directories.insert(path, (stamp, entries));
        }
        Ok(())
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.survey.refusals.push(refusal);
    }

    fn leave_out(&mut self, exclusion: Exclusion, path: String) {
        self.left_out.take(exclusion, path, &mut self.survey.diagnostics);
    }

    /// Takes in one entry of the directory at `above`.
    fn enter(&mut self, dir: &OwnedFd, above: &str, entry: &Entry) -> Result<(), String> {
        let path = join(above, &escape_bytes(&entry.name));
        let is_directory = entry.kind == EntryKind::Directory;
        match membership(&entry.name, is_directory) {
            Membership::Content => {}
            Membership::Excluded(exclusion) => {
                self.leave_out(exclusion, path);
                return Ok(());
            }
            Membership::Bytecode if self.drop_bytecode => {
                self.leave_out(Exclusion::Bytecode, path);
                return Ok(());
            }
            _ => {
                self.count += 1;
                self.refuse(Refusal::Bytecode { path });
                return Ok(());
            }
        }
        self.count += 1;
        let Ok(name) = str::from_utf8(&entry.name) else {
            self.refuse(Refusal::PathNotUtf8 { path });
            return Ok(());
        };
        let package_path = match join(above, name).parse::<PackagePath>() {
            Ok(package_path) => package_path,
            Err(source) => {
                self.refuse(Refusal::PathInvalid { path, source });
                return Ok(());
            }
        };
        let number = package_path.components().count();
        if number > self.limits.depth {
            self.refuse(Refusal::LimitDepth { path, number, limit: self.limits.depth });
            return Ok(());
        }
        match entry.kind {
            EntryKind::Directory => self.pending.push(path),
            EntryKind::File => {
                if let Some(stamp) = self.look_at(dir, &entry.name, &path)? {
                    if stamp.kind != EntryKind::File {
                        return Err(path);
                    }
                    let executable = stamp.is_executable();
                    let planned = Planned { root: None, from: path, stamp, executable };
                    self.survey.files.insert(package_path, planned);
                }
            }
            EntryKind::Link => {
                if self.look_at(dir, &entry.name, &path)?.is_some() {
                    match read_link(dir, &entry.name) {
                        Ok(target) => {
                            self.links.push(Link { path: package_path, above: above.to_owned(), target });
                        }
                        Err(_) => return Err(path),
                    }
                }
            }
            kind => self.refuse(Refusal::SpecialFile { path, kind: describe_kind(kind) }),
        }
        Ok(())
    }

    /// The state of a file or link, which is kept so that it can be compared afterwards.
    fn look_at(&mut self, dir: &OwnedFd, name: &[u8], path: &str) -> Result<Option<Stamp>, String> {
        match Stamp::at(dir, name) {
            Ok(stamp) => {
                self.survey.tree.leaves.insert(path.to_owned(), stamp);
                Ok(Some(stamp))
            }
            Err(error) if is_gone(&error) => Err(path.to_owned()),
            Err(source) => {
                self.refuse(Refusal::Unreadable { path: path.to_owned(), source });
                Ok(None)
            }
        }
    }
}
