//! A limit of processor time, as the kubelet gives to a container: a control group of version 1 or 2.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const GROUPS: &str = "/sys/fs/cgroup";
/// The period that the kubelet sets, in microseconds.
const PERIOD: f64 = 100_000.0;

/// A control group, which is removed when this value is dropped.
#[derive(Debug)]
pub struct Quota {
    folder: PathBuf,
}

impl Quota {
    /// Creates a control group that allows so many processors, for example 0.1.
    ///
    /// # Errors
    /// When control groups cannot be created, because rights or the controller are missing.
    pub fn new(name: &str, processors: f64) -> Result<Self> {
        let quota = Self::made(name, (PERIOD * processors) as u64);
        quota.with_context(|| format!("no control group can be made in {GROUPS}; try it as root"))
    }

    fn made(name: &str, microseconds: u64) -> io::Result<Self> {
        let root = Path::new(GROUPS);
        let name = format!("hotshoe-bench-{}-{name}", std::process::id());
        if root.join("cgroup.controllers").exists() {
            fs::write(root.join("cgroup.subtree_control"), "+cpu")?;
            let quota = Self::in_folder(root.join(name))?;
            fs::write(quota.folder.join("cpu.max"), format!("{microseconds} {PERIOD}"))?;
            return Ok(quota);
        }
        let quota = Self::in_folder(root.join("cpu").join(name))?;
        fs::write(quota.folder.join("cpu.cfs_period_us"), PERIOD.to_string())?;
        fs::write(quota.folder.join("cpu.cfs_quota_us"), microseconds.to_string())?;
        Ok(quota)
    }

    fn in_folder(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir(&folder)?;
        Ok(Self { folder })
    }

    /// Limits a process and all its threads.
    ///
    /// # Errors
    /// When it has ended.
    pub fn limit(&self, process: u32) -> Result<()> {
        fs::write(self.folder.join("cgroup.procs"), process.to_string()).context("the process has ended")
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A group whose process has not ended yet stays, and no longer limits anything after that.
        drop(fs::remove_dir(&self.folder));
    }
}
