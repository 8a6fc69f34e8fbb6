//! The CA of a host's webhooks, as hosts keep it.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};

/// The name of the Secret of the CA.
pub const SECRET_NAME: &str = "hotshoe-webhooks-ca";
/// The type of that Secret.
pub const SECRET_TYPE: &str = "hotshoe.dev/webhooks-ca";

/// A CA as hosts make them, which was made months ago and ends after this time: its certificate and key.
pub fn ca_that_ends_in(left: Duration) -> (String, String) {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, "hotshoe webhooks CA");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    parameters.not_before = (SystemTime::now() - Duration::from_secs(20_000_000)).into();
    parameters.not_after = (SystemTime::now() + left).into();
    let key = KeyPair::generate().expect("a key");
    (parameters.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
}

/// The Secret of the CA in the namespace of a host, with this type and content.
pub fn secret(namespace: &str, secret_type: &str, certificates: &str, keys: &str) -> Value {
    let data = json!({ "ca.crt": STANDARD.encode(certificates), "ca.key": STANDARD.encode(keys) });
    let labels = json!({ "app.kubernetes.io/managed-by": "hotshoe" });
    let metadata = json!({ "name": SECRET_NAME, "namespace": namespace, "labels": labels });
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": secret_type, "data": data })
}

/// The certificates in the bundle of a registration.
pub fn bundle(registration: &Value) -> Vec<Vec<u8>> {
    let encoded = registration["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap_or_default();
    let text = String::from_utf8(STANDARD.decode(encoded).expect("Base64")).expect("PEM");
    let blocks = text.split("-----END CERTIFICATE-----").filter_map(|block| block.split_once("CERTIFICATE-----"));
    blocks.map(|(_, block)| STANDARD.decode(block.replace('\n', "")).expect("Base64")).collect()
}
