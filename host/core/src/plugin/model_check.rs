//! Checks the promises about revisions in every state that a few events can lead to. The decisions are those of the
//! product: the next step, the stage, whether an offered component is tried and how it takes over, which earlier
//! revision follows, how a plugin is removed. What the host does for each of them is modelled here.
//!
//! Components: the one that is active at the start, a good one, and one that would delete much. Each is found to be
//! good, to fail on parents, or not to load.

use std::collections::{HashSet, VecDeque};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::flow::canary::{Progress, Share};
use crate::flow::probation::RollbackVerdict;
use crate::model::digest::Digest;
use crate::model::digest_prefix::DigestPrefix;
use crate::plugin::attempts::Attempts;
use crate::plugin::earlier::{self, StillRefused};
use crate::plugin::next;
use crate::plugin::offer::{Block, Offer, Running};
use crate::plugin::past::{self, Event, Recorded, Standing};
use crate::plugin::removal::{DeletionPolicy, Parents, Removal};
use crate::plugin::seen::{Canary, Seen, Waiting};
use crate::plugin::stage::{self, Interrupted, Stage};
use crate::plugin::step::Step;
use crate::plugin::takeover::{Examination, Loaded, Objection, Start, Verdict};
use crate::plugin::wanted::{Mode, Rollout, Wanted};

/// How many events follow each other after a beginning.
const DEPTH: usize = 5;

/// A component, by its place in [`COMPONENTS`].
type Name = usize;

const FIRST: Name = 0;
const GOOD: Name = 1;
const DESTRUCTIVE: Name = 2;
const COMPONENTS: [Name; 3] = [FIRST, GOOD, DESTRUCTIVE];

fn digest(name: Name) -> Digest {
    static DIGESTS: LazyLock<[Digest; 3]> = LazyLock::new(|| COMPONENTS.map(|name| Digest::of(&name.to_be_bytes())));
    DIGESTS[name]
}

fn name(digest: Digest) -> Name {
    COMPONENTS.into_iter().find(|name| self::digest(*name) == digest).unwrap()
}

fn prefix(name: Name) -> DigestPrefix {
    static PREFIXES: LazyLock<[DigestPrefix; 3]> =
        LazyLock::new(|| COMPONENTS.map(|name| digest(name).full().parse().unwrap()));
    PREFIXES[name].clone()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    name: Name,
    event: Event,
    fails: bool,
}

impl Recorded for Entry {
    fn digest(&self) -> Digest {
        digest(self.name)
    }

    fn event(&self) -> Event {
        self.event
    }

    fn fails(&self) -> bool {
        self.fails
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Work {
    Activate(Name),
    FallBack,
    RollBack,
    Return { to: Name, by_command: bool },
    RollBackCanary,
}

/// What is found out about the component of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Good,
    FailsOnParents,
    DoesNotLoad,
}

/// What happens to a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happens {
    SourceHas(Name),
    SourceIsLost(bool),
    Approve(Option<Name>),
    Name(Option<Name>),
    Rollout(Option<u8>),
    Mode(Mode),
    /// `spec.source.verify` refuses this component now.
    VerifyRefuses(Option<Name>),
    Redefined,
    SourceIsRead,
    Tick {
        late: bool,
    },
    Ends(Outcome),
    ActiveDoesWorse,
    CanaryDoesWorse,
    RollBackCommand,
    Restart,
    Deleted(DeletionPolicy),
    ParentsGo,
}

/// The state of a plugin and of its host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    approve: Option<Name>,
    revision: Option<Name>,
    rollout: Option<u8>,
    is_shadow: bool,
    refused_by_verify: Option<Name>,
    source: Name,
    is_lost: bool,
    /// Whether components that were active can be activated again.
    are_kept: bool,
    is_offer_due: bool,
    offered: Option<Name>,
    stage: Stage,
    work: Option<Work>,
    active: Option<Name>,
    /// The canary, and its share.
    canary: Option<(Name, u8)>,
    /// The component that was refused, and whether it can be approved.
    refused: Option<(Name, bool)>,
    past: Vec<Entry>,
    tried: Attempts,
    /// The present value of `spec.approve`, once it was acted upon.
    used: Option<Name>,
    removal: Option<DeletionPolicy>,
    runs: bool,
    parents_hold: bool,
    is_gone: bool,
}

impl World {
    fn new() -> Self {
        Self {
            approve: None,
            revision: None,
            rollout: None,
            is_shadow: false,
            refused_by_verify: None,
            source: FIRST,
            is_lost: false,
            are_kept: true,
            is_offer_due: false,
            offered: Some(FIRST),
            stage: Stage::Idle,
            work: None,
            active: Some(FIRST),
            canary: None,
            refused: None,
            past: vec![Entry { name: FIRST, event: Event::Activated, fails: false }],
            tried: Attempts::default(),
            used: None,
            removal: None,
            runs: true,
            parents_hold: true,
            is_gone: false,
        }
    }

    fn wanted(&self) -> Wanted {
        let rollout = |percent| Rollout { share: Share::Percent(percent), duration: Duration::from_secs(60) };
        Wanted {
            mode: if self.is_shadow { Mode::Shadow } else { Mode::Active },
            paused: false,
            approve: self.approve.map(prefix),
            revision: self.revision.map(prefix),
            rollout: self.rollout.map(rollout),
        }
    }

    /// Returns what the host sees. A canary's time is over when the tick is late.
    fn seen(&self, late: bool) -> Seen {
        let lasted = Duration::from_secs(if late { 60 } else { 0 });
        let progress = Progress { lasted, parents: 1, has_decided: true, is_called: true, is_paused: false };
        let canary = |(name, percent)| Canary {
            digest: digest(name),
            share: Share::Percent(percent),
            is_active_elsewhere: false,
            progress,
        };
        let waiting = self.refused.filter(|(_, can_be_approved)| *can_be_approved).map(|(name, _)| digest(name));
        let was_active = |name| past::activated(&self.past).contains(&digest(name));
        let named = self.revision.filter(|named| self.active != Some(*named));
        Seen {
            active: self.active.map(digest),
            is_unaccepted: self.active.is_some() && self.active == self.refused_by_verify,
            is_offer_due: self.is_offer_due && self.can_be_fetched(),
            offered: self.offered.map(digest),
            lacks_source: !self.can_be_fetched() && self.offered.is_none(),
            canary: self.canary.map(canary),
            waiting: waiting.map(|digest| Waiting { digest, was_approved: past::was_approved(&self.past, digest) }),
            named: named.map(|named| was_active(named).then(|| digest(named)).ok_or_else(|| "never active".to_owned())),
        }
    }

    fn can_be_fetched(&self) -> bool {
        !self.is_lost && self.refused_by_verify != Some(self.source)
    }

    fn is_accepted(&self, digest: Digest) -> bool {
        self.refused_by_verify.is_none_or(|refused| self::digest(refused) != digest)
    }

    /// Returns whether a component that was active can be activated again.
    fn is_available(&self, digest: Digest) -> bool {
        self.are_kept && self.is_accepted(digest)
    }

    fn next(&self, late: bool, start: Instant) -> Step {
        let now = if late { start + Duration::from_secs(3600) } else { start };
        next::next(&self.wanted(), &self.seen(late), &self.tried, now)
    }

    fn can(&self, happens: Happens) -> bool {
        let takes_files = self.stage.takes_files();
        match happens {
            _ if self.is_gone => false,
            Happens::Deleted(policy) => self.removal != Some(policy),
            Happens::ParentsGo => self.removal.is_some() && self.parents_hold && self.runs && self.active.is_some(),
            Happens::Restart => true,
            // What else happens to a plugin that is to be removed happens to each.
            Happens::Tick { .. } => self.work.is_none(),
            Happens::Ends(_) => self.work.is_some(),
            Happens::SourceIsRead => takes_files && self.runs && self.is_offer_due && self.can_be_fetched(),
            _ if self.removal.is_some() => false,
            Happens::SourceHas(name) => name != self.source,
            Happens::SourceIsLost(is_lost) => is_lost != self.is_lost,
            Happens::Approve(name) => name != self.approve,
            Happens::Name(name) => name != self.revision,
            Happens::Rollout(percent) => percent != self.rollout,
            Happens::Mode(mode) => (mode == Mode::Shadow) != self.is_shadow,
            Happens::VerifyRefuses(name) => takes_files && name != self.refused_by_verify,
            Happens::Redefined => takes_files,
            Happens::ActiveDoesWorse => takes_files && self.active.is_some(),
            Happens::CanaryDoesWorse => takes_files && self.canary.is_some(),
            Happens::RollBackCommand => self.canary.is_some() || self.earlier().is_some(),
        }
    }

    /// Returns the revision that an administrator rolls back to.
    fn earlier(&self) -> Option<Name> {
        let earlier = earlier::before_active(&self.past, self.active.map(digest), |one| self.is_accepted(one));
        earlier.into_iter().find(|earlier| self.is_available(*earlier)).map(name)
    }

    fn after(&self, happens: Happens, start: Instant) -> Self {
        let mut world = self.clone();
        match happens {
            Happens::SourceHas(name) => (world.source, world.is_offer_due) = (name, true),
            Happens::SourceIsLost(is_lost) => world.is_lost = is_lost,
            Happens::Approve(name) => world.control(|world| (world.approve, world.used) = (name, None)),
            Happens::Name(name) => world.control(|world| world.revision = name),
            Happens::Rollout(percent) => world.control(|world| world.rollout = percent),
            Happens::Mode(mode) => world.control(|world| world.is_shadow = mode == Mode::Shadow),
            Happens::VerifyRefuses(name) => {
                world.refused_by_verify = name;
                world.canary = world.canary.filter(|(canary, _)| Some(*canary) != name);
                world.step(stage::Event::FileChanged);
            }
            Happens::Redefined => drop(world.step(stage::Event::FileChanged)),
            Happens::SourceIsRead => {
                (world.is_offer_due, world.offered) = (false, Some(world.source));
                if world.step(stage::Event::Offered) == stage::Work::Begins {
                    world.work = Some(Work::Activate(world.source));
                }
            }
            Happens::Tick { .. } if !world.runs => world.remove(),
            Happens::Tick { late } => {
                world.tick(late, start);
                world.remove();
            }
            Happens::Ends(outcome) => world.end(outcome, start),
            Happens::ActiveDoesWorse => {
                let verdict = RollbackVerdict { why: String::new(), failed_on: Vec::new() };
                world.step(stage::Event::RollbackNeeded(verdict));
                world.is_offer_due |= world.canary.is_some();
            }
            Happens::CanaryDoesWorse => world.roll_back_canary(),
            Happens::RollBackCommand => world.command(),
            Happens::Restart => world = world.restarted(),
            Happens::Deleted(policy) => world.removal = Some(policy),
            Happens::ParentsGo => world.parents_hold = false,
        }
        world
    }

    fn restarted(self) -> Self {
        let runs = self.removal != Some(DeletionPolicy::Orphan);
        let (stage, tried) = (Stage::Idle, Attempts::default());
        let (offered, work, active, canary, refused) = (None, None, None, None, None);
        Self { is_offer_due: true, runs, stage, tried, offered, work, active, canary, refused, ..self }
    }

    /// Changes what the administrator wants. What was refused is offered again, and so is what is being activated.
    fn control(&mut self, change: impl FnOnce(&mut Self)) {
        change(self);
        if self.offered.is_some() && self.offered != self.active {
            self.step(stage::Event::FileChanged);
        }
    }

    fn offer_again(&mut self) {
        (self.offered, self.is_offer_due) = (None, true);
    }

    fn note(&mut self, name: Name, event: Event) {
        self.past.push(Entry { name, event, fails: false });
    }

    fn step(&mut self, event: stage::Event) -> stage::Work {
        let next = std::mem::take(&mut self.stage).next(event);
        self.stage = next.stage;
        if next.offers {
            self.offer_again();
        }
        match (next.work, &self.stage) {
            (stage::Work::Stops, _) => self.work = None,
            (stage::Work::Begins, Stage::RollingBack(_)) => self.work = Some(Work::RollBack),
            _ => {}
        }
        next.work
    }

    fn tick(&mut self, late: bool, start: Instant) {
        let (wanted, seen, step) = (self.wanted(), self.seen(late), self.next(late, start));
        self.tried.note(&wanted, &seen, &step, start);
        match step {
            Step::Retire => {
                (self.active, self.canary) = (None, None);
                self.offer_again();
            }
            Step::Promote(_) => {
                self.canary.take().into_iter().for_each(|(canary, _)| self.publish(canary));
                if self.offered != self.active {
                    self.offer_again();
                }
            }
            Step::EndCanary(_) => {
                self.canary = None;
                self.offer_again();
            }
            Step::FallBack => {
                self.step(stage::Event::Offered);
                self.work = Some(Work::FallBack);
            }
            Step::Return(to) => {
                self.step(stage::Event::RollbackAsked);
                self.work = Some(Work::Return { to: name(to), by_command: false });
            }
            Step::FailReturn(why) => {
                wanted.revision.into_iter().for_each(|named| self.tried.failed(named, why.clone(), start));
            }
            Step::Approve(digest) => {
                self.note(name(digest), Event::Approved);
                self.used = self.approve;
                self.offer_again();
            }
            Step::Share(Share::Percent(percent)) => {
                self.canary = self.canary.map(|(canary, _)| (canary, percent));
            }
            Step::Share(Share::Namespaces(_)) => unreachable!("no such share is modelled"),
            Step::Wait => {}
        }
    }

    fn command(&mut self) {
        let earlier = self.earlier();
        if self.step(stage::Event::RollbackAsked) != stage::Work::Begins {
            return;
        }
        self.work = match self.canary {
            Some(_) => Some(Work::RollBackCanary),
            None => earlier.map(|to| Work::Return { to, by_command: true }),
        };
    }

    fn end(&mut self, outcome: Outcome, start: Instant) {
        let Some(work) = self.work.take() else { return };
        let newer = self.offered.filter(|_| self.stage == Stage::Returning(Interrupted::Activation));
        let before = self.clone();
        let done = match work {
            Work::Activate(name) => {
                self.activate(name, outcome);
                Ok(())
            }
            Work::FallBack => {
                self.fall_back(None, outcome);
                Ok(())
            }
            Work::RollBack => {
                self.roll_back(outcome);
                Ok(())
            }
            Work::Return { to, .. } if !self.is_available(digest(to)) => Err(false),
            Work::Return { to, .. } => self.install(to, Start::Return("so"), outcome),
            Work::RollBackCanary if self.canary.is_none() => Err(false),
            Work::RollBackCanary => {
                self.roll_back_canary();
                self.refused = newer.map_or(self.refused, |newer| Some((newer, true)));
                self.roll_back_newer(newer, None);
                Ok(())
            }
        };
        self.step(stage::Event::Ended { succeeded: done.is_ok() });
        match work {
            Work::Return { by_command: false, .. } if done.is_ok() => self.offer_again(),
            Work::Return { to, by_command: false } => {
                self.tried.failed(prefix(to), "it does not load".to_owned(), start)
            }
            Work::Return { to, by_command: true } if done.is_ok() => self.returned_by_command(&before, to, newer),
            _ => {}
        }
    }

    fn activate(&mut self, name: Name, outcome: Outcome) {
        if self.active.is_none()
            && let Some(last) = earlier::restored(&self.past, digest(name), |one| self.is_accepted(one))
            && self.is_available(last)
        {
            let restored = self.install(self::name(last), Start::Restore, Outcome::Good);
            assert_eq!(restored, Ok(()));
        }
        let canary = self.canary.map(|(canary, _)| digest(canary));
        let running = Running { active: self.active.map(digest), canary };
        let done = match Offer::of(digest(name), past::standing(&self.past, digest(name)), &self.wanted(), running) {
            Offer::IsActive => {
                (self.canary, self.refused) = (None, None);
                Ok(())
            }
            Offer::IsCanary => {
                self.refused = None;
                Ok(())
            }
            Offer::Blocked(block) => Err(block != Block::RevisionPinned),
            Offer::Try => self.install(name, Start::Swap, outcome),
        };
        if let Err(can_be_approved) = done {
            self.refused = Some((name, can_be_approved));
            if self.active.is_none() {
                self.fall_back(Some(name), Outcome::Good);
            }
        }
    }

    /// Activates a component, or returns whether it can be approved. Without an active revision, nothing finds out what
    /// it would delete.
    fn install(&mut self, name: Name, start: Start<'_>, outcome: Outcome) -> Result<(), bool> {
        if outcome == Outcome::DoesNotLoad {
            return Err(false);
        }
        let (wanted, loaded) = (self.wanted(), Loaded::of(&self.past, digest(name), start, self.active.map(digest)));
        let objection = |fails| Some(Objection { why: String::new(), fails });
        let found = match loaded.examination(&wanted) {
            Examination::AllParents if name == DESTRUCTIVE => objection(false),
            Examination::AllParents | Examination::FirstParents if outcome == Outcome::FailsOnParents => {
                objection(true)
            }
            _ => None,
        };
        match loaded.verdict(&wanted, found) {
            Verdict::Refuse(_) => return Err(false),
            Verdict::Shadow => return Err(true),
            Verdict::RequireApproval(Objection { fails, .. }) => {
                let entry = Entry { name, event: Event::ApprovalRequired, fails };
                if past::standing(&self.past, digest(name)) != Standing::RolledBack
                    && past::last(&self.past, digest(name)) != Some(&entry)
                {
                    self.past.push(entry);
                }
                return Err(true);
            }
            Verdict::Begin(_) => (self.canary, self.refused) = (self.rollout.map(|percent| (name, percent)), None),
            Verdict::Activate => self.publish(name),
        }
        Ok(())
    }

    fn publish(&mut self, name: Name) {
        (self.active, self.canary, self.refused) = (Some(name), None, None);
        if past::current(&self.past) != Some(digest(name)) {
            self.note(name, Event::Activated);
        }
    }

    fn fall_back(&mut self, offered: Option<Name>, outcome: Outcome) {
        let (refused, offered) = (self.refused, offered.map(digest));
        for earlier in earlier::fall_back(&self.past, offered, &self.wanted(), |one| self.is_accepted(one)) {
            if self.is_available(earlier) && self.install(name(earlier), Start::Return("so"), outcome).is_ok() {
                self.refused = refused;
                return;
            }
        }
    }

    fn roll_back(&mut self, outcome: Outcome) {
        let Some(bad) = self.active else { return };
        let before = earlier::before(&self.past, Some(digest(bad)), |one| self.is_accepted(one));
        let Some(to) = before.into_iter().find(|earlier| self.is_available(*earlier)) else { return };
        if past::standing(&self.past, digest(bad)) != Standing::RolledBack {
            self.note(bad, Event::RolledBack);
        }
        let refused = self.refused;
        if self.install(name(to), Start::Return("so"), outcome).is_ok() {
            self.refuse_after_rollback((Some(bad), name(to)), refused);
        }
    }

    fn refuse_after_rollback(&mut self, (left, to): (Option<Name>, Name), before: Option<(Name, bool)>) {
        let path = (left.map(digest), digest(to));
        let of_before = before.map(|(name, _)| Some(digest(name)));
        self.refused = match earlier::still_refused(&self.past, self.offered.map(digest), path, of_before) {
            Some(StillRefused::ForItsPast(refused)) => Some((name(refused), true)),
            Some(StillRefused::AsBefore) => before,
            None => None,
        };
    }

    fn roll_back_canary(&mut self) {
        let Some((canary, _)) = self.canary.take() else { return };
        self.note(canary, Event::RolledBack);
        if self.offered.is_none_or(|offered| offered == canary) {
            self.refused = Some((canary, true));
        }
    }

    fn roll_back_newer(&mut self, newer: Option<Name>, known: Option<Name>) {
        if let Some(newer) = newer.filter(|newer| Some(*newer) != known) {
            self.note(newer, Event::RolledBack);
        }
    }

    fn returned_by_command(&mut self, before: &Self, to: Name, newer: Option<Name>) {
        for left in before.active.into_iter().chain(before.canary.map(|(canary, _)| canary)).filter(|left| *left != to)
        {
            self.note(left, Event::RolledBack);
        }
        self.roll_back_newer(newer.filter(|newer| *newer != to), before.active);
        self.refuse_after_rollback((before.active, to), before.refused);
    }

    /// Takes the next step of the removal.
    fn remove(&mut self) {
        let Some(policy) = self.removal else { return };
        let exist = self.active.filter(|_| self.runs).map(|_| self.parents_hold);
        let parents = Parents { hold_finalizer: self.parents_hold, exist, are_taken: false };
        match Removal::next(policy, self.runs, parents) {
            Removal::End => self.is_gone = true,
            Removal::Stop => *self = Self { runs: false, ..self.clone().restarted() },
            Removal::Release | Removal::DeleteParents => self.parents_hold = false,
            Removal::Wait => self.runs = true,
        }
    }
}

fn all() -> Vec<Happens> {
    let names = || COMPONENTS.into_iter().map(Some).chain([None]);
    let mut all = vec![Happens::Redefined, Happens::SourceIsRead, Happens::ActiveDoesWorse, Happens::CanaryDoesWorse];
    all.extend([Happens::RollBackCommand, Happens::Restart, Happens::ParentsGo]);
    all.extend([Outcome::Good, Outcome::FailsOnParents, Outcome::DoesNotLoad].map(Happens::Ends));
    all.extend([false, true].map(|late| Happens::Tick { late }));
    all.extend(COMPONENTS.map(Happens::SourceHas));
    all.extend([false, true].map(Happens::SourceIsLost));
    all.extend(names().map(Happens::Approve));
    all.extend(names().map(Happens::Name));
    all.extend([None, Some(10), Some(20)].map(Happens::Rollout));
    all.extend([Mode::Active, Mode::Shadow].map(Happens::Mode));
    all.extend([None, Some(FIRST), Some(GOOD)].map(Happens::VerifyRefuses));
    all.extend([DeletionPolicy::Block, DeletionPolicy::Orphan, DeletionPolicy::Delete].map(Happens::Deleted));
    all
}

/// Returns the promise that an event breaks.
fn broken(before: &World, happens: Happens, after: &World, start: Instant) -> Option<&'static str> {
    let canary = |world: &World| world.canary.map(|(canary, _)| canary);
    let begins: Vec<Name> = [(before.active, after.active), (canary(before), canary(after))]
        .into_iter()
        .filter(|(before, after)| before != after)
        .filter_map(|(_, after)| after)
        .collect();
    let begins = |is_wrong: &dyn Fn(Name) -> bool| begins.iter().any(|name| is_wrong(*name));
    let ends_by = || matches!(happens, Happens::Restart) || !after.runs || before.refused_by_verify == before.active;
    let by_admin = |name| {
        let by_command = matches!(before.work, Some(Work::Return { .. }));
        by_command || before.revision == Some(name)
    };
    // Whatever is chosen to be active again at a start, something is, unless the component that is offered was active.
    let can_be_restored = |name| {
        let targets = || past::rollback_targets(&before.past, Some(digest(name)));
        past::current(&before.past) != Some(digest(name)) && targets().into_iter().any(|one| before.is_available(one))
    };
    let is_compared = |name| before.active.is_some() || can_be_restored(name);
    let was_approved = |name| past::was_approved(&after.past, digest(name));
    let is_new = |name| before.work == Some(Work::Activate(name)) && past::current(&before.past) != Some(digest(name));
    let rolled_back = |name| past::standing(&before.past, digest(name)) == Standing::RolledBack;
    let ticks = matches!(happens, Happens::Tick { .. });
    let late = happens == Happens::Tick { late: true };
    let approves_again = || {
        let approves = |used| before.next(late, start) == Step::Approve(digest(used));
        ticks && before.runs && before.used.is_some_and(approves)
    };
    let has_ended = matches!(happens, Happens::Ends(_)) && after.work.is_none();
    let replaced = Some(Work::Activate(after.source));
    let is_control = matches!(happens, Happens::Approve(_) | Happens::Name(_) | Happens::Rollout(_) | Happens::Mode(_));
    [
        (before.active.is_some() && after.active.is_none() && !ends_by(), "the last good one stays"),
        (
            begins(&|name| name == DESTRUCTIVE && !was_approved(name) && is_compared(name)),
            "nothing that requires approval decides unapproved",
        ),
        (
            before.is_shadow && begins(&|name| is_new(name) && !past::is_approved(&before.past, digest(name))),
            "in the mode Shadow nothing takes over unapproved",
        ),
        (
            before.rollout.is_some()
                && after.active.is_some_and(|name| is_new(name) && !by_admin(name) && is_compared(name)),
            "with spec.rollout a new component is a canary first",
        ),
        (begins(&|name| rolled_back(name) && !by_admin(name)), "what was rolled back stays inactive"),
        (approves_again(), "an approval counts once"),
        (begins(&|name| before.refused_by_verify == Some(name)), "what verify refuses does not decide"),
        (late && seems_unaccepted(after), "an active revision that verify refuses is retired"),
        (happens == Happens::SourceIsRead && after.work != replaced, "a newer component replaces an activation"),
        (is_control && is_activating_another(after), "a component is verified by what is wanted now"),
        (has_ended && after.stage != Stage::Idle, "work ends"),
        ((after.stage == Stage::Idle) != after.work.is_none(), "a stage has work"),
        (canary(after).is_some() && [None, canary(after)].contains(&after.active), "a canary is beside another"),
        (is_stuck(after, start), "every state has a next step"),
        (is_forgotten(after), "what the source has is activated, refused or offered again"),
        (!is_removable(after), "a removed plugin ends"),
    ]
    .into_iter()
    .find_map(|(is_broken, promise)| is_broken.then_some(promise))
}

fn is_activating_another(world: &World) -> bool {
    matches!(world.work, Some(Work::Activate(name)) if world.active != Some(name))
}

fn seems_unaccepted(world: &World) -> bool {
    world.seen(true).is_unaccepted && !world.seen(true).is_offer_due && world.work.is_none() && world.runs
}

/// Returns whether no further step follows although the plugin is not served, and a revision is available that could
/// serve. The component that was refused last does not count: the reason of its refusal is shown.
fn is_stuck(world: &World, start: Instant) -> bool {
    let is_idle = world.runs && world.work.is_none() && !world.seen(true).is_offer_due;
    let is_served = world.active.is_some() && (world.canary.is_none() || world.rollout.is_some());
    let refused = world.refused.map(|(name, _)| digest(name));
    let could_serve = || past::rollback_targets(&world.past, refused).into_iter().any(|one| world.is_available(one));
    is_idle && !is_served && could_serve() && world.next(true, start) == Step::Wait
}

/// Returns whether the component that the source has is neither active nor refused, and nothing will offer it.
fn is_forgotten(world: &World) -> bool {
    let is_idle = world.runs && world.work.is_none() && !world.is_offer_due;
    let known = [world.active, world.canary.map(|(canary, _)| canary), world.refused.map(|(refused, _)| refused)];
    is_idle && !known.contains(&Some(world.source))
}

/// Returns whether a plugin that is to be removed ends within a few steps, or goes on serving until its parents are gone.
fn is_removable(world: &World) -> bool {
    if world.removal.is_none() || world.is_gone {
        return true;
    }
    let mut later = World { work: None, stage: Stage::Idle, ..world.clone() };
    for _ in 0..3 {
        later.remove();
    }
    let waits = later.parents_hold && later.runs;
    later.is_gone || (waits && world.removal != Some(DeletionPolicy::Orphan))
}

/// Returns how the life of a plugin may begin, because events alone lead no further than [`DEPTH`].
fn beginnings() -> Vec<Vec<Happens>> {
    let offered = |name| vec![Happens::SourceHas(name), Happens::SourceIsRead, Happens::Ends(Outcome::Good)];
    let activated = offered(GOOD);
    let approval = [Happens::Approve(Some(DESTRUCTIVE)), Happens::Tick { late: false }, Happens::SourceIsRead];
    let rollback = [Happens::Ends(Outcome::Good), Happens::ActiveDoesWorse, Happens::Ends(Outcome::Good)];
    vec![
        Vec::new(),
        [&activated[..], &offered(DESTRUCTIVE), &approval, &rollback].concat(),
        [&activated[..], &[Happens::ActiveDoesWorse, Happens::Ends(Outcome::Good)]].concat(),
        [&activated[..], &offered(DESTRUCTIVE)].concat(),
        [&[Happens::Rollout(Some(10))], &activated[..]].concat(),
        [&activated[..], &[Happens::SourceIsLost(true), Happens::Restart]].concat(),
        [&activated[..], &[Happens::VerifyRefuses(Some(GOOD))]].concat(),
        [&[Happens::Mode(Mode::Shadow)], &activated[..]].concat(),
    ]
}

#[test]
fn no_order_of_events_breaks_a_promise() {
    let (start, all) = (Instant::now(), all());
    let beginning = |path: &Vec<Happens>| path.iter().fold(World::new(), |world, happens| world.after(*happens, start));
    let kept = beginnings().iter().map(beginning).collect::<Vec<_>>();
    let lost = World { are_kept: false, ..beginning(&beginnings()[1]) };
    let mut open: VecDeque<_> = kept.into_iter().chain([lost]).map(|world| (world, Vec::new())).collect();
    let mut known: HashSet<World> = open.iter().map(|(world, _)| world.clone()).collect();
    while let Some((world, path)) = open.pop_front() {
        for happens in all.iter().copied().filter(|happens| world.can(*happens)) {
            let after = world.after(happens, start);
            let broken = broken(&world, happens, &after, start);
            assert_eq!(broken, None, "from {world:#?} after {path:?}, {happens:?}: {after:#?}");
            if path.len() + 1 < DEPTH && known.insert(after.clone()) {
                open.push_back((after, [&path[..], &[happens]].concat()));
            }
        }
    }
    assert!(known.len() > 50_000, "{} states", known.len());
}
