//! The newer form of cosign: a bundle of Sigstore with a statement about the image.

use sigstore_verify::crypto::VerificationKey;
use sigstore_verify::types::{Bundle, DsseEnvelope, Sha256Hash, SignatureContent, Statement};
use sigstore_verify::{VerificationPolicy, Verifier};

use hotshoe_core::model::digest::Digest;

/// The predicate type of a statement that is a signature. Other statements about an image are no signatures, such as
/// vulnerability reports.
pub(super) const SIGNATURE_PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";

/// The payload type of an envelope with a statement.
const STATEMENT_TYPE: &str = "application/vnd.in-toto+json";

/// Checks that the holder of the private key signed the image. Consults no log, because a key does not say which logs
/// are trusted.
///
/// # Errors
/// Why the bundle is no such signature.
pub(super) fn is_by_key(bundle: &Bundle, key: &VerificationKey, digest: Digest) -> Result<(), String> {
    let envelope = signed(bundle)?;
    key.verify(envelope.pae(), &envelope.signature.sig).map_err(|_| "it was made with another key".to_owned())?;
    let statement: Statement = serde_json::from_slice(envelope.payload.as_bytes()).map_err(unreadable)?;
    match statement.matches_sha256(&hash(digest)?) {
        true => Ok(()),
        false => Err("it is of another image".to_owned()),
    }
}

/// Checks that the identity of the policy signed the image.
///
/// # Errors
/// Why the bundle is no such signature.
pub(super) fn is_by_holder(
    bundle: &Bundle,
    policy: &VerificationPolicy,
    verifier: &Verifier,
    digest: Digest,
) -> Result<(), String> {
    signed(bundle)?;
    is_statement_by_holder(bundle, policy, verifier, digest)
}

/// Checks that the identity of the policy made a statement about the image, of whatever type.
///
/// # Errors
/// Why the bundle holds no such statement.
pub(super) fn is_statement_by_holder(
    bundle: &Bundle,
    policy: &VerificationPolicy,
    verifier: &Verifier,
    digest: Digest,
) -> Result<(), String> {
    if bundle.verification_material.tlog_entries.is_empty() {
        return Err("it is in no log".to_owned());
    }
    verifier.verify(hash(digest)?, bundle, policy).map(drop).map_err(|error| error.to_string())
}

/// Returns the envelope, if its statement is a signature.
fn signed(bundle: &Bundle) -> Result<&DsseEnvelope, String> {
    let envelope = match &bundle.content {
        SignatureContent::DsseEnvelope(envelope) if envelope.payload_type == STATEMENT_TYPE => envelope,
        _ => return Err("it is no statement about an image".to_owned()),
    };
    let statement: Statement = serde_json::from_slice(envelope.payload.as_bytes()).map_err(unreadable)?;
    match statement.predicate_type == SIGNATURE_PREDICATE {
        true => Ok(envelope),
        false => Err(format!("its statement is {}, and not {SIGNATURE_PREDICATE}", statement.predicate_type)),
    }
}

fn unreadable(error: serde_json::Error) -> String {
    format!("its statement cannot be read: {error}")
}

fn hash(digest: Digest) -> Result<Sha256Hash, String> {
    Sha256Hash::from_hex(&digest.full()).map_err(|error| error.to_string())
}
