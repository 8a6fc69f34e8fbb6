//! Pushed and pulled images, checked with another client.

use std::fs;

use hotshoe_tests::Registry;
use serde_json::{Value, json};

use super::{Desk, component, other_component};

const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const LAYER: &str = "application/wasm";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn image(config: Value, layer: Value) -> Value {
    json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] })
}

#[test]
fn another_client_reads_a_pushed_image_and_its_copy_is_pulled() {
    let (registry, desk) = (Registry::start(), Desk::new());
    let pushed = desk.hotshoe(&["push", "a.wasm", &registry.image("org/a:1"), "-o", "json"]).json();
    let digest = pushed["digest"].as_str().expect("a digest");
    assert_eq!(pushed["reference"], format!("{}@{digest}", registry.image("org/a")));

    let docker = |name: &str| registry.image(name).replace("oci://", "docker://");
    let manifest = desk.skopeo(&["inspect", "--tls-verify=false", "--raw", &docker("org/a:1")]);
    let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    assert_eq!(
        (&manifest["config"]["mediaType"], &manifest["layers"][0]["mediaType"]),
        (&CONFIG.into(), &LAYER.into())
    );
    let config = desk.skopeo(&["inspect", "--tls-verify=false", "--config", "--raw", &docker("org/a:1")]);
    let config: Value = serde_json::from_slice(&config).expect("JSON");
    assert!(config["component"]["exports"].to_string().contains("hotshoe:reconciler/reconciler"), "{config}");

    let plain = ["copy", "--src-tls-verify=false", "--dest-tls-verify=false"];
    desk.skopeo(&[&plain[..], &[&docker("org/a:1"), &docker("copied/a:2")]].concat());
    let pulled = desk.hotshoe(&["pull", &registry.image("copied/a:2"), "--out", "b.wasm"]).done();
    assert_eq!(pulled, format!("{}@{digest}", registry.image("copied/a")), "the copy has the same digest");
    assert_eq!(desk.read("b.wasm"), component());

    desk.skopeo(&["copy", "--src-tls-verify=false", &docker("org/a:1"), "dir:out"]);
    let layer = manifest["layers"][0]["digest"].as_str().expect("a digest").trim_start_matches("sha256:");
    assert_eq!(desk.read(&format!("out/{layer}")), component());
}

#[test]
fn the_same_component_has_the_same_digest_and_a_digest_is_pulled_after_its_tag_has_moved() {
    let (registry, desk) = (Registry::start(), Desk::new());
    let push = |file: &str| desk.hotshoe(&["push", file, &registry.image("a:1")]).done();
    let first = push("a.wasm");
    assert_eq!(push("a.wasm"), first);
    desk.write("other.wasm", other_component());
    let other = push("other.wasm");
    assert_ne!(other, first);
    let pull = |image: &str| {
        let pulled = desk.hotshoe(&["pull", image, "--out", "pulled.wasm"]).done();
        (pulled, desk.read("pulled.wasm"))
    };
    assert_eq!(pull(&registry.image("a:1")), (other, desk.read("other.wasm")));
    assert_eq!(pull(&first), (first.clone(), component()));
}

#[test]
fn an_image_in_the_layout_before_that_of_the_cncf_is_pulled() {
    let (registry, desk) = (Registry::start(), Desk::new());
    let config = registry.blob("old", "application/vnd.module.wasm.config.v1+json", b"{}");
    let layer = registry.blob("old", "application/vnd.wasm.content.layer.v1+wasm", &component());
    registry.put("old", "1", &image(config, layer));
    desk.hotshoe(&["pull", &registry.image("old:1")]).done();
    assert_eq!(desk.read("old.wasm"), component());
    assert!(
        desk.hotshoe(&["pull", &registry.image("old:1")]).refused().contains("--out"),
        "no file is replaced unasked"
    );
}

#[test]
fn an_image_of_another_kind_is_refused_and_no_file_is_written() {
    let (registry, desk) = (Registry::start(), Desk::new());
    let config = |kind: &str| registry.blob("x", kind, b"{}");
    let layer = |kind: &str, bytes: &[u8]| registry.blob("x", kind, bytes);
    let container = "application/vnd.oci.image.config.v1+json";
    let zipped = "application/vnd.oci.image.layer.v1.tar+gzip";
    let mut huge = layer(LAYER, &component());
    huge["size"] = json!(1_u64 << 30);
    for (tag, manifest, reason) in [
        ("container", image(config(container), layer(zipped, b"\x1f\x8b")), "a container"),
        ("zipped", image(config(CONFIG), layer("application/wasm+gzip", b"\x1f\x8b")), "compressed"),
        ("words", image(config(CONFIG), layer(LAYER, b"words")), "does not begin like WebAssembly"),
        ("module", image(config(CONFIG), layer(LAYER, b"\0asm\x01\0\0\0")), "core module"),
        ("huge", image(config(CONFIG), huge), "limits.componentBytes"),
        (
            "index",
            json!({
                "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []
            }),
            "index of images",
        ),
    ] {
        registry.put("x", tag, &manifest);
        let error = desk.hotshoe(&["pull", &registry.image(&format!("x:{tag}"))]).refused();
        assert!(error.contains(reason) && error.lines().count() == 1, "{tag}: {error}");
        assert!(!desk.path("x.wasm").exists(), "{tag}");
    }
}

#[test]
fn a_component_that_a_host_would_refuse_is_not_pushed() {
    let (registry, desk) = (Registry::start(), Desk::new());
    desk.write("words.wasm", "words");
    let error = desk.hotshoe(&["push", "words.wasm", &registry.image("a:1")]).refused();
    assert!(error.contains("cannot push words.wasm") && error.contains("no WebAssembly component"), "{error}");
    let digest = format!("{}@sha256:{}", registry.image("a"), "0".repeat(64));
    assert!(desk.hotshoe(&["push", "a.wasm", &digest]).refused().contains("leave the digest out"));
    for (image, why) in [("localhost:5000/a", "does not begin with oci://"), ("oci://org/a", "docker.io")] {
        let ended = desk.hotshoe(&["push", "a.wasm", image]);
        assert_eq!(ended.code, Some(2), "{}", ended.errors);
        assert!(ended.errors.contains(why), "{}", ended.errors);
    }
    let missing = desk.hotshoe(&["pull", &registry.image("a:1"), "--out", "b.wasm"]).refused();
    assert!(missing.contains("is not there") && missing.contains("hotshoe push"), "{missing}");
}

#[test]
fn a_plugin_is_pushed_by_its_folder() {
    let (registry, desk) = (Registry::start(), Desk::new());
    fs::create_dir(desk.path("demo")).expect("a folder");
    let manifest =
        "apiVersion: hotshoe.dev/v1alpha1\nkind: Plugin\nmetadata: {name: demo}\nspec: {source: {file: demo.wasm}}\n";
    desk.write("demo/plugin.yaml", manifest);
    let error = desk.hotshoe(&["push", "demo", &registry.image("demo:1")]).refused();
    assert!(error.contains("hotshoe build"), "{error}");
    desk.write("demo/demo.wasm", component());
    let by_folder = desk.hotshoe(&["push", "demo", &registry.image("demo:1")]).done();
    assert!(by_folder.starts_with(&registry.image("demo@sha256:")), "{by_folder}");
}

#[test]
fn a_registry_that_is_down_is_named() {
    let (mut registry, desk) = (Registry::start(), Desk::new());
    registry.stop();
    for arguments in [&["push", "a.wasm"][..], &["pull", "--out", "b.wasm"]] {
        let error = desk.hotshoe(&[arguments, &[&registry.image("a:1")]].concat()).refused();
        assert!(error.contains(&format!("cannot reach the registry {}", registry.address)), "{error}");
    }
}
