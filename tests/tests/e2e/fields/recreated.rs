//! A child of which a field would change that may not change is deleted and made anew, where plugin and grant say so.

use hotshoe_tests::dictated;
use hotshoe_tests::dictated::{change, child, create, dictating, folder, host, host_granting, workload};
use hotshoe_tests::kinds::{ATTACK, DEPLOYMENT, SYSTEM};
use hotshoe_tests::proxy::Proxy;
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Scene, run};
use serde_json::{Value, json};

const GRANT: &str = "recreate: true";
const STRATEGY: &str = "hotshoe.dev/update-strategy";
const HELD: &str = "example.com/held";

/// Returns a Deployment with this strategy, whose selector, which may not change, has this track.
fn deployment(name: &str, track: &str, strategy: &str) -> Value {
    let mut spec = workload(&DEPLOYMENT);
    spec["replicas"] = json!(1);
    for labels in ["/selector/matchLabels", "/template/metadata/labels"] {
        *spec.pointer_mut(labels).expect("labels") = json!({ "app": "one", "of": name, "track": track });
    }
    let metadata = json!({ "annotations": { STRATEGY: strategy } });
    child(&DEPLOYMENT, name, &json!({ "metadata": metadata, "spec": spec }))
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().expect("a uid")
}

fn has_track(object: &Value, track: &str) -> bool {
    object["spec"]["selector"]["matchLabels"]["track"] == track
}

async fn until_parent_says(scene: &Scene, reason: &str, words: &str) -> Value {
    let says = |parent: &Value| {
        let (status, why, message) = condition_parts(parent, "Reconciled");
        (status, why) == ("False", reason) && message.contains(words)
    };
    scene.until_object(&ATTACK, "one", words, says).await
}

#[test]
fn a_deployment_with_another_selector_is_deleted_and_made_anew_with_an_event() {
    run(async {
        let (scene, _folder, _host) = host_granting("recreated", &DEPLOYMENT, GRANT).await;
        create(&scene, &[deployment("one", "a", "Recreate")]).await;
        let before = scene.until_object(&DEPLOYMENT, "one", "is there", |object| has_track(object, "a")).await;
        assert_eq!(before["metadata"]["annotations"][STRATEGY], Value::Null, "the host takes it out");
        change(&scene, &[deployment("one", "b", "Recreate")]).await;
        let after = scene.until_object(&DEPLOYMENT, "one", "is made anew", |object| has_track(object, "b")).await;
        assert_ne!(uid(&before), uid(&after));
        scene.event("one", "Recreating", "field is immutable").await;
    });
}

#[test]
fn a_child_that_is_gone_before_its_deletion_is_answered_is_made_anew() {
    run(async {
        let (mut scene, folder) = (dictated::scene("recreated-late").await, folder(&DEPLOYMENT));
        folder.edit("kind: Deployment\n", &format!("kind: Deployment\n      {GRANT}\n"));
        let proxy = Proxy::before(scene.plane, SYSTEM, "hotshoe").await;
        let start = scene.start().await.kubeconfig(&proxy.kubeconfig());
        let host = start.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        create(&scene, &[deployment("one", "a", "Recreate")]).await;
        scene.until_object(&DEPLOYMENT, "one", "is there", |object| has_track(object, "a")).await;
        proxy.hold_replies_to_deletions();
        change(&scene, &[deployment("one", "b", "Recreate")]).await;
        scene.gone(&DEPLOYMENT, "one").await;
        proxy.answer();
        scene.until_object(&DEPLOYMENT, "one", "is made anew", |object| has_track(object, "b")).await;
    });
}

#[test]
fn children_are_made_anew_one_at_a_time_and_the_parent_names_the_finalizer_that_holds_an_old_one() {
    run(async {
        let (scene, _folder, _host) = host_granting("recreated-held", &DEPLOYMENT, GRANT).await;
        let both = |track: &str| ["first", "second"].map(|name| deployment(name, track, "Recreate"));
        create(&scene, &both("a")).await;
        for name in ["first", "second"] {
            scene.until_object(&DEPLOYMENT, name, "is there", |_| true).await;
            scene.merge(&DEPLOYMENT, name, json!({ "metadata": { "finalizers": [HELD] } })).await;
        }
        change(&scene, &both("b")).await;
        let is_leaving = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let mut others = vec!["first", "second"];
        while !others.is_empty() {
            let place = scene
                .until("one of them is being deleted", async || {
                    let mut leaving = Vec::new();
                    for (place, name) in others.iter().enumerate() {
                        let object = scene.find(&DEPLOYMENT, name).await;
                        leaving.extend(object.filter(is_leaving).map(|_| place));
                    }
                    leaving.first().copied().ok_or_else(|| "none is".to_owned())
                })
                .await;
            let name = others.remove(place);
            until_parent_says(&scene, "ChildrenRefused", HELD).await;
            for other in &others {
                let other = scene.get(&DEPLOYMENT, other).await;
                assert!(!is_leaving(&other) && has_track(&other, "a"), "its turn has not come: {other:#}");
            }
            scene.merge(&DEPLOYMENT, name, json!({ "metadata": { "finalizers": null } })).await;
            scene.until_object(&DEPLOYMENT, name, "is made anew", |object| has_track(object, "b")).await;
        }
        let is_well = |parent: &Value| condition_parts(parent, "Reconciled").0 != "False";
        scene.until_object(&ATTACK, "one", "has recovered", is_well).await;
    });
}

#[test]
fn nothing_is_deleted_to_be_made_anew_without_the_grant_or_in_place_or_by_an_unknown_strategy() {
    run(async {
        let (scene, _folder, _host) = host("recreated-not", &DEPLOYMENT).await;
        create(&scene, &[deployment("one", "a", "InPlace")]).await;
        let before = scene.until_object(&DEPLOYMENT, "one", "is there", |_| true).await;
        for (strategy, reason, words) in [
            ("Recreate", "Denied", GRANT),
            ("Replace", "Denied", "InPlace or Recreate"),
            ("InPlace", "ChildrenRefused", "field is immutable"),
        ] {
            scene.merge(&ATTACK, "one", dictating(&[deployment("one", "b", strategy)])).await;
            until_parent_says(&scene, reason, words).await;
        }
        let after = scene.get(&DEPLOYMENT, "one").await;
        assert_eq!((uid(&before), has_track(&after, "a")), (uid(&after), true));
    });
}
