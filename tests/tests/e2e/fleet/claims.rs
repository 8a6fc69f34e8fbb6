//! Two `Plugin` objects that want the same parents.

use hotshoe_tests::kinds::DEPLOYMENT;
use hotshoe_tests::scene::said;
use hotshoe_tests::{memcached, run};

use super::rig::Rig;

#[test]
fn of_two_plugins_with_the_same_parents_the_older_serves_until_it_is_gone() {
    run(async {
        let rig = Rig::new("claims").await;
        let older = rig.memcached("a-older").await;
        rig.apply(&older).await;
        rig.until_ready(&older).await;
        // By time or, within one second, by name.
        let newer = rig.memcached("b-newer").await;
        rig.apply(&newer).await;
        let stalled = rig.until_said(&newer, "Stalled", "True", "ParentsTaken").await;
        let message = said(&stalled, "Stalled").2;
        assert!(message.contains(&older.name) && message.contains("spec.parent.selector"), "{message}");
        rig.scene.create(memcached("served", 1)).await;
        rig.scene.available("served").await;
        let label = |object: &serde_json::Value| object["metadata"]["labels"]["hotshoe.dev/plugin"].clone();
        assert_eq!(label(&rig.scene.get(&DEPLOYMENT, "served").await), older.name);

        rig.merge(&older, serde_json::json!({ "spec": { "deletionPolicy": "orphan" } })).await;
        rig.delete(&older).await;
        rig.until_gone(&older).await;
        rig.until_ready(&newer).await;
    });
}
