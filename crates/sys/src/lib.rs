//! The system calls that no crate wraps: the only unsafe code of the project.
//!
//! Each function is one call, named as its manual page names it, with its arguments typed.
#![expect(unsafe_code, reason = "this crate exists to hold it")]

#[cfg(target_os = "linux")]
use std::collections::BTreeSet;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
#[cfg(target_os = "linux")]
use std::sync::{Mutex, PoisonError};

/// The descriptors that this process was started with and nobody in it owns yet.
#[cfg(target_os = "linux")]
static INHERITED: Mutex<Option<BTreeSet<RawFd>>> = Mutex::new(None);

/// Notes which descriptors above the first three this process was started with, to be given out by
/// [`inherited`]: nothing that is opened later is among them.
///
/// To be called before this process opens anything itself, so that nobody owns one of them. It counts
/// once in the life of a process.
///
/// # Errors
/// `EALREADY` when it was called before; what `/proc/self/fd` says.
#[cfg(target_os = "linux")]
pub fn note_inherited() -> io::Result<()> {
    let mut noted = INHERITED.lock().unwrap_or_else(PoisonError::into_inner);
    if noted.is_some() {
        return Err(io::Error::from_raw_os_error(libc::EALREADY));
    }
    let number = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    #[expect(clippy::disallowed_methods, reason = "the kernel's list of this process's own descriptors")]
    let open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?.filter_map(number).collect();
    // What the list was read from is closed again.
    *noted = Some(open.into_iter().filter(|number| *number > 2 && is_open(*number)).collect());
    Ok(())
}

/// Takes over a descriptor that this process was started with, as [`note_inherited`] has found it.
///
/// Each number is given out once, and nobody else owns it: the parent put it there for this purpose.
///
/// # Errors
/// `EBADF` when nothing was open there at the start, or it was taken over before.
#[cfg(target_os = "linux")]
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    let mut noted = INHERITED.lock().unwrap_or_else(PoisonError::into_inner);
    if !noted.as_mut().is_some_and(|noted| noted.remove(&number)) || !is_open(number) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the descriptor is open, and nobody else owns it: it was there before anything was opened
    // here, and has just left the list of those that can be taken over.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(target_os = "linux")]
fn is_open(number: RawFd) -> bool {
    // SAFETY: fcntl(2) F_GETFD takes no pointer and changes nothing.
    (unsafe { libc::fcntl(number, libc::F_GETFD) }) != -1
}

/// Makes a close-on-exec copy, by fcntl(2) `F_DUPFD_CLOEXEC`, of a descriptor given by its number.
///
/// # Errors
/// `EBADF` when nothing is open at that number.
pub fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl(2) F_DUPFD_CLOEXEC takes no pointer.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    check(copy)?;
    // SAFETY: the call has just made it, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Puts a close-on-exec copy of an open file, by dup3(2), in the place of a descriptor that this process
/// was started with and has not taken over: it is for a process further on.
///
/// # Errors
/// `EBADF` when it is none of those, else what dup3(2) says.
#[cfg(target_os = "linux")]
pub fn put_at(file: impl AsFd, number: RawFd) -> io::Result<()> {
    let noted = INHERITED.lock().unwrap_or_else(PoisonError::into_inner);
    if !noted.as_ref().is_some_and(|noted| noted.contains(&number)) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: dup3(2) takes no pointer; nobody owns the number, and the lock keeps it so.
    check(unsafe { libc::dup3(file.as_fd().as_raw_fd(), number, libc::O_CLOEXEC) })
}

/// Sets or clears close-on-exec on a descriptor given by its number.
///
/// # Errors
/// What fcntl(2) `F_SETFD` says.
pub fn set_cloexec(number: RawFd, close: bool) -> io::Result<()> {
    let flags = if close { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: fcntl(2) F_SETFD takes no pointer.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, flags) })
}

/// Has a command keep, of the descriptors above the first three and up to `last`, those in `keep` alone.
///
/// It happens in the new process, between fork(2) and execve(2): this one's descriptors stay as they are.
pub fn keep_only(command: &mut Command, last: RawFd, keep: Vec<RawFd>) {
    let mark = move || {
        for number in 3..=last {
            match set_cloexec(number, !keep.contains(&number)) {
                Err(error) if error.raw_os_error() != Some(libc::EBADF) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing, takes no lock, and makes one system call again and again.
    unsafe { command.pre_exec(mark) };
}

/// Whether this process ignores a signal, as one started with `nohup` ignores `SIGHUP`.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: sigaction(2) with a null new action only writes the old one, to memory of its size.
    let done = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: the call has succeeded, so the action was written.
    done == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Has a command executed without the capabilities that this process hands on to whatever it executes, by
/// prctl(2) `PR_CAP_AMBIENT_CLEAR_ALL`.
#[cfg(target_os = "linux")]
pub fn without_ambient_capabilities(command: &mut Command) {
    let clear = || {
        // SAFETY: prctl(2) takes no pointer here, and may be called between fork and exec.
        match unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure allocates nothing, takes no lock, and calls only what is said above.
    unsafe { command.pre_exec(clear) };
}

/// Has a command, which must begin a process group of its own, make that group the foreground group
/// of the terminal at its standard input before it is executed, by tcsetpgrp(3).
///
/// Where that fails the terminal is gone, which is for the command to notice.
pub fn take_terminal(command: &mut Command) {
    let take = || {
        let mut stops = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: all of these may be called between fork and exec (signal-safety(7)), and get pointers
        // to sets of the right size, of which the first is initialised before it is read.
        unsafe {
            libc::sigemptyset(stops.as_mut_ptr());
            libc::sigaddset(stops.as_mut_ptr(), libc::SIGTTOU);
            // Else the process, which is still in the background, would be stopped.
            if libc::sigprocmask(libc::SIG_BLOCK, stops.as_ptr(), before.as_mut_ptr()) == 0 {
                libc::tcsetpgrp(libc::STDIN_FILENO, libc::getpgrp());
                libc::sigprocmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
            }
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing, takes no lock, and calls only what is said above.
    unsafe { command.pre_exec(take) };
}

/// Leaves the session keyring for a new, empty one, by keyctl(2) `KEYCTL_JOIN_SESSION_KEYRING`.
///
/// Where keyrings are not there, or a system-call filter forbids them, there is nothing to leave: the
/// processes that follow cannot reach a key either.
///
/// # Errors
/// What keyctl(2) says otherwise.
#[cfg(target_os = "linux")]
pub fn join_new_session_keyring() -> io::Result<()> {
    let anonymous: *const libc::c_char = std::ptr::null();
    // SAFETY: a null name asks for an anonymous keyring, and no memory is touched.
    let done = unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, anonymous) };
    match io::Error::last_os_error() {
        _ if done != -1 => Ok(()),
        error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => Ok(()),
        error => Err(error),
    }
}

/// Marks every descriptor from `first` up close-on-exec, by close_range(2) with
/// `CLOSE_RANGE_CLOEXEC` (Linux 5.11), or one by one where the kernel lacks it or a filter forbids it.
///
/// # Errors
/// What `/proc/self/fd` or fcntl(2) says.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "the kernel tells of descriptors by path alone")]
pub fn cloexec_from(first: RawFd) -> io::Result<()> {
    let start = libc::c_ulong::try_from(first).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: close_range(2) takes no pointer; close-on-exec does not close anything now.
    let done = unsafe {
        libc::syscall(libc::SYS_close_range, start, libc::c_ulong::from(u32::MAX), libc::CLOSE_RANGE_CLOEXEC)
    };
    if done == 0 {
        return Ok(());
    }
    // No limit says where they end: one that was opened before the limit was lowered stays open.
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        let number: RawFd = number.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?;
        if number < first {
            continue;
        }
        match set_cloexec(number, true) {
            Err(error) if error.raw_os_error() != Some(libc::EBADF) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// What [`mount_setattr`] sets on a mount.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MountAttributes {
    /// No writing through this mount.
    pub read_only: bool,
    /// Writing through this mount again.
    pub writable: bool,
    /// No set-user-ID programs.
    pub no_suid: bool,
    /// No devices.
    pub no_dev: bool,
}

/// Changes a mount and all below it, by mount_setattr(2) with `AT_EMPTY_PATH|AT_RECURSIVE`.
///
/// `mount` is a descriptor of the mount, as open_tree(2) gives it.
///
/// # Errors
/// What mount_setattr(2) says; `ENOSYS` before Linux 5.12.
#[cfg(target_os = "linux")]
pub fn mount_setattr(mount: impl AsFd, attributes: MountAttributes) -> io::Result<()> {
    let flag = |set: bool, flag: u64| if set { flag } else { 0 };
    let attr_set = flag(attributes.read_only, libc::MOUNT_ATTR_RDONLY)
        | flag(attributes.no_suid, libc::MOUNT_ATTR_NOSUID)
        | flag(attributes.no_dev, libc::MOUNT_ATTR_NODEV);
    let attr_clr = flag(attributes.writable, libc::MOUNT_ATTR_RDONLY);
    let attributes = libc::mount_attr { attr_set, attr_clr, propagation: 0, userns_fd: 0 };
    // SAFETY: the path is an empty C string and the structure has the size that is passed with it.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// One instruction of a system-call filter, `struct sock_filter` of seccomp(2).
#[cfg(target_os = "linux")]
pub use libc::sock_filter as Instruction;

/// Has the kernel run this program before each system call of the calling thread, and of all that it
/// starts from now on, by seccomp(2) `SECCOMP_SET_MODE_FILTER`. It must have given up new privileges.
///
/// # Errors
/// What seccomp(2) says: `EACCES` without `no_new_privs`, `EINVAL` for what is no program.
#[cfg(target_os = "linux")]
pub fn set_filter(program: &[Instruction]) -> io::Result<()> {
    let too_long = |_| io::Error::from_raw_os_error(libc::EINVAL);
    let len = libc::c_ushort::try_from(program.len()).map_err(too_long)?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: the structure names as many instructions as there are, which the call only reads.
    let done =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The version of the kernel's interface to Landlock, by landlock_create_ruleset(2) with
/// `LANDLOCK_CREATE_RULESET_VERSION`; 0 where there is none.
#[cfg(target_os = "linux")]
#[must_use]
pub fn landlock_version() -> u32 {
    const VERSION: libc::c_uint = 1;
    let nothing: *const libc::c_void = std::ptr::null();
    // SAFETY: with this flag the call takes no structure and makes no descriptor.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION) };
    u32::try_from(version).unwrap_or(0)
}

/// The version of Landlock where there is no Landlock.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn landlock_version() -> u32 {
    0
}

/// Has a command enclosed by one more set of Landlock rules than its parent, by
/// landlock_restrict_self(2), and killed when the thread that starts it ends, by prctl(2)
/// `PR_SET_PDEATHSIG`, from its first moment on. The parent must have given up new privileges.
///
/// The command does not start where one of the two fails.
#[cfg(target_os = "linux")]
pub fn enclose(command: &mut Command, rules: OwnedFd) {
    let enclose = move || {
        // SAFETY: neither call takes a pointer.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
        // SAFETY: as above; the descriptor is open as long as the closure lives.
        let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: between fork(2) and execve(2) it makes two system calls and allocates nothing.
    unsafe { command.pre_exec(enclose) };
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd as _;

    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn takes_over_what_was_open_at_the_start_and_nothing_else() {
        let errno = |done: io::Result<()>| done.map_err(|error| error.raw_os_error());
        let file = tempfile::tempfile().unwrap();
        let open = || OwnedFd::from(tempfile::tempfile().unwrap()).into_raw_fd();
        let (taken, replaced) = (open(), open());
        assert_eq!(errno(inherited(taken).map(drop)), Err(Some(libc::EBADF)), "nothing was noted");
        note_inherited().unwrap();
        let later = open();
        assert_eq!(errno(note_inherited()), Err(Some(libc::EALREADY)));
        put_at(&file, replaced).unwrap();
        drop(inherited(replaced).unwrap());
        let owned = inherited(taken).unwrap();
        for number in [taken, replaced, later, -1, 0, 2, 1 << 20] {
            assert_eq!(errno(inherited(number).map(drop)), Err(Some(libc::EBADF)), "{number}");
            assert_eq!(errno(put_at(&file, number)), Err(Some(libc::EBADF)), "{number}");
        }
        drop(owned);
    }

    #[test]
    fn a_command_keeps_what_it_is_to_and_this_process_all() {
        use std::os::fd::AsRawFd as _;

        let files = [(); 3].map(|()| tempfile::tempfile().unwrap());
        let [kept, dropped, closed] = [0, 1, 2].map(|index| files[index].as_raw_fd());
        set_cloexec(dropped, false).unwrap();
        let script = format!("for f in {kept} {dropped} {closed}; do [ -e /dev/fd/$f ] && echo $f; done; :");
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        keep_only(&mut command, closed.max(dropped).max(kept) + 10, vec![kept]);
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{kept}\n"));
        // SAFETY: fcntl(2) F_GETFD takes no pointer.
        let flags = [kept, dropped].map(|number| unsafe { libc::fcntl(number, libc::F_GETFD) });
        assert_eq!(flags, [libc::FD_CLOEXEC, 0]);
    }

    #[test]
    fn knows_what_is_ignored() {
        // The Rust runtime ignores SIGPIPE.
        assert!(is_ignored(libc::SIGPIPE) && !is_ignored(libc::SIGTERM) && !is_ignored(-1));
    }

    #[test]
    fn cloexec_is_set_and_cleared() {
        let file = tempfile::tempfile().unwrap();
        // SAFETY: fcntl(2) F_GETFD takes no pointer.
        let flags = |number| unsafe { libc::fcntl(number, libc::F_GETFD) };
        set_cloexec(file.as_raw_fd(), false).unwrap();
        assert_eq!(flags(file.as_raw_fd()), 0);
        cloexec_from(3).unwrap();
        assert_eq!(flags(file.as_raw_fd()), libc::FD_CLOEXEC);
        assert!(set_cloexec(1 << 20, true).is_err());
    }
}
