//! Edits of the plugin's fields are reverted; fields of other managers are left alone.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use hotshoe_tests::audit::Entry;
use hotshoe_tests::kinds::{DEPLOYMENT, Kind, MEMCACHED, SERVICE};
use hotshoe_tests::{memcached, run};
use serde_json::{Value, json};

use crate::memcached::{host, scene};

/// Edits of fields that the plugin sets, each with a name and a JSON patch.
fn edits_of_the_deployment() -> Vec<(&'static str, Value)> {
    let label = "/metadata/labels/app.kubernetes.io~1";
    let container = "/spec/template/spec/containers/0";
    vec![
        ("replicas", json!([{ "op": "replace", "path": "/spec/replicas", "value": 0 }])),
        ("image", json!([{ "op": "replace", "path": format!("{container}/image"), "value": "other:1" }])),
        (
            "pull policy",
            json!([{ "op": "replace", "path": format!("{container}/imagePullPolicy"), "value": "Always" }]),
        ),
        ("command", json!([{ "op": "remove", "path": format!("{container}/command") }])),
        ("argument", json!([{ "op": "replace", "path": format!("{container}/command/1"), "value": "-m=65" }])),
        (
            "name of the port",
            json!([{ "op": "replace", "path": format!("{container}/ports/0/name"), "value": "other" }]),
        ),
        ("name", json!([{ "op": "replace", "path": format!("{container}/name"), "value": "renamed" }])),
        ("port removed", json!([{ "op": "remove", "path": format!("{container}/ports") }])),
        ("user", json!([{ "op": "replace", "path": format!("{container}/securityContext/runAsUser"), "value": 2002 }])),
        ("label changed", json!([{ "op": "replace", "path": "/metadata/labels/app", "value": "other" }])),
        ("label removed", json!([{ "op": "remove", "path": format!("{label}part-of") }])),
        (
            "label of the Pods",
            json!([{ "op": "remove", "path": "/spec/template/metadata/labels/app.kubernetes.io~1version" }]),
        ),
        ("label of the host", json!([{ "op": "remove", "path": format!("{label}managed-by") }])),
        (
            "label of the plugin",
            json!([{ "op": "replace", "path": "/metadata/labels/hotshoe.dev~1plugin", "value": "other" }]),
        ),
        ("all labels", json!([{ "op": "remove", "path": "/metadata/labels" }])),
        (
            "seccomp",
            json!([{ "op": "replace", "path": "/spec/template/spec/securityContext", "value": { "runAsNonRoot": true, "seccompProfile": { "type": "Unconfined" } } }]),
        ),
    ]
}

fn edits_of_the_service() -> Vec<(&'static str, Value)> {
    vec![
        ("target port", json!([{ "op": "replace", "path": "/spec/ports/0/targetPort", "value": 80 }])),
        (
            "selector label",
            json!([{ "op": "replace", "path": "/spec/selector/app.kubernetes.io~1instance", "value": "other" }]),
        ),
        ("selector", json!([{ "op": "remove", "path": "/spec/selector/app" }])),
        ("label", json!([{ "op": "replace", "path": "/metadata/labels/app", "value": "other" }])),
        ("type", json!([{ "op": "replace", "path": "/spec/type", "value": "NodePort" }])),
    ]
}

/// Returns the part of an object that must be the same after an edit was reverted.
fn compared_part(object: &Value) -> Value {
    let mut spec = object["spec"].clone();
    let labels = object["metadata"]["labels"].clone();
    // The API server may or may not remove node ports by itself; they are not desired.
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        port.as_object_mut().unwrap().remove("nodePort");
    }
    // A default that is set with the type and stays when the type is reverted.
    spec.as_object_mut().unwrap().remove("externalTrafficPolicy");
    json!({ "labels": labels, "spec": spec })
}

async fn every_edit_is_reverted(name: &str, kind: Kind, child: &str, edits: Vec<(&'static str, Value)>) {
    let scene = scene(name).await;
    scene.create(memcached("cache", 2)).await;
    scene.available("cache").await;
    let before = scene.get(&kind, child).await;
    for (what, patch) in edits {
        let edited = scene.json_patch(&kind, child, patch).await;
        assert_ne!(compared_part(&edited), compared_part(&before), "{what} is an edit");
        scene
            .until(&format!("the edit of {what} is reverted"), async || {
                let now = scene.get(&kind, child).await;
                let is_back = compared_part(&now) == compared_part(&before);
                is_back
                    .then_some(())
                    .ok_or_else(|| format!("{:#}\nbefore:{:#}", compared_part(&now), compared_part(&before)))
            })
            .await;
    }
    let after = scene.get(&kind, child).await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "nothing was deleted");
    scene.available("cache").await;
}

#[test]
fn every_field_of_the_deployment_that_we_set_is_repaired() {
    run(every_edit_is_reverted("drift-deployment", DEPLOYMENT, "cache", edits_of_the_deployment()));
}

#[test]
fn every_field_of_the_service_that_we_set_is_repaired() {
    run(every_edit_is_reverted("drift-service", SERVICE, "cache-service", edits_of_the_service()));
}

// The number of a port is also its key in the list.

#[test]
fn the_port_of_the_container_is_repaired() {
    let port = "/spec/template/spec/containers/0/ports/0/containerPort";
    let edit = ("port", json!([{ "op": "replace", "path": port, "value": 1 }]));
    run(every_edit_is_reverted("drift-container-port", DEPLOYMENT, "cache", vec![edit]));
}

#[test]
fn the_port_of_the_service_is_repaired() {
    let edit = ("port", json!([{ "op": "replace", "path": "/spec/ports/0/port", "value": 80 }]));
    run(every_edit_is_reverted("drift-service-port", SERVICE, "cache-service", vec![edit]));
}

#[test]
fn the_port_of_the_container_is_repaired_at_once_whatever_else_writes_to_the_deployment() {
    run(async {
        let scene = scene("drift-ports").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let before = scene.get(&DEPLOYMENT, "cache").await;
        let port = "/spec/template/spec/containers/0/ports/0/containerPort";
        // The deployment controller writes to the Deployment as soon as it is edited.
        for number in 1..=8 {
            scene.json_patch(&DEPLOYMENT, "cache", json!([{ "op": "replace", "path": port, "value": number }])).await;
            scene
                .until_within(Duration::from_secs(5), "the port is reverted", async || {
                    let now = scene.get(&DEPLOYMENT, "cache").await;
                    let is_back = compared_part(&now) == compared_part(&before);
                    is_back.then_some(()).ok_or_else(|| format!("{:#}", compared_part(&now)))
                })
                .await;
        }
        scene.available("cache").await;
        assert_eq!(scene.events("cache", "Invalid").await, [] as [Value; 0]);
    });
}

#[test]
fn ports_that_others_added_stay_when_ours_is_repaired_and_when_it_changes_later() {
    run(async {
        let scene = scene("drift-added-ports").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let numbers = |deployment: &Value| {
            let ports = deployment["spec"]["template"]["spec"]["containers"][0]["ports"].as_array().cloned();
            let numbers = ports.unwrap_or_default().into_iter().map(|port| port["containerPort"].as_u64());
            numbers.flatten().collect::<BTreeSet<_>>()
        };
        let ports = "/spec/template/spec/containers/0/ports";
        let metrics = json!({ "containerPort": 9150, "name": "metrics" });
        let add = json!([{ "op": "add", "path": format!("{ports}/0"), "value": metrics }]);
        scene.json_patch(&DEPLOYMENT, "cache", add).await;
        let edit = json!([{ "op": "replace", "path": format!("{ports}/1/containerPort"), "value": 1234 }]);
        scene.json_patch(&DEPLOYMENT, "cache", edit).await;
        let is_back = |now: &Value| numbers(now) == BTreeSet::from([9150, 11211]) && updates_by_the_plugin(now) == 0;
        scene.until_object(&DEPLOYMENT, "cache", "has its port again", is_back).await;
        scene.available("cache").await;

        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "containerPort": 4000 } })).await;
        let is_changed = |now: &Value| numbers(now) == BTreeSet::from([9150, 4000]);
        scene.until_object(&DEPLOYMENT, "cache", "has the new port", is_changed).await;
        scene.available("cache").await;
        assert_eq!(scene.events("cache", "Invalid").await, [] as [Value; 0]);
    });
}

#[test]
fn ports_that_others_added_to_the_service_stay_when_ours_is_repaired() {
    run(async {
        let scene = scene("drift-added-service-ports").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        // Where there is more than one port, each needs a name.
        let ports = json!([
            { "op": "add", "path": "/spec/ports/0/name", "value": "mc" },
            { "op": "add", "path": "/spec/ports/-", "value": { "name": "metrics", "port": 9150 } },
        ]);
        scene.json_patch(&SERVICE, "cache-service", ports).await;
        let edit = json!([{ "op": "replace", "path": "/spec/ports/0/port", "value": 80 }]);
        scene.json_patch(&SERVICE, "cache-service", edit).await;
        let is_back = |now: &Value| {
            let ports = now["spec"]["ports"].as_array().cloned().unwrap_or_default();
            let numbers: BTreeSet<_> = ports.iter().filter_map(|port| port["port"].as_u64()).collect();
            numbers == BTreeSet::from([9150, 11211]) && updates_by_the_plugin(now) == 0
        };
        scene.until_object(&SERVICE, "cache-service", "has its port again", is_back).await;
        scene.available("cache").await;
    });
}

#[test]
fn a_container_whose_name_was_restored_is_no_edit_of_ours() {
    run(async {
        let scene = scene("drift-name-noted").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let name = "/spec/template/spec/containers/0/name";
        scene.json_patch(&DEPLOYMENT, "cache", json!([{ "op": "replace", "path": name, "value": "x" }])).await;
        let is_back = |now: &Value| now.pointer(name) == Some(&json!("memcached")) && updates_by_the_plugin(now) == 0;
        scene.until_object(&DEPLOYMENT, "cache", "has its name again", is_back).await;
    });
}

#[test]
fn an_edit_during_the_repair_of_another_is_repaired_too() {
    run(async {
        let scene = scene("drift-quick").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let before = scene.get(&DEPLOYMENT, "cache").await;
        let edit = async |path: &str, value: Value| {
            let edit = json!([{ "op": "replace", "path": path, "value": value }]);
            scene.json_patch(&DEPLOYMENT, "cache", edit).await;
        };
        for _ in 0..8 {
            edit("/spec/template/spec/containers/0/name", json!("renamed")).await;
            // Some of these edits fall between the steps by which the host reverts the name: a repair, an apply, and
            // the removal of the repair's field ownership.
            for replicas in 2..7 {
                edit("/spec/replicas", json!(replicas)).await;
            }
            let is_back = |now: &Value| compared_part(now) == compared_part(&before) && updates_by_the_plugin(now) == 0;
            scene.until_object(&DEPLOYMENT, "cache", "is as it was", is_back).await;
        }
    });
}

/// Counts the entries in `managedFields` by which the plugin owns fields through an update instead of an apply: it
/// could never remove such fields.
fn updates_by_the_plugin(object: &Value) -> usize {
    let owners = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    owners.iter().filter(|owner| owner["manager"] == "hotshoe/memcached" && owner["operation"] != "Apply").count()
}

// An apply leaves alone what others set. If that makes the plugin's fields invalid, it is reported with the field
// manager.

/// Makes an edit of the Deployment that an apply cannot revert. It is reported with its field manager, and not retried
/// in a loop; once that manager removes what it added, the Deployment is repaired.
async fn an_edit_is_a_conflict(name: &str, edit: Value, added: &str) {
    let scene = scene(name).await;
    scene.create(memcached("cache", 1)).await;
    scene.available("cache").await;
    let before = scene.get(&DEPLOYMENT, "cache").await;
    let edited = scene.json_patch(&DEPLOYMENT, "cache", edit).await;
    let field = added.trim_start_matches('/').replace("/0/", "[0].").replace('/', ".");
    let owned = format!("{field} by {}", editor(&edited));
    scene.event("cache", "FieldManagerConflict", &owned).await;
    scene.until_condition("cache", "Degraded", ("True", "Reconciling", &owned)).await;
    let now = scene.get(&DEPLOYMENT, "cache").await;
    assert_eq!(compared_part(&now), compared_part(&edited), "fields of another field manager are left alone");
    assert_eq!(owners(&now), owners(&edited), "and so is who owns them");
    let remove = json!([{ "op": "remove", "path": added }]);
    // Without this part the edit itself would be invalid.
    let undo = match added.ends_with("localhostProfile") {
        true => json!([{ "op": "replace", "path": "/spec/template/spec/securityContext/seccompProfile",
            "value": { "type": "Unconfined" } }]),
        false => remove,
    };
    scene.json_patch(&DEPLOYMENT, "cache", undo).await;
    let is_back = |now: &Value| compared_part(now) == compared_part(&before);
    scene.until_object(&DEPLOYMENT, "cache", "is as it was", is_back).await;
    scene.available("cache").await;
}

/// Returns the field manager that updated an object last, apart from its controllers.
fn editor(object: &Value) -> String {
    let entries = object["metadata"]["managedFields"].as_array().unwrap().iter();
    let mut updates = entries.filter(|entry| entry["operation"] == "Update" && entry["subresource"].is_null());
    updates.find_map(|entry| entry["manager"].as_str()).unwrap().to_owned()
}

#[test]
fn a_seccomp_profile_with_a_file_of_its_own_is_a_conflict_with_who_set_it() {
    let profile = json!({ "type": "Localhost", "localhostProfile": "x.json" });
    let path = "/spec/template/spec/securityContext/seccompProfile";
    let edit = json!([{ "op": "replace", "path": path, "value": profile }]);
    run(an_edit_is_a_conflict("drift-profile", edit, &format!("{path}/localhostProfile")));
}

#[test]
fn a_container_that_was_made_privileged_is_a_conflict_with_who_did_so() {
    let context = "/spec/template/spec/containers/0/securityContext";
    let edit = json!([
        { "op": "replace", "path": format!("{context}/allowPrivilegeEscalation"), "value": true },
        { "op": "add", "path": format!("{context}/privileged"), "value": true },
    ]);
    run(an_edit_is_a_conflict("drift-privileged", edit, &format!("{context}/privileged")));
}

#[test]
fn a_service_that_was_opened_to_a_load_balancer_is_a_conflict_with_who_opened_it() {
    run(async {
        let scene = scene("drift-balancer").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let before = scene.get(&SERVICE, "cache-service").await;
        let edit = json!([
            { "op": "replace", "path": "/spec/type", "value": "LoadBalancer" },
            { "op": "add", "path": "/spec/loadBalancerSourceRanges", "value": ["10.0.0.0/8"] },
        ]);
        let edited = scene.json_patch(&SERVICE, "cache-service", edit).await;
        let owned = format!("spec.loadBalancerSourceRanges by {}", editor(&edited));
        scene.event("cache", "FieldManagerConflict", &owned).await;
        let undo = json!([{ "op": "remove", "path": "/spec/loadBalancerSourceRanges" }]);
        scene.json_patch(&SERVICE, "cache-service", undo).await;
        let is_back = |now: &Value| compared_part(now) == compared_part(&before);
        scene.until_object(&SERVICE, "cache-service", "is as it was", is_back).await;
        scene.available("cache").await;
    });
}

#[test]
fn additions_of_others_stay_where_an_edit_beside_them_is_repaired() {
    run(async {
        let scene = scene("drift-beside").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let added = json!({ "readOnlyRootFilesystem": true });
        let restricted = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } });
        let containers = json!([
            { "name": "memcached", "securityContext": added },
            { "name": "mesh", "image": "mesh", "securityContext": restricted },
        ]);
        let addition = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": "cache", "annotations": { "note": "theirs" } },
            "spec": { "revisionHistoryLimit": 3, "template": { "spec": { "containers": containers } } },
        });
        let before = scene.apply("injector", addition).await;
        let container = "/spec/template/spec/containers/0/securityContext";
        let edit = json!([
            { "op": "replace", "path": format!("{container}/allowPrivilegeEscalation"), "value": true },
        ]);
        scene.json_patch(&DEPLOYMENT, "cache", edit).await;
        let is_back = |now: &Value| compared_part(now) == compared_part(&before);
        let after = scene.until_object(&DEPLOYMENT, "cache", "is as it was", is_back).await;
        assert_eq!(after["metadata"]["annotations"]["note"], "theirs");
        scene.available("cache").await;
    });
}

/// Returns the field managers of an object with their fields, without times and without its controllers.
fn owners(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap().iter();
    let entries = entries.filter(|entry| entry["subresource"].is_null());
    entries.map(|entry| (entry["manager"].to_string(), entry["fieldsV1"].clone())).collect()
}

#[test]
fn additions_of_others_stay_theirs_where_an_edit_cannot_be_repaired() {
    run(async {
        let scene = scene("drift-forbidden").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let rule = scene.forbid(&DEPLOYMENT, "object.spec.replicas != 1", "one server is too few").await;
        let path = format!("{}?dryRun=All", DEPLOYMENT.path(&scene.namespace, Some("cache")));
        let nothing = json!({ "metadata": { "labels": { "a": "b" } } });
        scene
            .until("the rule is in force", async || {
                let tried =
                    scene.admin.request(http::Method::PATCH, &path, "application/merge-patch+json", &nothing).await;
                tried.err().map(drop).ok_or_else(|| "one is allowed".to_owned())
            })
            .await;
        let edit = json!({ "spec": { "replicas": 5, "revisionHistoryLimit": 3 } });
        let edited = scene.merge(&DEPLOYMENT, "cache", edit).await;
        scene.until_condition("cache", "Degraded", ("True", "Resizing", "one server is too few")).await;
        // The repair is retried from time to time, which does not change the ownership of fields.
        let is_theirs = |now: &Value| owners(now) == owners(&edited);
        scene.until_object(&DEPLOYMENT, "cache", "is owned as before", is_theirs).await;
        scene.allow(&rule).await;
        let is_back = |now: &Value| now["spec"]["replicas"] == 1 && now["spec"]["revisionHistoryLimit"] == 3;
        scene.until_object(&DEPLOYMENT, "cache", "is repaired, and keeps what was added", is_back).await;
        scene.available("cache").await;
    });
}

#[test]
fn a_child_that_lost_the_plugin_label_is_restored_whatever_else_was_edited() {
    run(async {
        let scene = scene("drift-label").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let label = "/metadata/labels/hotshoe.dev~1plugin";
        let port = "/spec/template/spec/containers/0/ports/0/containerPort";
        for (kind, name, port) in [(SERVICE, "cache-service", "/spec/ports/0/port"), (DEPLOYMENT, "cache", port)] {
            let before = scene.get(&kind, name).await;
            let mut changes = scene.watch(&kind).await;
            let edit = json!([{ "op": "remove", "path": label }, { "op": "replace", "path": port, "value": 80 }]);
            scene.json_patch(&kind, name, edit).await;
            let mut was_edited = false;
            while let Some((_, object)) = changes.next().await {
                assert!(!object["spec"]["selector"].is_null(), "a field of ours is gone: {object:#}");
                assert!(object["metadata"]["annotations"]["hotshoe.dev/applied"].is_string(), "{object:#}");
                was_edited |= compared_part(&object) != compared_part(&before);
                if was_edited && compared_part(&object) == compared_part(&before) {
                    break;
                }
            }
        }
        scene.available("cache").await;
    });
}

#[test]
fn edits_of_fields_that_we_do_not_set_do_not_slow_down_repairs() {
    run(async {
        let scene = scene("edits").await;
        scene.create(memcached("cache", 1)).await;
        for limit in 1..=12 {
            let generation = scene.available("cache").await["metadata"]["generation"].clone();
            let edited = scene.merge(&DEPLOYMENT, "cache", json!({ "spec": { "revisionHistoryLimit": limit } })).await;
            let rolled_out =
                |deployment: &Value| deployment["status"]["observedGeneration"] == edited["metadata"]["generation"];
            scene.until_object(&DEPLOYMENT, "cache", "is rolled out again", rolled_out).await;
            assert_eq!(scene.available("cache").await["metadata"]["generation"], generation);
        }
        scene.delete(&SERVICE, "cache-service").await;
        scene.until_object(&SERVICE, "cache-service", "is back", |_| true).await;
        scene.available("cache").await;
        let log = host().await.log();
        let slowed = log.lines().find(|line| line.contains(&scene.namespace) && line.contains("slowed down"));
        assert_eq!(slowed, None);
    });
}

#[test]
fn a_manual_scale_is_reverted() {
    run(async {
        let scene = scene("scale").await;
        scene.create(memcached("cache", 2)).await;
        scene.available("cache").await;
        let path = format!("{}/scale", DEPLOYMENT.path(&scene.namespace, Some("cache")));
        let scale = json!({ "spec": { "replicas": 5 } });
        let scaled = scene.admin.request(http::Method::PATCH, &path, "application/merge-patch+json", &scale).await;
        scaled.expect("a scale");
        let is_back = |object: &Value| object["spec"]["replicas"] == 2;
        scene.until_object(&DEPLOYMENT, "cache", "has two replicas again", is_back).await;
        scene.available("cache").await;
    });
}

#[test]
fn repeated_manual_scaling_is_reverted_as_soon_as_the_first_time() {
    run(async {
        let scene = scene("scales").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        for _ in 0..24 {
            let scaled = scene.merge(&DEPLOYMENT, "cache", json!({ "spec": { "replicas": 2 } })).await;
            let has_two_servers = |object: &Value| object["status"]["nodes"].as_array().is_some_and(|it| it.len() == 2);
            let is_back = |object: &Value| object["spec"]["replicas"] == 1 && object["metadata"] != scaled["metadata"];
            // Sometimes a second Pod exists before the scale is reverted, and the status lists it.
            scene.until_object(&DEPLOYMENT, "cache", "has one replica again", is_back).await;
            scene.until_object(&MEMCACHED, "cache", "has one server again", |object| !has_two_servers(object)).await;
        }
        scene.available("cache").await;
        let log = host().await.log();
        let slowed = log.lines().find(|line| line.contains(&scene.namespace) && line.contains("slowed down"));
        assert_eq!(slowed, None);
    });
}

#[test]
fn additions_of_others_are_left_alone() {
    run(async {
        let scene = scene("additions").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let before = scene.recorded_writes().await;
        let addition = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": "cache", "annotations": { "note": "theirs" }, "labels": { "team": "theirs" } },
            "spec": {
                "revisionHistoryLimit": 3,
                "template": {
                    "metadata": { "annotations": { "injected": "yes" }, "labels": { "mesh": "yes" } },
                    "spec": { "containers": [{ "name": "memcached", "env": [{ "name": "THEIRS", "value": "1" }] }] },
                },
            },
        });
        scene.apply("injector", addition).await;
        scene.merge(&SERVICE, "cache-service", json!({ "metadata": { "annotations": { "note": "theirs" } } })).await;
        let is_kept = |deployment: &Value| {
            let template = &deployment["spec"]["template"];
            deployment["metadata"]["annotations"]["note"] == "theirs"
                && deployment["metadata"]["labels"]["team"] == "theirs"
                && deployment["spec"]["revisionHistoryLimit"] == 3
                && template["metadata"]["annotations"]["injected"] == "yes"
                && template["metadata"]["labels"]["mesh"] == "yes"
                && template["spec"]["containers"][0]["env"] == json!([{ "name": "THEIRS", "value": "1" }])
        };
        scene.available("cache").await;
        // A resize makes the host write the Deployment, which still keeps the fields of others.
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 2 } })).await;
        let resized = |deployment: &Value| deployment["spec"]["replicas"] == 2;
        let deployment = scene.until_object(&DEPLOYMENT, "cache", "has two replicas", resized).await;
        assert!(is_kept(&deployment), "{deployment:#}");
        scene.available("cache").await;
        let service = scene.get(&SERVICE, "cache-service").await;
        assert_eq!(service["metadata"]["annotations"]["note"], "theirs");
        let writes = scene.recorded_writes().await;
        // An apply that met a newer version of the object was refused, and is made again.
        let of = |resource: &str| {
            let count =
                |writes: &[Entry]| writes.iter().filter(|write| write.is_about(resource) && write.code < 300).count();
            count(&writes) - count(&before)
        };
        assert_eq!((of("deployments"), of("services")), (1, 0), "only the resize was written: {writes:#?}");
    });
}
