//! Pushes a component as an image, in the layout of the CNCF for Wasm in OCI registries.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Method, StatusCode};
use reqwest::{Body, Request};
use serde::Serialize;

use crate::connection::{Access, Connection, Operation};
use crate::error::RegistryError;
use crate::manifest::{CONFIG, LAYER, MANIFEST};
use crate::names::System;
use crate::reference::{ImageRef, sha256};
use hotshoe_core::model::digest::Digest;

/// The annotation with the name of the component's file.
const TITLE: &str = "org.opencontainers.image.title";

/// An image of one component. It contains no time and no place of its build, so that the same component has the same
/// digest.
#[derive(Debug)]
pub struct Image {
    config: Vec<u8>,
    manifest: Vec<u8>,
    component: Vec<u8>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    architecture: &'static str,
    os: &'static str,
    layer_digests: [String; 1],
    component: Interfaces,
}

#[derive(Serialize)]
struct Interfaces {
    exports: Vec<String>,
    imports: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    schema_version: u32,
    media_type: &'static str,
    config: Descriptor,
    layers: [Descriptor; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: &'static str,
    digest: String,
    size: usize,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'static str, String>,
}

impl Descriptor {
    fn of(media_type: &'static str, bytes: &[u8]) -> Self {
        let digest = sha256(Digest::of(bytes));
        Self { media_type, digest, size: bytes.len(), annotations: BTreeMap::new() }
    }
}

impl Image {
    /// Builds the image of a component with these exports and imports. `title` is the name of its file.
    ///
    /// # Errors
    /// Never: every part of an image can be written as JSON.
    pub fn of(component: Vec<u8>, title: &str, exports: Vec<String>, imports: Vec<String>) -> serde_json::Result<Self> {
        let mut layer = Descriptor::of(LAYER, &component);
        let interfaces = Interfaces { exports, imports };
        let config =
            Config { architecture: "wasm", os: "wasip2", layer_digests: [layer.digest.clone()], component: interfaces };
        let config = serde_json::to_vec(&config)?;
        layer.annotations.insert(TITLE, title.to_owned());
        let config_blob = Descriptor::of(CONFIG, &config);
        let manifest = Manifest { schema_version: 2, media_type: MANIFEST, config: config_blob, layers: [layer] };
        Ok(Self { manifest: serde_json::to_vec(&manifest)?, config, component })
    }

    /// Returns the digest of its manifest.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.manifest)
    }

    /// Pushes the image under this reference. Returns the reference by its digest.
    ///
    /// # Errors
    /// If the registry does not accept the image, or the reference names another digest.
    pub async fn push(self, image: &ImageRef, access: &Access) -> Result<ImageRef, RegistryError> {
        let digest = self.digest();
        if image.digest().is_some_and(|named| named != digest) {
            return Err(RegistryError::WrongDigest {
                image: image.to_string(),
                why: format!("what is pushed has {}; leave the digest out", sha256(digest)),
            });
        }
        let connection = Connection::prepare(image, access, Operation::Push, Arc::new(System))?;
        connection.log_in().await?;
        push_blob(&connection, image, self.config).await?;
        push_blob(&connection, image, self.component).await?;
        let path = format!("manifests/{}", image.version());
        let request = connection.request(Method::PUT, &path, &["*/*"])?;
        connection.get(image, filled(request, MANIFEST, self.manifest)).await?;
        Ok(image.pinned(digest))
    }
}

/// Pushes a blob, if the registry does not have it.
async fn push_blob(connection: &Connection, image: &ImageRef, bytes: Vec<u8>) -> Result<(), RegistryError> {
    let digest = sha256(Digest::of(&bytes));
    let answer = connection.send(connection.request(Method::HEAD, &format!("blobs/{digest}"), &["*/*"])?).await?;
    match answer.status() {
        StatusCode::NOT_FOUND => {}
        status if status.is_success() => return Ok(()),
        status => return Err(connection.refused(image, status)),
    }
    let begin = filled(connection.request(Method::POST, "blobs/uploads/", &["*/*"])?, BYTES, Vec::new());
    let begun = connection.get(image, begin).await?;
    let place = begun.headers().get(LOCATION).and_then(|place| place.to_str().ok());
    let place = place.ok_or_else(|| connection.failed("it does not say where a blob is to be put".to_owned()))?;
    let mut url = connection.url(place)?;
    url.query_pairs_mut().append_pair("digest", &digest);
    connection.get(image, filled(Request::new(Method::PUT, url), BYTES, bytes)).await.map(drop)
}

/// The media type of bytes of any kind.
const BYTES: &str = "application/octet-stream";

fn filled(mut request: Request, media_type: &'static str, bytes: Vec<u8>) -> Request {
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    *request.body_mut() = Some(Body::from(bytes));
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_component_has_the_same_digest_and_another_one_another() {
        let digest = |component: &[u8]| Image::of(component.to_vec(), "a.wasm", vec![], vec![]).unwrap().digest();
        assert_eq!(digest(b"a"), digest(b"a"));
        assert_ne!(digest(b"a"), digest(b"b"));
    }

    #[test]
    fn an_image_has_the_layout_of_the_cncf() {
        let image = Image::of(b"wasm".to_vec(), "a.wasm", vec!["e".to_owned()], vec!["i".to_owned()]).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&image.manifest).unwrap();
        let config: serde_json::Value = serde_json::from_slice(&image.config).unwrap();
        assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
        assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
        assert_eq!(manifest["layers"][0]["annotations"][TITLE], "a.wasm");
        assert_eq!(config["layerDigests"][0], manifest["layers"][0]["digest"]);
        assert_eq!((&config["architecture"], &config["os"]), (&"wasm".into(), &"wasip2".into()));
        assert_eq!(config["component"], serde_json::json!({ "exports": ["e"], "imports": ["i"] }));
    }
}
