//! What the paths of a command line are: directories of packages, packages, or flat skills.

use std::fs;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use cap_std::fs::Dir;
use skillfreeze::catalog::{Definition, Layout};
use skillfreeze::manifest::SKILL_FILE;

use crate::context::{canonical, open_dir};
use crate::directories::DirectoryArgs;
use crate::exit::Failure;

/// What is to be checked, each thing once, in the order of the paths.
#[derive(Debug, Default)]
pub(super) struct Subjects {
    /// Directories, packages among them, named as they were typed.
    pub(super) directories: Vec<Definition>,
    /// Files that are packages by themselves.
    pub(super) files: Vec<FlatFile>,
}

/// A file that is a package by itself.
#[derive(Debug)]
pub(super) struct FlatFile {
    /// The directory that it is in.
    pub(super) above: Dir,
    /// Its name there.
    pub(super) name: String,
    /// Where it is, as it was typed.
    pub(super) path: Utf8PathBuf,
    /// Where it is, without a link on the way.
    real: Utf8PathBuf,
}

impl Subjects {
    /// Looks what each path is.
    pub(super) fn find(paths: &[Utf8PathBuf], args: &DirectoryArgs) -> Result<Self, Failure> {
        let mut subjects = Self::default();
        for path in paths {
            let found = fs::metadata(path).map_err(|error| unusable(path, &error))?;
            let name = path.file_name().unwrap_or_default();
            if found.is_dir() {
                subjects.add_directory(args.definition(path)?);
            } else if name.eq_ignore_ascii_case(SKILL_FILE) {
                let mut package = args.definition(above(path))?;
                package.layout = Layout::Package;
                subjects.add_directory(package);
            } else if name.ends_with(".md") {
                subjects.add_file(path, name)?;
            } else {
                let message = format!("`{path}` is neither a directory nor a skill's file");
                let failure = Failure::new("root-not-a-directory", message);
                return Err(failure
                    .hint("name a package, its `SKILL.md`, a flat skill `name.md`, or a directory of them"));
            }
        }
        Ok(subjects)
    }

    fn add_directory(&mut self, definition: Definition) {
        let is_same = |known: &Definition| known.path == definition.path && known.layout == definition.layout;
        if !self.directories.iter().any(is_same) {
            self.directories.push(definition);
        }
    }

    fn add_file(&mut self, path: &Utf8Path, name: &str) -> Result<(), Failure> {
        let real = canonical(above(path))?.join(name);
        if self.files.iter().all(|known| known.real != real) {
            let (above, path, name) = (open_dir(above(path))?, path.to_owned(), name.to_owned());
            self.files.push(FlatFile { above, name, path, real });
        }
        Ok(())
    }
}

/// The directory of something that is not a directory itself.
fn above(path: &Utf8Path) -> &Utf8Path {
    path.parent().filter(|above| *above != "").unwrap_or(Utf8Path::new("."))
}

fn unusable(path: &Utf8Path, error: &io::Error) -> Failure {
    let code = match error.kind() {
        // What is said to lie below a file is as absent as any.
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "root-absent",
        io::ErrorKind::PermissionDenied => "root-unreadable",
        _ => "root-failed",
    };
    Failure::new(code, format!("cannot look at `{path}`: {error}"))
}
