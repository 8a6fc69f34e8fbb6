//! How the command line speaks to a running host.

use std::time::Duration;

use anyhow::{Context, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::LISTEN;
use crate::server::Problem;

/// A reload waits for a compilation.
const PATIENCE: Duration = Duration::from_secs(120);
/// What a host knows it says at once.
const KNOWN: Duration = Duration::from_secs(10);

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
    /// Asks for a document.
    ///
    /// # Errors
    /// When no host answers, or it says no.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask("GET", path, KNOWN).await
    }

    /// Asks for something to be done.
    ///
    /// # Errors
    /// When no host answers, or it says no.
    pub async fn post(&self, path: &str) -> anyhow::Result<Value> {
        self.ask("POST", path, PATIENCE).await
    }

    async fn ask(&self, method: &str, path: &str, patience: Duration) -> anyhow::Result<Value> {
        let answer = timeout(patience, self.exchange(method, path)).await.with_context(|| {
            format!("the host on {} did not answer within {patience:?}; its log may say why", self.address)
        })?;
        let (status, body) = answer.with_context(|| self.nobody())?;
        if !(200..300).contains(&status) {
            bail!("{}", self.problem(status, &body));
        }
        serde_json::from_str(&body).with_context(|| self.stranger(status))
    }

    /// Hands bytes over, and each line of the answer on as it comes.
    ///
    /// # Errors
    /// When no host answers, it says no or falls silent, or whoever takes a line does.
    pub async fn post_lines(
        &self,
        path: &str,
        body: &[u8],
        mut take: impl FnMut(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let silent = || format!("the host on {} said nothing for {PATIENCE:?}", self.address);
        let mut connection = TcpStream::connect(&self.address).await.with_context(|| self.nobody())?;
        let head = format!("POST {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        connection.write_all(head.as_bytes()).await.with_context(|| self.nobody())?;
        // A host that says no at once reads no further; what it says is read below.
        drop(connection.write_all(body).await);
        let mut answer = BufReader::new(connection).lines();
        let mut next =
            async || timeout(PATIENCE, answer.next_line()).await.with_context(silent)?.with_context(|| self.nobody());
        let first = next().await?.with_context(|| self.nobody())?;
        let status: u16 =
            first.split(' ').nth(1).and_then(|code| code.parse().ok()).context("the answer is no HTTP")?;
        while next().await?.is_some_and(|line| !line.is_empty()) {}
        let mut said = String::new();
        while let Some(line) = next().await? {
            match status {
                200..300 => take(&line)?,
                _ => said.push_str(&line),
            }
        }
        if !(200..300).contains(&status) {
            bail!("{}", self.problem(status, &said));
        }
        Ok(())
    }

    /// What a host says that says no.
    fn problem(&self, status: u16, body: &str) -> String {
        serde_json::from_str(body).map_or_else(|_| self.stranger(status), |problem: Problem| problem.error)
    }

    fn stranger(&self, status: u16) -> String {
        format!(
            "what listens on {} is no hotshoe of this version: its answer, with HTTP status {status}, is none of a host's; name the host's address with --address",
            self.address
        )
    }

    fn nobody(&self) -> String {
        format!("no host answers on {}; start one with `hotshoe run`, or name its address with --address", self.address)
    }

    /// One request of HTTP/1.0, so that the end of the answer is the end of the connection: too
    /// little to be worth a client.
    async fn exchange(&self, method: &str, path: &str) -> anyhow::Result<(u16, String)> {
        let mut connection = TcpStream::connect(&self.address).await?;
        connection.write_all(format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("the answer is no HTTP")?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("the answer is no HTTP")?;
        Ok((status, body.to_owned()))
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
    fn an_answer_that_is_no_hosts_is_told_with_its_status() {
        let host = HostOptions { address: "127.0.0.1:8080".to_owned() };
        assert_eq!(host.problem(409, r#"{"error":"nothing waits"}"#), "nothing waits");
        for body in ["", "<html>not here</html>", "[]"] {
            let words = host.problem(404, body);
            assert!(words.contains("127.0.0.1:8080 is no hotshoe") && words.contains("404"), "{words}");
            assert!(!words.contains('<'), "nobody knows what a stranger says: {words}");
        }
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
