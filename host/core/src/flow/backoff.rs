//! Exponential backoff: the delay before a retry doubles each time, up to a bound.

use std::time::Duration;

/// The first delay after a conflict, an overload or a time-out.
pub const SOON: Duration = Duration::from_millis(250);
/// The longest delay after these. It is low so that changes are acted upon soon after an outage.
const SOON_MAX: Duration = Duration::from_secs(2);

/// Returns `first` doubled `times` times, but never more than `most`.
pub fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    // Every bound is reached after 16 doublings, and a larger factor would overflow.
    (first * 2u32.pow(times.min(16))).min(most)
}

/// The longest pause: no timer waits for longer.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Limits a pause that comes from outside, so that it can be added to any time.
pub fn within_reach(pause: Duration) -> Duration {
    pause.min(FAR)
}

/// Returns the delay before the next try, after this many tries in a row that failed for a transient reason.
pub fn soon(tries: u32) -> Duration {
    doubled(SOON, tries.saturating_sub(1), SOON_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_after_transient_failures_grow_but_stay_short() {
        assert_eq!((soon(0), soon(1), soon(2), soon(3)), (SOON, SOON, 2 * SOON, 4 * SOON));
        assert_eq!(soon(u32::MAX), SOON_MAX);
    }
}
