//! The time from a change of a CR until its child shows it, while the component is replaced every other
//! second: by one that decides the same, and by one that decides differently for every CR, so that each
//! swap is also a write of every Deployment.
//!
//! Both are compared with the slower of two runs without swaps, the first and the last of all, whose
//! spread shows the noise of this machine. Only the first has a target: the second shows the cost of the
//! desired writes.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::interval;

use super::Setup;
use crate::figure::Figure;
use crate::figure::Target::AtMost;
use crate::rig::Rig;
use crate::trickle::{Times, Trickle};

const CHANGE_INTERVAL: Duration = Duration::from_millis(10);
const SWAP_INTERVAL: Duration = Duration::from_secs(2);
const COUNT: usize = 100;

/// Measures, each run for so long.
///
/// # Errors
/// When a run is void.
pub async fn run(setup: &Setup, lasts: Duration) -> Result<Vec<Figure>> {
    let rig = Rig::up(&Setup { count: COUNT, ..setup.clone() }, "swap-live").await?;
    let same = [rig.renamed(0), rig.renamed(1)];
    let other = [rig.marked(0), rig.marked(1)];
    // The first activation of each component compiles it, the others do not.
    for component in same.iter().chain(&other).chain([&rig.folder.original().to_vec()]) {
        rig.offer(component).await?;
    }
    rig.host.until_idle().await?;
    let trickle = Trickle::over(COUNT, CHANGE_INTERVAL);
    trickle.run(&rig.plane, Duration::from_secs(5)).await?;
    let first = without(&rig, &trickle, lasts).await?;
    let same = with(&rig, &trickle, lasts, "same decisions", &same).await?;
    let other = with(&rig, &trickle, lasts, "other decisions", &other).await?;
    rig.offer(rig.folder.original()).await?;
    let last = without(&rig, &trickle, lasts).await?;
    rig.down().await?;
    Ok(figures(&[first, last], &same, &other, lasts))
}

async fn without(rig: &Rig, trickle: &Trickle, lasts: Duration) -> Result<Times> {
    rig.host.until_idle().await?;
    let times = trickle.run(&rig.plane, lasts).await?;
    eprintln!("live: no swaps: {times}");
    Ok(times)
}

async fn with(rig: &Rig, trickle: &Trickle, lasts: Duration, what: &str, components: &[Vec<u8>; 2]) -> Result<Times> {
    rig.host.until_idle().await?;
    let before = rig.swaps().await?;
    let swap = async {
        let mut pace = interval(SWAP_INTERVAL);
        for component in components.iter().cycle() {
            pace.tick().await;
            rig.folder.put(component);
        }
    };
    let times = tokio::select! {
        times = trickle.run(&rig.plane, lasts) => times?,
        () = swap => anyhow::bail!("there were no more components"),
    };
    let swaps = rig.swaps().await? - before;
    eprintln!("live: {what}, {swaps} swaps: {times}");
    let due = lasts.as_secs_f64() / SWAP_INTERVAL.as_secs_f64();
    ensure!(swaps >= due - 2.0, "void: {swaps} swaps in {lasts:?}; see {}", rig.host.log().display());
    Ok(times)
}

fn figures(without: &[Times; 2], same: &Times, other: &Times, lasts: Duration) -> Vec<Figure> {
    let alone = without.each_ref().map(|times| times.percentile(99.0));
    let (best, worst) = (alone[0].min(alone[1]), alone[0].max(alone[1]));
    let one = |name: &str, unit, value: f64| Figure::of(name, unit, &[value]);
    // The maximum is the ratio to the faster of the two.
    let ratio = |name: &str, times: &Times| {
        let p99 = times.percentile(99.0);
        one(name, "ratio", p99 / worst).map(|figure| Figure { max: p99 / best, ..figure })
    };
    let ms = |times: &Times, percent| times.percentile(percent) * 1000.0;
    let figures = [
        ratio("swap-live-p99", same).map(|figure| figure.target(AtMost(1.1))),
        one("swap-live-p99-spread", "ratio", worst / best),
        Figure::of("swap-live-p99-without", "ms", &alone.map(|seconds| seconds * 1000.0)),
        one("swap-live-p99-same-decisions", "ms", ms(same, 99.0)),
        one("swap-live-p50-without", "ms", ms(&without[0], 50.0).midpoint(ms(&without[1], 50.0))),
        one("swap-live-p50-same-decisions", "ms", ms(same, 50.0)),
        ratio("swap-live-p99-other-decisions-ratio", other),
        one("swap-live-p99-other-decisions", "ms", ms(other, 99.0)),
        one("swap-live-p50-other-decisions", "ms", ms(other, 50.0)),
        one("swap-live-changes", "1/s", same.count() as f64 / lasts.as_secs_f64()),
    ];
    figures.into_iter().flatten().collect()
}
