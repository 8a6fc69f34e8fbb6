//! Children with empty lists and objects: these stay empty, and are not written over and over. The plugin desires the
//! children in its parent's spec.

use futures::StreamExt;
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{ATTACK, CONFIG_MAP, DEPLOYMENT, DOOR, FAULT, Kind, NETWORK_POLICY};
use hotshoe_tests::scene::condition;
use hotshoe_tests::{ControlPlane, Host, Scene, repository, run};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const PLUGIN: &str = "lists";

/// Starts a host with the plugin, which may own this kind, too.
async fn host(name: &str, kind: &Kind) -> (Scene, Folder, Host) {
    static READY: OnceCell<()> = OnceCell::const_new();
    let plane = ControlPlane::shared().await;
    READY.get_or_init(|| install(plane)).await;
    let mut scene = Scene::new(plane, name).await;
    let folder = Folder::of_hostile_owning(kind);
    folder.edit("name: hostile\n", &format!("name: {PLUGIN}\n"));
    let host = scene.start().await.plugins(&[folder.path()]).ready().await;
    scene.watch_log(&host);
    (scene, folder, host)
}

/// Installs the kinds, the accounts and their rights.
async fn install(plane: &ControlPlane) {
    for fixture in ["hostile", "lists", "faulty"] {
        plane.install_definition(&repository(&format!("tests/fixtures/{fixture}/crd.yaml"))).await;
    }
    plane.create_account(PLUGIN).await;
    plane.allow_impersonation(PLUGIN).await;
    let everything = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    plane.grant(PLUGIN, "tests-lists", &everything).await;
    let all = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    let watch = ["get", "list", "watch"];
    let of_host = json!([
        all("fixtures.example.com", &["attacks"], &["get", "list", "watch", "patch"]),
        all("fixtures.example.com", &["attacks/status"], &["patch"]),
        all("fixtures.example.com", &["doors", "faults"], &watch),
        all("networking.k8s.io", &["networkpolicies"], &watch),
        all("", &["configmaps", "persistentvolumeclaims", "pods"], &watch),
        all("apps", &["replicasets", "statefulsets"], &watch),
    ]);
    plane.grant("hotshoe", "tests-lists-host", &of_host).await;
}

fn child(kind: &Kind, name: &str, body: &Value) -> Value {
    json!({ "group": kind.group, "version": kind.version, "kind": kind.kind, "name": name, "body": body.to_string() })
}

fn dictating(children: &[Value]) -> Value {
    json!({ "spec": { "attack": "dictated", "children": children } })
}

/// Creates the parent `one` with these children in its spec.
async fn create(scene: &Scene, children: &[Value]) {
    let mut parent = dictating(children);
    parent["apiVersion"] = ATTACK.api_version().into();
    parent["kind"] = ATTACK.kind.into();
    parent["metadata"] = json!({ "name": "one" });
    scene.create(parent).await;
}

/// Lets the plugin decide again with one more child, and counts the writes of each kind in that reconcile.
async fn written_with_another(scene: &Scene, children: &[Value], resources: [&str; 2]) -> [usize; 2] {
    let before = scene.recorded_writes().await;
    let another = child(&CONFIG_MAP, "another", &json!({ "data": { "a": "b" } }));
    let all: Vec<Value> = children.iter().cloned().chain([another]).collect();
    scene.merge(&ATTACK, "one", dictating(&all)).await;
    scene.until_object(&CONFIG_MAP, "another", "is there", |_| true).await;
    // Once more without that child: once it is deleted, all earlier writes have been made.
    scene.merge(&ATTACK, "one", dictating(children)).await;
    scene.gone(&CONFIG_MAP, "another").await;
    let writes = scene.recorded_writes().await;
    resources.map(|resource| writes.iter().skip(before.len()).filter(|write| write.is_about(resource)).count())
}

#[test]
fn an_empty_list_of_a_custom_kind_stays_empty_whatever_its_type_and_its_default() {
    run(async {
        let (scene, _folder, _host) = host("empty-custom", &DOOR).await;
        let full = json!({
            "hosts": ["a"], "plain": ["a"], "guests": ["a"], "rooms": [{ "name": "a" }], "options": { "a": "b" },
        });
        let empty = json!({ "hosts": [], "plain": [], "guests": [], "rooms": [], "options": {} });
        let desired = |spec: &Value| [child(&DOOR, "front", &json!({ "spec": spec }))];
        create(&scene, &desired(&full)).await;
        scene.until_object(&DOOR, "front", "is as desired", |door| door["spec"] == full).await;
        let mut changes = scene.watch(&DOOR).await;
        scene.merge(&ATTACK, "one", dictating(&desired(&empty))).await;
        scene.until_object(&DOOR, "front", "is empty", |door| door["spec"] == empty).await;
        // At no time is it open.
        loop {
            let (_, door) = changes.next().await.expect("the watch goes on");
            assert!(!door["spec"].to_string().contains('*'), "{door:#}");
            if door["spec"] == empty {
                break;
            }
        }
        assert_eq!(written_with_another(&scene, &desired(&empty), ["doors", "pods"]).await, [0, 0]);
        assert_eq!(scene.get(&DOOR, "front").await["spec"], empty);
        scene.merge(&DOOR, "front", json!({ "spec": { "hosts": ["*"], "plain": null } })).await;
        scene.until_object(&DOOR, "front", "is repaired", |door| door["spec"] == empty).await;
    });
}

#[test]
fn a_spec_of_only_an_empty_list_is_written_once_and_stays() {
    run(async {
        let (scene, _folder, _host) = host("empty-alone", &DOOR).await;
        let desired = |spec: Value| [child(&DOOR, "front", &json!({ "spec": spec }))];
        create(&scene, &desired(json!({ "rooms": [{ "name": "a" }] }))).await;
        scene.until_object(&DOOR, "front", "has a room", |door| door["spec"]["rooms"][0]["name"] == "a").await;
        let empty = desired(json!({ "rooms": [] }));
        scene.merge(&ATTACK, "one", dictating(&empty)).await;
        scene.until_object(&DOOR, "front", "has none", |door| door["spec"]["rooms"] == json!([])).await;
        assert_eq!(written_with_another(&scene, &empty, ["doors", "pods"]).await, [0, 0]);
        assert_eq!(scene.get(&DOOR, "front").await["spec"]["rooms"], json!([]));
    });
}

#[test]
fn a_spec_without_fields_is_written_once_and_stays() {
    run(async {
        let (scene, _folder, _host) = host("empty-spec", &FAULT).await;
        let desired = |spec: Value| [child(&FAULT, "front", &json!({ "spec": spec }))];
        create(&scene, &desired(json!({ "fault": "a" }))).await;
        scene.until_object(&FAULT, "front", "has a field", |fault| fault["spec"]["fault"] == "a").await;
        // Fields with null are dropped.
        let empty = desired(json!({ "fault": null }));
        scene.merge(&ATTACK, "one", dictating(&empty)).await;
        scene.until_object(&FAULT, "front", "has none", |fault| fault["spec"] == json!({})).await;
        assert_eq!(written_with_another(&scene, &empty, ["faults", "pods"]).await, [0, 0]);
        assert_eq!(scene.get(&FAULT, "front").await["spec"], json!({}));
        let parent = scene.get(&ATTACK, "one").await;
        assert!(condition(&parent, "Reconciled").is_none(), "{parent:#}");
    });
}

#[test]
fn an_empty_list_of_a_built_in_kind_is_owned_by_the_plugin_and_written_once() {
    run(async {
        let (scene, _folder, _host) = host("empty-known", &NETWORK_POLICY).await;
        let labels = json!({ "app": "one" });
        let security = json!({
            "allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 1000,
            "capabilities": { "add": [], "drop": ["ALL"] }, "seccompProfile": { "type": "RuntimeDefault" },
        });
        let container = json!({
            "name": "main", "image": "registry.example.com/main:1", "securityContext": security,
            "args": [], "env": [], "ports": [], "volumeMounts": [],
        });
        let pod = json!({
            "automountServiceAccountToken": false, "containers": [container], "volumes": [], "tolerations": [],
            "imagePullSecrets": [],
        });
        let template = json!({ "metadata": { "labels": labels }, "spec": pod });
        let deployment =
            json!({ "spec": { "replicas": 0, "selector": { "matchLabels": labels }, "template": template } });
        let policy = json!({ "spec": { "podSelector": {}, "policyTypes": ["Ingress"], "ingress": [] } });
        let children = [child(&DEPLOYMENT, "one", &deployment), child(&NETWORK_POLICY, "closed", &policy)];
        create(&scene, &children).await;
        for (kind, name) in [(&DEPLOYMENT, "one"), (&NETWORK_POLICY, "closed")] {
            scene.until_object(kind, name, "is there", |_| true).await;
        }
        assert_eq!(written_with_another(&scene, &children, ["deployments", "networkpolicies"]).await, [0, 0]);
        // An entry that others add is removed: the plugin owns the empty list.
        scene.merge(&NETWORK_POLICY, "closed", json!({ "spec": { "ingress": [{}] } })).await;
        let is_closed = |policy: &Value| policy["spec"]["ingress"].is_null();
        scene.until_object(&NETWORK_POLICY, "closed", "is closed again", is_closed).await;
        let args = "/spec/template/spec/containers/0/args";
        scene.json_patch(&DEPLOYMENT, "one", json!([{ "op": "add", "path": args, "value": ["--open"] }])).await;
        let has_none = |deployment: &Value| deployment.pointer(args).is_none();
        scene.until_object(&DEPLOYMENT, "one", "has no arguments again", has_none).await;
        assert_eq!(written_with_another(&scene, &children, ["deployments", "networkpolicies"]).await, [0, 0]);
    });
}
