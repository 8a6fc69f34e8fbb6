//! The threads that plugins run on: never those of watches and writes, and fair between plugins.
//!
//! Each plugin has a *lane*. A lane runs one call at a time and lanes take turns, so a plugin that always uses its
//! whole time delays only itself, as long as one thread is left.
//!
//! A call that turns out to be slow steps aside for another thread: it goes on at a low priority and, while other
//! plugins are called, for a part of the time only. Its thread ends with it, since a thread that has lowered its
//! priority may not raise it again.
//!
//! An idle thread ends after a while, and another is started when there is work: the memory that its calls touched
//! stays with a thread for as long as it runs.
//!
//! What this buys, by `bench-hostile`: beside plugins that loop, trap, flood the log or are hard to compile, the p99 of
//! the other plugins' decisions is at most 1.08 times what it is alone, where 1.2 is the target. Threads that end give
//! back up to 9 MB.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::process::setpriority_process;
use tokio::sync::oneshot;

use hotshoe_core::model::limits::NICENESS;

/// Two, so that one plugin cannot occupy all of them; more would only wait for each other in the kernel, which maps and
/// unmaps the memories of instances.
const THREADS: usize = 2;

/// The most calls that run at the same time, slow ones included.
pub(super) const CALLS: usize = 6;

/// The stack of a decision thread, bytes: as much for the host as for the guest, and some more.
const STACK: usize = 2 * hotshoe_core::model::limits::WASM_STACK + 1024 * 1024;

/// A plugin that was called within this time is likely to be called again.
const BUSY: Duration = Duration::from_millis(100);

/// How long a thread waits for work before it ends.
const IDLE: Duration = Duration::from_secs(10);

/// Pause before a thread that could not be started is started again.
const RETRY: Duration = Duration::from_secs(1);

thread_local! {
    /// The decision thread that this thread is, if it is one.
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

type Job = Box<dyn FnOnce() + Send>;

/// The queue of one revision of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane(u64);

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
    /// How many jobs have begun.
    begun: AtomicU64,
    keeper: Sender<Notice>,
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

    /// Whether another plugin was called within the last 100 ms; only correct if it is called often.
    pub(super) fn are_called(&mut self) -> bool {
        let Some(pool) = self.pool.upgrade() else { return false };
        let begun = pool.begun.load(Ordering::Relaxed);
        if begun != self.known {
            (self.known, self.seen) = (begun, Some(Instant::now()));
        }
        self.seen.is_some_and(|seen| seen.elapsed() < BUSY)
    }
}

/// Wakes a thread when it is dropped, even with a call whose caller has gone: those behind it in its lane wake none.
struct WakeOnDrop<'a>(&'a Pool);

impl Drop for WakeOnDrop<'_> {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// A message to the keeper.
enum Notice {
    /// The worker of this number needs a thread.
    Wanted(usize),
    /// A thread has ended, because it had stepped aside or was idle.
    Ended,
}

/// One of the [`THREADS`], by its number, until a slow call steps aside.
struct Worker {
    number: usize,
    pool: Weak<Pool>,
    stepped_aside: bool,
}

#[derive(Default)]
struct Queues {
    lanes: BTreeMap<Lane, LaneQueue>,
    /// Lanes that have jobs and run none, each once; the first is next.
    turns: VecDeque<Lane>,
    /// Idle threads. The last one is woken first: its processor's caches are still warm.
    idle: Vec<Thread>,
    /// Numbers of workers whose threads ended because they were idle.
    vacant: Vec<usize>,
    stopped: bool,
}

#[derive(Default)]
struct LaneQueue {
    jobs: VecDeque<Job>,
    running: bool,
}

impl Executor {
    /// # Errors
    /// If the system starts no threads.
    pub(super) fn start() -> io::Result<Self> {
        Self::with_idle_time(IDLE)
    }

    fn with_idle_time(idle: Duration) -> io::Result<Self> {
        let (keeper, notices) = mpsc::channel();
        let pool = Arc::new(Pool { queues: Mutex::default(), idle, begun: AtomicU64::new(0), keeper });
        for number in 0..THREADS {
            Pool::start(&pool, number)?;
        }
        let kept = Arc::downgrade(&pool);
        thread::Builder::new()
            .name("decide-keeper".into())
            .stack_size(64 * 1024)
            .spawn(move || keep(&kept, &notices))?;
        Ok(Self { pool, lanes: AtomicU64::new(0) })
    }

    /// Returns a watcher, for work that should yield while plugins are called.
    pub(super) fn others(&self) -> OtherCalls {
        OtherCalls::of(&self.pool)
    }

    /// Whether a call runs or waits.
    pub(super) fn is_busy(&self) -> bool {
        !self.pool.lock().lanes.is_empty()
    }

    /// Creates a lane.
    pub(super) fn lane(&self) -> Lane {
        Lane(self.lanes.fetch_add(1, Ordering::Relaxed))
    }

    /// Drops the calls that wait in a lane; their callers get [`Stopped`].
    pub(super) fn clear(&self, lane: Lane) {
        self.pool.lock().clear(lane);
    }

    /// Runs `work` when the lane's turn comes. If the future is dropped before that, `work` is skipped; if later, its
    /// result is dropped.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (send, receive) = oneshot::channel();
        let job = Box::new(move || {
            if !send.is_closed() {
                // The caller may have gone meanwhile.
                let _ = send.send(work());
            }
        });
        if let Some(wake) = self.pool.push(lane, job) {
            // Other tasks that are ready push their calls first: one wake-up for several calls costs less.
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
        queues.lanes.clear();
        queues.idle.drain(..).for_each(|thread| thread.unpark());
    }
}

/// Starts the threads that are needed; from a thread of its own, as a thread inherits the priority of its parent.
fn keep(pool: &Weak<Pool>, notices: &Receiver<Notice>) {
    let mut running = THREADS;
    let mut free = Vec::new();
    for notice in notices {
        match notice {
            Notice::Wanted(number) => free.push(number),
            Notice::Ended => running -= 1,
        }
        while running < CALLS
            && let Some(number) = free.pop()
        {
            fill(pool, number);
            running += 1;
        }
    }
}

fn fill(pool: &Weak<Pool>, number: usize) {
    while let Some(pool) = pool.upgrade() {
        let Err(error) = Pool::start(&pool, number) else { return };
        tracing::error!(%error, "a thread for plugins cannot be started; it is tried again");
        thread::sleep(RETRY);
    }
}

/// Called by a slow call on its own thread: lowers its priority, and lets another thread work in its place. Returns a
/// watcher of other plugins, to yield to; nothing if this is no decision thread.
pub(super) fn step_aside() -> Option<OtherCalls> {
    WORKER.with_borrow_mut(|worker| {
        let worker = worker.as_mut()?;
        let pool = worker.pool.upgrade()?;
        if !worker.stepped_aside {
            worker.stepped_aside = true;
            // If that is forbidden, the call keeps its priority.
            let _ = setpriority_process(None, NICENESS);
            // Without a keeper the host is shutting down.
            let _ = pool.keeper.send(Notice::Wanted(worker.number));
        }
        Some(OtherCalls::of(&pool))
    })
}

/// Whether this thread has stepped aside, and ends now.
fn has_stepped_aside() -> bool {
    WORKER.with_borrow(|worker| worker.as_ref().is_some_and(|worker| worker.stepped_aside))
}

impl Pool {
    fn start(pool: &Arc<Self>, number: usize) -> io::Result<()> {
        let pool = Arc::clone(pool);
        let thread = thread::Builder::new().name(format!("decide-{number}")).stack_size(STACK);
        thread.spawn(move || pool.work(number)).map(drop)
    }

    /// Jobs run outside the lock, so a panic cannot leave the queues half changed.
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock()
    }

    /// Queues a job. Returns a pending wake-up if a lane became ready: a wake-up for nothing costs more than many a call.
    fn push(&self, lane: Lane, job: Job) -> Option<WakeOnDrop<'_>> {
        self.lock().push(lane, job).then(|| WakeOnDrop(self))
    }

    fn wake(&self) {
        let mut queues = self.lock();
        // Another thread may run it already.
        if queues.turns.is_empty() {
            return;
        }
        if let Some(thread) = queues.idle.pop() {
            drop(queues);
            thread.unpark();
        } else if let Some(number) = queues.vacant.pop() {
            // Without a keeper the host is shutting down.
            let _ = self.keeper.send(Notice::Wanted(number));
        }
    }

    fn work(self: &Arc<Self>, number: usize) {
        WORKER.set(Some(Worker { number, pool: Arc::downgrade(self), stepped_aside: false }));
        let mut done = None;
        while let Some((lane, job)) = self.next(number, done) {
            // A panic in the host's own code costs one call and not the thread; its caller gets `Stopped`.
            let _ = catch_unwind(AssertUnwindSafe(job));
            if has_stepped_aside() {
                self.leave(lane);
                break;
            }
            done = Some(lane);
        }
        // Without a keeper the host is shutting down.
        let _ = self.keeper.send(Notice::Ended);
    }

    /// Returns the next job for a thread that has finished one of a lane; nothing if the thread should end.
    fn next(&self, worker: usize, mut done: Option<Lane>) -> Option<(Lane, Job)> {
        let this = thread::current();
        let mut idle_since = None;
        loop {
            {
                let mut queues = self.lock();
                queues.idle.retain(|thread| thread.id() != this.id());
                if let Some(lane) = done.take() {
                    queues.finish(lane);
                }
                if queues.stopped {
                    return None;
                }
                if let Some(next) = queues.next() {
                    self.begun.fetch_add(1, Ordering::Relaxed);
                    return Some(next);
                }
                if idle_since.get_or_insert_with(Instant::now).elapsed() >= self.idle {
                    queues.vacant.push(worker);
                    return None;
                }
                queues.idle.push(this.clone());
            }
            thread::park_timeout(self.idle);
        }
    }

    fn leave(&self, lane: Lane) {
        let has_more = self.lock().finish(lane);
        if has_more {
            self.wake();
        }
    }
}

impl Queues {
    /// Queues a job. Returns whether its lane became ready.
    fn push(&mut self, lane: Lane, job: Job) -> bool {
        if self.stopped {
            return false;
        }
        let queue = self.lanes.entry(lane).or_default();
        let turn = queue.jobs.is_empty() && !queue.running;
        if turn {
            self.turns.push_back(lane);
        }
        queue.jobs.push_back(job);
        turn
    }

    fn clear(&mut self, lane: Lane) {
        self.turns.retain(|turn| *turn != lane);
        if let Some(queue) = self.lanes.get_mut(&lane) {
            queue.jobs.clear();
            if !queue.running {
                self.lanes.remove(&lane);
            }
        }
    }

    fn next(&mut self) -> Option<(Lane, Job)> {
        let lane = self.turns.pop_front()?;
        let queue = self.lanes.get_mut(&lane)?;
        queue.running = true;
        Some((lane, queue.jobs.pop_front()?))
    }

    /// Ends a job of a lane. Returns whether the lane has more; the calling thread runs it if it goes on.
    fn finish(&mut self, lane: Lane) -> bool {
        let Some(queue) = self.lanes.get_mut(&lane) else { return false };
        queue.running = false;
        if queue.jobs.is_empty() {
            self.lanes.remove(&lane);
            return false;
        }
        self.turns.push_back(lane);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(queues: &mut Queues) -> Vec<u64> {
        let mut order = Vec::new();
        while let Some((lane, _)) = queues.next() {
            order.push(lane.0);
            queues.finish(lane);
        }
        order
    }

    #[test]
    fn lanes_take_turns() {
        let mut queues = Queues::default();
        for lane in [1, 1, 1, 1, 2, 3] {
            queues.push(Lane(lane), Box::new(|| {}));
        }
        assert_eq!(names(&mut queues), [1, 2, 3, 1, 1, 1]);
    }

    #[test]
    fn a_lane_never_runs_twice_at_once() {
        let mut queues = Queues::default();
        for _ in 0..2 {
            queues.push(Lane(1), Box::new(|| {}));
        }
        let (lane, _) = queues.next().unwrap();
        assert!(queues.next().is_none());
        assert!(queues.finish(lane));
        assert!(queues.next().is_some());
    }

    #[tokio::test]
    async fn work_is_done_on_another_thread() {
        let executor = Executor::start().unwrap();
        let name = executor.run(executor.lane(), || std::thread::current().name().map(str::to_owned)).await;
        assert!(name.unwrap().unwrap().starts_with("decide-"));
    }

    #[tokio::test]
    async fn calls_one_after_another_run_on_one_thread() {
        let executor = Executor::start().unwrap();
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
        let executor = Executor::with_idle_time(Duration::ZERO).unwrap();
        for _ in 0..100 {
            while executor.pool.lock().vacant.len() < THREADS {
                tokio::task::yield_now().await;
            }
            assert_eq!(executor.run(executor.lane(), || 7).await, Ok(7));
        }
    }

    #[tokio::test]
    async fn a_call_whose_caller_is_gone_does_not_delay_the_next_ones() {
        let executor = Executor::start().unwrap();
        let lane = executor.lane();
        let (mut first, mut second) = (Box::pin(executor.run(lane, || ())), Box::pin(executor.run(lane, || 7)));
        assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
        drop(first);
        assert_eq!(second.await, Ok(7));
    }

    #[tokio::test]
    async fn a_panic_costs_one_call_and_not_the_thread() {
        let executor = Executor::start().unwrap();
        for _ in 0..2 * THREADS {
            assert_eq!(executor.run(executor.lane(), || panic!("of the host")).await, Err::<(), _>(Stopped));
        }
        assert_eq!(executor.run(executor.lane(), || 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_slow_call_has_a_low_priority_and_the_next_one_has_not() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let executor = Executor::start().unwrap();
        let normal = executor.run(executor.lane(), priority).await.unwrap();
        let slow = move || {
            drop(step_aside());
            priority()
        };
        for _ in 0..2 * CALLS {
            assert_eq!(executor.run(executor.lane(), slow).await, Ok(normal.max(NICENESS)));
            assert_eq!(executor.run(executor.lane(), priority).await, Ok(normal));
        }
    }

    #[tokio::test]
    async fn a_slow_call_knows_whether_others_are_called() {
        let executor = Executor::start().unwrap();
        let ((call, called), (ask, asked)) = (mpsc::channel(), mpsc::channel());
        let slow = executor.run(executor.lane(), move || {
            let mut others = step_aside().unwrap();
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
        let (said, ()) = tokio::join!(slow, other);
        assert_eq!(said, Ok((false, true)));
    }

    #[tokio::test]
    async fn as_many_slow_calls_as_there_may_be_delay_no_others() {
        let executor = Executor::start().unwrap();
        let (slow, release): (Vec<_>, Vec<_>) = (THREADS..CALLS)
            .map(|_| {
                let (release, wait) = mpsc::channel::<()>();
                let work = move || {
                    drop(step_aside());
                    wait.recv()
                };
                (executor.run(executor.lane(), work), release)
            })
            .unzip();
        let others = async {
            for _ in 0..100 {
                executor.run(executor.lane(), || ()).await.unwrap();
            }
            drop(release);
        };
        let (slow, ()) = tokio::join!(futures::future::join_all(slow), others);
        assert!(slow.into_iter().all(|waited| waited.is_ok()));
    }

    #[tokio::test]
    async fn a_cleared_lane_drops_waiting_calls_and_runs_later_ones() {
        let executor = Executor::start().unwrap();
        let lane = executor.lane();
        let ((release, wait), (begin, begun)) = (mpsc::channel::<()>(), oneshot::channel::<()>());
        let running = executor.run(lane, move || {
            drop(begin);
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
        let executor = Executor::start().unwrap();
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
