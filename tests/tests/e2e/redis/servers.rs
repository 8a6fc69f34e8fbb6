//! The Service, the StatefulSet and its Pods and claims: their fields, and scaling.

use hotshoe_tests::kinds::{CLAIM, POD, REDIS, SERVICE, STATEFUL_SET};
use hotshoe_tests::run;
use serde_json::{Value, json};

use super::{has_claims, labelled, redis, scene, serves, set};

#[test]
fn a_redis_becomes_servers_with_names_and_volumes_of_their_own() {
    run(async {
        let (scene, _host) = scene("redis").await;
        scene.create(redis(json!({}))).await;
        let object = serves(&scene, 3).await;
        assert_eq!(labelled(&scene, &POD).await, ["redis-0", "redis-1", "redis-2"]);
        assert_eq!(labelled(&scene, &CLAIM).await, ["redis-data-redis-0", "redis-data-redis-1", "redis-data-redis-2"]);
        let service = scene.get(&SERVICE, "redis-headless").await;
        assert_eq!(service["spec"]["clusterIP"], "None");
        assert_eq!(
            (&service["spec"]["ports"][0]["name"], &service["spec"]["ports"][0]["port"]),
            (&json!("redis"), &json!(6379))
        );
        let set = set(&scene).await;
        assert_eq!(set["spec"]["serviceName"], "redis-headless");
        for child in [&service, &set] {
            assert_eq!(child["metadata"]["ownerReferences"][0]["uid"], object["metadata"]["uid"]);
        }
        for ordinal in object["status"]["ordinals"].as_array().expect("a list") {
            assert_eq!(
                (&ordinal["reason"], &ordinal["ready"], &ordinal["updated"]),
                (&json!("Ready"), &json!(true), &json!(true))
            );
        }
    });
}

#[test]
fn servers_start_one_after_the_other() {
    run(async {
        let (scene, _host) = scene("ordered").await;
        scene.create(redis(json!({ "replicas": 4 }))).await;
        serves(&scene, 4).await;
        let mut pods = scene.list(&POD).await;
        pods.sort_by_key(|pod| pod["metadata"]["resourceVersion"].to_string());
        let created = |pod: &Value| pod["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned();
        pods.sort_by_key(|pod| pod["metadata"]["name"].to_string());
        assert!(pods.is_sorted_by_key(created), "{pods:#?}");
    });
}

#[test]
fn the_scale_subresource_adds_servers_and_removes_the_highest() {
    run(async {
        let (scene, _host) = scene("scaled").await;
        scene.create(redis(json!({ "replicas": 2 }))).await;
        serves(&scene, 2).await;
        let path = format!("{}/scale", REDIS.path(&scene.namespace, Some("redis")));
        let merge = "application/merge-patch+json";
        let scale = |replicas: usize| json!({ "spec": { "replicas": replicas } });
        let answer = scene.admin.request(http::Method::PATCH, &path, merge, &scale(4)).await.expect("it is scaled");
        assert_eq!(answer["status"]["selector"], "app=redis,app.kubernetes.io/instance=redis");
        serves(&scene, 4).await;
        scene.admin.request(http::Method::PATCH, &path, merge, &scale(1)).await.expect("it is scaled");
        serves(&scene, 1).await;
        assert_eq!(labelled(&scene, &POD).await, ["redis-0"]);
        has_claims(&scene, &[0, 1, 2, 3]).await;
    });
}

#[test]
fn deleting_one_redis_leaves_another_in_its_namespace_ready() {
    run(async {
        let (scene, _host) = scene("two").await;
        scene.create(redis(json!({ "replicas": 1 }))).await;
        let mut other = redis(json!({ "replicas": 2 }));
        other["metadata"]["name"] = "redis-1".into();
        scene.create(other).await;
        serves(&scene, 1).await;
        let is_served = |object: &Value| object["status"]["readyReplicas"] == 2;
        scene.until_object(&REDIS, "redis-1", "serves", is_served).await;
        scene.delete(&REDIS, "redis").await;
        scene.gone(&STATEFUL_SET, "redis").await;
        scene.gone(&POD, "redis-0").await;
        assert_eq!(scene.get(&REDIS, "redis-1").await["status"]["readyReplicas"], 2);
    });
}

#[test]
fn a_name_that_no_set_can_have_is_refused() {
    run(async {
        let (scene, _host) = scene("named").await;
        let mut long = redis(json!({}));
        long["metadata"]["name"] = "a".repeat(53).into();
        let refused = scene.try_create(long).await.expect_err("a name that is too long");
        assert!(refused.message.contains("52 characters"), "{}", refused.message);
        let mut dotted = redis(json!({}));
        dotted["metadata"]["name"] = "a.b".into();
        scene.create(dotted).await;
        let rejected = scene.until_condition_of(&REDIS, "a.b", "Reconciled", "False", "").await;
        assert!(rejected.to_string().contains("metadata.name"), "{rejected:#}");
        assert!(scene.find(&STATEFUL_SET, "a.b").await.is_none());
    });
}
