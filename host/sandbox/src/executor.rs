//! Runs the calls of plugins, on threads of their own: watches and writes do not wait for them, and plugins share them
//! fairly.
//!
//! Each plugin has a *lane*, a queue of its calls. A lane runs one call at a time and lanes take turns (`lanes.rs`), so
//! a plugin whose calls always use their whole time delays only itself.
//!
//! Quick and slow calls have different threads; those for slow calls have a low priority. A call that turns out to be
//! slow on a thread for quick calls is put off: it is aborted there, and begins again on a thread for slow calls, with
//! its whole time limit. The next calls of its lane begin on these threads, until one of them is quick. While other
//! plugins are called, a slow call runs only for a part of the time. So `THREADS` threads are always left for quick
//! calls, however many plugins are slow.
//!
//! An idle thread ends after a while, and another is started when there is work, because a thread keeps the memory that
//! its calls have touched for as long as it runs. When the last thread ends because it was idle, other memory that only
//! calls need is released as well.
//!
//! The target, measured by `bench hostile`: while plugins loop, trap, flood the log or are hard to compile, the p99
//! latency of the other plugins' decisions is at most 1.2 times the latency without such plugins. Threads that end
//! release up to 9 MB.

use std::cell::{Cell, OnceCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::process::setpriority_process;
use tokio::sync::oneshot;

use hotshoe_core::flow::lanes::{Lane, Lanes, MAX_SLOW_CALLS, Pace};
use hotshoe_core::model::limits::NICENESS;

/// The number of threads for quick calls. Two, so that one plugin cannot occupy all of them. More would only wait for
/// each other in the kernel, which maps and unmaps the memories of instances.
const THREADS: usize = 2;

/// The maximum number of calls that run at the same time, slow ones included.
pub(super) const MAX_CALLS: usize = THREADS + MAX_SLOW_CALLS;

/// The stack of a decision thread, in bytes: as much for the host as for the guest, and some more.
const STACK_BYTES: usize = 2 * hotshoe_core::model::limits::WASM_STACK + 1024 * 1024;

/// A plugin that was called within this time is likely to be called again.
const BUSY_WINDOW: Duration = Duration::from_millis(100);

/// How long a thread waits for work before it ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause before the host tries again to start a thread.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

thread_local! {
    /// The pace and the pool of this thread, if it is a decision thread.
    static DECISION_THREAD: OnceCell<(Pace, Weak<Pool>)> = const { OnceCell::new() };
    /// Whether the call of this thread has turned out to be slow.
    static IS_SLOW: Cell<bool> = const { Cell::new(false) };
}

/// A call. It can be made again, if it was put off.
type Job = Box<dyn FnMut() + Send>;

/// The call was not made: the threads have ended, or its lane was cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopped;

/// A handle to the threads, which end when it is dropped.
pub(super) struct Executor {
    pool: Arc<Pool>,
}

struct Pool {
    queues: Mutex<Queues>,
    /// How long a thread waits for work before it ends.
    idle: Duration,
    /// The number of jobs that have begun.
    begun: AtomicU64,
    /// Called when the last thread has ended, because there was no work for a while.
    on_idle: Box<dyn Fn() + Send + Sync>,
    /// The channel to the thread that starts threads.
    starter: Sender<Pace>,
}

/// Watches whether other plugins are called. As a lane runs one call at a time, a job that begins while a call runs is
/// another plugin's.
pub(super) struct OtherCalls {
    pool: Weak<Pool>,
    known: u64,
    seen: Option<Instant>,
}

impl OtherCalls {
    fn of(pool: &Arc<Pool>) -> Self {
        Self { pool: Arc::downgrade(pool), known: pool.begun.load(Ordering::Relaxed), seen: None }
    }

    /// Returns whether another plugin was called within the last 100 ms. Only correct if this method is called often.
    pub(super) fn are_called(&mut self) -> bool {
        let Some(pool) = self.pool.upgrade() else { return false };
        let begun = pool.begun.load(Ordering::Relaxed);
        if begun != self.known {
            (self.known, self.seen) = (begun, Some(Instant::now()));
        }
        self.seen.is_some_and(|seen| seen.elapsed() < BUSY_WINDOW)
    }
}

/// Wakes a thread when this is dropped, even if the caller of the pushed call has gone by then: the calls behind it in
/// the same lane wake no thread.
struct WakeOnDrop<'a>(&'a Pool, Pace);

impl Drop for WakeOnDrop<'_> {
    fn drop(&mut self) {
        self.0.wake(self.1);
    }
}

#[derive(Default)]
struct Queues {
    lanes: Lanes<Job>,
    quick: Threads,
    slow: Threads,
    stopped: bool,
}

/// The threads for calls of one pace.
#[derive(Default)]
struct Threads {
    /// The number of threads that run or are being started.
    count: usize,
    /// The idle ones. The last one is woken first, because its processor's caches are still warm.
    idle: Vec<Thread>,
}

impl Executor {
    /// Starts the threads. `on_idle` is called whenever the last thread has ended because there was no work for a
    /// while.
    ///
    /// # Errors
    /// If the system starts no threads.
    pub(super) fn start(on_idle: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        Self::with_idle_timeout(IDLE_TIMEOUT, on_idle)
    }

    fn with_idle_timeout(idle: Duration, on_idle: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        let (starter, wanted) = mpsc::channel();
        let pool = Arc::new(Pool {
            queues: Mutex::default(),
            idle,
            begun: AtomicU64::new(0),
            on_idle: Box::new(on_idle),
            starter,
        });
        pool.lock().quick.count = THREADS;
        for _ in 0..THREADS {
            Pool::start(&pool, Pace::Quick)?;
        }
        let started = Arc::downgrade(&pool);
        // Threads are started by a thread of their own, because a thread inherits the priority of its parent.
        thread::Builder::new()
            .name("decide-starter".into())
            .stack_size(64 * 1024)
            .spawn(move || wanted.into_iter().for_each(|pace| start_thread(&started, pace)))?;
        Ok(Self { pool })
    }

    /// Returns a watch over the calls of plugins, for work that should yield to them.
    pub(super) fn others(&self) -> OtherCalls {
        OtherCalls::of(&self.pool)
    }

    /// Returns whether a call runs or waits.
    pub(super) fn is_busy(&self) -> bool {
        !self.pool.lock().lanes.is_empty()
    }

    /// Drops the calls that wait in a lane; their callers get [`Stopped`].
    pub(super) fn clear(&self, lane: &Lane) {
        self.pool.lock().lanes.clear(lane);
    }

    /// Runs `work` when the lane's turn comes, and once more if it was put off. If the future is dropped before `work`
    /// begins, it is skipped; if later, its result is dropped.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        lane: &Lane,
        mut work: impl FnMut() -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (send, receive) = oneshot::channel();
        let mut send = Some(send);
        let job = Box::new(move || {
            if send.as_ref().is_some_and(|send| !send.is_closed()) {
                let done = work();
                if !is_put_off()
                    && let Some(send) = send.take()
                {
                    // The caller may have gone by now.
                    let _ = send.send(done);
                }
            }
        });
        if let Some(wake) = self.pool.push(lane, job) {
            // Lets other tasks that are ready push their calls first, because one wake-up for several calls costs less.
            tokio::task::yield_now().await;
            drop(wake);
        }
        receive.await.map_err(|_| Stopped)
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        let mut queues = self.pool.lock();
        queues.stopped = true;
        queues.lanes.clear_all();
        let Queues { quick, slow, .. } = &mut *queues;
        quick.idle.drain(..).chain(slow.idle.drain(..)).for_each(|thread| thread.unpark());
    }
}

/// Starts a thread, and tries again until that succeeds or the executor is gone.
fn start_thread(pool: &Weak<Pool>, pace: Pace) {
    while let Some(pool) = pool.upgrade() {
        let Err(error) = Pool::start(&pool, pace) else { return };
        tracing::error!(%error, "a thread for plugins cannot be started; it is tried again");
        thread::sleep(RETRY_PAUSE);
    }
}

/// Called by a slow call on its own thread. Returns whether it may go on; otherwise it must end now, and is made again
/// by a thread for slow calls.
pub(super) fn may_be_slow() -> bool {
    IS_SLOW.set(true);
    !is_put_off()
}

/// Returns whether the call of this thread is to be made again by another one.
fn is_put_off() -> bool {
    let is_quick = |thread: &OnceCell<_>| matches!(thread.get(), Some((Pace::Quick, _)));
    IS_SLOW.get() && DECISION_THREAD.with(is_quick)
}

/// Returns a watch over the calls of other plugins, if this is a thread for slow calls, which yield to them.
pub(super) fn others() -> Option<OtherCalls> {
    DECISION_THREAD.with(|thread| match thread.get() {
        Some((Pace::Slow, pool)) => pool.upgrade().map(|pool| OtherCalls::of(&pool)),
        _ => None,
    })
}

impl Pool {
    fn start(pool: &Arc<Self>, pace: Pace) -> io::Result<()> {
        let (pool, name) = (Arc::clone(pool), format!("decide-{pace:?}").to_lowercase());
        let thread = thread::Builder::new().name(name).stack_size(STACK_BYTES);
        thread.spawn(move || pool.work(pace)).map(drop)
    }

    /// Jobs run outside the lock, so a panic cannot leave the queues half changed.
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock()
    }

    /// Queues a job. Returns a pending wake-up only if a lane became ready: a needless wake-up costs more than many a
    /// call.
    fn push(&self, lane: &Lane, job: Job) -> Option<WakeOnDrop<'_>> {
        let mut queues = self.lock();
        (!queues.stopped && queues.lanes.push(lane, job)).then(|| WakeOnDrop(self, lane.pace()))
    }

    /// Lets a thread make the next call of a pace, if there is one.
    fn wake(&self, pace: Pace) {
        let mut queues = self.lock();
        // Another thread may run it already.
        if !queues.lanes.has_turn(pace) {
            return;
        }
        let (threads, most) = queues.threads(pace);
        if let Some(thread) = threads.idle.pop() {
            drop(queues);
            thread.unpark();
        } else if threads.count < most {
            threads.count += 1;
            // Fails only while the host is shutting down.
            let _ = self.starter.send(pace);
        }
    }

    fn work(self: &Arc<Self>, pace: Pace) {
        DECISION_THREAD.with(|thread| drop(thread.set((pace, Arc::downgrade(self)))));
        if pace == Pace::Slow {
            // If that is forbidden, the thread keeps its priority.
            let _ = setpriority_process(None, NICENESS);
        }
        while let Some((lane, mut job)) = self.next(pace) {
            // A panic in the host's own code costs one call and not the thread; its caller gets `Stopped`.
            let _ = catch_unwind(AssertUnwindSafe(&mut job));
            // Drops a job that is done here, and not under the lock.
            let put_off = is_put_off().then_some(job);
            self.end(pace, &lane, put_off);
        }
    }

    /// Ends the call of a thread.
    fn end(&self, made: Pace, lane: &Lane, put_off: Option<Job>) {
        let pace = if IS_SLOW.take() { Pace::Slow } else { Pace::Quick };
        let is_ready = {
            let mut queues = self.lock();
            let put_off = put_off.filter(|_| !queues.stopped);
            queues.lanes.end(lane, pace, put_off)
        };
        // A thread of the same pace serves the lane, or another one, itself.
        if is_ready && pace != made {
            self.wake(pace);
        }
    }

    /// Waits for the next call, quick or slow as the pace says. Returns `None` if the thread should end.
    fn next(&self, pace: Pace) -> Option<(Lane, Job)> {
        let this = thread::current();
        let mut idle_since = None;
        loop {
            {
                let mut queues = self.lock();
                queues.threads(pace).0.idle.retain(|thread| thread.id() != this.id());
                if queues.stopped {
                    return None;
                }
                if let Some(next) = queues.lanes.dispatch(pace) {
                    self.begun.fetch_add(1, Ordering::Relaxed);
                    return Some(next);
                }
                if idle_since.get_or_insert_with(Instant::now).elapsed() >= self.idle {
                    queues.threads(pace).0.count -= 1;
                    let is_last = queues.quick.count + queues.slow.count == 0;
                    drop(queues);
                    if is_last {
                        (self.on_idle)();
                    }
                    return None;
                }
                queues.threads(pace).0.idle.push(this.clone());
            }
            thread::park_timeout(self.idle);
        }
    }
}

impl Queues {
    /// Returns the threads of a pace, and their maximum number.
    fn threads(&mut self, pace: Pace) -> (&mut Threads, usize) {
        match pace {
            Pace::Quick => (&mut self.quick, THREADS),
            Pace::Slow => (&mut self.slow, MAX_SLOW_CALLS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_on_another_thread() {
        let executor = Executor::start(|| ()).unwrap();
        let name = executor.run(&Lane::default(), || std::thread::current().name().map(str::to_owned)).await;
        assert!(name.unwrap().unwrap().starts_with("decide-"));
    }

    #[tokio::test]
    async fn calls_one_after_another_run_on_one_thread() {
        let executor = Executor::start(|| ()).unwrap();
        while executor.pool.lock().quick.idle.len() < THREADS {
            tokio::task::yield_now().await;
        }
        let lane = &Lane::default();
        let first = executor.run(lane, || thread::current().id()).await;
        for _ in 0..100 {
            assert_eq!(executor.run(lane, || thread::current().id()).await, first);
        }
    }

    #[tokio::test]
    async fn an_idle_thread_ends_and_another_is_started_when_there_is_work() {
        let idle_times = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&idle_times);
        let executor = Executor::with_idle_timeout(Duration::ZERO, move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let executor = executor.unwrap();
        for expected in 1..=100 {
            while idle_times.load(Ordering::SeqCst) < expected {
                tokio::task::yield_now().await;
            }
            assert_eq!(executor.run(&Lane::default(), || 7).await, Ok(7));
        }
    }

    #[tokio::test]
    async fn a_call_whose_caller_is_gone_does_not_delay_the_next_ones() {
        let executor = Executor::start(|| ()).unwrap();
        let lane = &Lane::default();
        let (mut first, mut second) = (Box::pin(executor.run(lane, || ())), Box::pin(executor.run(lane, || 7)));
        assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
        drop(first);
        assert_eq!(second.await, Ok(7));
    }

    #[tokio::test]
    async fn a_panic_costs_one_call_and_not_the_thread() {
        let executor = Executor::start(|| ()).unwrap();
        for _ in 0..2 * THREADS {
            assert_eq!(executor.run(&Lane::default(), || panic!("of the host")).await, Err::<(), _>(Stopped));
        }
        assert_eq!(executor.run(&Lane::default(), || 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_slow_call_has_a_low_priority_and_the_next_one_has_not() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let executor = Executor::start(|| ()).unwrap();
        let normal = executor.run(&Lane::default(), priority).await.unwrap();
        let slow = move || may_be_slow().then(priority);
        for _ in 0..2 * MAX_CALLS {
            assert_eq!(executor.run(&Lane::default(), slow).await, Ok(Some(normal.max(NICENESS))));
            assert_eq!(executor.run(&Lane::default(), priority).await, Ok(normal));
        }
    }

    #[tokio::test]
    async fn a_call_is_put_off_if_the_one_before_was_quick_and_made_once_if_it_was_slow() {
        let executor = Executor::start(|| ()).unwrap();
        let (lane, made) = (Lane::default(), Arc::new(AtomicU64::new(0)));
        for (is_slow, expected) in [(true, 2), (true, 3), (false, 4), (false, 5), (true, 7)] {
            let seen = Arc::clone(&made);
            let work = move || {
                seen.fetch_add(1, Ordering::Relaxed);
                !is_slow || may_be_slow()
            };
            assert_eq!(executor.run(&lane, work).await, Ok(true));
            assert_eq!(made.load(Ordering::Relaxed), expected);
            // A call is answered before it ends.
            while executor.is_busy() {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn a_slow_call_knows_whether_others_are_called() {
        let executor = Executor::start(|| ()).unwrap();
        let ((call, called), (ask, asked)) = (mpsc::channel(), mpsc::channel());
        let lane = Lane::default();
        let slow = executor.run(&lane, move || {
            if !may_be_slow() {
                assert!(others().is_none(), "it is made again");
                return None;
            }
            let mut others = others().unwrap();
            let alone = others.are_called();
            call.send(()).unwrap();
            asked.recv().unwrap();
            Some((alone, others.are_called()))
        });
        let other = async {
            let begun = tokio::task::spawn_blocking(move || called.recv()).await;
            begun.unwrap().unwrap();
            executor.run(&Lane::default(), || ()).await.unwrap();
            ask.send(()).unwrap();
        };
        let (others_were_called, ()) = tokio::join!(slow, other);
        assert_eq!(others_were_called, Ok(Some((false, true))));
    }

    #[tokio::test]
    async fn four_six_or_twenty_plugins_that_are_slow_at_once_delay_no_quick_one_and_each_is_put_off_once() {
        let executor = Executor::start(|| ()).unwrap();
        for count in [MAX_SLOW_CALLS, 6, 20] {
            beside_slow_calls(&executor, count).await;
        }
    }

    /// Makes `count` slow calls, which run until a hundred others were made.
    async fn beside_slow_calls(executor: &Executor, count: usize) {
        let begun = Arc::new(AtomicU64::new(0));
        let (slow, release): (Vec<_>, Vec<_>) = (0..count)
            .map(|_| {
                let (begun, (release, wait)) = (Arc::clone(&begun), mpsc::channel::<()>());
                let work = move || {
                    begun.fetch_add(1, Ordering::Relaxed);
                    assert!(!may_be_slow() || wait.recv().is_err(), "it is released when its sender is dropped");
                };
                (async move { executor.run(&Lane::default(), work).await }, release)
            })
            .unzip();
        let others = async {
            // Waits until all slow calls were begun once, and as many as there are threads for them once more.
            while begun.load(Ordering::Relaxed) < (count + MAX_SLOW_CALLS) as u64 {
                tokio::task::yield_now().await;
            }
            for _ in 0..100 {
                executor.run(&Lane::default(), || ()).await.unwrap();
            }
            assert_eq!(begun.load(Ordering::Relaxed), (count + MAX_SLOW_CALLS) as u64, "the others wait for a thread");
            drop(release);
        };
        let (slow, ()) = tokio::join!(futures::future::join_all(slow), others);
        assert!(slow.into_iter().all(|made| made.is_ok()));
        assert_eq!(begun.load(Ordering::Relaxed), 2 * count as u64);
    }

    #[tokio::test]
    async fn a_call_that_is_put_off_and_whose_lane_is_cleared_is_not_made_again() {
        let executor = Executor::start(|| ()).unwrap();
        // No thread makes slow calls.
        executor.pool.lock().slow.count = MAX_SLOW_CALLS;
        let (lane, begun) = (Lane::default(), Arc::new(AtomicU64::new(0)));
        let seen = Arc::clone(&begun);
        let slow = executor.run(&lane, move || {
            seen.fetch_add(1, Ordering::Relaxed);
            assert!(!may_be_slow());
        });
        let clear = async {
            while !executor.pool.lock().lanes.has_turn(Pace::Slow) {
                tokio::task::yield_now().await;
            }
            executor.clear(&lane);
        };
        let (slow, ()) = tokio::join!(slow, clear);
        assert_eq!((slow, begun.load(Ordering::Relaxed)), (Err(Stopped), 1));
    }

    #[tokio::test]
    async fn a_cleared_lane_drops_waiting_calls_and_runs_later_ones() {
        let executor = Executor::start(|| ()).unwrap();
        let lane = &Lane::default();
        let ((release, wait), (begin, begun)) = (mpsc::channel::<()>(), oneshot::channel::<()>());
        let mut begin = Some(begin);
        let running = executor.run(lane, move || {
            drop(begin.take());
            wait.recv()
        });
        let waiting = executor.run(lane, || ());
        let others = async {
            drop(begun.await);
            executor.clear(lane);
            release.send(()).unwrap();
        };
        let (running, waiting, ()) = tokio::join!(running, waiting, others);
        assert!(running.unwrap().is_ok());
        assert_eq!(waiting, Err(Stopped));
        assert_eq!(executor.run(lane, || 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_lane_that_blocks_delays_no_other() {
        let executor = Executor::start(|| ()).unwrap();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let slow = &Lane::default();
        let blocked = executor.run(slow, move || wait.recv());
        let queued = executor.run(slow, || ());
        let others = async {
            for _ in 0..100 {
                executor.run(&Lane::default(), || ()).await.unwrap();
            }
            release.send(()).unwrap();
        };
        let (first, second, ()) = tokio::join!(blocked, queued, others);
        assert!(first.unwrap().is_ok() && second.is_ok());
    }
}
