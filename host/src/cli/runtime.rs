//! How often the host's own thread wakes up. Stands below all that it waits for: replies of the API server, watch
//! events, timers.
//!
//! Beside a busy API server a message costs the host more by the waking, after which nothing of the host is in the
//! processor's caches any more, than by what is done with it. So beyond a burst the thread wakes up only so often a
//! second, and what came meanwhile is taken together: as network cards space their interrupts under load. A few
//! changes never wait, and among many it is for less than a busy API server takes to reply.
//!
//! While a plugin is called nothing waits either: its answer is soon there, and all that its parent lacks.

use std::io;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::runtime::{Builder, Runtime};

/// Wakings in a second, over time, so that nothing waits for more than 4 ms. 1,000 new Memcached woke the thread
/// 10,000 times before, and with this bound less than 5,000 times; they took a fifth less of the processor, and no
/// longer. 400 a second saved next to nothing.
const PER_SECOND: u32 = 250;
/// After a rest: as many as five new Memcached take.
const AT_ONCE: u32 = 50;

/// Counts the wakings.
struct Wakings<C: Clock>(RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<C::Instant>>);

impl<C: Clock> Wakings<C> {
    fn new(clock: C) -> Self {
        let wakings = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_second(wakings(PER_SECOND)).allow_burst(wakings(AT_ONCE));
        Self(RateLimiter::direct_with_clock(quota, clock))
    }

    /// Counts one more, or says how soon it may come.
    fn count(&self) -> Result<(), Duration> {
        self.0.check().map_err(|soon| soon.wait_time_from(self.0.clock().now()))
    }
}

/// A runtime of one thread that wakes up so often and no more, but for answers of plugins, while `is_called`. It
/// rests where it would wait in any case: no task is ready then.
///
/// # Errors
/// When the operating system refuses.
pub fn runtime(is_called: impl Fn() -> bool + Send + Sync + 'static) -> io::Result<Runtime> {
    let wakings = Wakings::new(DefaultClock::default());
    let rest = move || {
        if is_called() {
            return;
        }
        while let Err(rest) = wakings.count() {
            std::thread::sleep(rest);
        }
    };
    Builder::new_current_thread().enable_all().on_thread_park(rest).build()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Instant;

    use governor::clock::FakeRelativeClock;
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn a_few_changes_are_never_waited_for_and_of_many_only_so_many_a_second() {
        let clock = FakeRelativeClock::default();
        let wakings = Wakings::new(clock.clone());
        assert!((0..50).all(|_| wakings.count().is_ok()));
        assert_eq!(wakings.count(), Err(Duration::from_millis(4)));
        clock.advance(Duration::from_millis(3));
        assert_eq!(wakings.count(), Err(Duration::from_millis(1)));
        clock.advance(Duration::from_millis(1));
        assert_eq!((wakings.count(), wakings.count()), (Ok(()), Err(Duration::from_millis(4))));
        let counted = (0..1000).filter(|_| {
            clock.advance(Duration::from_millis(1));
            wakings.count().is_ok()
        });
        assert_eq!(counted.count(), 250);
    }

    #[test]
    fn the_thread_rests_between_wakings_beyond_a_burst() {
        const WAKINGS: u32 = 100;
        let waits = Arc::new(AtomicU32::new(0));
        let waiting = waits.clone();
        let not_called = move || {
            waiting.fetch_add(1, Ordering::SeqCst);
            false
        };
        let (send, mut received) = mpsc::unbounded_channel();
        let other = thread::spawn(move || {
            for wakings in 0..WAKINGS {
                // It is woken only when it waits.
                while waits.load(Ordering::SeqCst) <= wakings {
                    thread::yield_now();
                }
                send.send(()).unwrap();
            }
        });
        let began = Instant::now();
        runtime(not_called).unwrap().block_on(async { while received.recv().await.is_some() {} });
        assert!(began.elapsed() >= (WAKINGS - AT_ONCE) * Duration::from_millis(4));
        other.join().unwrap();
    }
}
