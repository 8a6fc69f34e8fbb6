//! Pulls components in a child process, as they are compiled in one.
//!
//! A registry may answer with more than fits into memory, and the client library reads some answers completely before
//! it checks them: manifests, tokens, errors. In a short-lived child with limits, that ends only the child. The child
//! gets the credentials for its one registry and only the proxy and certificate variables of the environment, and is
//! [confined](crate::registry::confinement). It leaves no certificates, connections and buffers behind in a host that
//! is mostly idle. The host checks the child's answer against the digests again: a child that an attacker took over can
//! withhold a component, but cannot pass off other bytes under a digest that the host asked for.

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
/// The maximum length of the child's answer line, and of its error output, in bytes.
const MAX_LINE_BYTES: u64 = 16 * 1024;
/// The maximum number of children. Requests are served in their order, so that a registry that never answers delays the
/// others, but does not shut them out.
const MAX_CHILDREN: usize = 4;
/// mimalloc's option for how much address space it reserves at once, in KiB. The default is a gigabyte, which a limit
/// that the child sets later could not take back.
const ARENA: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "32768");
/// The variables that the child gets of the host's environment: the proxies, in both spellings, and the location of the
/// system's certificate authorities.
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

/// The request to the child, on its standard input.
#[derive(Serialize, Deserialize)]
struct Request {
    pull: Pull,
    only_resolve: bool,
}

/// The child's answer, as the first line of its standard output. After [`Answer::Pulled`] follow as many bytes of the
/// manifest and of the component as it says.
#[derive(Serialize, Deserialize)]
enum Answer {
    Resolved(Digest),
    Pulled { digest: Digest, manifest: u64, component: u64 },
    Failed(RegistryError),
}

/// An answer with the bytes that follow it.
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
    /// Creates a puller whose children run this very binary, whatever lies at its path by now.
    pub fn of_this_binary() -> Self {
        Self::new("/proc/self/exe".into())
    }

    /// Creates a puller whose children run `program`, a `hotshoe` binary.
    pub fn new(program: PathBuf) -> Self {
        Self { program, turn: Semaphore::new(MAX_CHILDREN) }
    }

    /// Returns the digest of the image that the reference means now. The registry is not asked if the reference has a
    /// digest.
    ///
    /// # Errors
    /// If the registry cannot be asked, or does not have the image.
    pub async fn resolve(&self, image: &ImageRef, access: &Access) -> Result<Digest, RegistryError> {
        if let Some(digest) = image.digest() {
            return Ok(digest);
        }
        let pull = Pull { image: image.clone(), access: access.clone(), most: 0, verify: None };
        match self.ask(&pull, true).await?.answer {
            Answer::Resolved(digest) => Ok(digest),
            Answer::Failed(error) => Err(error),
            Answer::Pulled { .. } => Err(unexpected_answer(image)),
        }
    }

    /// Verifies the signatures of an image and pulls its component.
    ///
    /// # Errors
    /// If the image cannot be pulled, has no component, or is not signed as required.
    pub async fn pull(&self, pull: &Pull) -> Result<Pulled, RegistryError> {
        let answered = self.ask(pull, false).await?;
        let image = pull.image.clone();
        // Not on the thread that reconciles, where hashing a large component would delay reconciles.
        let checked = tokio::task::spawn_blocking(move || answered.pulled(&image));
        checked.await.unwrap_or_else(|error| Err(failed(&pull.image, error.to_string())))
    }

    /// Runs a child for one request. The child is killed if the future is dropped.
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
        let ((), answered, error_output) =
            tokio::join!(feed, read_answer(stdout, pull.most), read(stderr, MAX_LINE_BYTES));
        let status = child.wait().await.map_err(broken)?;
        match status.code() {
            Some(0) => answered.map_err(|_| unexpected_answer(image)),
            Some(_) => {
                let error_output = error_output.unwrap_or_default();
                Err(failed(image, clean(String::from_utf8_lossy(&error_output).trim().to_owned(), 1_000)))
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

fn unexpected_answer(image: &ImageRef) -> RegistryError {
    failed(image, "the process that pulls answered something else than it was asked for".to_owned())
}

impl Answered {
    /// Returns the component, if the answer is about the image that was asked for.
    fn pulled(self, image: &ImageRef) -> Result<Pulled, RegistryError> {
        match self.answer {
            Answer::Pulled { digest, .. } if image.digest().is_none_or(|asked| asked == digest) => {
                Pulled::of(image, digest, self.manifest, self.component)
            }
            Answer::Failed(error) => Err(error),
            _ => Err(unexpected_answer(image)),
        }
    }
}

/// Reads the child's answer and the bytes after it, into buffers of the announced sizes and no others. The child is not
/// trusted: it may announce no more than `most` bytes of a component.
async fn read_answer(stream: Option<impl AsyncRead + Unpin>, most: u64) -> io::Result<Answered> {
    let mut stream = BufReader::new(stream.ok_or(io::ErrorKind::BrokenPipe)?);
    let mut line = Vec::new();
    (&mut stream).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await?;
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

/// Runs in the child: sets limits for its process, confines it, carries out a request and writes the answer. The
/// process must have no other thread yet.
///
/// # Errors
/// When the request cannot be read, or the answer cannot be written.
pub async fn serve(mut input: impl Read, mut output: impl Write) -> anyhow::Result<()> {
    let mut request = Vec::new();
    input.read_to_end(&mut request)?;
    let Request { pull, only_resolve } = serde_json::from_slice(&request)?;
    limit(pull.most)?;
    let (answer, pulled) = carry_out(&pull, only_resolve).await.unwrap_or_else(|error| (Answer::Failed(error), None));
    serde_json::to_writer(&mut output, &answer)?;
    output.write_all(b"\n")?;
    if let Some(Pulled { manifest, component, .. }) = pulled {
        output.write_all(&manifest)?;
        output.write_all(component.bytes())?;
    }
    output.flush()?;
    Ok(())
}

async fn carry_out(pull: &Pull, only_resolve: bool) -> Result<(Answer, Option<Pulled>), RegistryError> {
    // Before the confinement, for it reads files.
    let connection = pull.prepare()?;
    confinement::confine();
    if only_resolve {
        return Ok((Answer::Resolved(pull.resolve_by(&connection).await?), None));
    }
    let pulled = pull.pull_by(&connection, |_, _| ()).await?;
    let (manifest, component) = (pulled.manifest.len() as u64, pulled.component.bytes().len() as u64);
    Ok((Answer::Pulled { digest: pulled.digest, manifest, component }, Some(pulled)))
}

/// Limits the memory of this process, with room for the client's buffers and a component of this size. Makes it the
/// first process to be killed if the machine runs out of memory, and has it killed when its host ends.
fn limit(component: u64) -> io::Result<()> {
    let at_most = |bound| Rlimit { current: Some(bound), maximum: Some(bound) };
    setrlimit(Resource::As, at_most(PULL_MEMORY.0 + 3 * component))?;
    setrlimit(Resource::Core, at_most(0))?;
    // If one of these fails, the process pulls all the same.
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
    async fn a_compromised_child_cannot_pass_off_other_bytes_under_a_digest() {
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
