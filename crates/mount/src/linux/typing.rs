//! Typing at the caller's terminal, which no command may do.
//!
//! `TIOCSTI` puts characters into a terminal's input as if somebody had typed them, and `TIOCLINUX` pastes a
//! selection; the caller's shell would run them afterwards.

use nix::libc;

use crate::linux::filter::{self, EPERM, Rule, When};

/// The numbers of the two requests, on all machines that there is a filter for.
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541C;

/// The filter that keeps a command from typing, as bubblewrap takes it; none on machines that it is not
/// known for.
pub(crate) fn filter() -> Option<Vec<u8>> {
    let program = filter::program(&[rule()])?;
    let bytes = program.iter().flat_map(|step| {
        let [code, word] = [step.code.to_ne_bytes().to_vec(), step.k.to_ne_bytes().to_vec()];
        [code, vec![step.jt, step.jf], word].concat()
    });
    Some(bytes.collect())
}

fn rule() -> Rule {
    let call = u32::try_from(libc::SYS_ioctl).expect("numbers of system calls are small");
    Rule { call, when: When::OneOf { argument: 1, values: vec![TIOCSTI, TIOCLINUX] }, errno: EPERM }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_is_refused_whatever_the_upper_half_says() {
        let program = filter::program(&[rule()]).unwrap();
        let ioctl = rule().call;
        for (call, request, refused) in [
            (ioctl, 0x5412, true),
            (ioctl, 0x541C, true),
            (ioctl, 0x1_0000_5412, true),
            (ioctl, 0xFFFF_FFFF_0000_541C, true),
            // TCGETS, TIOCGPGRP, TIOCSPGRP, TIOCOUTQ, TIOCGWINSZ.
            (ioctl, 0x5401, false),
            (ioctl, 0x540F, false),
            (ioctl, 0x5410, false),
            (ioctl, 0x5411, false),
            (ioctl, 0x5413, false),
            (ioctl, 0x5412_0000_0000, false),
            (ioctl + 1, 0x5412, false),
        ] {
            let answer = filter::answer(&program, filter::native(), call, [0, request, 0, 0, 0, 0]);
            assert_eq!(answer, refused.then_some(EPERM), "{call} {request:#x}");
        }
        // 32-bit x86 and ARM, whose ioctl(2) is 54.
        for architecture in [0x4000_0003, 0x4000_0028] {
            assert_eq!(filter::answer(&program, architecture, 54, [0, 0x5412, 0, 0, 0, 0]), Some(EPERM));
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_bytes_are_these() {
        let hex: String = filter().unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = [
            "2000000004000000", // the architecture
            "150001003e0000c0", // x86-64
            "0600000001000500", // or refused
            "2000000000000000", // the number
            "3500000100000040", // x32
            "0600000001000500", // is refused
            "1500000610000000", // ioctl
            "2000000018000000", // the request
            "1500000112540000", // TIOCSTI
            "0600000001000500", // is refused
            "150000011c540000", // TIOCLINUX
            "0600000001000500", // too
            "060000000000ff7f",
            "060000000000ff7f",
        ];
        assert_eq!(hex, expected.concat());
    }
}
