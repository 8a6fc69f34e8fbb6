//! What a Tenant's namespaces get.
#![allow(
    missing_docs,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what broke by breaking"
)]

use hotshoe_sdk::{Answer, Children, Decision, Object, ObjectRef, Observation, ResourceKind, Status, reconcile};
use serde_json::{Value, json};
use tenant::Tenants;

fn object(group: &str, kind: &str, place: Option<&str>, json: Value) -> Object {
    let kind = ResourceKind::new(group, if group.starts_with("platform") { "v1alpha1" } else { "v1" }, kind);
    Object {
        reference: ObjectRef { kind, namespace: place.map(str::to_owned), name: "blue".into() },
        json: json.to_string(),
    }
}

fn decided(namespaces: &[&str], children: Vec<Object>) -> (Vec<Object>, Decision) {
    let spec = json!({ "spec": { "namespaces": namespaces, "quota": { "pods": 10 } } });
    let parent = object("platform.example.com", "Tenant", None, spec);
    match reconcile::<Tenants>(Observation { parent, children, config: "{}".into(), ..Observation::default() }) {
        Ok(Answer::Decided(decision)) => match decision.children.clone() {
            Children::Exactly(children) => (children, decision),
            Children::Keep => panic!("{decision:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_namespace_gets_a_quota_and_a_policy_that_lets_the_others_in() {
    let (children, _) = decided(&["a", "b"], Vec::new());
    let places: Vec<_> = children
        .iter()
        .map(|child| (child.reference.kind.kind.as_str(), child.reference.namespace.as_deref()))
        .collect();
    let expected = [("NetworkPolicy", "a"), ("ResourceQuota", "a"), ("NetworkPolicy", "b"), ("ResourceQuota", "b")];
    assert_eq!(places, expected.map(|(kind, place)| (kind, Some(place))));
    assert!(children.iter().all(|child| child.reference.name == "tenant-blue"));
    let policy: Value = serde_json::from_str(&children[0].json).unwrap();
    let from = &policy["spec"]["ingress"][0]["from"][0]["namespaceSelector"]["matchExpressions"][0]["values"];
    assert_eq!(*from, json!(["a", "b"]));
    let quota: Value = serde_json::from_str(&children[1].json).unwrap();
    assert_eq!(quota["spec"]["hard"], json!({ "pods": 10 }));
}

#[test]
fn the_status_names_the_namespaces_that_have_both() {
    let in_a = || json!({ "metadata": { "name": "tenant-blue", "namespace": "a" } });
    let policy = object("networking.k8s.io", "NetworkPolicy", Some("a"), in_a());
    let quota = object("", "ResourceQuota", Some("a"), in_a());
    let ready = |namespaces: &[&str], children: Vec<Object>| {
        let (_, decision) = decided(namespaces, children);
        (decision.status.unwrap(), decision.conditions[0].status, decision.conditions[0].message.clone())
    };
    let both = ready(&["a"], vec![policy.clone(), quota.clone()]);
    assert_eq!((both.0.as_str(), both.1), (r#"{"namespaces":["a"]}"#, Status::True));
    let (_, status, message) = ready(&["a", "b"], vec![policy.clone(), quota]);
    assert_eq!((status, message.as_str()), (Status::False, "quota or policy is missing in b"));
    let (status, ..) = ready(&["a"], vec![policy]);
    assert_eq!(status, r#"{"namespaces":[]}"#, "one of them is not enough");
}
