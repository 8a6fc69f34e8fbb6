//! Computes the status of a `Plugin` object from the state of its plugin. Pure.

use crate::api::status;
use crate::config::plugin_resource::{
    CanaryStatus, Condition, ParentStatus, Pending, PluginStatus, RevisionStatus, ShadowVerdict,
};
use crate::rollout::history::{Entry, Event};
use crate::rollout::state::{Fetched, PluginState};
use crate::rollout::unaccepted::NONE_ACTIVE;
use hotshoe_cluster::time;
use hotshoe_core::flow::circuit::State;
use hotshoe_core::flow::unanswered::UnansweredWritesStatus;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::digest_prefix::DigestPrefix;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::sanitize;
use hotshoe_sandbox::CONTRACTS;
use hotshoe_sandbox::error::Reason;

/// The maximum number of revisions in the status.
const MAX_REVISIONS: usize = 20;
/// The maximum length of a condition's message, in bytes.
const MAX_MESSAGE_BYTES: usize = 2_000;
/// The maximum length of a message in the history, in bytes.
const MAX_HISTORY_MESSAGE_BYTES: usize = 300;

/// What the status of the object of a plugin that runs is computed from.
pub(crate) struct Known<'a> {
    /// The state of the plugin.
    pub(crate) state: &'a PluginState,
    /// The status that the host itself shows.
    pub(crate) status: &'a status::PluginStatus,
    /// The finalizers that its parents may have.
    pub(crate) finalizers: Vec<String>,
    /// The kind of its parents, if a revision is active.
    pub(crate) parent: Option<Kind>,
    /// Whether the plugin runs as the object describes it now.
    pub(crate) is_current: bool,
    /// What would change if the component that waits for approval were active.
    pub(crate) verdict: Option<ShadowVerdict>,
}

/// Why a plugin does not run as its object says, or is about to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The reason of the conditions, one PascalCase word.
    pub reason: &'static str,
    /// What happened, and what to do next.
    pub message: String,
    /// Whether an administrator has to change something before the plugin can go on.
    pub stalls: bool,
    /// Whether the condition `Ready` still is about the plugin, if it runs: it goes on as its object described it before.
    pub keeps_ready: bool,
}

impl Obstacle {
    /// Returns the obstacle of an object that is invalid.
    pub fn invalid(why: &str) -> Self {
        Self { reason: INVALID_SPEC, message: why.to_owned(), stalls: true, keeps_ready: true }
    }
}

/// The reason of the conditions of an object that is invalid.
const INVALID_SPEC: &str = "InvalidSpec";

/// Returns the next status of an object of this generation.
pub(crate) fn of(
    before: &PluginStatus,
    generation: i64,
    known: Option<&Known<'_>>,
    obstacle: Option<&Obstacle>,
    now: &str,
) -> PluginStatus {
    let contract = CONTRACTS.map(|version| format!("hotshoe:reconciler@{version}")).join(", ");
    let mut next = PluginStatus { contract, ..PluginStatus::default() };
    let is_seen = known.is_none_or(|known| known.is_current || known.status.plugin_file.refused.is_some());
    next.observed_generation = if is_seen { generation } else { before.observed_generation };
    match known {
        Some(known) => describe(&mut next, known, before),
        // The host must not forget these while the plugin does not run.
        None => {
            (next.finalizers, next.parent) = (before.finalizers.clone(), before.parent.clone());
            (next.history, next.revisions) = (before.history.clone(), before.revisions.clone());
        }
    }
    let verdicts = [
        ("Ready", ready(known, obstacle)),
        ("Reconciling", reconciling(known, obstacle)),
        ("Stalled", stalled(known, obstacle)),
    ];
    let observed = next.observed_generation;
    next.conditions = verdicts.into_iter().map(|(type_, said)| condition(before, type_, said, observed, now)).collect();
    next
}

fn describe(next: &mut PluginStatus, known: &Known<'_>, before: &PluginStatus) {
    let Known { state, status, .. } = known;
    let source_of = |digest: Option<Digest>| state.source_of(digest?).map(str::to_owned);
    next.digest = status.digest.map(|digest| digest.full());
    next.version = status.version.clone();
    next.source = source_of(status.digest);
    // While no revision is active, parents may still have finalizers of the one before.
    next.parent = known.parent.as_ref().map(ParentStatus::of).or_else(|| before.parent.clone());
    next.parents = count(status.parents);
    next.errors = count(status.trouble.failing + status.trouble.refused);
    next.strikes = count(status.breaker.strikes);
    status.breaker.state.as_str().clone_into(&mut next.circuit);
    next.pending = status.refused.as_ref().map(|refused| Pending {
        digest: refused.digest.map(|digest| digest.full()),
        source: source_of(refused.digest),
        reason: refused.reason.to_string(),
        message: refused.message.clone(),
        shadow: known.verdict.clone(),
    });
    next.canary = status.canary.clone();
    next.revisions = revisions(known);
    next.finalizers = known.finalizers.clone();
    let remembered = state.history.entries().iter().map(|entry| Entry {
        message: sanitize::clean(entry.message.clone(), MAX_HISTORY_MESSAGE_BYTES),
        ..entry.clone()
    });
    next.history = remembered.filter_map(|entry| serde_json::to_value(entry).ok()).collect();
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the last state of each component, the newest first.
fn revisions(known: &Known<'_>) -> Vec<RevisionStatus> {
    // A canary is in the history only once it has ended.
    let mut found: Vec<RevisionStatus> = known.status.canary.iter().map(revision_of_canary).collect();
    for entry in known.state.history.entries().iter().rev() {
        let digest = entry.digest.full();
        if found.len() == MAX_REVISIONS || found.iter().any(|revision| revision.digest == digest) {
            continue;
        }
        let is_active = known.status.digest == Some(entry.digest);
        let state = match entry.event {
            _ if is_active => "Active",
            Event::Activated => "Replaced",
            Event::RolledBack => "RolledBack",
            Event::Approved => "Approved",
            Event::ApprovalRequired => "ApprovalRequired",
            Event::Refused => "Refused",
        };
        found.push(RevisionStatus {
            digest,
            version: entry.version.clone(),
            state: state.to_owned(),
            time: time::at(entry.at).unwrap_or_default(),
            message: sanitize::clean(entry.message.clone(), MAX_HISTORY_MESSAGE_BYTES),
        });
    }
    found
}

fn revision_of_canary(canary: &CanaryStatus) -> RevisionStatus {
    RevisionStatus {
        digest: canary.digest.clone(),
        version: canary.version.clone(),
        state: "Canary".to_owned(),
        time: canary.since.clone(),
        message: format!("it decides for {}", canary.share),
    }
}

/// The status, reason and message of a condition.
type ConditionContent = (bool, &'static str, String);

fn ready(known: Option<&Known<'_>>, obstacle: Option<&Obstacle>) -> ConditionContent {
    let no = |reason, message: &str| (false, reason, message.to_owned());
    if let Some(obstacle) = obstacle.filter(|obstacle| known.is_none() || !obstacle.keeps_ready) {
        return no(obstacle.reason, &obstacle.message);
    }
    let Some(Known { state, status, .. }) = known else {
        return no("Starting", "the host has not started it yet");
    };
    if state.config.wanted.paused {
        return no("Paused", "spec.paused is true: no parent is reconciled until it is false");
    }
    if status.ready {
        return serves(status, state.unregistered.as_deref());
    }
    let fails = state.fetched().and_then(|fetched| fetched.failing.as_ref());
    match (status.digest, fails, &state.unaccepted, &status.waiting) {
        (None, Some((reason, message)), ..) if is_of_signature(reason) => {
            no(reason, &format!("{message}; {NONE_ACTIVE}"))
        }
        (None, Some((reason, message)), ..) => no(reason, message),
        (None, None, Some(unaccepted), _) => no(unaccepted.reason, &unaccepted.to_string()),
        (.., Some(waiting)) => no("NotReady", waiting),
        (.., None) => no("NotReady", "the component is being fetched"),
    }
}

/// Returns whether a plugin that is ready may be called and may write.
fn serves(status: &status::PluginStatus, unregistered: Option<&str>) -> ConditionContent {
    let no = |reason, message| (false, reason, message);
    if let Some(why) = &status.unable {
        return no(ACCOUNT_UNUSABLE, account_unusable(why));
    }
    if status.breaker.state == State::Open {
        let message = "the plugin fails too often and is not called for a while; the parents' conditions say why";
        return no("CircuitOpen", message.to_owned());
    }
    let digest = status.digest.map(|digest| digest.to_string()).unwrap_or_default();
    let version = status.version.as_deref().unwrap_or_default();
    let unanswered = status.unanswered.as_ref().map(|UnansweredWritesStatus { count, last, .. }| {
        format!("; the API server did not answer {count} of its writes in the last ten minutes, the last one of {last}")
    });
    let unanswered = unanswered.unwrap_or_default();
    let unregistered = unregistered.map(|why| format!("; its webhooks are not registered: {why}")).unwrap_or_default();
    (true, "Active", format!("revision {digest} ({version}) serves its parents{unanswered}{unregistered}"))
}

/// Returns whether a component cannot be fetched because of who signed its image.
fn is_of_signature(reason: &str) -> bool {
    ["SignatureMissing", "SignatureInvalid"].contains(&reason)
}

/// The reason of the conditions while the host may not act as the plugin's ServiceAccount.
const ACCOUNT_UNUSABLE: &str = "AccountUnusable";

fn account_unusable(why: &str) -> String {
    format!("{why}; apply what `hotshoe rbac --plugin-only` prints for the plugin")
}

fn reconciling(known: Option<&Known<'_>>, obstacle: Option<&Obstacle>) -> ConditionContent {
    let settled = || (false, "Settled", String::new());
    if let Some(Obstacle { reason, message, stalls: false, .. }) = obstacle {
        return (true, reason, message.clone());
    }
    let Some(known) = known.filter(|_| obstacle.is_none()) else { return settled() };
    let is_fetching = known.state.fetched().is_some_and(|fetched| *fetched == Fetched::default());
    match &known.status.in_progress {
        Some(shown) => (true, "Activating", format!("revision {}: {}", shown.digest, shown.waits_for)),
        None if is_fetching => (true, "Fetching", "the component is being fetched".to_owned()),
        None if is_about_to_activate(known) => {
            (true, "Activating", "the component that the object names is about to be activated".to_owned())
        }
        None => known.status.canary.as_ref().map_or_else(settled, |canary| (true, "Canary", canary.to_string())),
    }
}

/// Returns whether the active revision is not yet what the object describes, though nothing is known to be in the way.
fn is_about_to_activate(known: &Known<'_>) -> bool {
    let Known { state, status, .. } = known;
    let is_active = |revision: &DigestPrefix| status.digest.is_some_and(|active| revision.is_of(active));
    if state.config.wanted.revision.as_ref().is_some_and(|revision| !is_active(revision)) {
        return state.control_failing.is_none();
    }
    let fetched = state.fetched();
    let is_failing = fetched.is_some_and(|fetched| fetched.failing.is_some());
    let is_unreadable = status.refused.as_ref().is_some_and(|refused| refused.digest.is_none());
    if is_failing || is_unreadable {
        return false;
    }
    let refused = status.refused.as_ref().and_then(|refused| refused.digest);
    let is_canary = |digest: Digest| status.canary.as_ref().is_some_and(|canary| canary.digest == digest.full());
    let newest = fetched.and_then(|fetched| fetched.component.as_ref()).map(|component| component.digest);
    let is_known = |newest: Digest| [status.digest, refused].contains(&Some(newest)) || is_canary(newest);
    state.is_source_unread || newest.is_some_and(|newest| !is_known(newest))
}

fn stalled(known: Option<&Known<'_>>, obstacle: Option<&Obstacle>) -> ConditionContent {
    if let Some(Obstacle { reason, message, stalls: true, .. }) = obstacle {
        return (true, reason, message.clone());
    }
    let settled = || (false, "Settled", String::new());
    let Some(Known { state, status, .. }) = known.filter(|_| obstacle.is_none()) else { return settled() };
    if let Some(refused) = &status.plugin_file.refused {
        return (true, INVALID_SPEC, refused.clone());
    }
    if let Some(panics) = state.panics() {
        return (
            true,
            "HostPanicked",
            format!(
                "{panics}; it begins again by itself, and the active revision serves meanwhile; \
                 this is a fault of the host, please report it with the host's log"
            ),
        );
    }
    if let Some((reason, message)) = state.fetched().and_then(|fetched| fetched.failing.as_ref()) {
        return (true, reason, message.clone());
    }
    if let (None, Some(unaccepted)) = (status.digest, &state.unaccepted) {
        return (true, unaccepted.reason, unaccepted.to_string());
    }
    if let Some(why) = &state.control_failing {
        return (true, "RevisionUnavailable", why.clone());
    }
    let watch_failing = status.watches.iter().filter(|watch| watch.needs_change);
    if let Some(why) = watch_failing.filter_map(|watch| watch.failing.clone()).next() {
        return (true, "WatchFailing", why);
    }
    if let Some(shown) = status.in_progress.as_ref().filter(|shown| shown.needs_change) {
        return (true, "WatchFailing", format!("revision {}: {}", shown.digest, shown.waits_for));
    }
    if let Some(why) = &status.unable {
        return (true, ACCOUNT_UNUSABLE, account_unusable(why));
    }
    match &status.refused {
        // A component that waits because the administrator pinned a revision is no failure.
        Some(refused) if refused.reason != Reason::RevisionPinned => {
            (true, refused.reason.as_str(), refused.message.clone())
        }
        _ => settled(),
    }
}

fn condition(
    before: &PluginStatus,
    type_: &str,
    (holds, reason, message): ConditionContent,
    observed: i64,
    now: &str,
) -> Condition {
    let status = if holds { "True" } else { "False" };
    let known = before.conditions.iter().find(|known| known.type_ == type_ && known.status == status);
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: sanitize::clean(message, MAX_MESSAGE_BYTES),
        last_transition_time: known.map_or_else(|| now.to_owned(), |known| known.last_transition_time.clone()),
        observed_generation: observed,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::config::PluginConfig;
    use crate::rollout::state::FetchedComponent;
    use crate::rollout::unaccepted::Unaccepted;

    fn said<'a>(status: &'a PluginStatus, type_: &str) -> (&'a str, &'a str, &'a str) {
        let condition = status.conditions.iter().find(|condition| condition.type_ == type_).unwrap();
        (&condition.status, &condition.reason, &condition.last_transition_time)
    }

    #[test]
    fn a_plugin_that_does_not_run_has_a_reason_and_keeps_its_history() {
        let before = PluginStatus {
            finalizers: vec!["example.com/a".to_owned()],
            history: vec![serde_json::json!({ "event": "Activated" })],
            digest: Some("a".repeat(64)),
            ..PluginStatus::default()
        };
        let taken = Obstacle {
            reason: "ParentsTaken",
            message: "the older has them".to_owned(),
            stalls: true,
            keeps_ready: false,
        };
        let status = of(&before, 3, None, Some(&taken), "now");
        assert_eq!((&status.finalizers, &status.history), (&before.finalizers, &before.history));
        assert_eq!((status.digest.as_deref(), status.observed_generation), (None, 3));
        assert_eq!(said(&status, "Ready"), ("False", "ParentsTaken", "now"));
        assert_eq!(said(&status, "Stalled"), ("True", "ParentsTaken", "now"));
        assert_eq!(said(&status, "Reconciling"), ("False", "Settled", "now"));
    }

    #[test]
    fn a_state_that_ends_by_itself_is_reconciling_and_not_stalled() {
        let leaving = Obstacle {
            reason: "DeletingParents",
            message: "3 are being deleted".to_owned(),
            stalls: false,
            keeps_ready: false,
        };
        let status = of(&PluginStatus::default(), 1, None, Some(&leaving), "now");
        assert_eq!(said(&status, "Reconciling").0, "True");
        assert_eq!(said(&status, "Stalled").0, "False");
    }

    #[test]
    fn transition_times_change_only_with_the_status_of_a_condition() {
        let obstacle = |reason| Obstacle { reason, message: String::new(), stalls: true, keeps_ready: false };
        let first = of(&PluginStatus::default(), 1, None, Some(&obstacle("InvalidSpec")), "1");
        let second = of(&first, 2, None, Some(&obstacle("ParentsTaken")), "2");
        assert_eq!(said(&second, "Stalled"), ("True", "ParentsTaken", "1"));
        let third = of(&second, 3, None, None, "3");
        assert_eq!(said(&third, "Stalled"), ("False", "Settled", "3"));
        assert_eq!(said(&third, "Ready"), ("False", "Starting", "1"));
    }

    /// A plugin that runs.
    struct Running {
        state: PluginState,
        status: status::PluginStatus,
    }

    impl Running {
        /// Creates a plugin with an active revision, and with this canary.
        fn with(canary: serde_json::Value) -> Self {
            let status = json!({
                "name": "demo", "source": "demo.wasm", "pluginFile": { "file": "Plugin demo" }, "ready": true,
                "digest": "ab".repeat(32), "version": "1", "parents": 30, "queued": 0, "running": 0,
                "breaker": { "state": "closed", "strikes": 0 }, "watches": [], "canary": canary
            });
            let mut state = PluginState::of_test();
            let source = &mut Arc::get_mut(&mut state.config).unwrap().source;
            (source.file, source.oci) = (None, Some("oci://registry/a".to_owned()));
            let digest = Digest::of(b"fetched before");
            state.fetched.component = Some(FetchedComponent { digest, source: "oci://registry/a@sha256:0".to_owned() });
            let mut running = Self { state, status: serde_json::from_value(status).unwrap() };
            running.status.digest = Some(digest);
            running
        }

        fn config(&mut self) -> &mut PluginConfig {
            Arc::get_mut(&mut self.state.config).unwrap()
        }

        fn has_no_active_revision(&mut self) {
            (self.status.digest, self.status.ready) = (None, false);
        }

        fn becomes(&self, before: &PluginStatus, obstacle: Option<&Obstacle>) -> PluginStatus {
            let (finalizers, is_current) = (Vec::new(), true);
            let Self { state, status } = self;
            let known = Known { state, status, finalizers, parent: None, is_current, verdict: None };
            of(before, 1, Some(&known), obstacle, "now")
        }

        fn status(&self) -> PluginStatus {
            self.becomes(&PluginStatus::default(), None)
        }
    }

    #[test]
    fn a_component_that_verify_refuses_is_why_none_is_active() {
        let mut plugin = Running::with(json!(null));
        let (digest, message) = (Digest::of(b"a"), "sign it".to_owned());
        plugin.state.unaccepted = Some(Unaccepted { digest, reason: "SignatureInvalid", message });
        let reasons =
            |plugin: &Running| ["Ready", "Stalled"].map(|condition| said(&plugin.status(), condition).1.to_owned());
        assert_eq!(reasons(&plugin), ["Active", "Settled"], "another one is active by now");
        plugin.has_no_active_revision();
        assert_eq!(reasons(&plugin), ["SignatureInvalid", "SignatureInvalid"]);
        plugin.config().wanted.paused = true;
        assert_eq!(reasons(&plugin), ["Paused", "SignatureInvalid"]);
    }

    #[test]
    fn a_task_that_panicked_is_stalled_and_the_plugin_ready() {
        let mut plugin = Running::with(json!(null));
        plugin.state.panics.insert("rollout", "overflow".to_owned());
        let status = plugin.status();
        assert_eq!((said(&status, "Ready").1, said(&status, "Stalled").1), ("Active", "HostPanicked"));
    }

    #[test]
    fn writes_that_the_api_server_did_not_answer_are_in_the_message_of_ready() {
        let mut plugin = Running::with(json!(null));
        let message = |plugin: &Running| plugin.status().conditions[0].message.clone();
        assert!(message(&plugin).ends_with("serves its parents"));
        plugin.status.unanswered =
            Some(UnansweredWritesStatus { count: 3, last: "ConfigMap n/large".to_owned(), seconds: 5 });
        assert!(
            message(&plugin)
                .ends_with("did not answer 3 of its writes in the last ten minutes, the last one of ConfigMap n/large")
        );
    }

    #[test]
    fn a_component_that_waits_is_named_with_its_source() {
        let (mut plugin, digest) = (Running::with(json!(null)), Digest::of(b"waits"));
        let refused = json!({ "reason": "ApprovalRequired", "message": "approve it", "digest": digest });
        plugin.status.refused = Some(serde_json::from_value(refused).unwrap());
        plugin.state.fetched.component =
            Some(FetchedComponent { digest, source: "oci://registry/a@sha256:1".to_owned() });
        let pending = plugin.status().pending.unwrap();
        assert_eq!(pending.source.as_deref(), Some("oci://registry/a@sha256:1"));
        assert_eq!((pending.digest, &*pending.reason), (Some(digest.full()), "ApprovalRequired"));
    }

    #[test]
    fn a_component_that_is_not_active_yet_is_reconciling_unless_something_is_in_the_way() {
        let reconciling = |change: &dyn Fn(&mut Running)| {
            let mut plugin = Running::with(json!(null));
            change(&mut plugin);
            let status = plugin.status();
            (said(&status, "Reconciling").0 == "True", said(&status, "Stalled").0 == "True")
        };
        let fetched = |plugin: &mut Running| {
            let digest = Digest::of(b"newer");
            plugin.state.fetched.component = Some(FetchedComponent { digest, source: "oci://a".to_owned() });
        };
        assert_eq!(reconciling(&|_| {}), (false, false));
        assert_eq!(reconciling(&|plugin| plugin.state.is_source_unread = true), (true, false));
        assert_eq!(reconciling(&|plugin| fetched(plugin)), (true, false));
        let refused = |plugin: &mut Running| {
            fetched(plugin);
            let why = json!({ "reason": "RolledBack", "message": "worse", "digest": Digest::of(b"newer") });
            plugin.status.refused = Some(serde_json::from_value(why).unwrap());
        };
        assert_eq!(reconciling(&refused), (false, true));
        let unread = |plugin: &mut Running| {
            fetched(plugin);
            plugin.state.fetched.failing = Some(("RegistryUnreachable", "no answer".to_owned()));
            plugin.state.is_source_unread = true;
        };
        assert_eq!(reconciling(&unread), (false, true));
        let pinned = |plugin: &mut Running| plugin.config().wanted.revision = Some("00112233".parse().unwrap());
        assert_eq!(reconciling(&pinned), (true, false));
        let gone = |plugin: &mut Running| {
            pinned(plugin);
            plugin.state.control_failing = Some("it is gone".to_owned());
        };
        assert_eq!(reconciling(&gone), (false, true));
    }

    #[test]
    fn a_plugin_is_stalled_while_a_watch_needs_a_change_and_not_while_the_api_server_is_away() {
        let stalled = |needs_change| {
            let mut plugin = Running::with(json!(null));
            let why = "the CRD of Caches is missing";
            let watch = json!({ "kind": "Cache", "selector": "", "objects": 0, "synced": false, "failing": why, "needsChange": needs_change });
            plugin.status.watches = vec![serde_json::from_value(watch).unwrap()];
            let status = plugin.status();
            let (status, reason, _) = said(&status, "Stalled");
            (status == "True", reason.to_owned())
        };
        assert_eq!(stalled(true), (true, "WatchFailing".to_owned()));
        assert_eq!(stalled(false), (false, "Settled".to_owned()));
        let mut activating = Running::with(json!(null));
        let shown =
            json!({ "digest": "cd".repeat(32), "waitsFor": "no right to list Namespaces", "needsChange": true });
        activating.status.in_progress = Some(serde_json::from_value(shown).unwrap());
        let status = activating.status();
        assert_eq!((said(&status, "Stalled").0, said(&status, "Reconciling").0), ("True", "True"));
    }

    #[test]
    fn a_plugin_whose_account_cannot_be_used_is_stalled() {
        let mut plugin = Running::with(json!(null));
        plugin.status.unable = Some("the host may not impersonate it".to_owned());
        let status = plugin.status();
        for (condition, holds) in [("Ready", "False"), ("Stalled", "True")] {
            assert_eq!((said(&status, condition).0, said(&status, condition).1), (holds, "AccountUnusable"));
        }
    }

    #[test]
    fn an_invalid_object_of_a_plugin_that_runs_is_stalled_and_ready_and_one_that_does_not_run_is_not_ready() {
        let invalid = Obstacle::invalid("spec.limits: bad");
        let status = Running::with(json!(null)).becomes(&PluginStatus::default(), Some(&invalid));
        assert_eq!((said(&status, "Ready").1, said(&status, "Stalled").1), ("Active", "InvalidSpec"));
        let status = of(&PluginStatus::default(), 2, None, Some(&invalid), "now");
        assert_eq!((said(&status, "Ready").0, said(&status, "Ready").1), ("False", "InvalidSpec"));
    }

    #[test]
    fn the_kind_of_the_parents_is_remembered_while_no_revision_is_active() {
        let cache = ParentStatus::of(&Kind::new("example.com", "v1", "Cache"));
        let before = PluginStatus { parent: Some(cache.clone()), ..PluginStatus::default() };
        assert_eq!(Running::with(json!(null)).becomes(&before, None).parent, Some(cache));
    }

    #[test]
    fn a_canary_is_listed_as_a_revision_and_makes_the_object_reconciling() {
        let (digest, since, until) = ("cd".repeat(32), "2026-11-25T04:00:00Z", "2026-11-25T04:10:00Z");
        let canary = json!({
            "digest": digest, "version": "2", "share": "10%", "parents": 3, "since": since, "until": until,
            "source": "oci://registry/a@sha256:2"
        });
        let next = Running::with(canary).status();
        let canary = next.canary.as_ref().unwrap();
        assert_eq!((&*canary.digest, canary.parents, &*canary.share), (&*digest, 3, "10%"));
        assert_eq!(canary.source.as_deref(), Some("oci://registry/a@sha256:2"));
        assert_eq!((&*next.revisions[0].state, &*next.revisions[0].digest), ("Canary", &*digest));
        let [ready, reconciling, stalled] = &next.conditions[..] else { panic!("{:#?}", next.conditions) };
        assert_eq!((&*ready.status, &*stalled.status), ("True", "False"));
        assert_eq!((&*reconciling.status, &*reconciling.reason), ("True", "Canary"));
        assert!(reconciling.message.contains("is the canary for 10%: 3 parents"), "{}", reconciling.message);
    }
}
