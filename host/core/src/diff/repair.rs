//! What has to be replaced in a live child before an apply can bring it to what is desired.

use std::collections::HashSet;

use serde_json::Value;

use crate::model::managed_fields::FieldSet;

/// The most pairs of list elements that are compared: the plugin chooses the length of its lists, and an editor of
/// the object the number of keys.
const PAIRS: usize = 4096;

/// A value to be replaced before an apply can reach the desired state.
#[derive(Clone, Debug, PartialEq)]
pub struct Repair {
    /// The JSON pointer to it in the live object.
    pub pointer: String,
    /// The new value.
    pub value: Value,
}

/// Returns the repairs of elements of ours that another writer edited by changing a key. To the API server ours is
/// gone and the edited one is foreign, so no apply removes it. The edited element is found by the fields that it
/// still shares with ours; if there is none, the whole list is replaced by the desired one.
pub fn repairs(fields: &str, desired: &Value, live: &Value) -> Vec<Repair> {
    let mut repairs = Vec::new();
    if let Ok(fields) = FieldSet::read(fields) {
        find_repairs(Some(&fields), desired, live, String::new(), &mut repairs);
    }
    repairs
}

fn find_repairs(node: Option<&FieldSet<'_>>, desired: &Value, live: &Value, pointer: String, found: &mut Vec<Repair>) {
    match (desired, live) {
        (Value::Object(members), Value::Object(there)) => {
            for (key, value) in members {
                let Some(live) = there.get(key) else { continue };
                let below = node.and_then(|node| node.member(key));
                let key = key.replace('~', "~0").replace('/', "~1");
                find_repairs(below, value, live, format!("{pointer}/{key}"), found);
            }
        }
        (Value::Array(elements), Value::Array(there)) if elements.iter().all(Value::is_object) => match node {
            Some(node) if node.is_leaf() => {}
            Some(node) => find_repairs_of_elements(node, elements, there, pointer, found),
            None => restore(elements, elements.iter().collect(), there, HashSet::new(), pointer, found),
        },
        _ => {}
    }
}

fn find_repairs_of_elements(
    node: &FieldSet<'_>,
    elements: &[Value],
    there: &[Value],
    pointer: String,
    found: &mut Vec<Repair>,
) {
    let keyed = node.keyed();
    let indices = keyed.in_list(there);
    let mut lost = Vec::new();
    for (element, place) in elements.iter().zip(keyed.of_each(elements)) {
        let Some((below, index)) = place.and_then(|place| keyed.nodes.get(place).zip(indices.get(place))) else {
            lost.push(element);
            continue;
        };
        if let Some((index, live)) = index.and_then(|index| Some((index, there.get(index)?))) {
            find_repairs(Some(below), element, live, format!("{pointer}/{index}"), found);
        }
    }
    restore(elements, lost, there, indices.into_iter().flatten().collect(), pointer, found);
}

/// Puts back the elements that were lost from a list, each with all below it, where it was edited; `known` are the
/// places of those that are still ours.
fn restore(
    elements: &[Value],
    lost: Vec<&Value>,
    there: &[Value],
    known: HashSet<usize>,
    pointer: String,
    found: &mut Vec<Repair>,
) {
    if lost.is_empty() {
        return;
    }
    let Some(edited) = edited(&lost, there, known) else {
        return found.push(Repair { pointer, value: elements.into() });
    };
    for (element, (index, live)) in lost.into_iter().zip(edited) {
        let pointer = format!("{pointer}/{index}");
        let value = with_scalars(live, element);
        if value != *live {
            found.push(Repair { pointer: pointer.clone(), value });
        }
        find_repairs(None, element, live, pointer, found);
    }
}

/// Where each element that was lost is in the list; none where that is not known of one.
fn edited<'v>(lost: &[&Value], there: &'v [Value], mut known: HashSet<usize>) -> Option<Vec<(usize, &'v Value)>> {
    if lost.len() * there.len() > PAIRS {
        return None;
    }
    let find = |element: &&Value| {
        let (index, live) = most_alike(element, there, &known)?;
        known.insert(index);
        Some((index, live))
    };
    lost.iter().map(find).collect()
}

/// The element that has most in common with a lost one, where no other has as much.
fn most_alike<'v>(element: &Value, there: &'v [Value], known: &HashSet<usize>) -> Option<(usize, &'v Value)> {
    let members = element.as_object()?;
    let likeness = |other: &Value| members.iter().filter(|(key, value)| other.get(key) == Some(value)).count();
    let others = (0..).zip(there).filter(|(index, _)| !known.contains(index));
    let mut others: Vec<_> = others.map(|(index, other)| (likeness(other), index, other)).collect();
    others.sort_by_key(|(likeness, ..)| std::cmp::Reverse(*likeness));
    let next = others.get(1).map_or(0, |(likeness, ..)| *likeness);
    let (likeness, index, other) = others.first()?;
    (*likeness > next).then_some((*index, *other))
}

/// An element as it is, but with the scalars of another, among which are the keys of every list.
fn with_scalars(live: &Value, of: &Value) -> Value {
    let mut live = live.clone();
    let scalars = of.as_object().into_iter().flatten().filter(|(_, value)| !value.is_object() && !value.is_array());
    if let Some(members) = live.as_object_mut() {
        members.extend(scalars.map(|(key, value)| (key.clone(), value.clone())));
    }
    live
}
