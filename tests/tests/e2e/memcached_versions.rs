//! The versions of Memcached: objects of each are served, whichever of them the host watches or the API server stores.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hotshoe_tests::guests::{Folder, memcached as built_memcached};
use hotshoe_tests::kinds::{CRD, DEPLOYMENT, Kind, MEMCACHED, MEMCACHED_V1ALPHA1, MEMCACHED_V1BETA1, SERVICE};
use hotshoe_tests::kube::documents;
use hotshoe_tests::{ControlPlane, Host, Scene, memcached, repository, run};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

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
        let of_plugin = |entry: &&Value| entry["manager"] == "hotshoe/memcached" && entry["subresource"] == "status";
        let versions: Vec<_> = entries.filter(of_plugin).map(|entry| &entry["apiVersion"]).collect();
        assert_eq!(versions, ["cache.example.com/v1"], "the plugin owns its status once");
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

/// A host that the API server asks to convert, until the definition is put back.
struct Converting {
    scene: Scene,
    _certificate: TempDir,
    _host: Host,
}

impl Converting {
    async fn start(name: &str) -> Self {
        Self::with(name, &built_memcached()).await
    }

    /// Starts a host with the plugin in this folder.
    async fn with(name: &str, plugin: &Path) -> Self {
        let plane = ControlPlane::alone().await;
        let mut scene = Scene::new(plane, name).await;
        let certificate = TempDir::new().expect("a folder");
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        std::fs::write(certificate.path().join("tls.key"), made.signing_key.serialize_pem()).expect("a key");
        std::fs::write(certificate.path().join("tls.crt"), made.cert.pem()).expect("a certificate");
        let mut command = scene.start().await.plugins(&[plugin]).command();
        command.args(["--webhooks", "127.0.0.1:0", "--webhooks-cert-dir"]).arg(certificate.path());
        let host = Host::spawn(command);
        scene.watch_log(&host);
        host.ready().await;
        let url = format!("{}/convert/memcached", host.webhooks().expect("the host serves webhooks"));
        let asked = json!({ "strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": { "url": url, "caBundle": STANDARD.encode(made.cert.pem()) },
        } });
        let patch = json!([
            { "op": "add", "path": "/spec/conversion", "value": asked },
            { "op": "test", "path": format!("{BETA}/name"), "value": "v1beta1" },
            { "op": "replace", "path": format!("{BETA}/served"), "value": true },
        ]);
        plane.admin.json_patch(&CRD, "", DEFINITION, &patch).await.expect("the host is asked");
        let converting = Self { scene, _certificate: certificate, _host: host };
        converting.until_served().await;
        converting
    }

    /// Waits until the API server serves v1beta1: it learns of a change of the definition a moment later.
    async fn until_served(&self) {
        let scene = &self.scene;
        scene
            .until("v1beta1 is served", async || {
                let path = MEMCACHED_V1BETA1.path(&scene.namespace, None);
                let list = scene.admin.request(Method::GET, &path, "application/json", &Value::Null).await;
                list.map(drop).map_err(|refused| refused.message)
            })
            .await;
    }

    /// Deletes the objects, and has the API server convert by itself again.
    async fn end(self) {
        let scene = &self.scene;
        for object in scene.list(&MEMCACHED).await {
            let name = object["metadata"]["name"].as_str().expect("a name");
            scene.delete(&MEMCACHED, name).await;
            scene.gone(&MEMCACHED, name).await;
        }
        self.switch_off().await;
    }

    /// Has the API server convert by itself again.
    async fn switch_off(&self) {
        let scene = &self.scene;
        let patch = json!([
            { "op": "replace", "path": "/spec/conversion", "value": { "strategy": "None" } },
            { "op": "replace", "path": format!("{BETA}/served"), "value": false },
        ]);
        scene.admin.json_patch(&CRD, "", DEFINITION, &patch).await.expect("the host is not asked");
    }
}

fn port(name: &str, number: i32) -> Value {
    json!({ "name": name, "containerPort": number })
}

#[test]
fn an_object_of_v1beta1_is_stored_as_v1_served_and_read_back_as_it_was_written() {
    run_alone(async {
        let converting = Converting::start("beta-as-written").await;
        let scene = &converting.scene;
        let spec = json!({ "replicas": 12, "ports": [port("metrics", 9150), port("memcached", 11222)] });
        scene.apply("tests", in_version(&MEMCACHED_V1BETA1, "cache", spec.clone())).await;
        // Neither of the other versions would accept the size.
        let object = scene.available("cache").await;
        assert_eq!(object["spec"], json!({ "size": 12, "containerPort": 11222 }));
        assert_eq!(scene.get(&MEMCACHED_V1ALPHA1, "cache").await["spec"], object["spec"]);
        let beta = scene.get(&MEMCACHED_V1BETA1, "cache").await;
        assert_eq!((&beta["spec"], &beta["status"]), (&spec, &object["status"]));
        assert_eq!(beta["metadata"]["annotations"], Value::Null, "{beta:#}");

        let deployment = scene.get(&DEPLOYMENT, "cache").await;
        let ports = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"];
        let container = |name: &str, number: i32| json!({ "name": name, "containerPort": number, "protocol": "TCP" });
        assert_eq!(*ports, json!([container("metrics", 9150), container("memcached", 11222)]));
        assert_eq!(scene.get(&SERVICE, "cache-service").await["spec"]["ports"][0]["targetPort"], 11222);

        // The same manifest again changes nothing, and an edit of something else is accepted in each version.
        let again = scene.apply("tests", in_version(&MEMCACHED_V1BETA1, "cache", spec.clone())).await;
        assert_eq!(again["metadata"]["generation"], beta["metadata"]["generation"]);
        for kind in [MEMCACHED, MEMCACHED_V1ALPHA1, MEMCACHED_V1BETA1] {
            scene.merge(&kind, "cache", json!({ "metadata": { "labels": { "seen-in": kind.version } } })).await;
        }
        let too_large = json!({ "spec": { "size": 13 } });
        let refused =
            scene.admin.merge(&MEMCACHED, &scene.namespace, "cache", &too_large).await.expect_err("too large");
        assert!(refused.message.contains("Size must be between 1 and 10."), "{refused:?}");
        converting.end().await;
    });
}

#[test]
fn an_object_that_was_written_in_v1beta1_can_be_deleted_after_conversion_was_switched_off() {
    run_alone(async {
        let converting = Converting::start("no-longer-converted").await;
        let scene = &converting.scene;
        let spec = json!({ "replicas": 1, "ports": [port("memcached", 11211)] });
        scene.create(in_version(&MEMCACHED_V1BETA1, "created", spec.clone())).await;
        scene.apply("tests", in_version(&MEMCACHED_V1BETA1, "applied", spec)).await;
        for name in ["created", "applied"] {
            scene.available(name).await;
        }
        converting.switch_off().await;
        for name in ["created", "applied"] {
            scene.delete(&MEMCACHED, name).await;
            scene.gone(&MEMCACHED, name).await;
        }
    });
}

#[test]
fn a_size_out_of_bounds_that_was_stored_in_another_version_is_an_event_until_it_is_corrected() {
    run_alone(async {
        let folder = Folder::of_memcached();
        folder.edit("    # values:\n    #   validation: [oddSize]\n", "    values:\n      validation: [sizeUpTo10]\n");
        let converting = Converting::with("invalid-size", folder.path()).await;
        let scene = &converting.scene;
        for (name, replicas) in [("none", 0), ("many", 11)] {
            let spec = json!({ "replicas": replicas, "ports": [port("memcached", 11211)] });
            scene.create(in_version(&MEMCACHED_V1BETA1, name, spec)).await;
            scene.event(name, "InvalidSize", "Size must be between 1 and 10.").await;
            let condition = ("True", "InvalidSize", "Size must be between 1 and 10.");
            scene.until_condition(name, "Degraded", condition).await;
            assert_eq!(scene.find(&DEPLOYMENT, name).await, None, "{name} is not served");
        }
        scene.merge(&MEMCACHED_V1BETA1, "many", json!({ "spec": { "replicas": 2 } })).await;
        scene.available("many").await;
        // What is served already stays as it is.
        scene.merge(&MEMCACHED_V1BETA1, "many", json!({ "spec": { "replicas": 12 } })).await;
        scene.until_condition("many", "Degraded", ("True", "InvalidSize", "Size must be between 1 and 10.")).await;
        assert_eq!(scene.get(&DEPLOYMENT, "many").await["spec"]["replicas"], 2);
        converting.end().await;
    });
}

#[test]
fn an_object_of_any_version_is_edited_scaled_and_deleted_in_any_other() {
    run_alone(async {
        let converting = Converting::start("any-version").await;
        let scene = &converting.scene;
        let versions = [MEMCACHED, MEMCACHED_V1ALPHA1, MEMCACHED_V1BETA1];
        let pairs: Vec<(Kind, Kind)> = versions.iter().flat_map(|own| versions.map(|other| (*own, other))).collect();
        let name = |own: &Kind, other: &Kind| format!("{}-{}", own.version, other.version);
        for (own, other) in &pairs {
            scene.create(in_version(own, &name(own, other), written(own, 1, 11211))).await;
        }
        for (own, other) in &pairs {
            let name = name(own, other);
            scene.merge(other, &name, json!({ "spec": edited(own, other, 12000) })).await;
            scale(scene, other, &name, 2).await;
        }
        for (own, other) in &pairs {
            let name = name(own, other);
            let object = scene.available(&name).await;
            assert_eq!(object["spec"], json!({ "size": 2, "containerPort": 12000 }), "{name}");
            assert_eq!(scene.get(own, &name).await["spec"], written(own, 2, 12000), "{name}");
            scene.delete(other, &name).await;
        }
        for (own, other) in &pairs {
            scene.gone(own, &name(own, other)).await;
        }
        converting.end().await;
    });
}

/// Returns a spec of a version with all that it says; in v1beta1 that is a further port, too.
fn written(kind: &Kind, size: i32, number: i32) -> Value {
    match kind.version {
        "v1beta1" => json!({ "replicas": size, "ports": [port("memcached", number), port("metrics", 9150)] }),
        _ => json!({ "size": size, "containerPort": number }),
    }
}

/// Returns a patch, in another version, of the main port of what was [written] in a version.
fn edited(own: &Kind, other: &Kind, number: i32) -> Value {
    match (own.version, other.version) {
        ("v1beta1", "v1beta1") => json!({ "ports": written(own, 1, number)["ports"] }),
        (_, "v1beta1") => json!({ "ports": [port("memcached", number)] }),
        _ => json!({ "containerPort": number }),
    }
}

async fn scale(scene: &Scene, kind: &Kind, name: &str, replicas: i32) {
    let path = format!("{}/scale", kind.path(&scene.namespace, Some(name)));
    let patch = json!({ "spec": { "replicas": replicas } });
    let scaled = scene.admin.request(Method::PATCH, &path, "application/merge-patch+json", &patch).await;
    assert_eq!(scaled.expect("it is scaled")["spec"]["replicas"], replicas);
}
