//! When the next run is due, whatever the clock does. Pure, and about times alone.
//!
//! The clock may be set forwards or backwards, and the host may have been away. So a run is never scheduled by counting
//! what was missed: it is the latest tick that is over, or the next one, and no next one is further away than the
//! interval.

use hotshoe_sdk::Time;

use crate::api::{BackupSpec, BackupStatus, Retry};
use crate::runs::{Run, State};

/// What the next run depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) now: Time,
    interval: i64,
    created: Time,
    /// The last run that is not after now.
    pub(crate) last: Option<Time>,
    /// Whether there was a run after now: the clock has been set back.
    is_ahead: bool,
    /// When the next run was said to be due.
    announced: Option<Time>,
    /// That the last run failed.
    pub(crate) failing: Option<Failing>,
    retry: Retry,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Phase<'a> {
    /// A run begins that is scheduled for this time.
    Starts(Time),
    /// A run is under way.
    Runs(&'a Run),
    /// Nothing before this time.
    Waits(Time),
    /// Nothing, as the spec says.
    Suspended,
    /// Nothing before the spec changes: too many runs failed.
    Stalled,
}

/// Runs that failed, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Failing {
    /// When the last of them did.
    pub(crate) at: Time,
    /// How many, since the spec was changed.
    pub(crate) tries: i64,
}

impl Schedule {
    pub(crate) fn of(now: Time, backup: &crate::api::Backup, runs: &[Run]) -> Self {
        let BackupSpec { interval_seconds, failure, .. } = &backup.spec;
        let times = || runs.iter().map(|run| run.time).chain(backup.status.last_run_time);
        Self {
            now,
            interval: *interval_seconds,
            created: backup.metadata.creation_timestamp,
            last: times().filter(|time| *time <= now).max(),
            is_ahead: times().any(|time| time > now),
            announced: backup.status.next_run_time,
            failing: failing(now, backup.metadata.generation, &backup.status, runs),
            retry: failure.retry,
        }
    }

    /// What is to be done now. There is never more than one run at a time.
    pub(crate) fn phase<'a>(&self, is_suspended: bool, runs: &'a [Run]) -> Phase<'a> {
        match (runs.iter().find(|run| run.is_running()), self.due()) {
            (Some(run), _) => Phase::Runs(run),
            (None, _) if is_suspended => Phase::Suspended,
            (None, None) => Phase::Stalled,
            (None, Some(due)) if due <= self.now => Phase::Starts(self.tick(due)),
            (None, Some(due)) => Phase::Waits(due),
        }
    }

    /// When the next run is due after what is done now.
    pub(crate) fn next(&self, is_suspended: bool, phase: Phase<'_>) -> Option<Time> {
        match phase {
            _ if is_suspended => None,
            Phase::Starts(time) => Some(time.plus_seconds(self.interval)),
            Phase::Runs(_) => Some(self.regular()),
            Phase::Waits(due) => Some(due),
            Phase::Suspended | Phase::Stalled => None,
        }
    }

    /// When the next run is due; none where too many failed.
    fn due(&self) -> Option<Time> {
        let regular = self.regular();
        let due = match self.failing {
            None => regular,
            Some(Failing { tries, .. }) if tries >= self.retry.max_tries => return None,
            Some(Failing { at, tries }) => regular.min(at.plus_seconds(delay(&self.retry, tries))),
        };
        // A run has another time than the last one, or it would have its name.
        Some(self.last.map_or(due, |last| due.max(last.plus_seconds(1))))
    }

    /// When the next run is due that is no second try.
    fn regular(&self) -> Time {
        let latest = self.now.plus_seconds(self.interval);
        let next = self.last.map(|last| last.plus_seconds(self.interval));
        match next {
            Some(next) if !self.is_ahead || next > self.now => next,
            None if !self.is_ahead => self.created.min(self.now),
            // How long ago the last run was cannot be known, so another interval passes first.
            _ => self.announced.filter(|announced| *announced <= latest).unwrap_or(latest),
        }
    }

    /// The time of a run that begins now: that of the latest tick, however many were missed.
    fn tick(&self, due: Time) -> Time {
        due.plus_seconds(self.now.seconds_since(due) / self.interval * self.interval)
    }

    /// How many tries a run is the last of that begins now.
    pub(crate) fn next_try(&self) -> i64 {
        self.failing.map_or(0, |failing| failing.tries).saturating_add(1)
    }
}

/// The last run's failure, as its Job shows it, or the status where that Job is gone. A change of the spec makes a
/// new beginning.
fn failing(now: Time, generation: i64, status: &BackupStatus, runs: &[Run]) -> Option<Failing> {
    let said = status.last_run_time.filter(|time| *time <= now);
    let last = runs.iter().rfind(|run| run.time <= now).filter(|run| said.is_none_or(|said| said <= run.time));
    let (at, tries, of) = match last {
        Some(Run { state: State::Failed { at, .. }, tries, generation, .. }) => (*at, *tries, *generation),
        Some(_) => return None,
        None => {
            (said?, status.failed_tries.filter(|tries| *tries > 0)?, status.observed_generation.unwrap_or_default())
        }
    };
    Some(Failing { at, tries: if of == generation { tries } else { 0 } })
}

/// How many seconds after so many tries the next is made; none after a change of the spec.
fn delay(retry: &Retry, tries: i64) -> i64 {
    if tries <= 0 {
        return 0;
    }
    // No bound is further away than that, and the product stays a number of seconds.
    let doublings = u32::try_from(tries - 1).unwrap_or(u32::MAX).min(25);
    retry.base_delay_seconds.saturating_mul(1 << doublings).min(retry.max_delay_seconds)
}
