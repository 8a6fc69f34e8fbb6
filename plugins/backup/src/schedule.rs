//! When the next run is due, whatever the clock does. Pure functions of times.
//!
//! The clock may be set forwards or backwards, and the host may have been down. So missed runs are never counted: a run
//! is scheduled for the latest tick that has passed or for the next one, and the next one is never further away than
//! one interval.

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
    /// When the next run is due according to the status.
    announced: Option<Time>,
    /// The failed runs at the end, if the last run failed.
    pub(crate) failing: Option<Failing>,
    retry: Retry,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Phase<'a> {
    /// Begin a run that is scheduled for this time.
    Starts(Time),
    /// Wait for this run to end.
    Runs(&'a Run),
    /// Wait until this time.
    Waits(Time),
    /// Begin no run, because the spec says so.
    Suspended,
    /// Begin no run before the spec changes: too many runs failed.
    Stalled,
    /// Begin no run any more: the Backup is being deleted, and its last run has ended or cannot begin.
    Ended,
}

/// Runs that failed in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Failing {
    /// When the last of them failed.
    pub(crate) at: Time,
    /// Their number since the spec was changed.
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

    /// Returns what is to be done now. There is never more than one run at a time.
    pub(crate) fn phase<'a>(&self, is_suspended: bool, runs: &'a [Run]) -> Phase<'a> {
        match (runs.iter().find(|run| run.is_running()), self.due()) {
            (Some(run), _) => Phase::Runs(run),
            (None, _) if is_suspended => Phase::Suspended,
            (None, None) => Phase::Stalled,
            (None, Some(due)) if due <= self.now => Phase::Starts(self.tick(due)),
            (None, Some(due)) => Phase::Waits(due),
        }
    }

    /// Returns when the next run is due after this phase.
    pub(crate) fn next(&self, is_suspended: bool, phase: Phase<'_>) -> Option<Time> {
        match phase {
            _ if is_suspended => None,
            Phase::Starts(time) => Some(time.plus_seconds(self.interval)),
            Phase::Runs(_) => Some(self.regular()),
            Phase::Waits(due) => Some(due),
            Phase::Suspended | Phase::Stalled | Phase::Ended => None,
        }
    }

    /// Returns when the next run is due; none where too many runs failed.
    fn due(&self) -> Option<Time> {
        let regular = self.regular();
        let due = match self.failing {
            None => regular,
            Some(Failing { tries, .. }) if tries >= self.retry.max_tries => return None,
            Some(Failing { at, tries }) => regular.min(at.plus_seconds(delay(&self.retry, tries))),
        };
        // Two runs never have the same time: their Jobs would have the same name.
        Some(self.last.map_or(due, |last| due.max(last.plus_seconds(1))))
    }

    /// Returns when the next run is due that is not a retry.
    fn regular(&self) -> Time {
        let latest = self.now.plus_seconds(self.interval);
        let next = self.last.map(|last| last.plus_seconds(self.interval));
        match next {
            Some(next) if !self.is_ahead || next > self.now => next,
            None if !self.is_ahead => self.created.min(self.now),
            // The clock was set back, so it is unknown how long ago the last run was: another interval passes first.
            _ => self.announced.filter(|announced| *announced <= latest).unwrap_or(latest),
        }
    }

    /// Returns the scheduled time of a run that begins now: the latest tick, however many were missed.
    fn tick(&self, due: Time) -> Time {
        due.plus_seconds(self.now.seconds_since(due) / self.interval * self.interval)
    }

    /// Returns the number of the try that a run beginning now would be.
    pub(crate) fn next_try(&self) -> i64 {
        self.failing.map_or(0, |failing| failing.tries).saturating_add(1)
    }
}

/// Returns the failure of the last run, read from its Job or, where the Job is gone, from the status. A change of the
/// spec resets the number of tries.
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

/// Returns the delay before the next try, in seconds, after so many failed ones; zero after a change of the spec.
fn delay(retry: &Retry, tries: i64) -> i64 {
    if tries <= 0 {
        return 0;
    }
    // 2^25 seconds are more than the largest maximum delay, a year, and the product does not overflow.
    let doublings = u32::try_from(tries - 1).unwrap_or(u32::MAX).min(25);
    retry.base_delay_seconds.saturating_mul(1 << doublings).min(retry.max_delay_seconds)
}
