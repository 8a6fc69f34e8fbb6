//! Another image goes to the highest ordinal first, in stages.

use futures::StreamExt;
use hotshoe_tests::kinds::{REDIS, STATEFUL_SET};
use hotshoe_tests::run;
use hotshoe_tests::scene::condition_parts;
use serde_json::{Value, json};

use super::{images, redis, rolled_out, scene, serves};

#[test]
fn the_partition_goes_down_as_servers_are_ready() {
    run(async {
        let (scene, _host) = scene("staged").await;
        scene.create(redis(json!({}))).await;
        serves(&scene, 3).await;
        let changes = scene.watch(&STATEFUL_SET).await;
        scene.merge(&REDIS, "redis", json!({ "spec": { "image": "redis:7.0" } })).await;
        rolled_out(&scene, 3).await;
        assert_eq!(images(&scene).await, ["redis:7.0"; 3]);
        // In each state of the set, the servers below the partition were not updated.
        let states = changes.map(|(_, set)| {
            let partition = set["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or_default();
            (partition, set["status"]["updatedReplicas"].as_i64().unwrap_or_default(), set)
        });
        let mut seen = Vec::new();
        let mut states = Box::pin(states);
        while let Some((partition, updated, set)) = states.next().await {
            let is_new = set["spec"]["template"]["spec"]["containers"][0]["image"] == "redis:7.0";
            let is_current = set["status"]["observedGeneration"] == set["metadata"]["generation"];
            if is_new && is_current {
                assert!(updated <= 3 - partition, "{updated} at partition {partition}");
                seen.push(partition);
            }
            if is_new && is_current && updated == 3 && partition == 0 && set["status"]["readyReplicas"] == 3 {
                break;
            }
        }
        seen.dedup();
        assert_eq!(seen, [2, 1, 0]);
    });
}

#[test]
fn a_pause_between_two_servers_is_kept() {
    run(async {
        let (scene, _host) = scene("paused").await;
        scene.create(redis(json!({ "replicas": 2, "updateStrategy": { "pauseSeconds": 4 } }))).await;
        serves(&scene, 2).await;
        scene.merge(&REDIS, "redis", json!({ "spec": { "image": "redis:7.0" } })).await;
        let half = |object: &Value| object["status"]["updatedReplicas"] == 1;
        scene.until_object(&REDIS, "redis", "has updated one", half).await;
        let began = std::time::Instant::now();
        assert_eq!(images(&scene).await, ["redis:6.0", "redis:7.0"], "the highest ordinal is the first");
        let whole = |object: &Value| object["status"]["updatedReplicas"] == 2 && object["status"]["readyReplicas"] == 2;
        scene.until_object(&REDIS, "redis", "has updated both", whole).await;
        // Kubernetes writes times in whole seconds, and the test saw the first server a moment later.
        assert!(began.elapsed().as_secs() >= 2, "{:?}", began.elapsed());
    });
}

#[test]
fn a_partition_holds_servers_back_until_it_is_lowered() {
    run(async {
        let (scene, _host) = scene("held").await;
        scene.create(redis(json!({ "updateStrategy": { "partition": 2 } }))).await;
        serves(&scene, 3).await;
        scene.merge(&REDIS, "redis", json!({ "spec": { "image": "redis:7.0" } })).await;
        scene.until_condition_of(&REDIS, "redis", "Progressing", "False", "PartitionHolds").await;
        assert_eq!(images(&scene).await, ["redis:6.0", "redis:6.0", "redis:7.0"]);
        scene.merge(&REDIS, "redis", json!({ "spec": { "updateStrategy": { "partition": 0 } } })).await;
        rolled_out(&scene, 3).await;
        assert_eq!(images(&scene).await, ["redis:7.0"; 3]);
    });
}

#[test]
fn a_partition_beyond_the_servers_holds_all_of_them_and_is_named() {
    run(async {
        let (scene, _host) = scene("beyond").await;
        scene.create(redis(json!({ "updateStrategy": { "partition": 9 } }))).await;
        serves(&scene, 3).await;
        scene.merge(&REDIS, "redis", json!({ "spec": { "image": "redis:7.0" } })).await;
        let object = scene.until_condition_of(&REDIS, "redis", "Progressing", "False", "PartitionBeyondReplicas").await;
        let message = condition_parts(&object, "Progressing").2;
        assert!(message.contains("is 9, and the highest ordinal is 2"), "{message}");
        assert_eq!(images(&scene).await, ["redis:6.0"; 3]);
    });
}
