//! The size of the claims.

use hotshoe_sdk::{Failure, Status};
use serde_json::json;

use crate::world::{World, condition};

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
