//! The desired children, and what none can be made of.

use hotshoe_sdk::{Failure, Status};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Service};
use serde_json::json;

use crate::world::{World, condition, known, ordinal};

#[test]
fn a_spec_without_fields_is_the_redis_of_the_tutorials() {
    let decision = World::new(json!({})).decide();
    let set = decision.set();
    assert_eq!(set["spec"]["replicas"], 3);
    assert_eq!(set["spec"]["serviceName"], "redis-headless");
    assert_eq!(set["spec"]["podManagementPolicy"], "OrderedReady");
    assert_eq!(set["spec"]["updateStrategy"], json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } }));
    let pod = &set["spec"]["template"]["spec"];
    assert_eq!(pod["terminationGracePeriodSeconds"], 30);
    assert_eq!(pod["initContainers"][0]["image"], "redis:6.0");
    let server = &pod["containers"][0];
    assert_eq!((&server["name"], &server["image"]), (&json!("redis"), &json!("redis:6.0")));
    assert_eq!(server["command"], json!(["redis-server"]));
    assert_eq!(server["args"], json!(["--appendonly", "yes"]));
    assert_eq!(server["ports"], json!([{ "name": "redis", "containerPort": 6379, "protocol": "TCP" }]));
    assert_eq!(server["volumeMounts"], json!([{ "name": "redis-data", "mountPath": "/data" }]));
    let resources = json!({
        "requests": { "cpu": "250m", "memory": "256Mi" },
        "limits": { "cpu": "500m", "memory": "512Mi" },
    });
    assert_eq!(server["resources"], resources);
    assert!(server["readinessProbe"].is_object() && server["livenessProbe"].is_object());
    let claim = &set["spec"]["volumeClaimTemplates"][0];
    assert_eq!(claim["metadata"]["name"], "redis-data");
    let resources = json!({ "requests": { "storage": "1Gi" } });
    assert_eq!(claim["spec"], json!({ "accessModes": ["ReadWriteOnce"], "resources": resources }));
    let service = decision.child("Service");
    assert_eq!(service["metadata"]["name"], "redis-headless");
    assert_eq!(service["spec"]["clusterIP"], "None");
    let port = json!([{ "name": "redis", "port": 6379, "targetPort": "redis", "protocol": "TCP" }]);
    assert_eq!(service["spec"]["ports"], port);
}

#[test]
fn pods_and_claims_have_the_labels_that_they_are_listed_and_selected_by() {
    let decision = World::new(json!({})).decide();
    let labels = json!({ "app": "redis", "app.kubernetes.io/instance": "redis" });
    let set = decision.set();
    for pointer in ["/metadata/labels", "/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        assert_eq!(set.pointer(pointer), Some(&labels), "{pointer}");
    }
    assert_eq!(set["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"], labels);
    assert_eq!(decision.child("Service")["spec"]["selector"], labels);
    assert_eq!(decision.status()["selector"], "app=redis,app.kubernetes.io/instance=redis");
}

#[test]
fn each_field_of_the_spec_has_its_place() {
    let decision = World::new(json!({
        "replicas": 5,
        "image": "redis:7.2",
        "resources": { "requests": { "cpu": 1 } },
        "storage": { "size": "2Gi", "storageClassName": "fast" },
        "initContainer": { "image": "busybox:1.37", "command": ["true"] },
        "terminationGracePeriodSeconds": 10,
        "podManagementPolicy": "Parallel",
        "updateStrategy": { "partition": 3 },
        "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete", "whenScaled": "Delete" },
    }))
    .decide();
    let set = decision.set();
    let policy = json!({ "whenDeleted": "Delete", "whenScaled": "Delete" });
    for (pointer, expected) in [
        ("/spec/replicas", json!(5)),
        ("/spec/podManagementPolicy", json!("Parallel")),
        ("/spec/updateStrategy/rollingUpdate/partition", json!(3)),
        ("/spec/persistentVolumeClaimRetentionPolicy", policy),
        ("/spec/template/spec/terminationGracePeriodSeconds", json!(10)),
        ("/spec/template/spec/initContainers/0/image", json!("busybox:1.37")),
        ("/spec/template/spec/initContainers/0/command", json!(["true"])),
        ("/spec/template/spec/containers/0/image", json!("redis:7.2")),
        ("/spec/template/spec/containers/0/resources", json!({ "requests": { "cpu": "1" } })),
        ("/spec/volumeClaimTemplates/0/spec/storageClassName", json!("fast")),
        ("/spec/volumeClaimTemplates/0/spec/resources/requests/storage", json!("2Gi")),
    ] {
        assert_eq!(set.pointer(pointer), Some(&expected), "{pointer}");
    }
}

#[test]
fn kubernetes_knows_each_field_that_is_set() {
    let decision = World::new(json!({ "storage": { "storageClassName": "fast" } })).decide();
    let mut set = known::<StatefulSet>(decision.set());
    // A claim of a template may say what it is, and need not.
    set["spec"]["volumeClaimTemplates"][0]
        .as_object_mut()
        .unwrap()
        .retain(|key, _| key != "apiVersion" && key != "kind");
    assert_eq!(set, *decision.set());
    assert_eq!(known::<Service>(decision.child("Service")), *decision.child("Service"));
}

#[test]
fn what_is_no_size_or_no_name_is_rejected_by_its_field() {
    for size in ["", "much", "-1Gi", "0"] {
        let world = World::new(json!({ "storage": { "size": size } }));
        let Failure::Reject { field, .. } = world.fails() else { panic!("{size} is not rejected") };
        assert_eq!(field.as_deref(), Some("spec.storage.size"), "{size}");
    }
    let mut world = World::new(json!({}));
    world.name = "a".repeat(53);
    let Failure::Reject { field, .. } = world.fails() else { panic!("not rejected") };
    assert_eq!(field.as_deref(), Some("metadata.name"));
    let negative = World::new(json!({ "updateStrategy": { "pauseSeconds": -1 } }));
    let Failure::Reject { field, .. } = negative.fails() else { panic!("not rejected") };
    assert_eq!(field.as_deref(), Some("spec.updateStrategy.pauseSeconds"));
}

#[test]
fn a_child_of_that_name_that_belongs_to_others_is_named() {
    let mut world = World::new(json!({}));
    world.refuse("apps", "StatefulSet", "redis", "Conflict");
    let decision = world.decide();
    let degraded = condition(&decision, "Degraded");
    assert_eq!((degraded.status, degraded.reason.as_str()), (Status::True, "Conflict"));
    assert!(degraded.message.starts_with("StatefulSet redis exists"), "{}", degraded.message);
    assert_eq!(ordinal(&decision, 0).0, "NoStatefulSet");
}
