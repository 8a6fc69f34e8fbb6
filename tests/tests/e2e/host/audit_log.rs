//! What a host logs about its writes.

use hotshoe_tests::faulty::{scene_with_faults, serves, start};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{CONFIG_MAP, FAULT};
use hotshoe_tests::run;
use serde_json::json;

#[test]
fn the_log_has_one_line_for_each_thing_that_is_done_in_the_life_of_an_object() {
    run(async {
        let mut scene = scene_with_faults("acts").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        serves(&scene, "one").await;
        scene.merge(&CONFIG_MAP, "one", json!({ "data": { "kept": "no" } })).await;
        scene.until_object(&CONFIG_MAP, "one", "is repaired", |kept| kept["data"]["kept"] == "yes").await;
        host.until_logged(&["INFO", "child changed", "ConfigMap", "data.kept"]).await;
        scene.delete(&FAULT, "one").await;
        scene.gone(&FAULT, "one").await;
        host.until_logged(&["INFO", "deletion done"]).await;
        let log = host.log();
        let said = |act: &str| {
            let lines = log.lines().filter(|line| line.contains("INFO") && line.contains(act));
            let of_one: Vec<&str> = lines.filter(|line| line.contains("/one")).collect();
            let has_all = |line: &&str| line.contains("faulty") && line.contains("digest");
            assert!(of_one.iter().all(has_all), "{of_one:#?}");
            of_one.len()
        };
        let acts = [
            "finalizer added",
            "child created",
            "child changed",
            "deletion begun",
            "finalizer removed",
            "deletion done",
        ];
        for act in acts {
            assert_eq!(said(act), 1, "{act}\n{log}");
        }
        assert!((1..=3).contains(&said("status changed")), "{log}");
        assert!(!log.contains("\"yes\"") && !log.contains("kept=yes"), "no value is logged: {log}");
    });
}
