//! A `Plugin` whose component is an image of a real registry.

use std::path::Path;
use std::process::Command;

use hotshoe_tests::Registry;
use hotshoe_tests::host::program;
use hotshoe_tests::registry::{LOGIN, Start};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{guests, memcached, run};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::rig::{Guest, Rig};

/// Pushes a component, and returns its image.
pub(crate) fn push(registry: &Registry, component: &[u8], tag: &str, docker: &Path) -> String {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("plugin.wasm");
    std::fs::write(&file, component).expect("a file is written");
    let image = registry.image(&format!("plugins/memcached:{tag}"));
    let output = Command::new(program()).arg("push").arg(&file).arg(&image).env("DOCKER_CONFIG", docker).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    image
}

fn second(guest: &Guest) -> Vec<u8> {
    guests::reworded(guest.folder.original(), "0.1.0", "0.1.1")
}

#[test]
fn a_component_of_a_registry_serves_and_its_tag_is_followed() {
    run(async {
        let (rig, registry, docker) = (Rig::new("image").await, Registry::start(), TempDir::new().expect("a folder"));
        let guest = rig.memcached("image").await;
        let image = push(&registry, guest.folder.original(), "1", docker.path());
        rig.create(&rig.object(&guest, json!({ "oci": image, "interval": "10s" }))).await;
        let ready = rig.until_ready(&guest).await;
        let source = ready["status"]["source"].as_str().unwrap_or_default();
        let repository = image.trim_end_matches(":1");
        assert!(source.starts_with(&format!("{repository}@sha256:")), "{source}");
        rig.scene.create(memcached("served", 1)).await;
        rig.scene.available("served").await;

        // The tag is moved.
        push(&registry, &second(&guest), "1", docker.path());
        let is_moved = |object: &Value| {
            object["status"]["digest"] != ready["status"]["digest"]
                && object["status"]["source"] != ready["status"]["source"]
        };
        rig.until(&guest, "has what the tag means now", is_moved).await;
        // The registry stops, and the component that was pulled continues to serve.
        drop(registry);
        rig.until_condition(&guest, "Stalled", "True", "RegistryUnreachable").await;
        rig.until_ready(&guest).await;
    });
}

#[test]
fn a_host_in_a_new_pod_pulls_earlier_revisions_again() {
    run(async {
        let (mut rig, registry, docker) =
            (Rig::new("repull").await, Registry::start(), TempDir::new().expect("a folder"));
        let guest = rig.memcached("repull").await;
        let image = push(&registry, guest.folder.original(), "1", docker.path());
        let mut object = rig.object(&guest, json!({ "oci": image, "interval": "10s" }));
        object["spec"]["rollout"] = json!({ "canary": { "percent": 50 }, "duration": "60m" });
        rig.create(&object).await;
        let first = rig.until_ready(&guest).await["status"].clone();
        push(&registry, &second(&guest), "1", docker.path());
        let is_beside_first =
            |object: &Value| object["status"]["canary"].is_object() && object["status"]["digest"] == first["digest"];
        let canary = rig.until(&guest, "has a canary", is_beside_first).await["status"]["canary"]["digest"].clone();

        // A new Pod has neither of the two. The canary must not decide for all parents.
        rig.replace_host().await;
        let again = rig.until(&guest, "has the canary again", is_beside_first).await;
        assert_eq!(again["status"]["canary"]["digest"], canary);
        assert_eq!(again["status"]["source"], first["source"], "the source is that of the active revision");
        rig.scene.create(memcached("served", 1)).await;
        rig.scene.available("served").await;

        rig.merge(&guest, json!({ "spec": { "rollout": null } })).await;
        rig.until(&guest, "has the second revision", |object| object["status"]["digest"] == canary).await;
        rig.replace_host().await;
        rig.until_ready(&guest).await;
        rig.merge(&guest, json!({ "spec": { "revision": first["digest"] } })).await;
        let back = rig.until(&guest, "is back", |object| object["status"]["digest"] == first["digest"]).await;
        assert_eq!(back["status"]["source"], first["source"]);
    });
}

#[test]
fn an_image_that_is_not_there_or_not_signed_is_refused_until_it_is() {
    run(async {
        let (rig, registry, docker) = (Rig::new("signed").await, Registry::start(), TempDir::new().expect("a folder"));
        let guest = rig.memcached("signed").await;
        let image = registry.image("plugins/memcached:1");
        let key = hotshoe_tests::registry::a_public_key();
        let source = json!({ "oci": image, "interval": "10s", "verify": { "keys": [key] } });
        rig.create(&rig.object(&guest, source)).await;
        rig.until_condition(&guest, "Stalled", "True", "ImageNotFound").await;
        push(&registry, guest.folder.original(), "1", docker.path());
        let stalled = rig.until_condition(&guest, "Stalled", "True", "SignatureMissing").await;
        assert!(stalled["status"]["digest"].is_null(), "{stalled:#}");
        assert_eq!(condition_parts(&stalled, "Ready").0, "False");
        rig.merge(&guest, json!({ "spec": { "source": { "verify": null } } })).await;
        rig.until_ready(&guest).await;
    });
}

#[test]
fn a_registry_is_logged_in_to_with_a_pull_secret() {
    run(async {
        let rig = Rig::new("secret").await;
        let (registry, docker) =
            (Registry::with(Start { login: true, ..Start::default() }), TempDir::new().expect("a folder"));
        let (user, password) = LOGIN;
        let login =
            json!({ "auths": { registry.address.clone(): { "username": user, "password": password } } }).to_string();
        std::fs::write(docker.path().join("config.json"), &login).expect("a file is written");
        let guest = rig.memcached("secret").await;
        let image = push(&registry, guest.folder.original(), "1", docker.path());
        guest.folder.edit("    file: memcached.wasm\n", &format!("    oci: {image}\n    pullSecret: {}\n", guest.name));
        let built = guest.folder.path().join(format!("{}.wasm", guest.name));
        std::fs::copy(guest.folder.component(), built).expect("the component is there");
        rig.grant(&guest).await;
        let source = json!({ "oci": image, "pullSecret": guest.name });
        rig.create(&rig.object(&guest, source)).await;
        let stalled = rig.until_condition(&guest, "Stalled", "True", "PullSecretMissing").await;
        assert!(condition_parts(&stalled, "Stalled").2.contains(&guest.name), "{stalled:#}");
        rig.put_pull_secret(&guest.name, &login).await;
        rig.until_ready(&guest).await;
    });
}
