//! System calls that reach around Landlock's rules, which are about paths, TCP and signals alone.

use nix::libc;

use crate::linux::filter::{ENOSYS, EPERM, Rule, When};
use crate::network::Network;

/// Ways out of what the other rules look at: rings make calls that no filter sees.
const RINGS: [libc::c_long; 3] =
    [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
/// The caller's keys are its user's, and so the command's.
const KEYS: [libc::c_long; 3] = [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl];
/// Memory, semaphores and queues that the user's other processes share are found by number or name.
const SHARED: [libc::c_long; 13] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];
/// Every kind of namespace.
const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;
/// This one's bit means something else to clone(2), which cannot make it.
const TIME_NAMESPACE: libc::c_int = 0x80;
/// The part of a socket's type that is not a flag.
const SOCKET_TYPE: u32 = 0xf;

/// What the filter under Landlock refuses.
///
/// A Unix socket can be connected to wherever it lies, for Landlock asks about that only in kernels to
/// come; so there are none but connected pairs, and datagram pairs could be led elsewhere.
pub(super) fn refused(network: Network) -> Vec<Rule> {
    let families: &[libc::c_int] = match network {
        Network::None => &[],
        Network::Host => &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
    };
    let pairs = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET];
    let mut rules = vec![
        rule(libc::SYS_socket, none_of(0, u32::MAX, families)),
        rule(libc::SYS_socketpair, none_of(1, SOCKET_TYPE, &pairs)),
        rule(libc::SYS_clone, When::AnyBit { argument: 0, bits: unsigned(NAMESPACES) }),
        rule(libc::SYS_unshare, When::AnyBit { argument: 0, bits: unsigned(NAMESPACES | TIME_NAMESPACE) }),
        // Its flags are in memory, where no filter looks; told that there is none, libraries use clone(2).
        Rule { errno: ENOSYS, ..rule(libc::SYS_clone3, When::Always) },
        rule(libc::SYS_setns, When::Always),
        // A limit of processor time ends another process of the user.
        rule(libc::SYS_prlimit64, none_of(0, u32::MAX, &[0])),
    ];
    let always = RINGS.iter().chain(&KEYS).chain(&SHARED);
    rules.extend(always.map(|call| rule(*call, When::Always)));
    rules
}

fn rule(call: libc::c_long, when: When) -> Rule {
    Rule { call: u32::try_from(call).expect("numbers of system calls are small"), when, errno: EPERM }
}

fn none_of(argument: u32, bits: u32, values: &[libc::c_int]) -> When {
    When::NoneOf { argument, bits, values: values.iter().copied().map(unsigned).collect() }
}

fn unsigned(number: libc::c_int) -> u32 {
    u32::from_ne_bytes(number.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use crate::linux::filter::{answer, native, program};

    use super::*;

    fn answers(network: Network, calls: &[(libc::c_long, [u64; 2], Option<u16>)]) {
        let program = program(&refused(network)).unwrap();
        for (call, [first, second], expected) in calls {
            let number = u32::try_from(*call).unwrap();
            let answered = answer(&program, native(), number, [*first, *second, 0, 0, 0, 0]);
            assert_eq!(answered, *expected, "{network:?}: {call} {first} {second}");
        }
    }

    #[test]
    fn without_a_network_there_are_connected_pairs_alone() {
        let family = |family: libc::c_int| u64::from(unsigned(family));
        for family in 0..50 {
            answers(Network::None, &[(libc::SYS_socket, [family, 1], Some(EPERM))]);
        }
        let unix = family(libc::AF_UNIX);
        answers(
            Network::None,
            &[
                (libc::SYS_socketpair, [unix, 1], None),
                (libc::SYS_socketpair, [unix, 5 | 0o2_000_000], None),
                (libc::SYS_socketpair, [unix, 2], Some(EPERM)),
                (libc::SYS_socketpair, [unix, 3], Some(EPERM)),
            ],
        );
        answers(
            Network::Host,
            &[
                (libc::SYS_socket, [family(libc::AF_INET), 1], None),
                (libc::SYS_socket, [family(libc::AF_INET6), 2], None),
                (libc::SYS_socket, [family(libc::AF_NETLINK), 3], None),
                (libc::SYS_socket, [unix, 1], Some(EPERM)),
                (libc::SYS_socket, [family(libc::AF_VSOCK), 1], Some(EPERM)),
                (libc::SYS_socket, [family(libc::AF_PACKET), 3], Some(EPERM)),
            ],
        );
    }

    #[test]
    fn what_reaches_around_the_rules_is_refused() {
        let user = u64::from(unsigned(libc::CLONE_NEWUSER));
        let thread = u64::from(unsigned(libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND));
        answers(
            Network::Host,
            &[
                (libc::SYS_io_uring_setup, [1, 0], Some(EPERM)),
                (libc::SYS_keyctl, [0, 0], Some(EPERM)),
                (libc::SYS_shmat, [1, 0], Some(EPERM)),
                (libc::SYS_mq_open, [0, 0], Some(EPERM)),
                (libc::SYS_setns, [3, 0], Some(EPERM)),
                (libc::SYS_clone3, [0, 0], Some(ENOSYS)),
                (libc::SYS_clone, [user | 17, 0], Some(EPERM)),
                (libc::SYS_clone, [thread, 0], None),
                (libc::SYS_clone, [17, 0], None),
                (libc::SYS_unshare, [user, 0], Some(EPERM)),
                (libc::SYS_unshare, [0x80, 0], Some(EPERM)),
                (libc::SYS_unshare, [u64::from(unsigned(libc::CLONE_FILES)), 0], None),
                (libc::SYS_prlimit64, [0, 7], None),
                (libc::SYS_prlimit64, [1, 7], Some(EPERM)),
                (libc::SYS_prlimit64, [1 << 32, 7], None),
                (libc::SYS_openat, [0, 0], None),
                (libc::SYS_execve, [0, 0], None),
            ],
        );
    }
}
