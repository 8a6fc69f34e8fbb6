//! Limits Events and log lines over time. There is a limit for each call as well, but a plugin can make the host call
//! it as often as it likes.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;

/// The time between two reports of dropped output.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// A token bucket of one plugin's output.
pub struct OutputLimit {
    bucket: DefaultDirectRateLimiter,
    dropped: Mutex<Dropped>,
}

#[derive(Default)]
struct Dropped {
    unreported: u64,
    reported: Option<Instant>,
}

impl OutputLimit {
    /// Creates a limit of `per_second`, with a burst.
    pub fn new(per_second: u32, burst: u32) -> Self {
        let cells = |amount: u32| NonZeroU32::new(amount).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_second(cells(per_second)).allow_burst(cells(burst));
        Self { bucket: RateLimiter::direct(quota), dropped: Mutex::default() }
    }

    /// Returns whether this amount may be written now.
    pub fn allows(&self, amount: usize) -> bool {
        match NonZeroU32::new(u32::try_from(amount).unwrap_or(u32::MAX)) {
            None => true,
            Some(amount) => matches!(self.bucket.check_n(amount), Ok(Ok(()))),
        }
    }

    /// Records that this amount was dropped. Returns the sum since the last report, if a report is due.
    pub fn dropped(&self, amount: u64, now: Instant) -> Option<u64> {
        let mut dropped = self.dropped.lock();
        dropped.unreported += amount;
        if dropped.reported.is_some_and(|reported| now.saturating_duration_since(reported) < REPORT_INTERVAL) {
            return None;
        }
        dropped.reported = Some(now);
        Some(std::mem::take(&mut dropped.unreported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_taken_and_no_more_before_time_has_passed() {
        let limit = OutputLimit::new(1, 200);
        assert_eq!((0..300).filter(|_| limit.allows(1)).count(), 200);
        let bytes = OutputLimit::new(1, 1_000);
        assert!(bytes.allows(900) && !bytes.allows(200) && bytes.allows(90) && bytes.allows(0));
        assert!(!bytes.allows(usize::MAX), "more than ever fits");
    }

    #[test]
    fn of_a_flood_of_log_lines_a_mebibyte_is_written_at_once() {
        use crate::model::limits::{LOG_LINE, LOGGED_AT_ONCE, LOGGED_PER_SECOND};
        let lines = OutputLimit::new(LOGGED_PER_SECOND, LOGGED_AT_ONCE);
        let written = (0..1_000).filter(|_| lines.allows(LOG_LINE)).count();
        assert!((128..200).contains(&written), "{written}");
    }

    #[test]
    fn dropped_lines_are_reported_at_once_and_then_summed_up() {
        let (limit, start) = (OutputLimit::new(1, 1), Instant::now());
        assert_eq!(limit.dropped(1, start), Some(1));
        assert!((1..=98).all(|_| limit.dropped(1, start + REPORT_INTERVAL / 2).is_none()));
        assert_eq!(limit.dropped(2, start + REPORT_INTERVAL), Some(100));
    }
}
