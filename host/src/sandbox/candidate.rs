//! The content of a followed file or of a request: a component or a `plugin.yaml`, of which only the digest is trusted
//! yet.

use std::fmt;
use std::sync::Arc;

use hotshoe_core::model::digest::Digest;

/// Bytes and their digest; cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Candidate {
    digest: Digest,
    bytes: Arc<Vec<u8>>,
}

impl Candidate {
    /// Hashes the bytes, which takes a millisecond for every one or two megabytes. Do not hash large ones on the thread
    /// that reconciles.
    pub fn of(bytes: Vec<u8>) -> Self {
        Self { digest: Digest::of(&bytes), bytes: Arc::new(bytes) }
    }

    /// Returns the digest of the bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Candidate({}, {} bytes)", self.digest, self.bytes.len())
    }
}
