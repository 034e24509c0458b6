//! A full plan and its bubblewrap options, compared whole: for a machine made up here, so that they
//! are the same everywhere.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use camino::{Utf8Path, Utf8PathBuf};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Permissions, PermissionsExt as _};
use skillfreeze_manifest::{
    Digest, EntryKind, FileEntry, Listing, MANIFEST_FILE, Manifest, PackageEntry, SkillId,
};

use crate::backend::Backend;
use crate::backend::Bubblewrap;
use crate::bind::Bind;
use crate::guard::{Guard, Guarded};
use crate::host::{Host, SystemEntry};
use crate::integrity::{Integrity, Method, Sandbox, Seal};
use crate::linux::bubblewrap::{SnapshotSource, Sources, arguments};
use crate::linux::memory_files::MemoryFiles;
use crate::names::Names;
use crate::network::Network;
use crate::plan::{LaunchPlan, Snapshot};
use crate::plan_error::PlanError;
use crate::request::LaunchRequest;
use crate::seatbelt::Resolved;
use crate::verify::trusted_owners;

const OWNER: (u32, u32) = (1000, 1001);
/// What a copy of the snapshot takes.
const MEMORY: u64 = 1 << 20;

fn host(user: (u32, u32)) -> Host {
    Host {
        user,
        system: vec![
            SystemEntry::Directory("/usr".into()),
            SystemEntry::Link("/bin".into(), "usr/bin".into()),
            SystemEntry::Link("/lib64".into(), "usr/lib64".into()),
        ],
        etc: vec!["/etc/ld.so.cache".into(), "/etc/ssl/certs".into()],
        resolver: Some("/etc/resolv.conf".into()),
        bubblewrap: Some(Bubblewrap {
            path: "/usr/bin/bwrap".into(),
            version: "bubblewrap 0.8.0".to_owned(),
            digest: Digest::of(b"bubblewrap"),
            binds_descriptors: true,
        }),
        seatbelt: None,
        landlock: 7,
        temporaries: "/tmp".into(),
        kernel: "6.1.0".to_owned(),
        memory: None,
    }
}

fn bind(source: &str, target: &str, writable: bool, kind: EntryKind) -> Bind {
    Bind::new(source.into(), Some(target.into()), writable, kind, OWNER).unwrap()
}

fn guard(path: &str, kind: EntryKind) -> Guard {
    let found = Guarded { canonical: path.into(), identity: (1, 2), kind };
    Guard { path: path.into(), found: Some(found), route: vec![path.into()] }
}

/// Everything that can be asked for at once.
fn full() -> LaunchRequest {
    let environment = [("LANG", "C.UTF-8"), ("PATH", "/usr/bin"), ("TOKEN", "t")];
    LaunchRequest {
        command: ["$SKILLS_DIR/demo/go", "--to", "$SKILLS_DIR"].map(Into::into).into(),
        require: None,
        seal: None,
        sandbox: Sandbox::Auto,
        workspace: Some(bind("/home/u/ws", "/home/u/ws", true, EntryKind::Directory)),
        binds: vec![
            bind("/srv/data", "/srv/data", false, EntryKind::Directory),
            bind("/srv/one", "/home/u/ws/one", true, EntryKind::File),
        ],
        network: Network::Host,
        environment: environment.map(|(name, value)| (name.into(), value.into())).into(),
        rootfs: None,
        in_place: false,
        extensions: None,
        user: None,
        names: Names::default(),
        terminal: false,
        keep: vec![5],
        store: Some("/home/u/store".into()),
        guards: vec![
            guard("/home/u/ws/.agents/skills", EntryKind::Directory),
            guard("/home/u/ws/skillfreeze.toml", EntryKind::File),
            Guard { path: "/home/u/ws/skillfreeze.lock".into(), found: None, route: Vec::new() },
        ],
    }
}

/// As little as can be asked for, but for a directory of the host as the extensions.
fn least() -> LaunchRequest {
    LaunchRequest {
        command: vec!["true".into()],
        workspace: None,
        binds: Vec::new(),
        network: Network::None,
        environment: BTreeMap::new(),
        extensions: Some(bind("/home/u/kept", "/home/u/kept", true, EntryKind::Directory)),
        keep: Vec::new(),
        guards: Vec::new(),
        ..full()
    }
}

fn plan(request: &LaunchRequest, host: &Host) -> LaunchPlan {
    try_plan(request, host).unwrap()
}

fn try_plan(request: &LaunchRequest, host: &Host) -> Result<LaunchPlan, PlanError> {
    let snapshot = Snapshot {
        digest: Digest::of(b"snapshot"),
        path: Utf8Path::new("/home/u/store/snapshots/sha256/x"),
        skills: vec!["demo".parse::<SkillId>().unwrap()],
        memory: MEMORY,
        private: "/tmp/skillfreeze-0".into(),
    };
    let kind_at = |path: &Utf8Path| (path == "/home/u/ws/one").then_some(EntryKind::File);
    LaunchPlan::of(snapshot, request, host, &kind_at)
}

/// The options, one with its arguments a line.
fn lines(plan: &LaunchPlan, snapshot: SnapshotSource<'_>) -> String {
    let mut text = String::new();
    let filter = plan.terminal.then_some(90);
    for argument in arguments(plan, &Sources { snapshot, first_bind: 72, filter }) {
        let argument = argument.into_string().unwrap();
        let starts_option = argument.starts_with("--");
        text.push(if starts_option { '\n' } else { ' ' });
        text.push_str(&argument);
    }
    text.trim_start().to_owned() + "\n"
}

/// The full plan for each way to keep the snapshot as it is.
fn each_way(user: (u32, u32)) -> [LaunchPlan; 3] {
    let stage = plan(&full(), &host(user));
    let files = plan(&LaunchRequest { seal: Some(Seal::SealedMemfd), ..full() }, &host(user));
    let bind = plan(&LaunchRequest { require: Some(Integrity::ReadOnly), ..full() }, &host(user));
    [stage, files, bind]
}

#[test]
fn an_ordinary_users_full_plan() {
    let [stage, files, bind] = each_way(OWNER);
    let golden = include_str!("golden/plan.json").trim_end();
    assert_eq!(serde_json::to_string_pretty(&stage).unwrap(), golden);
    // Nothing that a plan says is lost on the way to another process.
    assert_eq!(serde_json::from_str::<LaunchPlan>(golden).unwrap(), stage);
    let golden = golden.replace("\"how\": \"staged-tmpfs\"", "\"how\": \"sealed-memfd\"");
    assert_eq!(serde_json::to_string_pretty(&files).unwrap(), golden);
    let golden = golden.replace("\"how\": \"sealed-memfd\"", "\"how\": \"bind\"");
    let golden = golden.replace("\"sealed\"", "\"read-only\"");
    assert_eq!(serde_json::to_string_pretty(&bind).unwrap(), golden);
}

/// All but the snapshot is the same, whichever way it comes in.
#[test]
fn the_options_of_each_way() {
    let [stage, files, bind] = each_way(OWNER);
    let golden = include_str!("golden/user.txt");
    assert_eq!(lines(&bind, SnapshotSource::Handle(71)), golden);
    let by_path = golden.replace("--ro-bind-fd 71 /skills", "--ro-bind /mnt /skills");
    assert_eq!(lines(&stage, SnapshotSource::Staged(Utf8Path::new("/mnt"))), by_path);
    let memory = snapshot_in_memory();
    let from_memory = include_str!("golden/memory.txt").trim_end();
    assert_eq!(
        lines(&files, SnapshotSource::Memory(&memory, 78)),
        golden.replace("--ro-bind-fd 71 /skills", from_memory)
    );
}

/// A real snapshot of one package, in memory files.
#[expect(clippy::disallowed_methods, reason = "a test opens its own temporary directory")]
fn snapshot_in_memory() -> MemoryFiles {
    let top = tempfile::tempdir().unwrap();
    let entry = |path: &str, executable, text: &str| {
        let (path, digest) = (path.parse().unwrap(), Digest::of(text.as_bytes()));
        FileEntry { path, executable, size: text.len() as u64, digest }
    };
    let files = [("SKILL.md", false, "skill"), ("go", true, "go"), ("a/b/data", false, "data")];
    let listing = files.map(|(path, executable, text)| entry(path, executable, text)).into();
    let package = PackageEntry::new("demo".parse().unwrap(), None, Listing::new(listing).unwrap());
    let manifest = Manifest::new(vec![package]).unwrap();
    let dir = Dir::open_ambient_dir(top.path(), ambient_authority()).unwrap();
    dir.create_dir_all("demo/a/b").unwrap();
    dir.write(MANIFEST_FILE, manifest.to_bytes()).unwrap();
    dir.set_permissions(MANIFEST_FILE, Permissions::from_mode(0o444)).unwrap();
    for (path, executable, text) in files {
        let path = format!("demo/{path}");
        dir.write(&path, text).unwrap();
        dir.set_permissions(&path, Permissions::from_mode(if executable { 0o555 } else { 0o444 })).unwrap();
    }
    let directories = ["demo/a/b", "demo/a", "demo", "."];
    let set = |mode| {
        for path in directories {
            dir.set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
    };
    set(0o555);
    let (check, files) = MemoryFiles::fill(&dir, manifest.digest(), &trusted_owners()).unwrap();
    set(0o755);
    assert!(check.is_clean(), "{:?}", check.faults);
    assert_eq!(crate::linux::memory_files::count(&manifest).unwrap(), files.len());
    files
}

/// The helper of root has mounted the handle where the command's user reaches it.
#[test]
fn roots_full_plan_differs_in_the_user_and_the_snapshots_source() {
    for (root, user) in each_way((0, 0)).into_iter().zip(each_way(OWNER)) {
        assert_eq!(root, LaunchPlan { drops_privileges: true, ..user });
    }
    let [_, _, bind] = each_way((0, 0));
    let expected =
        include_str!("golden/user.txt").replace("--ro-bind-fd 71 /skills", "--ro-bind /mnt /skills");
    assert_eq!(lines(&bind, SnapshotSource::Staged(Utf8Path::new("/mnt"))), expected);
    let nobodys = plan(&least(), &host((0, 0)));
    assert_eq!(nobodys.user, (65534, 65534));
}

#[test]
fn what_is_asked_for_decides_the_way() {
    let (stage, files) = (Some(Seal::StagedTmpfs), Some(Seal::SealedMemfd));
    let (sealed, read_only) = (Some(Integrity::Sealed), Some(Integrity::ReadOnly));
    for (require, seal, integrity, how) in [
        (None, None, Integrity::Sealed, Method::StagedTmpfs),
        (sealed, None, Integrity::Sealed, Method::StagedTmpfs),
        (sealed, files, Integrity::Sealed, Method::SealedMemfd),
        (None, files, Integrity::Sealed, Method::SealedMemfd),
        (None, stage, Integrity::Sealed, Method::StagedTmpfs),
        // More than the least that will do, by asking for it.
        (read_only, stage, Integrity::Sealed, Method::StagedTmpfs),
        (read_only, None, Integrity::ReadOnly, Method::Bind),
        (Some(Integrity::Checked), None, Integrity::ReadOnly, Method::Bind),
    ] {
        let plan = plan(&LaunchRequest { require, seal, ..least() }, &host(OWNER));
        assert_eq!((plan.integrity, plan.how), (integrity, how), "{require:?} {seal:?}");
        assert_eq!(plan.environment[OsStr::new("SKILLS_INTEGRITY")], integrity.as_str());
    }
}

#[test]
fn what_memory_cannot_hold_is_refused() {
    const NEEDED: u64 = MEMORY;
    let (files, read_only) = (Some(Seal::SealedMemfd), Some(Integrity::ReadOnly));
    for (available, require, seal, refused) in [
        (None, None, None, None),
        (None, None, files, None),
        (Some(NEEDED), None, None, None),
        (Some(NEEDED - 1), None, None, Some(NEEDED)),
        // bubblewrap makes a second copy.
        (Some(2 * NEEDED - 1), None, files, Some(2 * NEEDED)),
        (Some(2 * NEEDED), None, files, None),
        (Some(0), read_only, None, None),
    ] {
        let host = Host { memory: available, ..host(OWNER) };
        let planned = try_plan(&LaunchRequest { require, seal, ..least() }, &host);
        match (planned, refused) {
            (Ok(_), None) => {}
            (Err(error @ PlanError::Memory { .. }), Some(expected)) => {
                assert_eq!(error.code(), "seal-memory");
                let PlanError::Memory { needed, available: found } = error else { unreachable!() };
                assert_eq!((needed, Some(found)), (expected, available));
            }
            (planned, _) => panic!("{available:?} {require:?} {seal:?}: {planned:?}"),
        }
    }
}

#[test]
fn under_seatbelt_everything_is_at_its_own_path() {
    let seatbelt =
        Backend::Seatbelt { path: "/usr/bin/sandbox-exec".into(), digest: Digest::of(b"sandbox-exec") };
    let mac = Host { seatbelt: Some(seatbelt), bubblewrap: None, ..host(OWNER) };
    let request = |require| LaunchRequest { sandbox: Sandbox::Seatbelt, require, ..full() };
    let refused = |request: &LaunchRequest, host: &Host| try_plan(request, host).unwrap_err().code();
    assert_eq!(refused(&request(Some(Integrity::Sealed)), &mac), "integrity-unavailable");
    assert_eq!(refused(&request(None), &host(OWNER)), "sandbox-unavailable");
    assert_eq!(refused(&request(None), &mac), "plan-path", "a bind has another target");
    let mut request = request(None);
    request.binds.pop();
    let plan = plan(&request, &mac);
    assert_eq!((plan.integrity, plan.how), (Integrity::ReadOnly, Method::Seatbelt));
    let snapshot = plan.names.skills_dir.clone();
    assert_eq!(plan.environment[OsStr::new("SKILLS_DIR")], snapshot.as_str());
    assert_eq!(plan.command[0], format!("{snapshot}/demo/go").as_str());
    let private = plan.private().unwrap();
    assert_eq!(plan.environment[OsStr::new("HOME")], private.join("home").as_str());
    let resolve = |path: &Utf8Path| Some(Resolved { path: path.to_owned(), links: Vec::new() });
    let profile = plan.seatbelt_profile(&snapshot, &resolve).unwrap();
    let of = |kind: &str| -> Vec<&str> {
        let named = profile.parameters.iter().filter(|(name, _)| name.starts_with(kind));
        named.map(|(_, path)| path.as_str()).collect()
    };
    let kept = ["/home/u/ws/.agents/skills", "/home/u/ws/skillfreeze.toml", "/srv/data"];
    assert_eq!((of("READ_"), of("KEPT_")), (kept.into(), kept.into()));
    assert_eq!(of("FROZEN_"), [snapshot.as_str()]);
    let own = ["home", "tmp", "extensions"].map(|name| private.join(name));
    let [home, tmp, extensions] = own.each_ref().map(|path| path.as_str());
    assert_eq!(of("WRITE_"), [home, tmp, "/home/u/ws", "/home/u/ws/.agents", extensions]);
    assert!(profile.text.ends_with(")\n") && !profile.text.contains("(deny network*)"));
}

#[test]
fn the_least_plan() {
    let request = LaunchRequest {
        names: Names { skills_dir: Utf8PathBuf::from("/acme/skills"), ..Names::default() },
        ..least()
    };
    let plan = plan(&request, &host(OWNER));
    assert_eq!(lines(&plan, SnapshotSource::Handle(71)), include_str!("golden/least.txt"));
    assert!(plan.warnings.is_empty() && plan.live_sources_visible.is_empty());
}

#[test]
fn a_terminal_takes_a_filter_in_the_place_of_a_session() {
    let handle = SnapshotSource::Handle(71);
    let without = lines(&plan(&full(), &host(OWNER)), handle);
    let with = lines(&plan(&LaunchRequest { terminal: true, ..full() }, &host(OWNER)), handle);
    assert_eq!(with, without.replace("--new-session", "--seccomp 90"));
}

/// The helper mounts over what lies in a bind; what is itself bound comes from the stage.
#[test]
fn roots_that_the_snapshot_covers_are_not_bound() {
    let stage = SnapshotSource::Staged(Utf8Path::new("/mnt"));
    let root = guard("/srv/data", EntryKind::Directory);
    let mut request = full();
    request.guards.push(root);
    let plain = lines(&plan(&request, &host(OWNER)), stage);
    let in_place = lines(&plan(&LaunchRequest { in_place: true, ..request }, &host(OWNER)), stage);
    let expected = plain
        .replace("--ro-bind-fd 74 /home/u/ws/.agents/skills\n", "")
        .replace("--ro-bind-fd 77 /srv/data\n", "--ro-bind /mnt /srv/data\n");
    let numbers = [("fd 75", "fd 74"), ("fd 76", "fd 75")];
    assert_eq!(in_place, numbers.iter().fold(expected, |text, (from, to)| text.replace(from, to)));
}
