//! The plugins of `NginxServer`, which do the same in each language.

use hotshoe_tests::host::Host;
use hotshoe_tests::kinds::{DEPLOYMENT, NAMESPACE, NGINX_SERVER, POD};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{ControlPlane, Scene, guests, repository, run};
use serde_json::{Value, json};

const CRD: &str = "crds/web.example.com_nginxservers.yaml";
const SAMPLE: &str = "crds/samples/web_v1_nginxserver.yaml";
/// The name of the sample.
const EXAMPLE: &str = "example-nginx";

/// The tests below, for each of these plugins, by its folder in `plugins/`.
macro_rules! plugins {
    ($($language:ident = $folder:literal;)+) => {$(
        mod $language {
            use hotshoe_tests::run;

            #[test]
            fn an_image_and_a_number_of_replicas_are_rolled_out() {
                run(super::is_rolled_out($folder));
            }

            #[test]
            fn edits_of_the_deployment_by_hand_are_reverted() {
                run(super::edits_are_reverted($folder));
            }

            #[test]
            fn the_deployment_and_its_pods_go_with_the_server() {
                run(super::all_of_it_goes($folder));
            }
        }
    )+};
}

plugins! {
    rust = "nginx";
    python = "nginx-python";
    javascript = "nginx-js";
}

/// Creates a namespace with a ready host that has this plugin. The image starts as root, which Pod Security admits at
/// the level `baseline`.
async fn scene(plugin: &'static str) -> (Scene, Host) {
    let plane = ControlPlane::shared().await;
    let folder = guests::plugin(plugin);
    let kubeconfig = plane.install_plugin(&folder, CRD).await;
    let mut scene = Scene::new(plane, plugin).await;
    let level = json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "baseline" } } });
    scene.admin.merge(&NAMESPACE, "", &scene.namespace, &level).await.expect("the namespace is labelled");
    let host = scene.start().await.plugins(&[&folder]).kubeconfig(&kubeconfig).ready().await;
    scene.watch_log(&host);
    (scene, host)
}

/// The sample: two servers of nginx 1.19.6.
fn example() -> Value {
    let text = std::fs::read_to_string(repository(SAMPLE)).expect("the sample is read");
    serde_saphyr::from_str(&text).expect("the sample is YAML")
}

/// Waits until so many servers of this image are available, and the status lists just these.
async fn serves(scene: &Scene, replicas: usize, image: &str) -> Value {
    scene
        .until(&format!("{replicas} servers of {image} are available"), async || {
            let object = scene.get(&NGINX_SERVER, EXAMPLE).await;
            let status = &object["status"];
            let pods: Vec<Value> = scene.list(&POD).await;
            let staying = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
            let mut names: Vec<&str> = staying.clone().filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
            names.sort_unstable();
            let is_right = status["availableReplicas"] == replicas
                && status["podNames"] == json!(names)
                && names.len() == replicas
                && staying.clone().all(|pod| pod["spec"]["containers"][0]["image"] == image)
                && condition_parts(&object, "Available").0 == "True";
            if is_right { Ok(object.clone()) } else { Err(format!("{status:#} {names:?}")) }
        })
        .await
}

async fn is_rolled_out(plugin: &'static str) {
    let (scene, _host) = scene(plugin).await;
    scene.create(example()).await;
    let object = serves(&scene, 2, "nginx:1.19.6").await;
    assert_eq!(condition_parts(&object, "Available"), ("True", "PodsAvailable", "2 of 2 Pods are available"));
    let before = scene.get(&DEPLOYMENT, EXAMPLE).await;
    let template = &before["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["app"], "nginx");
    let container = &template["spec"]["containers"][0];
    assert_eq!((&container["name"], &container["ports"][0]["containerPort"]), (&json!("nginx"), &json!(80)));
    assert_eq!(template.pointer("/spec/securityContext/runAsNonRoot"), None, "the stock image starts as root");

    scene.merge(&NGINX_SERVER, EXAMPLE, json!({ "spec": { "replicas": 3, "image": "nginx:1.20.0" } })).await;
    let object = serves(&scene, 3, "nginx:1.20.0").await;
    assert_eq!(condition_parts(&object, "Available").2, "3 of 3 Pods are available");
    let after = scene.get(&DEPLOYMENT, EXAMPLE).await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "it is the same Deployment");
}

async fn edits_are_reverted(plugin: &'static str) {
    let (scene, _host) = scene(plugin).await;
    scene.create(example()).await;
    serves(&scene, 2, "nginx:1.19.6").await;
    scene.merge(&DEPLOYMENT, EXAMPLE, json!({ "spec": { "replicas": 5 } })).await;
    scene.until_object(&DEPLOYMENT, EXAMPLE, "has two replicas again", |it| it["spec"]["replicas"] == 2).await;
    let image = json!([{ "op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:1.21.0" }]);
    scene.json_patch(&DEPLOYMENT, EXAMPLE, image).await;
    serves(&scene, 2, "nginx:1.19.6").await;
    scene.delete(&DEPLOYMENT, EXAMPLE).await;
    serves(&scene, 2, "nginx:1.19.6").await;
}

async fn all_of_it_goes(plugin: &'static str) {
    let (scene, _host) = scene(plugin).await;
    scene.create(example()).await;
    serves(&scene, 2, "nginx:1.19.6").await;
    scene.delete(&NGINX_SERVER, EXAMPLE).await;
    scene.gone(&NGINX_SERVER, EXAMPLE).await;
    scene.gone(&DEPLOYMENT, EXAMPLE).await;
    scene
        .until("no Pod is left", async || match scene.list(&POD).await {
            none if none.is_empty() => Ok(()),
            some => Err(format!("{} Pods", some.len())),
        })
        .await;
}

#[test]
fn an_empty_spec_is_one_server_of_the_newest_image() {
    run(async {
        let (scene, _host) = scene("nginx").await;
        let mut object = example();
        object["spec"] = json!({});
        scene.create(object).await;
        serves(&scene, 1, "nginx:latest").await;
    });
}

#[test]
fn the_api_server_refuses_other_numbers_than_one_to_ten() {
    run(async {
        let (scene, _host) = scene("nginx").await;
        for replicas in [-1, 0, 11] {
            let mut object = example();
            object["spec"]["replicas"] = replicas.into();
            let refused = scene.try_create(object).await.expect_err("a wrong number");
            assert!(refused.message.contains("spec.replicas"), "{}", refused.message);
        }
        for replicas in [1, 10] {
            let mut object = example();
            object["spec"]["replicas"] = replicas.into();
            object["metadata"]["name"] = format!("server-{replicas}").into();
            scene.create(object).await;
        }
        scene.admin.get(&NGINX_SERVER, &scene.namespace, "server-10").await.expect("ten are allowed");
    });
}
