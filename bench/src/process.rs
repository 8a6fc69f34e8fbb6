//! A subject's process, and its processor time and memory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

/// Clock ticks a second in `/proc`: the same on every Linux that Rust runs on.
const TICKS: f64 = 100.0;
/// The time without use of the processor after which a process is idle.
const IDLE_TIME: Duration = Duration::from_millis(1500);
/// The time that an idle process gets to give memory back: a host does so when no plugin was called for ten seconds.
const REST_TIME: Duration = Duration::from_secs(20);
/// How often to check whether a process is idle.
const MAX_CHECKS: u32 = 40;

/// A process. It is killed when this value is dropped.
pub struct Process {
    child: Child,
    log: PathBuf,
    began: Instant,
}

/// Memory in megabytes (10⁶ bytes).
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Memory {
    /// Resident memory with shared pages, as `ps` shows it.
    pub rss: f64,
    /// What the process alone has of that: its heap and stacks.
    pub private: f64,
    /// Pages of files that are mapped: the text of the program, and compiled code of plugins.
    pub files: f64,
    /// Resident memory with a proportional part of shared pages.
    pub pss: f64,
    /// The maximum of the resident memory so far.
    pub peak: f64,
}

impl Process {
    /// Starts a process, with its output in a file.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command, log: PathBuf) -> Result<Self> {
        let file = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let began = Instant::now();
        let child = command.spawn().with_context(|| format!("{command:?}"))?;
        Ok(Self { child, log, began })
    }

    /// When it was started.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the output so far.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns the path of the output file.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the processor time of the process and of its ended children, in seconds.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn cpu(&self) -> Result<f64> {
        let stat = fs::read_to_string(self.proc("stat")).context("the subject has ended")?;
        processor_time(&stat)
    }

    /// Returns its memory now.
    ///
    /// # Errors
    /// When it has ended.
    pub fn memory(&self) -> Result<Memory> {
        let status = fs::read_to_string(self.proc("status")).context("the subject has ended")?;
        let rollup = fs::read_to_string(self.proc("smaps_rollup"))?;
        let of = |name: &str| field(&status, name);
        Ok(Memory {
            rss: of("VmRSS:")?,
            private: of("RssAnon:")?,
            files: of("RssFile:")?,
            pss: field(&rollup, "Pss:")?,
            peak: of("VmHWM:")?,
        })
    }

    /// Returns its resident memory now, in megabytes; cheap enough to be called often.
    ///
    /// # Errors
    /// When it has ended.
    pub fn rss(&self) -> Result<f64> {
        field(&fs::read_to_string(self.proc("status")).context("the subject has ended")?, "VmRSS:")
    }

    /// Waits until the process is idle.
    ///
    /// # Errors
    /// When it never becomes idle, or ends.
    pub async fn until_idle(&self) -> Result<()> {
        for _ in 0..MAX_CHECKS {
            let before = self.cpu()?;
            tokio::time::sleep(IDLE_TIME).await;
            // A tick is a hundredth of a second; timers and watch bookmarks take less.
            if self.cpu()? - before < 0.015 {
                return Ok(());
            }
        }
        bail!("the process does not become idle; see {}", self.log.display())
    }

    /// Waits until the process is idle, and as long again as it takes to give memory back. Returns its memory then.
    ///
    /// # Errors
    /// When it never becomes idle, or ends.
    pub async fn at_rest(&self) -> Result<Memory> {
        self.until_idle().await?;
        tokio::time::sleep(REST_TIME).await;
        self.memory()
    }

    /// Stops the process gracefully.
    ///
    /// # Errors
    /// When it does not end.
    pub fn stop(mut self) -> Result<()> {
        let kill = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        ensure!(kill.success(), "the subject had ended; see {}", self.log.display());
        self.child.wait()?;
        Ok(())
    }

    fn proc(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.child.id()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Where one of these fails, the process has ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Reads the processor time of a process and of its ended children, in seconds, from its `/proc/PID/stat`.
pub(crate) fn processor_time(stat: &str) -> Result<f64> {
    // The name may contain spaces and parentheses; the numbers follow its last parenthesis.
    let (_, numbers) = stat.rsplit_once(") ").context("/proc/PID/stat")?;
    let ticks = numbers.split(' ').skip(11).take(4).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / TICKS)
}

/// A field in kibibytes, as megabytes.
fn field(text: &str, name: &str) -> Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| name.to_owned())?;
    let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes * 1024.0 / 1e6)
}
