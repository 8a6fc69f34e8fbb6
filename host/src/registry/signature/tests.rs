//! A Sigstore of the tests' own: an authority that knows identities, and a log. It signs as cosign does.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType, SigningKey as _,
};
use serde_json::{Value, json};

use super::*;
use crate::registry::reference::sha256;

const ISSUER: &str = "https://issuer.example.org";
const SUBJECT: &str = "https://example.org/workflow";
/// The extension in which an authority of Sigstore says who proved the identity.
const ISSUER_EXTENSION: &[u64] = &[1, 3, 6, 1, 4, 1, 57264, 1, 1];

struct Sigstore {
    authority: CertifiedIssuer<'static, KeyPair>,
    log: KeyPair,
}

fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

fn hash(bytes: &[u8]) -> Vec<u8> {
    ::ring::digest::digest(&::ring::digest::SHA256, bytes).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Sigstore {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { authority, log: KeyPair::generate().unwrap() }
    }

    fn trusted_root(&self) -> String {
        let valid = json!({ "start": "2020-01-01T00:00:00Z" });
        let log = self.log.subject_public_key_info();
        json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [{
                "baseUrl": "https://log.example.org",
                "hashAlgorithm": "SHA2_256",
                "publicKey": {
                    "rawBytes": base64(&log), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": valid,
                },
                "logId": { "keyId": base64(hash(&log)) },
            }],
            "certificateAuthorities": [{
                "uri": "https://authority.example.org",
                "certChain": { "certificates": [{ "rawBytes": base64(self.authority.der()) }] },
                "validFor": valid,
            }],
        })
        .to_string()
    }

    /// Signs the image with this digest as this subject, in the older form of cosign, and logs it then.
    fn sign(&self, digest: Digest, subject: &str, logged: SystemTime) -> Signature {
        let own = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = vec![SanType::URI(subject.try_into().unwrap())];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        params.custom_extensions = vec![CustomExtension::from_oid_content(ISSUER_EXTENSION, ISSUER.into())];
        params.not_before = (SystemTime::now() - Duration::from_secs(300)).into();
        params.not_after = (SystemTime::now() + Duration::from_secs(300)).into();
        let certificate = params.signed_by(&own, &self.authority).unwrap();
        let payload = json!({ "critical": {
            "identity": { "docker-reference": "" },
            "image": { "docker-manifest-digest": sha256(digest) },
            "type": "cosign container image signature",
        }});
        let payload = payload.to_string().into_bytes();
        let signature = base64(own.sign(&payload).unwrap());
        let body = json!({
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": { "hash": { "algorithm": "sha256", "value": hex(&hash(&payload)) } },
                "signature": { "content": signature, "publicKey": { "content": base64(certificate.pem()) } },
            },
        });
        let annotations = BTreeMap::from([
            ("dev.cosignproject.cosign/signature".to_owned(), signature),
            ("dev.sigstore.cosign/certificate".to_owned(), certificate.pem()),
            ("dev.sigstore.cosign/chain".to_owned(), self.authority.pem()),
            ("dev.sigstore.cosign/bundle".to_owned(), self.log(&body, logged).to_string()),
        ]);
        Signature::Simple(Signed::read(payload, &annotations).unwrap())
    }

    /// What the log answers: a promise to hold this entry.
    fn log(&self, body: &Value, at: SystemTime) -> Value {
        let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let id = hex(&hash(&self.log.subject_public_key_info()));
        // In the order of the alphabet, as the log signs it.
        let entry = json!({ "body": base64(body.to_string()), "integratedTime": seconds, "logID": id, "logIndex": 7 });
        let promise = self.log.sign(entry.to_string().as_bytes()).unwrap();
        json!({ "SignedEntryTimestamp": base64(promise), "Payload": entry })
    }
}

fn keyless(sigstore: &Sigstore, issuer: &str, subject: &str) -> Judge {
    let (issuer, subject) = (issuer.to_owned(), subject.to_owned());
    Judge::of(&Signer::Keyless(Keyless { issuer, subject, trusted_root: sigstore.trusted_root() })).unwrap()
}

#[test]
fn who_proved_an_identity_is_recognised_by_issuer_and_subject() {
    let (sigstore, digest) = (Sigstore::new(), Digest::of(b"image"));
    let signature = sigstore.sign(digest, SUBJECT, SystemTime::now());
    assert_eq!(keyless(&sigstore, ISSUER, SUBJECT).accepts(&signature, digest), Ok(()));
    for (issuer, subject) in [(ISSUER, "https://example.org/work"), ("https://example.org", SUBJECT)] {
        let why = keyless(&sigstore, issuer, subject).accepts(&signature, digest).unwrap_err();
        assert!(why.contains("mismatch"), "{why}");
    }
    let other = keyless(&sigstore, ISSUER, SUBJECT).accepts(&signature, Digest::of(b"other")).unwrap_err();
    assert!(other.contains("another image"), "{other}");
}

#[test]
fn a_signature_of_another_sigstore_is_refused() {
    let (sigstore, other, digest) = (Sigstore::new(), Sigstore::new(), Digest::of(b"image"));
    let signature = other.sign(digest, SUBJECT, SystemTime::now());
    assert!(keyless(&sigstore, ISSUER, SUBJECT).accepts(&signature, digest).is_err());
    let borrowed = Sigstore { authority: other.authority, log: sigstore.log };
    let own = Sigstore { authority: sigstore.authority, log: other.log };
    let signature = borrowed.sign(digest, SUBJECT, SystemTime::now());
    assert!(keyless(&own, ISSUER, SUBJECT).accepts(&signature, digest).is_err(), "neither its authority nor its log");
}

#[test]
fn a_signature_that_was_logged_after_its_certificate_had_expired_is_refused() {
    let (sigstore, digest) = (Sigstore::new(), Digest::of(b"image"));
    let before = SystemTime::now() - Duration::from_secs(3_600);
    let signature = sigstore.sign(digest, SUBJECT, before);
    assert!(keyless(&sigstore, ISSUER, SUBJECT).accepts(&signature, digest).is_err());
}

#[test]
fn a_certificate_alone_is_no_proof_without_the_log() {
    let (sigstore, digest) = (Sigstore::new(), Digest::of(b"image"));
    let Signature::Simple(signed) = sigstore.sign(digest, SUBJECT, SystemTime::now()) else { unreachable!() };
    let signature = Signature::Simple(signed.unlogged());
    let why = keyless(&sigstore, ISSUER, SUBJECT).accepts(&signature, digest).unwrap_err();
    assert!(why.contains("log"), "{why}");
}

#[test]
fn a_signer_that_cannot_be_recognised_is_refused_with_what_is_expected() {
    let keyless = |issuer: &str, root: &str| {
        Signer::Keyless(Keyless {
            issuer: issuer.to_owned(),
            subject: SUBJECT.to_owned(),
            trusted_root: root.to_owned(),
        })
    };
    let root = Sigstore::new().trusted_root();
    for (signer, why) in [
        (Signer::Key("words".to_owned()), "PEM"),
        (Signer::Key("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n".to_owned()), "ECDSA"),
        (keyless(ISSUER, "words"), "trusted_root.json"),
        (keyless("", &root), "an issuer and a subject"),
    ] {
        let error = signer.check().unwrap_err();
        assert_eq!(error.reason(), "InvalidSigner");
        assert!(error.to_string().contains(why), "{error}");
    }
    assert_eq!(keyless(ISSUER, &root).check(), Ok(()));
    assert_eq!(Signer::Key(include_str!("key_of_a_test.pub").to_owned()).check(), Ok(()));
}

#[test]
fn a_signer_is_written_as_kubernetes_writes_unions() {
    let signer: Signer = serde_json::from_value(json!({ "key": "PEM" })).unwrap();
    assert_eq!(signer, Signer::Key("PEM".to_owned()));
    let keyless = json!({ "keyless": { "issuer": "i", "subject": "s", "trustedRoot": "{}" } });
    assert_eq!(serde_json::to_value(serde_json::from_value::<Signer>(keyless.clone()).unwrap()).unwrap(), keyless);
}
