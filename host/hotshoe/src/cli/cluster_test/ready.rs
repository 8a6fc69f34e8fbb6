//! Whether an object is as its plugin wants it, by its status. Pure.

use serde_json::Value;

use hotshoe_core::check::status::{READY, RECONCILED, RECONCILING, STALLED};

/// The condition that what the object stands for is in use.
const AVAILABLE: &str = "Available";

/// How far an object is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is as desired. The word says what its plugin states of it.
    Ready(&'static str),
    /// It is on its way, and waits for this.
    Waits(String),
    /// It does not become as desired before it is changed.
    Failed(String),
}

/// Returns how far a parent is that has so many children. The rules are those of kstatus, and `Available` holds where
/// it is stated. Where the status belongs to a controller of Kubernetes, a child is all that shows a plugin's work.
pub(super) fn progress(parent: &Value, children: usize, is_builtin: bool) -> Progress {
    if is_builtin {
        return match children {
            0 => Progress::Waits("no child of it exists yet".to_owned()),
            _ => Progress::Ready("served"),
        };
    }
    let number = |pointer: &str| parent.pointer(pointer).and_then(Value::as_i64);
    let (generation, observed) = (number("/metadata/generation"), number("/status/observedGeneration"));
    let seen =
        observed.map_or(children > 0 || condition(parent, RECONCILED).is_some(), |seen| generation == Some(seen));
    if !seen {
        return Progress::Waits("no host has reported about it yet".to_owned());
    }
    if let Some(stalled) = condition(parent, STALLED).filter(|stalled| stalled.status == "True") {
        let reconciled = condition(parent, RECONCILED).filter(|reconciled| reconciled.status == "False");
        return Progress::Failed(reconciled.unwrap_or(stalled).text());
    }
    let holds = [(RECONCILED, "True"), (RECONCILING, "False"), (READY, "True"), (AVAILABLE, "True")];
    let stated = holds.into_iter().filter_map(|(name, wanted)| Some((condition(parent, name)?, wanted)));
    let lacking = stated.into_iter().find(|(condition, wanted)| condition.status != *wanted);
    match lacking {
        Some((condition, _)) => Progress::Waits(condition.text()),
        None if condition(parent, AVAILABLE).is_some() => Progress::Ready("available"),
        None if condition(parent, READY).is_some() => Progress::Ready("ready"),
        None => Progress::Ready("reconciled"),
    }
}

/// A condition of a status.
struct Condition<'a> {
    name: &'a str,
    status: &'a str,
    reason: &'a str,
    message: &'a str,
}

impl Condition<'_> {
    fn text(&self) -> String {
        format!("{}={} ({}): {}", self.name, self.status, self.reason, self.message)
    }
}

fn condition<'a>(parent: &'a Value, name: &'a str) -> Option<Condition<'a>> {
    let conditions = parent.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|condition| condition.get("type").is_some_and(|type_| type_ == name))?;
    let text = |member: &str| found.get(member).and_then(Value::as_str).unwrap_or_default();
    Some(Condition { name, status: text("status"), reason: text("reason"), message: text("message") })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(generation: i64, observed: Value, conditions: &[(&str, &str)]) -> Progress {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(name, status)| json!({ "type": name, "status": status, "reason": "Why", "message": "so" }))
            .collect();
        let status = json!({ "observedGeneration": observed, "conditions": conditions });
        progress(&json!({ "metadata": { "generation": generation }, "status": status }), 0, false)
    }

    #[test]
    fn what_was_reported_about_an_earlier_generation_says_nothing() {
        assert!(matches!(of(2, json!(1), &[("Available", "True")]), Progress::Waits(_)));
        assert!(matches!(of(1, json!(-1), &[("Stalled", "True")]), Progress::Waits(_)));
        assert!(matches!(of(1, Value::Null, &[]), Progress::Waits(_)), "without a child there is no sign of a host");
        assert_eq!(of(2, json!(2), &[]), Progress::Ready("reconciled"));
    }

    #[test]
    fn each_condition_that_is_stated_must_hold() {
        assert_eq!(of(1, json!(1), &[("Available", "True"), ("Ready", "True")]), Progress::Ready("available"));
        assert_eq!(of(1, json!(1), &[("Ready", "True"), ("Other", "False")]), Progress::Ready("ready"));
        for lacking in [("Available", "Unknown"), ("Ready", "False"), ("Reconciled", "False"), ("Reconciling", "True")]
        {
            let waits = format!("{}={} (Why): so", lacking.0, lacking.1);
            assert_eq!(of(1, json!(1), &[lacking]), Progress::Waits(waits));
        }
    }

    #[test]
    fn what_is_stalled_fails_at_once_with_the_reason() {
        let both = of(1, json!(1), &[("Stalled", "True"), ("Reconciled", "False")]);
        assert_eq!(both, Progress::Failed("Reconciled=False (Why): so".to_owned()));
        assert_eq!(of(1, json!(1), &[("Stalled", "True")]), Progress::Failed("Stalled=True (Why): so".to_owned()));
    }

    #[test]
    fn a_kind_of_kubernetes_is_served_once_it_has_a_child() {
        let deployment = json!({ "status": { "conditions": [{ "type": "Available", "status": "False" }] } });
        assert!(matches!(progress(&deployment, 0, true), Progress::Waits(_)));
        assert_eq!(progress(&deployment, 1, true), Progress::Ready("served"));
    }
}
