//! A host that reaches the API server through a proxy.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::{ControlPlane, Host, Scene, memcached, run};
use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A proxy that makes tunnels (`CONNECT`) for those who know its password, until it is dropped.
struct Tunnels {
    port: u16,
    made: Arc<AtomicUsize>,
    served: JoinHandle<()>,
}

impl Tunnels {
    async fn serve() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let (port, made) = (listener.local_addr().expect("an address").port(), Arc::<AtomicUsize>::default());
        let counted = made.clone();
        let served = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(tunnel(client, counted.clone()));
            }
        });
        Self { port, made, served }
    }
}

impl Drop for Tunnels {
    fn drop(&mut self) {
        self.served.abort();
    }
}

async fn tunnel(client: TcpStream, made: Arc<AtomicUsize>) -> Option<()> {
    let mut client = BufReader::new(client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        client.read_line(&mut head).await.ok().filter(|read| *read > 0)?;
    }
    // me:secret
    if !head.to_ascii_lowercase().contains("proxy-authorization: basic bwu6c2vjcmv0\r\n") {
        client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await.ok()?;
        return None;
    }
    let mut server = TcpStream::connect(head.split(' ').nth(1)?).await.ok()?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.ok()?;
    made.fetch_add(1, Ordering::Relaxed);
    copy_bidirectional(&mut client, &mut server).await.ok()?;
    Some(())
}

/// The kubeconfig of the host's account, with a proxy.
async fn kubeconfig(proxy: &str) -> NamedTempFile {
    let text =
        fs::read_to_string(ControlPlane::shared().await.kubeconfig_of(SYSTEM, "hotshoe").await).expect("a kubeconfig");
    let mut kubeconfig: Value = serde_saphyr::from_str(&text).expect("a kubeconfig");
    kubeconfig["clusters"][0]["cluster"]["proxy-url"] = proxy.into();
    let file = NamedTempFile::new().expect("a file");
    fs::write(file.path(), kubeconfig.to_string()).expect("a kubeconfig is written");
    file
}

#[test]
fn a_host_serves_parents_through_the_proxy_of_its_kubeconfig() {
    run(async {
        let tunnels = Tunnels::serve().await;
        let kubeconfig = kubeconfig(&format!("http://me:secret@127.0.0.1:{}", tunnels.port)).await;
        let scene = Scene::new(ControlPlane::shared().await, "proxied").await;
        let host = scene.start().await.kubeconfig(kubeconfig.path()).ready().await;
        scene.create(memcached("cache", 1)).await;
        scene.until_condition("cache", "Available", ("True", "Reconciling", "")).await;
        assert!(tunnels.made.load(Ordering::Relaxed) > 0);
        assert!(!host.log().contains("secret"), "{}", host.log());
    });
}

#[test]
fn a_host_whose_proxy_refuses_its_password_or_is_away_says_so_without_the_password() {
    run(async {
        let tunnels = Tunnels::serve().await;
        let scene = Scene::new(ControlPlane::shared().await, "refused-by-a-proxy").await;
        for (proxy, says) in [
            (format!("http://me:other@127.0.0.1:{}", tunnels.port), "proxy authorization required"),
            ("http://me:other@127.0.0.1:1".to_owned(), "onnection refused"),
        ] {
            let kubeconfig = kubeconfig(&proxy).await;
            let host: Host = scene.start().await.kubeconfig(kubeconfig.path()).start();
            let line = host.until_logged(&["no connection through the proxy 127.0.0.1", says]).await;
            assert!(!line.contains("other"), "{line}");
        }
    });
}

#[test]
fn a_proxy_of_the_environment_does_not_hide_a_control_plane_on_this_machine() {
    run(async {
        let scene = Scene::new(ControlPlane::shared().await, "proxy-of-environment").await;
        let mut command = scene.start().await.command();
        command.env("HTTPS_PROXY", "http://127.0.0.1:1").env_remove("NO_PROXY").env_remove("no_proxy");
        Host::spawn(command).ready().await;
    });
}
