//! The fields that field managers own, as a tree, without a schema: which lists have keys is known by the members of their
//! elements.

use serde_json::{Map, Value};

use super::merge::{DEFAULT_PROTOCOL, ListKey, PROTOCOL, key_member, list_key};
use crate::model::field_path::member;

/// A field and those below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Owned {
    /// Whether the field itself is owned, and not only some below it. One without any below is owned as a whole.
    is_member: bool,
    below: Vec<(Step, Owned)>,
}

/// The step from a field to one below it.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Member(String),
    /// An element of a list, by its keys.
    Element(Map<String, Value>),
    /// An element of a set.
    Item(Value),
}

impl Step {
    /// Returns the value to which the step leads.
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match (self, value) {
            (Self::Member(name), Value::Object(members)) => members.get(name),
            (_, Value::Array(elements)) => elements.iter().find(|element| self.is_to(element)),
            _ => None,
        }
    }

    /// Returns whether the step leads to an element of a list.
    fn is_to(&self, element: &Value) -> bool {
        let has = |(key, value): (&String, &Value)| match element.get(key) {
            Some(own) => own == value,
            // The API server fills in a key that is left out.
            None => key != PROTOCOL || value == DEFAULT_PROTOCOL,
        };
        match self {
            Self::Member(_) => false,
            Self::Element(keys) => element.is_object() && keys.iter().all(has),
            Self::Item(value) => value == element,
        }
    }
}

impl Owned {
    /// Reads `fieldsV1` of an entry in `managedFields`.
    pub(super) fn read(fields: &Value) -> Self {
        let mut owned = Self::default();
        let Value::Object(nodes) = fields else { return owned };
        owned.is_member = nodes.is_empty();
        for (key, below) in nodes {
            let step = match key.split_once(':') {
                Some(("f", name)) => Step::Member(name.to_owned()),
                Some(("k", keys)) => match serde_json::from_str(keys) {
                    Ok(keys) => Step::Element(keys),
                    Err(_) => continue,
                },
                Some(("v", value)) => match serde_json::from_str(value) {
                    Ok(value) => Step::Item(value),
                    Err(_) => continue,
                },
                _ => {
                    owned.is_member |= key == ".";
                    continue;
                }
            };
            owned.below.push((step, Self::read(below)));
        }
        owned
    }

    /// Returns the fields that an apply of this object states.
    pub(super) fn stated(object: &Value) -> Self {
        Self::stated_at("", object)
    }

    fn stated_at(name: &str, value: &Value) -> Self {
        let below = match value {
            Value::Object(members) => {
                let of_member =
                    |(name, value): (&String, &Value)| (Step::Member(name.clone()), Self::stated_at(name, value));
                members.iter().map(of_member).collect()
            }
            Value::Array(elements) => match list_key(name, elements.iter()) {
                Some(key) => elements.iter().map(|element| Self::of_element(key, element)).collect(),
                None => Vec::new(),
            },
            _ => Vec::new(),
        };
        Self { is_member: below.is_empty(), below }
    }

    fn of_element(key: ListKey, element: &Value) -> (Step, Self) {
        let keys = key.iter().filter_map(|member| Some(((*member).to_owned(), key_member(element, member)?)));
        (Step::Element(keys.collect()), Self { is_member: true, ..Self::stated(element) })
    }

    /// Adds the fields of another set.
    pub(super) fn add(&mut self, other: Self) {
        self.is_member |= other.is_member;
        for (step, below) in other.below {
            match self.below.iter_mut().find(|(known, _)| *known == step) {
                Some((_, known)) => known.add(below),
                None => self.below.push((step, below)),
            }
        }
    }

    /// Takes out the fields at a path, in every element of the lists on the way.
    pub(super) fn forget(&mut self, path: &[&str]) {
        let Some((key, rest)) = path.split_first() else { return };
        self.below.retain_mut(|(step, below)| {
            match step {
                Step::Member(name) if name != key => return true,
                Step::Member(_) if rest.is_empty() => return false,
                Step::Member(_) => below.forget(rest),
                Step::Element(_) => below.forget(path),
                Step::Item(_) => return true,
            }
            below.is_any()
        });
    }

    /// Returns the fields of an object without those that another set has.
    pub(super) fn without(&self, other: &Self, object: &Value) -> Self {
        let below = self.below.iter().filter_map(|(step, below)| {
            let value = step.of(object)?;
            let other = match step {
                Step::Member(name) => other.member(name),
                Step::Element(_) | Step::Item(_) => other.element(value),
            };
            let left = other.map_or_else(|| below.clone(), |other| below.without(other, value));
            left.is_any().then(|| (step.clone(), left))
        });
        Self { below: below.collect(), is_member: self.is_member && !other.is_member }
    }

    /// Returns the fields that are still owned by others once `after` was applied over `before` by force: those that have
    /// the same value.
    pub(super) fn kept(&self, before: &Value, after: &Value) -> Self {
        let below = self.below.iter().filter_map(|(step, below)| {
            let left = below.kept(step.of(before)?, step.of(after)?);
            left.is_any().then(|| (step.clone(), left))
        });
        let is_whole = self.below.is_empty();
        Self { below: below.collect(), is_member: self.is_member && (!is_whole || before == after) }
    }

    /// Returns the first field of `desired` that has another value and is owned.
    pub(super) fn conflict(&self, live: &Value, desired: &Value) -> Option<String> {
        self.conflict_below(live, desired, "")
    }

    fn conflict_below(&self, live: &Value, desired: &Value, path: &str) -> Option<String> {
        let Value::Object(members) = desired else { return (live != desired).then(|| path.to_owned()) };
        let conflict = |(name, desired): (&String, &Value)| {
            let owned = self.member(name)?;
            owned.conflict_below(live.get(name).unwrap_or(&Value::Null), desired, &member(path, name))
        };
        members.iter().find_map(conflict)
    }

    fn is_any(&self) -> bool {
        self.is_member || !self.below.is_empty()
    }

    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        let mut members = self.below.iter();
        members.find(|(step, _)| matches!(step, Step::Member(known) if known == name)).map(|(_, below)| below)
    }

    fn element(&self, element: &Value) -> Option<&Self> {
        self.below.iter().find(|(step, _)| step.is_to(element)).map(|(_, below)| below)
    }
}

/// Removes from an object what was owned before an apply, unless one of these sets has it: what is stated now, and what
/// others own.
pub(super) fn prune(object: &mut Value, before: &Owned, kept: &[&Owned]) {
    match object {
        Value::Object(members) => members.retain(|name, value| {
            let Some(before) = before.member(name) else { return true };
            let kept: Vec<&Owned> = kept.iter().filter_map(|kept| kept.member(name)).collect();
            if !kept.is_empty() {
                prune(value, before, &kept);
            }
            !kept.is_empty()
        }),
        Value::Array(elements) => elements.retain_mut(|element| {
            let Some(before) = before.element(element) else { return true };
            let kept: Vec<&Owned> = kept.iter().filter_map(|kept| kept.element(element)).collect();
            // An element goes with what others own in it, unless they own the element.
            let stays = !before.is_member || kept.iter().any(|kept| kept.is_member);
            if stays {
                prune(element, before, &kept);
            }
            stays
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns what is left of an object of which these fields were owned before, and are stated now or are those of others.
    fn pruned(mut object: Value, before: &Value, stated: &Value, theirs: Value) -> Value {
        prune(&mut object, &Owned::stated(before), &[&Owned::stated(stated), &Owned::read(&theirs)]);
        object
    }

    #[test]
    fn what_is_no_longer_stated_goes_unless_others_own_it() {
        let object = json!({ "labels": { "a": "1", "b": "2", "c": "3" }, "only": { "a": 1, "default": 2 } });
        let before = json!({ "labels": { "a": "1", "b": "2" }, "only": { "a": 1 } });
        let theirs = json!({ "f:labels": { "f:b": {}, "f:c": {} } });
        let expected = json!({ "labels": { "b": "2", "c": "3" } });
        assert_eq!(pruned(object.clone(), &before, &json!({}), theirs.clone()), expected);
        let stated = json!({ "labels": { "a": "1" }, "only": {} });
        assert_eq!(
            pruned(object.clone(), &before, &stated, theirs),
            json!({
                "labels": { "a": "1", "b": "2", "c": "3" }, "only": { "default": 2 },
            })
        );
    }

    #[test]
    fn an_element_goes_with_what_others_own_in_it_unless_they_own_the_element() {
        let containers = |list: Value| json!({ "containers": list });
        let object = containers(json!([{ "name": "a", "image": "1" }, { "name": "b", "image": "2", "stdin": true }]));
        let key = |name: &str| format!("k:{{\"name\":\"{name}\"}}");
        let of = |below: Value| json!({ "f:containers": { key("b"): below } });
        let gone = pruned(object.clone(), &object, &containers(json!([])), of(json!({ "f:stdin": {} })));
        assert_eq!(gone, containers(json!([])));
        let stays = pruned(
            object.clone(),
            &object,
            &containers(json!([])),
            of(json!({ ".": {}, "f:name": {}, "f:stdin": {} })),
        );
        assert_eq!(stays, containers(json!([{ "name": "b", "stdin": true }])));
        let theirs = of(json!({ "f:stdin": {} }));
        let stated = containers(json!([{ "name": "a", "image": "1" }, { "name": "b", "image": "2" }]));
        assert_eq!(pruned(object.clone(), &object, &stated, theirs), object);
    }

    #[test]
    fn another_value_takes_a_field_from_others_and_an_equal_one_is_shared() {
        let before = json!({ "a": 1, "b": 1, "args": ["x"], "gone": 1, "ports": [{ "port": 53, "protocol": "UDP" }] });
        let after = json!({ "a": 1, "b": 2, "args": ["x", "y"], "ports": [{ "port": 53, "protocol": "UDP" }] });
        let port = r#"k:{"port":53,"protocol":"UDP"}"#;
        let theirs =
            json!({ "f:a": {}, "f:b": {}, "f:args": {}, "f:gone": {}, "f:ports": { port: { ".": {}, "f:port": {} } } });
        let left = json!({ "f:a": {}, "f:ports": { port: { ".": {}, "f:port": {} } } });
        assert_eq!(Owned::read(&theirs).kept(&before, &after), Owned::read(&left));
    }

    #[test]
    fn a_conflict_is_about_another_value_of_a_field_that_is_owned() {
        let owned = Owned::read(&json!({ "f:labels": { "f:a": {}, "f:e.com/b": {} } }));
        let live = json!({ "labels": { "a": "1", "e.com/b": "1", "c": "1" } });
        let conflict = |labels: Value| owned.conflict(&live, &json!({ "labels": labels }));
        assert_eq!(conflict(json!({ "a": "1", "c": "2", "d": "2" })), None);
        assert_eq!(conflict(json!({ "a": "1", "e.com/b": "2" })).as_deref(), Some("labels['e.com/b']"));
    }

    #[test]
    fn what_is_no_field_is_no_one_s_and_a_path_is_forgotten_in_every_element() {
        assert_eq!(Owned::read(&json!("x")), Owned::default());
        let odd = json!({ "odd": {}, "k:no JSON": {}, "v:no JSON": {}, "i:1": {}, "f:a": {} });
        assert_eq!(Owned::read(&odd), Owned::read(&json!({ "f:a": {} })));
        let mut owned =
            Owned::read(&json!({ "f:list": { r#"k:{"name":"x"}"#: { ".": {}, "f:size": {} } }, "f:b": { "f:c": {} } }));
        owned.forget(&["list", "size"]);
        owned.forget(&["b", "c"]);
        owned.forget(&["missing"]);
        assert_eq!(owned, Owned::read(&json!({ "f:list": { r#"k:{"name":"x"}"#: { ".": {} } } })));
    }
}
