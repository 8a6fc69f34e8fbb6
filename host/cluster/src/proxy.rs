//! The proxy through which the API server is reached, if there is one: the `proxy-url` of the kubeconfig or, as for kubectl,
//! that of the environment. In a Pod the API server is reached directly: there, a proxy is meant for what is outside.

use std::net::IpAddr;

use anyhow::Context;
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use kube::config::Kubeconfig;
use tokio::net::TcpStream;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt};

/// Makes TCP connections to servers, directly or through a proxy.
pub(super) type Dial = BoxCloneSyncService<Uri, TokioIo<TcpStream>, BoxError>;

/// The port of a SOCKS proxy whose URL names none (RFC 1928).
const SOCKS_PORT: u16 = 1080;

/// A proxy that connections are made through.
#[derive(Clone, Debug)]
pub(super) struct Proxy {
    /// The URL and the credentials. The URL has no password.
    at: Intercept,
    protocol: Protocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// `CONNECT` of HTTP.
    Http,
    /// SOCKS 5. The names of servers are resolved here, or by the proxy (`socks5h`).
    Socks { resolves_here: bool },
}

/// A connection cannot be made through the proxy.
#[derive(Debug, thiserror::Error)]
#[error(
    "no connection through the proxy {proxy}, which the kubeconfig (proxy-url) or the environment (HTTPS_PROXY) names"
)]
struct ProxyError {
    proxy: String,
    source: BoxError,
}

impl Proxy {
    /// Finds the proxy for the server of a context. Loopback addresses are reached directly, unless the kubeconfig says
    /// otherwise.
    ///
    /// # Errors
    /// If the URL of the proxy cannot be used.
    pub(super) fn find(kubeconfig: &Kubeconfig, context: &str, server: &Uri) -> anyhow::Result<Option<Self>> {
        match url_in(kubeconfig, context) {
            Some(url) => Self::named(url, server).map(Some),
            None if is_loopback(server) => Ok(None),
            None => Matcher::from_env().intercept(server).map(Self::at).transpose(),
        }
    }

    fn named(url: &str, server: &Uri) -> anyhow::Result<Self> {
        let at = Matcher::builder().all(url).build().intercept(server);
        // Without the URL: it may contain a password.
        Self::at(at.context(
            "the proxy-url of the kubeconfig is no URL of a proxy; write http://HOST:PORT or socks5://HOST:PORT",
        )?)
    }

    fn at(at: Intercept) -> anyhow::Result<Self> {
        let protocol = match at.uri().scheme_str() {
            Some("http") | None => Protocol::Http,
            Some("socks5") => Protocol::Socks { resolves_here: true },
            Some("socks5h") => Protocol::Socks { resolves_here: false },
            Some(scheme) => anyhow::bail!(
                "the proxy {} is one for {scheme}, which is not supported; name one by http:// or socks5:// in the \
                 kubeconfig (proxy-url) or the environment (HTTPS_PROXY), or except the API server with NO_PROXY",
                host(&at)
            ),
        };
        Ok(Self { at, protocol })
    }

    /// Returns what dials servers through this proxy.
    pub(super) fn dial(&self, tcp: HttpConnector) -> Dial {
        let proxy = host(&self.at);
        let failed = move |source: BoxError| ProxyError { proxy: proxy.clone(), source }.into();
        match self.protocol {
            Protocol::Http => {
                let mut tunnel = Tunnel::new(self.at.uri().clone(), tcp);
                if let Some(credentials) = self.at.basic_auth() {
                    tunnel = tunnel.with_auth(credentials.clone());
                }
                BoxCloneSyncService::new(tunnel.map_err(move |error| failed(error.into())))
            }
            Protocol::Socks { resolves_here } => {
                let mut socks = SocksV5::new(with_port(self.at.uri()), tcp).local_dns(resolves_here);
                if let Some((user, password)) = self.at.raw_auth() {
                    socks = socks.with_auth(user.to_owned(), password.to_owned());
                }
                BoxCloneSyncService::new(socks.map_err(move |error| failed(error.into())))
            }
        }
    }
}

/// Returns the `proxy-url` of the cluster of a context.
fn url_in<'a>(kubeconfig: &'a Kubeconfig, context: &str) -> Option<&'a str> {
    let named = kubeconfig.contexts.iter().find(|named| named.name == context)?;
    let cluster = &named.context.as_ref()?.cluster;
    let named = kubeconfig.clusters.iter().find(|named| named.name == *cluster)?;
    named.cluster.as_ref()?.proxy_url.as_deref().filter(|url| !url.is_empty())
}

/// Returns whether a server is on this machine. No tool of Kubernetes asks a proxy of the environment for such a one.
fn is_loopback(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Returns the host and the port of a proxy, for messages.
fn host(at: &Intercept) -> String {
    let host = at.uri().host().unwrap_or("without a name");
    at.uri().port_u16().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn with_port(proxy: &Uri) -> Uri {
    if proxy.port().is_some() {
        return proxy.clone();
    }
    let authority = format!("{}:{SOCKS_PORT}", proxy.host().unwrap_or_default());
    let with_port = Uri::builder().scheme("socks5").authority(authority).path_and_query("/").build();
    with_port.unwrap_or_else(|_| proxy.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use parking_lot::Mutex;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
    use tokio::net::TcpListener;

    use super::*;
    use crate::client::{ApiCall, Cluster};
    use crate::error::ApiError;
    use crate::identity::{Identity, Permit};
    use crate::served;

    /// What a proxy was asked for: the way and the server, and the credentials.
    type Asked = Arc<Mutex<Vec<(String, String)>>>;

    /// Serves a proxy that speaks `CONNECT` and SOCKS 5.
    async fn proxy() -> (u16, Asked) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, asked) = (listener.local_addr().unwrap().port(), Asked::default());
        let seen = asked.clone();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(relay(client, seen.clone()));
            }
        });
        (port, asked)
    }

    async fn relay(mut client: TcpStream, asked: Asked) {
        let (server, credentials) = match client.read_u8().await.unwrap() {
            5 => socks(&mut client).await,
            _ => connect(&mut client).await,
        };
        asked.lock().push((server.clone(), credentials));
        let (_, address) = server.split_once(' ').unwrap();
        let mut server = TcpStream::connect(address).await.unwrap();
        drop(copy_bidirectional(&mut client, &mut server).await);
    }

    async fn connect(client: &mut TcpStream) -> (String, String) {
        let mut head = String::from("C");
        while !head.ends_with("\r\n\r\n") {
            head.push(client.read_u8().await.unwrap().into());
        }
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut words = head.split_whitespace();
        let server = words.nth(1).unwrap();
        let credentials = head.lines().find(|line| line.to_ascii_lowercase().starts_with("proxy-auth"));
        let credentials = credentials.and_then(|line| line.rsplit_once(' ')).map_or("", |(_, encoded)| encoded);
        let credentials = String::from_utf8(STANDARD.decode(credentials).unwrap()).unwrap();
        (format!("CONNECT {server}"), credentials)
    }

    /// RFC 1928, with names and passwords by RFC 1929.
    async fn socks(client: &mut TcpStream) -> (String, String) {
        let text = async |client: &mut TcpStream| {
            let mut bytes = vec![0; client.read_u8().await.unwrap().into()];
            client.read_exact(&mut bytes).await.unwrap();
            bytes
        };
        let methods = text(client).await;
        let method = if methods.contains(&2) { 2 } else { 0 };
        client.write_all(&[5, method]).await.unwrap();
        let mut credentials = String::new();
        if method == 2 {
            assert_eq!(client.read_u8().await.unwrap(), 1);
            let (user, password) = (text(client).await, text(client).await);
            credentials = format!("{}:{}", String::from_utf8_lossy(&user), String::from_utf8_lossy(&password));
            client.write_all(&[1, 0]).await.unwrap();
        }
        let mut request = [0; 4];
        client.read_exact(&mut request).await.unwrap();
        let (way, host) = match request[3] {
            1 => ("address", std::net::Ipv4Addr::from(client.read_u32().await.unwrap()).to_string()),
            3 => ("name", String::from_utf8(text(client).await).unwrap()),
            other => panic!("a server of type {other}"),
        };
        let port = client.read_u16().await.unwrap();
        client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
        (format!("{way} {host}:{port}"), credentials)
    }

    /// Connects to an API server through a proxy.
    async fn through(proxy: &str, server: &str) -> anyhow::Result<Cluster> {
        let cluster = json!({ "server": server, "proxy-url": proxy });
        Cluster::connect(&served::options(&served::kubeconfig_of(&cluster))).await
    }

    async fn get(cluster: &Cluster) -> Result<String, ApiError> {
        let call = ApiCall::get("get", &"ConfigMap n/a", "/a".to_owned());
        cluster.send(call, &Identity::Host, &Permit::unlimited()).await
    }

    #[tokio::test]
    async fn the_api_server_is_reached_through_the_proxy_of_the_kubeconfig() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("localhost:{}", listener.local_addr().unwrap().port());
        let answer = Router::new().fallback(|| std::future::ready("it is there"));
        tokio::spawn(async move { axum::serve(listener, answer).await });
        for (scheme, user, way, credentials) in [
            ("http", "", "CONNECT localhost", ""),
            ("http", "me:p%40ss@", "CONNECT localhost", "me:p@ss"),
            ("socks5", "", "address 127.0.0.1", ""),
            ("socks5h", "", "name localhost", ""),
            ("socks5h", "me:p%40ss@", "name localhost", "me:p@ss"),
        ] {
            let (port, asked) = proxy().await;
            let url = format!("{scheme}://{user}127.0.0.1:{port}");
            let cluster = through(&url, &format!("http://{server}")).await.unwrap();
            assert_eq!(get(&cluster).await.unwrap(), "it is there", "{url}");
            let expected = format!("{way}:{}", server.split_once(':').unwrap().1);
            assert_eq!(*asked.lock(), [(expected, credentials.to_owned())], "{url}");
        }
    }

    #[tokio::test]
    async fn a_proxy_that_is_away_is_named_without_its_password() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        for scheme in ["http", "socks5"] {
            let url = format!("{scheme}://me:secret@127.0.0.1:{port}");
            let cluster = through(&url, "http://127.0.0.1:1").await.unwrap();
            let error = get(&cluster).await.unwrap_err().to_string();
            assert!(error.contains(&format!("through the proxy 127.0.0.1:{port}")), "{error}");
            assert!(error.contains("failed to create underlying connection") && !error.contains("secret"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_proxy_that_cannot_be_used_is_refused_at_once_and_its_password_is_not_shown() {
        for (url, says) in [
            ("https://me:secret@proxy.example.com:3129", "proxy.example.com:3129 is one for https"),
            ("socks4://me:secret@proxy.example.com", "proxy.example.com is one for socks4"),
            ("ftp://me:secret@proxy.example.com", "is no URL of a proxy"),
        ] {
            let error = format!("{:#}", through(url, "https://api.example.com").await.err().unwrap());
            assert!(error.contains(says) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn a_socks_proxy_without_a_port_has_that_of_its_protocol() {
        let port = |url: &str| with_port(&url.parse().unwrap()).port_u16();
        assert_eq!(
            (port("socks5://proxy"), port("socks5h://[::1]"), port("socks5://proxy:9")),
            (Some(1080), Some(1080), Some(9))
        );
    }

    #[test]
    fn only_servers_on_this_machine_are_reached_directly_whatever_the_environment_says() {
        for server in ["https://127.0.0.1:6443", "https://127.9.9.9", "https://localhost:1", "https://[::1]:6443"] {
            assert!(is_loopback(&server.parse().unwrap()), "{server}");
        }
        for server in ["https://10.0.0.1", "https://localhost.example.com", "https://[fd00::1]:6443"] {
            assert!(!is_loopback(&server.parse().unwrap()), "{server}");
        }
    }
}
