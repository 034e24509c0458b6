//! Reading one file of a snapshot, checked against the manifest, where the others are not asked for.

use std::os::fd::AsFd;

use crate::check::{CheckOptions, read_manifest_bytes};
use crate::check_package::Part;
use crate::digest::Digest;
use crate::fault::{Fault, FaultCode};
use crate::listing::FileEntry;
use crate::snapshot::{MANIFEST_FILE, Manifest, PackageEntry};

/// Reads the manifest of the snapshot in `dir`, which must have the digest `named`.
///
/// # Errors
/// All that is wrong with the manifest; nothing else of the snapshot is looked at.
pub fn read_manifest(
    dir: impl AsFd,
    named: Digest,
    options: &CheckOptions<'_>,
) -> Result<Manifest, Vec<Fault>> {
    let mut faults = Vec::new();
    let read = read_manifest_bytes(dir.as_fd(), options, &mut faults).and_then(|bytes| {
        let actual = Digest::of(&bytes);
        if actual != named {
            let fault = Fault::new(FaultCode::ManifestDigest, MANIFEST_FILE);
            return Err(fault.expected(named).actual(actual));
        }
        Manifest::parse(&bytes)
            .map_err(|error| Fault::new(FaultCode::ManifestInvalid, MANIFEST_FILE).actual(error))
    });
    or_faults(read, faults)
}

/// Reads a file of a package of the snapshot in `dir`, through no link: the bytes are those that were
/// hashed.
///
/// # Errors
/// All that is wrong with the file and the package's directory; no byte of it is given then.
pub fn read_file(
    dir: impl AsFd,
    package: &PackageEntry,
    file: &FileEntry,
    options: &CheckOptions<'_>,
) -> Result<Vec<u8>, Vec<Fault>> {
    let mut part = Part::new(dir.as_fd(), package, options);
    let read = part.read(file);
    or_faults(read, part.faults)
}

fn or_faults<T>(read: Result<T, Fault>, mut faults: Vec<Fault>) -> Result<T, Vec<Fault>> {
    match read {
        Ok(read) if faults.is_empty() => Ok(read),
        Ok(_) => Err(faults),
        Err(fault) => {
            faults.push(fault);
            faults.sort();
            Err(faults)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::listing::Listing;
    use crate::progress::Silent;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "makes and damages the snapshot that is read")]
    fn gives_the_bytes_that_were_hashed_or_none() {
        let content = b"#!/bin/sh\n".to_vec();
        let file = |path: &str, bytes: &[u8]| FileEntry {
            path: path.parse().unwrap(),
            executable: false,
            size: bytes.len() as u64,
            digest: Digest::of(bytes),
        };
        let listing = Listing::new(vec![file("SKILL.md", b""), file("a/go", &content)]).unwrap();
        let manifest =
            Manifest::new(vec![PackageEntry::new("demo".parse().unwrap(), None, listing)]).unwrap();
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path();
        std::fs::create_dir_all(path.join("demo/a")).unwrap();
        std::fs::write(path.join("demo/a/go"), &content).unwrap();
        std::fs::write(path.join(MANIFEST_FILE), manifest.to_bytes()).unwrap();
        let dir = File::open(path).unwrap();
        let portable = CheckOptions::new(&Silent).portable(true);
        let named = manifest.digest();
        let codes = |faults: Vec<Fault>| {
            faults.iter().map(|fault| format!("{} {}", fault.code, fault.path)).collect::<Vec<_>>()
        };

        let read = read_manifest(&dir, named, &portable).unwrap();
        assert_eq!(read, manifest);
        let package = &manifest.packages()[0];
        let [skill, go] = package.listing().files() else { unreachable!() };
        assert_eq!(read_file(&dir, package, go, &portable).unwrap(), content);
        // The one that is asked for counts, and no other.
        assert_eq!(codes(read_file(&dir, package, skill, &portable).unwrap_err()), ["missing demo/SKILL.md"]);
        let owners = portable.owners(&[u32::MAX]);
        let faults = read_file(&dir, package, go, &owners).unwrap_err();
        assert_eq!(codes(faults), ["wrong-owner demo", "wrong-owner demo/a/go"]);
        let other = Digest::of(b"other");
        assert_eq!(
            codes(read_manifest(&dir, other, &portable).unwrap_err()),
            ["manifest-digest .snapshot.json"]
        );

        std::fs::write(path.join("demo/a/go"), b"#!/bin/SH\n").unwrap();
        assert_eq!(codes(read_file(&dir, package, go, &portable).unwrap_err()), ["wrong-hash demo/a/go"]);
        std::fs::remove_file(path.join("demo/a/go")).unwrap();
        std::os::unix::fs::symlink("../../other", path.join("demo/a/go")).unwrap();
        assert_eq!(codes(read_file(&dir, package, go, &portable).unwrap_err()), ["wrong-type demo/a/go"]);
        std::fs::write(path.join(MANIFEST_FILE), "{}").unwrap();
        let faults = read_manifest(&dir, Digest::of(b"{}"), &portable).unwrap_err();
        assert_eq!(codes(faults), ["manifest-invalid .snapshot.json"]);
    }
}
