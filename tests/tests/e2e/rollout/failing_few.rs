//! `spec.swap.maxFailing`: on how many parents another component may fail without an approval.

use hotshoe_tests::faulty::{fault, scene_with_faults, start};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::kinds::FAULT;
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Host, run};
use serde_json::json;

const PARENTS: usize = 10;

async fn until_metric(host: &Host, line: &str) {
    host.until(line, async || {
        let (_, text) = host.get("/metrics").await?;
        if text.lines().any(|found| found == line) { Ok(()) } else { Err(text) }
    })
    .await;
}

#[test]
fn one_parent_on_which_a_component_fails_holds_it_up_unless_max_failing_allows_it() {
    run(async {
        let mut scene = scene_with_faults("failing-few").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        let first = host.digest().await;
        for number in 0..PARENTS {
            scene.create(fault(&format!("fault-{number}"), if number == 0 { "slip" } else { "" })).await;
        }
        for number in 0..PARENTS {
            let is_served = |object: &serde_json::Value| condition_parts(object, "Kept").0 == "True";
            scene.until_object(&FAULT, &format!("fault-{number}"), "is served", is_served).await;
        }
        folder.put(&reworded(folder.original(), "this revision works", "this revision balks"));
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(!status.success() && words.contains("it fails on 1 of 10 parents"), "{words}");
        assert_eq!(host.digest().await, first);
        until_metric(&host, r#"hotshoe_plugin_approval_required{controller="faulty"} 1"#).await;

        folder.edit("  source:", "  swap: {maxFailing: 10}\n  source:");
        host.until_plugin("it has the second", |plugin| plugin["digest"] != json!(first)).await;
        until_metric(&host, r#"hotshoe_plugin_approval_required{controller="faulty"} 0"#).await;
        // The one parent goes on failing, and the component is not rolled back for it.
        let second = host.digest().await;
        host.until_logged(&["WARN", "no more of its parents than spec.swap.maxFailing allows"]).await;
        assert_eq!(host.digest().await, second);
    });
}
