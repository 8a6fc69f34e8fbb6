//! How often a plugin may write and delete: before every write of its own, whatever the cause.
//!
//! Who is too fast waits, and holds up no other plugin: the wait is before the turn among all
//! writes of the process.

use std::num::NonZeroU32;
use std::sync::Arc;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use crate::metrics::Metrics;
use crate::plugin::limits::Limits;

/// The pace of one plugin.
pub struct Pace {
    plugin: Arc<str>,
    metrics: Arc<Metrics>,
    writes: DefaultDirectRateLimiter,
    deletions: DefaultDirectRateLimiter,
}

impl Pace {
    /// Within the limits of a plugin. After a rest, the writes of one second may come at once.
    pub fn new(plugin: &Arc<str>, limits: &Limits, metrics: Arc<Metrics>) -> Self {
        let limiter = |per_second: u32| {
            let per_second = NonZeroU32::new(per_second).unwrap_or(NonZeroU32::MIN);
            RateLimiter::direct(Quota::per_second(per_second))
        };
        Self {
            plugin: plugin.clone(),
            metrics,
            writes: limiter(limits.writes_per_second),
            deletions: limiter(limits.deletions_per_second),
        }
    }

    /// Waits for the turn of a write.
    pub async fn write(&self) {
        self.wait(&self.writes).await;
    }

    /// Waits for the turn of a deletion, which is a write too.
    pub async fn delete(&self) {
        self.wait(&self.deletions).await;
        self.wait(&self.writes).await;
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
        assert!(pace.deletions.check().is_err());
    }
}
