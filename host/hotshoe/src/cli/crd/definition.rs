//! A CustomResourceDefinition as `hotshoe crd` takes it.

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::structural;
use hotshoe_core::model::names;

/// A definition that passed all checks that are possible without an API server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Definition {
    /// Its name, `PLURAL.GROUP`.
    pub(super) name: String,
    pub(super) group: String,
    pub(super) kind: String,
    plural: String,
    /// The whole definition.
    pub(super) value: Value,
}

/// A definition with every key that Kubernetes has, so that any other key is an error. Those with `_` are not checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Crd {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
    #[serde(default, rename = "status")]
    _status: Value,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    group: String,
    names: Names,
    scope: String,
    versions: Vec<Version>,
    #[serde(default, rename = "conversion")]
    _conversion: Value,
    #[serde(default)]
    preserve_unknown_fields: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Names {
    kind: String,
    plural: String,
    #[serde(default)]
    list_kind: Option<String>,
    #[serde(default)]
    singular: Option<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Version {
    name: String,
    served: bool,
    storage: bool,
    #[serde(default)]
    schema: Schema,
    #[serde(default)]
    subresources: Subresources,
    #[serde(default)]
    additional_printer_columns: Vec<Column>,
    #[serde(default, rename = "selectableFields")]
    _selectable_fields: Value,
    #[serde(default, rename = "deprecated")]
    _deprecated: bool,
    #[serde(default, rename = "deprecationWarning")]
    _deprecation_warning: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Schema {
    #[serde(rename = "openAPIV3Schema")]
    schema: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subresources {
    status: Option<Value>,
    scale: Option<Scale>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Scale {
    spec_replicas_path: String,
    status_replicas_path: String,
    #[serde(default)]
    label_selector_path: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Column {
    name: String,
    #[serde(rename = "type")]
    type_: String,
    json_path: String,
    #[serde(default, rename = "description")]
    _description: Option<String>,
    #[serde(default, rename = "format")]
    _format: Option<String>,
    #[serde(default, rename = "priority")]
    _priority: i32,
}

impl Definition {
    /// Reads and checks a definition.
    ///
    /// # Errors
    /// If the API server or a host would refuse it; the error names the first problem.
    pub(super) fn read(value: Value) -> anyhow::Result<Self> {
        let crd: Crd = serde_json::from_value(value.clone())?;
        ensure!(
            crd.api_version == "apiextensions.k8s.io/v1" && crd.kind == "CustomResourceDefinition",
            "it is {} {}; it must be a CustomResourceDefinition of apiextensions.k8s.io/v1",
            crd.api_version,
            crd.kind
        );
        let Names { plural, kind, .. } = &crd.spec.names;
        check_names(&crd.spec)?;
        let name = format!("{plural}.{}", crd.spec.group);
        ensure!(crd.metadata.name == name, "metadata.name is {}; make it PLURAL.GROUP, {name}", crd.metadata.name);
        ensure!(
            ["Namespaced", "Cluster"].contains(&crd.spec.scope.as_str()),
            "spec.scope is {}; it is Namespaced or Cluster",
            crd.spec.scope
        );
        ensure!(
            !crd.spec.preserve_unknown_fields,
            "spec.preserveUnknownFields is true, which a v1 definition does not allow; remove it"
        );
        check_versions(&crd.spec.versions)?;
        Ok(Self { name, group: crd.spec.group.clone(), kind: kind.clone(), plural: plural.clone(), value })
    }

    /// Returns the name of its file: `cache.example.com_memcacheds.yaml`.
    pub(super) fn file_name(&self) -> String {
        format!("{}_{}.yaml", self.group, self.plural)
    }

    /// Returns notes about what limits a host with this definition.
    pub(super) fn notes(&self) -> Vec<String> {
        let versions = self.value.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        let notes = versions.filter(|version| !has_conditions(version)).map(|version| {
            format!(
                "the status of {} has no list `conditions` of the type `map` by `type`, so a host reports in Events only",
                version.get("name").and_then(Value::as_str).unwrap_or_default()
            )
        });
        notes.collect()
    }

    /// Returns the first difference from another definition of the same name, as a sentence.
    pub(super) fn first_difference(&self, other: &Self) -> String {
        match difference(&other.value, &self.value, String::new()) {
            Some((path, one, another)) => format!("{path} is {one} in the first and {another} in the second"),
            None => "they differ in form".to_owned(),
        }
    }
}

fn check_names(spec: &Spec) -> anyhow::Result<()> {
    let names = &spec.names;
    ensure!(
        spec.group.contains('.') && names::is_group(&spec.group),
        "spec.group is {:?}; it is a DNS name with a dot in it, such as cache.example.com",
        spec.group
    );
    for kind in [Some(&names.kind), names.list_kind.as_ref()].into_iter().flatten() {
        ensure!(
            names::is_kind(kind),
            "{kind:?} is no kind: a kind begins with a capital letter, and has letters and digits only"
        );
    }
    let others = names.short_names.iter().chain(&names.categories).chain(&names.singular);
    for name in [&names.plural].into_iter().chain(others) {
        ensure!(
            names::is_label(name),
            "{name:?} in spec.names is no DNS label: lower-case letters and digits, with `-` between them"
        );
    }
    Ok(())
}

fn check_versions(versions: &[Version]) -> anyhow::Result<()> {
    for (at, version) in versions.iter().enumerate() {
        let Version { name, .. } = version;
        ensure!(names::is_version(name), "the version {name:?} is no DNS label, such as v1alpha1");
        ensure!(versions.iter().skip(at + 1).all(|other| other.name != *name), "the version {name} is there twice");
        check_version(version).with_context(|| format!("version {name}"))?;
    }
    let stored: Vec<_> = versions.iter().filter(|version| version.storage).map(|version| &*version.name).collect();
    match stored.as_slice() {
        [_] => {}
        [] => bail!("no version has `storage: true`; the API server stores objects in one of them"),
        several => bail!("the versions {} have `storage: true`; the API server stores one", several.join(", ")),
    }
    ensure!(versions.iter().any(|version| version.served), "no version has `served: true`, so none can be used");
    Ok(())
}

fn check_version(version: &Version) -> anyhow::Result<()> {
    let schema = version.schema.schema.as_ref();
    let schema = schema.context("it has no schema.openAPIV3Schema, which every version needs")?;
    structural::check(schema)?;
    ensure!(
        version.subresources.status.is_some(),
        "it has no status subresource, so every status write would raise the generation; add `subresources: {{status: {{}}}}`"
    );
    if let Some(scale) = &version.subresources.scale {
        check_path(&scale.spec_replicas_path, ".spec.")?;
        check_path(&scale.status_replicas_path, ".status.")?;
        if let Some(selector) = &scale.label_selector_path {
            ensure!(
                selector.starts_with(".status.") || selector.starts_with(".spec."),
                "labelSelectorPath {selector} begins with neither .spec. nor .status."
            );
        }
    }
    for Column { name, type_, json_path, .. } in &version.additional_printer_columns {
        ensure!(
            ["integer", "number", "string", "boolean", "date"].contains(&type_.as_str()),
            "the column {name} has the type {type_:?}; it is integer, number, string, boolean or date"
        );
        ensure!(json_path.starts_with('.'), "the column {name} has the jsonPath {json_path:?}; it begins with a dot");
    }
    Ok(())
}

fn check_path(path: &str, start: &str) -> anyhow::Result<()> {
    let is_simple = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_');
    ensure!(
        path.starts_with(start) && is_simple,
        "the scale subresource has the path {path:?}; it begins with {start}"
    );
    Ok(())
}

fn has_conditions(version: &Value) -> bool {
    let conditions = version.pointer("/schema/openAPIV3Schema/properties/status/properties/conditions");
    conditions.is_some_and(|conditions| {
        conditions.get("x-kubernetes-list-type") == Some(&json!("map"))
            && conditions.get("x-kubernetes-list-map-keys") == Some(&json!(["type"]))
    })
}

/// Finds the first place at which two values differ.
fn difference<'a>(one: &'a Value, other: &'a Value, path: String) -> Option<(String, &'a Value, &'a Value)> {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<_> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.into_iter().find_map(|key| {
                let member = |object: &'a serde_json::Map<String, Value>| object.get(key).unwrap_or(&Value::Null);
                difference(member(a), member(b), format!("{path}.{key}"))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(at, (a, b))| difference(a, b, format!("{path}[{at}]")))
        }
        (one, other) => (one != other).then_some((path, one, other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd() -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": "caches.example.com" },
            "spec": {
                "group": "example.com",
                "names": { "kind": "Cache", "plural": "caches", "shortNames": ["ca"] },
                "scope": "Namespaced",
                "versions": [{
                    "name": "v1",
                    "served": true,
                    "storage": true,
                    "subresources": { "status": {} },
                    "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": { "type": "object" } } } },
                }],
            },
        })
    }

    fn changed(pointer: &str, value: Value) -> Value {
        let mut crd = crd();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match crd.pointer_mut(parent).unwrap() {
            Value::Object(members) => drop(members.insert(key.to_owned(), value)),
            _ => panic!("{parent} is no object"),
        }
        crd
    }

    #[test]
    fn a_definition_has_the_name_of_its_file() {
        let definition = Definition::read(crd()).unwrap();
        assert_eq!((definition.kind.as_str(), definition.file_name().as_str()), ("Cache", "example.com_caches.yaml"));
    }

    #[test]
    fn what_the_api_server_or_a_host_would_refuse_is_named() {
        let second = |storage: bool, name: &str| {
            let mut version = crd().pointer("/spec/versions/0").unwrap().clone();
            version["storage"] = storage.into();
            version["name"] = name.into();
            let mut all = crd();
            all["spec"]["versions"].as_array_mut().unwrap().push(version);
            all
        };
        for (crd, words) in [
            (changed("/kind", json!("ConfigMap")), "it must be a CustomResourceDefinition"),
            (changed("/metadata/name", json!("cache.example.com")), "make it PLURAL.GROUP, caches.example.com"),
            (changed("/spec/group", json!("example")), "with a dot in it"),
            (changed("/spec/names/kind", json!("cache")), "is no kind"),
            (changed("/spec/names/plural", json!("Caches")), "is no DNS label"),
            (changed("/spec/names/shortNames", json!(["c_a"])), "is no DNS label"),
            (changed("/spec/scope", json!("namespaced")), "Namespaced or Cluster"),
            (changed("/spec/versoins", json!([])), "unknown field `versoins`"),
            (changed("/spec/versions", json!([])), "no version has `storage: true`"),
            (changed("/spec/versions/0/storage", json!(false)), "no version has `storage: true`"),
            (changed("/spec/versions/0/served", json!(false)), "no version has `served: true`"),
            (changed("/spec/versions/0/name", json!("V1")), "is no DNS label"),
            (second(true, "v2"), "the versions v1, v2 have `storage: true`"),
            (second(false, "v1"), "the version v1 is there twice"),
            (changed("/spec/versions/0/schema", json!({})), "it has no schema.openAPIV3Schema"),
            (changed("/spec/versions/0/subresources", json!({})), "subresources: {status: {}}"),
            (
                changed(
                    "/spec/versions/0/subresources/scale",
                    json!({ "specReplicasPath": "spec.size", "statusReplicasPath": ".status.ready" }),
                ),
                "it begins with .spec.",
            ),
            (
                changed(
                    "/spec/versions/0/additionalPrinterColumns",
                    json!([{ "name": "Size", "type": "int", "jsonPath": ".spec.size" }]),
                ),
                "the column Size has the type",
            ),
            (changed("/spec/versions/0/schema/openAPIV3Schema/properties/spec", json!({})), "spec: it has no type"),
        ] {
            let error = format!("{:#}", Definition::read(crd).unwrap_err());
            assert!(error.contains(words), "{words}: {error}");
        }
    }

    #[test]
    fn a_status_without_conditions_by_type_is_noted() {
        assert!(Definition::read(crd()).unwrap().notes()[0].contains("the status of v1 has no list `conditions`"));
    }

    #[test]
    fn the_first_difference_is_named() {
        let (one, other) = (Definition::read(crd()).unwrap(), changed("/spec/names/shortNames", json!(["cb"])));
        let other = Definition::read(other).unwrap();
        assert_ne!(one, other);
        let words = other.first_difference(&one);
        assert_eq!(words, ".spec.names.shortNames[0] is \"ca\" in the first and \"cb\" in the second");
    }
}
