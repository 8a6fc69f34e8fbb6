//! Tests with a private Sigstore: an authority that certifies identities, and a log. It signs as cosign does.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType, SigningKey as _,
};
use serde_json::{Value, json};
use sigstore_verify::trust_root::{SIGSTORE_PRODUCTION_TRUSTED_ROOT, SIGSTORE_STAGING_TRUSTED_ROOT};

use super::*;
use crate::reference::sha256;

const GITHUB: &str = "https://token.actions.githubusercontent.com";
const GITHUB_LOGIN: &str = "https://github.com/login/oauth";
pub(crate) const ISSUER: &str = "https://issuer.example.org";
pub(crate) const SUBJECT: &str = "https://example.org/workflow";
/// The extension in which an authority of Sigstore says who proved the identity.
const ISSUER_EXTENSION: &[u64] = &[1, 3, 6, 1, 4, 1, 57264, 1, 1];

pub(crate) struct Sigstore {
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
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { authority, log: KeyPair::generate().unwrap() }
    }

    pub(crate) fn trusted_root(&self) -> String {
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

    /// Signs the image with this digest as this subject, in the older form of cosign. `logged` is the time in the log.
    fn sign(&self, digest: Digest, subject: &str, logged: SystemTime) -> Signature {
        let (payload, annotations) = self.simple(digest, subject, logged);
        Signature::Simple(Signed::read(payload, &annotations).unwrap())
    }

    /// Returns a payload, and the annotations beside it.
    pub(crate) fn simple(
        &self,
        digest: Digest,
        subject: &str,
        logged: SystemTime,
    ) -> (Vec<u8>, BTreeMap<String, String>) {
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
        (payload, annotations)
    }

    /// Returns the log's answer: a promise to include this entry.
    fn log(&self, body: &Value, at: SystemTime) -> Value {
        let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let id = hex(&hash(&self.log.subject_public_key_info()));
        // With its keys in alphabetical order, as the log signs it.
        let entry = json!({ "body": base64(body.to_string()), "integratedTime": seconds, "logID": id, "logIndex": 7 });
        let promise = self.log.sign(entry.to_string().as_bytes()).unwrap();
        json!({ "SignedEntryTimestamp": base64(promise), "Payload": entry })
    }
}

fn keyless(sigstore: &Sigstore, issuer: &str, subject: &str) -> Recogniser {
    let (issuer, subject) = (issuer.to_owned(), subject.to_owned());
    Recogniser::of_keyless(&Keyless { issuer, subject, trusted_root: sigstore.trusted_root() }).unwrap()
}

#[test]
fn a_keyless_signer_is_recognised_by_issuer_and_subject() {
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

/// Bundles of the public Sigstore and of its staging, with entries of both versions of its log, from the tests of
/// sigstore-rust (Apache-2.0). Both are statements about the same file.
const PUBLIC: &str = include_str!("bundles/public.json");
const STAGING: &str = include_str!("bundles/staging.json");
const FILE: &str = "54303491a8418fbed24344b513546182c29b43bf282ceb433af65e2299f9271f";

#[test]
fn a_bundle_of_the_public_sigstore_is_verified_to_its_root_and_is_no_signature_of_an_image() {
    let file: Digest = FILE.parse().unwrap();
    let workflow = "https://github.com/prefix-dev/sigstore-example/.github/workflows/action.yaml@refs/heads/main";
    let by = |root: &str, issuer: &str, subject: &str| {
        let (issuer, subject, trusted_root) = (issuer.to_owned(), subject.to_owned(), root.to_owned());
        Recogniser::of_keyless(&Keyless { issuer, subject, trusted_root }).unwrap()
    };
    for (bundle, root, other_root, issuer, subject) in [
        (PUBLIC, SIGSTORE_PRODUCTION_TRUSTED_ROOT, SIGSTORE_STAGING_TRUSTED_ROOT, GITHUB, workflow),
        (STAGING, SIGSTORE_STAGING_TRUSTED_ROOT, SIGSTORE_PRODUCTION_TRUSTED_ROOT, GITHUB_LOGIN, "jku@goto.fi"),
    ] {
        let bundle = Bundle::from_json(bundle).unwrap();
        let is_by = |recogniser: &Recogniser, digest| match recogniser {
            Recogniser::Keyless { policy, verifier } => {
                bundle::is_statement_by_holder(&bundle, policy, verifier, digest)
            }
            Recogniser::Key(_) => unreachable!(),
        };
        assert_eq!(is_by(&by(root, issuer, subject), file), Ok(()));
        let other_file = Digest::of(b"other");
        for (recogniser, digest) in [
            (by(root, issuer, subject), other_file),
            (by(root, issuer, "https://example.org"), file),
            (by(root, "https://example.org", subject), file),
            (by(other_root, issuer, subject), file),
        ] {
            assert!(is_by(&recogniser, digest).is_err());
        }
        let signature = Signature::Bundle(Box::new(bundle.clone()));
        let why = by(root, issuer, subject).accepts(&signature, file).unwrap_err();
        assert!(why.contains("attestations-publish-1") && why.contains("cosign/sign/v1"), "{why}");
    }
}

#[test]
fn a_signer_that_cannot_be_used_is_refused_with_what_is_expected() {
    let key = |pem: &str| Verify { keys: vec![pem.to_owned()], ..Verify::default() };
    let keyless = |issuer: &str, root: &str| {
        let (issuer, subject, trusted_root) = (issuer.to_owned(), SUBJECT.to_owned(), root.to_owned());
        Verify { keyless: vec![Keyless { issuer, subject, trusted_root }], ..Verify::default() }
    };
    let root = Sigstore::new().trusted_root();
    let good = include_str!("key_of_a_test.pub");
    for (verify, why) in [
        (key("words"), "PEM"),
        (key("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), "ECDSA"),
        (keyless(ISSUER, "words"), "trusted_root.json"),
        (keyless("", &root), "an issuer and a subject"),
        (Verify { keys: vec![good.to_owned(), "words".to_owned()], ..Verify::default() }, "PEM"),
        (Verify::default(), "names no signer"),
    ] {
        let error = verify.check().unwrap_err();
        assert_eq!(error.reason(), "InvalidSigner");
        assert!(error.to_string().contains(why), "{error}");
    }
    assert_eq!(keyless(ISSUER, &root).check(), Ok(()));
    assert_eq!(key(good).check(), Ok(()));
}

#[test]
fn the_field_names_are_those_of_the_crd_and_a_misspelt_one_is_refused() {
    let written = json!({ "keys": ["PEM"], "keyless": [{ "issuer": "i", "subject": "s", "trustedRoot": "{}" }] });
    let verify: Verify = serde_json::from_value(written.clone()).unwrap();
    assert_eq!((verify.keys.len(), verify.keyless[0].trusted_root.as_str()), (1, "{}"));
    assert_eq!(serde_json::to_value(verify).unwrap(), written);
    for wrong in [json!({ "key": "PEM" }), json!({ "keyless": [{ "issuer": "i", "subject": "s" }] })] {
        assert!(serde_json::from_value::<Verify>(wrong).is_err());
    }
}

#[test]
fn the_first_refusals_are_named_and_the_others_counted() {
    let refusals = |count: usize| (0..count).map(|number| format!("why {number}")).collect::<Vec<_>>();
    assert_eq!(named(vec!["same".to_owned(), "same".to_owned()]), "same");
    assert_eq!(named(refusals(2)), "why 0; why 1");
    let many = named(refusals(MAX_NAMED_REFUSALS + 2));
    assert!(many.starts_with("why 0; ") && many.ends_with("; and 2 more"), "{many}");
}

/// Returns a bundle that is a signature of an image with this key.
pub(crate) fn bundle_by_key(key: &KeyPair, digest: Digest) -> String {
    bundle_text(key, digest, "https://sigstore.dev/cosign/sign/v1", "application/vnd.in-toto+json")
}

/// Returns a payload, and the annotations beside it, of a signature of an image with this key.
pub(crate) fn simple_by_key(key: &KeyPair, digest: Digest) -> (Vec<u8>, BTreeMap<String, String>) {
    let (payload, _) = Sigstore::new().simple(digest, SUBJECT, SystemTime::now());
    let signature = base64(key.sign(&payload).unwrap());
    (payload, BTreeMap::from([("dev.cosignproject.cosign/signature".to_owned(), signature)]))
}

fn bundle(key: &KeyPair, digest: Digest, predicate: &str, kind: &str) -> Signature {
    Evidence::Bundle(bundle_text(key, digest, predicate, kind)).read().unwrap()
}

/// Returns a bundle with a statement about an image, signed by this key without a log.
fn bundle_text(key: &KeyPair, digest: Digest, predicate: &str, kind: &str) -> String {
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "name": "", "digest": { "sha256": digest.full() } }],
        "predicateType": predicate,
        "predicate": {},
    });
    let statement = statement.to_string();
    let signed = format!("DSSEv1 {} {kind} {} {statement}", kind.len(), statement.len());
    let bundle = json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": { "publicKey": { "hint": "" }, "tlogEntries": [] },
        "dsseEnvelope": {
            "payload": base64(&statement),
            "payloadType": kind,
            "signatures": [{ "sig": base64(key.sign(signed.as_bytes()).unwrap()) }],
        },
    });
    bundle.to_string()
}

#[test]
fn a_bundle_is_accepted_by_the_key_of_its_signer_for_the_image_that_it_signs() {
    const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";
    const STATEMENT: &str = "application/vnd.in-toto+json";
    let (own, other, digest) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap(), Digest::of(b"image"));
    let signer = |key: &KeyPair| Recogniser::of_key(&key.public_key_pem()).unwrap();
    let signature = bundle(&own, digest, SIGNED, STATEMENT);
    assert_eq!(signer(&own).accepts(&signature, digest), Ok(()));
    for (recogniser, signature, of, why) in [
        (signer(&other), &signature, digest, "another key"),
        (signer(&own), &signature, Digest::of(b"other"), "another image"),
        (signer(&own), &bundle(&own, digest, "https://example.org/scan", STATEMENT), digest, "cosign/sign/v1"),
        (signer(&own), &bundle(&own, digest, SIGNED, "application/json"), digest, "no statement"),
    ] {
        let refused = recogniser.accepts(signature, of).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn a_simple_signature_is_accepted_by_the_key_of_its_signer_for_the_payload_that_it_signs() {
    let (own, other, digest) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap(), Digest::of(b"image"));
    let signer = |key: &KeyPair| Recogniser::of_key(&key.public_key_pem()).unwrap();
    let (payload, _) = Sigstore::new().simple(digest, SUBJECT, SystemTime::now());
    let (another, _) = Sigstore::new().simple(Digest::of(b"other"), SUBJECT, SystemTime::now());
    let signature = base64(own.sign(&payload).unwrap());
    let annotations = BTreeMap::from([("dev.cosignproject.cosign/signature".to_owned(), signature)]);
    let signed = |payload: &[u8]| Signature::Simple(Signed::read(payload.to_vec(), &annotations).unwrap());
    assert_eq!(signer(&own).accepts(&signed(&payload), digest), Ok(()));
    for (recogniser, payload, of, why) in [
        (signer(&other), &payload, digest, "another key"),
        (signer(&own), &another, Digest::of(b"other"), "another key"),
        (signer(&own), &payload, Digest::of(b"other"), "another image"),
    ] {
        let refused = recogniser.accepts(&signed(payload), of).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn a_payload_beside_the_signature_of_another_is_refused() {
    let (sigstore, digest, other) = (Sigstore::new(), Digest::of(b"image"), Digest::of(b"other"));
    let (_, annotations) = sigstore.simple(other, SUBJECT, SystemTime::now());
    let (payload, _) = sigstore.simple(digest, SUBJECT, SystemTime::now());
    let signature = Signature::Simple(Signed::read(payload, &annotations).unwrap());
    assert!(keyless(&sigstore, ISSUER, SUBJECT).accepts(&signature, digest).is_err());
}
