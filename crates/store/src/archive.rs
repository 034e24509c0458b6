//! Package archives: one deterministic `.tar.zst` a package.
//!
//! The compressed bytes are vouched for by the journal, which has their digest; they are no contract,
//! for another encoder gives others. What they decompress to is: see the tar stream.

use std::fs::File;
use std::io::{self, Read, Write};

use cap_std::fs::Dir;
use skillfreeze_manifest::{Digest, Hasher, open_file};

use crate::error::failed;
use crate::package::PackageError;

/// Where archives live.
pub(crate) const PACKAGES: &str = "packages/sha256";
/// The compression level: what a higher one saves on text is not worth its time.
const LEVEL: i32 = 3;
/// Files are read in pieces of this size.
pub(crate) const BUFFER_BYTES: usize = 128 << 10;

/// The archive's path relative to the store.
pub(crate) fn archive_path(package: &Digest) -> String {
    format!("{PACKAGES}/{}", archive_name(package))
}

/// The archive's name in its directory.
pub(crate) fn archive_name(package: &Digest) -> String {
    format!("{}.tar.zst", package.hex())
}

/// Hashes what passes through.
pub(crate) struct Hashing<T> {
    inner: T,
    pub(crate) hasher: Hasher,
}

impl<T> Hashing<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, hasher: Hasher::default() }
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}

/// Compresses a tar stream and gives the digest of the compressed bytes.
pub(crate) fn compress(tar: &mut dyn Read, to: &mut File) -> io::Result<Digest> {
    let mut encoder = zstd::Encoder::new(Hashing::new(to), LEVEL)?;
    io::copy(tar, &mut encoder)?;
    let hashing = encoder.finish()?;
    Ok(hashing.hasher.finish())
}

/// Opens a package's archive.
pub(crate) fn open(root: &Dir, path: &str) -> Result<File, PackageError> {
    match open_file(root, path) {
        Ok(file) => Ok(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(PackageError::Missing { path: path.to_owned() })
        }
        Err(error) => Err(failed("open", path)(error).into()),
    }
}

/// Checks an archive's own digest.
pub(crate) fn check(root: &Dir, package: &Digest, expected: Digest) -> Result<(), PackageError> {
    let path = archive_path(package);
    let mut hashing = Hashing::new(open(root, &path)?);
    let mut buffer = vec![0; BUFFER_BYTES];
    while read_some(&mut hashing, &mut buffer).map_err(failed("read", path.as_str()))? > 0 {}
    let actual = hashing.hasher.finish();
    if actual != expected {
        return Err(PackageError::Digest { path, expected, actual });
    }
    Ok(())
}

/// Reads once, again after an interruption.
pub(crate) fn read_some(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
