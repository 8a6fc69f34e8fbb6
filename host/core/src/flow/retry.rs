//! When, and how often, a parent is tried again whose reconcile failed: `spec.retry` of a `plugin.yaml`. Pure.
//!
//! `baseDelay` and `maxDelay` are named as in controller-runtime's rate limiter; kopf has `backoff` and `retries`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::flow::backoff::doubled;
use crate::model::quantity::Span;

/// The default delay before the second try.
pub const BASE_DELAY: Span = Span::millis(1_000);
/// The default of the longest delay between two tries.
pub const MAX_DELAY: Span = Span::millis(300_000);
/// The shortest delay that can be given. A shorter one would make a busy loop.
const LEAST_DELAY: Span = Span::millis(100);
/// The longest delay that can be given. A delay that a plugin or the API server asks for is cut to it as well.
pub const LONGEST_DELAY: Span = Span::millis(3_600_000);
/// The factor of the delay after an error that only a user is likely to fix.
const SLOW_FACTOR: u32 = 10;

/// When a parent is tried again whose reconcile failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The delay before the second try; it doubles before each later one.
    pub base_delay: Duration,
    /// The longest delay.
    pub max_delay: Duration,
    /// The number of tries after which the parent is stalled; unlimited where none is given.
    pub max_tries: Option<u32>,
}

/// `spec.retry` of a `plugin.yaml`: what differs from the defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RetryOverrides {
    /// Before the second try, for example `1s`; twice as long before each later one.
    pub base_delay: Option<Span>,
    /// The longest that it grows to, for example `5m`.
    pub max_delay: Option<Span>,
    /// How many tries there are before the parent is stalled. Unlimited unless given otherwise.
    #[schemars(range(min = 1))]
    pub max_tries: Option<u32>,
}

/// A retry policy that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are parts of the message")]
pub enum RetryError {
    /// The delay would make a busy loop.
    #[error(
        "retry.{name} is {given}, but at least {LEAST_DELAY} must be given; raise it, or leave it out for the default"
    )]
    TooShort { name: &'static str, given: Span },
    /// The delay is so long that retries would seem to have ended.
    #[error(
        "retry.{name} is {given}, but at most {LONGEST_DELAY} can be given; lower it, or leave it out for the default"
    )]
    TooLong { name: &'static str, given: Span },
    /// The longest delay is shorter than the first one.
    #[error("retry.maxDelay is {max}, less than retry.baseDelay, which is {base}; raise the one, or lower the other")]
    Shrinks { base: Span, max: Span },
    /// The parent would not be tried at all.
    #[error(
        "retry.maxTries is 0, but the first decision is a try, too; give at least 1, or leave it out to try without an end"
    )]
    NoTry,
}

impl RetryPolicy {
    /// Returns the defaults with these overrides.
    ///
    /// # Errors
    /// Where an override is out of bounds, or two contradict each other.
    pub fn with(wanted: &RetryOverrides) -> Result<Self, RetryError> {
        let base = within("baseDelay", wanted.base_delay)?.unwrap_or(BASE_DELAY);
        let max = within("maxDelay", wanted.max_delay)?.unwrap_or(MAX_DELAY.max(base));
        if max < base {
            return Err(RetryError::Shrinks { base, max });
        }
        if wanted.max_tries == Some(0) {
            return Err(RetryError::NoTry);
        }
        Ok(Self { base_delay: base.0, max_delay: max.0, max_tries: wanted.max_tries })
    }

    /// Returns the delay before the next try, after this many tries.
    pub fn delay(&self, tries: u32) -> Duration {
        doubled(self.base_delay, tries.saturating_sub(1), self.max_delay)
    }

    /// Returns the delay before the next try after an error that only a user is likely to fix.
    pub fn slow_delay(&self, tries: u32) -> Duration {
        doubled(SLOW_FACTOR * self.base_delay, tries.saturating_sub(1), self.max_delay)
    }

    /// Returns whether no try is left after this many.
    pub fn is_exhausted(&self, tries: u32) -> bool {
        self.max_tries.is_some_and(|most| tries >= most)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { base_delay: BASE_DELAY.0, max_delay: MAX_DELAY.0, max_tries: None }
    }
}

fn within(name: &'static str, delay: Option<Span>) -> Result<Option<Span>, RetryError> {
    match delay {
        Some(given) if given < LEAST_DELAY => Err(RetryError::TooShort { name, given }),
        Some(given) if given > LONGEST_DELAY => Err(RetryError::TooLong { name, given }),
        delay => Ok(delay),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn overrides(base: Option<u64>, max: Option<u64>, max_tries: Option<u32>) -> RetryOverrides {
        RetryOverrides { base_delay: base.map(Span::millis), max_delay: max.map(Span::millis), max_tries }
    }

    fn seconds(policy: &RetryPolicy, tries: &[u32]) -> Vec<u64> {
        tries.iter().map(|tries| policy.delay(*tries).as_secs()).collect()
    }

    #[test]
    fn by_default_the_delay_doubles_from_a_second_to_five_minutes_and_tries_are_unlimited() {
        let policy = RetryPolicy::with(&RetryOverrides::default()).unwrap();
        assert_eq!(policy, RetryPolicy::default());
        assert_eq!(seconds(&policy, &[0, 1, 2, 3, 9, 10, u32::MAX]), [1, 1, 2, 4, 256, 300, 300]);
        assert_eq!(policy.slow_delay(1), Duration::from_secs(10));
        assert_eq!(policy.slow_delay(u32::MAX), Duration::from_secs(300));
        assert!(!policy.is_exhausted(u32::MAX));
    }

    #[test]
    fn tries_are_exhausted_after_the_number_that_is_given() {
        let policy = RetryPolicy::with(&overrides(None, None, Some(3))).unwrap();
        assert_eq!([1, 2, 3, 4].map(|tries| policy.is_exhausted(tries)), [false, false, true, true]);
    }

    #[test]
    fn a_long_base_delay_moves_the_default_of_the_longest() {
        let policy = RetryPolicy::with(&overrides(Some(600_000), None, None)).unwrap();
        assert_eq!(seconds(&policy, &[1, 2, 100]), [600, 600, 600]);
    }

    #[test]
    fn an_impossible_value_is_refused_with_a_message_that_names_it() {
        for (wanted, says) in [
            (overrides(Some(0), None, None), "retry.baseDelay is 0ms, but at least 100ms"),
            (overrides(None, Some(99), None), "retry.maxDelay is 99ms, but at least 100ms"),
            (overrides(Some(3_600_001), None, None), "retry.baseDelay is 3600001ms, but at most 3600s"),
            (overrides(None, Some(7_200_000), None), "retry.maxDelay is 7200s, but at most 3600s"),
            (overrides(Some(5_000), Some(1_000), None), "retry.maxDelay is 1s, less than retry.baseDelay, which is 5s"),
            (overrides(None, None, Some(0)), "retry.maxTries is 0"),
        ] {
            let error = RetryPolicy::with(&wanted).unwrap_err().to_string();
            assert!(error.starts_with(says), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_delay_never_shrinks_and_stays_between_its_bounds(base in 100u64..=3_600_000, more in 0u64..=3_600_000, tries: u32) {
            let max = (base + more).min(3_600_000);
            let policy = RetryPolicy::with(&overrides(Some(base), Some(max), None)).unwrap();
            let bounds = policy.base_delay..=policy.max_delay;
            prop_assert!(bounds.contains(&policy.delay(tries)));
            prop_assert!(bounds.contains(&policy.slow_delay(tries)));
            prop_assert!(policy.delay(tries) <= policy.delay(tries.saturating_add(1)));
            prop_assert!(policy.delay(tries) <= policy.slow_delay(tries));
        }
    }
}
