//! The status reports what was observed.

use futures::StreamExt;
use hotshoe_tests::kinds::{MEMCACHED, POD};
use hotshoe_tests::scene::{condition, condition_parts, is_settled};
use hotshoe_tests::{memcached, run};
use serde_json::{Value, json};

use crate::memcached::scene;

const CONDITIONS: [&str; 3] = ["Available", "Progressing", "Degraded"];

#[test]
fn nodes_are_the_sorted_names_of_the_pods() {
    run(async {
        let scene = scene("nodes").await;
        scene.create(memcached("cache", 3)).await;
        let object = scene.available("cache").await;
        let pods = scene.list(&POD).await;
        let mut names: Vec<_> = pods.iter().map(|pod| pod["metadata"]["name"].clone()).collect();
        names.sort_by_key(|name| name.as_str().map(str::to_owned));
        assert_eq!(object["status"]["nodes"], Value::Array(names));
    });
}

#[test]
fn nodes_do_not_name_pods_that_are_going_away() {
    run(async {
        let scene = scene("terminating").await;
        scene.create(memcached("cache", 2)).await;
        let object = scene.available("cache").await;
        let going = object["status"]["nodes"][0].as_str().unwrap().to_owned();
        scene.merge(&POD, &going, json!({ "metadata": { "finalizers": ["example.com/held"] } })).await;
        scene.delete(&POD, &going).await;
        let is_replaced = |object: &Value| {
            let nodes = object["status"]["nodes"].as_array().unwrap();
            nodes.len() == 2 && !nodes.contains(&Value::from(going.clone()))
        };
        let object = scene.until_object(&MEMCACHED, "cache", "names the new Pod", is_replaced).await;
        let pod = scene.get(&POD, &going).await;
        assert!(!pod["metadata"]["deletionTimestamp"].is_null(), "it is still there: {pod:#}");
        let nodes: Vec<_> = object["status"]["nodes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(nodes.is_sorted(), "{nodes:?}");
        scene.merge(&POD, &going, json!({ "metadata": { "finalizers": null } })).await;
    });
}

#[test]
fn the_conditions_of_a_settled_memcached_have_the_promised_words() {
    run(async {
        let scene = scene("words").await;
        scene.create(memcached("cache", 2)).await;
        let object = scene.available("cache").await;
        let message = "Deployment for custom resource (cache) with 2 replicas created successfully";
        assert_eq!(condition_parts(&object, "Available"), ("True", "Reconciling", message));
        assert_eq!(condition_parts(&object, "Progressing").0, "False");
        assert_eq!(condition_parts(&object, "Degraded").0, "False");
        let all = object["status"]["conditions"].as_array().unwrap();
        assert_eq!((condition_parts(&object, "Ready").0, all.len()), ("True", 4), "{all:#?}");
    });
}

#[test]
fn a_new_port_is_not_reported_as_rolled_out_before_it_is() {
    run(async {
        let scene = scene("new-port").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let mut changes = scene.watch(&MEMCACHED).await;
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "containerPort": 2001 } })).await;
        let generation = scene.get(&MEMCACHED, "cache").await["metadata"]["generation"].clone();
        let is_about_it = |object: &Value| {
            condition(object, "Progressing").is_some_and(|said| said["observedGeneration"] == generation)
        };
        while let Some((_, object)) = changes.next().await {
            if is_about_it(&object) {
                assert_eq!(condition_parts(&object, "Progressing").0, "True", "{object:#}");
                break;
            }
        }
        scene
            .until_object(&MEMCACHED, "cache", "is rolled out", |object| is_about_it(object) && is_settled(object))
            .await;
        for pod in scene.list(&POD).await.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
            assert_eq!(pod["spec"]["containers"][0]["ports"][0]["containerPort"], 2001);
        }
    });
}

/// Resizes a Memcached, and returns all its statuses in order.
async fn history(sizes: &[u64]) -> Vec<Value> {
    let scene = scene("history").await;
    let mut changes = scene.watch(&MEMCACHED).await;
    scene.create(memcached("cache", 1)).await;
    let mut history: Vec<Value> = Vec::new();
    let mut sizes = sizes.iter();
    while let Some((_, object)) = changes.next().await {
        let settled = is_settled(&object);
        if !object["status"]["conditions"].is_null() {
            history.push(object);
        }
        if settled {
            let Some(size) = sizes.next() else { break };
            scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": size } })).await;
        }
    }
    history
}

#[test]
fn times_move_only_when_the_status_of_a_condition_does() {
    run(async {
        let history = history(&[3, 1, 2]).await;
        for pair in history.windows(2) {
            for name in CONDITIONS {
                let (before, after) = (condition(&pair[0], name).unwrap(), condition(&pair[1], name).unwrap());
                if before["status"] == after["status"] {
                    assert_eq!(before["lastTransitionTime"], after["lastTransitionTime"], "{before:#}{after:#}");
                } else {
                    let times = (before["lastTransitionTime"].as_str(), after["lastTransitionTime"].as_str());
                    assert!(times.0 <= times.1, "{times:?}");
                }
            }
        }
    });
}

#[test]
fn available_is_true_only_while_as_many_are_ready_as_desired() {
    run(async {
        let history = history(&[3, 1]).await;
        let mut sizes = std::collections::BTreeMap::new();
        for object in &history {
            sizes.insert(object["metadata"]["generation"].as_i64(), object["spec"]["size"].clone());
            for name in CONDITIONS {
                let generation = condition(object, name).unwrap()["observedGeneration"].as_i64();
                assert!(generation <= object["metadata"]["generation"].as_i64(), "{object:#}");
            }
            let available = condition(object, "Available").unwrap();
            let size = &sizes[&available["observedGeneration"].as_i64()];
            let ready = &object["status"]["readyReplicas"];
            match available["status"].as_str().unwrap() {
                "True" => assert_eq!(ready, size, "{object:#}"),
                "False" => {
                    let message =
                        format!("Deployment for custom resource (cache) has {ready} of {size} replicas ready");
                    assert_eq!(condition_parts(object, "Available"), ("False", "Reconciling", message.as_str()));
                }
                _ => assert_eq!(condition_parts(object, "Available").2, "Starting reconciliation"),
            }
        }
        let seen: Vec<_> = history.iter().map(|object| condition_parts(object, "Available").0).collect();
        assert!(seen.contains(&"Unknown") && seen.contains(&"False") && seen.contains(&"True"), "{seen:?}");
    });
}
