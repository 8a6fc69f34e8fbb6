//! The client of a running host: HTTP on the host's Unix socket.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use axum::body::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::timeout;

use hotshoe_operator::api::Problem;
use hotshoe_operator::config::socket;

/// The timeout of a command: a reload waits for a compilation.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
/// The timeout of a request to which a host knows the answer already.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum length of an answer, and of one of its lines, in bytes: the program that listens may be no host.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// The error of an answer that this version cannot read.
pub(super) const UNEXPECTED_SHAPE: &str =
    "the host's answer has an unexpected form; is the host of the same version as this program?";

/// Returns how to reach a host in a cluster with the command that was typed.
fn in_cluster() -> String {
    let typed =
        std::env::args().nth(1).filter(|verb| verb.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'));
    let verb = typed.as_deref().unwrap_or("status");
    format!("one in a cluster is asked there: `kubectl exec -n hotshoe-system deployment/hotshoe -- /hotshoe {verb} …`")
}

/// Where the host is.
#[derive(clap::Args, Debug)]
pub struct HostOptions {
    /// The host's socket [default: that of the only host that this user runs here]
    #[arg(long, env = "HOTSHOE_SOCKET", value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// A host that took a connection.
struct Host {
    stream: UnixStream,
    path: PathBuf,
}

impl HostOptions {
    /// Returns the host with this socket.
    pub(super) fn at(socket: PathBuf) -> Self {
        Self { socket: Some(socket) }
    }

    /// Returns each host that this user may run here, or that the environment names. Some may not answer.
    pub(super) fn here() -> Vec<Self> {
        let named = std::env::var_os("HOTSHOE_SOCKET").filter(|socket| !socket.is_empty());
        Self { socket: named.map(PathBuf::from) }.each()
    }

    /// Returns each host that may be meant: the one that is named, or all that this user runs here. Some may not answer.
    pub(super) fn each(&self) -> Vec<Self> {
        let named = self.socket.clone();
        let sockets = named.map(|named| vec![named]).or_else(|| Some(socket::sockets_in(&socket::directory()?)));
        sockets.unwrap_or_default().into_iter().map(|path| Self { socket: Some(path) }).collect()
    }

    /// Reads a document from the host.
    ///
    /// # Errors
    /// When no host answers, or it refuses.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(Method::GET, path, READ_TIMEOUT).await
    }

    /// Sends a command to the host, and returns its answer.
    ///
    /// # Errors
    /// When no host answers, or it refuses.
    pub async fn post(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(Method::POST, path, COMMAND_TIMEOUT).await
    }

    async fn ask(&self, method: Method, path: &str, limit: Duration) -> anyhow::Result<Value> {
        let Host { stream, path: socket } = self.reach().await?;
        let exchange = async {
            let response = send(stream, method, path, Bytes::new()).await?;
            let status = response.status();
            anyhow::Ok((status, whole(response).await?))
        };
        let silent = || format!("the host on {} did not answer within {limit:?}; its log may say why", shown(&socket));
        let answered = timeout(limit, exchange).await.with_context(silent)?;
        let (status, body) = answered.with_context(|| broken(&socket))?;
        ensure!(status.is_success(), "{}", problem(&socket, status, &body));
        serde_json::from_slice(&body).with_context(|| stranger(&socket, status))
    }

    /// Sends bytes, and calls `on_line` with each line of the answer as it comes.
    ///
    /// # Errors
    /// When no host answers, it refuses or falls silent, or `on_line` fails.
    pub async fn post_lines(
        &self,
        path: &str,
        body: Vec<u8>,
        mut on_line: impl FnMut(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Host { stream, path: socket } = self.reach().await?;
        let silent =
            || format!("the host on {} sent nothing for {COMMAND_TIMEOUT:?}; its log may say why", shown(&socket));
        let sent =
            timeout(COMMAND_TIMEOUT, send(stream, Method::POST, path, body.into())).await.with_context(silent)?;
        let response = sent.with_context(|| broken(&socket))?;
        let status = response.status();
        if !status.is_success() {
            let body = timeout(COMMAND_TIMEOUT, whole(response)).await.with_context(silent)?;
            bail!("{}", problem(&socket, status, &body.with_context(|| broken(&socket))?));
        }
        let (mut lines, mut body) = (Lines::default(), response.into_body());
        while let Some(frame) = timeout(COMMAND_TIMEOUT, body.frame()).await.with_context(silent)? {
            let frame = frame.with_context(|| broken(&socket))?;
            let Ok(data) = frame.into_data() else { continue };
            lines.push(&data, &mut on_line)?;
        }
        lines.finish(&mut on_line)
    }

    /// Connects to the host that is named, or to the only one.
    async fn reach(&self) -> anyhow::Result<Host> {
        let Some(named) = &self.socket else {
            let directory = socket::directory();
            return only(directory.context("HOME is not set; name the host's socket with --socket")?).await;
        };
        let stream = UnixStream::connect(named).await.map_err(|error| {
            let no_host = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused);
            let why = if no_host { String::new() } else { format!(" ({error})") };
            anyhow!(
                "no host answers on {}{why}; start one with `hotshoe run`, or name its socket with --socket; {}",
                shown(named),
                in_cluster()
            )
        })?;
        Ok(Host { stream, path: named.clone() })
    }
}

/// Connects to the only host that listens on a socket in this directory. A host that was killed leaves its socket
/// behind, but does not answer.
async fn only(directory: PathBuf) -> anyhow::Result<Host> {
    let mut answering = Vec::new();
    for path in socket::sockets_in(&directory) {
        if let Ok(stream) = UnixStream::connect(&path).await {
            answering.push(Host { stream, path });
        }
    }
    match (answering.pop(), answering.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => bail!(
            "no host answers in {}; start one with `hotshoe run`, or name its socket with --socket; {}",
            directory.display(),
            in_cluster()
        ),
        (Some(last), false) => {
            answering.push(last);
            let paths: Vec<_> = answering.iter().map(|host| shown(&host.path)).collect();
            bail!("several hosts run here; name the socket of one with --socket: {}", paths.join(", "))
        }
    }
}

async fn send(stream: UnixStream, method: Method, path: &str, body: Bytes) -> anyhow::Result<Response<Incoming>> {
    // HTTP requires a host name, which a socket does not have.
    let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    // The exchange fails with the same error, so this one is dropped.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender.send_request(request.body(Full::new(body))?).await?)
}

async fn whole(response: Response<Incoming>) -> anyhow::Result<Bytes> {
    let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
    Ok(body.map_err(|error| anyhow::anyhow!(error))?.to_bytes())
}

fn shown(socket: &Path) -> String {
    socket.display().to_string()
}

/// Returns the error of a host that refuses a request.
fn problem(socket: &Path, status: StatusCode, body: &[u8]) -> String {
    serde_json::from_slice(body).map_or_else(|_| stranger(socket, status), |problem: Problem| problem.error)
}

fn stranger(socket: &Path, status: StatusCode) -> String {
    format!(
        "the program that listens on {} is no hotshoe of this version: a host does not answer so (HTTP status {}); name the host's socket with --socket",
        shown(socket),
        status.as_u16()
    )
}

fn broken(socket: &Path) -> String {
    format!(
        "the program that listens on {} ended its answer early, or speaks no HTTP; try again, or name the host's socket with --socket",
        shown(socket)
    )
}

/// Splits an answer into lines as it comes.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn push(&mut self, data: &[u8], on_line: &mut impl FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            ensure!(
                self.0.len() + part.len() <= MAX_ANSWER_BYTES,
                "a line of the answer has more than {MAX_ANSWER_BYTES} bytes"
            );
            self.0.extend_from_slice(part);
            if self.0.ends_with(b"\n") {
                on_line(str::from_utf8(&std::mem::take(&mut self.0)).context(UNEXPECTED_SHAPE)?.trim_end())?;
            }
        }
        Ok(())
    }

    fn finish(self, on_line: &mut impl FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
        if self.0.is_empty() { Ok(()) } else { on_line(str::from_utf8(&self.0).context(UNEXPECTED_SHAPE)?) }
    }
}

/// Reads the host's answer into a type of this version.
///
/// # Errors
/// When the answer does not fit the type.
pub(super) fn read<T: DeserializeOwned>(answer: &Value) -> anyhow::Result<T> {
    T::deserialize(answer).context(UNEXPECTED_SHAPE)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    use super::*;

    #[test]
    fn an_answer_of_another_program_is_reported_with_its_status() {
        let problem = |status, body: &[u8]| problem(Path::new("/run/8080.sock"), status, body);
        assert_eq!(problem(StatusCode::CONFLICT, br#"{"error":"nothing waits"}"#), "nothing waits");
        for body in ["", "<html>not here</html>", "[]"] {
            let words = problem(StatusCode::NOT_FOUND, body.as_bytes());
            assert!(words.contains("/run/8080.sock is no hotshoe") && words.contains("404"), "{words}");
            assert!(!words.contains('<'), "a remote text is sanitized: {words}");
        }
    }

    /// Returns the result of a request to a server that gives this answer.
    async fn answered(answer: &'static [u8]) -> anyhow::Result<Value> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("8080.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let host = HostOptions { socket: Some(path) };
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await;
            stream.write_all(answer).await.unwrap();
        };
        tokio::join!(host.get("/status"), server).0
    }

    #[tokio::test]
    async fn a_document_is_read_and_a_program_without_http_is_reported() {
        let got = answered(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]").await;
        assert_eq!(got.unwrap(), Value::Array(Vec::new()));
        for garbage in [&b"SSH-2.0-OpenSSH\r\n"[..], b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n[]", b""] {
            let error = format!("{:#}", answered(garbage).await.unwrap_err());
            assert!(error.contains("8080.sock") && error.contains("--socket"), "{error}");
        }
        let got = answered(b"HTTP/1.1 409 Conflict\r\ncontent-length: 22\r\n\r\n{\"error\":\"it waits\"}  ").await;
        assert_eq!(got.unwrap_err().to_string(), "it waits");
    }

    #[tokio::test]
    async fn a_host_that_is_not_there_is_reported_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("8080.sock");
        let error = HostOptions { socket: Some(path.clone()) }.get("/status").await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("no host answers on {}", path.display())), "{error}");
        assert!(error.contains("hotshoe run") && error.contains("kubectl exec"), "{error}");
    }

    #[tokio::test]
    async fn the_only_host_that_answers_is_used_and_of_several_one_must_be_named() {
        let dir = tempfile::tempdir().unwrap();
        let [killed, first, second] = [8080, 8081, 8082].map(|port| socket::of_port(dir.path(), port));
        drop(UnixListener::bind(&killed).unwrap());
        let reached = async || only(dir.path().to_owned()).await.map(|host| host.path);
        let error = reached().await.unwrap_err().to_string();
        assert!(error.starts_with("no host answers in ") && error.contains("hotshoe run"), "{error}");
        let _first = UnixListener::bind(&first).unwrap();
        assert_eq!(reached().await.unwrap(), first);
        let _second = UnixListener::bind(&second).unwrap();
        let error = reached().await.unwrap_err().to_string();
        assert!(error.contains("8081.sock, ") && error.ends_with("8082.sock"), "{error}");
        assert!(!error.contains("8080.sock"), "{error}");
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
        assert!(Lines::default().push(&vec![b'a'; MAX_ANSWER_BYTES + 1], &mut |_| Ok(())).is_err());
    }
}
