//! Children without any controller: those of a former parent of the same name are taken over, and about any other there is
//! a way to have it taken over without deleting it.

use std::time::Duration;

use hotshoe_tests::dictated::{change, child, create, host, workload, written_with_another};
use hotshoe_tests::kinds::{ATTACK, CHOICE, CONFIG_MAP, DEPLOYMENT, Kind, SECRET, SERVICE};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Scene, run};
use http::Method;
use serde_json::{Value, json};

/// Deletes the parent `one` and waits until it is gone and its child has no owner.
async fn orphan(scene: &Scene, kind: &Kind) -> Value {
    let options = json!({ "propagationPolicy": "Orphan" });
    let path = ATTACK.path(&scene.namespace, Some("one"));
    scene.admin.request(Method::DELETE, &path, "application/json", &options).await.expect("it is deleted");
    scene.gone(&ATTACK, "one").await;
    let has_no_owner = |object: &Value| object["metadata"]["ownerReferences"].is_null();
    scene.until_object(kind, "one", "has no owner", has_no_owner).await
}

async fn is_taken_over(name: &str, kind: &Kind, bodies: [Value; 2], holds: impl Fn(&Value) -> bool) {
    let (scene, _folder, _host) = host(name, kind).await;
    let [before, after] = bodies.map(|body| [child(kind, "one", &body)]);
    create(&scene, &before).await;
    scene.until_object(kind, "one", "is there", |_| true).await;
    let orphan = orphan(&scene, kind).await;
    create(&scene, &after).await;
    let parent = scene.get(&ATTACK, "one").await;
    let is_ours =
        |object: &Value| object["metadata"]["ownerReferences"][0]["uid"] == parent["metadata"]["uid"] && holds(object);
    let object = scene.until_object(kind, "one", "is taken over", is_ours).await;
    assert_eq!(object["metadata"]["uid"], orphan["metadata"]["uid"], "it was not deleted");
    // The other child is a ConfigMap itself: it is created and deleted.
    let of_another = if kind.kind == CONFIG_MAP.kind { 2 } else { 0 };
    assert_eq!(written_with_another(&scene, &after, [kind.plural, "none"]).await, [of_another, 0]);
}

#[test]
fn an_orphaned_config_map_is_taken_over_with_other_content() {
    run(async {
        let body = |value: &str| json!({ "data": { "v": value } });
        is_taken_over("orphan-map", &CONFIG_MAP, [body("1"), body("2")], |map| map["data"] == json!({ "v": "2" }))
            .await;
    });
}

#[test]
fn an_orphaned_deployment_is_taken_over() {
    run(async {
        let body = |replicas: u32| {
            let mut spec = workload(&DEPLOYMENT);
            spec["replicas"] = json!(replicas);
            json!({ "spec": spec })
        };
        is_taken_over("orphan-deployment", &DEPLOYMENT, [body(0), body(1)], |it| it["spec"]["replicas"] == 1).await;
    });
}

#[test]
fn an_orphaned_object_of_a_custom_kind_and_a_secret_are_taken_over() {
    run(async {
        let body = |note: &str| json!({ "spec": { "note": note } });
        is_taken_over("orphan-custom", &CHOICE, [body("a"), body("b")], |it| it["spec"]["note"] == "b").await;
        let body = |text: &str| json!({ "stringData": { "a": text } });
        is_taken_over("orphan-secret", &SECRET, [body("1"), body("2")], |it| it["data"]["a"] == "Mg==").await;
    });
}

#[test]
fn an_object_that_names_no_parent_is_left_alone_until_someone_runs_the_commands_in_the_message() {
    run(async {
        let (scene, _folder, _host) = host("orphan-foreign", &SERVICE).await;
        let foreign = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "one" }, "data": { "theirs": "yes" },
        });
        let foreign = scene.create(foreign).await;
        create(&scene, &[child(&CONFIG_MAP, "one", &json!({ "data": { "ours": "yes" } }))]).await;
        let mark = format!("hotshoe.dev/parent=Attack.fixtures.example.com/{}/one", scene.namespace);
        let names_the_way = |parent: &Value| {
            let message = condition_parts(parent, "Reconciled").2;
            message.contains(&format!("kubectl -n {} annotate --overwrite configmap/one {mark}", scene.namespace))
                && message.contains("label --overwrite configmap/one hotshoe.dev/plugin=lists")
        };
        scene.until_object(&ATTACK, "one", "names the way", names_the_way).await;
        assert_eq!(scene.get(&CONFIG_MAP, "one").await, foreign);
        let (_, parent) = mark.split_once('=').unwrap();
        let marks =
            json!({ "labels": { "hotshoe.dev/plugin": "lists" }, "annotations": { "hotshoe.dev/parent": parent } });
        scene.merge(&CONFIG_MAP, "one", json!({ "metadata": marks })).await;
        let is_ours = async || {
            let map = scene.get(&CONFIG_MAP, "one").await;
            let is_ours = map["data"] == json!({ "theirs": "yes", "ours": "yes" })
                && map["metadata"]["uid"] == foreign["metadata"]["uid"];
            is_ours.then_some(()).ok_or_else(|| format!("{map:#}"))
        };
        scene.until_within(Duration::from_secs(60), "it is taken over", is_ours).await;
        let recovered = |parent: &Value| condition_parts(parent, "Reconciled").0 != "False";
        scene.until_object(&ATTACK, "one", "has recovered", recovered).await;
    });
}

#[test]
fn what_a_user_marks_as_a_child_of_another_name_or_plugin_is_left_alone() {
    run(async {
        let (scene, _folder, _host) = host("orphan-forged", &SERVICE).await;
        let others = format!("Attack.fixtures.example.com/{}/other", scene.namespace);
        let own = format!("Attack.fixtures.example.com/{}/one", scene.namespace);
        for (number, (plugin, parent)) in [("lists", &others), ("other", &own)].into_iter().enumerate() {
            let name = format!("forged-{number}");
            let marks =
                json!({ "labels": { "hotshoe.dev/plugin": plugin }, "annotations": { "hotshoe.dev/parent": parent } });
            let mut metadata = marks.clone();
            metadata["name"] = name.as_str().into();
            let forged = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "v": "1" } });
            let forged = scene.create(forged).await;
            let children = [child(&CONFIG_MAP, &name, &json!({ "data": { "v": "2" } }))];
            match number {
                0 => create(&scene, &children).await,
                _ => change(&scene, &children).await,
            }
            scene.event("one", "Conflict", &name).await;
            assert_eq!(scene.get(&CONFIG_MAP, &name).await, forged);
        }
    });
}
