//! Child processes of this program, in which is read what others wrote: components, and what registries answer.
//!
//! Hostile bytes may make a program use all memory, run for ever or be exploited. So they are read in a short-lived child
//! of the same binary, with limits, without the environment, with nothing open but its three streams, and confined.
//! Where the machine cannot fully confine it, the child works all the same, and the host warns of that.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout, Command};

use crate::confinement::Confinement;
use hotshoe_core::model::sanitize::clean;

/// This very binary, whatever lies at its path by now.
pub const THIS_PROGRAM: &str = "/proc/self/exe";
/// mimalloc's option for how much address space it reserves at once, in KiB, for children that get little. The default is
/// a gigabyte, which a limit that the child sets later could not take back.
pub const SMALL_ARENA: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "32768");
/// The arguments with which a child does nothing but confine itself, and prints what is missing for that.
const CONFINE_ONLY: [&str; 2] = ["--attempt", "nothing"];
/// The time limit of a child with [`CONFINE_ONLY`].
const CONFINE_ONLY_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum length of a child's error output, in bytes.
const MAX_ERROR_BYTES: u64 = 16 * 1024;
/// The maximum length of a text of a child in a message, in bytes.
const MAX_TEXT_BYTES: usize = 1_000;
/// Begins the line of a child's error output that says what is missing to confine the child. It is the first line.
const NOT_CONFINED: &str = "not confined: ";

/// Starts children of one program, a `hotshoe` binary.
#[derive(Clone, Debug)]
pub struct Children {
    program: PathBuf,
    /// What was missing to confine a child, and was logged.
    missing: Arc<Mutex<BTreeSet<String>>>,
}

/// A child that runs.
#[derive(Debug)]
pub struct Child {
    process: tokio::process::Child,
    children: Children,
}

/// A child that has ended.
#[derive(Debug)]
pub struct Ended<T> {
    /// What came out of the talk with it.
    pub said: T,
    /// Its error output, on one line.
    pub errors: String,
    /// How it ended.
    pub status: ExitStatus,
}

impl Children {
    /// Starts children of this program.
    pub fn of(program: PathBuf) -> Self {
        Self { program, missing: Arc::default() }
    }

    /// Returns the program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the command for a child with this hidden verb.
    pub fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(verb)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // So that Ctrl-C signals the host alone. No session of its own, because the scheduler may divide the
            // processor between sessions before it considers the idle class.
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// Starts a child.
    ///
    /// # Errors
    /// If the program cannot be run.
    pub fn start(&self, mut command: Command) -> io::Result<Child> {
        Ok(Child { process: command.spawn()?, children: self.clone() })
    }

    /// Has a child with this verb confine itself. Returns the barriers that this machine cannot enforce; none if it can
    /// enforce all.
    ///
    /// # Errors
    /// If the child cannot be run.
    pub async fn missing(&self, verb: &str) -> io::Result<Option<String>> {
        let mut command = self.command(verb);
        let ended =
            tokio::time::timeout(CONFINE_ONLY_TIMEOUT, command.args(CONFINE_ONLY).stdin(Stdio::null()).output());
        let output = ended.await??;
        let missing = text(&output.stdout);
        match output.status.success() {
            true => Ok(Some(missing).filter(|missing| !missing.is_empty())),
            false => Err(io::Error::other(text(&output.stderr))),
        }
    }

    /// Warns, once for each machine and host, that what reads the bytes of others is not fully confined.
    pub fn warn(&self, missing: &str) {
        let missing = clean(missing.trim().to_owned(), MAX_TEXT_BYTES);
        if self.missing.lock().insert(missing.clone()) {
            tracing::warn!(
                "the processes that compile, pull and verify components are not wholly confined here, \
                 so a component or a registry that exploits them could reach what the host can: {missing}"
            );
        }
    }

    /// Reads a child's error output. Warns as soon as it says that the child is not fully confined: later, code that
    /// exploits the child may have it run without end.
    async fn read_errors(&self, stream: impl AsyncRead + Unpin) -> io::Result<String> {
        let (mut stream, mut bytes) = (BufReader::new(stream.take(MAX_ERROR_BYTES)), Vec::new());
        stream.read_until(b'\n', &mut bytes).await?;
        if let Some(missing) = bytes.strip_prefix(NOT_CONFINED.as_bytes()) {
            self.warn(&String::from_utf8_lossy(missing));
            bytes.clear();
        }
        stream.read_to_end(&mut bytes).await?;
        Ok(text(&bytes))
    }
}

impl Child {
    /// Returns the process, as long as it has not ended.
    pub fn pid(&self) -> Option<Pid> {
        self.process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
    }

    /// Talks with the child over its streams, and waits for its end. The child is killed if the future is dropped.
    ///
    /// # Errors
    /// If its end cannot be waited for.
    pub async fn talk<T>(mut self, talk: impl AsyncFnOnce(ChildStdin, ChildStdout) -> T) -> io::Result<Ended<T>> {
        let (stdin, stdout) = (self.process.stdin.take(), self.process.stdout.take());
        let (stdin, stdout) = stdin.zip(stdout).ok_or(io::ErrorKind::BrokenPipe)?;
        let stderr = self.process.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let (said, errors) = tokio::join!(talk(stdin, stdout), self.children.read_errors(stderr));
        Ok(Ended { said, errors: errors.unwrap_or_default(), status: self.process.wait().await? })
    }

    /// Gives the child this input, and reads its output, to the end or up to `cap` bytes.
    ///
    /// # Errors
    /// If its end cannot be waited for.
    pub async fn answer(self, input: &[u8], cap: u64) -> io::Result<Ended<io::Result<Vec<u8>>>> {
        self.talk(async |mut stdin, stdout| {
            let feed = async {
                // A child that ends early reports why on its other streams.
                let _ = stdin.write_all(input).await;
                drop(stdin);
            };
            tokio::join!(feed, read(stdout, cap)).1
        })
        .await
    }
}

/// Reads to the end or up to `cap` bytes: a child may write without end.
///
/// # Errors
/// If the stream fails.
async fn read(stream: impl AsyncRead + Unpin, cap: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(cap).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

fn text(output: &[u8]) -> String {
    clean(String::from_utf8_lossy(output).trim().to_owned(), MAX_TEXT_BYTES)
}

/// Runs in a child: limits its address space, in bytes, and its processor time, in seconds. Makes it the first process to
/// be killed if the machine runs out of memory, and has it killed when its host ends, for the host may be killed while
/// it is stopped.
///
/// # Errors
/// If a limit cannot be set.
pub fn limit(memory: u64, processor: Option<u64>) -> io::Result<()> {
    let at_most = |bound| Rlimit { current: Some(bound), maximum: Some(bound) };
    setrlimit(Resource::As, at_most(memory))?;
    processor.map_or(Ok(()), |seconds| setrlimit(Resource::Cpu, at_most(seconds)))?;
    setrlimit(Resource::Core, at_most(0))?;
    // If one of these fails, the child works all the same.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    Ok(())
}

/// Runs in a child: reports to the host what is missing to confine this process, before it reads what others wrote.
pub fn report(confinement: &Confinement) {
    if !confinement.is_complete() {
        // If the host does not read that, the child works all the same.
        let _ = writeln!(io::stderr(), "{NOT_CONFINED}{confinement}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_missing_to_confine_a_child_is_noted_and_is_no_error_of_the_component() {
        let read = async |output: &str| {
            let children = Children::of("/bin/false".into());
            let rest = children.read_errors(output.as_bytes()).await.unwrap();
            let missing = children.missing.lock().iter().next().cloned();
            (rest, missing)
        };
        let (report, missing) = (format!("{NOT_CONFINED}Landlock: none\n"), Some("Landlock: none".to_owned()));
        assert_eq!(read(&report).await, (String::new(), missing.clone()));
        assert_eq!(read(&format!("{report}no component\n")).await, ("no component".to_owned(), missing));
        assert_eq!(read("no component\nat all\n").await, ("no component at all".to_owned(), None));
    }

    #[test]
    fn the_same_is_missing_once_for_all_children_of_a_host() {
        let children = Children::of("/bin/false".into());
        for missing in ["Landlock: none", " Landlock: none\n", "seccomp: none"] {
            children.clone().warn(missing);
        }
        assert_eq!(children.missing.lock().len(), 2);
    }
}
