//! The older form of cosign: the payload that is signed is a small JSON document with the image's digest, and the
//! signature, its certificates and its log entry are annotations.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use sigstore_verify::crypto::VerificationKey;
use sigstore_verify::types::{Bundle, DerCertificate, Sha256Hash, SignatureBytes};
use sigstore_verify::{VerificationPolicy, Verifier};

use crate::reference::sha256;
use crate::signature::ring;
use hotshoe_core::model::digest::Digest;

/// The media type of the payload.
pub(super) const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The type that the payload states.
const TYPE: &str = "cosign container image signature";
/// The annotations.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const CHAIN: &str = "dev.sigstore.cosign/chain";
const LOGGED: &str = "dev.sigstore.cosign/bundle";

/// A payload with its signature.
pub(super) struct Signed {
    payload: Vec<u8>,
    signature: SignatureBytes,
    certificates: Vec<DerCertificate>,
    logged: Option<String>,
}

#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    r#type: String,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

/// The entry of the transparency log, as the annotation [`LOGGED`] has it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Logged {
    signed_entry_timestamp: String,
    payload: Entry,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    body: String,
    integrated_time: i64,
    log_index: i64,
    #[serde(rename = "logID")]
    log_id: String,
}

/// The kind and version of a log entry.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    kind: String,
    api_version: String,
}

impl Signed {
    /// Reads the annotations beside a payload.
    pub(super) fn read(payload: Vec<u8>, annotations: &BTreeMap<String, String>) -> Result<Self, String> {
        let signature = annotations.get(SIGNATURE).ok_or_else(|| format!("it has no annotation {SIGNATURE}"))?;
        let signature = SignatureBytes::from_base64(signature.trim()).map_err(|error| error.to_string())?;
        let pem = [CERTIFICATE, CHAIN].map(|name| annotations.get(name).map_or("", String::as_str)).join("\n");
        Ok(Self { payload, signature, certificates: certificates(&pem)?, logged: annotations.get(LOGGED).cloned() })
    }

    /// Checks that the payload is signed with the private key that belongs to this public one.
    ///
    /// # Errors
    /// Why it is not.
    pub(super) fn is_by_key(&self, key: &VerificationKey) -> Result<(), String> {
        key.verify(&self.payload, &self.signature).map_err(|_| "it was made with another key".to_owned())
    }

    /// Checks that the payload is signed by the identity of the policy.
    ///
    /// # Errors
    /// Why it is not.
    pub(super) fn is_by_holder(&self, policy: &VerificationPolicy, verifier: &Verifier) -> Result<(), String> {
        let bundle = self.bundle()?;
        let verified = ring::remembering(&self.payload, || verifier.verify(self.payload.as_slice(), &bundle, policy));
        verified.map(drop).map_err(|error| error.to_string())
    }

    /// Checks that the payload is about the image with this digest.
    ///
    /// # Errors
    /// Why it is not.
    pub(super) fn names(&self, digest: Digest) -> Result<(), String> {
        let Payload { critical } =
            serde_json::from_slice(&self.payload).map_err(|error| format!("what is signed cannot be read: {error}"))?;
        if critical.r#type != TYPE {
            return Err(format!("what is signed is {:?}, and not {TYPE:?}", critical.r#type));
        }
        match critical.image.digest == sha256(digest) {
            true => Ok(()),
            false => Err(format!("it is of another image, {}", critical.image.digest)),
        }
    }

    /// Removes the log entry.
    #[cfg(test)]
    pub(super) fn unlogged(self) -> Self {
        Self { logged: None, ..self }
    }

    /// Converts to a bundle of Sigstore.
    fn bundle(&self) -> Result<Bundle, String> {
        let logged = self.logged.as_ref().ok_or("it was made with a key, or is in no log")?;
        let Logged { signed_entry_timestamp, payload: entry } =
            serde_json::from_str(logged).map_err(|error| format!("its entry of the log cannot be read: {error}"))?;
        let log = Sha256Hash::from_hex(&entry.log_id).map_err(|error| error.to_string())?;
        let Kind { kind, api_version } = kind(&entry.body)?;
        let certificates: Vec<Value> =
            self.certificates.iter().map(|certificate| json!({ "rawBytes": certificate })).collect();
        let bundle = json!({
            "mediaType": "application/vnd.dev.sigstore.bundle+json;version=0.1",
            "verificationMaterial": {
                "x509CertificateChain": { "certificates": certificates },
                "tlogEntries": [{
                    "logIndex": entry.log_index.to_string(),
                    "logId": { "keyId": log.to_base64() },
                    "kindVersion": { "kind": kind, "version": api_version },
                    "integratedTime": entry.integrated_time.to_string(),
                    "inclusionPromise": { "signedEntryTimestamp": signed_entry_timestamp },
                    "canonicalizedBody": entry.body,
                }],
            },
            "messageSignature": {
                "messageDigest": { "algorithm": "SHA2_256", "digest": STANDARD.encode(hash(&self.payload)) },
                "signature": self.signature,
            },
        });
        Bundle::from_json(&bundle.to_string()).map_err(|error| error.to_string())
    }
}

fn hash(bytes: &[u8]) -> impl AsRef<[u8]> {
    sigstore_verify::crypto::sha256(bytes)
}

fn kind(body: &str) -> Result<Kind, String> {
    let body = STANDARD.decode(body).map_err(|error| format!("its entry of the log is no base64: {error}"))?;
    serde_json::from_slice(&body).map_err(|error| format!("its entry of the log cannot be read: {error}"))
}

fn certificates(pem: &str) -> Result<Vec<DerCertificate>, String> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes());
    certificates
        .map(|found| found.map(|found| DerCertificate::from_bytes(&found)))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("its certificates cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(payload: &Value) -> Signed {
        let annotations = BTreeMap::from([(SIGNATURE.to_owned(), "AAAA".to_owned())]);
        Signed::read(payload.to_string().into_bytes(), &annotations).unwrap()
    }

    #[test]
    fn a_payload_names_one_image() {
        let digest = Digest::of(b"");
        let payload = |image: &str, kind: &str| {
            signed(&json!({ "critical": { "image": { "docker-manifest-digest": image }, "type": kind } }))
        };
        assert_eq!(payload(&sha256(digest), TYPE).names(digest), Ok(()));
        assert!(payload(&sha256(Digest::of(b"a")), TYPE).names(digest).unwrap_err().contains("another image"));
        assert!(payload(&sha256(digest), "cosign blob").names(digest).unwrap_err().contains("cosign blob"));
        assert!(signed(&json!({})).names(digest).unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn a_payload_without_the_annotation_of_a_signature_is_refused() {
        assert!(Signed::read(Vec::new(), &BTreeMap::new()).is_err());
    }
}
