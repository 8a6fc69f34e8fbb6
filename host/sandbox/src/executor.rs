//! The threads that plugins run on: never those of watches and writes, and fair between plugins.
//!
//! Each plugin has a *lane*. A lane runs one call at a time and lanes take turns (`lanes.rs`), so a plugin that always
//! uses its whole time delays only itself.
//!
//! A call that turns out to be slow steps aside for another thread: it goes on at a low priority and, while other
//! plugins are called, for a part of the time only. Its thread ends with it, since a thread that has lowered its
//! priority may not raise it again. If the maximum number of calls is slow already, the call is put off: it is dropped,
//! and made again once one of them has ended. So `THREADS` threads are always left for quick calls, however many
//! plugins are slow.
//!
//! An idle thread ends after a while, and another is started when there is work, because a thread keeps the memory that
//! its calls have touched for as long as it runs. When the last thread ends for idleness, other memory that only calls
//! need is released as well.
//!
//! The effect, by `bench hostile`: beside plugins that loop, trap, flood the log or are hard to compile, the p99 of
//! the other plugins' decisions is at most 1.08 times what it is alone, where 1.2 is the target. Threads that end give
//! back up to 9 MB.

use std::cell::RefCell;
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

use hotshoe_core::flow::lanes::{Dispatched, Lane, Lanes, MAX_SLOW_CALLS};
use hotshoe_core::model::limits::NICENESS;

/// The number of threads for calls that are not slow. Two, so that one plugin cannot occupy all of them. More would
/// only wait for each other in the kernel, which maps and unmaps the memories of instances.
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
    /// The worker that runs on this thread, if it is a decision thread.
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

/// A call. It can be made again, if it was put off.
type Job = Box<dyn FnMut() + Send>;

/// The call was not made: the threads have ended, or its lane was cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopped;

/// A handle to the threads, which end when it is dropped.
pub(super) struct Executor {
    pool: Arc<Pool>,
    lanes: AtomicU64,
}

struct Pool {
    queues: Mutex<Queues>,
    /// How long a thread waits for work before it ends.
    idle: Duration,
    /// The number of jobs that have begun.
    begun: AtomicU64,
    /// Called when the last thread has ended, because there was no work for a while.
    on_idle: Box<dyn Fn() + Send + Sync>,
    /// The channel to the thread that starts threads: the numbers of the workers that need one.
    keeper: Sender<usize>,
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
struct WakeOnDrop<'a>(&'a Pool);

impl Drop for WakeOnDrop<'_> {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// One of the [`THREADS`] workers. A worker gets another thread when a slow call steps aside and keeps its thread.
struct Worker {
    number: usize,
    pool: Weak<Pool>,
    call: RunningCall,
}

/// The state of a worker's call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RunningCall {
    /// Whether the call has a place among the slow ones.
    has_place: bool,
    stepped_aside: bool,
    put_off: bool,
}

/// How a slow call goes on.
pub(super) enum SlowCall {
    /// On its thread, which is no decision thread any more. The call should yield while other plugins are called.
    Aside(OtherCalls),
    /// On its thread, which is not a decision thread.
    Alone,
    /// Not at all, because all places for slow calls are taken. The call must end now, and is made again later, if it
    /// is [`put_off`].
    NoPlace,
}

#[derive(Default)]
struct Queues {
    lanes: Lanes<Job>,
    /// The idle threads. The last one is woken first, because its processor's caches are still warm.
    idle: Vec<Thread>,
    /// The numbers of the workers whose threads ended because they were idle.
    vacant: Vec<usize>,
    stopped: bool,
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
        let (keeper, wanted) = mpsc::channel();
        let pool = Arc::new(Pool {
            queues: Mutex::default(),
            idle,
            begun: AtomicU64::new(0),
            on_idle: Box::new(on_idle),
            keeper,
        });
        for number in 0..THREADS {
            Pool::start(&pool, number)?;
        }
        let kept = Arc::downgrade(&pool);
        // Threads are started by a thread of their own, because a thread inherits the priority of its parent.
        thread::Builder::new()
            .name("decide-keeper".into())
            .stack_size(64 * 1024)
            .spawn(move || wanted.into_iter().for_each(|number| start_worker(&kept, number)))?;
        Ok(Self { pool, lanes: AtomicU64::new(0) })
    }

    /// Returns a watch over the calls of plugins, for work that should yield to them.
    pub(super) fn others(&self) -> OtherCalls {
        OtherCalls::of(&self.pool)
    }

    /// Returns whether a call runs or waits.
    pub(super) fn is_busy(&self) -> bool {
        !self.pool.lock().lanes.is_empty()
    }

    /// Creates a lane.
    pub(super) fn lane(&self) -> Lane {
        Lane(self.lanes.fetch_add(1, Ordering::Relaxed))
    }

    /// Drops the calls that wait in a lane; their callers get [`Stopped`].
    pub(super) fn clear(&self, lane: Lane) {
        let ready = self.pool.lock().lanes.clear(lane);
        self.pool.wake_each(ready);
    }

    /// Runs `work` when the lane's turn comes, and once more if it was put off. If the future is dropped before `work`
    /// begins, it is skipped; if later, its result is dropped.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        mut work: impl FnMut() -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (send, receive) = oneshot::channel();
        let mut send = Some(send);
        let job = Box::new(move || {
            if send.as_ref().is_some_and(|send| !send.is_closed()) {
                let done = work();
                if !running_call().put_off
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
        queues.idle.drain(..).for_each(|thread| thread.unpark());
    }
}

/// Starts the thread of a worker, and tries again until that succeeds or the executor is gone.
fn start_worker(pool: &Weak<Pool>, number: usize) {
    while let Some(pool) = pool.upgrade() {
        let Err(error) = Pool::start(&pool, number) else { return };
        tracing::error!(%error, "a thread for plugins cannot be started; it is tried again");
        thread::sleep(RETRY_PAUSE);
    }
}

/// Called by a slow call on its own thread. If a place for slow calls is free, lowers the thread's priority and lets
/// another thread take over its worker.
pub(super) fn step_aside() -> SlowCall {
    WORKER.with_borrow_mut(|worker| {
        let running = worker.as_mut().and_then(|worker| Some((worker.pool.upgrade()?, worker)));
        let Some((pool, worker)) = running else { return SlowCall::Alone };
        let call = &mut worker.call;
        call.has_place = call.has_place || pool.lock().lanes.take_place();
        if !call.has_place {
            return SlowCall::NoPlace;
        }
        if !call.stepped_aside {
            call.stepped_aside = true;
            // If that is forbidden, the call keeps its priority.
            let _ = setpriority_process(None, NICENESS);
            pool.request_thread(worker.number);
        }
        SlowCall::Aside(OtherCalls::of(&pool))
    })
}

/// Called by a slow call that has no place, before it ends: its result is dropped, and the call is made again.
pub(super) fn put_off() {
    WORKER.with_borrow_mut(|worker| {
        if let Some(worker) = worker {
            worker.call.put_off = true;
        }
    });
}

/// Returns the state of this thread's call.
fn running_call() -> RunningCall {
    WORKER.with_borrow(|worker| worker.as_ref().map(|worker| worker.call).unwrap_or_default())
}

/// Notes that this thread begins a call.
fn begin_call(has_place: bool) {
    WORKER.with_borrow_mut(|worker| {
        if let Some(worker) = worker {
            worker.call = RunningCall { has_place, ..RunningCall::default() };
        }
    });
}

/// A call that has returned.
struct Returned {
    lane: Lane,
    had_place: bool,
    /// The job to run again, if the call was put off.
    again: Option<Job>,
}

impl Pool {
    fn start(pool: &Arc<Self>, number: usize) -> io::Result<()> {
        let pool = Arc::clone(pool);
        let thread = thread::Builder::new().name(format!("decide-{number}")).stack_size(STACK_BYTES);
        thread.spawn(move || pool.work(number)).map(drop)
    }

    /// Jobs run outside the lock, so a panic cannot leave the queues half changed.
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock()
    }

    /// Queues a job. Returns a pending wake-up only if a lane became ready: a needless wake-up costs more than many a
    /// call.
    fn push(&self, lane: Lane, job: Job) -> Option<WakeOnDrop<'_>> {
        let mut queues = self.lock();
        (!queues.stopped && queues.lanes.push(lane, job)).then(|| WakeOnDrop(self))
    }

    /// Requests a thread for a worker.
    fn request_thread(&self, number: usize) {
        // Fails only while the host is shutting down.
        let _ = self.keeper.send(number);
    }

    fn wake_each(&self, lanes: usize) {
        (0..lanes).for_each(|_| self.wake());
    }

    fn wake(&self) {
        let mut queues = self.lock();
        // Another thread may run it already.
        if !queues.lanes.has_turn() {
            return;
        }
        if let Some(thread) = queues.idle.pop() {
            drop(queues);
            thread.unpark();
        } else if let Some(number) = queues.vacant.pop() {
            self.request_thread(number);
        }
    }

    fn work(self: &Arc<Self>, number: usize) {
        WORKER.set(Some(Worker { number, pool: Arc::downgrade(self), call: RunningCall::default() }));
        let mut last = None;
        while let Some(Dispatched { lane, mut job, has_place }) = self.next(number, last) {
            begin_call(has_place);
            // A panic in the host's own code costs one call and not the thread; its caller gets `Stopped`.
            let _ = catch_unwind(AssertUnwindSafe(&mut job));
            let RunningCall { has_place, stepped_aside, put_off } = running_call();
            // Drops a job that is done here, and not under the lock.
            let again = put_off.then_some(job);
            let returned = Returned { lane, had_place: has_place, again };
            if stepped_aside {
                let ready = self.lock().end(returned);
                self.wake_each(ready);
                return;
            }
            last = Some(returned);
        }
    }

    /// Ends the last call of a thread and returns its next job; none if the thread should end.
    fn next(&self, worker: usize, mut last: Option<Returned>) -> Option<Dispatched<Job>> {
        let this = thread::current();
        let mut idle_since = None;
        loop {
            {
                let mut queues = self.lock();
                queues.idle.retain(|thread| thread.id() != this.id());
                let ready = last.take().map_or(0, |returned| queues.end(returned));
                if queues.stopped {
                    return None;
                }
                if let Some(next) = queues.lanes.dispatch() {
                    drop(queues);
                    // This thread itself serves one of the lanes that became ready.
                    self.wake_each(ready.saturating_sub(1));
                    self.begun.fetch_add(1, Ordering::Relaxed);
                    return Some(next);
                }
                if idle_since.get_or_insert_with(Instant::now).elapsed() >= self.idle {
                    queues.vacant.push(worker);
                    let is_last = queues.vacant.len() == THREADS;
                    drop(queues);
                    if is_last {
                        (self.on_idle)();
                    }
                    return None;
                }
                queues.idle.push(this.clone());
            }
            thread::park_timeout(self.idle);
        }
    }
}

impl Queues {
    /// Ends a call, or puts it off. Returns how many lanes became ready.
    fn end(&mut self, returned: Returned) -> usize {
        match returned.again {
            Some(job) if !self.stopped => usize::from(self.lanes.put_off(returned.lane, job)),
            _ => self.lanes.end(returned.lane, returned.had_place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_on_another_thread() {
        let executor = Executor::start(|| ()).unwrap();
        let name = executor.run(executor.lane(), || std::thread::current().name().map(str::to_owned)).await;
        assert!(name.unwrap().unwrap().starts_with("decide-"));
    }

    #[tokio::test]
    async fn calls_one_after_another_run_on_one_thread() {
        let executor = Executor::start(|| ()).unwrap();
        while executor.pool.lock().idle.len() < THREADS {
            tokio::task::yield_now().await;
        }
        let lane = executor.lane();
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
            assert_eq!(executor.run(executor.lane(), || 7).await, Ok(7));
        }
    }

    #[tokio::test]
    async fn a_call_whose_caller_is_gone_does_not_delay_the_next_ones() {
        let executor = Executor::start(|| ()).unwrap();
        let lane = executor.lane();
        let (mut first, mut second) = (Box::pin(executor.run(lane, || ())), Box::pin(executor.run(lane, || 7)));
        assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
        drop(first);
        assert_eq!(second.await, Ok(7));
    }

    #[tokio::test]
    async fn a_panic_costs_one_call_and_not_the_thread() {
        let executor = Executor::start(|| ()).unwrap();
        for _ in 0..2 * THREADS {
            assert_eq!(executor.run(executor.lane(), || panic!("of the host")).await, Err::<(), _>(Stopped));
        }
        assert_eq!(executor.run(executor.lane(), || 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_slow_call_has_a_low_priority_and_the_next_one_has_not() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let executor = Executor::start(|| ()).unwrap();
        let normal = executor.run(executor.lane(), priority).await.unwrap();
        let slow = move || {
            assert!(matches!(step_aside(), SlowCall::Aside(_)));
            priority()
        };
        for _ in 0..2 * MAX_CALLS {
            assert_eq!(executor.run(executor.lane(), slow).await, Ok(normal.max(NICENESS)));
            assert_eq!(executor.run(executor.lane(), priority).await, Ok(normal));
        }
    }

    #[tokio::test]
    async fn a_slow_call_knows_whether_others_are_called() {
        let executor = Executor::start(|| ()).unwrap();
        let ((call, called), (ask, asked)) = (mpsc::channel(), mpsc::channel());
        let slow = executor.run(executor.lane(), move || {
            let SlowCall::Aside(mut others) = step_aside() else { panic!("there is a place") };
            let alone = others.are_called();
            call.send(()).unwrap();
            asked.recv().unwrap();
            (alone, others.are_called())
        });
        let other = async {
            let begun = tokio::task::spawn_blocking(move || called.recv()).await;
            begun.unwrap().unwrap();
            executor.run(executor.lane(), || ()).await.unwrap();
            ask.send(()).unwrap();
        };
        let (others_were_called, ()) = tokio::join!(slow, other);
        assert_eq!(others_were_called, Ok((false, true)));
    }

    #[tokio::test]
    async fn the_maximum_number_of_slow_calls_delays_no_others() {
        let executor = Executor::start(|| ()).unwrap();
        beside_slow_calls(&executor, MAX_SLOW_CALLS).await;
    }

    /// Makes `count` slow calls, which run until a hundred others were made. Returns how often slow calls were begun.
    async fn beside_slow_calls(executor: &Executor, count: usize) -> usize {
        let begun = Arc::new(AtomicU64::new(0));
        let (slow, release): (Vec<_>, Vec<_>) = (0..count)
            .map(|_| {
                let (begun, (release, wait)) = (Arc::clone(&begun), mpsc::channel::<()>());
                let work = move || {
                    begun.fetch_add(1, Ordering::Relaxed);
                    match step_aside() {
                        SlowCall::NoPlace => put_off(),
                        _ => assert!(wait.recv().is_err(), "it is released when its sender is dropped"),
                    }
                };
                (executor.run(executor.lane(), work), release)
            })
            .unzip();
        let others = async {
            // Waits until all slow calls have begun once.
            while begun.load(Ordering::Relaxed) < count as u64 {
                tokio::task::yield_now().await;
            }
            for _ in 0..100 {
                executor.run(executor.lane(), || ()).await.unwrap();
            }
            assert_eq!(begun.load(Ordering::Relaxed), count as u64, "none is begun again before another has ended");
            drop(release);
        };
        let (slow, ()) = tokio::join!(futures::future::join_all(slow), others);
        assert!(slow.into_iter().all(|made| made.is_ok()));
        begun.load(Ordering::Relaxed) as usize
    }

    #[tokio::test]
    async fn six_or_twenty_plugins_that_are_slow_at_once_delay_no_quick_one_and_each_is_put_off_once_at_most() {
        let executor = Executor::start(|| ()).unwrap();
        for count in [6, 20] {
            assert_eq!(beside_slow_calls(&executor, count).await, count + count - MAX_SLOW_CALLS);
            // A call is answered before it ends.
            while executor.pool.lock().lanes.slow_calls() > 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn a_call_that_is_put_off_and_whose_lane_is_cleared_is_not_made_again() {
        let executor = Executor::start(|| ()).unwrap();
        let (lane, begun) = (executor.lane(), Arc::new(AtomicU64::new(0)));
        for _ in 0..MAX_SLOW_CALLS {
            assert!(executor.pool.lock().lanes.take_place());
        }
        let seen = Arc::clone(&begun);
        let slow = executor.run(lane, move || {
            seen.fetch_add(1, Ordering::Relaxed);
            assert!(matches!(step_aside(), SlowCall::NoPlace));
            put_off();
        });
        let clear = async {
            while !executor.pool.lock().lanes.is_put_off(lane) {
                tokio::task::yield_now().await;
            }
            executor.clear(lane);
        };
        let (slow, ()) = tokio::join!(slow, clear);
        assert_eq!((slow, begun.load(Ordering::Relaxed)), (Err(Stopped), 1));
    }

    #[tokio::test]
    async fn a_cleared_lane_drops_waiting_calls_and_runs_later_ones() {
        let executor = Executor::start(|| ()).unwrap();
        let lane = executor.lane();
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
        let slow = executor.lane();
        let blocked = executor.run(slow, move || wait.recv());
        let queued = executor.run(slow, || ());
        let others = async {
            for _ in 0..100 {
                executor.run(executor.lane(), || ()).await.unwrap();
            }
            release.send(()).unwrap();
        };
        let (first, second, ()) = tokio::join!(blocked, queued, others);
        assert!(first.unwrap().is_ok() && second.is_ok());
    }
}
