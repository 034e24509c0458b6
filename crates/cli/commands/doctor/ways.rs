//! The ways in which a command can be given a snapshot, each tried on an empty one.

use std::io;

use camino::Utf8PathBuf;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Permissions, PermissionsExt as _};
use serde::Serialize;
use skillfreeze::Manifest;
use skillfreeze::manifest::{MANIFEST_FILE, Silent};
use skillfreeze::mount::seatbelt::Resolved;
use skillfreeze::mount::{
    Ended, Handoff, HandoffRequest, Host, Integrity, Launch, LaunchRequest, Method, RunContext, Sandbox,
    Seal, Session, Unreachable, Verified,
};
#[cfg(target_os = "linux")]
use skillfreeze::mount::{SealRequest, SealedCommand};

use crate::exit::{Failure, LET_MOUNT, let_through};
use crate::users;

/// All ways on this platform, the best first.
const ALL: [(Method, Integrity); 5] = [
    (Method::StagedTmpfs, Integrity::Sealed),
    (Method::SealedMemfd, Integrity::Sealed),
    (Method::Bind, Integrity::ReadOnly),
    (Method::Landlock, Integrity::ReadOnly),
    (Method::Plan, Integrity::Checked),
];

/// A way, and whether it can be had here.
#[derive(Debug, Serialize)]
pub(super) struct Way {
    pub(super) how: Method,
    pub(super) integrity: Integrity,
    pub(super) ok: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
    /// What mends that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

/// Tries every way. Where no bubblewrap can be used, those that need it fail for that reason.
pub(super) fn try_all(with_bubblewrap: Result<&Host, &Failure>, host: &Host) -> Vec<Way> {
    let tried = ALL.map(|(how, integrity)| {
        let host = if matches!(how, Method::Landlock | Method::Plan) { Ok(host) } else { with_bubblewrap };
        let tried = host.map_err(Failure::clone).and_then(|host| try_one(how, host));
        Way::new(how, integrity, tried.err())
    });
    tried.into()
}

impl Way {
    fn new(how: Method, integrity: Integrity, failure: Option<Failure>) -> Self {
        let Some(Failure { code, message, hint, .. }) = failure else {
            return Self { how, integrity, ok: true, code: None, detail: None, fix: None };
        };
        // What usually helps is to leave this way alone, which is not what is asked about here.
        let fix = match code.as_str() {
            "seal-unavailable" => Some(LET_MOUNT.to_owned()),
            _ => hint,
        };
        Self { how, integrity, ok: false, code: Some(code), detail: Some(message), fix }
    }

    /// What is to be typed where this is the best that there is, if that does not go by itself. The snapshots
    /// in the store may be out of the command's reach.
    pub(super) fn advice(&self, snapshots: Option<&Unreachable>) -> Option<String> {
        let advice = match self.how {
            Method::Bind => {
                "nothing can be sealed here: `skillfreeze run --require read-only` takes what there is"
            }
            Method::Landlock => return Some(landlock_advice(snapshots)),
            Method::Plan => {
                "no sandbox starts here: if you have one of your own, `skillfreeze plan SNAPSHOT` prints what \
                 it must be given"
            }
            _ => return None,
        };
        Some(advice.to_owned())
    }
}

fn landlock_advice(snapshots: Option<&Unreachable>) -> String {
    let advice = "bubblewrap starts no sandbox here: `skillfreeze run --sandbox landlock --require read-only` needs \
                  neither it nor namespaces";
    let Some(Unreachable { user, closed, .. }) = snapshots else { return advice.to_owned() };
    let first = if closed.iter().all(|path| path.exists()) { "" } else { "`skillfreeze prepare`, then " };
    format!(
        "{advice}; user {user}, as whom root's command runs, must first reach the store: {first}`{}`, or run it \
         with a store elsewhere (`--root`), where fewer directories are closed",
        let_through(closed)
    )
}

/// Gives an empty snapshot to `true`, through everything that a real launch goes through.
fn try_one(how: Method, host: &Host) -> Result<(), Failure> {
    let snapshot = EmptySnapshot::new()?;
    let verified = snapshot.verify()?;
    let mut request = LaunchRequest::new(vec!["true".into()]);
    request.environment = [("PATH".into(), "/usr/bin:/bin".into())].into();
    match how {
        Method::StagedTmpfs => request.seal = Some(Seal::StagedTmpfs),
        Method::SealedMemfd => request.seal = Some(Seal::SealedMemfd),
        Method::Landlock => request.sandbox = Sandbox::Landlock,
        Method::Plan => {
            Handoff::new(&verified, &HandoffRequest::default(), &Resolved::of_host)?;
            return Ok(());
        }
        _ => {}
    }
    if request.seal.is_none() {
        request.require = Some(Integrity::ReadOnly);
    }
    let launch = Launch::new(verified, request, host)?;
    ended_well(&launch.run(Session::new(context(), &Silent))?)
}

/// Seals an empty snapshot for `true`, as for a command with a sandbox of its own.
#[cfg(target_os = "linux")]
pub(super) fn try_seal() -> Result<(), Failure> {
    let snapshot = EmptySnapshot::new()?;
    let mut request = SealRequest::new(vec!["true".into()], "/".into());
    request.environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
    let sealed = SealedCommand::new(snapshot.verify()?, request)?;
    let ended = sealed.run(Session::new(context(), &Silent)).map_err(Failure::from);
    ended_well(&ended.map_err(|failure| match failure.code.as_str() {
        "seal-unavailable" => failure.hint(LET_MOUNT),
        _ => failure,
    })?)
}

fn context() -> RunContext {
    RunContext { id: "doctor".to_owned(), actor: users::actor(), requested: Vec::new(), packages: Vec::new() }
}

fn ended_well(ended: &Ended) -> Result<(), Failure> {
    match ended.exit.code() {
        0 => Ok(()),
        status => Err(Failure::new("sandbox-broken", format!("`true` ended with status {status}"))),
    }
}

/// A snapshot of nothing, in a temporary directory.
struct EmptySnapshot {
    path: Utf8PathBuf,
    dir: Dir,
    manifest: Manifest,
    _temporary: tempfile::TempDir,
}

impl EmptySnapshot {
    fn new() -> Result<Self, Failure> {
        let temporary = tempfile::Builder::new().prefix("skillfreeze-doctor").tempdir();
        let temporary = temporary.map_err(|error| {
            Failure::io("cannot make a temporary directory", &error)
                .hint("name a directory that can be written with the variable `TMPDIR`")
        })?;
        let path = Utf8PathBuf::from_path_buf(temporary.path().to_owned()).map_err(|path| {
            Failure::new("path-not-utf8", format!("`{}` is not UTF-8", path.to_string_lossy()))
        })?;
        let manifest = Manifest::new(Vec::new()).map_err(|error| Failure::of("manifest-invalid", &error))?;
        let write = || -> io::Result<Dir> {
            let dir = Dir::open_ambient_dir(&path, ambient_authority())?;
            dir.write(MANIFEST_FILE, manifest.to_bytes())?;
            dir.set_permissions(MANIFEST_FILE, Permissions::from_mode(0o444))?;
            dir.set_permissions(".", Permissions::from_mode(0o555))?;
            Ok(dir)
        };
        let dir = write().map_err(|error| Failure::io(format_args!("cannot write to `{path}`"), &error))?;
        Ok(Self { path, dir, manifest, _temporary: temporary })
    }

    fn verify(&self) -> Result<Verified, Failure> {
        let path = &self.path;
        let handle = self
            .dir
            .try_clone()
            .map_err(|error| Failure::io(format_args!("cannot open `{path}`"), &error))?;
        Ok(Verified::check(handle, path, self.manifest.digest(), &Silent)?)
    }
}

impl Drop for EmptySnapshot {
    fn drop(&mut self) {
        // A directory without write permission cannot be emptied by its owner.
        let _ = self.dir.set_permissions(".", Permissions::from_mode(0o700));
    }
}
