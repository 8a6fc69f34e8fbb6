//! Who must have signed an image, and whether they did.
//!
//! Signatures are those of cosign, in both forms that it keeps beside an image in its repository: simple signing, under
//! a tag that is made of the image's digest, and bundles of Sigstore, which refer to the image. The signature is over
//! the digest of the image's manifest, in which that of the component is.
//!
//! | file | contents |
//! |---|---|
//! | `find.rs` | what is kept beside an image |
//! | `simple_signing.rs` | the older form |
//! | `bundle.rs` | the newer form |
//! | `ring.rs` | what both are computed with |

mod bundle;
mod find;
mod ring;
mod simple_signing;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sigstore_verify::crypto::VerificationKey;
use sigstore_verify::trust_root::TrustedRoot;
use sigstore_verify::types::{Bundle, DerPublicKey};
use sigstore_verify::{VerificationPolicy, Verifier};

use crate::registry::connection::Connection;
use crate::registry::error::RegistryError;
use crate::registry::reference::ImageRef;
use crate::registry::signature::simple_signing::Signed;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::sanitize::clean;

/// So many signatures are named that are not accepted, and so many bytes of why.
const NAMED: usize = 3;
const WHY: usize = 300;

/// Somebody who may sign a plugin's images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Signer {
    /// The holder of the private key to this public one, in PEM, as `cosign generate-key-pair` writes it. Whether the
    /// signature is in a public log is not looked at.
    Key(String),
    /// A person or a workflow that proved who it is, and whose signature is in a log.
    Keyless(Keyless),
}

/// A person or a workflow, as an issuer of identities knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Keyless {
    /// Who proved the identity, such as `https://token.actions.githubusercontent.com`.
    pub issuer: String,
    /// The identity, such as `https://github.com/org/repo/.github/workflows/release.yml@refs/tags/v1` or an address of
    /// e-mail. It is compared as a whole.
    pub subject: String,
    /// The `trusted_root.json` of the Sigstore that is trusted: its authorities and logs. It is never fetched.
    pub trusted_root: String,
}

/// A signature as it was found.
enum Signature {
    Simple(Signed),
    Bundle(Box<Bundle>),
}

/// A signer, ready to be recognised.
enum Judge {
    Key(VerificationKey),
    Keyless { policy: Box<VerificationPolicy>, verifier: Box<Verifier> },
}

impl Signer {
    /// Checks that somebody can be recognised by this.
    ///
    /// # Errors
    /// If a key or a trusted root cannot be read.
    pub fn check(&self) -> Result<(), RegistryError> {
        Judge::of(self).map(drop).map_err(RegistryError::InvalidSigner)
    }
}

/// Checks that one of the signers signed the image with this digest, if there are any.
pub(super) async fn verify(
    connection: &Connection,
    image: &ImageRef,
    digest: Digest,
    signers: &[Signer],
) -> Result<(), RegistryError> {
    if signers.is_empty() {
        return Ok(());
    }
    let judges: Result<Vec<_>, _> = signers.iter().map(Judge::of).collect();
    let judges = judges.map_err(RegistryError::InvalidSigner)?;
    let found = find::signatures(connection, image, digest).await?;
    if found.is_empty() {
        return Err(RegistryError::SignatureMissing { image: image.to_string() });
    }
    let mut refusals = Vec::new();
    for signature in found {
        let answers = judges.iter().map(|judge| judge.accepts(signature.as_ref().map_err(String::clone)?, digest));
        for answer in answers {
            match answer {
                Ok(()) => return Ok(()),
                Err(why) => refusals.push(why),
            }
        }
    }
    Err(RegistryError::SignatureInvalid { image: image.to_string(), why: named(refusals) })
}

fn named(mut refusals: Vec<String>) -> String {
    refusals.dedup();
    let more = refusals.len().saturating_sub(NAMED);
    refusals.truncate(NAMED);
    let words: Vec<_> = refusals.into_iter().map(|why| clean(why, WHY)).collect();
    match more {
        0 => words.join("; "),
        more => format!("{}; and {more} more", words.join("; ")),
    }
}

impl Judge {
    fn of(signer: &Signer) -> Result<Self, String> {
        ring::install();
        match signer {
            Signer::Key(pem) => {
                let why = |error: String| format!("the public key is not one in PEM of ECDSA, Ed25519 or RSA: {error}");
                let key = DerPublicKey::from_pem(pem).map_err(|error| why(error.to_string()))?;
                VerificationKey::from_spki(&key).map(Self::Key).map_err(|error| why(error.to_string()))
            }
            Signer::Keyless(Keyless { issuer, subject, trusted_root }) => {
                if issuer.is_empty() || subject.is_empty() {
                    return Err("a keyless signer needs both an issuer and a subject".to_owned());
                }
                let why = |error: String| {
                    format!("the trusted root cannot be used: {error}; it is the trusted_root.json of a Sigstore")
                };
                let root = TrustedRoot::from_json(trusted_root).map_err(|error| why(error.to_string()))?;
                let verifier = Verifier::new(&root).map_err(|error| why(error.to_string()))?;
                let policy = VerificationPolicy::new(subject, issuer);
                // A Sigstore of one's own often has no log of certificates; that of everybody has.
                let policy = if root.ctlogs.is_empty() { policy.skip_sct() } else { policy };
                Ok(Self::Keyless { policy: Box::new(policy), verifier: Box::new(verifier) })
            }
        }
    }

    /// Returns why this signature does not say that this signer signed the image with this digest.
    fn accepts(&self, signature: &Signature, digest: Digest) -> Result<(), String> {
        match (self, signature) {
            (Self::Key(key), Signature::Simple(signed)) => signed.is_by_key(key).and_then(|()| signed.names(digest)),
            (Self::Keyless { policy, verifier }, Signature::Simple(signed)) => {
                signed.is_by_holder(policy, verifier).and_then(|()| signed.names(digest))
            }
            (Self::Key(key), Signature::Bundle(bundle)) => bundle::is_by_key(bundle, key, digest),
            (Self::Keyless { policy, verifier }, Signature::Bundle(bundle)) => {
                bundle::is_by_holder(bundle, policy, verifier, digest)
            }
        }
    }
}

#[cfg(test)]
mod tests;
