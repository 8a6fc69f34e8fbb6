//! Self-test cases: an observation and the expected answer, without a cluster.
//!
//! `hotshoe test` runs the cases in a plugin's `cases/*.yaml`. `hotshoe build` embeds them in the component, so that a
//! host can run them before it activates the component. Objects in a case are written as the API server returns them,
//! and are reduced to the fields that `describe` asks for, as in production.

mod admission;
pub mod expect;
mod run;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use crate::cases::admission::shown as shown_for_admission;
use crate::cases::expect::Expect;
pub use crate::cases::run::{CaseOutcome, Report};
use crate::yaml;
use hotshoe_core::model::admission::User;
use hotshoe_core::model::decision::{Call, Descriptor, Document, Observation, Refusal, Related};
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::projection::Projection;

/// One case.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// A sentence about behaviour.
    pub name: String,
    /// The function that is called.
    #[serde(default)]
    pub call: Function,
    /// The parent.
    pub parent: Value,
    /// Whether the parent is valid by its CRD. One that is stored may be of another version, or older than a rule.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub valid: bool,
    /// The parent as it is stored, for a `validate` of a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// Who writes the parent, for `validate` and `default`; the host shows it where plugin.yaml says `showUser`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
    /// Its children, as observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Value>,
    /// Related objects by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub related: BTreeMap<String, Vec<Value>>,
    /// Children whose last write was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<RefusedChild>,
    /// The plugin's configuration.
    #[serde(default = "empty_object")]
    pub config: Value,
    /// Milliseconds since the epoch; required if the plugin asks for `now`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<u64>,
    /// Failed attempts since the last success; 0 if the plugin asks for `attempt` and the case leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// How soon nothing changes any more, once the decisions are carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Steady>,
    /// The expected answer. A case without one only shows the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
}

/// A bound on the decisions that change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Steady {
    /// The maximum number of such decisions.
    pub within: NonZeroU32,
}

/// A child whose last write was refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "explained at `decision::Refusal`")]
pub struct RefusedChild {
    #[serde(default)]
    pub group: String,
    pub version: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    pub code: u16,
    pub reason: String,
    pub message: String,
}

/// The function that a case calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the functions of the contract")]
pub enum Function {
    #[default]
    Reconcile,
    Finalize,
    Validate,
    Default,
}

impl Function {
    /// Returns the call, if the function answers with a decision.
    pub fn decision(self) -> Option<Call> {
        match self {
            Self::Reconcile => Some(Call::Reconcile),
            Self::Finalize => Some(Call::Finalize),
            Self::Validate | Self::Default => None,
        }
    }
}

fn empty_object() -> Value {
    json!({})
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_true(flag: &bool) -> bool {
    *flag
}

impl Case {
    /// Returns a case in which nothing exists but the parent.
    pub fn of_parent(name: String, parent: Value) -> Self {
        Self {
            name,
            call: Function::Reconcile,
            parent,
            valid: true,
            old: None,
            user: None,
            children: Vec::new(),
            related: BTreeMap::new(),
            refusals: Vec::new(),
            config: empty_object(),
            now: None,
            attempt: None,
            steady: None,
            expect: None,
        }
    }

    /// Parses the case in a file. As in Kubernetes' own YAML only `true` and `false` are booleans, so that a namespace
    /// may be called `n`.
    ///
    /// # Errors
    /// If the text is no case. The message names the key and the line.
    pub fn from_yaml(text: &str) -> Result<Case, String> {
        let options = serde_saphyr::options! { strict_booleans: true };
        yaml::parse(text, options)
    }

    /// Formats the case as in a file.
    ///
    /// # Errors
    /// If a number of it has no form in YAML.
    pub fn to_yaml(&self) -> Result<String, String> {
        yaml::format(self)
    }

    /// Returns whether another case calls the plugin with the same objects, whatever its name is and what it expects.
    pub fn begins_as(&self, other: &Case) -> bool {
        let start = |case: &Case| {
            let anonymous = Case { name: String::new(), steady: None, expect: None, ..case.clone() };
            serde_json::to_value(anonymous).ok()
        };
        start(self) == start(other)
    }

    /// Parses the cases that a component carries.
    ///
    /// # Errors
    /// If they have another form.
    pub fn carried(section: &[u8]) -> Result<Vec<Case>, String> {
        if section.is_empty() {
            return Ok(Vec::new());
        }
        serde_json::from_slice(section).map_err(|error| {
            format!(
                "the component's own cases cannot be read: {}",
                hotshoe_core::model::sanitize::clean(error.to_string(), 500)
            )
        })
    }

    /// Returns what a host with the case's objects would show the plugin for a decision.
    ///
    /// # Errors
    /// If an object is incomplete or of a kind that the plugin did not ask for.
    pub fn observation(&self, descriptor: &Descriptor) -> Result<Observation, String> {
        if descriptor.wants_now && self.now.is_none() {
            return Err("the plugin wants `now`: add it to the case, in milliseconds since the epoch".into());
        }
        Ok(Observation {
            parent: self.parent(descriptor)?,
            children: self.children(descriptor)?,
            related: self.related(descriptor)?,
            refusals: self.refusals.iter().map(Refusal::from).collect(),
            config: self.config.to_string().into(),
            now: self.now.filter(|_| descriptor.wants_now),
            attempt: descriptor.wants_attempt.then(|| self.attempt.unwrap_or(0)),
        })
    }

    fn parent(&self, descriptor: &Descriptor) -> Result<Document, String> {
        let mut fields: Vec<&str> = descriptor.parent_fields.iter().map(String::as_str).collect();
        fields.push("spec");
        if self.call == Function::Finalize {
            fields.push("status.conditions");
        }
        let parent = document(&self.parent, Some(&Projection::new(&fields)))?;
        let kind = &parent.reference.kind;
        if !kind.is_served_as(&descriptor.parent) {
            return Err(format!("the parent is a {kind}, but the plugin reconciles {}", descriptor.parent));
        }
        Ok(parent)
    }

    fn children(&self, descriptor: &Descriptor) -> Result<Vec<Document>, String> {
        let child = |object: &Value| {
            let kind = ObjectRef::of(object)?.kind;
            let owned = descriptor.owns.iter().find(|owned| owned.kind == kind);
            let owned = owned.ok_or_else(|| format!("a child is a {kind}, which the plugin does not own"))?;
            document(object, Some(&Projection::new(&owned.fields)))
        };
        let mut children = self.children.iter().map(child).collect::<Result<Vec<_>, _>>()?;
        children.sort_by(|a, b| a.reference.cmp(&b.reference));
        Ok(children)
    }

    /// Returns an entry for each declared read, and for each other key, which is a requirement's.
    fn related(&self, descriptor: &Descriptor) -> Result<Vec<Related>, String> {
        let declared = descriptor.reads.iter().map(|read| (read.key.as_str(), Some(Projection::new(&read.fields))));
        let is_declared = |key: &str| descriptor.reads.iter().any(|read| read.key == key);
        let required = self.related.keys().filter(|key| !is_declared(key)).map(|key| (key.as_str(), None));
        declared.chain(required).map(|(key, fields)| self.related_by(key, fields.as_ref())).collect()
    }

    fn related_by(&self, key: &str, fields: Option<&Projection>) -> Result<Related, String> {
        let objects = self.related.get(key).map(Vec::as_slice).unwrap_or_default();
        let mut objects = objects.iter().map(|object| document(object, fields)).collect::<Result<Vec<_>, _>>()?;
        objects.sort_by(|a, b| {
            let place = |object: &Document| (object.reference.namespace.clone(), object.reference.name.clone());
            place(a).cmp(&place(b))
        });
        Ok(Related { key: key.to_owned(), objects })
    }
}

impl From<&RefusedChild> for Refusal {
    fn from(refused: &RefusedChild) -> Self {
        Refusal {
            reference: ObjectRef {
                kind: Kind::new(&refused.group, &refused.version, &refused.kind),
                namespace: refused.namespace.as_deref().map(Into::into),
                name: refused.name.as_str().into(),
            },
            code: refused.code,
            reason: refused.reason.clone(),
            message: refused.message.clone(),
        }
    }
}

fn document(object: &Value, fields: Option<&Projection>) -> Result<Document, String> {
    let text = object.to_string();
    let json = match fields {
        Some(fields) => fields.project(&text).map_err(|error| error.to_string())?,
        None => text,
    };
    Ok(Document { reference: ObjectRef::of(object)?, json: json.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::model::decision::{MatchRule, OwnedKind, ReadKind};

    fn descriptor() -> Descriptor {
        Descriptor {
            name: "test".into(),
            version: "1".into(),
            parent: Kind::new("example.com", "v1", "Test"),
            owns: vec![OwnedKind {
                kind: Kind::new("apps", "v1", "Deployment"),
                verbs: Vec::new(),
                fields: vec!["spec.replicas".into()],
            }],
            reads: vec![ReadKind {
                key: "pods".into(),
                kind: Kind::new("", "v1", "Pod"),
                selector: String::new(),
                rule: MatchRule::ParentLabel("of".into()),
                fields: Vec::new(),
            }],
            wants_attempt: true,
            ..Descriptor::default()
        }
    }

    fn case(yaml: &str) -> Case {
        let parent = "parent: {apiVersion: example.com/v1, kind: Test, metadata: {name: a, labels: {x: y}}, spec: {size: 1}, status: {conditions: []}}";
        Case::from_yaml(&format!("name: it works\n{parent}\n{yaml}")).unwrap()
    }

    #[test]
    fn objects_are_reduced_to_the_fields_that_were_asked_for() {
        let case = case(
            "children: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: n}, spec: {replicas: 3, paused: true}}]",
        );
        let observation = case.observation(&descriptor()).unwrap();
        assert_eq!(&*observation.parent.json, r#"{"metadata":{"name":"a"},"spec":{"size":1}}"#);
        assert_eq!(
            &*observation.children[0].json,
            r#"{"metadata":{"name":"d","namespace":"n"},"spec":{"replicas":3}}"#
        );
        assert_eq!(observation.attempt, Some(0));
        assert_eq!(observation.related[0].key, "pods", "declared reads are there even when nothing was found");
    }

    #[test]
    fn conditions_are_shown_while_deleting() {
        let observation = case("call: finalize").observation(&descriptor()).unwrap();
        assert!(observation.parent.json.contains("conditions"));
    }

    #[test]
    fn an_object_that_the_plugin_did_not_ask_for_is_an_error() {
        let foreign = case("children: [{apiVersion: v1, kind: Secret, metadata: {name: s}}]");
        assert!(foreign.observation(&descriptor()).unwrap_err().contains("does not own"));
        let nameless = case("children: [{apiVersion: v1, kind: Secret}]");
        assert!(nameless.observation(&descriptor()).unwrap_err().contains("metadata.name"));
        let wants_now = Descriptor { wants_now: true, ..descriptor() };
        assert!(case("").observation(&wants_now).unwrap_err().contains("`now`"));
    }

    #[test]
    fn unknown_keys_and_needs_of_no_or_of_two_forms_are_errors() {
        for yaml in [
            "name: x\nparent: {}\nexpects: {}",
            "name: x\nparent: {}\nexpect: {decided: {children: keep, statsu: 1}}",
            "name: x\nparent: {}\nexpect: {needs: [{key: s, apiVersion: v1, kind: Pod}]}",
            "name: x\nparent: {}\nexpect: {needs: [{key: s, apiVersion: v1, kind: Pod, name: a, selector: a=b}]}",
        ] {
            assert!(Case::from_yaml(yaml).is_err(), "{yaml}");
        }
    }

    #[test]
    fn the_page_for_authors_shows_a_case_and_every_answer() {
        let page = include_str!("../../../../docs/src/test-it.md").split("\n## Cases\n").nth(1).unwrap();
        let example = Case::from_yaml(page.split("```").nth(1).unwrap().trim_start_matches("yaml")).unwrap();
        let written = serde_json::to_value(&example).unwrap();
        for key in ["name", "call", "parent", "children", "refusals", "related", "config", "now", "attempt", "expect"] {
            assert!(written.get(key).is_some(), "{key}");
        }
        for short in ["needs: ", "retry: ", "reject: ", "other: ", "verdict: ", "defaulted: ", "refused: "] {
            let (_, answer) = page.split_once(&format!("| `{short}")).unwrap();
            let yaml = format!("expect: {{{short}{}}}", answer.split('`').next().unwrap());
            assert!(case(&yaml).expect.is_some(), "{yaml}");
        }
    }

    #[test]
    fn each_kind_of_answer_can_be_written_down() {
        for expect in [
            "decided: {children: keep}",
            "decided: {children: {exactly: []}, status: {nodes: [a]}, requeueAfterMs: 5}",
            "done: {children: keep, conditions: [{type: A, status: 'True', reason: B, message: c}]}",
            "waiting: {children: keep, events: [{severity: Warning, reason: B, message: c}]}",
            "needs: [{key: s, apiVersion: v1, kind: Secret, name: x}]",
            "needs: [{key: s, apiVersion: v1, kind: Pod, namespace: n, selector: app=shop}]",
            "retry: {message: later, afterMs: 100}",
            "reject: {message: no, field: spec.size}",
            "other: something",
            "verdict: {}",
            "verdict: {errors: [{field: spec.size, reason: FieldValueInvalid, message: no}], warnings: [small]}",
            "defaulted: {apiVersion: example.com/v1, kind: Test, metadata: {name: a}, spec: {size: 1}}",
            "refused: [{field: spec.size, message: too large}, {message: no}]",
        ] {
            let case = case(&format!("expect: {{{expect}}}"));
            let json = serde_json::to_string(&vec![case.clone()]).unwrap();
            assert_eq!(Case::carried(json.as_bytes()).unwrap()[0].expect, case.expect, "{expect}");
        }
    }

    #[test]
    fn the_order_of_children_means_nothing() {
        let written = |names: [&str; 2]| {
            let children = names.map(|name| json!({"kind": "A", "metadata": {"name": name}})).to_vec();
            serde_json::from_value::<Expect>(json!({"decided": {"children": {"exactly": children}}})).unwrap().sorted()
        };
        assert_eq!(written(["a", "b"]), written(["b", "a"]));
    }
}
