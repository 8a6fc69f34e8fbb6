//! The delay of a reconcile while a component is published: how long it takes to load the active revision from
//! the slot. Reader threads do nothing else, each bound to its own core as far as there are enough. Where a reader
//! shares a core with the publisher, the kernel makes it wait for a tick, which is no delay of the slot.
//!
//! The slot holds real components, each newly loaded, so that the replaced one is really dropped. The figure for
//! each publication is the slowest load of any reader around it. The same is measured at other moments without
//! a publication, which shows the noise of the machine.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use hotshoe_core::check::memory_share::Account;
use hotshoe_core::model::limits::{CACHE_BYTES, Limits};
use hotshoe_operator::reconcile::slot::Slot;
use hotshoe_platform::candidate::Candidate;
use hotshoe_sandbox::code_cache::Purpose;
use hotshoe_sandbox::compile::Compiler;
use hotshoe_sandbox::engine::Engine;
use hotshoe_sandbox::revision::Revision;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Setup;
use crate::figure::Target::AtMost;
use crate::figure::{Figure, quantile};
use crate::repository;

/// The number of publications.
const SWAPS: usize = 400;
/// How long readers load during each publication.
const OBSERVATION_TIME: Duration = Duration::from_millis(1);
/// How long readers sleep in between.
const READER_PAUSE: Duration = Duration::from_micros(50);
/// The timeout for readers to begin or to end.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The state that the readers and the publisher share.
struct Scene {
    slot: Slot<Revision>,
    looking: AtomicBool,
    /// The number of readers that are loading.
    looking_readers: AtomicUsize,
    ended: AtomicBool,
    loads: AtomicU64,
    /// Nanoseconds.
    slowest: AtomicU64,
}

/// Measures.
///
/// # Errors
/// When the component cannot be loaded.
pub async fn run(setup: &Setup) -> Result<Vec<Figure>> {
    let components = Components::of(&setup.programs.host)?;
    let scene = Arc::new(Scene {
        slot: Slot::default(),
        looking: AtomicBool::new(false),
        looking_readers: AtomicUsize::new(0),
        ended: AtomicBool::new(false),
        loads: AtomicU64::new(0),
        slowest: AtomicU64::new(0),
    });
    scene.slot.publish(components.load().await?);
    let cores = Cores::of_this_process()?;
    let readers: Vec<_> = cores
        .readers
        .iter()
        .map(|core| {
            let (scene, core) = (scene.clone(), *core);
            thread::spawn(move || {
                bind_to(core)?;
                scene.read();
                anyhow::Ok(())
            })
        })
        .collect();
    let (mut published, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..SWAPS {
        let next = components.load().await?;
        alone.push(scene.around(&cores, || ())?);
        published.push(scene.around(&cores, || scene.slot.publish(next))?);
    }
    scene.ended.store(true, Ordering::Release);
    for reader in readers {
        reader.join().map_err(|_| anyhow!("void: a reader panicked"))??;
    }
    Ok(figures(cores.readers.len(), &scene, &published, &alone))
}

/// The cores that this process may use, one for each thread.
struct Cores {
    all: CpuSet,
    publisher: usize,
    /// The publisher's core where there is no other.
    readers: Vec<usize>,
}

impl Cores {
    fn of_this_process() -> Result<Self> {
        let all = sched_getaffinity(None)?;
        let mut each = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core));
        let publisher = each.next().context("void: no core may be used")?;
        let mut readers: Vec<_> = each.collect();
        if readers.is_empty() {
            readers.push(publisher);
        }
        Ok(Self { all, publisher, readers })
    }
}

/// Binds the calling thread to a core.
fn bind_to(core: usize) -> Result<()> {
    let mut one = CpuSet::new();
    one.set(core);
    Ok(sched_setaffinity(None, &one)?)
}

impl Scene {
    fn read(&self) {
        while !self.ended.load(Ordering::Acquire) {
            // The kernel runs a thread at once that has slept before.
            thread::sleep(READER_PAUSE);
            if self.looking.load(Ordering::Acquire) {
                self.looking_readers.fetch_add(1, Ordering::AcqRel);
                self.look();
                self.looking_readers.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    fn look(&self) {
        while self.looking.load(Ordering::Acquire) {
            let began = Instant::now();
            let current = self.slot.current();
            let took = began.elapsed();
            drop(current);
            self.loads.fetch_add(1, Ordering::Relaxed);
            self.slowest.fetch_max(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::AcqRel);
        }
    }

    /// Returns the slowest load around an action, in microseconds.
    fn around(&self, cores: &Cores, something: impl FnOnce()) -> Result<f64> {
        // Only for this time: loading and compiling between two publications may use all cores.
        bind_to(cores.publisher)?;
        self.slowest.store(0, Ordering::Release);
        self.looking.store(true, Ordering::Release);
        self.wait_for(cores.readers.len())?;
        let began = Instant::now();
        something();
        while began.elapsed() < OBSERVATION_TIME {
            std::hint::spin_loop();
        }
        self.looking.store(false, Ordering::Release);
        // A load that is still under way counts, too.
        self.wait_for(0)?;
        sched_setaffinity(None, &cores.all)?;
        Ok(self.slowest.load(Ordering::Acquire) as f64 / 1000.0)
    }

    /// Waits until so many readers are loading.
    fn wait_for(&self, readers: usize) -> Result<()> {
        let began = Instant::now();
        while self.looking_readers.load(Ordering::Acquire) != readers {
            ensure!(began.elapsed() < TIMEOUT, "void: the readers do not look");
            thread::sleep(READER_PAUSE);
        }
        Ok(())
    }
}

/// Loads the component again and again, from the cache.
struct Components {
    engine: Engine,
    compiler: Compiler,
    component: Candidate,
}

impl Components {
    fn of(host: &Path) -> Result<Self> {
        let compiler = Compiler::new(host.to_owned(), Some(&repository("target/bench/cache")), CACHE_BYTES);
        let component = Candidate::of(std::fs::read(repository("target/plugins/memcached.wasm"))?);
        Ok(Self { engine: Engine::new()?, compiler, component })
    }

    async fn load(&self) -> Result<Arc<Revision>> {
        let (component, limits, memory) = (self.component.clone(), Limits::default(), Account::default());
        let loaded = Revision::load(&self.engine, &self.compiler, component, limits, Purpose::Trial, &memory);
        Ok(loaded.await?.revision)
    }
}

fn figures(readers: usize, scene: &Scene, published: &[f64], alone: &[f64]) -> Vec<Figure> {
    let at = |values: &[f64], share: f64| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        quantile(&sorted, share)
    };
    let one = |name: &str, unit, value: f64| Figure::of(name, unit, &[value]);
    let figures = [
        Figure::of("swap-pause", "µs", published).map(|figure| figure.target(AtMost(100.0))),
        one("swap-pause-p99", "µs", at(published, 0.99)).map(|figure| figure.target(AtMost(100.0))),
        one("swap-pause-most", "µs", at(published, 1.0)),
        Figure::of("swap-pause-without", "µs", alone),
        one("swap-pause-without-p99", "µs", at(alone, 0.99)),
        one("swap-pause-without-most", "µs", at(alone, 1.0)),
        one("swap-pause-readers", "threads", readers as f64),
        one("swap-pause-loads", "loads", scene.loads.load(Ordering::Acquire) as f64),
    ];
    figures.into_iter().flatten().collect()
}
