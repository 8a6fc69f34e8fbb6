//! What the API server accepts and shows, by the CRD.

use hotshoe_tests::kinds::{Kind, MEMCACHED, MEMCACHED_V1ALPHA1};
use hotshoe_tests::{memcached, repository, run};
use serde_json::{Value, json};

use super::scene;

fn in_version(kind: &Kind, spec: &Value) -> Value {
    let mut object = memcached("cache", 1);
    object["apiVersion"] = kind.api_version().into();
    object["spec"] = spec.clone();
    object
}

#[test]
fn a_spec_that_the_schema_does_not_allow_is_rejected_with_a_message() {
    run(async {
        let scene = scene("schema").await;
        for (kind, spec, words) in [
            (MEMCACHED_V1ALPHA1, json!({ "size": 0 }), "spec.size in body should be greater than or equal to 1"),
            (MEMCACHED_V1ALPHA1, json!({ "size": -1 }), "spec.size in body should be greater than or equal to 1"),
            (MEMCACHED_V1ALPHA1, json!({ "size": 4 }), "spec.size in body should be less than or equal to 3"),
            // The value of other tutorials; the error names the version to write.
            (
                MEMCACHED_V1ALPHA1,
                json!({ "size": 5 }),
                "write apiVersion: cache.example.com/v1, which takes sizes up to 10",
            ),
            (MEMCACHED_V1ALPHA1, json!({ "size": "2" }), "spec.size in body must be of type integer"),
            (MEMCACHED_V1ALPHA1, json!({ "size": 1.5 }), "spec.size in body must be of type int32"),
            (
                MEMCACHED_V1ALPHA1,
                json!({ "containerPort": 0 }),
                "spec.containerPort in body should be greater than or equal to 1",
            ),
            (
                MEMCACHED_V1ALPHA1,
                json!({ "containerPort": 65536 }),
                "spec.containerPort in body should be less than or equal to 65535",
            ),
            (MEMCACHED, json!({ "size": 0 }), "Size must be between 1 and 10."),
            (MEMCACHED, json!({ "size": 11 }), "Size must be between 1 and 10."),
            (MEMCACHED, json!({ "containerPort": 65536 }), "should be less than or equal to 65535"),
        ] {
            let refused = scene.try_create(in_version(&kind, &spec)).await.expect_err(&spec.to_string());
            assert_eq!(refused.code, 422, "{}", refused.message);
            assert!(refused.message.contains(words), "{spec} of {}: {}", kind.version, refused.message);
        }
    });
}

#[test]
fn a_size_that_only_v1_allows_is_served() {
    run(async {
        let scene = scene("size-ten").await;
        scene.create(in_version(&MEMCACHED, &json!({ "size": 10 }))).await;
        let object = scene.available("cache").await;
        assert_eq!(object["status"]["nodes"].as_array().map(Vec::len), Some(10));
        // An edit without a version uses the preferred one, v1.
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 9 } })).await;
        let is_nine = |object: &Value| object["status"]["readyReplicas"] == 9;
        scene.until_object(&MEMCACHED, "cache", "has nine servers", is_nine).await;
    });
}

#[test]
fn kubectl_shows_size_ready_available_and_age_in_both_versions() {
    run(async {
        let scene = scene("columns").await;
        scene.create(memcached("cache", 2)).await;
        scene.available("cache").await;
        for kind in [MEMCACHED, MEMCACHED_V1ALPHA1] {
            let accept = ("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
            let path = kind.path(&scene.namespace, None);
            let table =
                scene.admin.request_with(http::Method::GET, &path, &[accept], &Value::Null).await.expect("a table");
            let columns = table["columnDefinitions"].as_array().unwrap();
            let names: Vec<_> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
            assert_eq!(names, ["Name", "Size", "Ready", "Available", "Age"], "{}", kind.version);
            assert!(columns.iter().all(|column| column["priority"] == 0), "{columns:#?}");
            let cells = table["rows"][0]["cells"].as_array().unwrap();
            assert_eq!(cells[..4], [json!("cache"), json!(2), json!(2), json!("True")], "{}", kind.version);
        }
    });
}

#[test]
fn the_resource_is_found_under_its_names() {
    run(async {
        let scene = scene("discovery").await;
        for version in ["v1", "v1alpha1"] {
            let path = format!("/apis/cache.example.com/{version}");
            let found = scene
                .admin
                .request(http::Method::GET, &path, "application/json", &Value::Null)
                .await
                .expect("resources");
            let resources = found["resources"].as_array().unwrap();
            let named = |name: &str| resources.iter().find(|resource| resource["name"] == name).unwrap().clone();
            let resource = named("memcacheds");
            assert_eq!(resource["kind"], "Memcached");
            assert_eq!(resource["singularName"], "memcached");
            assert_eq!(resource["shortNames"], json!(["mc"]));
            assert_eq!(resource["namespaced"], true);
            named("memcacheds/status");
            assert_eq!(named("memcacheds/scale")["kind"], "Scale");
        }
        let list = scene
            .admin
            .request(http::Method::GET, &MEMCACHED.path("default", None), "application/json", &Value::Null)
            .await;
        assert_eq!(list.expect("a list")["kind"], "MemcachedList");
    });
}

#[test]
fn every_field_is_described() {
    fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if field["description"].as_str().is_none_or(str::is_empty) && path != ".metadata" {
                found.push(path.clone());
            }
            undescribed(field, &path, found);
            undescribed(&field["items"], &path, found);
        }
    }
    let text = std::fs::read_to_string(repository("crds/cache.example.com_memcacheds.yaml")).unwrap();
    let crd = hotshoe_tests::kube::documents(&text).remove(0);
    for version in crd["spec"]["versions"].as_array().unwrap() {
        let mut found = Vec::new();
        undescribed(&version["schema"]["openAPIV3Schema"], "", &mut found);
        assert!(found.is_empty(), "{}: {found:?}", version["name"]);
    }
}

#[test]
fn the_samples_are_served() {
    run(async {
        let scene = scene("samples").await;
        for (file, name, size) in [
            ("cache_v1alpha1_memcached.yaml", "memcached-sample", 1),
            ("cache_v1_memcached.yaml", "example-memcached", 3),
        ] {
            let text = std::fs::read_to_string(repository("crds/samples").join(file)).unwrap();
            let sample = hotshoe_tests::kube::documents(&text).remove(0);
            assert_eq!(sample["metadata"]["name"], name);
            scene.create(sample).await;
            let object = scene.available(name).await;
            assert_eq!(object["spec"], json!({ "size": size, "containerPort": 11211 }));
        }
    });
}
