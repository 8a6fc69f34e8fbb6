//! The Deployment and the Service: their fields, and that they follow the spec.

use hotshoe_tests::host::IMAGE;
use hotshoe_tests::kinds::{DEPLOYMENT, EVENT, MEMCACHED, POD, SERVICE};
use hotshoe_tests::scene::is_settled;
use hotshoe_tests::{Scene, memcached, run};
use serde_json::{Value, json};

use super::scene;

fn labels(name: &str) -> Value {
    json!({
        "app": "memcached",
        "app.kubernetes.io/name": "Memcached",
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/version": "1.6-alpine",
        "app.kubernetes.io/part-of": "memcached-operator",
        "app.kubernetes.io/created-by": "controller-manager",
    })
}

fn has_labels(object: &Value, labels: &Value) -> bool {
    labels.as_object().unwrap().iter().all(|(key, value)| object["metadata"]["labels"][key] == *value)
}

/// Checks a field of an object, apart from the API server's defaults in it.
fn assert_has(object: &Value, pointer: &str, desired: &Value) {
    assert_eq!(object.pointer(pointer), Some(desired), "{pointer} of {object:#}");
}

fn assert_owned(child: &Value, parent: &Value) {
    let owner = json!([{
        "apiVersion": "cache.example.com/v1",
        "kind": "Memcached",
        "name": parent["metadata"]["name"],
        "uid": parent["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    }]);
    assert_eq!(child["metadata"]["ownerReferences"], owner, "{child:#}");
    assert_eq!(child["metadata"]["labels"]["app.kubernetes.io/managed-by"], "hotshoe", "{child:#}");
}

#[test]
fn the_deployment_has_the_promised_shape() {
    run(async {
        let scene = scene("deployment").await;
        let mut object = memcached("cache", 2);
        object["spec"]["containerPort"] = 11222.into();
        scene.create(object).await;
        let parent = scene.available("cache").await;
        let deployment = scene.get(&DEPLOYMENT, "cache").await;
        assert_owned(&deployment, &parent);
        assert!(has_labels(&deployment, &labels("cache")), "{deployment:#}");
        let template = &deployment["spec"]["template"];
        assert_eq!(template["metadata"]["labels"], labels("cache"));
        assert_has(&deployment, "/spec/replicas", &json!(2));
        let selector = deployment["spec"]["selector"]["matchLabels"].as_object().unwrap();
        assert_eq!(selector["app.kubernetes.io/instance"], "cache");
        assert!(!selector.contains_key("app.kubernetes.io/version"), "a version may change: {selector:?}");
        assert_eq!(template["spec"]["containers"].as_array().map(Vec::len), Some(1));
        let container = &template["spec"]["containers"][0];
        for (field, desired) in [
            ("name", json!("memcached")),
            ("image", json!(IMAGE)),
            ("imagePullPolicy", json!("IfNotPresent")),
            ("command", json!(["memcached", "-m=64", "-o", "modern", "-v"])),
            ("ports", json!([{ "name": "memcached", "containerPort": 11222, "protocol": "TCP" }])),
        ] {
            assert_eq!(container[field], desired, "{field} of {container:#}");
        }
        let security = &container["securityContext"];
        assert_eq!(security["runAsNonRoot"], true);
        assert_eq!(security["runAsUser"], 1001);
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["capabilities"], json!({ "drop": ["ALL"] }));
        assert_has(template, "/spec/automountServiceAccountToken", &json!(false));
        assert_has(template, "/spec/securityContext/runAsNonRoot", &json!(true));
        assert_has(template, "/spec/securityContext/seccompProfile/type", &json!("RuntimeDefault"));
    });
}

#[test]
fn the_servers_pass_the_pod_security_level_restricted() {
    run(async {
        let scene = scene("restricted").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let refused = |event: &Value| event["message"].as_str().is_some_and(|message| message.contains("PodSecurity"));
        let events = scene.list(&EVENT).await;
        assert!(!events.iter().any(refused), "{events:#?}");
        // The namespace does enforce the level.
        let naked = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "naked" },
            "spec": { "containers": [{ "name": "a", "image": "a" }] },
        });
        let refused = scene.try_create(naked).await.expect_err("a Pod without a security context");
        assert!(refused.message.contains("violates PodSecurity"), "{}", refused.message);
    });
}

#[test]
fn the_service_has_the_promised_shape() {
    run(async {
        let scene = scene("service").await;
        let mut object = memcached("cache", 1);
        object["spec"]["containerPort"] = 11333.into();
        scene.create(object).await;
        let parent = scene.available("cache").await;
        let service = scene.get(&SERVICE, "cache-service").await;
        assert_owned(&service, &parent);
        assert_has(&service, "/spec/type", &json!("ClusterIP"));
        let ports = json!([{ "port": 11211, "targetPort": 11333, "protocol": "TCP" }]);
        assert_has(&service, "/spec/ports", &ports);
        let selector = service["spec"]["selector"].as_object().unwrap();
        let pods = scene.list(&POD).await;
        let is_selected = |pod: &&Value| selector.iter().all(|(key, value)| pod["metadata"]["labels"][key] == *value);
        assert_eq!(pods.iter().filter(is_selected).count(), 1);
    });
}

#[test]
fn defaults_are_one_server_on_the_usual_port() {
    run(async {
        let scene = scene("defaults").await;
        let mut object = memcached("cache", 1);
        object.as_object_mut().unwrap().remove("spec");
        scene.create(object).await;
        let object = scene.available("cache").await;
        assert_eq!(object["spec"], json!({ "size": 1, "containerPort": 11211 }));
        let deployment = scene.get(&DEPLOYMENT, "cache").await;
        assert_has(&deployment, "/spec/replicas", &json!(1));
        assert_has(&deployment, "/spec/template/spec/containers/0/ports/0/containerPort", &json!(11211));
    });
}

async fn resize(scene: &Scene, size: u64) {
    let resized = scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": size } })).await;
    let generation = resized["metadata"]["generation"].clone();
    let is_there = |object: &Value| object["metadata"]["generation"] == generation && is_settled(object);
    scene.until_object(&MEMCACHED, "cache", &format!("has {size} servers"), is_there).await;
    let deployment = scene.get(&DEPLOYMENT, "cache").await;
    assert_has(&deployment, "/spec/replicas", &json!(size));
}

#[test]
fn the_number_of_servers_follows_the_size() {
    run(async {
        let scene = scene("resize").await;
        scene.create(memcached("cache", 1)).await;
        let object = scene.available("cache").await;
        let before = scene.get(&DEPLOYMENT, "cache").await;
        assert!(object["status"]["readyReplicas"] == 1, "{object:#}");
        for size in [3, 2, 1] {
            resize(&scene, size).await;
        }
        let after = scene.get(&DEPLOYMENT, "cache").await;
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "it is the same Deployment");
    });
}

#[test]
fn the_port_of_both_children_follows_the_containers() {
    run(async {
        let scene = scene("port").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "containerPort": 12000 } })).await;
        let of_container = |object: &Value| {
            let ports = &object["spec"]["template"]["spec"]["containers"][0]["ports"];
            *ports == json!([{ "name": "memcached", "containerPort": 12000, "protocol": "TCP" }])
        };
        scene.until_object(&DEPLOYMENT, "cache", "has the new port", of_container).await;
        let of_service = |object: &Value| {
            object["spec"]["ports"].as_array().map(Vec::len) == Some(1)
                && object["spec"]["ports"][0]["targetPort"] == 12000
                && object["spec"]["ports"][0]["port"] == 11211
        };
        scene.until_object(&SERVICE, "cache-service", "leads to the new port", of_service).await;
        scene.available("cache").await;
    });
}

#[test]
fn a_deleted_child_is_recreated() {
    run(async {
        let scene = scene("deleted-child").await;
        scene.create(memcached("cache", 2)).await;
        scene.available("cache").await;
        for (kind, name) in [(DEPLOYMENT, "cache"), (SERVICE, "cache-service")] {
            let old = scene.get(&kind, name).await["metadata"]["uid"].clone();
            scene.delete(&kind, name).await;
            let is_new = |object: &Value| object["metadata"]["uid"] != old;
            scene.until_object(&kind, name, "is there again", is_new).await;
        }
        scene.available("cache").await;
    });
}

#[test]
fn two_of_one_name_in_two_namespaces_have_nothing_in_common() {
    run(async {
        let (one, other) = (scene("same-name").await, scene("same-name").await);
        one.create(memcached("cache", 1)).await;
        other.create(memcached("cache", 3)).await;
        let (of_one, of_other) = (one.available("cache").await, other.available("cache").await);
        assert_eq!(of_one["status"]["nodes"].as_array().map(Vec::len), Some(1));
        assert_eq!(of_other["status"]["nodes"].as_array().map(Vec::len), Some(3));
        one.delete(&MEMCACHED, "cache").await;
        one.gone(&MEMCACHED, "cache").await;
        one.gone(&DEPLOYMENT, "cache").await;
        one.gone(&SERVICE, "cache-service").await;
        let still = other.available("cache").await;
        assert_eq!(still["metadata"]["resourceVersion"], of_other["metadata"]["resourceVersion"]);
        let deployment = other.get(&DEPLOYMENT, "cache").await;
        assert_owned(&deployment, &of_other);
    });
}

#[test]
fn names_that_begin_alike_do_not_share_servers() {
    run(async {
        let scene = scene("prefixes").await;
        for (name, size) in [("cache", 1), ("cache-a", 2), ("cache-a-b", 3)] {
            scene.create(memcached(name, size)).await;
        }
        for (name, size) in [("cache", 1), ("cache-a", 2), ("cache-a-b", 3)] {
            let object = scene.available(name).await;
            let nodes = object["status"]["nodes"].as_array().unwrap().clone();
            assert_eq!(nodes.len(), size, "{nodes:?}");
            let pods = scene.list(&POD).await;
            let instance = |node: &Value| {
                let pod = pods.iter().find(|pod| pod["metadata"]["name"] == *node).unwrap();
                pod["metadata"]["labels"]["app.kubernetes.io/instance"].clone()
            };
            assert!(nodes.iter().all(|node| instance(node) == name), "{name}: {nodes:?}");
        }
        scene.delete(&MEMCACHED, "cache").await;
        scene.gone(&DEPLOYMENT, "cache").await;
        scene.available("cache-a").await;
        scene.available("cache-a-b").await;
    });
}
