//! The present status of a plugin: whether it is ready, and what it waits for.

use std::sync::Arc;
use std::time::Instant;

use crate::reconcile::controller::HostShare;
use crate::rollout::managed_plugin::ManagedPlugin;
use crate::rollout::status::{MemoryStatus, PluginFileStatus, PluginStatus, Trouble, WatchStatus};
use hotshoe_cluster::shared_watch::{Health, SharedWatch, Viewer};

impl ManagedPlugin {
    /// Returns whether no revision is active yet, though no refusal, failed fetch or failing watch is known.
    pub fn is_starting(&self) -> bool {
        let is_stopped = self.state.read(|state| state.refused.is_some() || state.fetched.failing.is_some());
        self.controller.active().is_none() && !is_stopped && self.failing_watches().is_none()
    }

    /// Returns whether a revision is active and all its watches work.
    pub fn is_ready(&self) -> bool {
        let is_restored = self.state.read(|state| state.revisions.is_restored);
        self.controller.active().is_some() && !is_restored && self.failing_watches().is_none()
    }

    fn failing_watches(&self) -> Option<String> {
        let failing: Vec<String> = self.watches().into_iter().filter_map(|watch| watch.failing).collect();
        (!failing.is_empty()).then(|| failing.join("; "))
    }

    /// Returns whether the plugin keeps its host from being ready. A plugin of a file does if it has no active revision, or
    /// not all of its watches are synced, unless only its own kinds are broken in the cluster: the host serves the
    /// others. A plugin of an object does only while it starts: one that cannot start must not block the rollout of the
    /// host's Deployment for ever, and its object says why.
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
        let refused = self.refused();
        let in_progress = self.in_progress();
        let (since, is_restored) = self.state.read(|state| (state.revisions.since, state.revisions.is_restored));
        let (standby, removal) = self.state.read(|state| (state.standby.clone(), state.removal.clone()));
        let (queued, running) = self.controller.queue.depth();
        let memory = self.memory();
        let survey = self.controller.survey();
        let failing = self.failing_watches();
        PluginStatus {
            name: self.controller.name.to_string(),
            source: self.plugin().component_path().display().to_string(),
            plugin_file: self.plugin_file_status(),
            ready: self.is_ready(),
            waiting: standby.or(failing).or_else(|| match (&active, &refused, &in_progress) {
                (Some(_), ..) if is_restored => {
                    let waits_for =
                        in_progress.as_ref().map_or("the component is being read", |shown| &shown.waits_for);
                    Some(format!(
                        "the revision that was active when the host ended stays active until then: {waits_for}"
                    ))
                }
                (Some(_), ..) => None,
                (None, Some(refused), _) => Some(refused.message.clone()),
                (None, None, Some(shown)) => Some(shown.waits_for.clone()),
                (None, None, None) => self.unaccepted().map(|unaccepted| unaccepted.to_string()),
            }),
            digest: active.as_ref().map(|active| active.revision.digest()),
            version: active.as_ref().map(|active| active.revision.descriptor().version.clone()),
            seconds: since.map(|since| since.elapsed().as_secs()),
            refused,
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
            removal,
            unable: self.controller.writer.impersonation_error(),
            breaker: self.controller.health.breaker.shown(Instant::now()),
            unanswered: self.controller.unanswered.lock().shown(Instant::now()),
            watches: self.watches(),
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
            let health = watch.health();
            WatchStatus {
                kind: watch.scope.kind.to_string(),
                selector: watch.scope.selector.clone(),
                objects: watch.cache.len(),
                synced: health == Health::Synced,
                needs_change: matches!(health, Health::Failing(_) | Health::Broken(_)),
                is_broken: matches!(health, Health::Broken(_)),
                failing: match health {
                    Health::Failing(why) | Health::Broken(why) | Health::Silent(why) => Some(why),
                    _ => None,
                },
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
