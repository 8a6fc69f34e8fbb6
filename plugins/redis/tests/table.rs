//! What the plugin promises, row by row.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what broke by breaking"
)]

#[path = "table/world.rs"]
mod world;

use hotshoe_sdk::{Failure, Status};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Service};
use serde_json::{Value, json};
use world::{World, condition, events, known, ordinal};

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
fn all_is_well_once_every_server_is_ready() {
    let decision = World::running(json!({})).decide();
    for (name, status, reason) in [
        ("Available", Status::True, "ServersReady"),
        ("Progressing", Status::False, "RolledOut"),
        ("Degraded", Status::False, "NothingInTheWay"),
    ] {
        let found = condition(&decision, name);
        assert_eq!((found.status, found.reason.as_str()), (status, reason), "{}", found.message);
    }
    let status = decision.status();
    assert_eq!(
        (&status["replicas"], &status["readyReplicas"], &status["updatedReplicas"]),
        (&json!(3), &json!(3), &json!(3))
    );
    assert_eq!(
        status["ordinals"][2],
        json!({
            "ordinal": 2, "pod": "redis-2", "claim": "redis-data-redis-2",
            "ready": true, "updated": true, "reason": "Ready", "message": "",
        })
    );
    assert!(events(&decision).is_empty());
    assert_eq!(decision.requeue_after(), None);
}

#[test]
fn a_server_that_is_not_ready_is_named_with_those_that_wait_for_it() {
    let mut world = World::running(json!({}));
    world.pods.truncate(1);
    world.pods[0]["status"]["conditions"][0]["status"] = json!("False");
    let decision = world.decide();
    assert_eq!(ordinal(&decision, 0).0, "NotReady");
    assert_eq!(ordinal(&decision, 1), ("WaitsForOthers", "it starts once redis-0 is ready".to_owned()));
    let available = condition(&decision, "Available");
    assert_eq!(available.status, Status::False);
    assert!(
        available.message.starts_with("0 of 3 servers are ready; redis-0 is not: NotReady"),
        "{}",
        available.message
    );
    assert_eq!(condition(&decision, "Degraded").status, Status::False, "it may be starting");
}

#[test]
fn servers_that_start_all_at_once_do_not_wait_for_others() {
    let mut world = World::running(json!({ "podManagementPolicy": "Parallel" }));
    world.pods.truncate(1);
    world.pods[0]["status"]["conditions"][0]["status"] = json!("False");
    assert_eq!(ordinal(&world.decide(), 1).0, "Creating");
}

#[test]
fn a_container_that_cannot_start_is_named() {
    let mut world = World::running(json!({}));
    world.pods[1]["status"] = json!({
        "conditions": [{ "type": "Ready", "status": "False" }],
        "initContainerStatuses": [{ "name": "init", "state": {} }],
        "containerStatuses": [{
            "name": "redis", "state": { "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } },
        }],
    });
    let decision = world.decide();
    assert_eq!(ordinal(&decision, 1), ("ImagePullBackOff", "its container redis waits: no such image".to_owned()));
    let degraded = condition(&decision, "Degraded");
    assert_eq!((degraded.status, degraded.reason.as_str()), (Status::True, "ImagePullBackOff"));
    assert!(degraded.message.starts_with("redis-1: "), "{}", degraded.message);
}

#[test]
fn a_pod_that_no_node_takes_is_named_with_the_words_of_the_scheduler() {
    let mut world = World::running(json!({}));
    world.pods[2]["status"]["conditions"] = json!([{ "type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 Insufficient cpu." }]);
    let decision = world.decide();
    assert_eq!(ordinal(&decision, 2), ("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.".to_owned()));
}

#[test]
fn a_class_that_is_not_there_is_looked_for_and_named() {
    let mut world = World::running(json!({ "storage": { "storageClassName": "fast" } }));
    world.claims[2]["status"]["phase"] = json!("Pending");
    world.pods[2]["status"]["conditions"] =
        json!([{ "type": "PodScheduled", "status": "False", "message": "unbound" }]);
    assert_eq!(world.needs(), "fast", "only while a claim waits");
    world.class = Some(Vec::new());
    let decision = world.decide();
    assert_eq!(ordinal(&decision, 2).0, "StorageClassMissing");
    assert!(ordinal(&decision, 2).1.contains("there is no StorageClass fast"));
    assert_eq!(condition(&decision, "Degraded").reason, "StorageClassMissing");
}

#[test]
fn a_claim_that_waits_is_a_problem_after_a_minute() {
    let mut world = World::running(json!({ "storage": { "storageClassName": "fast" } }));
    world.claims[0]["status"]["phase"] = json!("Pending");
    world.pods[0]["status"]["conditions"] = json!([]);
    world.class = Some(vec![json!({})]);
    for (age, status, again) in [(0, Status::False, Some(60)), (59, Status::False, Some(1)), (60, Status::True, None)] {
        world.now = world::CREATED + age * 1000;
        let decision = world.decide();
        assert_eq!(
            ordinal(&decision, 0),
            ("ClaimPending", "its claim is pending: it waits for a volume of the class fast".to_owned())
        );
        assert_eq!(condition(&decision, "Degraded").status, status, "after {age} s");
        assert_eq!(decision.requeue_after().map(|after| after.as_secs()), again, "after {age} s");
    }
    world.now = 0;
    let again = world.decide().requeue_after().map(|after| after.as_secs());
    assert_eq!(again, Some(60), "a clock that jumped back lets nobody wait longer");
}

#[test]
fn a_claim_without_a_class_says_that_the_cluster_has_no_default() {
    let mut world = World::running(json!({}));
    world.claims[0]["status"]["phase"] = json!("Pending");
    world.claims[0]["spec"] = json!({});
    world.pods[0]["status"]["conditions"] = json!([]);
    assert_eq!(ordinal(&world.decide(), 0).0, "NoDefaultStorageClass");
}

#[test]
fn a_quota_without_room_is_named_with_what_it_counts() {
    let cases =
        [("pods", "2", "2", "1"), ("requests.cpu", "600m", "500m", "250m"), ("limits.memory", "1Gi", "1Gi", "512Mi")];
    for (resource, hard, used, amount) in cases {
        let mut world = World::running(json!({}));
        world.pods.truncate(2);
        world.quotas = vec![json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "few", "namespace": "shop" },
            "status": { "hard": { resource: hard }, "used": { resource: used } },
        })];
        let (reason, message) = ordinal(&world.decide(), 2);
        assert_eq!(reason, "QuotaExceeded");
        let expected = format!(
            "the ResourceQuota few leaves no room: of {resource} {used} of {hard} is used, and {amount} more is needed"
        );
        assert!(message.starts_with(&expected), "{message}");
    }
}

#[test]
fn a_quota_of_storage_keeps_the_claim_from_being_made() {
    let mut world = World::running(json!({}));
    world.pods.truncate(2);
    world.claims.truncate(2);
    world.quotas = vec![json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "small", "namespace": "shop" },
        "status": { "hard": { "requests.storage": "2.5Gi" }, "used": { "requests.storage": "2Gi" } },
    })];
    let (reason, message) = ordinal(&world.decide(), 2);
    assert_eq!(reason, "QuotaExceeded");
    assert!(message.contains("requests.storage 2Gi of 2.5Gi"), "{message}");
}

#[test]
fn a_quota_with_room_or_for_other_pods_is_not_blamed() {
    for (spec, hard) in [(json!({}), "3"), (json!({ "scopes": ["BestEffort"] }), "2")] {
        let mut world = World::running(json!({}));
        world.pods.truncate(2);
        world.quotas = vec![json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "few", "namespace": "shop" },
            "spec": spec, "status": { "hard": { "pods": hard }, "used": { "pods": "2" } },
        })];
        assert_eq!(ordinal(&world.decide(), 2).0, "Creating");
    }
}

#[test]
fn a_volume_does_not_shrink() {
    let mut world = World::running(json!({ "storage": { "size": "2Gi" } }));
    world.spec = json!({ "storage": { "size": "1Gi" } });
    let Failure::Reject { message, field } = world.fails() else { panic!("not rejected") };
    assert_eq!(field.as_deref(), Some("spec.storage.size"));
    assert!(message.contains("the claims of redis have 2Gi"), "{message}");
    world.spec = json!({ "storage": { "size": "2048Mi" } });
    assert_eq!(condition(&world.decide(), "Degraded").status, Status::False, "it is the same size");
}

#[test]
fn a_volume_that_is_to_grow_is_left_and_the_way_told() {
    let mut world = World::running(json!({ "storage": { "size": "1Gi" } }));
    world.spec = json!({ "storage": { "size": "2Gi" } });
    let decision = world.decide();
    let claim = &decision.set()["spec"]["volumeClaimTemplates"][0];
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi", "the API server would refuse another");
    let degraded = condition(&decision, "Degraded");
    assert_eq!((degraded.status, degraded.reason.as_str()), (Status::True, "StorageNotGrown"));
    assert!(degraded.message.contains("kubectl delete statefulset redis --cascade=orphan"), "{}", degraded.message);
    world.set = None;
    let anew = world.decide();
    let claim = &anew.set()["spec"]["volumeClaimTemplates"][0];
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "2Gi", "a new StatefulSet makes larger claims");
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
fn another_template_goes_to_the_highest_ordinal_first_and_on_as_each_is_ready() {
    let mut world = World::running(json!({}));
    world.spec = json!({ "image": "redis:7.0" });
    let seen = world.roll_out();
    assert_eq!(seen, [(2, 0), (2, 1), (1, 1), (1, 2), (0, 2), (0, 3)], "partition, and servers of the new image");
    let decision = world.decide();
    assert_eq!(condition(&decision, "Progressing").reason, "RolledOut");
    assert_eq!(decision.status()["updatedReplicas"], 3);
}

#[test]
fn a_stage_waits_for_a_server_that_is_not_ready() {
    let mut world = World::running(json!({}));
    world.spec = json!({ "image": "redis:7.0" });
    world.apply();
    world.control();
    world.pods[2]["status"]["conditions"][0]["status"] = json!("False");
    for _ in 0..3 {
        assert_eq!(world.apply(), 2);
        world.set_is_seen();
    }
    let progressing = condition(&world.decide(), "Progressing").clone();
    assert_eq!(progressing.status, Status::True);
    assert_eq!(ordinal(&world.decide(), 2).0, "NotReady");
}

#[test]
fn a_partition_holds_the_servers_below_it_and_is_left_by_lowering_it() {
    let mut world = World::running(json!({}));
    world.spec = json!({ "image": "redis:7.0", "updateStrategy": { "partition": 1 } });
    assert_eq!(world.roll_out(), [(2, 0), (2, 1), (1, 1), (1, 2)]);
    let decision = world.decide();
    let progressing = condition(&decision, "Progressing");
    assert_eq!((progressing.status, progressing.reason.as_str()), (Status::False, "PartitionHolds"));
    assert_eq!(decision.status()["updatedReplicas"], 2);
    world.spec["updateStrategy"]["partition"] = json!(0);
    assert_eq!(world.roll_out(), [(0, 2), (0, 3)]);
}

#[test]
fn a_partition_beyond_the_replicas_updates_none_and_says_so() {
    let mut world = World::running(json!({}));
    world.spec = json!({ "image": "redis:7.0", "updateStrategy": { "partition": 7 } });
    assert_eq!(world.roll_out(), [(7, 0)]);
    let decision = world.decide();
    let progressing = condition(&decision, "Progressing");
    assert_eq!((progressing.status, progressing.reason.as_str()), (Status::False, "PartitionBeyondReplicas"));
    assert!(progressing.message.contains("is 7, and the highest ordinal is 2"), "{}", progressing.message);
    assert_eq!(condition(&decision, "Available").status, Status::True);
}

#[test]
fn between_two_stages_there_is_a_pause() {
    let mut world = World::running(json!({}));
    world.spec = json!({ "image": "redis:7.0", "updateStrategy": { "pauseSeconds": 30 } });
    world.apply();
    world.control();
    for (passed, partition, again) in [(0, 2, Some(30)), (29, 2, Some(1)), (30, 1, None)] {
        world.now = world::NOW + passed * 1000;
        let decision = world.decide();
        assert_eq!(decision.status()["partition"], partition, "after {passed} s");
        assert_eq!(decision.requeue_after().map(|after| after.as_secs()), again, "after {passed} s");
    }
}

#[test]
fn a_clock_that_jumps_back_holds_no_rollout_for_longer_than_two_pauses() {
    let mut world = World::running(json!({}));
    world.spec = json!({ "image": "redis:7.0", "updateStrategy": { "pauseSeconds": 30 } });
    world.apply();
    world.control();
    world.now = world::NOW - 3_600_000;
    assert_eq!(world.decide().status()["partition"], 1);
}

#[test]
fn what_does_not_run_is_not_updated_in_stages() {
    // Below the partition a Pod that is made anew has the old template, so a server that is broken would stay so.
    let mut world = World::running(json!({}));
    world.pods.truncate(1);
    world.pods[0]["status"]["conditions"][0]["status"] = json!("False");
    world.spec = json!({ "image": "redis:7.0" });
    assert_eq!(world.apply(), 0);
    world.set_is_seen();
    let (_, message) = ordinal(&world.decide(), 0);
    assert!(message.ends_with("kubectl delete pod redis-0"), "{message}");
}

#[test]
fn a_change_of_other_fields_is_no_rollout() {
    let mut world = World::running(json!({}));
    world.spec = json!({ "replicas": 5 });
    assert_eq!(world.apply(), 0);
}

#[test]
fn a_change_by_hand_is_put_back_and_the_way_told() {
    type Edit = fn(&mut Value);
    let edits: [(Edit, &str, &str); 4] = [
        (|set| set["spec"]["replicas"] = json!(5), "ScaledByHand", "kubectl scale redis/redis --replicas=5"),
        (
            |set| {
                set["spec"]["template"]["metadata"]["annotations"]["cache.example.com/template"] = json!("an older one")
            },
            "TemplateChangedByHand",
            "edit spec of Redis redis instead",
        ),
        (
            |set| set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("redis:5.0"),
            "TemplateChangedByHand",
            "(image redis:5.0), and is put back (image redis:6.0)",
        ),
        (
            |set| set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(2),
            "PartitionChangedByHand",
            "from 0 to 2 by hand",
        ),
    ];
    for (edit, reason, words) in edits {
        let mut world = World::running(json!({}));
        let desired = world.decide().set().clone();
        edit(world.set.as_mut().unwrap());
        let decision = world.decide();
        let [(found, message)] = events(&decision).try_into().unwrap();
        assert_eq!(found, reason);
        assert!(message.contains(words), "{message}");
        assert_eq!(decision.set()["spec"], desired["spec"], "{reason}");
    }
}

#[test]
fn a_change_of_the_spec_is_no_change_by_hand() {
    for spec in
        [json!({ "replicas": 5 }), json!({ "image": "redis:7.0" }), json!({ "updateStrategy": { "partition": 1 } })]
    {
        let mut world = World::running(json!({}));
        world.spec = spec;
        assert!(events(&world.decide()).is_empty());
    }
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

#[test]
fn no_servers_are_available_servers() {
    let mut world = World::running(json!({ "replicas": 0 }));
    world.pods.clear();
    let decision = world.decide();
    assert_eq!(condition(&decision, "Available").status, Status::True);
    assert_eq!(decision.status()["ordinals"], json!([]));
}
