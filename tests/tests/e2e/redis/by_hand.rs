//! Changes of the StatefulSet by others: they are reverted, and an Event about the Redis says what to edit instead.

use hotshoe_tests::kinds::{REDIS, STATEFUL_SET};
use hotshoe_tests::{Scene, run};
use serde_json::json;

use super::{images, redis, rolled_out, scene, serves};

/// Runs kubectl as a user would.
fn kubectl(scene: &Scene, arguments: &[&str]) {
    let output = scene.kubectl(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_set_that_is_scaled_by_hand_is_reverted() {
    run(async {
        let (scene, _host) = scene("scaled-by-hand").await;
        scene.create(redis(json!({ "replicas": 2 }))).await;
        serves(&scene, 2).await;
        kubectl(&scene, &["scale", "statefulset", "redis", "--replicas=4"]);
        scene.until_object(&STATEFUL_SET, "redis", "has two servers again", |set| set["spec"]["replicas"] == 2).await;
        scene.event("redis", "ScaledByHand", "kubectl scale redis/redis --replicas=4").await;
        serves(&scene, 2).await;
        // The test follows the Event's advice.
        kubectl(&scene, &["scale", "redis/redis", "--replicas=3"]);
        serves(&scene, 3).await;
        assert_eq!(scene.events("redis", "ScaledByHand").await.len(), 1, "a change of the Redis is none by hand");
    });
}

#[test]
fn a_set_that_is_rolled_back_by_hand_is_reverted() {
    run(async {
        let (scene, _host) = scene("undone").await;
        scene.create(redis(json!({ "replicas": 2 }))).await;
        serves(&scene, 2).await;
        scene.merge(&REDIS, "redis", json!({ "spec": { "image": "redis:7.0" } })).await;
        rolled_out(&scene, 2).await;
        kubectl(&scene, &["rollout", "undo", "statefulset/redis"]);
        scene.event("redis", "TemplateChangedByHand", "edit spec of Redis redis instead, for example spec.image").await;
        scene
            .until("all servers have the image of the spec again", async || match images(&scene).await {
                images if images == ["redis:7.0", "redis:7.0"] => Ok(()),
                images => Err(format!("{images:?}")),
            })
            .await;
        serves(&scene, 2).await;
        let set = scene.get(&STATEFUL_SET, "redis").await;
        assert_eq!(set["spec"]["template"]["spec"]["containers"][0]["image"], "redis:7.0");
    });
}
