//! What this machine is like: everything that planning needs to know, looked up once.
//!
//! The only module of the crate that opens things by a path of the host, because it is asked about
//! just those.
#![expect(clippy::disallowed_methods, reason = "answers questions about paths of the host")]

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::process::{Command, Stdio};

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use skillfreeze_manifest::{Digest, EntryKind, Hasher};

use crate::bind::{Bind, BindError};
use crate::guard::{Guard, Guarded};
use crate::memory;

/// What a sandbox is made of on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The effective user and group of the caller.
    pub user: (u32, u32),
    /// The entries of the root directory that hold programs and libraries.
    pub system: Vec<SystemEntry>,
    /// The named files of `/etc` that are there.
    pub etc: Vec<Utf8PathBuf>,
    /// The resolver's configuration, which the host's network needs, if there is one.
    pub resolver: Option<Utf8PathBuf>,
    /// bubblewrap.
    pub bubblewrap: Bubblewrap,
    /// The kernel's release.
    pub kernel: String,
    /// Bytes of memory that a launch may use, if that is known.
    pub memory: Option<u64>,
}

/// One entry of the root directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemEntry {
    /// A directory, shown read-only.
    Directory(Utf8PathBuf),
    /// A link, such as `/bin` to `usr/bin`, made again.
    Link(Utf8PathBuf, Utf8PathBuf),
}

impl SystemEntry {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Utf8Path {
        match self {
            Self::Directory(path) | Self::Link(path, _) => path,
        }
    }
}

/// The bubblewrap program that is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bubblewrap {
    /// Where it is.
    pub path: Utf8PathBuf,
    /// What it says of itself, such as `bubblewrap 0.8.0`.
    pub version: String,
    /// The digest of the program.
    pub digest: Digest,
    /// Whether it binds an open descriptor (`--ro-bind-fd`).
    pub binds_descriptors: bool,
}

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
            Self::Unusable { .. } => "bwrap-unusable",
            Self::TooOld { .. } => "bwrap-too-old",
        }
    }
}

/// Directories of the root that hold programs and libraries, where they exist.
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Files and directories of `/etc` that programs need to find libraries, names, certificates and
/// the time. Nothing secret is among them: no shadow, no keys, no passwords of services.
const ETC: [&str; 23] = [
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "fonts",
    "group",
    "host.conf",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/ca-trust",
    "pki/tls/certs",
    "protocols",
    "services",
    "ssl/certs",
    "timezone",
];

/// Where a project keeps the skills and the configuration of its next run.
const PROJECT_SOURCES: [&str; 4] =
    [".agents/skills", ".claude/skills", "skillfreeze.toml", "skillfreeze.lock"];

/// Needed only with the host's network.
const RESOLVER: &str = "/etc/resolv.conf";

/// Options without which no launch can keep its promises.
const NEEDED: [&str; 6] =
    ["--disable-userns", "--as-pid-1", "--size", "--cap-drop", "--remount-ro", "--die-with-parent"];

impl Host {
    /// Looks at this machine.
    ///
    /// # Errors
    /// [`BubblewrapError`] when no bubblewrap can be used.
    pub fn probe(bubblewrap: &BubblewrapChoice<'_>) -> Result<Self, BubblewrapError> {
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let system = SYSTEM.iter().filter_map(|path| system_entry(Utf8Path::new(path))).collect();
        let exists =
            |path: &Utf8PathBuf| fs::metadata(path).is_ok_and(|found| found.is_file() || found.is_dir());
        let etc = ETC.iter().map(|name| Utf8Path::new("/etc").join(name)).filter(exists).collect();
        let resolver = Some(Utf8PathBuf::from(RESOLVER)).filter(exists);
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        Ok(Self {
            user,
            system,
            etc,
            resolver,
            bubblewrap: bubblewrap.find()?,
            kernel,
            memory: memory::available(&|path| fs::read_to_string(path).ok()),
        })
    }
}

fn system_entry(path: &Utf8Path) -> Option<SystemEntry> {
    let found = fs::symlink_metadata(path).ok()?;
    if found.is_symlink() {
        let to = Utf8PathBuf::from_path_buf(fs::read_link(path).ok()?).ok()?;
        return Some(SystemEntry::Link(path.to_owned(), to));
    }
    found.is_dir().then(|| SystemEntry::Directory(path.to_owned()))
}

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

fn probe(path: Utf8PathBuf) -> Result<Bubblewrap, BubblewrapError> {
    let unusable = |source| BubblewrapError::Unusable { path: path.clone(), source };
    let ask = |option: &str| {
        let mut command = Command::new(&path);
        command.arg(option).env_clear().stdin(Stdio::null());
        command
            .output()
            .map(|answer| String::from_utf8_lossy(&[answer.stdout, answer.stderr].concat()).into_owned())
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

/// What is at a path of the host, without following a link at its end.
pub(crate) fn kind_at(path: &Utf8Path) -> Option<EntryKind> {
    fs::symlink_metadata(path).ok().map(|found| kind_of(found.file_type()))
}

fn kind_of(found: fs::FileType) -> EntryKind {
    match found {
        found if found.is_file() => EntryKind::File,
        found if found.is_dir() => EntryKind::Directory,
        found if found.is_symlink() => EntryKind::Link,
        found if found.is_fifo() => EntryKind::Fifo,
        found if found.is_socket() => EntryKind::Socket,
        _ => EntryKind::Special,
    }
}

/// The directories and links that an absolute path leads through, and where it ends or would end,
/// each by its canonical place.
fn route(path: &Utf8Path) -> Vec<Utf8PathBuf> {
    /// As many links as Linux follows.
    const MAX_LINKS: usize = 40;
    let mut route = Vec::new();
    let mut at = Utf8PathBuf::from("/");
    let mut links = 0;
    let mut pending: Vec<String> = path.components().rev().map(|part| part.as_str().to_owned()).collect();
    while let Some(part) = pending.pop() {
        match part.as_str() {
            "/" => at = "/".into(),
            "." => {}
            ".." => {
                at.pop();
            }
            part => {
                let place = at.join(part);
                let target =
                    fs::read_link(&place).ok().and_then(|target| Utf8PathBuf::from_path_buf(target).ok());
                route.push(place.clone());
                match target {
                    Some(target) if links < MAX_LINKS => {
                        links += 1;
                        pending.extend(target.components().rev().map(|part| part.as_str().to_owned()));
                    }
                    _ => at = place,
                }
            }
        }
    }
    route
}

impl Bind {
    /// Resolves a path of the host, links included, and describes the bind of what is there.
    ///
    /// Without a `target` the sandbox sees it at its canonical path.
    ///
    /// # Errors
    /// [`BindError`] when it is not there, is neither a file nor a directory, or the target is no
    /// place for a mount.
    pub fn resolve(path: &Utf8Path, target: Option<&Utf8Path>, writable: bool) -> Result<Self, BindError> {
        let fail = |source| BindError::Source { path: path.to_owned(), source };
        let canonical = fs::canonicalize(path).map_err(fail)?;
        let found = fs::symlink_metadata(&canonical).map_err(fail)?;
        let source = Utf8PathBuf::from_path_buf(canonical)
            .map_err(|_| BindError::NotUtf8 { path: path.to_owned() })?;
        let owner = (found.uid(), found.gid());
        Self::new(source, target.map(Utf8Path::to_owned), writable, kind_of(found.file_type()), owner)
    }
}

impl Guard {
    /// Looks at a path that a later run would take skills or configuration from.
    #[must_use]
    pub fn resolve(path: &Utf8Path) -> Self {
        let found = fs::canonicalize(path).ok().and_then(|canonical| {
            let found = fs::symlink_metadata(&canonical).ok()?;
            let canonical = Utf8PathBuf::from_path_buf(canonical).ok()?;
            Some(Guarded {
                canonical,
                identity: (found.dev(), found.ino()),
                kind: kind_of(found.file_type()),
            })
        });
        Self { path: path.to_owned(), found, route: route(path) }
    }

    /// Looks at the places where a project keeps skills and configuration, in a directory and in the
    /// project that it belongs to: the nearest above with a `.git` file or directory.
    #[must_use]
    pub fn of_project(directory: &Utf8Path) -> Vec<Self> {
        let project = directory.ancestors().find(|above| fs::symlink_metadata(above.join(".git")).is_ok());
        let mut places = vec![directory];
        places.extend(project.filter(|project| *project != directory));
        let paths = places.into_iter().flat_map(|place| PROJECT_SOURCES.map(|source| place.join(source)));
        paths.map(|path| Self::resolve(&path)).collect()
    }

    /// Whether the path leads to something else than before: it appeared, or was exchanged.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        match Self::resolve(&self.path).found {
            Some(now) => self.found.as_ref().is_none_or(|before| *before != now),
            // What has gone cannot be taken for a skill.
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_guard_notices_what_appears_and_what_is_exchanged() {
        let temp = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(temp.path()).unwrap().join("skills");
        let absent = Guard::resolve(&path);
        assert!(absent.found.is_none() && !absent.has_changed());
        fs::create_dir(&path).unwrap();
        assert!(absent.has_changed());
        let present = Guard::resolve(&path);
        assert!(!present.has_changed());
        fs::rename(&path, path.with_extension("old")).unwrap();
        assert!(!present.has_changed());
        fs::create_dir(&path).unwrap();
        assert!(present.has_changed());
    }

    #[test]
    fn a_route_names_every_link_on_the_way() {
        let temp = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::from_path_buf(temp.path().canonicalize().unwrap()).unwrap();
        fs::create_dir_all(top.join("data/ws")).unwrap();
        std::os::unix::fs::symlink("data", top.join("link")).unwrap();
        std::os::unix::fs::symlink("../../other/skills", top.join("data/ws/skills")).unwrap();
        let route = route(&top.join("link/ws/skills"));
        let below: Vec<&Utf8Path> = route.iter().filter_map(|path| path.strip_prefix(&top).ok()).collect();
        assert_eq!(below, ["", "link", "data", "data/ws", "data/ws/skills", "other", "other/skills"]);
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
