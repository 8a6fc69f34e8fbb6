//! Where the component of a `Plugin` comes from.

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::kinds::CONFIG_MAP;
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{guests, memcached, run};
use serde_json::json;

use super::rig::Rig;

#[test]
fn a_component_in_a_config_map_is_waited_for_fetched_and_followed() {
    run(async {
        let rig = Rig::new("config-map").await;
        let guest = rig.memcached("kept").await;
        let key = json!({ "configMap": { "name": guest.name, "key": "plugin.wasm" } });
        rig.create(&rig.object(&guest, key)).await;
        let stalled = rig.until_condition(&guest, "Stalled", "True", "ConfigMapMissing").await;
        let message = condition_parts(&stalled, "Stalled").2;
        assert!(message.contains(&guest.name) && message.contains(SYSTEM), "{message}");
        rig.put_config_map(&guest.name, "other.wasm", guest.folder.original()).await;
        let stalled = rig.until_condition(&guest, "Stalled", "True", "KeyMissing").await;
        assert!(condition_parts(&stalled, "Stalled").2.contains("no key plugin.wasm"), "{stalled:#}");
        rig.put_config_map(&guest.name, "plugin.wasm", guest.folder.original()).await;
        let ready = rig.until_ready(&guest).await;
        let source = ready["status"]["source"].as_str().unwrap_or_default();
        assert!(source.contains(&guest.name), "{source}");
        rig.scene.create(memcached("served", 1)).await;
        rig.scene.available("served").await;

        let second = guests::reworded(guest.folder.original(), "0.1.0", "0.1.1");
        rig.put_config_map(&guest.name, "plugin.wasm", &second).await;
        let digest = ready["status"]["digest"].clone();
        rig.until(&guest, "has the second component", |object| object["status"]["digest"] != digest).await;

        // The component continues to serve after its source is gone.
        rig.scene.admin.delete(&CONFIG_MAP, SYSTEM, &guest.name).await.expect("the ConfigMap is there");
        rig.until_condition(&guest, "Stalled", "True", "ConfigMapMissing").await;
        rig.until_ready(&guest).await;
    });
}

#[test]
fn another_source_replaces_the_one_before() {
    run(async {
        let rig = Rig::new("another").await;
        let guest = rig.memcached("moved").await;
        rig.apply(&guest).await;
        let first = rig.until_ready(&guest).await["status"]["digest"].clone();
        let second = guests::reworded(guest.folder.original(), "0.1.0", "0.1.1");
        rig.put_config_map(&guest.name, "plugin.wasm", &second).await;
        let source = json!({ "file": null, "configMap": { "name": guest.name, "key": "plugin.wasm" } });
        rig.merge(&guest, json!({ "spec": { "source": source } })).await;
        rig.until(&guest, "has the other component", |object| object["status"]["digest"] != first).await;
        rig.until_ready(&guest).await;
    });
}
