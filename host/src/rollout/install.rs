//! From a component's bytes to the logic that decides. What it has to show on the way stands in
//! [`proving`](crate::rollout::verify), the way back in [`way_back`](crate::rollout::rollback).
//!
//! ```text
//! bytes ─▶ Revision::load ─▶ grants ─▶ own cases ─▶ watches synced ─▶ first call ─▶ survey ─▶ publish
//!              └───────────────┴───────────┴──────────────┴──────────────┘         │        all are decided again
//!               anything wrong: the last good revision goes on                     └▶ too much at once: held until approved
//!
//! publish ─▶ on probation ─▶ worse than the one before: that one is published again
//! ```
//!
//! What was taken back or held is not taken again until somebody approves it, also after a restart.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::slot::Refused;
use crate::reconcile::views;
use crate::reconcile::views::Views;
use crate::rollout::history::{AtWork, Entry, Event, History};
use crate::rollout::managed_plugin::{State, Supervised};
use crate::rollout::verify::{first_call, try_carried_cases};
use crate::sandbox::candidate::Candidate;
use crate::sandbox::error::LoadError;
use crate::sandbox::revision::{Loaded, Revision};
use crate::telemetry::swap_timer::{Stage, Stopwatch};
use hotshoe_core::flow::probation::{Beginning, Tally};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::Kind;

/// How a revision comes to decide.
#[derive(Clone, Copy)]
pub(crate) enum Start<'a> {
    /// It is new, and held against the one before it.
    Swap,
    /// It decided before, and does again for this reason.
    Return(&'a str),
    /// It decided when the host ended, and does until what is offered since then has proved itself.
    Restore,
}

impl Start<'_> {
    fn why(&self) -> &str {
        match self {
            Self::Swap => "",
            Self::Return(why) => why,
            Self::Restore => "it decided when the host ended",
        }
    }
}

/// The history of a plugin as it is shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PluginHistory {
    /// The revision that decides.
    pub current: Option<Digest>,
    /// Those that can be gone back to, the last that decided first.
    pub kept: Vec<Digest>,
    /// What happened, the newest last.
    pub entries: Vec<Entry>,
}

impl Supervised {
    /// Takes what the source offers, or says why not.
    pub(crate) async fn take(self: Arc<Self>, offered: Result<Candidate, LoadError>) {
        let (digest, error) = match offered {
            Ok(candidate) => match self.take_candidate(candidate).await {
                Ok(()) => return,
                Err((digest, error)) => (Some(digest), error),
            },
            Err(error) => (None, error),
        };
        self.refuse(digest, &error);
        if self.controller.logic().is_none() {
            self.fall_back(digest).await;
        }
    }

    async fn take_candidate(&self, candidate: Candidate) -> Result<(), (Digest, LoadError)> {
        let digest = candidate.digest();
        if self.controller.logic().is_some_and(|logic| logic.revision.digest() == digest) {
            self.controller.slot.forgive();
            // What was kept of it may have been spoilt, and here are its bytes.
            self.remember(move |history| history.keep(&candidate)).await;
            return Ok(());
        }
        if self.controller.logic().is_none() {
            self.restore(digest).await;
        }
        let taken = match self.waits_for_approval(digest) {
            Some(waits) => Err(waits),
            None => self.try_take(candidate, Start::Swap).await,
        };
        taken.map_err(|error| (digest, error))
    }

    /// Where another one decided when the host ended, it decides again until what is offered has proved
    /// itself against it: a component that is replaced while no host runs is not to break more than one that
    /// is replaced beside one.
    async fn restore(&self, offered: Digest) {
        let last = {
            let history = self.history();
            let is_news = history.current() != Some(offered);
            is_news.then(|| history.before(Some(offered)).first().copied()).flatten()
        };
        let Some(last) = last else { return };
        let Some(kept) = self.kept(last).await else { return };
        let taken = self.in_time(self.try_take(kept, Start::Restore)).await;
        if let Err(why) = taken {
            tracing::warn!(plugin = &*self.controller.name, digest = %last, "what decided when the host ended cannot be taken again, so what is offered has nothing to prove itself against: {why}");
        }
    }

    /// Why this component is not even tried. What is held is tried again beside the one that decides, for
    /// it may break less by now; where none does, there is nothing to hold it against.
    pub(crate) fn waits_for_approval(&self, digest: Digest) -> Option<LoadError> {
        let is_final =
            |error: &LoadError| matches!(error, LoadError::TakenBack(_)) || self.controller.logic().is_none();
        waits(&self.history(), digest).filter(is_final)
    }

    /// Nothing decides and what is offered cannot: the last that did, does.
    async fn fall_back(&self, instead_of: Option<Digest>) {
        let refused = self.controller.slot.refused();
        let earlier = self.history().before(instead_of);
        for digest in earlier {
            let Some(kept) = self.kept(digest).await else { continue };
            match self.try_take(kept, Start::Return("what was offered at the start could not be taken")).await {
                Ok(()) => return refused.into_iter().for_each(|refused| self.controller.slot.refuse(refused)),
                Err(error) => {
                    tracing::warn!(plugin = &*self.controller.name, %digest, %error, "an earlier revision cannot be taken either")
                }
            }
        }
    }

    pub(crate) async fn try_take(&self, candidate: Candidate, start: Start<'_>) -> Result<(), LoadError> {
        let mut stopwatch = Stopwatch::start();
        let plugin = self.plugin();
        let _under_way = self.begin(candidate.digest());
        let shared = &self.shared;
        let loaded = Revision::load(&shared.engine, &shared.compiler, candidate.clone(), plugin.limits.clone());
        let Loaded { revision, cases } = loaded.await?;
        plugin.ensure_granted(revision.descriptor())?;
        if let Some(names) = plugin.names_differ(&revision.descriptor().name) {
            tracing::warn!(plugin = &*plugin.name, "{names}");
        }
        stopwatch.over(Stage::Load);
        self.waits_for("its cases are tried");
        try_carried_cases(&revision, cases).await?;
        stopwatch.over(Stage::Cases);
        tracing::debug!(plugin = &*plugin.name, digest = %revision.digest(), loaded = ?stopwatch.elapsed(), "the component is good");
        self.install(revision, Some(candidate), start, stopwatch).await
    }

    /// Has a revision decide that was loaded and found good. Its component is kept, unless it is kept
    /// already.
    pub(crate) async fn install(
        &self,
        revision: Arc<Revision>,
        component: Option<Candidate>,
        start: Start<'_>,
        mut stopwatch: Stopwatch,
    ) -> Result<(), LoadError> {
        self.waits_for("the caches are being filled");
        let plugin = self.plugin();
        let revision = revision.under(&plugin.limits);
        let views = Views::under(self.shared.watches.clone(), self.candidate_name());
        let (digest, owned_before) = (revision.digest(), self.owned_before());
        let mut logic = self.telling(digest, views.open(&self.controller, plugin, revision, &owned_before)).await?;
        logic.former_finalizers = self.former_finalizers(&logic);
        stopwatch.over(Stage::Watches);
        let is_approved = matches!(start, Start::Swap) && self.history().is_approved(digest);
        if !is_approved && !self.was_at_work(digest) {
            first_call(&self.controller, &logic).await?;
        }
        stopwatch.over(Stage::FirstCall);
        if matches!(start, Start::Swap) && !is_approved {
            self.hold(&logic).await?;
        }
        stopwatch.over(Stage::Survey);
        let revision = logic.revision.clone();
        let gone = self.publish(logic, start, stopwatch);
        // The plugin has them open now.
        drop(views);
        let (why, before) = (start.why().to_owned(), self.controller.probation.before());
        self.remember(move |history| {
            remember(history, &revision, component.as_ref(), (&why, before));
            // Taking native code out of memory is the kernel's work, and takes as long as a decision.
            drop(gone);
        })
        .await;
        Ok(())
    }

    /// Whether it decided when the host ended, and nothing does yet: whom it fails on, it failed on then.
    fn was_at_work(&self, digest: Digest) -> bool {
        self.controller.logic().is_none() && self.history().current() == Some(digest)
    }

    /// Of which kinds children may be left since before the host was started.
    fn owned_before(&self) -> Vec<Kind> {
        if self.controller.logic().is_some() { Vec::new() } else { self.history().owned() }
    }

    /// What earlier revisions held stays on the parents that have it, and is taken off when they are deleted.
    pub(crate) fn former_finalizers(&self, logic: &ActiveRevision) -> Vec<String> {
        let mut former = self.history().finalizers();
        if let Some(present) = self.controller.logic() {
            former.extend(present.revision.descriptor().finalizer.clone());
            former.extend(present.former_finalizers.iter().cloned());
        }
        let now = logic.revision.descriptor().finalizer.as_ref();
        former.into_iter().filter(|finalizer| Some(finalizer) != now).collect()
    }

    /// A component that decided earlier, if it is kept and intact.
    pub(crate) async fn kept(&self, digest: Digest) -> Option<Candidate> {
        let (history, most) = (self.history.clone(), self.plugin().limits.component_bytes);
        let kept = move || history.lock().component(digest, most);
        tokio::task::spawn_blocking(kept).await.ok().flatten()
    }

    /// Notes what became of a revision.
    pub(crate) async fn note(&self, revision: &Arc<Revision>, event: Event, why: &str) {
        let (revision, why) = (revision.clone(), why.to_owned());
        self.remember(move |history| history.note(revision.digest(), &revision.descriptor().version, event, &why))
            .await;
    }

    /// Changes the history where nobody waits for the disk: all reconciles share one thread.
    pub(crate) async fn remember(&self, change: impl FnOnce(&mut History) + Send + 'static) {
        let (history, failing) = (self.history.clone(), self.history_failing.clone());
        let changed = tokio::task::spawn_blocking(move || {
            let mut history = history.lock();
            change(&mut history);
            *failing.lock() = history.failing().map(str::to_owned);
        });
        if let Err(error) = changed.await {
            tracing::warn!(plugin = &*self.controller.name, %error, "the history of revisions is not kept");
        }
    }

    /// What no reconcile can go on beside, so it is short. Returns what is not needed any more.
    #[must_use]
    fn publish(&self, logic: ActiveRevision, start: Start<'_>, mut stopwatch: Stopwatch) -> State {
        let plugin = &*self.controller.name;
        let revision = logic.revision.clone();
        let (digest, version) = (revision.digest(), revision.descriptor().version.clone());
        let parents = logic.parents.watched.cache.len();
        let before = self.controller.logic().map(|logic| logic.revision.clone());
        let replaced = before.as_ref().map(|before| before.digest());
        let before = before.filter(|_| matches!(start, Start::Swap));
        let beginning = match self.on_probation_for(digest) {
            Some((since, before)) if self.was_at_work(digest) => Beginning::Resumed(since, before),
            _ => self.beginning(digest, start, before.is_some()),
        };
        self.controller.probation.begin(std::time::Instant::now(), digest, beginning);
        views::listen(&self.controller, &self.shared.watches, &logic);
        self.controller.publish(Arc::new(logic));
        let is_restored = matches!(start, Start::Restore);
        let state = State { since: Some(Instant::now()), before, is_restored, ..State::default() };
        let gone = std::mem::replace(&mut *self.state.lock(), state);
        views::release(&self.controller, &self.shared.watches);
        self.controller.metrics.revision(plugin, "Published");
        stopwatch.over(Stage::Publish);
        tracing::info!(plugin, %digest, version, before = replaced.map(display), swapped = ?stopwatch.elapsed(), parents, "the component decides from now on");
        // Where nobody waits for a decision, the first one says nothing about the swap.
        if replaced.is_some() && parents > 0 {
            self.controller.debut.await_first(digest, stopwatch);
        }
        gone
    }

    /// One that did worse before, and that somebody lets decide all the same, is not taken back for it again.
    fn beginning(&self, digest: Digest, start: Start<'_>, has_predecessor: bool) -> Beginning {
        match start {
            Start::Return(_) | Start::Restore => Beginning::Return,
            Start::Swap if has_predecessor && !self.history().is_approved_after_all(digest) => Beginning::OnProbation,
            Start::Swap => Beginning::Unjudged,
        }
    }

    /// For how long what decided when the host ended had been held against the one before it, and what the calls of
    /// that one had come to.
    fn on_probation_for(&self, digest: Digest) -> Option<(Duration, Tally)> {
        let (since, before) = self.history().on_probation_since(digest)?;
        Some((SystemTime::now().duration_since(since).unwrap_or_default(), before))
    }

    /// The last good revision goes on; the reason is in the log, the status and the metrics.
    pub(crate) fn refuse(&self, digest: Option<Digest>, error: &LoadError) {
        let refused = Refused::new(digest, error);
        let plugin = &*self.controller.name;
        let keeps = self.controller.logic().map(|logic| logic.revision.digest());
        tracing::error!(
            plugin,
            digest = digest.map(display),
            keeps = keeps.map(display),
            reason = &*refused.reason,
            "the component is not taken: {}",
            refused.message
        );
        self.controller.metrics.revision(plugin, &refused.reason);
        self.controller.slot.refuse(refused);
        self.state.lock().is_restored = false;
    }

    /// What decided, and what became of it.
    pub fn shown_history(&self) -> PluginHistory {
        let current = self.controller.logic().map(|logic| logic.revision.digest());
        let mut kept = self.history().published();
        kept.retain(|earlier| Some(*earlier) != current && self.is_at_hand(*earlier));
        PluginHistory { current, kept, entries: self.history().entries().to_vec() }
    }

    /// Ends the watches of kinds that are owned no longer, once no child of them is left.
    pub(crate) fn end_pruned_kinds(&self) {
        // What began under another revision may still make one.
        let (_, running) = self.controller.queue.depth();
        let Some(present) = self.controller.logic().filter(|_| running == 0) else { return };
        if let Some(logic) = views::without_pruned(&self.controller.name, &present) {
            self.controller.slot.rewire(Arc::new(logic));
            views::release(&self.controller, &self.shared.watches);
        }
    }
}

/// Notes that a revision decides now, and keeps its component for going back to it.
fn remember(history: &mut History, revision: &Revision, component: Option<&Candidate>, (why, before): (&str, Tally)) {
    let digest = revision.digest();
    if let Some(component) = component {
        history.keep(component);
    }
    if history.current() != Some(digest) {
        let descriptor = revision.descriptor();
        let owns = descriptor.owns.iter().map(|owned| owned.kind.clone()).collect();
        let at_work = AtWork { finalizer: descriptor.finalizer.clone(), owns, before };
        history.publish(digest, &descriptor.version, at_work, why);
    }
}

/// Why a component is not taken before a person says so.
pub(crate) fn waits(history: &History, digest: Digest) -> Option<LoadError> {
    let taken_back = history.taken_back(digest).map(|entry| LoadError::TakenBack(entry.message.clone()));
    taken_back.or_else(|| history.held(digest).map(|entry| LoadError::Held(entry.message.clone())))
}
