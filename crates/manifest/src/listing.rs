//! The listing of a package: what its digest is the digest of.

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, DigestError};
use crate::path::{PackagePath, PathError, PathSet};

/// The file that makes a directory a package.
pub const SKILL_FILE: &str = "SKILL.md";
/// The first line of a listing; its version changes whenever the lines after it do.
const HEADER: &str = "skillfreeze package v1";
/// RFC 8785 writes numbers as IEEE 754 doubles, which hold integers up to this; no sum is larger.
pub(crate) const MAX_SIZE: u64 = (1 << 53) - 1;

/// One file of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Where it is, relative to the package.
    pub path: PackagePath,
    /// Whether any execute bit was set at its source.
    pub executable: bool,
    /// Bytes of content, below 2⁵³.
    pub size: u64,
    /// The digest of the content.
    pub digest: Digest,
}

/// All files of a package in the order of their paths' bytes, `SKILL.md` among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Listing(Vec<FileEntry>);

/// Why files do not make a [`Listing`], or a text is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListingError {
    /// There is no `SKILL.md`.
    #[error("there is no `{SKILL_FILE}`")]
    NoSkillFile,
    /// A path is not allowed, or clashes with another.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A size has more than 53 bits.
    #[error("the size {size} of `{path}` is above 2^53 - 1")]
    Size {
        /// The file.
        path: PackagePath,
        /// Its size.
        size: u64,
    },
    /// The files together have more bytes than 53 bits can count.
    #[error("the files together have more than 2^53 - 1 bytes")]
    TotalSize,
    /// The first line is not the header of a listing that this version knows.
    #[error("the listing does not begin with the line `{HEADER}`")]
    Header,
    /// A line is not `<mode> <size> <sha256-hex> <path>`.
    #[error("line {number} of the listing is malformed")]
    Line {
        /// The line, counted from 1.
        number: usize,
    },
    /// A line's digest is malformed.
    #[error("line {number} of the listing has no digest")]
    LineDigest {
        /// The line, counted from 1.
        number: usize,
        /// What is wrong with it.
        source: DigestError,
    },
    /// The lines are not in the order of their paths' bytes.
    #[error("line {number} of the listing is out of order")]
    Order {
        /// The line, counted from 1.
        number: usize,
    },
}

impl Listing {
    /// Sorts the files of a package and checks that they can be one.
    ///
    /// # Errors
    /// [`ListingError`] when `SKILL.md` is absent, two paths clash, or a size or the sum
    /// of all is out of range.
    pub fn new(mut files: Vec<FileEntry>) -> Result<Self, ListingError> {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut paths = PathSet::default();
        let mut has_skill_file = false;
        let mut bytes = 0;
        for file in &files {
            paths.insert(&file.path)?;
            has_skill_file |= file.path.as_str() == SKILL_FILE;
            if file.size > MAX_SIZE {
                return Err(ListingError::Size { path: file.path.clone(), size: file.size });
            }
            // Neither is above 2⁵³, so that the sum does not overflow.
            bytes += file.size;
            if bytes > MAX_SIZE {
                return Err(ListingError::TotalSize);
            }
        }
        if !has_skill_file {
            return Err(ListingError::NoSkillFile);
        }
        Ok(Self(files))
    }

    /// The files in the order of their paths' bytes.
    #[must_use]
    pub fn files(&self) -> &[FileEntry] {
        &self.0
    }

    /// The bytes of all files together, below 2⁵³.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|file| file.size).sum()
    }

    /// The text whose SHA-256 is the package digest.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for file in &self.0 {
            let mode = if file.executable { "100755" } else { "100644" };
            text.push_str(&format!("{mode} {} {} {}\n", file.size, file.digest.hex(), file.path));
        }
        text
    }

    /// The package digest.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.to_text().as_bytes())
    }

    /// Reads exactly what [`to_text`](Self::to_text) writes.
    ///
    /// # Errors
    /// [`ListingError`] for any other text.
    pub fn parse(text: &str) -> Result<Self, ListingError> {
        let lines =
            text.strip_prefix(HEADER).and_then(|rest| rest.strip_prefix('\n')).ok_or(ListingError::Header)?;
        let mut files: Vec<FileEntry> = Vec::new();
        for (index, line) in lines.split_inclusive('\n').enumerate() {
            let number = index + 2;
            let file = parse_line(line, number)?;
            if files.last().is_some_and(|last| last.path >= file.path) {
                return Err(ListingError::Order { number });
            }
            files.push(file);
        }
        Self::new(files)
    }
}

fn parse_line(line: &str, number: usize) -> Result<FileEntry, ListingError> {
    let malformed = ListingError::Line { number };
    let Some(line) = line.strip_suffix('\n') else { return Err(malformed) };
    let mut fields = line.splitn(4, ' ');
    let (Some(mode), Some(size), Some(hex), Some(path)) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(malformed);
    };
    let executable = match mode {
        "100755" => true,
        "100644" => false,
        _ => return Err(malformed),
    };
    let Ok(bytes) = size.parse::<u64>() else { return Err(malformed) };
    // `parse` also takes a sign and leading zeros.
    if bytes.to_string() != size {
        return Err(malformed);
    }
    let digest = Digest::from_hex(hex).map_err(|source| ListingError::LineDigest { number, source })?;
    Ok(FileEntry { path: path.parse()?, executable, size: bytes, digest })
}

impl<'de> Deserialize<'de> for Listing {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let files = Vec::<FileEntry>::deserialize(deserializer)?;
        if !files.is_sorted_by(|a, b| a.path < b.path) {
            return Err(serde::de::Error::custom("files are not in the order of their paths' bytes"));
        }
        Self::new(files).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, content: &str, executable: bool) -> FileEntry {
        FileEntry {
            path: path.parse().unwrap(),
            executable,
            size: content.len() as u64,
            digest: Digest::of(content.as_bytes()),
        }
    }

    fn sample() -> Listing {
        let files = vec![
            file("a/b", "", false),
            file("SKILL.md", "abc", false),
            file("ab", "", true),
            file("a-b", "", false),
        ];
        Listing::new(files).unwrap()
    }

    /// Committed bytes: `printf '…' | sha256sum` gives the same digest.
    #[test]
    fn golden() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let text = format!(
            "skillfreeze package v1\n100644 3 {abc} SKILL.md\n100644 0 {empty} a-b\n100644 0 {empty} a/b\n100755 0 {empty} ab\n"
        );
        assert_eq!(sample().to_text(), text);
        assert_eq!(
            sample().digest().to_string(),
            "sha256:9c097d098550051bc57a874f23534bf0d25a3d2574afe9e2065a741d3e1dbdeb"
        );
        assert_eq!(Listing::parse(&text), Ok(sample()));
    }

    #[test]
    fn every_byte_counts() {
        let text = sample().to_text();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            // Another text is another listing or none; it is never read as this one.
            if let Ok(listing) = Listing::parse(&changed) {
                assert_ne!(listing.digest(), sample().digest());
                assert_eq!(listing.to_text(), changed);
            }
        }
    }

    #[test]
    fn names_each_fault() {
        assert_eq!(Listing::new(vec![file("a", "", false)]), Err(ListingError::NoSkillFile));
        let twice = vec![file("SKILL.md", "", false), file("skill.MD", "", false)];
        assert!(matches!(Listing::new(twice), Err(ListingError::Path(PathError::Collision { .. }))));
        let mut huge = file("SKILL.md", "", false);
        huge.size = 1 << 53;
        assert!(matches!(Listing::new(vec![huge]), Err(ListingError::Size { .. })));
        let large = |path: &str, size| FileEntry { size, ..file(path, "", false) };
        let exact = Listing::new(vec![large("SKILL.md", 1), large("a", MAX_SIZE - 1)]).unwrap();
        assert_eq!(exact.bytes(), MAX_SIZE);
        let files = vec![large("SKILL.md", 2), large("a", MAX_SIZE - 1)];
        assert_eq!(Listing::new(files), Err(ListingError::TotalSize));

        let text = sample().to_text();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        assert_eq!(Listing::parse(""), Err(ListingError::Header));
        assert_eq!(Listing::parse(&text.replacen("v1", "v2", 1)), Err(ListingError::Header));
        assert_eq!(Listing::parse(lines[0]), Err(ListingError::NoSkillFile));
        let swapped = [lines[0], lines[2], lines[1]].concat();
        assert_eq!(Listing::parse(&swapped), Err(ListingError::Order { number: 3 }));
        let twice = [lines[0], lines[1], lines[1]].concat();
        assert_eq!(Listing::parse(&twice), Err(ListingError::Order { number: 3 }));
        for (from, to) in [
            ("100644 3", "100600 3"),
            ("100644 3", "100644 03"),
            ("100644 3", "100644 +3"),
            (" 3 ", "  3 "),
            ("SKILL.md\n", "SKILL.md"),
        ] {
            let changed = [lines[0], &lines[1].replacen(from, to, 1)].concat();
            assert_eq!(Listing::parse(&changed), Err(ListingError::Line { number: 2 }), "{from:?} {to:?}");
        }
        let changed = text.replacen("ba78", "BA78", 1);
        assert!(matches!(Listing::parse(&changed), Err(ListingError::LineDigest { number: 2, .. })));
        assert!(matches!(Listing::parse(&text.replace("a/b", "a/../b")), Err(ListingError::Path(_))));
    }
}
