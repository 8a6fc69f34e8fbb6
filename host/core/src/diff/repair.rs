//! Finds the values that must be replaced in a live child before an apply can bring it to the desired state.

use std::collections::HashSet;

use serde_json::Value;

use crate::model::managed_fields::FieldSet;

/// The maximum number of pairs of list elements that are compared. The plugin determines the length of the desired
/// lists, and other writers determine the length of the live ones.
const MAX_PAIRS: usize = 4096;

/// A value to be replaced before an apply can reach the desired state.
#[derive(Clone, Debug, PartialEq)]
pub struct Repair {
    /// The JSON pointer to the value in the live object.
    pub pointer: String,
    /// The new value.
    pub value: Value,
}

/// Returns the repairs of list elements of ours in which another writer changed a key. To the API server our element is
/// gone and the edited one belongs to the other writer, so no apply removes it. The edited element is found by the
/// fields that it still has in common with ours; if none is found, the whole list is replaced by the desired one.
pub fn repairs(fields: &str, desired: &Value, live: &Value) -> Vec<Repair> {
    let mut repairs = Vec::new();
    if let Ok(fields) = FieldSet::read(fields) {
        find_repairs(Some(&fields), desired, live, String::new(), &mut repairs);
    }
    repairs
}

/// Returns whether repairs change more than the metadata of an object: a change of the ownership of fields does not
/// change the content.
pub fn change_content(repairs: &[Repair]) -> bool {
    repairs.iter().any(|repair| !repair.pointer.starts_with("/metadata/"))
}

/// Returns the object that results from repairs of a live one.
pub fn repaired(live: &Value, repairs: &[Repair]) -> Value {
    let mut repaired = live.clone();
    for repair in repairs {
        if let Some(place) = repaired.pointer_mut(&repair.pointer) {
            place.clone_from(&repair.value);
        }
    }
    repaired
}

fn find_repairs(node: Option<&FieldSet<'_>>, desired: &Value, live: &Value, pointer: String, found: &mut Vec<Repair>) {
    match (desired, live) {
        (Value::Object(members), Value::Object(live_members)) => {
            for (key, value) in members {
                let Some(live) = live_members.get(key) else { continue };
                let below = node.and_then(|node| node.member(key));
                let key = key.replace('~', "~0").replace('/', "~1");
                find_repairs(below, value, live, format!("{pointer}/{key}"), found);
            }
        }
        (Value::Array(elements), Value::Array(live_elements)) if elements.iter().all(Value::is_object) => match node {
            Some(node) if node.is_leaf() => {}
            Some(node) => find_repairs_of_elements(node, elements, live_elements, pointer, found),
            None => restore(elements, elements.iter().collect(), live_elements, HashSet::new(), pointer, found),
        },
        _ => {}
    }
}

fn find_repairs_of_elements(
    node: &FieldSet<'_>,
    elements: &[Value],
    live_elements: &[Value],
    pointer: String,
    found: &mut Vec<Repair>,
) {
    let keyed = node.keyed();
    let indices = keyed.in_list(live_elements);
    let mut lost = Vec::new();
    for (element, place) in elements.iter().zip(keyed.of_each(elements)) {
        let Some((below, index)) = place.and_then(|place| keyed.nodes.get(place).zip(indices.get(place))) else {
            lost.push(element);
            continue;
        };
        if let Some((index, live)) = index.and_then(|index| Some((index, live_elements.get(index)?))) {
            find_repairs(Some(below), element, live, format!("{pointer}/{index}"), found);
        }
    }
    restore(elements, lost, live_elements, indices.into_iter().flatten().collect(), pointer, found);
}

/// Restores the lost elements of a list, including everything below them. Each is restored in place of the element to
/// which it was edited; `known` are the indices of the live elements that are still ours.
fn restore(
    elements: &[Value],
    lost: Vec<&Value>,
    live_elements: &[Value],
    known: HashSet<usize>,
    pointer: String,
    found: &mut Vec<Repair>,
) {
    if lost.is_empty() {
        return;
    }
    let Some(edited) = edited(&lost, live_elements, known) else {
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

/// Returns, for each lost element, the live element that it has become by an edit, with the index; `None` if that is
/// unknown for one of them.
fn edited<'v>(
    lost: &[&Value],
    live_elements: &'v [Value],
    mut known: HashSet<usize>,
) -> Option<Vec<(usize, &'v Value)>> {
    if lost.len() * live_elements.len() > MAX_PAIRS {
        return None;
    }
    let find = |element: &&Value| {
        let (index, live) = most_similar(element, live_elements, &known)?;
        known.insert(index);
        Some((index, live))
    };
    lost.iter().map(find).collect()
}

/// Returns the live element that has most members in common with a lost one, unless another has as many.
fn most_similar<'v>(element: &Value, live_elements: &'v [Value], known: &HashSet<usize>) -> Option<(usize, &'v Value)> {
    let members = element.as_object()?;
    let similarity = |other: &Value| members.iter().filter(|(key, value)| other.get(key) == Some(value)).count();
    let others = (0..).zip(live_elements).filter(|(index, _)| !known.contains(index));
    let mut others: Vec<_> = others.map(|(index, other)| (similarity(other), index, other)).collect();
    others.sort_by_key(|(similarity, ..)| std::cmp::Reverse(*similarity));
    let next = others.get(1).map_or(0, |(similarity, ..)| *similarity);
    let (similarity, index, other) = others.first()?;
    (*similarity > next).then_some((*index, *other))
}

/// Returns a live element with the scalars of another element, because the keys of every list are scalars.
fn with_scalars(live: &Value, of: &Value) -> Value {
    let mut live = live.clone();
    let scalars = of.as_object().into_iter().flatten().filter(|(_, value)| !value.is_object() && !value.is_array());
    if let Some(members) = live.as_object_mut() {
        members.extend(scalars.map(|(key, value)| (key.clone(), value.clone())));
    }
    live
}
