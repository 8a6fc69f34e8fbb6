//! How often a plugin may write, delete and have something read: before every write of its own, whatever the cause,
//! before each of the host's condition on its parents, and before each object that it asks for by name.
//!
//! Who is too fast waits, and holds up no other plugin: the wait is before the turn among all
//! writes of the process, in which plugins take turns.

use std::num::NonZeroU32;
use std::sync::Arc;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::RwLock;
use tokio::sync::Mutex;

use crate::telemetry::metrics::Metrics;
use hotshoe_core::model::limits::Limits;

/// So many may come at once after a rest.
const AT_ONCE: u32 = 100;

/// The pace of one plugin.
pub struct Pace {
    plugin: Arc<str>,
    metrics: Arc<Metrics>,
    lanes: RwLock<Arc<Lanes>>,
}

/// Reads and the two kinds of writes, each with the limit that holds for it.
struct Lanes {
    limits: [u32; 3],
    reads: Lane,
    writes: Lane,
    deletions: Lane,
}

struct Lane {
    limiter: DefaultDirectRateLimiter,
    /// Held by the first of those that wait. The others sleep behind it: thousands that each looked at the
    /// clock would keep the thread busy that serves all plugins.
    first: Mutex<()>,
}

impl Lane {
    fn new(per_second: u32) -> Self {
        let per_second = NonZeroU32::new(per_second).unwrap_or(NonZeroU32::MIN);
        let at_once = NonZeroU32::new(AT_ONCE).map_or(per_second, |most| most.min(per_second));
        let limiter = RateLimiter::direct(Quota::per_second(per_second).allow_burst(at_once));
        Self { limiter, first: Mutex::default() }
    }
}

impl Lanes {
    fn new(limits: &Limits) -> Self {
        let limits = of(limits);
        let [reads, writes, deletions] = limits.map(Lane::new);
        Self { limits, reads, writes, deletions }
    }
}

/// Reads, writes and deletions in a second.
fn of(limits: &Limits) -> [u32; 3] {
    [limits.reads_per_second, limits.writes_per_second, limits.deletions_per_second]
}

impl Pace {
    /// Within the limits of a plugin.
    pub fn new(plugin: &Arc<str>, limits: &Limits, metrics: Arc<Metrics>) -> Self {
        Self { plugin: plugin.clone(), metrics, lanes: RwLock::new(Arc::new(Lanes::new(limits))) }
    }

    /// Other limits from now on. Equal ones change nothing, or each change of `plugin.yaml` would let
    /// the writes of another second come at once.
    pub fn set(&self, limits: &Limits) {
        let mut lanes = self.lanes.write();
        if lanes.limits != of(limits) {
            *lanes = Arc::new(Lanes::new(limits));
        }
    }

    /// Waits for the turn of an object that the plugin asks for by name.
    pub async fn read(&self) {
        self.wait(&self.lanes().reads, Metrics::delayed_read).await;
    }

    /// Waits for the turn of a write.
    pub async fn write(&self) {
        self.wait(&self.lanes().writes, Metrics::delayed_write).await;
    }

    /// Waits for the turn of a deletion, which is a write too.
    pub async fn delete(&self) {
        let lanes = self.lanes();
        self.wait(&lanes.deletions, Metrics::delayed_write).await;
        self.wait(&lanes.writes, Metrics::delayed_write).await;
    }

    fn lanes(&self) -> Arc<Lanes> {
        self.lanes.read().clone()
    }

    async fn wait(&self, lane: &Lane, count: fn(&Metrics, &str)) {
        if let Ok(_first) = lane.first.try_lock()
            && lane.limiter.check().is_ok()
        {
            return;
        }
        count(&self.metrics, &self.plugin);
        let _first = lane.first.lock().await;
        while let Err(early) = lane.limiter.check() {
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
    async fn what_is_read_has_a_pace_of_its_own() {
        let pace = pace(&Limits { reads_per_second: 20, ..Limits::default() });
        for _ in 0..25 {
            pace.read().await;
            pace.write().await;
        }
        let metrics = pace.metrics.encode();
        assert!(metrics.contains("hotshoe_plugin_reads_delayed_total{controller=\"memcached\"} 5"), "{metrics}");
        assert!(!metrics.contains("hotshoe_plugin_writes_delayed_total{"), "{metrics}");
    }

    #[tokio::test]
    async fn who_waits_is_served_in_order_and_counted_once() {
        let pace = pace(&Limits { writes_per_second: 20, ..Limits::default() });
        let order = std::sync::Mutex::new(Vec::new());
        let write = |n: u32| {
            let (pace, order) = (&pace, &order);
            async move {
                pace.write().await;
                order.lock().unwrap().push(n);
            }
        };
        futures::future::join_all((0..25).map(write)).await;
        assert_eq!(order.into_inner().unwrap(), (0..25).collect::<Vec<_>>());
        assert!(pace.metrics.encode().contains("hotshoe_plugin_writes_delayed_total{controller=\"memcached\"} 5"));
    }

    #[tokio::test]
    async fn a_limit_of_nothing_is_one_a_second() {
        let pace = pace(&Limits { deletions_per_second: 0, ..Limits::default() });
        pace.delete().await;
        assert!(pace.lanes().deletions.limiter.check().is_err());
    }

    #[tokio::test]
    async fn other_limits_hold_from_the_next_write_and_equal_ones_give_nothing() {
        let slow = Limits { deletions_per_second: 1, ..Limits::default() };
        let pace = pace(&slow);
        pace.delete().await;
        pace.set(&slow);
        assert!(pace.lanes().deletions.limiter.check().is_err());
        pace.set(&Limits { deletions_per_second: 2, ..slow });
        assert!(pace.lanes().deletions.limiter.check().is_ok());
    }
}
