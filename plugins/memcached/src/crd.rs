//! The CRD, made from the types in `api.rs`.
//!
//! Both versions have one shape and differ in the largest `size`, because the tutorials do, and
//! conversion is `None`. Every status is written through v1alpha1, also that of an object whose
//! size only v1 allows: the API server then validates the whole object against v1alpha1 and lets
//! the size pass, since it has not changed (ratcheting, `CRDValidationRatcheting`).

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceColumnDefinition, CustomResourceConversion, CustomResourceDefinition,
        CustomResourceDefinitionNames, CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
        CustomResourceSubresourceStatus, CustomResourceSubresources, CustomResourceValidation,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use schemars::{JsonSchema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::{Number, Value, json};

use crate::api::{self, MemcachedSpec, MemcachedStatus};

const PLURAL: &str = "memcacheds";
const SINGULAR: &str = "memcached";

/// The definition of `memcacheds.cache.example.com`.
///
/// # Errors
///
/// Where a schema is not one that Kubernetes has words for.
pub fn definition() -> Result<Value, serde_json::Error> {
    let mut definition = serde_json::to_value(typed()?)?;
    whole_numbers(&mut definition);
    Ok(definition)
}

/// By way of the typed definition, a word that Kubernetes does not know cannot get in.
fn typed() -> Result<CustomResourceDefinition, serde_json::Error> {
    Ok(CustomResourceDefinition {
        metadata: ObjectMeta { name: Some(format!("{PLURAL}.{}", api::GROUP)), ..ObjectMeta::default() },
        spec: CustomResourceDefinitionSpec {
            group: api::GROUP.to_owned(),
            names: names(),
            scope: "Namespaced".to_owned(),
            conversion: Some(CustomResourceConversion { strategy: "None".to_owned(), webhook: None }),
            versions: vec![version(api::VERSION, true, size_up_to_three())?, version("v1", false, size_up_to_ten())?],
            preserve_unknown_fields: None,
        },
        status: None,
    })
}

fn names() -> CustomResourceDefinitionNames {
    CustomResourceDefinitionNames {
        kind: api::KIND.to_owned(),
        list_kind: Some(format!("{}List", api::KIND)),
        plural: PLURAL.to_owned(),
        singular: Some(SINGULAR.to_owned()),
        short_names: Some(vec!["mc".to_owned()]),
        categories: None,
    }
}

fn size_up_to_three() -> Value {
    json!({ "minimum": 1, "maximum": 3 })
}

/// A rule in place of a maximum, for the sake of its message.
fn size_up_to_ten() -> Value {
    json!({ "x-kubernetes-validations": [
        { "rule": "self >= 1 && self <= 10", "message": "Size must be between 1 and 10." },
    ] })
}

fn version(name: &str, storage: bool, size: Value) -> Result<CustomResourceDefinitionVersion, serde_json::Error> {
    let schema = serde_json::from_value(schema(size))?;
    Ok(CustomResourceDefinitionVersion {
        name: name.to_owned(),
        served: true,
        storage,
        schema: Some(CustomResourceValidation { open_api_v3_schema: Some(schema) }),
        subresources: Some(CustomResourceSubresources {
            scale: None,
            status: Some(CustomResourceSubresourceStatus(json!({}))),
        }),
        additional_printer_columns: Some(columns()),
        ..CustomResourceDefinitionVersion::default()
    })
}

fn columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column("Size", "integer", ".spec.size", "The desired number of servers."),
        column("Ready", "integer", ".status.readyReplicas", "The number of servers that are ready."),
        column(
            "Available",
            "string",
            r#".status.conditions[?(@.type=="Available")].status"#,
            "Whether the desired number of servers is ready.",
        ),
        column("Age", "date", ".metadata.creationTimestamp", "The time since it was created."),
    ]
}

fn column(name: &str, type_: &str, path: &str, description: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: type_.to_owned(),
        json_path: path.to_owned(),
        description: Some(description.to_owned()),
        ..CustomResourceColumnDefinition::default()
    }
}

fn schema(size: Value) -> Value {
    json!({
        "type": "object",
        "description": "A set of Memcached servers, reached through one Service.",
        "properties": {
            "apiVersion": {
                "type": "string",
                "description": "The version of the schema that this object is written in.",
            },
            "kind": {
                "type": "string",
                "description": "The kind of this object: Memcached.",
            },
            // The API server describes this one itself, and allows nothing else here.
            "metadata": { "type": "object" },
            "spec": spec(size),
            "status": status(),
        },
    })
}

fn spec(size: Value) -> Value {
    let mut spec = of::<MemcachedSpec>();
    merge(&mut spec, json!({ "default": {}, "properties": { "size": size } }));
    spec
}

fn status() -> Value {
    let mut status = of::<MemcachedStatus>();
    merge(&mut status, json!({ "properties": { "conditions": conditions() } }));
    // The host may have something to say before the plugin has.
    if let Value::Object(status) = &mut status {
        status.remove("required");
    }
    status
}

/// The schema of a type, in the words of a CRD: nothing is referred to, and descriptions are
/// wrapped by whoever shows them.
fn of<T: JsonSchema>() -> Value {
    let mut settings =
        SchemaSettings::openapi3().with_transform(RecursiveTransform(|schema: &mut schemars::Schema| {
            schema.remove("$schema");
            schema.remove("title");
            if let Some(Value::String(description)) = schema.get_mut("description") {
                *description = description.replace('\n', " ");
            }
        }));
    settings.inline_subschemas = true;
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// The typed schema holds limits as floating-point numbers; a CRD has `maximum: 3`, not `3.0`.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|float| float.fract() == 0.0) {
                *number = Number::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// Lay one JSON value over another.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// The schema of `metav1.Condition`, as a map by `type`. It stands here in full because the
/// published description of that type has no patterns and no lengths.
fn conditions() -> Value {
    json!({
        "type": "array",
        "description": "What was found when the Memcached was last decided about: Available, Progressing and Degraded.",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the current state.",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "type": "string",
                    "description": "The aspect, in CamelCase or in foo.example.com/CamelCase.",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": {
                    "type": "string",
                    "description": "Whether it holds: True, False or Unknown.",
                    "enum": ["True", "False", "Unknown"],
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "description": "The metadata.generation that the condition was found for.",
                    "minimum": 0,
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "The last time that the condition went from one status to another.",
                },
                "reason": {
                    "type": "string",
                    "description": "One CamelCase word for the reason of the last transition.",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "type": "string",
                    "description": "Details for a person. May be empty.",
                    "maxLength": 32768,
                },
            },
        },
    })
}
