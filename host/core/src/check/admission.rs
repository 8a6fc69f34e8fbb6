//! Decides whether an answer is admitted. The same rules apply to a reconcile, a clean-up, a shadow run and `hotshoe
//! test`.
//!
//! All or nothing: one broken rule denies the whole decision, including its status.

use serde_json::json;

use crate::check::fix::Fix;
use crate::check::grant::CleanUpKind;
use crate::check::memory_quota::{self, DecisionMemory, NoRoom};
use crate::check::parent_metadata::{self, StatedMetadata};
use crate::check::status;
use crate::check::violation::{Denial, Violation, Violations};
use crate::check::{Context, Desired, check, unversioned_identity};
use crate::model::decision::{Answer, Call, Children, Decision};
use crate::model::kind::ObjectRef;

/// How many children of the kinds in `spec.finalize` a clean-up that creates one may have, those that it keeps included.
pub const CLEAN_UP_CHILDREN: usize = 8;

/// The observed state that an answer is checked against.
#[derive(Clone, Copy)]
pub struct ObservedState<'a> {
    /// The observed children. `None` if the gate remembers them as those which the answer desires: it admitted them before,
    /// under the same rules, and they were in sync. Then they are not checked again, and nothing of them is written.
    pub children: Option<&'a [ObjectRef]>,
    /// The memory that the host has left; absent where no host runs.
    pub room: Option<DecisionMemory<'a>>,
}

/// The progress that an answer reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// `reconcile` returned the desired state.
    Decided,
    /// `finalize` has not finished the clean-up.
    Waiting,
    /// `finalize` has finished the clean-up.
    Done,
}

impl Stage {
    /// Returns the stage's name in the plugin contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Decided => "decided",
            Stage::Waiting => "waiting",
            Stage::Done => "done",
        }
    }
}

/// An admitted answer.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmittedDecision {
    /// The progress that the answer reports.
    pub stage: Stage,
    /// The decision.
    pub decision: Decision,
    /// The children as they will be written; absent where the existing ones stay: the decision keeps them, or the gate
    /// remembers them as desired and in sync.
    pub desired: Option<Vec<Desired>>,
    /// The labels and annotations that are stated of the parent; absent where the decision keeps the existing children.
    pub metadata: Option<StatedMetadata>,
}

/// Why an answer is denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inadmissible {
    /// The answer belongs to another function than the called one.
    #[error("{0} returned the answer of another function")]
    WrongFunction(&'static str),
    /// The answer breaks rules.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// The host has no memory left for the children and the status.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
}

/// Checks an answer and completes its children.
///
/// # Errors
/// When the answer does not belong to `call`, breaks rules (all of them are listed), or needs more memory than the host
/// has left.
pub fn admit(
    call: Call,
    answer: Answer,
    observed: ObservedState<'_>,
    context: &Context<'_>,
) -> Result<AdmittedDecision, Inadmissible> {
    let (stage, decision) = staged(call, answer)?;
    let mut violations = Violations::default();
    if let Err(denial) = status::check(decision.status.as_deref(), &decision.conditions) {
        violations.extend(denial);
    }
    violations.note(status::check_owner(&decision, &context.parent.kind).map_err(Denial::from));
    let desired = match check_children(stage, &decision, observed, context) {
        Ok(desired) => desired,
        Err(denial) => {
            violations.extend(denial);
            None
        }
    };
    let metadata = violations.note(check_metadata(&decision, context)).flatten();
    let desired = violations.finish(desired)?;
    if let Some(room) = observed.room {
        memory_quota::check(context.parent, &decision, desired.as_deref().unwrap_or_default(), room)?;
    }
    Ok(AdmittedDecision { stage, decision, desired, metadata })
}

/// Checks what is stated of the parent. Unlike children it is checked each time: there is little of it.
fn check_metadata(decision: &Decision, context: &Context<'_>) -> Result<Option<StatedMetadata>, Denial> {
    let Children::Exactly(objects) = &decision.children else { return Ok(None) };
    let (stated, _) = parent_metadata::split(objects, context.parent);
    parent_metadata::check(&stated, context).map(Some)
}

fn staged(call: Call, answer: Answer) -> Result<(Stage, Decision), Inadmissible> {
    match (call, answer) {
        (Call::Reconcile, Answer::Decided(decision)) => Ok((Stage::Decided, decision)),
        (Call::Finalize, Answer::Waiting(decision)) => Ok((Stage::Waiting, decision)),
        (Call::Finalize, Answer::Done(decision)) => Ok((Stage::Done, decision)),
        (Call::Reconcile, _) => Err(Inadmissible::WrongFunction("reconcile")),
        (Call::Finalize, _) => Err(Inadmissible::WrongFunction("finalize")),
    }
}

fn check_children(
    stage: Stage,
    decision: &Decision,
    observed: ObservedState<'_>,
    context: &Context<'_>,
) -> Result<Option<Vec<Desired>>, Denial> {
    let Some(children) = observed.children else { return Ok(None) };
    match stage {
        Stage::Decided => check(decision, children, context),
        Stage::Waiting | Stage::Done => check_cleanup(stage, decision, children, context),
    }
}

/// Checks the children of a clean-up. Deleting all children is the purpose of a clean-up, so it does not need
/// `pruneAll`. It creates children only of the kinds in `spec.finalize`, and few: they are deleted with the parent.
fn check_cleanup(
    stage: Stage,
    decision: &Decision,
    children: &[ObjectRef],
    context: &Context<'_>,
) -> Result<Option<Vec<Desired>>, Denial> {
    let Some(desired) = check(decision, &[], context)? else { return Ok(None) };
    let allowed = &context.grant.finalize;
    let is_allowed = |one: &&Desired| allowed.contains(&CleanUpKind::of(&one.reference.kind));
    let is_there = |one: &Desired| {
        children.iter().any(|child| unversioned_identity(child) == unversioned_identity(&one.reference))
    };
    let count = desired.iter().filter(is_allowed).count();
    let mut violations = Violations::default();
    for one in desired.iter().filter(|one| !is_there(one)) {
        let child = &one.reference;
        match stage {
            Stage::Done => violations.add(created_when_done(child)),
            _ if !is_allowed(&one) => violations.add(not_allowed(child, allowed)),
            _ if count > CLEAN_UP_CHILDREN => violations.add(too_many(child, count)),
            _ => {}
        }
    }
    violations.finish(Some(desired))
}

/// Denies a child that would be deleted at once, with the parent.
fn created_when_done(child: &ObjectRef) -> Violation {
    let message = format!("{child}: clean-up may not create a child once it is done");
    Violation::new("create-while-deleting", message).answer("answer `waiting` until the child has served its purpose")
}

fn not_allowed(child: &ObjectRef, allowed: &[CleanUpKind]) -> Violation {
    let message = format!("{child}: clean-up may not create a child of a kind that spec.finalize does not have");
    let kinds: Vec<_> = allowed.iter().cloned().chain([CleanUpKind::of(&child.kind)]).collect();
    Violation::new("create-while-deleting", message).fixed_by(Fix::Spec("finalize", json!(kinds)))
}

fn too_many(child: &ObjectRef, count: usize) -> Violation {
    let message = format!(
        "{child}: clean-up would have {count} children of the kinds in spec.finalize, and creates none beyond {CLEAN_UP_CHILDREN}"
    );
    Violation::new("too-many-children", message).answer("leave out those that have served their purpose")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::grant::Grant;
    use crate::check::memory_quota::{ByNamespace, Quota};
    use crate::check::memory_share::Account;
    use crate::model::decision::{Condition, Descriptor, Document, OwnedKind, Truth};
    use crate::model::kind::{Kind, Namespace};
    use crate::model::object::{KeptFields, Object, ObservedChildren};
    use crate::model::projection::Projection;

    const ROOM: Quota = Quota { held: 99_000, most: 100_000, answer: 50_000 };

    fn reference(kind: &str, name: &str) -> ObjectRef {
        ObjectRef { kind: Kind::new("", "v1", kind), namespace: Some("n".into()), name: name.into() }
    }

    fn child(name: &str, json: &str) -> Document {
        Document { reference: reference("ConfigMap", name), json: json.into() }
    }

    fn exactly(children: &[Document]) -> Decision {
        Decision { children: Children::Exactly(children.to_vec()), ..Decision::default() }
    }

    /// Checks an answer for a parent that has one child, the ConfigMap `old`.
    fn admitted(call: Call, answer: Answer, room: Option<Quota>) -> Result<AdmittedDecision, Inadmissible> {
        admitted_beside(Some(&[reference("ConfigMap", "old")]), &[], call, answer, room)
    }

    fn admitted_beside(
        children: Option<&[ObjectRef]>,
        finalize: &[&str],
        call: Call,
        answer: Answer,
        room: Option<Quota>,
    ) -> Result<AdmittedDecision, Inadmissible> {
        let rules = json!([{ "kind": "ConfigMap", "verbs": ["create", "update", "delete"] }]);
        let rules = serde_json::from_value(rules).unwrap();
        let finalize = finalize.iter().map(|kind| CleanUpKind::of(&Kind::new("", "v1", kind))).collect();
        let grant = Grant {
            rules,
            prune_all: false,
            finalize,
            parent_metadata: Default::default(),
            host_namespace: "host".into(),
        };
        let kind = Kind::new("", "v1", "ConfigMap");
        let descriptor = Descriptor {
            name: "demo".into(),
            version: "1".into(),
            parent: Kind::new("c.example.com", "v1", "Parent"),
            owns: vec![OwnedKind { kind, verbs: Vec::new(), fields: Vec::new() }],
            ..Descriptor::default()
        };
        let parent = ObjectRef { kind: descriptor.parent.clone(), ..reference("Parent", "parent") };
        let context = Context {
            parent: &parent,
            uid: "u",
            plugin: "demo",
            grant: &grant,
            descriptor: &descriptor,
            most_children: 10,
            most_fields: 100,
            namespaced: Box::new(|_| Some(true)),
            label_of: Box::new(|_, _| None),
        };
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: true };
        let parent = Object::read(r#"{"metadata":{"name":"parent"}}"#, &kept_fields).unwrap();
        let (shared, observed) = (Account::default(), ObservedChildren::new());
        let by_namespace = &|_: &[Namespace]| ByNamespace { own: ROOM.held, others: Vec::new() };
        let room = room.map(|quota| DecisionMemory {
            shared: &shared,
            parent: &parent,
            children: &observed,
            quota,
            by_namespace,
        });
        admit(call, answer, ObservedState { children, room }, &context)
    }

    fn denial(call: Call, answer: Answer) -> Denial {
        match admitted(call, answer, None).unwrap_err() {
            Inadmissible::Denied(denial) => denial,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn an_answer_must_belong_to_the_called_function() {
        let decision = exactly(&[child("old", "{}")]);
        for (call, answer, stage) in [
            (Call::Reconcile, Answer::Decided(decision.clone()), Stage::Decided),
            (Call::Finalize, Answer::Waiting(decision.clone()), Stage::Waiting),
            (Call::Finalize, Answer::Done(decision.clone()), Stage::Done),
        ] {
            assert_eq!(admitted(call, answer, None).unwrap().stage, stage);
        }
        for (call, answer) in [
            (Call::Finalize, Answer::Decided(decision.clone())),
            (Call::Reconcile, Answer::Waiting(decision.clone())),
            (Call::Reconcile, Answer::Done(decision)),
            (Call::Reconcile, Answer::Needs(Vec::new())),
        ] {
            let error = admitted(call, answer, None).unwrap_err();
            assert!(matches!(error, Inadmissible::WrongFunction(_)), "{error}");
        }
    }

    #[test]
    fn violations_in_status_and_children_are_reported_together() {
        let condition = Condition {
            name: status::RECONCILED.into(),
            status: Truth::True,
            reason: "R".into(),
            message: String::new(),
        };
        let decision = Decision {
            status: Some(r#"{"conditions":[]}"#.into()),
            conditions: vec![condition],
            ..exactly(&[child("a", r#"{"status":{}}"#), child("b", "[]"), child("c", "{}")])
        };
        let denial = denial(Call::Reconcile, Answer::Decided(decision));
        let rules: Vec<_> = denial.violations().iter().map(|violation| violation.rule).collect();
        assert_eq!(rules, ["status", "status", "status", "json"]);
    }

    #[test]
    fn the_status_of_a_kind_of_kubernetes_itself_is_not_a_plugins_to_write() {
        let stating = Decision { status: Some("{}".into()), ..exactly(&[]) };
        let condition = Condition {
            name: "example.com/Ready".into(),
            status: Truth::True,
            reason: "R".into(),
            message: String::new(),
        };
        let claiming = Decision { conditions: vec![condition], ..exactly(&[]) };
        let checked = |kind: &Kind, decision: &Decision| {
            let checked = status::check_owner(decision, kind);
            assert!(
                checked.as_ref().is_err_and(|why| why.message.contains(&*kind.kind)) || checked.is_ok(),
                "{checked:?}"
            );
            checked.err().map(|violation| violation.rule)
        };
        let custom = Kind::new("c.example.com", "v1", "Parent");
        for decision in [&stating, &claiming] {
            assert_eq!(checked(&custom, decision), None);
            assert_eq!(status::unwritten_conditions(decision, &custom), None);
        }
        for (group, kind) in [
            ("", "ConfigMap"),
            ("", "Service"),
            ("", "Pod"),
            ("", "Node"),
            ("apps", "Deployment"),
            ("networking.k8s.io", "Ingress"),
            ("storagemigration.k8s.io", "StorageVersionMigration"),
        ] {
            let own = Kind::new(group, "v1", kind);
            assert_eq!(checked(&own, &stating), Some("status"), "{own}");
            // Conditions alone are left out, and everything else is done.
            assert_eq!(checked(&own, &claiming), None, "{own}");
            assert!(status::unwritten_conditions(&claiming, &own).is_some_and(|why| why.contains(kind)), "{own}");
            for without in [&exactly(&[]), &stating] {
                assert_eq!(status::unwritten_conditions(without, &own), None, "{own}");
            }
        }
    }

    /// Checks a clean-up that may create ConfigMaps, for a parent that has these already.
    fn creating(answer: Answer, children: &[String]) -> Result<AdmittedDecision, Denial> {
        let children: Vec<_> = children.iter().map(|name| reference("ConfigMap", name)).collect();
        admitted_beside(Some(&children), &["ConfigMap"], Call::Finalize, answer, None).map_err(|error| match error {
            Inadmissible::Denied(denial) => denial,
            other => panic!("{other}"),
        })
    }

    #[test]
    fn clean_up_may_create_a_few_children_of_the_kinds_that_the_grant_has_for_it_until_it_is_done() {
        let names = |count: usize| (0..count).map(|number| format!("n-{number}")).collect::<Vec<_>>();
        let desired = |count| exactly(&names(count).iter().map(|name| child(name, "{}")).collect::<Vec<_>>());
        for (is_there, desires, rule) in [
            (0, CLEAN_UP_CHILDREN, None),
            (CLEAN_UP_CHILDREN - 1, CLEAN_UP_CHILDREN, None),
            (0, CLEAN_UP_CHILDREN + 1, Some(("too-many-children", CLEAN_UP_CHILDREN + 1))),
            (CLEAN_UP_CHILDREN, CLEAN_UP_CHILDREN + 1, Some(("too-many-children", 1))),
            (CLEAN_UP_CHILDREN + 1, CLEAN_UP_CHILDREN + 1, None),
            // Those that it leaves out are deleted.
            (CLEAN_UP_CHILDREN + 1, 1, None),
        ] {
            let denied = creating(Answer::Waiting(desired(desires)), &names(is_there)).err();
            let denied = denied.map(|denial| (denial.rule(), denial.count()));
            assert_eq!(denied, rule, "{is_there} are there, {desires} are desired");
        }
        let done = creating(Answer::Done(desired(1)), &[]).unwrap_err();
        assert_eq!((done.rule(), done.count()), ("create-while-deleting", 1));
        assert!(creating(Answer::Done(desired(1)), &names(1)).is_ok());
    }

    #[test]
    fn what_clean_up_may_create_is_checked_as_any_other_child() {
        let broken = creating(Answer::Waiting(exactly(&[child("new", r#"{"status":{}}"#)])), &[]).unwrap_err();
        assert_eq!(broken.rule(), "status");
    }

    #[test]
    fn clean_up_may_change_and_delete_children_and_creates_none_unless_the_grant_has_their_kind() {
        assert!(admitted(Call::Finalize, Answer::Done(exactly(&[])), None).is_ok());
        assert_eq!(denial(Call::Reconcile, Answer::Decided(exactly(&[]))).rule(), "prune-all");
        let created =
            denial(Call::Finalize, Answer::Waiting(exactly(&["a", "old", "b"].map(|name| child(name, "{}")))));
        assert_eq!((created.rule(), created.count()), ("create-while-deleting", 2));
        assert!(created.reasons().contains("finalize: [{kind: ConfigMap}]"), "{created}");
        let done = denial(Call::Finalize, Answer::Done(exactly(&[child("a", "{}")])));
        assert!(done.reasons().contains("once it is done"), "{done}");
    }

    #[test]
    fn a_decision_that_the_host_has_no_memory_for_is_not_admitted_though_it_breaks_no_rule() {
        let large = exactly(&[child("new", &json!({ "data": { "a": "x".repeat(2_000) } }).to_string())]);
        let admitted = |room| admitted(Call::Reconcile, Answer::Decided(large.clone()), room);
        assert!(matches!(admitted(Some(ROOM)), Err(Inadmissible::NoRoom(_))));
        assert!(admitted(None).is_ok());
    }

    #[test]
    fn of_children_that_the_gate_remembers_nothing_is_written_and_the_rest_of_the_answer_is_checked() {
        let remembered = |call, answer, room| admitted_beside(None, &[], call, answer, room);
        let decision = exactly(&[child("old", "{}")]);
        let again = remembered(Call::Reconcile, Answer::Decided(decision.clone()), None).unwrap();
        assert_eq!((again.stage, again.desired, &again.decision), (Stage::Decided, None, &decision));
        let other = remembered(Call::Finalize, Answer::Decided(decision.clone()), None);
        assert!(matches!(other, Err(Inadmissible::WrongFunction(_))), "{other:?}");
        let denied = Decision { status: Some("[]".into()), ..decision.clone() };
        let denied = remembered(Call::Reconcile, Answer::Decided(denied), None);
        assert!(matches!(denied, Err(Inadmissible::Denied(_))), "{denied:?}");
        let large = Decision { status: Some(json!({ "a": "x".repeat(2_000) }).to_string()), ..decision };
        assert!(remembered(Call::Reconcile, Answer::Decided(large), Some(ROOM)).is_ok(), "the plugin shares no memory");
    }
}
