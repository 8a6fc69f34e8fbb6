//! What makes the API server have a plugin convert its parents: a patch of their CustomResourceDefinition. Pure.
//!
//! Conversion is only ever added. Without it, objects that are stored in another version could not be read rightly, so
//! it is an administrator who removes it. The versions that are served once a plugin converts them are delivered
//! unserved: without conversion the API server would drop what only they have.
//!
//! `spec.versions` can be owned as a whole only. The host gives it up once it has changed it, so that its authors can
//! apply the definition again without a conflict.

use serde_json::{Value, json};

use hotshoe_core::model::object::HOST_MANAGER;
use hotshoe_crd::SERVED_BY_CONVERSION;

/// Why a definition is not changed.
#[derive(Debug, thiserror::Error)]
#[error(
    "the CustomResourceDefinition {0} has conversion by another webhook; if the plugin is to convert, remove that: \
     `kubectl patch crd {0} --type=merge -p '{{\"spec\":{{\"conversion\":{{\"strategy\":\"None\",\"webhook\":null}}}}}}'`"
)]
pub struct ForeignConversion(String);

/// Returns the JSON patch after which a definition has this conversion, at this path, and serves the versions that need
/// it; `None` if it does already. The patch fails for another version of the definition.
///
/// # Errors
/// When the definition has conversion by another webhook.
pub fn of(definition: &Value, conversion: &Value, path: &str) -> Result<Option<Value>, ForeignConversion> {
    let present = definition.pointer("/spec/conversion").unwrap_or(&Value::Null);
    if is_foreign(present, path) {
        return Err(ForeignConversion(text(definition, "/metadata/name").to_owned()));
    }
    let mut patch = Vec::new();
    if !covers(present, conversion) {
        patch.push(json!({ "op": "add", "path": "/spec/conversion", "value": conversion }));
    }
    let listed = definition.pointer("/metadata/annotations").and_then(|all| all.get(SERVED_BY_CONVERSION)?.as_str());
    let listed: Vec<&str> = listed.unwrap_or_default().split(',').map(str::trim).collect();
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten().enumerate();
    let unserved = versions.filter(|(_, version)| {
        version.get("served") == Some(&Value::Bool(false)) && listed.contains(&text(version, "/name"))
    });
    patch.extend(
        unserved.map(
            |(index, _)| json!({ "op": "replace", "path": format!("/spec/versions/{index}/served"), "value": true }),
        ),
    );
    Ok((!patch.is_empty()).then(|| of_version(definition, patch)))
}

/// Returns the JSON patch by which the host gives up the ownership of `spec.versions`; `None` if it has none. The patch
/// fails for another version of the definition.
pub fn giving_up_versions(definition: &Value) -> Option<Value> {
    let path = owned_versions(definition)?;
    Some(of_version(definition, vec![json!({ "op": "remove", "path": path })]))
}

/// Returns a JSON patch of this version of a definition alone.
fn of_version(definition: &Value, mut patch: Vec<Value>) -> Value {
    let version = text(definition, "/metadata/resourceVersion");
    patch.insert(0, json!({ "op": "test", "path": "/metadata/resourceVersion", "value": version }));
    patch.into()
}

/// Returns the JSON pointer to what says in `managedFields` that the host owns `spec.versions`, and nothing else.
fn owned_versions(definition: &Value) -> Option<String> {
    let entries = definition.pointer("/metadata/managedFields")?.as_array()?;
    entries.iter().enumerate().find_map(|(index, entry)| {
        let is_own = entry["manager"] == HOST_MANAGER && text(entry, "/subresource").is_empty();
        let fields = entry.get("fieldsV1").filter(|_| is_own)?.as_object()?;
        let spec = fields.get("f:spec")?.as_object()?;
        spec.get("f:versions")?;
        // A node without members would stand for all that is below it.
        let rest = match (fields.len(), spec.len()) {
            (1, 1) => "",
            (_, 1) => "/fieldsV1/f:spec",
            _ => "/fieldsV1/f:spec/f:versions",
        };
        Some(format!("/metadata/managedFields/{index}{rest}"))
    })
}

/// Returns whether a conversion asks another webhook than the one with this path. A host may have been elsewhere
/// before.
fn is_foreign(conversion: &Value, path: &str) -> bool {
    let [url, service] = ["url", "service/path"].map(|at| text(conversion, &format!("/webhook/clientConfig/{at}")));
    text(conversion, "/strategy") == "Webhook" && ![url, service].iter().any(|asked| asked.ends_with(path))
}

/// Returns the text at this JSON pointer; an empty one if there is none.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether a live object has everything that is desired. The API server adds defaults to what was written, and
/// others may add members and webhooks of their own, which are to be found by name.
pub fn covers(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            desired.iter().all(|(key, desired)| live.get(key).is_some_and(|live| covers(live, desired)))
        }
        (Value::Array(live), Value::Array(desired)) if desired.iter().all(|one| !text(one, "/name").is_empty()) => {
            let same = |desired: &Value| live.iter().find(|live| text(live, "/name") == text(desired, "/name"));
            desired.iter().all(|desired| same(desired).is_some_and(|live| covers(live, desired)))
        }
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len() && live.iter().zip(desired).all(|(live, desired)| covers(live, desired))
        }
        (live, desired) => live == desired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/convert/demo";

    fn conversion(bundle: &str) -> Value {
        let client = json!({ "url": format!("https://127.0.0.1:9{PATH}"), "caBundle": bundle });
        json!({ "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": client } })
    }

    fn definition(conversion: &Value) -> Value {
        let version = |name: &str, served: bool| json!({ "name": name, "served": served });
        json!({
            "metadata": {
                "name": "things.g",
                "resourceVersion": "7",
                "annotations": { SERVED_BY_CONVERSION: "v1beta1, v1" },
            },
            "spec": {
                "conversion": conversion,
                "versions": [version("v1alpha1", true), version("v1beta1", false), version("v2", false), version("v1", true)],
            },
        })
    }

    #[test]
    fn conversion_is_added_and_the_versions_that_need_it_are_served() {
        let patch = of(&definition(&json!({ "strategy": "None" })), &conversion("a"), PATH).unwrap().unwrap();
        let expected = json!([
            { "op": "test", "path": "/metadata/resourceVersion", "value": "7" },
            { "op": "add", "path": "/spec/conversion", "value": conversion("a") },
            { "op": "replace", "path": "/spec/versions/1/served", "value": true },
        ]);
        assert_eq!(patch, expected);
    }

    #[test]
    fn what_is_as_desired_is_not_patched_and_another_bundle_is() {
        let mut present = definition(&conversion("a"));
        present["spec"]["versions"][1]["served"] = true.into();
        assert!(of(&present, &conversion("a"), PATH).unwrap().is_none());
        let patch = of(&present, &conversion("b"), PATH).unwrap().unwrap();
        assert_eq!((patch.as_array().unwrap().len(), &patch[1]["path"]), (2, &json!("/spec/conversion")));
    }

    #[test]
    fn the_list_of_versions_is_given_up_and_everything_else_stays_owned() {
        let entry =
            |manager: &str, fields: Value| json!({ "manager": manager, "operation": "Update", "fieldsV1": fields });
        let theirs = entry("kubectl", json!({ "f:spec": { "f:versions": {} } }));
        let given_up = |fields: Value| {
            let mut present = definition(&conversion("a"));
            present["metadata"]["managedFields"] = json!([theirs, entry(HOST_MANAGER, fields)]);
            giving_up_versions(&present)
        };
        for (fields, rest) in [
            (json!({ "f:spec": { "f:versions": {}, "f:conversion": {} } }), "/fieldsV1/f:spec/f:versions"),
            (json!({ "f:spec": { "f:versions": {} }, "f:metadata": {} }), "/fieldsV1/f:spec"),
            (json!({ "f:spec": { "f:versions": {} } }), ""),
        ] {
            let expected = json!([
                { "op": "test", "path": "/metadata/resourceVersion", "value": "7" },
                { "op": "remove", "path": format!("/metadata/managedFields/1{rest}") },
            ]);
            assert_eq!(given_up(fields), Some(expected));
        }
        assert_eq!(given_up(json!({ "f:spec": { "f:conversion": {} } })), None);
        assert_eq!(giving_up_versions(&definition(&conversion("a"))), None);
    }

    #[test]
    fn the_conversion_of_another_webhook_stays_and_is_named() {
        for path in ["/convert/other", ""] {
            let error = of(&definition(&conversion("a")), &conversion("a"), &format!("{path}/x")).unwrap_err();
            assert!(error.to_string().contains("things.g has conversion by another webhook"), "{error}");
        }
    }

    #[test]
    fn what_others_add_is_not_missed_and_what_they_change_is() {
        let desired = json!({ "webhooks": [{ "name": "a", "rules": [{ "scope": "Cluster" }], "caBundle": "x" }] });
        let mut live = json!({
            "metadata": { "uid": "u" },
            "webhooks": [
                { "name": "theirs" },
                { "name": "a", "rules": [{ "scope": "Cluster" }], "caBundle": "x", "objectSelector": {} },
            ],
        });
        assert!(covers(&live, &desired));
        for (pointer, changed) in [
            ("/webhooks/1/caBundle", json!("")),
            ("/webhooks/1/rules", json!([])),
            ("/webhooks/1/rules", json!([{ "scope": "Cluster" }, { "scope": "Namespaced" }])),
            ("/webhooks/1/name", json!("b")),
            ("/webhooks", json!([])),
        ] {
            let before = std::mem::replace(live.pointer_mut(pointer).unwrap(), changed);
            assert!(!covers(&live, &desired), "{pointer}");
            *live.pointer_mut(pointer).unwrap() = before;
        }
    }
}
