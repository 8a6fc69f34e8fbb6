//! The one wasmtime engine of the process, its clock and its decision threads.
//!
//! Everything that compiled code depends on is set in [`config`], which the compiling child
//! process shares; so code made there fits here.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

use wasmtime::component::Linker;
use wasmtime::{Config, OptLevel, PoolingAllocationConfig, WasmFeatures};

use crate::sandbox::bindings;
use crate::sandbox::executor::{CALLS, Threads};
use crate::sandbox::store::{Sandbox, TICK};
use hotshoe_core::model::limits::{INSTANCES, MEMORIES, MEMORY, TABLE_ELEMENTS, TABLES, WASM_STACK};

/// So much of a memory is zeroed by hand for the next call, bytes, and the rest given back to the
/// system. A guest of ours fits, so its pages need no faults: 25 µs a call where 70 µs without.
const KEEP_MEMORY: usize = 1024 * 1024;
/// The same for tables.
const KEEP_TABLE: usize = 64 * 1024;
/// So many slots of memory stay mapped while idle; what they keep counts as resident.
const WARM_SLOTS: u32 = 8;
/// Between two ticks while no call runs. Calls that come soon after one another find the clock awake: to wake
/// it and have it rest for each of them costs more than a short call does.
const DOZE: Duration = Duration::from_millis(10);

/// The engine; cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    wasm: wasmtime::Engine,
    linker: Linker<Sandbox>,
    clock: Clock,
    threads: Threads,
}

impl Engine {
    /// An engine whose clock ticks.
    ///
    /// # Errors
    /// When the processor or the system lacks what wasmtime needs.
    pub fn new() -> anyhow::Result<Self> {
        let mut config = config();
        // Compiling is a child's work; without it, Cranelift's pages never become resident here.
        config.allocation_strategy(allocation()).enable_compiler(false);
        let wasm = wasmtime::Engine::new(&config).map_err(anyhow::Error::msg)?;
        let linker = bindings::linker(&wasm).map_err(anyhow::Error::msg)?;
        let clock = Clock::start(&wasm)?;
        Ok(Self(Arc::new(Inner { wasm, linker, clock, threads: Threads::start()? })))
    }

    /// Whether a plugin is called now, or waits for its turn.
    pub fn is_called(&self) -> bool {
        self.0.threads.are_wanted()
    }

    pub(super) fn wasm(&self) -> &wasmtime::Engine {
        &self.0.wasm
    }

    /// A number for the version of wasmtime and all settings that compiled code depends on.
    pub(super) fn settings(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.wasm.precompile_compatibility_hash().hash(&mut hasher);
        hasher.finish()
    }

    pub(super) fn linker(&self) -> &Linker<Sandbox> {
        &self.0.linker
    }

    /// While this is held, deadlines come nearer.
    pub(super) fn clock(&self) -> Running<'_> {
        self.0.clock.run()
    }

    pub(super) fn threads(&self) -> &Threads {
        &self.0.threads
    }
}

/// What is compiled, and how. Deadlines are compiled in without a switch: a second one could be
/// forgotten while the first is on.
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

/// Room for as many calls as run at once, each at the caps of its limits. Slots are used
/// again and again, and zeroed between calls: reservations and guards have their full sizes, and
/// the kernel is not asked which pages were written (`PAGEMAP_SCAN` misses those that were swapped
/// out), so that what is zeroed depends on nothing but the memory's own size.
fn allocation() -> PoolingAllocationConfig {
    let calls = CALLS as u32;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(calls)
        .total_core_instances(calls * INSTANCES.cap)
        .total_memories(calls * MEMORIES.cap)
        .max_memories_per_module(MEMORIES.cap)
        .max_memory_size(MEMORY.cap.bytes())
        .total_tables(calls * TABLES.cap)
        .max_tables_per_module(TABLES.cap)
        .table_elements(TABLE_ELEMENTS.cap as usize)
        .linear_memory_keep_resident(KEEP_MEMORY)
        .table_keep_resident(KEEP_TABLE)
        .max_unused_warm_slots(WARM_SLOTS);
    pool
}

/// Proposals that no supported guest needs; each is code that a hostile guest could reach.
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

/// The epoch clock: it ticks while calls run, so that a host with nothing to do does nothing.
struct Clock {
    state: Arc<State>,
    thread: Thread,
}

#[derive(Default)]
struct State {
    calls: AtomicUsize,
    /// How many calls were begun.
    begun: AtomicUsize,
    resting: AtomicBool,
    ended: AtomicBool,
}

impl Clock {
    /// The thread runs until the engine is gone.
    fn start(engine: &wasmtime::Engine) -> std::io::Result<Self> {
        let (engine, state) = (engine.weak(), Arc::<State>::default());
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("epoch".into()).stack_size(64 * 1024).spawn(move || {
            let mut known = 0;
            loop {
                // First the sleep: a tick never comes early for a call that has just begun.
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
        // In one order for all threads, as below: either the clock sees this call, or this call
        // sees it resting.
        self.state.calls.fetch_add(1, Ordering::SeqCst);
        self.state.begun.fetch_add(1, Ordering::SeqCst);
        if self.state.resting.load(Ordering::SeqCst) {
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

impl State {
    /// How long the clock sleeps now. Waits while no call runs, and `known`, how many had begun by the last
    /// tick, are all. An unpark without a call costs a tick.
    fn pause(&self, known: &mut usize) -> Duration {
        self.resting.store(true, Ordering::SeqCst);
        if self.calls.load(Ordering::SeqCst) == 0 && self.begun.load(Ordering::SeqCst) == *known {
            std::thread::park();
        }
        self.resting.store(false, Ordering::SeqCst);
        *known = self.begun.load(Ordering::SeqCst);
        if self.calls.load(Ordering::SeqCst) == 0 { DOZE } else { TICK }
    }
}

/// A call runs.
pub(super) struct Running<'a>(&'a State);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::SeqCst);
    }
}
