//! The status that a decision states, compared with the parent's. Runs on the thread of the call, as *check* does: the
//! plugin chooses how large the status is.

use std::hash::{BuildHasher, RandomState};

use serde_json::Value;

use crate::cluster::time;
use hotshoe_core::check::Denial;
use hotshoe_core::diff::status;
use hotshoe_core::model::decision::{Condition, Decision};
use hotshoe_core::model::object::Object;

/// What must be written of a status.
pub struct StatusPlan {
    /// The version of the parent that the status was compared with.
    version: u64,
    /// The fingerprint of the stated status and of the parent, to remember a status that was found current.
    pub fingerprint: u64,
    /// The body of the apply; none if the parent's status is current.
    pub body: Option<Value>,
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
            return Ok(Self { version, fingerprint, body: None });
        }
        let (stated, conditions) = (decision.status.as_deref(), &decision.conditions);
        let desired = status::desired(stated, conditions, parent, by.manager, by.generation, &time::now())?;
        let is_current = status::is_current(&desired, parent, by.manager);
        Ok(Self { version, fingerprint, body: (!is_current).then_some(desired) })
    }

    /// Returns whether the status was compared with this version of the parent.
    pub fn is_about(&self, parent: &Object) -> bool {
        self.version == parent.resource_version
    }
}

fn fingerprint(decision: &Decision, parent: &Object, by: Comparison<'_>) -> u64 {
    let of_condition =
        |one: &Condition| by.hasher.hash_one((&one.name, one.status.as_str(), &one.reason, &one.message));
    let conditions: Vec<_> = decision.conditions.iter().map(of_condition).collect();
    by.hasher.hash_one((&decision.status, conditions, &parent.uid, parent.resource_version, by.generation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::model::decision::Truth;
    use hotshoe_core::model::object::Lens;
    use hotshoe_core::model::projection::Projection;

    fn parent(version: u64) -> Object {
        let lens = Lens { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: true };
        let json = format!(r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"{version}"}},"status":{{}}}}"#);
        Object::read(&json, &lens).unwrap()
    }

    fn stating(status: &str, message: &str) -> Decision {
        let condition =
            Condition { name: "Ready".into(), status: Truth::True, reason: "R".into(), message: message.into() };
        Decision { status: Some(status.into()), conditions: vec![condition], ..Decision::default() }
    }

    #[test]
    fn a_status_that_was_found_current_is_compared_again_only_once_it_or_the_parent_has_changed() {
        let hasher = RandomState::new();
        let comparison = Comparison { hasher: &hasher, manager: "hotshoe/m", generation: 1, current: None };
        let first = StatusPlan::of(&stating("{\"a\":1}", "m"), &parent(1), comparison).unwrap();
        assert!(first.body.is_some() && first.is_about(&parent(1)) && !first.is_about(&parent(2)));
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
}
