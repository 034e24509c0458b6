//! A full plan and its bubblewrap options, compared whole: for a machine made up here, so that they
//! are the same everywhere.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze_manifest::{Digest, EntryKind, SkillId};

use crate::bind::Bind;
use crate::bubblewrap::{SnapshotSource, Sources, arguments};
use crate::guard::{Guard, Guarded};
use crate::host::{Bubblewrap, Host, SystemEntry};
use crate::integrity::Sandbox;
use crate::plan::{LaunchPlan, Snapshot};
use crate::request::{LaunchRequest, Names, Network};

const OWNER: (u32, u32) = (1000, 1001);

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
        bubblewrap: Bubblewrap {
            path: "/usr/bin/bwrap".into(),
            version: "bubblewrap 0.8.0".to_owned(),
            digest: Digest::of(b"bubblewrap"),
            binds_descriptors: true,
        },
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
        extensions: None,
        user: None,
        names: Names::default(),
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
    let snapshot = Snapshot {
        digest: Digest::of(b"snapshot"),
        path: Utf8Path::new("/home/u/store/snapshots/sha256/x"),
        skills: vec!["demo".parse::<SkillId>().unwrap()],
        memory: 1 << 20,
    };
    let kind_at = |path: &Utf8Path| (path == "/home/u/ws/one").then_some(EntryKind::File);
    LaunchPlan::of(snapshot, request, host, &kind_at).unwrap()
}

/// The options, one with its arguments a line.
fn lines(plan: &LaunchPlan, snapshot: SnapshotSource<'_>) -> String {
    let mut text = String::new();
    for argument in arguments(plan, &Sources { snapshot, first_bind: 72 }) {
        let argument = argument.into_string().unwrap();
        let starts_option = argument.starts_with("--");
        text.push(if starts_option { '\n' } else { ' ' });
        text.push_str(&argument);
    }
    text.trim_start().to_owned() + "\n"
}

#[test]
fn an_ordinary_users_full_plan() {
    let plan = plan(&full(), &host(OWNER));
    assert_eq!(serde_json::to_string_pretty(&plan).unwrap(), include_str!("golden/plan.json").trim_end(),);
    assert_eq!(lines(&plan, SnapshotSource::Handle(71)), include_str!("golden/user.txt"));
}

/// The helper of root has mounted the handle where the command's user reaches it.
#[test]
fn roots_full_plan_differs_in_the_user_and_the_snapshots_source() {
    let (root, user) = (plan(&full(), &host((0, 0))), plan(&full(), &host(OWNER)));
    assert_eq!(root, LaunchPlan { drops_privileges: true, ..user });
    let expected =
        include_str!("golden/user.txt").replace("--ro-bind-fd 71 /skills", "--ro-bind /mnt /skills");
    assert_eq!(lines(&root, SnapshotSource::Staged(Utf8Path::new("/mnt"))), expected);
    let nobodys = plan(&least(), &host((0, 0)));
    assert_eq!(nobodys.user, (65534, 65534));
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
