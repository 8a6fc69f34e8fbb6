//! The ClusterServiceVersion of a bundle: what people read of an operator in a catalog, and what it owns.

use std::collections::BTreeSet;

use anyhow::Context;
use serde_json::{Map, Value, json};

use hotshoe_core::rbac::Installation;

/// The first version of Kubernetes with ValidatingAdmissionPolicies, by which the namespace of the host is closed.
const KUBERNETES: &str = "1.30.0";

/// A square with a shoe: the first thing that a catalog shows.
const ICON: &[u8] = include_bytes!("../../../templates/icon.svg");

/// What the parts of a ClusterServiceVersion are called after.
pub(super) struct About<'a> {
    /// The package.
    pub(super) package: &'a str,
    /// The version of the bundle.
    pub(super) version: &'a str,
    /// The image of the host.
    pub(super) image: &'a str,
    /// Where it is installed.
    pub(super) installation: &'a Installation,
}

/// Returns the name of a ClusterServiceVersion and itself, without what is installed.
///
/// # Errors
/// If the author's has a kind that no plugin owns.
pub(super) fn of(
    about: &About<'_>,
    definitions: &[Value],
    samples: &[Value],
    children: &BTreeSet<(String, String)>,
    base: Option<Value>,
) -> anyhow::Result<(String, Value)> {
    let name = format!("{}.v{}", about.package, about.version);
    let owned: Vec<Value> = definitions.iter().flat_map(|definition| owned(definition, children)).collect();
    let title = titled(about.package);
    let summary = owned.first().map(|owned| text(owned, "/description")).filter(|summary| !summary.is_empty());
    let summary = summary.map_or_else(|| format!("{title}, an operator in a Hotshoe host"), str::to_owned);
    let mut csv = json!({
        "metadata": { "annotations": {
            "capabilities": "Basic Install",
            "containerImage": about.image,
            "description": summary,
            "operatorframework.io/suggested-namespace": about.installation.namespace,
            "operators.operatorframework.io/builder": concat!("hotshoe-", env!("CARGO_PKG_VERSION")),
        } },
        "spec": {
            "displayName": title,
            "description": description(about, &owned),
            "icon": [{ "base64data": encoded(ICON), "mediatype": "image/svg+xml" }],
            "keywords": [about.package, "operator", "webassembly"],
            "maturity": "alpha",
            "minKubeVersion": KUBERNETES,
            "provider": { "name": title },
        },
    });
    let mut base = base.unwrap_or_else(|| json!({}));
    let of_base = base.pointer_mut("/spec/customresourcedefinitions/owned").map(Value::take);
    let owned = described(owned, of_base)?;
    merge(&mut csv, &base);
    // What a cluster is given, whatever an author's file says.
    merge(
        &mut csv,
        &json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {
                "name": name,
                "namespace": "placeholder",
                "annotations": { "alm-examples": examples(samples, &owned)? },
            },
            "spec": {
                "version": about.version,
                "customresourcedefinitions": { "owned": owned },
                "installModes": install_modes(about.installation),
            },
        }),
    );
    Ok((name, csv))
}

/// Returns a ClusterServiceVersion with what it installs.
pub(super) fn with_install(mut csv: Value, deployments: &[Value], cluster_permissions: &[Value]) -> Value {
    if let Some(spec) = csv.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("relatedImages".to_owned(), related_images(deployments));
        let install = json!({ "deployments": deployments, "clusterPermissions": cluster_permissions });
        spec.insert("install".to_owned(), json!({ "strategy": "deployment", "spec": install }));
    }
    csv
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn items<'v>(object: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Replaces what another object has. Lists are replaced as a whole.
fn merge(object: &mut Value, other: &Value) {
    match (object, other) {
        (Value::Object(members), Value::Object(others)) => {
            for (name, other) in others.iter().filter(|(_, other)| !other.is_null()) {
                merge(members.entry(name).or_insert_with(|| Value::Object(Map::new())), other);
            }
        }
        (object, other) => object.clone_from(other),
    }
}

/// Returns the versions of a kind that are served, as the kinds that the operator owns.
fn owned(definition: &Value, children: &BTreeSet<(String, String)>) -> Vec<Value> {
    let kind = text(definition, "/spec/names/kind");
    let resources: Vec<Value> =
        children.iter().map(|(version, kind)| json!({ "kind": kind, "name": "", "version": version })).collect();
    let served = items(definition, "/spec/versions").filter(|version| version.get("served") == Some(&true.into()));
    let owned = served.map(|version| {
        json!({
            "name": text(definition, "/metadata/name"),
            "kind": kind,
            "version": text(version, "/name"),
            "displayName": titled(kind),
            "description": text(version, "/schema/openAPIV3Schema/description"),
            "resources": resources,
            "specDescriptors": descriptors(version, "spec"),
            "statusDescriptors": descriptors(version, "status"),
        })
    });
    owned.collect()
}

/// Returns the fields of a part of an object, with the form in which a console shows or edits them.
fn descriptors(version: &Value, part: &str) -> Vec<Value> {
    let properties = version.pointer(&format!("/schema/openAPIV3Schema/properties/{part}/properties"));
    let replicas = text(version, "/subresources/scale/specReplicasPath");
    let fields = properties.and_then(Value::as_object).into_iter().flatten();
    let of = |(name, schema): (&String, &Value)| {
        let form = match (part, name.as_str(), text(schema, "/type")) {
            ("status", "conditions", _) => Some("urn:alm:descriptor:io.kubernetes.conditions"),
            ("spec", _, _) if replicas == format!(".spec.{name}") => {
                Some("urn:alm:descriptor:com.tectonic.ui:podCount")
            }
            ("spec", _, "boolean") => Some("urn:alm:descriptor:com.tectonic.ui:booleanSwitch"),
            ("spec", _, "integer" | "number") => Some("urn:alm:descriptor:com.tectonic.ui:number"),
            ("spec", _, "string") => Some("urn:alm:descriptor:com.tectonic.ui:text"),
            _ => None,
        };
        let mut descriptor =
            json!({ "path": name, "displayName": titled(name), "description": text(schema, "/description") });
        if let (Some(form), Some(members)) = (form, descriptor.as_object_mut()) {
            members.insert("x-descriptors".to_owned(), json!([form]));
        }
        descriptor
    };
    fields.map(of).collect()
}

/// Returns the owned kinds with what an author says about them.
fn described(mut owned: Vec<Value>, of_base: Option<Value>) -> anyhow::Result<Vec<Value>> {
    for said in of_base.as_ref().and_then(Value::as_array).into_iter().flatten() {
        let (name, version) = (text(said, "/name"), text(said, "/version"));
        let of = |other: &&mut Value| text(other, "/name") == name && text(other, "/version") == version;
        let unknown = || {
            format!(
                "the file of --csv owns {name} in the version {version}, and no plugin here does; correct or remove it there"
            )
        };
        merge(owned.iter_mut().find(of).with_context(unknown)?, said);
    }
    Ok(owned)
}

/// Returns the examples that a console offers: of owned kinds only, in versions that are served.
fn examples(samples: &[Value], owned: &[Value]) -> anyhow::Result<String> {
    let is_owned = |sample: &&Value| {
        owned.iter().any(|owned| {
            let group = text(owned, "/name").split_once('.').map_or("", |(_, group)| group);
            text(sample, "/kind") == text(owned, "/kind")
                && text(sample, "/apiVersion") == format!("{group}/{}", text(owned, "/version"))
        })
    };
    let examples: Vec<&Value> = samples.iter().filter(is_owned).collect();
    serde_json::to_string_pretty(&examples).context("the samples cannot be written as JSON")
}

/// Returns for which OperatorGroups the host can be installed: its options name the namespaces that it watches.
fn install_modes(installation: &Installation) -> Value {
    let mode = match installation.watched.names() {
        [] => "AllNamespaces",
        [one] if **one == *installation.namespace => "OwnNamespace",
        [_] => "SingleNamespace",
        _ => "MultiNamespace",
    };
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    modes.map(|other| json!({ "type": other, "supported": other == mode })).into_iter().collect()
}

/// Returns the images that the installation pulls: that of the host, and those in variables for plugins.
fn related_images(deployments: &[Value]) -> Value {
    let mut images: Vec<Value> = Vec::new();
    let containers = deployments.iter().flat_map(|deployment| items(deployment, "/spec/template/spec/containers"));
    for container in containers {
        images.push(json!({ "name": text(container, "/name"), "image": text(container, "/image") }));
        let variables = items(container, "/env").filter(|variable| text(variable, "/name").ends_with("_IMAGE"));
        images.extend(variables.map(|variable| {
            let name = text(variable, "/name").to_lowercase().replace('_', "-");
            json!({ "name": name.trim_end_matches("-image"), "image": text(variable, "/value") })
        }));
    }
    images.into()
}

/// Returns the words of a name, each with a capital letter: `availableReplicas` is `Available Replicas`.
fn titled(name: &str) -> String {
    let mut title = String::new();
    let mut before = ' ';
    for letter in name.chars() {
        let letter = if matches!(letter, '-' | '_' | '.') { ' ' } else { letter };
        if letter.is_uppercase() && (before.is_lowercase() || before.is_numeric()) {
            title.push(' ');
        }
        match before == ' ' {
            true => title.extend(letter.to_uppercase()),
            false => title.push(letter),
        }
        before = letter;
    }
    title
}

/// Returns what a catalog shows of the operator.
fn description(about: &About<'_>, owned: &[Value]) -> String {
    let kinds: BTreeSet<String> = owned
        .iter()
        .map(|owned| format!("- **{}**: {}\n", text(owned, "/displayName"), text(owned, "/description")))
        .collect();
    let namespace = &about.installation.namespace;
    let watched = match about.installation.watched.names() {
        [] => "all namespaces".to_owned(),
        [one] => format!("the namespace `{one}`"),
        several => format!("the namespaces `{}`", several.join("`, `")),
    };
    let served = if kinds.is_empty() {
        String::new()
    } else {
        format!("It serves:\n\n{}\n", kinds.into_iter().collect::<String>())
    };
    format!(
        "{served}The logic of the operator is a sandboxed WebAssembly component in a Hotshoe host, which watches {watched} and \
         writes as an account of the operator's own, with exactly the rights of its grant.\n\n\
         ## Before the installation\n\n\
         Install it into the namespace `{namespace}`, after `kubectl apply -f before.yaml` with the file that is written beside \
         the bundle. It has the namespace, the OperatorGroup, and a ValidatingAdmissionPolicy that keeps the accounts of \
         operators out of the host's namespace. Keep the CatalogSource in another namespace: that policy refuses what the Job \
         writes that unpacks a bundle.\n"
    )
}

fn encoded(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_the_words_of_a_name() {
        for (name, title) in [
            ("availableReplicas", "Available Replicas"),
            ("default-deny", "Default Deny"),
            ("NginxServer", "Nginx Server"),
        ] {
            assert_eq!(titled(name), title);
        }
    }

    #[test]
    fn what_another_object_has_replaces_what_was_there_but_null_and_adds_what_was_not() {
        let mut object = json!({ "a": { "b": 1, "c": [1, 2] }, "d": 2 });
        merge(&mut object, &json!({ "a": { "c": [3], "e": { "f": 4 } }, "d": null }));
        assert_eq!(object, json!({ "a": { "b": 1, "c": [3], "e": { "f": 4 } }, "d": 2 }));
    }
}
