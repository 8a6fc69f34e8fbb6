//! The rules (CEL) of a schema, and what they say of an object. Pure, but for the time and the memory that the author of a
//! rule chooses: `apart.rs` bounds these.

use std::error::Error;

use kube_cel::cel::ExecutionError;
use kube_cel::{ErrorKind, RootContext, ValidationError, Validator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::findings::Findings;
use super::keywords::Schema;
use super::members::{Member, join};
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::sanitize::clean;
use hotshoe_sandbox::cases::expect::RefusedField;

/// The keyword of rules.
const RULES: &str = "x-kubernetes-validations";
/// The maximum length of a rule, in bytes. What reads it is recursive, and has the stack for that.
const MAX_RULE_BYTES: usize = 4_096;
/// The maximum length of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 2_000;

/// Whether an object keeps the rules of its kind.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli) struct Question {
    api_version: String,
    group: String,
    kind: String,
    schema: Value,
    object: Value,
    old: Option<Value>,
}

/// What is said about a question, one after the other: a rule may be the last that is begun.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// A rule is evaluated next: its field, and its text.
    Begins(String, String),
    /// The object does not keep a rule.
    Problem(RefusedField),
    /// A rule of this field could not be checked, and why.
    Unchecked(String, String),
    /// All rules were evaluated.
    Done,
}

impl Question {
    /// Asks whether an object of a kind keeps the rules of its schema; none if there are no rules. `object` and `old` have
    /// their defaults.
    pub(super) fn about(kind: &Kind, schema: Schema<'_>, object: &Value, old: Option<&Value>) -> Option<Self> {
        has_rules(schema.json()).then(|| Self {
            api_version: kind.api_version(),
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            schema: schema.json().clone(),
            object: of_rules(object),
            old: old.map(of_rules),
        })
    }

    /// Evaluates the rules. What reads a rule is recursive: the caller has the stack for that.
    pub(super) fn answer(&self, say: &mut dyn FnMut(Said)) {
        let root = RootContext {
            api_version: self.api_version.clone(),
            api_group: self.group.clone(),
            kind: self.kind.clone(),
        };
        let member = Member::root(Schema::new(&self.schema), &self.object, self.old.as_ref());
        let mut evaluation = Evaluation { validator: Validator::new(), say };
        evaluation.value(&member, Some(&root));
        (evaluation.say)(Said::Done);
    }
}

/// Collects what was said. If it ends before all rules were evaluated, the last one was not checked, nor were those after
/// it, for this reason.
pub(super) fn collected(said: impl IntoIterator<Item = Said>, why_ended: &str) -> Findings {
    let (mut findings, mut begun, mut is_done) = (Findings::default(), None, false);
    for said in said {
        match said {
            Said::Begins(field, rule) => begun = Some((field, rule)),
            Said::Problem(problem) => findings.problems.push(problem),
            Said::Unchecked(field, what) => findings.unchecked(&field, what),
            Said::Done => is_done = true,
        }
    }
    match begun.filter(|_| !is_done) {
        Some((field, rule)) => {
            findings.unchecked(&field, not_checked(&rule, &format!("{why_ended}; nor were those after it")));
        }
        None if !is_done => findings.unchecked("", format_args!("its rules were not checked: {why_ended}")),
        None => {}
    }
    findings
}

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(keywords) => keywords.contains_key(RULES) || keywords.values().any(has_rules),
        Value::Array(schemas) => schemas.iter().any(has_rules),
        _ => false,
    }
}

/// Returns the object as rules see it: of its metadata they may only read the names.
fn of_rules(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| ["name", "generateName"].contains(&name.as_str()));
    }
    object
}

struct Evaluation<'s> {
    validator: Validator,
    say: &'s mut dyn FnMut(Said),
}

impl Evaluation<'_> {
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
        if let Some(why) = why_not(rule, text) {
            return (self.say)(Said::Unchecked(member.path.clone(), not_checked(text, why)));
        }
        (self.say)(Said::Begins(member.path.clone(), clean(text.to_owned(), MAX_MESSAGE_BYTES)));
        let mut schema = bare.clone();
        if let Some(schema) = schema.as_object_mut() {
            schema.insert(RULES.to_owned(), json!([rule]));
        }
        if let Err(errors) = self.validator.validate_with_context(&schema, value, old, root) {
            errors.iter().for_each(|error| (self.say)(said(rule, &member.path, error)));
        }
    }
}

/// Returns why a rule is not evaluated.
fn why_not(rule: &Value, text: &str) -> Option<&'static str> {
    let message = rule.get("messageExpression").and_then(Value::as_str).unwrap_or_default();
    if text.len().max(message.len()) > MAX_RULE_BYTES {
        return Some("it is longer than 4 KiB");
    }
    // The API server has `oldSelf` as an optional value then, which kube-cel has not.
    let is_optional = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
    is_optional.then_some("optionalOldSelf is not known here")
}

/// Returns what is said of a rule that the value at a path does not keep. One that fails is named as the API server does it,
/// by its message or else by its text.
fn said(rule: &Value, path: &str, error: &ValidationError) -> Said {
    if let Some(why) = why_unknown(error) {
        return Said::Unchecked(path.to_owned(), not_checked(&error.rule, &why));
    }
    let field = match error.field_path.trim_start_matches('.') {
        "" => path.to_owned(),
        below => join(path, below),
    };
    let name = rule.get("message").and_then(Value::as_str).unwrap_or(&error.rule).trim();
    let message = match (&error.kind, error.source()) {
        (ErrorKind::EvaluationError, Some(cause)) => format!("{cause} evaluating rule: {name}"),
        _ => error.message.clone(),
    };
    Said::Problem(RefusedField { field, message: clean(message, MAX_MESSAGE_BYTES) })
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
    use super::super::apart::STACK_BYTES;
    use super::*;

    fn of_spec(spec: Value) -> Value {
        json!({ "type": "object", "properties": { "metadata": { "type": "object" }, "spec": spec } })
    }

    fn found(schema: &Value, spec: Value, old: Option<Value>) -> Findings {
        let object = |spec: Value| json!({ "apiVersion": "example.com/v1", "kind": "Test", "metadata": { "name": "a" }, "spec": spec });
        let (kind, old) = (Kind::new("example.com", "v1", "Test"), old.map(object));
        let question = Question::about(&kind, Schema::new(schema), &object(spec), old.as_ref()).expect("rules");
        // As the child has it.
        let answer = move || {
            let mut said = Vec::new();
            question.answer(&mut |one| said.push(one));
            said
        };
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(answer).unwrap();
        collected(thread.join().unwrap(), "it ended")
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
            ["spec.most: No such key: least evaluating rule: self.least <= self.most"]
        );
        let named =
            of_spec(json!({ "type": "object", RULES: [{ "rule": "self.a / 0 > 1", "message": "not enough" }] }));
        assert_eq!(
            problems(&named, json!({ "a": 1 }), None),
            ["spec: Division by zero of Int(1) evaluating rule: not enough"]
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
    fn a_rule_at_which_the_evaluation_ends_is_named_and_what_was_found_before_stays() {
        let problem = RefusedField { field: "spec.size".to_owned(), message: "too large".to_owned() };
        let begins = |rule: &str| Said::Begins("spec".to_owned(), rule.to_owned());
        let findings = collected([begins("a"), Said::Problem(problem.clone()), begins("b")], "it takes too long");
        assert_eq!(findings.problems, [problem]);
        let expected = "spec: the rule `b` was not checked: it takes too long; nor were those after it";
        assert_eq!(findings.unchecked, [expected]);
        assert_eq!(collected([begins("a"), Said::Done], "").unchecked, Vec::<String>::new());
        assert_eq!(collected([], "no answer").unchecked, ["the object: its rules were not checked: no answer"]);
    }
}
