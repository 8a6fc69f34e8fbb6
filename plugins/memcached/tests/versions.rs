//! The versions of a Memcached: what is written in one of them is read, edited and written in each other one.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test says what broke by breaking")]

use hotshoe_sdk::{Object, ObjectRef, ResourceKind};
use memcached::Memcached;
use memcached::ports::ANNOTATION;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::{Map, Value, json};

const VERSIONS: [&str; 3] = ["v1alpha1", "v1beta1", "v1"];

fn object(version: &str, json: &Value) -> Object {
    let kind = ResourceKind::new("cache.example.com", version, "Memcached");
    let reference = ObjectRef { kind, namespace: Some("shop".to_owned()), name: "cache".to_owned() };
    Object { reference, json: json.to_string() }
}

/// Converts an object, as JSON, from one version to another.
fn convert(json: &Value, from: &str, to: &str) -> Value {
    let converted = hotshoe_sdk::convert::<Memcached>(vec![object(from, json)], to).unwrap().remove(0);
    assert_eq!(converted.reference, object(to, json).reference);
    serde_json::from_str(&converted.json).unwrap()
}

fn with_spec(spec: Value) -> Value {
    json!({ "metadata": { "name": "cache", "namespace": "shop" }, "spec": spec })
}

fn port(name: &str, number: i32) -> Value {
    json!({ "name": name, "containerPort": number })
}

#[test]
fn each_field_has_its_place_in_each_version() {
    let sized = with_spec(json!({ "size": 3, "containerPort": 12000 }));
    let beta = with_spec(json!({ "replicas": 3, "ports": [port("memcached", 12000)] }));
    for version in ["v1alpha1", "v1"] {
        assert_eq!(convert(&sized, version, "v1beta1"), beta);
        assert_eq!(convert(&beta, "v1beta1", version), sized);
    }
    assert_eq!(convert(&sized, "v1alpha1", "v1"), sized);
    assert_eq!(convert(&sized, "v1", "v1alpha1"), sized);
}

#[test]
fn an_object_that_only_one_version_allows_is_read_in_each() {
    for replicas in [0, 11, 1000] {
        let beta = with_spec(json!({ "replicas": replicas, "ports": [port("memcached", 11211)] }));
        for version in ["v1alpha1", "v1"] {
            assert_eq!(convert(&beta, "v1beta1", version).pointer("/spec/size"), Some(&json!(replicas)));
        }
    }
}

#[test]
fn an_edit_in_another_version_is_what_is_read() {
    let beta = with_spec(json!({ "replicas": 3, "ports": [port("metrics", 9150), port("memcached", 11212)] }));
    for version in ["v1alpha1", "v1"] {
        let mut stored = convert(&beta, "v1beta1", version);
        *stored.pointer_mut("/spec").unwrap() = json!({ "size": 2, "containerPort": 12000 });
        let edited = convert(&stored, version, "v1beta1");
        let expected = json!({ "replicas": 2, "ports": [port("metrics", 9150), port("memcached", 12000)] });
        assert_eq!(edited, with_spec(expected));
    }
}

#[test]
fn an_annotation_that_a_user_writes_in_v1beta1_is_no_port() {
    let mut beta = with_spec(json!({ "replicas": 3, "ports": [port("memcached", 11211)] }));
    let metadata = beta.pointer_mut("/metadata").unwrap().as_object_mut().unwrap();
    metadata.insert("annotations".to_owned(), json!({ ANNOTATION: r#"[{"name":"forged","containerPort":1}]"# }));
    let stored = convert(&beta, "v1beta1", "v1");
    assert_eq!(stored.pointer("/metadata/annotations"), None);
}

fn annotations() -> impl Strategy<Value = Option<Map<String, Value>>> {
    let all = btree_map("example.com/[a-z]{1,4}", "[ -~]{0,8}", 1..3);
    option::of(all.prop_map(|all| all.into_iter().map(|(key, value)| (key, value.into())).collect()))
}

/// Any ports that the schema allows, perhaps none or without a number, with different names.
fn ports() -> impl Strategy<Value = Value> {
    let names = subsequence(vec!["cache", "memcached", "metrics", "x"], 0..=4).prop_shuffle();
    (names, vec(option::of(1..=65535), 4)).prop_map(|(names, numbers)| {
        let ports = names.into_iter().zip(numbers).map(|(name, number)| match number {
            Some(number) => port(name, number),
            None => json!({ "name": name }),
        });
        ports.collect()
    })
}

fn status() -> impl Strategy<Value = Option<Value>> {
    option::of(any::<i32>().prop_map(|replicas| json!({ "replicas": replicas, "nodes": ["a"], "conditions": [] })))
}

/// An object of any version, with any of its fields left out.
fn any_object() -> impl Strategy<Value = (&'static str, Value)> {
    let number = || option::of(any::<i32>().prop_map(Value::from));
    let sizes = (number(), number()).prop_map(|(size, port)| [("size", size), ("containerPort", port)]);
    let replicas =
        (number(), option::of(ports())).prop_map(|(replicas, ports)| [("replicas", replicas), ("ports", ports)]);
    let spec = prop_oneof![
        sizes.clone().prop_map(|spec| ("v1alpha1", spec)),
        sizes.prop_map(|spec| ("v1", spec)),
        replicas.prop_map(|spec| ("v1beta1", spec)),
    ];
    let members = |fields: [(&str, Option<Value>); 2]| -> Map<String, Value> {
        fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    };
    (spec, any::<bool>(), status(), annotations()).prop_map(move |((version, spec), has_spec, status, annotations)| {
        let metadata = [("name", Some(json!("cache"))), ("annotations", annotations.map(Value::Object))];
        let mut whole = members([("spec", has_spec.then(|| members(spec).into())), ("status", status)]);
        whole.insert("metadata".to_owned(), members(metadata).into());
        (version, whole.into())
    })
}

proptest! {
    #[test]
    fn whatever_is_written_in_one_version_comes_back_from_each_other_one((own, before) in any_object()) {
        for other in VERSIONS {
            let there = convert(&before, own, other);
            prop_assert_eq!(&convert(&there, other, own), &before, "by way of {}", other);
        }
    }
}
