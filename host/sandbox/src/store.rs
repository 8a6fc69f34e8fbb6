//! The state of one call's store: the usage that is counted against the limits, and the lines that the plugin logged.
//!
//! Only `Sandbox::store` creates a [`Store`], so that no store exists without limits and a deadline.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use wasmtime::{ResourceLimiter, Store, Trap, UpdateDeadline};

use crate::executor;
use crate::executor::OtherCalls;
use hotshoe_core::check::memory_share::{Account, Charge, NoShare, Part};
use hotshoe_core::model::limits::{CALL_MEMORY, LOG_LINE, Limits, PAUSE_FACTOR, SLOW, WALL_TIME};
use hotshoe_core::model::sanitize;

/// The period of the epoch clock, and so the precision of deadlines. A slow call also runs this long between two
/// pauses.
pub(super) const TICK: Duration = Duration::from_millis(5);

/// The level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the levels of every log")]
pub enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

/// One line that a plugin logged, sanitized.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// The level of the line.
    pub level: Level,
    /// One line of visible characters.
    pub message: String,
}

/// A limit that a call exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Breach {
    Memory(hotshoe_core::model::limits::Size),
    TableElements(u32),
    HostCalls(u32),
    BoundaryBytes(hotshoe_core::model::limits::Size),
    SharedMemory { held: usize, may: usize },
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::Memory(limit) => write!(f, "memory ({limit}, limits.memory)"),
            Breach::TableElements(limit) => write!(f, "table elements ({limit})"),
            Breach::HostCalls(limit) => write!(f, "calls of the host ({limit})"),
            Breach::BoundaryBytes(limit) => write!(f, "bytes handed to the host ({limit})"),
            Breach::SharedMemory { held, may } => write!(
                f,
                "the memory that all plugins share (the host holds {held} bytes for it, and it may have {may}; \
                 it can hold less, or the host can be given more: --memory)"
            ),
        }
    }
}

/// The state of one call's store.
pub(super) struct Sandbox {
    limits: Arc<Limits>,
    memory: usize,
    charge: Charge,
    peak: usize,
    table_elements: usize,
    host_calls: u32,
    logged: usize,
    crossed: usize,
    /// Processor time of the thread when the call began.
    began: Duration,
    slow: Option<Slow>,
    /// The last growth that was refused. The guest saw `-1` and may have coped; if the call failed, this is why.
    pub(super) breach: Option<Breach>,
    /// The logged lines, within the limits.
    pub(super) logs: Vec<LogLine>,
    /// How many lines were dropped.
    pub(super) logs_dropped: u32,
}

/// A call that has run for longer than [`SLOW`], by the clock.
struct Slow {
    since: Instant,
    /// The processor time of its thread after its last pause.
    paused: Duration,
    others: Option<OtherCalls>,
}

impl Slow {
    fn begin() -> Self {
        Self { since: Instant::now(), paused: processor_time(), others: executor::others() }
    }

    /// Leaves the processor to other plugins, if any of them is called. A low priority would not be enough: it counts
    /// only among the threads of this process, which the system balances with other processes as a whole.
    fn pause(&mut self) {
        let used = processor_time().saturating_sub(self.paused);
        if self.others.as_mut().is_some_and(OtherCalls::are_called) {
            std::thread::sleep(used * PAUSE_FACTOR);
        }
        self.paused = processor_time();
    }
}

impl Sandbox {
    /// Creates the store of one call, with its limiter, its deadline and its limit on bytes across the boundary.
    pub(super) fn store(engine: &wasmtime::Engine, limits: &Arc<Limits>, memory: &Account) -> Store<Sandbox> {
        let mut store = Store::new(engine, Sandbox::new(Arc::clone(limits), memory));
        store.limiter(|sandbox| sandbox);
        store.set_hostcall_fuel(limits.boundary_bytes.bytes());
        store.set_epoch_deadline(ticks(SLOW.min(limits.call_time.0)));
        store.epoch_deadline_callback(|mut store| match store.data_mut().continue_at_tick() {
            true => Ok(UpdateDeadline::Continue(1)),
            false => Err(Trap::Interrupt.into()),
        });
        store
    }

    fn new(limits: Arc<Limits>, memory: &Account) -> Self {
        Self {
            limits,
            memory: 0,
            charge: memory.charge(Part::Calls),
            peak: 0,
            table_elements: 0,
            host_calls: 0,
            logged: 0,
            crossed: 0,
            began: processor_time(),
            slow: None,
            breach: None,
            logs: Vec::new(),
            logs_dropped: 0,
        }
    }

    /// Decides at a tick whether the call may go on. It shares the processor, so processor time counts.
    fn continue_at_tick(&mut self) -> bool {
        let time = self.call_time();
        let slow = self.slow.get_or_insert_with(Slow::begin);
        let is_late = slow.since.elapsed() >= time * WALL_TIME;
        let goes_on = self.may_continue() && self.used() < time && !is_late;
        if goes_on {
            self.pause();
        }
        goes_on
    }

    /// Decides whether the call continues, also with the processing of its answer, in which no tick checks the time. A
    /// call that has used [`SLOW`] is put off, unless it runs on a thread for slow calls.
    pub(super) fn may_continue(&self) -> bool {
        self.used() < SLOW || executor::may_be_slow()
    }

    /// Ends the call after its answer was processed. A slow call leaves the processor to others first, as at a tick.
    /// Returns whether the call has exceeded its time. The result of a call that is put off here is dropped.
    pub(super) fn ends_overdue(&mut self) -> bool {
        if self.may_continue() {
            self.pause();
        }
        // With the same tolerance as for a guest, which is interrupted at a tick.
        self.used() > self.call_time() + 2 * TICK
    }

    fn pause(&mut self) {
        self.slow.iter_mut().for_each(Slow::pause);
    }

    /// Returns the processor time that the call may use.
    pub(super) fn call_time(&self) -> Duration {
        self.limits.call_time.0
    }

    /// Returns the processor time of the call so far.
    pub(super) fn used(&self) -> Duration {
        processor_time().saturating_sub(self.began)
    }

    /// Returns the peak of the call's linear memory, in bytes.
    pub(super) fn peak_memory(&self) -> usize {
        self.peak
    }

    /// Logs a line. The plugin controls the number and the size of the lines, so there are two limits: past the first
    /// one lines are dropped, past the second one the call ends.
    pub(super) fn log(&mut self, level: Level, message: String) -> Result<(), Breach> {
        self.host_calls += 1;
        if self.host_calls > self.limits.host_calls {
            return Err(Breach::HostCalls(self.limits.host_calls));
        }
        self.crossed = self.crossed.saturating_add(message.len());
        if self.crossed > self.limits.boundary_bytes.bytes() {
            return Err(Breach::BoundaryBytes(self.limits.boundary_bytes));
        }
        self.keep_line(level, sanitize::clean(message, LOG_LINE));
        Ok(())
    }

    fn keep_line(&mut self, level: Level, message: String) {
        let logged = self.logged + message.len();
        if self.logs.len() < self.limits.log_lines as usize && logged <= self.limits.log_bytes.bytes() {
            self.logged = logged;
            self.logs.push(LogLine { level, message });
        } else {
            self.logs_dropped += 1;
        }
    }
}

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

/// Returns how many ticks last at least `time`, whenever in the current tick the call begins.
fn ticks(time: Duration) -> u64 {
    let ticks = time.as_nanos().div_ceil(TICK.as_nanos()) + 1;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

impl ResourceLimiter for Sandbox {
    /// Counts all memories of the call together, because wasmtime's own limiter would limit each one alone.
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let memory = self.memory.saturating_add(more);
        if memory > self.limits.memory.bytes() {
            self.breach = Some(Breach::Memory(self.limits.memory));
            return Ok(false);
        }
        if memory > CALL_MEMORY.bytes()
            && let Err(NoShare { held, may, .. }) = self.charge.check(more)
        {
            self.breach = Some(Breach::SharedMemory { held, may });
            return Ok(false);
        }
        self.charge.raise(more);
        self.memory = memory;
        self.peak = self.peak.max(memory);
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let elements = self.table_elements.saturating_add(desired.saturating_sub(current));
        if elements > self.limits.table_elements as usize {
            self.breach = Some(Breach::TableElements(self.limits.table_elements));
            return Ok(false);
        }
        self.table_elements = elements;
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.limits.instances as usize
    }

    fn tables(&self) -> usize {
        self.limits.tables as usize
    }

    fn memories(&self) -> usize {
        self.limits.memories as usize
    }
}

#[cfg(test)]
mod tests {
    use hotshoe_core::check::memory_share::SharedMemory;

    use super::*;

    fn sandbox() -> Sandbox {
        Sandbox::new(Arc::new(Limits::default()), &Account::default())
    }

    #[test]
    fn log_lines_past_the_limit_are_dropped_and_counted() {
        let mut sandbox = sandbox();
        for n in 0..150 {
            sandbox.log(Level::Info, format!("line {n}")).unwrap();
        }
        assert_eq!((sandbox.logs.len(), sandbox.logs_dropped), (100, 50));
    }

    #[test]
    fn log_bytes_past_the_limit_are_dropped_and_counted() {
        let mut sandbox = sandbox();
        for _ in 0..20 {
            sandbox.log(Level::Info, "x".repeat(10_000)).unwrap();
        }
        assert_eq!((sandbox.logs.len(), sandbox.logs_dropped), (8, 12));
        assert!(sandbox.logs.iter().all(|line| line.message.len() == LOG_LINE));
    }

    #[test]
    fn a_flood_of_host_calls_ends_the_call() {
        let mut sandbox = sandbox();
        let breach = (0..2_000).find_map(|_| sandbox.log(Level::Trace, String::new()).err());
        assert_eq!(breach, Some(Breach::HostCalls(1_000)));
    }

    #[test]
    fn a_flood_of_bytes_ends_the_call() {
        let mut sandbox = sandbox();
        let breach = (0..10).find_map(|_| sandbox.log(Level::Trace, "x".repeat(1 << 20)).err());
        assert_eq!(breach, Some(Breach::BoundaryBytes(Limits::default().boundary_bytes)));
    }

    #[test]
    fn memories_are_counted_together() {
        let mut sandbox = sandbox();
        assert!(sandbox.memory_growing(0, 40 << 20, None).unwrap());
        assert!(!sandbox.memory_growing(0, 40 << 20, None).unwrap());
        assert_eq!(sandbox.peak_memory(), 40 << 20);
        assert!(matches!(sandbox.breach, Some(Breach::Memory(_))));
    }

    #[test]
    fn the_memory_of_a_call_counts_against_the_shared_memory_until_the_call_ends() {
        let memory = Arc::new(SharedMemory::new(32 << 20)).account(&"one".into());
        let mut sandbox = Sandbox::new(Arc::new(Limits::default()), &memory);
        assert!(sandbox.memory_growing(0, 20 << 20, None).unwrap());
        assert!(!sandbox.memory_growing(20 << 20, 30 << 20, None).unwrap());
        assert!(sandbox.breach.unwrap().to_string().contains("all plugins share"));
        assert_eq!((memory.held(), sandbox.peak_memory()), (20 << 20, 20 << 20));
        drop(sandbox);
        assert_eq!(memory.held(), 0);
        memory.set(Part::Children, 32 << 20);
        let mut sandbox = Sandbox::new(Arc::new(Limits::default()), &memory);
        assert!(sandbox.memory_growing(0, CALL_MEMORY.bytes(), None).unwrap(), "it can still decide to hold less");
        assert!(!sandbox.memory_growing(CALL_MEMORY.bytes(), 17 << 20, None).unwrap());
    }

    #[test]
    fn a_deadline_never_comes_early() {
        assert_eq!(ticks(Duration::from_millis(500)), 101);
        assert_eq!(ticks(Duration::from_millis(1)), 2);
    }
}
