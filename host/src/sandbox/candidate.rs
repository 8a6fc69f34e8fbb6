//! What a file held that is followed, or somebody sent: a component, perhaps, or a `plugin.yaml`. Nothing
//! is believed of it yet but its digest.

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
    /// Hashes them, which takes a millisecond for each megabyte or two: not for a thread that others
    /// wait for, unless they are few.
    pub fn of(bytes: Vec<u8>) -> Self {
        Self { digest: Digest::of(&bytes), bytes: Arc::new(bytes) }
    }

    /// Their digest.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Candidate({}, {} bytes)", self.digest, self.bytes.len())
    }
}
