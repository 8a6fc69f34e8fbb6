//! The values of the chart: each is described, and a wrong one is refused by its name.

use std::collections::BTreeMap;

use hotshoe_tests::repository;
use serde_json::Value;

use super::{CHART, said, template};

fn read(file: &str) -> String {
    let file = repository(CHART).join(file);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()))
}

/// Adds the path of each property of a schema, with its description.
fn described(schema: &Value, path: &str, found: &mut BTreeMap<String, String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        found.insert(path.clone(), property["description"].as_str().unwrap_or_default().to_owned());
        described(property, &path, found);
    }
}

/// Adds the path of each value that the schema knows.
fn valued(values: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    for (name, value) in values.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        found.push(path.clone());
        // The fields of a type of Kubernetes are described by Kubernetes.
        let property = &schema["properties"][name];
        if property["properties"].is_object() {
            valued(value, property, &path, found);
        }
    }
}

#[test]
fn every_value_is_described_in_the_schema_and_every_property_is_a_value() {
    let schema: Value = serde_json::from_str(&read("values.schema.json")).expect("JSON");
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).expect("YAML");
    let (mut properties, mut paths) = (BTreeMap::new(), Vec::new());
    described(&schema, "", &mut properties);
    valued(&values, &schema, "", &mut paths);
    paths.sort();
    let unknown: Vec<_> = properties.keys().filter(|path| !paths.contains(path)).collect();
    assert!(unknown.is_empty(), "values.yaml lacks {unknown:?}");
    for path in &paths {
        let description = properties.get(path).unwrap_or_else(|| panic!("the schema lacks {path}"));
        assert!(description.ends_with('.'), "{path} is described as {description:?}");
    }
}

#[test]
fn every_value_has_a_comment_above_it() {
    let text = read("values.yaml");
    let schema: Value = serde_json::from_str(&read("values.schema.json")).expect("JSON");
    let mut properties = BTreeMap::new();
    described(&schema, "", &mut properties);
    let names: Vec<&str> = properties.keys().filter_map(|path| path.rsplit('.').next()).collect();
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.windows(2) {
        let [above, line] = pair else { continue };
        let name = line.trim_start().split(':').next().unwrap_or_default();
        let depth = line.len() - line.trim_start().len();
        // What is deeper belongs to a type of Kubernetes.
        let is_value = depth <= 4 && !line.trim_start().starts_with(['#', '-']) && names.contains(&name);
        let has_comment = above.trim_start().starts_with('#') && above.len() - above.trim_start().len() == depth;
        assert!(!is_value || has_comment, "{line:?} has no comment above it");
    }
}

#[test]
fn every_object_of_the_schema_refuses_what_it_does_not_know() {
    fn check(schema: &Value, path: &str) {
        if let Some(properties) = schema["properties"].as_object() {
            assert_eq!(schema["additionalProperties"], false, "{path} takes anything");
            properties.iter().for_each(|(name, property)| check(property, &format!("{path}.{name}")));
        }
        if schema["items"].is_object() {
            check(&schema["items"], &format!("{path}[]"));
        }
    }
    check(&serde_json::from_str(&read("values.schema.json")).expect("JSON"), "");
}

#[test]
fn a_wrong_value_is_refused_and_named() {
    let cases = [
        ("replicas=2", "replicas"),
        ("replicaCount=two", "replicaCount"),
        ("image.name=hotshoe", "name"),
        ("image.digest=sha256:abc", "image/digest"),
        ("image.pullPolicy=Sometimes", "image/pullPolicy"),
        ("watchNamespaces={team-a,team-a}", "watchNamespaces"),
        ("watchNamespaces={Team_A}", "watchNamespaces/0"),
        ("plugins.memcache.enabled=true", "memcache"),
        ("plugins.memcached.enabled=yes please", "plugins/memcached/enabled"),
        ("cache.maxBytes=much", "cache/maxBytes"),
        ("log.format=xml", "log/format"),
        ("shards=65", "shards"),
        ("extraEnv[0].name=A-B", "extraEnv/0/name"),
        ("metrics.serviceMonitor.interval=often", "metrics/serviceMonitor/interval"),
        ("metrics.serviceMonitor.enabled=true,metrics.service.enabled=false", "metrics.service.enabled"),
        ("plugins.redis.enabled=true,serviceAccount.name=redis", "serviceAccount.name"),
    ];
    for (values, named) in cases {
        let output = template("hotshoe", "hotshoe-system", &["--set", values]).output().expect("Helm runs");
        let said = said(&output);
        assert!(!output.status.success() && said.contains(named), "{values}: {said}");
    }
}

#[test]
fn a_cluster_that_is_too_old_is_refused() {
    let output = template("hotshoe", "hotshoe-system", &["--kube-version", "1.29.9"]).output().expect("Helm runs");
    let said = said(&output);
    assert!(!output.status.success() && said.contains("incompatible with Kubernetes v1.29.9"), "{said}");
}

#[test]
fn the_chart_installs_the_host_of_this_version() {
    let chart: Value = serde_saphyr::from_str(&read("Chart.yaml")).expect("YAML");
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}
