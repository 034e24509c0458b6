//! The snapshot manifest, `.snapshot.json`: every package, every file, every hash.

use serde::{Deserialize, Serialize};

use crate::canonical::to_canonical_bytes;
use crate::digest::Digest;
use crate::id::SkillId;
use crate::listing::{Listing, MAX_SIZE};
use crate::version::Version;

/// The manifest's name in a snapshot directory.
pub const MANIFEST_FILE: &str = ".snapshot.json";
/// The schema that a manifest names; another one is refused, never guessed at.
pub const SNAPSHOT_SCHEMA: &str = "skillfreeze.snapshot.v1";
/// The most bytes of a manifest that are read: 10,000 packages with 100,000 files need 18 MB.
pub const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// What a snapshot holds: packages in the order of their ids' bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Manifest {
    packages: Vec<PackageEntry>,
    schema: Schema,
}

/// One package of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageEntry {
    digest: Digest,
    files: Listing,
    id: SkillId,
    revision: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<Version>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Schema {
    #[serde(rename = "skillfreeze.snapshot.v1")]
    V1,
}

/// Why bytes are no manifest, or packages do not make one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Two packages have one id.
    #[error("the id `{id}` stands twice")]
    DuplicateId {
        /// The id.
        id: SkillId,
    },
    /// The packages together have more bytes than 53 bits can count.
    #[error("the packages together have more than 2^53 - 1 bytes")]
    TotalSize,
    /// The manifest is longer than [`MAX_MANIFEST_BYTES`].
    #[error("the manifest is longer than {MAX_MANIFEST_BYTES} bytes")]
    TooLong,
    /// The bytes are not JSON of the manifest's shape.
    #[error("line {line}, column {column}: {reason}")]
    Json {
        /// The line, counted from 1.
        line: usize,
        /// The column, counted from 1.
        column: usize,
        /// What was expected there.
        reason: String,
    },
    /// The manifest has a schema that this version does not know.
    #[error("the schema `{found}` is unknown; this version reads `{SNAPSHOT_SCHEMA}`")]
    Schema {
        /// The schema it names.
        found: String,
    },
    /// The packages are not in the order of their ids' bytes.
    #[error("package `{id}` is out of order")]
    Order {
        /// The package.
        id: SkillId,
    },
    /// A package's digest is not that of its files.
    #[error("package `{id}` names the digest {stated}, but its files give {actual}")]
    PackageDigest {
        /// The package.
        id: SkillId,
        /// What the manifest says.
        stated: Digest,
        /// What the files give.
        actual: Digest,
    },
    /// A package's revision is not the beginning of its digest.
    #[error("package `{id}` names the revision `{stated}`, but its digest begins with `{actual}`")]
    Revision {
        /// The package.
        id: SkillId,
        /// What the manifest says.
        stated: String,
        /// What the digest gives.
        actual: String,
    },
    /// The same values are written in another way: white space, order, escapes, a duplicate key.
    #[error("byte {offset} differs from the canonical form (RFC 8785)")]
    NotCanonical {
        /// The first byte that differs, counted from 0.
        offset: usize,
    },
}

impl PackageEntry {
    /// Describes one package of a snapshot.
    #[must_use]
    pub fn new(id: SkillId, version: Option<Version>, files: Listing) -> Self {
        let digest = files.digest();
        Self { digest, files, id, revision: digest.revision(), version }
    }

    /// The name under which it is mounted.
    #[must_use]
    pub fn id(&self) -> &SkillId {
        &self.id
    }

    /// The package digest.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The first twelve hex digits of the package digest.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The version that the author wrote, if any.
    #[must_use]
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// Its files.
    #[must_use]
    pub fn listing(&self) -> &Listing {
        &self.files
    }
}

impl Manifest {
    /// Describes a snapshot of packages; none is a valid snapshot.
    ///
    /// # Errors
    /// [`ManifestError::DuplicateId`] when two packages have one id, [`ManifestError::TotalSize`]
    /// when they have too many bytes together.
    pub fn new(mut packages: Vec<PackageEntry>) -> Result<Self, ManifestError> {
        packages.sort_by(|a, b| a.id.cmp(&b.id));
        if let Some(pair) = packages.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(ManifestError::DuplicateId { id: pair[0].id.clone() });
        }
        check_size(&packages)?;
        Ok(Self { packages, schema: Schema::V1 })
    }

    /// The packages in the order of their ids' bytes.
    #[must_use]
    pub fn packages(&self) -> &[PackageEntry] {
        &self.packages
    }

    /// The number of files in all packages.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.packages.iter().map(|package| package.files.files().len()).sum()
    }

    /// The bytes of all files in all packages, below 2⁵³.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.packages.iter().map(|package| package.files.bytes()).sum()
    }

    /// The very bytes of `.snapshot.json`.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        to_canonical_bytes(self)
    }

    /// The snapshot digest: that of [`to_bytes`](Self::to_bytes).
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_bytes())
    }

    /// Reads exactly what [`to_bytes`](Self::to_bytes) writes.
    ///
    /// # Errors
    /// [`ManifestError`] for any other bytes, also those that mean the same.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() as u64 > MAX_MANIFEST_BYTES {
            return Err(ManifestError::TooLong);
        }
        let raw: RawManifest = serde_json::from_slice(bytes).map_err(|error| json_error(bytes, &error))?;
        let stray = raw.packages.windows(2).find(|pair| pair[0].id >= pair[1].id);
        if let Some([first, second]) = stray {
            let id = second.id.clone();
            return Err(if first.id == id {
                ManifestError::DuplicateId { id }
            } else {
                ManifestError::Order { id }
            });
        }
        for package in &raw.packages {
            check_package(package)?;
        }
        check_size(&raw.packages)?;
        let manifest = Self { packages: raw.packages, schema: raw.schema };
        // The decoder takes any order, spacing and escape, and the last of two equal keys; only the
        // canonical bytes are a manifest.
        let canonical = manifest.to_bytes();
        if canonical != bytes {
            let offset = canonical.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            return Err(ManifestError::NotCanonical { offset });
        }
        Ok(manifest)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawManifest {
    packages: Vec<PackageEntry>,
    schema: Schema,
}

fn check_package(package: &PackageEntry) -> Result<(), ManifestError> {
    let id = package.id.clone();
    let actual = package.files.digest();
    if actual != package.digest {
        return Err(ManifestError::PackageDigest { id, stated: package.digest, actual });
    }
    if package.revision != actual.revision() {
        return Err(ManifestError::Revision {
            id,
            stated: package.revision.clone(),
            actual: actual.revision(),
        });
    }
    Ok(())
}

/// Refuses more bytes than can be written as one number.
fn check_size(packages: &[PackageEntry]) -> Result<(), ManifestError> {
    let mut bytes = 0;
    for package in packages {
        // Neither is above 2⁵³, so that the sum does not overflow.
        bytes += package.files.bytes();
        if bytes > MAX_SIZE {
            return Err(ManifestError::TotalSize);
        }
    }
    Ok(())
}

/// Names the schema where it is what stands in the way: a newer version may hold anything else.
fn json_error(bytes: &[u8], error: &serde_json::Error) -> ManifestError {
    #[derive(Deserialize)]
    struct Named {
        schema: String,
    }
    match serde_json::from_slice::<Named>(bytes) {
        Ok(Named { schema: found }) if found != SNAPSHOT_SCHEMA => ManifestError::Schema { found },
        _ => {
            let text = error.to_string();
            let position = format!(" at line {} column {}", error.line(), error.column());
            let reason = text.strip_suffix(&position).unwrap_or(&text).to_owned();
            ManifestError::Json { line: error.line(), column: error.column(), reason }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::FileEntry;

    fn package(id: &str, version: Option<&str>) -> PackageEntry {
        let body = format!("---\nname: {id}\ndescription: d\n---\n");
        let entry = |path: &str, content: &str, executable| FileEntry {
            path: path.parse().unwrap(),
            executable,
            size: content.len() as u64,
            digest: Digest::of(content.as_bytes()),
        };
        let listing =
            Listing::new(vec![entry("SKILL.md", &body, false), entry("scripts/x", "", true)]).unwrap();
        PackageEntry::new(id.parse().unwrap(), version.map(|version| version.parse().unwrap()), listing)
    }

    fn sample() -> Manifest {
        Manifest::new(vec![package("pdf-tools", Some("1.2.0")), package("a", None)]).unwrap()
    }

    #[test]
    fn golden() {
        let bytes = sample().to_bytes();
        assert_eq!(String::from_utf8(bytes.clone()).unwrap(), include_str!("../tests/golden.snapshot.json"));
        assert_eq!(Digest::of(&bytes), sample().digest());
        assert_eq!(Manifest::parse(&bytes).unwrap(), sample());
        let empty = Manifest::new(Vec::new()).unwrap();
        assert_eq!(empty.to_bytes(), br#"{"packages":[],"schema":"skillfreeze.snapshot.v1"}"#);
        assert_eq!(Manifest::parse(&empty.to_bytes()).unwrap(), empty);
    }

    /// Every way to write the same values otherwise, and every way to break them.
    #[test]
    fn refuses_everything_else() {
        let text = String::from_utf8(sample().to_bytes()).unwrap();
        let code = |text: &str| match Manifest::parse(text.as_bytes()) {
            Ok(_) => "ok",
            Err(ManifestError::DuplicateId { .. }) => "duplicate-id",
            Err(ManifestError::Json { .. }) => "json",
            Err(ManifestError::Schema { .. }) => "schema",
            Err(ManifestError::Order { .. }) => "order",
            Err(ManifestError::PackageDigest { .. }) => "digest",
            Err(ManifestError::Revision { .. }) => "revision",
            Err(ManifestError::NotCanonical { .. }) => "canonical",
            Err(error) => panic!("{error}"),
        };
        assert_eq!(code(&text), "ok");
        for (case, changed, expected) in [
            ("empty", String::new(), "json"),
            ("truncated", text[..text.len() - 1].to_owned(), "json"),
            ("trailing newline", format!("{text}\n"), "canonical"),
            ("trailing data", format!("{text}{{}}"), "json"),
            ("leading space", format!(" {text}"), "canonical"),
            ("byte order mark", format!("\u{feff}{text}"), "json"),
            ("space", text.replacen(':', ": ", 1), "canonical"),
            ("escape", text.replacen("SKILL", "\\u0053KILL", 1), "canonical"),
            ("null version", text.replacen("\"revision\"", "\"version\":null,\"revision\"", 1), "canonical"),
            ("exponent", text.replacen("\"size\":0", "\"size\":0e0", 1), "json"),
            ("minus zero", text.replacen("\"size\":0", "\"size\":-0", 1), "json"),
            ("negative", text.replacen("\"size\":0", "\"size\":-1", 1), "json"),
            ("unknown field", text.replacen("{\"packages\"", "{\"extra\":1,\"packages\"", 1), "json"),
            (
                "duplicate key",
                text.replacen("\"schema\"", "\"schema\":\"skillfreeze.snapshot.v1\",\"schema\"", 1),
                "json",
            ),
            ("newer", text.replacen("snapshot.v1", "snapshot.v2", 1), "schema"),
            ("other format", "{\"version\":999}".to_owned(), "json"),
            ("id", text.replacen("\"id\":\"a\"", "\"id\":\"../evil\"", 1), "json"),
            ("order of ids", text.replacen("\"id\":\"a\"", "\"id\":\"z\"", 1), "order"),
            ("same id", text.replacen("\"id\":\"a\"", "\"id\":\"pdf-tools\"", 1), "duplicate-id"),
            ("mode", text.replacen("\"executable\":true", "\"executable\":false", 1), "digest"),
            ("path", text.replacen("scripts/x", "scripts/y", 1), "digest"),
            ("revision", text.replacen("\"revision\":\"", "\"revision\":\"0", 1), "revision"),
            ("no SKILL.md", text.replacen("SKILL.md", "SKILL.me", 1), "json"),
            ("depth", format!("{}{}", "[".repeat(20_000), "]".repeat(20_000)), "json"),
        ] {
            assert_ne!(changed, text, "{case}");
            assert_eq!(code(&changed), expected, "{case}");
        }
    }

    #[test]
    fn refuses_more_bytes_than_a_number_holds() {
        let package = |id: &str, size| {
            let path = "SKILL.md".parse().unwrap();
            let file = FileEntry { path, executable: false, size, digest: Digest::of(b"") };
            PackageEntry::new(id.parse().unwrap(), None, Listing::new(vec![file]).unwrap())
        };
        let most = Manifest::new(vec![package("a", 1), package("b", MAX_SIZE - 1)]).unwrap();
        assert_eq!(most.bytes(), MAX_SIZE);
        assert_eq!(Manifest::parse(&most.to_bytes()).unwrap(), most);
        let packages = vec![package("a", MAX_SIZE), package("b", 1)];
        assert!(matches!(Manifest::new(packages.clone()), Err(ManifestError::TotalSize)));
        let bytes = to_canonical_bytes(&Manifest { packages, schema: Schema::V1 });
        assert!(matches!(Manifest::parse(&bytes), Err(ManifestError::TotalSize)));
    }

    #[test]
    fn says_where() {
        match Manifest::parse(b"{\"packages\":[],\n\"x\":1}") {
            Err(ManifestError::Json { line: 2, column: 3.., reason }) => {
                assert!(reason.contains("`x`"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
    }
}
