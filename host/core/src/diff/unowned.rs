//! Finds fields without an owner that make an apply invalid. Pure.
//!
//! What the API server fills in by itself belongs to no field manager, and no apply removes it. A Deployment without a
//! strategy gets `type: RollingUpdate` and parameters in `rollingUpdate`; an apply of `type: Recreate` changes the type
//! and is refused because of the parameters. Not even `rollingUpdate: null` in the apply removes them. So the choice and
//! the removal are made together, by a JSON patch of the object around them, before the next apply. What may stay, such
//! as the other defaults beside the choice, the API server fills in again.
//!
//! Only what no field manager owns is removed, and only after a refusal: the fields of others are left to a user (see
//! [`conflict`](crate::diff::conflict)).

use serde_json::{Map, Value};

use crate::diff::conflict::{MAX_CANDIDATES, MAX_LIST_LENGTH, Others, below, borrowed, names, read};
use crate::diff::coverage::is_identity;
use crate::diff::repair::Repair;
use crate::model::field_path;
use crate::model::managed_fields::FieldSet;
use crate::model::object::FieldManager;

/// The path in the API server's error if a schema refuses the object as a whole.
const WHOLE: &str = "<nil>";

/// The number of repairs to try at most.
pub const MOST_TRIES: usize = 4;

/// How a field is related to an error, the closest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Relation {
    /// The error is about the field, or about something in it.
    Itself,
    /// The error is about another member of the same object, such as a second volume source.
    Sibling,
    /// The error is about an object around it.
    Inside,
    /// The error is about the object around it, and it is no object itself.
    Scalar,
}

/// A field without an owner that is not desired.
struct Candidate<'v> {
    /// The JSON pointer to the object that contains the field, in the live object.
    around: String,
    /// The containing object as it is desired.
    desired: &'v Value,
    key: String,
    relation: Relation,
}

/// What a search for such fields depends on.
#[derive(Clone, Copy)]
pub struct Refused<'a> {
    /// Our field manager.
    pub manager: &'a str,
    /// The desired object that was refused.
    pub desired: &'a Value,
    /// The paths in the API server's error.
    pub fields: &'a [String],
    /// The paths of fields that are left to others, and never touched.
    pub left: &'a [&'a str],
}

/// Returns the repairs that may make a live object accept what was refused: several to try one after the other, each
/// removing more than the one before.
pub fn repairs(live: &Value, managers: &[FieldManager], refused: Refused<'_>) -> Vec<Vec<Repair>> {
    let (own, others) = read(managers, refused.manager);
    let mut search = Search { refused, found: Vec::new() };
    search.find(own.as_ref(), &borrowed(&others), refused.desired, live, &At::default());
    let mut relations: Vec<_> = search.found.iter().map(|candidate| candidate.relation).collect();
    relations.sort_unstable();
    relations.dedup();
    let up_to = |relation: Relation| chosen(live, search.found.iter().filter(|one| one.relation <= relation));
    relations.into_iter().map(up_to).collect()
}

/// Returns the repairs that remove fields and set what is desired around them, the outer ones first.
fn chosen<'c, 'v: 'c>(live: &Value, candidates: impl Iterator<Item = &'c Candidate<'v>>) -> Vec<Repair> {
    let mut repairs: Vec<Repair> = Vec::new();
    for Candidate { around, desired, key, .. } in candidates {
        let known = repairs.iter().position(|repair| repair.pointer == *around);
        let index = known.unwrap_or_else(|| {
            let mut value = live.pointer(around).cloned().unwrap_or_default();
            overlay(&mut value, desired);
            repairs.push(Repair { pointer: around.clone(), value });
            repairs.len() - 1
        });
        if let Some(Value::Object(members)) = repairs.get_mut(index).map(|repair| &mut repair.value) {
            members.remove(key);
        }
    }
    repairs.sort_by_key(|repair| repair.pointer.len());
    repairs
}

/// Sets what is desired in a live value. Lists stay, because others may have added elements.
fn overlay(live: &mut Value, desired: &Value) {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            for (key, desired) in desired {
                match live.get_mut(key) {
                    Some(live) => overlay(live, desired),
                    None => drop(live.insert(key.clone(), desired.clone())),
                }
            }
        }
        (Value::Array(_), Value::Array(_)) => {}
        (live, desired) => live.clone_from(desired),
    }
}

/// A place in the live object: the keys on the way, without the indices of lists, and a JSON pointer.
#[derive(Default)]
struct At {
    keys: Vec<String>,
    pointer: String,
}

impl At {
    fn member(&self, key: &str) -> Self {
        let escaped = key.replace('~', "~0").replace('/', "~1");
        let keys = self.keys.iter().map(String::as_str).chain([key]).map(str::to_owned).collect();
        Self { keys, pointer: format!("{}/{escaped}", self.pointer) }
    }

    fn element(&self, index: usize) -> Self {
        Self { keys: self.keys.clone(), pointer: format!("{}/{index}", self.pointer) }
    }
}

struct Search<'a> {
    refused: Refused<'a>,
    found: Vec<Candidate<'a>>,
}

impl<'a> Search<'a> {
    fn find(&mut self, own: Option<&FieldSet<'_>>, others: &Others<'_, '_>, desired: &'a Value, live: &Value, at: &At) {
        if own.is_some_and(FieldSet::is_leaf) || others.iter().any(|(_, fields)| fields.is_leaf()) {
            return;
        }
        match (desired, live) {
            (Value::Object(_), Value::Object(live)) => self.find_in_object(own, others, desired, live, at),
            (Value::Array(desired), Value::Array(live)) if desired.len().max(live.len()) <= MAX_LIST_LENGTH => {
                self.find_in_elements(own, others, desired, live, at);
            }
            _ => {}
        }
    }

    fn find_in_object(
        &mut self,
        own: Option<&FieldSet<'_>>,
        others: &Others<'_, '_>,
        desired: &'a Value,
        live: &Map<String, Value>,
        at: &At,
    ) {
        for (key, value) in live {
            let is_of_object = at.keys.is_empty() && (["metadata", "status"].contains(&&**key) || is_identity("", key));
            if is_of_object || self.found.len() >= MAX_CANDIDATES {
                continue;
            }
            let (below, own) = (below(others, |fields| fields.member(key)), own.and_then(|own| own.member(key)));
            match desired.get(key) {
                Some(desired) => self.find(own, &below, desired, value, &at.member(key)),
                // The object as a whole is never replaced.
                None if below.is_empty() && own.is_none() && !at.keys.is_empty() => self.add(desired, (key, value), at),
                None => {}
            }
        }
    }

    /// Searches the elements that we own, which have the same keys in both lists.
    fn find_in_elements(
        &mut self,
        own: Option<&FieldSet<'_>>,
        others: &Others<'_, '_>,
        desired: &'a [Value],
        live: &[Value],
        at: &At,
    ) {
        let Some(own) = own else { return };
        let keyed = own.keyed();
        let indices = keyed.in_list(live);
        for (element, place) in desired.iter().zip(keyed.of_each(desired)) {
            let found = place.and_then(|place| {
                let index = (*indices.get(place)?)?;
                Some((*keyed.nodes.get(place)?, index, live.get(index)?))
            });
            let Some((own, index, live)) = found else { continue };
            let others = below(others, |fields| fields.element(live));
            self.find(Some(own), &others, element, live, &at.element(index));
        }
    }

    fn add(&mut self, desired: &'a Value, (key, value): (&str, &Value), around: &At) {
        let at = around.member(key);
        let is_left = |left: &str| field_path::keys(left).is_ok_and(|left| at.keys.starts_with(&owned(left)));
        if self.refused.left.iter().any(|left| is_left(left)) {
            return;
        }
        let relations = self.refused.fields.iter().filter_map(|refused| relation(refused, &at.keys, value));
        if let Some(relation) = relations.min() {
            let (around, key) = (around.pointer.clone(), key.to_owned());
            self.found.push(Candidate { around, desired, key, relation });
        }
    }
}

fn owned<'k>(keys: impl IntoIterator<Item = &'k str>) -> Vec<String> {
    keys.into_iter().map(str::to_owned).collect()
}

/// Returns how a field is related to the path in an error. A scalar beside the refused field, or deep inside, is hardly
/// a choice of its own. Case and indices are not compared, for the reasons of [`names`].
fn relation(refused: &str, keys: &[String], value: &Value) -> Option<Relation> {
    let refused = owned(names(if refused == WHOLE { "" } else { refused }).filter(|name| !name.is_empty()));
    let starts_with = |long: &[String], short: &[String]| {
        long.len() >= short.len() && long.iter().zip(short).all(|(one, other)| one.eq_ignore_ascii_case(other))
    };
    let around = keys.split_last().map_or(&[][..], |(_, around)| around);
    let is_choice = value.is_object();
    if starts_with(&refused, keys) {
        Some(Relation::Itself)
    } else if starts_with(&refused, around) && refused.len() == keys.len() {
        is_choice.then_some(Relation::Sibling)
    } else if starts_with(keys, &refused) {
        if is_choice { Some(Relation::Inside) } else { (around.len() == refused.len()).then_some(Relation::Scalar) }
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diff::repair::repaired;

    const MANAGER: &str = "hotshoe/demo";

    fn manager(name: &str, applied: bool, fields: &Value) -> FieldManager {
        FieldManager { manager: name.into(), applied, fields: fields.to_string().into() }
    }

    /// Returns what the live object becomes by each repair after a refusal because of this path, if we own `own` and
    /// another manager owns `theirs`.
    fn tried((live, own, theirs): (&Value, &Value, &Value), desired: &Value, path: &str) -> Vec<Value> {
        let others = (*theirs != json!({})).then(|| manager("other", false, theirs));
        let managers: Vec<_> = others.into_iter().chain([manager(MANAGER, true, own)]).collect();
        let refused = Refused { manager: MANAGER, desired, fields: &[path.to_owned()], left: &["spec.left"] };
        repairs(live, &managers, refused).iter().map(|repairs| repaired(live, repairs)["spec"].clone()).collect()
    }

    const NONE: [Value; 0] = [];

    fn live() -> Value {
        json!({ "apiVersion": "apps/v1", "metadata": { "uid": "u" }, "status": {}, "spec": {
            "replicas": 1, "left": { "a": 1 }, "list": [1],
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%" } },
        } })
    }

    /// Returns the live spec with another strategy.
    fn with(strategy: Value) -> Value {
        json!({ "replicas": 1, "left": { "a": 1 }, "list": [1], "strategy": strategy })
    }

    #[test]
    fn the_parameters_of_the_default_choice_are_removed_together_with_another_choice() {
        let own = json!({ "f:spec": { "f:replicas": {} } });
        let desired = json!({ "spec": { "replicas": 1, "strategy": { "type": "Recreate" } } });
        let expected = with(json!({ "type": "Recreate" }));
        for refused in
            ["spec.strategy.rollingUpdate", "spec.strategy.rollingUpdate.maxSurge", "spec.strategy", "spec", "<nil>"]
        {
            assert_eq!(tried((&live(), &own, &json!({})), &desired, refused)[0], expected, "{refused}");
        }
        for elsewhere in ["spec.template", "spec.replicas.x.y", "metadata.labels"] {
            assert_eq!(tried((&live(), &own, &json!({})), &desired, elsewhere), NONE, "{elsewhere}");
        }
    }

    #[test]
    fn what_another_manager_owns_even_in_part_or_as_a_whole_stays_and_what_we_own_is_left_to_the_apply() {
        let own = json!({ "f:spec": { "f:replicas": {} } });
        let desired = json!({ "spec": { "replicas": 1, "strategy": { "type": "Recreate" } } });
        let refused = "spec.strategy.rollingUpdate";
        for theirs in [
            json!({ "f:spec": { "f:strategy": { "f:rollingUpdate": { "f:maxSurge": {} } } } }),
            json!({ "f:spec": { "f:strategy": {} } }),
            json!({ "f:spec": {} }),
        ] {
            assert_eq!(tried((&live(), &own, &theirs), &desired, refused), NONE, "{theirs}");
        }
        let own = json!({ "f:spec": { "f:strategy": { "f:rollingUpdate": { "f:maxSurge": {} } } } });
        assert_eq!(tried((&live(), &own, &json!({})), &desired, refused), NONE);
    }

    #[test]
    fn a_second_source_of_a_volume_is_found_in_the_element_with_its_name() {
        let of = |volumes: Value| json!({ "spec": { "volumes": volumes } });
        let theirs = json!({ "name": "x", "secret": { "defaultMode": 420 } });
        let live = of(json!([theirs, { "name": "v", "emptyDir": {}, "odd": 1 }]));
        let own = json!({ "f:spec": { "f:volumes": { r#"k:{"name":"v"}"#: { ".": {}, "f:name": {} } } } });
        let desired = of(json!([{ "name": "new" }, { "name": "v", "configMap": { "name": "c" } }]));
        let expected = json!({ "volumes": [theirs, { "name": "v", "configMap": { "name": "c" }, "odd": 1 }] });
        assert_eq!(tried((&live, &own, &json!({})), &desired, "spec.volumes[1].configMap"), [expected]);
    }

    #[test]
    fn the_field_itself_is_tried_before_what_is_beside_it_and_what_is_left_is_never_touched() {
        let desired = json!({ "spec": { "replicas": 1, "strategy": { "type": "Recreate" } } });
        let mut live = live();
        live["spec"]["strategy"]["other"] = json!({ "b": 1 });
        live["spec"]["strategy"]["number"] = json!(1);
        let own = json!({ "f:spec": { "f:replicas": {} } });
        let itself = with(json!({ "type": "Recreate", "other": { "b": 1 }, "number": 1 }));
        let beside = with(json!({ "type": "Recreate", "number": 1 }));
        assert_eq!(tried((&live, &own, &json!({})), &desired, "spec.strategy.rollingUpdate"), [itself, beside]);
        let all = with(json!({ "type": "Recreate" }));
        let objects = with(json!({ "type": "Recreate", "number": 1 }));
        assert_eq!(tried((&live, &own, &json!({})), &desired, "spec.strategy"), [objects, all]);
        assert_eq!(
            tried((&live, &own, &json!({})), &json!({ "spec": {} }), "spec.left"),
            [json!({ "replicas": 1, "left": { "a": 1 }, "list": [1] })]
        );
    }

    #[test]
    fn a_field_of_the_object_itself_is_left_alone() {
        let live = json!({ "spec": { "a": 1 }, "mode": { "b": 1 } });
        assert_eq!(
            tried((&live, &json!({ "f:spec": { "f:a": {} } }), &json!({})), &json!({ "spec": { "a": 2 } }), "mode"),
            NONE
        );
    }

    #[test]
    fn keys_of_any_form_are_found_and_a_long_list_is_not_searched() {
        let (live, own) = (json!({ "spec": { "a/b": { "c~d": { "e": 1 } } } }), json!({ "f:spec": { "f:x": {} } }));
        let desired = json!({ "spec": { "a/b": {} } });
        assert_eq!(tried((&live, &own, &json!({})), &desired, "spec"), [json!({ "a/b": {} })]);
        let long: Vec<_> = (0..=MAX_LIST_LENGTH).map(|n| json!({ "name": n.to_string(), "default": {} })).collect();
        let list = |elements: Value| json!({ "spec": { "list": elements } });
        let own = json!({ "f:spec": { "f:list": { r#"k:{"name":"1"}"#: { ".": {}, "f:name": {} } } } });
        let desired = list(json!([{ "name": "1" }]));
        assert_eq!(tried((&list(long.clone().into()), &own, &json!({})), &desired, "spec"), NONE);
        assert_eq!(tried((&list(long[..3].into()), &own, &json!({})), &desired, "spec").len(), 1);
    }

    #[test]
    fn an_outer_object_is_replaced_before_an_inner_one_and_lists_stay_as_they_are() {
        let live = json!({ "spec": { "a": { "x": 1, "y": {} }, "b": {}, "list": [1, 2] } });
        let desired = json!({ "spec": { "a": { "x": 2 }, "list": [1], "new": [3] } });
        let own = json!({ "f:spec": { "f:z": {} } });
        let expected = json!({ "a": { "x": 2 }, "list": [1, 2], "new": [3] });
        assert_eq!(tried((&live, &own, &json!({})), &desired, "spec"), [expected]);
    }
}
