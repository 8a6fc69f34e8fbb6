//! Generates the types of `hotshoe_sdk::apply` from the OpenAPI document of Kubernetes.
//!
//! ```text
//! apply-codegen swagger.json FOLDER
//! ```
//!
//! One file is written for each API group and version. `just apply-types` finds the document in the Go module of
//! the Kubernetes version that the local control plane is built from.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::{env, fs};

use serde_json::Value;

/// The kinds that plugins build, by their names in the document.
const KINDS: [&str; 15] = [
    "io.k8s.api.apps.v1.DaemonSet",
    "io.k8s.api.apps.v1.Deployment",
    "io.k8s.api.apps.v1.StatefulSet",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
    "io.k8s.api.batch.v1.CronJob",
    "io.k8s.api.batch.v1.Job",
    "io.k8s.api.core.v1.ConfigMap",
    "io.k8s.api.core.v1.PersistentVolumeClaim",
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.core.v1.Secret",
    "io.k8s.api.core.v1.Service",
    "io.k8s.api.core.v1.ServiceAccount",
    "io.k8s.api.networking.v1.Ingress",
    "io.k8s.api.networking.v1.NetworkPolicy",
    "io.k8s.api.policy.v1.PodDisruptionBudget",
];

/// Metadata that an author may set; the host or the API server sets the rest.
const METADATA: [&str; 5] = ["annotations", "finalizers", "labels", "name", "namespace"];

/// The maximum number of fields of one type: each has a bit in a 64-bit word, and `metadata` has the last one.
const MAX_FIELDS: usize = 63;

/// The maximum length of a generated doc comment, in characters.
const MAX_DOC_CHARS: usize = 400;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [document, folder] = arguments.as_slice() else {
        return Err("usage: apply-codegen swagger.json FOLDER".into());
    };
    let document: Value = serde_json::from_str(&fs::read_to_string(document)?)?;
    let definitions = Definitions(document.get("definitions").ok_or("the document has no definitions")?);
    for (module, names) in modules(&definitions)? {
        let text = module_text(&definitions, &module, &names)?;
        fs::write(format!("{folder}/{module}.rs"), text)?;
    }
    Ok(())
}

struct Definitions<'a>(&'a Value);

impl<'a> Definitions<'a> {
    fn get(&self, name: &str) -> Result<&'a Value> {
        self.0.get(name).ok_or_else(|| format!("{name} is not in the document").into())
    }

    /// The fields of a type that a plugin may set, by their names in JSON.
    fn fields(&self, name: &str) -> Result<BTreeMap<&'a str, &'a Value>> {
        let Some(properties) = self.get(name)?.get("properties").and_then(Value::as_object) else {
            return Ok(BTreeMap::new());
        };
        let set = properties.iter().filter(|(field, _)| {
            let observed =
                KINDS.contains(&name) && matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "status");
            let of_others = name.ends_with(".meta.v1.ObjectMeta") && !METADATA.contains(&field.as_str());
            !observed && !of_others
        });
        Ok(set.map(|(field, schema)| (field.as_str(), schema)).collect())
    }
}

/// Collects the types that the kinds need, by the module that they are written to.
fn modules(definitions: &Definitions<'_>) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut open: Vec<String> = KINDS.iter().map(|kind| (*kind).to_owned()).collect();
    let mut reached = BTreeSet::new();
    while let Some(name) = open.pop() {
        if scalar(&name).is_none() && reached.insert(name.clone()) {
            for schema in definitions.fields(&name)?.values() {
                open.extend(reference(schema));
            }
        }
    }
    let mut modules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in reached {
        modules.entry(module_of(&name)?).or_default().insert(name);
    }
    Ok(modules)
}

/// Returns the type that a schema, or the schema of its elements, refers to.
fn reference(schema: &Value) -> Option<String> {
    let inner = schema.get("items").or_else(|| schema.get("additionalProperties"));
    match (schema.get("$ref").and_then(Value::as_str), inner) {
        (Some(path), _) => path.rsplit('/').next().map(str::to_owned),
        (None, Some(inner)) => reference(inner),
        (None, None) => None,
    }
}

/// Returns the SDK's type for a definition that is not an object.
fn scalar(name: &str) -> Option<&'static str> {
    match name {
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => Some("IntOrString"),
        "io.k8s.apimachinery.pkg.api.resource.Quantity" | "io.k8s.apimachinery.pkg.apis.meta.v1.Time" => Some("Text"),
        _ => None,
    }
}

/// Returns the module of a type: `apps_v1` for `io.k8s.api.apps.v1.Deployment`.
fn module_of(name: &str) -> Result<String> {
    let mut parts = name.rsplit('.').skip(1);
    let (version, group) = (parts.next(), parts.next());
    version
        .zip(group)
        .map(|(version, group)| format!("{group}_{version}"))
        .ok_or_else(|| format!("{name} has no group").into())
}

fn type_name(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn module_text(definitions: &Definitions<'_>, module: &str, names: &BTreeSet<String>) -> Result<String> {
    let (mut configurations, mut objects, mut used) = (String::new(), String::new(), BTreeSet::new());
    for name in names {
        let definition = definitions.get(name)?;
        let kind = definition.get("x-kubernetes-group-version-kind").filter(|_| KINDS.contains(&name.as_str()));
        let out = if kind.is_some() { &mut objects } else { &mut configurations };
        write_doc(out, "    ", definition);
        write!(out, "    {}", type_name(name))?;
        if let Some(kind) = kind.and_then(|kinds| kinds.get(0)) {
            let text = |key| kind.get(key).and_then(Value::as_str).unwrap_or_default();
            write!(out, "({:?}, {:?})", text("group"), text("version"))?;
        }
        out.push_str(" {\n");
        let fields = definitions.fields(name)?;
        if fields.len() > MAX_FIELDS {
            return Err(format!("{name} has {} fields, more than {MAX_FIELDS}", fields.len()).into());
        }
        for (number, (field, schema)) in fields.into_iter().enumerate() {
            write_doc(out, "        ", schema);
            let kind = field_type(schema, module, &mut used)?;
            writeln!(out, "        {}({kind}) = {number} {field:?},", method(field))?;
        }
        out.push_str("    }\n\n");
    }
    let mut text = format!(
        "//! `{}`.\n//!\n//! Generated by `just apply-types` from the OpenAPI document of Kubernetes; change the generator.\n\n",
        module.replace('_', "/")
    );
    for import in used {
        writeln!(text, "use super::{import};")?;
    }
    for (macro_name, body) in [("configurations", configurations), ("objects", objects)] {
        if !body.is_empty() {
            write!(text, "\nsuper::{macro_name}! {{\n{}\n}}\n", body.trim_end())?;
        }
    }
    Ok(text)
}

/// Returns the type of a field, in the form that the macros expect.
fn field_type(schema: &Value, module: &str, used: &mut BTreeSet<String>) -> Result<String> {
    let text = |key| schema.get(key).and_then(Value::as_str);
    let mut simple = |name: &str| {
        used.insert(name.to_owned());
        name.to_owned()
    };
    if let Some(path) = text("$ref") {
        let name = path.rsplit('/').next().unwrap_or_default();
        if let Some(scalar) = scalar(name) {
            return Ok(simple(scalar));
        }
        let of = module_of(name)?;
        return Ok(if of == module { type_name(name).to_owned() } else { format!("super::{of}::{}", type_name(name)) });
    }
    match (text("type"), text("format")) {
        (Some("string"), Some("byte")) => Ok(simple("Bytes")),
        (Some("string"), _) => Ok(simple("Text")),
        (Some("boolean"), _) => Ok("bool".to_owned()),
        (Some("integer"), Some("int32")) => Ok("i32".to_owned()),
        (Some("integer"), _) => Ok("i64".to_owned()),
        (Some("array"), _) => {
            simple("List");
            let items = schema.get("items").ok_or("a list has no type of elements")?;
            Ok(format!("List<{}>", field_type(items, module, used)?))
        }
        (Some("object"), _) => {
            simple("Map");
            let values = schema.get("additionalProperties").ok_or("a map has no type of values")?;
            Ok(format!("Map<{}>", field_type(values, module, used)?))
        }
        other => Err(format!("a field of the type {other:?} is not known to this generator").into()),
    }
}

/// Returns the method name of a field: `host_ipc` for `hostIPC`, `type_` for `type`.
fn method(field: &str) -> String {
    let mut name = String::new();
    let letters: Vec<char> = field.trim_start_matches('$').chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let is_upper =
            |at: Option<usize>| at.and_then(|at| letters.get(at)).is_some_and(|letter| letter.is_ascii_uppercase());
        let begins_word = letter.is_ascii_uppercase()
            && at > 0
            && (!is_upper(at.checked_sub(1))
                || letters.get(at + 1).is_some_and(|next| next.is_ascii_lowercase() && *next != 's'));
        if begins_word {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    if matches!(name.as_str(), "type" | "ref" | "match" | "loop" | "macro") { name + "_" } else { name }
}

/// Writes the first sentence of a description as a doc comment.
fn write_doc(out: &mut String, indent: &str, schema: &Value) {
    let description = schema.get("description").and_then(Value::as_str).unwrap_or("See the Kubernetes API reference.");
    let first = description.split('\n').next().unwrap_or_default();
    let sentence = first.find(". ").and_then(|end| first.get(..=end)).unwrap_or(first);
    let mut line: String = sentence.chars().take(MAX_DOC_CHARS).collect();
    for special in ['\\', '[', ']', '<', '>', '*', '_', '`'] {
        line = line.replace(special, &format!("\\{special}"));
    }
    let words: Vec<String> = line.split_whitespace().map(with_link).collect();
    out.push_str(&format!("{indent}/// {}\n", words.join(" ")));
}

/// Wraps an address in a word in `<` and `>`, so that it becomes a link.
fn with_link(word: &str) -> String {
    let Some((before, address)) = word.find("http").map(|at| word.split_at(at)).filter(|_| word.contains("://")) else {
        return word.to_owned();
    };
    let address = address.replace('\\', "");
    let end = address.trim_end_matches(['.', ',', ')']);
    format!("{before}<{end}>{}", address.strip_prefix(end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_named_in_snake_case() {
        for (field, name) in [
            ("replicas", "replicas"),
            ("containerPort", "container_port"),
            ("hostIPC", "host_ipc"),
            ("clusterIPs", "cluster_ips"),
            ("externalIPs", "external_ips"),
            ("podCIDR", "pod_cidr"),
            ("fsGroup", "fs_group"),
            ("nonResourceURLs", "non_resource_urls"),
            ("type", "type_"),
            ("azureDisk", "azure_disk"),
            ("volumeID", "volume_id"),
            ("httpGet", "http_get"),
            ("chapAuthSession", "chap_auth_session"),
            ("iscsi", "iscsi"),
            ("setHostnameAsFQDN", "set_hostname_as_fqdn"),
        ] {
            assert_eq!(method(field), name);
        }
    }
}
