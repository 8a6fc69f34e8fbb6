//! The rules (CEL) of a schema. What they say of a value is evaluated on a thread of its own, with limits: the author of a
//! CRD writes them.

use std::error::Error;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use kube_cel::cel::ExecutionError;
use kube_cel::{ErrorKind, RootContext, ValidationError, Validator};
use serde_json::{Map, Value, json};

use super::findings::Findings;
use super::keywords::Schema;
use super::members::{Member, join};
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::sanitize::clean;

/// The keyword of rules.
const RULES: &str = "x-kubernetes-validations";
/// The time after which the rules of an object are given up. The API server allows about a tenth of a second for each:
/// <https://pkg.go.dev/k8s.io/apiserver/pkg/apis/cel>.
const MAX_TIME: Duration = Duration::from_secs(5);
/// The maximum length of a rule, in bytes. What reads it is recursive, and has the stack for that.
const MAX_RULE_BYTES: usize = 4_096;
/// The stack of the thread, in bytes. Only what is used of it takes memory.
const STACK_BYTES: usize = 256 << 20;
/// The maximum length of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 2_000;

/// Finds the rules that an object of a kind does not keep. `object` and `old` have their defaults.
pub(super) fn findings(kind: &Kind, schema: Schema<'_>, object: &Value, old: Option<&Value>) -> Findings {
    within(MAX_TIME, kind, schema, object, old)
}

fn within(time: Duration, kind: &Kind, schema: Schema<'_>, object: &Value, old: Option<&Value>) -> Findings {
    let root =
        RootContext { api_version: kind.api_version(), api_group: kind.group.to_string(), kind: kind.kind.to_string() };
    let (schema, object, old) = (schema.json().clone(), of_rules(object), old.map(of_rules));
    let (sender, found) = mpsc::channel();
    let evaluate = move || {
        let member = Member::root(Schema::new(&schema), &object, old.as_ref());
        let mut evaluation =
            Evaluation { validator: Validator::new(), end: Instant::now() + MAX_TIME, findings: Findings::default() };
        evaluation.value(&member, Some(&root));
        // The receiver is gone if this took too long.
        drop(sender.send(evaluation.findings));
    };
    // A thread that is given up goes on until the command ends, for nothing can stop it.
    let started = thread::Builder::new().name("rules".to_owned()).stack_size(STACK_BYTES).spawn(evaluate);
    let not_checked = |why: String| {
        let mut findings = Findings::default();
        findings.unchecked("", why);
        findings
    };
    if let Err(error) = started {
        return not_checked(format!("its rules were not checked: no thread: {error}"));
    }
    found.recv_timeout(time).unwrap_or_else(|_| {
        not_checked(format!("its rules were not checked, for they fail or take longer than {} s", time.as_secs_f32()))
    })
}

/// Returns the object as rules see it: of its metadata they may only read the names.
fn of_rules(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| ["name", "generateName"].contains(&name.as_str()));
    }
    object
}

struct Evaluation {
    validator: Validator,
    end: Instant,
    findings: Findings,
}

impl Evaluation {
    /// Evaluates the rules of a value and of its members. They see `apiVersion` and the like only in the object itself.
    fn value(&mut self, member: &Member<'_>, root: Option<&RootContext>) {
        if let Some(rules) = member.schema.get(RULES).and_then(Value::as_array) {
            let typed = typed(member.schema, member.value);
            let old = member.old.map(|old| self::typed(member.schema, old));
            let bare = without_rules(member.schema.json());
            for rule in rules {
                self.rule(rule, member, &bare, (&typed, old.as_ref()), root);
            }
        }
        for member in member.members() {
            self.value(&member, None);
        }
    }

    fn rule(
        &mut self,
        rule: &Value,
        member: &Member<'_>,
        bare: &Value,
        (value, old): (&Value, Option<&Value>),
        root: Option<&RootContext>,
    ) {
        let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
        // Only a rule about the change is asked again about a value that did not change.
        if member.is_unchanged() && !text.contains("oldSelf") {
            return;
        }
        if let Some(why) = self.why_not(rule, text) {
            return self.findings.unchecked(&member.path, not_checked(text, why));
        }
        let mut schema = bare.clone();
        if let Some(schema) = schema.as_object_mut() {
            schema.insert(RULES.to_owned(), json!([rule]));
        }
        if let Err(errors) = self.validator.validate_with_context(&schema, value, old, root) {
            errors.iter().for_each(|error| self.record(&member.path, error));
        }
    }

    /// Returns why a rule is not evaluated.
    fn why_not(&self, rule: &Value, text: &str) -> Option<&'static str> {
        if Instant::now() >= self.end {
            return Some("the rules before it took too long");
        }
        let message = rule.get("messageExpression").and_then(Value::as_str).unwrap_or_default();
        if text.len().max(message.len()) > MAX_RULE_BYTES {
            return Some("it is longer than 4 KiB");
        }
        // The API server has `oldSelf` as an optional value then, which kube-cel has not.
        let is_optional = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
        is_optional.then_some("optionalOldSelf is not known here")
    }

    fn record(&mut self, path: &str, error: &ValidationError) {
        let field = match error.field_path.trim_start_matches('.') {
            "" => path.to_owned(),
            below => join(path, below),
        };
        match why_unknown(error) {
            Some(why) => self.findings.unchecked(path, not_checked(&error.rule, &why)),
            None => self.findings.problem(&field, clean(error.message.clone(), MAX_MESSAGE_BYTES)),
        }
    }
}

fn not_checked(rule: &str, why: &str) -> String {
    let (rule, why) = (clean(rule.to_owned(), MAX_MESSAGE_BYTES), clean(why.to_owned(), MAX_MESSAGE_BYTES));
    format!("the rule `{rule}` was not checked: {why}")
}

/// Returns why the answer of the API server is not known. An operator or a function that is missing for a type is
/// missing here, for the API server checks the types of a rule before it accepts the CRD.
fn why_unknown(error: &ValidationError) -> Option<String> {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<ExecutionError>());
    match (&error.kind, cause) {
        (ErrorKind::ValidationFailure, _) => None,
        (
            ErrorKind::EvaluationError,
            Some(
                ExecutionError::NoSuchKey(_)
                | ExecutionError::FunctionError { .. }
                | ExecutionError::DivisionByZero(_)
                | ExecutionError::RemainderByZero(_)
                | ExecutionError::Overflow(..)
                | ExecutionError::IndexOutOfBounds(_),
            ),
        ) => None,
        (_, Some(ExecutionError::UndeclaredReference(name))) => Some(format!("`{name}` is not known here")),
        (_, Some(cause)) => Some(cause.to_string()),
        _ => Some(error.message.clone()),
    }
}

/// Returns the value with each whole number as a fraction whose type is `number`, as rules see it.
fn typed(schema: Schema<'_>, value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                let typed = schema.member(name).map(|schema| typed(schema, value));
                (name.clone(), typed.unwrap_or_else(|| value.clone()))
            };
            members.iter().map(member).collect()
        }
        Value::Array(elements) => match schema.items() {
            Some(items) => elements.iter().map(|element| typed(items, element)).collect(),
            None => value.clone(),
        },
        Value::Number(number) if schema.text("type") == "number" => number.as_f64().into(),
        _ => value.clone(),
    }
}

/// Returns a schema without its rules and those of its members, so that the rules of each are evaluated once.
fn without_rules(schema: &Value) -> Value {
    let Value::Object(keywords) = schema else { return schema.clone() };
    let each = |members: &Map<String, Value>| -> Value {
        members.iter().map(|(name, schema)| (name.clone(), without_rules(schema))).collect()
    };
    let without = |(keyword, value): (&String, &Value)| {
        let value = match (keyword.as_str(), value) {
            (RULES, _) => return None,
            ("properties", Value::Object(members)) => each(members),
            ("items" | "additionalProperties", schema) => without_rules(schema),
            _ => value.clone(),
        };
        Some((keyword.clone(), value))
    };
    keywords.iter().filter_map(without).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_spec(spec: Value) -> Value {
        json!({ "type": "object", "properties": { "metadata": { "type": "object" }, "spec": spec } })
    }

    fn found(schema: &Value, spec: Value, old: Option<Value>) -> Findings {
        let object = |spec: Value| json!({ "apiVersion": "example.com/v1", "kind": "Test", "metadata": { "name": "a" }, "spec": spec });
        let old = old.map(object);
        findings(&Kind::new("example.com", "v1", "Test"), Schema::new(schema), &object(spec), old.as_ref())
    }

    fn problems(schema: &Value, spec: Value, old: Option<Value>) -> Vec<String> {
        let findings = found(schema, spec, old);
        assert_eq!(findings.unchecked, Vec::<String>::new());
        findings.problems.iter().map(ToString::to_string).collect()
    }

    fn unchecked(rule: &str) -> String {
        let schema = of_spec(json!({ "type": "object", RULES: [{ "rule": rule }], "properties": {
            "size": { "type": "integer" }, "list": { "type": "array", "items": { "type": "integer" } },
        } }));
        let findings = found(&schema, json!({ "size": 1, "list": [1, 2] }), None);
        assert_eq!(findings.problems, [], "{rule}");
        findings.unchecked.concat()
    }

    #[test]
    fn a_rule_that_is_not_kept_names_the_field_with_its_message() {
        let schema = of_spec(json!({
            "type": "object",
            "properties": {
                "least": { "type": "integer", RULES: [{ "rule": "self >= 0", "message": "Write no negative number." }] },
                "most": { "type": "integer" },
            },
            RULES: [
                { "rule": "self.least <= self.most", "messageExpression": "'at least ' + string(self.least)", "fieldPath": ".most" },
            ],
        }));
        assert_eq!(problems(&schema, json!({ "least": 1, "most": 2 }), None), Vec::<String>::new());
        assert_eq!(problems(&schema, json!({ "least": 3, "most": 2 }), None), ["spec.most: at least 3"]);
        assert_eq!(
            problems(&schema, json!({ "least": -1, "most": 2 }), None),
            ["spec.least: Write no negative number."]
        );
        assert_eq!(
            problems(&schema, json!({ "most": 2 }), None),
            ["spec.most: rule evaluation error: No such key: least"]
        );
    }

    #[test]
    fn a_rule_about_the_change_sees_the_old_value_also_in_a_list_with_keys() {
        let rule = json!([{ "rule": "self.size >= oldSelf.size", "message": "may not shrink" }]);
        let schema = of_spec(json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": { "type": "object", RULES: rule, "properties": { "name": {}, "size": { "type": "integer" } } },
        }));
        let old = json!([{ "name": "a", "size": 5 }, { "name": "b", "size": 1 }]);
        let moved = json!([{ "name": "b", "size": 1 }, { "name": "a", "size": 5 }, { "name": "new", "size": 0 }]);
        assert_eq!(problems(&schema, moved, Some(old.clone())), Vec::<String>::new());
        let smaller = json!([{ "name": "b", "size": 1 }, { "name": "a", "size": 4 }]);
        assert_eq!(problems(&schema, smaller, Some(old)), ["spec[1]: may not shrink"]);
    }

    #[test]
    fn an_unchanged_value_may_stay_as_it_is() {
        let schema = of_spec(json!({ "type": "object", "properties": {
            "size": { "type": "integer", RULES: [{ "rule": "self <= 3", "message": "too large" }] }, "note": {},
        } }));
        let old = || Some(json!({ "size": 5, "note": "a" }));
        assert_eq!(problems(&schema, json!({ "size": 5, "note": "b" }), old()), Vec::<String>::new());
        assert_eq!(problems(&schema, json!({ "size": 4, "note": "a" }), old()), ["spec.size: too large"]);
    }

    #[test]
    fn rules_see_names_and_types_as_in_the_api_server() {
        for (rule, spec) in [
            ("self.metadata.name == 'a' && self.apiVersion == 'example.com/v1' && self.kind == 'Test'", json!({})),
            ("self.spec.share / 2.0 == 0.5", json!({ "share": 1 })),
            ("quantity(self.spec.memory).isGreaterThan(quantity('500Mi'))", json!({ "memory": "1Gi" })),
            ("self.spec.when > timestamp('2026-01-01T00:00:00Z')", json!({ "when": "2026-01-02T03:04:05Z" })),
            ("isURL(self.spec.memory) || self.spec.memory.matches('^[0-9]+Gi$')", json!({ "memory": "1Gi" })),
        ] {
            let mut schema = of_spec(json!({ "type": "object", "properties": {
                "share": { "type": "number" }, "memory": { "type": "string" },
                "when": { "type": "string", "format": "date-time" },
            } }));
            schema[RULES] = json!([{ "rule": rule }]);
            assert_eq!(problems(&schema, spec, None), Vec::<String>::new(), "{rule}");
        }
        let mut schema = of_spec(json!({ "type": "object" }));
        schema[RULES] = json!([{ "rule": "self.metadata.labels.size() == 0" }]);
        assert_eq!(problems(&schema, json!({}), None).len(), 1, "the API server refuses such a rule");
    }

    #[test]
    fn a_rule_that_cannot_be_evaluated_is_named_and_neither_passes_nor_fails() {
        for (rule, why) in [
            ("cel.bind(s, self.size, s > 5)", "is not known here"),
            ("self.list.all(i, v, v > 5)", "is not known here"),
            ("self.list.sortBy(x, x) == [2, 1]", "is not known here"),
            ("self.?size.orValue(9) > 5", "failed to compile"),
            ("self.size >", "failed to compile"),
            ("self.size + 1", "did not evaluate to bool"),
            ("self.size > 'a'", "No such overload"),
        ] {
            let unchecked = unchecked(rule);
            assert!(unchecked.starts_with("spec: the rule `"), "{rule}: {unchecked}");
            assert!(unchecked.contains(why), "{rule}: {unchecked}");
        }
        let optional = json!([{ "rule": "oldSelf.hasValue() && self > 5", "optionalOldSelf": true }]);
        let schema = of_spec(json!({ "type": "integer", RULES: optional }));
        assert!(found(&schema, json!(1), None).unchecked.concat().contains("optionalOldSelf is not known here"));
    }

    #[test]
    fn a_hostile_rule_is_given_up() {
        assert!(unchecked(&"(".repeat(MAX_RULE_BYTES + 1)).contains("longer than 4 KiB"));
        for part in ["(", "[", "!", "-", "{1:", "1 ? 1 : ", "self.all(x, ", "self.size.", "self.size["] {
            let rule = part.repeat(MAX_RULE_BYTES / part.len());
            let unchecked = unchecked(&rule);
            assert!(unchecked.contains("not checked"), "{part}: {unchecked}");
        }
    }

    #[test]
    fn rules_that_take_too_long_are_given_up() {
        let rule = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))";
        let schema = of_spec(json!({ "type": "array", "items": { "type": "integer" }, RULES: [{ "rule": rule }] }));
        let object = json!({ "spec": (0..60).collect::<Vec<_>>() });
        let kind = Kind::new("example.com", "v1", "Test");
        let findings = within(Duration::from_millis(10), &kind, Schema::new(&schema), &object, None);
        assert_eq!(findings.problems, []);
        assert!(findings.unchecked.concat().contains("take longer than 0.01 s"), "{:?}", findings.unchecked);
    }
}
