//! Pulls in a process of its own, as components are compiled.
//!
//! A registry may answer with more than fits into memory, and the client keeps some answers whole before it looks at
//! them: manifests, tokens, errors. In a short-lived child that has limits this ends the child alone. The child has the
//! credentials for its one registry, of the environment the proxies alone, and is
//! [confined](crate::registry::confinement). It leaves no certificates, connections and buffers behind in a host that
//! mostly rests. What it answers is checked against the digests once more: a child that an attacker took over can deny
//! a component, and not pass off other bytes under a digest that the host asked for.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::sync::Semaphore;

use crate::registry::confinement;
use crate::registry::connection::Access;
use crate::registry::error::RegistryError;
use crate::registry::pull::{Pull, Pulled};
use crate::registry::reference::ImageRef;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::{MANIFEST_BYTES, PULL_MEMORY, PULL_TIME};
use hotshoe_core::model::sanitize::clean;

/// The hidden command of the child.
pub const VERB: &str = "fetch-component";
/// The most bytes of the line that the child answers with, and of its error output.
const ANSWER: u64 = 16 * 1024;
/// How many children there are at most. They are served in the order in which they are asked for, so that a registry that
/// never answers delays the others and does not shut them out.
const AT_ONCE: usize = 4;
/// mimalloc's option: how much address space it reserves at once, KiB. A gigabyte otherwise, which no later limit takes away.
const ARENA: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "32768");
/// What the child has of the host's environment: proxies, in both spellings, and where the system's authorities are.
const ENVIRONMENT: [&str; 10] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// What the child is asked for, on its standard input.
#[derive(Serialize, Deserialize)]
struct Request {
    pull: Pull,
    only_resolve: bool,
}

/// What it answers, as the first line of its standard output. After that come so many bytes of the manifest, and so many
/// of the component.
#[derive(Serialize, Deserialize)]
enum Answer {
    Resolved(Digest),
    Pulled { digest: Digest, manifest: u64, component: u64 },
    Failed(RegistryError),
}

/// An answer with what comes after it.
struct Answered {
    answer: Answer,
    manifest: Vec<u8>,
    component: Vec<u8>,
}

/// Pulls in child processes, a few at a time.
#[derive(Debug)]
pub struct Puller {
    program: PathBuf,
    turn: Semaphore,
}

impl Puller {
    /// Runs this very binary, whatever lies at its path by now.
    pub fn of_this_binary() -> Self {
        Self::new("/proc/self/exe".into())
    }

    /// Runs `program`, a `hotshoe` binary.
    pub fn new(program: PathBuf) -> Self {
        Self { program, turn: Semaphore::new(AT_ONCE) }
    }

    /// Asks which image the reference means now, and for nothing else. One with a digest is not asked about.
    ///
    /// # Errors
    /// If the registry cannot be asked, or does not have it.
    pub async fn resolve(&self, image: &ImageRef, access: &Access) -> Result<Digest, RegistryError> {
        if let Some(digest) = image.digest() {
            return Ok(digest);
        }
        let pull = Pull { image: image.clone(), access: access.clone(), most: 0, verify: None };
        match self.ask(&pull, true).await?.answer {
            Answer::Resolved(digest) => Ok(digest),
            Answer::Failed(error) => Err(error),
            Answer::Pulled { .. } => Err(misunderstood(image)),
        }
    }

    /// Pulls the component, after its image was verified.
    ///
    /// # Errors
    /// If it cannot be pulled, is none, or is not signed as it must be.
    pub async fn pull(&self, pull: &Pull) -> Result<Pulled, RegistryError> {
        let answered = self.ask(pull, false).await?;
        let image = pull.image.clone();
        // Large ones are not hashed on the thread that reconciles.
        let checked = tokio::task::spawn_blocking(move || answered.pulled(&image));
        checked.await.unwrap_or_else(|error| Err(failed(&pull.image, error.to_string())))
    }

    /// Asks a child, which dies with the future.
    async fn ask(&self, pull: &Pull, only_resolve: bool) -> Result<Answered, RegistryError> {
        let _turn = self.turn.acquire().await.map_err(|error| failed(&pull.image, error.to_string()))?;
        let late = |_| RegistryError::TimedOut { registry: pull.image.registry().to_owned(), time: PULL_TIME };
        tokio::time::timeout(PULL_TIME, self.run(pull, only_resolve)).await.map_err(late)?
    }

    async fn run(&self, pull: &Pull, only_resolve: bool) -> Result<Answered, RegistryError> {
        let image = &pull.image;
        let broken = |error: io::Error| failed(image, format!("{}: {error}", self.program.display()));
        let access = Access { credentials: pull.access.credentials.only_of(image), ..pull.access.clone() };
        let request = Request { pull: Pull { access, ..pull.clone() }, only_resolve };
        let request = serde_json::to_vec(&request).map_err(|error| failed(image, error.to_string()))?;
        let mut child = self.command().spawn().map_err(broken)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // A child that ends early reports why on its other streams.
                let _ = stdin.write_all(&request).await;
            }
        };
        let ((), answered, words) = tokio::join!(feed, read_answer(stdout, pull.most), read(stderr, ANSWER));
        let status = child.wait().await.map_err(broken)?;
        match status.code() {
            Some(0) => answered.map_err(|_| misunderstood(image)),
            Some(_) => {
                let words = words.unwrap_or_default();
                Err(failed(image, clean(String::from_utf8_lossy(&words).trim().to_owned(), 1_000)))
            }
            None => Err(failed(
                image,
                format!(
                    "the process that pulls was stopped ({status}): the registry answered with more than fits into \
                     {PULL_MEMORY} of memory, or the process crashed; look at what the registry serves"
                ),
            )),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(VERB)
            .env_clear()
            .env(ARENA.0, ARENA.1)
            .envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for the host alone.
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

fn failed(image: &ImageRef, why: String) -> RegistryError {
    RegistryError::ProcessFailed { image: image.to_string(), why }
}

fn misunderstood(image: &ImageRef) -> RegistryError {
    failed(image, "the process that pulls answered something else than it was asked for".to_owned())
}

impl Answered {
    /// Takes the component, if it is that of the image that was asked for.
    fn pulled(self, image: &ImageRef) -> Result<Pulled, RegistryError> {
        match self.answer {
            Answer::Pulled { digest, .. } if image.digest().is_none_or(|asked| asked == digest) => {
                Pulled::of(image, digest, self.manifest, self.component)
            }
            Answer::Failed(error) => Err(error),
            _ => Err(misunderstood(image)),
        }
    }
}

/// Reads what the child writes, into buffers of the size that it says, which are the only ones. The child may say and write
/// anything: a component has `most` bytes.
async fn read_answer(stream: Option<impl AsyncRead + Unpin>, most: u64) -> io::Result<Answered> {
    let mut stream = BufReader::new(stream.ok_or(io::ErrorKind::BrokenPipe)?);
    let mut line = Vec::new();
    (&mut stream).take(ANSWER).read_until(b'\n', &mut line).await?;
    let answer = serde_json::from_slice(&line)?;
    let (manifest, component) = match answer {
        Answer::Pulled { manifest, component, .. } => (manifest, component),
        Answer::Resolved(_) | Answer::Failed(_) => (0, 0),
    };
    let manifest = read_exactly(&mut stream, manifest, MANIFEST_BYTES.0).await?;
    let component = read_exactly(&mut stream, component, most).await?;
    Ok(Answered { answer, manifest, component })
}

async fn read_exactly(stream: &mut (impl AsyncRead + Unpin), length: u64, most: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(length).ok().filter(|_| length <= most).ok_or(io::ErrorKind::InvalidData)?;
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Reads to the end or up to `cap` bytes: the child may write without end.
async fn read(stream: Option<impl AsyncRead + Unpin>, cap: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(cap).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// Runs in the child: reads a request, and writes the answer to it, under limits that it sets for itself, and confined. It
/// must have no other thread yet.
///
/// # Errors
/// When the request cannot be read, or the answer cannot be written.
pub async fn serve(mut input: impl Read, mut output: impl Write) -> anyhow::Result<()> {
    let mut request = Vec::new();
    input.read_to_end(&mut request)?;
    let Request { pull, only_resolve } = serde_json::from_slice(&request)?;
    limit(pull.most)?;
    let (answer, pulled) = done(&pull, only_resolve).await.unwrap_or_else(|error| (Answer::Failed(error), None));
    serde_json::to_writer(&mut output, &answer)?;
    output.write_all(b"\n")?;
    if let Some(Pulled { manifest, component, .. }) = pulled {
        output.write_all(&manifest)?;
        output.write_all(component.bytes())?;
    }
    output.flush()?;
    Ok(())
}

async fn done(pull: &Pull, only_resolve: bool) -> Result<(Answer, Option<Pulled>), RegistryError> {
    // Reads files, which are closed afterwards.
    let connection = pull.prepare()?;
    confinement::confine();
    if only_resolve {
        return Ok((Answer::Resolved(pull.resolve_by(&connection).await?), None));
    }
    let pulled = pull.pull_by(&connection, |_, _| ()).await?;
    let (manifest, component) = (pulled.manifest.len() as u64, pulled.component.bytes().len() as u64);
    Ok((Answer::Pulled { digest: pulled.digest, manifest, component }, Some(pulled)))
}

/// Bounds the memory of this process, which is the first to be killed if that of all runs out, and dies with its host.
/// Beside the component, the client has its buffers.
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
    use crate::registry::hostile;

    fn image() -> ImageRef {
        "oci://a.b/c:1".parse().unwrap()
    }

    async fn read(most: u64, parts: &[&[u8]]) -> Result<Result<Pulled, RegistryError>, io::ErrorKind> {
        let output = parts.concat();
        let answered = read_answer(Some(output.as_slice()), most).await.map_err(|error| error.kind())?;
        Ok(answered.pulled(&image().pinned(Digest::of(&hostile::component().0))))
    }

    fn line(of: &[u8], manifest: usize, component: usize) -> Vec<u8> {
        let (manifest, component) = (manifest as u64, component as u64);
        let answer = Answer::Pulled { digest: Digest::of(of), manifest, component };
        [serde_json::to_vec(&answer).unwrap(), b"\n".to_vec()].concat()
    }

    #[tokio::test]
    async fn a_child_that_was_taken_over_passes_off_no_other_bytes_under_a_digest() {
        let (manifest, component) = hostile::component();
        let (m, c) = (manifest.len(), component.len());
        let whole = read(100, &[&line(&manifest, m, c), &manifest, &component]).await.unwrap().unwrap();
        assert_eq!((whole.digest, whole.component.bytes()), (Digest::of(&manifest), component.as_slice()));
        let other = [manifest.as_slice(), b" "].concat();
        let changed = [component.as_slice(), b"other"].concat();
        for (parts, reason) in [
            ([&line(&manifest, m, c + 5), &manifest, &changed], "WrongDigest"),
            ([&line(&manifest, m + 1, c), &other, &component], "WrongDigest"),
            ([&line(&other, m + 1, c), &other, &component], "PullFailed"),
        ] {
            assert_eq!(read(100, &parts.map(Vec::as_slice)).await.unwrap().unwrap_err().reason(), reason);
        }
    }

    #[tokio::test]
    async fn no_more_is_read_of_a_child_than_was_asked_for() {
        let (manifest, component) = hostile::component();
        let (m, c) = (manifest.len(), component.len());
        for (most, line, kind) in [
            (c - 1, line(&manifest, m, c), io::ErrorKind::InvalidData),
            (c, line(&manifest, usize::MAX, c), io::ErrorKind::InvalidData),
            (100, line(&manifest, m, c + 1), io::ErrorKind::UnexpectedEof),
        ] {
            assert_eq!(read(most as u64, &[&line, &manifest, &component]).await.unwrap_err(), kind);
        }
        for output in [b"{}\n".to_vec(), Vec::new(), vec![b' '; 1 << 20]] {
            assert!(read(100, &[&output]).await.is_err());
        }
    }

    #[tokio::test]
    async fn an_error_is_the_same_on_the_other_side() {
        let error = RegistryError::TooLarge { image: "oci://a.b/c".to_owned(), size: 2, limit: 1 };
        let line = serde_json::to_string(&Answer::Failed(error.clone())).unwrap() + "\n";
        assert_eq!(read(100, &[line.as_bytes()]).await, Ok(Err(error)));
    }
}
