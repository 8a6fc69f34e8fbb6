//! The state machine of one Lease in one of several hosts: when the host may take the Lease, when it renews it, and
//! until when it may write. Pure: the caller passes the time and sends the requests.
//!
//! ```text
//! held by another ──unchanged for its duration──▶ take it ──▶ held here ──every RENEW──▶ renew it
//!        ▲                                                       │
//!        └──────── seen with another holder, or expired ◀────────┘
//! ```
//!
//! A host never compares its clock with that of another machine. As in client-go, a Lease has expired when it did not
//! *change* for its duration by the host's own clock; its `renewTime` is only compared with its own earlier value. The
//! holder counts from when it *sent* its last renewal, which is before any other host can have seen it, and stops
//! [`MARGIN`] early. So no two hosts may write at once, however long requests, replies and watches take, and whatever
//! the wall clocks say. The margin is for clocks that do not run at the same speed.
//!
//! A Lease that is deleted, or whose holder is removed by someone other than the holder, counts as held until it would
//! have expired: its holder may not have seen the change yet. For the same reason a host that creates a Lease writes
//! nothing before its own watch shows the new Lease, and so whether there was another Lease in between.

use std::sync::Arc;
use std::time::Duration;

use crate::flow::backoff::{SOON, doubled, soon};
use crate::flow::boot_time::BootTime;

/// How long a Lease is held after the last renewal.
pub const DURATION: Duration = Duration::from_secs(10);
/// How often it is renewed.
pub const RENEW: Duration = Duration::from_secs(3);
/// How long before the Lease expires its holder stops writing.
pub const MARGIN: Duration = Duration::from_secs(1);
/// The longest time that a host waits for a Lease to expire. Someone may have given it a longer duration by hand.
const MAX_DURATION: Duration = Duration::from_secs(60);
/// How long a Lease that was given up for one host is left to that host.
const OFFER_TIME: Duration = Duration::from_secs(3);
/// For each Lease that a host holds already, it waits this long before it takes a free one, so that hosts with fewer
/// Leases go first.
const HANDICAP: Duration = Duration::from_millis(200);
/// The longest such wait.
const MAX_HANDICAP: Duration = Duration::from_secs(1);
/// The longest pause after refused requests, which will not succeed by themselves.
const MAX_REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause that the API server may ask for.
const MAX_ASKED_PAUSE: Duration = Duration::from_secs(300);

/// The content of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The resource version of the object, which grows with every change.
    pub version: u64,
    /// Who holds it.
    pub holder: Option<Arc<str>>,
    /// The time of the last renewal, which differs from renewal to renewal.
    pub renewed: String,
    /// How often its holder has changed.
    pub transitions: i32,
    /// For how long it is held.
    pub duration: Option<Duration>,
    /// Which host gave it up, if no host holds it.
    pub released_by: Option<Arc<str>>,
    /// For which host it was given up.
    pub offered_to: Option<Arc<str>>,
    /// Which host asks the holder to give it up.
    pub wanted_by: Option<Arc<str>>,
}

impl Record {
    /// Returns whether the holder did nothing between the two versions. What others add to the object is no renewal.
    fn has_same_renewal(&self, other: &Self) -> bool {
        (&self.holder, &self.renewed, self.transitions, &self.released_by)
            == (&other.holder, &other.renewed, other.transitions, &other.released_by)
    }

    fn duration(&self) -> Duration {
        self.duration.unwrap_or(DURATION).clamp(DURATION, MAX_DURATION)
    }
}

/// The last seen content of a Lease, and since when the Lease has had it.
#[derive(Clone, Debug)]
pub struct Sighting {
    record: Option<Record>,
    since: BootTime,
    /// Until when a holder that the Lease no longer names may still write.
    used_until: Option<BootTime>,
}

impl Sighting {
    /// Notes a Lease, or that there is none, for the first time.
    pub fn first(record: Option<Record>, now: BootTime) -> Self {
        let mut sighting = Self { record: None, since: now, used_until: None };
        // It is not known when this Lease lost its holder.
        let is_abandoned =
            record.as_ref().is_some_and(|record| record.holder.is_none() && record.released_by.is_none());
        sighting.used_until = is_abandoned.then(|| now + DURATION);
        sighting.record = record;
        sighting
    }

    /// Notes a Lease again, as host `me`.
    pub fn see(&mut self, record: Option<Record>, me: &str, now: BootTime) {
        let is_same = match (&self.record, &record) {
            (Some(before), Some(record)) => before.has_same_renewal(record),
            (before, record) => before.is_none() && record.is_none(),
        };
        if !is_same {
            self.used_until = self.still_used(record.as_ref(), me, now);
            self.since = now;
        }
        self.record = record;
    }

    /// Returns until when a holder that is no longer named may write, if it did not give the Lease up itself.
    fn still_used(&self, record: Option<&Record>, me: &str, now: BootTime) -> Option<BootTime> {
        let is_known = |record: &Record| {
            let known = self.record.as_ref().map(|known| (&known.renewed, known.transitions));
            known == Some((&record.renewed, record.transitions))
        };
        match (record, self.holder()) {
            (Some(record), _) if record.holder.is_some() || record.released_by.is_some() => None,
            (Some(record), _) if !is_known(record) => Some(now + DURATION),
            (_, Some(holder)) if **holder == *me => None,
            (Some(_), Some(_)) => Some(self.free_from()),
            // Another host may have held it between the last sighting and the deletion.
            (None, Some(_)) => Some(now + DURATION),
            (_, None) => self.used_until,
        }
    }

    /// Returns the content of the Lease.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// Returns the holder that the Lease names, even if it has expired.
    pub fn holder(&self) -> Option<&Arc<str>> {
        self.record.as_ref()?.holder.as_ref()
    }

    /// Returns from when on the Lease may be taken, by what was seen so far.
    pub fn free_from(&self) -> BootTime {
        match &self.record {
            Some(record) if record.holder.is_some() => self.since + record.duration(),
            _ => self.used_until.unwrap_or(self.since),
        }
    }

    /// Returns the holder, unless the Lease has expired.
    pub fn live_holder(&self, now: BootTime) -> Option<&Arc<str>> {
        self.holder().filter(|_| now < self.free_from())
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Do nothing until this time, or until a change is seen.
    Wait(Option<BootTime>),
    /// Read the Lease.
    Read,
    /// Create the Lease, held by this host.
    Create,
    /// Write that this host holds the Lease.
    Take,
    /// Renew the Lease.
    Renew,
}

/// How a request to the API server failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The Lease was changed meanwhile.
    Conflict,
    /// A transient failure. The API server may have named a time to wait.
    Transient(Option<Duration>),
    /// A failure that will not go away by itself.
    Refused,
}

/// A Lease that this host created.
#[derive(Clone, Copy, Debug)]
struct Created {
    version: u64,
    /// Whether the watch has shown an earlier Lease of another host since.
    follows_another: bool,
}

/// The state of one Lease in this host.
#[derive(Debug)]
pub struct Lease {
    me: Arc<str>,
    /// None until the first sighting.
    seen: Option<Sighting>,
    /// When the last accepted renewal was sent; none while this host does not hold the Lease.
    sent: Option<BootTime>,
    /// From when on this host may write; none if it may at once.
    writes_from: Option<BootTime>,
    /// The Lease that this host created, until the watch shows it.
    created: Option<Created>,
    /// How often this host has begun to hold the Lease.
    term: u64,
    /// The newest version that was seen, that of a deletion included.
    newest: u64,
    /// When the newest version was seen, by the watch or as the answer to a write; none at first.
    changed: Option<BootTime>,
    /// The newest version that the watch has shown; the watch shows all versions in order.
    shown: u64,
    /// Until when the last other holder may write.
    others_until: Option<BootTime>,
    /// Whether the Lease is known to have changed since it was last seen.
    is_stale: bool,
    failures: u32,
    not_before: Option<BootTime>,
}

impl Lease {
    /// Creates the state of a Lease that was not seen yet.
    pub fn new(me: Arc<str>) -> Self {
        Self {
            me,
            seen: None,
            sent: None,
            writes_from: None,
            created: None,
            term: 0,
            newest: 0,
            changed: None,
            shown: 0,
            others_until: None,
            is_stale: false,
            failures: 0,
            not_before: None,
        }
    }

    /// Returns what was seen of the Lease.
    pub fn seen(&self) -> Option<&Sighting> {
        self.seen.as_ref()
    }

    /// Returns until when this host may write; none while it does not hold the Lease.
    pub fn deadline(&self) -> Option<BootTime> {
        self.sent.map(|sent| sent + (DURATION - MARGIN))
    }

    /// Returns whether this host holds the Lease and may write.
    pub fn is_held(&self, now: BootTime) -> bool {
        self.is_mine(now) && self.writes_from.is_none_or(|from| from <= now)
    }

    /// Returns how often this host has begun to hold the Lease. What was decided in one term must not be written in the
    /// next.
    pub fn term(&self) -> u64 {
        self.term
    }

    fn is_mine(&self, now: BootTime) -> bool {
        self.deadline().is_some_and(|deadline| now < deadline)
    }

    /// Notes what a watch shows. That may be older than what is known.
    pub fn watched(&mut self, record: Record, now: BootTime) {
        self.shown = self.shown.max(record.version);
        if let Some(created) = &mut self.created {
            if record.version < created.version {
                created.follows_another |= record.holder.as_ref() != Some(&self.me);
            } else {
                // The holder of the earlier Lease may not have seen its deletion yet.
                self.writes_from = self.writes_from.filter(|_| created.follows_another);
                self.created = None;
            }
        }
        if self.seen.is_none() || record.version > self.newest {
            (self.newest, self.changed) = (record.version, Some(now));
            self.see(Some(record), now);
        }
    }

    /// Notes that a watch shows the deletion of the Lease. Another host may create it now, so this host no longer holds
    /// it.
    pub fn deleted(&mut self, version: u64, now: BootTime) {
        self.shown = self.shown.max(version);
        if self.seen.is_none() || version >= self.newest {
            (self.newest, self.changed) = (version, Some(now));
            self.see(None, now);
        }
    }

    /// Notes that a list does not contain the Lease. The list may be older than what is known.
    pub fn unlisted(&mut self, now: BootTime) {
        match self.seen {
            None => self.see(None, now),
            Some(_) => self.is_stale = true,
        }
    }

    /// Notes the API server's answer to a read that was sent at `sent`. The answer counts as the newest state whatever
    /// its version, because versions begin again when a cluster is restored. But if a change was seen since the read
    /// was sent, the answer may be older than that, and is ignored. Returns whether the answer counts.
    pub fn read(&mut self, record: Option<Record>, sent: BootTime, now: BootTime) -> bool {
        self.is_stale = false;
        let has_changed = self.changed.is_some_and(|changed| changed >= sent);
        if has_changed && record.as_ref().is_none_or(|record| record.version < self.newest) {
            return false;
        }
        self.newest = record.as_ref().map_or(self.newest, |record| record.version);
        self.see(record, now);
        true
    }

    fn see(&mut self, record: Option<Record>, now: BootTime) {
        if record.as_ref().is_some_and(|record| record.released_by.is_some()) {
            self.others_until = None;
        } else if let Some(seen) = self.seen.as_ref().filter(|seen| seen.holder() != Some(&self.me)) {
            self.others_until = self.others_until.max(Some(seen.free_from()));
        }
        if record.as_ref().and_then(|record| record.holder.as_ref()) != Some(&self.me) {
            self.end();
        }
        match &mut self.seen {
            Some(seen) => seen.see(record, &self.me, now),
            None => self.seen = Some(Sighting::first(record, now)),
        }
    }

    /// Notes that the API server accepted a step that was sent at `sent`. Begins a term, unless this host has held the
    /// Lease all the time.
    pub fn accepted(&mut self, step: Step, record: Record, sent: BootTime, now: BootTime) {
        let (was_mine, version) = (self.is_mine(now), record.version);
        (self.failures, self.not_before) = (0, None);
        if version >= self.newest {
            (self.is_stale, self.newest, self.changed) = (false, version, Some(now));
            self.see(Some(record), now);
        } else if self.seen.as_ref().and_then(Sighting::holder) != Some(&self.me) {
            // The watch was faster, and has shown that another host took the Lease since.
            return;
        }
        if !was_mine {
            self.term += 1;
            self.writes_from = self.writes_from.max(self.others_until);
        }
        if step == Step::Create && version > self.shown {
            let follows_another = self.writes_from.is_some_and(|from| from > now);
            self.writes_from = Some(now + DURATION);
            self.created = Some(Created { version, follows_another });
        }
        self.sent = Some(sent);
    }

    /// Notes that a request was not accepted.
    pub fn failed(&mut self, failure: Failure, now: BootTime) {
        self.failures = self.failures.saturating_add(1);
        let pause = match failure {
            Failure::Conflict => {
                self.is_stale = true;
                // The first read is due at once; after repeated conflicts the reads become rarer.
                soon(self.failures).saturating_sub(SOON)
            }
            Failure::Transient(asked) => asked.unwrap_or_default().min(MAX_ASKED_PAUSE).max(soon(self.failures)),
            Failure::Refused => doubled(2 * SOON, self.failures, MAX_REFUSED_PAUSE),
        };
        self.not_before = Some(now + pause);
    }

    /// Ends the term of this host, which was too late or gives the Lease up. The permits of the term end with it.
    pub fn end(&mut self) {
        self.others_until = self.others_until.max(self.writes_from);
        (self.sent, self.writes_from, self.created) = (None, None, None);
    }

    /// Returns what to do next. The more Leases this host holds (`held`), the longer it leaves a free one to others.
    pub fn next(&self, held: usize, now: BootTime) -> Step {
        let Some(seen) = &self.seen else { return Step::Wait(None) };
        let (step, due) = match seen.record() {
            _ if self.is_stale => (Step::Read, now),
            None => (Step::Create, seen.free_from() + handicap(held)),
            Some(record) if record.holder.as_ref() == Some(&self.me) => {
                // If this host does not hold a Lease that names it, an answer was lost, or came too late.
                (Step::Renew, self.sent.filter(|_| self.is_mine(now)).map_or(now, |sent| sent + RENEW))
            }
            Some(record) => {
                let is_left_to_another = record.offered_to.as_ref().is_some_and(|other| *other != self.me);
                let offer = if is_left_to_another && record.holder.is_none() { OFFER_TIME } else { Duration::ZERO };
                (Step::Take, seen.free_from() + offer + handicap(held))
            }
        };
        let due = self.not_before.map_or(due, |not_before| due.max(not_before));
        let begins = self.writes_from.filter(|from| *from > now);
        if due <= now { step } else { Step::Wait(Some(begins.map_or(due, |begins| begins.min(due)))) }
    }
}

fn handicap(held: usize) -> Duration {
    (HANDICAP * u32::try_from(held).unwrap_or(u32::MAX).min(100)).min(MAX_HANDICAP)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(1);

    fn record(holder: &str, renewed: u32) -> Record {
        Record {
            version: u64::from(renewed) + 1,
            holder: (!holder.is_empty()).then(|| holder.into()),
            renewed: renewed.to_string(),
            ..Record::default()
        }
    }

    fn held_by(holder: &str, now: BootTime) -> Lease {
        let mut lease = Lease::new("me".into());
        lease.watched(record(holder, 0), now);
        lease
    }

    #[test]
    fn a_missing_lease_is_created_and_renewed() {
        let now = BootTime::at(DURATION * 100);
        let mut lease = Lease::new("me".into());
        assert_eq!(lease.next(0, now), Step::Wait(None), "it was not looked for yet");
        lease.unlisted(now);
        assert_eq!(lease.next(0, now), Step::Create);
        lease.accepted(Step::Create, record("me", 1), now, now + MOMENT);
        assert_eq!(lease.deadline(), Some(now + DURATION - MARGIN));
        assert!(!lease.is_held(now + MOMENT), "there may have been another one meanwhile");
        lease.watched(record("me", 1), now + MOMENT);
        assert!(lease.is_held(now + MOMENT));
        assert_eq!(lease.next(0, now + MOMENT), Step::Wait(Some(now + RENEW)));
        let then = now + RENEW;
        assert_eq!(lease.next(0, then), Step::Renew);
        lease.accepted(Step::Renew, record("me", 2), then, then + MOMENT);
        assert_eq!((lease.term(), lease.deadline()), (1, Some(then + DURATION - MARGIN)));
    }

    #[test]
    fn a_host_that_creates_a_lease_after_one_that_was_deleted_by_hand_lets_its_holder_stop_first() {
        let now = BootTime::at(DURATION * 100);
        let mut lease = Lease::new("me".into());
        lease.unlisted(now);
        lease.accepted(Step::Create, record("me", 5), now, now);
        lease.watched(record("other", 1), now + MOMENT);
        lease.deleted(3, now + MOMENT);
        lease.watched(record("me", 5), now + MOMENT);
        assert!(!lease.is_held(now + MOMENT));
        assert_eq!(lease.next(0, now + RENEW), Step::Renew, "the host renews it meanwhile");
        lease.accepted(Step::Renew, record("me", 6), now + RENEW, now + RENEW);
        lease.accepted(Step::Renew, record("me", 7), now + 2 * RENEW, now + 2 * RENEW);
        assert!(!lease.is_held(now + DURATION - MOMENT) && lease.is_held(now + DURATION));
        assert_eq!(lease.term(), 1);
    }

    #[test]
    fn a_lease_of_another_is_taken_when_it_has_not_changed_for_its_duration() {
        let now = BootTime::at(DURATION * 100);
        let mut lease = held_by("other", now);
        assert_eq!(lease.next(0, now), Step::Wait(Some(now + DURATION)));
        let then = now + RENEW;
        lease.watched(record("other", 1), then);
        assert_eq!(lease.next(0, now + DURATION), Step::Wait(Some(then + DURATION)));
        assert_eq!(lease.next(0, then + DURATION), Step::Take);
    }

    #[test]
    fn what_others_add_to_a_lease_does_not_renew_it() {
        let now = BootTime::at(DURATION * 100);
        let mut lease = held_by("other", now);
        lease.watched(Record { version: 9, wanted_by: Some("me".into()), ..record("other", 0) }, now + RENEW);
        assert_eq!(lease.next(0, now + DURATION), Step::Take);
    }

    #[test]
    fn a_lease_that_its_holder_gives_up_is_taken_at_once() {
        let now = BootTime::at(DURATION * 100);
        let mut lease = held_by("other", now);
        lease.watched(Record { released_by: Some("other".into()), ..record("", 1) }, now + MOMENT);
        assert_eq!(lease.next(0, now + MOMENT), Step::Take);
        assert!(
            matches!(lease.next(2, now + MOMENT), Step::Wait(Some(_))),
            "a host that holds others lets other hosts go first"
        );
    }

    #[test]
    fn a_lease_that_is_given_up_for_one_host_is_left_to_it_for_a_while() {
        let now = BootTime::at(DURATION * 100);
        let given =
            |to: &str| Record { released_by: Some("other".into()), offered_to: Some(to.into()), ..record("", 1) };
        let mut lease = held_by("other", now);
        lease.watched(given("third"), now);
        assert_eq!(
            (lease.next(0, now), lease.next(0, now + OFFER_TIME)),
            (Step::Wait(Some(now + OFFER_TIME)), Step::Take)
        );
        let mut lease = held_by("other", now);
        lease.watched(given("me"), now);
        assert_eq!(lease.next(0, now), Step::Take);
    }

    #[test]
    fn a_lease_that_is_deleted_or_cleared_by_hand_counts_as_held_until_its_holder_has_stopped() {
        let now = BootTime::at(DURATION * 100);
        let mut lease = held_by("other", now);
        lease.watched(Record { version: 9, ..record("", 0) }, now + RENEW);
        assert_eq!(lease.next(0, now + RENEW), Step::Wait(Some(now + DURATION)));
        lease.watched(Record { version: 10, ..record("", 7) }, now + RENEW);
        let later = now + RENEW + DURATION;
        assert_eq!(lease.next(0, now + RENEW), Step::Wait(Some(later)), "a renewal was not seen");
        let mut lease = held_by("other", now);
        lease.deleted(9, now + RENEW);
        assert_eq!((lease.next(0, now + RENEW), lease.next(0, later)), (Step::Wait(Some(later)), Step::Create));
        let mut lease = held_by("", now);
        assert_eq!(lease.next(0, now), Step::Wait(Some(now + DURATION)), "it is not known who had it");
        lease.deleted(9, now + MOMENT);
        assert_eq!(lease.next(0, now + MOMENT), Step::Wait(Some(now + DURATION)));
    }

    #[test]
    fn a_holder_whose_lease_is_deleted_or_cleared_by_hand_takes_it_again_at_once() {
        let now = BootTime::at(DURATION * 100);
        for cleared in [None, Some(Record { version: 9, ..record("", 1) })] {
            let mut lease = held_by("me", now);
            lease.accepted(Step::Renew, record("me", 1), now, now);
            match cleared {
                Some(cleared) => lease.watched(cleared, now + MOMENT),
                None => lease.deleted(9, now + MOMENT),
            }
            assert!(!lease.is_held(now + MOMENT));
            assert!(matches!(lease.next(0, now + MOMENT), Step::Take | Step::Create));
        }
    }

    #[test]
    fn a_host_that_sees_another_holder_stops_at_once_and_takes_the_lease_again_once_it_expires() {
        let now = BootTime::at(DURATION * 100);
        let mut lease = held_by("me", now);
        assert_eq!(lease.next(0, now), Step::Renew, "its answer was lost");
        lease.accepted(Step::Renew, record("me", 1), now, now);
        lease.watched(record("stranger", 2), now + MOMENT);
        assert!(!lease.is_held(now + MOMENT) && lease.deadline().is_none());
        assert_eq!(lease.next(0, now + MOMENT + DURATION), Step::Take);
    }

    #[test]
    fn a_watch_that_is_behind_does_not_end_a_term() {
        let now = BootTime::at(DURATION * 100);
        let mut lease = held_by("other", now);
        let then = now + DURATION;
        lease.accepted(Step::Take, record("me", 5), then, then);
        lease.watched(record("other", 1), then + MOMENT);
        lease.deleted(2, then + MOMENT);
        assert!(lease.is_held(then + MOMENT));
        lease.unlisted(then + MOMENT);
        assert_eq!(lease.next(0, then + MOMENT), Step::Read, "a list that is without it may be old");
        assert!(lease.is_held(then + MOMENT));
        assert!(lease.read(None, then + MOMENT, then + MOMENT));
        assert!(!lease.is_held(then + MOMENT));
    }

    #[test]
    fn a_read_that_is_older_than_what_the_watch_has_shown_since_does_not_count() {
        let now = BootTime::at(DURATION * 100);
        let released = |version| Record { released_by: Some("other".into()), version, ..record("", 1) };
        for answer in [Some(released(3)), None] {
            let mut lease = held_by("other", now);
            lease.unlisted(now);
            assert_eq!(lease.next(0, now), Step::Read);
            lease.watched(Record { version: 4, ..record("third", 2) }, now + MOMENT);
            assert!(!lease.read(answer, now, now + 2 * MOMENT));
            assert_eq!(lease.next(0, now + 2 * MOMENT), Step::Wait(Some(now + MOMENT + DURATION)), "it is held");
        }
        let mut lease = held_by("other", now + RENEW);
        assert!(lease.read(Some(released(0)), now + 2 * RENEW, now + 2 * RENEW), "the cluster was restored");
        assert_eq!(lease.next(0, now + 2 * RENEW), Step::Take);
    }

    #[test]
    fn a_renewal_that_comes_too_late_begins_a_new_term() {
        let now = BootTime::at(DURATION * 100);
        let mut lease = held_by("me", now);
        lease.accepted(Step::Renew, record("me", 1), now, now);
        let late = now + DURATION;
        assert!(!lease.is_held(late));
        assert_eq!(lease.next(0, late), Step::Renew);
        lease.accepted(Step::Renew, record("me", 2), late, late);
        assert!(lease.is_held(late) && lease.term() == 2);
    }

    #[test]
    fn requests_that_fail_are_repeated_with_the_pauses_that_the_api_server_asks_for() {
        let now = BootTime::at(DURATION * 100);
        let mut lease = held_by("me", now);
        lease.failed(Failure::Transient(Some(Duration::from_secs(7))), now);
        assert_eq!(lease.next(0, now), Step::Wait(Some(now + Duration::from_secs(7))));
        for failure in [Failure::Conflict, Failure::Transient(None), Failure::Refused] {
            let mut lease = held_by("me", now);
            let mut then = now;
            for _ in 0..20 {
                lease.failed(failure, then);
                if let Step::Wait(Some(due)) = lease.next(0, then) {
                    then = due;
                }
            }
            assert!(then > now + Duration::from_secs(20), "{failure:?} is no loop");
        }
    }

    #[test]
    fn a_duration_that_was_written_by_hand_is_bounded() {
        let now = BootTime::at(DURATION * 100);
        let mut lease = Lease::new("me".into());
        let (day, none) = (Some(Duration::from_secs(86_400)), Some(Duration::ZERO));
        lease.watched(Record { duration: day, ..record("stranger", 0) }, now);
        assert_eq!(lease.next(0, now), Step::Wait(Some(now + MAX_DURATION)));
        lease.watched(Record { duration: none, ..record("stranger", 1) }, now);
        assert_eq!(lease.next(0, now), Step::Wait(Some(now + DURATION)), "a shorter one is not believed either");
    }

    #[test]
    fn a_lease_that_was_given_up_before_it_was_seen_first_is_taken_at_once() {
        let (mut lease, now) = (Lease::new("me".into()), BootTime::at(DURATION * 100));
        lease.watched(Record { released_by: Some("other".into()), ..record("", 1) }, now);
        assert_eq!(lease.next(0, now), Step::Take);
    }

    #[test]
    fn a_holder_is_live_and_a_host_writes_until_the_time_is_over_and_no_longer() {
        let now = BootTime::at(DURATION * 100);
        let lease = held_by("other", now);
        let live = |at| lease.seen().and_then(|seen| seen.live_holder(at)).map(|holder| holder.to_string());
        assert_eq!(live(now + DURATION - MOMENT).as_deref(), Some("other"));
        assert_eq!((live(now + DURATION), live(now + DURATION + MOMENT)), (None, None));
        let mut lease = held_by("me", now);
        lease.accepted(Step::Renew, record("me", 1), now, now);
        let deadline = now + DURATION - MARGIN;
        assert!(lease.is_held(deadline - MOMENT) && !lease.is_held(deadline));
    }

    #[test]
    fn a_host_that_takes_a_lease_early_writes_once_the_holder_before_it_has_stopped() {
        let (now, taken) = (BootTime::at(DURATION * 100), BootTime::at(DURATION * 100) + RENEW);
        let mut lease = held_by("other", now);
        lease.accepted(Step::Take, record("me", 5), taken, taken);
        assert!(!lease.is_held(now + DURATION - MOMENT) && lease.is_held(now + DURATION));
        let mut lease = held_by("other", now);
        let taken = now + DURATION - 2 * MOMENT;
        lease.accepted(Step::Take, record("me", 5), taken, taken);
        assert_eq!(lease.next(0, taken), Step::Wait(Some(now + DURATION)), "then it begins to write");
        assert_eq!(lease.next(0, now + DURATION), Step::Wait(Some(taken + RENEW)));
    }

    #[test]
    fn a_host_that_holds_others_lets_other_hosts_create_a_missing_lease_first() {
        let (mut lease, now) = (Lease::new("me".into()), BootTime::at(DURATION * 100));
        lease.unlisted(now);
        assert_eq!((lease.next(0, now), lease.next(2, now)), (Step::Create, Step::Wait(Some(now + 2 * HANDICAP))));
    }

    #[test]
    fn a_renewal_that_is_answered_after_the_watch_has_shown_more_counts_unless_another_took_the_lease() {
        let (now, sent) = (BootTime::at(DURATION * 100), BootTime::at(DURATION * 100) + RENEW);
        for (holder, deadline) in [("me", Some(sent + DURATION - MARGIN)), ("other", None)] {
            let mut lease = held_by("me", now);
            lease.accepted(Step::Renew, record("me", 1), now, now);
            lease.watched(Record { version: 9, wanted_by: Some("third".into()), ..record(holder, 2) }, sent);
            lease.accepted(Step::Renew, record("me", 2), sent, sent + MOMENT);
            assert_eq!(lease.deadline(), deadline, "{holder}");
        }
    }

    #[test]
    fn a_version_that_is_shown_again_is_no_change_and_a_read_of_the_newest_one_counts() {
        let now = BootTime::at(DURATION * 100);
        let mut lease = held_by("other", now);
        lease.watched(record("other", 0), now + 2 * MOMENT);
        assert!(lease.read(None, now + MOMENT, now + 3 * MOMENT), "it was deleted since");
        let mut lease = held_by("other", now);
        lease.watched(record("other", 4), now + 2 * MOMENT);
        assert!(lease.read(Some(record("other", 4)), now + MOMENT, now + 3 * MOMENT));
    }

    #[test]
    fn a_created_lease_that_the_watch_has_shown_already_is_held_at_once() {
        let (mut lease, now) = (Lease::new("me".into()), BootTime::at(DURATION * 100));
        lease.unlisted(now);
        lease.watched(record("me", 5), now);
        lease.accepted(Step::Create, record("me", 5), now, now + MOMENT);
        assert!(lease.is_held(now + MOMENT));
    }

    #[test]
    fn a_host_that_creates_a_lease_waits_longer_only_while_another_may_still_write() {
        let now = BootTime::at(DURATION * 100);
        let created = |at: BootTime| {
            let mut lease = held_by("other", now);
            lease.accepted(Step::Create, record("me", 5), at, at);
            lease.watched(record("me", 5), at + MOMENT);
            lease.is_held(at + MOMENT)
        };
        assert!(!created(now + DURATION - MOMENT));
        assert!(created(now + DURATION));
    }

    /// A host of the simulation, with a clock of its own.
    struct Host {
        lease: Lease,
        /// What its clock shows at the beginning.
        zero: BootTime,
        /// How many parts in ten thousand its clock is fast.
        fast: u32,
        /// Until when the process is stopped, in milliseconds.
        frozen: u64,
        is_asking: bool,
    }

    impl Host {
        fn clock(&self, now: u64) -> BootTime {
            self.zero + Duration::from_micros(now * 1_000 / 10_000 * u64::from(10_000 + self.fast))
        }
    }

    /// A message that is under way.
    #[derive(Clone, Debug)]
    enum Message {
        /// A request of a host: the step, the version that it expects, and when it was sent by the clock of the host.
        Ask(usize, Step, u64, BootTime),
        /// The answer to a request: the record, if the request was accepted or was a read.
        Answer(usize, Step, Option<Option<Record>>, BootTime),
        /// What a watch shows to a host.
        Shown(usize, Option<Record>, u64),
    }

    #[derive(Clone, Debug)]
    enum Action {
        Pass(u64),
        Freeze(usize, u64),
        Delete,
        Clear,
        Edit,
        GiveUp(usize),
    }

    fn acts() -> impl Strategy<Value = Vec<Action>> {
        let act = prop_oneof![
            12 => (1_u64..4_000).prop_map(Action::Pass),
            2 => (0_usize..3, 1_u64..25_000).prop_map(|(host, time)| Action::Freeze(host, time)),
            1 => Just(Action::Delete),
            1 => Just(Action::Clear),
            1 => Just(Action::Edit),
            1 => (0_usize..3).prop_map(Action::GiveUp),
        ];
        prop::collection::vec(act, 1..60)
    }

    struct World {
        hosts: Vec<Host>,
        now: u64,
        stored: Option<Record>,
        version: u64,
        renewals: u32,
        under_way: BTreeMap<(u64, u64), Message>,
        sequence: u64,
        delays: Vec<u64>,
        /// When the last event that was sent to each host is due.
        shown: [u64; 3],
    }

    impl World {
        fn send(&mut self, message: Message) {
            self.sequence += 1;
            let delay = self.delays[usize::try_from(self.sequence).unwrap() % self.delays.len()];
            let mut due = self.now + delay;
            if let Message::Shown(host, ..) = message {
                // A watch keeps the order of events.
                due = due.max(self.shown[host]);
                self.shown[host] = due;
            }
            self.under_way.insert((due, self.sequence), message);
        }

        fn store(&mut self, record: Option<Record>) {
            self.version += 1;
            self.stored = record.map(|record| Record { version: self.version, ..record });
            for host in 0..self.hosts.len() {
                self.send(Message::Shown(host, self.stored.clone(), self.version));
            }
        }

        fn serve(&mut self, host: usize, step: Step, version: u64) -> Option<Option<Record>> {
            let me = self.hosts[host].lease.me.clone();
            match (step, &self.stored) {
                (Step::Read, stored) => return Some(stored.clone()),
                (Step::Create, None) => {}
                (Step::Take | Step::Renew, Some(stored)) if stored.version == version => {}
                _ => return None,
            }
            self.renewals += 1;
            self.store(Some(record(&me, self.renewals)));
            Some(self.stored.clone())
        }

        fn deliver(&mut self, message: Message) {
            match message {
                Message::Ask(host, step, version, sent) => {
                    let answer = self.serve(host, step, version);
                    self.send(Message::Answer(host, step, answer, sent));
                }
                Message::Answer(host, step, answer, sent) => {
                    let host = &mut self.hosts[host];
                    let clock = host.clock(self.now);
                    host.is_asking = false;
                    match (step, answer) {
                        (Step::Read, Some(record)) => drop(host.lease.read(record, sent, clock)),
                        (_, Some(Some(record))) => host.lease.accepted(step, record, sent, clock),
                        _ => host.lease.failed(Failure::Conflict, clock),
                    }
                }
                Message::Shown(host, record, version) => {
                    let host = &mut self.hosts[host];
                    let clock = host.clock(self.now);
                    match record {
                        Some(record) => host.lease.watched(record, clock),
                        None => host.lease.deleted(version, clock),
                    }
                }
            }
        }

        /// Returns the hosts that may write now.
        fn writers(&self) -> Vec<usize> {
            let may_write = |host: &Host| host.lease.is_held(host.clock(self.now));
            (0..self.hosts.len()).filter(|host| may_write(&self.hosts[*host])).collect()
        }

        /// Takes the next message that is due. What a stopped host was sent waits for it, in the order of sending.
        fn next_message(&mut self) -> Option<Message> {
            let arrives = |(&(due, sequence), message): (&(u64, u64), &Message)| {
                let frozen = match message {
                    Message::Answer(host, ..) | Message::Shown(host, ..) => self.hosts[*host].frozen,
                    Message::Ask(..) => 0,
                };
                (due.max(frozen), sequence, due)
            };
            let (arrival, sequence, due) = self.under_way.iter().map(arrives).min()?;
            if arrival > self.now { None } else { self.under_way.remove(&(due, sequence)) }
        }

        fn pass(&mut self, until: u64) -> Result<(), TestCaseError> {
            while self.now < until {
                self.now += 10;
                while let Some(message) = self.next_message() {
                    self.deliver(message);
                }
                for number in 0..self.hosts.len() {
                    let host = &self.hosts[number];
                    if host.frozen > self.now || host.is_asking {
                        continue;
                    }
                    let clock = host.clock(self.now);
                    let version = host.lease.seen().and_then(Sighting::record).map_or(0, |record| record.version);
                    match host.lease.next(0, clock) {
                        Step::Wait(_) => {}
                        step => {
                            self.hosts[number].is_asking = true;
                            self.send(Message::Ask(number, step, version, clock));
                        }
                    }
                }
                let writers = self.writers();
                prop_assert!(writers.len() <= 1, "{:?} may write at {}", writers, self.now);
            }
            Ok(())
        }

        fn act(&mut self, act: &Action) -> Result<(), TestCaseError> {
            match *act {
                Action::Pass(time) => return self.pass(self.now + time),
                // Never ends earlier than an earlier freeze: what was sent to the host meanwhile must keep its order.
                Action::Freeze(host, time) => {
                    let host = &mut self.hosts[host];
                    host.frozen = host.frozen.max(self.now + time);
                }
                Action::Delete if self.stored.is_some() => self.store(None),
                Action::Clear => {
                    let cleared = self.stored.clone().map(|stored| Record { holder: None, ..stored });
                    self.store(cleared);
                }
                Action::Edit if self.stored.is_some() => {
                    let edited = Record { holder: Some("stranger".into()), ..self.stored.clone().unwrap_or_default() };
                    self.store(Some(edited));
                }
                Action::Delete | Action::Edit => {}
                Action::GiveUp(host) => {
                    let (me, clock) = (self.hosts[host].lease.me.clone(), self.hosts[host].clock(self.now));
                    let Host { frozen, is_asking, lease, .. } = &self.hosts[host];
                    if *frozen > self.now || *is_asking || !lease.is_held(clock) {
                        return Ok(());
                    }
                    self.hosts[host].lease.end();
                    if self.stored.as_ref().is_some_and(|stored| stored.holder.as_ref() == Some(&me)) {
                        self.renewals += 1;
                        let given = Record { released_by: Some(me), ..record("", self.renewals) };
                        self.store(Some(given));
                    }
                }
            }
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn no_two_hosts_may_write_at_once_whatever_clocks_requests_and_users_do(
            acts in acts(),
            delays in prop::collection::vec(prop_oneof![3 => 0_u64..50, 1 => 0_u64..15_000], 1..40),
            clocks in prop::collection::vec((0_u64..1_000_000, 0_u32..200), 3),
        ) {
            let start = BootTime::at(DURATION * 100);
            let hosts = clocks.iter().enumerate().map(|(number, (offset, fast))| Host {
                lease: Lease::new(number.to_string().into()),
                zero: start + Duration::from_secs(*offset),
                fast: *fast,
                frozen: 0,
                is_asking: false,
            });
            let mut world = World {
                hosts: hosts.collect(), now: 0, stored: None, version: 0, renewals: 0,
                under_way: BTreeMap::new(), sequence: 0, delays, shown: [0; 3],
            };
            world.hosts.iter_mut().for_each(|host| host.lease.unlisted(host.zero));
            for act in &acts {
                world.act(act)?;
            }
            // Once nothing more happens, exactly one of them may write.
            world.delays = vec![5];
            world.pass(world.now + 120_000)?;
            prop_assert_eq!(world.writers().len(), 1);
        }
    }
}
