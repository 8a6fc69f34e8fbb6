//! Which budget a Deployment gets.
#![allow(
    missing_docs,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what broke by breaking"
)]

use hotshoe_sdk::{Answer, Children, Decision, Failure, Object, ObjectRef, Observation, ResourceKind, reconcile};
use pdb::Pdb;
use serde_json::{Value, json};

fn answered(parent: Value) -> Result<Vec<Value>, Failure> {
    let kind = ResourceKind::new("apps", "v1", "Deployment");
    let reference = ObjectRef { kind, namespace: Some("shop".into()), name: "web".into() };
    let parent = Object { reference, json: parent.to_string() };
    match reconcile::<Pdb>(Observation { parent, config: "{}".into(), ..Observation::default() })? {
        Answer::Decided(Decision { children: Children::Exactly(children), status: None, conditions, .. }) => {
            assert!(conditions.is_empty(), "the status is the Deployment controller's");
            Ok(children.iter().map(|child| serde_json::from_str(&child.json).unwrap()).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn deployment(replicas: i32, annotations: Value) -> Value {
    let selector = json!({ "matchLabels": { "app": "web" } });
    json!({ "metadata": { "annotations": annotations }, "spec": { "replicas": replicas, "selector": selector } })
}

#[test]
fn the_budget_selects_the_pods_of_the_deployment_and_lets_one_go() {
    let budgets = answered(deployment(3, json!({}))).unwrap();
    let spec = json!({ "selector": { "matchLabels": { "app": "web" } }, "maxUnavailable": 1 });
    assert_eq!(budgets, [json!({ "metadata": { "name": "web" }, "spec": spec })]);
    let expressions = json!([{ "key": "app", "operator": "In", "values": ["web"] }]);
    let selector = json!({ "matchLabels": {}, "matchExpressions": expressions });
    let budgets = answered(json!({ "spec": { "replicas": 2, "selector": selector } })).unwrap();
    assert_eq!(budgets[0]["spec"]["selector"], selector);
}

#[test]
fn an_annotation_says_how_many_may_go() {
    for (said, most) in [("2", json!(2)), ("25%", json!("25%")), ("100%", json!("100%"))] {
        let budgets = answered(deployment(4, json!({ "pdb.example.com/max-unavailable": said }))).unwrap();
        assert_eq!(budgets[0]["spec"]["maxUnavailable"], most, "{said}");
    }
    for said in ["", "0", "-1", "0%", "101%", "many", "1.5", "%"] {
        let rejected = answered(deployment(4, json!({ "pdb.example.com/max-unavailable": said }))).unwrap_err();
        let field = "metadata.annotations[pdb.example.com/max-unavailable]";
        assert!(
            matches!(&rejected, Failure::Reject { field: Some(named), .. } if named == field),
            "{said}: {rejected}"
        );
    }
}

#[test]
fn a_single_pod_has_no_budget_for_it_would_forbid_every_drain() {
    assert!(answered(deployment(1, json!({}))).unwrap().is_empty());
    assert!(answered(json!({ "spec": { "selector": {} } })).unwrap().is_empty(), "one is the default");
}
