//! Drives the rollout of one plugin: what the files hold, what a verdict or an administrator asks for becomes an
//! event of its [`Stage`], which says what follows.
//!
//! ```text
//! component file  read on a reload, and with `--follow` whenever it changes; a newer component replaces
//!                 the one that is being activated, once that had some time
//! plugin.yaml     followed all the time; the component is judged again by what it says now
//! a canary        looked at every second: activated when its time is over, and at once where spec.rollout is gone
//! a verdict       a rollback goes first; the component that was being activated is offered again after it
//! administrator   a rollback by hand goes first, too; where it fails, what it interrupted begins again
//! ```
//!
//! Files wait for a rollback, which therefore has a time-out of its own. Those who ask do not hold up each other:
//! they are answered when nothing is under way and both files are as they were when they were read, so that who
//! wrote one and asks is answered about that one.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::reconcile::slot::Refused;
use crate::rollout::canary::Due;
use crate::rollout::config_reload::Applied;
use crate::rollout::control::{Act, Controls, Known};
use crate::rollout::definition::Definition;
use crate::rollout::managed_plugin::{AdminCommand, ManagedPlugin, Reply, Request};
use crate::rollout::stage::{Event, Interrupted, Stage, Work};
use crate::sandbox::candidate::Candidate;
use crate::sandbox::error::LoadError;
use crate::sandbox::followed_file;
use crate::sandbox::followed_file::FollowedFile;
use hotshoe_core::flow::probation::RollbackVerdict;

/// How long an activation is not replaced by that of a newer component: if components come faster than they compile,
/// none would ever be activated. Of those that come meanwhile only the last is kept.
const GIVES_WAY: Duration = Duration::from_secs(5);
/// How often to check for remaining children of kinds that are no longer owned.
const PRUNED: Duration = Duration::from_secs(5);
/// How often to check whether the revisions are as an administrator wants them.
const CONTROLLED: Duration = Duration::from_secs(1);

/// The rollout of one plugin.
struct Driver {
    plugin: Arc<ManagedPlugin>,
    /// `plugin.yaml`, or the `Plugin` object.
    definition: Definition,
    component: FollowedFile,
    stage: Stage,
    /// The work of the stage; none where it is idle.
    work: Option<UnderWay>,
    /// The caller of the rollback that is under way.
    asked_back: Option<Reply>,
    /// The callers that wait for the outcome of an offer.
    asked: Vec<Reply>,
    /// What was done for `spec.approve` and `spec.revision`, and the revision that is being returned to for it.
    controls: Controls,
    returning: Option<String>,
}

/// The work of a stage.
struct UnderWay {
    since: Instant,
    future: BoxFuture<'static, Result<(), String>>,
}

/// Drives a plugin's rollout until the host ends. An activation may wait long, for a kind that is not there yet; a
/// newer component replaces it.
pub(crate) async fn run(plugin: Arc<ManagedPlugin>, definition: Definition, mut requests: mpsc::Receiver<Request>) {
    let _only_host = plugin.clone().begin_alone().await;
    let config = plugin.plugin();
    let mut driver = Driver {
        definition,
        component: FollowedFile::first_of(config.component.clone(), config.limits.component_bytes)
            .following(plugin.shared.host.follow || config.origin.file().is_none())
            .awaited(config.source.file.is_none()),
        stage: Stage::default(),
        work: None,
        asked_back: None,
        asked: Vec::new(),
        controls: Controls::default(),
        returning: None,
        plugin: plugin.clone(),
    };
    // A read of an unchanged file wakes nothing, and may be all that a caller waits for. Frequent callers must not
    // delay it.
    let mut looks = interval(followed_file::POLL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut prunings = interval(PRUNED);
    prunings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut controls = interval(CONTROLLED);
    controls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let takes_files = driver.stage.takes_files();
        let gives_way = driver.gives_way_at();
        let is_in_time = gives_way <= Instant::now();
        tokio::select! {
            offered = driver.definition.next(), if takes_files => driver.read_definition(offered).await,
            offered = driver.component.next(), if takes_files && is_in_time => driver.activate(offered),
            () = sleep_until(gives_way), if takes_files && !is_in_time => {}
            done = ended(&mut driver.work) => driver.end(done),
            relapse = plugin.controller.judgement.relapsed(), if takes_files => driver.relapse(relapse),
            relapse = plugin.controller.canary.judgement.relapsed(), if takes_files => driver.relapse_of_canary(relapse).await,
            Some(request) = requests.recv() => driver.carry_out(request).await,
            _ = prunings.tick(), if driver.work.is_none() => plugin.end_pruned_kinds(),
            _ = controls.tick(), if driver.work.is_none() => driver.control().await,
            _ = looks.tick(), if !driver.asked.is_empty() => driver.answer(),
        }
    }
}

impl Driver {
    /// Returns the time from which a newer component replaces the one that is being activated.
    fn gives_way_at(&self) -> Instant {
        self.work.as_ref().map_or_else(Instant::now, |work| work.since + GIVES_WAY)
    }

    /// Enters the next stage. Returns what to do with the present work; starts a rollback if there is one.
    fn step(&mut self, event: Event) -> Work {
        let next = std::mem::take(&mut self.stage).next(event);
        self.stage = next.stage;
        if next.offers {
            self.component.offer_again();
        }
        match (next.work, &self.stage) {
            (Work::Stops, _) => self.work = None,
            (Work::Begins, Stage::RollingBack(relapse)) => {
                let plugin = self.plugin.clone();
                self.begin(plugin.roll_back_from(relapse.clone(), self.component.offered()).map(Ok).boxed());
            }
            _ => {}
        }
        next.work
    }

    fn begin(&mut self, future: BoxFuture<'static, Result<(), String>>) {
        self.work = Some(UnderWay { since: Instant::now(), future });
    }

    fn activate(&mut self, offered: Result<Candidate, LoadError>) {
        if self.step(Event::Offered) == Work::Begins {
            self.begin(self.plugin.clone().activate(offered).map(Ok).boxed());
        }
    }

    /// A canary was verified beside the revision that is rolled back now, so it begins anew afterwards.
    fn relapse(&mut self, relapse: RollbackVerdict) {
        self.step(Event::Relapsed(relapse));
        if self.plugin.controller.canary.current().is_some() {
            self.component.offer_again();
        }
    }

    /// Rolls back a canary. A newer component that is being activated meanwhile goes on.
    async fn relapse_of_canary(&mut self, relapse: RollbackVerdict) {
        self.plugin.roll_back_canary(relapse, self.component.offered()).await;
    }

    /// Does what is due with the canary. Returns whether it has ended.
    async fn look_at_canary(&mut self) -> bool {
        match self.plugin.due_of_canary() {
            Due::Nothing => return false,
            Due::Share(share) => {
                self.plugin.share_otherwise(share);
                return false;
            }
            Due::Promotion(why) => self.plugin.promote_canary(why).await,
            Due::End(why) => {
                self.plugin.end_canary(why);
                self.component.offer_again();
            }
        }
        true
    }

    /// Ends the work of a stage.
    fn end(&mut self, done: Result<(), String>) {
        self.work = None;
        self.step(Event::Ended { well: done.is_ok() });
        if let Some(revision) = self.returning.take() {
            self.returned(&revision, done.as_ref().err());
        }
        if let Some(reply) = self.asked_back.take() {
            self.reply(reply, done);
        }
        self.answer();
    }

    /// Applies `plugin.yaml` or the object. What was refused may be granted now, and a component that is being activated
    /// begins again: none is activated that was judged by what was said before.
    async fn read_definition(&mut self, offered: Result<Candidate, LoadError>) {
        match self.plugin.apply_definition(offered).await {
            Applied::Nothing => {}
            Applied::Control => {
                self.plugin.control_failing.lock().take();
                self.controls_changed();
            }
            Applied::All => {
                self.step(Event::FileChanged);
                let config = self.plugin.plugin();
                self.component.redirect(
                    config.component.clone(),
                    config.limits.component_bytes,
                    config.source.file.is_none(),
                );
                // The file may have another component by now, and a reload is about that one.
                if !self.asked.is_empty() || self.plugin.controller.active().is_none() {
                    self.component.request();
                }
            }
        }
    }

    /// Has a component judged again that waited for an approval, or because another was to be active.
    fn controls_changed(&mut self) {
        if self.work.is_none() {
            self.component.offer_again();
        }
    }

    /// Does what `spec.revision`, `spec.approve` and `spec.rollout` want and is not so yet.
    async fn control(&mut self) {
        if self.look_at_canary().await {
            return;
        }
        let plugin = self.plugin.clone();
        let (wanted, refused) = (plugin.plugin().control.clone(), plugin.controller.slot.refused());
        let waiting = refused.filter(Refused::can_be_approved).and_then(|refused| refused.digest);
        let known = Known {
            active: plugin.controller.active().map(|active| active.revision.digest()),
            waiting,
            was_approved: waiting.is_some_and(|waiting| plugin.history().was_approved(waiting)),
        };
        match self.controls.next(&wanted, known, std::time::Instant::now()) {
            None => {}
            Some(Act::Approve(digest)) => match plugin.approve(Some(&digest.full())).await {
                Ok(()) => self.component.offer_again(),
                Err(why) => *plugin.control_failing.lock() = Some(why),
            },
            Some(Act::Return(revision)) => self.return_to(revision),
        }
    }

    /// Begins to activate the revision that `spec.revision` names.
    fn return_to(&mut self, revision: String) {
        let earlier = match self.plugin.earlier(Some(&revision)) {
            Ok(earlier) => earlier,
            // It may be what the source has.
            Err(_) if self.component.offered().is_none() => return,
            Err(why) => return self.returned(&revision, Some(&why)),
        };
        if self.step(Event::RollbackAsked) == Work::Begins {
            let plugin = self.plugin.clone();
            self.begin(plugin.return_to(earlier).boxed());
            self.returning = Some(revision);
        }
    }

    fn returned(&mut self, revision: &str, failed: Option<&String>) {
        match failed {
            None => {
                self.plugin.control_failing.lock().take();
                self.component.offer_again();
            }
            Some(why) => {
                let plugin = &*self.plugin.controller.name;
                tracing::warn!(plugin, revision, "the revision that spec.revision names cannot be activated: {why}");
                *self.plugin.control_failing.lock() = Some(format!("spec.revision {revision}: {why}"));
                self.controls.failed(revision, std::time::Instant::now());
            }
        }
    }

    async fn carry_out(&mut self, Request { command, reply }: Request) {
        // Callers that are gone must not pile up behind a file that is written for ever.
        self.asked.retain(|reply| !reply.is_closed());
        match command {
            AdminCommand::RollBack(to) => self.roll_back(to.as_deref(), reply),
            AdminCommand::Approve(digest) => match self.plugin.approve(digest.as_deref()).await {
                Ok(()) => {
                    self.component.offer_again();
                    self.asked.push(reply);
                }
                Err(why) => self.reply(reply, Err(why)),
            },
            AdminCommand::Reload => {
                self.look();
                self.asked.push(reply);
            }
        }
    }

    /// Requests a read of the files, even if they look unchanged; during a rollback, after it. Shares a read that is
    /// under way: later writes are noticed by their time.
    fn look(&mut self) {
        if !self.stage.takes_files() || self.is_worth_another_try() {
            self.component.offer_again();
            self.component.request();
            return;
        }
        self.component.request();
        if self.asked.is_empty() {
            self.definition.look_anew();
            self.component.look_anew();
        }
    }

    /// Begins a rollback by command. One that is not possible interrupts nothing.
    fn roll_back(&mut self, to: Option<&str>, reply: Reply) {
        if self.is_about_canary(to) {
            return self.roll_back_canary(reply);
        }
        let earlier = match self.plugin.earlier(to) {
            Ok(earlier) => earlier,
            Err(why) => return self.reply(reply, Err(why)),
        };
        match self.step(Event::RollbackAsked) {
            Work::Begins => {
                let newer = self.stage == Stage::Returning(Interrupted::Activation);
                let plugin = self.plugin.clone();
                self.begin(plugin.roll_back_to(earlier, self.component.offered(), newer).boxed());
                self.asked_back = Some(reply);
            }
            _ => self.reply(reply, Err("another rollback is under way; try again in a moment".to_owned())),
        }
    }

    /// Returns whether a rollback leaves the active revision and ends its canary.
    fn is_about_canary(&self, to: Option<&str>) -> bool {
        let controller = &self.plugin.controller;
        let is_active = |to: &str| controller.active().is_some_and(|active| active.revision.digest().begins(to));
        controller.canary.current().is_some() && to.is_none_or(is_active)
    }

    fn roll_back_canary(&mut self, reply: Reply) {
        match self.step(Event::RollbackAsked) {
            Work::Begins => {
                let newer = self.stage == Stage::Returning(Interrupted::Activation);
                let plugin = self.plugin.clone();
                self.begin(plugin.roll_back_canary_by_command(self.component.offered(), newer).boxed());
                self.asked_back = Some(reply);
            }
            _ => self.reply(reply, Err("another rollback is under way; try again in a moment".to_owned())),
        }
    }

    /// Returns whether the component that was offered last is not active: why it was refused may have passed.
    fn is_worth_another_try(&self) -> bool {
        let offered = self.component.offered();
        let active = self.plugin.controller.active().map(|active| active.revision.digest());
        self.work.is_none() && (offered.is_none() || offered != active)
    }

    /// Answers the callers, once nothing is under way or left to be read.
    fn answer(&mut self) {
        if self.work.is_some() || self.definition.has_changed() || self.component.has_changed() {
            return;
        }
        for reply in std::mem::take(&mut self.asked) {
            self.reply(reply, Ok(()));
        }
    }

    fn reply(&self, reply: Reply, done: Result<(), String>) {
        // The caller may have gone.
        drop(reply.send(done.map(|()| self.plugin.status())));
    }
}

/// Waits for the end of the work; for ever if there is none.
async fn ended(work: &mut Option<UnderWay>) -> Result<(), String> {
    match work {
        Some(work) => (&mut work.future).await,
        None => std::future::pending().await,
    }
}
