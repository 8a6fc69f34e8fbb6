//! Metrics by TLS, only for clients that the API server allows to read them.

use std::path::Path;
use std::process::Command;

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::host::program;
use hotshoe_tests::{ControlPlane, Host, Scene, repository};
use http::{Request, StatusCode};
use kube::client::Body;
use serde_json::json;
use tempfile::TempDir;

use super::run_alone;

/// A client that trusts only this certificate, or any.
fn client(address: &str, trusted: Option<&[u8]>, token: Option<&str>) -> kube::Client {
    let mut config = kube::Config::new(format!("https://{address}").parse().expect("an address"));
    config.accept_invalid_certs = trusted.is_none();
    config.root_cert = trusted.map(|certificate| vec![certificate.to_vec()]);
    config.tls_server_name = Some("localhost".to_owned());
    config.auth_info.token = token.map(|token| token.to_owned().into());
    config.default_retry = false;
    kube::Client::try_from(config).expect("a client")
}

/// Requests the metrics, and returns the status code.
async fn scrape(client: &kube::Client) -> Result<StatusCode, String> {
    get(client, "/metrics").await
}

/// Requests a path, and returns the status code.
async fn get(client: &kube::Client, path: &str) -> Result<StatusCode, String> {
    let request = Request::get(path).body(Body::empty()).expect("a request");
    match client.send(request).await {
        Ok(response) => Ok(response.status()),
        Err(error) => Err(format!("{error:?}")),
    }
}

/// Puts a new certificate into a folder, and returns it.
fn renew(folder: &Path) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).expect("a key");
    std::fs::write(folder.join("tls.crt"), made.cert.pem()).expect("a certificate");
    made.cert.der().to_vec()
}

/// Applies what `hotshoe rbac --metrics-secure` prints.
async fn install(plane: &ControlPlane) {
    let mut rbac = Command::new(program());
    rbac.arg("rbac").arg(repository("plugins/memcached")).args(["--offline", "--metrics-secure"]);
    let output = rbac.output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    plane.admin.apply_manifest(&String::from_utf8_lossy(&output.stdout)).await;
}

async fn start(scene: &Scene, more: &[&str]) -> Host {
    let mut command = scene.start().await.command();
    command.args(["--probes", "127.0.0.1:0", "--metrics-secure"]).args(more);
    let host = Host::spawn(command);
    host.until("the metrics are served", async || host.address()).await;
    host
}

#[test]
fn only_authorized_clients_read_secure_metrics() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let mut scene = Scene::new(plane, "secure-metrics").await;
        install(plane).await;
        for account in ["stranger", "scraper"] {
            plane.create_account(account).await;
        }
        let host = start(&scene, &[]).await;
        scene.watch_log(&host);
        let address = host.address().expect("the host serves");
        let got = async |token: Option<&str>| scrape(&client(&address, None, token)).await;
        assert_eq!(got(None).await, Ok(StatusCode::UNAUTHORIZED));
        assert_eq!(got(Some("made.up.token")).await, Ok(StatusCode::UNAUTHORIZED));
        let stranger = plane.token_of(SYSTEM, "stranger").await;
        // Any account may read this path of the API server, but that is no right to read the metrics.
        assert_eq!(get(&client(&address, None, Some(&stranger)), "/version").await, Ok(StatusCode::NOT_FOUND));
        assert_eq!(got(Some(&stranger)).await, Ok(StatusCode::FORBIDDEN));
        let scraper = plane.token_of(SYSTEM, "scraper").await;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": "scraper-reads-metrics" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "hotshoe-metrics-reader" },
            "subjects": [{ "kind": "ServiceAccount", "namespace": SYSTEM, "name": "scraper" }],
        });
        plane.admin.apply("tests", &binding).await.expect("a binding");
        host.until("the scraper may read", async || match got(Some(&scraper)).await? {
            StatusCode::OK => Ok(()),
            code => Err(code.to_string()),
        })
        .await;
        // A client that tries many unknown tokens is rate limited; one that was allowed before is not.
        let made_up: Vec<String> = (0..20).map(|number| format!("made.up.{number}")).collect();
        let tried = futures::future::join_all(made_up.iter().map(|token| got(Some(token)))).await;
        assert!(tried.contains(&Ok(StatusCode::TOO_MANY_REQUESTS)), "{tried:?}");
        assert!(!tried.contains(&Ok(StatusCode::OK)), "{tried:?}");
        assert_eq!(got(Some(&scraper)).await, Ok(StatusCode::OK));
        let plain = host.ask_port("GET", "/metrics");
        assert!(!matches!(plain, Ok((200, _))), "nothing is served in plain text: {plain:?}");
    });
}

#[test]
fn another_certificate_is_used_without_a_restart() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let mut scene = Scene::new(plane, "certificate").await;
        install(plane).await;
        let folder = TempDir::new().expect("a folder");
        let first = renew(folder.path());
        let host = start(&scene, &["--metrics-cert-dir", &folder.path().to_string_lossy()]).await;
        scene.watch_log(&host);
        let address = host.address().expect("the host serves");
        let by = async |trusted: &[u8]| scrape(&client(&address, Some(trusted), None)).await;
        assert_eq!(by(&first).await, Ok(StatusCode::UNAUTHORIZED), "it is spoken to by TLS");
        let second = renew(folder.path());
        host.until("the new certificate is used", async || by(&second).await.map(drop)).await;
        assert!(by(&first).await.is_err(), "the old one is not");
        host.until_logged(&["new certificate"]).await;
    });
}
