//! Memory quota: rejects a decision if caching its children would exceed `limits.heldBytes`. Pure.
//!
//! A plugin that may create ConfigMaps and asks for their `data` chooses how much the host caches: a megabyte
//! for each child, hundreds of children for each parent. All plugins share that memory.

use crate::check::Desired;
use crate::model::kind::ObjectRef;
use crate::model::object::BESIDE;
use crate::model::object::ObservedChildren;

/// A decision whose children the host has no room in memory for, beside those of the plugin's other parents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{parent}: its children would take up to {more} bytes more, and those of all parents take {held} of {most} (limits.heldBytes); return fewer or smaller ones, ask for fewer of their fields in describe, or raise the limit"
)]
#[expect(missing_docs, reason = "the fields are the words of the message")]
pub struct NoRoom {
    pub parent: String,
    pub more: usize,
    pub held: usize,
    pub most: usize,
}

/// The memory quota of all children of one plugin, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// What they use now.
    pub held: usize,
    /// What they may use.
    pub most: usize,
    /// The longest answer.
    pub answer: usize,
}

/// Checks that the growth of a parent's children fits into the plugin's quota. Children that do not grow always
/// fit.
///
/// # Errors
/// Where it does not fit.
pub fn check(parent: &ObjectRef, desired: &[Desired], children: &ObservedChildren, quota: Quota) -> Result<(), NoRoom> {
    let Quota { held, most, answer } = quota;
    // Serialising the desired children takes longer than many a decision.
    if held.saturating_add(answer) <= most {
        return Ok(());
    }
    let more: usize = desired.iter().map(|one| growth(one, children)).sum();
    if more == 0 || held.saturating_add(more) <= most {
        return Ok(());
    }
    Err(NoRoom { parent: parent.to_string(), more, held, most })
}

/// Returns how much a child may grow: at most the whole desired child is cached.
fn growth(desired: &Desired, children: &ObservedChildren) -> usize {
    let known = children.iter().find(|(kind, child)| desired.reference.is(kind, &child.key)).map(|(_, child)| child);
    if known.is_some_and(|child| child.applied.as_deref() == Some(&*desired.digest)) {
        return 0;
    }
    let wanted = BESIDE + desired.body.to_string().len();
    wanted.saturating_sub(known.map_or(0, |child| child.held()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::model::kind::Kind;
    use crate::model::object::{Lens, Object};
    use crate::model::projection::Projection;

    const MOST: usize = 100_000;

    fn desired(name: &str, digest: &str, bytes: usize) -> Desired {
        let reference =
            ObjectRef { kind: Kind::new("", "v1", "ConfigMap"), namespace: Some("n".into()), name: name.into() };
        Desired {
            reference,
            body: Arc::new(json!({ "data": { "text": "x".repeat(bytes) } })),
            digest: digest.into(),
            is_created_once: false,
        }
    }

    /// A child that is cached as it was desired.
    fn child(intent: &Desired) -> ObservedChildren {
        let lens = Lens { projection: Projection::new(&["data"]), labels: Vec::new(), status: false };
        let metadata = json!({
            "name": &*intent.reference.name, "namespace": "n", "uid": "u", "resourceVersion": "1",
            "annotations": { "hotshoe.dev/applied": &*intent.digest },
        });
        let json = json!({ "metadata": metadata, "data": &intent.body["data"] }).to_string();
        let object = Arc::new(Object::read(&json, &lens).unwrap());
        assert!(object.held() > BESIDE + intent.body["data"]["text"].as_str().unwrap().len());
        vec![(intent.reference.kind.clone(), object)]
    }

    fn check(wanted: &[Desired], children: &ObservedChildren, held: usize) -> Result<(), NoRoom> {
        let parent = ObjectRef { kind: Kind::new("c", "v1", "P"), namespace: Some("n".into()), name: "p".into() };
        super::check(&parent, wanted, children, Quota { held, most: MOST, answer: 50_000 })
    }

    #[test]
    fn a_child_that_does_not_fit_beside_all_others_is_refused_with_the_limits_name() {
        let wanted = [desired("a", "1", 40_000)];
        assert_eq!(check(&wanted, &Vec::new(), MOST - 42_000), Ok(()));
        let refused = check(&wanted, &Vec::new(), MOST - 41_000).unwrap_err();
        assert_eq!((refused.held, refused.most), (MOST - 41_000, MOST));
        assert!(refused.to_string().contains("limits.heldBytes"), "{refused}");
    }

    #[test]
    fn a_child_that_grows_counts_only_for_its_growth() {
        let children = child(&desired("a", "1", 30_000));
        let grown = [desired("a", "2", 40_000)];
        assert_eq!(check(&grown, &children, MOST - 11_000), Ok(()));
        assert!((9_001..11_000).contains(&check(&grown, &children, MOST - 9_000).unwrap_err().more));
    }

    #[test]
    fn what_stays_or_shrinks_is_never_refused() {
        let before = desired("a", "1", 30_000);
        let children = child(&before);
        assert_eq!(check(&[before], &children, 2 * MOST), Ok(()));
        assert_eq!(check(&[desired("a", "2", 10)], &children, 2 * MOST), Ok(()));
        assert_eq!(check(&[], &children, 2 * MOST), Ok(()));
    }
}
