//! The tar stream in an archive.
//!
//! It is ustar: the files of the listing in its order, regular files only, mode 0644 or 0755, times
//! and owners 0, no owner names, two zero blocks at the end. A path that ustar cannot hold (not
//! ASCII, or too long to split) comes in a pax header before its file. The stream follows from the
//! listing and the files' bytes alone, so a reader that has the listing needs no parser: it compares
//! each header with the one that must stand there.

use std::io::{self, Write};

use skillfreeze_manifest::PackagePath;
use tar::{EntryType, Header};

/// The size of a tar block.
const BLOCK: u64 = 512;
/// The zero blocks that end a stream; also where padding is taken from.
pub(crate) const END: [u8; 1024] = [0; 1024];
/// The most bytes of a file: what the 11 octal digits of a ustar header can say.
pub(crate) const MAX_FILE_BYTES: u64 = (1 << 33) - 1;

/// The blocks that stand before a file's content.
pub(crate) fn header_blocks(path: &PackagePath, executable: bool, size: u64) -> Vec<u8> {
    let mode = if executable { 0o755 } else { 0o644 };
    let text = path.as_str();
    let mut header = Header::new_ustar();
    if text.is_ascii() && set_path(&mut header, text) {
        finish_header(&mut header, EntryType::Regular, mode, size);
        return header.as_bytes().to_vec();
    }
    let record = pax_record("path", text);
    let size_of_record = record.len() as u64;
    let mut pax = Header::new_ustar();
    // A reader that knows no pax headers gets this name, which is no file's of a real package.
    set_path(&mut pax, "././@PaxHeader");
    finish_header(&mut pax, EntryType::XHeader, 0o644, size_of_record);
    let mut blocks = pax.as_bytes().to_vec();
    blocks.extend_from_slice(record.as_bytes());
    blocks.resize(blocks.len() + padding(size_of_record), 0);
    let mut header = Header::new_ustar();
    set_path(&mut header, "././@LongName");
    finish_header(&mut header, EntryType::Regular, mode, size);
    blocks.extend_from_slice(header.as_bytes());
    blocks
}

/// Writes a path into the name and prefix fields; `false` when it does not split to fit.
fn set_path(header: &mut Header, path: &str) -> bool {
    let Some(fields) = header.as_ustar_mut() else { return false };
    let at = if path.len() <= fields.name.len() {
        None
    } else {
        // The longest prefix that fits, so that there is one way only.
        let room = fields.prefix.len().min(path.len() - 1);
        match path.as_bytes()[..=room].iter().rposition(|byte| *byte == b'/') {
            Some(at) if path.len() - at - 1 <= fields.name.len() => Some(at),
            _ => return false,
        }
    };
    let (prefix, name) = at.map_or(("", path), |at| (&path[..at], &path[at + 1..]));
    fields.prefix[..prefix.len()].copy_from_slice(prefix.as_bytes());
    fields.name[..name.len()].copy_from_slice(name.as_bytes());
    true
}

fn finish_header(header: &mut Header, kind: EntryType, mode: u32, size: u64) {
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header.set_cksum();
}

/// A pax record, `<length> <key>=<value>\n`, whose length counts its own digits.
fn pax_record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let mut length = rest.len();
    while length != rest.len() + length.to_string().len() {
        length = rest.len() + length.to_string().len();
    }
    format!("{length}{rest}")
}

/// The zero bytes between a file's content and the next header.
pub(crate) fn padding(size: u64) -> usize {
    let over = size % BLOCK;
    usize::try_from((BLOCK - over) % BLOCK).expect("less than a block")
}

/// Writes a package's tar stream.
pub(crate) struct TarWriter<W>(W);

impl<W: Write> TarWriter<W> {
    pub(crate) fn new(to: W) -> Self {
        Self(to)
    }

    /// Begins a file; exactly `size` bytes of content and then [`end_file`](Self::end_file) must
    /// follow.
    pub(crate) fn begin_file(&mut self, path: &PackagePath, executable: bool, size: u64) -> io::Result<()> {
        self.0.write_all(&header_blocks(path, executable, size))
    }

    pub(crate) fn content(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    pub(crate) fn end_file(&mut self, size: u64) -> io::Result<()> {
        self.0.write_all(&END[..padding(size)])
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.0.write_all(&END)?;
        Ok(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_their_own_digits() {
        assert_eq!(pax_record("path", "é"), "11 path=é\n");
        // One more byte than 99 needs a third digit, which is a byte too.
        for (value, length) in [(88, 97), (90, 99), (91, 101), (92, 102)] {
            let record = pax_record("path", &"x".repeat(value));
            assert_eq!(record.len(), length);
            assert!(record.starts_with(&format!("{length} path=")), "{record}");
        }
    }

    #[test]
    fn paths_split_where_they_can() {
        let split = |path: &str| {
            let mut header = Header::new_ustar();
            set_path(&mut header, path).then(|| header.path_bytes().into_owned())
        };
        let long = |directory: usize, name: usize| format!("{}/{}", "d".repeat(directory), "n".repeat(name));
        for path in ["a", &"a".repeat(100), &long(155, 100), &long(1, 99), &format!("a/{}", long(100, 100))] {
            assert_eq!(split(path).as_deref(), Some(path.as_bytes()), "{path}");
        }
        for path in [&"a".repeat(101), &long(156, 1), &long(1, 101)] {
            assert_eq!(split(path), None, "{path}");
        }
    }

    #[test]
    fn padding_fills_blocks() {
        for (size, expected) in [(0, 0), (1, 511), (511, 1), (512, 0), (513, 511), (MAX_FILE_BYTES, 1)] {
            assert_eq!(padding(size), expected);
        }
    }
}
