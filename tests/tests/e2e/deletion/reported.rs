//! What a host reports about parents whose deletion takes long.

use std::time::Duration;

use hotshoe_tests::faulty::{fault, scene_with_faults, serves, start};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::FAULT;
use hotshoe_tests::run;
use serde_json::json;

/// The timeout for a deletion to be shown, which happens after a minute.
const SHOWN: Duration = Duration::from_secs(100);

#[test]
fn a_parent_that_has_been_deleting_for_a_minute_is_in_status_and_a_metric_with_what_it_waits_for() {
    run(async {
        let mut scene = scene_with_faults("deleting").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        serves(&scene, "well").await;
        scene.create(fault("stuck", "linger in clean-up")).await;
        scene.until_object(&FAULT, "stuck", "is served", |stuck| stuck["metadata"]["finalizers"].is_array()).await;
        assert!(host.plugin().await["deleting"].is_null());
        scene.delete(&FAULT, "stuck").await;
        scene
            .until_within(SHOWN, "its deletion is shown", async || match &host.plugin().await["deleting"] {
                deleting if deleting["count"] == 1 => Ok(()),
                deleting => Err(deleting.to_string()),
            })
            .await;
        let deleting = host.plugin().await["deleting"].clone();
        assert_eq!(deleting["oldest"], format!("{}/stuck", scene.namespace));
        assert_eq!(deleting["reason"], "the plugin says that it waits");
        let (_, text) = host.ask(&["status"]);
        assert!(text.contains("1 of 2 have been deleting") && text.contains("it waits"), "{text}");
        let (_, metrics) = host.get("/metrics").await.expect("metrics");
        assert!(metrics.contains("hotshoe_plugin_parents_deleting{controller=\"faulty\"} 1"), "{metrics}");
        scene.merge(&FAULT, "stuck", json!({ "spec": { "fault": "" } })).await;
        scene.gone(&FAULT, "stuck").await;
        scene
            .until("no deletion is shown", async || match &host.plugin().await["deleting"] {
                deleting if deleting.is_null() => Ok(()),
                deleting => Err(deleting.to_string()),
            })
            .await;
    });
}
