//! Which policy a Namespace gets.
#![allow(
    missing_docs,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what broke by breaking"
)]

use default_deny::DefaultDeny;
use hotshoe_sdk::{Answer, Children, Decision, Failure, Object, ObjectRef, Observation, ResourceKind, reconcile};
use serde_json::{Value, json};

fn answered(label: &str) -> Result<Value, Failure> {
    let reference = ObjectRef { kind: ResourceKind::new("", "v1", "Namespace"), namespace: None, name: "shop".into() };
    let labels = json!({ "network.example.com/default-deny": label });
    let parent = Object { reference, json: json!({ "metadata": { "labels": labels } }).to_string() };
    match reconcile::<DefaultDeny>(Observation { parent, config: "{}".into(), ..Observation::default() })? {
        Answer::Decided(Decision { children: Children::Exactly(children), .. }) => {
            Ok(serde_json::from_str(&children[0].json).unwrap())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_label_says_which_traffic_is_denied_to_all_pods() {
    for (label, types) in
        [("ingress", json!(["Ingress"])), ("egress", json!(["Egress"])), ("all", json!(["Ingress", "Egress"]))]
    {
        let policy = answered(label).unwrap();
        assert_eq!(policy["spec"]["policyTypes"], types);
        assert_eq!(policy["spec"]["podSelector"], json!({}));
        assert_eq!(policy["spec"].get("egress").is_some(), label != "ingress", "names can be resolved");
    }
}

#[test]
fn another_value_is_rejected_with_the_label_that_is_wrong() {
    for label in ["", "yes", "Ingress"] {
        let rejected = answered(label).unwrap_err();
        assert!(rejected.to_string().contains("none of ingress, egress and all"), "{rejected}");
    }
}
