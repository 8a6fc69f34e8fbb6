//! Plugins that convert objects between versions of their kind, made from a few lines of WebAssembly text.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::plugin_support::{Guest, limits, load, load_with, observation, refusal};
use hotshoe_components::{converting, forgetting};
use hotshoe_core::check::conversion;
use hotshoe_core::model::decision::{Call, Document, Failure};
use hotshoe_core::model::limits::Limits;
use hotshoe_sandbox::call::Aborted;

fn parent(name: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1",
        "kind": "Test",
        "metadata": { "name": name, "labels": { "app": "web" } },
        "spec": { "size": 1 },
    })
}

fn parents(names: &[&str]) -> Vec<Document> {
    names.iter().map(|name| conversion::shown(&parent(name).to_string()).unwrap()).collect()
}

/// What a plugin makes of two objects, as v2.
async fn convert(guest: Guest, limits: Limits) -> Result<Result<Vec<Value>, Failure>, Aborted> {
    let revision = load_with(guest.component(), limits).await.unwrap();
    let outcome = revision.convert(parents(&["a", "b"]), "v2".into()).await?;
    let parsed = |object: Box<RawValue>| serde_json::from_str(object.get()).unwrap();
    Ok(outcome.result.map(|objects| objects.into_iter().map(parsed).collect()))
}

/// Why what these instructions answer is no conversion of two objects.
async fn denied(instructions: &str, limits: Limits) -> &'static str {
    let guest = Guest { convert: Some(instructions.to_owned()), ..Guest::default() };
    convert(guest, limits).await.unwrap_err().error.reason()
}

#[tokio::test]
async fn a_component_that_converts_is_known_by_its_exports_and_reconciles_like_any_other() {
    let old = load(Guest::default().component()).await.unwrap();
    let new = load(converting("").component()).await.unwrap();
    assert_eq!((old.converts(), new.converts()), (false, true));
    let decided = new.decide(Call::Reconcile, observation()).await.unwrap();
    assert_eq!(decided.result, old.decide(Call::Reconcile, observation()).await.unwrap().result);
}

#[tokio::test]
async fn objects_are_converted_and_complete() {
    let converted = convert(converting(""), Limits::default()).await.unwrap().unwrap();
    let expected = ["a", "b"].map(|name| {
        let mut object = parent(name);
        object["apiVersion"] = json!("example.com/v2");
        object
    });
    assert_eq!(converted, expected);
}

#[tokio::test]
async fn an_answer_that_is_no_conversion_is_denied() {
    let answer = |fields: &str| format!("{fields} (i32.const 0x700)");
    let objects = |count: u32| {
        answer(&format!(
            "(i32.store (i32.const 0x708) (local.get $objects)) (i32.store (i32.const 0x70c) (i32.const {count}))"
        ))
    };
    assert_eq!(denied(&objects(1), Limits::default()).await, "Dropped");
    assert_eq!(denied(&objects(2), Limits::default()).await, "OtherVersion");
    assert_eq!(denied(&objects(1_000_000), Limits::default()).await, "InvalidOutput");
    let forgotten = convert(forgetting(), Limits::default()).await.unwrap_err();
    assert_eq!(forgotten.error.reason(), "MetadataChanged");
}

#[tokio::test]
async fn a_conversion_has_the_limits_of_every_call() {
    assert_eq!(denied("unreachable", Limits::default()).await, "Trapped");
    let brief = limits(r#"{"callTime":"50ms"}"#);
    assert_eq!(denied("(loop (br 0)) unreachable", brief).await, "DeadlineExceeded");
    let memory = "(drop (memory.grow (i32.const 60000))) unreachable";
    assert_eq!(denied(memory, Limits::default()).await, "LimitExceeded");
}

#[tokio::test]
async fn a_component_without_the_function_is_not_asked() {
    let answer = convert(Guest::default(), Limits::default()).await.unwrap_err();
    assert!(answer.to_string().contains("does not export hotshoe:reconciler/conversion@0.2.0"), "{answer}");
}

#[tokio::test]
async fn a_later_version_of_the_contract_is_refused() {
    let text = r#"(component (component $c) (instance $i (instantiate $c))
        (export "hotshoe:reconciler/conversion@0.3.0" (instance $i)))"#;
    let (reason, message) = refusal(wat::parse_str(text).unwrap()).await;
    assert_eq!(reason, "ContractMismatch");
    assert!(message.contains("needs hotshoe:reconciler@0.3.0, this host offers 0.1.0 and 0.2.0;"), "{message}");
}
