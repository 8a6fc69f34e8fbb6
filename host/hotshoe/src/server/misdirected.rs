//! Answers a client that speaks TLS to a port that serves plain HTTP, or the reverse, so that its own error says what is
//! wrong, and the log does too.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The first byte of a TLS connection: the type of the record with the client's greeting.
const TLS_HANDSHAKE: u8 = 22;
/// How often the log says it for one port. Any client can cause it.
const LOG_PAUSE: Duration = Duration::from_secs(600);
/// How many bytes are read of what the client goes on sending.
const MAX_BYTES: usize = 16 * 1024;

/// What a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

/// The last time that the log named a misdirected client of one port.
#[derive(Clone, Default)]
pub(super) struct Misdirected(Arc<Mutex<Option<Instant>>>);

impl Scheme {
    /// Returns whether a connection that begins with this byte is of the other scheme.
    fn is_other(self, first: u8) -> bool {
        match self {
            Self::Http => first == TLS_HANDSHAKE,
            Self::Https => first.is_ascii_uppercase(),
        }
    }

    /// Returns the answer, as net/http has it in both cases: its client takes an answer in plain text to a greeting of
    /// TLS for "server gave HTTP response to HTTPS client".
    fn answer(self) -> &'static str {
        match self {
            Self::Http => {
                "HTTP/1.0 400 Bad Request\r\n\r\nClient sent a TLS handshake to an HTTP server; use http://.\n"
            }
            Self::Https => "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Http => {
                "it speaks TLS to a port that serves plain HTTP: have it use http://, or serve the metrics over TLS with --metrics-secure"
            }
            Self::Https => {
                "it speaks plain HTTP to a port that serves TLS (--metrics-secure, --webhooks): have it use https://"
            }
        }
    }
}

impl Misdirected {
    /// Answers and closes a connection of the other scheme; returns any other one. Waits for the first byte.
    pub(super) async fn turn_away(&self, mut stream: TcpStream, scheme: Scheme) -> Option<TcpStream> {
        let mut first = [0];
        // A connection that ends before is for the server to end.
        let seen = stream.peek(&mut first).await.unwrap_or(0);
        if seen == 0 || !first.iter().all(|byte| scheme.is_other(*byte)) {
            return Some(stream);
        }
        if let (true, Ok(client)) = (self.is_due(), stream.peer_addr()) {
            let port = stream.local_addr().map(|own: SocketAddr| own.port()).unwrap_or_default();
            tracing::warn!(%client, port, "a client cannot be served: {}", scheme.advice());
        }
        drop(stream.write_all(scheme.answer().as_bytes()).await);
        drop(stream.shutdown().await);
        // Closing with unread bytes would reset the connection, and the reset may overtake the answer.
        let mut rest = Vec::new();
        drop((&mut stream).take(MAX_BYTES as u64).read_to_end(&mut rest).await);
        None
    }

    fn is_due(&self) -> bool {
        let mut last = self.0.lock();
        let due = last.is_none_or(|last| last.elapsed() >= LOG_PAUSE);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}
