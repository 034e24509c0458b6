//! What this machine is like: everything that planning needs to know, looked up once.
//!
//! It looks at things by a path of the host, because it is asked about just those. What carries a plan out
//! goes by the plan's paths; everything else takes handles.
#![expect(clippy::disallowed_methods, reason = "answers questions about paths of the host")]
mod bubblewrap;
mod guarded;
#[cfg(target_os = "linux")]
mod program;
mod reach;
mod resolved;
mod rootfs;
mod sandbox_exec;

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze_manifest::EntryKind;

pub use self::bubblewrap::{BubblewrapChoice, BubblewrapError};
#[cfg(target_os = "linux")]
pub(crate) use self::program::canonical_program;
pub use self::reach::Unreachable;
pub(crate) use self::reach::is_writable;
pub use self::rootfs::{Rootfs, RootfsError};
use crate::backend::Backend;
use crate::backend::Bubblewrap;
use crate::bind::{Bind, BindError};
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
    /// bubblewrap, where it was asked for.
    pub bubblewrap: Option<Bubblewrap>,
    /// `sandbox-exec`, where there is one.
    pub seatbelt: Option<Backend>,
    /// The version of Landlock; 0 where there is none.
    pub landlock: u32,
    /// Where directories for one launch alone are made: canonical.
    pub temporaries: Utf8PathBuf,
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

/// Directories of the root that hold programs and libraries, where they exist.
pub(crate) const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

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

/// Needed only with the host's network.
const RESOLVER: &str = "/etc/resolv.conf";

impl Host {
    /// Looks at this machine; for bubblewrap only where it is to enclose the command.
    ///
    /// # Errors
    /// [`BubblewrapError`] when none can be used.
    pub fn probe(bubblewrap: Option<&BubblewrapChoice<'_>>) -> Result<Self, BubblewrapError> {
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let system = SYSTEM.iter().filter_map(|path| system_entry(Utf8Path::new(path))).collect();
        let exists =
            |path: &Utf8PathBuf| fs::metadata(path).is_ok_and(|found| found.is_file() || found.is_dir());
        let etc = ETC.iter().map(|name| Utf8Path::new("/etc").join(name)).filter(exists);
        let etc = etc.chain(python()).collect();
        let resolver = Some(Utf8PathBuf::from(RESOLVER)).filter(exists);
        Ok(Self {
            user,
            system,
            etc,
            resolver,
            bubblewrap: bubblewrap.map(BubblewrapChoice::find).transpose()?,
            seatbelt: sandbox_exec::find(),
            landlock: skillfreeze_sys::landlock_version(),
            temporaries: temporaries(),
            kernel: kernel(),
            memory: available_memory(),
        })
    }
}

/// The kernel's release.
pub(crate) fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Bytes of memory that a launch may use, if that is known.
pub(crate) fn available_memory() -> Option<u64> {
    memory::available(&|path| fs::read_to_string(path).ok())
}

/// Configuration of Python, by version, to which links of its library lead.
fn python() -> impl Iterator<Item = Utf8PathBuf> {
    let names = fs::read_dir("/etc").into_iter().flatten().flatten();
    let paths = names.filter_map(|entry| Utf8PathBuf::from_path_buf(entry.path()).ok());
    let is_python = |path: &Utf8PathBuf| path.as_str().starts_with("/etc/python3.") && path.is_dir();
    let mut paths: Vec<_> = paths.filter(is_python).collect();
    paths.sort();
    paths.into_iter()
}

/// The caller's directory of temporaries, or everybody's.
fn temporaries() -> Utf8PathBuf {
    let canonical = fs::canonicalize(std::env::temp_dir()).ok();
    canonical.and_then(|path| Utf8PathBuf::from_path_buf(path).ok()).unwrap_or_else(|| "/tmp".into())
}

fn system_entry(path: &Utf8Path) -> Option<SystemEntry> {
    let found = fs::symlink_metadata(path).ok()?;
    if found.is_symlink() {
        let to = Utf8PathBuf::from_path_buf(fs::read_link(path).ok()?).ok()?;
        return Some(SystemEntry::Link(path.to_owned(), to));
    }
    found.is_dir().then(|| SystemEntry::Directory(path.to_owned()))
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
