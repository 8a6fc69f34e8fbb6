//! Remembers the associative lists: those whose elements have owners of their own (list type `set` or `map`). Pure.
//!
//! An empty associative list has no owner in `managedFields`, so an apply of it leaves no trace and cannot be undone by
//! others. An `atomic` list has an owner even when it is empty. Without a schema, only the reply to an apply shows of
//! which type a list is.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use serde_json::Value;

use crate::diff::coverage::{Path, walk_covered};
use crate::model::kind::Kind;

/// The maximum number of lists that are remembered. A plugin determines the keys on the path to a list, and so the
/// number of lists. The type of a list that is not remembered is learned again by an apply that changes nothing.
const MAX_KNOWN_LISTS: usize = 4096;

/// Returns whether a value has an empty list at any depth.
fn has_empty_list(value: &Value) -> bool {
    match value {
        Value::Array(elements) => elements.is_empty() || elements.iter().any(has_empty_list),
        Value::Object(members) => members.values().any(has_empty_list),
        _ => false,
    }
}

/// The known associative lists of all kinds.
#[derive(Debug, Default)]
pub struct AssociativeLists {
    /// Keyed randomly, so that no plugin can make two paths collide.
    hasher: RandomState,
    known: HashSet<u64>,
}

impl AssociativeLists {
    /// Learns from the reply to an apply of `desired` which of its empty lists have no owner; `fields` are the fields
    /// that we own according to the reply.
    pub fn learn(&mut self, kind: &Kind, desired: &Value, fields: &str) {
        if !has_empty_list(desired) {
            return;
        }
        let known = std::cell::RefCell::new(std::mem::take(&mut self.known));
        walk_covered(fields, desired, &|path, is_owned| {
            let (list, mut known) = (self.hasher.hash_one((kind, path)), known.borrow_mut());
            match is_owned {
                true => known.remove(&list),
                false if known.len() < MAX_KNOWN_LISTS => known.insert(list),
                false => false,
            };
            true
        });
        self.known = known.into_inner();
    }

    /// Returns whether the list at a path is known as an associative list.
    pub(super) fn contains(&self, kind: &Kind, path: &Path<'_>) -> bool {
        self.known.contains(&self.hasher.hash_one((kind, path)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diff::covers;

    const FIELDS: &str =
        r#"{"f:spec":{"f:args":{},"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:command":{}}}}}"#;

    fn deployment() -> Kind {
        Kind::new("apps", "v1", "Deployment")
    }

    fn desired() -> Value {
        json!({ "spec": { "args": [], "volumes": [], "containers": [{ "name": "a", "command": [], "env": [] }] } })
    }

    #[test]
    fn an_empty_list_without_an_owner_is_covered_once_a_reply_has_shown_that_it_has_none() {
        let (mut lists, kind) = (AssociativeLists::default(), deployment());
        assert!(!covers(FIELDS, &desired(), &kind, &lists), "it may be an atomic list that another manager changed");
        lists.learn(&kind, &desired(), FIELDS);
        assert!(covers(FIELDS, &desired(), &kind, &lists));
        let second = FIELDS.replace(r#"\"a\""#, r#"\"b\""#);
        let other = json!({ "spec": { "containers": [{ "name": "b", "env": [] }] } });
        assert!(covers(&second, &other, &kind, &lists), "it is the same list in every element");
        assert!(!covers(FIELDS, &desired(), &Kind::new("apps", "v1", "StatefulSet"), &lists));
    }

    #[test]
    fn an_empty_atomic_list_that_was_edited_is_not_covered() {
        let (mut lists, kind) = (AssociativeLists::default(), deployment());
        lists.learn(&kind, &desired(), FIELDS);
        for lost in [r#""f:args":{},"#, r#","f:command":{}"#] {
            assert!(!covers(&FIELDS.replace(lost, ""), &desired(), &kind, &lists), "{lost}");
        }
    }

    #[test]
    fn a_list_that_becomes_atomic_is_no_longer_known() {
        let (mut lists, kind) = (AssociativeLists::default(), deployment());
        lists.learn(&kind, &desired(), FIELDS);
        let atomic = FIELDS.replace(r#""f:args":{}"#, r#""f:args":{},"f:volumes":{}"#);
        lists.learn(&kind, &desired(), &atomic);
        assert!(covers(&atomic, &desired(), &kind, &lists));
        assert!(!covers(FIELDS, &desired(), &kind, &lists));
    }

    #[test]
    fn a_bounded_number_of_lists_is_remembered() {
        let (mut lists, kind) = (AssociativeLists::default(), deployment());
        let many: serde_json::Map<_, _> = (0..2 * MAX_KNOWN_LISTS).map(|n| (n.to_string(), json!([]))).collect();
        lists.learn(&kind, &json!({ "spec": many }), r#"{"f:spec":{"f:x":{}}}"#);
        assert_eq!(lists.known.len(), MAX_KNOWN_LISTS);
    }
}
