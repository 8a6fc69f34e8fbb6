//! What a decision would change of the objects that exist. Pure.
//!
//! Of an object that exists, the fields count that the decision names and those that the plugin has applied before: what
//! others have set stays as it is.

use serde::Serialize;
use serde_json::{Map, Value, json};

use hotshoe_core::check::Desired;
use hotshoe_core::check::admission::AdmittedDecision;
use hotshoe_core::check::update_strategy::UpdateStrategy;
use hotshoe_core::compare::json_diff::{Field, Fields, Rules, compare};
use hotshoe_core::diff;
use hotshoe_core::diff::associative_lists::AssociativeLists;
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::managed_fields::FieldSet;
use hotshoe_core::model::object::{HOST_PREFIX, ObservedChildren, metadata_manager, plugin_manager};
use hotshoe_core::simulation::{list_key, same_element};

use super::world;
use hotshoe_operator::config::PluginConfig;

/// The maximum number of fields of one object that are named.
const MAX_FIELDS: usize = 200;
/// The members of a Secret whose values are never shown.
const SECRET_MEMBERS: [&str; 2] = ["data", "stringData"];
/// Replaces a value of a Secret.
const HIDDEN: &str = "(hidden)";

/// What happens to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    Create,
    Change,
    Delete,
    Keep,
}

/// What a decision means for one child.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Change {
    pub(super) action: Action,
    #[serde(serialize_with = "as_text")]
    pub(super) child: ObjectRef,
    /// Whether it is deleted and made anew instead, where the API server does not let it change.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) may_recreate: bool,
    /// The fields that change.
    pub(super) fields: Vec<Field>,
    /// The part of the child that the plugin determines, before and after.
    #[serde(skip)]
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

/// What a decision would change.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Changes {
    pub(super) children: Vec<Change>,
    /// The labels and annotations of the parent that change.
    pub(super) metadata: Vec<Field>,
    /// The fields of the status that change.
    pub(super) status: Vec<Field>,
}

fn as_text<S: serde::Serializer>(child: &ObjectRef, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(child)
}

impl Changes {
    /// Compares an admitted decision with what exists. `is_tainted` says that the plugin was shown Secrets: then no value
    /// is shown.
    pub(super) fn of(
        admitted: &AdmittedDecision,
        parent: &Value,
        children: &[Value],
        plugin: &PluginConfig,
        is_tainted: bool,
    ) -> Self {
        let (status, metadata) = (status(admitted, parent, is_tainted), metadata(admitted, parent, plugin, is_tainted));
        let Some(desired) = admitted.desired.clone() else { return Self { children: Vec::new(), metadata, status } };
        let (makers, manager) = (plugin.makers(), &*plugin_manager(&plugin.name));
        let observed: ObservedChildren = children.iter().filter_map(observed).collect();
        let deleted = diff::plan(desired.clone(), &observed, &makers, manager, &AssociativeLists::default()).prune;
        let live = |child: &ObjectRef| {
            children.iter().find(|live| {
                ObjectRef::of(live).is_ok_and(|reference| {
                    (&reference.namespace, &reference.name) == (&child.namespace, &child.name)
                        && reference.kind.is_served_as(&child.kind)
                })
            })
        };
        let mut changes: Vec<Change> =
            desired.iter().map(|desired| change(desired, live(&desired.reference), manager, is_tainted)).collect();
        changes.extend(deleted.iter().map(|(kind, child)| {
            let child =
                ObjectRef { kind: kind.clone(), namespace: child.key.namespace.clone(), name: child.key.name.clone() };
            let before = live(&child).map(|live| hidden(unstamped(live.clone()), is_tainted));
            let (may_recreate, fields) = (false, Vec::new());
            Change { action: Action::Delete, child, may_recreate, fields, before, after: None }
        }));
        Self { children: changes, metadata, status }
    }

    /// Returns how many children would be created, changed and deleted.
    pub(super) fn counts(&self) -> [usize; 3] {
        let count = |action| self.children.iter().filter(|change| change.action == action).count();
        [Action::Create, Action::Change, Action::Delete].map(count)
    }

    /// Returns whether the status would be written, and nothing else.
    pub(super) fn writes_status_alone(&self) -> bool {
        self.counts() == [0; 3] && self.metadata.is_empty() && !self.status.is_empty()
    }

    /// Returns whether nothing would be written.
    pub(super) fn is_empty(&self) -> bool {
        self.counts() == [0; 3] && self.metadata.is_empty() && self.status.is_empty()
    }
}

fn observed(child: &Value) -> Option<(Kind, std::sync::Arc<hotshoe_core::model::object::Object>)> {
    Some((ObjectRef::of(child).ok()?.kind, std::sync::Arc::new(world::read(child, false)?)))
}

fn change(desired: &Desired, live: Option<&Value>, manager: &str, is_tainted: bool) -> Change {
    let (child, after) = (desired.reference.clone(), unstamped((*desired.body).clone()));
    let Some(live) = live else {
        return Change {
            action: Action::Create,
            child,
            may_recreate: false,
            fields: Vec::new(),
            before: None,
            after: Some(hidden(after, is_tainted)),
        };
    };
    if desired.is_created_once {
        let (may_recreate, fields) = (false, Vec::new());
        return Change { action: Action::Keep, child, may_recreate, fields, before: None, after: None };
    }
    let object = world::read(live, false);
    let own = object.as_ref().and_then(|object| object.owned_fields(manager, false));
    let own = own.and_then(|fields| FieldSet::read(fields).ok());
    let part = unstamped(part_of("", live, Some(&desired.body), own.as_ref()));
    let secret: &[&str] = if child.kind.is("", "Secret") { &SECRET_MEMBERS } else { &[] };
    let rules = Rules { secret, ignored: "", tainted: is_tainted };
    let Fields { listed: fields, .. } = compare(Some(&part), Some(&after), MAX_FIELDS, rules);
    let action = if fields.is_empty() { Action::Keep } else { Action::Change };
    let [before, after] = [part, after].map(|object| Some(hidden(object, is_tainted)));
    let may_recreate = action == Action::Change && desired.strategy == UpdateStrategy::Recreate;
    Change { action, child, may_recreate, fields, before, after }
}

/// Returns the part of a live value that the desired value or the plugin's own fields cover. The value has this name.
fn part_of(name: &str, live: &Value, desired: Option<&Value>, own: Option<&FieldSet<'_>>) -> Value {
    if own.is_some_and(FieldSet::is_leaf) {
        return live.clone();
    }
    match (live, desired) {
        (Value::Object(members), None | Some(Value::Object(_))) => {
            let part = members.iter().filter_map(|(name, value)| {
                let is_identity = matches!(name.as_str(), "apiVersion" | "kind" | "name" | "namespace");
                let desired = desired.and_then(|desired| desired.get(name));
                let own = own.and_then(|own| own.member(name));
                let counts = desired.is_some() || own.is_some();
                (counts || (is_identity && value.is_string() && desired.is_some()))
                    .then(|| (name.clone(), part_of(name, value, desired, own)))
            });
            Value::Object(part.collect::<Map<_, _>>())
        }
        (Value::Array(elements), None | Some(Value::Array(_))) => part_of_list(name, elements, desired, own),
        _ => live.clone(),
    }
}

fn part_of_list(name: &str, elements: &[Value], desired: Option<&Value>, own: Option<&FieldSet<'_>>) -> Value {
    let wanted = desired.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let Some(key) = list_key(name, elements.iter().chain(wanted)) else { return part_of_atomic(elements, wanted) };
    let part = elements.iter().filter_map(|element| {
        let desired = wanted.iter().find(|wanted| same_element(key, wanted, element));
        let own = own.and_then(|own| own.element(element));
        (desired.is_some() || own.is_some()).then(|| part_of("", element, desired, own))
    });
    Value::Array(part.collect())
}

/// Returns the part of a list that is written as a whole. While it has as many elements as are desired, what the API server
/// has filled into each is left out.
fn part_of_atomic(elements: &[Value], wanted: &[Value]) -> Value {
    if elements.len() != wanted.len() {
        return Value::Array(elements.to_vec());
    }
    elements.iter().zip(wanted).map(|(element, wanted)| part_of("", element, Some(wanted), None)).collect()
}

/// Returns an object without the values of a Secret. Of one that a plugin made that was shown Secrets, only the identity is
/// left: any key or value may be that of a Secret.
fn hidden(mut object: Value, is_tainted: bool) -> Value {
    if is_tainted {
        let at = |pointer: &str| object.pointer(pointer).cloned().unwrap_or_default();
        let metadata = json!({ "namespace": at("/metadata/namespace"), "name": at("/metadata/name") });
        return json!({ "apiVersion": at("/apiVersion"), "kind": at("/kind"), "metadata": metadata });
    }
    let is_secret = ObjectRef::of(&object).is_ok_and(|reference| reference.kind.is("", "Secret"));
    for member in SECRET_MEMBERS.iter().filter(|_| is_secret) {
        for value in object.get_mut(member).and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
            *value = HIDDEN.into();
        }
    }
    object
}

/// Returns an object without what the host adds to each child.
fn unstamped(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("ownerReferences");
        for member in ["labels", "annotations"] {
            let Some(texts) = metadata.get_mut(member).and_then(Value::as_object_mut) else { continue };
            texts.retain(|key, _| !key.starts_with(HOST_PREFIX));
            if texts.is_empty() {
                metadata.remove(member);
            }
        }
    }
    object
}

/// Returns the labels and annotations that the decision states of the parent otherwise than they are, and those that it has
/// stated before and no longer does.
fn metadata(admitted: &AdmittedDecision, parent: &Value, plugin: &PluginConfig, is_tainted: bool) -> Vec<Field> {
    let (Some(stated), Some(live)) = (&admitted.metadata, parent.get("metadata")) else { return Vec::new() };
    let known = world::read(parent, true);
    let own = known.as_ref().and_then(|known| known.owned_fields(&metadata_manager(&plugin.name), false));
    let own = own.and_then(|fields| FieldSet::read(fields).ok());
    let own = own.as_ref().and_then(|own| own.member("metadata"));
    let after = Value::Object(stated.members());
    let [before, after] = [part_of("", live, Some(&after), own), after].map(|metadata| json!({ "metadata": metadata }));
    let rules = Rules { tainted: is_tainted, ..Rules::default() };
    compare(Some(&before), Some(&after), MAX_FIELDS, rules).listed
}

/// Returns the fields of the status that the decision states otherwise than they are. Of a condition the time of its last
/// change and the generation do not count.
fn status(admitted: &AdmittedDecision, parent: &Value, is_tainted: bool) -> Vec<Field> {
    let decision = &admitted.decision;
    let stated = decision.status.as_deref().and_then(|status| serde_json::from_str::<Value>(status).ok());
    let live = parent.get("status");
    let rules = Rules { tainted: is_tainted, ..Rules::default() };
    let part = live.zip(stated.as_ref()).map(|(live, stated)| part_of("", live, Some(stated), None));
    let part = part.unwrap_or_else(|| json!({}));
    let mut fields =
        stated.map(|stated| compare(Some(&part), Some(&stated), MAX_FIELDS, rules).listed).unwrap_or_default();
    let conditions = live.and_then(|live| live.get("conditions")).and_then(Value::as_array);
    for condition in &decision.conditions {
        let known =
            conditions.into_iter().flatten().find(|known| known.get("type") == Some(&Value::from(&*condition.name)));
        let text = |name: &str| known?.get(name)?.as_str();
        let old = known.map(|_| line(text("status"), text("reason"), text("message")));
        let new = line(Some(condition.status.as_str()), Some(&condition.reason), Some(&condition.message));
        if old.as_ref() != Some(&new) {
            let new = if is_tainted { HIDDEN.to_owned() } else { new };
            fields.push(Field { path: format!("conditions[{}]", condition.name), old, new: Some(new) });
        }
    }
    for field in &mut fields {
        field.path = format!("status.{}", field.path);
    }
    fields
}

fn line(status: Option<&str>, reason: Option<&str>, message: Option<&str>) -> String {
    let [status, reason, message] = [status, reason, message].map(Option::unwrap_or_default);
    format!("{status} ({reason}): {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_set_is_no_part_and_what_the_plugin_applied_before_is() {
        let live = json!({
            "spec": {
                "replicas": 3,
                "paused": true,
                "strategy": { "type": "Recreate" },
                "containers": [
                    { "name": "a", "image": "x", "imagePullPolicy": "Always" },
                    { "name": "injected", "image": "y" },
                ],
            },
        });
        let desired = json!({ "spec": { "replicas": 2, "containers": [{ "name": "a", "image": "x" }] } });
        let own = FieldSet::read(r#"{"f:spec":{"f:replicas":{},"f:strategy":{"f:type":{}}}}"#).unwrap();
        let expected = json!({
            "spec": { "replicas": 3, "strategy": { "type": "Recreate" }, "containers": [{ "name": "a", "image": "x" }] },
        });
        assert_eq!(part_of("", &live, Some(&desired), Some(&own)), expected);
    }

    #[test]
    fn a_list_without_identities_counts_as_a_whole() {
        let (live, desired) = (json!({ "args": ["a", "b"] }), json!({ "args": ["a"] }));
        assert_eq!(part_of("", &live, Some(&desired), None), live);
    }

    #[test]
    fn elements_that_have_the_same_name_or_key_are_compared_each_with_its_own() {
        let stated = json!({
            "volumeMounts": [{ "name": "v", "mountPath": "/a" }, { "name": "v", "mountPath": "/b", "subPath": "b" }],
            "tolerations": [{ "key": "k", "effect": "NoSchedule" }, { "key": "k", "effect": "NoExecute" }],
        });
        let mut live = stated.clone();
        live["volumeMounts"][0]["recursiveReadOnly"] = "Disabled".into();
        live["tolerations"][1]["operator"] = "Exists".into();
        assert_eq!(part_of("", &live, Some(&stated), None), stated);
    }

    #[test]
    fn what_the_host_adds_and_what_a_secret_holds_is_not_shown() {
        let object = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": "s", "ownerReferences": [{}], "labels": { "hotshoe.dev/plugin": "p", "app": "a" },
                "annotations": { "hotshoe.dev/applied": "d" },
            },
            "data": { "password": "aGk=" },
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "labels": { "app": "a" } },
            "data": { "password": HIDDEN },
        });
        assert_eq!(hidden(unstamped(object), false), expected);
    }

    #[test]
    fn of_what_a_plugin_makes_that_was_shown_secrets_only_the_identity_is_shown() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "n", "labels": { "x": "s3cret" } },
            "data": { "s3cret": "s3cret" },
        });
        let expected =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "n" } });
        assert_eq!(hidden(object, true), expected);
    }
}
