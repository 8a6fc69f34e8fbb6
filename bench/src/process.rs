//! A subject's process, and what it takes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// Clock ticks a second in `/proc`: the same on every Linux that Rust runs on.
const TICKS: f64 = 100.0;
/// Without using the processor for this long, a process is at rest.
const REST: Duration = Duration::from_millis(1500);
const MAX_CHECKS: u32 = 40;

/// A process that runs, or has run. It ends with this value.
pub struct Process {
    child: Child,
    log: PathBuf,
    began: Instant,
}

/// Memory in megabytes (10⁶ bytes).
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Resident, shared pages included: what `ps` shows.
    pub rss: f64,
    /// Resident, shared pages shared out.
    pub pss: f64,
    /// The most that was ever resident.
    pub peak: f64,
}

impl Process {
    /// Starts one, with its words in a file.
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

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has said.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The file with what it has said.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Processor time of it and of its children that have ended, seconds.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cpu(&self) -> Result<f64> {
        let stat = fs::read_to_string(self.proc("stat")).context("the subject has ended")?;
        processor_time(&stat)
    }

    /// What it holds now.
    ///
    /// # Errors
    /// When it has ended.
    pub fn memory(&self) -> Result<Memory> {
        let status = fs::read_to_string(self.proc("status")).context("the subject has ended")?;
        let rollup = fs::read_to_string(self.proc("smaps_rollup"))?;
        Ok(Memory { rss: field(&status, "VmRSS:")?, pss: field(&rollup, "Pss:")?, peak: field(&status, "VmHWM:")? })
    }

    /// What is resident now, megabytes; cheap enough to be asked often.
    ///
    /// # Errors
    /// When it has ended.
    pub fn rss(&self) -> Result<f64> {
        field(&fs::read_to_string(self.proc("status")).context("the subject has ended")?, "VmRSS:")
    }

    /// Waits until it does nothing.
    ///
    /// # Errors
    /// When it never rests, or ends.
    pub async fn rest(&self) -> Result<()> {
        for _ in 0..MAX_CHECKS {
            let before = self.cpu()?;
            tokio::time::sleep(REST).await;
            // A tick is a hundredth of a second; timers and watch bookmarks take less.
            if self.cpu()? - before < 0.015 {
                return Ok(());
            }
        }
        bail!("it never rests; see {}", self.log.display())
    }

    /// Ends it politely.
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
        // Whatever fails here, it has ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Processor time of a process and of its children that have ended, seconds, by its `/proc/PID/stat`.
pub(crate) fn processor_time(stat: &str) -> Result<f64> {
    // The name may have blanks and brackets in it; the numbers follow its last bracket.
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
