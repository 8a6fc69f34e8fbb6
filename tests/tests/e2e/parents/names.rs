//! Names that the children cannot have.

use std::time::Duration;

use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED, SERVICE};
use hotshoe_tests::{memcached, run};
use serde_json::json;

use crate::memcached::scene;

#[test]
fn a_name_that_no_child_can_have_gets_a_condition_and_no_children() {
    run(async {
        let scene = scene("names").await;
        let long = "a".repeat(56);
        for (name, word) in [(long.as_str(), "56 characters"), ("has.dots", "Service"), ("1st", "Service")] {
            scene.create(memcached(name, 1)).await;
            let object = scene.until_condition(name, "Degraded", ("True", "InvalidName", word)).await;
            assert_eq!(hotshoe_tests::scene::condition_parts(&object, "Available").0, "False");
            scene.event(name, "InvalidName", word).await;
        }
        // A loop of writes would show within seconds; that there is none is no condition to wait for.
        let writes = scene.recorded_writes().await.len();
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(scene.recorded_writes().await.len(), writes, "it is not tried again and again");
        assert!(scene.list(&DEPLOYMENT).await.is_empty());
        assert!(scene.list(&SERVICE).await.is_empty());
        for name in [long.as_str(), "has.dots", "1st"] {
            scene.delete(&MEMCACHED, name).await;
            scene.gone(&MEMCACHED, name).await;
            let events = scene.events(name, "InvalidName").await;
            assert_eq!(events.iter().map(|event| &event["count"]).collect::<Vec<_>>(), [1], "{events:#?}");
        }
    });
}

#[test]
fn the_longest_name_that_leaves_room_for_its_service_is_served() {
    run(async {
        let scene = scene("longest").await;
        let name = "a".repeat(55);
        scene.create(memcached(&name, 1)).await;
        scene.available(&name).await;
        let service = scene.get(&SERVICE, &format!("{name}-service")).await;
        assert_eq!(service["spec"]["ports"][0]["port"], json!(11211));
    });
}
