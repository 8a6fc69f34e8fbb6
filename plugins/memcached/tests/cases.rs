//! Every case under `cases/`, answered by the native build. The same files are run under the
//! sandbox, so a difference between the two shows here first.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test says what broke by breaking")]

use std::{fs, path::Path};

use hotshoe_sdk::{
    Answer, Children, Cleanup, Decision, Failure, Object, ObjectRef, Observation, Refusal, Related, ResourceKind,
    Severity, Status,
};
use memcached::Memcached;
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    call: String,
    parent: Value,
    #[serde(default)]
    children: Vec<Value>,
    #[serde(default)]
    related: Map<String, Value>,
    #[serde(default)]
    refusals: Vec<CaseRefusal>,
    config: Value,
    expect: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseRefusal {
    group: String,
    version: String,
    kind: String,
    name: String,
    code: u32,
    reason: String,
    message: String,
}

#[test]
fn every_case_is_answered_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut wrong = String::new();
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let case: Case = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|cause| panic!("{}: {cause}", path.display()));
        let (name, expected) = (case.name.clone(), case.expect.clone());
        let answered = answer(case);
        if answered != expected {
            let answered = serde_saphyr::to_string(&json!({ "expect": answered })).unwrap();
            wrong += &format!("--- {}: {name}: answered\n{answered}", path.display());
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 10, "only {count} cases were found");
}

fn answer(case: Case) -> Value {
    let call = case.call.clone();
    let observation = observation(case);
    match call.as_str() {
        "reconcile" => match hotshoe_sdk::reconcile::<Memcached>(observation) {
            Ok(Answer::Decided(decision)) => json!({ "decided": decided(decision) }),
            Ok(Answer::Needs(needs)) => panic!("{needs:?}"),
            Err(failure) => failed(failure),
        },
        "finalize" => match hotshoe_sdk::finalize::<Memcached>(observation) {
            Ok(Cleanup::Waiting(decision)) => json!({ "waiting": decided(decision) }),
            Ok(Cleanup::Done(decision)) => json!({ "done": decided(decision) }),
            Err(failure) => failed(failure),
        },
        other => panic!("there is no call {other}"),
    }
}

fn observation(case: Case) -> Observation {
    Observation {
        parent: object(case.parent),
        children: case.children.into_iter().map(object).collect(),
        related: case.related.into_iter().map(related).collect(),
        refusals: case.refusals.into_iter().map(refusal).collect(),
        config: case.config.to_string(),
        now: None,
        attempt: None,
    }
}

fn related((key, objects): (String, Value)) -> Related {
    let Value::Array(objects) = objects else { panic!("{key} is no list") };
    Related { key, objects: objects.into_iter().map(object).collect() }
}

fn refusal(refusal: CaseRefusal) -> Refusal {
    Refusal {
        reference: ObjectRef {
            kind: ResourceKind::new(&refusal.group, &refusal.version, &refusal.kind),
            namespace: None,
            name: refusal.name,
        },
        code: refusal.code,
        reason: refusal.reason,
        message: refusal.message,
    }
}

fn object(value: Value) -> Object {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let api_version = text("/apiVersion").unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    Object {
        reference: ObjectRef {
            kind: ResourceKind::new(group, version, &text("/kind").unwrap()),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name").unwrap(),
        },
        json: value.to_string(),
    }
}

fn decided(decision: Decision) -> Value {
    let parse = |json: &str| serde_json::from_str::<Value>(json).unwrap();
    let mut value = json!({
        "children": match decision.children {
            Children::Keep => json!("keep"),
            Children::Exactly(objects) => {
                json!({ "exactly": objects.iter().map(|object| object.whole().unwrap()).collect::<Vec<_>>() })
            }
        },
        "status": decision.status.as_deref().map(parse),
        "conditions": decision.conditions.iter().map(|condition| json!({
            "type": condition.name,
            "status": match condition.status {
                Status::True => "True",
                Status::False => "False",
                Status::Unknown => "Unknown",
            },
            "reason": condition.reason,
            "message": condition.message,
        })).collect::<Vec<_>>(),
        "events": decision.events.iter().map(|event| json!({
            "severity": match event.severity {
                Severity::Normal => "Normal",
                Severity::Warning => "Warning",
            },
            "reason": event.reason,
            "message": event.message,
        })).collect::<Vec<_>>(),
    });
    if let (Some(after), Value::Object(value)) = (decision.requeue_after, &mut value) {
        value.insert("requeueAfterMs".to_owned(), json!(after.as_millis()));
    }
    value
}

fn failed(failure: Failure) -> Value {
    match failure {
        Failure::Retry { message, .. } => json!({ "retry": { "message": message } }),
        Failure::Reject { message, field } => {
            json!({ "reject": { "message": message, "field": field } })
        }
        Failure::Other(message) => json!({ "other": message }),
    }
}
