//! Who is measured.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::plane::Plane;
use crate::process::Process;
use crate::{IMAGE, repository};

/// An operator, or what stands for the fewest requests.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// The raw writer.
    Raw,
    /// The native operator.
    Native,
    /// `hotshoe run`.
    Host,
}

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `hotshoe`.
    pub host: PathBuf,
    /// `native-memcached`.
    pub native: PathBuf,
}

impl Subject {
    /// For lines and file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Native => "native",
            Self::Host => "host",
        }
    }

    /// Namespace and name of its account.
    pub fn account(self) -> (&'static str, &'static str) {
        match self {
            Self::Raw => ("bench-system", "raw"),
            Self::Native => ("bench-system", "native"),
            Self::Host => ("hotshoe-system", "hotshoe"),
        }
    }

    /// The account, as the audit log has it.
    pub fn user(self) -> String {
        let (namespace, name) = self.account();
        format!("system:serviceaccount:{namespace}:{name}")
    }

    /// Its kubeconfig on a control plane.
    ///
    /// # Errors
    /// When there is no such account.
    pub async fn kubeconfig(self, plane: &Plane) -> Result<PathBuf> {
        let (namespace, name) = self.account();
        plane.account(namespace, name).await
    }

    /// Starts its process.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn start(self, plane: &Plane, programs: &Programs) -> Result<Process> {
        let kubeconfig = self.kubeconfig(plane).await?;
        let mut command = match self {
            Self::Host => host(programs),
            Self::Native | Self::Raw => Command::new(&programs.native),
        };
        command.arg("--kubeconfig").arg(kubeconfig).env_remove("KUBECONFIG").env_remove("RUST_LOG");
        command.env("MEMCACHED_IMAGE", IMAGE);
        Process::start(command, log(self)?)
    }
}

fn host(programs: &Programs) -> Command {
    let mut command = Command::new(&programs.host);
    command.arg("run").arg(repository("plugins/memcached")).args(["--listen", "127.0.0.1:0", "--cache"]);
    // Kept between runs: a host compiles a component once.
    command.arg(repository("target/bench/cache"));
    command
}

fn log(subject: Subject) -> Result<PathBuf> {
    let folder = repository("target/bench/log");
    std::fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{}.log", subject.name())))
}

/// How often the host has called its plugin.
///
/// # Errors
/// When it does not serve its metrics.
pub async fn plugin_calls(host: &Process) -> Result<u64> {
    let text = get(&address(host)?, "/metrics").await?;
    let lines = text.lines().filter(|line| line.starts_with("hotshoe_plugin_call_seconds_count"));
    let counts = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    Ok(counts.sum())
}

/// Where a host serves, as it says.
///
/// # Errors
/// When it does not serve.
pub fn address(host: &Process) -> Result<String> {
    let said = host.said();
    let address = said.lines().find_map(|line| line.split_once("on http://")).context("the host does not serve")?.1;
    Ok(address.trim().to_owned())
}

async fn get(address: &str, path: &str) -> Result<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}
