//! The check that the first process inside the sandbox makes before the command is started.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags, open, stat, statvfs};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use skillfreeze_manifest::{Digest, MANIFEST_FILE, MAX_MANIFEST_BYTES, SKILL_FILE};

use crate::linux::landlock::probes;
use crate::linux::probe::{ProbeError, expect, fail, probe_mount};
use crate::linux::protocol::InnerPlan;

/// What passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Packages whose `SKILL.md` could be read.
    pub(crate) skills: u64,
    /// Probes that failed as they should.
    pub(crate) probes: u64,
    /// Whether programs of the snapshot cannot be started here.
    pub(crate) noexec: bool,
}

/// Makes the whole check.
pub(crate) fn run(plan: &InnerPlan) -> Result<Passed, ProbeError> {
    let skills = &plan.skills_dir;
    check_user(plan)?;
    let places = || std::iter::once(skills).chain(&plan.in_place);
    places().try_for_each(|place| check_identity(plan, place))?;
    let mut readable = 0;
    for skill in &plan.skills {
        let path = skills.join(skill.as_str()).join(SKILL_FILE);
        read_one_byte(&path).map_err(|error| fail("mount-not-visible", format!("`{path}`: {error}")))?;
        readable += 1;
    }
    let (mut probes, mut noexec) = (0, false);
    for place in places() {
        let (flags, refused) = check_place(plan, place)?;
        probes += refused;
        noexec |= flags.contains(StatVfsMountFlags::NOEXEC);
    }
    if plan.enclosure.is_none() {
        probes += probe_system(skills)?;
    }
    Ok(Passed { skills: readable, probes, noexec })
}

/// Checks a place where the snapshot is mounted; gives the mount's flags and the number of probes.
fn check_place(plan: &InnerPlan, place: &Utf8Path) -> Result<(StatVfsMountFlags, u64), ProbeError> {
    let flags = statvfs(place.as_std_path())
        .map_err(|error| fail("mount-not-visible", format!("`{place}`: {error}")))?
        .f_flag;
    let probes = match &plan.enclosure {
        Some(enclosure) => probes::run(enclosure, place, place.join(file_of(plan)).as_std_path())?,
        None if !flags.contains(StatVfsMountFlags::RDONLY) => {
            return Err(fail("mount-writable", format!("`{place}` is not mounted read-only")));
        }
        None => probe_snapshot(plan, place)?,
    };
    Ok((flags, probes))
}

fn check_user(plan: &InnerPlan) -> Result<(), ProbeError> {
    let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if user != plan.user || user.0 == 0 {
        let ((user, group), planned) = (user, plan.user);
        let detail =
            format!("the command would run as {user}:{group} instead of {}:{}", planned.0, planned.1);
        return Err(fail("user", detail));
    }
    Ok(())
}

fn check_identity(plan: &InnerPlan, place: &Utf8Path) -> Result<(), ProbeError> {
    let found = stat(place.as_std_path())
        .map_err(|error| fail("mount-not-visible", format!("`{place}`: {error}")))?;
    #[expect(clippy::useless_conversion, reason = "the fields' types differ among architectures")]
    let identity = (u64::from(found.st_dev), u64::from(found.st_ino));
    if plan.identity.is_some_and(|planned| planned != identity) {
        return Err(fail("mount-swapped", format!("`{place}` is not the directory that was hashed")));
    }
    let path = place.join(MANIFEST_FILE);
    let manifest =
        read_manifest(&path).map_err(|error| fail("mount-not-visible", format!("`{path}`: {error}")))?;
    if Digest::of(&manifest) == plan.manifest {
        Ok(())
    } else {
        Err(fail("mount-swapped", format!("`{path}` is not the manifest that was checked")))
    }
}

fn read_manifest(path: &Utf8Path) -> io::Result<Vec<u8>> {
    let file = File::from(open(path.as_std_path(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?);
    let mut bytes = Vec::new();
    file.take(MAX_MANIFEST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_one_byte(path: &Utf8Path) -> io::Result<()> {
    let file = File::from(open(path.as_std_path(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?);
    (&file).read(&mut [0]).map(drop)
}

/// A file of the snapshot, by its path in there.
fn file_of(plan: &InnerPlan) -> Utf8PathBuf {
    match plan.skills.first() {
        Some(skill) => Utf8Path::new(skill.as_str()).join(SKILL_FILE),
        None => MANIFEST_FILE.into(),
    }
}

/// Tries to change the snapshot where it is mounted.
fn probe_snapshot(plan: &InnerPlan, place: &Utf8Path) -> Result<u64, ProbeError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(place.as_std_path(), flags, Mode::empty())
        .map_err(|error| fail("mount-not-visible", format!("`{}`: {error}", place)))?;
    probe_mount(directory.as_fd(), &file_of(plan))
}

/// Tries what would undo the sandbox.
fn probe_system(skills: &Utf8Path) -> Result<u64, ProbeError> {
    let remounted = mount_remount(skills.as_std_path(), MountFlags::BIND, c"");
    expect("remount", remounted, |errno| errno == Errno::PERM)?;
    let core_pattern =
        open("/proc/sys/kernel/core_pattern", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).map(drop);
    expect("open core_pattern for writing", core_pattern, |_| true)?;
    Ok(2)
}
