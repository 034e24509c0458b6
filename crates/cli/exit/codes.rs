//! The exit status of each code.

/// Failed for a reason of this machine.
const MACHINE: u8 = 1;
/// Wrong usage.
pub(crate) const USAGE: u8 = 2;
/// Something does not match its digest.
pub(crate) const INTEGRITY: u8 = 3;
/// Not found.
const NOT_FOUND: u8 = 4;
/// A name, an ambiguous selection, an expected number.
const CONFLICT: u8 = 5;
/// An invalid package, manifest or archive.
const INVALID: u8 = 6;
/// No sandbox, or not the integrity asked for, to be had here.
pub(crate) const UNAVAILABLE: u8 = 7;
/// A launch failed.
pub(crate) const LAUNCH: u8 = 125;

/// The exit statuses of codes, `run` apart; a code that is not here is of an invalid package, manifest
/// or archive.
const STATUSES: [(u8, &[&str]); 6] = [
    (
        MACHINE,
        &[
            "io",
            "no-space",
            "permission",
            "root-failed",
            "read-only",
            "unreadable",
            "root-unreadable",
            "snapshot-owner",
            "store-owner",
            "store-writable-by-others",
            "record-not-written",
        ],
    ),
    (
        USAGE,
        &[
            "usage",
            "reference",
            "source-twice",
            "root-not-a-directory",
            "not-a-directory",
            "not-a-store",
            "approval-unsupported",
            "no-command",
            "environment-name",
            "user-root",
            "user-not-permitted",
            "snapshot-unreachable",
            "store-shown",
            "landlock-elsewhere",
            "landlock-read-only",
            "landlock-source-exposed",
            "record-writable",
            "record-in-store",
            "stream-directory",
            "alias-unknown",
            "path-component",
            "path-escape",
            "plan-path",
        ],
    ),
    (
        INTEGRITY,
        &[
            "integrity",
            "journal-corrupt",
            "archive-damaged",
            "archive-digest",
            "archive-missing",
            "package-damaged",
            "snapshot-unstable",
        ],
    ),
    (
        NOT_FOUND,
        &[
            "not-found",
            "nothing-selected",
            "root-absent",
            "collection-unknown",
            "selection-disabled",
            "selection-missing",
            "package-missing",
            "package-unknown",
            "run-unknown",
            "selection-inactive",
            "selection-unknown",
            "snapshot-unknown",
        ],
    ),
    (
        CONFLICT,
        &[
            "catalog-stale",
            "id-changed",
            "id-conflict",
            "numbers-used-up",
            "reserved-name",
            "selection-ambiguous",
            "selection-conflict",
            "source-changed",
        ],
    ),
    (
        UNAVAILABLE,
        &[
            "descriptor-limit",
            "integrity-unavailable",
            "landlock-missing",
            "landlock-too-old",
            "process-limit",
            "sandbox-cannot",
            "sandbox-unavailable",
            "too-many-mounts",
        ],
    ),
];

/// Beginnings of codes that all have one status.
const PREFIXES: [(&str, u8); 8] = [
    ("bind-", USAGE),
    ("mount-target-", USAGE),
    ("bwrap-", UNAVAILABLE),
    ("in-place-", UNAVAILABLE),
    ("rootfs-", USAGE),
    ("seal-", UNAVAILABLE),
    ("terminal-", USAGE),
    ("userns-", UNAVAILABLE),
];

/// The exit status of a code, `run` apart.
pub(super) fn status_of(code: &str) -> u8 {
    let named = STATUSES.iter().find(|(_, codes)| codes.contains(&code)).map(|(status, _)| *status);
    let prefixed = || PREFIXES.iter().find(|(prefix, _)| code.starts_with(prefix)).map(|(_, status)| *status);
    named.or_else(prefixed).unwrap_or(INVALID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_one_status() {
        for (code, status) in [
            ("no-space", 1),
            ("usage", 2),
            ("bind-store", 2),
            ("journal-corrupt", 3),
            ("selection-unknown", 4),
            ("selection-ambiguous", 5),
            ("symlink-escape", 6),
            ("manifest-invalid", 6),
            ("integrity-unavailable", 7),
            ("bwrap-missing", 7),
            ("seal-memory", 7),
            ("seal-unavailable", 7),
            ("seal-too-many-files", 7),
            ("descriptor-limit", 7),
        ] {
            assert_eq!(status_of(code), status, "{code}");
        }
        let mut codes: Vec<&str> = STATUSES.iter().flat_map(|(_, codes)| codes.iter().copied()).collect();
        let count = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), count, "a code stands twice");
        assert!(codes.iter().all(|code| PREFIXES.iter().all(|(prefix, _)| !code.starts_with(prefix))));
    }
}
