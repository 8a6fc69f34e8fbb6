//! Lists of which nothing is owned while they are empty. Of a list that is one value (list type `atomic`) the API server
//! notes the owner also when it is empty. One whose elements have owners of their own (`set`, `map`) has none then, so an
//! apply of it can neither be noted nor undone. Without a schema the reply to an apply shows which of both a list is. Pure.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use serde_json::Value;

use crate::diff::walk_covered;
use crate::model::kind::Kind;

/// So many are remembered. A plugin chooses the keys on the way to a list, and so how many there are; what is forgotten is
/// learned again by an apply that changes nothing.
const MOST: usize = 4096;

/// Where a field is, in whatever element of the lists on the way.
#[derive(Clone, Copy)]
pub struct Path<'p> {
    above: Option<&'p Path<'p>>,
    key: &'p str,
}

impl<'p> Path<'p> {
    /// The object itself.
    pub const ROOT: Path<'static> = Path { above: None, key: "" };

    /// Returns the path of a member.
    pub fn member(&'p self, key: &'p str) -> Path<'p> {
        Path { above: Some(self), key }
    }

    /// Returns the path of any element.
    pub fn element(&'p self) -> Path<'p> {
        self.member("[]")
    }
}

impl Hash for Path<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
        if let Some(above) = self.above {
            above.hash(state);
        }
    }
}

/// Those that are known, of all kinds.
#[derive(Debug, Default)]
pub struct AssociativeLists {
    /// Keyed by chance, so that no plugin can make two paths collide.
    hasher: RandomState,
    known: HashSet<u64>,
}

impl AssociativeLists {
    /// Learns from the reply to an apply of `desired` which of its empty lists have no owner; `fields` is what is ours.
    pub fn learn(&mut self, kind: &Kind, desired: &Value, fields: &str) {
        let known = std::cell::RefCell::new(std::mem::take(&mut self.known));
        walk_covered(fields, desired, &|path, is_owned| {
            let (list, mut known) = (self.hasher.hash_one((kind, path)), known.borrow_mut());
            match is_owned {
                true => known.remove(&list),
                false if known.len() < MOST => known.insert(list),
                false => false,
            };
            true
        });
        self.known = known.into_inner();
    }

    /// Whether the list there is one.
    pub(super) fn has(&self, kind: &Kind, path: &Path<'_>) -> bool {
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
        assert!(!covers(FIELDS, &desired(), &kind, &lists), "it may be one value that somebody else changed");
        lists.learn(&kind, &desired(), FIELDS);
        assert!(covers(FIELDS, &desired(), &kind, &lists));
        let second = FIELDS.replace(r#"\"a\""#, r#"\"b\""#);
        let other = json!({ "spec": { "containers": [{ "name": "b", "env": [] }] } });
        assert!(covers(&second, &other, &kind, &lists), "it is the same list in every element");
        assert!(!covers(FIELDS, &desired(), &Kind::new("apps", "v1", "StatefulSet"), &lists));
    }

    #[test]
    fn an_empty_list_that_is_one_value_and_was_edited_is_not_covered() {
        let (mut lists, kind) = (AssociativeLists::default(), deployment());
        lists.learn(&kind, &desired(), FIELDS);
        for lost in [r#""f:args":{},"#, r#","f:command":{}"#] {
            assert!(!covers(&FIELDS.replace(lost, ""), &desired(), &kind, &lists), "{lost}");
        }
    }

    #[test]
    fn a_list_that_becomes_one_value_is_no_longer_known() {
        let (mut lists, kind) = (AssociativeLists::default(), deployment());
        lists.learn(&kind, &desired(), FIELDS);
        let atomic = FIELDS.replace(r#""f:args":{}"#, r#""f:args":{},"f:volumes":{}"#);
        lists.learn(&kind, &desired(), &atomic);
        assert!(covers(&atomic, &desired(), &kind, &lists));
        assert!(!covers(FIELDS, &desired(), &kind, &lists));
    }

    #[test]
    fn however_many_lists_a_plugin_desires_so_many_are_remembered() {
        let (mut lists, kind) = (AssociativeLists::default(), deployment());
        let many: serde_json::Map<_, _> = (0..2 * MOST).map(|n| (n.to_string(), json!([]))).collect();
        lists.learn(&kind, &json!({ "spec": many }), r#"{"f:spec":{"f:x":{}}}"#);
        assert_eq!(lists.known.len(), MOST);
    }
}
