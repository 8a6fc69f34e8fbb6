//! The time from when the digest of another component is known until its first decision, as the host
//! itself measures it in `hotshoe_swap_seconds`, with more and more CRs. The component's native code is
//! cached. It decides the same as the one before it.
//!
//! The figure includes everything in between: the component is inspected, its native code read and
//! verified, it describes itself, its cases are run, it is called for one CR and then for every CR, and is
//! published; and the first reconcile calls it. Only the last two steps delay any reconcile; until then the
//! component before it decides.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Setup;
use crate::figure::Figure;
use crate::figure::Target::AtMost;
use crate::rig::Rig;
use crate::subject::{Metrics, metrics};

/// The numbers of CRs.
const COUNTS: [usize; 3] = [10, 100, 1000];
/// The number of swaps for each number of CRs.
const SWAPS: usize = 16;
const STAGES: [&str; 6] = ["load", "cases", "watches", "survey", "publish", "decision"];
const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The times of one swap, in seconds: in total, and of each stage.
struct Took {
    total: f64,
    stages: [f64; STAGES.len()],
}

/// Measures.
///
/// # Errors
/// When a run is void.
pub async fn run(setup: &Setup) -> Result<Vec<Figure>> {
    let mut before = 0;
    let rig = Rig::up(&Setup { count: before, ..setup.clone() }, "swap-first").await?;
    // The first activation compiles the component, the others do not.
    for number in 0..2 {
        rig.offer(&rig.renamed(number)).await?;
    }
    let mut figures = Vec::new();
    for count in COUNTS {
        eprintln!("first: {count} CRs");
        rig.grow(before, count).await?;
        before = count;
        let mut took = Vec::new();
        for number in 0..SWAPS {
            rig.host.until_idle().await?;
            took.push(swap(&rig, &rig.renamed((number % 2) as u8)).await?);
        }
        figures.extend(of(count, &took));
    }
    rig.down().await?;
    Ok(figures)
}

async fn swap(rig: &Rig, component: &[u8]) -> Result<Took> {
    let before = metrics(&rig.host).await?;
    rig.folder.put(component);
    let began = Instant::now();
    loop {
        let after = metrics(&rig.host).await?;
        if after.of("hotshoe_swap_seconds_count") > before.of("hotshoe_swap_seconds_count") {
            return Ok(Took::between(&before, &after));
        }
        ensure!(began.elapsed() < TIMEOUT, "void: a component is not activated; see {}", rig.host.log().display());
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

impl Took {
    /// Computes the times of one swap from the metrics before and after it.
    fn between(before: &Metrics, after: &Metrics) -> Self {
        let grown = |name: &str| after.of(name) - before.of(name);
        let stage =
            |stage| grown(&format!("hotshoe_swap_stage_seconds_sum{{controller=\"memcached\",stage=\"{stage}\"}}"));
        Self { total: grown("hotshoe_swap_seconds_sum"), stages: STAGES.map(stage) }
    }

    /// Returns how long a stage took, in seconds; no number where there is no such stage, which misses every target.
    fn of(&self, stage: &str) -> f64 {
        STAGES.iter().zip(self.stages).find_map(|(name, took)| (*name == stage).then_some(took)).unwrap_or(f64::NAN)
    }
}

fn of(count: usize, took: &[Took]) -> Vec<Figure> {
    let milliseconds = |name: String, value: &dyn Fn(&Took) -> f64| {
        Figure::of(&name, "ms", &took.iter().map(|took| value(took) * 1000.0).collect::<Vec<_>>())
    };
    // The target is for a plugin with few objects, because the component is called for each of them.
    let first = milliseconds(format!("swap-first-{count}"), &|took| took.total);
    let first = first.map(|figure| if count == COUNTS[0] { figure.target(AtMost(10.0)) } else { figure });
    let publish = |took: &Took| took.of("publish") * 1000.0;
    let pause = milliseconds(format!("swap-pause-host-{count}"), &publish);
    let pause = pause.map(|figure| Figure { unit: "µs", ..figure }.target(AtMost(100.0)));
    let stages = STAGES.iter().map(|stage| milliseconds(format!("swap-first-{count}-{stage}"), &|took| took.of(stage)));
    [first, pause].into_iter().chain(stages).flatten().collect()
}
