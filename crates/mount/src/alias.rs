//! The names under which one frozen file is known: `$SKILLS_DIR/x`, `${SKILLS_DIR}/x`, `/skills/x`,
//! its path on the host, and `x`, as faults and status lines have it.
//!
//! All of it is done with texts and the manifest: nothing is opened, so no link can lead astray.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze_manifest::{FileEntry, Manifest, PackageEntry, SKILL_FILE, SkillId};

use crate::names::Names;
use crate::shell::quote;

/// What the files of one snapshot are called.
#[derive(Debug, Clone, Copy)]
pub struct Aliases<'a> {
    /// What is in the snapshot.
    pub manifest: &'a Manifest,
    /// How the sandbox calls its directory.
    pub names: &'a Names,
    /// Where it is on the host.
    pub host: &'a Utf8Path,
}

/// One file of a snapshot, whatever it was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrozenFile<'a> {
    /// The package that it belongs to.
    pub package: &'a PackageEntry,
    /// What the manifest says of it.
    pub file: &'a FileEntry,
}

/// Why a name means no frozen file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AliasError {
    /// It begins with nothing that means the snapshot, and with no skill.
    #[error("`{}` does not begin with `${variable}/`, `{directory}/` or a skill's id", .alias.escape_debug())]
    Unknown {
        /// As given.
        alias: String,
        /// The variable for the skills.
        variable: String,
        /// Where the sandbox has them.
        directory: Utf8PathBuf,
    },
    /// It is a path to something outside of the snapshot, or goes up.
    #[error("`{}` leaves the snapshot", .alias.escape_debug())]
    Escape {
        /// As given.
        alias: String,
    },
    /// It has a component that is empty or `.`, so that one file would have two names.
    #[error("`{}` has a component that is empty or `.`", .alias.escape_debug())]
    Component {
        /// As given.
        alias: String,
    },
    /// The manifest has no such file.
    #[error("`{}` is no file of the snapshot", .alias.escape_debug())]
    NotFound {
        /// As given.
        alias: String,
    },
}

impl AliasError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "alias-unknown",
            Self::Escape { .. } => "path-escape",
            Self::Component { .. } => "path-component",
            Self::NotFound { .. } => "not-found",
        }
    }
}

impl<'a> Aliases<'a> {
    /// Finds the file that an alias means.
    ///
    /// # Errors
    /// [`AliasError`].
    pub fn resolve(&self, alias: &str) -> Result<FrozenFile<'a>, AliasError> {
        let alias_ = || alias.to_owned();
        let Some(below) = self.below(alias) else {
            return Err(if alias.starts_with('/') || alias.split('/').any(|component| component == "..") {
                AliasError::Escape { alias: alias_() }
            } else {
                let Names { skills_variable: variable, skills_dir: directory, .. } = self.names.clone();
                AliasError::Unknown { alias: alias_(), variable, directory }
            });
        };
        // Before anything else, so that no `..` is taken for a name that merely is not there.
        if below.split('/').any(|component| component == "..") {
            return Err(AliasError::Escape { alias: alias_() });
        }
        if below.split('/').any(|component| matches!(component, "" | ".")) {
            return Err(AliasError::Component { alias: alias_() });
        }
        let found = below.split_once('/').and_then(|(id, path)| self.find(id, path));
        found.ok_or_else(|| AliasError::NotFound { alias: alias_() })
    }

    /// The `SKILL.md` of a skill, if the snapshot has that.
    #[must_use]
    pub fn skill(&self, id: &SkillId) -> Option<FrozenFile<'a>> {
        self.find(id.as_str(), SKILL_FILE)
    }

    /// The alias that holds in every sandbox, as a word for a shell that has the variable:
    /// `"$SKILLS_DIR"/'a b'/x`.
    #[must_use]
    pub fn variable_form(&self, of: FrozenFile<'_>) -> String {
        let mut word = format!("\"${}\"", self.names.skills_variable);
        for component in of.path().split('/') {
            word.push('/');
            word.push_str(&quote(component));
        }
        word
    }

    /// The file's path on the host.
    #[must_use]
    pub fn host_path(&self, of: FrozenFile<'_>) -> Utf8PathBuf {
        self.host.join(of.path())
    }

    fn find(&self, id: &str, path: &str) -> Option<FrozenFile<'a>> {
        let packages = self.manifest.packages();
        let at = packages.binary_search_by(|package| package.id().as_str().cmp(id)).ok()?;
        let package = &packages[at];
        let files = package.listing().files();
        let at = files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        Some(FrozenFile { package, file: &files[at] })
    }

    /// What stands behind the part of an alias that means the snapshot.
    fn below<'b>(&self, alias: &'b str) -> Option<&'b str> {
        let Names { skills_variable: variable, skills_dir, .. } = self.names;
        let mut beginnings = [
            format!("${variable}"),
            format!("${{{variable}}}"),
            skills_dir.to_string(),
            self.host.to_string(),
        ];
        // One of the directories may lie in the other.
        beginnings.sort_by_key(|beginning| std::cmp::Reverse(beginning.len()));
        let rest = beginnings.iter().find_map(|beginning| {
            alias.strip_prefix(beginning.as_str()).filter(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        match rest {
            Some(rest) => Some(rest.strip_prefix('/').unwrap_or(rest)),
            None => alias.split_once('/').filter(|(id, _)| id.parse::<SkillId>().is_ok()).map(|_| alias),
        }
    }
}

impl FrozenFile<'_> {
    /// Its path in the snapshot, such as `pdf-tools/scripts/go`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.package.id(), self.file.path)
    }
}

/// Replaces a literal `$VARIABLE` or `${VARIABLE}` at the start of a command's argument by `dir`.
///
/// Only the whole argument or what is followed by `/` counts: the shell that started the program
/// would have replaced it by nothing, since the variable exists only inside the sandbox.
#[must_use]
pub fn expand_argument(argument: &OsStr, variable: &str, dir: &Utf8Path) -> OsString {
    let bytes = argument.as_bytes();
    for prefix in [format!("${variable}"), format!("${{{variable}}}")] {
        match bytes.strip_prefix(prefix.as_bytes()) {
            Some(rest) if rest.is_empty() || rest.starts_with(b"/") => {
                return OsString::from_vec([dir.as_str().as_bytes(), rest].concat());
            }
            _ => {}
        }
    }
    argument.to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use skillfreeze_manifest::{Digest, Listing};

    use super::*;

    fn manifest(paths: &[&str]) -> Manifest {
        let file = |path: &&str| FileEntry {
            path: path.parse().unwrap(),
            executable: false,
            size: 0,
            digest: Digest::of(b""),
        };
        let package = |id: &str, paths: &[&str]| {
            let listing = Listing::new(paths.iter().map(file).collect()).unwrap();
            PackageEntry::new(id.parse().unwrap(), None, listing)
        };
        Manifest::new(vec![package("demo", paths), package("other", &["SKILL.md"])]).unwrap()
    }

    #[test]
    fn all_names_of_a_file_mean_it_and_nothing_else_does() {
        let manifest = manifest(&["SKILL.md", "a b/it's", "scripts/go"]);
        let names = Names { skills_dir: "/acme/skills".into(), ..Names::default() };
        let host = Utf8Path::new("/acme/skills/store/x");
        let aliases = Aliases { manifest: &manifest, names: &names, host };
        let resolve = |alias: &str| aliases.resolve(alias).map(|found| found.path());
        for path in ["demo/SKILL.md", "demo/a b/it's", "demo/scripts/go", "other/SKILL.md"] {
            assert_eq!(resolve(path).as_deref(), Ok(path));
        }
        for (path, code) in [
            ("demo/", "path-component"),
            ("demo//SKILL.md", "path-component"),
            ("demo/./SKILL.md", "path-component"),
            ("demo/scripts", "not-found"),
            ("none/SKILL.md", "not-found"),
            ("demo/..", "path-escape"),
            ("demo/../other/SKILL.md", "path-escape"),
            ("demo/../../etc/passwd", "path-escape"),
            ("./demo/SKILL.md", "alias-unknown"),
        ] {
            assert_eq!(resolve(path).map_err(|error| error.code()), Err(code), "{path}");
        }
        for beginning in ["$SKILLS_DIR", "${SKILLS_DIR}", "/acme/skills", "/acme/skills/store/x"] {
            for path in ["demo/SKILL.md", "demo/a b/it's", "demo/scripts/go", "other/SKILL.md"] {
                assert_eq!(resolve(&format!("{beginning}/{path}")).as_deref(), Ok(path));
            }
            for (below, code) in [
                ("", "path-component"),
                ("/", "path-component"),
                ("/demo", "not-found"),
                ("/demo/", "path-component"),
                ("/demo/scripts", "not-found"),
                ("/demo/scripts/go/", "path-component"),
                ("//demo/SKILL.md", "path-component"),
                ("/./demo/SKILL.md", "path-component"),
                ("/demo/./SKILL.md", "path-component"),
                ("/demo//SKILL.md", "path-component"),
                ("/demo/../other/SKILL.md", "path-escape"),
                ("/../demo/SKILL.md", "path-escape"),
                ("/demo/..", "path-escape"),
                ("/.snapshot.json", "not-found"),
                ("/demo/skill.md", "not-found"),
                ("/demo/SKILL.md\0", "not-found"),
            ] {
                let refused = resolve(&format!("{beginning}{below}")).map_err(|error| error.code());
                assert_eq!(refused, Err(code), "{beginning}{below}");
            }
        }
        for (alias, code) in [
            ("/etc/passwd", "path-escape"),
            ("/acme/skillsdemo/SKILL.md", "path-escape"),
            ("/acme/demo/SKILL.md", "path-escape"),
            ("../demo/SKILL.md", "path-escape"),
            ("$SKILLS_DIRdemo/SKILL.md", "alias-unknown"),
            ("$OTHER/demo/SKILL.md", "alias-unknown"),
            ("De mo/SKILL.md", "alias-unknown"),
            (".snapshot.json", "alias-unknown"),
            ("", "alias-unknown"),
        ] {
            assert_eq!(resolve(alias).map_err(|error| error.code()), Err(code), "{alias}");
        }
    }

    /// Whatever a package path may hold, a shell makes one word of the alias, with the variable's value.
    #[test]
    fn a_shell_reads_the_alias_as_one_word() {
        let paths = [
            "SKILL.md",
            "a b/c",
            "it's",
            "$HOME",
            "`id`",
            "${x}",
            "~/x",
            "#x",
            "a;b&c",
            "(x)",
            "[a]",
            "!x",
            "é/\u{1f980}",
            "-n",
            "%s",
            "a=b",
            "{a,b}",
        ];
        let manifest = manifest(&paths);
        let names = Names { skills_variable: "ACME_SKILLS".to_owned(), ..Names::default() };
        for root in ["/skills", "/Users/a b/$x's *"] {
            let aliases = Aliases { manifest: &manifest, names: &names, host: Utf8Path::new(root) };
            for path in paths {
                let file = aliases.resolve(&format!("$ACME_SKILLS/demo/{path}")).unwrap();
                let script = format!("printf '<%s>' {}", aliases.variable_form(file));
                let output =
                    Command::new("sh").args(["-c", &script]).env("ACME_SKILLS", root).output().unwrap();
                let read = String::from_utf8(output.stdout).unwrap();
                assert_eq!(read, format!("<{}>", aliases.host_path(file)));
            }
        }
    }

    #[test]
    fn only_at_the_start() {
        for (argument, expanded) in [
            ("$SKILLS_DIR/a/SKILL.md", "/skills/a/SKILL.md"),
            ("${SKILLS_DIR}/a", "/skills/a"),
            ("$SKILLS_DIR", "/skills"),
            ("$SKILLS_DIR_X/a", "$SKILLS_DIR_X/a"),
            ("x$SKILLS_DIR/a", "x$SKILLS_DIR/a"),
            ("echo $SKILLS_DIR/a", "echo $SKILLS_DIR/a"),
            ("$OTHER/a", "$OTHER/a"),
            ("", ""),
        ] {
            assert_eq!(
                expand_argument(OsStr::new(argument), "SKILLS_DIR", Utf8Path::new("/skills")),
                expanded
            );
        }
    }
}
