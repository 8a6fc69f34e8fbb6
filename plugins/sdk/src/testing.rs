//! A plugin's cases, run on its native build, and its component in the sandbox. To the former a debugger can be attached;
//! of the latter [`run_component_cases`] runs the cases, and [`closed_loop`] follows the decisions to their end.

mod component;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    AdmissionContext, Answer, Children, Cleanup, Decision, Defaulter, Failure, FieldError, Object, ObjectRef,
    Observation, Operation, Reconciler, Refusal, Related, Requirement, ResourceKind, Severity, Status, User, Validator,
    Verdict,
};

pub use self::component::{End, Start, closed_loop, run_component_cases};

/// Runs every case of `reconcile` and `finalize` in `cases/` of the plugin in `folder`, which is
/// `env!("CARGO_MANIFEST_DIR")` in a test.
///
/// # Panics
///
/// Where an answer differs from the expected one: the message has all such answers in the format of a case file. Also
/// where a file is not a case, and where there is no such case.
pub fn run_cases<R: Reconciler>(folder: impl AsRef<Path>) {
    run(folder.as_ref(), |case| match case.call {
        Call::Reconcile => Some(reconciled::<R>(case)),
        Call::Finalize => Some(finalized::<R>(case)),
        Call::Validate | Call::Default => None,
    });
}

/// Runs every case of `validate` in `cases/`, as [`run_cases`] those of the other functions.
///
/// # Panics
///
/// As [`run_cases`].
pub fn run_validation_cases<V: Validator>(folder: impl AsRef<Path>) {
    run(folder.as_ref(), |case| match case.call {
        Call::Validate => {
            let (new, old) = (object(&case.parent), case.old.as_ref().map(object));
            Some(
                crate::validate::<V>(&new, old.as_ref(), context(&case)).map_or_else(failed, |answer| verdict(&answer)),
            )
        }
        _ => None,
    });
}

/// Runs every case of `default` in `cases/`, as [`run_cases`] those of the other functions.
///
/// # Panics
///
/// As [`run_cases`].
pub fn run_defaulting_cases<D: Defaulter>(folder: impl AsRef<Path>) {
    run(folder.as_ref(), |case| match case.call {
        Call::Default => Some(
            crate::default::<D>(object(&case.parent), context(&case)).map_or_else(failed, |answer| defaulted(&answer)),
        ),
        _ => None,
    });
}

/// Runs the cases that `answer` answers.
fn run(folder: &Path, answer: impl Fn(Case) -> Option<Value>) {
    let answered: Vec<_> = files(&folder.join("cases")).iter().filter_map(|file| wrong_answer(file, &answer)).collect();
    assert!(!answered.is_empty(), "{} has no such cases", folder.display());
    let wrong: Vec<String> = answered.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Builds an observed object from what the API server would return.
///
/// # Panics
///
/// Where it has no `apiVersion`, `kind` or name.
pub fn object(value: &Value) -> Object {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let (Some(api_version), Some(kind), Some(name)) = (text("/apiVersion"), text("/kind"), text("/metadata/name"))
    else {
        unusable(&format!("an object lacks its apiVersion, kind or name: {value}"))
    };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let namespace = text("/metadata/namespace").map(str::to_owned);
    let kind = ResourceKind::new(group, version, kind);
    Object { reference: ObjectRef { kind, namespace, name: name.to_owned() }, json: value.to_string() }
}

/// Writes a decision in the format of a case file.
///
/// # Panics
///
/// Where the status or a child is not JSON.
pub fn decision(decision: &Decision) -> Value {
    let mut written = json!({ "children": children(&decision.children) });
    let conditions = decision.conditions.iter().map(|condition| {
        let (name, status) = (&condition.name, status(condition.status));
        json!({ "type": name, "status": status, "reason": condition.reason, "message": condition.message })
    });
    let events = decision.events.iter().map(|event| {
        let severity = match event.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        json!({ "severity": severity, "reason": event.reason, "message": event.message })
    });
    set(&mut written, "conditions", conditions.collect());
    set(&mut written, "events", events.collect());
    set(&mut written, "status", decision.status.as_deref().map_or(Value::Null, parse));
    let after = decision.requeue_after.map(|after| after.as_millis());
    set(&mut written, "requeueAfterMs", json!(after));
    written
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    call: Call,
    parent: Value,
    #[serde(default, rename = "valid")]
    _valid: serde::de::IgnoredAny,
    #[serde(default, rename = "steady")]
    _steady: serde::de::IgnoredAny,
    old: Option<Value>,
    user: Option<User>,
    #[serde(default)]
    children: Vec<Value>,
    #[serde(default)]
    related: BTreeMap<String, Vec<Value>>,
    #[serde(default)]
    refusals: Vec<CaseRefusal>,
    #[serde(default = "empty")]
    config: Value,
    now: Option<u64>,
    attempt: Option<u32>,
    #[serde(default)]
    expect: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Call {
    #[default]
    Reconcile,
    Finalize,
    Validate,
    Default,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseRefusal {
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    code: u32,
    reason: String,
    message: String,
}

fn empty() -> Value {
    json!({})
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()));
    let mut files: Vec<PathBuf> = entries.into_iter().flatten().collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
}

/// Returns the answer to a case if it differs from the expected one; none at all if `answer` does not answer the case.
fn wrong_answer(file: &Path, answer: impl Fn(Case) -> Option<Value>) -> Option<Option<String>> {
    let text = fs::read_to_string(file).unwrap_or_else(|cause| unusable(&format!("{}: {cause}", file.display())));
    let options = serde_saphyr::options! { strict_booleans: true };
    let case: Case = serde_saphyr::from_str_with_options(&text, options)
        .unwrap_or_else(|cause| unusable(&format!("{}: {cause}", file.display())));
    if case.expect.get("refused").is_some() {
        // The API server refuses the object, and asks no plugin: `hotshoe test` checks that.
        return None;
    }
    let (name, expected) = (case.name.clone(), sorted(case.expect.clone()));
    let answered = sorted(answer(case)?);
    let as_yaml = || serde_saphyr::to_string(&json!({ "expect": answered })).unwrap_or_default();
    Some((answered != expected).then(|| format!("--- {}: {name}: the answer is\n{}", file.display(), as_yaml())))
}

fn reconciled<R: Reconciler>(case: Case) -> Value {
    match crate::reconcile::<R>(observation::<R>(case)) {
        Ok(Answer::Decided(decided)) => json!({ "decided": decision(&decided) }),
        Ok(Answer::Needs(needs)) => json!({ "needs": needs.iter().map(need).collect::<Value>() }),
        Err(failure) => failed(failure),
    }
}

fn finalized<R: Reconciler>(case: Case) -> Value {
    match crate::finalize::<R>(observation::<R>(case)) {
        Ok(Cleanup::Waiting(waiting)) => json!({ "waiting": decision(&waiting) }),
        Ok(Cleanup::Done(done)) => json!({ "done": decision(&done) }),
        Err(failure) => failed(failure),
    }
}

fn context(case: &Case) -> AdmissionContext {
    let operation = if case.old.is_some() { Operation::Update } else { Operation::Create };
    AdmissionContext { operation, config: case.config.to_string(), dry_run: false, user: case.user.clone() }
}

fn verdict(verdict: &Verdict) -> Value {
    let error = |error: &FieldError| {
        let reason = format!("FieldValue{:?}", error.reason);
        json!({ "field": error.field, "reason": reason, "message": error.message })
    };
    let mut written = json!({});
    set(&mut written, "errors", verdict.errors.iter().map(error).collect());
    set(&mut written, "warnings", json!(verdict.warnings));
    json!({ "verdict": written })
}

fn defaulted(object: &Object) -> Value {
    let whole = object.whole().unwrap_or_else(|cause| unusable(&format!("an object is no JSON: {cause}")));
    json!({ "defaulted": without_nulls(whole.into()) })
}

/// Leaves out members that are null, as a host does.
fn without_nulls(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(|value| *value = without_nulls(value.take()));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|value| *value = without_nulls(value.take())),
        _ => {}
    }
    value
}

/// Builds the observation of a case, with objects in the order in which a host shows them. A declared read that the
/// case leaves out has found nothing.
fn observation<R: Reconciler>(mut case: Case) -> Observation {
    for read in R::describe().reads {
        case.related.entry(read.key).or_default();
    }
    let mut children = objects(&case.children);
    children.sort_by_key(|child| (child.reference.kind.group.clone(), child.reference.kind.kind.clone(), place(child)));
    let related = case.related.into_iter().map(|(key, found)| {
        let mut objects = objects(&found);
        objects.sort_by_key(place);
        Related { key, objects }
    });
    Observation {
        parent: object(&case.parent),
        children,
        related: related.collect(),
        refusals: case.refusals.into_iter().map(refusal).collect(),
        config: case.config.to_string(),
        now: case.now,
        attempt: case.attempt,
    }
}

fn objects(values: &[Value]) -> Vec<Object> {
    values.iter().map(object).collect()
}

fn place(object: &Object) -> (Option<String>, String) {
    (object.reference.namespace.clone(), object.reference.name.clone())
}

fn refusal(refusal: CaseRefusal) -> Refusal {
    let CaseRefusal { group, version, kind, namespace, name, code, reason, message } = refusal;
    let kind = ResourceKind::new(&group, &version, &kind);
    Refusal { reference: ObjectRef { kind, namespace, name }, code, reason, message }
}

fn children(children: &Children) -> Value {
    match children {
        Children::Keep => json!("keep"),
        Children::Exactly(objects) => {
            let whole = objects.iter().map(|object| object.whole().map(Value::Object));
            let whole: Result<Value, _> = whole.collect();
            json!({ "exactly": whole.unwrap_or_else(|cause| unusable(&format!("a child is no JSON: {cause}"))) })
        }
    }
}

fn need(need: &Requirement) -> Value {
    let mut written = json!({ "key": need.key, "apiVersion": need.kind.api_version(), "kind": need.kind.kind });
    let (form, text) = match need.name.strip_prefix('?') {
        Some(selector) => ("selector", selector),
        None => ("name", need.name.as_str()),
    };
    set(&mut written, form, json!(text));
    set(&mut written, "namespace", json!(need.namespace));
    written
}

fn status(status: Status) -> &'static str {
    match status {
        Status::True => "True",
        Status::False => "False",
        Status::Unknown => "Unknown",
    }
}

fn failed(failure: Failure) -> Value {
    match failure {
        Failure::Retry { message, after } => {
            let mut written = json!({ "message": message });
            set(&mut written, "afterMs", json!(after.map(|after| after.as_millis())));
            json!({ "retry": written })
        }
        Failure::Reject { message, field } => {
            let mut written = json!({ "message": message });
            set(&mut written, "field", json!(field));
            json!({ "reject": written })
        }
        Failure::Other(message) => json!({ "other": message }),
    }
}

/// Sets a member unless the value is null or an empty list: case files leave such members out.
fn set(object: &mut Value, key: &str, value: Value) {
    let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if let (Value::Object(members), false) = (object, is_empty) {
        members.insert(key.to_owned(), value);
    }
}

/// Sorts children and conditions, whose order means nothing, and leaves out members that are null or an empty list.
fn sorted(mut answer: Value) -> Value {
    let decisions = answer.as_object_mut().into_iter().flat_map(Map::values_mut);
    for decision in decisions.filter_map(Value::as_object_mut) {
        decision.retain(|_, value| !(value.is_null() || value.as_array().is_some_and(Vec::is_empty)));
        sort(decision.get_mut("conditions"), &["/type"]);
        let children = decision.get_mut("children").and_then(|children| children.get_mut("exactly"));
        sort(children, &["/kind", "/apiVersion", "/metadata/name"]);
    }
    answer
}

fn sort(list: Option<&mut Value>, pointers: &[&str]) {
    if let Some(list) = list.and_then(Value::as_array_mut) {
        list.sort_by_key(|one| {
            let texts = pointers.iter().map(|pointer| one.pointer(pointer).and_then(Value::as_str));
            texts.map(|text| text.unwrap_or_default().to_owned()).collect::<Vec<_>>()
        });
    }
}

fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|cause| unusable(&format!("the status is no JSON: {cause}")))
}

#[allow(clippy::panic, reason = "a test fails by a panic")]
fn unusable(why: &str) -> ! {
    panic!("{why}")
}
