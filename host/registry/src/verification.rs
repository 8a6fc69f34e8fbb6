//! Verifies signatures in a child process that has no network and no file.
//!
//! The process that pulls reads what a registry answers, and may be taken over by it. It searches for a signature that is
//! accepted, but its word for that does not count: the host hands the signature itself, with the manifest, to this other
//! process, which only computes, and which no registry has spoken to.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::error::RegistryError;
use crate::pull::{self, Pulled};
use crate::reference::ImageRef;
use crate::signature::{Accepted, Evidence, Verify};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::{PULL_MEMORY, VERIFY_TIME};
use hotshoe_platform::child::{self, Children, SMALL_ARENA};
use hotshoe_platform::confinement::confine;

/// The hidden command of the child.
pub const VERB: &str = "verify-image";
/// The maximum length of the child's answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 16 * 1024;

/// What the child is asked: whether this is a signature of this image, which has this component.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    /// The image, by its digest.
    image: ImageRef,
    component: Digest,
    manifest: String,
    verify: Verify,
    evidence: Evidence,
}

impl Question {
    /// Returns the number of the signer.
    fn answer(self) -> Result<usize, RegistryError> {
        pull::check(&self.image, self.manifest.as_bytes(), self.component)?;
        self.verify.accept(&self.image, self.evidence).map(|accepted| accepted.signer)
    }
}

/// Verifies that a component that was pulled is signed by one of these signers, in a child process.
///
/// # Errors
/// If it is not, or the child fails.
pub(super) async fn verify(
    children: &Children,
    image: &ImageRef,
    pulled: &Pulled,
    verify: &Verify,
    evidence: Evidence,
) -> Result<Accepted, RegistryError> {
    let image = image.pinned(pulled.digest);
    let failed = |why: String| RegistryError::ProcessFailed { image: image.to_string(), why };
    let question = Question {
        image: image.clone(),
        component: pulled.component.digest(),
        manifest: String::from_utf8(pulled.manifest.clone())
            .map_err(|_| failed("its manifest is no text".to_owned()))?,
        verify: verify.clone(),
        evidence: evidence.clone(),
    };
    let question = serde_json::to_vec(&question).map_err(|error| failed(error.to_string()))?;
    let broken = |error: io::Error| failed(format!("{}: {error}", children.program().display()));
    let mut command = children.command(VERB);
    command.env(SMALL_ARENA.0, SMALL_ARENA.1);
    let child = children.start(command).map_err(broken)?;
    let talk = child.answer(&question, MAX_ANSWER_BYTES);
    let late = |_| failed(format!("its signature was not verified within {}s", VERIFY_TIME.as_secs()));
    let ended = tokio::time::timeout(VERIFY_TIME, talk).await.map_err(late)?.map_err(broken)?;
    match ended.status.code() {
        Some(0) => {}
        Some(_) => return Err(failed(ended.errors)),
        None => return Err(failed(format!("the process that verifies its signature was stopped ({})", ended.status))),
    }
    let answer: Result<usize, RegistryError> = serde_json::from_slice(&ended.said.map_err(broken)?)
        .map_err(|_| failed("the process that verifies its signature gave no answer".to_owned()))?;
    answer.map(|signer| Accepted { evidence, signer })
}

/// Runs in the child: sets limits for its process, confines it, and only then reads a question, and answers it.
///
/// # Errors
/// If the question cannot be read, or the answer cannot be written.
pub fn serve(mut input: impl Read, mut output: impl Write) -> anyhow::Result<()> {
    child::limit(PULL_MEMORY.0, Some(VERIFY_TIME.as_secs()))?;
    child::report(&confine());
    let mut question = Vec::new();
    input.read_to_end(&mut question)?;
    let question: Question = serde_json::from_slice(&question)?;
    serde_json::to_writer(&mut output, &question.answer())?;
    output.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rcgen::KeyPair;

    use super::*;
    use crate::hostile;
    use crate::signature::tests::bundle_by_key;

    #[test]
    fn only_the_image_that_was_signed_and_the_component_in_its_manifest_are_accepted() {
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let (manifest, component) = hostile::component();
        let (digest, manifest) = (Digest::of(&manifest), String::from_utf8(manifest).unwrap());
        let image: ImageRef = "oci://a.b/c:1".parse().unwrap();
        let ask = |signed: Digest, by: &KeyPair, manifest: &str, component: &[u8]| {
            let question = Question {
                image: image.pinned(digest),
                component: Digest::of(component),
                manifest: manifest.to_owned(),
                verify: Verify { keys: vec![other.public_key_pem(), key.public_key_pem()], ..Verify::default() },
                evidence: Evidence::Bundle(bundle_by_key(by, signed)),
            };
            // As it comes over the pipe.
            let question: Question = serde_json::from_slice(&serde_json::to_vec(&question).unwrap()).unwrap();
            question.answer().map_err(|error| error.reason())
        };
        assert_eq!(ask(digest, &key, &manifest, &component), Ok(1), "the number of the signer");
        let stranger = KeyPair::generate().unwrap();
        assert_eq!(ask(digest, &stranger, &manifest, &component), Err("SignatureInvalid"));
        assert_eq!(ask(Digest::of(b"other"), &key, &manifest, &component), Err("SignatureInvalid"));
        assert_eq!(ask(digest, &key, &format!("{manifest} "), &component), Err("WrongDigest"));
        assert_eq!(ask(digest, &key, &manifest, b"other"), Err("WrongDigest"));
    }
}
