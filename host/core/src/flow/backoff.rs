//! Exponential backoff: the delay before a retry doubles each time, up to a bound.

use std::time::Duration;

/// The first delay after a conflict, an overload or a time-out.
pub const SOON: Duration = Duration::from_millis(250);
/// The longest delay after these. It is low so that changes are acted upon soon after an outage.
const SOON_MAX: Duration = Duration::from_secs(2);
/// The longest delay after answers that an overloaded API server gives, too.
const UNDER_LOAD_MAX: Duration = Duration::from_secs(10);
/// The longest delay before a request that stays refused is made again. Once the cause is mended, it is noticed within
/// this time.
const REFUSED_MAX: Duration = Duration::from_secs(60);

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

/// Returns the delay before the next try, after this many in a row that failed as they do under load.
pub fn under_load(tries: u32) -> Duration {
    doubled(SOON, tries.saturating_sub(1), UNDER_LOAD_MAX)
}

/// Returns the delay before the next try, after this many in a row that were refused for a reason that should pass.
pub fn refused(tries: u32) -> Duration {
    doubled(SOON, tries.saturating_sub(1), REFUSED_MAX)
}

/// Returns a delay that `random` makes up to a tenth longer, so that what failed together is not tried again together.
pub fn jittered(delay: Duration, random: u64) -> Duration {
    delay + delay / 1_000 * u32::try_from(random % 101).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_stays_refused_is_made_seldom_and_its_end_is_noticed_within_a_minute() {
        let tries_within = |limit: u64, delay: fn(u32) -> Duration| {
            let mut at = Duration::ZERO;
            (1..).take_while(|tries| (at, at += delay(*tries)).0 < Duration::from_secs(limit)).count()
        };
        assert_eq!((tries_within(120, refused), tries_within(120, under_load), tries_within(120, soon)), (9, 17, 63));
        assert_eq!(refused(u32::MAX), Duration::from_secs(60));
        assert_eq!(under_load(u32::MAX), Duration::from_secs(10));
    }

    #[test]
    fn jitter_makes_a_delay_at_most_a_tenth_longer() {
        let second = Duration::from_secs(1);
        assert_eq!(jittered(second, 0), second);
        assert_eq!(jittered(second, 100), Duration::from_millis(1_100));
        assert!((0..1_000).all(|random| jittered(second, random) <= Duration::from_millis(1_100)));
    }

    #[test]
    fn delays_after_transient_failures_grow_but_stay_short() {
        assert_eq!((soon(0), soon(1), soon(2), soon(3)), (SOON, SOON, 2 * SOON, 4 * SOON));
        assert_eq!(soon(u32::MAX), SOON_MAX);
    }
}
