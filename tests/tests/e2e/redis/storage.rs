//! Claims: kept or deleted as the spec says, and of a size that only grows.

use hotshoe_tests::kinds::{CLAIM, POD, REDIS, STATEFUL_SET};
use hotshoe_tests::run;
use hotshoe_tests::scene::condition_parts;
use serde_json::json;

use super::{has_claims, redis, scene, serves};

#[test]
fn claims_outlive_their_redis_and_are_used_again() {
    run(async {
        let (scene, _host) = scene("kept").await;
        scene.create(redis(json!({ "replicas": 2 }))).await;
        serves(&scene, 2).await;
        let before = scene.get(&CLAIM, "redis-data-redis-1").await;
        scene.delete(&REDIS, "redis").await;
        scene.gone(&STATEFUL_SET, "redis").await;
        scene.gone(&POD, "redis-1").await;
        has_claims(&scene, &[0, 1]).await;
        scene.create(redis(json!({ "replicas": 2 }))).await;
        serves(&scene, 2).await;
        let after = scene.get(&CLAIM, "redis-data-redis-1").await;
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    });
}

#[test]
fn claims_go_where_the_spec_says_so() {
    run(async {
        let (scene, _host) = scene("deleted").await;
        let policy = json!({ "whenDeleted": "Delete", "whenScaled": "Delete" });
        scene.create(redis(json!({ "replicas": 3, "persistentVolumeClaimRetentionPolicy": policy }))).await;
        serves(&scene, 3).await;
        scene.merge(&REDIS, "redis", json!({ "spec": { "replicas": 1 } })).await;
        serves(&scene, 1).await;
        has_claims(&scene, &[0]).await;
        scene.delete(&REDIS, "redis").await;
        scene.gone(&POD, "redis-0").await;
        has_claims(&scene, &[]).await;
    });
}

#[test]
fn a_volume_cannot_shrink_and_its_class_cannot_change() {
    run(async {
        let (scene, _host) = scene("shrunk").await;
        scene
            .create(redis(json!({ "replicas": 1, "storage": { "size": "2Gi", "storageClassName": "standard" } })))
            .await;
        serves(&scene, 1).await;
        for (spec, words) in [
            (json!({ "storage": { "size": "1Gi" } }), "cannot shrink"),
            (json!({ "storage": { "size": "2047Mi" } }), "cannot shrink"),
            (json!({ "storage": { "size": "-1Gi" } }), "spec.storage.size"),
            (json!({ "storage": { "storageClassName": "other" } }), "storageClassName cannot change"),
            (json!({ "storage": { "storageClassName": null } }), "storageClassName cannot change"),
            (json!({ "podManagementPolicy": "Parallel" }), "podManagementPolicy cannot change"),
        ] {
            let merged = scene.admin.merge(&REDIS, &scene.namespace, "redis", &json!({ "spec": spec })).await;
            let refused = merged.expect_err("it is refused");
            assert!(refused.message.contains(words), "{}", refused.message);
        }
    });
}

#[test]
fn a_volume_that_is_to_grow_waits_for_a_new_set_around_the_same_pods() {
    run(async {
        let (scene, _host) = scene("grown").await;
        scene.create(redis(json!({ "replicas": 1 }))).await;
        serves(&scene, 1).await;
        scene.merge(&REDIS, "redis", json!({ "spec": { "storage": { "size": "2Gi" } } })).await;
        let object = scene.until_condition_of(&REDIS, "redis", "Degraded", "True", "StorageNotGrown").await;
        assert!(condition_parts(&object, "Degraded").2.contains("--cascade=orphan"), "{object:#}");
        let pod = scene.get(&POD, "redis-0").await["metadata"]["uid"].clone();
        let path = STATEFUL_SET.path(&scene.namespace, Some("redis"));
        let orphan = json!({ "propagationPolicy": "Orphan" });
        scene.admin.request(http::Method::DELETE, &path, "application/json", &orphan).await.expect("it is deleted");
        scene.until_condition_of(&REDIS, "redis", "Degraded", "False", "").await;
        let set = scene.get(&STATEFUL_SET, "redis").await;
        let claim = &set["spec"]["volumeClaimTemplates"][0];
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "2Gi");
        serves(&scene, 1).await;
        assert_eq!(scene.get(&POD, "redis-0").await["metadata"]["uid"], pod, "it is the same Pod");
    });
}
