//! How the command line speaks to a running host.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::config::LISTEN;
use crate::server::Problem;

/// A reload waits for a compilation.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the host is.
#[derive(clap::Args, Debug)]
pub struct HostOptions {
    /// Where the host listens
    #[arg(long, default_value = LISTEN, env = "HOTSHOE_LISTEN", value_name = "ADDRESS")]
    address: String,
}

impl HostOptions {
    /// Asks for a document.
    ///
    /// # Errors
    /// When no host answers, or it says no.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask("GET", path).await
    }

    /// Asks for something to be done.
    ///
    /// # Errors
    /// When no host answers, or it says no.
    pub async fn post(&self, path: &str) -> anyhow::Result<Value> {
        self.ask("POST", path).await
    }

    async fn ask(&self, method: &str, path: &str) -> anyhow::Result<Value> {
        let answer = tokio::time::timeout(PATIENCE, self.exchange(method, path))
            .await
            .with_context(|| format!("the host on {} did not answer within {PATIENCE:?}", self.address))?;
        let (status, body) = answer.with_context(|| {
            format!(
                "no host answers on {}; start one with `hotshoe run`, or name its address with --address",
                self.address
            )
        })?;
        if !(200..300).contains(&status) {
            let problem = serde_json::from_str(&body).map_or(body, |problem: Problem| problem.error);
            bail!("{problem}");
        }
        serde_json::from_str(&body).with_context(|| format!("what listens on {} is no hotshoe", self.address))
    }

    /// One request of HTTP/1.0, so that the end of the answer is the end of the connection: too
    /// little to be worth a client.
    async fn exchange(&self, method: &str, path: &str) -> anyhow::Result<(u16, String)> {
        let mut connection = TcpStream::connect(&self.address).await?;
        connection.write_all(format!("{method} {path} HTTP/1.0\r\nHost: hotshoe\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("the answer is no HTTP")?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("the answer is no HTTP")?;
        Ok((status, body.to_owned()))
    }
}
