//! The connections to the host's server. Any client that reaches its port may open them, so they are bounded in number, in
//! memory and in time.

use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use axum::{Extension, Router};
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::server::local_only::Ends;

/// So many are served at once; who comes later waits in the kernel's queue.
const AT_ONCE: usize = 128;
/// What is kept of a request's headers, bytes.
const BUFFER: usize = 32 * 1024;
/// How long they may take to come in.
const HEADERS: Duration = Duration::from_secs(10);
/// How long a connection from elsewhere may take in all. What it gets is short, but its reader may stop.
const ELSEWHERE: Duration = Duration::from_secs(60);

/// Serves until the process ends.
pub(super) async fn serve(listener: TcpListener, routes: Router) {
    serve_within(AT_ONCE, HEADERS, listener, routes).await;
}

async fn serve_within(at_once: usize, headers: Duration, mut listener: TcpListener, routes: Router) {
    let mut http = Builder::new();
    // One request each, so that no idle connection keeps a place.
    http.keep_alive(false).max_buf_size(BUFFER).timer(TokioTimer::new()).header_read_timeout(headers);
    let places = Arc::new(Semaphore::new(at_once));
    while let Ok(place) = places.clone().acquire_owned().await {
        let (stream, peer) = Listener::accept(&mut listener).await;
        let ends = Ends::of(&stream, peer);
        let service = TowerToHyperService::new(routes.clone().layer(Extension(ends)));
        let connection = http.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // A peer that breaks off, or is too slow, needs no answer.
            drop(timeout(longest(ends), connection).await);
            drop(place);
        });
    }
}

/// A shadow run goes on for as long as there are parents.
fn longest(ends: Ends) -> Duration {
    if ends.are_loopback() { Duration::MAX } else { ELSEWHERE }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const UNFINISHED: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n";
    /// Longer than any test takes.
    const LONG: Duration = Duration::from_secs(60);

    async fn server(at_once: usize, headers: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/", get(|| async { "ok" }));
        tokio::spawn(serve_within(at_once, headers, listener, routes));
        address
    }

    async fn sent(server: SocketAddr, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(server).await.unwrap();
        // Who is refused meanwhile cannot send the rest.
        drop(stream.write_all(text.as_bytes()).await);
        stream
    }

    /// All that the server says until it closes the connection.
    async fn answer(mut stream: TcpStream) -> String {
        let mut said = Vec::new();
        drop(timeout(LONG / 2, stream.read_to_end(&mut said)).await.expect("the connection stays open"));
        String::from_utf8(said).unwrap()
    }

    #[tokio::test]
    async fn headers_that_do_not_come_to_an_end_give_their_place_to_others() {
        let server = server(2, Duration::from_millis(20)).await;
        let mut held = Vec::new();
        for text in [UNFINISHED, "", UNFINISHED, UNFINISHED, ""] {
            held.push(sent(server, text).await);
        }
        assert!(answer(sent(server, REQUEST).await).await.starts_with("HTTP/1.1 200"));
        for stream in held {
            assert!(!answer(stream).await.contains("200"));
        }
    }

    #[tokio::test]
    async fn headers_that_are_larger_than_is_kept_are_refused() {
        let server = server(2, LONG).await;
        let long = format!("{UNFINISHED}Cookie: {}", "a".repeat(4 * BUFFER));
        let said = answer(sent(server, &long).await).await;
        // What it has not read resets the connection, which may come before the answer.
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 431"), "{said}");
    }

    #[tokio::test]
    async fn more_connections_than_may_be_are_served_one_after_another() {
        let server = server(1, LONG).await;
        let mut first = sent(server, UNFINISHED).await;
        let mut second = sent(server, REQUEST).await;
        let early = timeout(Duration::from_millis(100), second.read_u8()).await;
        assert!(early.is_err(), "there is one place");
        first.write_all(b"\r\n").await.unwrap();
        for stream in [first, second] {
            assert!(answer(stream).await.starts_with("HTTP/1.1 200"));
        }
    }

    #[tokio::test]
    async fn who_was_answered_keeps_no_place() {
        let server = server(1, LONG).await;
        for _ in 0..3 {
            assert!(answer(sent(server, REQUEST).await).await.ends_with("ok"));
        }
    }

    #[tokio::test]
    async fn only_local_connections_may_be_slow() {
        let server = server(1, LONG).await;
        let stream = TcpStream::connect(server).await.unwrap();
        assert_eq!(longest(Ends::of(&stream, server)), Duration::MAX);
        assert_eq!(longest(Ends::of(&stream, "192.0.2.1:80".parse().unwrap())), ELSEWHERE);
    }
}
