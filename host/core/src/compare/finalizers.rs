//! Compares the finalizers of two revisions: which parents would get the new finalizer, and which would keep the old
//! one. No decision shows this, because the host adds and removes finalizers. Pure.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::decision::Descriptor;
use crate::model::object::Object;

/// The change of finalizers on parents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FinalizerChange {
    /// The active revision's finalizer.
    pub old: Option<String>,
    /// The new revision's finalizer.
    pub new: Option<String>,
    /// The number of parents to which the new finalizer would be added.
    pub added: usize,
    /// The number of parents that would keep the old finalizer until they are deleted; then the host removes it. If
    /// there are any, the new revision requires approval.
    pub kept: usize,
    /// The number of parents that would keep the old finalizer for ever, because the new revision serves another kind.
    /// If there are any, the new revision requires approval.
    pub stranded: usize,
}

impl FinalizerChange {
    /// Compares the active revision with a new one, each with its parents. Returns `None` if kind and finalizer stay
    /// the same.
    pub fn between(
        (old, present): (&Descriptor, impl Iterator<Item = Arc<Object>>),
        (new, parents): (&Descriptor, impl Iterator<Item = Arc<Object>>),
    ) -> Option<Self> {
        let serves_same_kind = old.parent.is_served_as(&new.parent);
        if serves_same_kind && old.finalizer == new.finalizer {
            return None;
        }
        let (old, new) = (old.finalizer.clone(), new.finalizer.clone());
        let left = old.as_deref().map_or(0, |old| present.filter(|parent| holds(parent, old)).count());
        // No finalizer is added to a parent that is being deleted.
        let gets_finalizer = |parent: &Arc<Object>, new: &str| !parent.deleting && !holds(parent, new);
        let added = new.as_deref().map_or(0, |new| parents.filter(|parent| gets_finalizer(parent, new)).count());
        let (kept, stranded) = if serves_same_kind { (left, 0) } else { (0, left) };
        (old.is_some() || new.is_some()).then_some(Self { old, new, added, kept, stranded })
    }

    /// Returns whether any parent would get the new finalizer or keep the old one.
    pub fn touches_any(&self) -> bool {
        self.added + self.kept + self.stranded > 0
    }
}

fn holds(parent: &Object, finalizer: &str) -> bool {
    parent.finalizers.iter().any(|present| **present == *finalizer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::kind::Kind;
    use crate::model::object::KeptFields;
    use crate::model::projection::Projection;

    const A: &str = "example.com/a";
    const B: &str = "example.com/b";

    fn descriptor(kind: &str, finalizer: Option<&str>) -> Descriptor {
        Descriptor {
            name: "demo".into(),
            version: "1".into(),
            parent: Kind::new("example.com", "v1", kind),
            finalizer: finalizer.map(str::to_owned),
            ..Descriptor::default()
        }
    }

    fn parent(finalizers: &[&str], deleting: bool) -> Arc<Object> {
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        let mut metadata = serde_json::json!({ "name": "a", "finalizers": finalizers });
        if deleting {
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        Arc::new(Object::read(&serde_json::json!({ "metadata": metadata }).to_string(), &kept_fields).unwrap())
    }

    /// Returns the numbers of added, kept and stranded finalizers. The new revision has the same parents unless its
    /// kind differs.
    fn numbers(old: Option<&str>, (kind, new): (&str, Option<&str>)) -> Option<[usize; 3]> {
        let present = [
            parent(&[A], false),
            parent(&[A, B], false),
            parent(&[], false),
            parent(&[A], true),
            parent(&["foreign.example.com/c"], true),
        ];
        let others = [parent(&[], false)];
        let parents = if kind == "Demo" { &present[..] } else { &others[..] };
        let (old, new) = (descriptor("Demo", old), descriptor(kind, new));
        let change = FinalizerChange::between((&old, present.iter().cloned()), (&new, parents.iter().cloned()))?;
        Some([change.added, change.kept, change.stranded])
    }

    #[test]
    fn a_change_touches_parents_if_a_finalizer_is_added_kept_or_stranded() {
        let change = |added, kept, stranded| FinalizerChange { old: None, new: None, added, kept, stranded };
        for touching in [change(1, 0, 0), change(0, 1, 0), change(0, 0, 1), change(1, 1, 1), change(2, 1, 1)] {
            assert!(touching.touches_any());
        }
        assert!(!change(0, 0, 0).touches_any());
    }

    #[test]
    fn the_same_finalizer_is_no_change() {
        assert_eq!(numbers(Some(A), ("Demo", Some(A))), None);
        assert_eq!(numbers(None, ("Demo", None)), None);
        assert_eq!(numbers(None, ("Other", None)), None);
    }

    #[test]
    fn a_new_finalizer_is_added_to_all_parents_that_lack_it_and_are_not_being_deleted() {
        assert_eq!(numbers(None, ("Demo", Some(B))), Some([2, 0, 0]));
    }

    #[test]
    fn the_finalizer_of_the_active_revision_stays_until_its_parent_is_deleted() {
        assert_eq!(numbers(Some(A), ("Demo", Some(B))), Some([2, 3, 0]));
        assert_eq!(numbers(Some(A), ("Demo", None)), Some([0, 3, 0]));
    }

    #[test]
    fn the_finalizer_stays_on_parents_of_a_kind_that_is_no_longer_served() {
        assert_eq!(numbers(Some(A), ("Other", Some(A))), Some([1, 0, 3]));
        assert_eq!(numbers(Some(A), ("Other", None)), Some([0, 0, 3]));
    }
}
