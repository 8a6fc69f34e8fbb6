//! Tests with a hostile registry: its answers, and the outcome of each.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use futures::future::BoxFuture;
use futures::{StreamExt as _, stream};
use rcgen::KeyPair;
use serde_json::{Value, json};

use crate::connection::{Connection, Operation};
use crate::manifest::{CONFIG, LAYER, MANIFEST};
use crate::names::{LookUp, System};
use crate::reference::sha256;
use crate::signature::tests::{ISSUER, SUBJECT, Sigstore, bundle_by_key, simple_by_key};
use crate::{Access, Credentials, ImageRef, Keyless, Pull, Pulled, RegistryError, Verify};
use hotshoe_core::model::digest::Digest;

/// The smallest component.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
/// The media type of the payload that cosign signs.
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const MIB: usize = 1024 * 1024;

/// The answer to requests for one path.
#[derive(Clone)]
enum Answer {
    /// These bytes, with this digest in the header, which may be that of other bytes.
    Bytes {
        bytes: Vec<u8>,
        digest: Digest,
    },
    /// Bytes without an end.
    Endless,
    Redirect(String),
    Status(u16, &'static str),
    Challenge(String),
    /// This challenge to those without this authorization, and these bytes to those with it.
    Private {
        challenge: String,
        authorization: String,
        bytes: Vec<u8>,
    },
}

/// A registry with prepared answers, which records the requests.
#[derive(Clone, Default)]
struct Fake {
    answers: Arc<Mutex<HashMap<String, Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
    address: String,
}

fn bytes(bytes: &[u8]) -> Answer {
    Answer::Bytes { bytes: bytes.to_vec(), digest: Digest::of(bytes) }
}

fn image(layer_type: &str, layer: &[u8], size: usize) -> Vec<u8> {
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": { "mediaType": CONFIG, "digest": sha256(Digest::of(b"{}")), "size": 2 },
        "layers": [{ "mediaType": layer_type, "digest": sha256(Digest::of(layer)), "size": size }],
    })
    .to_string()
    .into_bytes()
}

/// Returns a manifest, and the component that it names.
pub(super) fn component() -> (Vec<u8>, Vec<u8>) {
    (image(LAYER, COMPONENT, COMPONENT.len()), COMPONENT.to_vec())
}

async fn answer(State(fake): State<Fake>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let login = request.headers().get("authorization").map_or("anonymous", |value| value.to_str().unwrap()).to_owned();
    fake.asked.lock().unwrap().push(format!("{} {path} as {login}", request.method()));
    let answer = fake.answers.lock().unwrap().get(&path).cloned();
    let response = Response::builder();
    let response = match answer.unwrap_or(Answer::Status(404, "{\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\"}]}")) {
        Answer::Bytes { bytes, digest } => {
            response.header("docker-content-digest", sha256(digest)).body(Body::from(bytes))
        }
        Answer::Endless => {
            let zeros = stream::repeat(Bytes::from_static(&[0; 65536]));
            response.body(Body::from_stream(zeros.map(Ok::<_, std::convert::Infallible>)))
        }
        Answer::Redirect(to) => response.status(307).header("location", to).body(Body::empty()),
        Answer::Status(code, body) => response.status(code).body(Body::from(body)),
        Answer::Private { authorization, bytes, .. } if authorization == login => {
            response.header("docker-content-digest", sha256(Digest::of(&bytes))).body(Body::from(bytes))
        }
        Answer::Challenge(challenge) | Answer::Private { challenge, .. } => {
            response.status(401).header("www-authenticate", challenge).body(Body::from("a secret"))
        }
    };
    response.unwrap()
}

impl Fake {
    /// Starts a registry that has an image of [`COMPONENT`] under the tag `1`.
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = Self { address: listener.local_addr().unwrap().to_string(), ..Self::default() };
        let router = Router::new().fallback(answer).with_state(fake.clone());
        tokio::spawn(async { axum::serve(listener, router).await });
        fake.on("/v2/", bytes(b"{}"));
        fake.has(&image(LAYER, COMPONENT, COMPONENT.len()), COMPONENT);
        fake
    }

    fn on(&self, path: &str, answer: Answer) {
        self.answers.lock().unwrap().insert(path.to_owned(), answer);
    }

    /// Serves an image under the tag `1`, and by its digest.
    fn has(&self, manifest: &[u8], layer: &[u8]) {
        for tag in ["1".to_owned(), sha256(Digest::of(manifest))] {
            self.on(&format!("/v2/a/manifests/{tag}"), bytes(manifest));
        }
        self.on(&blob_of(layer), bytes(layer));
    }

    fn image(&self) -> ImageRef {
        format!("oci://{}/a:1", self.address).parse().unwrap()
    }

    fn of(&self, image: ImageRef) -> Pull {
        Pull { image, access: Access::default(), most: MIB as u64, verify: None }
    }

    async fn pull(&self) -> Result<Pulled, RegistryError> {
        self.of(self.image()).pull(|_, _| ()).await
    }

    async fn refusal(&self) -> RegistryError {
        self.pull().await.unwrap_err()
    }

    fn was_asked(&self, what: &str) -> bool {
        self.asked.lock().unwrap().iter().any(|asked| asked.contains(what))
    }
}

fn blob_of(layer: &[u8]) -> String {
    format!("/v2/a/blobs/{}", sha256(Digest::of(layer)))
}

#[tokio::test]
async fn a_component_is_pulled_by_tag_and_by_digest() {
    let fake = Fake::start().await;
    let pulled = fake.pull().await.unwrap();
    assert_eq!(pulled.component.bytes(), COMPONENT);
    let pull = fake.of(fake.image());
    assert_eq!(pull.resolve_by(&pull.prepare(Arc::new(System)).unwrap()).await, Ok(pulled.digest));
    let again = fake.of(fake.image().pinned(pulled.digest)).pull(|_, _| ()).await;
    assert_eq!(again, Ok(pulled));
}

#[tokio::test]
async fn a_tag_that_moves_while_it_is_pulled_changes_nothing() {
    let fake = Fake::start().await;
    let (first, other) = (image(LAYER, COMPONENT, COMPONENT.len()), image(LAYER, b"other", 5));
    // The answer to HEAD names one image, and that to GET is another.
    fake.on("/v2/a/manifests/1", Answer::Bytes { bytes: other, digest: Digest::of(&first) });
    let pulled = fake.pull().await.unwrap();
    assert_eq!((pulled.digest, pulled.component.bytes()), (Digest::of(&first), COMPONENT));
    assert!(!fake.was_asked("GET /v2/a/manifests/1"), "a tag is resolved once");
}

#[tokio::test]
async fn a_manifest_or_a_layer_with_another_digest_is_refused() {
    let fake = Fake::start().await;
    let manifest = image(LAYER, COMPONENT, COMPONENT.len());
    // The header says what was asked for, and the bytes are others.
    fake.on(
        &blob_of(COMPONENT),
        Answer::Bytes { bytes: b"\0asm\x0d\0\x01\x01".to_vec(), digest: Digest::of(COMPONENT) },
    );
    assert_eq!(fake.refusal().await.reason(), "WrongDigest");
    let by_digest = format!("/v2/a/manifests/{}", sha256(Digest::of(&manifest)));
    fake.on(&by_digest, Answer::Bytes { bytes: image(LAYER, b"other", 5), digest: Digest::of(&manifest) });
    assert_eq!(fake.refusal().await.reason(), "WrongDigest");
}

#[tokio::test]
async fn a_layer_that_is_too_large_is_never_asked_for() {
    let fake = Fake::start().await;
    fake.has(&image(LAYER, COMPONENT, 1024 * MIB), COMPONENT);
    fake.on(&blob_of(COMPONENT), Answer::Endless);
    let error = fake.refusal().await;
    assert_eq!(error.reason(), "ComponentTooLarge");
    assert!(error.to_string().contains("limits.componentBytes"), "{error}");
    assert!(!fake.was_asked("/blobs/"));
}

#[tokio::test]
async fn a_layer_that_is_larger_than_announced_is_cut_off() {
    let fake = Fake::start().await;
    fake.on(&blob_of(COMPONENT), Answer::Endless);
    let error = fake.refusal().await;
    assert_eq!(error.reason(), "WrongDigest");
    assert!(error.to_string().contains("more than the 8 bytes"), "{error}");
}

#[tokio::test]
async fn nothing_is_decompressed() {
    let fake = Fake::start().await;
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0";
    fake.has(&image("application/wasm+gzip", gzip, gzip.len()), gzip);
    let error = fake.refusal().await;
    assert_eq!(error.reason(), "WrongMediaType");
    assert!(error.to_string().contains("compressed"), "{error}");
    assert!(!fake.was_asked("/blobs/"));
    fake.has(&image(LAYER, gzip, gzip.len()), gzip);
    assert_eq!(fake.refusal().await.reason(), "NotAComponent");
}

#[tokio::test]
async fn an_index_is_refused_with_what_to_do() {
    let fake = Fake::start().await;
    let index = json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [] });
    fake.has(index.to_string().as_bytes(), b"");
    let error = fake.refusal().await;
    assert_eq!(error.reason(), "WrongMediaType");
    assert!(error.to_string().contains("index") && error.to_string().contains("by its digest"), "{error}");
}

#[tokio::test]
async fn an_image_that_does_not_exist_is_named_in_the_error() {
    let fake = Fake::start().await;
    let image: ImageRef = format!("oci://{}/b:1", fake.address).parse().unwrap();
    let error = fake.of(image.clone()).pull(|_, _| ()).await.unwrap_err();
    assert_eq!(error, RegistryError::ImageNotFound { image: image.to_string() });
    let gone = fake.of(image.pinned(Digest::of(b"gone"))).pull(|_, _| ()).await.unwrap_err();
    assert_eq!(gone.reason(), "ImageNotFound");
}

#[tokio::test]
async fn a_registry_that_requires_credentials_is_distinguished_from_one_that_fails() {
    let fake = Fake::start().await;
    for (answer, reason) in [
        (Answer::Status(401, ""), "Unauthorized"),
        (Answer::Status(403, "{\"errors\":[{\"code\":\"DENIED\"}]}"), "Unauthorized"),
        (Answer::Status(429, "{\"errors\":[{\"code\":\"TOOMANYREQUESTS\"}]}"), "RegistryFailed"),
        (Answer::Status(500, "\u{1b}[2J"), "RegistryFailed"),
    ] {
        fake.on("/v2/a/manifests/1", answer);
        let error = fake.refusal().await;
        assert_eq!(error.reason(), reason, "{error}");
        assert!(!error.to_string().contains('\u{1b}'), "{error}");
    }
    fake.on("/v2/", Answer::Challenge(format!("Bearer realm=\"http://{}/token\",service=\"x\"", fake.address)));
    fake.on("/token", Answer::Status(401, "no"));
    let error = fake.refusal().await;
    assert_eq!(error.reason(), "Unauthorized");
    assert!(error.to_string().contains("docker login"), "{error}");
}

#[tokio::test]
async fn endless_redirects_are_not_followed_for_ever() {
    let fake = Fake::start().await;
    fake.on(&blob_of(COMPONENT), Answer::Redirect(format!("http://{}/there", fake.address)));
    fake.on("/there", Answer::Redirect(format!("http://{}/there", fake.address)));
    let error = fake.refusal().await;
    assert_eq!(error.reason(), "RegistryFailed");
    assert!(error.to_string().contains("redirects"), "{error}");
}

#[tokio::test]
async fn credentials_are_not_sent_to_where_a_registry_redirects() {
    let (fake, elsewhere) = (Fake::start().await, Fake::start().await);
    fake.on("/v2/", Answer::Challenge("Basic realm=\"a\"".to_owned()));
    fake.on(&blob_of(COMPONENT), Answer::Redirect(format!("http://{}{}", elsewhere.address, blob_of(COMPONENT))));
    let pulled = fake.pull_as_user().await.unwrap();
    assert_eq!(pulled.component.bytes(), COMPONENT);
    assert!(fake.was_asked(&format!("GET {} as Basic", blob_of(COMPONENT))));
    assert!(elsewhere.was_asked(&format!("GET {} as anonymous", blob_of(COMPONENT))));
    assert!(!elsewhere.was_asked("as Basic"));
}

impl Fake {
    /// Returns access as the user `u` with the password `p`.
    fn access(&self) -> Access {
        let config = json!({ "auths": { &self.address: { "username": "u", "password": "p" } } }).to_string();
        Access { credentials: Credentials::of_secret(config.as_bytes()).unwrap(), ..Access::default() }
    }

    /// Pulls as that user.
    async fn pull_as_user(&self) -> Result<Pulled, RegistryError> {
        Pull { access: self.access(), ..self.of(self.image()) }.pull(|_, _| ()).await
    }

    /// Serves the image only to those with this authorization.
    fn is_private(&self, challenge: &str, authorization: &str) {
        for answer in self.answers.lock().unwrap().iter_mut().filter(|(path, _)| path.starts_with("/v2/a/")) {
            let Answer::Bytes { bytes, .. } = answer.1.clone() else { continue };
            let (challenge, authorization) = (challenge.to_owned(), authorization.to_owned());
            *answer.1 = Answer::Private { challenge, authorization, bytes };
        }
    }
}

/// The header for the user `u` with the password `p`.
const BASIC: &str = "Basic dTpw";

#[tokio::test]
async fn a_registry_that_is_open_but_for_one_repository_gets_the_credentials_for_that() {
    let fake = Fake::start().await;
    fake.is_private("Basic realm=\"x\"", BASIC);
    assert_eq!(fake.refusal().await.reason(), "Unauthorized", "without credentials");
    assert_eq!(fake.pull_as_user().await.unwrap().component.bytes(), COMPONENT);
    assert!(!fake.was_asked(&format!("GET /v2/ as {BASIC}")), "what is open is read without them");

    let fake = Fake::start().await;
    fake.on("/token", bytes(br#"{"token": "t"}"#));
    let realm = format!("Bearer realm=\"http://{}/token\",service=\"x\"", fake.address);
    fake.is_private(&realm, "Bearer t");
    assert_eq!(fake.pull_as_user().await.unwrap().component.bytes(), COMPONENT);
    assert!(fake.was_asked(&format!("GET /token as {BASIC}")));
    let public = fake.pull().await.unwrap();
    assert_eq!(public.component.bytes(), COMPONENT, "a token is handed out to those without credentials too");
}

#[tokio::test]
async fn credentials_go_to_no_other_server_than_the_registry_and_the_one_that_is_named() {
    let (fake, elsewhere) = (Fake::start().await, Fake::start().await);
    elsewhere.on("/token", bytes(br#"{"token": "t"}"#));
    let realm = format!("Bearer realm=\"http://{}/token\",service=\"x\"", elsewhere.address);
    fake.on("/v2/", Answer::Challenge(realm.clone()));
    fake.is_private(&realm, "Bearer t");
    let error = fake.pull_as_user().await.unwrap_err();
    assert_eq!(error.reason(), "TokenHostUnknown");
    assert!(error.to_string().contains(&elsewhere.address) && error.to_string().contains("tokenHost"), "{error}");
    assert!(elsewhere.asked.lock().unwrap().is_empty(), "it was asked");

    let named = Access { token_host: Some(elsewhere.address.clone()), ..fake.access() };
    let pulled = Pull { access: named, ..fake.of(fake.image()) }.pull(|_, _| ()).await.unwrap();
    assert_eq!(pulled.component.bytes(), COMPONENT);
    assert!(elsewhere.was_asked(&format!("GET /token as {BASIC}")));

    assert_eq!(fake.pull().await.unwrap().component.bytes(), COMPONENT, "who has none may ask there");
    assert!(elsewhere.was_asked("GET /token as anonymous"));
}

#[tokio::test]
async fn a_server_of_tokens_that_redirects_hands_on_no_credentials() {
    let (fake, elsewhere) = (Fake::start().await, Fake::start().await);
    elsewhere.on("/token", bytes(br#"{"token": "t"}"#));
    fake.on("/token", Answer::Redirect(format!("http://{}/token", elsewhere.address)));
    fake.is_private(&format!("Bearer realm=\"http://{}/token\"", fake.address), "Bearer t");
    fake.pull_as_user().await.unwrap();
    assert!(elsewhere.was_asked("GET /token as anonymous") && !elsewhere.was_asked("as Basic"));
}

#[tokio::test]
async fn a_redirect_to_what_is_closer_than_the_registry_is_not_followed() {
    for to in ["http://169.254.169.254/latest/meta-data", "file:///etc/passwd", "ftp://127.0.0.1/"] {
        let fake = Fake::start().await;
        fake.on("/v2/a/manifests/1", Answer::Redirect(to.to_owned()));
        let error = fake.refusal().await;
        assert_eq!(error.reason(), "RegistryFailed", "{error}");
        assert!(error.to_string().contains("sends requests on"), "{error}");
    }
}

/// Finds the registry in a public network, and all other names on this machine.
struct PublicRegistry;

impl LookUp for PublicRegistry {
    fn addresses(&self, name: String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        let address = if name == "registry.test" { "203.0.113.1" } else { "127.0.0.1" };
        Box::pin(async { Ok(vec![address.parse().unwrap()]) })
    }
}

#[tokio::test]
async fn a_name_that_means_this_machine_is_not_asked_for_a_registry_elsewhere() {
    let elsewhere = Fake::start().await;
    let image: ImageRef = "oci://registry.test/a:1".parse().unwrap();
    let access = Access { plain_http: true, ..Access::default() };
    let connection = Connection::prepare(&image, &access, Operation::Pull, Arc::new(PublicRegistry)).unwrap();
    let port = elsewhere.address.rsplit_once(':').unwrap().1;
    let url = connection.url(&format!("http://inside.test:{port}/v2/")).unwrap();
    let refused = connection.send(reqwest::Request::new(http::Method::GET, url)).await.unwrap_err();
    assert_eq!(refused.reason(), "RegistryFailed");
    assert!(refused.to_string().contains("inside.test"), "{refused}");
    assert!(elsewhere.asked.lock().unwrap().is_empty(), "it was asked");
}

#[tokio::test]
async fn nothing_that_an_answer_says_beside_its_code_is_in_the_error() {
    const SECRET: &str = r#"{"errors":[{"code":"a secret","message":"a secret"}],"a secret":1}"#;
    let fake = Fake::start().await;
    let mut errors = Vec::new();
    for code in [400, 401, 403, 404, 418, 429, 500, 599] {
        fake.on("/v2/a/manifests/1", Answer::Status(code, SECRET));
        errors.push(fake.refusal().await);
        fake.on(&blob_of(COMPONENT), Answer::Status(code, SECRET));
    }
    for answer in [SECRET, r#""a secret""#, r#"{"mediaType":"a secret","layers":"a secret"}"#] {
        let fake = Fake::start().await;
        fake.on("/v2/a/manifests/1", Answer::Status(200, answer));
        errors.push(fake.refusal().await);
        fake.on("/token", Answer::Status(200, answer));
        fake.on("/v2/", Answer::Challenge(format!("Bearer realm=\"http://{}/token\"", fake.address)));
        errors.push(fake.refusal().await);
        fake.on("/token", Answer::Status(500, answer));
        errors.push(fake.refusal().await);
    }
    assert_eq!(errors.len(), 17);
    for error in errors {
        assert!(!error.to_string().contains("a secret"), "{error}");
    }
}

#[tokio::test]
async fn a_token_that_is_no_header_is_an_error_of_the_registry() {
    let fake = Fake::start().await;
    fake.on("/token", bytes(br#"{"token": "a\nb"}"#));
    fake.on("/v2/", Answer::Challenge(format!("Bearer realm=\"http://{}/token\"", fake.address)));
    assert_eq!(fake.refusal().await.reason(), "RegistryFailed");
}

#[tokio::test]
async fn an_answer_without_an_end_is_read_up_to_its_bound() {
    let fake = Fake::start().await;
    fake.on("/v2/a/manifests/1", Answer::Endless);
    assert_eq!(fake.refusal().await.reason(), "WrongMediaType");
    fake.on("/v2/", Answer::Challenge(format!("Bearer realm=\"http://{}/token\"", fake.address)));
    fake.on("/token", Answer::Endless);
    assert_eq!(fake.refusal().await.reason(), "RegistryFailed");
}

#[tokio::test]
async fn a_registry_that_is_down_is_unreachable() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let image: ImageRef = format!("oci://{free}/a:1").parse().unwrap();
    let error = Fake::default().of(image).pull(|_, _| ()).await.unwrap_err();
    assert_eq!(error.reason(), "RegistryUnreachable");
    assert!(error.to_string().contains(&free.to_string()), "{error}");
}

#[tokio::test]
async fn an_unsigned_image_is_refused_before_it_is_pulled() {
    let fake = Fake::start().await;
    let key = include_str!("signature/key_of_a_test.pub");
    let verify = Some(Verify { keys: vec![key.to_owned()], ..Verify::default() });
    let error = Pull { verify, ..fake.of(fake.image()) }.pull(|_, _| ()).await.unwrap_err();
    assert_eq!(error.reason(), "SignatureMissing");
    assert!(!fake.was_asked("/blobs/"));
}

#[tokio::test]
async fn an_identity_is_recognised_by_the_signature_beside_an_image() {
    let (fake, sigstore) = (Fake::start().await, Sigstore::new());
    let (manifest, _) = component();
    let digest = Digest::of(&manifest);
    fake.sign_simply(digest, sigstore.simple(digest, SUBJECT, SystemTime::now()));
    let by = |subject: &str| {
        let (issuer, subject, trusted_root) = (ISSUER.to_owned(), subject.to_owned(), sigstore.trusted_root());
        let verify = Verify { keyless: vec![Keyless { issuer, subject, trusted_root }], keys: Vec::new() };
        Pull { verify: Some(verify), ..fake.of(fake.image()) }
    };
    let refused = by("https://example.org/other").pull(|_, _| ()).await.unwrap_err();
    assert_eq!(refused.reason(), "SignatureInvalid");
    assert!(!fake.was_asked(&blob_of(COMPONENT)), "what is refused is not pulled");
    assert_eq!(by(SUBJECT).pull(|_, _| ()).await.unwrap().digest, digest);
}

/// The media type of a bundle.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

impl Fake {
    /// Puts a signature beside the image in the older form.
    fn sign_simply(&self, digest: Digest, (payload, annotations): (Vec<u8>, BTreeMap<String, String>)) {
        self.on(&blob_of(&payload), bytes(&payload));
        let mut beside: Value = serde_json::from_slice(&image(PAYLOAD, &payload, payload.len())).unwrap();
        beside["layers"][0]["annotations"] = json!(annotations);
        self.on(&format!("/v2/a/manifests/sha256-{}.sig", digest.full()), bytes(beside.to_string().as_bytes()));
    }

    /// Stores the manifest of a bundle, and returns its entry in an index.
    fn bundle(&self, bundle: &[u8]) -> Value {
        let manifest = image(BUNDLE, bundle, bundle.len());
        self.on(&blob_of(bundle), bytes(bundle));
        let digest = sha256(Digest::of(&manifest));
        self.on(&format!("/v2/a/manifests/{digest}"), bytes(&manifest));
        json!({ "mediaType": MANIFEST, "artifactType": BUNDLE, "digest": digest, "size": manifest.len() })
    }

    /// Pulls the image, which must be signed with this key.
    async fn pull_signed(&self, key: &KeyPair) -> Result<Pulled, RegistryError> {
        let verify = Some(Verify { keys: vec![key.public_key_pem()], ..Verify::default() });
        Pull { verify, ..self.of(self.image()) }.pull(|_, _| ()).await
    }
}

fn index(entries: &[Value]) -> Answer {
    bytes(json!({ "schemaVersion": 2, "manifests": entries }).to_string().as_bytes())
}

fn referrers(digest: Digest) -> String {
    format!("/v2/a/referrers/{}", sha256(digest))
}

#[tokio::test]
async fn no_answer_about_other_signatures_hides_a_good_one_in_the_older_form() {
    let (key, digest) = (KeyPair::generate().unwrap(), Digest::of(&component().0));
    for code in [400, 401, 403, 404, 405, 429, 500, 501] {
        let fake = Fake::start().await;
        fake.on(&referrers(digest), Answer::Status(code, ""));
        let unsigned = fake.pull_signed(&key).await.unwrap_err();
        let expected = if [400, 404, 405, 501].contains(&code) { "SignatureMissing" } else { "SignatureInvalid" };
        assert_eq!(unsigned.reason(), expected, "{code}: {unsigned}");
        fake.sign_simply(digest, simple_by_key(&key, digest));
        fake.pull_signed(&key).await.unwrap();
    }
}

#[tokio::test]
async fn no_broken_place_or_entry_and_no_number_of_others_hides_a_good_bundle() {
    let (key, other, digest) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap(), Digest::of(&component().0));
    let good = bundle_by_key(&key, digest);
    let fake = Fake::start().await;
    let mut entries: Vec<_> = (0..32).map(|number| fake.bundle(format!("junk {number}").as_bytes())).collect();
    entries.push(fake.bundle(bundle_by_key(&other, digest).as_bytes()));
    // What it names is not there, is broken, is too large, or is no digest.
    entries.push(json!({ "artifactType": BUNDLE, "digest": sha256(Digest::of(b"gone")) }));
    fake.on(&format!("/v2/a/manifests/{}", sha256(Digest::of(b"broken"))), bytes(b"broken"));
    entries.push(json!({ "artifactType": BUNDLE, "digest": sha256(Digest::of(b"broken")) }));
    fake.on(&format!("/v2/a/manifests/{}", sha256(Digest::of(b"failing"))), Answer::Status(500, ""));
    entries.push(json!({ "artifactType": BUNDLE, "digest": sha256(Digest::of(b"failing")) }));
    entries.push(json!({ "artifactType": BUNDLE, "digest": "words" }));
    entries.push(json!(7));
    fake.on(&referrers(digest), index(&entries));
    let refused = fake.pull_signed(&key).await.unwrap_err();
    assert_eq!(refused.reason(), "SignatureInvalid");
    assert!(refused.to_string().contains("more"), "{refused}");

    entries.push(fake.bundle(good.as_bytes()));
    fake.on(&referrers(digest), index(&entries));
    fake.pull_signed(&key).await.unwrap();
    // A place that fails or that holds junk hides none either.
    for answer in [Answer::Status(500, ""), Answer::Status(403, ""), bytes(b"junk")] {
        fake.on(&format!("/v2/a/manifests/sha256-{}.sig", digest.full()), answer);
        fake.pull_signed(&key).await.unwrap();
    }
    // The tag of referrers is asked where the API is not there, or fails.
    fake.on(&format!("/v2/a/manifests/sha256-{}", digest.full()), index(&entries));
    for code in [403, 404, 405, 500] {
        fake.on(&referrers(digest), Answer::Status(code, ""));
        fake.pull_signed(&key).await.unwrap();
    }
}

#[tokio::test]
async fn the_search_ends_at_the_first_good_signature() {
    let (key, digest, fake) = (KeyPair::generate().unwrap(), Digest::of(&component().0), Fake::start().await);
    fake.sign_simply(digest, simple_by_key(&key, digest));
    fake.pull_signed(&key).await.unwrap();
    assert!(!fake.was_asked("/referrers/"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_ends_in_a_timeout() {
    let image: ImageRef = "oci://localhost/a:1".parse().unwrap();
    let error = super::connection::timed(&image, std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(error.reason(), "RegistryTimedOut");
}
