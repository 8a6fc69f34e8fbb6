//! A plugin that tries to use what others set in a child, by naming a container or changing a selector: its own answer
//! is harmless, but the resulting object would not be.

use hotshoe_tests::attacks::named;
use hotshoe_tests::audit::Entry;
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{ATTACK, DEPLOYMENT, Kind, POD, SERVICE};
use hotshoe_tests::scene::{condition, condition_parts};
use hotshoe_tests::webhook::Webhook;
use serde_json::{Value, json};

use hotshoe_tests::run;

use super::ADMIN;
use super::rig::{Rig, attack};

const OLD: &str = "registry.example.com/old:1";
const EVIL: &str = "registry.example.com/evil:1";
const REMOVE: &str = "edit deployment.apps/web";
const VERBS: &str = "      verbs: [get, list, watch, create, update, delete]\n";

/// A host with the plugin, whose account may do everything, so that only the gate stops it.
async fn rig(name: &str) -> Rig {
    Rig::with(name, ADMIN, Folder::of_hostile()).await
}

/// The same with a plugin that may adopt the children that others left.
async fn adopting(name: &str) -> Rig {
    let folder = Folder::of_hostile();
    folder.edit("  grants:", "  adopt: true\n  grants:");
    Rig::with(name, ADMIN, folder).await
}

/// A container that the gate admits.
fn admitted_container(name: &str, image: &str) -> Value {
    json!({ "name": name, "image": image, "securityContext": { "allowPrivilegeEscalation": false } })
}

fn pod_of(containers: &[Value]) -> Value {
    json!({ "automountServiceAccountToken": false, "containers": containers })
}

fn deployment_of(spec: &Value) -> Value {
    let labels = json!({ "app": "web" });
    let template = json!({ "metadata": { "labels": labels }, "spec": spec });
    json!({ "spec": { "replicas": 1, "selector": { "matchLabels": labels }, "template": template } })
}

fn deployment(containers: &[Value]) -> Value {
    deployment_of(&pod_of(containers))
}

/// Completes a body to an object.
fn object(kind: &Kind, body: &Value) -> Value {
    let mut object = body.clone();
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.into();
    object["metadata"]["name"] = "web".into();
    object
}

/// Makes the plugin desire this child for the parent `web`.
async fn dictate(rig: &Rig, kind: &Kind, body: &Value) {
    let child = json!({
        "group": kind.group, "version": kind.version, "kind": kind.kind, "name": "web", "body": body.to_string(),
    });
    rig.scene.merge(&ATTACK, "web", json!({ "spec": { "attack": "dictated", "children": [child] } })).await;
}

/// Creates the parent, and a child of it that another operator left behind.
async fn left_behind(rig: &Rig, kind: &Kind, body: &Value) {
    let parent = rig.scene.create(attack("web", "silence")).await;
    let mut child = object(kind, body);
    child["metadata"]["ownerReferences"] = json!([{
        "apiVersion": ATTACK.api_version(), "kind": ATTACK.kind, "name": "web", "uid": parent["metadata"]["uid"],
        "controller": true,
    }]);
    rig.scene.apply("old-operator", child).await;
}

/// Waits until condition, Event and metrics report that the result is denied, with these words. No grant is advised for
/// what a field manager set.
async fn is_denied(rig: &Rig, row: &str, rule: &str, words: &[&str]) {
    let (scene, row) = (&rig.scene, named(row));
    let parent = scene.until_condition_of(&ATTACK, "web", "Reconciled", "False", row.reason).await;
    let message = condition_parts(&parent, "Reconciled").2;
    words.iter().for_each(|words| assert!(message.contains(words), "{words}: {message}"));
    assert!(!message.contains("set by the field manager") || !message.contains("plugin.yaml"), "{message}");
    scene.event("web", row.reason, words[0]).await;
    let line = format!("hotshoe_denied_total{{controller=\"{ADMIN}\",rule=\"{rule}\"}} ");
    assert!(rig.metric(&line).await > 0, "no metric has {rule}");
}

fn is_dry(entry: &Entry) -> bool {
    entry.uri.contains("dryRun=All")
}

/// Returns the host's writes of these children, without dry runs.
async fn written(rig: &Rig, plural: &str) -> Vec<Entry> {
    let writes = rig.scene.recorded_writes().await;
    writes.into_iter().filter(|write| write.is_about(plural) && write.name == "web" && !is_dry(write)).collect()
}

fn image(child: &Value, container: usize) -> &Value {
    let spec = if child["kind"] == "Pod" { &child["spec"] } else { &child["spec"]["template"]["spec"] };
    &spec["containers"][container]["image"]
}

/// The Pod of an earlier operator, whose container has a Secret and a token.
fn privileged_spec() -> Value {
    json!({
        "serviceAccountName": "web-admin",
        "hostPID": true,
        "containers": [{
            "name": "main", "image": OLD, "volumeMounts": [
                { "name": "tls", "mountPath": "/tls" }, { "name": "token", "mountPath": "/token" },
            ],
        }],
        "volumes": [
            { "name": "tls", "secret": { "secretName": "tls" } },
            { "name": "token", "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] } },
        ],
    })
}

#[test]
fn the_rights_of_a_live_deployment_are_closed_to_a_plugin_that_names_its_container_until_granted() {
    run(async {
        let rig = adopting("result-deployment").await;
        left_behind(&rig, &DEPLOYMENT, &deployment_of(&privileged_spec())).await;
        dictate(&rig, &DEPLOYMENT, &deployment(&[admitted_container("main", EVIL)])).await;
        let closed = ["hostPID is not granted", "serviceAccountName is not granted", "secretName is not granted"];
        is_denied(
            &rig,
            "the ServiceAccount and the Secrets of a Deployment that another operator left",
            "pod-host-pid",
            &[&["set by the field manager old-operator", REMOVE][..], &closed].concat(),
        )
        .await;
        let live = rig.scene.get(&DEPLOYMENT, "web").await;
        assert_eq!(image(&live, 0), OLD);
        assert!(
            live["metadata"]["labels"].is_null() && written(&rig, "deployments").await.iter().all(|w| w.code == 409)
        );
        rig.is_well("a denied result").await;
        // It is retried no more often than any other denial.
        let looks = rig.scene.writes().iter().filter(|write| is_dry(write)).count();
        assert!((1..=3).contains(&looks), "{looks}");

        let pods =
            "      pods: {hostPID: true, serviceAccounts: [web-admin], secrets: [tls], serviceAccountToken: true}\n";
        rig.folder.edit(&format!("kind: Deployment\n{VERBS}"), &format!("kind: Deployment\n{VERBS}{pods}"));
        let is_taken = |live: &Value| image(live, 0) == EVIL;
        let live = rig.scene.until_object(&DEPLOYMENT, "web", "is taken over", is_taken).await;
        assert_eq!(live["spec"]["template"]["spec"]["hostPID"], true, "what others set stays");
        let is_well = |parent: &Value| condition(parent, "Reconciled").is_none();
        rig.scene.until_object(&ATTACK, "web", "is well", is_well).await;
    });
}

#[test]
fn a_child_that_another_operator_left_is_taken_over_only_where_the_administrator_says_so() {
    run(async {
        let rig = rig("result-left").await;
        let row = named("a Deployment that another operator left");
        left_behind(&rig, &DEPLOYMENT, &deployment(&[admitted_container("main", OLD)])).await;
        let left = rig.scene.get(&DEPLOYMENT, "web").await;
        dictate(&rig, &DEPLOYMENT, &deployment(&[admitted_container("main", EVIL)])).await;
        rig.scene.event("web", row.reason, "set in spec of plugin.yaml: adopt: true").await;
        let now = rig.scene.get(&DEPLOYMENT, "web").await;
        assert_eq!((&now["spec"], &now["metadata"]["labels"]), (&left["spec"], &Value::Null));
        rig.folder.edit("  grants:", "  adopt: true\n  grants:");
        let is_taken = |live: &Value| image(live, 0) == EVIL;
        let live = rig.scene.until_object(&DEPLOYMENT, "web", "is taken over", is_taken).await;
        assert_eq!(live["metadata"]["uid"], left["metadata"]["uid"]);
        assert!(!rig.scene.recorded_writes().await.iter().any(is_dry), "nothing of it is closed");
    });
}

#[test]
fn an_injected_container_with_rights_never_runs_an_image_that_a_plugin_chose() {
    run(async {
        let rig = rig("result-sidecar").await;
        rig.scene.create(attack("web", "silence")).await;
        dictate(&rig, &DEPLOYMENT, &deployment(&[admitted_container("main", OLD)])).await;
        rig.scene.until_object(&DEPLOYMENT, "web", "is there", |_| true).await;
        let agent = json!({
            "name": "agent", "image": OLD, "volumeMounts": [{ "name": "run", "mountPath": "/run" }],
            "securityContext": { "runAsUser": 0, "capabilities": { "add": ["NET_ADMIN"] } },
        });
        let volumes = json!([{ "name": "run", "hostPath": { "path": "/var/run" } }]);
        let injected = json!({ "spec": { "template": { "spec": { "containers": [agent], "volumes": volumes } } } });
        rig.scene.apply("injector", object(&DEPLOYMENT, &injected)).await;
        dictate(&rig, &DEPLOYMENT, &deployment(&[admitted_container("main", OLD), admitted_container("agent", EVIL)]))
            .await;
        is_denied(
            &rig,
            "the capabilities of a container that an injector added",
            "pod-capability",
            &["set by the field manager injector", REMOVE],
        )
        .await;
        let live = rig.scene.get(&DEPLOYMENT, "web").await;
        assert_eq!((image(&live, 0), image(&live, 1)), (&json!(OLD), &json!(OLD)), "{live:#}");
        // The denial ends by itself once the injected container is gone.
        let nothing = json!({ "metadata": {} });
        rig.scene.apply("injector", object(&DEPLOYMENT, &nothing)).await;
        rig.scene.until_object(&DEPLOYMENT, "web", "is as answered", |live| image(live, 1) == EVIL).await;
        let live = rig.scene.get(&DEPLOYMENT, "web").await;
        assert!(live["spec"]["template"]["spec"]["volumes"].is_null(), "{live:#}");
    });
}

#[test]
fn a_pod_with_a_token_never_runs_an_image_that_a_plugin_chose() {
    run(async {
        let rig = adopting("result-pod").await;
        let proxy = json!({
            "name": "proxy", "image": OLD, "volumeMounts": [{ "name": "token", "mountPath": "/token" }],
            "securityContext": {
                "allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 1000,
                "capabilities": { "drop": ["ALL"] }, "seccompProfile": { "type": "RuntimeDefault" },
            },
        });
        let token =
            json!({ "name": "token", "projected": { "sources": [{ "serviceAccountToken": { "path": "t" } }] } });
        // The token is an explicit volume. With one that admission mounts, an answer never changes a Pod's image.
        let spec = json!({ "automountServiceAccountToken": false, "containers": [proxy], "volumes": [token] });
        left_behind(&rig, &POD, &json!({ "spec": spec })).await;
        dictate(&rig, &POD, &json!({ "spec": pod_of(&[admitted_container("proxy", EVIL)]) })).await;
        is_denied(
            &rig,
            "the token of a Pod that another operator left",
            "pod-token",
            &["set by the field manager old-operator", "delete pod/web"],
        )
        .await;
        assert_eq!(image(&rig.scene.get(&POD, "web").await, 0), OLD);
    });
}

#[test]
fn an_external_service_never_leads_to_pods_that_a_plugin_chose() {
    run(async {
        let rig = adopting("result-service").await;
        let spec = json!({
            "type": "LoadBalancer", "externalIPs": ["192.0.2.9"], "selector": { "app": "old" }, "ports": [{ "port": 80 }],
        });
        left_behind(&rig, &SERVICE, &json!({ "spec": spec })).await;
        dictate(&rig, &SERVICE, &json!({ "spec": { "selector": { "app": "evil" }, "ports": [{ "port": 80 }] } })).await;
        let closed = ["spec.type is not granted", "spec.externalIPs is not granted", "edit service/web"];
        is_denied(
            &rig,
            "the addresses of a Service that another operator left",
            "service-type",
            &[&["set by the field manager old-operator"][..], &closed].concat(),
        )
        .await;
        assert_eq!(rig.scene.get(&SERVICE, "web").await["spec"]["selector"], json!({ "app": "old" }));
    });
}

#[test]
fn a_container_that_was_renamed_and_given_a_secret_is_not_repaired_with_it() {
    run(async {
        let rig = rig("result-repair").await;
        rig.scene.create(attack("web", "silence")).await;
        dictate(&rig, &DEPLOYMENT, &deployment(&[admitted_container("main", EVIL)])).await;
        rig.scene.until_object(&DEPLOYMENT, "web", "is there", |_| true).await;
        let pod = "/spec/template/spec";
        let edit = json!([
            { "op": "replace", "path": format!("{pod}/containers/0/name"), "value": "theirs" },
            { "op": "replace", "path": format!("{pod}/containers/0/image"), "value": OLD },
            { "op": "add", "path": format!("{pod}/containers/0/volumeMounts"), "value": [{ "name": "tls", "mountPath": "/tls" }] },
            { "op": "add", "path": format!("{pod}/volumes"), "value": [{ "name": "tls", "secret": { "secretName": "tls" } }] },
        ]);
        rig.scene.json_patch(&DEPLOYMENT, "web", edit).await;
        is_denied(&rig, "the Secret of a container that was renamed", "pod-secret", &[REMOVE]).await;
        let live = rig.scene.get(&DEPLOYMENT, "web").await;
        assert_eq!((image(&live, 0), &live["spec"]["template"]["spec"]["containers"][1]), (&json!(OLD), &Value::Null));
    });
}

#[test]
fn ordinary_changes_by_users_and_injectors_cost_no_request_and_stop_no_plugin() {
    run(async {
        let rig = rig("result-ordinary").await;
        rig.scene.create(attack("web", "silence")).await;
        dictate(&rig, &DEPLOYMENT, &deployment(&[admitted_container("main", OLD)])).await;
        rig.scene.until_object(&DEPLOYMENT, "web", "is there", |_| true).await;
        // kubectl scale, kubectl rollout restart, kubectl set env, and a sidecar without special rights.
        rig.scene.merge(&DEPLOYMENT, "web", json!({ "spec": { "replicas": 2 } })).await;
        let restarted = json!({ "kubectl.kubernetes.io/restartedAt": "2026-11-24T10:00:00Z" });
        let sidecar = json!({ "name": "sidecar", "image": OLD, "env": [{ "name": "A", "value": "b" }] });
        let template = json!({ "metadata": { "annotations": restarted }, "spec": { "containers": [sidecar] } });
        rig.scene.apply("people", object(&DEPLOYMENT, &json!({ "spec": { "template": template } }))).await;
        let new = "registry.example.com/new:2";
        dictate(&rig, &DEPLOYMENT, &deployment(&[admitted_container("main", new)])).await;
        let is_new = |live: &Value| image(live, 0) == new && live["spec"]["replicas"] == 1;
        let live = rig.scene.until_object(&DEPLOYMENT, "web", "is as answered", is_new).await;
        let template = &live["spec"]["template"];
        assert_eq!(template["metadata"]["annotations"], restarted, "{template:#}");
        assert_eq!(image(&live, 1), OLD);
        let writes = rig.scene.recorded_writes().await;
        assert!(!writes.iter().any(is_dry), "{writes:#?}");
        // An apply that met a newer version of the object was refused, and is made again.
        let accepted = written(&rig, "deployments").await.iter().filter(|write| write.code < 300).count();
        assert!(accepted <= 4, "{writes:#?}");
        let parent = rig.scene.get(&ATTACK, "web").await;
        assert!(condition(&parent, "Reconciled").is_none(), "{parent:#}");
    });
}

/// Adds a container with a Secret to each Deployment that has none.
fn inject(deployment: &Value) -> Value {
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
    if containers.iter().any(|container| container["volumeMounts"].is_array()) {
        return json!([]);
    }
    let pod = "/spec/template/spec";
    let mounts = json!([{ "name": "identity", "mountPath": "/identity" }]);
    let add = match containers.iter().position(|container| container["name"] == "agent") {
        Some(place) => {
            json!({ "op": "add", "path": format!("{pod}/containers/{place}/volumeMounts"), "value": mounts })
        }
        None => {
            let agent = json!({ "name": "agent", "image": OLD, "volumeMounts": mounts });
            json!({ "op": "add", "path": format!("{pod}/containers/-"), "value": agent })
        }
    };
    let volumes = json!([{ "name": "identity", "secret": { "secretName": "identity" } }]);
    json!([add, { "op": "add", "path": format!("{pod}/volumes"), "value": volumes }])
}

#[test]
fn additions_of_a_mutating_webhook_are_closed_to_the_plugin_too() {
    run(async {
        let rig = rig("result-webhook").await;
        let webhook = Webhook::of(&rig.scene, &DEPLOYMENT, inject).await;
        // Until the webhook is in force, writes bypass it.
        rig.scene
            .until("the webhook is in force", async || {
                let path = format!("{}?dryRun=All", DEPLOYMENT.path(&rig.scene.namespace, None));
                let probe = object(&DEPLOYMENT, &deployment(&[admitted_container("main", OLD)]));
                let made = rig.scene.admin.request(http::Method::POST, &path, "application/json", &probe).await;
                let made = made.map_err(|refused| refused.message)?;
                (image(&made, 1) == OLD).then_some(()).ok_or_else(|| format!("{made:#}"))
            })
            .await;
        rig.scene.create(attack("web", "silence")).await;
        dictate(&rig, &DEPLOYMENT, &deployment(&[admitted_container("main", OLD)])).await;
        let is_injected = |live: &Value| image(live, 1) == OLD;
        let live = rig.scene.until_object(&DEPLOYMENT, "web", "has the sidecar", is_injected).await;
        dictate(&rig, &DEPLOYMENT, &deployment(&[admitted_container("main", OLD), admitted_container("agent", EVIL)]))
            .await;
        is_denied(
            &rig,
            "the Secret of a container that a mutating webhook added",
            "pod-secret",
            &["pods: {secrets: [identity]}"],
        )
        .await;
        let now = rig.scene.get(&DEPLOYMENT, "web").await;
        assert_eq!(now["metadata"]["generation"], live["metadata"]["generation"], "{now:#}");
        assert_eq!(image(&now, 1), OLD);
        webhook.remove(&rig.scene).await;
    });
}
