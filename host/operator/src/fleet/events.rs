//! The Events about a `Plugin` object: the changes of its status that an administrator wants to find in
//! `kubectl describe plugin`. Pure.

use crate::config::plugin_resource::{Condition, PluginStatus};
use hotshoe_core::model::decision::{Event, Severity};
use hotshoe_core::model::sanitize;

/// The maximum length of an Event's message, in bytes: what the API server accepts of new clients.
const MAX_MESSAGE_BYTES: usize = 1_024;
/// Reasons of `Ready` and `Reconciling` that only mark progress towards a state, and so are no Event.
const TRANSIENT_REASONS: [&str; 4] = ["Starting", "NotReady", "Fetching", "Activating"];

/// Returns the Events about a change from one status to the next: one for each condition that became true, or that is
/// true for another reason or component than before.
pub(super) fn of_change(before: &PluginStatus, next: &PluginStatus) -> Vec<Event> {
    let has_other_component = before.digest != next.digest;
    let waits_for = |status: &PluginStatus| status.pending.as_ref().and_then(|pending| pending.digest.clone());
    let has_other_pending = waits_for(before) != waits_for(next);
    let canary = |status: &PluginStatus| status.canary.as_ref().map(|canary| canary.digest.clone());
    let has_other_canary = canary(before) != canary(next);
    let mut found = Vec::new();
    for condition in &next.conditions {
        let Some(severity) = severity(condition, next) else { continue };
        let is_known = before.conditions.iter().any(|known| {
            (&known.type_, &known.status, &known.reason) == (&condition.type_, &condition.status, &condition.reason)
        });
        let is_about_another = match &*condition.type_ {
            "Ready" => condition.status == "True" && has_other_component,
            "Reconciling" => has_other_canary,
            _ => has_other_pending,
        };
        if !is_known || is_about_another {
            let message = sanitize::clean(condition.message.clone(), MAX_MESSAGE_BYTES);
            found.push(Event { severity, reason: condition.reason.clone(), message });
        }
    }
    found
}

/// Returns the type of the Event about a condition; none if it is no news, or if another condition says the same.
fn severity(condition: &Condition, status: &PluginStatus) -> Option<Severity> {
    if TRANSIENT_REASONS.contains(&&*condition.reason) {
        return None;
    }
    match (&*condition.type_, &*condition.status) {
        ("Ready", "True") | ("Reconciling", "True") => Some(Severity::Normal),
        ("Ready", _) if condition.reason == "Paused" => Some(Severity::Normal),
        ("Ready", _) => {
            let is_stated = |other: &Condition| {
                other.type_ != "Ready" && other.status == "True" && other.reason == condition.reason
            };
            (!status.conditions.iter().any(is_stated)).then_some(Severity::Warning)
        }
        ("Stalled", "True") => Some(Severity::Warning),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::plugin_resource::{CanaryStatus, Pending};

    fn status(digest: &str, conditions: &[(&str, bool, &str)]) -> PluginStatus {
        let condition = |(type_, holds, reason): &(&str, bool, &str)| Condition {
            type_: (*type_).to_owned(),
            status: if *holds { "True" } else { "False" }.to_owned(),
            reason: (*reason).to_owned(),
            message: format!("{type_} for {reason}"),
            ..Condition::default()
        };
        PluginStatus {
            digest: Some(digest.to_owned()).filter(|digest| !digest.is_empty()),
            conditions: conditions.iter().map(condition).collect(),
            ..PluginStatus::default()
        }
    }

    fn events(before: &PluginStatus, next: &PluginStatus) -> Vec<String> {
        let shown = |event: &Event| format!("{} {}: {}", event.severity.as_str(), event.reason, event.message);
        of_change(before, next).iter().map(shown).collect()
    }

    #[test]
    fn a_component_that_becomes_active_is_an_event_and_its_progress_is_none() {
        let starting = status("", &[("Ready", false, "Starting"), ("Reconciling", true, "Activating")]);
        assert!(events(&PluginStatus::default(), &starting).is_empty());
        let first = status("a", &[("Ready", true, "Active"), ("Reconciling", false, "Settled")]);
        assert_eq!(events(&starting, &first), ["Normal Active: Ready for Active"]);
        assert!(events(&first, &first).is_empty());
        let second = status("b", &[("Ready", true, "Active"), ("Reconciling", false, "Settled")]);
        assert_eq!(events(&first, &second), ["Normal Active: Ready for Active"]);
    }

    #[test]
    fn a_stalled_plugin_is_one_warning_for_each_component_even_if_two_conditions_say_it() {
        let fine = status("a", &[("Ready", true, "Active"), ("Stalled", false, "Settled")]);
        let waits = |digest: &str| PluginStatus {
            pending: Some(Pending { digest: Some(digest.to_owned()), ..Pending::default() }),
            ..status("a", &[("Ready", true, "Active"), ("Stalled", true, "RolledBack")])
        };
        assert_eq!(events(&fine, &waits("b")), ["Warning RolledBack: Stalled for RolledBack"]);
        assert!(events(&waits("b"), &waits("b")).is_empty());
        assert_eq!(events(&waits("b"), &waits("c")), ["Warning RolledBack: Stalled for RolledBack"]);
        let stopped = status("a", &[("Ready", false, "ParentsTaken"), ("Stalled", true, "ParentsTaken")]);
        assert_eq!(events(&fine, &stopped), ["Warning ParentsTaken: Stalled for ParentsTaken"]);
    }

    #[test]
    fn each_canary_is_an_event_even_if_it_replaces_another() {
        let canary = |digest: &str| PluginStatus {
            canary: Some(CanaryStatus { digest: digest.to_owned(), ..CanaryStatus::default() }),
            ..status("a", &[("Ready", true, "Active"), ("Reconciling", true, "Canary")])
        };
        assert_eq!(
            events(&status("a", &[("Ready", true, "Active")]), &canary("b")),
            ["Normal Canary: Reconciling for Canary"]
        );
        assert!(events(&canary("b"), &canary("b")).is_empty());
        assert_eq!(events(&canary("b"), &canary("c")), ["Normal Canary: Reconciling for Canary"]);
    }

    #[test]
    fn a_plugin_that_stops_serving_is_a_warning_unless_an_administrator_stopped_it() {
        let fine = status("a", &[("Ready", true, "Active")]);
        let open = status("a", &[("Ready", false, "CircuitOpen"), ("Stalled", false, "Settled")]);
        assert_eq!(events(&fine, &open), ["Warning CircuitOpen: Ready for CircuitOpen"]);
        assert_eq!(events(&open, &fine), ["Normal Active: Ready for Active"]);
        let paused = status("a", &[("Ready", false, "Paused")]);
        assert_eq!(events(&fine, &paused), ["Normal Paused: Ready for Paused"]);
        let leaving = status("a", &[("Ready", false, "DeletingParents"), ("Reconciling", true, "DeletingParents")]);
        assert_eq!(events(&fine, &leaving), ["Normal DeletingParents: Reconciling for DeletingParents"]);
    }
}
