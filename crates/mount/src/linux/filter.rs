//! System-call filters: programs that the kernel runs before each system call of a process.
//!
//! A filter lets pass what no rule is about, for new programs need new calls; what it refuses, it
//! refuses whatever the rest of the sandbox does. It reads the lower halves of arguments only: the calls
//! that it looks into take them as 32-bit numbers.

#![expect(clippy::cast_possible_truncation, reason = "the kernel's constants fit where it takes them")]

use std::mem::offset_of;

use nix::libc;
use skillfreeze_sys::Instruction;

/// The architecture of this machine: `AUDIT_ARCH_X86_64`, `AUDIT_ARCH_AARCH64`, `AUDIT_ARCH_RISCV64`.
#[cfg(target_arch = "x86_64")]
const NATIVE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const NATIVE: Option<u32> = Some(0xc000_00b7);
#[cfg(target_arch = "riscv64")]
const NATIVE: Option<u32> = Some(0xc000_00f3);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const NATIVE: Option<u32> = None;

/// `__X32_SYSCALL_BIT`: from here up x86-64 numbers the same calls again, for programs with short pointers.
const X32: u32 = 0x4000_0000;

// Parts of what a filter looks at, by their offsets.
const NUMBER: u32 = offset_of!(libc::seccomp_data, nr) as u32;
const ARCHITECTURE: u32 = offset_of!(libc::seccomp_data, arch) as u32;
const ARGUMENTS: u32 = offset_of!(libc::seccomp_data, args) as u32;

// Instructions: what they do with the accumulator.
const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JUMP_IF_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const FAIL: u32 = libc::SECCOMP_RET_ERRNO;
pub(crate) const EPERM: u16 = libc::EPERM as u16;
pub(crate) const ENOSYS: u16 = libc::ENOSYS as u16;

/// What a filter has against a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The number of the call.
    pub(crate) call: u32,
    /// When it is refused.
    pub(crate) when: When,
    /// What the caller is told then.
    pub(crate) errno: u16,
}

/// When a system call is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// An argument, by its place from 0, has one of these bits.
    AnyBit {
        argument: u32,
        bits: u32,
    },
    /// An argument is one of these values.
    OneOf {
        argument: u32,
        values: Vec<u32>,
    },
    /// What these bits of an argument hold is none of these values.
    NoneOf {
        argument: u32,
        bits: u32,
        values: Vec<u32>,
    },
}

/// Whether filters can be made for this machine.
pub(crate) fn is_known_here() -> bool {
    NATIVE.is_some()
}

/// The program for these rules; none on machines that it is not known for.
///
/// Calls of another architecture than the machine's own are refused, for their numbers mean others.
pub(crate) fn program(rules: &[Rule]) -> Option<Vec<Instruction>> {
    let mut program =
        vec![step(LOAD, ARCHITECTURE), jump(JUMP_IF_EQUAL, NATIVE?, 1, 0), fail(EPERM), step(LOAD, NUMBER)];
    if cfg!(target_arch = "x86_64") {
        program.extend([jump(JUMP_IF_AT_LEAST, X32, 0, 1), fail(EPERM)]);
    }
    for rule in rules {
        let body = match &rule.when {
            When::Always => vec![fail(rule.errno)],
            When::AnyBit { argument, bits } => {
                vec![load(*argument), jump(JUMP_IF_BIT, *bits, 0, 1), fail(rule.errno), step(RETURN, ALLOW)]
            }
            When::OneOf { argument, values } => {
                let mut body = vec![load(*argument)];
                for value in values {
                    body.extend([jump(JUMP_IF_EQUAL, *value, 0, 1), fail(rule.errno)]);
                }
                body.push(step(RETURN, ALLOW));
                body
            }
            When::NoneOf { argument, bits, values } => {
                let mut body = vec![load(*argument), step(AND, *bits)];
                for value in values {
                    body.extend([jump(JUMP_IF_EQUAL, *value, 0, 1), step(RETURN, ALLOW)]);
                }
                body.push(fail(rule.errno));
                body
            }
        };
        let length = u8::try_from(body.len()).ok()?;
        program.push(jump(JUMP_IF_EQUAL, rule.call, 0, length));
        program.extend(body);
    }
    program.push(step(RETURN, ALLOW));
    Some(program)
}

fn step(code: u16, k: u32) -> Instruction {
    jump(code, k, 0, 0)
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code, jt, jf, k }
}

fn load(argument: u32) -> Instruction {
    let lower = if cfg!(target_endian = "big") { 4 } else { 0 };
    step(LOAD, ARGUMENTS + 8 * argument + lower)
}

fn fail(errno: u16) -> Instruction {
    step(RETURN, FAIL | u32::from(errno))
}

/// What the kernel would answer to a system call: nothing if it let it pass.
#[cfg(test)]
pub(crate) fn answer(
    program: &[Instruction],
    architecture: u32,
    call: u32,
    arguments: [u64; 6],
) -> Option<u16> {
    let (mut at, mut accumulator) = (0, 0_u32);
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        let mut branch = |holds: bool| at += usize::from(if holds { jt } else { jf });
        match code {
            LOAD if k == NUMBER => accumulator = call,
            LOAD if k == ARCHITECTURE => accumulator = architecture,
            LOAD => {
                let bytes = arguments[(k - ARGUMENTS) as usize / 8].to_ne_bytes();
                let at = (k - ARGUMENTS) as usize % 8;
                accumulator = u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
            }
            AND => accumulator &= k,
            JUMP_IF_EQUAL => branch(accumulator == k),
            JUMP_IF_AT_LEAST => branch(accumulator >= k),
            JUMP_IF_BIT => branch(accumulator & k != 0),
            RETURN if k == ALLOW => return None,
            RETURN => return u16::try_from(k & libc::SECCOMP_RET_DATA).ok(),
            code => panic!("the kernel knows more instructions, this test does not: {code}"),
        }
    }
}

#[cfg(test)]
pub(crate) fn native() -> u32 {
    NATIVE.expect("tests run where filters are known")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_rule_refuses_what_it_is_about_and_nothing_else() {
        let rules = [
            Rule { call: 7, when: When::Always, errno: ENOSYS },
            Rule { call: 8, when: When::AnyBit { argument: 1, bits: 0b110 }, errno: EPERM },
            Rule { call: 9, when: When::NoneOf { argument: 5, bits: 0xf, values: vec![1, 5] }, errno: EPERM },
        ];
        let program = program(&rules).unwrap();
        let answer = |call, arguments| answer(&program, native(), call, arguments);
        let first = |value| [0, value, 0, 0, 0, 0];
        let last = |value| [0, 0, 0, 0, 0, value];
        assert_eq!((answer(6, [0; 6]), answer(7, [0; 6])), (None, Some(ENOSYS)));
        for (value, refused) in [(0, false), (1, false), (2, true), (4, true), (7, true), (1 << 33, false)] {
            assert_eq!(answer(8, first(value)).is_some(), refused, "{value}");
        }
        // What the kernel cuts off does not make a number another one.
        for (value, refused) in
            [(0, true), (1, false), (5, false), (0x801, false), (2, true), (1 << 32 | 1, false)]
        {
            assert_eq!(answer(9, last(value)).is_some(), refused, "{value}");
        }
    }

    #[test]
    fn another_architecture_is_refused_as_a_whole() {
        let program = program(&[]).unwrap();
        assert_eq!(answer(&program, native(), 0, [0; 6]), None);
        assert_eq!(answer(&program, 0x4000_0003, 0, [0; 6]), Some(EPERM), "32-bit x86");
        let is_refused = answer(&program, native(), X32, [0; 6]).is_some();
        assert_eq!(is_refused, cfg!(target_arch = "x86_64"));
    }
}
