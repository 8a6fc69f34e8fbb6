//! Checks the status and conditions of a plugin's decision.

use serde_json::{Map, Value};

use crate::check::ignored::CHILDREN_IGNORED;
use crate::check::violation::{Denial, Violation, Violations};
use crate::model::decision::{Condition, Decision};
use crate::model::kind::Kind;

/// The host's condition that shows whether the last decision could be applied.
pub const RECONCILED: &str = "Reconciled";
/// The condition of kstatus that the object is as desired. Plugins state it, and the host where the last decision was
/// not carried out and the plugin states none.
pub const READY: &str = "Ready";
/// The condition of kstatus that the object is not as desired yet, and is tried again. The host and plugins set it.
pub const RECONCILING: &str = "Reconciling";
/// The condition that nothing is retried until the parent changes. The host sets it, and plugins may set it too. The
/// name is that of kstatus, which tools that wait for objects know.
pub const STALLED: &str = "Stalled";

/// Checks a plugin's status and conditions, and returns the members of the status.
///
/// # Errors
/// When the status is not a JSON object or contains conditions, or when a condition is the host's or stated twice.
pub fn check(status: Option<&str>, conditions: &[Condition]) -> Result<Map<String, Value>, Denial> {
    let mut violations = Violations::default();
    let members = violations.note(read(status).map_err(Denial::from)).unwrap_or_default();
    if members.contains_key("conditions") {
        let misplaced = violation("conditions belong in the list of conditions, not in the status".into());
        violations.add(misplaced.answer("state them with the decision's `conditions`"));
    }
    for (index, condition) in conditions.iter().enumerate() {
        let name = &*condition.name;
        if [RECONCILED, CHILDREN_IGNORED].contains(&name) {
            violations.add(violation(format!("the condition {name} is the host's")).answer("give it another type"));
        } else if conditions.iter().take(index).any(|other| other.name == condition.name) {
            let duplicate = violation(format!("the condition {} is stated twice", condition.name));
            violations.add(duplicate.answer("leave one of the two out"));
        }
    }
    violations.finish(members)
}

/// Checks that a plugin writes no status of a kind of Kubernetes itself, because that status belongs to Kubernetes' own
/// controllers. Conditions are no reason to deny the children, too; they are [left out](unwritten_conditions).
///
/// # Errors
/// When the plugin writes such a status.
pub fn check_owner(decision: &Decision, parent: &Kind) -> Result<(), Violation> {
    if !parent.is_builtin() || decision.status.is_none() {
        return Ok(());
    }
    let message = format!("the status of a {parent} belongs to Kubernetes' own controllers");
    Err(violation(message).answer("leave the status out, and emit Events"))
}

/// Returns why the conditions of a decision are not written; none if they are, or if there are none. Even a condition
/// with a name of its own is not written to a kind of Kubernetes itself: RBAC cannot restrict the right to one
/// condition, and with the right to write the status of a Service or a Pod one can redirect its traffic.
pub fn unwritten_conditions(decision: &Decision, parent: &Kind) -> Option<String> {
    (parent.is_builtin() && !decision.conditions.is_empty()).then(|| {
        format!(
            "the plugin's conditions are not written, because the status of a {parent} belongs to Kubernetes' own \
             controllers; change the plugin to emit Events instead"
        )
    })
}

fn read(status: Option<&str>) -> Result<Map<String, Value>, Violation> {
    let Some(status) = status else { return Ok(Map::new()) };
    serde_json::from_str(status).map_err(|error| violation(format!("it is no JSON object: {error}")))
}

fn violation(message: String) -> Violation {
    Violation::new("status", format!("the status cannot be written: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::decision::Truth;

    fn condition(name: &str) -> Condition {
        Condition { name: name.into(), status: Truth::True, reason: "R".into(), message: "m".into() }
    }

    #[test]
    fn a_status_is_an_object_without_conditions() {
        assert_eq!(check(None, &[]), Ok(Map::new()));
        assert_eq!(check(Some(r#"{"nodes":[]}"#), &[condition("Available")]).unwrap().len(), 1);
        assert!(check(None, &[condition("Available"), condition("Progressing")]).is_ok());
        for wrong in ["[]", "1", "nonsense", r#"{"conditions":[]}"#] {
            assert_eq!(check(Some(wrong), &[]).unwrap_err().rule(), "status", "{wrong}");
        }
    }

    #[test]
    fn the_hosts_conditions_and_one_that_is_stated_twice_are_all_reported() {
        let hosts = [RECONCILED, CHILDREN_IGNORED].map(condition);
        let stated = hosts.into_iter().chain([condition("Available"), condition("Available")]);
        let denial = check(None, &stated.collect::<Vec<_>>()).unwrap_err().to_string();
        for name in [RECONCILED, CHILDREN_IGNORED] {
            assert!(denial.contains(&format!("{name} is the host's")), "{denial}");
        }
        assert!(denial.contains("Available is stated twice"), "{denial}");
    }
}
