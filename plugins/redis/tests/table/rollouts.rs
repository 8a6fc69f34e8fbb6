//! Another template, stage by stage.

use hotshoe_sdk::Status;
use serde_json::json;

use crate::world::{NOW, World, condition, ordinal};

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
        world.now = NOW + passed * 1000;
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
    world.now = NOW - 3_600_000;
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
