//! Limits how often a plugin may write, delete and read. The limits apply to every write on its behalf, to each write
//! of the host's condition on its parents, and to each read of an object that the plugin asks for by name.
//!
//! A plugin that is too fast has to wait, without delaying other plugins: it waits before it takes one of the places
//! for writes in flight. The namespaces of a plugin take turns, so that hundreds of deletions in one
//! do not delay the writes in another. A large write costs [more](hotshoe_core::flow::write_cost) than a small one.

use std::num::NonZeroU32;
use std::sync::Arc;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::RwLock;
use prometheus_client::metrics::counter::Counter;

use crate::fair_semaphore::FairSemaphore;
use hotshoe_core::model::limits::Limits;

/// The largest burst, in tokens.
const MAX_BURST: u32 = 100;

const ONE: NonZeroU32 = NonZeroU32::MIN;

/// Counts what the rate limits of a plugin delay. A clone counts together with the original.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    /// Reads of objects by name.
    pub reads: Counter,
    /// Writes and deletions.
    pub writes: Counter,
}

/// The rate limits of one plugin.
pub struct RateLimit {
    delays: Delays,
    limiters: RwLock<Arc<Limiters>>,
}

/// The limiters for reads, writes and deletions.
struct Limiters {
    limits: [u32; 3],
    reads: Limiter,
    writes: Limiter,
    deletions: Limiter,
}

struct Limiter {
    governor: DefaultDirectRateLimiter,
    /// The largest burst, in tokens.
    burst: NonZeroU32,
    /// Taken by the first waiter; the others queue behind it. With `until_ready`, each of thousands of waiters would
    /// check the clock, and keep the thread busy that serves all plugins. Objects without a namespace form one group.
    first: Arc<FairSemaphore<Option<Arc<str>>>>,
}

impl Limiter {
    fn new(per_second: u32) -> Self {
        let per_second = NonZeroU32::new(per_second).unwrap_or(NonZeroU32::MIN);
        let burst = NonZeroU32::new(MAX_BURST).map_or(per_second, |most| most.min(per_second));
        let governor = RateLimiter::direct(Quota::per_second(per_second).allow_burst(burst));
        Self { governor, burst, first: FairSemaphore::new(1, 0) }
    }

    /// Takes tokens if enough are available.
    fn take(&self, tokens: NonZeroU32) -> bool {
        matches!(self.governor.check_n(tokens), Ok(Ok(())))
    }

    /// Takes tokens one burst after another, because a write may cost more than the largest burst.
    async fn wait_for(&self, tokens: NonZeroU32) {
        let mut left = tokens.get();
        while let Some(part) = NonZeroU32::new(left.min(self.burst.get())) {
            match self.governor.check_n(part) {
                Ok(Err(early)) => tokio::time::sleep(early.wait_time_from(DefaultClock::default().now())).await,
                // No part is larger than a burst.
                Ok(Ok(())) | Err(_) => left -= part.get(),
            }
        }
    }
}

impl Limiters {
    fn new(limits: &Limits) -> Self {
        let limits = per_second(limits);
        let [reads, writes, deletions] = limits.map(Limiter::new);
        Self { limits, reads, writes, deletions }
    }
}

/// Returns the reads, writes and deletions per second.
fn per_second(limits: &Limits) -> [u32; 3] {
    [limits.reads_per_second, limits.writes_per_second, limits.deletions_per_second]
}

impl RateLimit {
    /// Creates the rate limits of a plugin.
    pub fn new(limits: &Limits, delays: Delays) -> Self {
        Self { delays, limiters: RwLock::new(Arc::new(Limiters::new(limits))) }
    }

    /// Replaces the limits. Equal limits change nothing; otherwise each change of `plugin.yaml` would allow another
    /// burst.
    pub fn set(&self, limits: &Limits) {
        let mut limiters = self.limiters.write();
        if limiters.limits != per_second(limits) {
            *limiters = Arc::new(Limiters::new(limits));
        }
    }

    /// Waits until the plugin may read one more object by name, for a parent in this namespace.
    pub async fn read(&self, namespace: Option<&Arc<str>>) {
        self.wait(&self.limiters().reads, namespace, ONE, &self.delays.reads).await;
    }

    /// Waits until the plugin may make a write of this [cost](hotshoe_core::flow::write_cost), in tokens, in a namespace.
    pub async fn write(&self, namespace: Option<&Arc<str>>, cost: NonZeroU32) {
        self.wait(&self.limiters().writes, namespace, cost, &self.delays.writes).await;
    }

    /// Waits until the plugin may delete once more in a namespace; a deletion counts as a write, too.
    pub async fn delete(&self, namespace: Option<&Arc<str>>) {
        let limiters = self.limiters();
        self.wait(&limiters.deletions, namespace, ONE, &self.delays.writes).await;
        self.wait(&limiters.writes, namespace, ONE, &self.delays.writes).await;
    }

    fn limiters(&self) -> Arc<Limiters> {
        self.limiters.read().clone()
    }

    async fn wait(&self, limiter: &Limiter, namespace: Option<&Arc<str>>, tokens: NonZeroU32, delayed: &Counter) {
        let namespace = &namespace.cloned();
        if let Some(_first) = limiter.first.try_acquire(namespace)
            && limiter.take(tokens)
        {
            return;
        }
        delayed.inc();
        let _first = limiter.first.acquire(namespace).await;
        limiter.wait_for(tokens).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::{Either, join_all, select};

    use super::*;
    use hotshoe_core::flow::write_cost::tokens;
    use hotshoe_core::model::limits::FIELDS_PER_TOKEN;

    fn limit(limits: &Limits) -> RateLimit {
        RateLimit::new(limits, Delays::default())
    }

    #[tokio::test]
    async fn deletions_are_slower_than_other_writes() {
        let limit = limit(&Limits { writes_per_second: 1_000, deletions_per_second: 20, ..Limits::default() });
        let start = std::time::Instant::now();
        for _ in 0..50 {
            limit.write(None, ONE).await;
        }
        for _ in 0..25 {
            limit.delete(None).await;
        }
        // 20 at once, and each of 5 more after a twentieth of a second.
        assert!(start.elapsed().as_millis() >= 200, "{:?}", start.elapsed());
        assert_eq!(limit.delays.writes.get(), 5);
    }

    #[tokio::test]
    async fn a_write_that_costs_more_than_the_largest_burst_still_goes_through() {
        let limit = limit(&Limits { writes_per_second: 100, ..Limits::default() });
        let start = std::time::Instant::now();
        // 1 and 119 for its fields.
        limit.write(None, tokens(0, 119 * FIELDS_PER_TOKEN)).await;
        let took = start.elapsed().as_millis();
        // 100 at once, and 20 more after a fifth of a second.
        assert!((200..2_000).contains(&took), "{took} ms");
        limit.write(None, ONE).await;
        assert_eq!(limit.delays.writes.get(), 2);
    }

    #[tokio::test]
    async fn a_large_write_delays_no_other_plugin() {
        let slow = Limits { writes_per_second: 1, ..Limits::default() };
        let (large, other) = (limit(&slow), limit(&slow));
        let mut waiting = Box::pin(large.write(None, tokens(1 << 20, 10_000)));
        assert!(futures::FutureExt::now_or_never(&mut waiting).is_none());
        assert!(futures::FutureExt::now_or_never(Box::pin(other.write(None, ONE))).is_some());
    }

    #[tokio::test]
    async fn reads_have_a_limit_of_their_own() {
        let limit = limit(&Limits { reads_per_second: 20, ..Limits::default() });
        for _ in 0..25 {
            limit.read(None).await;
            limit.write(None, ONE).await;
        }
        assert_eq!((limit.delays.reads.get(), limit.delays.writes.get()), (5, 0));
    }

    #[tokio::test]
    async fn waiters_are_served_in_order_and_counted_once() {
        let limit = limit(&Limits { writes_per_second: 20, ..Limits::default() });
        let order = std::sync::Mutex::new(Vec::new());
        let write = |n: u32| {
            let (limit, order) = (&limit, &order);
            async move {
                limit.write(None, ONE).await;
                order.lock().unwrap().push(n);
            }
        };
        futures::future::join_all((0..25).map(write)).await;
        assert_eq!(order.into_inner().unwrap(), (0..25).collect::<Vec<_>>());
        assert_eq!(limit.delays.writes.get(), 5);
    }

    #[tokio::test]
    async fn hundreds_of_deletions_in_one_namespace_delay_a_write_and_a_deletion_in_another_by_one_turn() {
        let limit = limit(&Limits { deletions_per_second: 10, ..Limits::default() });
        let [busy, quiet] = ["busy", "quiet"].map(Arc::<str>::from);
        let deleted = AtomicU32::new(0);
        let deletions = join_all((0..500).map(|_| async {
            limit.delete(Some(&busy)).await;
            deleted.fetch_add(1, Ordering::Relaxed);
        }));
        let late = async {
            tokio::task::yield_now().await;
            limit.delete(Some(&quiet)).await;
            limit.write(Some(&quiet), ONE).await;
            deleted.load(Ordering::Relaxed)
        };
        let late = std::pin::pin!(late);
        let Either::Right((deleted, _)) = select(deletions, late).await else { panic!("the quiet namespace was last") };
        // A burst of 10, and the one whose turn it was.
        assert!(deleted <= 12, "{deleted}");
    }

    #[tokio::test]
    async fn a_limit_of_zero_is_one_per_second() {
        let limit = limit(&Limits { deletions_per_second: 0, ..Limits::default() });
        limit.delete(None).await;
        assert!(limit.limiters().deletions.governor.check().is_err());
    }

    #[tokio::test]
    async fn changed_limits_apply_from_the_next_write_and_equal_ones_add_no_burst() {
        let slow = Limits { deletions_per_second: 1, ..Limits::default() };
        let limit = limit(&slow);
        limit.delete(None).await;
        limit.set(&slow);
        assert!(limit.limiters().deletions.governor.check().is_err());
        limit.set(&Limits { deletions_per_second: 2, ..slow });
        assert!(limit.limiters().deletions.governor.check().is_ok());
    }
}
