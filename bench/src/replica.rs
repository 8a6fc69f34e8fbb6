//! One of several hosts that share their work by Leases.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::IMAGE;
use crate::plane::Plane;
use crate::process::Process;
use crate::subject::Subject;

/// What all replicas have in common.
#[derive(Clone, Copy, Debug)]
pub struct Deployment<'a> {
    /// The program.
    pub hotshoe: &'a Path,
    /// The folder of the plugin.
    pub plugin: &'a Path,
    /// Where compiled code is kept.
    pub cache: &'a Path,
    /// Over how many shards the parents are spread.
    pub shards: usize,
}

/// A host, which can be killed and started again with the same credentials.
pub struct Replica {
    kubeconfig: PathBuf,
    arguments: Vec<PathBuf>,
    program: PathBuf,
    log: PathBuf,
    process: Option<Process>,
}

impl Replica {
    /// Starts a host, whose files have its number in their names.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn start(plane: &Plane, deployment: Deployment<'_>, number: usize) -> Result<Self> {
        // Another token, by which the audit log distinguishes the host.
        let kubeconfig = plane.file(&format!("host-{number}.kubeconfig"));
        fs::copy(Subject::Host.kubeconfig(plane).await?, &kubeconfig)?;
        let shards = deployment.shards.to_string();
        let arguments = [
            deployment.plugin,
            "--cache".as_ref(),
            deployment.cache,
            "--socket".as_ref(),
            &plane.file(&format!("socket-{number}/host")),
            "--shards".as_ref(),
            shards.as_ref(),
        ];
        let mut replica = Self {
            kubeconfig,
            arguments: arguments.map(Path::to_owned).into(),
            program: deployment.hotshoe.to_owned(),
            log: plane.file(&format!("host-{number}.log")),
            process: None,
        };
        replica.restart()?;
        Ok(replica)
    }

    /// Starts it again.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn restart(&mut self) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.arg("run").args(&self.arguments).args(["--listen", "127.0.0.1:0", "--kubeconfig"]);
        command.arg(&self.kubeconfig);
        command.env("MEMCACHED_IMAGE", IMAGE).env_remove("KUBECONFIG").env_remove("RUST_LOG");
        self.process = Some(Process::start(command, self.log.clone())?);
        Ok(())
    }

    /// Kills the host, as in a crash.
    pub fn kill(&mut self) {
        drop(self.process.take());
    }

    /// Its process.
    ///
    /// # Errors
    /// When it was killed.
    pub fn process(&self) -> Result<&Process> {
        self.process.as_ref().context("the host was killed")
    }

    /// Whether the host holds the Lease under this identity, by its log.
    pub fn works_as(&self, identity: &str) -> bool {
        let words = ["this host holds the Lease", &format!("host=\"{identity}\"")];
        let said = self.process.as_ref().map(Process::output).unwrap_or_default();
        said.lines().any(|line| words.iter().all(|words| line.contains(words)))
    }
}
