//! Open-file-description locks (`F_OFD_SETLK`, `fcntl(2)`): held by the kernel until the last copy
//! of the descriptor is closed, so no lock outlives its holder and none is reclaimed by age.
//!
//! Each lock has its own open file description: two threads that open the same file anew exclude
//! each other just as two processes do.

use std::fs::File;
use std::io;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// How a lock is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Many may hold it.
    Shared,
    /// One alone holds it; the file must be open for writing.
    Exclusive,
}

fn whole_file(sharing: Sharing) -> libc::flock {
    let kind = match sharing {
        Sharing::Shared => libc::F_RDLCK,
        Sharing::Exclusive => libc::F_WRLCK,
    };
    #[expect(clippy::cast_possible_truncation, reason = "the constants are small; C makes them ints")]
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Waits for the lock on the whole of `file`.
pub(crate) fn lock(file: &File, sharing: Sharing) -> io::Result<()> {
    let lock = whole_file(sharing);
    loop {
        match fcntl(file, FcntlArg::F_OFD_SETLKW(&lock)) {
            Err(Errno::EINTR) => {}
            done => return done.map(drop).map_err(io::Error::from),
        }
    }
}

/// Takes the lock on the whole of `file` if nobody holds it, and says whether it did.
pub(crate) fn try_lock(file: &File, sharing: Sharing) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file(sharing))) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excludes_within_one_process() {
        let temp = tempfile::NamedTempFile::new().unwrap();
        let [one, two, three] = [(); 3].map(|()| temp.reopen().unwrap());
        lock(&one, Sharing::Shared).unwrap();
        assert!(try_lock(&two, Sharing::Shared).unwrap());
        assert!(!try_lock(&three, Sharing::Exclusive).unwrap());
        drop((one, two));
        assert!(try_lock(&three, Sharing::Exclusive).unwrap());
    }
}
