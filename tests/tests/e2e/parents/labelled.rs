//! Parents that are ConfigMaps: a built-in kind without a status, of which only those with a label are parents.

use std::time::Duration;

use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{CONFIG_MAP, LIMIT_RANGE};
use hotshoe_tests::{ControlPlane, Host, Scene, run};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use hotshoe_tests::scene::{labelled, labels};

pub(super) const MARK: &str = "tests.example.com/marked";
const FINALIZER: &str = "plugin.hotshoe.dev/marked";

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "b" } })
}

pub(super) fn marked(name: &str) -> Value {
    labelled(map(name), &json!({ MARK: "yes" }))
}

fn holds_finalizer(object: &Value) -> bool {
    object["metadata"]["finalizers"] == json!([FINALIZER])
}

/// Creates a namespace with a host that serves the ConfigMaps with the label in it.
pub(super) async fn served(name: &str) -> (Scene, Folder, Host) {
    static READY: OnceCell<()> = OnceCell::const_new();
    let plane = ControlPlane::shared().await;
    READY.get_or_init(|| install(plane)).await;
    let mut scene = Scene::new(plane, name).await;
    let folder = Folder::of_marked();
    let host = start(&mut scene, &folder).await;
    (scene, folder, host)
}

pub(super) async fn start(scene: &mut Scene, folder: &Folder) -> Host {
    let host = scene.start().await.plugins(&[folder.path()]).ready().await;
    scene.watch_log(&host);
    host
}

async fn install(plane: &ControlPlane) {
    plane.create_account("marked").await;
    let of_plugin = json!([
        { "apiGroups": [""], "resources": ["limitranges"], "verbs": ["create", "patch", "delete"] },
        { "apiGroups": [""], "resources": ["configmaps/finalizers"], "verbs": ["update"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"] },
    ]);
    let of_host = json!([
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "patch"] },
        { "apiGroups": [""], "resources": ["limitranges"], "verbs": ["get", "list", "watch"] },
    ]);
    plane.grant("marked", "tests-marked", &of_plugin).await;
    plane.grant("hotshoe", "tests-marked-host", &of_host).await;
    plane.allow_impersonation("marked").await;
}

#[test]
fn only_a_map_with_the_label_is_a_parent_and_its_finalizer_is_of_the_hosts_domain() {
    run(async {
        let (scene, _folder, host) = served("labelled").await;
        scene.create(map("plain")).await;
        scene.create(marked("one")).await;
        scene.until_object(&LIMIT_RANGE, "one", "is there", |_| true).await;
        assert!(holds_finalizer(&scene.get(&CONFIG_MAP, "one").await));
        scene.event("one", "Served", "it is served").await;
        let plugin = host.plugin().await;
        assert_eq!(plugin["parents"], 1, "the maps of others are not even held in memory: {plugin:#}");
        // Labelled later, it is a parent from then on.
        scene.merge(&CONFIG_MAP, "plain", labels(&json!({ MARK: "yes" }))).await;
        scene.until_object(&LIMIT_RANGE, "plain", "is there", |_| true).await;
        scene.delete(&CONFIG_MAP, "one").await;
        scene.gone(&CONFIG_MAP, "one").await;
        scene.gone(&LIMIT_RANGE, "one").await;
        scene.event("one", "Finalized", "").await;
        let touched = scene.writes().into_iter().filter(|entry| entry.name == "kube-root-ca.crt");
        assert_eq!(touched.count(), 0);
    });
}

#[test]
fn failures_on_a_kind_without_status_are_reported_by_events_alone() {
    run(async {
        let (scene, _folder, _host) = served("statusless").await;
        scene.create(marked("one")).await;
        scene.until_object(&LIMIT_RANGE, "one", "is there", |_| true).await;
        scene.merge(&CONFIG_MAP, "one", json!({ "data": { "fault": "status" } })).await;
        scene.event("one", "Denied", "leave the status out, and emit Events").await;
        scene.merge(&CONFIG_MAP, "one", json!({ "data": { "fault": "reject" } })).await;
        scene.event("one", "Rejected", "no plugin can serve this").await;
        assert!(scene.find(&LIMIT_RANGE, "one").await.is_some(), "what was there stays");
        assert!(scene.get(&CONFIG_MAP, "one").await.get("status").is_none());
    });
}

#[test]
fn a_condition_on_a_kind_of_kubernetes_itself_is_left_out_and_the_children_are_written_all_the_same() {
    run(async {
        let (scene, _folder, _host) = served("conditioned").await;
        let mut parent = marked("one");
        parent["data"] = json!({ "fault": "condition" });
        scene.create(parent).await;
        scene.until_object(&LIMIT_RANGE, "one", "is there", |_| true).await;
        scene.event("one", "ConditionsNotWritten", "emit Events instead").await;
        assert!(scene.get(&CONFIG_MAP, "one").await.get("status").is_none());
    });
}

#[test]
fn a_map_that_loses_the_label_loses_the_finalizer_and_keeps_its_children_unless_all_may_be_pruned() {
    run(async {
        let (mut scene, folder, mut host) = served("let-go").await;
        for name in ["one", "two", "three"] {
            scene.create(marked(name)).await;
            scene.until_object(&LIMIT_RANGE, name, "is there", |_| true).await;
        }
        let uid = scene.get(&LIMIT_RANGE, "one").await["metadata"]["uid"].clone();
        let freed = |map: &Value| map["metadata"].get("finalizers").is_none();
        scene.merge(&CONFIG_MAP, "one", labels(&json!({ MARK: "no" }))).await;
        scene.until_object(&CONFIG_MAP, "one", "is released", freed).await;
        host.until_logged(&["INFO", "no longer selected", "/one"]).await;
        // Nothing changes, for its child either, until the label is back.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(freed(&scene.get(&CONFIG_MAP, "one").await));
        scene.merge(&CONFIG_MAP, "one", labels(&json!({ MARK: "yes" }))).await;
        scene.until_object(&CONFIG_MAP, "one", "is a parent again", holds_finalizer).await;
        assert_eq!(scene.get(&LIMIT_RANGE, "one").await["metadata"]["uid"], uid, "it was kept");

        // A label that is removed while no host runs is noticed at the next start.
        host.stop();
        scene.merge(&CONFIG_MAP, "two", labels(&json!({ MARK: null }))).await;
        folder.edit("  grants:", "  pruneAll: true\n  grants:");
        let host = start(&mut scene, &folder).await;
        scene.until_object(&CONFIG_MAP, "two", "is released", freed).await;
        scene.gone(&LIMIT_RANGE, "two").await;

        // Another selector is followed while the host runs.
        scene.merge(&CONFIG_MAP, "three", labels(&json!({ "tests.example.com/also": "" }))).await;
        folder.edit(
            "selector: {matchLabels: {tests.example.com/marked: \"yes\"}}",
            "selector: {matchExpressions: [{key: tests.example.com/also, operator: Exists}]}",
        );
        scene.until_object(&CONFIG_MAP, "one", "is released", freed).await;
        scene.gone(&LIMIT_RANGE, "one").await;
        assert!(holds_finalizer(&scene.get(&CONFIG_MAP, "three").await));
        assert!(scene.find(&LIMIT_RANGE, "three").await.is_some());
        host.until_plugin("one parent is left", |plugin| plugin["parents"] == 1).await;
        // It can be deleted, and so can one without the label.
        for name in ["one", "two", "three"] {
            scene.delete(&CONFIG_MAP, name).await;
            scene.gone(&CONFIG_MAP, name).await;
        }
    });
}

#[test]
fn a_map_that_is_deleted_after_it_lost_the_label_is_not_held() {
    run(async {
        let (scene, _folder, mut host) = served("lost").await;
        scene.create(marked("one")).await;
        scene.until_object(&LIMIT_RANGE, "one", "is there", |_| true).await;
        host.stop();
        scene.merge(&CONFIG_MAP, "one", labels(&json!({ MARK: null }))).await;
        scene.delete(&CONFIG_MAP, "one").await;
        let mut scene = scene;
        let folder = Folder::of_marked();
        let _host = start(&mut scene, &folder).await;
        scene.gone(&CONFIG_MAP, "one").await;
    });
}

#[test]
fn only_a_map_with_the_annotation_is_a_parent_and_one_that_loses_it_is_released() {
    run(async {
        const ON: &str = "tests.example.com/on";
        let (mut scene, folder, mut host) = served("annotated").await;
        let on = |value: Value| json!({ "metadata": { "annotations": { ON: value } } });
        folder.edit(
            "selector: {matchLabels: {tests.example.com/marked: \"yes\"}}",
            "annotationSelector: {matchAnnotations: {tests.example.com/on: \"yes, please\"}}",
        );
        for name in ["plain", "one", "two"] {
            let mut parent = map(name);
            parent["metadata"]["annotations"] =
                json!({ ON: if name == "plain" { "no, thank you" } else { "yes, please" } });
            scene.create(parent).await;
        }
        for name in ["one", "two"] {
            scene.until_object(&LIMIT_RANGE, name, "is there", |_| true).await;
        }
        host.until_plugin("only these are held in memory", |plugin| plugin["parents"] == 2).await;
        let freed = |map: &Value| map["metadata"].get("finalizers").is_none();
        assert!(freed(&scene.get(&CONFIG_MAP, "plain").await));
        assert!(scene.find(&LIMIT_RANGE, "plain").await.is_none());
        // Annotated later, it is a parent from then on, and no longer once the annotation is another.
        scene.merge(&CONFIG_MAP, "plain", on("yes, please".into())).await;
        scene.until_object(&LIMIT_RANGE, "plain", "is there", |_| true).await;
        scene.merge(&CONFIG_MAP, "one", on("no".into())).await;
        scene.until_object(&CONFIG_MAP, "one", "is released", freed).await;
        host.until_logged(&["INFO", "no longer selected", "/one"]).await;
        assert!(scene.find(&LIMIT_RANGE, "one").await.is_some(), "its child stays, as without the label");
        // An annotation that is removed while no host runs is noticed at the next start.
        host.stop();
        scene.merge(&CONFIG_MAP, "two", on(Value::Null)).await;
        let host = start(&mut scene, &folder).await;
        scene.until_object(&CONFIG_MAP, "two", "is released", freed).await;
        host.until_plugin("one parent is left", |plugin| plugin["parents"] == 1).await;
        scene.delete(&CONFIG_MAP, "plain").await;
        scene.gone(&CONFIG_MAP, "plain").await;
    });
}
