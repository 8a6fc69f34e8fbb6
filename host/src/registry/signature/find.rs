//! Finds the signatures that cosign stores beside an image.

use sigstore_verify::types::Bundle;

use crate::registry::connection::Connection;
use crate::registry::error::RegistryError;
use crate::registry::manifest::{Descriptor, Manifest};
use crate::registry::pull;
use crate::registry::reference::ImageRef;
use crate::registry::signature::Signature;
use crate::registry::signature::simple_signing::{PAYLOAD, Signed};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::{SIGNATURE_BYTES, SIGNATURES};

/// The prefix of the media types of bundles of every version.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";

/// Returns the signatures of an image, with an error in place of each that cannot be read.
pub(super) async fn signatures(
    connection: &Connection,
    image: &ImageRef,
    digest: Digest,
) -> Result<Vec<Result<Signature, String>>, RegistryError> {
    let mut found = simple(connection, image, digest).await?;
    found.extend(bundles(connection, image).await?);
    Ok(found)
}

/// Returns the signatures under the tag that is made of the digest.
async fn simple(
    connection: &Connection,
    image: &ImageRef,
    digest: Digest,
) -> Result<Vec<Result<Signature, String>>, RegistryError> {
    let tag = image.tagged(format!("sha256-{}.sig", digest.full()));
    let bytes = match pull::manifest(connection, &tag).await {
        Err(RegistryError::ImageNotFound { .. }) => return Ok(Vec::new()),
        bytes => bytes?,
    };
    let layers = match Manifest::read(&bytes) {
        Ok(manifest) => manifest.layers,
        Err(why) => return Ok(vec![Err(why)]),
    };
    let mut found = Vec::new();
    for layer in layers.into_iter().filter(|layer| layer.media_type == PAYLOAD).take(SIGNATURES) {
        let signed = match small_blob(connection, &tag, &layer).await? {
            Ok(payload) => Signed::read(payload, &layer.annotations).map(Signature::Simple),
            Err(why) => Err(why),
        };
        found.push(signed);
    }
    Ok(found)
}

/// Returns the bundles that refer to the image. Registries without the referrers API have them under a tag, which the
/// client library looks up.
async fn bundles(connection: &Connection, image: &ImageRef) -> Result<Vec<Result<Signature, String>>, RegistryError> {
    let index = connection.about(image, connection.client.pull_referrers(&image.as_reference(), None)).await;
    let index = match index {
        Err(RegistryError::ImageNotFound { .. }) => return Ok(Vec::new()),
        index => index?,
    };
    let is_bundle = |kind: &Option<String>| kind.as_ref().is_none_or(|kind| kind.starts_with(BUNDLE));
    let mut found = Vec::new();
    for entry in index.manifests.into_iter().filter(|entry| is_bundle(&entry.artifact_type)).take(SIGNATURES) {
        let Ok(digest) = entry.digest.parse() else { continue };
        let referrer = image.pinned(digest);
        let manifest = Manifest::read(&pull::manifest(connection, &referrer).await?);
        let layers = manifest.map(|manifest| manifest.layers).unwrap_or_default();
        // Other things that refer to the image, such as an SBOM, are no signatures.
        let Some(layer) = layers.iter().find(|layer| layer.media_type.starts_with(BUNDLE)) else { continue };
        found.push(small_blob(connection, &referrer, layer).await?.and_then(|bytes| read(&bytes)));
    }
    Ok(found)
}

fn read(bytes: &[u8]) -> Result<Signature, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("a bundle is no text: {error}"))?;
    let bundle = Bundle::from_json(text).map_err(|error| format!("a bundle cannot be read: {error}"))?;
    Ok(Signature::Bundle(Box::new(bundle)))
}

/// Returns a blob, unless it is too large to be a signature.
async fn small_blob(
    connection: &Connection,
    image: &ImageRef,
    layer: &Descriptor,
) -> Result<Result<Vec<u8>, String>, RegistryError> {
    if layer.size > SIGNATURE_BYTES.0 {
        return Ok(Err(format!("a signature has {} bytes, more than {SIGNATURE_BYTES}", layer.size)));
    }
    pull::blob(connection, image, layer, |_| ()).await.map(Ok)
}
