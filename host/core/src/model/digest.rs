//! The digest that identifies a component: the SHA-256 of its bytes. Names and annotations that need a short hash have
//! the first digits of one.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use digest_io::IoWrapper;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of some bytes, mostly a component's. Displayed as its first 12 digits, which are enough for users to compare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the digest of the JSON of a value. The JSON is not held in memory as a whole.
    pub fn of_json(value: &impl Serialize) -> Self {
        let mut hash = IoWrapper(Sha256::new());
        // Writing into a hash cannot fail; a value that is no JSON has the digest of what could be written.
        drop(serde_json::to_writer(&mut hash, value));
        Self(hash.0.finalize().into())
    }

    /// Returns the digest of this digest and more bytes.
    pub fn and(&self, bytes: &[u8]) -> Self {
        Self(Sha256::new().chain_update(self.0).chain_update(bytes).finalize().into())
    }

    /// Returns the remainder of its last four bytes, read as one number, divided by `divisor`. The remainders of
    /// different digests are spread evenly enough for choosing a share.
    pub fn remainder(&self, divisor: u32) -> u32 {
        let [.., a, b, c, d] = self.0;
        u32::from_be_bytes([a, b, c, d]) % divisor.max(1)
    }

    /// Returns all 64 hexadecimal digits.
    pub fn full(&self) -> String {
        self.digits(64)
    }

    /// Returns the first hexadecimal digits, `count` of them, which is even and at most 64.
    pub fn digits(&self, count: usize) -> String {
        self.0.iter().take(count / 2).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Digest {
    /// Returns the first eight bytes in base64: the form of the fingerprint that the API server states for the version of
    /// a kind in which objects are stored.
    pub fn fingerprint(&self) -> String {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        STANDARD.encode([a, b, c, d, e, f, g, h])
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.digits(12))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.full())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for Digest {
    type Err = &'static str;

    /// Parses all 64 digits, with or without `sha256:` before them.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = "a digest has 64 hexadecimal digits";
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        if digits.len() != 64 {
            return Err(error);
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| error)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| error)?;
        }
        Ok(Self(digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_shown_short_and_read_whole() {
        let digest = Digest::of(b"");
        assert_eq!(digest.to_string(), "e3b0c44298fc");
        assert_eq!(format!("{digest:?}"), digest.full());
        assert_eq!(digest.full().parse(), Ok(digest));
        assert_eq!(format!("sha256:{}", digest.full()).parse(), Ok(digest));
        assert!("e3b0".parse::<Digest>().is_err());
        assert!("+".repeat(64).parse::<Digest>().is_err());
        assert_eq!([digest.digits(0), digest.digits(8), digest.digits(64)], ["", "e3b0c442", &digest.full()]);
        assert_ne!(digest.and(b"a"), digest.and(b"b"));
    }

    #[test]
    fn the_digest_of_a_value_is_that_of_its_json() {
        let value = serde_json::json!({ "a": [1, "b"] });
        assert_eq!(Digest::of_json(&value), Digest::of(value.to_string().as_bytes()));
    }
}
