//! A plugin's answer.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;

use super::{depth, sections};
use hotshoe_core::check::answer::{enforce_limits, sanitize_failure};
use hotshoe_core::check::status;
use hotshoe_core::model::decision::{
    Answer, Children, Condition, Decision, Document, Event, Failure, Requirement, Severity, Truth,
};
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::limits::{CONDITION_MESSAGE, EVENT_MESSAGE, FAILURE_MESSAGE, Limits};

/// Fuzzes the validation of an answer. Each section is a line `WORD FIRST SECOND` with text after it: a child
/// with its JSON, the status, a condition, an Event, a requirement or a failure.
pub fn decision(bytes: &[u8]) {
    let Some(sections) = sections(bytes) else { return };
    let mut decision = Decision::default();
    let (mut children, mut needs) = (Vec::new(), Vec::new());
    for section in sections {
        let (head, text) = section.split_once('\n').unwrap_or((section, ""));
        let mut words = head.split(' ');
        let (word, first, second) = (words.next(), words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match word {
            Some("child") => children.push(Document { reference: reference(first, second), json: text.into() }),
            Some("status") => decision.status = Some(text.to_owned()),
            Some("condition") => decision.conditions.push(Condition {
                name: first.to_owned(),
                status: Truth::Unknown,
                reason: second.to_owned(),
                message: text.to_owned(),
            }),
            Some("event") => decision.events.push(Event {
                severity: Severity::Warning,
                reason: first.to_owned(),
                message: text.to_owned(),
            }),
            Some("need") => needs.push(Requirement { key: text.to_owned(), wanted: reference(first, second).into() }),
            Some("after") => decision.requeue_after = first.parse().ok().map(Duration::from_millis),
            Some("failure") => failure(first, text),
            _ => {}
        }
    }
    if !needs.is_empty() {
        drop(enforce_limits(Answer::Needs(needs), &Limits::default()));
    }
    if !children.is_empty() {
        decision.children = Children::Exactly(children);
    }
    if let Ok(Answer::Decided(checked)) = enforce_limits(Answer::Decided(decision), &Limits::default()) {
        holds(&checked);
    }
}

fn reference(kind: &str, name: &str) -> ObjectRef {
    let mut parts = kind.split('/');
    let mut part = || parts.next().unwrap_or_default();
    let kind = Kind::new(part(), part(), part());
    let (namespace, name) = name.split_once('/').map_or((None, name), |(namespace, name)| (Some(namespace), name));
    ObjectRef { kind, namespace: namespace.map(Into::into), name: name.into() }
}

fn failure(field: &str, message: &str) {
    let field = (!field.is_empty()).then(|| field.to_owned());
    if let Failure::Reject { message, field } = sanitize_failure(Failure::Reject { message: message.to_owned(), field })
    {
        is_clean(&message, FAILURE_MESSAGE);
        is_clean(&field.unwrap_or_default(), FAILURE_MESSAGE);
    }
}

fn holds(decision: &Decision) {
    let limits = Limits::default();
    if let Children::Exactly(children) = &decision.children {
        assert!(children.len() <= limits.children as usize);
        for child in children {
            is_object(&child.json, limits.object_bytes.bytes());
            let visible = |text: &str| text.chars().all(|c| c.is_ascii_graphic());
            assert!(visible(&child.reference.name) && !child.reference.name.is_empty());
            assert!(child.reference.namespace.as_deref().is_none_or(visible));
        }
    }
    let of_conditions: usize = decision.conditions.iter().map(|condition| condition.message.len()).sum();
    assert!(of_conditions + decision.status.as_deref().map_or(0, str::len) <= limits.status_bytes.bytes());
    if let Some(status) = &decision.status {
        is_object(status, limits.status_bytes.bytes());
    }
    if status::check(decision.status.as_deref(), &decision.conditions).is_ok() {
        let types: HashSet<_> = decision.conditions.iter().map(|condition| condition.name.as_str()).collect();
        assert_eq!(types.len(), decision.conditions.len());
        assert!(!types.contains(status::RECONCILED));
    }
    for condition in &decision.conditions {
        is_clean(&condition.message, CONDITION_MESSAGE);
        is_word(&condition.reason);
    }
    assert!(decision.events.len() <= limits.events as usize);
    for event in &decision.events {
        is_clean(&event.message, EVENT_MESSAGE);
        is_word(&event.reason);
    }
}

/// Checks that a later parser gets a JSON object that is not too deep, however it treats duplicate keys.
fn is_object(json: &str, limit: usize) {
    assert!(json.len() <= limit);
    let value: Value = serde_json::from_str(json).expect("accepted text is JSON");
    assert!(value.is_object() && depth(&value) <= Limits::default().json_depth as usize);
}

fn is_clean(text: &str, limit: usize) {
    let steers = |c: char| {
        c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(text.len() <= limit && !text.contains(steers), "{text:?}");
}

fn is_word(reason: &str) {
    assert!(reason.starts_with(|c: char| c.is_ascii_alphabetic()) && reason.is_ascii() && reason.len() <= 128);
}
