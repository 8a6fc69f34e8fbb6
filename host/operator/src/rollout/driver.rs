//! Drives the rollout of one plugin. A changed file, a verdict about a revision and an administrator's command each
//! become an event of the plugin's `Stage`, which decides what follows. While no work is in progress, [`next`] decides
//! once a second what is done for what the administrator wants.
//!
//! ```text
//! component file  read on a reload, and with `--follow` whenever it changes; a newer component replaces
//!                 the one that is being activated, but not in the first seconds of that activation
//! plugin.yaml     always followed; after a change, the component is verified again under the new plugin.yaml; if only
//!                 what is wanted has changed, not if the component is active
//! a canary        checked every second: activated when its time is over, or at once when spec.rollout is removed
//! a verdict       a rollback takes precedence; the component that was being activated is offered again afterwards
//! administrator   a rollback by command takes precedence, too; if it fails, the work that it interrupted starts again
//! ```
//!
//! No file is read during a rollback, which therefore has a timeout. Commands do not wait for each other: a caller is
//! answered once no work is in progress and both files are unchanged since they were read. So a caller who has just
//! written a file gets the outcome for that version of the file.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::api::status::RefusedComponent;
use crate::rollout::config_reload::Applied;
use crate::rollout::definition::Definition;
use crate::rollout::managed_plugin::{AdminCommand, ManagedPlugin, Reply, Request};
use hotshoe_core::flow::probation::RollbackVerdict;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::digest_prefix::DigestPrefix;
use hotshoe_core::model::kind::Key;
use hotshoe_core::plugin::attempts::Attempts;
use hotshoe_core::plugin::next;
use hotshoe_core::plugin::seen::{Seen, Waiting};
use hotshoe_core::plugin::stage::{Event, Interrupted, Stage, Work};
use hotshoe_core::plugin::step::Step;
use hotshoe_core::plugin::wanted::Wanted;
use hotshoe_platform::candidate::Candidate;
use hotshoe_platform::followed_file;
use hotshoe_platform::followed_file::{FileError, FollowedFile};
use hotshoe_sandbox::error::LoadError;

/// How long an activation runs before a newer component may replace it: if components came faster than they compile,
/// none would ever be activated. Of the components that come meanwhile, only the last one is activated.
const MIN_ACTIVATION_TIME: Duration = Duration::from_secs(5);
/// How often to check for remaining children of kinds that are no longer owned.
const PRUNE_INTERVAL: Duration = Duration::from_secs(5);
/// How often to compare the revisions with what `spec.approve`, `spec.revision` and `spec.rollout` want.
const CONTROL_INTERVAL: Duration = Duration::from_secs(1);

/// The rollout of one plugin.
struct Driver {
    plugin: Arc<ManagedPlugin>,
    /// `plugin.yaml`, or the `Plugin` object.
    definition: Definition,
    component: FollowedFile,
    stage: Stage,
    /// The work of the stage; none while the stage is idle.
    work: Option<UnderWay>,
    /// The callers that wait until the offered component is activated or refused.
    callers: Vec<Reply>,
    /// The namespaces in which nothing was decided when that was last looked at.
    refused: BTreeSet<Arc<str>>,
    /// What was tried for `spec.approve`, `spec.revision` and a missing source.
    tried: Attempts,
}

/// The work of a stage.
struct UnderWay {
    since: Instant,
    future: BoxFuture<'static, Result<(), String>>,
    /// What asked for the work and gets its outcome; `None` if nothing does.
    asked_by: Option<AskedBy>,
}

/// What asked for an earlier revision.
enum AskedBy {
    /// A rollback by command, whose caller waits.
    Command(Reply),
    /// `spec.revision`, of this value.
    Spec(DigestPrefix),
}

/// Drives a plugin's rollout until the host ends. An activation may wait long for a kind that the cluster does not
/// have yet; a newer component replaces that activation.
pub(crate) async fn run(
    plugin: Arc<ManagedPlugin>,
    definition: Definition,
    requests: Arc<Mutex<mpsc::Receiver<Request>>>,
) {
    let mut requests = requests.lock().await;
    let _only_host = plugin.clone().become_only_host().await;
    let config = plugin.plugin();
    let mut driver = Driver {
        definition,
        component: FollowedFile::first_of(config.component.clone(), config.limits.component_bytes)
            .following(plugin.shared.host.follow || config.origin.file().is_none())
            .awaited(config.source.file.is_none()),
        stage: Stage::default(),
        work: None,
        callers: Vec::new(),
        refused: BTreeSet::new(),
        tried: Attempts::default(),
        plugin: plugin.clone(),
    };
    // A read of an unchanged file is no event, but may be all that a caller waits for. So the answers are due at
    // intervals, which frequent callers must not delay.
    let mut answers = interval(followed_file::POLL_INTERVAL);
    answers.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut prunings = interval(PRUNE_INTERVAL);
    prunings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut controls = interval(CONTROL_INTERVAL);
    controls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let takes_files = driver.stage.takes_files();
        let replaceable_from = driver.replaceable_from();
        let is_replaceable = replaceable_from <= Instant::now();
        tokio::select! {
            offered = driver.definition.next(), if takes_files => driver.read_definition(offered).await,
            offered = driver.component.next(), if takes_files && is_replaceable => driver.activate(offered),
            () = sleep_until(replaceable_from), if takes_files && !is_replaceable => {}
            done = ended(&mut driver.work) => driver.end(done),
            verdict = plugin.controller.health.rollback_verdict(), if takes_files => driver.roll_back_active(verdict),
            verdict = plugin.controller.canary.health.rollback_verdict(), if takes_files => driver.roll_back_failing_canary(verdict).await,
            Some(request) = requests.recv() => driver.carry_out(request).await,
            _ = prunings.tick(), if driver.work.is_none() => plugin.end_pruned_kinds(),
            _ = controls.tick(), if driver.work.is_none() => {
                driver.wake_admitted();
                driver.control().await;
            }
            _ = answers.tick(), if !driver.callers.is_empty() => driver.answer(),
        }
    }
}

impl Driver {
    /// Queues the parents of namespaces that may be listed again.
    fn wake_admitted(&mut self) {
        let Some(active) = self.plugin.controller.active() else { return };
        let before = std::mem::replace(&mut self.refused, active.refused());
        let is_admitted = |key: &Key| {
            key.namespace
                .as_ref()
                .is_none_or(|namespace| before.contains(namespace) && !self.refused.contains(namespace))
        };
        if before.is_subset(&self.refused) {
            return;
        }
        active
            .parents
            .watch
            .cache
            .keys()
            .into_iter()
            .filter(is_admitted)
            .for_each(|key| self.plugin.controller.queue.add(key));
    }

    /// Returns the time from which a newer component replaces the one that is being activated.
    fn replaceable_from(&self) -> Instant {
        self.work.as_ref().map_or_else(Instant::now, |work| work.since + MIN_ACTIVATION_TIME)
    }

    /// Enters the stage that follows an event. Ends the present work or begins a rollback where that stage needs it;
    /// other work the caller has to begin, if [`Work::Begins`] is returned.
    fn step(&mut self, event: Event) -> Work {
        let next = std::mem::take(&mut self.stage).next(event);
        self.stage = next.stage;
        if next.offers {
            self.component.offer_again();
        }
        match (next.work, &self.stage) {
            (Work::Stops, _) => self.work = None,
            (Work::Begins, Stage::RollingBack(verdict)) => {
                let plugin = self.plugin.clone();
                self.begin(plugin.roll_back_from(verdict.clone(), self.component.offered()).map(Ok), None);
            }
            _ => {}
        }
        next.work
    }

    fn begin(&mut self, work: impl Future<Output = Result<(), String>> + Send + 'static, asked_by: Option<AskedBy>) {
        self.work = Some(UnderWay { since: Instant::now(), future: work.boxed(), asked_by });
    }

    fn activate(&mut self, offered: Result<Candidate, FileError>) {
        if let Ok(component) = &offered {
            self.plugin.note_offered(component);
        }
        if self.step(Event::Offered) == Work::Begins {
            let offered = offered.map_err(LoadError::from);
            self.begin(self.plugin.clone().activate(offered).map(Ok), None);
        }
    }

    /// Rolls back the active revision. A canary was verified beside that revision, so it is offered again afterwards.
    fn roll_back_active(&mut self, verdict: RollbackVerdict) {
        self.step(Event::RollbackNeeded(verdict));
        if self.plugin.controller.canary.current().is_some() {
            self.component.offer_again();
        }
    }

    /// Rolls back a canary. The activation of a newer component goes on meanwhile.
    async fn roll_back_failing_canary(&mut self, verdict: RollbackVerdict) {
        self.plugin.roll_back_canary(verdict, self.component.offered()).await;
    }

    /// Ends the work of a stage.
    fn end(&mut self, done: Result<(), String>) {
        let asked_by = self.work.take().and_then(|work| work.asked_by);
        self.step(Event::Ended { succeeded: done.is_ok() });
        match (asked_by, done) {
            (Some(AskedBy::Command(reply)), done) => self.reply(reply, done),
            (Some(AskedBy::Spec(_)), Ok(())) => self.component.offer_again(),
            (Some(AskedBy::Spec(named)), Err(why)) => self.fail_return(named, why),
            (None, _) => {}
        }
        self.answer();
    }

    /// Applies `plugin.yaml` or the object. The component is offered again, because what was refused may be granted
    /// now. An activation in progress starts again, so that no component is activated that was verified under the
    /// previous definition.
    async fn read_definition(&mut self, offered: Result<Candidate, FileError>) {
        let before = self.plugin.plugin();
        // Set before the new definition is seen: until its source is read, the active revision is not what it describes.
        self.plugin.state.set(|state| &mut state.is_source_unread, true);
        let applied = self.plugin.apply_definition(offered).await;
        let config = self.plugin.plugin();
        match applied {
            Applied::Nothing => {}
            Applied::Control => self.controls_changed(),
            Applied::All => {
                let canary = self.plugin.controller.canary.current().map(|canary| canary.digest());
                if !config.source.is_same_place(&before.source) {
                    // It came from the other source, and the definition no longer names it.
                    self.plugin.end_canary("spec.source names another component now");
                } else if canary.is_some_and(|canary| !self.plugin.is_accepted(canary)) {
                    self.plugin.end_canary("spec.source.verify requires another signature now");
                }
                self.step(Event::FileChanged);
                self.component.redirect(
                    config.component.clone(),
                    config.limits.component_bytes,
                    config.source.file.is_none(),
                );
                // The file may hold another component by now, and that is the one that a caller of a reload wants.
                if !self.callers.is_empty() || self.plugin.controller.active().is_none() {
                    self.component.request();
                }
            }
        }
        let is_offered_again = applied == Applied::Control && self.component.has_changed();
        let is_unread = config.component != before.component || is_offered_again;
        self.plugin.state.set(|state| &mut state.is_source_unread, is_unread);
    }

    /// Offers the component again, unless it is active: it may have been refused for want of an approval, or because
    /// `spec.revision` named another one. If that is just being decided, it starts again, by what is wanted now.
    fn controls_changed(&mut self) {
        let active = self.plugin.controller.active().map(|active| active.revision.digest());
        if self.component.offered().is_some_and(|offered| active != Some(offered)) {
            self.step(Event::FileChanged);
        }
    }

    /// Takes the next step for what the administrator wants, as far as it is not done yet.
    async fn control(&mut self) {
        if !self.component.has_changed() {
            self.plugin.state.set(|state| &mut state.is_source_unread, false);
        }
        let (wanted, now) = (self.plugin.plugin().wanted.clone(), std::time::Instant::now());
        let seen = self.see(&wanted);
        let step = next::next(&wanted, &seen, &self.tried, now);
        self.tried.note(&wanted, &seen, &step, now);
        match step {
            Step::Retire => return self.retire(),
            Step::Promote(why) => return self.promote_canary(why).await,
            Step::EndCanary(why) => {
                self.plugin.end_canary(why);
                return self.component.offer_again();
            }
            Step::FallBack => return self.activate_without_source(),
            Step::Return(digest) => self.return_to(digest, &wanted),
            Step::FailReturn(why) => {
                wanted.revision.iter().for_each(|named| self.fail_return(named.clone(), why.clone()))
            }
            Step::Approve(digest) => self.approve(digest).await,
            Step::Share(share) => self.plugin.change_share(share),
            Step::Wait => {}
        }
        let failure = self.tried.failure(&wanted, seen.active, |approve| self.is_known(approve));
        self.plugin.state.set(|state| &mut state.control_failing, failure);
    }

    /// Collects what the next step depends on.
    fn see(&self, wanted: &Wanted) -> Seen {
        let (plugin, offered) = (&self.plugin, self.component.offered());
        let active = plugin.controller.active().map(|active| active.revision.digest());
        let waiting = plugin.refused().filter(RefusedComponent::can_be_approved);
        let waiting = waiting.and_then(|refused| refused.digest);
        let named = wanted.revision.as_ref().filter(|named| !active.is_some_and(|active| named.is_of(active)));
        let fetched = plugin.fetched();
        let is_failing = fetched.failing.is_some() && offered.is_none();
        Seen {
            active,
            is_unaccepted: plugin.unaccepted_active().is_some(),
            is_offer_due: fetched.component.is_some() && self.component.has_changed(),
            offered,
            lacks_source: is_failing && !self.component.path().exists(),
            canary: plugin.canary_seen(),
            waiting: waiting.map(|digest| Waiting { digest, was_approved: plugin.history().was_approved(digest) }),
            named: named.map(|named| plugin.meant(|known| known.was_active(named))),
        }
    }

    /// Ends the active component, which `verify` refuses. What the source has is offered again.
    fn retire(&mut self) {
        if let Some(unaccepted) = self.plugin.unaccepted_active() {
            self.plugin.retire(&unaccepted);
        }
        self.component.offer_again();
    }

    /// Activates the canary. A newer component in the source was refused beside the revision before it, so it is offered
    /// again: otherwise it would no longer be shown as refused, and could not be approved.
    async fn promote_canary(&mut self, why: &str) {
        self.plugin.promote_canary(why).await;
        if self.is_worth_another_try() {
            self.component.offer_again();
        }
    }

    /// Begins to activate the last good revision, as it would be without a restart.
    fn activate_without_source(&mut self) {
        if self.step(Event::Offered) == Work::Begins {
            self.begin(self.plugin.clone().activate_without_source().map(Ok), None);
        }
    }

    /// Approves the component that waits, which the source offers again.
    async fn approve(&mut self, digest: Digest) {
        self.plugin.approve(digest).await;
        self.component.offer_again();
    }

    /// Returns whether the plugin has or had a component of this digest, or may have one once its source was read.
    fn is_known(&self, digest: &DigestPrefix) -> bool {
        let controller = &self.plugin.controller;
        let known = [
            controller.active().map(|active| active.revision.digest()),
            controller.canary.current().map(|canary| canary.digest()),
            self.plugin.refused().and_then(|refused| refused.digest),
        ];
        let is_in_history = || self.plugin.history().entries().iter().any(|entry| digest.is_of(entry.digest));
        self.component.offered().is_none()
            || known.into_iter().flatten().any(|one| digest.is_of(one))
            || is_in_history()
    }

    /// Begins to activate the revision that `spec.revision` names.
    fn return_to(&mut self, digest: Digest, wanted: &Wanted) {
        if self.step(Event::RollbackAsked) == Work::Begins {
            self.begin(self.plugin.clone().return_to(digest), wanted.revision.clone().map(AskedBy::Spec));
        }
    }

    /// Notes that the revision that `spec.revision` names could not be activated.
    fn fail_return(&mut self, named: DigestPrefix, why: String) {
        tracing::warn!(revision = named.hex(), "the revision that spec.revision names cannot be activated: {why}");
        self.tried.failed(named, why, std::time::Instant::now());
    }

    async fn carry_out(&mut self, Request { command, reply }: Request) {
        // Callers that have gone must not pile up while a file is being written for ever.
        self.callers.retain(|reply| !reply.is_closed());
        match command {
            AdminCommand::RollBack(named) => self.roll_back(named.as_ref(), reply),
            AdminCommand::Approve(named) => match self.plugin.approval(named.as_ref()) {
                Ok(digest) => {
                    self.approve(digest).await;
                    self.callers.push(reply);
                }
                Err(why) => self.reply(reply, Err(why)),
            },
            AdminCommand::Reload => {
                self.plugin.refetch.notify_one();
                self.request_reads();
                self.callers.push(reply);
            }
        }
    }

    /// Requests a read of the files, even if their metadata is unchanged. During a rollback, the files are read after
    /// it. A read that another caller requested is shared: a later write shows in the file's times.
    fn request_reads(&mut self) {
        if !self.stage.takes_files() || self.is_worth_another_try() {
            self.component.offer_again();
            self.component.request();
            return;
        }
        self.component.request();
        if self.callers.is_empty() {
            self.definition.reread();
            self.component.reread();
        }
    }

    /// Begins a rollback by command. A rollback that is not possible interrupts nothing.
    fn roll_back(&mut self, named: Option<&DigestPrefix>, reply: Reply) {
        let rollback = match self.plugin.rollback(named) {
            Ok(rollback) => rollback,
            Err(why) => return self.reply(reply, Err(why)),
        };
        if self.step(Event::RollbackAsked) != Work::Begins {
            return self.reply(reply, Err("another rollback is under way; try again in a moment".to_owned()));
        }
        let newer = self.stage == Stage::Returning(Interrupted::Activation);
        let (plugin, offered) = (self.plugin.clone(), self.component.offered());
        let rollback = match rollback.ended {
            Some(_) => plugin.roll_back_canary_by_command(offered, newer).boxed(),
            None => plugin.roll_back_to(rollback.to, offered, newer).boxed(),
        };
        self.begin(rollback, Some(AskedBy::Command(reply)));
    }

    /// Returns whether the component that was offered last is not active: the reason of its refusal may have passed.
    fn is_worth_another_try(&self) -> bool {
        let offered = self.component.offered();
        let active = self.plugin.controller.active().map(|active| active.revision.digest());
        self.work.is_none() && (offered.is_none() || offered != active)
    }

    /// Answers the callers, unless work is in progress or a file is still to be read.
    fn answer(&mut self) {
        if self.work.is_some() || self.definition.has_changed() || self.component.has_changed() {
            return;
        }
        for reply in std::mem::take(&mut self.callers) {
            self.reply(reply, Ok(()));
        }
    }

    fn reply(&self, reply: Reply, done: Result<(), String>) {
        // The caller may have gone.
        drop(reply.send(done.map(|()| self.plugin.status())));
    }
}

/// Waits for the end of the work; for ever if there is no work.
async fn ended(work: &mut Option<UnderWay>) -> Result<(), String> {
    match work {
        Some(work) => (&mut work.future).await,
        None => std::future::pending().await,
    }
}
