//! SHA-256 digests (FIPS 180-4), the only kind of name that content has.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// How many leading hex digits of a package digest its `revision` shows.
pub const REVISION_HEX: usize = 12;

/// A SHA-256 digest, written `sha256:` and 64 lower-case hex digits.
///
/// Nothing else in the project parses or prints hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// Why a text is not a [`Digest`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DigestError {
    /// The text does not begin with `sha256:`.
    #[error("`{0}` does not begin with `sha256:`")]
    Algorithm(String),
    /// What follows is not 64 lower-case hex digits.
    #[error("`{0}` does not have 64 lower-case hex digits")]
    Hex(String),
}

impl Digest {
    /// The text before the hex digits.
    pub const PREFIX: &'static str = "sha256:";

    /// Hashes `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The 64 hex digits alone, as directory names in a store have them.
    #[must_use]
    pub fn hex(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.0
            .iter()
            .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
            .map(char::from)
            .collect()
    }

    /// The first 12 hex digits: how a package digest is shown as a `revision`.
    #[must_use]
    pub fn revision(&self) -> String {
        self.hex()[..REVISION_HEX].to_owned()
    }

    /// Reads 64 lower-case hex digits, as [`hex`](Self::hex) gives them.
    ///
    /// # Errors
    /// [`DigestError::Hex`] when there are not exactly 64 of them.
    pub fn from_hex(hex: &str) -> Result<Self, DigestError> {
        let fail = || DigestError::Hex(hex.to_owned());
        let digits = hex.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 64 {
            return Err(fail());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_value(pair[0]).ok_or_else(fail)? << 4 | hex_value(pair[1]).ok_or_else(fail)?;
        }
        Ok(Self(bytes))
    }
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hex = text.strip_prefix(Self::PREFIX).ok_or_else(|| DigestError::Algorithm(text.to_owned()))?;
        Self::from_hex(hex).map_err(|_| DigestError::Hex(text.to_owned()))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Hashes bytes as they pass by and counts them.
#[derive(Clone, Default)]
pub struct Hasher {
    state: Sha256,
    bytes: u64,
}

impl Hasher {
    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// The number of bytes taken in.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The digest of all bytes taken in.
    #[must_use]
    pub fn finish(self) -> Digest {
        Digest(self.state.finalize().into())
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-4's own example, and the digest of nothing.
    #[test]
    fn known_answers() {
        for (input, hex) in [
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ] {
            let digest = Digest::of(input.as_bytes());
            assert_eq!(digest.to_string(), format!("sha256:{hex}"));
            assert_eq!(digest.revision(), &hex[..12]);
            assert_eq!(format!("sha256:{hex}").parse(), Ok(digest));
            assert_eq!(serde_json::to_string(&digest).unwrap(), format!("\"sha256:{hex}\""));
        }
    }

    #[test]
    fn refuses_what_is_not_a_digest() {
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for text in [hex.to_owned(), format!("sha512:{hex}"), format!("SHA256:{hex}"), String::new()] {
            assert_eq!(text.parse::<Digest>(), Err(DigestError::Algorithm(text.clone())));
        }
        for hex in [&hex[1..], &hex.to_uppercase(), &format!("{hex}0"), &format!(" {}", &hex[1..]), "é"] {
            let text = format!("sha256:{hex}");
            assert_eq!(text.parse::<Digest>(), Err(DigestError::Hex(text.clone())));
        }
    }

    #[test]
    fn hashes_in_pieces() {
        let mut hasher = Hasher::default();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.bytes(), 3);
        assert_eq!(hasher.finish(), Digest::of(b"abc"));
    }
}
