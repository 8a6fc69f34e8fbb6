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

/// Why bytes are no component.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no WebAssembly component: {0}; `hotshoe build` makes one of a plugin's folder")]
pub struct NotAComponent(pub String);

/// Checks that the bytes begin like a component. What follows is for the sandbox to validate.
///
/// # Errors
/// If they do not.
pub fn begins_like_a_component(bytes: &[u8]) -> Result<(), NotAComponent> {
    let error = match bytes {
        [] => "the file is empty",
        [0, b'a', b's', b'm', _, _, 1, 0, ..] => return Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => {
            "it is a core module; make a component of it with `hotshoe build --from FILE --out FILE`"
        }
        [0, b'a', b's', b'm', ..] => "it is cut off or of another WebAssembly version",
        [0x7f, b'E', b'L', b'F', ..] => "it is native code, of an ELF file",
        _ => "it does not begin like WebAssembly",
    };
    Err(NotAComponent(error.to_owned()))
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Candidate({}, {} bytes)", self.digest, self.bytes.len())
    }
}
