//! What the chart renders, without a cluster.

use std::collections::BTreeMap;
use std::process::Command;

use hotshoe_tests::host::program;
use hotshoe_tests::kube::documents;
use hotshoe_tests::{guests, repository};
use serde_json::{Value, json};

use super::{CHART, find, helm, objects, printed};

/// An object's kind, namespace and name.
type Key = (String, String, String);

/// Returns objects by their keys, without the labels that only a chart has.
fn comparable(objects: Vec<Value>) -> BTreeMap<Key, Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let comparable = objects.into_iter().map(|mut object| {
        without_labels_of_charts(&mut object);
        let metadata = &object["metadata"];
        ((text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"])), object)
    });
    comparable.collect()
}

/// Removes the labels that a chart sets beside `app.kubernetes.io/name`, wherever there are labels.
fn without_labels_of_charts(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for label in ["instance", "managed-by", "version"] {
                members.remove(&format!("app.kubernetes.io/{label}"));
            }
            members.remove("helm.sh/chart");
            members.values_mut().for_each(without_labels_of_charts);
        }
        Value::Array(items) => items.iter_mut().for_each(without_labels_of_charts),
        _ => {}
    }
}

/// Fails with the first difference, which is easier to read than both maps.
fn assert_same(chart: &BTreeMap<Key, Value>, other: &BTreeMap<Key, Value>) {
    assert_eq!(chart.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (key, object) in chart {
        assert_eq!(object, &other[key], "{key:?}");
    }
}

#[test]
fn helm_finds_nothing_to_say_about_the_chart() {
    let linted = printed(helm(&["lint", "--strict", CHART]));
    assert!(linted.contains("1 chart(s) linted, 0 chart(s) failed"), "{linted}");
    let every_plugin = std::fs::read_dir(repository(CHART).join("files/plugins")).expect("a folder of plugins");
    let mut every: Vec<String> = every_plugin
        .map(|entry| format!("--set=plugins.{}.enabled=true", entry.expect("an entry").file_name().to_string_lossy()))
        .collect();
    every.extend(["--set=webhooks.enabled=true,metrics.secure=true,metrics.serviceMonitor.enabled=true".to_owned()]);
    let every: Vec<&str> = every.iter().map(String::as_str).collect();
    printed(helm(&[&["lint", "--strict", CHART], &every[..]].concat()));
}

#[test]
fn the_default_values_render_the_objects_of_install_objects_yaml() {
    let mut chart = comparable(objects(&[]));
    let manifest = std::fs::read_to_string(repository("deploy/install-objects.yaml")).expect("the manifest");
    let mut manifest = comparable(documents(&manifest));
    let key = |kind: &str, namespace: &str, name: &str| (kind.to_owned(), namespace.to_owned(), name.to_owned());

    // What is meant to differ. Helm's user creates the namespace of a release.
    assert!(manifest.remove(&key("Namespace", "", "hotshoe-system")).is_some());
    // Only the chart has these.
    for role in ["hotshoe-plugin-viewer", "hotshoe-plugin-editor"] {
        assert!(chart.remove(&key("ClusterRole", "", role)).is_some(), "{role}");
    }
    assert!(chart.remove(&key("Service", "hotshoe-system", "hotshoe-metrics")).is_some());
    // The definition has labels, stays when the release goes, and how its objects are converted is not Helm's.
    let definition = key("CustomResourceDefinition", "", "plugins.hotshoe.dev");
    let annotations = chart[&definition]["metadata"]["annotations"].clone();
    assert_eq!(annotations, json!({ "helm.sh/resource-policy": "keep" }));
    let of_chart = chart.get_mut(&definition).expect("it is there")["metadata"].as_object_mut().expect("metadata");
    of_chart.retain(|field, _| field == "name");
    let of_manifest = manifest.get_mut(&definition).expect("it is there")["spec"].as_object_mut().expect("a spec");
    assert_eq!(of_manifest.remove("conversion"), Some(json!({ "strategy": "None" })));
    // `just crds` gives the manifest a variable, `deployed_options` of the justfile.
    let deployment = key("Deployment", "hotshoe-system", "hotshoe");
    let of_manifest = &mut manifest.get_mut(&deployment).expect("it is there")["spec"];
    let variables = &mut of_manifest["template"]["spec"]["containers"][0]["env"];
    variables.as_array_mut().expect("variables").retain(|variable| variable["name"] != "MEMCACHED_IMAGE");
    // A rollback from several replicas to one could not change the type.
    assert_eq!(of_manifest["strategy"].take(), json!({ "type": "Recreate" }));
    of_manifest["strategy"] = json!({ "type": "RollingUpdate" });

    assert_same(&chart, &manifest);
}

/// Returns what `hotshoe rbac` prints for a host with the account `chart-hotshoe` in the namespace `there`.
fn rights(arguments: &[&str]) -> BTreeMap<Key, Value> {
    let mut command = Command::new(program());
    command.args(["rbac", "--offline", "--namespace", "there", "--host-account", "chart-hotshoe"]).args(arguments);
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{}", super::said(&output));
    comparable(documents(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns the accounts and rights of the release `chart` in the namespace `there`.
fn rights_of_release(options: &[&str]) -> BTreeMap<Key, Value> {
    let off = ["--set", "roles.create=false,crds.enabled=false,metrics.service.enabled=false"];
    let objects = documents(&printed(super::template("chart", "there", &[&off[..], options].concat())));
    let workload = ["Deployment", "NetworkPolicy", "Service"];
    let rights = objects.into_iter().filter(|object| !workload.iter().any(|kind| object["kind"] == *kind));
    comparable(rights.collect())
}

#[test]
fn a_release_has_exactly_the_rights_that_hotshoe_rbac_prints_for_it() {
    let folder = guests::memcached().display().to_string();
    let cases: [(&str, &[&str]); 7] = [
        ("log.format=json", &[]),
        ("webhooks.enabled=true,metrics.secure=true", &["--webhooks"]),
        ("watchNamespaces={team-a}", &["--watch-namespace", "team-a"]),
        ("watchNamespaces={default}", &["--watch-namespace", "default"]),
        ("watchNamespaces={team-a},webhooks.enabled=true", &["--watch-namespace", "team-a", "--webhooks"]),
        ("watchNamespaces={team-b,team-a}", &["--watch-namespace", "team-a", "--watch-namespace", "team-b"]),
        (
            "watchNamespaces={team-b,default},webhooks.enabled=true",
            &["--watch-namespace", "default,team-b", "--webhooks"],
        ),
    ];
    for (values, options) in cases {
        let chart = rights_of_release(&["--set", "plugins.memcached.enabled=true", "--set", values]);
        let secure: &[&str] = if values.contains("secure") { &["--metrics-secure"] } else { &[] };
        let mut printed = rights(&[&["--host-only"], options, secure].concat());
        printed.extend(rights(&[&["--plugin-only", &folder], options].concat()));
        printed.retain(|(kind, ..), _| kind != "Namespace");
        assert_same(&chart, &printed);
    }
}

#[test]
fn a_certificate_of_ones_own_is_mounted_and_the_host_registers_nothing() {
    let objects = objects(&["--set", "webhooks.enabled=true,webhooks.certificateSecret=webhooks-tls"]);
    let pod = &find(&objects, "Deployment", "hotshoe").expect("a Deployment")["spec"]["template"]["spec"];
    let arguments = pod["containers"][0]["args"].to_string();
    assert!(arguments.contains(r#""--webhooks-cert-dir","/webhooks""#), "{arguments}");
    let volume = json!({ "name": "webhooks", "secret": { "secretName": "webhooks-tls" } });
    assert!(pod["volumes"].as_array().expect("volumes").contains(&volume), "{pod:#}");
    assert!(find(&objects, "Service", "hotshoe-webhooks").is_some());
    let named = |object: &&Value| object["metadata"]["name"].as_str().is_some_and(|name| name.ends_with(".webhooks"));
    assert_eq!(objects.iter().find(named), None);
}

#[test]
fn several_replicas_are_spread_and_are_not_drained_at_once() {
    let one = objects(&[]);
    assert!(find(&one, "PodDisruptionBudget", "hotshoe").is_none());
    let deployment = &find(&one, "Deployment", "hotshoe").expect("a Deployment")["spec"];
    assert!(deployment["template"]["spec"]["topologySpreadConstraints"].is_null());
    let two = objects(&["--set", "replicaCount=2"]);
    let budget = &find(&two, "PodDisruptionBudget", "hotshoe").expect("a budget")["spec"];
    assert_eq!(budget["maxUnavailable"], 1);
    let deployment = &find(&two, "Deployment", "hotshoe").expect("a Deployment")["spec"];
    let spread = &deployment["template"]["spec"]["topologySpreadConstraints"][0];
    assert_eq!(spread["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(spread["labelSelector"], deployment["selector"]);
    assert_eq!(budget["selector"], deployment["selector"]);
}

#[test]
fn only_editors_of_kinds_in_namespaces_are_added_to_the_roles_of_kubernetes() {
    let objects = objects(&["--set", "plugins.memcached.enabled=true,plugins.tenant.enabled=true"]);
    let added = |kind: &str, role: &str| {
        let name = format!("hotshoe-{kind}-{role}");
        let object = find(&objects, "ClusterRole", &name).unwrap_or_else(|| panic!("there is no {name}"));
        let labels = object["metadata"]["labels"].as_object().expect("labels").keys();
        labels.filter_map(|label| label.strip_prefix("rbac.authorization.k8s.io/")).collect::<Vec<_>>().join(" ")
    };
    for kind in ["plugin", "memcached", "tenant"] {
        assert_eq!(added(kind, "viewer"), "aggregate-to-view", "{kind}");
    }
    assert_eq!(added("memcached", "editor"), "aggregate-to-edit");
    for kind in ["plugin", "tenant"] {
        assert_eq!(added(kind, "editor"), "", "{kind}");
    }
}

#[test]
fn a_service_monitor_finds_the_service_of_the_metrics() {
    let values = ["--set", "metrics.serviceMonitor.enabled=true,metrics.secure=true"];
    let kind = "monitoring.coreos.com/v1/ServiceMonitor";
    let by_kind = objects(&[&values[..], &["--api-versions", kind]].concat());
    let objects = objects(&[&values[..], &["--api-versions", "monitoring.coreos.com/v1"]].concat());
    assert_eq!(by_kind, objects, "a tool names versions, or kinds");
    let monitor = &find(&objects, "ServiceMonitor", "hotshoe").expect("a ServiceMonitor")["spec"];
    let service = find(&objects, "Service", "hotshoe-metrics").expect("a Service");
    let selected = monitor["selector"]["matchLabels"].as_object().expect("labels");
    assert!(selected.iter().all(|(label, value)| service["metadata"]["labels"][label] == *value), "{monitor:#}");
    assert_eq!(monitor["endpoints"][0]["port"], service["spec"]["ports"][0]["name"]);
    assert_eq!(monitor["endpoints"][0]["scheme"], "https");
    let job = monitor["jobLabel"].as_str().expect("a label");
    assert_eq!(service["metadata"]["labels"][job], "hotshoe", "the job that the alerts ask for");
    assert!(objects.iter().any(|object| object["metadata"]["name"] == "hotshoe-metrics-reader"));
}
