//! Pulls components in a child process, as they are compiled in one.
//!
//! What a registry answers may exploit its client. So the client runs in a [child], which gets the
//! credentials for its one registry and only the proxy and certificate variables of the environment, and is
//! [confined](crate::confinement). It leaves no certificates, connections and buffers behind in a host that is
//! mostly idle. It opens no file, so the host looks up names for it.
//!
//! The child is not trusted. The host checks its answer against the digests again, and has signatures
//! [verified](crate::verification) by another process: a child that an attacker took over can withhold a
//! component, but can pass off neither other bytes under a digest, nor what is not signed as what is.

use std::io::{self, BufRead, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::sync::Semaphore;

use crate::confinement;
use crate::connection::Access;
use crate::error::RegistryError;
use crate::names::{LookUp, System};
use crate::pull::{Pull, Pulled};
use crate::reference::ImageRef;
use crate::signature::Evidence;
use crate::verification;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::{EVIDENCE_BYTES, MANIFEST_BYTES, PULL_MEMORY, PULL_TIME};
use hotshoe_platform::child::{self, Children, SMALL_ARENA, THIS_PROGRAM};

/// The hidden command of the child.
pub const VERB: &str = "fetch-component";
/// The maximum length of a line of the child, in bytes.
const MAX_LINE_BYTES: u64 = 16 * 1024;
/// The maximum number of names that are looked up for a child, and of addresses of each.
const MAX_NAMES: usize = 64;
const MAX_ADDRESSES: usize = 16;
/// The maximum number of children. Requests are served in their order, so that a registry that never answers delays the
/// others, but does not shut them out.
const MAX_CHILDREN: usize = 4;
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

/// What the child says, a line each. After [`Said::Pulled`], the last line, follow as many bytes of the manifest, the
/// component and the signature as it says.
#[derive(Serialize, Deserialize)]
enum Said {
    /// The host is to look up this name. It answers with a line.
    LookUp(String),
    Resolved(Digest),
    Pulled {
        digest: Digest,
        manifest: u64,
        component: u64,
        evidence: u64,
    },
    Failed(RegistryError),
}

/// The host's answer to [`Said::LookUp`].
type Addresses = Result<Vec<IpAddr>, String>;

/// The last line with the bytes that follow it.
struct Answered {
    answer: Said,
    manifest: Vec<u8>,
    component: Vec<u8>,
    evidence: Vec<u8>,
}

/// Pulls in child processes, a few at a time.
#[derive(Debug)]
pub struct Puller {
    children: Children,
    turn: Semaphore,
}

impl Puller {
    /// Creates a puller whose children run this very binary.
    pub fn of_this_binary() -> Self {
        Self::new(THIS_PROGRAM.into())
    }

    /// Creates a puller whose children run `program`, a `hotshoe` binary.
    pub fn new(program: PathBuf) -> Self {
        Self::with(Children::of(program))
    }

    /// Creates a puller with these children.
    pub fn with(children: Children) -> Self {
        Self { children, turn: Semaphore::new(MAX_CHILDREN) }
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
            Said::Resolved(digest) => Ok(digest),
            Said::Failed(error) => Err(error),
            _ => Err(unexpected_answer(image)),
        }
    }

    /// Pulls the component of an image, and verifies its signature.
    ///
    /// # Errors
    /// If the image cannot be pulled, has no component, or is not signed as required.
    pub async fn pull(&self, pull: &Pull) -> Result<Pulled, RegistryError> {
        let answered = self.ask(pull, false).await?;
        let image = pull.image.clone();
        // Not on the thread that reconciles, where hashing a large component would delay reconciles.
        let checked = tokio::task::spawn_blocking(move || answered.pulled(&image));
        let checked = checked.await.unwrap_or_else(|error| Err(failed(&pull.image, error.to_string())));
        let (mut pulled, evidence) = checked?;
        if let Some(verify) = &pull.verify {
            let evidence = evidence.ok_or_else(|| unexpected_answer(&pull.image))?;
            let accepted = verification::verify(&self.children, &pull.image, &pulled, verify, evidence).await?;
            pulled.signature = Some(accepted);
        }
        Ok(pulled)
    }

    /// Runs a child for one request. The child is killed if the future is dropped.
    async fn ask(&self, pull: &Pull, only_resolve: bool) -> Result<Answered, RegistryError> {
        let _turn = self.turn.acquire().await.map_err(|error| failed(&pull.image, error.to_string()))?;
        let late = |_| RegistryError::TimedOut { registry: pull.image.registry().to_owned(), time: PULL_TIME };
        tokio::time::timeout(PULL_TIME, self.run(pull, only_resolve)).await.map_err(late)?
    }

    async fn run(&self, pull: &Pull, only_resolve: bool) -> Result<Answered, RegistryError> {
        let image = &pull.image;
        let broken = |error: io::Error| failed(image, format!("{}: {error}", self.children.program().display()));
        let access = Access { credentials: pull.access.credentials.only_of(image), ..pull.access.clone() };
        let request = Request { pull: Pull { access, ..pull.clone() }, only_resolve };
        let request = serde_json::to_vec(&request).map_err(|error| failed(image, error.to_string()))?;
        let child = self.children.start(self.command()).map_err(broken)?;
        let talk = child.talk(async |stdin, stdout| converse(stdin, BufReader::new(stdout), request, pull.most).await);
        let ended = talk.await.map_err(broken)?;
        match ended.status.code() {
            Some(0) => ended.said.map_err(|_| unexpected_answer(image)),
            Some(_) => Err(failed(image, ended.errors)),
            None => Err(failed(
                image,
                format!(
                    "the process that pulls was stopped ({}): the registry answered with more than fits into \
                     {PULL_MEMORY} of memory, or the process crashed; look at what the registry serves",
                    ended.status
                ),
            )),
        }
    }

    fn command(&self) -> Command {
        let mut command = self.children.command(VERB);
        command
            .env(SMALL_ARENA.0, SMALL_ARENA.1)
            .envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
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
    /// Returns the component, and the signature that the child found, if the answer is about the image that was asked for.
    fn pulled(self, image: &ImageRef) -> Result<(Pulled, Option<Evidence>), RegistryError> {
        match self.answer {
            Said::Pulled { digest, .. } if image.digest().is_none_or(|asked| asked == digest) => {
                let evidence = serde_json::from_slice(&self.evidence).map_err(|_| unexpected_answer(image))?;
                Ok((Pulled::of(image, digest, self.manifest, self.component)?, evidence))
            }
            Said::Failed(error) => Err(error),
            _ => Err(unexpected_answer(image)),
        }
    }
}

/// Talks with a child: sends the request, looks up names for it, and reads its answer with the bytes after it, into
/// buffers of the announced sizes and no others. The child is not trusted: it may announce no more than `most` bytes of
/// a component.
async fn converse(
    mut stdin: impl AsyncWrite + Unpin,
    mut stdout: impl AsyncBufRead + Unpin,
    request: Vec<u8>,
    most: u64,
) -> io::Result<Answered> {
    // A child that ends early reports why on its other streams.
    let _ = write_line(&mut stdin, request).await;
    for _ in 0..=MAX_NAMES {
        let mut line = Vec::new();
        (&mut stdout).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await?;
        let (manifest, component, evidence) = match serde_json::from_slice(&line)? {
            Said::LookUp(name) => {
                let _ = write_line(&mut stdin, serde_json::to_vec(&look_up(name).await)?).await;
                continue;
            }
            Said::Pulled { manifest, component, evidence, .. } => (manifest, component, evidence),
            Said::Resolved(_) | Said::Failed(_) => (0, 0, 0),
        };
        let manifest = read_exactly(&mut stdout, manifest, MANIFEST_BYTES.0).await?;
        let component = read_exactly(&mut stdout, component, most).await?;
        let evidence = read_exactly(&mut stdout, evidence, EVIDENCE_BYTES.0).await?;
        return Ok(Answered { answer: serde_json::from_slice(&line)?, manifest, component, evidence });
    }
    Err(io::ErrorKind::InvalidData.into())
}

async fn write_line(stdin: &mut (impl AsyncWrite + Unpin), mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    stdin.write_all(&line).await?;
    stdin.flush().await
}

async fn look_up(name: String) -> Addresses {
    let mut addresses = System.addresses(name).await.map_err(|error| error.to_string())?;
    addresses.truncate(MAX_ADDRESSES);
    Ok(addresses)
}

async fn read_exactly(stream: &mut (impl AsyncRead + Unpin), length: u64, most: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(length).ok().filter(|_| length <= most).ok_or(io::ErrorKind::InvalidData)?;
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// The streams between the child and its host, in the child.
struct Streams<I, O>(Mutex<(I, O)>);

impl<I: BufRead, O: Write> Streams<I, O> {
    /// Has the host look up a name.
    fn look_up(&self, name: String) -> io::Result<Vec<IpAddr>> {
        let (input, output) = &mut *self.0.lock();
        serde_json::to_writer(&mut *output, &Said::LookUp(name))?;
        output.write_all(b"\n")?;
        output.flush()?;
        let mut line = String::new();
        input.read_line(&mut line)?;
        serde_json::from_str::<Addresses>(&line)?.map_err(io::Error::other)
    }
}

/// Looks up names by the host.
struct ByHost<I, O>(Arc<Streams<I, O>>);

impl<I: BufRead + Send + 'static, O: Write + Send + 'static> LookUp for ByHost<I, O> {
    fn addresses(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let streams = self.0.clone();
        Box::pin(async { tokio::task::spawn_blocking(move || streams.look_up(name)).await? })
    }
}

/// Runs in the child: sets limits for its process, confines it, carries out a request and writes the answer. The
/// process must have no other thread yet.
///
/// # Errors
/// When the request cannot be read, or the answer cannot be written.
pub async fn serve(
    mut input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
) -> anyhow::Result<()> {
    let mut request = String::new();
    input.read_line(&mut request)?;
    let Request { pull, only_resolve } = serde_json::from_str(&request)?;
    // With room for the client's buffers and a component of this size.
    child::limit(PULL_MEMORY.0 + 3 * pull.most, None)?;
    let streams = Arc::new(Streams(Mutex::new((input, output))));
    let done = carry_out(&pull, only_resolve, Arc::new(ByHost(streams.clone()))).await;
    let (answer, pulled) = done.unwrap_or_else(|error| (Said::Failed(error), None));
    let (_, output) = &mut *streams.0.lock();
    serde_json::to_writer(&mut *output, &answer)?;
    output.write_all(b"\n")?;
    if let Some((Pulled { manifest, component, .. }, evidence)) = pulled {
        output.write_all(&manifest)?;
        output.write_all(component.bytes())?;
        output.write_all(&evidence)?;
    }
    output.flush()?;
    Ok(())
}

async fn carry_out(
    pull: &Pull,
    only_resolve: bool,
    names: Arc<dyn LookUp>,
) -> Result<(Said, Option<(Pulled, Vec<u8>)>), RegistryError> {
    // Before the confinement, for it reads files.
    let connection = pull.prepare(names)?;
    child::report(&confinement::confine());
    if only_resolve {
        return Ok((Said::Resolved(pull.resolve_by(&connection).await?), None));
    }
    let pulled = pull.pull_by(&connection, |_, _| ()).await?;
    let evidence = pulled.signature.as_ref().map(|accepted| &accepted.evidence);
    let evidence = serde_json::to_vec(&evidence).map_err(|error| failed(&pull.image, error.to_string()))?;
    let (manifest, component) = (pulled.manifest.len() as u64, pulled.component.bytes().len() as u64);
    let said = Said::Pulled { digest: pulled.digest, manifest, component, evidence: evidence.len() as u64 };
    Ok((said, Some((pulled, evidence))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile;

    fn image() -> ImageRef {
        "oci://a.b/c:1".parse().unwrap()
    }

    async fn read(most: u64, parts: &[&[u8]]) -> Result<Result<Pulled, RegistryError>, io::ErrorKind> {
        let output = parts.concat();
        let answered = converse(tokio::io::sink(), output.as_slice(), Vec::new(), most).await;
        let answered = answered.map_err(|error| error.kind())?;
        Ok(answered.pulled(&image().pinned(Digest::of(&hostile::component().0))).map(|(pulled, _)| pulled))
    }

    /// The last line of a child, which found no signature.
    fn line(of: &[u8], manifest: usize, component: usize) -> Vec<u8> {
        let (manifest, component) = (manifest as u64, component as u64);
        let answer = Said::Pulled { digest: Digest::of(of), manifest, component, evidence: 4 };
        [serde_json::to_vec(&answer).unwrap(), b"\n".to_vec()].concat()
    }

    const NONE: &[u8] = b"null";

    #[tokio::test]
    async fn a_compromised_child_cannot_pass_off_other_bytes_under_a_digest() {
        let (manifest, component) = hostile::component();
        let (m, c) = (manifest.len(), component.len());
        let whole = read(100, &[&line(&manifest, m, c), &manifest, &component, NONE]).await.unwrap().unwrap();
        assert_eq!((whole.digest, whole.component.bytes()), (Digest::of(&manifest), component.as_slice()));
        let other = [manifest.as_slice(), b" "].concat();
        let changed = [component.as_slice(), b"other"].concat();
        for (parts, reason) in [
            ([&line(&manifest, m, c + 5), &manifest, &changed, NONE], "WrongDigest"),
            ([&line(&manifest, m + 1, c), &other, &component, NONE], "WrongDigest"),
            ([&line(&other, m + 1, c), &other, &component, NONE], "PullFailed"),
        ] {
            assert_eq!(read(100, &parts).await.unwrap().unwrap_err().reason(), reason);
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
    async fn a_host_looks_up_names_for_a_child_and_only_so_many() {
        let (host, child) = tokio::io::duplex(1 << 16);
        let (from_child, to_child) = tokio::io::split(host);
        let talk = converse(to_child, BufReader::new(from_child), b"{}".to_vec(), 0);
        let (from_host, mut to_host) = tokio::io::split(child);
        let mut lines = BufReader::new(from_host).lines();
        let ask = async {
            assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("{}"));
            for _ in 0..=MAX_NAMES {
                to_host.write_all(b"{\"LookUp\": \"127.0.0.1\"}\n").await.unwrap();
                assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("{\"Ok\":[\"127.0.0.1\"]}"));
            }
        };
        let (ended, ()) = tokio::join!(talk, ask);
        assert_eq!(ended.map(drop).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_child_asks_its_host_for_addresses() {
        let answers: &[u8] = b"{\"Ok\":[\"10.0.0.1\",\"::1\"]}\n{\"Err\":\"no such name\"}\n";
        let streams = Streams(Mutex::new((answers, Vec::new())));
        assert_eq!(streams.look_up("a.b".to_owned()).unwrap().len(), 2);
        assert_eq!(streams.look_up("c.d".to_owned()).unwrap_err().to_string(), "no such name");
        assert!(streams.look_up("e.f".to_owned()).is_err(), "the host has ended");
        let asked = String::from_utf8(streams.0.into_inner().1).unwrap();
        assert_eq!(asked.lines().next(), Some("{\"LookUp\":\"a.b\"}"));
    }

    #[tokio::test]
    async fn an_error_is_the_same_on_the_other_side() {
        let error = RegistryError::TooLarge { image: "oci://a.b/c".to_owned(), size: 2, limit: 1 };
        let line = serde_json::to_string(&Said::Failed(error.clone())).unwrap() + "\n";
        assert_eq!(read(100, &[line.as_bytes()]).await, Ok(Err(error)));
    }
}
