//! A mutating webhook, served by the test over TLS, like those that inject sidecars; one that never answers; and the
//! registration of a host's own.

use std::convert::Infallible;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::Scene;
use crate::host::program;
use crate::kinds::{Kind, MUTATING_WEBHOOK, VALIDATING_WEBHOOK};
use crate::kube::documents;

/// Registers what `hotshoe webhooks` prints for a plugin's admission, under this name and for the namespace of a scene.
pub async fn register(scene: &Scene, plugin: &Path, url: &str, authority: &Path, name: &str, more: &[&str]) {
    let mut print = Command::new(program());
    print.arg("webhooks").arg(plugin).args(["--offline", "--url", url, "--ca-file"]).arg(authority);
    print.args(["--watch-namespace", &scene.namespace]).args(more);
    let output = print.output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let objects = documents(&String::from_utf8_lossy(&output.stdout)).into_iter();
    for mut object in objects.filter(|object| object["webhooks"].is_array()) {
        object["metadata"]["name"] = name.into();
        // Many hosts run here, and an answer may take longer than in a cluster.
        object["webhooks"][0]["timeoutSeconds"] = 10.into();
        scene.admin.apply("tests", &object).await.expect("a registration");
    }
}

/// Removes what [`register`] has registered.
pub async fn deregister(scene: &Scene, name: &str) {
    for kind in [&MUTATING_WEBHOOK, &VALIDATING_WEBHOOK] {
        scene.admin.delete(kind, "", name).await.expect("the registration goes");
    }
}

/// Sends a request to webhooks at this address, as a client that is not the API server and trusts this CA. Returns the code
/// and the text.
///
/// # Errors
/// When there is no answer.
pub async fn post(url: &str, authority: &Path, path: &str, body: Vec<u8>) -> Result<(u16, String), String> {
    let mut config = kube::Config::new(url.parse().expect("a URL"));
    let pem = std::fs::read_to_string(authority).expect("a certificate");
    let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    config.root_cert = Some(vec![STANDARD.decode(base64).expect("base64")]);
    let client = kube::Client::try_from(config).expect("a client");
    let request = Request::post(path).header("content-type", "application/json").body(Body::from(body));
    let answer = client.send(request.expect("a request")).await.map_err(|error| format!("{error:?}"))?;
    let code = answer.status().as_u16();
    let text = answer.into_body().collect().await.map_err(|error| format!("{error:?}"))?.to_bytes();
    Ok((code, String::from_utf8_lossy(&text).into_owned()))
}

/// Changes an object: returns a JSON patch of it.
pub type Mutate = fn(&Value) -> Value;

/// A webhook that is registered and served until it is dropped.
pub struct Webhook {
    name: String,
    served: JoinHandle<()>,
}

impl Webhook {
    /// Serves a webhook for all writes of a kind in the namespace of a scene; it is in force a moment later.
    pub async fn of(scene: &Scene, kind: &Kind, mutate: Mutate) -> Self {
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .expect("a certificate with its key");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let served = tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), mutate));
        let name = format!("webhook-{}", scene.namespace);
        let configuration = json!({
            "apiVersion": MUTATING_WEBHOOK.api_version(),
            "kind": MUTATING_WEBHOOK.kind,
            "metadata": { "name": name },
            "webhooks": [{
                "name": "inject.tests.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "clientConfig": {
                    "url": format!("https://{address}/"),
                    "caBundle": STANDARD.encode(certified.cert.pem()),
                },
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": scene.namespace } },
                "rules": [{
                    "apiGroups": [kind.group], "apiVersions": [kind.version], "resources": [kind.plural],
                    "operations": ["CREATE", "UPDATE"],
                }],
            }],
        });
        scene.admin.create(&configuration).await.expect("a webhook");
        Self { name, served }
    }

    /// Removes the webhook's registration.
    pub async fn remove(self, scene: &Scene) {
        scene.admin.delete(&MUTATING_WEBHOOK, "", &self.name).await.expect("the webhook goes");
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.served.abort();
    }
}

/// A webhook that accepts connections and never answers, as long as it is not dropped.
pub struct HangingWebhook {
    name: String,
    _listener: std::net::TcpListener,
}

impl HangingWebhook {
    /// Registers such a webhook for all writes of a kind in the namespace of a scene, for longer than a host waits.
    pub async fn of(scene: &Scene, kind: &Kind) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let name = format!("hanging-{}.example.com", scene.namespace);
        let configuration = json!({
            "apiVersion": MUTATING_WEBHOOK.api_version(), "kind": MUTATING_WEBHOOK.kind,
            "metadata": { "name": name },
            "webhooks": [{
                "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
                "clientConfig": { "url": format!("https://{address}/") },
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": scene.namespace } },
                "rules": [{
                    "apiGroups": [kind.group], "apiVersions": [kind.version], "resources": [kind.plural],
                    "operations": ["*"],
                }],
            }],
        });
        scene.admin.create(&configuration).await.expect("the webhook is there");
        Self { name, _listener: listener }
    }

    /// Removes the webhook's registration.
    pub async fn remove(self, scene: &Scene) {
        scene.admin.delete(&MUTATING_WEBHOOK, "", &self.name).await.expect("the webhook goes");
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, mutate: Mutate) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, tls.clone(), mutate));
    }
}

async fn answer(stream: TcpStream, tls: TlsAcceptor, mutate: Mutate) {
    // A client that closes the connection does not matter: tests look at what the API server stored.
    let Ok(stream) = tls.accept(stream).await else { return };
    let service = service_fn(move |request| review(request, mutate));
    drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

async fn review(request: Request<Incoming>, mutate: Mutate) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let patch = mutate(&review["request"]["object"]);
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"],
            "allowed": true,
            "patchType": "JSONPatch",
            "patch": STANDARD.encode(patch.to_string()),
        },
    });
    Ok(Response::new(Full::new(answer.to_string().into())))
}
