//! A choice that the API server filled in by default, and the plugin changes: the parameters of the default have no owner,
//! go with no other choice, and are removed with it.

use hotshoe_tests::dictated::{change, child, create, host, workload, written_with_another};
use hotshoe_tests::kinds::{ATTACK, CHOICE, DAEMON_SET, DEPLOYMENT, Kind, SERVICE, STATEFUL_SET};
use hotshoe_tests::scene::condition;
use hotshoe_tests::{Scene, run};
use serde_json::{Value, json};

/// Creates a child with this spec, changes it, and waits until the change is in place and nothing else is written.
async fn is_chosen(name: &str, kind: &Kind, first: &Value, then: &Value, holds: impl Fn(&Value) -> bool) {
    let (scene, _folder, _host) = host(name, kind).await;
    let desired = |spec: &Value| [child(kind, "one", &json!({ "spec": spec }))];
    create(&scene, &desired(first)).await;
    scene.until_object(kind, "one", "is there", |_| true).await;
    change(&scene, &desired(then)).await;
    scene.until_object(kind, "one", "is as chosen", |object| holds(&object["spec"])).await;
    stays(&scene, kind, &desired(then)).await;
    // And back to the default.
    change(&scene, &desired(first)).await;
    scene.until_object(kind, "one", "is as before", |object| !holds(&object["spec"])).await;
    stays(&scene, kind, &desired(first)).await;
    let parent = scene.get(&ATTACK, "one").await;
    assert!(condition(&parent, "Reconciled").is_none_or(|it| it["status"] != "False"), "{parent:#}");
}

/// Checks that nothing more is written. A change may show before the last of its writes, so those are waited for first.
async fn stays(scene: &Scene, kind: &Kind, desired: &[Value]) {
    written_with_another(scene, desired, [kind.plural, "none"]).await;
    assert_eq!(written_with_another(scene, desired, [kind.plural, "none"]).await, [0, 0]);
}

fn with(mut spec: Value, field: &str, value: Value) -> Value {
    spec[field] = value;
    spec
}

#[test]
fn the_strategy_of_a_deployment_is_changed() {
    run(async {
        let then = with(workload(&DEPLOYMENT), "strategy", json!({ "type": "Recreate" }));
        let holds = |spec: &Value| spec["strategy"] == json!({ "type": "Recreate" });
        is_chosen("union-deployment", &DEPLOYMENT, &workload(&DEPLOYMENT), &then, holds).await;
    });
}

#[test]
fn the_strategy_of_a_stateful_set_is_changed() {
    run(async {
        let then = with(workload(&STATEFUL_SET), "updateStrategy", json!({ "type": "OnDelete" }));
        let holds = |spec: &Value| spec["updateStrategy"]["type"] == "OnDelete";
        is_chosen("union-stateful-set", &STATEFUL_SET, &workload(&STATEFUL_SET), &then, holds).await;
    });
}

#[test]
fn the_strategy_of_a_daemon_set_is_changed() {
    run(async {
        let then = with(workload(&DAEMON_SET), "updateStrategy", json!({ "type": "OnDelete" }));
        let holds = |spec: &Value| spec["updateStrategy"]["type"] == "OnDelete";
        is_chosen("union-daemon-set", &DAEMON_SET, &workload(&DAEMON_SET), &then, holds).await;
    });
}

#[test]
fn the_choice_of_a_custom_kind_is_changed() {
    run(async {
        let (first, then) = (json!({ "size": 2 }), json!({ "size": 2, "strategy": { "type": "Recreate" } }));
        let holds = |spec: &Value| spec["strategy"] == json!({ "type": "Recreate" });
        is_chosen("union-custom", &CHOICE, &first, &then, holds).await;
    });
}

#[test]
fn the_affinity_of_a_service_is_changed() {
    run(async {
        let with_affinity = |affinity: &str| json!({ "selector": { "app": "one" }, "ports": [{ "port": 80 }], "sessionAffinity": affinity });
        let holds = |spec: &Value| spec["sessionAffinity"] == "None" && spec["sessionAffinityConfig"].is_null();
        is_chosen("union-service", &SERVICE, &with_affinity("ClientIP"), &with_affinity("None"), holds).await;
    });
}

#[test]
fn the_source_of_a_volume_and_the_handler_of_a_probe_are_changed() {
    run(async {
        let with_volume = |volume: Value, probe: Value| {
            let mut spec = workload(&DEPLOYMENT);
            spec["template"]["spec"]["volumes"] = json!([volume]);
            spec["template"]["spec"]["containers"][0]["readinessProbe"] = probe;
            spec
        };
        let first = with_volume(json!({ "name": "v" }), json!({ "httpGet": { "port": 80 } }));
        let labels = json!({ "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } });
        let volume = json!({ "name": "v", "downwardAPI": { "items": [labels] } });
        let then = with_volume(volume, json!({ "tcpSocket": { "port": 80 } }));
        let holds = |spec: &Value| {
            let pod = &spec["template"]["spec"];
            let probe = &pod["containers"][0]["readinessProbe"];
            pod["volumes"][0]["emptyDir"].is_null()
                && pod["volumes"][0]["downwardAPI"]["items"][0]["path"] == "labels"
                && probe["httpGet"].is_null()
                && probe["tcpSocket"]["port"] == 80
        };
        is_chosen("union-volume", &DEPLOYMENT, &first, &then, holds).await;
    });
}

#[test]
fn parameters_that_another_manager_set_are_not_removed_and_are_named() {
    run(async {
        let (scene, _folder, _host) = host("union-of-others", &SERVICE).await;
        let desired = |spec: &Value| [child(&DEPLOYMENT, "one", &json!({ "spec": spec }))];
        create(&scene, &desired(&workload(&DEPLOYMENT))).await;
        scene.until_object(&DEPLOYMENT, "one", "is there", |_| true).await;
        let parameters = json!({ "spec": { "strategy": { "rollingUpdate": { "maxSurge": 3 } } } });
        scene.merge(&DEPLOYMENT, "one", parameters).await;
        let then = with(workload(&DEPLOYMENT), "strategy", json!({ "type": "Recreate" }));
        change(&scene, &desired(&then)).await;
        scene.event("one", "FieldManagerConflict", "spec.strategy.rollingUpdate by ").await;
        assert_eq!(scene.get(&DEPLOYMENT, "one").await["spec"]["strategy"]["rollingUpdate"]["maxSurge"], 3);
    });
}
