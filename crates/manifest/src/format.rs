//! The formats, byte for byte: documentation only.
//!
//! These bytes are a contract. Auditors recompute them with other tools and other machines must
//! get the same, so they change only with a new version tag. A test holds each of them.
//!
//! # Digest
//!
//! `sha256:` and 64 lower-case hex digits: SHA-256 as FIPS 180-4 defines it. The first twelve hex
//! digits of a package digest are shown as its *revision*.
//!
//! # Package path
//!
//! Relative, `/`-separated, UTF-8, in normalisation form C. Refused, never rewritten:
//!
//! * an empty component, `.` and `..`;
//! * any of `\ : * ? " < > |`, a C0 or C1 control, DEL, a bidirectional control (U+061C, U+200E,
//!   U+200F, U+202A to U+202E, U+2066 to U+2069);
//! * a component that ends in a dot or a space, or whose part before the first dot is `con`, `prn`,
//!   `aux`, `nul`, `com1` to `com9` or `lpt1` to `lpt9` in any case (the superscripts ¹ ² ³ count as
//!   digits);
//! * a component of more than 255 bytes, a path of more than 512.
//!
//! Two paths of a package, and two directories of them, differ after normalisation and full case
//! folding by Unicode 16.0.0. A path is never both a file and a directory.
//!
//! # What belongs to a package
//!
//! Every regular file below its directory, except this closed list, which is reported (of each kind
//! the first places, then how many more there are): `.git` (file or directory, any depth),
//! `.DS_Store`, `._*`, `__MACOSX/`, `Thumbs.db`, `desktop.ini`. Ignore files in a package have no
//! effect. Python bytecode (`__pycache__/`, `*.pyc`, `*.pyo`) is refused, or left out and reported on
//! request.
//!
//! A link to a regular file of the same package is stored as that file's bytes and reported; any
//! other link is refused, and so are FIFOs, sockets and devices. Hard links are read by content.
//! Empty directories, times, owners and extended attributes are not content.
//!
//! [`Limits`](crate::Limits) has the limits.
//!
//! # Listing and package digest
//!
//! ```text
//! skillfreeze package v1\n
//! <mode> <size> <sha256-hex> <path>\n
//! …
//! ```
//!
//! One line a file, in the order of the whole path's bytes (`a-b`, `a/b`, `ab`). `<mode>` is
//! `100755` when any execute bit is set at the source, else `100644`; `<size>` is decimal. The
//! **package digest** is the SHA-256 of that text. A package has a `SKILL.md`.
//!
//! # Skill id and version
//!
//! An id matches `^[a-z0-9]+([-_][a-z0-9]+)*$`, has 1 to 64 bytes and is no device name; ids are
//! compared byte for byte. A version is 1 to 64 printable ASCII bytes, as its author wrote it.
//!
//! # `.snapshot.json`
//!
//! Canonical JSON (RFC 8785) without a trailing newline; for one package with one file these very
//! bytes, in one line, with the digests in full:
//!
//! ```text
//! {"packages":[{"digest":"sha256:…","files":[{"digest":"sha256:…","executable":false,"path":"SKILL.md","size":812}],"id":"pdf-tools","revision":"3f2a9c1b7d2e","version":"1.2.0"}],"schema":"skillfreeze.snapshot.v1"}
//! ```
//!
//! `packages` are in the order of their ids' bytes, `files` in the order of their paths' bytes.
//! `version` may be absent, nothing else. A file's `digest` and `size` have the form that the MCP
//! Skills extension (SEP-2640) gives them. There is no clock, host, user, absolute path or local
//! number in it, so the same packages give the same bytes everywhere.
//!
//! **The snapshot digest is the SHA-256 of this file's bytes**: `sha256sum .snapshot.json` is an
//! audit. Anything else is no manifest: an unknown field, another order, white space, a duplicate
//! key or id, a package digest that its own files do not give. An empty selection is a valid
//! snapshot.
//!
//! # Snapshot directory
//!
//! `<root>/snapshots/sha256/<hex>/` holds `.snapshot.json` (mode 0444) and `<id>/…`: files 0444,
//! executable ones 0555, directories 0555, itself too. Times and owners are unspecified. Any other
//! entry, of any type, at any depth, is a fault.
//!
//! # Faults of a check
//!
//! `missing`, `unexpected`, `wrong-type`, `wrong-size`, `wrong-hash`, `wrong-mode`, `wrong-owner`,
//! `unreadable`, `manifest-digest`, `manifest-invalid`, each with its path and, where there are
//! such, what was expected and what is there. A *portable* check ignores modes beyond the execute
//! bit. Owners, numeric ids, are looked at only where a caller says whose they may be, as a launch
//! does.
