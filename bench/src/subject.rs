//! The subjects that are measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hotshoe_core::model::digest::Digest;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::cells::Setup;
use crate::plane::{Manifests, Plane};
use crate::process::Process;
use crate::{IMAGE, repository};

/// The command-line options that all runs share.
#[derive(clap::Args, Clone, Debug)]
pub struct UnderTest {
    /// The program under test
    #[arg(long, env = "HOTSHOE", value_name = "FILE", default_value_os_t = repository("target/release/hotshoe"))]
    hotshoe: PathBuf,
    /// The manifest of the host's accounts
    #[arg(long, value_name = "FILE", default_value_os_t = repository("deploy/rbac.yaml"))]
    accounts: PathBuf,
}

impl UnderTest {
    /// Returns the setup of a run with so many CRs.
    ///
    /// # Errors
    /// When a program is missing that this recipe builds.
    pub fn setup(&self, count: usize, recipe: &str) -> Result<Setup> {
        let own = std::env::current_exe()?;
        let native = own.parent().context("a program lies in a folder")?.join("native-memcached");
        for program in [&self.hotshoe, &native, &self.accounts] {
            ensure!(program.exists(), "{} is missing; `just {recipe}` builds what is measured", program.display());
        }
        Ok(Setup {
            count,
            programs: Programs { host: self.hotshoe.clone(), native },
            manifests: Manifests { host: self.accounts.clone() },
        })
    }
}

/// An operator, or the writer with the fewest requests.
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
    /// The name in output lines and file names.
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
        if self == Self::Host {
            return start_host(plane, programs, &[&repository("plugins/memcached")], self.name()).await;
        }
        self.run(plane, Command::new(&programs.native), self.name()).await
    }

    async fn run(self, plane: &Plane, mut command: Command, log: &str) -> Result<Process> {
        let kubeconfig = self.kubeconfig(plane).await?;
        command.arg("--kubeconfig").arg(kubeconfig).env_remove("KUBECONFIG").env_remove("RUST_LOG");
        command.env("MEMCACHED_IMAGE", IMAGE);
        let folder = repository("target/bench/log");
        std::fs::create_dir_all(&folder)?;
        Process::start(command, folder.join(format!("{log}.log")))
    }
}

/// Starts a host with the plugins in these folders, and a log of this name.
///
/// # Errors
/// When it cannot be started.
pub async fn start_host(plane: &Plane, programs: &Programs, plugins: &[&Path], log: &str) -> Result<Process> {
    start(plane, command_of_host(programs, plugins), log).await
}

/// Starts a host with more options.
///
/// # Errors
/// When it cannot be started.
pub async fn start(plane: &Plane, command: Command, log: &str) -> Result<Process> {
    Subject::Host.run(plane, command, log).await
}

/// Returns the command that runs a host with the plugins in these folders.
pub fn command_of_host(programs: &Programs, plugins: &[&Path]) -> Command {
    let mut command = Command::new(&programs.host);
    command.arg("run").args(plugins).args(["--no-lease", "--follow", "--listen", "127.0.0.1:0", "--cache"]);
    // The cache is kept between runs, so that a component is compiled only once.
    command.arg(repository("target/bench/cache")).env_remove("HOTSHOE_SOCKET");
    command.env("XDG_RUNTIME_DIR", repository("target/bench/run"));
    command
}

/// Returns how often the host has called its plugin.
///
/// # Errors
/// When it does not serve its metrics.
pub async fn plugin_calls(host: &Process) -> Result<u64> {
    Ok(metrics(host).await?.of("hotshoe_plugin_call_seconds_count") as u64)
}

/// The metrics of a host at one time.
#[derive(Clone, Debug)]
pub struct Metrics(String);

impl Metrics {
    /// Returns the sum of all lines with this prefix.
    pub fn of(&self, begin: &str) -> f64 {
        let lines = self.0.lines().filter(|line| line.starts_with(begin));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    }
}

/// Requests the metrics of a host.
///
/// # Errors
/// When it does not serve its metrics.
pub async fn metrics(host: &Process) -> Result<Metrics> {
    let stream = TcpStream::connect(place(host, "on http://")?).await?;
    get(stream, "/metrics").await.map(Metrics)
}

/// Whether this component is active.
///
/// # Errors
/// When the host does not answer on its socket.
pub async fn decides(host: &Process, component: &[u8]) -> Result<bool> {
    let stream = UnixStream::connect(socket(host)?).await?;
    let status = get(stream, "/status").await?;
    Ok(status.contains(&format!("\"digest\":\"{}\",\"version\"", Digest::of(component).full())))
}

/// Returns the socket on which a host takes commands.
///
/// # Errors
/// When the log does not have it.
pub fn socket(host: &Process) -> Result<String> {
    place(host, "commands reach this host on ")
}

/// Returns the address after these words in a host's log.
///
/// # Errors
/// When the log does not have it.
pub fn place(host: &Process, words: &str) -> Result<String> {
    let said = host.output();
    let place = said.lines().find_map(|line| line.split_once(words)).context("the host does not serve")?.1;
    Ok(place.trim().to_owned())
}

async fn get(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}
