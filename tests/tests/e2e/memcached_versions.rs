//! The versions of Memcached: objects of each are served, whichever of them the host watches or the API server stores.

use hotshoe_tests::kinds::{CRD, DEPLOYMENT, Kind, MEMCACHED, MEMCACHED_V1ALPHA1, SERVICE};
use hotshoe_tests::kube::documents;
use hotshoe_tests::{ControlPlane, Scene, memcached, repository, run};
use http::Method;
use serde_json::{Value, json};

use crate::alone::run_alone;

/// The name of the definition.
const DEFINITION: &str = "memcacheds.cache.example.com";

/// The place of v1beta1 in the definition.
const BETA: &str = "/spec/versions/1";

fn in_version(kind: &Kind, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": name }, "spec": spec })
}

/// Returns the definition as it was while v1alpha1 was stored and there was no v1beta1.
fn earlier_definition() -> Value {
    let text = std::fs::read_to_string(repository("crds/cache.example.com_memcacheds.yaml")).expect("a CRD");
    let mut definition = documents(&text).remove(0);
    assert_eq!(definition.pointer(BETA).expect("three versions")["name"], "v1beta1");
    let versions = definition["spec"]["versions"].as_array_mut().expect("versions");
    versions.remove(1);
    for version in versions {
        version["storage"] = (version["name"] == "v1alpha1").into();
    }
    definition["metadata"]["annotations"] = json!({});
    definition["spec"]["conversion"] = json!({ "strategy": "None" });
    definition
}

#[test]
fn the_definition_can_be_applied_over_the_one_that_stored_v1alpha1() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        plane.admin.apply("kubectl", &earlier_definition()).await.expect("the earlier definition");
        let mut scene = Scene::new(plane, "restored-version").await;
        let stored_earlier = in_version(&MEMCACHED_V1ALPHA1, "cache", json!({ "size": 3 }));
        let created = scene.create(stored_earlier).await;
        plane.install_crd().await;
        let definition = plane.admin.get(&CRD, "", DEFINITION).await.expect("the definition");
        let mut stored = definition["status"]["storedVersions"].as_array().expect("a list").clone();
        stored.sort_by_key(Value::to_string);
        assert_eq!(stored, ["v1", "v1alpha1"], "an object may be stored in either");
        let host = scene.own_host().await;
        let object = scene.available("cache").await;
        assert_eq!(object["metadata"]["uid"], created["metadata"]["uid"]);
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 10 } })).await;
        scene.available("cache").await;
        let spec = scene.get(&MEMCACHED_V1ALPHA1, "cache").await["spec"].clone();
        assert_eq!(spec, json!({ "size": 10, "containerPort": 11211 }));
        scene.delete(&MEMCACHED_V1ALPHA1, "cache").await;
        scene.gone(&MEMCACHED, "cache").await;
        drop(host);
    });
}

#[test]
fn children_of_a_parent_that_was_watched_in_another_version_are_written_once_and_stay_the_same() {
    run(async {
        let mut scene = Scene::new(ControlPlane::shared().await, "watched-earlier").await;
        let mut host = scene.own_host().await;
        scene.create(memcached("cache", 2)).await;
        scene.available("cache").await;
        host.kill();
        let children = [(DEPLOYMENT, "cache"), (SERVICE, "cache-service")];
        let mut uids = Vec::new();
        for (kind, name) in children {
            // As a host wrote it that watched v1alpha1: by the same field manager, with another digest.
            let mut child = scene.get(&kind, name).await;
            uids.push(child["metadata"]["uid"].clone());
            child["metadata"]["ownerReferences"][0]["apiVersion"] = MEMCACHED_V1ALPHA1.api_version().into();
            child["metadata"]["annotations"]["hotshoe.dev/applied"] = "0".repeat(32).into();
            for made in ["managedFields", "resourceVersion", "creationTimestamp", "generation", "uid"] {
                child["metadata"].as_object_mut().expect("metadata").remove(made);
            }
            child.as_object_mut().expect("an object").remove("status");
            // The API server's, in a Service.
            for allocated in ["clusterIP", "clusterIPs"] {
                child["spec"].as_object_mut().expect("a spec").remove(allocated);
            }
            scene.apply("hotshoe%2Fmemcached", child).await;
        }
        let status = scene.get(&MEMCACHED_V1ALPHA1, "cache").await["status"].clone();
        write_status(&scene, &MEMCACHED_V1ALPHA1, &status).await;
        let before = scene.recorded_writes().await.len();

        let host = scene.own_host().await;
        for ((kind, name), uid) in children.into_iter().zip(uids) {
            let is_renewed = |child: &Value| {
                child["metadata"]["ownerReferences"][0]["apiVersion"] == MEMCACHED.api_version()
                    && child["metadata"]["annotations"]["hotshoe.dev/applied"] != "0".repeat(32)
            };
            let child = scene.until_object(&kind, name, "names its parent in v1", is_renewed).await;
            assert_eq!(child["metadata"]["uid"], uid, "{child:#}");
            assert_eq!(child["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1), "{child:#}");
        }
        // Once the next size is reached, all that was to be written before is written.
        scene.merge(&MEMCACHED_V1ALPHA1, "cache", json!({ "spec": { "size": 3 } })).await;
        let object = scene.available("cache").await;
        let writes = scene.recorded_writes().await.split_off(before);
        let count = |resource: &str| writes.iter().filter(|write| write.is_about(resource)).count();
        assert_eq!((count("deployments"), count("services")), (2, 1), "{writes:#?}");
        let entries = object["metadata"]["managedFields"].as_array().expect("a list").iter();
        let of_plugin = entries.filter(|entry| entry["manager"] == "hotshoe/memcached");
        let versions: Vec<_> = of_plugin.map(|entry| (&entry["apiVersion"], &entry["subresource"])).collect();
        assert_eq!(versions, [(&json!("cache.example.com/v1"), &json!("status"))], "it owns its status once");
        drop(host);
    });
}

async fn write_status(scene: &Scene, kind: &Kind, status: &Value) {
    let path =
        format!("{}/status?fieldManager=hotshoe%2Fmemcached&force=true", kind.path(&scene.namespace, Some("cache")));
    let metadata = json!({ "name": "cache", "namespace": scene.namespace });
    let body = json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata, "status": status });
    let written = scene.admin.request(Method::PATCH, &path, "application/apply-patch+yaml", &body).await;
    written.expect("the status is written");
}
