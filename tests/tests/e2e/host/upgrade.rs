//! An upgrade to a host that does not offer the contract for which a component was built.

use hotshoe_tests::faulty::{fault, scene_with_faults, serves};
use hotshoe_tests::guests::{self, Folder};
use hotshoe_tests::kinds::{CONFIG_MAP, FAULT, MEMCACHED};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{memcached, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The contract of the component, and one of the same length that no host offers yet.
const BUILT_FOR: &str = "hotshoe:reconciler/reconciler@0.1.0";
const NOT_OFFERED: &str = "hotshoe:reconciler/reconciler@9.1.0";

#[test]
fn a_plugin_whose_contract_the_new_host_does_not_offer_waits_with_all_of_its_objects_until_it_is_rebuilt() {
    run(async {
        let mut scene = scene_with_faults("upgrade").await;
        let folder = Folder::of_faulty();
        let start = scene.start().await.plugins(&[&guests::memcached(), folder.path()]);
        let mut before = start.ready().await;
        serves(&scene, "old").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        assert!(before.stop().success());

        // A Pod of the new host has an empty cache, and finds the component where it was.
        let (parent, child) = (scene.get(&FAULT, "old").await, scene.get(&CONFIG_MAP, "old").await);
        folder.put(&guests::reworded(folder.original(), BUILT_FOR, NOT_OFFERED));
        let cache = TempDir::new().expect("a folder");
        let host = start.cache(cache.path()).start();
        scene.watch_log(&host);
        let plugin = host
            .until("the plugin is refused", async || {
                let plugin = host.plugin_named("faulty").await?;
                let is_refused = plugin["refused"]["reason"] == "ContractMismatch";
                if is_refused { Ok(plugin) } else { Err(format!("{plugin:#}")) }
            })
            .await;
        let message = plugin["refused"]["message"].as_str().unwrap_or_default();
        for words in ["plugin needs hotshoe:reconciler@9.1.0", "this host offers 0.1.0 and 0.2.0", "rebuild it"] {
            assert!(message.contains(words), "{message}");
        }
        assert_eq!(plugin["ready"], false, "{plugin:#}");

        // The other plugin works, and nothing of this one is touched.
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 2 } })).await;
        scene.available("cache").await;
        scene.create(fault("new", "")).await;
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        assert_eq!(version(&scene.get(&FAULT, "old").await), version(&parent));
        assert_eq!(version(&scene.get(&CONFIG_MAP, "old").await), version(&child));

        folder.put(folder.original());
        let is_served = |object: &Value| condition_parts(object, "Kept").0 == "True";
        scene.until_object(&FAULT, "new", "is served", is_served).await;
        assert_eq!(version(&scene.get(&FAULT, "old").await), version(&parent), "nothing was to be written");
    });
}
