//! Memory quota: rejects a decision if caching its children would exceed the part of `limits.heldBytes` that their
//! namespace may have, or if caching its children and the parent's status would exceed the plugin's part
//! of the memory that all plugins [share](super::memory_share). Pure.
//!
//! A plugin that may create ConfigMaps and asks for their `data` determines how much the host caches: up to a megabyte
//! for each child, and hundreds of children for each parent. Often the users of a namespace determine that by their
//! parents, or by large objects that look like children of a parent of theirs. So namespaces share `limits.heldBytes` by
//! the same rule as plugins share the memory, and of what one holds no more counts against another than the rule would
//! have [admitted](super::namespace_share).

use crate::check::Desired;
use crate::check::memory_share::{Account, NoShare};
use crate::check::namespace_share::may_hold_beside;
use crate::model::decision::Decision;
use crate::model::kind::{Namespace, ObjectRef};
use crate::model::object::{OBJECT_OVERHEAD_BYTES, Object, ObservedChildren};

/// The reason why a decision does not fit into the host's memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message names each field")]
pub enum NoRoom {
    /// The children would exceed the namespace's part of the plugin's quota.
    #[error(
        "{parent}: its children would take up to {more} bytes more, and the children in the same namespace take \
         {held} and may take {may} of the {most} that all namespaces share (limits.heldBytes); \
         return fewer or smaller ones, ask for fewer of their fields in describe, or raise the limit"
    )]
    Children { parent: String, more: usize, held: usize, may: usize, most: usize },
    /// The children and the status would exceed the plugin's part of the shared memory.
    #[error("{parent}: {refused}")]
    Shared { parent: String, refused: NoShare },
}

/// The memory that a decision may use, and the state from which its growth is computed.
#[derive(Clone, Copy)]
pub struct DecisionMemory<'a> {
    /// The plugin's part of the memory that all plugins share.
    pub shared: &'a Account,
    /// The observed parent.
    pub parent: &'a Object,
    /// The observed children.
    pub children: &'a ObservedChildren,
    /// The quota for the children of all of the plugin's parents.
    pub quota: Quota,
    /// Returns the memory that these children use now in these namespaces, and in each other one. It is only called if
    /// that matters, because there may be thousands of namespaces.
    pub by_namespace: &'a dyn Fn(&[Namespace]) -> ByNamespace,
}

/// The memory quota for all children of one plugin, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// The memory that the children use now.
    pub held: usize,
    /// The memory that the children may use.
    pub most: usize,
    /// The maximum length of an answer.
    pub answer: usize,
}

impl Quota {
    /// Returns whether an answer fits, whatever it is and however the used memory is divided between namespaces: by the
    /// rule of [`may_hold_beside`], that is so as long as all of them together use a quarter.
    fn fits_any(self) -> bool {
        self.held.saturating_add(self.answer) <= self.most / 4
    }
}

/// The memory of a plugin's children by their namespace, in bytes.
#[derive(Clone, Debug, Default)]
pub struct ByNamespace {
    /// The memory of the children in the namespaces in which a decision adds to them.
    pub own: usize,
    /// The memory of the children in each other namespace that has any.
    pub others: Vec<usize>,
}

/// Checks that the growth caused by a decision fits into its namespace's part of the plugin's quota and into the memory
/// that all plugins share. A decision that does not grow anything always fits. A namespace that gets its first children
/// late is not refused its part, so the sum may exceed the quota by half until the others hold less.
///
/// # Errors
/// When the decision does not fit.
pub fn check(
    reference: &ObjectRef,
    decision: &Decision,
    desired: &[Desired],
    room: DecisionMemory<'_>,
) -> Result<(), NoRoom> {
    // A cheap upper bound first: serialising the desired children can take longer than the decision itself.
    if room.quota.fits_any() && room.shared.admit(room.quota.answer).is_ok() {
        return Ok(());
    }
    let mut more: usize = 0;
    // A parent without a namespace may have children in several.
    let mut namespaces = Vec::new();
    for (one, bytes) in desired.iter().map(|one| (one, growth(one, room.children))).filter(|(_, bytes)| *bytes > 0) {
        more = more.saturating_add(bytes);
        if !namespaces.contains(&one.reference.namespace) {
            namespaces.push(one.reference.namespace.clone());
        }
    }
    check_children(reference, (more, &namespaces), room)?;
    let more = more.saturating_add(status_growth(decision, room.parent));
    namespaces.push(reference.namespace.clone());
    let no_room = |refused| NoRoom::Shared { parent: reference.to_string(), refused };
    room.shared.admit_for(&namespaces, more).map_err(no_room)
}

/// Checks that the children in these namespaces may grow by this number of bytes within the quota.
fn check_children(
    parent: &ObjectRef,
    (more, namespaces): (usize, &[Namespace]),
    room: DecisionMemory<'_>,
) -> Result<(), NoRoom> {
    if more == 0 || room.quota.fits_any() {
        return Ok(());
    }
    let (most, ByNamespace { own: held, others }) = (room.quota.most, (room.by_namespace)(namespaces));
    let may = may_hold_beside(held, &others, most);
    if held.saturating_add(more) <= may {
        return Ok(());
    }
    Err(NoRoom::Children { parent: parent.to_string(), more, held, may, most })
}

/// Returns by how many bytes the parent's cached status will grow. The check comes before the write, so a plugin that
/// states a large status for many parents is stopped in time.
fn status_growth(decision: &Decision, parent: &Object) -> usize {
    let conditions = decision.conditions.iter().map(|one| CONDITION_OVERHEAD + one.reason.len() + one.message.len());
    let desired = decision.status.as_deref().map_or(0, str::len) + conditions.sum::<usize>();
    desired.saturating_sub(parent.status().map_or(0, str::len))
}

/// The size of a condition without its reason and message, in bytes.
const CONDITION_OVERHEAD: usize = 128;

/// Returns by how many bytes a cached child can grow at most: the host caches no more than the whole desired child.
fn growth(desired: &Desired, children: &ObservedChildren) -> usize {
    let known = children.iter().find(|(kind, child)| desired.reference.is(kind, &child.key)).map(|(_, child)| child);
    if known.is_some_and(|child| child.applied.as_deref() == Some(&*desired.digest)) {
        return 0;
    }
    let largest = OBJECT_OVERHEAD_BYTES + desired.body.to_string().len();
    largest.saturating_sub(known.map_or(0, |child| child.held()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::check::memory_share::{Part, SharedMemory};
    use crate::model::decision::{Condition, Truth};
    use crate::model::kind::Kind;
    use crate::model::object::{KeptFields, Object};
    use crate::model::projection::Projection;

    const MOST: usize = 100_000;
    /// How much the only namespace may hold of that.
    const MAY: usize = 75_000;

    fn desired(name: &str, digest: &str, bytes: usize) -> Desired {
        let reference =
            ObjectRef { kind: Kind::new("", "v1", "ConfigMap"), namespace: Some("n".into()), name: name.into() };
        Desired {
            reference,
            body: Arc::new(json!({ "data": { "text": "x".repeat(bytes) } })),
            digest: digest.into(),
            is_created_once: false,
            left: Arc::default(),
            strategy: Default::default(),
        }
    }

    /// Returns a cached child that equals a desired one.
    fn child(desired: &Desired) -> ObservedChildren {
        let kept_fields = KeptFields { projection: Projection::new(&["data"]), labels: Vec::new(), status: false };
        let metadata = json!({
            "name": &*desired.reference.name, "namespace": "n", "uid": "u", "resourceVersion": "1",
            "annotations": { "hotshoe.dev/applied": &*desired.digest },
        });
        let json = json!({ "metadata": metadata, "data": &desired.body["data"] }).to_string();
        let object = Arc::new(Object::read(&json, &kept_fields).unwrap());
        assert!(object.held() > OBJECT_OVERHEAD_BYTES + desired.body["data"]["text"].as_str().unwrap().len());
        vec![(desired.reference.kind.clone(), object)]
    }

    fn parent() -> ObjectRef {
        ObjectRef { kind: Kind::new("c", "v1", "P"), namespace: Some("n".into()), name: "p".into() }
    }

    fn read_parent(json: &Value) -> Object {
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: true };
        Object::read(&json.to_string(), &kept_fields).unwrap()
    }

    /// Returns a parent with a status of so many bytes.
    fn with_status(bytes: usize) -> Object {
        read_parent(&json!({ "metadata": { "name": "p" }, "status": { "word": "x".repeat(bytes) } }))
    }

    fn check(wanted: &[Desired], children: &ObservedChildren, held: usize) -> Result<(), NoRoom> {
        check_beside(wanted, children, ByNamespace { own: held, others: Vec::new() })
    }

    /// Checks children while others take this memory.
    fn check_beside(wanted: &[Desired], children: &ObservedChildren, held: ByNamespace) -> Result<(), NoRoom> {
        let quota = Quota { held: held.others.iter().sum::<usize>() + held.own, most: MOST, answer: 50_000 };
        let (shared, by_namespace) = (&Account::default(), &|_: &[Namespace]| held.clone());
        let room = DecisionMemory { shared, parent: &with_status(0), children, quota, by_namespace };
        super::check(&parent(), &Decision::default(), wanted, room)
    }

    /// Checks a status of so many bytes after one of `before` bytes, with `room` bytes of shared memory left.
    fn check_status(bytes: usize, before: usize, room: usize) -> Result<(), NoRoom> {
        let shared = Arc::new(SharedMemory::new(MOST)).account(&"one".into());
        shared.set(Part::Parents, MOST / 4 * 3 - room);
        let decision =
            Decision { status: Some(json!({ "word": "x".repeat(bytes) }).to_string()), ..Decision::default() };
        let quota = Quota { held: 0, most: MOST, answer: 50_000 };
        let (parent_before, by_namespace) = (with_status(before), &|_: &[Namespace]| ByNamespace::default());
        let room =
            DecisionMemory { shared: &shared, parent: &parent_before, children: &Vec::new(), quota, by_namespace };
        super::check(&parent(), &decision, &[], room)
    }

    #[test]
    fn a_child_that_exceeds_the_quota_is_refused_with_the_limits_name() {
        let wanted = [desired("a", "1", 40_000)];
        assert_eq!(check(&wanted, &Vec::new(), MAY - 42_000), Ok(()));
        let refused = check(&wanted, &Vec::new(), MAY - 41_000).unwrap_err();
        assert!(matches!(refused, NoRoom::Children { held: 34_000, may: MAY, most: MOST, .. }), "{refused:?}");
        assert!(refused.to_string().contains("limits.heldBytes"), "{refused}");
    }

    #[test]
    fn children_that_fill_the_quota_to_its_last_byte_fit() {
        let wanted = [desired("a", "1", 40_000)];
        let bytes = OBJECT_OVERHEAD_BYTES + wanted[0].body.to_string().len();
        assert_eq!(check(&wanted, &Vec::new(), MAY - bytes), Ok(()));
        assert!(check(&wanted, &Vec::new(), MAY - bytes + 1).is_err());
    }

    #[test]
    fn a_namespace_that_holds_little_is_not_refused_because_another_holds_much() {
        let wanted = [desired("a", "1", 20_000)];
        let held = |own, others: &[usize]| ByNamespace { own, others: others.to_vec() };
        let check = |held| check_beside(&wanted, &Vec::new(), held);
        let refused = check(held(MAY - 10_000, &[0])).unwrap_err();
        assert!(matches!(refused, NoRoom::Children { held: 65_000, may: 50_000, .. }), "{refused:?}");
        assert_eq!(check(held(0, &[MAY])), Ok(()));
        for greedy in [MOST, 100 * MOST] {
            assert_eq!(check(held(16_000, &[greedy])), Ok(()), "it has its share, and a quarter of what is common");
            let refused = check(held(17_000, &[greedy])).unwrap_err();
            assert!(matches!(refused, NoRoom::Children { may: 37_500, .. }), "{refused:?}");
        }
    }

    #[test]
    fn children_count_in_the_namespaces_that_a_decision_adds_to() {
        let in_namespace = |namespace: Option<&str>, digest, bytes| {
            let one = desired("a", digest, bytes);
            Desired { reference: ObjectRef { namespace: namespace.map(Into::into), ..one.reference }, ..one }
        };
        let known = child(&desired("a", "1", 10));
        let wanted = [
            in_namespace(Some("n"), "1", 10),
            in_namespace(Some("b"), "1", MOST),
            in_namespace(None, "1", 10),
            in_namespace(Some("b"), "2", 10),
        ];
        let asked = Cell::new(Vec::new());
        let by_namespace = &|namespaces: &[Namespace]| {
            asked.set(namespaces.to_vec());
            ByNamespace::default()
        };
        let quota = Quota { held: MOST, most: MOST, answer: 50_000 };
        let room = DecisionMemory {
            shared: &Account::default(),
            parent: &with_status(0),
            children: &known,
            quota,
            by_namespace,
        };
        let refused = super::check(&parent(), &Decision::default(), &wanted, room);
        assert!(matches!(refused, Err(NoRoom::Children { .. })), "{refused:?}");
        assert_eq!(asked.take(), [Some("b".into()), None]);
    }

    #[test]
    fn what_a_namespace_holds_beyond_its_part_of_the_shared_memory_counts_for_its_own_parents_only() {
        let shared = Arc::new(SharedMemory::new(MOST)).account(&"one".into());
        shared.set(Part::Children, MOST);
        shared.set_excess(vec![(Some("greedy".into()), 60_000)]);
        let check_in = |namespace: &str, bytes| {
            let of = ObjectRef { namespace: Some(namespace.into()), ..parent() };
            let one = desired("a", "1", bytes);
            let one = Desired { reference: ObjectRef { namespace: of.namespace.clone(), ..one.reference }, ..one };
            let quota = Quota { held: 0, most: usize::MAX, answer: 50_000 };
            let (parent, by_namespace) = (with_status(0), &|_: &[Namespace]| ByNamespace::default());
            let room = DecisionMemory { shared: &shared, parent: &parent, children: &Vec::new(), quota, by_namespace };
            super::check(&of, &Decision::default(), &[one], room)
        };
        assert_eq!(check_in("n", 5_000), Ok(()));
        assert!(matches!(check_in("greedy", 5_000), Err(NoRoom::Shared { .. })));
        assert!(matches!(check_in("n", 20_000), Err(NoRoom::Shared { .. })), "all that is held has a bound");
    }

    proptest! {
        #[test]
        fn what_fits_into_a_quarter_together_with_all_that_is_held_fits_into_the_part_of_any_namespace(
            held in prop::collection::vec(0_usize..500, 1..8), more in 0_usize..500, beyond in 0_usize..8,
        ) {
            let most = 4 * (held.iter().sum::<usize>() + more) + beyond;
            prop_assert!(held[0] + more <= may_hold_beside(held[0], &held[1..], most));
        }
    }

    #[test]
    fn a_child_that_grows_counts_only_for_its_growth() {
        let children = child(&desired("a", "1", 30_000));
        let grown = [desired("a", "2", 40_000)];
        assert_eq!(check(&grown, &children, MAY - 11_000), Ok(()));
        let refused = check(&grown, &children, MAY - 9_000).unwrap_err();
        assert!(matches!(refused, NoRoom::Children { more: 9_001..11_000, .. }), "{refused:?}");
    }

    #[test]
    fn a_status_counts_against_the_shared_memory_before_it_is_written_and_only_for_its_growth() {
        let refused = check_status(30_000, 0, 20_000).unwrap_err();
        assert!(matches!(&refused, NoRoom::Shared { .. }) && refused.to_string().contains("all plugins share"));
        for (bytes, before) in [(10_000, 0), (30_000, 29_000), (30_000, 30_000), (30_000, 40_000)] {
            assert_eq!(check_status(bytes, before, 20_000), Ok(()), "{bytes} after {before}");
        }
    }

    #[test]
    fn conditions_count_with_their_reasons_and_messages() {
        let condition = |reason: usize, message: usize| Condition {
            name: "Ready".into(),
            status: Truth::True,
            reason: "R".repeat(reason),
            message: "m".repeat(message),
        };
        let parent = read_parent(&json!({ "metadata": { "name": "p" } }));
        let mut decision = Decision { conditions: vec![condition(10, 1_000), condition(20, 0)], ..Decision::default() };
        assert_eq!(status_growth(&decision, &parent), 2 * CONDITION_OVERHEAD + 1_030);
        decision.status = Some("{}".into());
        assert_eq!(status_growth(&decision, &parent), 2 * CONDITION_OVERHEAD + 1_032);
    }

    #[test]
    fn a_child_that_stays_or_shrinks_is_never_refused() {
        let before = desired("a", "1", 30_000);
        let children = child(&before);
        assert_eq!(check(&[before], &children, 2 * MOST), Ok(()));
        assert_eq!(check(&[desired("a", "2", 10)], &children, 2 * MOST), Ok(()));
        assert_eq!(check(&[], &children, 2 * MOST), Ok(()));
    }
}
