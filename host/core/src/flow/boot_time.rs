//! Times by a clock that goes on while the machine sleeps. `Instant` stands still then, so a host that was suspended
//! with its machine would believe that it still holds what another host has taken long ago.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A time since the start of the machine, sleep included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(Duration);

impl BootTime {
    /// Creates the time that is this long after the start of the machine.
    pub const fn at(since_boot: Duration) -> Self {
        Self(since_boot)
    }

    /// Returns the time since an earlier one; zero if that is later.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the time since an earlier one; `None` if that is later.
    pub fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        self.0.checked_sub(earlier.0)
    }
}

/// Saturates, so that no duration from outside can cause a panic.
impl Add<Duration> for BootTime {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl AddAssign<Duration> for BootTime {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

/// Saturates as well.
impl Sub<Duration> for BootTime {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_duration_is_added_without_a_panic() {
        let (start, second) = (BootTime::at(Duration::from_secs(5)), Duration::from_secs(1));
        let far = start + Duration::MAX;
        assert!(far > start && far + second == far);
        assert_eq!(start.saturating_duration_since(far), Duration::ZERO);
        assert_eq!((start + second).checked_duration_since(start), Some(second));
    }
}
