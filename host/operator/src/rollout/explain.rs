//! Explains one parent: the last decisions about it, and what holds it back now.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::api::explain::{Decider, Explanation, Held, Hold};
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::naming::Naming;
use crate::reconcile::parent_state::ParentState;
use crate::reconcile::queue::Place;
use crate::reconcile::record::name as shown;
use crate::rollout::managed_plugin::ManagedPlugin;
use hotshoe_cluster::time;
use hotshoe_cluster::view;
use hotshoe_core::flow::circuit::State;
use hotshoe_core::flow::circuit_breaker::BreakerStatus;
use hotshoe_core::model::kind::{Key, Kind};
use hotshoe_core::model::object::Object;

/// How many of the parents with the same name are named.
const MAX_NAMED: usize = 10;
/// A requeue that is farther away than this waits for a change.
const FAR_AWAY: Duration = Duration::from_secs(30 * 24 * 3600);

/// Why a parent cannot be explained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unexplained {
    /// No revision decides yet.
    #[error("no revision of {0} is active yet, so nothing was decided; `hotshoe status {0}` shows what it waits for")]
    NothingActive(String),
    /// The host knows no such parent.
    #[error(
        "this host knows no {kind} {object} that {plugin} serves; `{kubectl}` shows whether it exists, and spec.parent \
         and the namespaces of its plugin.yaml which ones are served"
    )]
    Unknown {
        /// The kind of the parents.
        kind: Kind,
        /// What was asked for.
        object: String,
        /// The plugin.
        plugin: String,
        /// The command that looks for it.
        kubectl: String,
    },
    /// Several parents have this name.
    #[error("several objects have the name {name}; name the namespace of one: {those}")]
    Several {
        /// The name.
        name: String,
        /// The first of them.
        those: String,
    },
}

impl ManagedPlugin {
    /// Explains a parent. Without a namespace, it is the parent without one, or the only one of this name.
    ///
    /// # Errors
    /// When no revision is active, or there is no such parent, or several.
    pub fn explain(&self, namespace: Option<&str>, name: &str) -> Result<Explanation, Unexplained> {
        let controller = &self.controller;
        let active = controller.active().ok_or_else(|| Unexplained::NothingActive(controller.name.to_string()))?;
        let parent = find(controller, &active, &Key::new(namespace, name))?;
        let deciding = controller.deciding(&parent.key).unwrap_or(active);
        let revision = &deciding.revision;
        let reference = view::reference(deciding.parent_kind(), &parent.key);
        let naming = Naming::of(&deciding, &parent, false);
        Ok(Explanation {
            plugin: controller.name.to_string(),
            object: shown(&reference),
            revision: Decider { digest: revision.digest(), version: shown(&revision.descriptor().version) },
            canary: controller.canary.is(revision.digest()),
            needs: controller.needed.of(&parent.key).iter().map(|wanted| naming.wanted(wanted)).collect(),
            decisions: controller.decisions.of(&parent.key, &parent.uid),
            now: self.holds(&deciding, &parent, &naming),
        })
    }

    /// Explains the parents that are in trouble, at most so many.
    pub fn explain_trouble(&self, most: usize) -> Vec<Explanation> {
        let troubled = self.controller.troubled(most);
        troubled.iter().filter_map(|key| self.explain(key.namespace.as_deref(), &key.name).ok()).collect()
    }

    /// Returns what holds a parent back now, and what is due.
    fn holds(&self, deciding: &ActiveRevision, parent: &Object, naming: &Naming<'_>) -> Vec<Hold> {
        let (controller, key) = (&self.controller, &parent.key);
        let state = controller.recall(parent);
        let mut holds = Vec::new();
        holds.extend(controller.is_paused().then(|| paused(&controller.name)));
        holds.extend(self.shared.leases.standing_by(controller.shard_of(key)).map(another_host));
        let breaker = controller.health_of(deciding.revision.digest()).breaker.shown(std::time::Instant::now());
        holds.extend(circuit_open(&breaker, key));
        holds.extend(of_state(&state, parent, naming));
        let other = self.refused().filter(|refused| refused.digest != Some(deciding.revision.digest()));
        holds.extend(other.map(|refused| {
            let digest =
                refused.digest.map_or_else(|| "a component".to_owned(), |digest| format!("component {digest}"));
            let what = if refused.can_be_approved() { "waits for an approval" } else { "is not activated" };
            let (reason, plugin) = (refused.reason, &controller.name);
            hold(Held::NotActivated, format!("{digest} {what} ({reason}): `hotshoe status {plugin}` says more"))
        }));
        holds.extend(place(controller.queue.place(key), &holds));
        holds
    }
}

/// Finds a parent by its namespace and name, or by its name alone if no namespace is named.
fn find(controller: &Controller, active: &ActiveRevision, wanted: &Key) -> Result<Arc<Object>, Unexplained> {
    let cache = &active.parents.watch.cache;
    if let Some(parent) = cache.get(wanted) {
        return Ok(parent);
    }
    let has_name = |parent: &Object| parent.key.name == wanted.name;
    let mut same = if wanted.namespace.is_some() { Vec::new() } else { cache.all(has_name) };
    match (same.pop(), same.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => {
            let (kind, plugin) = (active.parent_kind().clone(), controller.name.to_string());
            let kubectl = view::reference(&kind, wanted).kubectl("get");
            Err(Unexplained::Unknown { kind, object: shown(wanted), plugin, kubectl: shown(&kubectl) })
        }
        (Some(last), false) => {
            same.push(last);
            let mut those: Vec<String> = same.iter().map(|parent| parent.key.to_string()).collect();
            those.sort_unstable();
            those.truncate(MAX_NAMED);
            Err(Unexplained::Several { name: shown(&wanted.name), those: those.join(", ") })
        }
    }
}

fn hold(what: Held, message: String) -> Hold {
    Hold { what, message, until: None, seconds: None }
}

fn hold_for(what: Held, message: String, left: Duration) -> Hold {
    let seconds = left.as_secs();
    Hold {
        until: time::at(time::unix_seconds().saturating_add(seconds)),
        seconds: Some(seconds),
        ..hold(what, message)
    }
}

fn until(due: Instant) -> Duration {
    due.saturating_duration_since(Instant::now())
}

fn paused(plugin: &str) -> Hold {
    hold(Held::Paused, format!("{plugin} is paused, and nothing is reconciled until `kubectl hotshoe resume {plugin}`"))
}

fn another_host(why: String) -> Hold {
    hold(Held::AnotherHost, format!("this host does not work for it: {why}; ask the other host"))
}

/// Says that the plugin is not called for a parent, if that is so.
fn circuit_open(breaker: &BreakerStatus, key: &Key) -> Option<Hold> {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let of_namespace = breaker.namespaces.iter().find(|open| open.namespace == namespace);
    let (state, seconds, whose) = match of_namespace {
        _ if breaker.state != State::Closed => (breaker.state, breaker.seconds, "for all objects"),
        Some(open) => (open.state, open.seconds, "for the objects of its namespace"),
        None => return None,
    };
    let message = format!(
        "the circuit {whose} is {}: the plugin failed too often, and is called for one at a time as a trial",
        state.as_str()
    );
    let left = seconds.map(Duration::from_secs);
    Some(match left {
        Some(left) => hold_for(Held::CircuitOpen, message, left),
        None => hold(Held::CircuitOpen, message),
    })
}

/// Returns what the state of a parent says.
fn of_state(state: &ParentState, parent: &Object, naming: &Naming<'_>) -> Vec<Hold> {
    let (now, mut holds) = (std::time::Instant::now(), Vec::new());
    holds.extend(state.tries.stalled().map(|stalled| {
        let tries = state.tries.made();
        let message = format!(
            "{}: it is not tried again after {tries} tries, until it, its plugin or plugin.yaml changes",
            stalled.reason
        );
        hold(Held::Stalled, message)
    }));
    if let Some((due, _)) = state.backoff.filter(|_| state.failures > 0 && state.tries.stalled().is_none()) {
        let failures = state.failures;
        let times = if failures == 1 { "once".to_owned() } else { format!("{failures} times in a row") };
        let (what, left) = (Held::BackOff, until(due));
        holds.push(match left > FAR_AWAY {
            true => hold(what, format!("it failed {times}, and is tried again when something changes")),
            false => hold_for(what, format!("it failed {times}, and backs off"), left),
        });
    }
    let refused = state.refused.shown();
    if !refused.is_empty() {
        let names: Vec<String> =
            refused.iter().map(|refusal| naming.object(&refusal.reference)).take(MAX_NAMED).collect();
        let message = format!("writes are refused, its condition says why: {}", names.join(", "));
        let left = state.refused.next_due().unwrap_or_default();
        holds.push(hold_for(Held::ChildrenRefused, message, left));
    }
    holds.extend(state.contention.next_due(now).map(|left| {
        let message = "another writer keeps changing a child back, so repairs are slowed down".to_owned();
        hold_for(Held::Contended, message, left)
    }));
    if parent.deleting {
        let finalizers: Vec<String> = parent.finalizers.iter().map(shown).take(MAX_NAMED).collect();
        let message = match finalizers.is_empty() {
            true => "it is being deleted".to_owned(),
            false => format!("it is being deleted, and waits for these finalizers: {}", finalizers.join(", ")),
        };
        holds.push(hold(Held::CleaningUp, message));
    }
    holds.extend(
        state
            .until_timer()
            .map(|left| hold_for(Held::Requeue, "the plugin has asked to be called again".to_owned(), left)),
    );
    holds
}

/// Says where a parent is in the queue, unless another hold says when it is due.
fn place(place: Place, holds: &[Hold]) -> Option<Hold> {
    match place {
        Place::Running => Some(hold(Held::Running, "it is being reconciled now".to_owned())),
        Place::Waiting => Some(hold(Held::Queued, "it waits for its turn".to_owned())),
        Place::Due(due) if until(due) < FAR_AWAY && !holds.iter().any(|hold| hold.until.is_some()) => {
            Some(hold_for(Held::Due, "it is looked at again".to_owned(), until(due)))
        }
        Place::Due(_) | Place::Nowhere => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_open_circuit_holds_back_the_objects_that_it_is_about() {
        let status = |state: &str, namespaces: serde_json::Value| -> BreakerStatus {
            serde_json::from_value(json!({ "state": state, "strikes": 5, "seconds": 60, "namespaces": namespaces }))
                .unwrap()
        };
        let here = Key::new(Some("here"), "a");
        assert_eq!(circuit_open(&status("closed", json!([])), &here), None);
        let whole = circuit_open(&status("open", json!([])), &here).unwrap();
        assert!(whole.seconds == Some(60) && whole.message.contains("all objects"), "{whole:?}");
        let there = json!([{ "namespace": "here", "parent": "here/b", "state": "open", "seconds": 7 }]);
        let of_namespace = circuit_open(&status("closed", there.clone()), &here).unwrap();
        assert!(of_namespace.seconds == Some(7) && of_namespace.message.contains("its namespace"), "{of_namespace:?}");
        assert_eq!(circuit_open(&status("closed", there), &Key::new(Some("elsewhere"), "a")), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_parent_that_backs_off_says_for_how_long_and_one_that_waits_for_a_change_says_that() {
        let parent = Object::read(
            r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"1"}}"#,
            &hotshoe_core::model::object::KeptFields {
                projection: hotshoe_core::model::projection::Projection::new::<&str>(&[]),
                labels: Vec::new(),
                status: false,
            },
        )
        .unwrap();
        let mut state = ParentState { failures: 2, ..ParentState::new(&parent) };
        assert!(of_state(&state, &parent, &Naming::new(&parent, false)).is_empty());
        state.backoff = Some((Instant::now() + Duration::from_secs(40), 0));
        let [held] = &*of_state(&state, &parent, &Naming::new(&parent, false)) else { panic!("it backs off") };
        assert_eq!((held.what, held.seconds), (Held::BackOff, Some(40)));
        assert!(held.message.contains("2 times in a row"), "{held:?}");
        state.backoff = Some((Instant::now() + 2 * FAR_AWAY, 0));
        let [held] = &*of_state(&state, &parent, &Naming::new(&parent, false)) else { panic!("it waits") };
        assert!(held.until.is_none() && held.message.contains("when something changes"), "{held:?}");
    }

    #[test]
    fn the_place_in_the_queue_is_said_unless_it_is_known_when_the_parent_is_due() {
        assert_eq!(place(Place::Nowhere, &[]), None);
        assert_eq!(place(Place::Running, &[]).map(|hold| hold.what), Some(Held::Running));
        let due = Place::Due(Instant::now() + Duration::from_secs(9));
        assert_eq!(place(due, &[]).map(|hold| hold.what), Some(Held::Due));
        let backs_off = hold_for(Held::BackOff, String::new(), Duration::from_secs(9));
        assert_eq!(place(due, &[backs_off]), None);
    }
}
