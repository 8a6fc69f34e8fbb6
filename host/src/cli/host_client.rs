//! How the command line speaks to a running host: HTTP on the loopback address where it listens.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use axum::body::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::config::LISTEN;
use crate::server::Problem;

/// A reload waits for a compilation.
const PATIENCE: Duration = Duration::from_secs(120);
/// What a host knows it answers at once.
const KNOWN: Duration = Duration::from_secs(10);
/// The most bytes of an answer that are read, and of one of its lines: what listens may be no host.
const MOST: usize = 64 << 20;

/// Where an answer is not what this version would say.
pub(super) const SHAPE: &str = "the host's answer has another shape; is it of this version?";

/// Where the host is.
#[derive(clap::Args, Debug)]
pub struct HostOptions {
    /// Where the host listens
    #[arg(long, default_value = LISTEN, env = "HOTSHOE_LISTEN", value_name = "HOST:PORT", value_parser = address)]
    address: String,
}

impl HostOptions {
    /// Gets a document.
    ///
    /// # Errors
    /// When no host answers, or it says no.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(Method::GET, path, KNOWN).await
    }

    /// Has something done.
    ///
    /// # Errors
    /// When no host answers, or it says no.
    pub async fn post(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(Method::POST, path, PATIENCE).await
    }

    async fn ask(&self, method: Method, path: &str, patience: Duration) -> anyhow::Result<Value> {
        let exchange = async {
            let response = self.send(method, path, Bytes::new()).await?;
            let status = response.status();
            anyhow::Ok((status, self.whole(response).await?))
        };
        let (status, body) = timeout(patience, exchange).await.with_context(|| {
            format!("the host on {} did not answer within {patience:?}; its log may say why", self.address)
        })??;
        ensure!(status.is_success(), "{}", self.problem(status, &body));
        serde_json::from_slice(&body).with_context(|| self.stranger(status))
    }

    /// Sends bytes, and hands on each line of the answer as it comes.
    ///
    /// # Errors
    /// When no host answers, it refuses or falls silent, or `on_line` fails.
    pub async fn post_lines(
        &self,
        path: &str,
        body: Vec<u8>,
        mut on_line: impl FnMut(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let silent = || format!("the host on {} said nothing for {PATIENCE:?}; its log may say why", self.address);
        let response = timeout(PATIENCE, self.send(Method::POST, path, body.into())).await.with_context(silent)??;
        let status = response.status();
        if !status.is_success() {
            let body = timeout(PATIENCE, self.whole(response)).await.with_context(silent)??;
            bail!("{}", self.problem(status, &body));
        }
        let (mut lines, mut body) = (Lines::default(), response.into_body());
        while let Some(frame) = timeout(PATIENCE, body.frame()).await.with_context(silent)? {
            let frame = frame.with_context(|| self.broken())?;
            let Ok(data) = frame.into_data() else { continue };
            lines.push(&data, &mut on_line)?;
        }
        lines.finish(&mut on_line)
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Response<Incoming>> {
        let request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        // The host lets no page of a browser through, which cannot choose this name.
        let request = request.header(header::HOST, "localhost").body(Full::new(body));
        let client = Client::builder(TokioExecutor::new()).build_http();
        client.request(request?).await.map_err(|error| match error.is_connect() {
            true => anyhow::anyhow!(self.unreachable()),
            false => anyhow::Error::new(error).context(self.broken()),
        })
    }

    async fn whole(&self, response: Response<Incoming>) -> anyhow::Result<Bytes> {
        let body = Limited::new(response.into_body(), MOST).collect().await;
        Ok(body.map_err(|error| anyhow::anyhow!(error)).with_context(|| self.broken())?.to_bytes())
    }

    /// The error of a host that says no.
    fn problem(&self, status: StatusCode, body: &[u8]) -> String {
        serde_json::from_slice(body).map_or_else(|_| self.stranger(status), |problem: Problem| problem.error)
    }

    fn stranger(&self, status: StatusCode) -> String {
        format!(
            "what listens on {} is no hotshoe of this version: its answer, with HTTP status {}, is none of a host's; name the host's address with --address",
            self.address,
            status.as_u16()
        )
    }

    fn broken(&self) -> String {
        format!(
            "what listens on {} ended its answer early, or speaks no HTTP; try again, or name the host's address with --address",
            self.address
        )
    }

    fn unreachable(&self) -> String {
        format!("no host answers on {}; start one with `hotshoe run`, or name its address with --address", self.address)
    }
}

/// Cuts an answer into lines as it comes.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn push(&mut self, data: &[u8], on_line: &mut impl FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            ensure!(self.0.len() + part.len() <= MOST, "a line of the answer has more than {MOST} bytes");
            self.0.extend_from_slice(part);
            if self.0.ends_with(b"\n") {
                on_line(str::from_utf8(&std::mem::take(&mut self.0)).context(SHAPE)?.trim_end())?;
            }
        }
        Ok(())
    }

    fn finish(self, on_line: &mut impl FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
        if self.0.is_empty() { Ok(()) } else { on_line(str::from_utf8(&self.0).context(SHAPE)?) }
    }
}

/// An address, also out of the URL that people copy from a log.
fn address(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
    let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) => Ok(address.to_owned()),
        _ => Err(format!("HOST:PORT is wanted, such as {LISTEN}")),
    }
}

/// What the host answered, in the shape that it has in this version.
///
/// # Errors
/// When it has another.
pub(super) fn read<T: DeserializeOwned>(answer: &Value) -> anyhow::Result<T> {
    T::deserialize(answer).context(SHAPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_no_hosts_is_reported_with_its_status() {
        let host = HostOptions { address: "127.0.0.1:8080".to_owned() };
        assert_eq!(host.problem(StatusCode::CONFLICT, br#"{"error":"nothing waits"}"#), "nothing waits");
        for body in ["", "<html>not here</html>", "[]"] {
            let words = host.problem(StatusCode::NOT_FOUND, body.as_bytes());
            assert!(words.contains("127.0.0.1:8080 is no hotshoe") && words.contains("404"), "{words}");
            assert!(!words.contains('<'), "a remote text is sanitized: {words}");
        }
    }

    /// What a client of a server that answers so to one request ends with.
    async fn answered(answer: &'static [u8]) -> (anyhow::Result<Value>, HostOptions) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = HostOptions { address: listener.local_addr().unwrap().to_string() };
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await;
            stream.write_all(answer).await.unwrap();
        };
        let (got, ()) = tokio::join!(host.get("/status"), server);
        (got, host)
    }

    #[tokio::test]
    async fn a_document_is_read_and_what_speaks_no_http_is_reported() {
        let (got, _) = answered(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]").await;
        assert_eq!(got.unwrap(), Value::Array(Vec::new()));
        for garbage in [&b"SSH-2.0-OpenSSH\r\n"[..], b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n[]", b""] {
            let (got, host) = answered(garbage).await;
            let error = format!("{:#}", got.unwrap_err());
            assert!(error.contains(&host.address) && error.contains("--address"), "{error}");
        }
        let (got, _) = answered(b"HTTP/1.1 409 Conflict\r\ncontent-length: 22\r\n\r\n{\"error\":\"it waits\"}  ").await;
        assert_eq!(got.unwrap_err().to_string(), "it waits");
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let error = HostOptions { address: free.to_string() }.get("/status").await.unwrap_err().to_string();
        assert!(error.starts_with("no host answers on ") && error.contains("hotshoe run"), "{error}");
    }

    #[test]
    fn an_answer_is_cut_into_lines_however_it_comes() {
        let (mut lines, mut received) = (Lines::default(), Vec::new());
        let mut on_line = |line: &str| {
            received.push(line.to_owned());
            Ok(())
        };
        for data in ["a", "b\nc\r\n", "", "d\ne"] {
            lines.push(data.as_bytes(), &mut on_line).unwrap();
        }
        lines.finish(&mut on_line).unwrap();
        assert_eq!(received, ["ab", "c", "d", "e"]);
        assert!(Lines::default().push(&vec![b'a'; MOST + 1], &mut |_| Ok(())).is_err());
    }

    #[test]
    fn an_address_is_a_host_and_a_port_also_in_a_url() {
        for text in ["127.0.0.1:8484", "http://127.0.0.1:8484/", "http://127.0.0.1:8484"] {
            assert_eq!(address(text).as_deref(), Ok("127.0.0.1:8484"));
        }
        assert_eq!(address("[::1]:80").as_deref(), Ok("[::1]:80"));
        for text in ["", "8080", ":8080", "localhost", "https://localhost", "localhost:http", "localhost:99999"] {
            assert!(address(text).unwrap_err().contains("HOST:PORT"), "{text}");
        }
    }
}
