//! What the scorecard of the Operator SDK asks of an operator, of every plugin of `plugins/`: the spec of its objects is
//! there, the status is written, a change has an effect; the CRDs validate, and the bundle describes each field.
//! `bundle.rs` has the validation of the bundles.

use hotshoe_tests::guests::{Folder, plugin, shipped};
use hotshoe_tests::kinds::{
    BACKUP, DEPLOYMENT, Kind, MEMCACHED, NAMESPACE, NGINX_SERVER, QUOTA, REDIS, STATEFUL_SET, TENANT,
};
use hotshoe_tests::kube::documents;
use hotshoe_tests::only_host::OnlyHost;
use hotshoe_tests::scene::labels;
use hotshoe_tests::{ControlPlane, Scene, repository, run};
use serde_json::{Value, json};

use crate::alone::run_alone;
use crate::bundle::{Project, items, manifests, service_version};

/// A plugin of kinds of its own, with its sample, a change of that, and where the effect is seen.
struct Operator {
    plugin: &'static str,
    kind: Kind,
    definition: &'static str,
    sample: &'static str,
    change: &'static str,
    /// A child; or the parent itself.
    seen: (Kind, &'static str),
    pointer: &'static str,
    expected: &'static str,
}

const NGINX: Operator = Operator {
    plugin: "nginx",
    kind: NGINX_SERVER,
    definition: "web.example.com_nginxservers",
    sample: "web_v1_nginxserver",
    change: r#"{"spec": {"replicas": 3}}"#,
    seen: (DEPLOYMENT, "example-nginx"),
    pointer: "/spec/replicas",
    expected: "3",
};

/// Those whose objects are in namespaces; the test of `tenant` is by itself.
const OPERATORS: [Operator; 6] = [
    Operator {
        plugin: "backup",
        kind: BACKUP,
        definition: "batch.example.com_backups",
        sample: "batch_v1alpha1_backup",
        change: r#"{"spec": {"suspend": true}}"#,
        seen: (BACKUP, "backup-sample"),
        pointer: "/status/nextRunTime",
        expected: "null",
    },
    Operator {
        plugin: "memcached",
        kind: MEMCACHED,
        definition: "cache.example.com_memcacheds",
        sample: "cache_v1_memcached",
        change: r#"{"spec": {"size": 2}}"#,
        seen: (DEPLOYMENT, "example-memcached"),
        pointer: "/spec/replicas",
        expected: "2",
    },
    NGINX,
    Operator { plugin: "nginx-js", ..NGINX },
    Operator { plugin: "nginx-python", ..NGINX },
    Operator {
        plugin: "redis",
        kind: REDIS,
        definition: "cache.example.com_redises",
        sample: "cache_v1alpha1_redis",
        change: r#"{"spec": {"replicas": 4}}"#,
        seen: (STATEFUL_SET, "redis"),
        pointer: "/spec/replicas",
        expected: "4",
    },
];

/// Those of kinds of Kubernetes itself, whose status is not theirs.
const OF_KUBERNETES: [&str; 2] = ["default-deny", "pdb"];

/// Returns the objects of a sample, which have a spec.
fn sample(file: &str) -> Vec<Value> {
    let file = repository("crds/samples").join(format!("{file}.yaml"));
    let objects = documents(&std::fs::read_to_string(&file).expect("a sample"));
    assert!(objects.iter().all(|object| object["spec"].is_object()), "{} has no spec", file.display());
    objects
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("a name")
}

/// Returns whether an object has a status with conditions, all of its newest generation.
fn has_status(object: &Value) -> bool {
    let is_newest = |condition: &Value| condition["observedGeneration"] == object["metadata"]["generation"];
    let conditions = items(object, "/status/conditions");
    !conditions.is_empty() && conditions.iter().all(is_newest)
}

async fn scores(operator: &Operator) {
    let plane = ControlPlane::shared().await;
    let folder = plugin(operator.plugin);
    let kubeconfig = plane.install_plugin(&folder, &format!("crds/{}.yaml", operator.definition)).await;
    let mut scene = Scene::new(plane, &format!("score-{}", operator.plugin)).await;
    // As root, as the image of nginx is.
    let level = labels(&json!({ "pod-security.kubernetes.io/enforce": "baseline" }));
    scene.admin.merge(&NAMESPACE, "", &scene.namespace, &level).await.expect("the namespace is labelled");
    let host = scene.start().await.plugins(&[&folder]).kubeconfig(&kubeconfig).ready().await;
    scene.watch_log(&host);
    let mut parent = String::new();
    for object in sample(operator.sample) {
        if object["kind"] == operator.kind.kind {
            name(&object).clone_into(&mut parent);
        }
        scene.create(object).await;
    }
    scene.until_object(&operator.kind, &parent, "has a status", has_status).await;
    let expected: Value = serde_json::from_str(operator.expected).expect("JSON");
    let is_as_expected = |object: &Value| object.pointer(operator.pointer).unwrap_or(&Value::Null) == &expected;
    let (kind, seen) = operator.seen;
    scene.until_object(&kind, seen, "is not as it will be", |object| !is_as_expected(object)).await;
    scene.merge(&operator.kind, &parent, serde_json::from_str(operator.change).expect("JSON")).await;
    scene.until_object(&kind, seen, "shows the change", is_as_expected).await;
    scene.until_object(&operator.kind, &parent, "has a status about the change", has_status).await;
}

/// The tests of one plugin each, so that they wait in parallel.
macro_rules! scored {
    ($($test:ident = $number:literal;)+) => {$(
        #[test]
        fn $test() {
            run(scores(&OPERATORS[$number]));
        }
    )+};
}

scored! {
    a_backup_has_a_status_and_a_change_of_its_spec_has_an_effect = 0;
    a_memcached_has_a_status_and_a_change_of_its_spec_has_an_effect = 1;
    an_nginx_server_has_a_status_and_a_change_of_its_spec_has_an_effect = 2;
    an_nginx_server_of_javascript_has_a_status_and_a_change_of_its_spec_has_an_effect = 3;
    an_nginx_server_of_python_has_a_status_and_a_change_of_its_spec_has_an_effect = 4;
    a_redis_has_a_status_and_a_change_of_its_spec_has_an_effect = 5;
}

#[test]
fn a_tenant_has_a_status_and_a_change_of_its_spec_has_an_effect() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        plane.install_definition(&repository("crds/platform.example.com_tenants.yaml")).await;
        let mut scene = Scene::new(plane, "score-tenant").await;
        let given = labels(&json!({ "platform.example.com/tenants": "true" }));
        scene.admin.merge(&NAMESPACE, "", &scene.namespace, &given).await.expect("a label");
        let only = OnlyHost::start(plane, Folder::of_plugin("tenant"), "score-tenant-host").await;
        scene.watch_log(&only.host);
        let mut tenant = sample("platform_v1alpha1_tenant").remove(0);
        tenant["spec"]["namespaces"] = json!([scene.namespace]);
        scene.admin.create(&tenant).await.expect("a tenant");
        let until_status = async || {
            scene
                .until("the tenant has a status", async || {
                    let found = scene.admin.get(&TENANT, "", name(&tenant)).await.map_err(|refused| refused.message)?;
                    if has_status(&found) { Ok(()) } else { Err(format!("{found:#}")) }
                })
                .await;
        };
        until_status().await;
        let child = format!("tenant-{}", name(&tenant));
        let pods = |number: &'static str| move |quota: &Value| quota["spec"]["hard"]["pods"] == number;
        scene.until_object(&QUOTA, &child, "is as in the sample", pods("20")).await;
        let change = json!({ "spec": { "quota": { "pods": 7 } } });
        scene.admin.merge(&TENANT, "", name(&tenant), &change).await.expect("a change");
        scene.until_object(&QUOTA, &child, "shows the change", pods("7")).await;
        until_status().await;
        scene.admin.delete(&TENANT, "", name(&tenant)).await.expect("it is there");
        scene.gone_from_cluster(&TENANT, name(&tenant)).await;
    });
}

#[test]
fn every_plugin_is_scored() {
    let mut scored: Vec<&str> = OPERATORS.iter().map(|operator| operator.plugin).chain(OF_KUBERNETES).collect();
    scored.push("tenant");
    scored.sort_unstable();
    assert_eq!(scored, shipped());
}

#[test]
fn the_crds_of_every_plugin_validate_and_its_bundle_describes_every_field_of_a_sample() {
    for name in shipped() {
        let project = Project::of(&[name]);
        let bundle = project.bundle(&[]);
        for definition in manifests(&bundle).iter().filter(|object| object["kind"] == "CustomResourceDefinition") {
            for version in items(definition, "/spec/versions") {
                let schema = &version["schema"]["openAPIV3Schema"]["properties"];
                for part in ["spec", "status"] {
                    let properties = schema[part]["properties"].as_object();
                    assert!(properties.is_some_and(|fields| !fields.is_empty()), "{name}: {part} of {version:#}");
                }
            }
        }
        let csv = service_version(&bundle);
        let owned = items(&csv, "/spec/customresourcedefinitions/owned");
        assert_eq!(owned.is_empty(), OF_KUBERNETES.contains(&name), "{name}");
        let examples = csv["metadata"]["annotations"]["alm-examples"].as_str().expect("examples");
        let examples: Vec<Value> = serde_json::from_str(examples).expect("JSON");
        for kind in owned {
            assert!(!items(kind, "/resources").is_empty(), "{name}: {kind:#}");
            let version = kind["version"].as_str().expect("a version");
            let of_kind = examples.iter().filter(|example| {
                example["kind"] == kind["kind"]
                    && example["apiVersion"].as_str().is_some_and(|of| of.ends_with(&format!("/{version}")))
            });
            let mut count = 0;
            for example in of_kind {
                count += 1;
                for field in example["spec"].as_object().expect("a spec").keys() {
                    let is_described = |of: &Value| {
                        of["path"] == *field && of["description"].as_str().is_some_and(|text| !text.is_empty())
                    };
                    assert!(items(kind, "/specDescriptors").iter().any(is_described), "{name}: {field} of {kind:#}");
                }
            }
            assert!(count > 0, "{name}: there is no example of {version}");
            let is_of_conditions = |of: &Value| {
                of["path"] == "conditions"
                    && of["x-descriptors"] == json!(["urn:alm:descriptor:io.kubernetes.conditions"])
            };
            assert!(items(kind, "/statusDescriptors").iter().any(is_of_conditions), "{name}: {kind:#}");
        }
    }
}
