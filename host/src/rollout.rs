//! From a component's bytes to the logic that decides, and back.
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

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use crate::controller::{Controller, Logic};
use crate::debut::{Stage, Stopwatch};
use crate::decision::{Call, Kind};
use crate::error::LoadError;
use crate::finalize;
use crate::object::{Key, Object};
use crate::observed::observe;
use crate::plugin::candidate::Candidate;
use crate::plugin::cases::{Case, Verdict};
use crate::plugin::digest::Digest;
use crate::plugin::history::{Entry, Event, History};
use crate::plugin::revision::Revision;
use crate::plugin::slot::Refused;
use crate::probation::{Beginning, Relapse};
use crate::shadow::OVERDUE;
use crate::shadow::survey::{self, Survey};
use crate::supervised::{State, Supervised};
use crate::wiring::{self, Views};

/// How long going back may take: shorter than the patience of whoever asked for it, and files wait meanwhile.
const WAY_BACK: Duration = Duration::from_secs(50);
/// So many parents are asked about at most before a revision is published, until one is decided.
const FIRST_CALLS: usize = 5;

/// Why a component does not decide again that did.
const NOT_KEPT: &str = "it is not kept any more; build it again and reload it (`hotshoe history` shows what is kept)";

/// How a revision comes to decide.
#[derive(Clone, Copy)]
enum Start<'a> {
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
    fn waits_for_approval(&self, digest: Digest) -> Option<LoadError> {
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

    async fn try_take(&self, candidate: Candidate, start: Start<'_>) -> Result<(), LoadError> {
        let mut stopwatch = Stopwatch::start();
        let plugin = self.plugin();
        let _under_way = self.begin(candidate.digest());
        let shared = &self.shared;
        let loaded = Revision::load(&shared.engine, &shared.compiler, candidate.clone(), plugin.limits.clone());
        let revision = loaded.await?;
        plugin.ensure_granted(revision.descriptor())?;
        let revision = Arc::new(revision);
        stopwatch.over(Stage::Load);
        try_carried_cases(&revision).await?;
        stopwatch.over(Stage::Cases);
        tracing::debug!(plugin = &*plugin.name, digest = %revision.digest(), loaded = ?stopwatch.elapsed(), "the component is good");
        self.install(revision, Some(candidate), start, stopwatch).await
    }

    /// Has a revision decide that was loaded and found good. Its component is kept, unless it is kept
    /// already.
    async fn install(
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
        let why = start.why().to_owned();
        self.remember(move |history| {
            remember(history, &revision, component.as_ref(), &why);
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
    pub(crate) fn former_finalizers(&self, logic: &Logic) -> Vec<String> {
        let mut former = self.history().finalizers();
        if let Some(present) = self.controller.logic() {
            former.extend(present.revision.descriptor().finalizer.clone());
            former.extend(present.former_finalizers.iter().cloned());
        }
        let now = logic.revision.descriptor().finalizer.as_ref();
        former.into_iter().filter(|finalizer| Some(finalizer) != now).collect()
    }

    /// A component that decided earlier, if it is kept and intact.
    async fn kept(&self, digest: Digest) -> Option<Candidate> {
        let (history, most) = (self.history.clone(), self.plugin().limits.component_bytes);
        let kept = move || history.lock().component(digest, most);
        tokio::task::spawn_blocking(kept).await.ok().flatten()
    }

    /// Notes what became of a revision.
    async fn note(&self, revision: &Arc<Revision>, event: Event, why: &str) {
        let (revision, why) = (revision.clone(), why.to_owned());
        self.remember(move |history| history.note(revision.digest(), &revision.descriptor().version, event, &why))
            .await;
    }

    /// Changes the history where nobody waits for the disk: all reconciles share one thread.
    async fn remember(&self, change: impl FnOnce(&mut History) + Send + 'static) {
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

    /// A revision that would break much waits for a person.
    async fn hold(&self, logic: &Logic) -> Result<(), LoadError> {
        let Some(present) = self.controller.logic() else { return Ok(()) };
        let why = match orphans(&present, logic) {
            Some(why) => Some(why),
            None => {
                self.waits_for("the component is asked about every parent");
                let survey = survey::survey(&self.controller, &present, logic).await;
                too_much(&survey, logic.plugin.max_losing)
            }
        };
        let Some(why) = why else { return Ok(()) };
        let is_noted = self.history().held(logic.revision.digest()).is_some_and(|held| held.message == why);
        if !is_noted {
            self.note(&logic.revision, Event::Held, &why).await;
        }
        Err(LoadError::Held(why))
    }

    /// What no reconcile can go on beside, so it is short. Returns what is not needed any more.
    #[must_use]
    fn publish(&self, logic: Logic, start: Start<'_>, mut stopwatch: Stopwatch) -> State {
        let plugin = &*self.controller.name;
        let revision = logic.revision.clone();
        let (digest, version) = (revision.digest(), revision.descriptor().version.clone());
        let parents = logic.parents.watched.cache.len();
        let before = self.controller.logic().map(|logic| logic.revision.clone());
        let replaced = before.as_ref().map(|before| before.digest());
        let before = before.filter(|_| matches!(start, Start::Swap));
        let beginning = match self.on_probation_for(digest) {
            Some(since) if self.was_at_work(digest) => Beginning::Resumed(since),
            _ => self.beginning(digest, start, before.is_some()),
        };
        self.controller.probation.begin(tokio::time::Instant::now(), digest, beginning);
        wiring::listen(&self.controller, &self.shared.watches, &logic);
        self.controller.publish(Arc::new(logic));
        let is_restored = matches!(start, Start::Restore);
        let state = State { since: Some(Instant::now()), before, is_restored, ..State::default() };
        let gone = std::mem::replace(&mut *self.state.lock(), state);
        wiring::release(&self.controller, &self.shared.watches);
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

    /// For how long what decided when the host ended had been held against the one before it.
    fn on_probation_for(&self, digest: Digest) -> Option<Duration> {
        let history = self.history();
        history.on_probation_since(digest).map(|since| SystemTime::now().duration_since(since).unwrap_or_default())
    }

    /// The last good revision goes on; the reason is in the log, the status and the metrics.
    fn refuse(&self, digest: Option<Digest>, error: &LoadError) {
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

    /// Goes back from the revision that decides, which is not taken again by itself. Where that is not
    /// possible now, it is tried again while that one goes on doing worse. The file holds what was `offered`
    /// last.
    pub(crate) async fn take_back(self: Arc<Self>, relapse: Relapse, offered: Option<Digest>) {
        let Some(bad) = self.controller.logic().map(|logic| logic.revision.clone()) else { return };
        let (plugin, Relapse { why, failed_on }) = (&*self.controller.name, relapse);
        let before = match self.predecessor(bad.digest()).await {
            Ok(before) => before,
            Err(lost) => {
                tracing::error!(plugin, digest = %bad.digest(), "{why}; but {lost}");
                return self.controller.probation.resume(tokio::time::Instant::now());
            }
        };
        if self.fails_alike(&before, &failed_on).await {
            tracing::warn!(plugin, digest = %bad.digest(), before = %before.digest(), "{why}; but the one before it fails on the same objects, so it goes on");
            return self.controller.probation.excuse();
        }
        let error = LoadError::TakenBack(why.clone());
        let is_noted = self.history().taken_back(bad.digest()).is_some();
        if !is_noted {
            self.note(&bad, Event::TakenBack, &why).await;
        }
        let (place, way) = (format!("in the place of {}", bad.digest()), (Some(bad.digest()), before.digest()));
        let refused = self.controller.slot.refused();
        let _under_way = self.begin(before.digest());
        match self.in_time(self.install(before, None, Start::Return(&place), Stopwatch::start())).await {
            Ok(()) => {
                self.refuse(Some(bad.digest()), &error);
                self.say_what_still_is_refused(offered, way, refused);
            }
            Err(failed) => {
                tracing::error!(plugin, digest = %bad.digest(), "{error}; but the one before it cannot be taken either: {failed}");
                self.controller.probation.resume(tokio::time::Instant::now());
            }
        }
    }

    /// The one that decided before this one: from memory, or as it is kept.
    async fn predecessor(&self, bad: Digest) -> Result<Arc<Revision>, String> {
        if let Some(before) = self.state.lock().before.clone() {
            return Ok(before);
        }
        let earlier = self.history().before(Some(bad));
        let lost = "no component that decided before it is kept; build an earlier one again";
        let kept = self.kept(*earlier.first().ok_or(lost)?).await.ok_or(lost)?;
        let (shared, plugin) = (&self.shared, self.plugin());
        let revision = Revision::load(&shared.engine, &shared.compiler, kept, plugin.limits.clone()).await;
        let revision = revision.map_err(|error| format!("the one before it cannot be loaded: {error}"))?;
        Ok(Arc::new(revision))
    }

    /// Whether a revision fails on the same parents: it would not do better.
    async fn fails_alike(&self, before: &Arc<Revision>, failed_on: &[Key]) -> bool {
        if failed_on.is_empty() {
            return false;
        }
        let plugin = self.plugin();
        let views = Views::under(self.shared.watches.clone(), self.candidate_name());
        let asked = async {
            let before = before.under(&plugin.limits);
            let logic = views.open(&self.controller, plugin, before, &[]).await.ok()?;
            Some(survey::fails_on_all(&self.controller, &logic, failed_on).await)
        };
        tokio::time::timeout(WAY_BACK, asked).await.ok().flatten().unwrap_or(false)
    }

    /// A way back that takes no longer than what waits for it may have to wait.
    async fn in_time<E: Display>(&self, back: impl Future<Output = Result<(), E>>) -> Result<(), String> {
        // It stays until it is said what it waits for.
        let mut back = std::pin::pin!(back);
        match tokio::time::timeout(WAY_BACK, &mut back).await {
            Ok(done) => done.map_err(|error| error.to_string()),
            Err(_) => Err(format!("it is not ready after {WAY_BACK:?}: {}", self.awaited())),
        }
    }

    /// Which revision is meant by this beginning of a digest; the last one before the present where none
    /// is given.
    ///
    /// # Errors
    /// Why there is none to go back to, for whoever asked.
    pub(crate) fn earlier(&self, to: Option<&str>) -> Result<Digest, String> {
        let current = self.controller.logic().map(|logic| logic.revision.digest());
        let earlier = match to {
            Some(prefix) => self.history().find_decided(prefix)?,
            None => {
                let before = self.history().before(current);
                last_at_hand(&before, |earlier| self.is_at_hand(earlier))?
            }
        };
        if current == Some(earlier) {
            return Err(format!("{earlier} decides already"));
        }
        Ok(earlier)
    }

    /// Whether a component that decided earlier is kept, on the disk or in memory.
    fn is_at_hand(&self, digest: Digest) -> bool {
        self.history().is_kept(digest) || self.in_memory(digest).is_some()
    }

    /// The revision that decided before the present one, if it is this.
    fn in_memory(&self, digest: Digest) -> Option<Arc<Revision>> {
        self.state.lock().before.clone().filter(|before| before.digest() == digest)
    }

    /// Has an earlier revision decide, from what is kept of it, or else as it is in memory.
    async fn take_again(&self, target: Digest, start: Start<'_>) -> Result<(), String> {
        let in_words = |error: LoadError| error.to_string();
        if let Some(kept) = self.kept(target).await {
            return self.try_take(kept, start).await.map_err(in_words);
        }
        let revision = self.in_memory(target).ok_or(NOT_KEPT)?;
        self.plugin().ensure_granted(revision.descriptor()).map_err(in_words)?;
        let _under_way = self.begin(target);
        self.install(revision, None, start, Stopwatch::start()).await.map_err(in_words)
    }

    /// Has an earlier revision decide. The file holds what was `offered` last; with `newer`, that was just
    /// being taken, and is taken no more than what decides.
    ///
    /// # Errors
    /// Why that is not possible, for whoever asked.
    pub(crate) async fn roll_back(
        self: Arc<Self>,
        target: Digest,
        offered: Option<Digest>,
        newer: bool,
    ) -> Result<(), String> {
        let refused = self.controller.slot.refused();
        let current = self.controller.logic().map(|logic| logic.revision.clone());
        let waited = self.waits_for_approval(target).is_some();
        self.in_time(self.take_again(target, Start::Return("somebody went back to it")))
            .await
            .map_err(|why| format!("{target} cannot be taken: {why}"))?;
        if waited {
            self.remember(move |history| history.approve(target, "somebody went back to it")).await;
        }
        let plugin = &*self.controller.name;
        if let Some(current) = &current {
            self.note(current, Event::TakenBack, "somebody went back to another revision").await;
            self.controller.metrics.revision(plugin, "TakenBack");
            tracing::info!(plugin, digest = %target, left = %current.digest(), "somebody went back; what was left is not taken again before its file changes or somebody approves it");
        }
        let known = [Some(target), current.as_ref().map(|current| current.digest())];
        if let Some(newer) = offered.filter(|offered| newer && !known.contains(&Some(*offered))) {
            let why = "somebody went back to another revision while it was being taken";
            self.remember(move |history| history.note(newer, "", Event::TakenBack, why)).await;
        }
        self.say_what_still_is_refused(offered, (current.map(|current| current.digest()), target), refused);
        Ok(())
    }

    fn say_what_still_is_refused(
        &self,
        offered: Option<Digest>,
        way: (Option<Digest>, Digest),
        before: Option<Refused>,
    ) {
        match still_refused(&self.history(), offered, way, before) {
            Some(refused) => self.controller.slot.refuse(refused),
            None => self.controller.slot.forgive(),
        }
    }

    /// Lets a component decide that was held or taken back.
    ///
    /// # Errors
    /// When it is not the one that is not taken now.
    pub(crate) async fn approve(&self, wanted: Option<&str>) -> Result<(), String> {
        let refused = self.controller.slot.refused();
        let digest = refused.as_ref().filter(|refused| refused.can_be_approved()).and_then(|refused| refused.digest);
        let digest =
            digest.ok_or("nothing waits for an approval; `hotshoe status` shows what is not taken, and why")?;
        let prefix = wanted.map(|wanted| wanted.strip_prefix("sha256:").unwrap_or(wanted).to_ascii_lowercase());
        if let Some(prefix) = prefix.filter(|prefix| !digest.full().starts_with(prefix)) {
            return Err(format!("{prefix} is not what waits for an approval; {digest} is"));
        }
        self.remember(move |history| history.approve(digest, "")).await;
        tracing::info!(plugin = &*self.controller.name, %digest, "somebody approved of this component");
        Ok(())
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
        if let Some(logic) = wiring::without_pruned(&self.controller.name, &present) {
            self.controller.slot.rewire(Arc::new(logic));
            wiring::release(&self.controller, &self.shared.watches);
        }
    }
}

/// The last that may decide in the place of the present one and is at hand; of those `before` it, which are the
/// best first.
fn last_at_hand(before: &[Digest], is_at_hand: impl Fn(Digest) -> bool) -> Result<Digest, String> {
    let Some(last) = before.first() else {
        return Err("there is no earlier revision to go back to; `hotshoe history` shows what there was".to_owned());
    };
    let at_hand = before.iter().copied().find(|earlier| is_at_hand(*earlier));
    at_hand.ok_or_else(|| format!("{last} cannot be taken: {NOT_KEPT}"))
}

/// Notes that a revision decides now, and keeps its component for going back to it.
fn remember(history: &mut History, revision: &Revision, component: Option<&Candidate>, why: &str) {
    let digest = revision.digest();
    if let Some(component) = component {
        history.keep(component);
    }
    if history.current() != Some(digest) {
        let descriptor = revision.descriptor();
        let owns = descriptor.owns.iter().map(|owned| owned.kind.clone()).collect();
        history.publish(digest, &descriptor.version, (descriptor.finalizer.as_deref(), owns), why);
    }
}

/// Why a component is not taken before a person says so.
fn waits(history: &History, digest: Digest) -> Option<LoadError> {
    let taken_back = history.taken_back(digest).map(|entry| LoadError::TakenBack(entry.message.clone()));
    taken_back.or_else(|| history.held(digest).map(|entry| LoadError::Held(entry.message.clone())))
}

/// Why what the file holds is not taken, after a way back from one revision to another: what a person sees and
/// approves is what the file holds, which need be neither of them. It is the one that was left as far as is
/// known, where the file was not read.
fn still_refused(
    history: &History,
    offered: Option<Digest>,
    (left, target): (Option<Digest>, Digest),
    before: Option<Refused>,
) -> Option<Refused> {
    if offered == Some(target) {
        return None;
    }
    let waiting = |digest| waits(history, digest).map(|error| Refused::new(Some(digest), &error));
    let before = before.filter(|before| before.digest == offered);
    match offered {
        Some(offered) => waiting(offered).or(before),
        None => before.or_else(|| waiting(left?)),
    }
}

/// Why a revision should not decide unasked: it fails where the present one does not, deletes children of
/// more than so many parents of 100, or took too long for all of them to be looked at.
fn too_much(survey: &Survey, max_losing: u8) -> Option<String> {
    let parents = survey.parents;
    let failing = &survey.failing;
    if failing.count > 0 {
        return Some(format!(
            "it fails on {} of {parents} parents on which the present one does not: {}",
            failing.count,
            failing.in_words()
        ));
    }
    let losing = &survey.losing;
    if losing.count * 100 > parents * usize::from(max_losing) {
        return Some(format!(
            "it would delete children of {} of {parents} parents, more than {max_losing} of 100 (spec.swap.maxLosing): {}",
            losing.count,
            losing.in_words()
        ));
    }
    if survey.looked_at < parents {
        return Some(format!(
            "only {} of {parents} parents could be looked at: {OVERDUE} calls ran for longer than they may",
            survey.looked_at
        ));
    }
    None
}

/// Whom a revision would leave with the present one's finalizer: it holds another one or none, or serves
/// another kind, where nobody would ever take it off.
fn orphans(present: &Logic, new: &Logic) -> Option<String> {
    let (old, next) = (present.revision.descriptor(), new.revision.descriptor());
    let finalizer = old.finalizer.as_deref()?;
    let serves_them = old.parent.is_served_as(&next.parent);
    if serves_them && next.finalizer.as_deref() == Some(finalizer) {
        return None;
    }
    let parents = &present.parents.watched.cache;
    let keys = parents.keys();
    let holds = |parent: &Arc<Object>| parent.finalizers.iter().any(|held| **held == *finalizer);
    let holding = keys.iter().filter_map(|key| parents.get(key)).filter(holds).count();
    let what = match (serves_them, next.finalizer.as_deref()) {
        (false, _) => format!("it serves {} and no longer {}", next.parent, old.parent),
        (true, Some(other)) => format!("it holds the finalizer {other} and no longer {finalizer}"),
        (true, None) => format!("it no longer holds the finalizer {finalizer}"),
    };
    let of_them = match serves_them {
        true => "the one at work would not clean up after them any more",
        false => "nobody would take it off, and they could not be deleted",
    };
    (holding > 0).then(|| format!("{what}, but {holding} of {} parents have {finalizer}: {of_them}", keys.len()))
}

/// A component that carries cases proves itself on them.
async fn try_carried_cases(revision: &Arc<Revision>) -> Result<(), LoadError> {
    let failed = |message: String| LoadError::SelfTestFailed(message);
    for case in Case::carried(revision.cases()).map_err(failed)? {
        let report = case.run(revision).await;
        if !report.holds(&case) {
            let why = match report.verdict {
                Verdict::Failed(message) => message,
                _ => "it answers something else than the case expects".to_owned(),
            };
            return Err(failed(format!("case {:?}: {why}", case.name)));
        }
    }
    Ok(())
}

/// A revision that cannot decide any of the first few parents that are there is not published, but for those
/// that the one before it cannot decide either, or where a person has said that it may all the same. What it
/// answers is not carried out.
async fn first_call(controller: &Controller, logic: &Logic) -> Result<(), LoadError> {
    let parents = &logic.parents.watched.cache;
    let is_asked = |parent: &Arc<Object>| {
        let is_called = !parent.deleting || finalize::asks_for_clean_up(logic, parent);
        is_called && controller.recall(parent).failures == 0
    };
    let asked: Vec<Arc<Object>> =
        parents.keys().iter().filter_map(|key| parents.get(key)).filter(is_asked).take(FIRST_CALLS).collect();
    one_of(asked.into_iter().map(|parent| call_about(controller, logic, parent))).await
}

async fn call_about(controller: &Controller, logic: &Logic, parent: Arc<Object>) -> Result<(), LoadError> {
    let memory = controller.recall(&parent);
    let call = if parent.deleting { Call::Finalize } else { Call::Reconcile };
    let name = parent.key.to_string();
    let observed = observe(logic, parent, &memory);
    let outcome = logic.revision.decide(call, observed.shown).await;
    outcome.map(drop).map_err(|error| LoadError::SelfTestFailed(format!("{name}: {error}")))
}

/// Makes one call after the other until one is good; one bad parent says nothing of a revision.
///
/// # Errors
/// The first, where there are calls and none of them is good.
async fn one_of<E>(calls: impl Iterator<Item = impl Future<Output = Result<(), E>>>) -> Result<(), E> {
    let mut first = None;
    for call in calls {
        match call.await {
            Ok(()) => return Ok(()),
            Err(error) => first = first.or(Some(error)),
        }
    }
    first.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::shadow::survey::Noted;

    fn noted(count: usize) -> Noted {
        Noted { count, first: Some("default/cache: Service default/cache".into()) }
    }

    fn survey(losing: usize, failing: usize) -> Survey {
        Survey { parents: 50, looked_at: 50, losing: noted(losing), failing: noted(failing) }
    }

    /// Of components with these words: the first ones decided, and of what became of them each is told once more.
    fn history_of(published: &[&str], events: &[(&str, Event)]) -> History {
        let mut history = History::default();
        published.iter().for_each(|words| history.publish(digest(words), "1", (None, Vec::new()), ""));
        events.iter().for_each(|(words, event)| history.note(digest(words), "1", *event, "so"));
        history
    }

    fn digest(words: &str) -> Digest {
        Digest::of(words.as_bytes())
    }

    /// What is said after a way back, of which component and why.
    fn said(
        history: &History,
        offered: Option<&str>,
        (left, target): (&str, &str),
        before: Option<Refused>,
    ) -> Option<(Option<Digest>, Cow<'static, str>)> {
        let refused = still_refused(history, offered.map(digest), (Some(digest(left)), digest(target)), before);
        refused.map(|refused| (refused.digest, refused.reason))
    }

    fn waits(words: &str, reason: &'static str) -> Option<(Option<Digest>, Cow<'static, str>)> {
        Some((Some(digest(words)), reason.into()))
    }

    #[test]
    fn after_a_way_back_what_the_file_holds_is_what_is_refused() {
        let both = history_of(&["a", "b", "c"], &[("c", Event::TakenBack), ("b", Event::TakenBack)]);
        let c_waits = waits("c", "TakenBack");
        assert_eq!(said(&both, Some("c"), ("b", "a"), None), c_waits);
        let held = history_of(&["b", "c"], &[("h", Event::Held), ("c", Event::TakenBack)]);
        assert_eq!(said(&held, Some("h"), ("c", "b"), None), waits("h", "Held"));
        assert_eq!(said(&held, None, ("c", "b"), None), c_waits, "as far as is known");
        assert_eq!(said(&held, Some("b"), ("c", "b"), None), None, "the file holds what decides now");
    }

    #[test]
    fn after_a_way_back_another_reason_to_refuse_what_the_file_holds_still_stands() {
        let history = history_of(&["b", "c"], &[("c", Event::TakenBack)]);
        let refused = |words: Option<&str>, error: LoadError| Some(Refused::new(words.map(digest), &error));
        let lacking = || refused(Some("n"), LoadError::NotGranted("much".to_owned()));
        assert_eq!(said(&history, Some("n"), ("c", "b"), lacking()), waits("n", "NotGranted"));
        assert_eq!(said(&history, Some("m"), ("c", "b"), lacking()), None, "it was said of another file");
        let large = refused(None, LoadError::TooLarge { size: 2, limit: 1 });
        assert_eq!(said(&history, None, ("c", "b"), large), Some((None, "ComponentTooLarge".into())));
    }

    #[test]
    fn who_goes_back_goes_to_the_last_that_is_at_hand() {
        let before = ["c", "b", "a"].map(digest);
        assert_eq!(last_at_hand(&before, |_| true), Ok(digest("c")));
        assert_eq!(last_at_hand(&before, |earlier| earlier == digest("a")), Ok(digest("a")));
        let gone = last_at_hand(&before, |_| false).unwrap_err();
        assert!(gone.contains(&digest("c").to_string()) && gone.contains("not kept any more"), "{gone}");
        assert!(last_at_hand(&[], |_| true).unwrap_err().contains("no earlier revision"));
    }

    /// The result of calls that end so, and how many were made.
    async fn of_calls(results: &[Result<(), &'static str>]) -> (Result<(), &'static str>, usize) {
        let mut made = 0;
        let calls = results.iter().map(|result| {
            made += 1;
            std::future::ready(*result)
        });
        (one_of(calls).await, made)
    }

    #[tokio::test]
    async fn one_good_call_is_enough_and_the_first_failure_is_told_where_there_is_none() {
        assert_eq!(of_calls(&[]).await, (Ok(()), 0));
        assert_eq!(of_calls(&[Ok(()), Err("one")]).await, (Ok(()), 1));
        assert_eq!(of_calls(&[Err("one"), Err("two"), Ok(())]).await, (Ok(()), 3));
        assert_eq!(of_calls(&[Err("one"), Err("two")]).await, (Err("one"), 2));
    }

    #[test]
    fn a_revision_that_deletes_children_of_too_many_waits() {
        assert_eq!(too_much(&survey(5, 0), 10), None);
        let why = too_much(&survey(6, 0), 10).unwrap();
        assert!(why.contains("6 of 50") && why.contains("default/cache"), "{why}");
        assert_eq!(too_much(&survey(50, 0), 100), None);
        assert!(too_much(&survey(1, 0), 0).is_some());
    }

    #[test]
    fn a_revision_that_fails_where_the_present_one_does_not_waits() {
        assert!(too_much(&survey(0, 1), 100).unwrap().starts_with("it fails on 1 of 50"));
    }

    #[test]
    fn a_revision_that_could_not_be_asked_about_every_parent_waits() {
        let ended_early = Survey { looked_at: 20, ..survey(0, 0) };
        assert!(too_much(&ended_early, 100).unwrap().starts_with("only 20 of 50"));
    }
}
