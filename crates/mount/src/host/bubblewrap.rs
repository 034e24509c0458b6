//! Finding the bubblewrap program, and asking it what it can do.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze_manifest::{Digest, Hasher};

use crate::backend::Bubblewrap;

/// Why no bubblewrap can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BubblewrapError {
    /// There is none in any trusted directory.
    #[error("no `bwrap` in {}{}", listed(.searched), not_searched(.skipped))]
    Missing {
        /// Where it was looked for.
        searched: Vec<Utf8PathBuf>,
        /// Where it was not looked for: relative, or below the working directory or the workspace.
        skipped: Vec<Utf8PathBuf>,
    },
    /// One was found, but others could have put it there.
    #[error("`{path}` is not used: it is not root's, or others may write it")]
    Untrusted {
        /// The program.
        path: Utf8PathBuf,
    },
    /// One was found, of an owner whom this user namespace does not know, as it does not know root.
    #[error(
        "`{path}` is not used: root is unknown in this user namespace, so whether it is root's cannot be told"
    )]
    OwnerUnknown {
        /// The program.
        path: Utf8PathBuf,
    },
    /// It cannot be started or read.
    #[error("cannot use `{path}`")]
    Unusable {
        /// The program.
        path: Utf8PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It lacks an option that every launch needs.
    #[error("`{path}` ({version}) lacks the option `{option}`")]
    TooOld {
        /// The program.
        path: Utf8PathBuf,
        /// What it says of itself.
        version: String,
        /// The option.
        option: &'static str,
    },
}

fn listed(paths: &[Utf8PathBuf]) -> String {
    if paths.is_empty() {
        return "an empty search path".to_owned();
    }
    paths.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ")
}

fn not_searched(paths: &[Utf8PathBuf]) -> String {
    if paths.is_empty() {
        return String::new();
    }
    format!("; what the command works on is not searched: {}", listed(paths))
}

impl BubblewrapError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "bwrap-missing",
            Self::Untrusted { .. } => "bwrap-untrusted",
            Self::Unusable { source, .. } if source.kind() == io::ErrorKind::WouldBlock => "process-limit",
            Self::OwnerUnknown { .. } => "bwrap-owner-unknown",
            Self::Unusable { .. } => "bwrap-unusable",
            Self::TooOld { .. } => "bwrap-too-old",
        }
    }
}

/// Options without which no launch can keep its promises.
const NEEDED: [&str; 6] =
    ["--disable-userns", "--as-pid-1", "--size", "--cap-drop", "--remount-ro", "--die-with-parent"];

/// Which bubblewrap to use.
#[derive(Debug, Clone, Copy)]
pub enum BubblewrapChoice<'a> {
    /// This one, whoever it belongs to.
    At(&'a Utf8Path),
    /// The first in these directories that is root's, not writable by others, and not below any of
    /// `outside`.
    Search {
        /// Absolute directories; others are passed over.
        directories: &'a [Utf8PathBuf],
        /// Where it may not come from: the working directory and the workspace.
        outside: &'a [Utf8PathBuf],
    },
}

impl BubblewrapChoice<'_> {
    /// Finds the program and asks it once what it can do.
    ///
    /// # Errors
    /// [`BubblewrapError`].
    pub fn find(&self) -> Result<Bubblewrap, BubblewrapError> {
        match self {
            // A bare name must not be looked up once more when it is started.
            Self::At(path) => match camino::absolute_utf8(path) {
                Ok(path) => probe(path),
                Err(source) => Err(BubblewrapError::Unusable { path: path.to_path_buf(), source }),
            },
            Self::Search { directories, outside } => {
                let is_outside = |directory: &Utf8PathBuf| {
                    directory.is_absolute() && !outside.iter().any(|outside| directory.starts_with(outside))
                };
                let (searched, skipped): (Vec<_>, Vec<_>) = directories.iter().cloned().partition(is_outside);
                let mut untrusted = None;
                for found in searched.iter().map(|directory| directory.join("bwrap")) {
                    let Some(path) = canonical_file(&found) else { continue };
                    if is_roots_alone(&path) {
                        return probe(path);
                    }
                    untrusted.get_or_insert(found);
                }
                Err(match untrusted {
                    Some(path) if is_unknown_here(&path) => BubblewrapError::OwnerUnknown { path },
                    Some(path) => BubblewrapError::Untrusted { path },
                    None => BubblewrapError::Missing { searched, skipped },
                })
            }
        }
    }
}

/// The canonical path of a regular file, if there is one.
fn canonical_file(path: &Utf8Path) -> Option<Utf8PathBuf> {
    let canonical = Utf8PathBuf::from_path_buf(fs::canonicalize(path).ok()?).ok()?;
    fs::symlink_metadata(&canonical).is_ok_and(|found| found.is_file()).then_some(canonical)
}

/// Whether a program and every directory on the way to it are root's and nobody else's to write.
///
/// `path` is canonical, so that no link is on the way.
fn is_roots_alone(path: &Utf8Path) -> bool {
    path.ancestors().all(|path| {
        fs::symlink_metadata(path).is_ok_and(|found| {
            // In a directory with the sticky bit, others cannot replace what is root's.
            let is_sticky = found.is_dir() && found.mode() & 0o1000 != 0;
            found.uid() == 0 && (found.mode() & 0o022 == 0 || is_sticky)
        })
    })
}

/// Whether a program is of somebody whom this user namespace does not know, as root may be.
///
/// It could be any other user's as well, so that it is not taken for root's.
fn is_unknown_here(path: &Utf8Path) -> bool {
    let read = |path: &str| fs::read_to_string(path).ok();
    let knows_root = read("/proc/self/uid_map").is_none_or(|map| has_root(&map));
    let overflow = read("/proc/sys/kernel/overflowuid").and_then(|text| text.trim().parse().ok());
    !knows_root && fs::metadata(path).is_ok_and(|found| Some(found.uid()) == overflow)
}

/// Whether a user namespace with this map has a user 0.
fn has_root(map: &str) -> bool {
    map.lines().any(|line| line.split_whitespace().next() == Some("0"))
}

fn probe(path: Utf8PathBuf) -> Result<Bubblewrap, BubblewrapError> {
    let unusable = |source| BubblewrapError::Unusable { path: path.clone(), source };
    let ask = |option: &str| {
        let mut command = Command::new(&path);
        command.arg(option).env_clear().stdin(Stdio::null());
        // With any it refuses to start.
        #[cfg(target_os = "linux")]
        skillfreeze_sys::without_ambient_capabilities(&mut command);
        let answer = command.output()?;
        let text = String::from_utf8_lossy(&[answer.stdout, answer.stderr].concat()).into_owned();
        match (answer.status.success(), text.trim()) {
            (_, "") => Err(io::Error::other(format!("`{option}`: it does not answer as bubblewrap does"))),
            (true, _) => Ok(text),
            (false, said) => Err(io::Error::other(format!("`{option}`: {said}"))),
        }
    };
    let digest = hash(&path).map_err(unusable)?;
    let help = ask("--help").map_err(unusable)?;
    let version = ask("--version").map_err(unusable)?;
    let version = version.lines().next().unwrap_or_default().trim().to_owned();
    let offers = |option: &str| help.split_whitespace().any(|word| word == option);
    if let Some(option) = NEEDED.into_iter().find(|option| !offers(option)) {
        return Err(BubblewrapError::TooOld { path, version, option });
    }
    let binds_descriptors = offers("--ro-bind-fd") && offers("--bind-fd");
    Ok(Bubblewrap { path, version, digest, binds_descriptors })
}

fn hash(path: &Utf8Path) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let (mut hasher, mut buffer) = (Hasher::default(), vec![0; 64 << 10]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_map_says_whether_there_is_a_root() {
        for (map, has) in [
            ("         0          0 4294967295\n", true),
            ("1000 1000 1\n", false),
            ("10 0 5\n0 1000 1\n", true),
        ] {
            assert_eq!(has_root(map), has, "{map}");
        }
    }

    #[test]
    fn an_untrusted_program_is_named_and_not_used() {
        let temp = tempfile::tempdir().unwrap();
        let directory = Utf8PathBuf::from_path_buf(temp.path().canonicalize().unwrap()).unwrap();
        let search = |outside: &[Utf8PathBuf]| {
            let directories = [Utf8PathBuf::from("relative"), directory.clone()];
            BubblewrapChoice::Search { directories: &directories, outside }.find().unwrap_err().to_string()
        };
        let expected =
            format!("no `bwrap` in `{directory}`; what the command works on is not searched: `relative`");
        assert_eq!(search(&[]), expected);
        let program = directory.join("bwrap");
        fs::write(&program, "#!/bin/sh\necho --help\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(search(&[]), format!("`{program}` is not used: it is not root's, or others may write it"));
        let skipped = format!("what the command works on is not searched: `relative`, `{directory}`");
        let expected = format!("no `bwrap` in an empty search path; {skipped}");
        assert_eq!(search(std::slice::from_ref(&directory)), expected);
        let error = BubblewrapChoice::At(&program).find().unwrap_err();
        assert_eq!(error.code(), "bwrap-too-old");
        // Not the one of the search path.
        let error = BubblewrapChoice::At(Utf8Path::new("bwrap")).find().unwrap_err();
        assert_eq!(error.code(), "bwrap-unusable");
    }
}
