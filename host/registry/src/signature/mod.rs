//! Checks who signed an image.
//!
//! Signatures are those of cosign, in both forms that it stores beside an image in the same repository: simple signing,
//! under a tag that is made of the image's digest, and bundles of Sigstore, which refer to the image. The signature is
//! over the digest of the image's manifest, which contains the digest of the component.
//!
//! | file | contents |
//! |---|---|
//! | `find.rs` | finds the signatures beside an image |
//! | `simple_signing.rs` | the older form |
//! | `bundle.rs` | the newer form |
//! | `ring.rs` | the cryptography of both |

mod bundle;
mod find;
mod ring;
mod simple_signing;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sigstore_verify::crypto::VerificationKey;
use sigstore_verify::trust_root::TrustedRoot;
use sigstore_verify::types::{Bundle, DerPublicKey};
use sigstore_verify::{VerificationPolicy, Verifier};

use crate::error::RegistryError;
use crate::reference::ImageRef;
use crate::signature::simple_signing::Signed;
use hotshoe_core::check::provenance::Signer;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::sanitize::clean;

/// The maximum number of refused signatures that an error names, and the maximum length of each reason, in bytes.
const MAX_NAMED_REFUSALS: usize = 3;
const MAX_REASON_BYTES: usize = 300;

/// Who must have signed an image. One signature of one of them is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verify {
    /// Public keys in PEM, as `cosign generate-key-pair` writes them: ECDSA (P-256, P-384), Ed25519 or RSA. Whether the
    /// signature is in a public log is not looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Persons or workflows that proved to an issuer who they are, and whose signatures are in a log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keyless: Vec<Keyless>,
}

/// A person or a workflow, as an issuer of identities knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Keyless {
    /// Who proved the identity, such as `https://token.actions.githubusercontent.com`.
    pub issuer: String,
    /// The identity, such as `https://github.com/org/repo/.github/workflows/release.yml@refs/tags/v1` or an e-mail
    /// address. It is compared as a whole.
    pub subject: String,
    /// The `trusted_root.json` of the Sigstore that is trusted: its authorities and logs. It is never fetched.
    pub trusted_root: String,
}

/// A signature beside an image, as the registry has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Evidence {
    Simple { payload: String, annotations: BTreeMap<String, String> },
    Bundle(String),
}

impl Evidence {
    fn read(&self) -> Result<Signature, String> {
        match self {
            Self::Simple { payload, annotations } => {
                Signed::read(payload.clone().into_bytes(), annotations).map(Signature::Simple)
            }
            Self::Bundle(text) => match Bundle::from_json(text) {
                Ok(bundle) => Ok(Signature::Bundle(Box::new(bundle))),
                Err(error) => Err(format!("a bundle cannot be read: {error}")),
            },
        }
    }
}

/// A signature that is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The signature.
    pub(super) evidence: Evidence,
    /// Whose it is: the number of its signer among all that are named, keys first.
    pub signer: usize,
}

/// Judges signatures of one image, and keeps why they are refused.
struct Judge {
    recognisers: Vec<Recogniser>,
    digest: Digest,
    refusals: Vec<String>,
}

impl Judge {
    /// Notes why something is no signature that is accepted.
    fn refuse(&mut self, why: String) {
        // The same again says nothing, and there may be hundreds.
        if self.refusals.last() != Some(&why) {
            self.refusals.push(why);
        }
    }

    /// Returns the signature if one of the signers made it, and otherwise notes why not.
    fn judge(&mut self, evidence: Result<Evidence, String>) -> Option<Accepted> {
        let read = evidence.and_then(|evidence| Ok((evidence.read()?, evidence)));
        let (signature, evidence) = match read {
            Ok(read) => read,
            Err(why) => {
                self.refuse(why);
                return None;
            }
        };
        let digest = self.digest;
        let answers = self.recognisers.iter().map(|recogniser| recogniser.accepts(&signature, digest));
        let mut refusals = Vec::new();
        for (signer, answer) in answers.enumerate() {
            match answer {
                Ok(()) => return Some(Accepted { evidence, signer }),
                Err(why) => refusals.push(why),
            }
        }
        refusals.into_iter().for_each(|why| self.refuse(why));
        None
    }
}

/// A signature beside an image, not verified yet.
enum Signature {
    Simple(Signed),
    Bundle(Box<Bundle>),
}

/// Recognises the signatures of one signer.
enum Recogniser {
    Key(VerificationKey),
    Keyless { policy: Box<VerificationPolicy>, verifier: Box<Verifier> },
}

impl Verify {
    /// Checks that a signer is named, and that the keys and the trusted roots can be read.
    ///
    /// # Errors
    /// If no signer is named, or the key or trusted root of one cannot be used.
    pub fn check(&self) -> Result<(), RegistryError> {
        self.recognisers().map(drop)
    }

    /// Returns the accepted signers. A key is identified by the digest of its DER form, so the text of its PEM form
    /// makes no difference.
    pub fn signers(&self) -> Vec<Signer> {
        let keys = self.keys.iter().map(|pem| {
            let der = DerPublicKey::from_pem(pem).map(|key| Digest::of(key.as_bytes()));
            Signer::Key { key: der.unwrap_or_else(|_| Digest::of(pem.as_bytes())) }
        });
        let keyless = self.keyless.iter().map(|Keyless { issuer, subject, trusted_root }| Signer::Keyless {
            issuer: issuer.clone(),
            subject: subject.clone(),
            trusted_root: Digest::of(trusted_root.as_bytes()),
        });
        keys.chain(keyless).collect()
    }

    fn recognisers(&self) -> Result<Vec<Recogniser>, RegistryError> {
        let keys = self.keys.iter().map(|pem| Recogniser::of_key(pem));
        let all: Result<Vec<_>, _> = keys.chain(self.keyless.iter().map(Recogniser::of_keyless)).collect();
        let all = all.map_err(RegistryError::InvalidSigner)?;
        // An empty list is an error: `verify` asks for a signature, so an unsigned image must not pass.
        match all.is_empty() {
            true => Err(RegistryError::InvalidSigner("it names no signer; give keys or keyless".to_owned())),
            false => Ok(all),
        }
    }

    /// Checks that this is a signature by one of the signers of the image, which is named by its digest.
    ///
    /// # Errors
    /// If it is not, or a signer cannot be used.
    pub(super) fn accept(&self, image: &ImageRef, evidence: Evidence) -> Result<Accepted, RegistryError> {
        let digest = image.digest().ok_or_else(|| RegistryError::SignatureMissing { image: image.to_string() })?;
        let mut judge = self.judge(digest)?;
        let accepted = judge.judge(Ok(evidence));
        accepted.ok_or_else(|| RegistryError::SignatureInvalid { image: image.to_string(), why: named(judge.refusals) })
    }

    fn judge(&self, digest: Digest) -> Result<Judge, RegistryError> {
        Ok(Judge { recognisers: self.recognisers()?, digest, refusals: Vec::new() })
    }
}

fn named(mut refusals: Vec<String>) -> String {
    refusals.dedup();
    let more = refusals.len().saturating_sub(MAX_NAMED_REFUSALS);
    refusals.truncate(MAX_NAMED_REFUSALS);
    let reasons: Vec<_> = refusals.into_iter().map(|why| clean(why, MAX_REASON_BYTES)).collect();
    match more {
        0 => reasons.join("; "),
        more => format!("{}; and {more} more", reasons.join("; ")),
    }
}

impl Recogniser {
    fn of_key(pem: &str) -> Result<Self, String> {
        ring::install();
        let why = |error: String| format!("the public key is not one in PEM of ECDSA, Ed25519 or RSA: {error}");
        let key = DerPublicKey::from_pem(pem).map_err(|error| why(error.to_string()))?;
        VerificationKey::from_spki(&key).map(Self::Key).map_err(|error| why(error.to_string()))
    }

    fn of_keyless(Keyless { issuer, subject, trusted_root }: &Keyless) -> Result<Self, String> {
        ring::install();
        if issuer.is_empty() || subject.is_empty() {
            return Err("a keyless signer needs both an issuer and a subject".to_owned());
        }
        let why = |error: String| {
            format!("the trusted root cannot be used: {error}; it is the trusted_root.json of a Sigstore")
        };
        let root = TrustedRoot::from_json(trusted_root).map_err(|error| why(error.to_string()))?;
        let verifier = Verifier::new(&root).map_err(|error| why(error.to_string()))?;
        let policy = VerificationPolicy::new(subject, issuer);
        // A private Sigstore often has no certificate transparency log; the public one has.
        let policy = if root.ctlogs.is_empty() { policy.skip_sct() } else { policy };
        Ok(Self::Keyless { policy: Box::new(policy), verifier: Box::new(verifier) })
    }

    /// Checks that the signature was made by this signer over the image with this digest.
    ///
    /// # Errors
    /// Why it was not.
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
pub(crate) mod tests;
