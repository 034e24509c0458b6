//! What each process of a launch is to do.

use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use skillfreeze_manifest::{Digest, SkillId, Stamp};

use crate::guard::Guarded;
use crate::integrity::Method;
use crate::linux::landlock::Enclosure;
use crate::plan::LaunchPlan;
use crate::size::Size;
use crate::verify::Verified;

/// What the helper does before it starts bubblewrap.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HelperPlan {
    /// The program to start; without one, the first process encloses itself.
    pub(crate) bubblewrap: Option<Utf8PathBuf>,
    /// A directory for this launch alone, to be removed after its end.
    pub(crate) private: Option<Utf8PathBuf>,
    /// The number of binds.
    pub(crate) binds: usize,
    /// Whether there is an inotify instance.
    pub(crate) watches: bool,
    /// Descriptors of the caller that the command keeps.
    pub(crate) keep: Vec<RawFd>,
    /// A directory over which to mount the snapshot, in namespaces of the helper's own, if that is
    /// needed.
    pub(crate) stage: Option<Utf8PathBuf>,
    /// What to seal there instead of mounting the snapshot's own directory.
    pub(crate) seal: Option<SealPlan>,
    /// Whom to become first, when root has started it.
    pub(crate) identity: Option<Identity>,
    /// Source roots over which to mount the stage as well.
    pub(crate) covered: Vec<Covered>,
    /// Whether the command has the caller's terminal.
    pub(crate) terminal: bool,
}

/// A source root over which the stage is mounted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Covered {
    /// Its canonical path.
    pub(crate) root: Utf8PathBuf,
    /// Its device and inode.
    pub(crate) identity: (u64, u64),
}

impl From<Guarded> for Covered {
    fn from(Guarded { canonical, identity, .. }: Guarded) -> Self {
        Self { root: canonical, identity }
    }
}

/// What is staged.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SealPlan {
    /// The snapshot.
    pub(crate) digest: Digest,
    /// Bytes of the stage.
    pub(crate) bytes: u64,
    /// Files and directories in it.
    pub(crate) inodes: u64,
}

impl SealPlan {
    /// What is sealed of a snapshot.
    pub(crate) fn of(verified: &Verified) -> Self {
        let Size { bytes, inodes } = Size::of(verified.manifest());
        Self { digest: verified.digest(), bytes, inodes }
    }
}

/// What the sealer does before it becomes the command. Descriptors are at the numbers that they have in
/// `main`, where those of the caller are in nobody's way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SealerPlan {
    /// The handle of the snapshot.
    pub(crate) snapshot: RawFd,
    /// The reading end of a pipe that ends with `main`, over which it answers.
    pub(crate) control: RawFd,
    /// The writing end of the pipe with reports.
    pub(crate) report: RawFd,
    /// The canonical path of the snapshot's directory, over which the stage is mounted.
    pub(crate) at: Utf8PathBuf,
    /// What to seal there.
    pub(crate) seal: SealPlan,
    /// Whether all users are known in the command's namespaces, as `main` tells them.
    pub(crate) is_root: bool,
    /// The directory to enter again, because the stage lies over it.
    pub(crate) directory: Option<OsString>,
    /// Whether sockets are handed down to `main`, by its number, and so to the command.
    pub(crate) takes_sockets: bool,
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
}

/// Whom the helper of root becomes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The numeric user.
    pub(crate) user: u32,
    /// The numeric group.
    pub(crate) group: u32,
}

/// Where a command that has the caller's terminal begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ground {
    /// It gets what is typed.
    Foreground,
    /// It is stopped when it reads.
    Background,
}

/// What the first process inside the sandbox does.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InnerPlan {
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
    /// Its whole environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Descriptors that it keeps.
    pub(crate) keep: Vec<RawFd>,
    /// The soft limit of open descriptors that the caller had; none is no limit.
    pub(crate) descriptors: Option<u64>,
    /// Who it must be: the numeric user and group.
    pub(crate) user: (u32, u32),
    /// Where the snapshot is mounted.
    pub(crate) skills_dir: Utf8PathBuf,
    /// Where else.
    pub(crate) in_place: Vec<Utf8PathBuf>,
    /// Device and inode of the directory that was hashed, where that is what is mounted.
    pub(crate) identity: Option<(u64, u64)>,
    /// The digest of the manifest in it.
    pub(crate) manifest: Digest,
    /// The packages in it.
    pub(crate) skills: Vec<SkillId>,
    /// Where the command begins, if it has the caller's terminal.
    pub(crate) terminal: Option<Ground>,
    /// The directories in it whose files' opening is to be told; none where nobody is to be told.
    pub(crate) watched: Vec<String>,
    /// What the process is to enclose itself in, where nothing encloses it.
    pub(crate) enclosure: Option<Enclosure>,
}

impl InnerPlan {
    /// What it does for a plan, telling of what is opened in the directories `watched`. `soft_limit` is the limit
    /// of descriptors that the command gets.
    pub(crate) fn of(
        plan: &LaunchPlan,
        verified: &Verified,
        watched: &[String],
        soft_limit: Option<u64>,
    ) -> io::Result<Self> {
        let Stamp { device, inode, .. } = Stamp::of(verified)?;
        Ok(Self {
            command: plan.command.clone(),
            environment: plan.environment.clone().into_iter().collect(),
            keep: plan.keep.clone(),
            descriptors: soft_limit,
            user: plan.user,
            skills_dir: plan.names.skills_dir.clone(),
            in_place: plan.places().skip(1).map(Utf8Path::to_owned).collect(),
            identity: (plan.how != Method::SealedMemfd).then_some((device, inode)),
            manifest: plan.snapshot,
            skills: plan.skills.clone(),
            terminal: None,
            watched: watched.to_vec(),
            enclosure: (plan.how == Method::Landlock).then(|| Enclosure {
                mounts: plan.mounts.clone(),
                network: plan.network,
                working_directory: plan.working_directory.clone(),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_keep_names_that_are_not_utf8() {
        use std::os::unix::ffi::OsStringExt as _;
        let name = OsString::from_vec(b"b\xff".to_vec());
        let plan = InnerPlan {
            command: vec![name.clone()],
            environment: vec![(name.clone(), name.clone())],
            keep: Vec::new(),
            descriptors: Some(1024),
            user: (1, 1),
            skills_dir: "/skills".into(),
            in_place: Vec::new(),
            identity: Some((1, 2)),
            manifest: Digest::of(b""),
            skills: Vec::new(),
            terminal: None,
            watched: Vec::new(),
            enclosure: None,
        };
        let read: InnerPlan = serde_json::from_slice(&serde_json::to_vec(&plan).unwrap()).unwrap();
        assert_eq!((read.command, read.environment), (plan.command, plan.environment));
    }
}
