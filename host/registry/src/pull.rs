//! Pulls the component to which a reference points. A tag is resolved to a digest once, and everything is pulled by
//! that digest.

use std::sync::Arc;

use http::Method;
use reqwest::Response;
use serde::{Deserialize, Serialize};

use crate::connection::{Access, Connection, Operation, timed};
use crate::error::{RegistryError, root_cause, unreachable, wrong_digest};
use crate::manifest::{ACCEPTED, Descriptor, Manifest};
use crate::names::{LookUp, System};
use crate::reference::{ImageRef, sha256};
use crate::signature::{Accepted, Verify};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::MANIFEST_BYTES;
use hotshoe_platform::candidate::{Candidate, begins_like_a_component};

/// A request to pull a component.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pull {
    /// The image of the component.
    pub image: ImageRef,
    /// How its registry is reached.
    pub access: Access,
    /// The maximum size of the component, in bytes: `limits.componentBytes`.
    pub most: u64,
    /// The accepted signers; none if no signature is required.
    pub verify: Option<Verify>,
}

/// A component that was pulled.
#[derive(Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The digest of its image's manifest, by which it can be pulled again.
    pub digest: Digest,
    /// The component.
    pub component: Candidate,
    /// The manifest, which has that digest and contains the digest of the component.
    pub(super) manifest: Vec<u8>,
    /// The signature that was accepted, if one was required.
    pub signature: Option<Accepted>,
}

impl Pulled {
    /// Checks a component and the manifest of its image against their digests.
    ///
    /// # Errors
    /// If the manifest has another digest, or names another component.
    pub(super) fn of(
        image: &ImageRef,
        digest: Digest,
        manifest: Vec<u8>,
        component: Vec<u8>,
    ) -> Result<Self, RegistryError> {
        let component = Candidate::of(component);
        check(&image.pinned(digest), &manifest, component.digest())?;
        Ok(Self { digest, component, manifest, signature: None })
    }
}

impl Pull {
    /// Pulls the component, and reports the bytes received so far and the bytes in all.
    ///
    /// # Errors
    /// If the image cannot be pulled, has no component, or is not signed as required.
    pub async fn pull(&self, progress: impl Fn(u64, u64)) -> Result<Pulled, RegistryError> {
        self.pull_by(&self.prepare(Arc::new(System))?, progress).await
    }

    /// Prepares a connection with the registry, which looks up names in this way, without a request yet.
    ///
    /// # Errors
    /// If the credentials or the authorities cannot be used.
    pub(super) fn prepare(&self, names: Arc<dyn LookUp>) -> Result<Connection, RegistryError> {
        Connection::prepare(&self.image, &self.access, Operation::Pull, names)
    }

    /// Returns the digest of the image that the reference means now, by small requests alone: this is asked often.
    ///
    /// # Errors
    /// If the registry cannot be asked, or does not have the image.
    pub(super) async fn resolve_by(&self, connection: &Connection) -> Result<Digest, RegistryError> {
        if let Some(digest) = self.image.digest() {
            return Ok(digest);
        }
        connection.log_in().await?;
        resolve(connection, &self.image).await
    }

    /// Pulls the component over a prepared connection.
    ///
    /// # Errors
    /// As [`Pull::pull`].
    pub(super) async fn pull_by(
        &self,
        connection: &Connection,
        progress: impl Fn(u64, u64),
    ) -> Result<Pulled, RegistryError> {
        connection.log_in().await?;
        let digest = match self.image.digest() {
            Some(digest) => digest,
            None => resolve(connection, &self.image).await?,
        };
        let image = self.image.pinned(digest);
        let manifest = manifest(connection, &image).await?;
        let layer = layer(&image, &manifest)?;
        if layer.size > self.most {
            return Err(RegistryError::TooLarge { image: image.to_string(), size: layer.size, limit: self.most });
        }
        // Before the component is pulled: an image that is not signed is refused without that download.
        let signature = match &self.verify {
            Some(verify) => Some(verify.find(connection, &image, digest).await?),
            None => None,
        };
        let component = blob(connection, &image, &layer, |came| progress(came, layer.size)).await?;
        begins_like_a_component(&component)
            .map_err(|error| RegistryError::NotAComponent { image: image.to_string(), why: error.to_string() })?;
        Ok(Pulled { digest, component: Candidate::of(component), manifest, signature })
    }
}

/// Checks the manifest of an image against the digest in the reference, and that it names this component.
///
/// # Errors
/// If the manifest has another digest, or names another component.
pub(super) fn check(image: &ImageRef, manifest: &[u8], component: Digest) -> Result<(), RegistryError> {
    check_digest(image, manifest)?;
    match layer(image, manifest)?.digest.parse() == Ok(component) {
        true => Ok(()),
        false => Err(wrong_digest(image, "the component has another one than the manifest names")),
    }
}

/// Returns the layer that is the component.
fn layer(image: &ImageRef, manifest: &[u8]) -> Result<Descriptor, RegistryError> {
    let layer = Manifest::read(manifest).and_then(Manifest::component);
    layer.map_err(|why| RegistryError::WrongMediaType { image: image.to_string(), why })
}

/// The header with the digest of a manifest.
const DIGEST: &str = "docker-content-digest";

async fn resolve(connection: &Connection, image: &ImageRef) -> Result<Digest, RegistryError> {
    let path = path_of(image);
    let answer = connection.send(connection.request(Method::HEAD, &path, &ACCEPTED)?).await?;
    let digest = answer.headers().get(DIGEST).filter(|_| answer.status().is_success());
    match (digest, answer.status().as_u16()) {
        (Some(digest), _) => {
            digest.to_str().ok().and_then(|digest| digest.parse().ok()).ok_or_else(|| {
                connection.failed(format!("what it says to be the digest of {image} is no SHA-256 digest"))
            })
        }
        (None, 401 | 403 | 404 | 429) => Err(connection.refused(image, answer.status())),
        // Some registries answer no such requests, or without the digest.
        (None, _) => Ok(Digest::of(&manifest(connection, image).await?)),
    }
}

/// Returns the bytes of a manifest. They are checked against the digest, if the reference has one.
pub(super) async fn manifest(connection: &Connection, image: &ImageRef) -> Result<Vec<u8>, RegistryError> {
    let answer = connection.get(image, connection.request(Method::GET, &path_of(image), &ACCEPTED)?).await?;
    let bytes = bounded(connection, image, answer, || format!("its manifest has more than {MANIFEST_BYTES}")).await?;
    check_digest(image, &bytes)?;
    Ok(bytes)
}

fn path_of(image: &ImageRef) -> String {
    format!("manifests/{}", image.version())
}

/// Returns the body of an answer, unless it is larger than a manifest may be.
pub(super) async fn bounded(
    connection: &Connection,
    image: &ImageRef,
    answer: Response,
    why: impl FnOnce() -> String,
) -> Result<Vec<u8>, RegistryError> {
    let bytes = timed(image, connection.body(image, answer, MANIFEST_BYTES.0)).await??;
    bytes.ok_or_else(|| RegistryError::WrongMediaType { image: image.to_string(), why: why() })
}

fn check_digest(image: &ImageRef, manifest: &[u8]) -> Result<(), RegistryError> {
    match image.digest() {
        Some(digest) if Digest::of(manifest) != digest => Err(wrong_digest(image, "its manifest has another one")),
        _ => Ok(()),
    }
}

/// Returns the bytes of a blob, checked against its digest. No more bytes are kept than its descriptor announces.
pub(super) async fn blob(
    connection: &Connection,
    image: &ImageRef,
    blob: &Descriptor,
    came: impl Fn(u64),
) -> Result<Vec<u8>, RegistryError> {
    let expected: Digest = blob.digest.parse().map_err(|why| wrong_digest(image, why))?;
    // By its digest alone. A manifest may name other addresses for a blob, which an attacker would choose.
    let request = connection.request(Method::GET, &format!("blobs/{}", sha256(expected)), &["*/*"])?;
    let answer = connection.get(image, request).await?;
    let bytes = timed(image, collect(image, answer, blob.size, came)).await??;
    match Digest::of(&bytes) == expected {
        true => Ok(bytes),
        false => Err(wrong_digest(image, format!("the blob {} has another one", sha256(expected)))),
    }
}

async fn collect(
    image: &ImageRef,
    mut answer: Response,
    size: u64,
    came: impl Fn(u64),
) -> Result<Vec<u8>, RegistryError> {
    let longer = || wrong_digest(image, format!("a blob has more than the {size} bytes that its manifest says"));
    if answer.content_length().is_some_and(|length| length > size) {
        return Err(longer());
    }
    // The callers have checked the size against a limit.
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    let cut_off = |error: reqwest::Error| unreachable(image.registry(), root_cause(&error.without_url()));
    while let Some(chunk) = answer.chunk().await.map_err(cut_off)? {
        if (bytes.len() + chunk.len()) as u64 > size {
            return Err(longer());
        }
        bytes.extend_from_slice(&chunk);
        came(bytes.len() as u64);
    }
    Ok(bytes)
}
