//! The plugins in `plugins/examples`, each with its sample: what it makes, a change, an edit by hand, and the end.

use std::path::Path;

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::guests::{self, Folder};
use hotshoe_tests::host::Host;
use hotshoe_tests::kinds::{
    BLUE_GREEN, CLAIM, CONFIG_MAP, EPHEMERAL_VOLUME, INDEXED_JOB, Kind, NAMESPACE, POD, PROPAGATION, REPLICA_SET,
    SECRET, SERVICE, STATEFUL_SET,
};
use hotshoe_tests::only_host::OnlyHost;
use hotshoe_tests::scene::{condition_parts, labels};
use hotshoe_tests::{ControlPlane, Scene, repository, run};
use serde_json::{Value, json};

const FOLDER: &str = "plugins/examples/crds";
/// The label of the Pod that has a Service of its own.
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// Creates a namespace with a ready host that has this example.
async fn scene(plugin: &'static str, definition: Option<&str>) -> (Scene, Host) {
    let plane = ControlPlane::shared().await;
    let folder = guests::example(plugin);
    let kubeconfig = match definition {
        Some(file) => plane.install_plugin(&folder, &format!("{FOLDER}/{file}")).await,
        None => {
            let account = format!("hotshoe-{plugin}");
            plane.apply_rights(&[&folder.display().to_string()], &account).await;
            plane.kubeconfig_of(SYSTEM, &account).await
        }
    };
    let mut scene = Scene::new(plane, plugin).await;
    // The templates of users in the samples say nothing of their account.
    let level = labels(&json!({ "pod-security.kubernetes.io/enforce": "baseline" }));
    scene.admin.merge(&NAMESPACE, "", &scene.namespace, &level).await.expect("the namespace is labelled");
    let host = scene.start().await.plugins(&[&folder]).kubeconfig(&kubeconfig).ready().await;
    scene.watch_log(&host);
    (scene, host)
}

fn sample(file: &str) -> Value {
    let path = repository(FOLDER).join("samples").join(Path::new(file));
    let text = std::fs::read_to_string(path).expect("the sample is read");
    serde_saphyr::from_str(&text).expect("the sample is YAML")
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().expect("a name").to_owned()
}

/// Waits until just these objects of a kind are in the namespace.
async fn are_there(scene: &Scene, kind: &Kind, names: &[&str]) {
    scene
        .until(&format!("{names:?} are all {}", kind.plural), async || {
            let found: Vec<String> = scene.list(kind).await.iter().map(name_of).collect();
            if found == names { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
}

#[test]
fn each_pod_of_a_stateful_set_with_the_annotation_has_a_service() {
    run(async {
        let (scene, _host) = scene("service-per-pod", None).await;
        let mut object = sample("apps_v1_statefulset.yaml");
        object["metadata"]["name"] = "web".into();
        scene.create(object).await;
        are_there(&scene, &SERVICE, &["web-0", "web-1"]).await;
        let service = scene.get(&SERVICE, "web-1").await;
        assert_eq!(service["spec"]["selector"], json!({ POD_NAME: "web-1" }));
        assert_eq!(
            (&service["spec"]["ports"][0]["port"], &service["spec"]["ports"][0]["targetPort"]),
            (&json!(80), &json!(8080))
        );

        scene.merge(&STATEFUL_SET, "web", json!({ "spec": { "replicas": 3 } })).await;
        are_there(&scene, &SERVICE, &["web-0", "web-1", "web-2"]).await;
        scene.merge(&STATEFUL_SET, "web", json!({ "spec": { "replicas": 1 } })).await;
        are_there(&scene, &SERVICE, &["web-0"]).await;
        scene.merge(&SERVICE, "web-0", json!({ "spec": { "selector": { POD_NAME: "other" } } })).await;
        let is_back = |service: &Value| service["spec"]["selector"][POD_NAME] == "web-0";
        scene.until_object(&SERVICE, "web-0", "selects its Pod again", is_back).await;

        let annotation =
            |value: Value| json!({ "metadata": { "annotations": { "example.com/service-per-pod-ports": value } } });
        scene.merge(&STATEFUL_SET, "web", annotation(Value::Null)).await;
        are_there(&scene, &SERVICE, &[]).await;
        scene.merge(&STATEFUL_SET, "web", annotation("nonsense".into())).await;
        scene.event("web", "Rejected", "names no port").await;
        scene.merge(&STATEFUL_SET, "web", annotation("443:8443".into())).await;
        are_there(&scene, &SERVICE, &["web-0"]).await;
        scene.delete(&STATEFUL_SET, "web").await;
        are_there(&scene, &SERVICE, &[]).await;
    });
}

/// Waits until the Pods of this colour are available, and nothing else is there.
async fn settles_on(scene: &Scene, name: &str, color: &str) {
    let is_settled = |object: &Value| {
        let of = |condition: &str| condition_parts(object, condition).0.to_owned();
        object["status"]["activeColor"] == color && of("Available") == "True" && of("Progressing") == "False"
    };
    scene.until_object(&BLUE_GREEN, name, &format!("is settled on {color}"), is_settled).await;
    are_there(scene, &REPLICA_SET, &[&format!("{name}-{color}")]).await;
    let service = scene.get(&SERVICE, name).await;
    assert_eq!(service["spec"]["selector"]["apps.example.com/color"], color);
}

#[test]
fn a_new_template_is_available_before_the_service_moves_to_it() {
    run(async {
        let (scene, _host) = scene("bluegreen", Some("apps.example.com_bluegreendeployments.yaml")).await;
        let object = sample("apps_v1_bluegreendeployment.yaml");
        let name = name_of(&object);
        scene.create(object.clone()).await;
        settles_on(&scene, &name, "blue").await;
        let (mut template, ports) = (object["spec"]["template"].clone(), object["spec"]["ports"].clone());
        template["spec"]["containers"][0]["image"] = "nginx:1.27".into();
        scene.merge(&BLUE_GREEN, &name, json!({ "spec": { "template": template } })).await;
        settles_on(&scene, &name, "green").await;
        let set = scene.get(&REPLICA_SET, &format!("{name}-green")).await;
        assert_eq!(set["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:1.27");

        scene.merge(&SERVICE, &name, json!({ "spec": { "ports": [{ "port": 8080 }] } })).await;
        let is_back = |service: &Value| service["spec"]["ports"][0]["port"] == ports[0]["port"];
        scene.until_object(&SERVICE, &name, "has its port again", is_back).await;
        scene.delete(&SERVICE, &name).await;
        scene.until_object(&SERVICE, &name, "is back", |_| true).await;
        settles_on(&scene, &name, "green").await;

        scene.delete(&BLUE_GREEN, &name).await;
        are_there(&scene, &REPLICA_SET, &[]).await;
        are_there(&scene, &SERVICE, &[]).await;
    });
}

/// Lets the Pod of an index succeed, as a kubelet reports it. Before that it runs: the simulated kubelet reports that once,
/// and would overwrite what is written here.
async fn succeeds(scene: &Scene, pod: &str) {
    scene.until_object(&POD, pod, "runs", |pod| pod["status"]["phase"] == "Running").await;
    let status = json!([{ "op": "add", "path": "/status/phase", "value": "Succeeded" }]);
    scene.admin.patch_status(&POD, &scene.namespace, pod, &status).await.expect("the Pod's status is written");
}

#[test]
fn an_indexed_job_runs_a_few_indexes_at_a_time_until_all_have_succeeded() {
    run(async {
        let (scene, _host) = scene("indexedjob", Some("batch.example.com_indexedjobs.yaml")).await;
        let mut object = sample("batch_v1_indexedjob.yaml");
        object["metadata"]["name"] = "print".into();
        scene.create(object).await;
        are_there(&scene, &POD, &["print-0", "print-1"]).await;
        let pod = scene.get(&POD, "print-1").await;
        assert_eq!(pod["spec"]["containers"][0]["env"], json!([{ "name": "JOB_INDEX", "value": "1" }]));

        // A Pod that is lost is made again.
        scene.delete(&POD, "print-1").await;
        let is_another = |found: &Value| found["metadata"]["uid"] != pod["metadata"]["uid"];
        scene.until_object(&POD, "print-1", "is made again", is_another).await;
        for index in 0..4 {
            succeeds(&scene, &format!("print-{index}")).await;
        }
        let done = scene.until_condition_of(&INDEXED_JOB, "print", "Complete", "True", "AllSucceeded").await;
        assert_eq!((&done["status"]["succeeded"], &done["status"]["active"]), (&json!(4), &json!(0)));

        scene.delete(&INDEXED_JOB, "print").await;
        are_there(&scene, &POD, &[]).await;
    });
}

#[test]
fn an_ephemeral_volume_has_a_claim_of_its_size_and_labels() {
    run(async {
        let (scene, _host) = scene("ephemeral-volume", Some("storage.example.com_ephemeralvolumeclaims.yaml")).await;
        let object = sample("storage_v1_ephemeralvolumeclaim.yaml");
        let name = name_of(&object);
        scene.create(object).await;
        let claim = scene.until_object(&CLAIM, &name, "is there", |_| true).await;
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi");
        assert_eq!(claim["metadata"]["labels"]["team"], "shop");
        scene.until_condition_of(&EPHEMERAL_VOLUME, &name, "Available", "True", "Bound").await;

        scene.merge(&EPHEMERAL_VOLUME, &name, json!({ "metadata": { "labels": { "team": "other" } } })).await;
        let is_of = |team: &'static str| move |claim: &Value| claim["metadata"]["labels"]["team"] == team;
        scene.until_object(&CLAIM, &name, "has the other label", is_of("other")).await;
        scene.merge(&CLAIM, &name, json!({ "metadata": { "labels": { "team": "by-hand" } } })).await;
        scene.until_object(&CLAIM, &name, "has its label again", is_of("other")).await;
        // Kubernetes refuses that a volume shrinks.
        scene.merge(&EPHEMERAL_VOLUME, &name, json!({ "spec": { "size": "1Mi" } })).await;
        scene.until_condition_of(&EPHEMERAL_VOLUME, &name, "InSync", "False", "Refused").await;

        scene.delete(&EPHEMERAL_VOLUME, &name).await;
        scene.gone(&CLAIM, &name).await;
    });
}

/// Waits until a copy holds this under the key `key`.
async fn holds(scene: &Scene, kind: &Kind, name: &str, value: &str) {
    scene.until_object(kind, name, &format!("holds {value}"), |copy| copy["data"]["key"] == value).await;
}

#[test]
fn a_propagation_copies_its_source_into_the_namespaces_that_it_selects() {
    run(async {
        let plane = ControlPlane::shared().await;
        plane.install_definition(&repository(FOLDER).join("platform.example.com_propagations.yaml")).await;
        let (mut home, target) =
            (Scene::new(plane, "propagation").await, Scene::new(plane, "propagation-target").await);
        let only = OnlyHost::start_compiled(plane, Folder::of_example("propagation"), "propagation-host").await;
        home.watch_log(&only.host);
        let select = async |value: Value| {
            let patch = labels(&json!({ "copies": value }));
            home.admin.merge(&NAMESPACE, "", &target.namespace, &patch).await.expect("a label");
        };
        for (kind, value, other) in [(&CONFIG_MAP, "red", "blue"), (&SECRET, "cGVhcg==", "cGx1bQ==")] {
            let name = format!("shared-{}-{}", kind.plural, home.namespace);
            let source = |value: &str| {
                let metadata = json!({ "name": name });
                json!({ "apiVersion": "v1", "kind": kind.kind, "metadata": metadata, "data": { "key": value } })
            };
            home.create(source(value)).await;
            select(home.namespace.clone().into()).await;
            let wanted = json!({ "kind": kind.kind, "namespace": home.namespace, "name": name });
            let selector = json!({ "matchLabels": { "copies": home.namespace } });
            let object = json!({
                "apiVersion": PROPAGATION.api_version(), "kind": PROPAGATION.kind, "metadata": { "name": name },
                "spec": { "source": wanted, "namespaceSelector": selector },
            });
            home.admin.create(&object).await.expect("a Propagation");
            holds(&target, kind, &name, value).await;

            home.merge(kind, &name, json!({ "data": { "key": other } })).await;
            holds(&target, kind, &name, other).await;
            target.merge(kind, &name, json!({ "data": { "key": value } })).await;
            holds(&target, kind, &name, other).await;
            select(Value::Null).await;
            target.gone(kind, &name).await;
            select(home.namespace.clone().into()).await;
            holds(&target, kind, &name, other).await;

            home.admin.delete(&PROPAGATION, "", &name).await.expect("it is deleted");
            target.gone(kind, &name).await;
            home.get(kind, &name).await;
        }
    });
}
