//! The system-call filter of a command that has the caller's terminal: it must not type there.
//!
//! `TIOCSTI` puts characters into a terminal's input as if somebody had typed them, and `TIOCLINUX`
//! pastes a selection: the caller's shell would run them once the command has ended. The kernel
//! looks at the low 32 bits of a request only, and so does the filter. A system call of another
//! architecture has other numbers, so all of those are refused.

/// The numbers of ioctl(2) requests, on the machines below.
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541C;
/// What the numbers of the x32 ABI have, which shares the architecture with x86-64.
const X32_BIT: u32 = 0x4000_0000;

/// Instructions of classic BPF: load a word of the call, jump if equal, jump if a bit is set, return.
const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_SET: u16 = 0x45;
const RETURN: u16 = 0x06;
/// Where in `struct seccomp_data` the words are.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const SECOND_ARGUMENT_LOW: u32 = 24;
/// `SECCOMP_RET_ALLOW`, and `SECCOMP_RET_ERRNO` with `EPERM`.
const ALLOW: u32 = 0x7fff_0000;
const REFUSE: u32 = 0x0005_0001;

/// A kind of processor that there is a filter for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machine {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM, little-endian.
    Aarch64,
}

impl Machine {
    /// The one that this program was built for.
    pub(crate) fn own() -> Option<Self> {
        if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
            Some(Self::X86_64)
        } else if cfg!(all(target_arch = "aarch64", target_pointer_width = "64", target_endian = "little")) {
            Some(Self::Aarch64)
        } else {
            None
        }
    }

    /// `AUDIT_ARCH_…`, by which the kernel names the architecture of a call.
    fn architecture(self) -> u32 {
        match self {
            Self::X86_64 => 0xC000_003E,
            Self::Aarch64 => 0xC000_00B7,
        }
    }

    /// The number of ioctl(2).
    fn ioctl(self) -> u32 {
        match self {
            Self::X86_64 => 16,
            Self::Aarch64 => 29,
        }
    }
}

/// Where a jump leads.
#[derive(Debug, Clone, Copy)]
enum To {
    Next,
    Allow,
    Refuse,
}

/// The filter, as seccomp(2) takes it: instructions of eight bytes each.
pub(crate) fn program(machine: Machine) -> Vec<u8> {
    use To::{Allow, Next, Refuse};
    let mut steps =
        vec![(LOAD, ARCHITECTURE, Next, Next), (JUMP_EQUAL, machine.architecture(), Next, Refuse)];
    steps.push((LOAD, NUMBER, Next, Next));
    if machine == Machine::X86_64 {
        steps.push((JUMP_SET, X32_BIT, Refuse, Next));
    }
    steps.push((JUMP_EQUAL, machine.ioctl(), Next, Allow));
    steps.push((LOAD, SECOND_ARGUMENT_LOW, Next, Next));
    steps.push((JUMP_EQUAL, TIOCSTI, Refuse, Next));
    steps.push((JUMP_EQUAL, TIOCLINUX, Refuse, Allow));
    let (allow, refuse) = (steps.len(), steps.len() + 1);
    let mut bytes = Vec::with_capacity((steps.len() + 2) * 8);
    let mut push = |code: u16, if_true: u8, if_false: u8, word: u32| {
        bytes.extend(code.to_le_bytes());
        bytes.extend([if_true, if_false]);
        bytes.extend(word.to_le_bytes());
    };
    for (index, (code, word, if_true, if_false)) in steps.into_iter().enumerate() {
        let distance = |to| {
            let end = match to {
                Next => index + 1,
                Allow => allow,
                Refuse => refuse,
            };
            u8::try_from(end - index - 1).expect("the program is short")
        };
        push(code, distance(if_true), distance(if_false), word);
    }
    push(RETURN, 0, 0, ALLOW);
    push(RETURN, 0, 0, REFUSE);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would answer to a call.
    fn answer(program: &[u8], architecture: u32, number: u32, request: u64) -> u32 {
        let mut call = Vec::new();
        call.extend(number.to_le_bytes());
        call.extend(architecture.to_le_bytes());
        call.extend(0_u64.to_le_bytes());
        for argument in [0, request, 0, 0, 0, 0] {
            call.extend(argument.to_le_bytes());
        }
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let step = &program[at * 8..at * 8 + 8];
            let (code, value) = (u16::from_le_bytes([step[0], step[1]]), word(&step[4..]));
            let (if_true, if_false) = (usize::from(step[2]), usize::from(step[3]));
            at += 1;
            match code {
                LOAD => accumulator = word(&call[value as usize..value as usize + 4]),
                JUMP_EQUAL => at += if accumulator == value { if_true } else { if_false },
                JUMP_SET => at += if accumulator & value != 0 { if_true } else { if_false },
                RETURN => return value,
                code => panic!("unknown instruction {code:#x}"),
            }
        }
    }

    #[test]
    fn refuses_typing_and_foreign_calls() {
        const I386: u32 = 0x4000_0003;
        const ARM: u32 = 0x4000_0028;
        let machines = [(Machine::X86_64, 0xC000_003E, 16, 1), (Machine::Aarch64, 0xC000_00B7, 29, 64)];
        for (machine, own, ioctl, write) in machines {
            let program = program(machine);
            for (architecture, number, request, expected) in [
                (own, ioctl, 0x5412, REFUSE),
                (own, ioctl, 0x541C, REFUSE),
                (own, ioctl, 0x1_0000_5412, REFUSE),
                (own, ioctl, 0xFFFF_FFFF_0000_541C, REFUSE),
                // TCGETS, TIOCGWINSZ, TIOCSPGRP and neighbours.
                (own, ioctl, 0x5401, ALLOW),
                (own, ioctl, 0x5413, ALLOW),
                (own, ioctl, 0x5410, ALLOW),
                (own, ioctl, 0x5411, ALLOW),
                (own, ioctl, 0x5412_0000_0000, ALLOW),
                (own, write, 0x5412, ALLOW),
                (I386, 54, 0x5412, REFUSE),
                (I386, 4, 0, REFUSE),
                (ARM, 54, 0x5412, REFUSE),
                (own ^ 1, write, 0, REFUSE),
            ] {
                let answer = answer(&program, architecture, number, request);
                assert_eq!(answer, expected, "{machine:?} {architecture:#x} {number} {request:#x}");
            }
        }
        let x32 = |number| answer(&program(Machine::X86_64), 0xC000_003E, number, 0x5412);
        assert_eq!((x32(0x4000_0000 + 514), x32(0x4000_0001), x32(u32::MAX)), (REFUSE, REFUSE, REFUSE));
    }

    #[test]
    fn the_bytes_are_these() {
        let hex = |machine| program(machine).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let expected = [
            "2000000004000000", // the architecture
            "150000073e0000c0", // x86-64, or refused
            "2000000000000000", // the number
            "4500050000000040", // x32 is refused
            "1500000310000000", // ioctl, or allowed
            "2000000018000000", // the request
            "1500020012540000", // TIOCSTI is refused
            "150001001c540000", // TIOCLINUX too, all else allowed
            "060000000000ff7f",
            "0600000001000500",
        ];
        assert_eq!(hex(Machine::X86_64), expected.concat());
    }
}
