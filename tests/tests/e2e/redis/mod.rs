//! The Redis plugin, seen by a plain client. Each test has its own host and its own namespace, which enforces Pod
//! Security `restricted`. The host path provisioner of the controller-manager creates the volumes.

mod by_hand;
mod rollout;
mod servers;
mod storage;
mod stuck;

use hotshoe_tests::host::Host;
use hotshoe_tests::kinds::{CLAIM, POD, REDIS, STATEFUL_SET};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{ControlPlane, Scene, guests};
use serde_json::{Value, json};

const CRD: &str = "crds/cache.example.com_redises.yaml";

/// Creates a namespace with a ready host that has the plugin.
async fn scene(name: &str) -> (Scene, Host) {
    let plane = ControlPlane::shared().await;
    let folder = guests::plugin("redis");
    let kubeconfig = plane.install_plugin(&folder, CRD).await;
    let mut scene = Scene::new(plane, name).await;
    let host = scene.start().await.plugins(&[&folder]).kubeconfig(&kubeconfig).ready().await;
    scene.watch_log(&host);
    (scene, host)
}

/// A Redis with this spec and the name `redis`.
fn redis(spec: Value) -> Value {
    json!({ "apiVersion": REDIS.api_version(), "kind": REDIS.kind, "metadata": { "name": "redis" }, "spec": spec })
}

/// Waits until so many servers are ready, and the status shows that for the current generation.
async fn serves(scene: &Scene, replicas: usize) -> Value {
    let is_right = |object: &Value| {
        let status = &object["status"];
        status["readyReplicas"] == replicas
            && status["replicas"] == replicas
            && status["ordinals"].as_array().map(Vec::len) == Some(replicas)
            && condition_parts(object, "Available").0 == "True"
            && condition_parts(object, "Progressing").0 == "False"
            && is_current(object)
    };
    scene.until_object(&REDIS, "redis", &format!("serves with {replicas}"), is_right).await
}

/// Waits until so many servers run the current spec, and the rollout has ended.
async fn rolled_out(scene: &Scene, replicas: usize) -> Value {
    let is_right = |object: &Value| {
        let is_over = condition_parts(object, "Progressing").1 == "RolledOut";
        is_current(object) && is_over && object["status"]["updatedReplicas"] == replicas
    };
    scene.until_object(&REDIS, "redis", "is rolled out", is_right).await
}

/// Whether the status is about the current generation.
fn is_current(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let generation = &object["metadata"]["generation"];
    conditions.iter().all(|condition| condition["observedGeneration"] == *generation)
}

/// Waits until an ordinal has this reason, and returns its message.
async fn held_up(scene: &Scene, ordinal: usize, reason: &str) -> String {
    let what = format!("says of redis-{ordinal}: {reason}");
    let object = scene
        .until_object(&REDIS, "redis", &what, |object| object["status"]["ordinals"][ordinal]["reason"] == reason)
        .await;
    object["status"]["ordinals"][ordinal]["message"].as_str().unwrap_or_default().to_owned()
}

/// The names of the objects of a kind with the label `app: redis`, sorted.
async fn labelled(scene: &Scene, kind: &hotshoe_tests::kinds::Kind) -> Vec<String> {
    let objects = scene.list(kind).await;
    let ours = objects.iter().filter(|object| object["metadata"]["labels"]["app"] == "redis");
    let mut names: Vec<String> =
        ours.filter_map(|object| object["metadata"]["name"].as_str()).map(str::to_owned).collect();
    names.sort_unstable();
    names
}

/// Waits until exactly these claims exist.
async fn has_claims(scene: &Scene, ordinals: &[usize]) {
    let expected: Vec<String> = ordinals.iter().map(|ordinal| format!("redis-data-redis-{ordinal}")).collect();
    scene
        .until(&format!("the claims are {expected:?}"), async || {
            let found = labelled(scene, &CLAIM).await;
            if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
}

/// Returns the image of each server, in the order of the ordinals.
async fn images(scene: &Scene) -> Vec<String> {
    let mut pods = scene.list(&POD).await;
    pods.sort_by_key(|pod| pod["metadata"]["name"].to_string());
    let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned();
    pods.iter().map(image).collect()
}

async fn set(scene: &Scene) -> Value {
    scene.get(&STATEFUL_SET, "redis").await
}
