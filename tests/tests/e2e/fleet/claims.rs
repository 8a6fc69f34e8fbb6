//! Two `Plugin` objects that want the same parents.

use hotshoe_tests::guests::reworded;
use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Scene, memcached, run};
use serde_json::{Value, json};

use super::rig::{Guest, Rig, file};

/// Returns the plugin that made the Deployment of a Memcached.
async fn maker(scene: &Scene, name: &str) -> Value {
    scene.get(&DEPLOYMENT, name).await["metadata"]["labels"]["hotshoe.dev/plugin"].clone()
}

#[test]
fn of_two_plugins_with_the_same_parents_the_older_serves_until_it_is_gone() {
    run(async {
        let rig = Rig::new("claims").await;
        let older = rig.memcached("a-older").await;
        rig.apply(&older).await;
        rig.until_ready(&older).await;
        // The older one by creation time or, within the same second, by name.
        let newer = rig.memcached("b-newer").await;
        rig.apply(&newer).await;
        let stalled = rig.until_condition(&newer, "Stalled", "True", "ParentsTaken").await;
        let message = condition_parts(&stalled, "Stalled").2;
        assert!(message.contains(&older.name) && message.contains("spec.parent.selector"), "{message}");
        let event = rig.until_event(&newer, "ParentsTaken", &older.name).await;
        assert_eq!(event["type"], "Warning", "{event:#}");
        rig.scene.create(memcached("served", 1)).await;
        rig.scene.available("served").await;
        assert_eq!(maker(&rig.scene, "served").await, older.name);

        rig.merge(&older, json!({ "spec": { "deletionPolicy": "orphan" } })).await;
        rig.delete(&older).await;
        rig.until_gone(&older).await;
        rig.until_ready(&newer).await;
        let event = rig.until_event(&newer, "Active", "serves its parents").await;
        assert_eq!(event["type"], "Normal", "{event:#}");
    });
}

#[test]
fn a_plugin_that_names_no_parents_has_those_of_its_component_before_a_newer_plugin_also_after_a_restart() {
    run(async {
        let mut rig = Rig::new("claims-unnamed").await;
        let (older, newer) = (rig.memcached("a-unnamed").await, rig.memcached("b-named").await);
        let mut object = rig.object(&older, file(&older));
        object["spec"].as_object_mut().expect("a spec").remove("parent").expect("the plugin names its parents");
        rig.create(&object).await;
        rig.until_ready(&older).await;
        rig.apply(&newer).await;
        for _ in 0..2 {
            let stalled = rig.until_condition(&newer, "Stalled", "True", "ParentsTaken").await;
            let message = condition_parts(&stalled, "Stalled").2;
            assert!(message.contains(&older.name) && message.contains("Memcached.cache.example.com"), "{message}");
            rig.until_ready(&older).await;
            rig.replace_host().await;
        }
        rig.scene.create(memcached("served", 1)).await;
        rig.scene.available("served").await;
        assert_eq!(maker(&rig.scene, "served").await, older.name);
    });
}

#[test]
fn two_plugins_with_parents_of_one_kind_in_different_namespaces_serve_side_by_side() {
    run(async {
        let rig = Rig::everywhere("claims-apart").await;
        let elsewhere = Scene::new(rig.scene.plane, "claims-elsewhere").await;
        let within = |guest: &Guest, namespace: &str| {
            let mut object = rig.object(guest, file(guest));
            object["spec"]["parent"]["namespaces"] = json!([namespace]);
            object
        };
        let (here, there) = (rig.memcached("here").await, rig.memcached("there").await);
        // No two plugins of a host have the same finalizer.
        let (finalizer, another) = ("cache.example.com/finalizer", "cache.example.com/finalize2");
        there.folder.edit(finalizer, another);
        there.folder.put(&reworded(there.folder.original(), finalizer, another));
        rig.create(&within(&here, &rig.scene.namespace)).await;
        rig.create(&within(&there, &elsewhere.namespace)).await;
        for (guest, scene) in [(&here, &rig.scene), (&there, &elsewhere)] {
            rig.until_ready(guest).await;
            scene.create(memcached("served", 1)).await;
            scene.available("served").await;
            assert_eq!(maker(scene, "served").await, guest.name);
        }
        // Parents outside of a changed list of namespaces are released.
        rig.merge(&here, json!({ "spec": { "parent": { "namespaces": ["nowhere"] } } })).await;
        let is_let_go = |object: &Value| object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        rig.scene.until_object(&MEMCACHED, "served", "is released", is_let_go).await;
        elsewhere.merge(&MEMCACHED, "served", json!({ "spec": { "size": 2 } })).await;
        elsewhere.available("served").await;
        assert_eq!(rig.scene.get(&DEPLOYMENT, "served").await["spec"]["replicas"], 1);
    });
}
