//! The beginning of a component's digest, by which an administrator names the component.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::digest::Digest;

/// A SHA-256 digest in hexadecimal, or its beginning, with or without `sha256:`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct DigestPrefix(#[schemars(regex(pattern = r"^(sha256:)?[0-9a-fA-F]{8,64}$"))] String);

impl DigestPrefix {
    /// Returns whether a digest begins with this prefix.
    pub fn is_of(&self, digest: Digest) -> bool {
        digest.full().starts_with(&self.hex())
    }

    /// Returns whether another prefix has the same digits, in whatever form.
    pub fn is_same(&self, other: &Self) -> bool {
        self.hex() == other.hex()
    }

    /// Returns the hexadecimal digits alone, in lower case.
    pub fn hex(&self) -> String {
        self.0.strip_prefix("sha256:").unwrap_or(&self.0).to_ascii_lowercase()
    }

    /// Returns whether the prefix may stand in an object: it is long enough that no two digests have it by chance.
    pub fn is_lasting(&self) -> bool {
        self.has_digits(8)
    }

    /// Returns whether the prefix is hexadecimal, and has at least so many digits.
    fn has_digits(&self, least: usize) -> bool {
        let hex = self.hex();
        (least..=64).contains(&hex.len()) && hex.bytes().all(|digit| digit.is_ascii_hexdigit())
    }
}

impl From<Digest> for DigestPrefix {
    fn from(digest: Digest) -> Self {
        Self(digest.full())
    }
}

impl FromStr for DigestPrefix {
    type Err = &'static str;

    /// Parses 1 to 64 digits. Who names a component by them is answered if they are of several.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let prefix = Self(text.to_owned());
        let error = "a digest, or its beginning, has 1 to 64 hexadecimal digits; the command `history` lists them";
        if prefix.has_digits(1) { Ok(prefix) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_digest_has_hexadecimal_digits_and_nothing_else() {
        for good in ["3f", "3F2A91C0", "sha256:3f2a91c0", &"0".repeat(64)] {
            let prefix: DigestPrefix = good.parse().unwrap();
            assert_eq!(prefix.is_lasting(), good.len() >= 8, "{good}");
        }
        for bad in ["", "sha256:", "zz", "3f2a&x=1", "latest", &"0".repeat(65)] {
            assert!(bad.parse::<DigestPrefix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_digest_is_found_by_its_beginning_in_either_case() {
        let digest = Digest::of(b"");
        let is_of = |text: &str| text.parse::<DigestPrefix>().unwrap().is_of(digest);
        assert!(["e3b0c442", "E3B0C442", "sha256:e3b0", &digest.full()].into_iter().all(is_of) && !is_of("b0c4"));
        assert!(DigestPrefix::from(digest).is_of(digest));
    }
}
