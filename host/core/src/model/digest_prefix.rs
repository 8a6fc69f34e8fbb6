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

    /// Returns whether the prefix is hexadecimal, and long enough that no two digests have it by chance.
    pub fn is_valid(&self) -> bool {
        let hex = self.hex();
        (8..=64).contains(&hex.len()) && hex.bytes().all(|digit| digit.is_ascii_hexdigit())
    }
}

impl FromStr for DigestPrefix {
    type Err = &'static str;

    /// Parses what [is valid](DigestPrefix::is_valid).
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let prefix = Self(text.to_owned());
        let error =
            "a digest, or its beginning, has 8 to 64 hexadecimal digits; `kubectl hotshoe status PLUGIN` lists them";
        if prefix.is_valid() { Ok(prefix) } else { Err(error) }
    }
}
