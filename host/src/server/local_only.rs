//! Admits admin commands from this machine only, and from no page that a browser there shows.

use std::net::{IpAddr, SocketAddr};

use axum::Extension;
use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use tokio::net::TcpStream;

use crate::server::{drain, problem};

/// Both ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// Who calls.
    peer: IpAddr,
    /// Where it came in, as far as that is known.
    here: Option<IpAddr>,
}

impl Ends {
    /// The ends of a connection that a peer has opened.
    pub(super) fn of(stream: &TcpStream, peer: SocketAddr) -> Self {
        Self { peer: peer.ip(), here: stream.local_addr().ok().map(|address| address.ip()) }
    }

    /// Whether both are on this machine.
    pub(super) fn are_loopback(self) -> bool {
        // A connection to [::] shows an IPv4 address as an IPv6 one.
        let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
        // A mesh's proxy hands on what comes from far away, from a loopback address to the Pod's own.
        is_loopback(self.peer) && self.here.is_some_and(is_loopback)
    }
}

/// Denies requests that do not come from this machine.
pub(super) async fn from_here(Extension(ends): Extension<Ends>, request: Request, next: Next) -> Response {
    match why_not(ends, request.headers()) {
        None => next.run(request).await,
        Some(why) => {
            let error = format!("{} is not for you: {why}", request.uri().path());
            drain(request.into_body()).await;
            problem(StatusCode::FORBIDDEN, error)
        }
    }
}

/// Why a peer may not have a component run, or see what is in objects.
fn why_not(ends: Ends, headers: &HeaderMap) -> Option<String> {
    if !ends.are_loopback() {
        let Ends { peer, here } = ends;
        let here = here.map_or_else(|| "another address".to_owned(), |here| here.to_string());
        return Some(format!(
            "it answers only on a loopback address, and you come from {peer} to {here}; use `kubectl port-forward` or `kubectl exec`, or run hotshoe on the host's machine"
        ));
    }
    // A page that a browser here has open reaches loopback as well. It cannot leave this header out, or
    // say that it asks another host than the one whose name it made lead here.
    if headers.contains_key(header::ORIGIN) {
        return Some("it does not answer web pages".to_owned());
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let names_loopback = host.parse().is_ok_and(|host: Authority| is_name_of_loopback(host.host()));
    (!names_loopback).then(|| "it answers only as localhost, 127.0.0.1 or [::1] (the header Host)".to_owned())
}

fn is_name_of_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(peer: &str, here: Option<&str>, headers: &[(header::HeaderName, &'static str)]) -> Option<String> {
        let ends = Ends { peer: peer.parse().unwrap(), here: here.map(|here| here.parse().unwrap()) };
        let value = header::HeaderValue::from_static;
        why_not(ends, &headers.iter().map(|(name, text)| (name.clone(), value(text))).collect())
    }

    fn to_localhost(peer: &str, here: &str) -> Option<String> {
        asked(peer, Some(here), &[(header::HOST, "localhost:8080")])
    }

    #[test]
    fn who_is_on_loopback_is_let_through() {
        for address in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(to_localhost(address, address), None, "{address}");
        }
    }

    #[test]
    fn a_remote_client_is_refused_with_what_to_do_instead() {
        for address in ["10.0.0.7", "192.168.1.2", "0.0.0.0", "fe80::1", "::ffff:10.0.0.7", "2001:db8::1"] {
            let why = to_localhost(address, "127.0.0.1").unwrap();
            assert!(why.contains("loopback") && why.contains("port-forward"), "{address}: {why}");
        }
    }

    #[test]
    fn a_proxy_on_loopback_that_hands_on_what_came_to_the_pod_is_elsewhere() {
        for here in ["10.0.0.7", "::ffff:10.0.0.7", "2001:db8::1"] {
            let why = to_localhost("127.0.0.6", here).unwrap();
            assert!(why.contains("127.0.0.6") && why.contains(here), "{why}");
        }
        assert!(
            asked("127.0.0.1", None, &[(header::HOST, "localhost")]).is_some(),
            "without a local address it is remote"
        );
    }

    #[test]
    fn a_web_page_is_refused_wherever_its_browser_is() {
        for origin in ["https://example.com", "http://127.0.0.1:8080", "null"] {
            let headers = [(header::HOST, "localhost"), (header::ORIGIN, origin)];
            assert!(asked("127.0.0.1", Some("127.0.0.1"), &headers).is_some_and(|why| why.contains("web pages")));
        }
    }

    #[test]
    fn a_name_that_was_made_to_lead_here_is_refused() {
        let named = |host: &'static str| asked("127.0.0.1", Some("127.0.0.1"), &[(header::HOST, host)]);
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:8080", "127.0.0.2:80"] {
            assert_eq!(named(host), None, "{host}");
        }
        for host in
            ["example.com", "localhost.example.com:8080", "127.0.0.1.example.com", "10.0.0.7", "0.0.0.0", "", " "]
        {
            assert!(named(host).is_some_and(|why| why.contains("localhost")), "{host}");
        }
        assert!(asked("127.0.0.1", Some("127.0.0.1"), &[]).is_some(), "without any");
    }
}
