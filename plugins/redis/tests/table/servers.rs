//! How each server is, and which one keeps the others waiting.

use hotshoe_sdk::Status;
use serde_json::json;

use crate::world::{CREATED, World, condition, events, ordinal};

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
        world.now = CREATED + age * 1000;
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
    assert_eq!(again, Some(60), "a clock that jumped back makes no wait longer");
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
fn no_servers_are_available_servers() {
    let mut world = World::running(json!({ "replicas": 0 }));
    world.pods.clear();
    let decision = world.decide();
    assert_eq!(condition(&decision, "Available").status, Status::True);
    assert_eq!(decision.status()["ordinals"], json!([]));
}
