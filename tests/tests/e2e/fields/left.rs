//! Fields that a plugin no longer states: what the scale subresource sets, and what the plugin leaves, stays as it is; the
//! rest is removed.

use hotshoe_tests::dictated::{change, child, create, dictating, host, workload, written_with_another};
use hotshoe_tests::kinds::{ATTACK, CHOICE, DEPLOYMENT, Kind, REPLICA_SET, SERVICE, STATEFUL_SET};
use hotshoe_tests::run;
use hotshoe_tests::scene::condition_parts;
use http::Method;
use serde_json::{Value, json};

const MERGE: &str = "application/merge-patch+json";

async fn replicas_stay(name: &str, kind: &Kind, spec: Value) {
    let (scene, _folder, _host) = host(name, kind).await;
    let mut scaled = spec.clone();
    scaled["replicas"] = json!(5);
    let desired = |spec: &Value, more: &Value| {
        let metadata = json!({ "annotations": more });
        [child(kind, "one", &json!({ "metadata": metadata, "spec": spec }))]
    };
    create(&scene, &desired(&scaled, &json!({}))).await;
    scene.until_object(kind, "one", "has 5", |object| object["spec"]["replicas"] == 5).await;
    // The new annotation shows that the apply without replicas is done.
    let without = desired(&spec, &json!({ "round": "2" }));
    change(&scene, &without).await;
    let is_round = |round: &'static str| move |object: &Value| object["metadata"]["annotations"]["round"] == round;
    let object = scene.until_object(kind, "one", "is applied without replicas", is_round("2")).await;
    assert_eq!(object["spec"]["replicas"], 5, "{object:#}");
    assert_eq!(written_with_another(&scene, &without, [kind.plural, "none"]).await, [0, 0]);
    // Another controller scales, and the next apply leaves that alone, too.
    let path = format!("{}/scale", kind.path(&scene.namespace, Some("one")));
    let scale = json!({ "spec": { "replicas": 3 } });
    scene.admin.request(Method::PATCH, &path, MERGE, &scale).await.expect("it is scaled");
    change(&scene, &desired(&spec, &json!({ "round": "3" }))).await;
    let object = scene.until_object(kind, "one", "is applied again", is_round("3")).await;
    assert_eq!(object["spec"]["replicas"], 3, "{object:#}");
    // Stated again, and no longer: 2 and not 3.
    scaled["replicas"] = json!(2);
    change(&scene, &desired(&scaled, &json!({ "round": "4" }))).await;
    scene.until_object(kind, "one", "has 2", |object| object["spec"]["replicas"] == 2).await;
    change(&scene, &desired(&spec, &json!({ "round": "5" }))).await;
    let object = scene.until_object(kind, "one", "is applied once more", is_round("5")).await;
    assert_eq!(object["spec"]["replicas"], 2, "{object:#}");
}

#[test]
fn the_replicas_of_a_deployment_stay_when_they_are_no_longer_stated() {
    run(replicas_stay("replicas-deployment", &DEPLOYMENT, workload(&DEPLOYMENT)));
}

#[test]
fn the_replicas_of_a_stateful_set_stay_when_they_are_no_longer_stated() {
    run(replicas_stay("replicas-stateful-set", &STATEFUL_SET, workload(&STATEFUL_SET)));
}

#[test]
fn the_replicas_of_a_replica_set_stay_when_they_are_no_longer_stated() {
    run(replicas_stay("replicas-replica-set", &REPLICA_SET, workload(&REPLICA_SET)));
}

#[test]
fn the_replicas_of_a_custom_kind_with_a_scale_subresource_stay_when_they_are_no_longer_stated() {
    run(replicas_stay("replicas-custom", &CHOICE, json!({ "note": "x" })));
}

#[test]
fn a_field_that_is_left_stays_and_any_other_is_removed() {
    run(async {
        let (scene, _folder, _host) = host("left-custom", &CHOICE).await;
        let desired = |spec: Value, leave: &str| {
            let metadata = json!({ "annotations": { "hotshoe.dev/leave": leave } });
            [child(&CHOICE, "one", &json!({ "metadata": metadata, "spec": spec }))]
        };
        let all = json!({ "size": 7, "note": "x", "strategy": { "type": "Rolling", "rolling": { "atOnce": 4 } } });
        create(&scene, &desired(all, "")).await;
        scene.until_object(&CHOICE, "one", "is there", |choice| choice["spec"]["size"] == 7).await;
        // `note` has no default and goes; the size and a part of the strategy stay.
        let rest = desired(json!({ "replicas": 1 }), "spec.size, spec.strategy.rolling");
        change(&scene, &rest).await;
        let choice = scene.until_object(&CHOICE, "one", "has no note", |choice| choice["spec"]["note"].is_null()).await;
        assert_eq!((&choice["spec"]["size"], &choice["spec"]["strategy"]["rolling"]["atOnce"]), (&json!(7), &json!(4)));
        assert_eq!(choice["metadata"]["annotations"]["hotshoe.dev/leave"], Value::Null);
        scene.merge(&CHOICE, "one", json!({ "spec": { "size": 9 } })).await;
        assert_eq!(written_with_another(&scene, &rest, ["choices", "none"]).await, [0, 0]);
        assert_eq!(scene.get(&CHOICE, "one").await["spec"]["size"], 9);
        // Stated again, with the same value, and then dropped without a word: it is removed, and the default comes back.
        let again = json!({ "size": 8, "strategy": { "rolling": { "atOnce": 4 } } });
        change(&scene, &desired(again, "")).await;
        scene.until_object(&CHOICE, "one", "is stated again", |choice| choice["spec"]["size"] == 8).await;
        change(&scene, &desired(json!({ "note": "y" }), "")).await;
        let is_default = |choice: &Value| {
            (&choice["spec"]["size"], &choice["spec"]["strategy"]["rolling"]["atOnce"]) == (&json!(1), &json!(1))
        };
        scene.until_object(&CHOICE, "one", "has the defaults", is_default).await;
    });
}

#[test]
fn what_cannot_be_left_is_denied_with_a_reason() {
    run(async {
        let (scene, _folder, _host) = host("left-wrong", &SERVICE).await;
        let leaving = |leave: &str| {
            let metadata = json!({ "annotations": { "hotshoe.dev/leave": leave } });
            [child(&DEPLOYMENT, "one", &json!({ "metadata": metadata, "spec": workload(&DEPLOYMENT) }))]
        };
        create(&scene, &leaving("spec.replicas[0]")).await;
        for (leave, words) in
            [("spec.replicas[0]", "spec.replicas[0]"), ("spec.selector", "the child itself sets spec.selector")]
        {
            scene.merge(&ATTACK, "one", dictating(&leaving(leave))).await;
            let says = |parent: &Value| {
                let (status, reason, message) = condition_parts(parent, "Reconciled");
                (status, reason) == ("False", "Denied") && message.contains(words)
            };
            scene.until_object(&ATTACK, "one", "says what is wrong", says).await;
        }
        assert!(scene.find(&DEPLOYMENT, "one").await.is_none());
    });
}
