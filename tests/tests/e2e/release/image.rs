//! The image, as another client of images sees it. That it runs is shown in `alone/in_cluster.rs`.

use std::process::Command;

use hotshoe_tests::release::{VERSION, artefact};
use hotshoe_tests::tool;
use serde_json::{Value, json};

use super::done;

/// The bytes that a node downloads for the host alone, at most.
const MAX_BYTES: u64 = 25_000_000;

/// Returns what skopeo says about an image of the layout.
fn inspected(tag: &str, options: &[&str]) -> Value {
    let image = format!("oci-archive:{}:{tag}", artefact("hotshoe-image-", ".oci.tar").display());
    let mut skopeo = Command::new(tool("registry", "skopeo"));
    let printed = done(skopeo.arg("--insecure-policy").arg("inspect").args(options).arg(image));
    serde_json::from_str(&printed).expect("JSON")
}

#[test]
fn the_image_of_the_host_alone_is_small_and_runs_without_root() {
    let config = inspected(VERSION, &["--config"]);
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"], json!(["/hotshoe"]));
    let manifest = inspected(VERSION, &["--raw"]);
    let layers = manifest["layers"].as_array().expect("layers");
    let bytes: u64 = layers.iter().filter_map(|layer| layer["size"].as_u64()).sum();
    println!("the image with the host alone: {bytes} bytes compressed");
    assert!(layers.len() == 1 && (1..=MAX_BYTES).contains(&bytes), "{bytes} bytes: {manifest:#}");
}

#[test]
fn the_image_with_the_plugins_has_the_layer_of_the_host_alone_and_one_more() {
    let layers = |tag: &str| inspected(tag, &["--raw"])["layers"].as_array().cloned().expect("layers");
    let (alone, with_plugins) = (layers(VERSION), layers(&format!("{VERSION}-plugins")));
    assert_eq!((with_plugins.len(), with_plugins.first()), (2, alone.first()));
}
