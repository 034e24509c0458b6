//! A store and a source in a temporary directory, and a parser of one line.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use skillfreeze_manifest::{Diagnostic, EntryKind, Form, Limits, LinkRoot, Severity, Silent, Stamp};
use skillfreeze_store::{
    AddError, AddOptions, Added, Author, Candidate, Describe, Described, Description, Origin, Store,
    StoreError,
};

/// Takes the id from the line `name: …`.
pub(crate) struct ByName;

impl Describe for ByName {
    fn describe(&self, package: Described<'_>) -> Result<Description, Vec<Diagnostic>> {
        let text = String::from_utf8_lossy(package.skill_md);
        let name = text.lines().find_map(|line| line.strip_prefix("name: ")).unwrap_or("");
        let id = name.parse().map_err(|error: skillfreeze_manifest::IdError| {
            vec![Diagnostic::new(Severity::Error, "name-invalid", error.to_string())]
        })?;
        Ok(Description { id, version: "1.0".parse().ok(), diagnostics: Vec::new() })
    }
}

/// `store/` and `src/` below a temporary directory.
pub(crate) struct Place {
    temp: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("store")).unwrap();
        fs::create_dir(temp.path().join("src")).unwrap();
        Self { temp }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.temp.path().join(below)
    }

    pub(crate) fn dir(&self, below: &str) -> Dir {
        Dir::open_ambient_dir(self.path(below), ambient_authority()).unwrap()
    }

    pub(crate) fn open(&self) -> Store {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> Result<Store, StoreError> {
        let author = Author { actor: "tester".into(), clock: || "2026-01-02T03:04:05Z".into() };
        Store::open(self.dir("store"), author)
    }

    pub(crate) fn read_only(&self) -> Store {
        Store::open_read_only(self.dir("store")).unwrap()
    }

    /// Writes `src/<path>`, executable when its content begins with `#!`.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path("src").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &content).unwrap();
        let mode = if content.as_ref().starts_with(b"#!") { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Makes the package `src/<name>` with a `SKILL.md`.
    pub(crate) fn package(&self, name: &str) {
        self.write(&format!("{name}/SKILL.md"), skill(name));
    }

    pub(crate) fn add(&self, store: &Store, names: &[&str]) -> Vec<Result<Added, AddError>> {
        self.add_with(store, names, &OPTIONS)
    }

    pub(crate) fn add_with(
        &self,
        store: &Store,
        names: &[&str],
        options: &AddOptions<'_>,
    ) -> Vec<Result<Added, AddError>> {
        let src = self.dir("src");
        let candidates: Vec<Candidate<'_>> = names.iter().map(|name| candidate(&src, name)).collect();
        store.add(&candidates, options).unwrap()
    }

    pub(crate) fn add_one(&self, store: &Store, name: &str) -> Result<Added, AddError> {
        self.add(store, &[name]).remove(0)
    }

    /// The directory at `below` as one that links may lead into.
    pub(crate) fn link_root(&self, below: &str) -> LinkRoot {
        LinkRoot::new(self.path(below).to_str().unwrap(), self.dir(below)).unwrap()
    }

    /// Everything below the directory, with what would change if anything was written.
    pub(crate) fn stamps(&self) -> Vec<(PathBuf, Stamp)> {
        fn collect(path: &Path, stamps: &mut Vec<(PathBuf, Stamp)>) {
            let name = path.file_name().unwrap().as_encoded_bytes();
            let above = Dir::open_ambient_dir(path.parent().unwrap(), ambient_authority()).unwrap();
            let stamp = Stamp::at(&above, name).unwrap();
            stamps.push((path.to_owned(), stamp));
            if stamp.kind == EntryKind::Directory {
                fs::read_dir(path).unwrap().for_each(|entry| collect(&entry.unwrap().path(), stamps));
            }
        }
        let mut stamps = Vec::new();
        collect(self.temp.path(), &mut stamps);
        stamps.sort_by(|a, b| a.0.cmp(&b.0));
        stamps
    }

    /// The only archive in the store.
    pub(crate) fn archive(&self) -> PathBuf {
        let mut names = names(&self.path("store/packages/sha256"));
        assert_eq!(names.len(), 1);
        self.path("store/packages/sha256").join(names.remove(0))
    }
}

pub(crate) const OPTIONS: AddOptions<'static> = AddOptions {
    describe: &ByName,
    limits: Limits::DEFAULT,
    drop_bytecode: false,
    activate: true,
    progress: &Silent,
};

pub(crate) fn candidate<'a>(src: &'a Dir, name: &str) -> Candidate<'a> {
    let origin = Origin { source: None, path: format!("/src/{name}") };
    Candidate::new(src, name, Form::Directory, origin)
}

pub(crate) fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: d\n---\nbody\n")
}

/// The path and code of each finding.
pub(crate) fn codes(diagnostics: &[Diagnostic]) -> Vec<(&str, &str)> {
    diagnostics.iter().map(|found| (found.path.as_deref().unwrap_or(""), found.code)).collect()
}

/// The names in a directory, sorted.
pub(crate) fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Reads a whole package back.
pub(crate) fn read_back(store: &Store, added: &Added) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let package = store.open_package(&added.revision.digest).unwrap();
    package
        .read_files(|entry, bytes| {
            let mut content = Vec::new();
            bytes.read_to_end(&mut content)?;
            files.push((entry.path.to_string(), content));
            Ok(())
        })
        .unwrap();
    files
}
