//! The webhooks of controller-runtime in `bench/webhook`, which the host's are measured against, and what both need.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::process::Process;
use crate::repository;

/// The longest time until a webhook is in force, and until a component is active.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Builds them, and returns their program.
///
/// # Errors
/// When Go is missing or cannot build them.
pub fn build() -> Result<PathBuf> {
    let program = repository("target/bench/webhook");
    println!("building the webhooks of controller-runtime (two minutes, the first time)");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(".").current_dir(repository("bench/webhook"));
    let built = go.status().context("Go is needed to build bench/webhook: https://go.dev/dl")?;
    ensure!(built.success(), "bench/webhook is not built; the output above says why");
    Ok(program)
}

/// Makes a folder with a certificate for this machine and its key.
///
/// # Errors
/// When it cannot be written.
pub fn certificate() -> Result<TempDir> {
    let folder = TempDir::new()?;
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    std::fs::write(folder.path().join("tls.key"), made.signing_key.serialize_pem())?;
    std::fs::write(folder.path().join("tls.crt"), made.cert.pem())?;
    Ok(folder)
}

/// Starts them on a free port, and returns their address as `https://HOST:PORT`.
///
/// # Errors
/// When they cannot be started.
pub fn start(program: &Path, certificate: &Path) -> Result<(Process, String)> {
    let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = Command::new(program);
    command.arg(certificate).arg(free.to_string());
    let folder = repository("target/bench/log");
    std::fs::create_dir_all(&folder)?;
    let process = Process::start(command, folder.join("webhook-native.log"))?;
    Ok((process, format!("https://127.0.0.1:{free}")))
}

/// Asks until there is an answer.
///
/// # Errors
/// When there is none in time, or asking fails.
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = ask().await? {
            return Ok(found);
        }
        if began.elapsed() > TIMEOUT {
            bail!("void: not within {TIMEOUT:?}: {what}");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
