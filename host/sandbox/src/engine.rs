//! The one wasmtime engine of the process, its epoch clock and its decision threads.
//!
//! `config` sets everything that compiled code depends on. The child process that compiles uses it too, so that its
//! output fits this engine.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

use wasmtime::component::Linker;
use wasmtime::{Config, OptLevel, PoolingAllocationConfig, WasmFeatures};

use crate::bindings;
use crate::executor::{Executor, MAX_CALLS};
use crate::load::{self, MappedCode};
use crate::store::{Sandbox, TICK};
use hotshoe_core::model::limits::{INSTANCES, MEMORIES, MEMORY, TABLE_ELEMENTS, TABLES, WASM_STACK};

/// The bytes of a linear memory that are zeroed for the next call and stay resident; the rest is returned to the
/// system. A usual guest fits into them, so that its pages cause no faults: 25 µs a call instead of 70 µs.
const RESIDENT_MEMORY_BYTES: usize = 1024 * 1024;
/// The bytes of a table that stay resident.
const RESIDENT_TABLE_BYTES: usize = 64 * 1024;
/// The number of memory slots that stay mapped while idle. Their resident bytes count as memory of the host.
const WARM_SLOTS: u32 = 8;
/// The pause between two ticks while no call runs, before the clock stops. Calls in quick succession find the clock
/// running: starting and stopping it for each call costs more than a short call.
const IDLE_TICK: Duration = Duration::from_millis(10);

/// The engine; cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    wasm: wasmtime::Engine,
    linker: Linker<Sandbox>,
    clock: Clock,
    executor: Executor,
    mapped_code: Arc<MappedCode>,
}

impl Engine {
    /// Creates the engine, its clock and its threads.
    ///
    /// # Errors
    /// If the processor or the system lacks what wasmtime needs.
    pub fn new() -> anyhow::Result<Self> {
        let mut config = config();
        // Only the child compiles. Without a compiler, Cranelift's pages never become resident here.
        config.allocation_strategy(allocation()).enable_compiler(false);
        let wasm = wasmtime::Engine::new(&config).map_err(anyhow::Error::msg)?;
        let linker = bindings::linker(&wasm).map_err(anyhow::Error::msg)?;
        let clock = Clock::start(&wasm)?;
        let mapped_code = Arc::<MappedCode>::default();
        let idle = Arc::clone(&mapped_code);
        let executor = Executor::start(move || {
            idle.unmap_pages();
            load::unmap_program();
        })?;
        Ok(Self(Arc::new(Inner { wasm, linker, clock, executor, mapped_code })))
    }

    /// Returns whether a call of any plugin runs or waits.
    pub fn is_called(&self) -> bool {
        self.0.executor.is_busy()
    }

    pub(super) fn wasm(&self) -> &wasmtime::Engine {
        &self.0.wasm
    }

    /// Returns a hash of the version of wasmtime and of all settings that compiled code depends on.
    pub(super) fn settings(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.wasm.precompile_compatibility_hash().hash(&mut hasher);
        hasher.finish()
    }

    pub(super) fn linker(&self) -> &Linker<Sandbox> {
        &self.0.linker
    }

    /// Runs the clock until the guard is dropped. Without a running clock no deadline passes.
    pub(super) fn clock(&self) -> Running<'_> {
        self.0.clock.run()
    }

    pub(super) fn executor(&self) -> &Executor {
        &self.0.executor
    }

    pub(super) fn mapped_code(&self) -> &MappedCode {
        &self.0.mapped_code
    }
}

/// Returns the settings with which components are compiled. Epoch interruption is always on, because without it a call
/// would have no deadline.
pub(super) fn config() -> Config {
    let mut config = Config::new();
    config
        .cranelift_opt_level(OptLevel::Speed)
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK)
        .concurrency_support(false)
        // A trap's cause is its message in the log; frames of a stripped guest say nothing.
        .wasm_backtrace_max_frames(None)
        .generate_address_map(false)
        .native_unwind_info(false)
        .wasm_features(unneeded(), false);
    config
}

/// Returns a pool for as many calls as may run at the same time, with twice what each may have: so a call that asks for
/// too much is denied by its limits, which have a clear message, and not by the pool. Slots are reused, and zeroed
/// between calls. Reservations and guards have their full sizes, and the kernel is not asked which pages were written
/// (`PAGEMAP_SCAN` misses swapped-out pages), so that the range that is zeroed depends only on the memory's own size.
fn allocation() -> PoolingAllocationConfig {
    let calls = MAX_CALLS as u32;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(calls)
        .total_core_instances(2 * calls * INSTANCES)
        .total_memories(2 * calls * MEMORIES)
        .max_memories_per_module(2 * MEMORIES)
        .max_memory_size(MEMORY.cap.bytes())
        .total_tables(2 * calls * TABLES)
        .max_tables_per_module(2 * TABLES)
        .table_elements(2 * TABLE_ELEMENTS as usize)
        .linear_memory_keep_resident(RESIDENT_MEMORY_BYTES)
        .table_keep_resident(RESIDENT_TABLE_BYTES)
        .max_unused_warm_slots(WARM_SLOTS);
    pool
}

/// Returns the proposals that no supported guest needs; each is code that a hostile guest could reach.
fn unneeded() -> WasmFeatures {
    WasmFeatures::THREADS
        | WasmFeatures::SHARED_EVERYTHING_THREADS
        | WasmFeatures::MEMORY64
        | WasmFeatures::STACK_SWITCHING
        | WasmFeatures::RELAXED_SIMD
        | WasmFeatures::TAIL_CALL
        | WasmFeatures::WIDE_ARITHMETIC
        | WasmFeatures::CUSTOM_PAGE_SIZES
        | WasmFeatures::CM_ASYNC
}

/// The epoch clock. It ticks only while calls run, so that an idle host does nothing.
struct Clock {
    state: Arc<ClockState>,
    thread: Thread,
}

#[derive(Default)]
struct ClockState {
    calls: AtomicUsize,
    /// The number of calls that have begun since the start.
    begun: AtomicUsize,
    /// Whether the clock's thread parks, or is about to.
    is_parking: AtomicBool,
    ended: AtomicBool,
}

impl Clock {
    /// Starts the clock's thread, which runs until the engine is dropped.
    fn start(engine: &wasmtime::Engine) -> std::io::Result<Self> {
        let (engine, state) = (engine.weak(), Arc::<ClockState>::default());
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("epoch".into()).stack_size(64 * 1024).spawn(move || {
            let mut known = 0;
            loop {
                // Sleeps first, so that a tick never comes early for a call that has just begun.
                std::thread::sleep(shared.pause(&mut known));
                match engine.upgrade() {
                    Some(engine) if !shared.ended.load(Ordering::SeqCst) => engine.increment_epoch(),
                    _ => return,
                }
            }
        })?;
        Ok(Self { state, thread: thread.thread().clone() })
    }

    fn run(&self) -> Running<'_> {
        // Sequentially consistent, as below: either the clock sees this call, or this call sees that the clock parks.
        self.state.calls.fetch_add(1, Ordering::SeqCst);
        self.state.begun.fetch_add(1, Ordering::SeqCst);
        if self.state.is_parking.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        Running(&self.state)
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl ClockState {
    /// Returns how long the clock sleeps now. Parks first, if no call runs and none has begun since the last tick, when
    /// `known` calls had begun. A spurious wake-up costs one tick.
    fn pause(&self, known: &mut usize) -> Duration {
        self.is_parking.store(true, Ordering::SeqCst);
        if self.calls.load(Ordering::SeqCst) == 0 && self.begun.load(Ordering::SeqCst) == *known {
            std::thread::park();
        }
        self.is_parking.store(false, Ordering::SeqCst);
        *known = self.begun.load(Ordering::SeqCst);
        if self.calls.load(Ordering::SeqCst) == 0 { IDLE_TICK } else { TICK }
    }
}

/// A running call; the clock ticks until it is dropped.
pub(super) struct Running<'a>(&'a ClockState);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::SeqCst);
    }
}
