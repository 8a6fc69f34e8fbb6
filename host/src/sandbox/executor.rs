//! The threads that plugins run on: never those that serve watches and writes, and fair between
//! plugins.
//!
//! Each plugin has a *lane*. A lane runs one call at a time and lanes take turns, so a plugin that
//! always uses its whole time holds up nobody but itself as long as one thread is left.
//!
//! A call that turns out to be slow leaves its place to another thread: it goes on beside them, at a
//! low priority and, while others are called, for a part of the time only. Its thread ends with it,
//! since who has lowered its priority may not raise it again.
//!
//! A thread that has had nothing to do for a while ends, too, and leaves its place until it is wanted: what
//! its calls took of memory stays with a thread for as long as it is there.

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

/// Two, so that one plugin cannot take them all; more would only wait for each other in the kernel,
/// where address spaces of instances are made and unmade.
const THREADS: usize = 2;

/// The most calls that run at the same time, the slow ones with them.
pub(super) const CALLS: usize = 6;

/// The stack of a decision thread: the guest's share of it with as much again for the host's.
const STACK: usize = 2 * hotshoe_core::model::limits::WASM_STACK + 1024 * 1024;

/// Who was called within this time is likely to be called again.
const BUSY: Duration = Duration::from_millis(100);

/// So long a thread waits for work.
const IDLE: Duration = Duration::from_secs(10);

/// Until a thread that the system did not give is asked for again.
const AGAIN: Duration = Duration::from_secs(1);

thread_local! {
    /// What a decision thread knows of itself.
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

type Job = Box<dyn FnOnce() + Send>;

/// The queue of one revision of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane(u64);

/// The call was not made: the threads are gone, or its lane was cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopped;

/// A handle that ends the threads when it goes.
pub(super) struct Threads {
    shared: Arc<Shared>,
    lanes: AtomicU64,
}

struct Shared {
    queues: Mutex<Queues>,
    /// So long a thread waits for work.
    idle: Duration,
    /// How many jobs were begun.
    begun: AtomicU64,
    keeper: Sender<Notice>,
}

/// Tells whether anybody else is called. As a lane runs one call at a time, what is begun while a
/// call runs is of another.
pub(super) struct Others {
    shared: Weak<Shared>,
    known: u64,
    seen: Option<Instant>,
}

impl Others {
    fn of(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::downgrade(shared), known: shared.begun.load(Ordering::Relaxed), seen: None }
    }

    /// Whether one was called of late; to be asked often.
    pub(super) fn are_called(&mut self) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let begun = shared.begun.load(Ordering::Relaxed);
        if begun != self.known {
            (self.known, self.seen) = (begun, Some(Instant::now()));
        }
        self.seen.is_some_and(|seen| seen.elapsed() < BUSY)
    }
}

/// Wakes a thread when it goes, also with a call that nobody waits for any more: those behind it in its lane
/// wake none.
struct Wake<'a>(&'a Shared);

impl Drop for Wake<'_> {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// What the keeper is told.
enum Notice {
    /// This place wants another thread.
    Wanted(usize),
    /// A thread has ended: it had left its place, or nothing to do.
    Ended,
}

/// One of the [`THREADS`], by its number, until a slow call leaves it.
struct Place {
    number: usize,
    shared: Weak<Shared>,
    left: bool,
}

#[derive(Default)]
struct Queues {
    lanes: BTreeMap<Lane, Queue>,
    /// Lanes with work that is not running, each once; the first is next.
    turns: VecDeque<Lane>,
    /// Threads without work. The last one is woken first: what a call needs is still in its processor's caches.
    idle: Vec<Thread>,
    /// Places whose threads ended because there was nothing to do.
    vacant: Vec<usize>,
    stopped: bool,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    running: bool,
}

impl Threads {
    /// # Errors
    /// When the system gives no threads.
    pub(super) fn start() -> io::Result<Self> {
        Self::that_wait(IDLE)
    }

    fn that_wait(idle: Duration) -> io::Result<Self> {
        let (keeper, notices) = mpsc::channel();
        let shared = Arc::new(Shared { queues: Mutex::default(), idle, begun: AtomicU64::new(0), keeper });
        for number in 0..THREADS {
            Shared::start(&shared, number)?;
        }
        let kept = Arc::downgrade(&shared);
        thread::Builder::new()
            .name("decide-keeper".into())
            .stack_size(64 * 1024)
            .spawn(move || keep(&kept, &notices))?;
        Ok(Self { shared, lanes: AtomicU64::new(0) })
    }

    /// For who should make room while plugins are called.
    pub(super) fn others(&self) -> Others {
        Others::of(&self.shared)
    }

    /// Whether a call runs, or waits for its turn.
    pub(super) fn are_wanted(&self) -> bool {
        !self.shared.lock().lanes.is_empty()
    }

    /// A lane of its own.
    pub(super) fn lane(&self) -> Lane {
        Lane(self.lanes.fetch_add(1, Ordering::Relaxed))
    }

    /// Forgets the calls that wait in a lane; who waits for them hears [`Stopped`].
    pub(super) fn clear(&self, lane: Lane) {
        self.shared.lock().clear(lane);
    }

    /// Runs `work` when the lane's turn comes. If the future is dropped before that, it is skipped;
    /// if later, its result is.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (send, receive) = oneshot::channel();
        let job = Box::new(move || {
            if !send.is_closed() {
                // The other end may be gone meanwhile, and then nobody wants to know.
                let _ = send.send(work());
            }
        });
        if let Some(wake) = self.shared.push(lane, job) {
            // Who else is ready asks first: a thread that is woken once for several calls costs less.
            tokio::task::yield_now().await;
            drop(wake);
        }
        receive.await.map_err(|_| Stopped)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let mut queues = self.shared.lock();
        queues.stopped = true;
        queues.lanes.clear();
        queues.idle.drain(..).for_each(|thread| thread.unpark());
    }
}

/// Fills the places that are wanted; from a thread of its own, as a thread inherits the priority of
/// who starts it.
fn keep(shared: &Weak<Shared>, notices: &Receiver<Notice>) {
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
            fill(shared, number);
            running += 1;
        }
    }
}

fn fill(shared: &Weak<Shared>, number: usize) {
    while let Some(shared) = shared.upgrade() {
        let Err(error) = Shared::start(&shared, number) else { return };
        tracing::error!(%error, "there are fewer threads for plugins: the system gives no more");
        thread::sleep(AGAIN);
    }
}

/// Said by a call that is slow, on its thread: it goes on, but at a low priority and in nobody's place.
/// Returns those for whom it should make room; none where this is no decision thread.
pub(super) fn leave_place() -> Option<Others> {
    PLACE.with_borrow_mut(|place| {
        let place = place.as_mut()?;
        let shared = place.shared.upgrade()?;
        if !place.left {
            place.left = true;
            // Where it is forbidden, the call is as loud as before.
            let _ = setpriority_process(None, NICENESS);
            // Where nobody listens any more, the host is at its end.
            let _ = shared.keeper.send(Notice::Wanted(place.number));
        }
        Some(Others::of(&shared))
    })
}

/// Whether this thread has left its place, and ends now.
fn has_left() -> bool {
    PLACE.with_borrow(|place| place.as_ref().is_some_and(|place| place.left))
}

impl Shared {
    fn start(shared: &Arc<Self>, number: usize) -> io::Result<()> {
        let shared = Arc::clone(shared);
        let thread = thread::Builder::new().name(format!("decide-{number}")).stack_size(STACK);
        thread.spawn(move || shared.work(number)).map(drop)
    }

    /// Jobs run outside the lock, so a panic cannot leave the queues half changed.
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock()
    }

    /// Returns the waking of a thread where there is one turn more: waking one that finds nothing costs more
    /// than many a call.
    fn push(&self, lane: Lane, job: Job) -> Option<Wake<'_>> {
        self.lock().push(lane, job).then(|| Wake(self))
    }

    fn wake(&self) {
        let mut queues = self.lock();
        // Another thread may have taken the turn meanwhile.
        if queues.turns.is_empty() {
            return;
        }
        if let Some(thread) = queues.idle.pop() {
            drop(queues);
            thread.unpark();
        } else if let Some(number) = queues.vacant.pop() {
            // Where nobody listens any more, the host is at its end.
            let _ = self.keeper.send(Notice::Wanted(number));
        }
    }

    fn work(self: &Arc<Self>, number: usize) {
        PLACE.set(Some(Place { number, shared: Arc::downgrade(self), left: false }));
        let mut done = None;
        while let Some((lane, job)) = self.next(number, done) {
            // A panic of the host's own code costs one call and not the thread; the caller sees
            // that its answer never comes.
            let _ = catch_unwind(AssertUnwindSafe(job));
            if has_left() {
                self.leave(lane);
                break;
            }
            done = Some(lane);
        }
        // Where nobody listens any more, the host is at its end.
        let _ = self.keeper.send(Notice::Ended);
    }

    /// What is next for a thread that is done with a lane; nothing where it ends.
    fn next(&self, place: usize, mut done: Option<Lane>) -> Option<(Lane, Job)> {
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
                    queues.vacant.push(place);
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
    /// Whether there is one turn more to be taken.
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

    /// Whether the lane has more to do; its next turn is for the thread that asks, if it goes on.
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
        let threads = Threads::start().unwrap();
        let name = threads.run(threads.lane(), || std::thread::current().name().map(str::to_owned)).await;
        assert!(name.unwrap().unwrap().starts_with("decide-"));
    }

    #[tokio::test]
    async fn calls_one_after_another_run_on_one_thread() {
        let threads = Threads::start().unwrap();
        while threads.shared.lock().idle.len() < THREADS {
            tokio::task::yield_now().await;
        }
        let lane = threads.lane();
        let first = threads.run(lane, || thread::current().id()).await;
        for _ in 0..100 {
            assert_eq!(threads.run(lane, || thread::current().id()).await, first);
        }
    }

    #[tokio::test]
    async fn a_thread_that_has_nothing_to_do_ends_and_another_takes_its_place_when_it_is_wanted() {
        let threads = Threads::that_wait(Duration::ZERO).unwrap();
        for _ in 0..100 {
            while threads.shared.lock().vacant.len() < THREADS {
                tokio::task::yield_now().await;
            }
            assert_eq!(threads.run(threads.lane(), || 7).await, Ok(7));
        }
    }

    #[tokio::test]
    async fn a_call_that_nobody_waits_for_holds_up_none_behind_it() {
        let threads = Threads::start().unwrap();
        let lane = threads.lane();
        let (mut first, mut second) = (Box::pin(threads.run(lane, || ())), Box::pin(threads.run(lane, || 7)));
        assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
        drop(first);
        assert_eq!(second.await, Ok(7));
    }

    #[tokio::test]
    async fn a_panic_costs_one_call_and_not_the_thread() {
        let threads = Threads::start().unwrap();
        for _ in 0..2 * THREADS {
            assert_eq!(threads.run(threads.lane(), || panic!("of the host")).await, Err::<(), _>(Stopped));
        }
        assert_eq!(threads.run(threads.lane(), || 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_slow_call_has_a_low_priority_and_the_next_one_has_not() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let threads = Threads::start().unwrap();
        let normal = threads.run(threads.lane(), priority).await.unwrap();
        let slow = move || {
            drop(leave_place());
            priority()
        };
        for _ in 0..2 * CALLS {
            assert_eq!(threads.run(threads.lane(), slow).await, Ok(normal.max(NICENESS)));
            assert_eq!(threads.run(threads.lane(), priority).await, Ok(normal));
        }
    }

    #[tokio::test]
    async fn a_slow_call_is_told_whether_others_are_called() {
        let threads = Threads::start().unwrap();
        let ((call, called), (ask, asked)) = (mpsc::channel(), mpsc::channel());
        let slow = threads.run(threads.lane(), move || {
            let mut others = leave_place().unwrap();
            let alone = others.are_called();
            call.send(()).unwrap();
            asked.recv().unwrap();
            (alone, others.are_called())
        });
        let other = async {
            let begun = tokio::task::spawn_blocking(move || called.recv()).await;
            begun.unwrap().unwrap();
            threads.run(threads.lane(), || ()).await.unwrap();
            ask.send(()).unwrap();
        };
        let (said, ()) = tokio::join!(slow, other);
        assert_eq!(said, Ok((false, true)));
    }

    #[tokio::test]
    async fn as_many_slow_calls_as_there_may_be_hold_up_no_others() {
        let threads = Threads::start().unwrap();
        let (slow, release): (Vec<_>, Vec<_>) = (THREADS..CALLS)
            .map(|_| {
                let (release, wait) = mpsc::channel::<()>();
                let work = move || {
                    drop(leave_place());
                    wait.recv()
                };
                (threads.run(threads.lane(), work), release)
            })
            .unzip();
        let others = async {
            for _ in 0..100 {
                threads.run(threads.lane(), || ()).await.unwrap();
            }
            drop(release);
        };
        let (slow, ()) = tokio::join!(futures::future::join_all(slow), others);
        assert!(slow.into_iter().all(|waited| waited.is_ok()));
    }

    #[tokio::test]
    async fn a_lane_that_is_cleared_forgets_what_waits_and_serves_what_comes() {
        let threads = Threads::start().unwrap();
        let lane = threads.lane();
        let ((release, wait), (begin, begun)) = (mpsc::channel::<()>(), oneshot::channel::<()>());
        let running = threads.run(lane, move || {
            drop(begin);
            wait.recv()
        });
        let waiting = threads.run(lane, || ());
        let others = async {
            drop(begun.await);
            threads.clear(lane);
            release.send(()).unwrap();
        };
        let (running, waiting, ()) = tokio::join!(running, waiting, others);
        assert!(running.unwrap().is_ok());
        assert_eq!(waiting, Err(Stopped));
        assert_eq!(threads.run(lane, || 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_lane_that_blocks_holds_up_no_other() {
        let threads = Threads::start().unwrap();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let slow = threads.lane();
        let blocked = threads.run(slow, move || wait.recv());
        let queued = threads.run(slow, || ());
        let others = async {
            for _ in 0..100 {
                threads.run(threads.lane(), || ()).await.unwrap();
            }
            release.send(()).unwrap();
        };
        let (first, second, ()) = tokio::join!(blocked, queued, others);
        assert!(first.unwrap().is_ok() && second.is_ok());
    }
}
