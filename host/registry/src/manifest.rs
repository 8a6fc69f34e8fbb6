//! Finds the layer of an image that is its component: in the layout of the CNCF for Wasm in OCI registries, and in the
//! layouts before that.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// The media type of an image of one component.
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media types of images for several platforms.
pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// The longest media type that is shown, by RFC 6838, and the characters of one.
const MAX_TYPE_LENGTH: usize = 255;
const TYPE_CHARACTERS: &str = "!#$&-^_.+/";

/// The media types in the request for a manifest. Indexes are among them, so that an index gets a helpful error.
pub(super) const ACCEPTED: [&str; 3] = [MANIFEST, INDEX, DOCKER_INDEX];

/// The media types in the layout of the CNCF.
pub(super) const CONFIG: &str = "application/vnd.wasm.config.v0+json";
pub(super) const LAYER: &str = "application/wasm";
/// The media types in the layouts before that.
const OLD_CONFIGS: [&str; 2] = ["application/vnd.module.wasm.config.v1+json", "application/vnd.wasm.config.v1+json"];
const OLD_LAYER: &str = "application/vnd.wasm.content.layer.v1+wasm";
/// The media type of the config of a container image.
const CONTAINER: &str = "application/vnd.oci.image.config.v1+json";

/// A manifest, as far as it is needed here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    media_type: Option<String>,
    config: Option<Descriptor>,
    #[serde(default)]
    pub(super) layers: Vec<Descriptor>,
    manifests: Option<IgnoredAny>,
}

/// The description of a blob in a manifest.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    #[serde(default)]
    pub(super) annotations: std::collections::BTreeMap<String, String>,
}

impl Manifest {
    /// Parses a manifest.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        // Without the parser's message, which may quote what was read.
        serde_json::from_slice(bytes)
            .map_err(|error| format!("its manifest cannot be read: line {}, column {}", error.line(), error.column()))
    }

    /// Returns the layer that is the component.
    pub(super) fn component(self) -> Result<Descriptor, String> {
        let media_type = self.media_type.as_deref().unwrap_or(MANIFEST);
        if self.manifests.is_some() || [INDEX, DOCKER_INDEX].contains(&media_type) {
            return Err(
                "it is an index of images for several platforms, and a component runs on all; push the component \
                        itself with `hotshoe push`, or refer to one of those images by its digest"
                    .to_owned(),
            );
        }
        if media_type != MANIFEST {
            let media_type = shown(media_type);
            return Err(format!("its manifest is {media_type}, and not {MANIFEST}; push it with `hotshoe push`"));
        }
        let config = self.config.map(|config| config.media_type).unwrap_or_default();
        if config == CONTAINER {
            return Err("it is an image of a container; push the component itself with `hotshoe push`".to_owned());
        }
        if config != CONFIG && !OLD_CONFIGS.contains(&config.as_str()) {
            let config = shown(&config);
            return Err(format!("its config is {config}, and not {CONFIG}; push it with `hotshoe push`"));
        }
        let count = self.layers.len();
        let mut layers = self.layers.into_iter();
        match (layers.next(), layers.next()) {
            (Some(layer), None) => layer.uncompressed(),
            _ => Err(format!("it has {count} layers, and a component is one; push it with `hotshoe push`")),
        }
    }
}

impl Descriptor {
    /// Returns the layer if it is an uncompressed component. None is decompressed: a few bytes could become any number.
    fn uncompressed(self) -> Result<Self, String> {
        if [LAYER, OLD_LAYER].contains(&self.media_type.as_str()) {
            return Ok(self);
        }
        let media_type = shown(&self.media_type);
        if ["gzip", "zstd", "tar"].iter().any(|compression| self.media_type.ends_with(compression)) {
            return Err(format!(
                "its layer is {media_type}, and compressed or packed layers are not accepted; push it with `hotshoe push`"
            ));
        }
        Err(format!("its layer is {media_type}, and not {LAYER}; push it with `hotshoe push`"))
    }
}

/// Returns a text that is a media type by its form; other bytes of a registry are not shown.
fn shown(media_type: &str) -> &str {
    let is_known = |letter: char| letter.is_ascii_alphanumeric() || TYPE_CHARACTERS.contains(letter);
    let is_one = media_type.len() <= MAX_TYPE_LENGTH && media_type.contains('/') && media_type.chars().all(is_known);
    if is_one { media_type } else { "no media type" }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn component(manifest: &Value) -> Result<Descriptor, String> {
        Manifest::read(manifest.to_string().as_bytes())?.component()
    }

    fn image(config: &str, layers: &[&str]) -> Value {
        let blob = |media_type: &&str| json!({ "mediaType": media_type, "digest": "sha256:00", "size": 7 });
        let layers: Vec<_> = layers.iter().map(blob).collect();
        json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": blob(&config), "layers": layers })
    }

    #[test]
    fn both_layouts_are_accepted() {
        for (config, layer) in [(CONFIG, LAYER), (OLD_CONFIGS[0], OLD_LAYER), (OLD_CONFIGS[1], OLD_LAYER)] {
            let found = component(&image(config, &[layer])).unwrap();
            assert_eq!((found.media_type.as_str(), found.size), (layer, 7));
        }
    }

    #[test]
    fn an_image_of_another_kind_is_refused_with_what_to_do() {
        for (manifest, why) in [
            (json!({ "mediaType": INDEX, "manifests": [] }), "index"),
            (json!({ "manifests": [] }), "index"),
            (json!({ "mediaType": DOCKER_INDEX }), "index"),
            (json!({ "mediaType": "application/x" }), "application/x"),
            (image(CONTAINER, &[LAYER]), "container"),
            (image("application/x", &[LAYER]), "application/x"),
            (json!({ "layers": [] }), "config"),
            (image(CONFIG, &[]), "0 layers"),
            (image(CONFIG, &[LAYER, LAYER]), "2 layers"),
            (image(CONFIG, &["application/wasm+gzip"]), "compressed"),
            (image(CONFIG, &["application/vnd.oci.image.layer.v1.tar+zstd"]), "compressed"),
            (image(CONFIG, &["application/vnd.oci.image.layer.v1.tar"]), "packed"),
            (image(CONFIG, &["text/plain"]), "text/plain"),
            (json!([]), "cannot be read"),
            (image("a secret", &[LAYER]), "no media type"),
            (image(CONFIG, &["a secret"]), "no media type"),
            (json!({ "layers": "a secret" }), "cannot be read"),
        ] {
            let error = component(&manifest).unwrap_err();
            assert!(error.contains(why), "{manifest}: {error}");
            assert!(error.contains("hotshoe push") || why == "cannot be read", "{error}");
            assert!(!error.contains("a secret"), "{error}");
        }
    }
}
