//! Checks the sizes, counts, JSON and texts of an answer.
//!
//! This is the first check of an answer, right after the sandbox. Grants and observed state are checked later, in
//! [`check`](crate::check). The plugin controls every value that is checked here.

use std::collections::HashSet;
use std::fmt;

use crate::model::decision::{Answer, Children, Condition, Decision, Document, Event, Failure, Requirement};
use crate::model::kind::{Kind, Namespace, ObjectRef};
use crate::model::limits::{
    CHILDREN, CONDITION_MESSAGE, CONDITION_TYPE, CONDITIONS, EVENT_MESSAGE, FAILURE_MESSAGE, Limits, REASON,
    REQUIREMENTS,
};
use crate::model::names;
use crate::model::wanted::Wanted;
use crate::model::{json_guard, sanitize};

/// The maximum length of a Kubernetes object's name, in bytes.
pub(super) const MAX_NAME_BYTES: usize = 253;

/// Why an answer is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The answer is larger than the host accepts. Names the part that is too large, its size and the limit.
    #[error("the plugin's answer is too large: {0}")]
    TooLarge(String),
    /// The answer cannot be used. Names the invalid part and the reason.
    #[error("the plugin's answer cannot be used: {0}")]
    Invalid(String),
}

impl AnswerError {
    /// Returns one PascalCase word for Event, condition and metric.
    pub fn reason(&self) -> &'static str {
        match self {
            AnswerError::TooLarge(_) => "OutputTooLarge",
            AnswerError::Invalid(_) => "InvalidOutput",
        }
    }
}

/// Checks an answer against the limits and sanitizes its texts.
///
/// # Errors
/// When a part of the answer exceeds a limit or is invalid.
pub fn enforce_limits(answer: Answer, limits: &Limits) -> Result<Answer, AnswerError> {
    Ok(match answer {
        Answer::Decided(decision) => Answer::Decided(check_decision(decision, limits)?),
        Answer::Waiting(decision) => Answer::Waiting(check_decision(decision, limits)?),
        Answer::Done(decision) => Answer::Done(check_decision(decision, limits)?),
        Answer::Needs(needs) => {
            check_needs(&needs)?;
            Answer::Needs(needs)
        }
    })
}

/// Sanitizes the texts of a failure.
pub fn sanitize_failure(failure: Failure) -> Failure {
    let clean = |message| sanitize::clean(message, FAILURE_MESSAGE);
    match failure {
        Failure::Retry { message, after } => Failure::Retry { message: clean(message), after },
        Failure::Reject { message, field } => Failure::Reject {
            message: clean(message),
            field: field.map(|field| sanitize::clean(field, MAX_NAME_BYTES)),
        },
        Failure::Other(message) => Failure::Other(clean(message)),
    }
}

fn check_decision(decision: Decision, limits: &Limits) -> Result<Decision, AnswerError> {
    if let Children::Exactly(children) = &decision.children {
        check_children(children, limits)?;
    }
    check_count(decision.conditions.len(), CONDITIONS, "conditions", None)?;
    check_count(decision.events.len(), limits.events as usize, "events", None)?;
    let conditions: Vec<_> = decision.conditions.into_iter().map(check_condition).collect::<Result<_, _>>()?;
    check_status(decision.status.as_deref(), &conditions, limits)?;
    Ok(Decision {
        conditions,
        events: decision.events.into_iter().map(check_event).collect::<Result<_, _>>()?,
        ..decision
    })
}

/// Limits the size of the status and its conditions together, because the host caches the whole status of a parent.
fn check_status(status: Option<&str>, conditions: &[Condition], limits: &Limits) -> Result<(), AnswerError> {
    let written = |condition| serde_json::to_string(condition).map_or(0, |json| json.len());
    let bytes = status.map_or(0, str::len) + conditions.iter().map(written).sum::<usize>();
    check_size("the status with its conditions", bytes, limits.status_bytes.bytes())?;
    status.map_or(Ok(()), |status| check_json("the status", status, limits))
}

fn check_children(children: &[Document], limits: &Limits) -> Result<(), AnswerError> {
    check_count(children.len(), limits.children as usize, "children", Some(CHILDREN.name))?;
    children.iter().try_for_each(|child| check_child(child, limits))
}

fn check_child(child: &Document, limits: &Limits) -> Result<(), AnswerError> {
    check_has_name(child)?;
    check_object(child, limits)
}

/// Checks the reference, the size and the JSON of an object.
pub(super) fn check_object(object: &Document, limits: &Limits) -> Result<(), AnswerError> {
    check_reference(&object.reference)?;
    check_body(object, limits)
}

/// Checks the size and the JSON of an object, whose reference can be shown.
pub(super) fn check_body(object: &Document, limits: &Limits) -> Result<(), AnswerError> {
    let what = object.reference.to_string();
    check_size(&what, object.json.len(), limits.object_bytes.bytes())?;
    check_json(&what, &object.json, limits)
}

/// Returns a text that a plugin chose, as a message may show it.
pub(super) fn shown_text(text: String) -> String {
    sanitize::clean(text, MAX_NAME_BYTES)
}

/// Refuses a child without a name by itself, because some authors expect that `metadata.generateName` replaces the name.
fn check_has_name(child: &Document) -> Result<(), AnswerError> {
    if !child.reference.name.is_empty() {
        return Ok(());
    }
    let generated = if child.json.contains("\"generateName\"") {
        ", and metadata.generateName would make another object at each decision"
    } else {
        ""
    };
    let kind = sanitize::clean(child.reference.kind.to_string(), MAX_NAME_BYTES);
    Err(invalid(format!("a desired {kind} has no name{generated}; derive metadata.name from the parent's")))
}

fn check_needs(needs: &[Requirement]) -> Result<(), AnswerError> {
    check_count(needs.len(), REQUIREMENTS, "requirements", None)?;
    let mut keys = HashSet::new();
    for need in needs {
        check_wanted(&need.wanted)?;
        if need.key.is_empty() || need.key.len() > MAX_NAME_BYTES || !keys.insert(&need.key) {
            let key = sanitize::clean(need.key.clone(), MAX_NAME_BYTES);
            return Err(invalid(format!("the key {key:?} of a requirement is empty, too long or given twice")));
        }
    }
    Ok(())
}

/// Checks what a requirement asks for. A selector is checked when it is [used](crate::check::selection): often the parent's
/// spec has it, and then the plugin is not at fault.
fn check_wanted(wanted: &Wanted) -> Result<(), AnswerError> {
    match wanted {
        Wanted::Object(object) => check_reference(object),
        Wanted::Selection(selection) => check_place(&selection.kind, &selection.namespace, selection),
    }
}

/// Checks that the names in a reference can be shown and compared. Whether they may be used is up to the grant.
fn check_reference(reference: &ObjectRef) -> Result<(), AnswerError> {
    check_place(&reference.kind, &reference.namespace, reference)?;
    match names::is_visible(&reference.name, MAX_NAME_BYTES) {
        true => Ok(()),
        false => Err(not_a_reference(&reference.kind, reference)),
    }
}

fn check_place(kind: &Kind, namespace: &Namespace, shown: &impl fmt::Display) -> Result<(), AnswerError> {
    let namespace = namespace.as_deref().unwrap_or("default");
    let plausible = names::is_group(&kind.group)
        && names::is_version(&kind.version)
        && names::is_kind(&kind.kind)
        && names::is_visible(namespace, MAX_NAME_BYTES);
    if plausible { Ok(()) } else { Err(not_a_reference(kind, shown)) }
}

fn not_a_reference(kind: &Kind, shown: &impl fmt::Display) -> AnswerError {
    let shown = sanitize::clean(format!("{} {shown}", kind.api_version()), MAX_NAME_BYTES);
    invalid(format!("{shown:?} is not a valid reference to an object"))
}

fn check_json(what: &str, text: &str, limits: &Limits) -> Result<(), AnswerError> {
    json_guard::check_object(text, limits.json_depth)
        .map_err(|error| invalid(format!("the JSON of {what}: {}", sanitize::clean(error, 500))))
}

fn check_condition(condition: Condition) -> Result<Condition, AnswerError> {
    if !names::is_qualified(&condition.name) || condition.name.len() > CONDITION_TYPE {
        let name = sanitize::clean(condition.name, MAX_NAME_BYTES);
        return Err(invalid(format!("{name:?} is no condition type, such as Available or example.com/Available")));
    }
    Ok(Condition {
        reason: reason(condition.reason)?,
        message: sanitize::clean(condition.message, CONDITION_MESSAGE),
        ..condition
    })
}

fn check_event(event: Event) -> Result<Event, AnswerError> {
    Ok(Event { reason: reason(event.reason)?, message: sanitize::clean(event.message, EVENT_MESSAGE), ..event })
}

/// Checks a reason against the schema of `metav1.Condition`: the API server would reject the whole status because of
/// one invalid reason.
fn reason(reason: String) -> Result<String, AnswerError> {
    let is_letter = |first: Option<char>| first.is_some_and(|c| c.is_ascii_alphabetic());
    let valid = reason.len() <= REASON
        && is_letter(reason.chars().next())
        && reason.chars().all(|c| c.is_ascii_alphanumeric() || "_,:".contains(c))
        && !reason.ends_with([',', ':']);
    if valid {
        return Ok(reason);
    }
    let shown = sanitize::clean(reason, REASON);
    Err(invalid(format!("the reason {shown:?} is no single word in PascalCase")))
}

/// Checks a count against a limit; `name` is the limit's name, if an administrator can raise it.
fn check_count(count: usize, limit: usize, what: &str, name: Option<&str>) -> Result<(), AnswerError> {
    if count <= limit {
        return Ok(());
    }
    let name = name.map(|name| format!(" (limits.{name})")).unwrap_or_default();
    Err(AnswerError::TooLarge(format!("it has {count} {what}, more than {limit}{name}")))
}

/// Checks a size against a limit, both in bytes.
fn check_size(what: &str, bytes: usize, limit: usize) -> Result<(), AnswerError> {
    if bytes <= limit {
        return Ok(());
    }
    Err(AnswerError::TooLarge(format!("{what} has {bytes} bytes, more than {limit}")))
}

fn invalid(message: String) -> AnswerError {
    AnswerError::Invalid(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::decision::{Severity, Truth};
    use crate::model::kind::Kind;

    fn child(name: &str, json: &str) -> Document {
        let kind = Kind::new("apps", "v1", "Deployment");
        Document { reference: ObjectRef { kind, namespace: None, name: name.into() }, json: json.into() }
    }

    fn condition(name: &str) -> Condition {
        Condition { name: name.into(), status: Truth::True, reason: "Ready".into(), message: "well".into() }
    }

    fn checked(decision: Decision) -> Result<Decision, AnswerError> {
        match enforce_limits(Answer::Decided(decision), &Limits::default())? {
            Answer::Decided(decision) => Ok(decision),
            other => panic!("{other:?}"),
        }
    }

    fn refused(decision: Decision) -> (&'static str, String) {
        let error = checked(decision).unwrap_err();
        (error.reason(), error.to_string())
    }

    #[test]
    fn an_ordinary_decision_passes_unchanged() {
        let decision = Decision {
            children: Children::Exactly(vec![child("web", r#"{"spec":{"replicas":3}}"#)]),
            status: Some(r#"{"nodes":["a"]}"#.into()),
            conditions: vec![condition("Available"), condition("example.com/Available")],
            events: vec![Event { severity: Severity::Normal, reason: "Scaled".into(), message: "to 3".into() }],
            ..Decision::default()
        };
        assert_eq!(checked(decision.clone()), Ok(decision));
    }

    #[test]
    fn a_part_that_is_too_many_or_too_large_is_named_with_its_limit() {
        let children = |children| Decision { children: Children::Exactly(children), ..Decision::default() };
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(1_500_000));
        let status = Some(format!("{{\"a\":\"{}\"}}", "x".repeat(65_536)));
        let conditions = (0..33).map(|n| condition(&format!("C{n}"))).collect();
        let event = Event { severity: Severity::Normal, reason: "A".into(), message: String::new() };
        for (decision, says) in [
            (children(vec![child("web", "{}"); 501]), "it has 501 children, more than 500 (limits.children)"),
            (children(vec![child("web", &large)]), "Deployment.apps web has 1500008 bytes, more than 1500000"),
            (Decision { status, ..Decision::default() }, "has 65544 bytes, more than 65536"),
            (Decision { conditions, ..Decision::default() }, "it has 33 conditions, more than 32"),
            (Decision { events: vec![event; 6], ..Decision::default() }, "it has 6 events, more than 5"),
        ] {
            let (reason, message) = refused(decision);
            assert_eq!(reason, "OutputTooLarge");
            assert!(message.ends_with(says), "{message}");
        }
    }

    #[test]
    fn conditions_count_as_a_part_of_the_status_in_every_answer() {
        let limits = Limits::default();
        let large = |name: &str| Condition { message: "x".repeat(CONDITION_MESSAGE), ..condition(name) };
        let status = |bytes: usize| Some(format!("{{\"a\":\"{}\"}}", "x".repeat(bytes)));
        let fits = Decision { conditions: vec![large("A")], status: status(32_000), ..Decision::default() };
        let together = Decision { status: status(33_000), ..fits.clone() };
        let many = Decision { conditions: ["A", "B"].map(large).into(), ..Decision::default() };
        // A quotation mark takes two bytes when it is written.
        let quotes = Condition { message: "\"".repeat(CONDITION_MESSAGE), ..condition("A") };
        let quoted = Decision { conditions: vec![quotes], ..Decision::default() };
        for form in [Answer::Decided, Answer::Waiting, Answer::Done] {
            assert!(enforce_limits(form(fits.clone()), &limits).is_ok());
            for decision in [&together, &many, &quoted] {
                let error = enforce_limits(form(decision.clone()), &limits).unwrap_err();
                assert_eq!(error.reason(), "OutputTooLarge");
                assert!(error.to_string().contains("the status with its conditions has"), "{error}");
                assert!(error.to_string().ends_with("more than 65536"), "{error}");
            }
        }
    }

    #[test]
    fn invalid_json_names_and_reasons_are_refused() {
        for (name, json) in
            [("web", "[]"), ("web", r#"{"a":1,"a":2}"#), ("", "{}"), ("a\u{202e}b", "{}"), ("a b", "{}")]
        {
            let children = Children::Exactly(vec![child(name, json)]);
            assert_eq!(refused(Decision { children, ..Decision::default() }).0, "InvalidOutput", "{name} {json}");
        }
        for (json, says) in [
            ("{}", "a desired Deployment.apps has no name; derive metadata.name from the parent's"),
            (r#"{"metadata":{"generateName":"web-"}}"#, "no name, and metadata.generateName would make another object"),
        ] {
            let children = Children::Exactly(vec![child("", json)]);
            let (reason, message) = refused(Decision { children, ..Decision::default() });
            assert!(reason == "InvalidOutput" && message.contains(says), "{message}");
        }
        for name in ["", "not one word", "/x", "a/b/c"] {
            let conditions = vec![condition(name)];
            assert_eq!(refused(Decision { conditions, ..Decision::default() }).0, "InvalidOutput", "{name}");
        }
        let conditions = vec![Condition { reason: "not one word".into(), ..condition("Available") }];
        assert_eq!(refused(Decision { conditions, ..Decision::default() }).0, "InvalidOutput");
    }

    #[test]
    fn requirements_are_few_and_each_has_a_short_key_of_its_own_and_a_valid_reference() {
        let need = |key: &str, name: &str| Requirement { key: key.into(), wanted: child(name, "{}").reference.into() };
        let check = |needs: Vec<Requirement>| enforce_limits(Answer::Needs(needs), &Limits::default());
        let numbered = |count: usize| (0..count).map(|number| need(&number.to_string(), "web")).collect::<Vec<_>>();
        let longest = "k".repeat(MAX_NAME_BYTES);
        let selected = vec![need("all", "?"), need("shop", "?app in (shop)"), need("none", "?no selector")];
        for needs in [numbered(REQUIREMENTS), vec![need(&longest, "web")], selected, vec![]] {
            assert_eq!(check(needs.clone()), Ok(Answer::Needs(needs)));
        }
        assert_eq!(check(numbered(REQUIREMENTS + 1)).unwrap_err().reason(), "OutputTooLarge");
        for (needs, says) in [
            (vec![need("", "web")], "the key \"\" of a requirement"),
            (vec![need(&format!("{longest}k"), "web")], "is empty, too long or given twice"),
            (vec![need("a", "web"), need("a", "other")], "the key \"a\" of a requirement"),
            (vec![need("a", "a b")], "is not a valid reference"),
        ] {
            let refused = check(needs).unwrap_err();
            assert_eq!(refused.reason(), "InvalidOutput");
            assert!(refused.to_string().contains(says), "{refused}");
        }
    }

    #[test]
    fn messages_are_cut_and_cleaned() {
        let long = Condition { message: "ä".repeat(40_000), ..condition("Available") };
        let event = Event { severity: Severity::Warning, reason: "Odd".into(), message: "\u{1b}[2Jgone".into() };
        let decision =
            checked(Decision { conditions: vec![long], events: vec![event], ..Decision::default() }).unwrap();
        assert!(decision.conditions[0].message.len() <= CONDITION_MESSAGE);
        assert_eq!(decision.events[0].message, "gone");
    }
}
