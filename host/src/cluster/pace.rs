//! How often a plugin may write and delete: before every write of its own, whatever the cause.
//!
//! Who is too fast waits, and holds up no other plugin: the wait is before the turn among all
//! writes of the process.

use std::num::NonZeroU32;
use std::sync::{Arc, PoisonError, RwLock};

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use crate::metrics::Metrics;
use crate::plugin::limits::Limits;

/// The pace of one plugin.
pub struct Pace {
    plugin: Arc<str>,
    metrics: Arc<Metrics>,
    lanes: RwLock<Arc<Lanes>>,
}

/// The two kinds of writes, each with the limit that holds for it.
struct Lanes {
    limits: (u32, u32),
    writes: DefaultDirectRateLimiter,
    deletions: DefaultDirectRateLimiter,
}

impl Lanes {
    fn new(limits: &Limits) -> Self {
        let limiter = |per_second: u32| {
            let per_second = NonZeroU32::new(per_second).unwrap_or(NonZeroU32::MIN);
            RateLimiter::direct(Quota::per_second(per_second))
        };
        let limits = of(limits);
        Self { limits, writes: limiter(limits.0), deletions: limiter(limits.1) }
    }
}

/// Writes and deletions in a second.
fn of(limits: &Limits) -> (u32, u32) {
    (limits.writes_per_second, limits.deletions_per_second)
}

impl Pace {
    /// Within the limits of a plugin. After a rest, the writes of one second may come at once.
    pub fn new(plugin: &Arc<str>, limits: &Limits, metrics: Arc<Metrics>) -> Self {
        Self { plugin: plugin.clone(), metrics, lanes: RwLock::new(Arc::new(Lanes::new(limits))) }
    }

    /// Other limits from now on. Equal ones change nothing, or each change of `plugin.yaml` would let
    /// the writes of another second come at once.
    pub fn set(&self, limits: &Limits) {
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        if lanes.limits != of(limits) {
            *lanes = Arc::new(Lanes::new(limits));
        }
    }

    /// Waits for the turn of a write.
    pub async fn write(&self) {
        self.wait(&self.lanes().writes).await;
    }

    /// Waits for the turn of a deletion, which is a write too.
    pub async fn delete(&self) {
        let lanes = self.lanes();
        self.wait(&lanes.deletions).await;
        self.wait(&lanes.writes).await;
    }

    fn lanes(&self) -> Arc<Lanes> {
        self.lanes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn wait(&self, limiter: &DefaultDirectRateLimiter) {
        let mut waited = false;
        while let Err(early) = limiter.check() {
            if !waited {
                self.metrics.delayed(&self.plugin);
            }
            waited = true;
            tokio::time::sleep(early.wait_time_from(DefaultClock::default().now())).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(limits: &Limits) -> Pace {
        Pace::new(&"memcached".into(), limits, Arc::default())
    }

    #[tokio::test]
    async fn deletions_are_slower_than_other_writes() {
        let pace = pace(&Limits { writes_per_second: 1_000, deletions_per_second: 20, ..Limits::default() });
        let start = std::time::Instant::now();
        for _ in 0..50 {
            pace.write().await;
        }
        for _ in 0..25 {
            pace.delete().await;
        }
        // 20 at once, and each of 5 more after a twentieth of a second.
        assert!(start.elapsed().as_millis() >= 200, "{:?}", start.elapsed());
        assert!(pace.metrics.encode().contains("hotshoe_plugin_writes_delayed_total{controller=\"memcached\"} 5"));
    }

    #[tokio::test]
    async fn a_limit_of_nothing_is_one_a_second() {
        let pace = pace(&Limits { deletions_per_second: 0, ..Limits::default() });
        pace.delete().await;
        assert!(pace.lanes().deletions.check().is_err());
    }

    #[tokio::test]
    async fn other_limits_hold_from_the_next_write_and_equal_ones_give_nothing() {
        let slow = Limits { deletions_per_second: 1, ..Limits::default() };
        let pace = pace(&slow);
        pace.delete().await;
        pace.set(&slow);
        assert!(pace.lanes().deletions.check().is_err());
        pace.set(&Limits { deletions_per_second: 2, ..slow });
        assert!(pace.lanes().deletions.check().is_ok());
    }
}
