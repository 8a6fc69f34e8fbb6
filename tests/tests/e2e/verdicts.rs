//! What `hotshoe test` says of objects by their CRD, beside what the API server says of the same objects.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use hotshoe_components::reconcile;
use hotshoe_tests::guests::caches;
use hotshoe_tests::host::program;
use hotshoe_tests::kube::Refused;
use hotshoe_tests::{ControlPlane, Scene, run, wait};
use http::Method;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

const GROUP: &str = "verdicts.example.com";

/// What the schema of the CRD says of `spec`.
fn spec() -> Value {
    let text = |more: Value| merged(json!({ "type": "string" }), more);
    let ruled = |schema: Value, rule: Value| merged(schema, json!({ "x-kubernetes-validations": [rule] }));
    let properties = json!({
        "size": { "type": "integer", "format": "int32", "minimum": 1, "maximum": 10, "default": 1 },
        "share": { "type": "number", "exclusiveMinimum": true, "minimum": 0, "multipleOf": 0.5 },
        "mode": text(json!({ "enum": ["Fast", "Slow"], "default": "Fast" })),
        "word": text(json!({ "pattern": "^[a-z]([a-z0-9-]*[a-z0-9])?$", "maxLength": 5 })),
        "part": text(json!({ "pattern": r"\d\d" })),
        "when": text(json!({ "format": "date-time" })),
        "moment": text(json!({ "format": "date-time" })),
        "day": text(json!({ "format": "date" })),
        "id": text(json!({ "format": "uuid" })),
        "address": text(json!({ "format": "ipv4" })),
        "bytes": text(json!({ "format": "byte" })),
        "maybe": text(json!({ "nullable": true })),
        "either": { "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] },
        "names": { "type": "array", "x-kubernetes-list-type": "set", "maxItems": 3, "items": text(json!({ "maxLength": 9 })) },
        "ports": {
            "type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": ruled(
                json!({ "type": "object", "required": ["name", "port"], "properties": {
                    "name": text(json!({ "maxLength": 20 })), "port": { "type": "integer" },
                } }),
                json!({ "rule": "self.port >= oldSelf.port", "message": "a port may not go down" }),
            ),
        },
        "labels": { "type": "object", "maxProperties": 2, "additionalProperties": text(json!({ "minLength": 2 })) },
        "any": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        "target": {
            "type": "object",
            "properties": { "file": text(json!({})), "bucket": text(json!({})) },
            "oneOf": [{ "required": ["file"] }, { "required": ["bucket"] }],
        },
        "fixed": ruled(text(json!({ "maxLength": 20 })), json!({ "rule": "self == oldSelf", "message": "it may not change" })),
        "even": ruled(json!({ "type": "integer" }), json!({ "rule": "self % 2 == 0", "message": "it is odd" })),
        "memory": ruled(
            text(json!({ "maxLength": 20 })),
            json!({ "rule": "isQuantity(self) && quantity(self).isLessThan(quantity('2Gi'))", "message": "too much" }),
        ),
        "link": ruled(
            text(json!({ "maxLength": 50 })),
            json!({ "rule": "isURL(self) && url(self).getScheme() == 'https'", "message": "no https" }),
        ),
        "host-name": text(json!({ "maxLength": 20 })),
    });
    let rules = json!([
        { "rule": "!has(self.share) || self.share <= self.size", "message": "the share is larger than the size" },
        { "rule": "!has(self.names) || self.names.all(name, name.startsWith('a'))", "messageExpression": "'all begin ' + 'with a'" },
        { "rule": "!has(self.labels) || !('forbidden' in self.labels)", "fieldPath": ".labels", "message": "a key is forbidden" },
        { "rule": "!has(self.when) || self.when > timestamp('2026-01-01T00:00:00Z')", "message": "too early" },
        { "rule": "!has(self.host__dash__name) || self.host__dash__name.matches('^[a-z.]+$')", "message": "no host" },
        { "rule": "!has(self.any) || self.mode == 'Fast'", "message": "only in a hurry", "reason": "FieldValueForbidden" },
        { "rule": "!has(self.bytes) || self.bytes.size() < 4", "message": "too long" },
    ]);
    json!({ "type": "object", "required": ["mode"], "properties": properties, "x-kubernetes-validations": rules })
}

fn merged(mut schema: Value, more: Value) -> Value {
    if let (Some(schema), Value::Object(more)) = (schema.as_object_mut(), more) {
        schema.extend(more);
    }
    schema
}

fn crd(spec: Value) -> Value {
    let rules = json!([{ "rule": "self.metadata.name.size() <= 30", "message": "the name is too long" }]);
    let schema = json!({
        "type": "object",
        "properties": { "metadata": { "type": "object" }, "spec": spec },
        "x-kubernetes-validations": rules,
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("verdicts.{GROUP}") },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": { "kind": "Verdict", "listKind": "VerdictList", "plural": "verdicts", "singular": "verdict" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    })
}

/// Returns a schema that says no more than which fields there are and of which type.
fn lax(schema: &Value) -> Value {
    let Value::Object(keywords) = schema else { return schema.clone() };
    let kept = ["type", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "nullable"];
    let mut lax: Map<String, Value> = keywords
        .iter()
        .filter(|(keyword, _)| kept.contains(&keyword.as_str()))
        .map(|(keyword, value)| (keyword.clone(), value.clone()))
        .collect();
    if let Some(Value::Object(properties)) = keywords.get("properties") {
        let properties: Value = properties.iter().map(|(name, schema)| (name.clone(), self::lax(schema))).collect();
        lax.insert("properties".into(), properties);
    }
    for below in ["items", "additionalProperties"] {
        lax.extend(keywords.get(below).map(|schema| (below.to_owned(), self::lax(schema))));
    }
    Value::Object(lax)
}

fn object(name: &str, spec: &Value) -> Value {
    let metadata = json!({ "name": name, "namespace": "default" });
    json!({ "apiVersion": format!("{GROUP}/v1"), "kind": "Verdict", "metadata": metadata, "spec": spec })
}

/// Objects that are created.
fn created() -> Vec<Value> {
    let ok_and_not = [
        json!([{}, { "size": 1, "mode": "Slow" }, { "mode": null }, { "size": null }, { "size": 0 }, { "size": 11 }, { "size": "3" }]),
        json!([{ "size": 3_000_000_000_i64 }, { "size": 2.5 }, { "size": true }, { "sise": 1 }]),
        json!([{ "share": 1 }, { "share": 0 }, { "share": 0.5 }, { "share": 0.7 }, { "share": 2 }, { "share": 2, "size": 2 }, { "share": 1.5, "size": 2 }, { "share": "1" }]),
        json!([{ "mode": "Off" }, { "mode": "" }]),
        json!([{ "word": "a-b" }, { "word": "a-" }, { "word": "abcdef" }, { "word": "" }, { "word": "ä" }]),
        json!([{ "part": "ab12cd" }, { "part": "1" }]),
        json!([{ "when": "2026-05-01T00:00:00Z" }, { "when": "2025-05-01T00:00:00Z" }, { "when": "2026-05-01" }]),
        json!([{ "when": "2026-05-01T00:00:00.5+02:00" }, { "when": "2026-05-01T25:00:00Z" }]),
        json!([{ "moment": "2026-05-01T00:00:00+99:99" }, { "moment": "2026-05-01T00:00:00,5z" }, { "moment": "2026-05-01t00:00:00.Z" }]),
        json!([{ "moment": "2026-05-01T23:59:60Z" }, { "moment": "2026-05-01T00:00Z" }, { "moment": "2026-05-01T00:00:00" }, { "moment": "2026-05-01T00:00:00ZTZ" }]),
        json!([{ "moment": "2026-05-01 00:00:00Z" }, { "moment": "0000-02-29T00:00:00Z" }, { "moment": "2026-05-01T00:00:00 1Z" }, { "moment": "" }]),
        json!([{ "day": "2024-02-29" }, { "day": "2026-02-29" }, { "day": "yesterday" }, { "day": "2026-1-2" }, { "day": "0000-01-01" }, { "day": "02026-01-01" }]),
        json!([{ "id": "5f0f6f0e-8f4f-4d0e-9a55-0c1f6a1d9a01" }, { "id": "5f0f6f0e" }]),
        json!([{ "address": "192.0.2.1" }, { "address": "192.0.2.256" }, { "bytes": "YQ==" }, { "bytes": "?" }, { "bytes": "YWJjZA==" }]),
        json!([{ "maybe": null }, { "maybe": "a" }, { "word": null }, { "names": [null] }]),
        json!([{ "either": 1 }, { "either": "1" }, { "either": true }, { "either": 1.5 }]),
        json!([{ "names": [] }, { "names": ["a", "ab"] }, { "names": ["b"] }, { "names": ["a", "a"] }, { "names": ["a", "b", "c", "d"] }]),
        json!([{ "ports": [{ "name": "a", "port": 1 }] }, { "ports": [{ "name": "a" }] }, { "ports": {} }]),
        json!([{ "ports": [{ "name": "a", "port": 1 }, { "name": "a", "port": 2 }] }, { "ports": [{ "name": "a", "port": 1, "x": 1 }] }]),
        json!([{ "labels": { "a": "bc" } }, { "labels": { "a": "b" } }, { "labels": { "forbidden": "bc" } }, { "labels": { "a": "bc", "b": "bc", "c": "bc" } }]),
        json!([{ "any": { "x": [1, { "y": 2 }] } }, { "any": {}, "mode": "Slow" }, { "any": [] }]),
        json!([{ "target": { "file": "a" } }, { "target": {} }, { "target": { "file": "a", "bucket": "b" } }]),
        json!([{ "fixed": "a" }, { "even": 2 }, { "even": 3 }]),
        json!([{ "memory": "1Gi" }, { "memory": "3Gi" }, { "memory": "much" }]),
        json!([{ "link": "https://example.com/a" }, { "link": "http://example.com" }, { "link": "example" }]),
        json!([{ "host-name": "a.b" }, { "host-name": "A" }]),
    ];
    let specs = ok_and_not.iter().flat_map(|some| some.as_array().cloned().unwrap_or_default());
    let mut objects: Vec<Value> = specs.enumerate().map(|(at, spec)| object(&format!("new-{at}"), &spec)).collect();
    objects.push(object(&"a".repeat(30), &json!({})));
    objects.push(object(&"a".repeat(31), &json!({})));
    objects.push(object("No_name", &json!({})));
    objects
}

/// Objects that were stored under the lax schema, and what takes their place.
fn changed() -> Vec<(Value, Value)> {
    let pairs = [
        (json!({ "fixed": "a" }), json!({ "fixed": "a", "size": 2 })),
        (json!({ "fixed": "a" }), json!({ "fixed": "b" })),
        (json!({ "fixed": "a" }), json!({})),
        (json!({}), json!({ "fixed": "b" })),
        (
            json!({ "ports": [{ "name": "a", "port": 5 }, { "name": "b", "port": 1 }] }),
            json!({ "ports": [{ "name": "b", "port": 1 }, { "name": "a", "port": 5 }] }),
        ),
        (json!({ "ports": [{ "name": "a", "port": 5 }] }), json!({ "ports": [{ "name": "a", "port": 4 }] })),
        // What was wrong already may stay, as long as it does not change.
        (json!({ "size": 50 }), json!({ "size": 50, "mode": "Slow" })),
        (json!({ "size": 50 }), json!({ "size": 49 })),
        (json!({ "even": 3 }), json!({ "even": 3, "mode": "Slow" })),
        (json!({ "even": 3 }), json!({ "even": 5 })),
        (json!({ "names": ["b"] }), json!({ "names": ["b"], "mode": "Slow" })),
        (json!({ "labels": { "a": "b" } }), json!({ "labels": { "a": "b", "c": "de" } })),
        (json!({ "target": {} }), json!({ "target": {}, "size": 2 })),
        (json!({ "target": {} }), json!({ "target": { "file": "a", "bucket": "b" } })),
    ];
    let named = |(at, (old, new)): (usize, (Value, Value))| {
        let name = format!("old-{at}");
        (object(&name, &old), object(&name, &new))
    };
    pairs.into_iter().enumerate().map(named).collect()
}

/// What one of the two says of an object: nothing, or why it is refused.
type Verdicts = BTreeMap<String, Option<String>>;

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().expect("a name").to_owned()
}

/// Asks `hotshoe test`, by a case for each object.
fn offline(crd: &Value) -> Verdicts {
    let folder = TempDir::new().expect("a folder");
    let write = |path: &str, text: String| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    write(
        "plugin.yaml",
        "apiVersion: hotshoe.dev/v1alpha1\nkind: Plugin\nmetadata: {name: demo}\nspec:\n  source: {file: demo.wasm}\n"
            .into(),
    );
    write("crds/verdicts.yaml", crd.to_string());
    let component = reconcile("(i32.const 256)").of(GROUP, "v1", "Verdict").component();
    fs::write(folder.path().join("demo.wasm"), component).expect("a component");
    for object in created() {
        let case = json!({ "name": name_of(&object), "parent": object });
        write(&format!("cases/{}.yaml", name_of(&object)), case.to_string());
    }
    for (old, new) in changed() {
        let case = json!({ "name": name_of(&new), "call": "validate", "parent": new, "old": old });
        write(&format!("cases/{}.yaml", name_of(&new)), case.to_string());
    }
    let output = Command::new(program())
        .args(["test", ".", "-o", "json"])
        .current_dir(folder.path())
        .env("XDG_CACHE_HOME", caches())
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let records: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert!(!said.contains("not checked"), "{said}");
    let verdict = |record: &Value| {
        let name = record["name"].as_str().expect("a name").to_owned();
        let refused = record["difference"].as_str().filter(|difference| difference.contains("refused:"));
        (name, refused.map(str::to_owned))
    };
    records.as_array().expect("records").iter().map(verdict).collect()
}

/// Creates or replaces an object, as `kubectl` does with its strict validation, and stores nothing.
async fn online(scene: &Scene, mut object: Value, old: Option<&Value>) -> Option<String> {
    let path = format!("/apis/{GROUP}/v1/namespaces/{}/verdicts", scene.namespace);
    object["metadata"]["namespace"] = scene.namespace.clone().into();
    let (method, path) = match old {
        None => (Method::POST, path),
        Some(old) => {
            object["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
            (Method::PUT, format!("{path}/{}", name_of(&object)))
        }
    };
    let path = format!("{path}?dryRun=All&fieldValidation=Strict");
    match scene.admin.request(method, &path, "application/json", &object).await {
        Ok(_) => None,
        Err(Refused { code: 400 | 422, message, .. }) => Some(message),
        Err(other) => panic!("{object:#}: {other:?}"),
    }
}

#[test]
fn hotshoe_test_refuses_what_the_api_server_refuses_and_nothing_else() {
    run(async {
        let strict = crd(spec());
        let offline = offline(&strict);
        let scene = Scene::new(ControlPlane::shared().await, "verdicts").await;
        let plane = ControlPlane::shared().await;
        let file = |crd: &Value| {
            let file = tempfile::NamedTempFile::new().expect("a file");
            fs::write(file.path(), crd.to_string()).expect("a file");
            file
        };
        plane.install_definition(file(&crd(lax(&spec()))).path()).await;
        let mut stored = BTreeMap::new();
        for (mut old, _) in changed() {
            old["metadata"]["namespace"] = scene.namespace.clone().into();
            let path = format!("/apis/{GROUP}/v1/namespaces/{}/verdicts", scene.namespace);
            let object = wait::until("the kind is served", wait::TIMEOUT, async || {
                let created = scene.admin.request(Method::POST, &path, "application/json", &old).await;
                created.map_err(|refused| refused.message)
            })
            .await;
            stored.insert(name_of(&object), object);
        }
        plane.install_definition(file(&strict).path()).await;
        wait::until("the strict schema holds", wait::TIMEOUT, async || {
            let refused = online(&scene, object("probe", &json!({ "even": 3 })), None).await;
            refused.ok_or_else(|| "an odd number is admitted".to_owned())
        })
        .await;
        let mut others = Vec::new();
        let new = created().into_iter().map(|new| (new, None));
        let changed = changed().into_iter().map(|(old, new)| {
            let old = stored.get(&name_of(&old));
            (new, old)
        });
        let all: Vec<_> = new.chain(changed).collect();
        for (object, old) in &all {
            let (said, here) = (online(&scene, object.clone(), *old).await, &offline[&name_of(object)]);
            if said.is_some() != here.is_some() {
                others.push(format!("{}\n  the API server: {said:?}\n  hotshoe test: {here:?}", object["spec"]));
            }
        }
        assert!(others.is_empty(), "of {}:\n{}", all.len(), others.join("\n"));
        let refused = offline.values().flatten().count();
        assert!(refused > 40 && offline.len() - refused > 30, "{refused} of {}", offline.len());
    });
}
