//! What the first process tries from inside Landlock's rules before the command is started.
//!
//! The modes of a snapshot refuse writing too, so these also try what only the rules refuse.

use std::path::Path;

use camino::Utf8Path;
use nix::sys::signal::kill;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::unistd::getppid;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, open, renameat, unlinkat};
use rustix::io::Errno;
use rustix::thread::capabilities;

use super::Enclosure;
use crate::linux::probe::{ABSENT, ProbeError};
use crate::mount::Mount;
use crate::network::Network;

/// The code of what is not as the rules say.
pub(super) const BROKEN: &str = "landlock-broken";

/// Tries to get around the rules; gives how many attempts were refused, as all must be. `file` is one of
/// the snapshot.
pub(crate) fn run(enclosure: &Enclosure, skills: &Utf8Path, file: &Path) -> Result<u64, ProbeError> {
    let writing = OFlags::WRONLY | OFlags::CLOEXEC;
    let mut probes = vec![
        ("opening a file of the snapshot for writing", opened(file, writing)),
        ("renaming in the snapshot", renameat(CWD, file, CWD, file)),
        ("making a directory in the snapshot", made(&skills.join(ABSENT))),
        ("listing the root directory", opened(Path::new("/"), OFlags::RDONLY | OFlags::CLOEXEC)),
        (
            "reading a variable of another process",
            // Where processes of others are hidden, it is not even there.
            opened(Path::new(&environment_of_parent()), OFlags::RDONLY)
                .map_err(|errno| if errno == Errno::NOENT { Errno::ACCESS } else { errno }),
        ),
        ("reaching another process with a signal", answer(kill(getppid(), None))),
        ("opening a Unix socket", has_socket(AddressFamily::Unix)),
        ("opening core_pattern for writing", opened(Path::new("/proc/sys/kernel/core_pattern"), writing)),
    ];
    if enclosure.network == Network::None {
        probes.push(("opening a socket", has_socket(AddressFamily::Inet)));
    }
    // The directory above is the command's user's, and only the rules keep it from being written.
    let above = enclosure.mounts.iter().find_map(|mount| match mount {
        Mount::Private { path } => path.parent(),
        _ => None,
    });
    if let Some(above) = above {
        probes.push(("making a directory outside", made(&above.join(ABSENT))));
    }
    if capabilities(None).is_ok_and(|sets| !(sets.effective | sets.permitted).is_empty()) {
        return Err(failed("the command would have capabilities".to_owned()));
    }
    for (attempt, answer) in &probes {
        match answer {
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {}
            Err(errno) => {
                return Err(failed(format!("{attempt} was refused for another reason: {errno}")));
            }
            Ok(()) => return Err(failed(format!("{attempt} was not refused"))),
        }
    }
    // What was promised must be there too.
    for mount in &enclosure.mounts {
        if let Mount::Private { path } = mount {
            let probe = path.join(ABSENT);
            made(&probe).map_err(|errno| failed(format!("`{path}` cannot be written: {errno}")))?;
        }
    }
    Ok(probes.len() as u64)
}

fn failed(detail: String) -> ProbeError {
    ProbeError { check: BROKEN, detail }
}

fn opened(path: &Path, flags: OFlags) -> Result<(), Errno> {
    open(path, flags, Mode::empty()).map(drop)
}

/// Makes a directory, and removes it again if that could be done.
fn made(path: &Utf8Path) -> Result<(), Errno> {
    mkdirat(CWD, path.as_std_path(), Mode::RWXU)?;
    unlinkat(CWD, path.as_std_path(), AtFlags::REMOVEDIR)
}

fn environment_of_parent() -> String {
    format!("/proc/{}/environ", getppid())
}

fn has_socket(family: AddressFamily) -> Result<(), Errno> {
    answer(socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).map(drop))
}

fn answer(answer: nix::Result<()>) -> Result<(), Errno> {
    answer.map_err(|errno| Errno::from_raw_os_error(errno as i32))
}
