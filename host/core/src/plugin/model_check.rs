//! Checks the promises about revisions in every state that a few events can lead to. The decisions are those of the
//! product; what the driver does for each of them is modelled here. Components: the one that is active at the start, a
//! good one, and one that would delete much. Activations of earlier revisions succeed or fail, as do those of new ones.

use std::collections::{HashSet, VecDeque};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::flow::canary::{Progress, Share};
use crate::flow::probation::RollbackVerdict;
use crate::model::digest::Digest;
use crate::model::digest_prefix::DigestPrefix;
use crate::plugin::attempts::Attempts;
use crate::plugin::next;
use crate::plugin::offer::{Offer, Running};
use crate::plugin::past::{self, Event, Recorded, Standing};
use crate::plugin::seen::{Canary, Seen, Waiting};
use crate::plugin::stage::{self, Interrupted, Stage};
use crate::plugin::step::Step;
use crate::plugin::wanted::{Rollout, Wanted};

/// How many events follow each other after a beginning.
const DEPTH: usize = 5;

/// A component, by its place in [`COMPONENTS`].
type Name = u8;

const FIRST: Name = 0;
const GOOD: Name = 1;
const DESTRUCTIVE: Name = 2;
const COMPONENTS: [Name; 3] = [FIRST, GOOD, DESTRUCTIVE];

fn digest(name: Name) -> Digest {
    static DIGESTS: LazyLock<[Digest; 3]> = LazyLock::new(|| COMPONENTS.map(|name| Digest::of(&[name])));
    DIGESTS[usize::from(name)]
}

fn name(digest: Digest) -> Name {
    COMPONENTS.into_iter().find(|name| self::digest(*name) == digest).unwrap()
}

fn prefix(name: Name) -> DigestPrefix {
    digest(name).full().parse().unwrap()
}

fn share() -> Share {
    Share::Percent(10)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry(Name, Event);

impl Recorded for Entry {
    fn digest(&self) -> Digest {
        digest(self.0)
    }

    fn event(&self) -> Event {
        self.1
    }

    fn fails(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Work {
    Activate(Name),
    FallBack,
    RollBack,
    Return { to: Name, by_command: bool },
}

/// What happens to a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happens {
    SourceHas(Name),
    SourceIsLost(bool),
    Approve(Option<Name>),
    Name(Option<Name>),
    Rollout(bool),
    Redefined,
    SourceIsRead,
    Tick { late: bool },
    Ends { well: bool },
    ActiveDoesWorse,
    CanaryDoesWorse,
    RollBackCommand,
    Restart,
}

/// The state of a plugin and of its host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    approve: Option<Name>,
    revision: Option<Name>,
    has_rollout: bool,
    source: Name,
    is_lost: bool,
    is_offer_due: bool,
    offered: Option<Name>,
    stage: Stage,
    work: Option<Work>,
    active: Option<Name>,
    canary: Option<Name>,
    /// The component that was refused, and whether it can be approved.
    refused: Option<(Name, bool)>,
    past: Vec<Entry>,
    tried: Attempts,
}

impl World {
    fn new() -> Self {
        Self {
            approve: None,
            revision: None,
            has_rollout: false,
            source: FIRST,
            is_lost: false,
            is_offer_due: false,
            offered: Some(FIRST),
            stage: Stage::Idle,
            work: None,
            active: Some(FIRST),
            canary: None,
            refused: None,
            past: vec![Entry(FIRST, Event::Activated)],
            tried: Attempts::default(),
        }
    }

    fn wanted(&self) -> Wanted {
        let rollout = Rollout { share: share(), duration: Duration::from_secs(60) };
        Wanted {
            approve: self.approve.map(prefix),
            revision: self.revision.map(prefix),
            rollout: self.has_rollout.then_some(rollout),
            ..Wanted::default()
        }
    }

    /// Returns what the host sees. A canary's time is over when the tick is late.
    fn seen(&self, late: bool) -> Seen {
        let lasted = Duration::from_secs(if late { 60 } else { 0 });
        let progress = Progress { lasted, parents: 1, has_decided: true, is_called: true, is_paused: false };
        let canary = |name| Canary { digest: digest(name), share: share(), is_active_elsewhere: false, progress };
        let waiting = self.refused.filter(|(_, can_be_approved)| *can_be_approved).map(|(name, _)| digest(name));
        let was_active = |name| past::activated(&self.past).contains(&digest(name));
        let named = self.revision.filter(|named| self.active != Some(*named));
        Seen {
            active: self.active.map(digest),
            offered: self.offered.map(digest),
            lacks_source: self.is_lost && self.offered.is_none(),
            canary: self.canary.map(canary),
            waiting: waiting.map(|digest| Waiting { digest, was_approved: past::was_approved(&self.past, digest) }),
            named: named.map(|named| was_active(named).then(|| digest(named)).ok_or_else(|| "never active".to_owned())),
            ..Seen::default()
        }
    }

    fn next(&self, late: bool, start: Instant) -> Step {
        let now = if late { start + Duration::from_secs(3600) } else { start };
        next::next(&self.wanted(), &self.seen(late), &self.tried, now)
    }

    fn can(&self, happens: Happens) -> bool {
        let takes_files = self.stage.takes_files();
        match happens {
            Happens::SourceHas(name) => name != self.source,
            Happens::SourceIsLost(is_lost) => is_lost != self.is_lost,
            Happens::Approve(name) => name != self.approve,
            Happens::Name(name) => name != self.revision,
            Happens::Rollout(has) => has != self.has_rollout,
            Happens::Redefined | Happens::ActiveDoesWorse if !takes_files => false,
            Happens::SourceIsRead => self.is_offer_due && takes_files && !self.is_lost,
            Happens::Tick { .. } => self.work.is_none(),
            Happens::Ends { .. } => self.work.is_some(),
            Happens::ActiveDoesWorse => self.active.is_some(),
            Happens::CanaryDoesWorse => self.canary.is_some() && takes_files,
            Happens::RollBackCommand => self.earlier().is_some() && self.canary.is_none(),
            Happens::Redefined | Happens::Restart => true,
        }
    }

    /// Returns the last good revision before the active one.
    fn earlier(&self) -> Option<Name> {
        let from = self.active.map(digest).or_else(|| past::current(&self.past));
        past::rollback_targets(&self.past, from).first().copied().map(name)
    }

    fn after(&self, happens: Happens, start: Instant) -> Self {
        let mut world = self.clone();
        match happens {
            Happens::SourceHas(name) => (world.source, world.is_offer_due) = (name, true),
            Happens::SourceIsLost(is_lost) => world.is_lost = is_lost,
            Happens::Approve(name) => world.control(|world| world.approve = name),
            Happens::Name(name) => world.control(|world| world.revision = name),
            Happens::Rollout(has) => world.control(|world| world.has_rollout = has),
            Happens::Redefined => drop(world.step(stage::Event::FileChanged)),
            Happens::SourceIsRead => {
                (world.is_offer_due, world.offered) = (false, Some(world.source));
                if world.step(stage::Event::Offered) == stage::Work::Begins {
                    world.work = Some(Work::Activate(world.source));
                }
            }
            Happens::Tick { late } => world.tick(late, start),
            Happens::Ends { well } => world.end(well, start),
            Happens::ActiveDoesWorse => {
                let verdict = RollbackVerdict { why: "it traps".to_owned(), failed_on: Vec::new() };
                world.step(stage::Event::RollbackNeeded(verdict));
                world.is_offer_due |= world.canary.is_some();
            }
            Happens::CanaryDoesWorse => {
                if let Some(canary) = world.canary.take() {
                    world.past.push(Entry(canary, Event::RolledBack));
                    world.refused = Some((canary, true));
                }
            }
            Happens::RollBackCommand => {
                let to = world.earlier();
                if world.step(stage::Event::RollbackAsked) == stage::Work::Begins {
                    world.work = to.map(|to| Work::Return { to, by_command: true });
                }
            }
            Happens::Restart => {
                let new = Self { is_offer_due: true, offered: None, active: None, past: world.past, ..Self::new() };
                let (approve, revision, has_rollout) = (world.approve, world.revision, world.has_rollout);
                world = Self { approve, revision, has_rollout, source: world.source, is_lost: world.is_lost, ..new };
            }
        }
        world
    }

    /// Changes what the administrator wants. What was refused is offered again.
    fn control(&mut self, change: impl FnOnce(&mut Self)) {
        change(self);
        self.is_offer_due |= self.work.is_none();
    }

    fn offer_again(&mut self) {
        (self.offered, self.is_offer_due) = (None, true);
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
            Step::Promote(_) => self.canary.take().into_iter().for_each(|canary| self.publish(canary)),
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
            Step::FailReturn(why) => self.fail_return(&why, start),
            Step::Approve(digest) => {
                self.past.push(Entry(name(digest), Event::Approved));
                self.offer_again();
            }
            Step::Wait => {}
            Step::Retire | Step::Share(_) => unreachable!("no signature and no other share is modelled"),
        }
    }

    fn fail_return(&mut self, why: &str, start: Instant) {
        let revision = self.revision.map(|name| prefix(name).hex()).unwrap_or_default();
        self.tried.failed(&revision, why, start);
    }

    fn end(&mut self, well: bool, start: Instant) {
        let Some(work) = self.work.take() else { return };
        let newer = self.stage == Stage::Returning(Interrupted::Activation);
        let succeeded = well || !matches!(work, Work::Return { .. });
        self.step(stage::Event::Ended { succeeded });
        match work {
            Work::Activate(name) => self.activate(name, well),
            Work::FallBack => self.fall_back(None),
            Work::RollBack => self.roll_back(well),
            Work::Return { to, by_command: false } if well => {
                self.publish(to);
                self.offer_again();
            }
            Work::Return { by_command: false, .. } => self.fail_return("it does not load", start),
            Work::Return { to, by_command: true } if well => self.returned_by_command(to, newer),
            Work::Return { .. } => {}
        }
    }

    fn activate(&mut self, name: Name, well: bool) {
        if self.active.is_none() && past::current(&self.past) != Some(digest(name)) {
            let last = past::rollback_targets(&self.past, Some(digest(name))).first().copied();
            last.into_iter().for_each(|last| self.publish(self::name(last)));
        }
        let running = Running { active: self.active.map(digest), canary: self.canary.map(digest) };
        match Offer::of(digest(name), past::standing(&self.past, digest(name)), &self.wanted(), running) {
            Offer::IsActive => (self.canary, self.refused) = (None, None),
            Offer::IsCanary => self.refused = None,
            Offer::Blocked(block) => self.refuse(name, block != crate::plugin::offer::Block::RevisionPinned),
            Offer::Try if !well => self.refuse(name, false),
            Offer::Try => self.examine(name),
        }
    }

    /// Compares a component with the active one, unless it is approved. Without an active one, no survey finds out what
    /// it would delete.
    fn examine(&mut self, name: Name) {
        let is_approved = past::is_approved(&self.past, digest(name));
        if name == DESTRUCTIVE && self.active.is_some() && !is_approved {
            if past::standing(&self.past, digest(name)) == Standing::Free {
                self.past.push(Entry(name, Event::ApprovalRequired));
            }
            return self.refuse(name, true);
        }
        self.refused = None;
        match self.wanted().rollout_of(digest(name), self.active.map(digest)) {
            Some(_) => self.canary = Some(name),
            None => self.publish(name),
        }
    }

    fn publish(&mut self, name: Name) {
        (self.active, self.canary, self.refused) = (Some(name), None, None);
        if past::current(&self.past) != Some(digest(name)) {
            self.past.push(Entry(name, Event::Activated));
        }
    }

    fn refuse(&mut self, name: Name, can_be_approved: bool) {
        self.refused = Some((name, can_be_approved));
        if self.active.is_none() {
            self.fall_back(Some(name));
        }
    }

    fn fall_back(&mut self, offered: Option<Name>) {
        let (refused, wanted) = (self.refused, self.wanted());
        let offered = offered.map(digest).filter(|offered| wanted.admits(*offered));
        let mut earlier = past::rollback_targets(&self.past, offered);
        earlier.sort_by_key(|digest| !wanted.admits(*digest));
        if let Some(earlier) = earlier.first() {
            self.publish(name(*earlier));
            self.refused = refused;
        }
    }

    fn roll_back(&mut self, well: bool) {
        let (Some(bad), Some(to)) = (self.active, self.earlier()) else { return };
        if past::standing(&self.past, digest(bad)) != Standing::RolledBack {
            self.past.push(Entry(bad, Event::RolledBack));
        }
        if well {
            self.publish(to);
            self.refused = (self.offered != Some(to)).then_some((self.offered.unwrap_or(bad), true));
        }
    }

    fn returned_by_command(&mut self, to: Name, newer: bool) {
        let (left, offered) = (self.active, self.offered);
        self.publish(to);
        let newer = offered.filter(|_| newer);
        for name in left.into_iter().chain(newer.filter(|newer| Some(*newer) != left)).filter(|name| *name != to) {
            self.past.push(Entry(name, Event::RolledBack));
        }
        self.refused = left.filter(|_| offered != Some(to)).map(|left| (offered.unwrap_or(left), true));
    }
}

fn all() -> Vec<Happens> {
    let names = || COMPONENTS.into_iter().map(Some).chain([None]);
    let mut all = vec![Happens::Redefined, Happens::SourceIsRead, Happens::ActiveDoesWorse, Happens::CanaryDoesWorse];
    all.extend([Happens::RollBackCommand, Happens::Restart]);
    all.extend(COMPONENTS.map(Happens::SourceHas));
    all.extend(names().map(Happens::Approve));
    all.extend(names().map(Happens::Name));
    for yes in [false, true] {
        all.extend([Happens::SourceIsLost(yes), Happens::Rollout(yes)]);
        all.extend([Happens::Tick { late: yes }, Happens::Ends { well: yes }]);
    }
    all
}

/// Returns the promise that an event breaks.
fn broken(before: &World, happens: Happens, after: &World, start: Instant) -> Option<&'static str> {
    let begins: Vec<Name> = [(before.active, after.active), (before.canary, after.canary)]
        .into_iter()
        .filter(|(before, after)| before != after)
        .filter_map(|(_, after)| after)
        .collect();
    let by_admin = |name: Name| {
        let by_command = matches!(before.work, Some(Work::Return { .. }));
        by_command || before.revision == Some(name)
    };
    let was_approved = past::was_approved(&after.past, digest(DESTRUCTIVE));
    let rolled_back = |name: &Name| past::standing(&before.past, digest(*name)) == Standing::RolledBack;
    let is_stuck = |world: &World| {
        let is_idle = world.work.is_none() && (world.is_lost || !world.is_offer_due);
        let waits = || world.next(true, start) == Step::Wait;
        let is_served = || world.active.is_some() && (world.canary.is_none() || world.has_rollout);
        // What was refused last has a reason that is shown.
        let refused = world.refused.map(|(name, _)| digest(name));
        is_idle && waits() && !is_served() && !past::rollback_targets(&world.past, refused).is_empty()
    };
    let replaced = Some(Work::Activate(after.source));
    [
        (before.active.is_some() && after.active.is_none() && happens != Happens::Restart, "the last good one stays"),
        (begins.contains(&DESTRUCTIVE) && !was_approved, "nothing that requires approval decides unapproved"),
        (begins.iter().any(|name| rolled_back(name) && !by_admin(*name)), "what was rolled back stays inactive"),
        (happens == Happens::SourceIsRead && after.work != replaced, "a newer component replaces an activation"),
        (matches!(happens, Happens::Ends { .. }) && after.work.is_none() && after.stage != Stage::Idle, "work ends"),
        ((after.stage == Stage::Idle) != after.work.is_none(), "a stage has work"),
        (
            after.canary.is_some() && (after.active.is_none() || after.canary == after.active),
            "a canary is beside another",
        ),
        (is_stuck(after), "every state has a next step"),
    ]
    .into_iter()
    .find_map(|(is_broken, promise)| is_broken.then_some(promise))
}

/// Returns how the life of a plugin may begin, because events alone lead no further than [`DEPTH`].
fn beginnings() -> Vec<Vec<Happens>> {
    let offered = |name| vec![Happens::SourceHas(name), Happens::SourceIsRead, Happens::Ends { well: true }];
    let activated = offered(GOOD);
    vec![
        Vec::new(),
        [&activated[..], &[Happens::ActiveDoesWorse, Happens::Ends { well: true }]].concat(),
        [&activated[..], &offered(DESTRUCTIVE)].concat(),
        [&[Happens::Rollout(true)], &activated[..]].concat(),
        [&activated[..], &[Happens::SourceIsLost(true), Happens::Restart]].concat(),
    ]
}

#[test]
fn no_order_of_events_breaks_a_promise() {
    let (start, all) = (Instant::now(), all());
    let beginning = |path: Vec<Happens>| {
        (path.iter().fold(World::new(), |world, happens| world.after(*happens, start)), Vec::new())
    };
    let mut open: VecDeque<_> = beginnings().into_iter().map(beginning).collect();
    let mut known: HashSet<World> = open.iter().map(|(world, _)| world.clone()).collect();
    while let Some((world, path)) = open.pop_front() {
        for happens in all.iter().copied().filter(|happens| world.can(*happens)) {
            let after = world.after(happens, start);
            let path = [&path[..], &[happens]].concat();
            let broken = broken(&world, happens, &after, start);
            assert_eq!(broken, None, "from {world:#?} after {path:?}: {after:#?}");
            if path.len() < DEPTH && known.insert(after.clone()) {
                open.push_back((after, path));
            }
        }
    }
    assert!(known.len() > 1_000, "{} states", known.len());
}
