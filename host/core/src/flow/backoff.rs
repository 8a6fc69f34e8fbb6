//! How long until what failed is tried again: twice as long each time, up to a bound.

use std::time::Duration;

/// After a conflict, an overload or a time-out.
pub const SOON: Duration = Duration::from_millis(250);
/// Low, because what counts after an outage is how soon changes are acted upon.
const SOON_MAX: Duration = Duration::from_secs(2);

/// `first`, doubled so many times, and never more than `most`.
pub fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    // No bound is further away than that, and the product stays a time.
    (first * 2u32.pow(times.min(16))).min(most)
}

/// How long after so many tries in a row that met something passing.
pub fn soon(tries: u32) -> Duration {
    doubled(SOON, tries.saturating_sub(1), SOON_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_after_something_passing_grow_apart_but_stay_close() {
        assert_eq!((soon(0), soon(1), soon(2), soon(3)), (SOON, SOON, 2 * SOON, 4 * SOON));
        assert_eq!(soon(u32::MAX), SOON_MAX);
    }
}
