//! Which dynamic loader a program of this machine's own kind needs, by the headers of its file.

use std::io;

/// Reads the whole of a buffer from an offset of a file.
type ReadAt<'a> = &'a dyn Fn(&mut [u8], u64) -> io::Result<()>;

/// The size of the file's header and of a program header, and where in them is what is needed here;
/// the same on all 64-bit machines.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const PROGRAM_HEADERS_AT: usize = 32;
const PROGRAM_HEADER_SIZE_AT: usize = 54;
const PROGRAM_HEADER_COUNT_AT: usize = 56;
const SEGMENT_OFFSET_AT: usize = 8;
const SEGMENT_SIZE_AT: usize = 32;
/// The kind of the segment that names the loader.
const PT_INTERP: u32 = 3;
/// Longer than any path.
const MAX_PATH: u64 = 4096;

/// The path of the dynamic loader; none where the program is linked statically.
///
/// # Errors
/// What reading says; `InvalidData` where it is no 64-bit ELF file.
pub(crate) fn interpreter(read: ReadAt<'_>) -> io::Result<Option<String>> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "not a 64-bit ELF program");
    let mut header = [0; HEADER];
    read(&mut header, 0)?;
    if header[..5] != *b"\x7fELF\x02" {
        return Err(invalid());
    }
    let start = word(&header, PROGRAM_HEADERS_AT);
    let size = half(&header, PROGRAM_HEADER_SIZE_AT);
    for index in 0..half(&header, PROGRAM_HEADER_COUNT_AT) {
        let mut segment = [0; PROGRAM_HEADER];
        let at = start.checked_add(u64::from(index) * u64::from(size)).ok_or_else(invalid)?;
        read(&mut segment, at)?;
        if u32::from_ne_bytes([segment[0], segment[1], segment[2], segment[3]]) != PT_INTERP {
            continue;
        }
        let length = word(&segment, SEGMENT_SIZE_AT);
        let length = usize::try_from(length.min(MAX_PATH)).map_err(|_| invalid())?;
        let mut path = vec![0; length];
        read(&mut path, word(&segment, SEGMENT_OFFSET_AT))?;
        let end = path.iter().position(|byte| *byte == 0).ok_or_else(invalid)?;
        path.truncate(end);
        return String::from_utf8(path).map(Some).map_err(|_| invalid());
    }
    Ok(None)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with these segments, each a kind and what it holds, at its end.
    fn program(segments: &[(u32, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER + segments.len() * PROGRAM_HEADER];
        bytes[..5].copy_from_slice(b"\x7fELF\x02");
        bytes[PROGRAM_HEADERS_AT..][..8].copy_from_slice(&(HEADER as u64).to_ne_bytes());
        bytes[PROGRAM_HEADER_SIZE_AT..][..2]
            .copy_from_slice(&u16::try_from(PROGRAM_HEADER).unwrap().to_ne_bytes());
        bytes[PROGRAM_HEADER_COUNT_AT..][..2]
            .copy_from_slice(&u16::try_from(segments.len()).unwrap().to_ne_bytes());
        for (index, (kind, held)) in segments.iter().enumerate() {
            let (at, end) = (HEADER + index * PROGRAM_HEADER, bytes.len() as u64);
            bytes[at..][..4].copy_from_slice(&kind.to_ne_bytes());
            bytes[at + SEGMENT_OFFSET_AT..][..8].copy_from_slice(&end.to_ne_bytes());
            bytes[at + SEGMENT_SIZE_AT..][..8].copy_from_slice(&(held.len() as u64).to_ne_bytes());
            bytes.extend(*held);
        }
        bytes
    }

    fn of(bytes: &[u8]) -> Result<Option<String>, io::ErrorKind> {
        let read = |buffer: &mut [u8], at: u64| {
            let at = usize::try_from(at).unwrap();
            let found = bytes.get(at..at.saturating_add(buffer.len()));
            buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        };
        interpreter(&read).map_err(|error| error.kind())
    }

    #[test]
    fn finds_the_loader() {
        let loader = b"/lib64/ld.so\0".as_slice();
        assert_eq!(
            of(&program(&[(6, b"x"), (PT_INTERP, loader), (1, b"y")])),
            Ok(Some("/lib64/ld.so".to_owned()))
        );
        assert_eq!(of(&program(&[(6, b"x"), (1, b"y")])), Ok(None));
        assert_eq!(of(&program(&[])), Ok(None));
    }

    #[test]
    fn refuses_what_is_no_program() {
        use io::ErrorKind::{InvalidData, UnexpectedEof};
        let whole = program(&[(PT_INTERP, b"/lib64/ld.so\0")]);
        assert_eq!(of(b"#!/bin/sh\n"), Err(UnexpectedEof));
        assert_eq!(of(&[b'x'; 100]), Err(InvalidData));
        assert_eq!(of(&whole[..whole.len() - 1]), Err(UnexpectedEof));
        assert_eq!(of(&program(&[(PT_INTERP, b"/lib64/ld.so")])), Err(InvalidData));
        assert_eq!(of(&program(&[(PT_INTERP, b"\xff\0")])), Err(InvalidData));
    }
}
