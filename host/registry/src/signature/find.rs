//! Finds the signatures that cosign stores beside an image.
//!
//! Anyone who may write to a repository may put anything beside an image. So what cannot be fetched or read is refused, and
//! the search goes on: it ends at the first signature that is accepted.

use std::collections::BTreeMap;

use http::Method;
use http::header::LINK;
use reqwest::{Request, Response};
use serde::Deserialize;
use serde_json::Value;

use crate::connection::Connection;
use crate::error::RegistryError;
use crate::manifest::{Descriptor, INDEX, Manifest};
use crate::pull;
use crate::reference::{ImageRef, sha256};
use crate::signature::bundle::SIGNATURE_PREDICATE;
use crate::signature::simple_signing::PAYLOAD;
use crate::signature::{Accepted, Evidence, Judge, Verify, named};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::{REGISTRY_TIME, SIGNATURE_BYTES, SIGNATURES};

/// The prefix of the media types of bundles of every version.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// The annotation by which cosign says what a bundle states.
const PREDICATE: &str = "dev.sigstore.bundle.predicateType";

impl Verify {
    /// Finds a signature by one of the signers of the image with this digest.
    pub(crate) async fn find(
        &self,
        connection: &Connection,
        image: &ImageRef,
        digest: Digest,
    ) -> Result<Accepted, RegistryError> {
        let mut judge = self.judge(digest)?;
        let found = first(connection, image, digest, &mut judge).await;
        found.ok_or_else(|| match judge.refusals.is_empty() {
            true => RegistryError::SignatureMissing { image: image.to_string() },
            false => RegistryError::SignatureInvalid { image: image.to_string(), why: named(judge.refusals) },
        })
    }
}

/// Returns the first signature of an image that is accepted. The refusals are those of the judge.
async fn first(connection: &Connection, image: &ImageRef, digest: Digest, judge: &mut Judge) -> Option<Accepted> {
    if let Ok(Some(accepted)) = tokio::time::timeout(REGISTRY_TIME, simple(connection, image, digest, judge)).await {
        return Some(accepted);
    }
    let search = tokio::time::timeout(REGISTRY_TIME, bundles(connection, image, digest, judge)).await;
    search.unwrap_or_else(|_| {
        judge.refuse(format!("the search was not done within {}s", REGISTRY_TIME.as_secs()));
        None
    })
}

/// Judges the signatures under the tag that is made of the digest.
async fn simple(connection: &Connection, image: &ImageRef, digest: Digest, judge: &mut Judge) -> Option<Accepted> {
    let tag = image.tagged(format!("sha256-{}.sig", digest.full()));
    let layers = match pull::manifest(connection, &tag).await {
        Err(RegistryError::ImageNotFound { .. }) => return None,
        Err(error) => Err(format!("the signatures under its tag: {}", error.brief())),
        Ok(bytes) => Manifest::read(&bytes).map(|manifest| manifest.layers),
    };
    let layers = layers.unwrap_or_else(|why| {
        judge.refuse(why);
        Vec::new()
    });
    for layer in layers.into_iter().filter(|layer| layer.media_type == PAYLOAD).take(SIGNATURES) {
        let evidence = small_blob(connection, &tag, &layer)
            .await
            .map(|payload| Evidence::Simple { payload, annotations: layer.annotations });
        if let Some(accepted) = judge.judge(evidence) {
            return Some(accepted);
        }
    }
    None
}

/// Judges the bundles that refer to the image.
async fn bundles(connection: &Connection, image: &ImageRef, digest: Digest, judge: &mut Judge) -> Option<Accepted> {
    let mut entries = match referrers(connection, image, digest).await {
        Ok(entries) => entries,
        Err(why) => {
            why.into_iter().for_each(|why| judge.refuse(why));
            tagged_referrers(connection, image, digest, judge).await
        }
    };
    // Those that say to be signatures come first, for there may be any number of others.
    entries.sort_by_key(Referrer::rank);
    for entry in entries.iter().take(SIGNATURES) {
        match bundle(connection, image, entry).await {
            Ok(None) => {}
            Ok(Some(text)) => {
                if let Some(accepted) = judge.judge(Ok(Evidence::Bundle(text))) {
                    return Some(accepted);
                }
            }
            Err(why) => judge.refuse(format!("a referrer: {why}")),
        }
    }
    if let Some(more) = entries.len().checked_sub(SIGNATURES).filter(|more| *more > 0) {
        judge.refuse(format!("{more} more were not looked at"));
    }
    None
}

/// A referrer of an image, from the index that the registry returns: a manifest with this image as its subject.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Referrer {
    digest: String,
    artifact_type: Option<String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Referrer {
    /// Returns whether it may be a bundle. Some registries do not say what it is.
    fn may_be_bundle(&self) -> bool {
        self.artifact_type.as_ref().is_none_or(|kind| kind.is_empty() || kind.starts_with(BUNDLE))
    }

    /// Returns how late it is looked at.
    fn rank(&self) -> u8 {
        match (self.annotations.get(PREDICATE).map(String::as_str), &self.artifact_type) {
            (Some(SIGNATURE_PREDICATE), _) => 0,
            (None, Some(_)) => 1,
            (None, None) => 2,
            (Some(_), _) => 3,
        }
    }
}

/// Reads an index of referrers. An entry that cannot be read hides no other.
fn read(bytes: &[u8]) -> Result<Vec<Referrer>, String> {
    #[derive(Deserialize)]
    struct Index {
        #[serde(default)]
        manifests: Vec<Value>,
    }
    let index: Index = serde_json::from_slice(bytes).map_err(|_| "the list of referrers cannot be read".to_owned())?;
    let entries = index.manifests.into_iter().filter_map(|entry| serde_json::from_value(entry).ok());
    Ok(entries.filter(Referrer::may_be_bundle).collect())
}

/// Returns what refers to the image by the API for that. Without that API it is an error, with a message where the answer
/// is not that of a registry that lacks it.
async fn referrers(connection: &Connection, image: &ImageRef, digest: Digest) -> Result<Vec<Referrer>, Option<String>> {
    let why = |error: RegistryError| Some(format!("the list of referrers: {}", error.brief()));
    let path = format!("referrers/{}", sha256(digest));
    let mut next = Some(connection.request(Method::GET, &path, &[INDEX]).map_err(why)?);
    let mut found = Vec::new();
    while let Some(request) = next.filter(|_| found.len() <= SIGNATURES) {
        let answer = connection.send(request).await.map_err(why)?;
        match answer.status().as_u16() {
            200..=299 => {}
            400 | 404 | 405 | 501 => return Err(None),
            _ => return Err(why(connection.refused(image, answer.status()))),
        }
        next = next_page(connection, &answer);
        let too_long = || "the list is too long".to_owned();
        let page = pull::bounded(connection, image, answer, too_long).await.map_err(why)?;
        found.extend(read(&page).map_err(Some)?);
    }
    Ok(found)
}

/// Returns the request for what follows: `Link: <ADDRESS>; rel="next"`.
fn next_page(connection: &Connection, answer: &Response) -> Option<Request> {
    let link = answer.headers().get(LINK)?.to_str().ok()?;
    let (address, relation) = link.trim().strip_prefix('<')?.split_once('>')?;
    let address = answer.url().join(address).ok().filter(|_| relation.contains("next"))?;
    Some(Request::new(Method::GET, connection.url(address.as_str()).ok()?))
}

/// Returns what refers to the image by the tag that is made of the digest, for registries without the API.
async fn tagged_referrers(
    connection: &Connection,
    image: &ImageRef,
    digest: Digest,
    judge: &mut Judge,
) -> Vec<Referrer> {
    let tag = image.tagged(format!("sha256-{}", digest.full()));
    let entries = match pull::manifest(connection, &tag).await {
        Err(RegistryError::ImageNotFound { .. }) => Ok(Vec::new()),
        Err(error) => Err(format!("the tag of referrers: {}", error.brief())),
        Ok(bytes) => read(&bytes),
    };
    entries.unwrap_or_else(|why| {
        judge.refuse(why);
        Vec::new()
    })
}

/// Returns the text of a bundle; nothing if what refers to the image is something else, such as a list of parts.
async fn bundle(connection: &Connection, image: &ImageRef, entry: &Referrer) -> Result<Option<String>, String> {
    let referrer = image.pinned(entry.digest.parse().map_err(str::to_owned)?);
    let manifest = pull::manifest(connection, &referrer).await.map_err(|error| error.brief())?;
    let layers = Manifest::read(&manifest)?.layers;
    let Some(layer) = layers.iter().find(|layer| layer.media_type.starts_with(BUNDLE)) else { return Ok(None) };
    small_blob(connection, &referrer, layer).await.map(Some)
}

/// Returns a blob, unless it is too large to be a signature, or no text.
async fn small_blob(connection: &Connection, image: &ImageRef, layer: &Descriptor) -> Result<String, String> {
    if layer.size > SIGNATURE_BYTES.0 {
        return Err(format!("a signature has {} bytes, more than {SIGNATURE_BYTES}", layer.size));
    }
    let bytes = pull::blob(connection, image, layer, |_| ()).await.map_err(|error| error.brief())?;
    String::from_utf8(bytes).map_err(|_| "a signature is no text".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_says_to_be_a_signature_is_looked_at_first_and_a_broken_entry_hides_no_other() {
        let entry = |name: &str, kind: Option<&str>, predicate: Option<&str>| {
            let annotations = predicate.map(|predicate| json!({ PREDICATE: predicate }));
            json!({ "digest": name, "artifactType": kind, "annotations": annotations.unwrap_or_else(|| json!({})) })
        };
        let index = json!({ "manifests": [
            7,
            { "artifactType": BUNDLE },
            entry("scan", Some(BUNDLE), Some("https://example.org/scan")),
            entry("unknown", None, None),
            entry("plain", Some(BUNDLE), None),
            entry("parts", Some("application/spdx+json"), None),
            entry("signature", Some(BUNDLE), Some(SIGNATURE_PREDICATE)),
        ]});
        let mut found = read(index.to_string().as_bytes()).unwrap();
        found.sort_by_key(Referrer::rank);
        let names: Vec<_> = found.iter().map(|entry| entry.digest.as_str()).collect();
        assert_eq!(names, ["signature", "plain", "unknown", "scan"]);
        assert!(read(b"{\"manifests\": \"a secret\"}").unwrap_err().contains("cannot be read"));
    }
}
