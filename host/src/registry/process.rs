//! Pulls in a process of its own, as components are compiled.
//!
//! A registry may answer with more than fits into memory, and the client keeps some answers whole before it looks at
//! them: manifests, tokens, errors. In a short-lived child that has limits this ends the child alone. It also leaves no
//! certificates, connections and buffers behind in a host that mostly rests.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::registry::error::RegistryError;
use crate::registry::pull::{Pull, Pulled};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::{PULL_MEMORY, PULL_TIME};
use hotshoe_core::model::sanitize::clean;

/// The hidden command of the child.
pub const VERB: &str = "fetch-component";
/// The most bytes of the line that the child answers with, and of its error output.
const ANSWER: u64 = 16 * 1024;

/// What the child is asked for, on its standard input.
#[derive(Serialize, Deserialize)]
struct Request {
    pull: Pull,
    only_resolve: bool,
}

/// What it answers, as the first line of its standard output. After that comes the component, if it was asked for.
#[derive(Serialize, Deserialize)]
enum Answer {
    Found(Digest),
    Failed(RegistryError),
}

/// Pulls in child processes.
#[derive(Debug)]
pub struct Puller {
    program: PathBuf,
}

impl Puller {
    /// Runs this very binary, whatever lies at its path by now.
    pub fn of_this_binary() -> Self {
        Self { program: "/proc/self/exe".into() }
    }

    /// Runs `program`, a `hotshoe` binary.
    pub fn new(program: PathBuf) -> Self {
        Self { program }
    }

    /// Asks which image the reference means now.
    ///
    /// # Errors
    /// If the registry cannot be asked, or does not have it.
    pub async fn resolve(&self, pull: &Pull) -> Result<Digest, RegistryError> {
        match pull.image.digest() {
            Some(digest) => Ok(digest),
            None => Ok(self.ask(pull, true).await?.digest),
        }
    }

    /// Pulls the component.
    ///
    /// # Errors
    /// If it cannot be had, is none, or is signed by nobody who may.
    pub async fn pull(&self, pull: &Pull) -> Result<Pulled, RegistryError> {
        self.ask(pull, false).await
    }

    /// Asks a child, which dies with the future.
    async fn ask(&self, pull: &Pull, only_resolve: bool) -> Result<Pulled, RegistryError> {
        let late = |_| RegistryError::TimedOut { registry: pull.image.registry().to_owned(), time: PULL_TIME };
        tokio::time::timeout(PULL_TIME, self.run(pull, only_resolve)).await.map_err(late)?
    }

    async fn run(&self, pull: &Pull, only_resolve: bool) -> Result<Pulled, RegistryError> {
        let failed = |why: String| RegistryError::ProcessFailed { image: pull.image.to_string(), why };
        let broken = |error: io::Error| failed(format!("{}: {error}", self.program.display()));
        let request = Request { pull: pull.clone(), only_resolve };
        let request = serde_json::to_vec(&request).map_err(|error| failed(error.to_string()))?;
        let mut child = self.command().spawn().map_err(broken)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // A child that ends early reports why on its other streams.
                let _ = stdin.write_all(&request).await;
            }
        };
        let ((), output, words) = tokio::join!(feed, read(stdout, ANSWER + pull.most), read(stderr, ANSWER));
        let status = child.wait().await.map_err(broken)?;
        match status.code() {
            Some(0) => answer(output.map_err(broken)?).unwrap_or_else(|why| Err(failed(why))),
            Some(_) => Err(failed(clean(String::from_utf8_lossy(&words.unwrap_or_default()).trim().to_owned(), 1_000))),
            None => Err(failed(format!(
                "the process that pulls was stopped ({status}): the registry answered with more than fits into \
                 {PULL_MEMORY} of memory, or the process crashed; look at what the registry serves"
            ))),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(VERB)
            .current_dir("/")
            // What it says when it panics becomes a message, in one line.
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for the host alone.
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

/// Splits what the child wrote into its answer and the component.
fn answer(mut output: Vec<u8>) -> Result<Result<Pulled, RegistryError>, String> {
    let end = output.iter().position(|byte| *byte == b'\n').ok_or("the process that pulls did not answer")?;
    let component = output.split_off(end + 1);
    match serde_json::from_slice(&output)
        .map_err(|error| format!("the process that pulls answered otherwise: {error}"))?
    {
        Answer::Found(digest) => Ok(Ok(Pulled { digest, component })),
        Answer::Failed(error) => Ok(Err(error)),
    }
}

/// Reads to the end or up to `cap` bytes: the child may write without end.
async fn read(stream: Option<impl AsyncRead + Unpin>, cap: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(cap).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// Runs in the child: reads a request, and writes the answer to it.
///
/// # Errors
/// When it cannot be read or written.
pub async fn serve(mut input: impl Read, mut output: impl Write) -> anyhow::Result<()> {
    let mut request = Vec::new();
    input.read_to_end(&mut request)?;
    let Request { pull, only_resolve } = serde_json::from_slice(&request)?;
    limit(pull.most)?;
    let pulled = match only_resolve {
        true => pull.resolve().await.map(|digest| Pulled { digest, component: Vec::new() }),
        false => pull.pull(|_, _| ()).await,
    };
    let (answer, component) = match pulled {
        Ok(Pulled { digest, component }) => (Answer::Found(digest), component),
        Err(error) => (Answer::Failed(error), Vec::new()),
    };
    serde_json::to_writer(&mut output, &answer)?;
    output.write_all(b"\n")?;
    output.write_all(&component)?;
    output.flush()?;
    Ok(())
}

/// Bounds the memory of this process, which is the first to be killed if that of all runs out, and dies with its host.
/// The component is in it once more while it grows.
fn limit(component: u64) -> io::Result<()> {
    let at_most = |bound| Rlimit { current: Some(bound), maximum: Some(bound) };
    setrlimit(Resource::As, at_most(PULL_MEMORY.0 + 3 * component))?;
    setrlimit(Resource::Core, at_most(0))?;
    // Each may fail, and then it pulls all the same.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_split_from_the_component_whatever_is_in_that() {
        let digest = Digest::of(b"");
        let line = serde_json::to_string(&Answer::Found(digest)).unwrap();
        let output = [line.as_bytes(), b"\n\0a\nb"].concat();
        assert_eq!(answer(output), Ok(Ok(Pulled { digest, component: b"\0a\nb".to_vec() })));
        assert!(answer(line.into_bytes()).is_err());
        assert!(answer(b"{}\n".to_vec()).is_err());
    }

    #[test]
    fn an_error_is_the_same_on_the_other_side() {
        let error = RegistryError::TooLarge { image: "oci://a.b/c".to_owned(), size: 2, limit: 1 };
        let line = serde_json::to_string(&Answer::Failed(error.clone())).unwrap() + "\n";
        assert_eq!(answer(line.into_bytes()), Ok(Err(error)));
    }
}
