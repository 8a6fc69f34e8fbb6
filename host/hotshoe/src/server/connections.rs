//! The connections to a port of the host. Any client that reaches the port can open them, so they are bounded in
//! number, in memory and in time. If there are too many, the oldest connection of the address that has most is closed for
//! a new one. A kubelet or Prometheus sends its request at once, so an attacker that holds many idle connections cannot
//! keep them out.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::server::misdirected::{Misdirected, Scheme};

/// The bounds of the connections to one port.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// How many connections are served at once.
    connections: usize,
    /// How long a client may take for its first bytes, and for the handshake of TLS.
    handshake: Duration,
    /// How long the headers of a request may take to arrive. On a connection for several requests, that includes the
    /// pause before them.
    headers: Duration,
    /// How long a connection may last in all. The answer is short, but the client may stop reading.
    total: Duration,
    /// Whether a connection is kept for further requests. An idle connection occupies a place.
    keep_alive: bool,
}

/// The bounds for metrics and probes: a scrape takes milliseconds, a probe less.
pub(super) const SHORT: Bounds = Bounds {
    connections: 128,
    handshake: Duration::from_secs(5),
    headers: Duration::from_secs(5),
    total: Duration::from_secs(30),
    keep_alive: false,
};
/// The bounds for webhooks. The API server sends many reviews on each connection, and closes one that was idle for 90
/// seconds itself.
pub(super) const WEBHOOKS: Bounds =
    Bounds { headers: Duration::from_secs(120), total: Duration::from_secs(3600), keep_alive: true, ..SHORT };
/// The maximum size of a request's headers, in bytes.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Serves until the process ends, in plain text or by TLS.
pub(super) async fn serve(bounds: Bounds, mut listener: TcpListener, tls: Option<TlsAcceptor>, routes: Router) {
    let mut http = Builder::new();
    http.keep_alive(bounds.keep_alive)
        .max_buf_size(MAX_HEADER_BYTES)
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.headers);
    let misdirected = Misdirected::default();
    let mut places = Places { most: bounds.connections, taken: VecDeque::new() };
    loop {
        let (stream, peer) = Listener::accept(&mut listener).await;
        places.make_room();
        let (http, service) = (http.clone(), TowerToHyperService::new(routes.clone()));
        let (tls, misdirected) = (tls.clone(), misdirected.clone());
        // A client that disconnects, or is too slow, needs no answer.
        let connection = async move {
            let scheme = if tls.is_some() { Scheme::Https } else { Scheme::Http };
            let Ok(Some(stream)) = timeout(bounds.handshake, misdirected.turn_away(stream, scheme)).await else {
                return;
            };
            match tls {
                None => drop(http.serve_connection(TokioIo::new(stream), service).await),
                Some(tls) => {
                    let Ok(Ok(stream)) = timeout(bounds.handshake, tls.accept(stream)).await else { return };
                    drop(http.serve_connection(TokioIo::new(stream), service).await);
                }
            }
        };
        let serving = tokio::spawn(async move { drop(timeout(bounds.total, connection).await) });
        places.taken.push_back((peer.ip(), serving.abort_handle()));
    }
}

/// The connections that are served, the oldest first.
struct Places {
    most: usize,
    taken: VecDeque<(IpAddr, AbortHandle)>,
}

impl Places {
    /// Makes room for one more: closes the oldest connection of the address that has most. So a client that opens many
    /// closes its own, and not those that an API server keeps.
    fn make_room(&mut self) {
        self.taken.retain(|(_, connection)| !connection.is_finished());
        while self.taken.len() >= self.most {
            let mut counts: HashMap<IpAddr, usize> = HashMap::new();
            self.taken.iter().for_each(|(peer, _)| *counts.entry(*peer).or_default() += 1);
            let most = counts.values().max().copied();
            let of_most = self.taken.iter().position(|(peer, _)| counts.get(peer).copied() == most);
            let Some((_, oldest)) = of_most.and_then(|at| self.taken.remove(at)) else { return };
            oldest.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::server::certificate;

    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const UNFINISHED: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n";
    /// Longer than any test takes.
    const LONG: Duration = Duration::from_secs(60);
    const PATIENT: Bounds = Bounds { connections: 2, handshake: LONG, headers: LONG, total: LONG, keep_alive: false };

    async fn server(bounds: Bounds) -> SocketAddr {
        server_with(bounds, None).await
    }

    async fn server_with(bounds: Bounds, tls: Option<TlsAcceptor>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/", get(|| async { "ok" }));
        tokio::spawn(serve(bounds, listener, tls, routes));
        address
    }

    async fn sent(server: SocketAddr, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(server).await.unwrap();
        // If the server closes the connection meanwhile, the rest cannot be sent.
        drop(stream.write_all(text.as_bytes()).await);
        stream
    }

    /// Returns all that the server sends until it closes the connection.
    async fn answer(mut stream: TcpStream) -> String {
        let mut said = Vec::new();
        drop(timeout(LONG / 2, stream.read_to_end(&mut said)).await.expect("the connection stays open"));
        String::from_utf8_lossy(&said).into_owned()
    }

    #[tokio::test]
    async fn headers_that_never_end_are_not_waited_for() {
        let short = Duration::from_millis(20);
        let server = server(Bounds { handshake: short, headers: short, ..PATIENT }).await;
        for text in [UNFINISHED, ""] {
            assert!(!answer(sent(server, text).await).await.contains("200"));
        }
    }

    #[tokio::test]
    async fn a_connection_is_kept_for_more_requests_only_where_that_is_wanted() {
        for (keep_alive, answers) in [(false, 1), (true, 2)] {
            let headers = Duration::from_millis(200);
            let server = server(Bounds { headers, keep_alive, ..PATIENT }).await;
            let said = answer(sent(server, &REQUEST.repeat(2)).await).await;
            assert_eq!(said.matches("HTTP/1.1 200").count(), answers, "{said}");
        }
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_the_answer_is_disconnected() {
        let bounds = Bounds { total: Duration::from_millis(50), ..PATIENT };
        let server = server(bounds).await;
        assert_eq!(answer(sent(server, UNFINISHED).await).await, "", "though its headers may take longer");
    }

    #[tokio::test]
    async fn headers_that_are_too_large_are_refused() {
        let server = server(PATIENT).await;
        let long = format!("{UNFINISHED}Cookie: {}", "a".repeat(4 * MAX_HEADER_BYTES));
        let said = answer(sent(server, &long).await).await;
        // Closing with unread bytes resets the connection, and the reset may arrive before the answer.
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 431"), "{said}");
    }

    #[tokio::test]
    async fn idle_connections_keep_no_client_waiting() {
        let server = server(PATIENT).await;
        let mut idle = Vec::new();
        for text in ["", UNFINISHED, "", UNFINISHED, ""] {
            idle.push(sent(server, text).await);
        }
        assert!(answer(sent(server, REQUEST).await).await.ends_with("ok"));
        // The oldest ones were closed: one of the two places was used by the request.
        idle.truncate(4);
        for stream in idle {
            assert_eq!(answer(stream).await, "");
        }
    }

    #[tokio::test]
    async fn the_address_that_has_most_connections_loses_its_oldest() {
        let open =
            |last: u8| (IpAddr::from([10, 0, 0, last]), tokio::spawn(std::future::pending::<()>()).abort_handle());
        let mut places = Places { most: 4, taken: [open(1), open(2), open(2), open(3)].into() };
        places.make_room();
        let left: Vec<IpAddr> = places.taken.iter().map(|(peer, _)| *peer).collect();
        assert_eq!(left, [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last])));
        places.taken.push_back(open(3));
        places.make_room();
        assert!(places.taken.iter().any(|(peer, _)| *peer == IpAddr::from([10, 0, 0, 1])));
    }

    #[tokio::test]
    async fn a_connection_that_is_not_the_oldest_is_served_to_its_end() {
        let server = server(PATIENT).await;
        let _oldest = sent(server, "").await;
        let mut slow = sent(server, UNFINISHED).await;
        assert!(answer(sent(server, REQUEST).await).await.ends_with("ok"));
        slow.write_all(b"\r\n").await.unwrap();
        assert!(answer(slow).await.ends_with("ok"));
    }

    #[tokio::test]
    async fn plain_http_to_a_port_with_tls_and_the_reverse_are_answered_in_plain_words() {
        let plain = server(PATIENT).await;
        // The beginning of a greeting, which may be longer than what the server reads before it answers.
        let greeting = format!("\u{16}\u{3}\u{1}{}", "x".repeat(600));
        let said = answer(sent(plain, &greeting).await).await;
        assert!(said.starts_with("HTTP/1.0 400 ") && said.contains("Client sent a TLS handshake"), "{said}");
        assert!(answer(sent(plain, REQUEST).await).await.ends_with("ok"));

        let secure = server_with(PATIENT, Some(certificate::acceptor(None, &Default::default()).unwrap())).await;
        let said = answer(sent(secure, REQUEST).await).await;
        assert!(said.starts_with("HTTP/1.0 400 "), "{said}");
        assert!(said.ends_with("Client sent an HTTP request to an HTTPS server.\n"), "{said}");
        assert!(!answer(sent(secure, &greeting).await).await.contains("HTTP"), "it is no plain HTTP");
    }

    #[tokio::test]
    async fn a_connection_that_was_answered_occupies_no_place() {
        let server = server(PATIENT).await;
        let mut waiting = sent(server, UNFINISHED).await;
        for _ in 0..3 {
            assert!(answer(sent(server, REQUEST).await).await.ends_with("ok"));
        }
        waiting.write_all(b"\r\n").await.unwrap();
        assert!(answer(waiting).await.ends_with("ok"), "it was never in the way");
    }
}
