//! The status that a decision states, compared with the parent's. Runs on the thread of the call, as *check* does: the
//! plugin chooses how large the status is.

use std::hash::{BuildHasher, RandomState};

use serde_json::Value;

use hotshoe_cluster::time;
use hotshoe_core::check::Denial;
use hotshoe_core::diff::status;
use hotshoe_core::model::decision::{Condition, Decision};
use hotshoe_core::model::object::Object;

/// What must be written of a status.
pub struct StatusPlan {
    /// The version of the parent that the status was compared with.
    version: u64,
    observed: ObservedGeneration,
    /// The fingerprint of the stated status and of the parent, to remember a status that was found current.
    pub fingerprint: u64,
    /// The body of the apply; none if the parent's status is current.
    pub body: Option<Value>,
}

/// What the status shows as the observed generation of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObservedGeneration {
    /// No observed generation: the schema of the parent's status has no field for it.
    Absent,
    /// The one that it showed before: not all children are written as the decision has them, so tools that wait for the
    /// parent must not see the parent as reconciled.
    Kept,
    /// The generation that the plugin decided about.
    Current,
}

/// What the stated status of a pass is compared by.
#[derive(Clone, Copy)]
pub struct Comparison<'a> {
    /// Makes fingerprints.
    pub hasher: &'a RandomState,
    /// The plugin's field manager.
    pub manager: &'a str,
    /// The generation of the parent on which the decision is based.
    pub generation: i64,
    /// What the status says of that generation.
    pub observed: ObservedGeneration,
    /// The fingerprint of the status that was found current last.
    pub current: Option<u64>,
}

impl StatusPlan {
    /// Compares the status that a decision states with that of the parent. Reads neither if the same was found current
    /// before.
    ///
    /// # Errors
    /// When the stated status is not a JSON object, or states what only the host may state.
    pub fn of(decision: &Decision, parent: &Object, by: Comparison<'_>) -> Result<Self, Denial> {
        let (version, fingerprint) = (parent.resource_version, fingerprint(decision, parent, by));
        if by.current == Some(fingerprint) {
            return Ok(Self { version, observed: by.observed, fingerprint, body: None });
        }
        let (stated, conditions) = (decision.status.as_deref(), &decision.conditions);
        let mut desired = status::desired(stated, conditions, parent, by.manager, by.generation, &time::now())?;
        let is_silent = stated.is_none() && conditions.is_empty();
        let is_named = stated.is_some() && status::names_generation(&desired);
        let is_anothers = || is_named || (is_silent && status::has_foreign_generation(parent));
        let is_owned = match by.observed {
            ObservedGeneration::Absent => true,
            _ if is_anothers() => true,
            ObservedGeneration::Kept => {
                status::observe(&mut desired, status::observed_generation(parent));
                true
            }
            ObservedGeneration::Current => {
                status::observe(&mut desired, by.generation);
                status::owns_generation(parent, by.manager)
            }
        };
        let is_current = is_owned && status::is_current(&desired, parent, by.manager);
        Ok(Self { version, observed: by.observed, fingerprint, body: (!is_current).then_some(desired) })
    }

    /// Returns whether the status was compared with this version of the parent, and says this of its generation.
    pub fn is_about(&self, parent: &Object, observed: ObservedGeneration) -> bool {
        (self.version, self.observed) == (parent.resource_version, observed)
    }
}

fn fingerprint(decision: &Decision, parent: &Object, by: Comparison<'_>) -> u64 {
    let of_condition =
        |one: &Condition| by.hasher.hash_one((&one.name, one.status.as_str(), &one.reason, &one.message));
    let conditions: Vec<_> = decision.conditions.iter().map(of_condition).collect();
    by.hasher.hash_one((&decision.status, conditions, &parent.uid, parent.resource_version, by.generation, by.observed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::model::decision::Truth;
    use hotshoe_core::model::object::KeptFields;
    use hotshoe_core::model::projection::Projection;

    fn parent(version: u64) -> Object {
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: true };
        let json = format!(r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"{version}"}},"status":{{}}}}"#);
        Object::read(&json, &kept_fields).unwrap()
    }

    fn stating(status: &str, message: &str) -> Decision {
        let condition =
            Condition { name: "Ready".into(), status: Truth::True, reason: "R".into(), message: message.into() };
        Decision { status: Some(status.into()), conditions: vec![condition], ..Decision::default() }
    }

    #[test]
    fn a_status_that_was_found_current_is_compared_again_only_once_it_or_the_parent_has_changed() {
        let hasher = RandomState::new();
        let comparison = Comparison {
            hasher: &hasher,
            manager: "hotshoe/m",
            generation: 1,
            observed: ObservedGeneration::Current,
            current: None,
        };
        let first = StatusPlan::of(&stating("{\"a\":1}", "m"), &parent(1), comparison).unwrap();
        assert!(
            first.body.is_some()
                && first.is_about(&parent(1), comparison.observed)
                && !first.is_about(&parent(2), comparison.observed)
        );
        assert!(!first.is_about(&parent(1), ObservedGeneration::Kept));
        let again = |status: &str, message: &str, version: u64, generation: i64| {
            let by = Comparison { generation, current: Some(first.fingerprint), ..comparison };
            StatusPlan::of(&stating(status, message), &parent(version), by).map(|plan| plan.body.is_some())
        };
        // A comparison would find a difference.
        assert_eq!(again("{\"a\":1}", "m", 1, 1), Ok(false));
        for (status, message, version, generation) in
            [("{\"a\":2}", "m", 1, 1), ("{\"a\":1}", "n", 1, 1), ("{\"a\":1}", "m", 2, 1), ("{\"a\":1}", "m", 1, 2)]
        {
            assert_eq!(again(status, message, version, generation), Ok(true), "{status} {message} {version}");
        }
    }

    #[test]
    fn the_generation_is_stated_unless_there_is_no_room_for_it_or_the_plugin_states_it() {
        let body = |decision: &Decision, observed| {
            let hasher = RandomState::new();
            let by = Comparison { hasher: &hasher, manager: "hotshoe/m", generation: 7, observed, current: None };
            let body = StatusPlan::of(decision, &parent(1), by).unwrap().body.unwrap_or_default();
            body.pointer("/status/observedGeneration").and_then(Value::as_i64)
        };
        let (stated, own) = (stating("{\"a\":1}", "m"), stating("{\"observedGeneration\":6}", "m"));
        assert_eq!(body(&stated, ObservedGeneration::Current), Some(7));
        assert_eq!(body(&stated, ObservedGeneration::Kept), Some(0), "a child is not written");
        assert_eq!(body(&stated, ObservedGeneration::Absent), None);
        assert_eq!(body(&own, ObservedGeneration::Current), Some(6));
        assert_eq!(body(&Decision::default(), ObservedGeneration::Current), Some(7), "it states nothing itself");
        assert_eq!(body(&Decision::default(), ObservedGeneration::Absent), None);
    }
}
