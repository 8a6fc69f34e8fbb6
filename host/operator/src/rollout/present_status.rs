//! The present status of a plugin: whether it is ready, and what it waits for.

use std::sync::Arc;
use std::time::Instant;

use crate::api::status::{InProgress, MemoryStatus, PluginFileStatus, PluginStatus, Trouble, WatchStatus};
use crate::reconcile::controller::HostShare;
use crate::rollout::managed_plugin::ManagedPlugin;
use crate::rollout::state::PluginState;
use crate::rollout::unaccepted::Unaccepted;
use hotshoe_cluster::shared_watch::{Health, SharedWatch, Viewer};

impl ManagedPlugin {
    /// Returns whether no revision is active yet, though no refusal, failed fetch or failing watch is known.
    fn is_starting(&self) -> bool {
        let is_stopped = || self.state.read(|state| state.refused.is_some() || state.fetched.failing.is_some());
        self.controller.active().is_none() && !is_stopped() && failing(&self.watches()).is_none()
    }

    /// Returns whether the plugin keeps its host from being ready. A plugin of a file does if it is not ready, unless only
    /// its own kinds are broken in the cluster: the host serves the others. A plugin of an object does only while it
    /// starts: one that cannot start must not block the rollout of the host's Deployment for ever, and its object says
    /// why.
    pub fn keeps_host_unready(&self) -> bool {
        if self.plugin().origin.file().is_none() {
            return self.is_starting();
        }
        let status = self.status();
        let mut failing = status.watches.iter().filter(|watch| watch.failing.is_some()).peekable();
        let is_broken = status.refused.is_none() && failing.peek().is_some() && failing.all(|watch| watch.is_broken);
        !status.ready && !is_broken
    }

    /// Returns the status of the plugin.
    pub fn status(&self) -> PluginStatus {
        let active = self.controller.active();
        let (in_progress, watches) = (self.in_progress(), self.watches());
        let (queued, running) = self.controller.queue.depth();
        let (memory, survey) = (self.memory(), self.controller.survey());
        let (waiting, since) = self.state.read(|state| {
            (waiting(state, active.is_some(), failing(&watches), in_progress.as_ref()), state.revisions.since)
        });
        PluginStatus {
            name: self.controller.name.to_string(),
            source: self.plugin().component_path().display().to_string(),
            plugin_file: self.plugin_file_status(),
            ready: active.is_some() && waiting.is_none(),
            waiting,
            digest: active.as_ref().map(|active| active.revision.digest()),
            version: active.as_ref().map(|active| active.revision.descriptor().version.clone()),
            seconds: since.map(|since| since.elapsed().as_secs()),
            refused: self.refused(),
            in_progress,
            canary: self.canary_status(),
            history_failing: self.history().failing().map(str::to_owned),
            parents: active.map_or(0, |active| active.parents.watch.cache.len()),
            trouble: Trouble { failing: survey.failing, refused: survey.refused },
            stalled: survey.stalled.clone(),
            deleting: survey.deleting.clone(),
            memory: MemoryStatus { held: memory.held(), may_hold: memory.may_hold() },
            queued,
            running,
            standing_by: self.standing_by(),
            fetch_failing: self.fetch_failing(),
            removal: self.state.read(|state| state.removal.clone()),
            unable: self.controller.writer.impersonation_error(),
            breaker: self.controller.health.breaker.shown(Instant::now()),
            unanswered: self.controller.unanswered.lock().shown(Instant::now()),
            watches,
        }
    }

    /// Returns the other host that works for the plugin, if this one works for none of its parents.
    fn standing_by(&self) -> Option<String> {
        let HostShare { shards, one } = &self.controller.share;
        let mut shards = one.map_or(0..shards.count(), |one| one..one + 1);
        let first = self.shared.leases.standing_by(shards.start)?;
        shards.all(|shard| self.shared.leases.standing_by(shard).is_some()).then_some(first)
    }

    fn watches(&self) -> Vec<WatchStatus> {
        // While no revision is active, the plugin waits for the watches of its first candidate.
        let viewer = match self.controller.active() {
            Some(_) => Viewer::active(&self.controller.name),
            None => Viewer::candidate(&self.controller.name),
        };
        let mut watches: Vec<_> = self.shared.watches.all().into_iter().filter(|w| w.is_open_for(&viewer)).collect();
        watches.sort_by(|a, b| a.scope.kind.cmp(&b.scope.kind));
        let status = |watch: &Arc<SharedWatch>| {
            let (health, refused) = (watch.health(), watch.refused());
            let without = (!refused.is_empty()).then(|| without(&watch.scope.kind.to_string(), &refused));
            WatchStatus {
                kind: watch.scope.kind.to_string(),
                selector: watch.scope.selector.clone(),
                objects: watch.cache.len(),
                synced: health == Health::Synced,
                needs_change: matches!(health, Health::Failing(_) | Health::Broken(_)) || without.is_some(),
                is_broken: matches!(health, Health::Broken(_)),
                failing: health.why().map(str::to_owned).or(without),
                refused: refused.iter().map(|(namespace, _)| namespace.to_string()).collect(),
            }
        };
        watches.iter().map(status).collect()
    }

    /// Returns the status of `plugin.yaml`.
    fn plugin_file_status(&self) -> PluginFileStatus {
        let (file, refused) = self.state.read(|state| (state.config.origin.to_string(), state.config_refused.clone()));
        PluginFileStatus { file, refused, not_granted: self.lacking() }
    }
}

/// Says in which namespaces the objects of a kind may not be listed.
fn without(kind: &str, refused: &[(Arc<str>, String)]) -> String {
    let names: Vec<&str> = refused.iter().map(|(namespace, _)| &**namespace).collect();
    let why = refused.first().map(|(_, why)| why.as_str()).unwrap_or_default();
    format!("nothing is done in {}, because {kind} may not be listed there: {why}", names.join(", "))
}

/// Returns why watches fail, if any does. One that only leaves some namespaces out serves the others.
fn failing(watches: &[WatchStatus]) -> Option<String> {
    let failing = watches.iter().filter(|watch| watch.refused.is_empty() || !watch.synced);
    let failing: Vec<&str> = failing.filter_map(|watch| watch.failing.as_deref()).collect();
    (!failing.is_empty()).then(|| failing.join("; "))
}

/// Returns what a plugin waits for. It is ready if a revision is active and it waits for nothing.
fn waiting(
    state: &PluginState,
    is_active: bool,
    failing: Option<String>,
    in_progress: Option<&InProgress>,
) -> Option<String> {
    let shown = in_progress.map(|shown| &*shown.waits_for);
    let for_revision = || match (&state.refused, shown) {
        _ if is_active && state.revisions.is_restored => {
            let waits_for = shown.unwrap_or("the component is being read");
            Some(format!("the revision that was active when the host ended stays active until then: {waits_for}"))
        }
        _ if is_active => None,
        (Some(refused), _) => Some(refused.message.clone()),
        (None, Some(waits_for)) => Some(waits_for.to_owned()),
        (None, None) => state.unaccepted.as_ref().map(Unaccepted::to_string),
    };
    state.standby.clone().or(failing).or_else(for_revision)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::status::RefusedComponent;
    use hotshoe_core::model::digest::Digest;
    use hotshoe_sandbox::error::LoadError;

    #[test]
    fn a_plugin_waits_for_the_other_host_then_for_its_watches_and_then_for_its_component() {
        let (mut state, digest) = (PluginState::of_test(), Digest::of(b"a"));
        let in_progress = InProgress { digest, waits_for: "compiling".to_owned(), needs_change: false };
        assert_eq!(waiting(&state, true, None, Some(&in_progress)), None, "a newer one is no reason to wait");
        assert_eq!(waiting(&state, false, None, None), None, "nothing is known to be in the way");
        assert_eq!(waiting(&state, false, None, Some(&in_progress)).as_deref(), Some("compiling"));
        state.refused = Some(RefusedComponent::new(Some(digest), &LoadError::RolledBack("worse".to_owned())));
        assert!(waiting(&state, false, None, Some(&in_progress)).unwrap().contains("worse"));
        assert_eq!(waiting(&state, true, None, None), None, "the active one stays");
        state.revisions.is_restored = true;
        assert!(waiting(&state, true, None, Some(&in_progress)).unwrap().ends_with("until then: compiling"));
        let failing = || Some("no CRD".to_owned());
        assert_eq!(waiting(&state, true, failing(), None), failing());
        state.standby = Some("process 7".to_owned());
        assert_eq!(waiting(&state, true, failing(), None), state.standby);
    }
}
