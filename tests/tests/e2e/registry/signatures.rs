//! Signatures in the formats of cosign, by its specifications. `openssl` makes the keys and the signatures.
//! <https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md>
//! <https://github.com/sigstore/cosign/blob/main/specs/BUNDLE_SPEC.md>

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotshoe_tests::Registry;
use serde_json::{Value, json};

use super::{Desk, Ended};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
pub(crate) const PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";

impl Desk {
    fn openssl(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.command(Path::new("openssl")).args(arguments).output().expect("openssl is installed");
        assert!(output.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Makes `NAME.key` and `NAME.pub`.
    pub(crate) fn key(&self, name: &str) {
        let private = format!("{name}.key");
        self.openssl(&["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", &private]);
        self.openssl(&["ec", "-in", &private, "-pubout", "-out", &format!("{name}.pub")]);
    }

    /// Signs these bytes, and returns the signature in base64.
    fn sign(&self, name: &str, bytes: &[u8]) -> String {
        self.write("signed", bytes);
        STANDARD.encode(self.openssl(&["dgst", "-sha256", "-sign", &format!("{name}.key"), "signed"]))
    }

    /// Pulls an image that must be signed with one of these keys.
    fn pull(&self, registry: &Registry, keys: &[&str]) -> Ended {
        let image = registry.image("a:1");
        let keys: Vec<_> = keys.iter().flat_map(|key| ["--verify-key".to_owned(), format!("{key}.pub")]).collect();
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        self.hotshoe(&[&["pull", &image, "--out", "b.wasm"], &*keys].concat())
    }

    /// Pushes the component, and returns the digest of its image.
    pub(crate) fn push(&self, registry: &Registry) -> String {
        let pushed = self.hotshoe(&["push", "a.wasm", &registry.image("a:1"), "-o", "json"]).json();
        pushed["digest"].as_str().expect("a digest").to_owned()
    }
}

fn image(registry: &Registry, layer: Value) -> Value {
    let config = registry.blob("a", "application/vnd.oci.image.config.v1+json", b"{}");
    json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] })
}

/// Puts a signature beside an image, in the older form of cosign.
pub(crate) fn sign_simply(desk: &Desk, registry: &Registry, key: &str, beside: &str, names: &str) {
    let payload = json!({
        "critical": {
            "identity": { "docker-reference": "" },
            "image": { "docker-manifest-digest": names },
            "type": "cosign container image signature",
        },
        "optional": null,
    });
    let payload = payload.to_string();
    let mut layer = registry.blob("a", "application/vnd.dev.cosign.simplesigning.v1+json", payload.as_bytes());
    layer["annotations"] = json!({ "dev.cosignproject.cosign/signature": desk.sign(key, payload.as_bytes()) });
    let tag = format!("{}.sig", beside.replace(':', "-"));
    registry.put("a", &tag, &image(registry, layer));
}

/// Puts a bundle beside an image, in the newer form of cosign, for a registry that does not know referrers.
pub(crate) fn sign_with_bundle(
    desk: &Desk,
    registry: &Registry,
    key: &str,
    beside: &str,
    names: &str,
    predicate: &str,
) {
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "name": "", "digest": { "sha256": names.trim_start_matches("sha256:") } }],
        "predicateType": predicate,
        "predicate": {},
    });
    let (kind, statement) = ("application/vnd.in-toto+json", statement.to_string());
    let signed = format!("DSSEv1 {} {kind} {} {statement}", kind.len(), statement.len());
    let bundle = json!({
        "mediaType": BUNDLE,
        "verificationMaterial": { "publicKey": { "hint": "" }, "tlogEntries": [] },
        "dsseEnvelope": {
            "payload": STANDARD.encode(&statement),
            "payloadType": kind,
            "signatures": [{ "sig": desk.sign(key, signed.as_bytes()) }],
        },
    });
    let manifest = image(registry, registry.blob("a", BUNDLE, bundle.to_string().as_bytes()));
    let size = manifest.to_string().len();
    let digest = registry.put("a", "bundle", &manifest).full();
    let entry = json!({
        "mediaType": MANIFEST, "artifactType": BUNDLE, "digest": format!("sha256:{digest}"), "size": size,
    });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] });
    registry.put("a", &beside.replace(':', "-"), &index);
}

#[test]
fn an_image_without_a_signature_is_refused_where_a_signature_is_wanted() {
    let (registry, desk) = (Registry::start(), Desk::new());
    desk.key("ours");
    desk.push(&registry);
    let error = desk.pull(&registry, &["ours"]).refused();
    assert!(error.contains("is not signed") && error.contains("cosign sign"), "{error}");
    assert!(!desk.path("b.wasm").exists());
    desk.pull(&registry, &[]).done();
}

#[test]
fn an_image_that_was_signed_simply_is_accepted_by_the_key_of_its_signer_alone() {
    let (registry, desk) = (Registry::start(), Desk::new());
    ["ours", "theirs"].iter().for_each(|key| desk.key(key));
    let digest = desk.push(&registry);
    sign_simply(&desk, &registry, "ours", &digest, &digest);
    let error = desk.pull(&registry, &["theirs"]).refused();
    assert!(error.contains("another key"), "{error}");
    assert!(!desk.path("b.wasm").exists());
    let pulled = desk.pull(&registry, &["theirs", "ours"]);
    assert!(pulled.errors.contains("signed as asked"), "{}", pulled.errors);
    pulled.done();
}

#[test]
fn an_image_that_was_signed_with_a_bundle_is_accepted_by_the_key_of_its_signer_alone() {
    let (registry, desk) = (Registry::start(), Desk::new());
    ["ours", "theirs"].iter().for_each(|key| desk.key(key));
    let digest = desk.push(&registry);
    sign_with_bundle(&desk, &registry, "ours", &digest, &digest, PREDICATE);
    let error = desk.pull(&registry, &["theirs"]).refused();
    assert!(error.contains("another key"), "{error}");
    desk.pull(&registry, &["ours"]).done();
}

#[test]
fn a_signature_of_another_image_or_of_another_statement_is_refused() {
    let (registry, desk) = (Registry::start(), Desk::new());
    desk.key("ours");
    let digest = desk.push(&registry);
    let other = format!("sha256:{}", "0".repeat(64));
    sign_simply(&desk, &registry, "ours", &digest, &other);
    let error = desk.pull(&registry, &["ours"]).refused();
    assert!(error.contains("of another image"), "{error}");
    sign_with_bundle(&desk, &registry, "ours", &digest, &other, PREDICATE);
    assert!(desk.pull(&registry, &["ours"]).refused().contains("of another image"));
    let scanned = "https://cosign.sigstore.dev/attestation/vuln/v1";
    sign_with_bundle(&desk, &registry, "ours", &digest, &digest, scanned);
    let error = desk.pull(&registry, &["ours"]).refused();
    assert!(error.contains(scanned), "{error}");
}

#[test]
fn an_invalid_key_is_refused_before_anything_is_pulled() {
    let (registry, desk) = (Registry::start(), Desk::new());
    desk.write("none.pub", "words");
    let error = desk.pull(&registry, &["none"]).refused();
    assert!(error.contains("public key"), "{error}");
}
