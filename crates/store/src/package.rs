//! Packages read out of their archives, every byte checked.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};

use cap_std::fs::Dir;
use skillfreeze_manifest::{Digest, FileEntry, Hasher, Listing, ListingError, PackagePath, PathError};

use crate::archive::{BUFFER_BYTES, Hashing, archive_path, check, open, read_some};
use crate::error::{IoFault, failed};
use crate::tarball::{END, header_blocks, padding};

/// The largest window that a reader grants, as a power of two: four times what the writer uses.
const MAX_WINDOW_LOG: u32 = 23;

/// Why a package cannot be read from its archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// The system refused something.
    #[error(transparent)]
    Io(#[from] IoFault),
    /// The archive is not there.
    #[error("the archive `{path}` is missing")]
    Missing {
        /// The path relative to the store.
        path: String,
    },
    /// The archive's bytes are not those that the journal vouches for.
    #[error("the archive `{path}` has digest {actual}, not {expected}")]
    Digest {
        /// The path relative to the store.
        path: String,
        /// What the journal says.
        expected: Digest,
        /// What is there.
        actual: Digest,
    },
    /// The archive does not decompress.
    #[error("the archive `{path}` does not decompress")]
    Damaged {
        /// The path relative to the store.
        path: String,
        /// What the decoder says.
        #[source]
        source: io::Error,
    },
    /// An entry is not the one that the listing has in its place.
    #[error("the archive `{path}` does not have `{file}` as the listing says")]
    Entry {
        /// The path relative to the store.
        path: String,
        /// The file in question.
        file: PackagePath,
    },
    /// A file's bytes have another digest than the listing says.
    #[error("`{file}` in the archive `{path}` has digest {actual}, not {expected}")]
    File {
        /// The path relative to the store.
        path: String,
        /// The file.
        file: PackagePath,
        /// What the listing says.
        expected: Digest,
        /// What is there.
        actual: Digest,
    },
    /// Something follows the last file.
    #[error("the archive `{path}` does not end after its last file")]
    End {
        /// The path relative to the store.
        path: String,
    },
    /// The archive holds something that no package holds.
    #[error("the archive `{path}` holds a bad path")]
    Path {
        /// The path relative to the store.
        path: String,
        /// What is wrong with it.
        #[source]
        source: PathError,
    },
    /// The files of the archive do not make a listing.
    #[error("the archive `{path}` holds no package")]
    Listing {
        /// The path relative to the store.
        path: String,
        /// What is wrong with them.
        #[source]
        source: ListingError,
    },
    /// The files of the archive make another package.
    #[error("the archive `{path}` holds the package {actual}")]
    OtherPackage {
        /// The path relative to the store.
        path: String,
        /// The digest of the package that it holds.
        actual: Digest,
    },
    /// Whoever takes the files failed.
    #[error("cannot take `{file}` from the archive")]
    Taken {
        /// The file.
        file: PackagePath,
        /// What it said.
        #[source]
        source: io::Error,
    },
}

impl PackageError {
    /// The stable code of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io(fault) => fault.code(),
            Self::Missing { .. } => "archive-missing",
            Self::Digest { .. } => "archive-digest",
            Self::Damaged { .. }
            | Self::Entry { .. }
            | Self::File { .. }
            | Self::End { .. }
            | Self::Path { .. }
            | Self::Listing { .. }
            | Self::OtherPackage { .. } => "archive-damaged",
            Self::Taken { source, .. } => failed::<io::Error>("take", String::new())(io_copy(source)).code(),
        }
    }
}

/// The same error as far as its code goes.
fn io_copy(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

type Stream = zstd::Decoder<'static, BufReader<Hashing<File>>>;

fn decoder(file: File, path: &str) -> Result<Stream, PackageError> {
    let damaged = |source| PackageError::Damaged { path: path.to_owned(), source };
    let buffered = BufReader::with_capacity(BUFFER_BYTES, Hashing::new(file));
    let mut decoder = zstd::Decoder::with_buffer(buffered).map_err(damaged)?.single_frame();
    decoder.window_log_max(MAX_WINDOW_LOG).map_err(damaged)?;
    Ok(decoder)
}

/// Reads what is left and compares the archive's digest with the journal's.
fn finish(stream: Stream, path: &str, expected: Digest) -> Result<(), PackageError> {
    let mut raw = stream.finish();
    loop {
        let length = raw.fill_buf().map_err(failed("read", path))?.len();
        if length == 0 {
            break;
        }
        raw.consume(length);
    }
    let actual = raw.into_inner().hasher.finish();
    if actual != expected {
        return Err(PackageError::Digest { path: path.to_owned(), expected, actual });
    }
    Ok(())
}

/// Makes a package's listing from its archive, whose own digest is checked before it is parsed.
pub(crate) fn read_listing(root: &Dir, package: &Digest, archive: Digest) -> Result<Listing, PackageError> {
    check(root, package, archive)?;
    let path = archive_path(package);
    let damaged = |source| PackageError::Damaged { path: path.clone(), source };
    let mut stream = tar::Archive::new(decoder(open(root, &path)?, &path)?);
    let mut files = Vec::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    for entry in stream.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = PackagePath::try_from(name)
            .map_err(|source| PackageError::Path { path: path.clone(), source })?;
        let executable = entry.header().mode().map_err(damaged)? & 0o111 != 0;
        let mut hasher = Hasher::default();
        loop {
            match read_some(&mut entry, &mut buffer).map_err(damaged)? {
                0 => break,
                read => hasher.update(&buffer[..read]),
            }
        }
        files.push(FileEntry { path: name, executable, size: hasher.bytes(), digest: hasher.finish() });
    }
    let listing =
        Listing::new(files).map_err(|source| PackageError::Listing { path: path.clone(), source })?;
    let actual = listing.digest();
    if actual != *package {
        return Err(PackageError::OtherPackage { path, actual });
    }
    Ok(listing)
}

/// Reads a package's files out of its archive, once, and checks every byte while it does.
#[derive(Debug)]
pub struct PackageReader {
    file: File,
    path: String,
    listing: Listing,
    archive: Digest,
}

impl PackageReader {
    /// Opens the archive of the package that `listing` lists.
    pub(crate) fn open(root: &Dir, listing: Listing, archive: Digest) -> Result<Self, PackageError> {
        let path = archive_path(&listing.digest());
        Ok(Self { file: open(root, &path)?, path, listing, archive })
    }

    /// The package's files.
    #[must_use]
    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    /// Gives each file's bytes to `each`, in the listing's order.
    ///
    /// What `each` does not read is read and hashed all the same. What it got is right only once
    /// this returns `Ok`: the digest of a file is known after its last byte, that of the archive
    /// after the last file.
    ///
    /// # Errors
    /// [`PackageError`] where the archive is not the one that the journal vouches for, or does not
    /// hold exactly what the listing says; [`PackageError::Taken`] where `each` fails.
    pub fn read_files(
        self,
        mut each: impl FnMut(&FileEntry, &mut dyn Read) -> io::Result<()>,
    ) -> Result<(), PackageError> {
        let Self { file, path, listing, archive } = self;
        let mut stream = decoder(file, &path)?;
        for entry in listing.files() {
            read_file(&mut stream, &path, entry, &mut each)?;
        }
        let mut end = [0; END.len()];
        let damaged = |source| PackageError::Damaged { path: path.clone(), source };
        stream.read_exact(&mut end).map_err(damaged)?;
        if end != END || read_some(&mut stream, &mut [0]).map_err(damaged)? != 0 {
            return Err(PackageError::End { path });
        }
        finish(stream, &path, archive)
    }
}

fn read_file(
    stream: &mut Stream,
    path: &str,
    entry: &FileEntry,
    each: &mut dyn FnMut(&FileEntry, &mut dyn Read) -> io::Result<()>,
) -> Result<(), PackageError> {
    let damaged = |source| PackageError::Damaged { path: path.to_owned(), source };
    let other = || PackageError::Entry { path: path.to_owned(), file: entry.path.clone() };
    let expected = header_blocks(&entry.path, entry.executable, entry.size);
    let mut found = vec![0; expected.len()];
    stream.read_exact(&mut found).map_err(damaged)?;
    if found != expected {
        return Err(other());
    }
    let mut content = Content { stream, left: entry.size, hasher: Hasher::default(), fault: None };
    let taken = each(entry, &mut content);
    let mut buffer = vec![0; BUFFER_BYTES.min(usize::try_from(content.left).unwrap_or(BUFFER_BYTES))];
    if taken.is_ok() {
        while content.left > 0 && content.fault.is_none() {
            // A failure is kept in `fault`.
            let _ = read_some(&mut content, &mut buffer);
        }
    }
    let Content { hasher, fault, .. } = content;
    if let Some(source) = fault {
        return Err(damaged(source));
    }
    taken.map_err(|source| PackageError::Taken { file: entry.path.clone(), source })?;
    let actual = hasher.finish();
    if actual != entry.digest {
        let (path, file) = (path.to_owned(), entry.path.clone());
        return Err(PackageError::File { path, file, expected: entry.digest, actual });
    }
    let mut rest = vec![0; padding(entry.size)];
    stream.read_exact(&mut rest).map_err(damaged)?;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(other());
    }
    Ok(())
}

/// The bytes of one file of an archive.
struct Content<'a> {
    stream: &'a mut Stream,
    left: u64,
    hasher: Hasher,
    /// What the stream said, so that it is not taken for the taker's own failure.
    fault: Option<io::Error>,
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let error = match self.stream.read(&mut buffer[..most]) {
            Ok(0) => io::Error::from(io::ErrorKind::UnexpectedEof),
            Ok(read) => {
                self.left -= read as u64;
                self.hasher.update(&buffer[..read]);
                return Ok(read);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => error,
        };
        let seen = io_copy(&error);
        self.fault = Some(error);
        Err(seen)
    }
}
