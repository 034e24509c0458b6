//! Canonical JSON (RFC 8785): the one way in which a value is written.

use serde::Serialize;

/// Writes a value as canonical JSON, without a trailing newline.
///
/// # Panics
/// Never for the project's own types: their maps have text keys and their numbers are integers of
/// at most 53 bits, which is all that the encoder can refuse.
pub fn to_canonical_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).expect("the project's types have a canonical form")
}
