//! What others changed.

use serde_json::{Value, json};

use crate::world::{World, events};

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
